"""The designs that a search looks at: whole numbers of levels that a budget can pay.

The cost of a design is affine in the number of levels of each facet, the others fixed, so that the
numbers that a budget can pay are known without trying them: a space is laid out facet by facet,
and no design beyond the budget is ever made.

One facet, the last, need not be laid out. For every judge pattern but the rotation the variance
falls with its number n of levels, in every draw: the largest n that the budget pays is the best.
In a rotation over n_J judges the largest multiple m of n_J up to that n is at least as good as all
n < m, so that only the numbers from m on are looked at:

- a set that holds J and not the facet has the facet among those that vary inside it. Its q_A is
  (groups)^-1 sum_j (M_j / M)^2, and the sum is at least 1/n_J for any shares M_j / M of n_J
  judges. At a multiple of n_J it is 1/n_J: a rotation over whole turns is even.
- of a set with the facet the sum does not change with n, and of one without J nothing does but the
  number of groups or trials; these fall as 1/n.

What a claim takes out of q_A for a finite bank is at most q_A and falls no faster, so that the
difference falls too. Where it does not, the facet is `fixed`, and laid out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from gstudy.errors import QuantityError, explain
from gstudy.planning.axes import MOST_VALUES, Axis, unlimited
from gstudy.variance.draws import Array

if TYPE_CHECKING:
    from gstudy.study.index_sets import IndexSet

__all__ = ["MOST_DESIGNS", "Counts", "Places", "Space", "least_holding", "within"]

MOST_DESIGNS = 2_000_000
"""Designs that are laid out at a time."""

# A cost this close above a budget is rounding: 3 x 0.1 is within 0.3.
_ROUNDING = 1e-12

Counts = dict[str, Array]
"""Facet to its number of levels in each of several designs, (n_designs,)."""

Places = npt.NDArray[np.intp]


def within(cost: Array, budget: float) -> npt.NDArray[np.bool_]:
    """Which costs a budget pays, rounding aside."""
    return np.asarray(cost <= budget * (1 + _ROUNDING))


@dataclass(frozen=True, slots=True, eq=False)
class Space:
    """All designs with one judge pattern.

    Parameters
    ----------
    axes : mapping of str to Axis
        Of every facet that is counted, in declared order.
    judges : str
        One of `JUDGES`.
    judge : str or None
        The facet whose levels are judges.
    price : function of counts
        Cost of each design, affine in each number of levels.
    tied : sequence of sequences of frozenset of str
        Parts of merged components: in each, the products of the levels of all parts are equal.
    fixed : frozenset of str
        Facets in whose number of levels the goal need not fall: they are laid out.
    usable : function of counts, optional
        Which designs may be, as where fresh judges must not outnumber their universe.
    """

    axes: Mapping[str, Axis]
    judges: str
    judge: str | None
    price: Callable[[Mapping[str, Array]], Array]
    tied: Sequence[Sequence[IndexSet]] = ()
    fixed: frozenset[str] = frozenset()
    usable: Callable[[Counts], npt.NDArray[np.bool_]] | None = None

    @property
    def least(self) -> Counts:
        """The smallest design."""
        return {facet: np.array([float(axis.low)]) for facet, axis in self.axes.items()}

    @property
    def open(self) -> tuple[str, ...]:
        """Facets without a largest number of levels."""
        return tuple(facet for facet, axis in self.axes.items() if math.isinf(axis.high))

    def solved(self, budget: float) -> str | None:
        """The facet that need not be laid out: of those that cost something the one with most
        numbers."""
        bound = frozenset[str]().union(*(part for parts in self.tied for part in parts))
        free = [facet for facet in self.axes if facet not in bound | self.fixed]
        most = {facet: self._most(facet, budget) for facet in free}
        sizes = {f: self.axes[f].n_upto(n) for f, n in most.items() if not math.isinf(n)}
        return max(sizes, key=lambda facet: sizes[facet]) if sizes else None

    def cheapest(self) -> tuple[Counts, float] | None:
        """The cheapest design, in counts and cost, with the fewest levels of ties; None where
        bounds leave none in which merged facets go together, or fresh judges are enough."""
        budget = float(self.price(self.least)[0])
        while True:
            counts = self.lay_out(budget, None)
            if len(costs := self.price(counts)):
                place = int(np.argmin(costs))
                return {f: n[[place]] for f, n in counts.items()}, float(costs[place])
            if self.is_whole(budget):
                return None
            budget = max(2 * budget, 1e-300)

    @property
    def top(self) -> Counts:
        """As many levels of each facet as there may be, infinity where there is no end."""
        return {facet: np.array([axis.top]) for facet, axis in self.axes.items()}

    def is_whole(self, budget: float) -> bool:
        """Whether a budget pays every design."""
        return not self.open and bool(within(self.price(self.top), budget)[0])

    def lay_out(self, budget: float, solved: str | None) -> Counts:
        """The designs that a budget pays; that of `solved` has its smallest number of levels.

        Raises
        ------
        QuantityError
            For a facet that neither a bound nor the budget limits, and too many designs.
        """
        counts = self.least
        counts = {f: n[within(self.price(counts), budget)] for f, n in counts.items()}
        placed = set[str]()
        for facet in self.axes:
            placed.add(facet)
            if facet == solved:
                continue
            values = self.values(facet, budget)
            n_values = self.n_within(counts, facet, values, budget)
            self._check_size(int(n_values.sum()), budget, solved)
            rows = np.repeat(np.arange(len(n_values)), n_values)
            places = np.arange(len(rows)) - np.repeat(n_values.cumsum() - n_values, n_values)
            counts = {f: n[rows] for f, n in counts.items()} | {facet: values[places]}
            kept = self._are_usable(counts, placed)
            counts = {f: n[kept] for f, n in counts.items()}
        return counts

    def values(self, facet: str, budget: float) -> Array:
        """The numbers of levels of a facet that a budget can pay in the smallest design.

        Raises
        ------
        QuantityError
            Where nothing limits them, or there are too many.
        """
        axis, most = self.axes[facet], self._most(facet, budget)
        size = axis.n_upto(most)
        if size > MOST_VALUES:
            raise QuantityError(
                explain(
                    f"nothing limits the number of levels of {facet!r}: neither bounds nor a "
                    "budget, which what costs nothing does not use"
                    if math.isinf(size)
                    else f"{facet!r} can have {size:.3g} numbers of levels, too many to search",
                    do=unlimited(facet),
                )
            )
        return axis.upto(most)

    def n_within(self, counts: Counts, facet: str, values: Array, budget: float) -> Places:
        """How many of the rising values of a facet a budget pays, in each design."""
        base, slope = self._line(counts, facet)
        with np.errstate(divide="ignore", invalid="ignore"):
            most = self.axes[facet].low + (budget - base) / slope
        most = np.where(slope > 0, most, np.inf)
        found = np.searchsorted(values, most, side="right")
        # The quotient is rounded; the cost itself decides.
        for step in (1, -1):
            place = found if step == 1 else found - 1
            inside = (place >= 0) & (place < len(values))
            tried = values[np.clip(place, 0, len(values) - 1)]
            pays = within(self.price({**counts, facet: tried}), budget)
            found = found + step * (inside & (pays if step == 1 else ~pays))
        return np.asarray(found, dtype=np.intp)

    def turns(self, counts: Counts) -> Array:
        """Of what the levels of the solved facet are multiples where the goal is sure to fall."""
        if self.judges == "round robin" and self.judge is not None:
            return counts[self.judge]
        return np.ones(len(next(iter(counts.values()), np.ones(1))))

    def _line(self, counts: Counts, facet: str) -> tuple[Array, Array]:
        """Cost at the lowest number of levels of a facet, and of one level more."""
        low = np.full(len(counts[facet]), float(self.axes[facet].low))
        base = self.price({**counts, facet: low})
        return base, self.price({**counts, facet: low + 1}) - base

    def _most(self, facet: str, budget: float) -> float:
        """The most levels that a budget pays with the fewest of the others, and one more."""
        base, slope = self._line(self.least, facet)
        if not slope[0] > 0:
            return math.inf
        return float(self.axes[facet].low + max(budget - base[0], 0.0) / slope[0]) + 1

    def _are_usable(self, counts: Counts, placed: set[str]) -> npt.NDArray[np.bool_]:
        """Merged facets go together; what else must be is asked of whole designs."""
        kept = np.ones(len(next(iter(counts.values()))), dtype=bool)
        if self.usable is not None and len(placed) == len(self.axes):
            kept &= self.usable(counts)
        for parts in self.tied:
            if frozenset().union(*parts) <= placed:
                sizes = [math.prod(counts[f] for f in part) for part in parts]
                for size in sizes[1:]:
                    kept &= size == sizes[0]
        return kept

    def _check_size(self, size: int, budget: float, solved: str | None) -> None:
        if size <= MOST_DESIGNS:
            return
        sizes = {f: self.axes[f].n_upto(self._most(f, budget)) for f in self.axes if f != solved}
        widest = max(sizes, key=lambda facet: sizes[facet])
        raise QuantityError(
            explain(
                f"there are too many designs to search: more than {MOST_DESIGNS:,}",
                given=f"{', '.join(f'{f}: {n:,.0f}' for f, n in sizes.items())} numbers of levels",
                do=f"{unlimited(widest)} Or take steps by multiples={{{widest!r}: 5}}.",
            )
        )


def least_holding(
    turns: Array,
    values: Array,
    n_values: Places,
    holds: Callable[[Places, Array], npt.NDArray[np.bool_]],
) -> Places:
    """The place of the least value at which something holds, by row; -1 where it nowhere does.

    Parameters
    ----------
    turns : array (n_rows,)
        At a multiple m of this it holds if it holds at any smaller value.
    values : array
        Rising.
    n_values : int array (n_rows,)
        How many of them, from the first, a row may have.
    holds : function of (rows, values of these rows)
        Whether it holds.

    Returns
    -------
    int array (n_rows,)
    """
    found = np.full(len(turns), -1, dtype=np.intp)
    for turn in np.unique(turns):
        rows = np.flatnonzero((turns == turn) & (n_values > 0))
        anchors = np.flatnonzero(values % turn == 0) if turn > 1 else np.arange(len(values))
        n_anchors = np.searchsorted(anchors, n_values[rows])
        first = _first_anchor(rows, values[anchors], n_anchors, holds)
        start = np.where(first > 0, np.append(anchors, -1)[first - 1] + 1, 0)
        end = np.where(first < n_anchors, np.append(anchors, -1)[first], n_values[rows] - 1)
        if turn == 1:
            found[rows] = np.where(first < n_anchors, end, -1)
        else:
            found[rows] = _first_place(rows, values, start, end, holds)
    return found


def _first_anchor(
    rows: Places,
    values: Array,
    n_anchors: Places,
    holds: Callable[[Places, Array], npt.NDArray[np.bool_]],
) -> Places:
    """Bisection: the first of the rising values at which it holds, else their number."""
    low, high = np.zeros(len(rows), dtype=np.intp), n_anchors.copy()
    some = np.flatnonzero(n_anchors > 0)
    ever = holds(rows[some], values[n_anchors[some] - 1]) if len(some) else np.zeros(0, bool)
    low[some[~ever]] = n_anchors[some[~ever]]
    high[some[ever]] -= 1
    while len(left := np.flatnonzero(low < high)):
        middle = (low[left] + high[left]) // 2
        does = holds(rows[left], values[middle])
        high[left[does]] = middle[does]
        low[left[~does]] = middle[~does] + 1
    return low


def _first_place(
    rows: Places,
    values: Array,
    start: Places,
    end: Places,
    holds: Callable[[Places, Array], npt.NDArray[np.bool_]],
) -> Places:
    """The first place from start to end (included) at which it holds, by row, else -1."""
    found = np.full(len(rows), -1, dtype=np.intp)
    place = start.copy()
    left = np.flatnonzero(place <= end)
    while len(left):
        does = holds(rows[left], values[place[left]])
        found[left[does]] = place[left[does]]
        place[left] += 1
        left = left[~does & (place[left] <= end[left])]
    return found
