"""What to add to a study: against every larger design."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from designs import grid, study_of, within
from sources import fitted

import gstudy as gs
from gstudy.errors import QuantityError


def bank(universe: int | None = None, n_rollouts: int = 2, **facets: Any) -> gs.Fit:
    study = study_of(
        gs.Facet("task", role="legitimate", universe=universe), within("rollout", "task"), **facets
    )
    rows = grid({"task": range(6), "rollout": range(n_rollouts)})
    return fitted(study, rows, shape=(1, 40))


def chance(fit: gs.Fit, design: Any, target: float) -> float:
    width = gs.variance_budget(fit, design).half_width().values
    return float((width <= target * (1 + 1e-12)).mean())


def test_a_study_that_is_precise_enough_stops() -> None:
    fit = bank()
    width = gs.variance_budget(fit).half_width().values
    target = float(np.quantile(width, 0.9))
    plan = gs.plan_next(fit, target=target, probability=0.8)
    assert plan.decision == "stop"
    assert plan.added_trials == plan.added_cost == 0
    assert plan.draws.sel(state="now").values == pytest.approx(width, rel=1e-12)
    assert str(plan).startswith("Stop: the half-width is at most")


@pytest.mark.parametrize("cost", [None, {"task": 5.0, "rollout": 0.5}, {"task": 1, "trials": 3}])
def test_the_cheapest_addition_is_that_of_all_larger_designs(cost: Any) -> None:
    fit = bank()
    now = float(np.median(gs.variance_budget(fit).half_width().values))
    target = 0.6 * now
    plan = gs.plan_next(fit, target=target, cost=cost, bounds={"task": (6, 30), "rollout": (1, 6)})
    prices = cost or {"trials": 1}

    def price(n: int, m: int) -> float:
        trials = prices.get("trials", 0) + prices.get("rollout", 0)
        return prices.get("task", 0) * n + trials * n * m

    options = [
        (price(n, m) - price(6, 2), n, m)
        for n, m in itertools.product(range(6, 31), range(2, 7))
        if chance(fit, {"task": n, "rollout": m}, target) >= 0.8
    ]
    assert plan.decision == "add"
    assert plan.added_cost == pytest.approx(min(options)[0])
    assert (plan.added_cost, *plan.after.values()) in [pytest.approx(o) for o in options]
    assert plan.chances["then"] >= 0.8
    assert plan.added_trials == plan.after["task"] * plan.after["rollout"] - 12
    assert plan.design == gs.Design({f: int(n) for f, n in plan.after.items()})


def test_of_an_exhausted_bank_only_rollouts_help() -> None:
    fit = bank(universe=6)
    now = float(np.median(gs.variance_budget(fit).half_width().values))
    plan = gs.plan_next(fit, target=0.5 * now, cost={"rollout": 0.4, "task": 25})
    assert plan.decision == "add"
    assert plan.after["task"] == 6
    n = int(plan.after["rollout"])
    assert chance(fit, {"task": 6, "rollout": n}, 0.5 * now) >= 0.8
    assert chance(fit, {"task": 6, "rollout": n - 1}, 0.5 * now) < 0.8
    assert "Exhausted: all 6 tasks" in str(plan)


def test_no_design_can_where_the_floor_is_above_the_target() -> None:
    study = study_of(
        gs.Facet("task", role="legitimate"),
        gs.Facet("version", role="legitimate"),
        within("rollout", "task", "version"),
    )
    rows = grid({"task": range(6), "version": range(3), "rollout": range(2)})
    fit = fitted(study, rows, shape=(1, 40))
    plan = gs.plan_next(fit, target=0.05, bounds={"version": (3, 3)})
    assert plan.decision == "cannot"
    assert plan.design is None
    budget = gs.variance_budget(fit, {"task": 10**9, "version": 3, "rollout": 10**6})
    floor = plan.draws.sel(state="floor").values
    assert floor == pytest.approx(budget.half_width().values, rel=1e-4)
    assert "Floor:" in str(plan)
    # A smaller claim has a lower floor.
    assert gs.plan_next(fit, target=0.05, pin=["version"]).decision == "add"


def test_uneven_trials_stay_and_grow() -> None:
    study = study_of(gs.Facet("task", role="legitimate", universe=5), within("rollout", "task"))
    table = grid({"task": range(5), "rollout": range(6)})
    uneven = pd.DataFrame(table[np.random.default_rng(1).random(len(table)) < 0.6])
    fit = fitted(study, uneven, shape=(1, 40))
    now = float(np.median(gs.variance_budget(fit).half_width().values))
    plan = gs.plan_next(fit, target=0.7 * now)
    assert plan.before["rollout"] == pytest.approx(len(uneven) / 5)
    assert plan.after["rollout"] == int(plan.after["rollout"]) > plan.before["rollout"]
    assert plan.added_trials == pytest.approx(5 * plan.after["rollout"] - len(uneven))


def test_bad_plans_are_refused() -> None:
    fit = bank()
    for how, message in (
        ({"target": 0}, "target is not usable"),
        ({"target": "3pt"}, "target is not usable"),
        ({"target": 0.03, "probability": 1}, "probability is not a proportion"),
        ({"target": 0.03, "cost": {"rollot": 1}}, "unknown facet 'rollot'"),
        ({"target": 0.03, "cost": {"rollout": -1}}, "numbers from 0 on"),
        ({"target": 0.03, "bounds": {"tasks": 3}}, "Did you mean 'task'"),
    ):
        with pytest.raises(QuantityError, match=message):
            gs.plan_next(fit, **how)
    vc = gs.assume(fit.study, {"task": 0.1}, mean=0.5)
    with pytest.raises(QuantityError, match="no trials to add to"):
        gs.plan_next(vc, target=0.1)


def test_what_only_bounds_forbid_is_not_called_impossible() -> None:
    fit = bank()
    target = 0.6 * float(np.median(gs.variance_budget(fit).half_width().values))
    plan = gs.plan_next(fit, target=target, bounds={"task": (6, 7), "rollout": (2, 3)})
    assert plan.decision == "cannot"
    assert str(plan).startswith("No number of trials within the bounds brings")
    assert "with any number of levels within the bounds" in plan.notes[0]
    assert gs.plan_next(fit, target=target).decision == "add"
