"""The best design that a budget pays, and the cheapest one that meets a target."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from gstudy.display import number, points
from gstudy.errors import QuantityError, explain
from gstudy.planning.choices import Choice
from gstudy.planning.found import FoundDesigns, words_of
from gstudy.planning.goals import Goal, checked_target
from gstudy.planning.optimum import best_choice, cheapest_choice, floor_of
from gstudy.planning.requests import Request, request_of
from gstudy.study.costs import LARGEST
from gstudy.variance.draws import proportion
from gstudy.variance.latent import GAUSSIAN

if TYPE_CHECKING:
    from gstudy.fits.fitted import Fit
    from gstudy.planning.axes import Bound
    from gstudy.variance.components import VarianceComponents

__all__ = ["best_design", "cheapest_design", "checked_budget", "in_words", "refuse_budget"]


def best_design(
    source: Fit | VarianceComponents,
    *,
    budget: float,
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
    """The best design that a budget pays, exactly, over whole numbers of levels.

    Parameters
    ----------
    source : Fit or VarianceComponents
    budget : float
        The most that the design may cost; in trials where no cost is given.
    cost : mapping of str to float, optional
        Price of a unit of each facet, as `Cost`; by default those that the study declares,
        else each trial costs 1.
    bounds : mapping of str to int, tuple or list, optional
        Numbers of levels of a facet: one, (least, most) with None for no end, or a list. By
        default from 1 to the universe, or as far as the budget goes.
    multiples : mapping of str to int, optional
        What the number of levels of a facet must be a multiple of.
    judges : str or list of str
        Judge patterns to choose from: "all", "one", "round robin", "fresh"; see `Design`.
    pin : list of str, optional
        Facets whose levels stay: the claim is about these levels only.
    system : str, optional
        As for `variance_budget`.
    goal : {"half_width", "given_half_width", "difference", "mdd", "phi", "generalizability"}
        Of a score's interval, of assumed components that of a new system; of that of any given
        system of the population; of a difference of two of them on shared levels; the difference
        found with power 0.8; Phi; E rho^2. All but the coefficients have the least posterior mean
        variance, these the largest posterior mean.
    coverage : float
        Nominal coverage of the intervals.
    systems : int, optional
        How many systems run the design, for its cost; by default 2 for a difference, else 1.

    Returns
    -------
    FoundDesigns
        One design. Of equally good ones the cheapest; of these the one with the fewest levels of
        the first facet in declared order, then of the second; then the judge pattern named first.

    Raises
    ------
    QuantityError
        For a budget below any design (the message has the cheapest one), a facet that nothing
        limits, too many designs, and as `variance_budget`.

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
    >>> found = gs.best_design(vc, budget=2000, cost={"task": 10, "rollout": 1})
    >>> dict(found.design), found.cost
    ({'task': 142, 'rollout': 4}, 1988.0)
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
    limit = checked_budget(budget)
    best = best_choice(request.spaces, request.goal, limit)
    if best is None:
        refuse_budget(request, limit)
    title = f"Best design for {request.money(limit)}: {words_of(goal, coverage)}"
    return request.result([best], title, ())


def cheapest_design(
    source: Fit | VarianceComponents,
    *,
    target: float,
    probability: float = 0.8,
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
    """The cheapest design that meets a target with a stated probability, exactly.

    Parameters
    ----------
    source : Fit or VarianceComponents
    target : float
        The most that the goal may be, in units of the score (0.03 is 3 points); of a coefficient
        the least.
    probability : float
        Posterior probability, in (0, 1), with which the design must meet it.
    cost, bounds, multiples, judges, pin, system, goal, coverage, systems
        As for `best_design`.

    Returns
    -------
    FoundDesigns
        One design. Of equally cheap ones that with the least posterior mean variance (the largest
        mean coefficient), then as for `best_design`.

    Raises
    ------
    QuantityError
        For a target below what any design reaches (the message has that floor), and as
        `best_design`.

    Examples
    --------
    Tasks for an interval of 3 points to each side:

    >>> import gstudy as gs
    >>> study = gs.Study(score="passed", facets=[gs.Facet("task", role="legitimate")])
    >>> vc = gs.assume(study, {"task": 0.2}, mean=0.5)
    >>> found = gs.cheapest_design(vc, target=0.03)
    >>> dict(found.design)
    {'task': 854}
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
    wanted, chance = checked_target(request.goal, target), proportion(probability, "probability")
    found = cheapest_choice(request.spaces, request.goal, wanted, chance)
    if found is None:
        refuse_target(request, wanted, chance)
    what = words_of(goal, coverage)
    sign = "at least" if request.goal.rises else "at most"
    shown = in_words(request.goal, wanted, request.basis.study.family)
    title = f"Cheapest design with a {what} of {sign} {shown}"
    reached = request.goal.chances(found.columns, found.space.judges, wanted)[0]
    note = f"Posterior probability that it meets this: {reached:.2f} (asked: {chance:g})."
    return request.result([found], title, () if request.basis.assumed else (note,))


def in_words(goal: Goal, value: float, family: str) -> str:
    """A value of the goal as it is written."""
    if goal.rises:
        return f"{value:.3f}"
    return number(value) if family == GAUSSIAN else points(value)


def checked_budget(budget: object) -> float:
    """A budget, checked.

    Raises
    ------
    QuantityError
        When it is no number above 0, or too large to be priced.
    """
    usable = isinstance(budget, Real) and not isinstance(budget, bool)
    value = float(budget) if usable and isinstance(budget, Real) else math.nan
    if not 0 < value <= LARGEST:
        large = f", up to {LARGEST:g}" if value > 0 else ""
        raise QuantityError(
            explain("the budget is not usable", given=budget, allowed=f"numbers above 0{large}")
        )
    return value


def refuse_budget(request: Request, budget: float) -> NoReturn:
    """Refuse a budget below any design, with the cheapest one."""
    options = []
    for space in request.spaces:
        if (found := space.cheapest()) is not None:
            levels = {facet: float(n[0]) for facet, n in found[0].items()}
            options.append(Choice(space, levels, 0.0, found[1]))
    if not options:
        raise QuantityError(
            explain(
                "the bounds leave no design: some facets go together, as they were collected or "
                "as judges are assigned",
                given={f: (axis.low, axis.high) for f, axis in request.spaces[0].axes.items()},
                do="Widen the bounds.",
            )
        )
    least = min(options, key=lambda choice: choice.cost)
    raise QuantityError(
        explain(
            "the budget is below any design",
            given=budget,
            allowed=f"at least {least.cost:.12g}, the price of {least.design()!r}",
            do="Raise the budget, or lower the bounds.",
        )
    )


def refuse_target(request: Request, target: float, probability: float) -> NoReturn:
    """Refuse a target that no design meets, with the floor."""
    goal, family = request.goal, request.basis.study.family
    floors = [floor_of(space, goal, probability) for space in request.spaces]
    side, best = ("above", np.nanmax) if goal.rises else ("below", np.nanmin)
    known = not np.isnan(floors).all()
    floor = in_words(goal, float(best(floors)), family) if known else ""
    bounded = any(not space.open for space in request.spaces)
    raise QuantityError(
        explain(
            f"no design meets the target with probability {probability:g}",
            given=in_words(goal, target, family),
            allowed=f"not {side} {floor}, the floor that no number of levels passes"
            if known
            else None,
            do="Widen the bounds or the target, or pin a facet: a smaller claim."
            if bounded
            else "Widen the target, or pin a facet: a smaller claim.",
        )
    )
