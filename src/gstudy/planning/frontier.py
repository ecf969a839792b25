"""The frontier of cost and precision: designs than which none is both cheaper and as good."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gstudy.planning.candidates import Counts, Places, Space
from gstudy.planning.choices import Choice
from gstudy.planning.found import FoundDesigns, words_of
from gstudy.planning.goals import Goal
from gstudy.planning.requests import request_of
from gstudy.planning.search import checked_budget, refuse_budget
from gstudy.variance.draws import Array

if TYPE_CHECKING:
    from gstudy.fits.fitted import Fit
    from gstudy.planning.axes import Bound
    from gstudy.variance.components import VarianceComponents

__all__ = ["design_frontier"]

# Digits to which costs are the same: 3 x 0.1 is 0.3.
_DIGITS = 12


def design_frontier(
    source: Fit | VarianceComponents,
    *,
    budget: float | None = None,
    cost: Mapping[str, float] | None = None,
    bounds: Mapping[str, Bound] | None = None,
    multiples: Mapping[str, int] | None = None,
    judges: str | Sequence[str] = ("all",),
    pin: Sequence[str] | None = None,
    system: str | None = None,
    goal: str = "half_width",
    coverage: float = 0.95,
    systems: int | None = None,
) -> FoundDesigns:
    """The designs of which no other is at most as costly and better.

    Parameters
    ----------
    source : Fit or VarianceComponents
    budget : float, optional
        The most that a design may cost; may be left out where bounds limit every facet.
    cost, bounds, multiples, judges, pin, system, goal, coverage, systems
        As for `best_design`.

    Returns
    -------
    FoundDesigns
        From the cheapest to the best, by posterior mean variance (or mean coefficient). Of designs
        alike in both the one with the fewest levels of the first facet, then of the second; then
        the judge pattern named first. Intervals are made of these designs alone.

    Raises
    ------
    QuantityError
        For a facet that neither a bound nor the budget limits, and as `best_design`.

    Examples
    --------
    >>> import gstudy as gs
    >>> study = gs.Study(
    ...     score="passed",
    ...     facets=[
    ...         gs.Facet("task", role="legitimate"),
    ...         gs.Facet("rollout", role="legitimate", nested_in=["task"]),
    ...     ],
    ... )
    >>> vc = gs.assume(study, {"task": 0.10, "rollout": 0.14}, mean=0.6)
    >>> prices, most = {"task": 10, "rollout": 1}, {"rollout": (1, 2)}
    >>> found = gs.design_frontier(vc, budget=36, cost=prices, bounds=most)
    >>> [tuple(design.values()) for design in found.designs]
    [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1), (3, 2)]
    """
    request = request_of(
        source,
        cost=cost,
        bounds=bounds,
        multiples=multiples,
        judges=judges,
        pin=pin,
        system=system,
        goal=goal,
        coverage=coverage,
        systems=systems,
    )
    limit = math.inf if budget is None else checked_budget(budget)
    found = [choice for space in request.spaces for choice in _of_space(space, request.goal, limit)]
    if not found:
        refuse_budget(request, limit)
    costs, scores = (np.array([getattr(c, key) for c in found]) for key in ("cost", "score"))
    kept = [found[place] for place in _undominated(costs, scores, request.goal, [])]
    return request.result(kept, f"Cost and {words_of(goal, coverage)}", ())


def _of_space(space: Space, goal: Goal, budget: float) -> list[Choice]:
    """The frontier of one judge pattern."""
    counts = space.lay_out(budget, None)
    if not len(next(iter(counts.values()))):
        return []
    costs, scores = np.asarray(space.price(counts)), goal.scores(counts, space.judges)
    places = _undominated(costs, scores, goal, [counts[facet] for facet in space.axes])
    return [
        Choice(space, _levels(counts, place), float(scores[place]), float(costs[place]))
        for place in places
    ]


def _undominated(costs: Array, scores: Array, goal: Goal, levels: Sequence[Array]) -> Places:
    """Places of the designs that no other dominates, the cheapest first."""
    order = np.lexsort([*reversed(levels), scores, _rounded(costs)])
    ranked = scores[order]
    best = np.minimum.accumulate(ranked)
    better = ranked[1:] < best[:-1] - goal.slack(best[:-1])
    return np.asarray(order[np.concatenate([[True], better])])


def _rounded(costs: Array) -> Array:
    """Costs to so many significant digits."""
    size = np.floor(np.log10(np.maximum(costs, 1e-300)))
    unit = 10.0 ** (size - _DIGITS + 1)
    return np.asarray(np.round(costs / unit) * unit)


def _levels(counts: Counts, place: int) -> dict[str, float]:
    return {facet: float(n[place]) for facet, n in counts.items()}
