"""The half-width of a score over the levels of two facets: the numbers behind the plot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gstudy.errors import QuantityError, explain
from gstudy.study.designs import Design
from gstudy.variance.draws import normal_quantile
from gstudy.variance.latent import widest

if TYPE_CHECKING:
    from gstudy.planning.terms import Terms
    from gstudy.variance.draws import Array

__all__ = ["WidthGrid", "checked_ends", "width_grid"]

_SIDE = 48
_CHUNK = 200


@dataclass(frozen=True, slots=True, eq=False)
class WidthGrid:
    """Half-widths and costs of designs.

    Parameters
    ----------
    x, y : array (n_x,), (n_y,)
        Levels of the two facets.
    mean, lower, upper : array (n_y, n_x)
        Of the half-width, in units of the score: posterior mean, ends of its interval.
    cost : array (n_y, n_x)
        Of one system.
    corner : array (1, n_terms)
        Factors of the largest design.
    """

    x: Array
    y: Array
    mean: Array
    lower: Array
    upper: Array
    cost: Array
    corner: Array


def width_grid(
    terms: Terms,
    ends: Mapping[str, tuple[int, int]],
    fixed: Design,
    cost: Mapping[str, float] | None,
    coverage: float,
    level: float,
) -> WidthGrid:
    """The half-width of every design over two facets, a part of them at a time.

    Parameters
    ----------
    terms : Terms
        Of a score.
    ends : mapping of str to (int, int)
        Smallest and largest numbers of levels of two facets.
    fixed : Design
        Levels of the others.
    cost : mapping of str to float, or None
        None counts trials.
    coverage : float
    level : float
        Posterior level of the interval of the half-width.

    Returns
    -------
    WidthGrid

    Raises
    ------
    QuantityError
        When a design of a corner is not usable.
    """
    names, z = list(ends), normal_quantile(coverage)
    corners = [{names[0]: a, names[1]: b} for a in ends[names[0]] for b in ends[names[1]]]
    for corner in corners:
        known = terms.counts(fixed.replace(levels={**fixed, **corner}))
    x, y = (_along(*ends[name], whole=fixed.judges != "all") for name in names)
    across, up = (part.ravel() for part in np.meshgrid(x, y))
    counts: dict[str, float | Array] = {**known, names[0]: across, names[1]: up}
    factors = terms.factors(counts, judges=fixed.judges)
    most, tail = widest(terms.study.family), (1 - level) / 2
    found = []
    for start in range(0, len(factors), _CHUNK):
        variance = np.maximum(terms.variance(factors[start : start + _CHUNK]), 0.0)
        width = np.minimum(z * np.sqrt(variance), most)
        found.append([width.mean(axis=1), *np.quantile(width, [tail, 1 - tail], axis=1)])
    mean, lower, upper = np.concatenate(found, axis=1).reshape(3, len(y), len(x))
    prices = terms.price(cost, counts, judges=fixed.judges)
    paid = np.broadcast_to(prices, across.shape).reshape(len(y), len(x))
    return WidthGrid(x, y, mean, lower, upper, paid, factors[-1:])


def _along(low: int, high: int, *, whole: bool) -> Array:
    """Numbers of levels from low to high, in even ratios; a judge pattern needs whole ones."""
    every = np.geomspace(low, high, _SIDE)
    return np.unique(every.round()) if whole else every


def checked_ends(levels: object) -> dict[str, tuple[int, int]]:
    """Two facets with their smallest and largest number of levels."""
    given = dict(levels) if isinstance(levels, Mapping) else {}
    if len(given) != 2:
        raise _no_levels(levels)
    return {str(facet): _pair(facet, ends) for facet, ends in given.items()}


def _pair(facet: object, ends: Any) -> tuple[int, int]:
    listed = isinstance(ends, tuple | list) and len(ends) == 2
    if not listed or not all(isinstance(n, int | np.integer) for n in ends):
        raise _no_levels({facet: ends})
    if any(isinstance(n, bool) for n in ends) or not 1 <= ends[0] < ends[1]:
        raise _no_levels({facet: ends})
    return int(ends[0]), int(ends[1])


def _no_levels(given: object) -> QuantityError:
    return QuantityError(
        explain(
            "levels are no two facets with a smallest and a largest number each",
            given=given,
            allowed="two facets, each with whole numbers from 1 on, the first below the second",
            do='Such as {"task": (20, 400), "rollout": (1, 8)}.',
        )
    )
