"""The best and the cheapest design of several spaces, by exact search over whole numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt

from gstudy.planning.axes import MOST_VALUES, Axis
from gstudy.planning.candidates import Counts, Places, Space, least_holding
from gstudy.planning.choices import ROUNDING, Choice, choose, first
from gstudy.planning.goals import Goal
from gstudy.variance.draws import Array

__all__ = ["best_choice", "cheapest_choice", "floor_of", "limit_of"]

# How much a budget grows while no design within it meets the target.
_GROWTH = 1.5

_Yes = npt.NDArray[np.bool_]


def best_choice(spaces: Sequence[Space], goal: Goal, budget: float) -> Choice | None:
    """The best design that a budget pays, of several spaces; None where it pays none."""
    found = [_best_in(space, goal, budget) for space in spaces]
    kept = [choice for choice in found if choice is not None]
    return first(kept, goal, by_cost=False) if kept else None


def cheapest_choice(
    spaces: Sequence[Space], goal: Goal, target: float, probability: float
) -> Choice | None:
    """The cheapest design of several spaces that meets a target with a probability, or None.

    No design meets it that has fewer levels of a facet than meet it with as many as may be of all
    others: this bounds the spaces from below. The budget then grows until a design within it meets
    the target; the cheapest of these is the cheapest of all.
    """
    bounded = [_bounded(space, goal, target, probability) for space in spaces]
    able = [space for space in bounded if space is not None]
    starts = [space.cheapest() for space in able]
    able = [space for space, start in zip(able, starts, strict=True) if start is not None]
    budget = min((start[1] for start in starts if start is not None), default=0.0)
    while able:
        found = [_cheapest_in(space, goal, budget, target, probability) for space in able]
        met = [choice for choice in found if choice is not None]
        if met:
            return first(met, goal, by_cost=True)
        if all(space.is_whole(budget) for space in able):
            break
        budget = max(_GROWTH * budget, 1e-300)
    return None


def limit_of(space: Space, goal: Goal) -> Array:
    """The goal where every facet has as many levels as it may have, (n_draws,).

    No design of the space is better: of a rotation it is that of every judge on every unit.
    """
    return np.asarray(goal.draws(space.top, _falling(space))[0])


def floor_of(space: Space, goal: Goal, probability: float) -> float:
    """What the best of all designs meets with a probability: no target beyond it can be met.

    NaN where no one design bounds all others.
    """
    if not _bounds_all(space):
        return float("nan")
    draws = np.sort(limit_of(space, goal))
    draws = draws[::-1] if goal.rises else draws
    place = int(np.ceil(probability * len(draws) - ROUNDING)) - 1
    return float(draws[max(place, 0)])


def _best_in(space: Space, goal: Goal, budget: float) -> Choice | None:
    solved = space.solved(budget)
    rows = space.lay_out(budget, solved)
    if not _n(rows):
        return None
    if solved is None:
        return choose(space, goal, rows, by_cost=False)
    values = space.values(solved, budget)
    n_values = space.n_within(rows, solved, values, budget)
    turns = space.turns(rows)
    of, places = _last_turn(turns, values, n_values)
    scores = goal.scores(_taken(rows, of) | {solved: values[places]}, space.judges)
    limit = scores.min() + goal.slack(scores.min())
    # Fewer levels may be as good, and cheaper: in designs that tie the fewest are looked for.
    ties = np.unique(of[scores <= limit])
    tied = _taken(rows, ties)

    def holds(which: Places, levels: Array) -> _Yes:
        tried = _taken(tied, which) | {solved: levels}
        return np.asarray(goal.scores(tried, space.judges) <= limit)

    found = least_holding(turns[ties], values, n_values[ties], holds)
    return choose(space, goal, tied | {solved: values[found]}, by_cost=False)


def _cheapest_in(
    space: Space, goal: Goal, budget: float, target: float, probability: float
) -> Choice | None:
    """The cheapest design within a budget that meets the target, or None."""
    solved = space.solved(budget)
    rows = space.lay_out(budget, solved)
    if not _n(rows):
        return None

    def meets(counts: Counts) -> _Yes:
        return np.asarray(goal.chances(counts, space.judges, target) >= probability - ROUNDING)

    def holds(which: Places, levels: Array) -> _Yes:
        return meets(_taken(rows, which) | ({} if solved is None else {solved: levels}))

    if solved is None:
        met = _taken(rows, np.flatnonzero(meets(rows)))
    else:
        values = space.values(solved, budget)
        n_values = space.n_within(rows, solved, values, budget)
        places = least_holding(space.turns(rows), values, n_values, holds)
        kept = np.flatnonzero(places >= 0)
        met = _taken(rows, kept) | {solved: values[places[kept]]}
    return choose(space, goal, met, by_cost=True) if _n(met) else None


def _last_turn(turns: Array, values: Array, n_values: Places) -> tuple[Places, Places]:
    """Rows and places of the values that may be the best: from the last multiple of the turns to
    the last value that a row may have."""
    start = n_values - 1
    for turn in np.unique(turns[turns > 1]):
        rows = np.flatnonzero(turns == turn)
        anchors = np.append(np.flatnonzero(values % turn == 0), 0)
        start[rows] = anchors[np.searchsorted(anchors[:-1], n_values[rows]) - 1]
    lengths = np.maximum(n_values - start, 0)
    of = np.repeat(np.arange(len(turns)), lengths)
    offsets = np.arange(len(of)) - np.repeat(lengths.cumsum() - lengths, lengths)
    return of, start[of] + offsets


def _bounded(space: Space, goal: Goal, target: float, probability: float) -> Space | None:
    """The space without levels that are too few whatever the others; None where nothing is left."""
    if not _bounds_all(space):
        return space
    top, pattern = space.top, _falling(space)

    def meets(facet: str, n: float) -> bool:
        counts = {**top, facet: np.array([n])}
        return bool(goal.chances(counts, pattern, target)[0] >= probability - ROUNDING)

    if not all(meets(facet, axis.top) for facet, axis in space.axes.items()):
        return None
    axes = {
        facet: axis.starting(_least_meeting(axis, partial(meets, facet)))
        for facet, axis in space.axes.items()
    }
    return replace(space, axes=axes)


def _least_meeting(axis: Axis, meets: Callable[[float], bool]) -> float:
    """The least number of levels at which something holds that holds at the largest."""
    most = axis.low
    while most < axis.high and not meets(axis.upto(most)[-1]):
        most = min(2 * most, axis.high)
        if axis.n_upto(most) > MOST_VALUES:
            # Too many to lay out: the search says so.
            return axis.low
    values = axis.upto(most)
    low, high = 0, len(values) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if meets(values[middle]) else (middle + 1, high)
    return float(values[low])


def _bounds_all(space: Space) -> bool:
    """Whether the goal falls in every facet but judges in rotation: the top bounds all designs."""
    return space.usable is None and not space.fixed >= frozenset(space.axes)


def _falling(space: Space) -> str:
    """The pattern whose limit bounds that of the space."""
    return "all" if space.judges == "round robin" else space.judges


def _taken(counts: Counts, rows: Places) -> Counts:
    return {facet: n[rows] for facet, n in counts.items()}


def _n(counts: Counts) -> int:
    return len(next(iter(counts.values())))
