"""Prices of designs: what is paid once, per system, per unit and per call."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from assigned import assigned
from designs import study_of, within
from sources import fitted

import gstudy as gs
from gstudy.errors import QuantityError
from gstudy.planning.prices import price
from gstudy.planning.terms import score_terms
from gstudy.study.designs import JUDGES

AGENT = study_of(
    "task",
    "env",
    within("rollout", "system", "task", "env"),
    gs.Facet("judge", role="error"),
    within("wording", "judge", role="error"),
    object="system",
)
COUNTS = {"task": 5, "env": 2, "rollout": 3, "judge": 4, "wording": 2}


def test_each_unit_by_itself() -> None:
    def of(facet: str, systems: int = 1) -> float:
        return float(price(AGENT, {facet: 1.0}, COUNTS, systems=systems))

    for systems in (1, 3):
        assert of("task", systems) == 5
        assert of("env", systems) == 2
        assert of("rollout", systems) == 5 * 2 * 3 * systems
        assert of("wording", systems) == 8
        assert of("judge", systems) == of("trials", systems) == 5 * 2 * 3 * 4 * 2 * systems
        assert of("system", systems) == systems
    mixed = {"task": 25.0, "rollout": 1.0, "judge": 0.02}
    expected = sum(each * of(facet, 3) for facet, each in mixed.items())
    assert price(AGENT, mixed, COUNTS, systems=3) == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize("judges", JUDGES)
def test_calls_are_the_rows_of_the_assignment(judges: str) -> None:
    for task, rollout, judge, call in itertools.product([1, 3], [1, 4], [1, 3], [1, 2]):
        study = study_of(
            "task",
            within("rollout", "task"),
            gs.Facet("judge", role="error"),
            within("call", "rollout", "judge"),
        )
        counts = {"task": task, "rollout": rollout, "judge": judge, "call": call}
        rows = assigned(counts, judges, inside=("call",))
        for cost in (None, {"judge": 1.0}, {"trials": 1.0}):
            assert price(study, cost, counts, judges=judges) == len(rows)
        calls = rows[["task", "rollout", "judge", "call"]].drop_duplicates()
        assert price(study, {"call": 1.0}, counts, judges=judges) == len(calls)
        runs = rows[["task", "rollout"]].drop_duplicates()
        assert price(study, {"rollout": 1.0}, counts, judges=judges) == len(runs)


def test_cyclic_judges_calls(oracle: Any) -> None:
    given = oracle("published")["cyclic_judge"]
    study = study_of("scenario", within("generation", "scenario"), gs.Facet("judge", role="error"))
    counts = {"scenario": given["n_scenario"], "generation": 1, "judge": given["n_judge"]}
    names = {"one": "one judge", "all": "all judges", "round robin": "round robin"}
    for judges, name in names.items():
        assert price(study, {"judge": 1}, counts, judges=judges) == given["calls"][name]


def test_many_designs_at_a_time() -> None:
    tasks = np.array([5.0, 10.0, 20.0])
    found = price(AGENT, {"task": 25, "judge": 0.5}, {**COUNTS, "task": tasks})
    alone = [price(AGENT, {"task": 25, "judge": 0.5}, {**COUNTS, "task": n}) for n in tasks]
    assert np.asarray(found).tolist() == alone


def test_trials_that_are_counted() -> None:
    study = gs.Study(
        successes="k", trials="n", facets=[gs.Facet("task", role="legitimate")], object="system"
    )
    assert price(study, None, {"task": 10, "trials": 8}, systems=2) == 160
    facets = [gs.Facet("task", role="legitimate"), within("run", "task")]
    named = gs.Study(
        successes="k",
        trials="n",
        facets=[facets[0], gs.Facet("run", role="legitimate", nested_in=["task"], column="n")],
    )
    assert price(named, {"run": 2.0}, {"task": 10, "run": 8}) == 160


def test_controlled_levels_are_paid_for() -> None:
    domain = gs.Facet("domain", role="controlled")
    study = study_of(domain, within("task", "domain"), within("rollout", "task"))
    vc = gs.assume(
        study,
        {"task": 1.0, "rollout": 0.5},
        mu=0.0,
        scale="logit",
        fixed={"domain": {"x": -0.5, "y": 0.0, "z": 0.5}},
    )
    terms = score_terms(vc)
    counts = terms.counts({"task": 10, "rollout": 4})
    assert terms.price(None, counts) == 3 * 10 * 4
    assert terms.price({"task": 1}, counts) == 30
    assert terms.price({"domain": 7}, counts) == 21


def test_costs_that_cannot_be() -> None:
    with pytest.raises(QuantityError, match=r"unknown facet 'rolout'.*Did you mean 'rollout'"):
        price(AGENT, {"rolout": 1.0}, COUNTS)
    for value in (-1, math.nan, math.inf, "3", True, None):
        with pytest.raises(QuantityError, match="the price of 'task' is not usable"):
            gs.Cost({"task": value})
    for empty in ({}, {"task": 0}):
        with pytest.raises(QuantityError, match="nothing has a price"):
            gs.Cost(empty)
    with pytest.raises(QuantityError, match="a cost is a mapping"):
        gs.Cost([("task", 1)])
    with pytest.raises(QuantityError, match="several systems"):
        price(study_of("task"), None, {"task": 5}, systems=2)


@pytest.mark.parametrize("judges", JUDGES)
@pytest.mark.parametrize("parents", [("judge",), ("task", "judge"), ("rollout", "judge")])
def test_what_is_nested_in_the_judge_is_counted(judges: str, parents: tuple[str, ...]) -> None:
    study = study_of(
        "task",
        "env",
        within("rollout", "task", "env"),
        gs.Facet("judge", role="error"),
        within("wording", *parents, role="error"),
    )
    found = [*{facet for p in parents for facet in study.closure(p)}, "wording"]
    for task, env, rollout, judge in itertools.product([1, 4], [1, 2], [1, 3], [1, 2, 5]):
        counts = {"task": task, "env": env, "rollout": rollout, "judge": judge, "wording": 2}
        rows = assigned(counts, judges, inside=("wording",))
        expected = len(rows[found].drop_duplicates())
        assert price(study, {"wording": 1.0}, counts, judges=judges) == expected


def test_declared_prices_hold_wherever_none_are_given() -> None:
    study = study_of("task", within("rollout", "task"), cost={"task": 25, "rollout": 0.5})
    plain = study_of("task", within("rollout", "task"))
    components = {"task": 0.1, "rollout": 0.14}
    declared, bare = (gs.assume(s, components, mean=0.6) for s in (study, plain))
    prices = study.cost
    design = {"task": 20, "rollout": 3}
    for ask in (
        lambda source, cost: gs.next_steps(source, design, cost=cost).summary(),
        lambda source, cost: gs.best_design(source, budget=900, cost=cost).summary(),
        lambda source, cost: gs.cheapest_design(source, target=0.05, cost=cost).summary(),
        lambda source, cost: gs.compare_designs(source, [design], cost=cost).summary(),
    ):
        assert ask(declared, None).equals(ask(bare, prices))
        assert ask(declared, {"trials": 1.0}).equals(ask(bare, None))


def incomplete() -> tuple[Any, pd.DataFrame]:
    """Tasks nested in domains, run with prompts: of 2 x 2 combinations 3 occur."""
    study = study_of(
        gs.Facet("domain", role="controlled"),
        gs.Facet("prompt", role="controlled"),
        within("task", "domain"),
        within("rollout", "task", "prompt"),
    )
    combinations = [("a", "x"), ("a", "y"), ("b", "x")]
    rows = [
        {"domain": d, "prompt": p, "task": t, "rollout": r, "score": (t + r) % 2}
        for d, p in combinations
        for t in range(5)
        for r in range(3)
    ]
    return fitted(study, rows, shape=(1, 20)), pd.DataFrame(rows)


def test_only_combinations_of_controlled_levels_that_occur_are_paid_for() -> None:
    fit, rows = incomplete()
    terms = score_terms(fit)
    design = {"task": 5, "rollout": 3}
    units = {
        "trials": len(rows),
        "task": len(rows[["domain", "task"]].drop_duplicates()),
        "rollout": len(rows),
        "prompt": 2,
        "domain": 2,
    }
    for facet, expected in units.items():
        assert terms.price({facet: 1.0}, terms.counts(design)) == expected, facet
        found = gs.compare_designs(fit, [design], cost={facet: 1.0})
        assert [*found.costs.values()] == [expected], facet
    assert [*gs.compare_designs(fit, [design]).trials.values()] == [len(rows)]
    assert gs.best_design(fit, budget=45, bounds={"task": 5}).cost == 45


@pytest.mark.parametrize("design", [None, {"task": 5, "rollout": 3}])
def test_steps_are_priced_with_the_controlled_levels(design: Any) -> None:
    fit, rows = incomplete()
    found = gs.next_steps(fit, design, cost={"task": 10, "rollout": 1}).summary()
    assert found.loc["task: 5 to 10", "added_trials"] == pytest.approx(len(rows))
    assert found.loc["task: 5 to 10", "added_cost"] == pytest.approx(10 * 10 + len(rows))
    assert found.loc["rollout: 3 to 6", "added_cost"] == pytest.approx(len(rows))
    assert found.loc["task: 1 level", "added_trials"] == pytest.approx(3 * 3 - len(rows))
    single = gs.variance_budget(fit, {"task": 1, "rollout": 3}).variance.values
    step = gs.next_steps(fit, {"task": 5, "rollout": 3}).draws
    assert step.sel(step="task: 1 level", quantity="variance").values == pytest.approx(single)


def test_a_plan_counts_tasks_of_each_controlled_level() -> None:
    domain = gs.Facet("domain", role="controlled")
    study = study_of(domain, within("task", "domain"), within("rollout", "task"))
    rows = [
        {"domain": d, "task": t, "rollout": r, "score": (t + r) % 2}
        for d in "xyz"
        for t in range(10)
        for r in range(4)
    ]
    fit = fitted(study, rows, shape=(1, 20))
    plan = gs.plan_next(fit, target=0.07, bounds={"rollout": 4})
    assert plan.design is not None
    assert plan.before == pytest.approx({"task": 10, "rollout": 4})
    # The variance of what is planned is that of the design, and its trials are those of the list.
    width = gs.variance_budget(fit, plan.design).half_width().values.mean()
    assert float(plan.draws.sel(state="then").mean()) == pytest.approx(width, rel=1e-9)
    listed = gs.run_list(plan.design, pd.DataFrame(rows), study=study)
    assert len(listed.frame) == plan.added_trials


@pytest.mark.parametrize("price_", [1e308, 1e200, 5e-324, 1e-200])
def test_prices_that_cannot_be_added_up_are_refused(price_: float) -> None:
    with pytest.raises(QuantityError, match=r"those above it from 1e-100 to 1e\+100"):
        gs.Cost({"task": price_})
    vc = gs.assume(study_of("task"), {"task": 0.2}, mean=0.6)
    if price_ > 1:
        with pytest.raises(QuantityError, match=r"the budget is not usable.*up to 1e\+100"):
            gs.best_design(vc, budget=price_)
    for usable in (1e98, 1e-100):
        found = gs.best_design(vc, budget=40 * usable, cost={"task": usable})
        assert dict(found.design) == {"task": 40}
