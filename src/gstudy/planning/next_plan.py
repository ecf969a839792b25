"""Whether a study is precise enough, and the cheapest addition that makes it so."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from gstudy.errors import QuantityError, explain
from gstudy.planning.axes import Bound, axes_of
from gstudy.planning.goals import Goal, checked_target
from gstudy.planning.optimum import cheapest_choice, floor_of, limit_of
from gstudy.planning.plans import ADD, CANNOT, STOP, Plan, labelled_states
from gstudy.planning.prices import declared_cost
from gstudy.planning.search import in_words
from gstudy.planning.spaces import Prices, spaces_of
from gstudy.planning.standing import Standing, standing_of
from gstudy.planning.standing_notes import standing_notes
from gstudy.study.designs import TRIALS, Design
from gstudy.variance.basis import basis_of
from gstudy.variance.budgets import reported_score
from gstudy.variance.claims import claim_of
from gstudy.variance.components import component_notes
from gstudy.variance.decomposition import SCORE, decompositions
from gstudy.variance.draws import Array, labelled, normal_quantile, proportion
from gstudy.variance.latent import widest
from gstudy.variance.systems import refuse_shared

if TYPE_CHECKING:
    from gstudy.fits.fitted import Fit
    from gstudy.planning.candidates import Space
    from gstudy.planning.choices import Choice

__all__ = ["plan_next"]

_STATE = "half-width of the score"


def plan_next(
    fit: Fit,
    *,
    target: float,
    cost: Mapping[str, float] | None = None,
    probability: float = 0.8,
    bounds: Mapping[str, Bound] | None = None,
    multiples: Mapping[str, int] | None = None,
    pin: Sequence[str] | None = None,
    system: str | None = None,
    coverage: float = 0.95,
) -> Plan:
    """Stop, or what to add to the trials of a fit: the cheapest that meets a target.

    Parameters
    ----------
    fit : Fit
    target : float
        The most that the half-width of the score's interval may be: 0.03 is 3 points.
    cost : mapping of str to float, optional
        Price of a unit of each facet, as `Cost`; by default those that the study declares,
        else each trial costs 1. What exists is paid for.
    probability : float
        Posterior probability, in (0, 1), with which the target must be met.
    bounds, multiples
        As for `best_design`, of the levels in the end.
    pin : list of str, optional
        Facets whose levels stay: the claim is about these levels only.
    system : str, optional
        As for `variance_budget`.
    coverage : float
        Nominal coverage of the score's interval.

    Returns
    -------
    Plan
        "stop" where the target is met as it is; "add" with the levels of each facet in the end,
        every trial kept and new ones spread as those are; "cannot" with the floor where no number
        of levels is enough. Of an exhausted bank only what is nested in it can grow.

    Raises
    ------
    QuantityError
        For a source without trials, a target that is no number above 0, and as `best_design`.

    Examples
    --------
    >>> plan = gs.plan_next(fit, target=0.03, cost={"rollout": 0.4})  # doctest: +SKIP
    >>> plan.decision, plan.added_trials  # doctest: +SKIP
    ('add', 120.0)
    """
    basis = basis_of(fit)
    if basis.cells is None:
        raise QuantityError(
            explain(
                "assumed components have no trials to add to",
                do="Ask for gs.cheapest_design, or for gs.next_steps of a design.",
            )
        )
    refuse_shared(basis, system, "plan")
    parts = decompositions(basis, SCORE, system)
    claim = claim_of(basis.study, next(iter(parts.values())).structure, pin)
    standing = standing_of(basis, parts, None, claim)
    goal = Goal("half_width", standing, normal_quantile(coverage), most=widest(basis.study.family))
    wanted, sure = checked_target(goal, target), proportion(probability, "probability")
    cost = declared_cost(basis.study, cost)
    space = _space(standing, goal, cost, bounds, multiples)
    now = goal.draws(space.least, "all")[0]
    chains, n_draws = next(iter(parts.values())).mean.shape
    shape = (chains, n_draws)
    levels = {facet: float(n[0]) for facet, n in space.least.items()}
    plan = Plan(
        draws=labelled_states({"now": now}, shape),
        decision=STOP,
        target=wanted,
        probability=sure,
        before=levels,
        after=levels,
        design=_whole(levels, claim.named),
        added_trials=0.0,
        added_cost=0.0,
        estimand=reported_score(basis, parts, None, claim),
        coverage=coverage,
        notes=(
            *standing_notes(standing),
            *basis.stamp(labelled(now.reshape(shape)).rename(_STATE)),
            *component_notes(basis, parts),
        ),
        family=basis.study.family,
    )
    if goal.chances(space.least, "all", wanted)[0] >= sure:
        return plan
    found = cheapest_choice([space], goal, wanted, sure)
    if found is None:
        return _hopeless(plan, space, goal, bounded=bool(bounds))
    return _added(plan, goal, standing, found)


def _space(
    standing: Standing,
    goal: Goal,
    cost: Mapping[str, float] | None,
    bounds: Mapping[str, Bound] | None,
    multiples: Mapping[str, int] | None,
) -> Space:
    """Everything that exists, and more of it; what is pinned stays."""
    structure, claim = standing.structure, standing.claim
    axes = axes_of(structure, claim.finite, bounds, multiples, start=standing.levels)
    kept = {f: replace(axis, high=axis.low) for f, axis in axes.items() if f in claim.pinned}
    return spaces_of(standing, goal, _prices(standing, cost), {**axes, **kept})[0]


def _prices(standing: Standing, cost: Mapping[str, float] | None) -> Prices:
    """What is added to the cost, for one system."""
    now = standing.price(cost, None, 1.0)

    def prices(counts: Mapping[str, Array], judges: str) -> Array:
        del judges
        found = standing.priced(cost, {**standing.levels, **counts})
        shape = np.shape(next(iter(counts.values())))
        return np.broadcast_to(np.asarray(found - now, dtype=float), shape)

    return prices


def _added(plan: Plan, goal: Goal, standing: Standing, found: Choice) -> Plan:
    """The plan that adds what was found."""
    then = goal.draws(found.columns, "all")[0]
    trials = _prices(standing, {TRIALS: 1.0})(found.columns, "all")[0]
    shape = plan.draws.shape[:2]
    return replace(
        plan,
        decision=ADD,
        draws=labelled_states(
            {"now": plan.draws.values[..., 0], "then": then}, (shape[0], shape[1])
        ),
        after=found.counts,
        design=_whole(found.counts, () if plan.design is None else plan.design.pin),
        added_trials=float(trials),
        added_cost=found.cost,
    )


def _hopeless(plan: Plan, space: Space, goal: Goal, *, bounded: bool) -> Plan:
    """The plan that says what the floor is."""
    floor = floor_of(space, goal, plan.probability)
    shape = plan.draws.shape[:2]
    text = in_words(goal, floor, plan.family)
    allowed = " within the bounds" if bounded else ""
    note = (
        f"Floor: with any number of levels{allowed} the half-width is at most {text} with "
        f"probability {plan.probability:g}, and no less. A smaller claim (pin) or more of what has "
        "one level would lower it."
    )
    return replace(
        plan,
        decision=CANNOT,
        draws=labelled_states(
            {"now": plan.draws.values[..., 0], "floor": limit_of(space, goal)},
            (shape[0], shape[1]),
        ),
        design=None,
        bounded=bounded,
        notes=(note, *plan.notes),
    )


def _whole(levels: Mapping[str, float], pin: Sequence[str]) -> Design:
    """The levels in whole numbers; of a mean that stays uneven the whole part."""
    return Design({f: max(1, math.floor(n + 1e-9)) for f, n in levels.items()}, pin=pin)
