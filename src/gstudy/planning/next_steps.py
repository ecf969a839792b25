"""Where the next unit of cost goes: each single change of a design, and what it would do."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gstudy.errors import QuantityError, did_you_mean, explain
from gstudy.planning.patterned import PatternedStanding
from gstudy.planning.prices import declared_cost
from gstudy.planning.requests import whole_systems
from gstudy.planning.standing import WHOLE, Standing, most_of, standing_of
from gstudy.planning.standing_notes import standing_notes
from gstudy.planning.steps import (
    FEWER,
    FLOOR,
    MORE,
    NOW,
    ONE,
    PIN,
    NextSteps,
    Step,
    labelled_steps,
)
from gstudy.planning.terms import score_terms
from gstudy.study.costs import Cost
from gstudy.study.designs import TRIALS, Design
from gstudy.variance.basis import basis_of
from gstudy.variance.budgets import reported_score, variance_budget
from gstudy.variance.claims import claim_of
from gstudy.variance.components import component_notes
from gstudy.variance.decomposition import SCORE, decompositions
from gstudy.variance.draws import Array, labelled, normal_quantile
from gstudy.variance.latent import widest
from gstudy.variance.structure import Structure
from gstudy.variance.systems import refuse_shared

if TYPE_CHECKING:
    from gstudy.fits.fitted import Fit
    from gstudy.variance.components import VarianceComponents

__all__ = ["next_steps"]


def next_steps(
    source: Fit | VarianceComponents,
    design: Mapping[str, int] | None = None,
    *,
    cost: Mapping[str, float] | None = None,
    to: Mapping[str, int] | None = None,
    system: str | None = None,
    coverage: float = 0.95,
    systems: int | None = None,
) -> NextSteps:
    """What each single change of a design would do to the interval of a score.

    Parameters
    ----------
    source : Fit or VarianceComponents
    design : Design or mapping of str to int, optional
        The design as it stands; of a fit by default the design as collected, however uneven.
    cost : mapping of str to float, optional
        Price of a unit of each facet, as `Cost`; by default those that the study declares,
        else each trial costs 1.
    to : mapping of str to int, optional
        New number of levels of some facets; others are doubled. A bank ends at its universe.
    system : str, optional
        As for `variance_budget`.
    coverage : float
        Nominal coverage of the score's interval.
    systems : int, optional
        How many systems run the design, for what is added to its cost; by default 1.

    Returns
    -------
    NextSteps
        The design now, then per facet more levels; the floor with levels without end, or with the
        whole universe; one level with the same claim; and pinning it, a smaller claim. A facet of
        a merged component has two rows: at best all of the variance is its own, at worst none.

    Raises
    ------
    QuantityError
        For an unknown facet in `to` or `cost`, a number of levels that is no whole number from 1
        on or more than a universe, levels of a facet that is pinned or exhausted, systems that are
        no whole number from 1 on, and as `variance_budget`.

    Notes
    -----
    With k times the levels of a facet, spread as they are now, q_A of each set A that holds the
    facet is divided by k, and the trial noise with it: exact for a design as collected too, which
    no balanced design stands in for. Of uneven levels `before` is the mean.

    Examples
    --------
    >>> import gstudy as gs
    >>> study = gs.Study(
    ...     score="passed",
    ...     facets=[
    ...         gs.Facet("query", role="legitimate"),
    ...         gs.Facet("version", role="legitimate"),
    ...         gs.Facet("rollout", role="legitimate", nested_in=["query", "version"]),
    ...     ],
    ... )
    >>> vc = gs.assume(study, {"query": 0.12, "version": 0.0016, "rollout": 0.1}, mean=0.7)
    >>> found = gs.next_steps(vc, {"query": 200, "version": 1, "rollout": 1})
    >>> round(100 * float(found.summary().loc["version: 1 to 2", "mean"]), 1)
    8.0
    """
    basis = basis_of(source)
    refuse_shared(basis, system, "next steps")
    asked = None if design is None else Design.read(design)
    parts = decompositions(basis, SCORE, system)
    structure = next(iter(parts.values())).structure
    claim = claim_of(basis.study, structure, design=asked)
    standing: Standing | PatternedStanding
    if asked is not None and asked.judges != "all":
        terms = score_terms(source, system=system, pin=list(asked.pin))
        standing = PatternedStanding(terms, terms.counts(asked), asked.judges)
    else:
        standing = standing_of(basis, parts, asked, claim)
    cost = declared_cost(basis.study, cost)
    paid = whole_systems(systems, 1)
    planned = list(_planned(standing, _checked_levels(standing, to), cost, paid))
    planned += _pins(source, standing, asked, system)
    shape = next(iter(parts.values())).mean.shape
    quantities = _quantities(planned, normal_quantile(coverage), widest(basis.study.family))
    draws = labelled_steps(quantities, [p.step.name for p in planned], (shape[0], shape[1]))
    stamp = basis.stamp(labelled(planned[0].variance.reshape(shape)).rename("variance"))
    return NextSteps(
        draws=draws.assign_attrs(scale=SCORE),
        steps=tuple(p.step for p in planned),
        estimand=reported_score(basis, parts, asked, claim),
        coverage=coverage,
        currency="trials" if cost is None else "cost",
        notes=(
            *standing_notes(standing, paid),
            *stamp,
            *component_notes(basis, parts),
        ),
        assumed=basis.assumed,
        family=basis.study.family,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Planned:
    """A step with the variance of the score after it, (n_draws,)."""

    step: Step
    variance: Array


def _planned(
    standing: Standing | PatternedStanding,
    wanted: Mapping[str, int],
    cost: Mapping[str, float] | None,
    systems: int,
) -> Iterator[_Planned]:
    """The design now and every step but pins."""
    Cost.read(cost)
    yield _Planned(Step(NOW, NOW, "", math.nan, math.nan, 0.0, 0.0), standing.variance)
    for facet in standing.facets:
        yield from _more(standing, facet, wanted.get(facet), cost, systems)
    for facet in standing.facets:
        now, most = standing.levels[facet], most_of(standing, facet)
        if now < most - WHOLE:
            name = f"{facet}: {'all ' + str(int(most)) if math.isfinite(most) else 'no end'}"
            step = Step(name, FLOOR, facet, now, most, math.nan, math.nan)
            yield from _bounded(standing, step, most / now)
    for facet in standing.facets:
        if standing.levels[facet] > 1 + WHOLE:
            name, times = f"{facet}: 1 level", 1 / standing.effective[facet]
            yield from _step(standing, name, ONE, facet, 1.0, cost, systems, times=times)


def _more(
    standing: Standing | PatternedStanding,
    facet: str,
    wanted: int | None,
    cost: Mapping[str, float] | None,
    systems: int,
) -> Iterator[_Planned]:
    now = standing.levels[facet]
    after = min(2 * now, most_of(standing, facet)) if wanted is None else float(wanted)
    if abs(after - now) > WHOLE:
        kind = MORE if after > now else FEWER
        name = f"{facet}: {now:.4g} to {after:.4g}"
        yield from _step(standing, name, kind, facet, after, cost, systems)


def _step(
    standing: Standing | PatternedStanding,
    name: str,
    kind: str,
    facet: str,
    after: float,
    cost: Mapping[str, float] | None,
    systems: int,
    *,
    times: float | None = None,
) -> Iterator[_Planned]:
    now = standing.levels[facet]
    added = [
        standing.price(paid, facet, after / now, systems) - standing.price(paid, None, 1.0, systems)
        for paid in ({TRIALS: 1.0}, cost)
    ]
    step = Step(name, kind, facet, now, after, trials=added[0], cost=added[1])
    yield from _bounded(standing, step, times or after / now)


def _bounded(
    standing: Standing | PatternedStanding, step: Step, times: float
) -> Iterator[_Planned]:
    """One row, or one for each end where the data leave bounds."""
    least, most = standing.scaled(step.facet, times)
    if np.allclose(least, most, rtol=1e-12, atol=0):
        yield _Planned(step, most)
        return
    for bound, variance in (("at best", least), ("at worst", most)):
        told = Step(
            f"{step.name} ({bound})",
            step.kind,
            step.facet,
            step.before,
            step.after,
            step.trials,
            step.cost,
            bound,
        )
        yield _Planned(told, variance)


def _pins(
    source: Any,
    standing: Standing | PatternedStanding,
    design: Design | None,
    system: str | None,
) -> Iterator[_Planned]:
    """The claim narrowed to the levels of one facet; what a re-run draws anew cannot be pinned."""
    structure = standing.structure
    kept = () if design is None else design.pin
    for facet in standing.facets:
        if facet not in structure.facets or facet in structure.redrawn:
            continue
        budget = variance_budget(source, design, system=system, pin=[*kept, facet])
        now = standing.levels[facet]
        step = Step(f"{facet}: pinned", PIN, facet, now, now, 0.0, 0.0)
        yield _Planned(step, budget.variance.values.ravel())


def _quantities(planned: list[_Planned], z: float, most: float) -> dict[str, Array]:
    """Per quantity its draws (n_steps, n_draws)."""
    variance = np.maximum([p.variance for p in planned], 0.0)
    width = np.minimum(z * np.sqrt(variance), most)
    change = width - width[0]
    now = variance[0]
    share = np.divide(now - variance, now, out=np.zeros_like(variance), where=now > 0)
    paid = np.array([p.step.cost if p.step.cost > 0 else math.nan for p in planned])
    return {
        "variance": variance,
        "half_width": width,
        "change": change,
        "reduction": share,
        "gain": -change / paid[:, None],
    }


def _checked_levels(
    standing: Standing | PatternedStanding, to: Mapping[str, int] | None
) -> Mapping[str, int]:
    """The new numbers of levels, checked."""
    if to is None:
        return {}
    levels = Design.read(to)
    for facet, n in levels.items():
        if facet not in standing.facets:
            raise QuantityError(
                explain(
                    f"the levels of {facet!r} cannot change: {_why(standing.structure, facet)}",
                    allowed=standing.facets,
                    do=did_you_mean(facet, standing.facets),
                )
            )
        if n > most_of(standing, facet):
            raise QuantityError(
                explain(
                    f"{facet!r} has more levels than its universe",
                    given=n,
                    allowed=f"at most {int(most_of(standing, facet))}",
                )
            )
    return levels


def _why(structure: Structure, facet: str) -> str:
    if facet not in (*structure.order, TRIALS):
        return "it is no facet"
    if facet in structure.not_sampled:
        return "it was not sampled (one level), so that its variance is unknown"
    if facet in structure.pinned:
        return "it is controlled"
    if facet in (structure.object, *structure.given):
        return "it is measured"
    return "it is pinned, or the judge pattern says them"
