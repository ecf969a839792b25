"""Simulated trials: shape, truth, reproducibility, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from designs import checked, study_of, within
from scipy.special import expit

import gstudy as gs
from gstudy.errors import QuantityError

SIZES = {"system": 3, "task": 4, "run": 2}


def study(**rest: Any) -> gs.Study:
    return study_of("task", within("run", "system", "task"), object="system", **rest)


def counts_study(*, counted: bool) -> gs.Study:
    run = [gs.Facet("run", role="legitimate", column="n", nested_in=["task"])] if counted else []
    return gs.Study(successes="k", trials="n", facets=[gs.Facet("task", role="legitimate"), *run])


def test_every_combination_once_in_the_studys_own_columns() -> None:
    facets = [
        gs.Facet("task", role="legitimate", column="item"),
        gs.Facet("run", role="legitimate", nested_in=["system", "task"]),
    ]
    own = gs.Study(score="ok", object="system", facets=facets)
    table = gs.simulate(own, SIZES, sd={"task": 1.0}, seed=1)
    assert list(table.columns) == ["system", "item", "run", "ok"]
    assert len(table) == 24
    assert not table.duplicated(["system", "item", "run"]).any()
    assert set(table["run"]) == {"1", "2"}
    assert set(table["ok"]) <= {0, 1}
    found = checked(own, table)
    assert found.layout.balanced
    assert found.facet_levels == SIZES


def test_one_seed_is_one_table_whatever_the_order_of_sds() -> None:
    first = gs.simulate(study(), SIZES, sd={"task": 1.0, "system": 2.0}, seed=7)
    second = gs.simulate(study(), SIZES, sd={"system": 2.0, "task": 1.0}, seed=7)
    assert first.equals(second)
    assert not first.equals(gs.simulate(study(), SIZES, sd={"task": 1.0, "system": 2.0}, seed=8))


def test_renaming_facets_changes_no_score() -> None:
    other = study_of("a", within("Z", "m", "a"), object="m")
    first = gs.simulate(study(), SIZES, sd={"run": 1.0, "system:task": 2.0}, mu=0.3, seed=7)
    sizes = {"m": 3, "a": 4, "Z": 2}
    second = gs.simulate(other, sizes, sd={"Z": 1.0, "a:m": 2.0}, mu=0.3, seed=7)
    assert first["score"].tolist() == second["score"].tolist()


def test_rates_follow_mu_and_levels_follow_their_sd() -> None:
    sizes = {"system": 1, "task": 4000, "run": 40}
    table = gs.simulate(study(), sizes, sd={"task": 1.2}, mu=0.5, seed=3)
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    p = expit(0.5 + 1.2 * nodes)
    mean = (weights * p).sum() / weights.sum()
    variance = (weights * (p - mean) ** 2).sum() / weights.sum()
    rates = table.groupby("task")["score"].mean()
    # Variance of observed rates = Var(p) + E[p (1 - p)] / 40.
    expected = variance + (mean - mean**2 - variance) / 40
    assert table["score"].mean() == pytest.approx(mean, abs=4 * np.sqrt(variance / 4000))
    assert rates.var() == pytest.approx(expected, rel=4 * np.sqrt(2 / 4000))


def test_sets_without_an_sd_have_no_variance() -> None:
    sizes = {"system": 40, "task": 200, "run": 5}
    table = gs.simulate(study(), sizes, sd={"task": 2.0}, seed=5)
    rates = table.groupby("system")["score"].mean()
    noise = table["score"].var() / 1000
    assert rates.var() < noise * (1 + 4 * np.sqrt(2 / 39))


def test_counts_have_one_row_per_combination_of_labels() -> None:
    table = gs.simulate(
        counts_study(counted=True), {"task": 50, "run": 4}, sd={"task": 3.0, "run": 1.0}, seed=2
    )
    assert list(table.columns) == ["task", "k", "n"]
    assert table["n"].tolist() == [4] * 50
    assert table["k"].between(0, 4).all()
    assert table["k"].var() > 1.0
    assert checked(counts_study(counted=True), table).facet_levels == {"task": 50, "run": 4}


def test_counts_without_a_counted_facet_need_their_trials() -> None:
    own = counts_study(counted=False)
    table = gs.simulate(own, {"task": 5, "trials": 10}, sd={"task": 1.0}, seed=2)
    assert table["n"].tolist() == [10] * 5
    with pytest.raises(QuantityError, match="needs a number of levels of 'trials'"):
        gs.simulate(own, {"task": 5}, sd={"task": 1.0})


@pytest.mark.parametrize(
    ("design", "sd", "message"),
    [
        ({"system": 3, "task": 4}, {}, "needs a number of levels of 'run'.*from 1 up"),
        ({**SIZES, "run": 0}, {}, "needs a number of levels of 'run'. Given: 0"),
        ({**SIZES, "run": 2.5}, {}, "Given: 2.5"),
        ({**SIZES, "run": True}, {}, "Given: True"),
        ({**SIZES, "judge": 2}, {}, "the design names an unknown facet 'judge'"),
        (SIZES, {"taks": 1.0}, "unknown component 'taks'.*Did you mean 'task'"),
        (SIZES, {"task": -1.0}, "sd of 'task' is no sd. Given: -1.0"),
        (SIZES, {"task": float("nan")}, "sd of 'task' is no sd"),
        (SIZES, {"run": 1.0, "system:task:run": 1.0}, "sd names 'system:task:run' twice"),
    ],
)
def test_refusals(design: dict[str, Any], sd: dict[str, float], message: str) -> None:
    with pytest.raises(QuantityError, match=message):
        gs.simulate(study(), design, sd=sd)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"design": None}, "design is no mapping. Given: 'NoneType'"),
        ({"sd": 1.0}, "sd is no mapping. Given: 'float'"),
        ({"sd": {"task": "x"}}, "sd of 'task' is no sd. Given: 'x'"),
        ({"mu": float("nan")}, "mu is no number. Given: nan"),
        ({"mu": None}, "mu is no number"),
        ({"seed": -1}, "the seed is not usable. Given: -1"),
        ({"design": {**SIZES, "run": "a"}}, "levels of 'run'. Given: 'a'"),
        ({"design": {**SIZES, "run": float("inf")}}, "levels of 'run'. Given: inf"),
        ({"design": {**SIZES, "run": 10**9}}, "more than a table holds"),
    ],
)
def test_settings_that_make_no_table(wrong: dict[str, Any], message: str) -> None:
    settings = {"design": SIZES, "sd": {}, **wrong}
    with pytest.raises(QuantityError, match=message):
        gs.simulate(study(), settings.pop("design"), **settings)
