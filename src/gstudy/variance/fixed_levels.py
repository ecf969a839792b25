"""Assumed fixed effects of controlled facets, and the weights of their levels."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from gstudy.errors import QuantityError, did_you_mean, explain
from gstudy.variance.assumptions import checked_mapping, is_finite
from gstudy.variance.controlled import Controlled

if TYPE_CHECKING:
    from gstudy.study.declaration import Study

__all__ = ["assumed_levels"]

_TOLERANCE = 1e-9


def assumed_levels(
    study: Study,
    fixed: Mapping[str, Mapping[str, float]] | None,
    weights: Mapping[str, Mapping[str, float]] | None,
) -> Controlled | None:
    """The combinations of the levels of controlled facets, one draw.

    Parameters
    ----------
    study : Study
    fixed : mapping of str to mapping, or None
        Controlled facet to the effect of each of its levels, logit scale.
    weights : mapping of str to mapping, or None
        Of these facets; those left out weigh their levels alike.

    Returns
    -------
    Controlled or None
        None when there are no fixed effects.

    Raises
    ------
    QuantityError
        For a facet that is not controlled, fewer than two levels, an effect that is not a finite
        number, and weights that are not of these levels or do not sum to 1.
    """
    checked_mapping("fixed", fixed, "{'mode': {'easy': 0.5, 'hard': -0.5}}")
    checked_mapping("weights", weights, "{'mode': {'easy': 0.5, 'hard': 0.5}}")
    if not fixed:
        if weights:
            raise QuantityError(
                explain("weights are of the levels of fixed effects, and there are none",
                        given=dict(weights), do="Give fixed too.")
            )  # fmt: skip
        return None
    known = {facet: _effects(study, facet, effects) for facet, effects in fixed.items()}
    facets = tuple(facet for facet in study.facet_names if facet in known)
    shares = {facet: _weights(facet, known[facet], weights or {}) for facet in facets}
    _check_weighted(weights or {}, facets)
    levels = tuple(itertools.product(*(known[facet] for facet in facets)))
    offsets = [sum(_own(known, facets, labels)) for labels in levels]
    products = [math.prod(_own(shares, facets, labels)) for labels in levels]
    return Controlled(
        facets=facets,
        levels=levels,
        offsets=np.array(offsets).reshape(-1, 1, 1),
        weights=np.array(products),
    )


def _own(
    values: Mapping[str, Mapping[str, float]], facets: tuple[str, ...], labels: tuple[str, ...]
) -> list[float]:
    """The values of one combination of labels."""
    return [values[facet][label] for facet, label in zip(facets, labels, strict=True)]


def _effects(study: Study, facet: str, effects: object) -> dict[str, float]:
    controlled = [f.name for f in study.facets if f.role == "controlled"]
    if facet not in controlled:
        raise QuantityError(
            explain(
                f"fixed effects are of controlled facets, and {facet!r} is none",
                allowed=controlled,
                do=did_you_mean(str(facet), controlled),
            )
        )
    if not isinstance(effects, Mapping) or len(effects) < 2:
        raise QuantityError(
            explain(
                f"the fixed effects of {facet!r} are of at least two levels",
                given=effects,
                allowed="such as {'easy': 0.5, 'hard': -0.5}",
            )
        )
    for label, effect in effects.items():
        if not is_finite(effect):
            raise QuantityError(
                explain(f"the fixed effect of {label!r} is not a finite number", given=effect)
            )
    return {str(label): float(effect) for label, effect in effects.items()}


def _weights(
    facet: str, effects: Mapping[str, float], weights: Mapping[str, Mapping[str, float]]
) -> dict[str, float]:
    given = weights.get(facet)
    if given is None:
        return dict.fromkeys(effects, 1 / len(effects))
    checked_mapping(f"weights of {facet!r}", given, "{'easy': 0.5, 'hard': 0.5}")
    if (
        {str(label) for label in given} != set(effects)
        or not all(is_finite(w) and w >= 0 for w in given.values())
        or abs(sum(given.values()) - 1) > _TOLERANCE
    ):
        raise QuantityError(
            explain(
                f"the weights of {facet!r} are not usable",
                given=given,
                allowed=f"one number from 0 on for each of {', '.join(effects)}, with sum 1",
            )
        )
    return {str(label): float(weight) for label, weight in given.items()}


def _check_weighted(weights: Mapping[str, Mapping[str, float]], facets: tuple[str, ...]) -> None:
    for facet in weights:
        if facet not in facets:
            raise QuantityError(
                explain(
                    f"weights are given for {facet!r}, which has no fixed effects",
                    allowed=facets,
                    do=did_you_mean(str(facet), facets),
                )
            )
