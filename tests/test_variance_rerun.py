"""Re-run noise: what a re-run draws anew, what it keeps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from designs import checked, grid, study_of, within
from handmade import fit_by_hand, small_fit
from sources import logit_source, one

import gstudy as gs
from gstudy.variance.kernel import logistic_mean


def test_pinned_sets_give_nothing_and_the_others_what_they_give_the_budget() -> None:
    source = logit_source(
        {"task": 1.2, "judge": 0.6, "task:rollout": 0.9},
        0.4,
        facets=["task", "rollout", "judge"],
        nested={"rollout": ["task"]},
        roles={"judge": "error"},
    )
    design = {"task": 10, "rollout": 2, "judge": 2}
    parts = gs.variance_budget(source, design).summary()["mean"]
    moving = ["task:rollout", "task:rollout:judge", "residual"]
    noise = gs.rerun_noise(source, design)
    assert one(noise.draws) == pytest.approx(parts[moving].sum(), rel=1e-13)
    assert (noise.redrawn, noise.pinned) == (("rollout",), ("task", "judge"))


def test_what_is_nested_in_rollouts_is_drawn_with_them() -> None:
    study = study_of(
        "query",
        "version",
        within("rollout", "query", "version"),
        within("judge_call", "rollout", role="error"),
    )
    vc = gs.assume(
        study, {"query": 0.12, "version": 0.0016, "rollout": 0.06, "judge_call": 0.04}, mean=0.7
    )
    noise = gs.rerun_noise(vc, {"query": 200, "version": 1, "rollout": 1, "judge_call": 1})
    assert one(noise.draws) == pytest.approx(0.0005)
    assert noise.redrawn == ("rollout", "judge_call")
    assert one(noise.difference()) == pytest.approx(1.959964 * np.sqrt(0.001), rel=1e-6)
    assert "Two such scores differ by up to 6.2 points (95%)" in str(noise)


def test_rollouts_inside_the_residual_leave_the_noise_of_trials() -> None:
    fit = small_fit()
    for system in (None, "new"):
        noise = gs.rerun_noise(fit, system=system)
        residual = gs.variance_budget(fit, system=system).draws.sel(component="residual")
        np.testing.assert_allclose(noise.draws.values, residual.values, rtol=1e-14)


def test_counts_without_rollouts_say_that_only_chance_is_drawn_anew() -> None:
    study = study_of("task", score=None, successes="k", trials="n")
    source = gs.assume(study, {"task": 2.0}, mu=0.3, scale="logit")
    noise = gs.rerun_noise(source, {"task": 10, "trials": 4})
    mean = float(logistic_mean(0.3, 2.0))
    within_task = mean * (1 - mean) * (1 - one(gs.icc(source, "task").draws))
    assert one(noise.draws) == pytest.approx(within_task / 40, rel=1e-10)
    assert "Drawn anew: only the chance of each trial; the same task." in (
        " ".join(str(noise).split())
    )


def test_the_pinned_weights_are_those_of_the_data(oracle: Any) -> None:
    case = oracle("extra")["cases"]["pinned_tasks_unequal_weights"]
    source = logit_source(case["logit_sd"], case["mu"], facets=["task"])
    residual = gs.variance_components(source, scale="score").draws.sel(component="residual")
    variance = one(residual) / sum(case["trials_per_task"])
    assert variance == pytest.approx(case["variance_rerun"], abs=1e-8)
    assert abs(variance - case["WRONG_q_minus_1_over_N"]) > 1e-3


def test_the_study_may_name_its_rollout() -> None:
    study = study_of("task", within("seed", "task"), within("try_", "seed"), rollout="seed")
    source = gs.assume(study, {"task": 1.0, "seed": 0.5, "try_": 0.5}, mu=0.0, scale="logit")
    assert gs.rerun_noise(source, {"task": 5, "seed": 2, "try_": 2}).redrawn == ("seed", "try_")


def test_the_summary_is_in_score_units() -> None:
    noise = gs.rerun_noise(small_fit())
    frame = noise.summary()
    assert frame.index.tolist() == ["variance", "sd", "difference"]
    assert frame.attrs["scale"] == noise.scale == "score"
    assert frame.loc["sd", "mean"] == pytest.approx(float((noise.draws**0.5).mean()))
    assert "pt" in str(noise)


def test_what_cannot_be_told_from_rollouts_counts_and_is_said() -> None:
    study = study_of(
        "task", within("rollout", "system", "task"), gs.Facet("judge", role="error"),
        object="system", interactions=["system:task"],
    )  # fmt: skip
    levels = {"system": "AB", "task": "abcdef", "rollout": "1", "judge": "xyz"}
    noise = gs.rerun_noise(fit_by_hand(checked(study, grid(levels))))
    assert noise.inseparable == ("task",)
    told = "An upper bound: the data cannot tell task from what a re-run draws anew"
    assert told in " ".join(str(noise).split())
    assert gs.rerun_noise(small_fit()).bound == ""


def test_tasks_inside_the_residual_count_and_are_said() -> None:
    study = study_of("task", within("rollout", "task"), gs.Facet("judge", role="error"))
    table = grid({"task": range(12), "rollout": "1"}).assign(judge=["x", "y", "z"] * 4)
    assert gs.rerun_noise(fit_by_hand(checked(study, table))).inseparable == ("task",)


def test_two_pass_rates_differ_by_100_points_at_most() -> None:
    study = study_of("task", within("rollout", "task"))
    parts = {"task": 0.05, "residual": 0.2}
    few = gs.rerun_noise(gs.assume(study, parts, mean=0.5), {"task": 1, "rollout": 1})
    assert float(few.draws.max()) == pytest.approx(0.2)
    # 1.96 sqrt(2 x .2) is 1.24: a normal interval is wider than what rates can do.
    assert float(few.difference().max()) == 1.0
    assert "differ by up to 100.0 points" in few.table().text()
    budget = gs.variance_budget(
        gs.assume(study, {"task": 0.25}, mean=0.5), {"task": 1, "rollout": 1}
    )
    assert float(budget.half_width(0.99).max()) == 1.0
    graded = study_of("task", within("rollout", "task"), family="gaussian")
    wide = gs.rerun_noise(
        gs.assume(graded, {"task": 4.0, "residual": 9.0}, mean=3.0), {"task": 1, "rollout": 1}
    )
    assert float(wide.difference().max()) == pytest.approx(1.959964 * 18**0.5, rel=1e-6)


def test_small_distances_keep_a_digit() -> None:
    study = study_of("task", within("rollout", "task"))
    small = gs.assume(study, {"task": 1e-9, "residual": 1e-9}, mean=1e-9)
    design = {"task": 1000, "rollout": 10}
    assert "0.0 points" not in gs.rerun_noise(small, design).table().text()
    assert "0.0 points" not in gs.variance_budget(small, design).table().text()
    assert "0.0002 points" in gs.variance_budget(small, design).table().text()


def test_one_trial_of_each_system_and_task_holds_their_interaction() -> None:
    levels = {"system": "ABC", "task": "abcdefgh"}
    told = "An upper bound: the data cannot tell system:task from what a re-run draws anew"
    for facets in (["task"], ["task", within("rollout", "system", "task")]):
        study = study_of(*facets, object="system")
        table = grid(levels | ({"rollout": "1"} if len(facets) > 1 else {}))
        fit = fit_by_hand(checked(study, table))
        for system in (None, "new"):
            noise = gs.rerun_noise(fit, system=system)
            assert noise.inseparable == ("system:task",)
            assert told in " ".join(str(noise).split())
        notes = " ".join(gs.noises(fit).notes)
        assert "the data cannot tell system:task from what a re-run draws anew" in notes


def test_two_trials_of_each_system_and_task_tell_their_interaction() -> None:
    levels = {"system": "ABC", "task": "abcdefgh", "rollout": "12"}
    study = study_of("task", within("rollout", "system", "task"), object="system")
    fit = fit_by_hand(checked(study, grid(levels)))
    assert gs.rerun_noise(fit).bound == ""
    # Without a repeat in any cell it is told, of a study without an object too.
    study = study_of("task", gs.Facet("judge", role="error"))
    fit = fit_by_hand(checked(study, grid({"task": "abcdefgh", "judge": "xyz"})))
    assert gs.rerun_noise(fit).inseparable == ("task:judge",)
    assert (
        gs.rerun_noise(gs.assume(study, {"task": 0.1}, mean=0.5), {"task": 3, "judge": 1}).bound
        == ""
    )
