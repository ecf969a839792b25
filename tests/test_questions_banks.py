"""Scores over given levels: these tasks, finite banks, and what a score is the score of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from designs import checked, grid, study_of, within
from handmade import small_fit
from scipy.special import expit
from sources import fitted

import gstudy as gs
from gstudy.fits.fitted import Fit
from gstudy.questions.banks import (
    bank_mean,
    common_levels,
    group_means,
    kept_facets,
    new_level_mean,
    own_levels,
    task_facet,
)
from gstudy.questions.finite_banks import bank_levels, bank_text
from gstudy.variance.basis import latent_of
from gstudy.variance.kernel import logistic_mean


def effects_of(fit: Fit, name: str) -> dict[str, np.ndarray]:
    """Draws (chain, draw) of each level of a component."""
    effects = fit.effects(name)
    labels = [str(x) for x in effects.coords[name].values]
    return {label: effects.values[..., k] for k, label in enumerate(labels)}


def crossed_fit(rows: pd.DataFrame | None = None, **rest: Any) -> Fit:
    """Two systems x tasks x rollouts inside the residual."""
    table = grid({"system": "AB", "task": ["t0", "t1", "t2"], "rollout": range(2)})
    task = gs.Facet("task", role="legitimate", **rest)
    study = study_of(
        task, within("rollout", "system", "task"), object="system", interactions=["system:task"]
    )
    return fitted(study, table if rows is None else rows, shape=(2, 50))


def test_these_tasks_have_their_fitted_effects() -> None:
    fit = crossed_fit()
    levels = own_levels(fit, "B", kept_facets([fit]))
    assert levels.facets == ("task",)
    assert levels.labels == (("t0",), ("t1",), ("t2",))
    task, both = effects_of(fit, "task"), effects_of(fit, "system:task")
    own = fit.mu + effects_of(fit, "system")["B"]
    expected = np.mean([expit(own + task[t] + both[f"B:{t}"]) for t in task], axis=0)
    np.testing.assert_allclose(bank_mean(fit, "B", levels, 0), expected, rtol=1e-13)
    single = group_means(fit, "B", levels, np.eye(3), 0)
    np.testing.assert_allclose(single[..., 1], expit(own + task["t1"] + both["B:t1"]), rtol=1e-13)


def test_what_a_rerun_draws_anew_is_integrated_over() -> None:
    study = study_of(
        "task", within("rollout", "task"), gs.Facet("judge", role="error"), interactions="none"
    )
    fit = fitted(study, grid({"task": "ab", "rollout": "12", "judge": "xy"}), shape=(1, 20))
    levels = own_levels(fit, None, kept_facets([fit]))
    assert levels.facets == ("task", "judge")
    task, judge = effects_of(fit, "task"), effects_of(fit, "judge")
    left = fit.sd("task:rollout") ** 2
    expected = np.mean(
        [logistic_mean(fit.mu + task[t] + judge[j], left) for t in "ab" for j in "xy"], axis=0
    )
    np.testing.assert_allclose(bank_mean(fit, None, levels, 0), expected, atol=1e-12)


def test_levels_weigh_as_the_reported_score_does() -> None:
    rows = pd.DataFrame(
        [("A", "t0", r) for r in range(6)] + [("A", "t1", r) for r in range(2)]
        + [("B", "t1", r) for r in range(2)],
        columns=["system", "task", "rollout"],
    )  # fmt: skip
    rows["score"] = [1, 0] * 5
    facets = ["task", within("rollout", "system", "task")]
    pooled = fitted(study_of(*facets, object="system"), rows, shape=(1, 4))
    own = [own_levels(pooled, label, ("task",)) for label in "AB"]
    np.testing.assert_allclose(own[0].weights, [0.75, 0.25])
    common = common_levels(own)
    assert dict(zip(common.labels, common.weights, strict=True)) == {("t0",): 0.375, ("t1",): 0.625}
    by_task = fitted(study_of(*facets, object="system", average="task"), rows, shape=(1, 4))
    np.testing.assert_allclose(own_levels(by_task, "A", ("task",)).weights, [0.5, 0.5])


def test_a_task_that_a_system_did_not_run_is_drawn_anew_with_the_task_effect_known() -> None:
    table = grid({"system": "AB", "task": ["t0", "t1", "t2"], "rollout": range(2)})
    fit = fitted(
        crossed_fit().study,
        table[~((table["system"] == "A") & (table["task"] == "t2"))],
        shape=(4, 4000),
    )
    levels = own_levels(fit, "B", ("task",))
    found = group_means(fit, "A", levels, np.eye(3), 7)[..., 2]
    own = fit.mu + effects_of(fit, "system")["A"] + effects_of(fit, "task")["t2"]
    np.testing.assert_array_equal(found, group_means(fit, "A", levels, np.eye(3), 7)[..., 2])
    assert (found != group_means(fit, "A", levels, np.eye(3), 8)[..., 2]).all()
    # The logit is the known part plus a new effect with the sd of the component.
    z = (np.log(found / (1 - found)) - own) / fit.sd("system:task")
    n = z.size
    assert abs(z.mean()) < 4 / n**0.5
    assert z.std() == pytest.approx(1, abs=4 / (2 * n) ** 0.5)


def test_two_systems_of_a_fit_meet_the_same_new_tasks() -> None:
    study = study_of(
        gs.Facet("task", role="legitimate", varies="system", universe=40),
        within("rollout", "system", "task"),
        object="system",
    )
    fit = fitted(study, grid({"system": "AB", "task": range(3), "rollout": "12"}), shape=(2, 2000))
    levels = bank_levels(fit, latent_of(fit), "A")
    assert levels is not None
    assert len(levels.labels) == 40
    new = np.zeros((40, 1))
    new[20] = 1.0
    z = []
    for label in "AB":
        p = group_means(fit, label, levels, new, 3)[..., 0]
        own = fit.mu + effects_of(fit, "system")[label]
        z.append((np.log(p / (1 - p)) - own) / fit.own_sd("task", label))
    correlation = fit.correlation("task").values[..., 0, 1]
    assert (z[0] * z[1]).mean() == pytest.approx(correlation.mean(), abs=4 * 1.5 / 4000**0.5)


def test_a_bank_that_was_run_in_full_has_fitted_effects_only() -> None:
    fit = crossed_fit(universe=3)
    levels = bank_levels(fit, latent_of(fit), "A")
    assert levels is not None
    assert sorted(levels.labels) == [("t0",), ("t1",), ("t2",)]
    found = gs.score(fit)
    own = bank_mean(fit, "A", own_levels(fit, "A", ("task",)), 0)
    np.testing.assert_allclose(found.draws.sel(system="A"), own, rtol=1e-12)
    assert found.estimand == "pass rate over this bank of 3 tasks and new rollouts"
    assert "this bank" in found.table().frame
    assert found.table().title.endswith("interval of the pass rate over this bank of 3 tasks and "
                                        "new rollouts")  # fmt: skip


def test_the_larger_a_bank_the_closer_to_new_tasks() -> None:
    gaps = []
    for universe in (3, 30, 3000):
        fit = crossed_fit(universe=universe)
        latent = latent_of(fit).given("A")
        new = new_level_mean(latent)
        gaps.append(float(np.abs(gs.score(fit).draws.sel(system="A").values - new).max()))
    # 3,000 tasks with sd at most 1/2: the mean over them is within 4 sds of .5 / sqrt(3000).
    assert gaps[2] < 4 * 0.5 / 3000**0.5 < gaps[1] < gaps[0]


def test_a_bank_of_nested_tasks_counts_per_parent() -> None:
    study = study_of(
        gs.Facet("domain", role="legitimate", universe=3),
        gs.Facet("task", role="legitimate", nested_in=["domain"], universe=4),
        within("rollout", "domain", "task"),
    )
    fit = fitted(study, grid({"domain": "xy", "task": "12", "rollout": "ab"}), shape=(1, 10))
    levels = bank_levels(fit, latent_of(fit), None)
    assert levels is not None
    assert len(levels.labels) == 12
    assert ("x", "1") in levels.labels
    np.testing.assert_allclose(levels.weights, 1 / 12)
    assert bank_text(fit)[0] == "this bank of 3 domains x 4 tasks each"
    # Without the domains' universe new domains are drawn, and the bank is none.
    study = study_of(
        "domain",
        gs.Facet("task", role="legitimate", nested_in=["domain"], universe=4),
        within("rollout", "domain", "task"),
    )
    fit = fitted(study, grid({"domain": "xy", "task": "12", "rollout": "ab"}), shape=(1, 10))
    assert bank_levels(fit, latent_of(fit), None) is None
    assert gs.score(fit).estimand == "pass rate over new domains, new tasks and new rollouts"


def test_a_bank_beside_a_facet_without_one_integrates_over_that() -> None:
    study = study_of(
        gs.Facet("task", role="legitimate", universe=3), "env", interactions=["task:env"],
        score=None, successes="k", trials="n",
    )  # fmt: skip
    rows = grid({"task": "abc", "env": "xy"}).assign(k=1, n=3).drop(columns="score")
    fit = fitted(study, rows, shape=(1, 20))
    left = fit.sd("env") ** 2 + fit.sd("task:env") ** 2
    expected = np.mean(
        [logistic_mean(fit.mu + u, left) for u in effects_of(fit, "task").values()], axis=0
    )
    found = gs.score(fit)
    np.testing.assert_allclose(found.draws.values[..., 0], expected, atol=1e-12)
    assert found.estimand == "pass rate over this bank of 3 tasks and new envs"


def test_controlled_levels_are_averaged_on_the_score_scale() -> None:
    study = study_of(
        "task", gs.Facet("prompt", role="controlled"), within("rollout", "task", "prompt"),
        interactions="none",
    )  # fmt: skip
    fit = fitted(study, grid({"task": "abcde", "prompt": "pq", "rollout": "12"}), shape=(1, 20))
    fixed = fit.fixed("prompt").values
    left = fit.sd("task") ** 2
    expected = np.mean([logistic_mean(fit.mu + fixed[..., k], left) for k in (0, 1)], axis=0)
    np.testing.assert_allclose(gs.score(fit).draws.values[..., 0], expected, atol=1e-12)
    assert gs.score(fit).estimand == "pass rate over new tasks and new rollouts"
    task = effects_of(fit, "task")
    these = bank_mean(fit, None, own_levels(fit, None, kept_facets([fit])), 0)
    expected = np.mean(
        [expit(fit.mu + u + fixed[..., k]) for u in task.values() for k in (0, 1)], axis=0
    )
    np.testing.assert_allclose(these, expected, atol=1e-12)


@pytest.fixture(scope="module")
def airline() -> dict[str, gs.Fit]:
    study, trials = gs.example("airline")
    known = study.to_dict()
    known["facets"]["task"]["universe"] = 50
    how: dict[str, Any] = {"seed": 1, "sampler": "direct", "progress": False, "chains": 2}
    with pytest.warns(gs.EstimabilityWarning):
        return {
            "new tasks": gs.fit(study, trials, **how),
            "this bank": gs.fit(gs.Study.from_dict(known), trials, **how),
        }


def test_the_airline_bank_is_known_twice_as_well_as_new_tasks(airline: dict[str, gs.Fit]) -> None:
    half = {}
    for name, fit in airline.items():
        row = gs.score(fit).summary().iloc[0]
        half[name] = (row["upper"] - row["lower"]) / 2
    assert half["this bank"] == pytest.approx(0.053, abs=0.005)
    assert half["new tasks"] == pytest.approx(0.10, abs=0.01)
    table = gs.score(airline["this bank"]).table()
    assert "this bank of 50 tasks" in table.title


# ------------------------------------------------------------------------- averages and families


def ragged_counts(**rest: Any) -> Fit:
    """One task with 100 trials, three with 10: the first one passes nearly always."""
    study = study_of("task", score=None, successes="k", trials="n", **rest)
    table = pd.DataFrame({"task": list("abcd"), "k": [90, 1, 2, 1], "n": [100, 10, 10, 10]})
    return fitted(study, table, shape=(2, 20))


def test_the_observed_score_follows_the_declared_average() -> None:
    pooled, by_task = gs.score(ragged_counts()), gs.score(ragged_counts(average="task"))
    assert pooled.summary()["rate"].item() == pytest.approx(94 / 130)
    assert by_task.summary()["rate"].item() == pytest.approx((0.9 + 0.1 + 0.2 + 0.1) / 4)
    assert "observed pass rate (mean over trials)" in pooled.table().title
    assert "observed pass rate (mean of the task means)" in by_task.table().title
    assert any("spread unevenly" in note for note in pooled.notes)
    assert not any("spread unevenly" in note for note in by_task.notes)
    for found in (pooled, by_task):
        row = found.summary().iloc[0]
        assert row["naive_lower"] < row["rate"] < row["naive_upper"]


def test_pooled_and_task_means_are_both_right_for_their_question() -> None:
    fit = ragged_counts(average="task")
    pooled = ragged_counts()
    task = [expit(pooled.mu + u) for u in effects_of(pooled, "task").values()]
    by_trial = bank_mean(pooled, None, own_levels(pooled, None, ("task",)), 0)
    np.testing.assert_allclose(by_trial, np.average(task, axis=0, weights=[100, 10, 10, 10]))
    task = [expit(fit.mu + u) for u in effects_of(fit, "task").values()]
    by_task = bank_mean(fit, None, own_levels(fit, None, ("task",)), 0)
    np.testing.assert_allclose(by_task, np.mean(task, axis=0))


def test_a_macro_average_is_the_mean_of_the_domains() -> None:
    study = study_of(
        "domain", within("task", "domain"), score=None, successes="k", trials="n",
        average={"macro": "domain"},
    )  # fmt: skip
    table = pd.DataFrame(
        {"domain": list("xxxxyy"), "task": list("123412"), "k": [9, 8, 9, 8, 1, 3], "n": [10] * 6}
    )
    found = gs.score(fitted(study, table, shape=(1, 20)))
    assert found.summary()["rate"].item() == pytest.approx((34 / 40 + 4 / 20) / 2)
    assert "mean of the domain means" in found.table().title


def test_graded_scores_have_a_mean_and_a_normal_naive_interval() -> None:
    study = study_of("task", within("rollout", "task"), family="gaussian")
    table = grid({"task": "abcd", "rollout": "12"})
    table["score"] = [1.5, 2.5, -0.5, 0.25, 7.0, 6.5, 3.0, 3.5]
    fit = fitted(study, table, shape=(2, 20))
    found = gs.score(fit)
    row, scores = found.summary().iloc[0], table["score"].to_numpy()
    half = 1.959964 * scores.std(ddof=1) / 8**0.5
    assert row["rate"] == pytest.approx(scores.mean())
    assert row["naive_lower"] == pytest.approx(scores.mean() - half, rel=1e-6)
    assert row["naive_upper"] == pytest.approx(scores.mean() + half, rel=1e-6)
    np.testing.assert_allclose(found.draws.values[..., 0], fit.mu)
    assert found.estimand == "mean score over new tasks and new rollouts"
    text = str(found)
    assert "%" not in text.replace("95%", "")
    assert "mean +- z s / sqrt(n)" in text


def test_the_tasks_are_the_kept_legitimate_facet_with_most_levels() -> None:
    assert task_facet(small_fit()) == "task"
    study = study_of("env", "task", gs.Facet("judge", role="error"), interactions="none")
    rows = grid({"env": "xy", "task": "abc", "judge": range(9)})
    assert task_facet(fitted(study, rows, shape=(1, 4))) == "task"
    renamed = study_of("a", "z", gs.Facet("judge", role="error"), interactions="none")
    table = rows.rename(columns={"env": "z", "task": "a"})
    assert task_facet(fitted(renamed, table, shape=(1, 4))) == "a"
    alone = study_of(gs.Facet("judge", role="error"), score=None, successes="k", trials="n")
    counts = pd.DataFrame({"judge": list("abcd"), "k": [1, 2, 3, 1], "n": [4] * 4})
    assert checked(alone, counts).components
    assert task_facet(fitted(alone, counts, shape=(1, 4))) == "judge"
