"""The task table: brute force over effects and cells, closed forms of the live tasks."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from handmade import LABELS, fit_by_hand, small_fit, small_study

import gstudy as gs
from gstudy.questions.tasks import FLAKY, TaskTable, live_tasks, task_table
from gstudy.study.estimable import assess as assess_design

TASK = gs.Facet("task", role="legitimate")
ROLLOUT = gs.Facet("rollout", role="legitimate", nested_in=["task"])


@pytest.fixture(scope="module")
def fit() -> gs.Fit:
    return small_fit()


@pytest.fixture(scope="module")
def found(fit: gs.Fit) -> TaskTable:
    return task_table(fit)


def rates(fit: gs.Fit, system: str) -> np.ndarray:
    """Pass rate per draw of one system on every task, (chain, draw, task), from the effects."""
    group = fit.posterior["posterior"].to_dataset()
    cells = fit.design.cells
    tasks = list(cells.labels["task"])
    eta = fit.mu[..., None] + fit.effects("task").sel(task=tasks).values
    eta = eta + group["u(system)"].sel(system=system).values[..., None]
    place = next(i for i, c in enumerate(cells.components) if c.name == "system:task")
    pairs = [tuple(row) for row in cells.levels[place].tolist()]
    code = cells.labels["system"].index(system)
    columns = [pairs.index((code, task)) for task in range(len(tasks))]
    eta = eta + fit.effects("system:task").values[..., columns]
    return 1 / (1 + np.exp(-eta))


def test_rates_are_those_of_the_effects_mean_over_systems(fit: gs.Fit, found: TaskTable) -> None:
    each = np.array([rates(fit, system) for system in ("A", "B:1", "C/2")])
    order = list(fit.design.cells.labels["task"])
    drawn = found.draws.sel(task=order).values
    np.testing.assert_allclose(drawn, each.mean(axis=0), rtol=1e-12)
    flaky = ((each > FLAKY[0]) & (each < FLAKY[1])).mean(axis=(0, 1, 2))
    np.testing.assert_allclose(found.observed.loc[order, "p_flaky"], flaky, rtol=1e-12)


def test_one_system_is_its_own(fit: gs.Fit) -> None:
    alone = task_table(fit, system="B:1")
    order = list(fit.design.cells.labels["task"])
    np.testing.assert_allclose(alone.draws.sel(task=order).values, rates(fit, "B:1"), rtol=1e-12)
    assert alone.systems == ("B:1",)
    assert (alone.observed["n_trials"] == 3).all()


def test_observed_rates_and_dead_tasks_are_those_of_the_trials(found: TaskTable) -> None:
    _, frame = small_study()
    by_task = frame.groupby("task")["passed"]
    assert found.observed["rate"].to_dict() == pytest.approx(by_task.mean().to_dict(), rel=1e-12)
    assert sorted(found.observed.index) == sorted(LABELS)
    assert found.n_dead == int(by_task.nunique().eq(1).sum())


def test_dead_is_for_all_systems_and_flaky_need_not_be_alive() -> None:
    study, frame = small_study()
    frame["passed"] = np.where(frame["task"] == "a:b", 1, frame["passed"])
    # All of one system pass, none of the others: no trial of the task is in doubt, yet it tells.
    frame["passed"] = np.where(frame["task"] == "a/b", frame["system"] == "A", frame["passed"])
    table = task_table(fit_by_hand(assess_design(study, frame))).observed
    assert bool(table.loc["a:b", "dead"])
    assert not table.loc["a/b", "dead"]


def test_tasks_that_some_systems_did_not_run_average_over_the_others() -> None:
    study, frame = small_study()
    part = frame[(frame["system"] == "A") | (frame["task"] != "a:b")]
    fit = fit_by_hand(assess_design(study, part))
    table = task_table(fit)
    assert table.observed.loc["a:b", "n_systems"] == 1
    alone = task_table(fit, system="A")
    np.testing.assert_allclose(
        table.draws.sel(task="a:b").values, alone.draws.sel(task="a:b").values, rtol=1e-12
    )


def test_each_system_has_its_own_tasks_whatever_their_labels() -> None:
    _, frame = small_study()
    own = gs.Facet("task", role="legitimate", nested_in=["system"])
    study = gs.Study(score="passed", object="system", facets=[own, ROLLOUT])
    assert study.redrawn_on_rerun() == {"rollout"}
    fit = fit_by_hand(assess_design(study, frame))
    table = task_table(fit)
    observed = table.observed
    pairs = frame.groupby(["system", "task"])["passed"]
    right = {tuple(key): value for key, value in pairs.mean().items()}
    names = {(s, t): name for name in observed.index for s, t in right if name == f"{s}:{t}"}
    # Colons in labels are escaped, so that names stay apart: those without one are looked at.
    assert len(observed) == len(right) == 24
    assert len(set(observed.index)) == 24
    assert len(names) == 12
    for key, name in names.items():
        assert observed.loc[name, "rate"] == pytest.approx(right[key], rel=1e-12)
    assert (observed["n_trials"] == 3).all()
    assert (observed["n_systems"] == 1).all()
    effects = fit.effects("system:task")
    cells = fit.design.cells
    place = next(i for i, c in enumerate(cells.components) if c.name == "system:task")
    pair = (cells.labels["system"].index("C/2"), cells.labels["task"].index("007"))
    column = [tuple(row) for row in cells.levels[place].tolist()].index(pair)
    eta = fit.mu + fit.effects("system").sel(system="C/2").values + effects.values[..., column]
    drawn = table.draws.sel(task="C/2:007").values
    np.testing.assert_allclose(drawn, 1 / (1 + np.exp(-eta)), rtol=1e-12)
    assert table.estimand == "pass rate of each task in the data"
    assert "mean over" not in str(table)
    assert len(task_table(fit, system="A").observed) == 8


@pytest.mark.parametrize(
    ("passed", "count"),
    [
        ([0.5, 0.5, 0.5, 0.0, 1.0], 3.0),
        ([0.2, 0.8, 0.2], 3.0),  # alike in p (1 - p)
        ([0.0, 1.0], 0.0),
        # w = .25, .09: (.34)^2 / (.0625 + .0081)
        ([0.5, 0.1], 0.34**2 / (0.0625 + 0.0081)),
    ],
)
def test_live_tasks_have_a_closed_form(passed: list[float], count: float) -> None:
    assert float(live_tasks(np.array(passed))) == pytest.approx(count, rel=1e-12, abs=1e-15)


def test_live_tasks_are_formed_per_draw(found: TaskTable) -> None:
    assert found.live is not None
    drawn = found.draws.values[2, 17]
    assert float(found.live[2, 17]) == pytest.approx(float(live_tasks(drawn)), rel=1e-12)


def test_summary_is_sorted_and_says_what_it_is(found: TaskTable) -> None:
    frame = found.summary(0.8)
    assert frame["mean"].is_monotonic_increasing
    assert frame.attrs["level"] == 0.8
    assert frame.attrs["scale"] == "score"
    drawn = found.draws.sel(task="a:b").values
    np.testing.assert_allclose(
        frame.loc["a:b", ["lower", "upper"]].astype(float), np.quantile(drawn, [0.1, 0.9])
    )
    text = str(found)
    assert "Effective number of live tasks" in text
    assert "score scale, 95% equal-tailed intervals" in text


def test_graded_tasks_are_dead_where_all_scores_are_one() -> None:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            "task": np.repeat(list("abcdef"), 4),
            "rollout": np.tile(range(4), 6),
            "score": np.round(rng.normal(size=24), 2),
        }
    )
    frame.loc[frame["task"] == "b", "score"] = 0.25
    study = gs.Study(score="score", family="gaussian", facets=[TASK, ROLLOUT])
    table = task_table(fit_by_hand(assess_design(study, frame)))
    assert table.observed["dead"].to_dict() == {key: key == "b" for key in "abcdef"}
    assert table.live is None
    assert "flaky" not in str(table)


def test_what_cannot_be_listed_is_named(fit: gs.Fit) -> None:
    with pytest.raises(gs.QuantityError, match="a table of tasks is of a fit"):
        task_table("run.nc")
    with pytest.raises(gs.QuantityError, match="no system is named 'B'"):
        task_table(fit, system="B")
    with pytest.raises(gs.QuantityError, match="'rollout' cannot be listed one by one"):
        task_table(fit, tasks="rollout")
    study = gs.Study(
        score="passed",
        object="system",
        facets=[gs.Facet("rollout", role="legitimate", nested_in=["system"])],
        interactions="none",
    )
    _, frame = small_study()
    frame["rollout"] = frame.groupby("system").cumcount()
    with pytest.raises(gs.QuantityError, match="a re-run keeps nothing"):
        task_table(fit_by_hand(assess_design(study, frame)))
