"""Data and re-run noise of two systems' difference on shared tasks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from designs import study_of, within

import gstudy as gs
from gstudy.errors import QuantityError

if TYPE_CHECKING:
    from pathlib import Path

NANO, MINI = "openai/gpt-5-nano-2025-08-07", "openai/gpt-5.4-mini-2026-03-17"


def rows_of(rates: np.ndarray, rollouts: Any, seed: int, names: tuple[str, str]) -> pd.DataFrame:
    """0/1 rollouts of two systems; rates (n_tasks, 2), rollouts per task."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        [
            {
                "task": f"t{t}",
                "system": name,
                "rollout": r,
                "score": int(rng.random() < rates[t, s]),
            }
            for s, name in enumerate(names)
            for t in range(len(rates))
            for r in range(int(np.broadcast_to(rollouts, (len(rates), 2))[t, s]))
        ]
    )


def example(n: int = 30, rollouts: Any = 4, seed: int = 1) -> pd.DataFrame:
    rates = np.random.default_rng(seed + 100).random((n, 2))
    return rows_of(rates, rollouts, seed, ("old", "new"))


@pytest.mark.reference
def test_gpqa_as_published(oracle: Any, shared: Path) -> None:
    given = oracle("published")["wang_gpqa"]
    table = pd.read_csv(shared / "data" / "gpqa_diamond_epochs.csv.gz")
    study = study_of("task", within("rollout", "system", "task"), object="system")
    for found in (
        gs.paired_noise(table, NANO, MINI),
        gs.paired_noise(table, NANO, MINI, study=study),
    ):
        change = found.difference
        assert change.total == pytest.approx(given["var_diff_total"], abs=1e-12)
        assert change.data == pytest.approx(given["var_diff_data"], abs=1e-12)
        assert change.rerun == pytest.approx(given["var_diff_prediction"], abs=1e-12)
        frame = 100 * found.summary()[["se_one", "se_data", "se_rerun", "se_rollouts"]].loc["B - A"]
        assert frame.tolist() == pytest.approx(list(given["se_points"].values()), abs=5e-4)
        for key, expected in zip("AB", given["single"].values(), strict=True):
            one = found.splits[key]
            numbers = [one.mean, one.total, one.data, one.rerun]
            assert numbers == pytest.approx(list(expected.values()), abs=5.1e-6)
            assert one.total == pytest.approx(one.mean * (1 - one.mean), abs=1e-12)
        assert found.paired_p == pytest.approx(given["paired_p"], abs=5e-4)
        assert found.unpaired_p == pytest.approx(given["unpaired_p"], abs=5e-5)
        assert found.rollouts == 5
        assert len(found.tasks) == 198
        assert found.notes == ()


def test_the_difference_turns_with_the_baseline() -> None:
    table = example()
    one, other = gs.paired_noise(table, "old", "new"), gs.paired_noise(table, "new", "old")
    assert one.difference.mean == -other.difference.mean
    assert one.difference.data == pytest.approx(other.difference.data)
    assert one.paired_p == pytest.approx(other.paired_p)


def test_unequal_rollouts_are_unbiased() -> None:
    """Rates are fixed here: data noise is their variance, re-run noise the mean of p(1 - p)."""
    rng = np.random.default_rng(12)
    rates = rng.random((25, 2))
    rollouts = rng.integers(2, 6, (25, 2))
    truth_data = np.var(rates[:, 1] - rates[:, 0])
    truth_rerun = np.mean(np.sum(rates * (1 - rates), axis=1))
    found = [
        gs.paired_noise(rows_of(rates, rollouts, seed, ("a", "b")), "a", "b").difference
        for seed in range(250)
    ]
    for values, truth in (
        ([one.rerun for one in found], truth_rerun),
        ([one.data for one in found], truth_data),
    ):
        error = np.std(values) / math.sqrt(len(values))
        assert abs(np.mean(values) - truth) < 4 * error


def test_as_collected_is_the_plain_paired_standard_error() -> None:
    """Also with unequal rollouts; the formula with K says the same where they are equal."""
    for rollouts in (4, np.random.default_rng(3).integers(2, 6, (30, 2))):
        table = example(rollouts=rollouts)
        found = gs.paired_noise(table, "old", "new")
        means = table.pivot_table(index="task", columns="system", values="score")
        change = means["new"] - means["old"]
        row = found.summary().loc["B - A"]
        assert row["mean"] == pytest.approx(change.mean())
        assert row["se_rollouts"] == pytest.approx(change.std(ddof=0) / math.sqrt(30))
        z = change.mean() / (change.std(ddof=1) / math.sqrt(30))
        assert found.paired_p == pytest.approx(math.erfc(abs(z) / math.sqrt(2)))
    assert found.rollouts is None
    assert "SE collected" in str(found)
    assert "Tasks have 2 to 5 rollouts" in str(found)


def test_rollouts_may_be_asked_for() -> None:
    found = gs.paired_noise(example(), "old", "new", rollouts=16)
    change = found.difference
    expected = math.sqrt((change.data + change.rerun / 16) / 30)
    assert found.summary().loc["B - A", "se_rollouts"] == pytest.approx(expected)
    assert "SE 16 rollouts" in str(found)
    assert (
        "rollouts" not in str(gs.paired_noise(example(), "old", "new", rollouts=1)).split("\n")[3]
    )
    for wrong in (0, True, math.nan, "many"):
        with pytest.raises(QuantityError, match="rollouts is no number of them"):
            gs.paired_noise(example(), "old", "new", rollouts=wrong)


def test_counts_columns_and_studies_agree() -> None:
    table = example()
    found = gs.paired_noise(table, "old", "new").summary()
    counts = table.groupby(["system", "task"])["score"].agg(successes="sum", trials="count")
    counted = gs.paired_noise(counts.reset_index(), "old", "new").summary()
    pd.testing.assert_frame_equal(counted, found)
    names = {"task": "item [id]", "system": "model", "score": "passed"}
    named = table.rename(columns=names)
    how: Any = {"task": "item [id]", "system": "model", "score": "passed"}
    pd.testing.assert_frame_equal(gs.paired_noise(named, "old", "new", **how).summary(), found)
    study = gs.Study(
        score="passed",
        object="model",
        facets=[
            gs.Facet("question", role="legitimate", column="item [id]"),
            within("rollout", "model", "question"),
        ],
    )
    declared = gs.paired_noise(gs.read_trials(named, study), "old", "new", study=study)
    pd.testing.assert_frame_equal(declared.summary(), found)
    half = named.assign(passed=named["passed"] / 2)
    graded = gs.paired_noise(half, "old", "new", family="gaussian", **how)
    assert graded.difference.data == pytest.approx(found.loc["B - A", "data"] / 4)
    assert "%" not in str(graded)


def test_judge_calls_of_a_rollout_are_averaged_first() -> None:
    every = ("system", "task")
    study = study_of(
        "task",
        within("rollout", *every),
        within("call", *every, "rollout", role="error"),
        object="system",
        family="gaussian",
    )
    table = example(n=12)
    rng = np.random.default_rng(5)
    calls = pd.concat(
        [table.assign(call=c, score=table["score"] + rng.normal(size=len(table))) for c in "xyz"]
    )
    means = calls.groupby(["system", "task", "rollout"], as_index=False)["score"].mean()
    found = gs.paired_noise(calls, "old", "new", study=study).summary()
    averaged = gs.paired_noise(means, "old", "new", family="gaussian").summary()
    pd.testing.assert_frame_equal(found, averaged)


def test_tasks_that_are_left_out_are_named() -> None:
    table = example(n=12)
    gone = ((table["system"] == "new") & (table["task"] == "t3")) | (
        (table["system"] == "old") & (table["task"] == "t5") & (table["rollout"] > 0)
    )
    found = gs.paired_noise(table[~gone], "old", "new")
    same = gs.paired_noise(table[~table["task"].isin(["t3", "t5"])], "old", "new")
    pd.testing.assert_frame_equal(found.summary(), same.summary())
    assert len(found.tasks) == 10
    once = "Left out, 1 task level (one rollout only by A or B, so no variance within): t5."
    assert found.notes == (once, "Left out, 1 task level (not done by both): t3.")
    assert "of the mean of 10 tasks" in str(found)


def test_one_rollout_per_task_refuses_the_split() -> None:
    table = example(rollouts=1)
    with pytest.raises(
        QuantityError, match=r"data noise and re-run noise cannot be told apart.*30 d"
    ):
        gs.paired_noise(table, "old", "new")


def test_negative_data_noise_stays_negative() -> None:
    table = pd.DataFrame(
        [
            {"task": t, "system": s, "score": y}
            for t in range(6)
            for s in ("old", "new")
            for y in (0, 1)
        ]
    )
    found = gs.paired_noise(table, "old", "new")
    assert found.difference.data == pytest.approx(-0.5)
    assert "Negative data noise, left as computed: A, B, B - A." in str(found)
    assert math.isnan(found.summary().loc["B - A", "se_data"])
    assert math.isnan(found.paired_p)


def test_what_cannot_be_paired_is_refused() -> None:
    table = example(n=8)
    with pytest.raises(QuantityError, match=r"no system is called 'odl'.*Did you mean 'old'"):
        gs.paired_noise(table, "odl", "new")
    with pytest.raises(QuantityError, match="compared with itself"):
        gs.paired_noise(table, "old", "old")
    with pytest.raises(QuantityError, match="no facet is named 'task'"):
        gs.paired_noise(table.rename(columns={"task": "item"}), "old", "new")
    with pytest.raises(QuantityError, match="not known which facet's levels are the systems"):
        gs.paired_noise(table.rename(columns={"system": "model"}), "old", "new")
    with pytest.raises(QuantityError, match=r"no column 'scor'.*Did you mean 'score'"):
        gs.paired_noise(table, "old", "new", score="scor")
    with pytest.raises(QuantityError, match="the scores are not found"):
        gs.paired_noise([1], "old", "new", system="system", score="x")
    with pytest.raises(QuantityError, match="neither 0 nor 1"):
        gs.paired_noise(table.assign(score=0.5), "old", "new")
    study = study_of("task", within("rollout", "system", "task"), object="system")
    with pytest.raises(QuantityError, match="the study names the score"):
        gs.paired_noise(table, "old", "new", study=study, score="score")


def test_a_facet_within_tasks_that_is_no_rerun_is_refused() -> None:
    table = example(n=8)
    both = pd.concat([table.assign(env=e) for e in "xy"])
    study = study_of("task", "env", within("rollout", "system", "task", "env"), object="system")
    with pytest.raises(QuantityError, match=r"not clear which facet the tasks are.*'task', 'env'"):
        gs.paired_noise(both, "old", "new", study=study)
    with pytest.raises(QuantityError, match="'env' varies within 'task': its levels are no re-run"):
        gs.paired_noise(both, "old", "new", study=study, task="task")
    one = gs.paired_noise(both[both["env"] == "x"], "old", "new", study=study)
    same = gs.paired_noise(table, "old", "new")
    assert one.difference == same.difference


def test_tasks_of_one_system_alone_are_not_shared() -> None:
    study = study_of(within("task", "system"), within("rollout", "task"), object="system")
    with pytest.raises(QuantityError, match="'task' is nested in 'system': two systems share no"):
        gs.paired_noise(example(n=8), "old", "new", study=study, task="task")
    numbers: Any = (1, 2)
    named = gs.paired_noise(example(n=8).replace({"old": 1, "new": 2}), *numbers)
    assert (named.A, named.B) == ("1", "2")


def test_the_table_fits_80_columns() -> None:
    table = example().replace({"old": "a model with a very long name " * 2})
    text = str(gs.paired_noise(table, "a model with a very long name " * 2, "new"))
    assert max(map(len, text.splitlines())) <= 80
    assert "two-sided normal p: paired" in text
    assert "score scale" in text


def test_scores_that_do_not_vary_are_said_to_have_no_noise_here() -> None:
    table = pd.DataFrame(
        {"task": list("aabbcc") * 2, "system": ["old"] * 6 + ["new"] * 6, "score": [1] * 12}
    )
    notes = " ".join(gs.paired_noise(table, "old", "new").table().notes)
    assert "The scores of A and B do not vary: their noise is 0 here" in notes
    assert "Without any variance there is no p value." in notes
    table.loc[0, "score"] = 0
    notes = " ".join(gs.paired_noise(table, "old", "new").table().notes)
    assert "The scores of B do not vary" in notes
    assert "no p value" not in notes
