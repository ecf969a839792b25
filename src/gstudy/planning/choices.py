"""One design of a space, and which of several is taken where they tie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gstudy.planning.candidates import Counts, Places, Space
from gstudy.study.designs import Design

if TYPE_CHECKING:
    from gstudy.planning.goals import Goal
    from gstudy.variance.draws import Array

__all__ = ["ROUNDING", "Choice", "choose", "first"]

ROUNDING = 1e-12
"""Costs this far apart, relative, are the same."""


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """A design in a space.

    Parameters
    ----------
    space : Space
    counts : dict of str to float
    score : float
        What the search made least.
    cost : float
    """

    space: Space
    counts: dict[str, float]
    score: float
    cost: float

    @property
    def columns(self) -> Counts:
        """The counts as arrays of one design."""
        return {facet: np.array([n]) for facet, n in self.counts.items()}

    def design(self, pin: Sequence[str] = ()) -> Design:
        """It as a design; a number of judges that the pattern says is left out."""
        space = self.space
        said = {space.judge} if space.judges in ("one", "fresh") else set()
        levels = {f: int(n) for f, n in self.counts.items() if f not in said}
        return Design(levels, pin=pin, judges=space.judges)


def choose(space: Space, goal: Goal, counts: Counts, *, by_cost: bool) -> Choice:
    """The first of designs of one space.

    Parameters
    ----------
    space : Space
    goal : Goal
    counts : dict of str to array (n_designs,)
        At least one.
    by_cost : bool
        The cheapest, of these the best; else the best, of these the cheapest. Then the one with
        the fewest levels of the first facet, then of the second, and so on.

    Returns
    -------
    Choice
    """
    costs = np.asarray(space.price(counts))
    scores = goal.scores(counts, space.judges)
    left = _left(goal, scores, costs, by_cost=by_cost)
    levels = [counts[facet][left] for facet in reversed(list(space.axes))]
    place = left[np.lexsort(levels)[0]]
    return Choice(
        space=space,
        counts={facet: float(n[place]) for facet, n in counts.items()},
        score=float(scores[place]),
        cost=float(costs[place]),
    )


def first(choices: Sequence[Choice], goal: Goal, *, by_cost: bool) -> Choice:
    """The first of designs of several spaces, by the same rules; then of the space named first."""
    scores, costs = (np.array([getattr(c, key) for c in choices]) for key in ("score", "cost"))
    left = [choices[int(place)] for place in _left(goal, scores, costs, by_cost=by_cost)]
    levels = [[choice.counts[facet] for facet in choice.space.axes] for choice in left]
    return left[levels.index(min(levels))]


def _left(goal: Goal, scores: Array, costs: Array, *, by_cost: bool) -> Places:
    """Places of the designs that are first by both rules."""
    left: Places = np.arange(len(costs))
    for cheap in (True, False) if by_cost else (False, True):
        values = (costs if cheap else scores)[left]
        least = values.min()
        slack = ROUNDING * abs(least) if cheap else goal.slack(least)
        left = left[values <= least + slack]
    return left
