"""Numbers of levels that a search may give one facet: bounds, a universe, divisibility."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gstudy._words import plural
from gstudy.errors import QuantityError, did_you_mean, explain
from gstudy.variance.designs import needed_counts, read_design
from gstudy.variance.draws import Array

if TYPE_CHECKING:
    from gstudy.variance.structure import Structure

__all__ = ["MOST_VALUES", "Axis", "Bound", "axes_of"]

MOST_VALUES = 1_000_000
"""Values of one facet that are held at a time."""

Bound = int | tuple[int, int | None] | Sequence[int]
"""A number of levels; the least and the most (None for no end); or a list of them."""


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """The usable numbers of levels of one facet, rising.

    Parameters
    ----------
    low : float
        The least; a number as collected may be a mean, and is then followed by whole ones.
    high : float
        The most, infinity where nothing but the budget ends it.
    step : int
        What the numbers besides `low` are multiples of.
    listed : array, optional
        All of them, where they were listed.
    """

    low: float
    high: float
    step: int = 1
    listed: Array | None = None

    @property
    def top(self) -> float:
        """The largest number, or infinity."""
        return self.high if math.isinf(self.high) else float(self.upto(self.high)[-1])

    def upto(self, most: float) -> Array:
        """The numbers up to this one."""
        if self.listed is not None:
            return self.listed[self.listed <= most]
        if self.low > most:
            return np.empty(0)
        first = math.floor(self.low / self.step) + 1
        last = math.floor(min(self.high, most) / self.step)
        return np.concatenate([[self.low], np.arange(first, last + 1) * float(self.step)])

    def starting(self, low: float) -> Axis:
        """The axis from one of its numbers on."""
        listed = None if self.listed is None else self.listed[self.listed >= low]
        return replace(self, low=low, listed=listed)

    def n_upto(self, most: float) -> float:
        """How many numbers there are up to this one, at most; infinity where there is no end."""
        if self.listed is not None:
            return float((self.listed <= most).sum())
        return (min(self.high, most) - self.low) / self.step + 1


def axes_of(
    structure: Structure,
    finite: Mapping[str, int],
    bounds: Mapping[str, Bound] | None,
    multiples: Mapping[str, int] | None,
    *,
    start: Mapping[str, float] | None = None,
) -> dict[str, Axis]:
    """The axis of each facet that a design must count, in declared order.

    Parameters
    ----------
    structure : Structure
    finite : mapping of str to int
        Levels in the universe of facets that have a finite one.
    bounds : mapping of str to Bound, or None
        By default from 1 level (or `start`) to the universe, or without end.
    multiples : mapping of str to int, or None
        What the number of levels must be a multiple of.
    start : mapping of str to float, optional
        Levels that exist already, and stay.

    Returns
    -------
    dict of str to Axis

    Raises
    ------
    QuantityError
        For an unknown facet, bounds that are no whole numbers from 1 on, more levels than a
        universe or than the source covers, and bounds that leave no number.
    """
    facets = needed_counts(structure)
    limits = _checked(structure, facets, bounds, "bounds")
    steps = _checked(structure, facets, multiples, "multiples")
    return {
        facet: _axis(
            facet,
            limits.get(facet),
            _step(facet, steps.get(facet, 1)),
            finite.get(facet),
            (start or {}).get(facet),
        )
        for facet in facets
    }


def _axis(facet: str, bound: Any, step: int, universe: int | None, start: float | None) -> Axis:
    listed = _listed(bound)
    low, high = _ends(facet, bound) if listed is None else (min(listed), max(listed))
    if universe is not None:
        if high > universe and not math.isinf(high):
            raise QuantityError(
                explain(
                    f"the bounds of {facet!r} go beyond its universe",
                    given=bound,
                    allowed=f"at most {universe}, the declared universe of {facet}",
                )
            )
        high = min(high, universe)
    if listed is not None:
        usable = [n for n in listed if n % step == 0 and n >= (start or 1)]
        kept = sorted({*usable, *([start] if start else [])})
        _check_some(facet, kept, bound, step)
        return Axis(kept[0], kept[-1], step, np.array(kept, dtype=float))
    first = start if start is not None else math.ceil(low / step) * step
    if start is not None and low > start:
        first = math.ceil(low / step) * step
    _check_some(facet, [first] if first <= max(high, start or 0) else [], bound, step)
    return Axis(first, max(high, first), step)


def _check_some(facet: str, values: Sequence[float], bound: Any, step: int) -> None:
    if not values:
        wanted = f" that is a multiple of {step}" if step > 1 else ""
        raise QuantityError(
            explain(f"no number of levels of {facet!r} is left{wanted}", given=bound)
        )


def _listed(bound: Any) -> list[int] | None:
    """The numbers of a list; None for ends, given as a tuple of two, and for a single number."""
    ends = isinstance(bound, tuple) and len(bound) == 2
    if bound is None or ends or isinstance(bound, str) or not isinstance(bound, Iterable):
        return None
    return [_whole("", n) for n in bound] or None


def _ends(facet: str, bound: Any) -> tuple[int, float]:
    if bound is None:
        return 1, math.inf
    if not isinstance(bound, tuple):
        n = _whole(facet, bound)
        return n, n
    low = _whole(facet, bound[0])
    high = math.inf if bound[1] is None else _whole(facet, bound[1])
    if low > high:
        raise QuantityError(
            explain(
                f"the bounds of {facet!r} are the wrong way round",
                given=bound,
                allowed="(least, most)",
            )
        )
    return low, high


def _step(facet: str, value: Any) -> int:
    return _whole(facet, value)


def _whole(facet: str, value: Any) -> int:
    try:
        n = operator.index(value)
    except TypeError:
        n = 0
    if n < 1 or isinstance(value, bool):
        raise QuantityError(
            explain(
                f"the number of levels of {facet!r} is not usable"
                if facet
                else "a number of levels in a list is not usable",
                given=value,
                allowed="whole numbers from 1 on, (least, most), or a list of numbers",
            )
        )
    return n


def _checked(
    structure: Structure, facets: Sequence[str], given: Any, name: str
) -> Mapping[str, Any]:
    """The mapping, with facets that a design may count; others only with one level."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise QuantityError(
            explain(
                f"{name} is a mapping of facets",
                given=type(given).__name__,
                allowed=f"such as {name}={{'{facets[0] if facets else 'task'}': ...}}",
            )
        )
    for facet, bound in given.items():
        if facet in facets:
            continue
        if facet not in structure.order:
            raise QuantityError(
                explain(
                    f"{name} names an unknown facet {facet!r}",
                    allowed=facets,
                    do=did_you_mean(facet, facets),
                )
            )
        # Of the others a design says nothing, or 1: this tells why.
        most = max([float(n) for n in _listed(bound) or []] or [_ends(facet, bound)[1]])
        smallest = dict.fromkeys(facets, 1)
        read_design(structure, {**smallest, facet: 2 if math.isinf(most) else int(most)})
    return given


def unlimited(facet: str) -> str:
    """Advice for a facet that nothing limits."""
    return f"Give bounds={{{facet!r}: (1, most)}}: the most {plural(facet)} that you would take."
