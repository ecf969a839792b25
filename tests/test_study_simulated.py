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


# -------------------------------------------------------------- graded, controlled, own sds


def graded(**rest: Any) -> gs.Study:
    return study(family="gaussian", **rest)


def test_what_is_new_changes_no_table_of_before() -> None:
    table = gs.simulate(study(), SIZES, sd={"task": 1.0, "system": 2.0}, mu=0.2, seed=7)
    # One stream: effects of systems, of tasks, then a uniform number for each trial.
    rng = np.random.default_rng(7)
    systems, tasks = 2.0 * rng.standard_normal(3), rng.standard_normal(4)
    p = expit(0.2 + systems[:, None, None] + tasks[None, :, None] + np.zeros((3, 4, 2)))
    assert table["score"].tolist() == (rng.random(24) < p.ravel()).astype(int).tolist()
    same = gs.simulate(
        study(),
        SIZES,
        sd={"task": 1.0, "system": 2.0},
        mu=0.2,
        fixed={},
        correlation=0.0,
        seed=7,
    )
    assert same.equals(table)


def test_graded_scores_have_their_components() -> None:
    sizes = {"system": 2, "task": 3000, "run": 4}
    table = gs.simulate(graded(), sizes, sd={"task": 3.0}, mu=50.0, residual=2.0, seed=4)
    cells = table.groupby(["system", "task"])["score"]
    # Var within is chi-squared on 18,000 degrees of freedom.
    assert cells.var().mean() == pytest.approx(4.0, rel=5 * np.sqrt(2 / 18_000))
    means = table.groupby("task")["score"].mean()
    assert means.var() == pytest.approx(9.0 + 4.0 / 8, rel=5 * np.sqrt(2 / 3000))
    assert means.mean() == pytest.approx(50.0, abs=5 * np.sqrt(9.5 / 3000))
    found = checked(graded(), table)
    assert found.study.family == "gaussian"
    assert found.layout.balanced


def test_known_errors_stand_in_their_column() -> None:
    declared = study_of("task", family="gaussian", standard_error="se")
    table = gs.simulate(declared, {"task": 2000}, sd={"task": 1.0}, residual=0.5, seed=4)
    assert table["se"].tolist() == [0.5] * 2000
    assert table["score"].var() == pytest.approx(1.25, rel=5 * np.sqrt(2 / 2000))


def place_study(**rest: Any) -> gs.Study:
    return study_of(gs.Facet("place", role="controlled"), "task", within("run", "task"), **rest)


def test_controlled_levels_have_their_effects_and_labels() -> None:
    sizes = {"place": 2, "task": 50, "run": 40}
    effects = {"here": -1.0, "there": 1.5}
    table = gs.simulate(place_study(), sizes, sd={}, mu=0.2, fixed={"place": effects}, seed=3)
    rates = table.groupby("place")["score"].mean()
    assert list(rates.index) == ["here", "there"]
    for label, effect in effects.items():
        p = expit(0.2 + effect)
        assert rates[label] == pytest.approx(p, abs=4 * np.sqrt(p * (1 - p) / 2000))
    listed = gs.simulate(place_study(), sizes, sd={}, mu=0.2, fixed={"place": [-1.0, 1.5]}, seed=3)
    assert listed["score"].tolist() == table["score"].tolist()
    assert set(listed["place"]) == {"place1", "place2"}


def test_own_sds_and_correlations_are_those_of_each_system() -> None:
    nested = within("run", "system", "task")
    declared = study_of("task", nested, object="system", family="gaussian")
    sizes = {"system": 2, "task": 4000, "run": 2}
    sds = {"task": {"A": 1.0, "B": 3.0}, "run": {"B": 0.5, "A": 2.0}}
    table = gs.simulate(declared, sizes, sd=sds, correlation=0.6, residual=0.0, seed=5)
    runs = table.groupby(["system", "task"])["score"]
    means = runs.mean().unstack("system")
    tolerance = 5 * np.sqrt(2 / 4000)
    assert runs.var()["A"].mean() == pytest.approx(4.0, rel=tolerance)
    assert runs.var()["B"].mean() == pytest.approx(0.25, rel=tolerance)
    assert means["A"].var() == pytest.approx(1.0 + 4.0 / 2, rel=tolerance)
    assert means["B"].var() == pytest.approx(9.0 + 0.25 / 2, rel=tolerance)
    expected = 0.6 * 1.0 * 3.0 / np.sqrt(3.0 * 9.125)
    assert means.corr().loc["A", "B"] == pytest.approx(expected, abs=5 / np.sqrt(4000))
    matrix = [[1.0, 0.6], [0.6, 1.0]]
    again = gs.simulate(declared, sizes, sd=sds, correlation=matrix, residual=0.0, seed=5)
    assert again.equals(table)


KINDS: list[tuple[gs.Study, dict[str, Any], str]] = [
    (graded(), {}, "graded scores need the sd of a trial. Allowed: residual ="),
    (graded(), {"residual": -1.0}, "graded scores need the sd of a trial. Given: -1.0"),
    (
        graded(standard_error="se"),
        {"residual": 0.0},
        "graded scores need the sd.*above 0 where errors are known",
    ),
    (study(), {"residual": 1.0}, "a 0/1 score has no residual sd"),
    (study(), {"fixed": 3}, "fixed is no mapping. Given: 'int'"),
    (study(), {"fixed": {"taks": [1]}}, r"fixed names an unknown facet 'taks'.*mean 'task'\?"),
    (study(), {"fixed": {"run": [0, 1]}}, "fixed names an unknown facet 'run'"),
    (study(), {"fixed": {"task": [0.0, 1.0]}}, "fixed of 'task' does not give a number to each"),
    (study(), {"fixed": {"task": "abcd"}}, "does not give a number.*Allowed: 4 finite numbers"),
    (study(), {"fixed": {"task": {"a": 1.0}}}, "fixed names other levels of 'task'.*4 labels"),
    (study(), {"sd": {"task": {"A": 1.0}}}, "sd names other levels of 'system'.*3 labels"),
    (
        study(),
        {"sd": {"task": {"A": 1.0, "B": 1.0, "C": -1.0}}},
        "sd of 'task' is no sd.*numbers from 0 up",
    ),
    (
        study(),
        {"sd": {"task": dict.fromkeys("ABC", 1.0), "run": dict.fromkeys("ABD", 1.0)}},
        r"sd names other levels of 'system'.*\['A', 'B', 'D'\]",
    ),
    (study_of("task"), {"sd": {"task": {"A": 1.0}}}, "own sds, which a crossed object's levels"),
    (study(), {"correlation": 1.5}, "no correlation between the levels of the object"),
    (study(), {"correlation": -0.9}, r"no correlation.*negative one has a limit: -1/\(n - 1\)"),
    (study(), {"correlation": [[1.0, 0.5], [0.5, 1.0]]}, "or a matrix of 3 x 3"),
    (study(), {"correlation": np.full((3, 3), 0.5)}, "no correlation"),
    (study(), {"correlation": "high"}, "no correlation.*Given: 'high'"),
]


@pytest.mark.parametrize(("declared", "wrong", "message"), KINDS)
def test_settings_of_kinds_that_make_no_table(
    declared: gs.Study, wrong: dict[str, Any], message: str
) -> None:
    sizes = {name: SIZES[name] for name in declared.facet_names}
    with pytest.raises(QuantityError, match=message):
        gs.simulate(declared, sizes, **{"sd": {}, **wrong})


def test_a_correlation_without_own_sds_is_refused() -> None:
    study = gs.Study(score="passed", object="system", facets=[gs.Facet("task", role="legitimate")])
    with pytest.raises(gs.QuantityError, match="no component has own sds"):
        gs.simulate(study, {"system": 2, "task": 5}, sd={"task": 2.0}, correlation=0.9, seed=1)
