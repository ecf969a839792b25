"""Failed and unscored trials: refused, counted as incorrect, or dropped, and always said."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import gstudy as gs
from gstudy.errors import DataError


def study(**rest: Any) -> gs.Study:
    return gs.Study(
        **{
            "score": "ok",
            "object": "system",
            "facets": [
                gs.Facet("task", role="legitimate"),
                gs.Facet("run", role="legitimate", nested_in=["system", "task"]),
            ],
            **rest,
        }
    )


@pytest.fixture
def hundred() -> pd.DataFrame:
    """Two systems x 50 tasks; 80 passes, 10 fails, 10 failed runs (A: 7, B: 3)."""
    frame = pd.DataFrame(
        {"system": ["A"] * 50 + ["B"] * 50, "task": [*range(50)] * 2, "run": 1, "ok": 1.0}
    )
    frame["outcome"], frame["reason"] = "scored", ""
    frame.loc[[10, 11, 12, 13, 14, 60, 61, 62, 63, 64], "ok"] = 0.0
    failed = [0, 1, 2, 3, 4, 5, 6, 50, 51, 52]
    frame.loc[failed, ["ok", "outcome", "reason"]] = [np.nan, "failed", "timeout"]
    frame.loc[[0, 50], "reason"] = "sandbox"
    return frame


def rate(trials: gs.Trials, declared: gs.Study) -> float:
    usable = trials.usable(declared)
    return float(usable["successes"].sum() / usable["trials"].sum())


def test_failed_runs_are_refused_by_default(hundred: pd.DataFrame) -> None:
    message = (
        r"DataFrame: 10 of 100 rows \(A: 7, B: 3\) are failed runs, the first row 1 \(index 0\) "
        r"\(sandbox\); nothing says how they count\. Allowed: on_failed_run = \"incorrect\" "
        r"\(score 0: 80\.0% pass\) or \"drop\" \(88\.9% pass\).*in \[model\] of the study"
    )
    with pytest.raises(DataError, match=message):
        gs.read_trials(hundred, study())


@pytest.mark.parametrize(
    ("policy", "expected", "used", "note"),
    [
        (
            "incorrect",
            80 / 100,
            [50, 50],
            "timeout: 8, sandbox: 2) counted as incorrect (A: 7, B: 3)",
        ),
        ("drop", 80 / 90, [43, 47], "timeout: 8, sandbox: 2) dropped (A: 7, B: 3)"),
    ],
)
def test_both_answers_are_reproducible(
    hundred: pd.DataFrame, policy: str, expected: float, used: list[int], note: str
) -> None:
    declared = study(on_failed_run=policy)
    trials = gs.read_trials(hundred, declared)
    assert rate(trials, declared) == pytest.approx(expected, abs=1e-12)
    assert trials.counts.to_dict("list") == {
        "n_rows": [50, 50],
        "n_used": used,
        "n_failed": [7, 3],
        "n_unscored": [0, 0],
    }
    assert list(trials.counts.index) == ["A", "B"]
    assert trials.notes[0] == f"10 failed runs ({note}"
    assert trials.notes[0] in repr(trials)


def test_each_reason_has_its_policy(hundred: pd.DataFrame) -> None:
    declared = study(on_failed_run={"timeout": "incorrect", "sandbox": "drop"})
    trials = gs.read_trials(hundred, declared)
    assert rate(trials, declared) == pytest.approx(80 / 98, abs=1e-12)
    assert trials.notes == (
        "8 failed runs (timeout) counted as incorrect (A: 6, B: 2)",
        "2 failed runs (sandbox) dropped (A: 1, B: 1)",
        "1 task level has no trial left: 0",
    )


def test_reason_without_a_policy_is_refused(hundred: pd.DataFrame) -> None:
    with pytest.raises(
        DataError,
        match=r"row 1 \(index 0\): the run failed for a reason that on_failed_run does not name "
        r"\(2 such rows\)\. Given: 'sandbox'\. Allowed: timeout\. Add \"sandbox\" = \"incorrect\"",
    ):
        gs.read_trials(hundred, study(on_failed_run={"timeout": "drop"}))
    with pytest.raises(DataError, match=r"Given: ''.*Add \"\" = \"incorrect\""):
        gs.read_trials(hundred.drop(columns="reason"), study(on_failed_run={"timeout": "drop"}))


def test_one_reason_may_be_refused(hundred: pd.DataFrame) -> None:
    with pytest.raises(DataError, match=r"2 of 100 rows \(A: 1, B: 1\) are failed runs.*sandbox"):
        gs.read_trials(hundred, study(on_failed_run={"timeout": "drop", "sandbox": "raise"}))


def test_failed_run_without_a_reason_has_the_empty_one(hundred: pd.DataFrame) -> None:
    hundred["reason"] = [None, *hundred["reason"][1:]]
    declared = study(on_failed_run={"timeout": "incorrect", "sandbox": "drop", "": "drop"})
    trials = gs.read_trials(hundred, declared)
    assert trials.notes[1] == "2 failed runs (no reason: 1, sandbox: 1) dropped (A: 1, B: 1)"


def test_score_of_a_failed_run_is_ignored(hundred: pd.DataFrame) -> None:
    declared = study(on_failed_run="incorrect")
    without = gs.read_trials(hundred, declared)
    hundred["ok"] = hundred["ok"].astype(object)
    hundred.loc[hundred["outcome"] == "failed", "ok"] = "Error: out of memory"
    pd.testing.assert_frame_equal(gs.read_trials(hundred, declared).table, without.table)


def test_unscored_trials_are_refused_by_default(hundred: pd.DataFrame) -> None:
    with pytest.raises(
        DataError,
        match=r"DataFrame: 10 of 100 rows \(A: 7, B: 3\) were never scored, the first row 1 "
        r"\(index 0\)\. Allowed: on_missing_score = \"drop\"\. Score them, or write",
    ):
        gs.read_trials(hundred.drop(columns="outcome"), study())


def test_unscored_trials_are_dropped_never_counted_as_zero(hundred: pd.DataFrame) -> None:
    declared = study(on_missing_score="drop", on_failed_run="incorrect")
    trials = gs.read_trials(hundred.drop(columns="outcome"), declared)
    assert rate(trials, declared) == pytest.approx(80 / 90, abs=1e-12)
    assert trials.counts["n_unscored"].to_dict() == {"A": 7, "B": 3}
    assert trials.counts["n_failed"].sum() == 0
    assert trials.notes[0] == "10 rows never scored, dropped (A: 7, B: 3)"


def test_each_kind_is_counted_by_itself() -> None:
    frame = pd.DataFrame(
        {
            "system": "A",
            "task": range(6),
            "run": 1,
            "ok": [1, 0, np.nan, None, None, None],
            "outcome": ["scored", "", None, "unscored", "failed", "Failed "],
        }
    )
    trials = gs.read_trials(frame, study(on_failed_run="drop", on_missing_score="drop"))
    assert list(trials.table["outcome"]) == [
        *["scored", "scored", "unscored", "unscored", "failed", "failed"]
    ]
    assert trials.counts.loc["A"].to_dict() == {
        "n_rows": 6,
        "n_used": 2,
        "n_failed": 2,
        "n_unscored": 2,
    }


def test_levels_that_lose_all_their_trials_are_named(hundred: pd.DataFrame) -> None:
    trials = gs.read_trials(hundred, study(on_failed_run="drop"))
    # Tasks 0 to 2 failed for both systems; the runs of the others go with their one trial.
    assert trials.notes[1:] == ("3 task levels have no trial left: 0, 1, 2",)


def test_nested_level_that_loses_all_its_trials_is_named_with_its_parents() -> None:
    frame = pd.DataFrame(
        {"domain": ["x", "x", "y"], "task": ["1", "2", "1"], "run": 1, "ok": [1, 0, None]}
    )
    declared = gs.Study(
        score="ok",
        on_missing_score="drop",
        facets=[
            gs.Facet("domain", role="legitimate"),
            gs.Facet("task", role="legitimate", nested_in=["domain"]),
            gs.Facet("run", role="legitimate", nested_in=["task"]),
        ],
    )
    trials = gs.read_trials(frame, declared)
    assert trials.notes == (
        "1 row never scored, dropped",
        "1 domain level has no trial left: y",
        "1 task level has no trial left: y:1",
    )
    assert list(trials.counts.index) == ["all"]


def test_nothing_left_is_refused(hundred: pd.DataFrame) -> None:
    nothing = hundred.assign(ok=None, outcome="unscored")
    with pytest.raises(
        DataError,
        match=r"no trial of DataFrame can be used\. Given: '0 failed, 100 never scored'\. "
        r"Look at on_missing_score, and at why nothing was scored",
    ):
        gs.read_trials(nothing, study(on_missing_score="drop"))


def test_the_policies_that_left_nothing_are_named(hundred: pd.DataFrame) -> None:
    failed = hundred.assign(ok=None, outcome="failed")
    with pytest.raises(DataError, match=r"100 failed, 0 never scored'\. Look at on_failed_run\.$"):
        gs.read_trials(failed, study(on_failed_run="drop"))
    failed.loc[:9, "outcome"] = "unscored"
    with pytest.raises(DataError, match=r"Look at on_failed_run and on_missing_score, and at why"):
        gs.read_trials(failed, study(on_failed_run="drop", on_missing_score="drop"))


def test_many_systems_are_cut_in_messages() -> None:
    frame = pd.DataFrame({"system": range(20), "task": 1, "run": 1, "ok": [None] * 19 + [1]})
    with pytest.raises(DataError, match=r"\(0: 1, 1: 1, 2: 1, 3: 1, 4: 1 and 14 more\)"):
        gs.read_trials(frame, study())


WRONG = [
    (["scored", "win"], [1, 0], "row 2.*'outcome': this is no outcome. Given: 'win'.*rename it"),
    (["scored", 1], [1, 0], "this is no outcome. Given: 1. Allowed: scored, failed, unscored"),
    (
        ["scored", "scored"],
        [1, None],
        r"row 2.*the row is said to be 'scored', but there is no score \(1 such rows\)",
    ),
    (["unscored", "unscored"], [None, 1], "row 2.*said to be 'unscored', but there is a score"),
]


@pytest.mark.parametrize(("outcome", "score", "message"), WRONG)
def test_wrong_outcome_is_refused(outcome: list[Any], score: list[Any], message: str) -> None:
    frame = pd.DataFrame({"system": "A", "task": [1, 2], "run": 1, "ok": score, "outcome": outcome})
    with pytest.raises(DataError, match=message):
        gs.read_trials(frame, study(on_missing_score="drop"))


def test_outcome_and_reason_may_be_the_users_own_columns() -> None:
    frame = pd.DataFrame({"reason": ["a", "b"], "outcome": [1, 0]})
    declared = gs.Study(
        score="outcome", facets=[gs.Facet("topic", role="legitimate", column="reason")]
    )
    table = gs.read_trials(frame, declared).table
    assert list(table.columns) == ["topic", "score", "outcome", "reason"]
    assert table["outcome"].to_list() == ["scored", "scored"]
    assert table["reason"].to_list() == ["", ""]


def test_counts_follow_the_same_policies() -> None:
    frame = pd.DataFrame(
        {
            "task": ["a", "b", "c"],
            "k": [3, None, None],
            "n": [4, 4, None],
            "outcome": ["scored", "failed", ""],
        }
    )
    parts: dict[str, Any] = {
        "successes": "k",
        "trials": "n",
        "facets": [gs.Facet("task", role="legitimate")],
        "on_missing_score": "drop",
    }
    with pytest.raises(DataError, match=r"score 0: 37\.5% pass\) or \"drop\" \(75\.0% pass\)"):
        gs.read_trials(frame, gs.Study(**parts))
    incorrect = gs.Study(**parts, on_failed_run="incorrect")
    usable = gs.read_trials(frame, incorrect).usable(incorrect)
    assert usable.to_dict("list") == {"task": ["a", "b"], "successes": [3, 0], "trials": [4, 4]}
    dropped = gs.Study(**parts, on_failed_run="drop")
    assert gs.read_trials(frame, dropped).usable(dropped)["task"].to_list() == ["a"]
    uncounted = frame.assign(n=[4, None, None])
    assert len(gs.read_trials(uncounted, dropped).usable(dropped)) == 1
    with pytest.raises(DataError, match=r"row 2 \(index 1\): .* its number of trials is missing"):
        gs.read_trials(uncounted, incorrect)
