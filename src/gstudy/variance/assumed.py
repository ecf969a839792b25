"""Components that are assumed, from a publication or a pilot, instead of fitted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from gstudy.errors import QuantityError, explain
from gstudy.study.declaration import checked_study
from gstudy.study.index_sets import IndexSet
from gstudy.variance.assumptions import assumed_sets, check_variances, checked_mapping, is_finite
from gstudy.variance.basis import Basis, structure_of_study
from gstudy.variance.components import VarianceComponents, components_of
from gstudy.variance.controlled import Controlled
from gstudy.variance.decomposition import LOGIT, SCORE, Decomposition, scale_of
from gstudy.variance.draws import Array
from gstudy.variance.fixed_levels import assumed_levels
from gstudy.variance.latent import GAUSSIAN, Latent
from gstudy.variance.mixed import mixed_basis
from gstudy.variance.structure import RESIDUAL

if TYPE_CHECKING:
    from gstudy.fits.fitted import Fit
    from gstudy.study.declaration import Study

__all__ = ["assume"]

# A sum of components this far from m(1-m), relative, is worth a note.
_SUM_TOLERANCE = 0.005


def assume(
    study: Study,
    components: Mapping[str, float] | None = None,
    *,
    mean: float | None = None,
    mu: float | None = None,
    scale: str | None = None,
    effects: Mapping[str, float] | None = None,
    fixed: Mapping[str, Mapping[str, float]] | None = None,
    weights: Mapping[str, Mapping[str, float]] | None = None,
    base: Fit | VarianceComponents | None = None,
) -> VarianceComponents:
    """Variance components taken as given, all of them or beside estimated ones.

    Parameters
    ----------
    study : Study
        Names the facets, their nesting and their roles.
    components : mapping of str to float, optional
        Component, or its last facet alone where that is unique, to its variance; interactions
        too. By default those that the study assumes, with their scale and mean. Score scale:
        variances of the functional ANOVA components, in squared score units; `residual`, the
        noise of one trial, is taken as 0 unless given: the lowest component then holds it. Logit
        scale: variances of the linear predictor.
    mean : float
        Expected score, in (0, 1), of graded scores any number; needed on the score scale.
    mu : float
        Grand mean on the logit scale; needed there.
    scale : {"score", "logit"}, optional
        By default the score scale.
    effects : mapping of str to float, optional
        Logit scale: level of the object to its known effect. `system` then takes these labels,
        and by default means each of them.
    fixed : mapping of str to mapping, optional
        Logit scale: controlled facet to the fixed effect of each of its levels. Scores are averaged
        over these levels, and components may hold the facet.
    weights : mapping of str to mapping, optional
        Controlled facet to the weight of each of its levels in the reported score; equal if left
        out.
    base : Fit or VarianceComponents, optional
        Estimated components of the same study that the given ones replace or join, in every draw.
        On the logit scale the mean logit is that of the base; on the score scale the expected
        score is, and with an object the components are those of a new system.

    Returns
    -------
    VarianceComponents
        On the scale that was given. Without a base one chain of one draw, marked as assumed; with
        one every table says which rows are assumed.

    Raises
    ------
    QuantityError
        Without components where the study assumes none; for an unknown or doubled component, a
        variance that is negative, not finite or larger than any score's, a mean that is missing or
        belongs to the other scale, fixed effects of a facet that is not controlled, and a base
        that does not have that scale or is of another study.

    Examples
    --------
    >>> import gstudy as gs
    >>> study = gs.Study(
    ...     score="passed",
    ...     facets=[
    ...         gs.Facet("query", role="legitimate"),
    ...         gs.Facet("rollout", role="legitimate", nested_in=["query"]),
    ...     ],
    ... )
    >>> vc = gs.assume(study, {"query": 0.12, "rollout": 0.09}, mean=0.7)
    >>> round(float(gs.variance_budget(vc, {"query": 100, "rollout": 3}).variance.mean()), 5)
    0.0015

    An interaction that a small study could not tell, beside what was estimated:

    >>> more = gs.assume(study, {"query:version": 0.3}, base=fit, scale="logit")  # doctest: +SKIP
    """
    study = checked_study(study)
    if components is None:
        components, scale, mean, mu = _of_study(study, scale, mean, mu, base is not None)
    scale = SCORE if scale is None else scale
    if study.family == GAUSSIAN and scale == LOGIT:
        raise QuantityError(_graded_text())
    checked_mapping("components", components, "{'task': 0.12, 'rollout': 0.06}", empty=False)
    checked_mapping("effects", effects, "{'A': 0.5, 'B': -0.5}")
    check_variances(components, scale_of(scale), study.family)
    if scale == LOGIT and RESIDUAL in components:
        raise QuantityError(_residual_text(components[RESIDUAL]))
    given = {"mean": mean, "mu": mu, "effects": effects, "fixed": fixed, "weights": weights}
    if base is not None:
        _check_alone({name: value for name, value in given.items() if value is not None})
        return components_of(mixed_basis(study, components, scale, base), scale)
    if scale == LOGIT:
        levels = assumed_levels(study, fixed, weights)
        held = frozenset() if levels is None else frozenset(levels.facets)
        sets = assumed_sets(study, components, held)
        return components_of(_logit_basis(study, sets, mean, mu, effects or {}, levels), scale)
    _check_score_means(study, mean, given)
    sets = assumed_sets(study, components, frozenset())
    noise = components.get(RESIDUAL)
    return components_of(_score_basis(study, sets, noise, mean), scale)


def _of_study(
    study: Study, scale: str | None, mean: float | None, mu: float | None, beside: bool
) -> tuple[Mapping[str, float], str, float | None, float | None]:
    """What the study assumes; beside a base without the mean, and another mean as it is given."""
    assumed = study.assumed
    if assumed is None:
        raise QuantityError(
            explain(
                "no components are given, and the study assumes none",
                allowed="such as {'task': 0.12, 'rollout': 0.06}",
                do="Pass components, or add [assumed] to the study file.",
            )
        )
    if scale not in (None, assumed.scale):
        raise QuantityError(
            explain(
                f"the study assumes components on the {assumed.scale} scale",
                given=scale,
                do="Leave scale out, or pass components.",
            )
        )
    if mean is None and mu is None and not beside:
        mean, mu = assumed.mean, assumed.mu
    return assumed.components, assumed.scale, mean, mu


def _check_alone(given: Mapping[str, object]) -> None:
    """Beside a base nothing but variances is given."""
    if given:
        name, value = next(iter(given.items()))
        raise QuantityError(
            explain(
                f"{name} is that of the base, and cannot be given too",
                given=value,
                do=f"Leave {name} out, or leave base out.",
            )
        )


def _logit_basis(
    study: Study,
    variances: Mapping[IndexSet, float],
    mean: float | None,
    mu: float | None,
    effects: Mapping[str, float],
    levels: Controlled | None,
) -> Basis:
    if mean is not None or not is_finite(mu):
        raise QuantityError(
            explain(
                "components on the logit scale need mu, and no mean",
                given={"mean": mean, "mu": mu},
                allowed="mu: the grand mean on the logit scale, a finite number",
            )
        )
    held = frozenset[str]() if levels is None else frozenset(levels.facets)
    _check_effects(study, variances, effects, held)
    structure = structure_of_study(study, variances, effects=bool(effects), held=held)
    latent = Latent(
        structure=structure,
        mu=_one(mu),
        sets=tuple(index_set - structure.pinned for index_set in variances),
        variances=np.array([_one(value) for value in variances.values()]).reshape(-1, 1, 1),
        object_effects={str(label): _one(effect) for label, effect in effects.items()},
        held=tuple(index_set & held for index_set in variances),
        controlled=levels,
    )
    return Basis(study, structure, latent, score=None, cells=None)


def _check_effects(
    study: Study,
    variances: Mapping[IndexSet, float],
    effects: Mapping[str, float],
    held: IndexSet,
) -> None:
    """Effects are finite numbers of levels of the object, and are all that they differ by."""
    if effects and study.object is None:
        raise QuantityError(
            explain(
                "effects are of levels of the object, and the study has none",
                given=list(effects),
                do="Declare object in the study.",
            )
        )
    for label, effect in effects.items():
        if not is_finite(effect):
            raise QuantityError(
                explain(f"the effect of {label!r} is not a finite number", given=effect)
            )
    own = [s for s in variances if s & held and s - held == {study.object}]
    if effects and own:
        raise QuantityError(
            explain(
                f"of a given {study.object} its effects on the levels of "
                f"{', '.join(sorted(held))} are needed too",
                given=study.name_of(own[0]),
                do=f"Leave {study.name_of(own[0])!r} out, or leave effects out.",
            )
        )


def _check_score_means(study: Study, mean: float | None, given: Mapping[str, object]) -> None:
    """On the score scale a mean is given, in the range of the scores, and nothing of the logit."""
    others = {key: value for key, value in given.items() if key != "mean" and _is_given(value)}
    graded = study.family == GAUSSIAN
    inside = is_finite(mean) and (graded or 0 < float(mean or 0) < 1)
    if others or not inside:
        raise QuantityError(
            explain(
                "components on the score scale need mean, and neither mu nor effects",
                given={"mean": mean, **others},
                allowed="mean: the expected score, "
                + ("a finite number" if graded else "between 0 and 1"),
                do="Leave the others out."
                if graded
                else "Assume scale='logit' to give mu and effects, also fixed ones.",
            )
        )


def _is_given(value: object) -> bool:
    """Whether an argument says anything: an empty mapping does not."""
    return value is not None and value != {}


def _score_basis(
    study: Study, variances: Mapping[IndexSet, float], noise: float | None, mean: float | None
) -> Basis:
    structure = structure_of_study(study, variances)
    known = {index_set - structure.pinned: value for index_set, value in variances.items()}
    order = [index_set for index_set in structure.sets() if index_set in known]
    score = Decomposition(
        structure=structure,
        scale=SCORE,
        sets=tuple(order),
        unique=np.array([_one(known[s]) for s in order]).reshape(-1, 1, 1),
        mean=_one(mean),
        noise=_one(noise or 0.0),
    )
    notes = () if study.family == GAUSSIAN else _sum_notes(score)
    return Basis(study, structure, None, score, cells=None, notes=notes)


def _graded_text() -> str:
    return explain(
        "graded scores have no logit scale: their components are in units of the score",
        given="logit",
        allowed=(SCORE,),
        do="Leave scale out, and give mean.",
    )


def _residual_text(noise: float) -> str:
    return explain(
        "the residual of the logit scale is always pi^2/3",
        given={RESIDUAL: noise},
        do="Leave residual out, or assume scale='score'.",
    )


def _sum_notes(score: Decomposition) -> tuple[str, ...]:
    """A word when the components do not add up to the variance of a score with this mean."""
    total, mean = float(score.total.item()), float(score.mean.item())
    expected = mean * (1 - mean)
    if abs(total - expected) <= _SUM_TOLERANCE * expected:
        return ()
    note = (
        f"The components add up to {total:.4g}; the variance of a 0/1 score with mean {mean:g} is "
        f"{expected:.4g}. Shares are of their own sum."
    )
    return (note,)


def _one(value: float | None) -> Array:
    """One chain of one draw."""
    assert value is not None
    return np.full((1, 1), float(value))
