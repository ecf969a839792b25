"""Components that are assumed, from a publication or a pilot, instead of fitted."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from typing import TYPE_CHECKING

import numpy as np

from gstudy.errors import QuantityError, did_you_mean, explain
from gstudy.study.declaration import checked_study
from gstudy.study.index_sets import IndexSet
from gstudy.variance.basis import Basis, structure_of_study
from gstudy.variance.components import VarianceComponents, components_of
from gstudy.variance.decomposition import LOGIT, SCORE, Decomposition, scale_of
from gstudy.variance.draws import Array
from gstudy.variance.latent import Latent
from gstudy.variance.structure import RESIDUAL

if TYPE_CHECKING:
    from gstudy.study.declaration import Study

__all__ = ["assume"]

# No score in [0, 1] varies more; no logit is worth more, and the kernel ends there.
_LARGEST = {SCORE: 0.25, LOGIT: 100.0**2}
# A sum of components this far from m(1-m), relative, is worth a note.
_SUM_TOLERANCE = 0.005


def assume(
    study: Study,
    components: Mapping[str, float],
    *,
    mean: float | None = None,
    mu: float | None = None,
    scale: str = "score",
    effects: Mapping[str, float] | None = None,
) -> VarianceComponents:
    """Variance components taken as given.

    Parameters
    ----------
    study : Study
        Names the facets, their nesting and their roles.
    components : mapping of str to float
        Component, or its last facet alone where that is unique, to its variance; interactions
        too. Score scale: variances of the functional ANOVA components, in squared score units;
        `residual`, the noise of one trial, is taken as 0 unless given: the lowest component then
        holds it. Logit scale: variances of the linear predictor.
    mean : float
        Expected score, in (0, 1); needed on the score scale.
    mu : float
        Grand mean on the logit scale; needed there.
    scale : {"score", "logit"}
    effects : mapping of str to float, optional
        Logit scale: level of the object to its known effect. `system` then takes these labels,
        and by default means each of them.

    Returns
    -------
    VarianceComponents
        One chain of one draw, marked as assumed; on the scale that was given.

    Raises
    ------
    QuantityError
        For an unknown or doubled component, a variance that is negative, not finite or larger
        than any score's, and a mean that is missing or belongs to the other scale.

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
    """
    scale_of(scale)
    study = checked_study(study)
    _check_mapping("components", components, "{'task': 0.12, 'rollout': 0.06}")
    if effects is not None:
        _check_mapping("effects", effects, "{'A': 0.5, 'B': -0.5}")
    given = dict(components)
    noise = given.pop(RESIDUAL, None)
    sets = _sets_of(study, given)
    for name, value in components.items():
        _check_variance(name, value, scale)
    if scale == LOGIT:
        if noise is not None:
            raise QuantityError(_residual_text(noise))
        return components_of(_logit_basis(study, sets, mean, mu, effects or {}), scale)
    return components_of(_score_basis(study, sets, noise, mean, mu, effects), scale)


def _check_mapping(name: str, value: object, example: str) -> None:
    """A mapping that holds something: without any component there is nothing to measure."""
    if not isinstance(value, Mapping) or (name == "components" and not value):
        raise QuantityError(
            explain(
                f"{name} is no mapping of names to numbers",
                given=value if isinstance(value, Mapping) else type(value).__name__,
                allowed=f"such as {example}",
            )
        )


def _logit_basis(
    study: Study,
    variances: Mapping[IndexSet, float],
    mean: float | None,
    mu: float | None,
    effects: Mapping[str, float],
) -> Basis:
    if mean is not None or not _finite(mu):
        raise QuantityError(
            explain(
                "components on the logit scale need mu, and no mean",
                given={"mean": mean, "mu": mu},
                allowed="mu: the grand mean on the logit scale, a finite number",
            )
        )
    if effects and study.object is None:
        raise QuantityError(
            explain(
                "effects are of levels of the object, and the study has none",
                given=list(effects),
                do="Declare object in the study.",
            )
        )
    for label, effect in effects.items():
        if not _finite(effect):
            raise QuantityError(
                explain(f"the effect of {label!r} is not a finite number", given=effect)
            )
    structure = structure_of_study(study, variances, effects=bool(effects))
    latent = Latent(
        structure=structure,
        mu=_one(mu),
        sets=tuple(variances),
        variances=np.array([_one(value) for value in variances.values()]).reshape(-1, 1, 1),
        object_effects={str(label): _one(effect) for label, effect in effects.items()},
    )
    return Basis(study, structure, latent, score=None, cells=None)


def _score_basis(
    study: Study,
    variances: Mapping[IndexSet, float],
    noise: float | None,
    mean: float | None,
    mu: float | None,
    effects: Mapping[str, float] | None,
) -> Basis:
    if effects or mu is not None or not _finite(mean) or not 0 < float(mean or 0) < 1:
        raise QuantityError(
            explain(
                "components on the score scale need mean, and neither mu nor effects",
                given={"mean": mean, "mu": mu, "effects": effects},
                allowed="mean: the expected score, between 0 and 1",
                do="Assume scale='logit' to give mu and effects.",
            )
        )
    structure = structure_of_study(study, variances)
    order = [index_set for index_set in structure.sets() if index_set in variances]
    score = Decomposition(
        structure=structure,
        scale=SCORE,
        sets=tuple(order),
        unique=np.array([_one(variances[s]) for s in order]).reshape(-1, 1, 1),
        mean=_one(mean),
        noise=_one(noise or 0.0),
    )
    return Basis(study, structure, None, score, cells=None, notes=_sum_notes(score))


def _sets_of(study: Study, components: Mapping[str, float]) -> dict[IndexSet, float]:
    """Variances by index set; every name is understood, none twice."""
    found: dict[IndexSet, float] = {}
    for name, value in components.items():
        parts = [part.strip() for part in str(name).split(":")]
        for part in parts:
            if part not in study.facet_names:
                raise QuantityError(
                    explain(
                        f"no component can be named {name!r}: {part!r} is no facet",
                        allowed=[*study.facet_names, RESIDUAL],
                        do=did_you_mean(part, [*study.facet_names, RESIDUAL]),
                    )
                )
            if study.facet(part).role == "controlled":
                raise QuantityError(
                    explain(f"{part!r} is controlled: it is pinned and has no variance")
                )
        whole = study.closure(parts)
        if whole in found:
            raise QuantityError(
                explain(f"two values are given for {study.name_of(whole)!r}", given=name)
            )
        found[whole] = value
    return found


def _check_variance(name: str, value: float, scale: str) -> None:
    largest = _LARGEST[scale]
    if not _finite(value) or not 0 <= value <= largest:
        hint = "Give variances, not standard deviations or shares." if _finite(value) else None
        raise QuantityError(
            explain(
                f"the variance of {name!r} is not usable on the {scale} scale",
                given=value,
                allowed=f"numbers from 0 to {largest:g}",
                do=hint,
            )
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


def _finite(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    return math.isfinite(float(value))


def _one(value: float | None) -> Array:
    """One chain of one draw."""
    assert value is not None
    return np.full((1, 1), float(value))
