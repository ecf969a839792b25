"""The verdict on every index set, decided before any sampling from how the rows split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gstudy.errors import DeclarationError, explain
from gstudy.study.checking.advice import ENOUGH_LEVELS, advise
from gstudy.study.checking.candidates import Candidate, candidates
from gstudy.study.checking.fixed_effects import fixed_components, fixed_verdict
from gstudy.study.checking.own_variances import crossed_inside, varying_here
from gstudy.study.components import (
    ESTIMABLE,
    INSIDE_FIXED,
    INSIDE_OWN,
    INSIDE_RESIDUAL,
    KEPT,
    MERGED,
    NOT_CROSSED,
    NOT_SAMPLED,
    TOO_FEW_CELLS,
    TOO_FEW_TRIALS,
    WEAK,
    Component,
    Verdict,
)
from gstudy.study.index_sets import close, nesting_rules
from gstudy.study.priors import Prior, default_sd_prior

if TYPE_CHECKING:
    from gstudy.study.checking.splits import Splits
    from gstudy.study.declaration import Study
    from gstudy.study.index_sets import IndexSet, Rule

__all__ = ["Judgement", "judged"]

# What "auto" asks of an interaction: cells enough to have a variance, and trials in them.
_LEAST_CELLS = 5
_LEAST_TRIALS_PER_CELL = 2.0

_ONE_TRIAL = "one trial per level"


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the data say about every index set that a study considers.

    Parameters
    ----------
    rows : tuple of Verdict
        One per set that was considered, small sets first.
    components : tuple of Component
        The components of the model.
    fixed : tuple of Component
        Fixed effects of controlled facets with several levels.
    rules : tuple of Rule
        What index sets must obey: children bring parents, and each of several merged sets
        brings the others.
    """

    rows: tuple[Verdict, ...]
    components: tuple[Component, ...]
    fixed: tuple[Component, ...]
    rules: tuple[Rule, ...]


@dataclass(frozen=True, slots=True)
class _Around:
    """What stands beside the candidates: fixed effects, own sds, the unit of default priors."""

    fixed: tuple[Component, ...]
    varying: Mapping[str, str]
    inside: Mapping[IndexSet, str]
    score_scale: float | None


def judged(study: Study, splits: Splits, score_scale: float | None = None) -> Judgement:
    """Judge every index set that the study considers.

    Parameters
    ----------
    study : Study
    splits : Splits
        How the rows split.
    score_scale : float, optional
        Standard deviation of graded scores, for default priors.

    Returns
    -------
    Judgement

    Raises
    ------
    DeclarationError
        For a listed interaction that the data cannot inform, a controlled facet that can have no
        fixed effects, own sds that the data cannot tell, and a prior of a component that is not in
        the model.
    """
    fixed = fixed_components(study, splits, score_scale)
    varying = varying_here(study, splits)
    inside = crossed_inside(varying, study, splits)
    around = _Around(fixed, varying, inside, score_scale)
    considered = candidates(study, splits.is_sampled)
    verdicts = [_judge(candidate, study, splits, around) for candidate in considered]
    _refuse_listed(considered, verdicts, splits)
    fitted = [
        candidate
        for candidate, verdict in zip(considered, verdicts, strict=True)
        if verdict.verdict in (ESTIMABLE, WEAK, KEPT)
    ]
    groups = _merged(fitted, splits)
    rules = _rules(groups, study, splits)
    components = tuple(_component(group, rules, study, splits, around) for group in groups)
    _refuse_priors(study, groups)
    fitted_as = {
        candidate.facets: (component, group)
        for component, group in zip(components, groups, strict=True)
        for candidate in group
    }
    told = [fixed_verdict(component) for component in fixed]
    for verdict in verdicts:
        component, group = fitted_as.get(verdict.facets, (None, []))
        told.append(_told(verdict, component, group, splits))
    place = {facet: i for i, facet in enumerate(study.facet_names)}
    told.sort(key=lambda row: (len(row.facets), sorted(place[f] for f in row.facets)))
    sampled = frozenset[str]().union(*(component.facets for component in components))
    return Judgement(
        tuple(told), components, fixed, tuple(rule for rule in rules if rule[0] <= sampled)
    )


def _judge(candidate: Candidate, study: Study, splits: Splits, around: _Around) -> Verdict:
    """The verdict on one set by itself, before sets are merged."""
    if splits.records.counted in candidate.facets:
        # Its levels are counted, not coded: each trial is one.
        n_levels, mean = splits.records.n_trials, 1.0
        verdict, reason = INSIDE_RESIDUAL, _ONE_TRIAL
    else:
        n_levels = splits.of(candidate.facets).n_levels
        mean = splits.trials_per_level(candidate.facets)
        verdict, reason = _standing(candidate, n_levels, study, splits, around)
    return Verdict(
        name=candidate.name,
        facets=candidate.facets,
        asked=candidate.asked,
        n_levels=n_levels,
        trials_per_level=mean,
        verdict=verdict,
        reason=reason,
        advice="",
        component=None,
        prior=None,
    )


def _standing(
    candidate: Candidate, n_levels: int, study: Study, splits: Splits, around: _Around
) -> tuple[str, str]:
    missing = next((top for top in candidate.tops if top in splits.one_level), None)
    if missing is not None:
        verdict, reason = NOT_SAMPLED, f"one level, {splits.one_level[missing]!r}"
    elif inside := _inside(candidate, study, splits, around):
        verdict, reason = inside
    elif candidate.asked == "auto" and not candidate.kept:
        verdict, reason = _auto(candidate, n_levels, study, splits)
    elif not splits.is_informed(candidate.facets):
        verdict, reason = INSIDE_RESIDUAL, _ONE_TRIAL
    else:
        verdict, reason = ESTIMABLE, ""
    if candidate.kept and verdict in (NOT_SAMPLED, INSIDE_RESIDUAL):
        return KEPT, reason
    if verdict == ESTIMABLE and n_levels < ENOUGH_LEVELS:
        return WEAK, f"{n_levels} levels, under {ENOUGH_LEVELS}: the prior matters"
    return verdict, reason


def _inside(
    candidate: Candidate, study: Study, splits: Splits, around: _Around
) -> tuple[str, str] | None:
    """The verdict on a set that other effects of the model hold already, if any."""
    own = splits.of(candidate.facets)
    for component in around.fixed:
        if own.equals(splits.of(component.facets)):
            reason = f"splits the rows as the controlled {component.name} does"
            return INSIDE_FIXED + component.name, reason
    for whole, facet in around.inside.items():
        if candidate.facets == whole:
            return INSIDE_OWN + facet, f"each {study.object} has its own {facet} effects"
        if own.equals(splits.of(whole)):
            if candidate.asked == "auto":
                return INSIDE_OWN + facet, f"splits the rows as {study.name_of(whole)} does"
            raise DeclarationError(
                explain(
                    f"facets.{facet}.varies: the own effects of each {study.object} split the rows "
                    f"as {candidate.name!r} does, and cannot be told from it",
                    do="Take varies out, or collect two or more levels of "
                    f"{candidate.tops[-1]} within each {study.name_of(whole)}.",
                )
            )
    return None


def _auto(candidate: Candidate, n_cells: int, study: Study, splits: Splits) -> tuple[str, str]:
    """Whether "auto" takes an interaction, and if not, why."""
    whole = splits.of(candidate.facets)
    for top, other in (candidate.tops, candidate.tops[::-1]):
        if whole.equals(splits.of(study.closure(top))):
            return NOT_CROSSED, f"each level of {top} has one level of {other}"
    if n_cells < _LEAST_CELLS:
        return TOO_FEW_CELLS, f"{n_cells} cells, under {_LEAST_CELLS}"
    mean = splits.trials_per_level(candidate.facets)
    if mean < _LEAST_TRIALS_PER_CELL and not splits.known_errors:
        return TOO_FEW_TRIALS, f"{mean:.1f} trials per cell, under {_LEAST_TRIALS_PER_CELL:g}"
    return ESTIMABLE, ""


def _merged(fitted: Sequence[Candidate], splits: Splits) -> list[list[Candidate]]:
    """Sets that split the rows identically, together; kept one-level sets stay apart."""
    groups: list[list[Candidate]] = []
    for candidate in fitted:
        own = splits.of(candidate.facets)
        twin = next((group for group in groups if own.equals(splits.of(group[0].facets))), None)
        if twin is None or own.n_levels == 1:
            groups.append([candidate])
        else:
            twin.append(candidate)
    return groups


def _rules(groups: Sequence[Sequence[Candidate]], study: Study, splits: Splits) -> list[Rule]:
    """Nesting, and merging, between the facets that index sets are made of."""
    nesting = [
        (splits.reduced(trigger), splits.reduced(whole))
        for trigger, whole in nesting_rules(study.parents)
    ]
    rules = [(trigger, whole) for trigger, whole in nesting if trigger and trigger != whole]
    for group in groups:
        if len(group) > 1:
            sets = [splits.reduced(candidate.facets) for candidate in group]
            whole = frozenset[str]().union(*sets)
            rules += [(one, whole) for one in sets if one != whole]
    return rules


def _component(
    group: Sequence[Candidate],
    rules: Sequence[Rule],
    study: Study,
    splits: Splits,
    around: _Around,
) -> Component:
    sets = tuple(splits.reduced(candidate.facets) for candidate in group)
    whole = group[0].facets
    n_levels = splits.of(whole).n_levels
    prior_only = n_levels == 1 or not splits.is_informed(whole)
    mains = {study.closure(facet): facet for facet in around.varying}
    varies = any(candidate.facets in mains for candidate in group)
    return Component(
        name=" + ".join(candidate.name for candidate in group),
        # Closed under merging too: facets that cannot be told apart in one set cannot be in
        # any, and the split is the same.
        facets=close(frozenset[str]().union(*sets), rules),
        merged=sets,
        n_levels=n_levels,
        trials_per_level=splits.trials_per_level(whole),
        verdict=WEAK if prior_only or n_levels < ENOUGH_LEVELS else ESTIMABLE,
        prior=_prior(group, n_levels, study, around.score_scale),
        prior_only=prior_only,
        varies=study.object if varies and n_levels > 1 else None,
    )


def _prior(
    group: Sequence[Candidate], n_levels: int, study: Study, score_scale: float | None
) -> Prior:
    """The study's own prior of any of the merged sets, else the default."""
    own = {
        candidate.name: study.priors[f"sd({candidate.name})"]
        for candidate in group
        if f"sd({candidate.name})" in study.priors
    }
    if len(set(own.values())) > 1:
        raise DeclarationError(
            explain(
                "priors: these components are one in the data, and cannot have two priors",
                given={f"sd({name})": str(prior) for name, prior in own.items()},
                do="Keep one of them: it becomes the prior of the merged component.",
            )
        )
    if own:
        return next(iter(own.values()))
    objects = {study.closure(study.object)} if study.object else set()
    is_object = any(candidate.facets in objects for candidate in group)
    return default_sd_prior(n_levels, is_object=is_object, score_scale=score_scale)


def _told(
    verdict: Verdict, component: Component | None, group: Sequence[Candidate], splits: Splits
) -> Verdict:
    """The verdict with its component, its prior and what to collect."""
    others = [candidate.name for candidate in group if candidate.name != verdict.name]
    if others and component and not component.prior_only:
        shared = ", ".join(others)
        verdict = replace(
            verdict, verdict=MERGED + shared, reason=f"splits the rows as {shared} does"
        )
    return replace(
        verdict,
        component=component.name if component else None,
        prior=component.prior if component else None,
        advice=advise(verdict, [candidate.facets for candidate in group], splits),
    )


def _refuse_listed(
    considered: Sequence[Candidate], verdicts: Sequence[Verdict], splits: Splits
) -> None:
    for candidate, verdict in zip(considered, verdicts, strict=True):
        if candidate.asked == "listed" and verdict.left_out:
            missing = [top for top in candidate.tops if top in splits.one_level]
            subject = f"{missing[0]} has " if missing else ""
            raise DeclarationError(
                explain(
                    f"interactions lists {candidate.name!r}, which is {verdict.verdict}: "
                    f"{subject}{verdict.reason}",
                    do="Take it out of interactions, collect more"
                    f"{' levels of ' + missing[0] if missing else ' trials per level'}, or add "
                    "it to keep: it is then fitted from its prior alone.",
                )
            )


def _refuse_priors(study: Study, groups: Sequence[Sequence[Candidate]]) -> None:
    fitted = [f"sd({candidate.name})" for group in groups for candidate in group]
    for key in study.priors:
        if key.startswith("sd(") and key not in ("sd(residual)", *fitted):
            raise DeclarationError(
                explain(
                    f"priors: {key!r} is the prior of a component that is not in the model",
                    given=key,
                    allowed=["mu", *fitted],
                    do="Take it out; gstudy check says why the component is left out.",
                )
            )
