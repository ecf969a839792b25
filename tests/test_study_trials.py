"""Trials: one long table from every source, and what is refused before anything is fitted."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import gstudy as gs
from gstudy.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RUN = gs.Facet("run", role="legitimate", nested_in=["system", "task"], column="epoch")


def study(**rest: Any) -> gs.Study:
    facets = [gs.Facet("task", role="legitimate"), RUN]
    return gs.Study(**{"score": "ok", "object": "system", "facets": facets, **rest})


@pytest.fixture
def frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "junk": [[1], {}, None, "x", 1, 2, 3, 4],
            "epoch": [1, 2, 1, 2, 1, 2, 1, 2],
            "ok": [1, 0, 1, 1, 0, 0, 1, 0],
            "system": ["A", "A", "A", "A", "B", "B", "B", "B"],
            "task": [10, 10, 2, 2, 10, 10, 2, 2],
        }
    )


def test_table_has_facets_in_declared_order_then_scores(frame: pd.DataFrame) -> None:
    trials = gs.read_trials(frame, study())
    assert list(trials.table.columns) == ["system", "task", "run", "score", "outcome", "reason"]
    assert trials.table["task"].to_list() == ["10", "10", "2", "2"] * 2
    assert trials.table["score"].to_list() == [1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 0.0]
    assert set(trials.table["outcome"]) == {"scored"}
    assert (trials.source, trials.notes, len(trials)) == ("DataFrame", (), 8)
    assert repr(trials) == "Trials from DataFrame: 8 rows, 8 used"


def test_usable_counts_one_trial_per_score(frame: pd.DataFrame) -> None:
    usable = gs.read_trials(frame, study()).usable(study())
    assert list(usable.columns) == ["system", "task", "run", "successes", "trials"]
    assert usable["successes"].dtype == usable["trials"].dtype == np.int64
    assert usable["successes"].sum() == 4
    assert set(usable["trials"]) == {1}


KINDS: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "object": lambda frame: frame.astype(object),
    "str": lambda frame: frame.astype("str"),
    "category": lambda frame: frame.astype("category"),
    "Int64": lambda frame: frame.astype({"task": "Int64", "epoch": "Int64", "ok": "boolean"}),
    "float": lambda frame: frame.astype({"task": float, "epoch": "Float64", "ok": float}),
    "bool": lambda frame: frame.astype({"ok": bool}),
    "arrow": lambda frame: frame.astype(
        {
            "system": pd.ArrowDtype(pa.large_string()),
            "task": "int64[pyarrow]",
            "epoch": "uint8[pyarrow]",
            "ok": "bool[pyarrow]",
        }
    ),
    "unused categories": lambda frame: frame.assign(
        system=pd.Categorical(frame["system"], categories=["Z", "B", "A"])
    ),
    "other index": lambda frame: frame.set_index(pd.Index(list("hgfedcba"))),
    "other order of columns": lambda frame: frame[frame.columns[::-1]],
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_column_gives_the_same_table(frame: pd.DataFrame, kind: str) -> None:
    plain = gs.read_trials(frame, study())
    frame = frame.drop(columns="junk")
    other = gs.read_trials(KINDS[kind](frame), study())
    pd.testing.assert_frame_equal(other.table, plain.table)
    pd.testing.assert_frame_equal(other.counts, plain.counts)


@pytest.mark.parametrize("kind", ["Int64", "float", "str", "category", "arrow"])
def test_missing_scores_of_every_kind_are_unscored(frame: pd.DataFrame, kind: str) -> None:
    frame = frame.drop(columns="junk")
    typed = KINDS[kind](frame)
    typed["ok"] = typed["ok"].mask(frame["epoch"] == 2)
    trials = gs.read_trials(typed, study(on_missing_score="drop"))
    assert trials.table["score"].isna().to_list() == [False, True] * 4
    assert trials.counts["n_unscored"].to_dict() == {"A": 2, "B": 2}


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet", "t.jsonl", "t.jsonl.gz"])
def test_every_file_gives_the_same_table(frame: pd.DataFrame, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    frame = frame.drop(columns="junk")
    if ".csv" in name:
        frame.to_csv(path)
    elif ".jsonl" in name:
        frame.to_json(path, orient="records", lines=True)
    else:
        frame.to_parquet(path)
    trials = gs.read_trials(path, study())
    pd.testing.assert_frame_equal(trials.table, gs.read_trials(frame, study()).table)
    assert trials.source == str(path)
    pd.testing.assert_frame_equal(gs.read_trials(str(path), study()).table, trials.table)


def test_text_labels_of_a_file_stay_what_they_are(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("system,task,epoch,ok\nNone,007,NA,true\nnull,7,nan,FALSE\n")
    table = gs.read_trials(path, study()).table
    assert table["system"].to_list() == ["None", "null"]
    assert table["task"].to_list() == ["007", "7"]
    assert table["run"].to_list() == ["NA", "nan"]
    assert table["score"].to_list() == [1.0, 0.0]


def test_empty_label_of_a_file_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('system,task,epoch,ok\nA,"",1,1\nA,,2,1\nA,b,2,1\n')
    with pytest.raises(
        DataError, match=r"t\.csv, row 1, column 'task': the label is missing \(2 of 3 rows"
    ):
        gs.read_trials(path, study())


def test_frame_is_left_as_it_was(frame: pd.DataFrame) -> None:
    before = frame.copy(deep=True)
    gs.read_trials(frame, study())
    pd.testing.assert_frame_equal(frame, before)


# ---------------------------------------------------------------- the same trial twice


def test_duplicate_trials_are_refused_with_both_rows(frame: pd.DataFrame) -> None:
    twice = pd.concat([frame, frame], ignore_index=True)
    message = (
        r"DataFrame: row 1 \(index 0\) and row 9 \(index 8\) are the same trial, system 'A', "
        r"task '10', run '1' \(8 of 16 rows repeat an earlier one\)"
    )
    with pytest.raises(DataError, match=message):
        gs.read_trials(twice, study())


def test_rows_with_other_scores_or_outcomes_are_duplicates_too(frame: pd.DataFrame) -> None:
    retried = frame.assign(outcome="scored")
    retry = retried.iloc[[3]].assign(ok=None, outcome="failed")
    both = pd.concat([retried, retry], ignore_index=True)
    with pytest.raises(DataError, match=r"row 4 \(index 3\) and row 9 \(index 8\)"):
        gs.read_trials(both, study(on_failed_run="drop"))


def test_repeated_runs_without_a_facet_are_refused_with_the_mend(frame: pd.DataFrame) -> None:
    by_task = study(facets=[gs.Facet("task", role="legitimate")])
    with pytest.raises(DataError, match="declare the facet that tells them apart:\n") as caught:
        gs.read_trials(frame, by_task)
    lines = str(caught.value).splitlines()
    told = tomllib.loads("\n".join(lines[2:5]))
    assert told == {"facets": {"rollout": {"role": "legitimate", "nested_in": ["system", "task"]}}}
    assert "one row of counts, and declare successes and trials" in lines[-1]
    [numbering] = [line.strip() for line in lines if "cumcount" in line]
    assert numbering == 'df["rollout"] = df.groupby(["system", "task"]).cumcount()'
    mended = frame.assign(rollout=frame.groupby(["system", "task"]).cumcount())
    trials = gs.read_trials(
        mended,
        gs.Study.from_dict(
            told
            | {"score": "ok", "object": "system"}
            | {"facets": {"task": {"role": "legitimate"}, **told["facets"]}}
        ),
    )
    assert len(trials.table) == len(frame)
    rollout = gs.Facet("rollout", role="legitimate", nested_in=["system", "task"], column="epoch")
    facets = [gs.Facet("task", role="legitimate"), rollout]
    with pytest.raises(DataError, match=r"\n    \[facets\.repeat\]\n"):
        gs.read_trials(frame.assign(epoch=1), study(facets=facets))


def test_two_judges_with_one_name_are_duplicates() -> None:
    judged = pd.DataFrame({"task": ["a", "a"], "judge": ["qa", "qa"], "ok": [1, 0]})
    facets = [gs.Facet("task", role="legitimate"), gs.Facet("judge", role="error")]
    with pytest.raises(DataError, match=r"same trial, task 'a', judge 'qa'"):
        gs.read_trials(judged, gs.Study(score="ok", facets=facets))


def test_duplicate_counts_are_refused() -> None:
    counted = pd.DataFrame({"task": ["a", "b", "a"], "k": [1, 2, 1], "n": [4, 4, 4]})
    declared = gs.Study(
        successes="k",
        trials="n",
        facets=[
            gs.Facet("task", role="legitimate"),
            gs.Facet("run", role="legitimate", nested_in=["task"], column="n"),
        ],
    )
    with pytest.raises(DataError, match=r"row 1 .* and row 3 .*Add such rows up"):
        gs.read_trials(counted, declared)
    table = gs.read_trials(counted.iloc[:2], declared).table
    assert list(table.columns) == ["task", "successes", "trials", "outcome", "reason"]


# ---------------------------------------------------------------- faults, named with their place


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ok": [1, 0.37, *[1] * 6]}, r"row 2 \(index 1\), column 'ok': this is no score"),
        ({"task": ["a", *[1] * 7]}, "are the same trial"),
        ({"task": [1, "1", *"abcdef"]}, "two different values are one label, '1'"),
        ({"system": [None, *"ABCDEFG"]}, r"row 1 \(index 0\), column 'system': the label is miss"),
        ({"epoch": ["\x00", *"1234567"]}, "column 'epoch': the label holds NUL"),
    ],
)
def test_faults_name_row_and_column(
    frame: pd.DataFrame, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        gs.read_trials(frame.assign(**changes), study())


def test_column_of_a_facet_is_asked_for_by_its_key(frame: pd.DataFrame) -> None:
    with pytest.raises(DataError, match=r"no column 'epoch', which facets\.run asks for"):
        gs.read_trials(frame.drop(columns="epoch"), study())
    with pytest.raises(DataError, match=r"no column 'system', which facets\.system asks for"):
        gs.read_trials(frame.drop(columns="system"), study())


def test_mean_over_epochs_is_refused() -> None:
    reduced = pd.DataFrame({"task": ["a"], "ok": [0.4]})
    declared = gs.Study(score="ok", facets=[gs.Facet("task", role="legitimate")])
    with pytest.raises(DataError, match=r"one row per run \(unreduced epochs\)"):
        gs.read_trials(reduced, declared)


# ---------------------------------------------------------------- trials read already


def test_trials_can_be_read_under_another_policy(frame: pd.DataFrame) -> None:
    frame["ok"] = frame["ok"].astype(float).where(frame["task"] == 2)
    dropping = study(on_missing_score="drop")
    trials = gs.read_trials(frame, dropping)
    again = gs.read_trials(trials, dropping)
    pd.testing.assert_frame_equal(again.table, trials.table)
    pd.testing.assert_frame_equal(again.counts, trials.counts)
    with pytest.raises(DataError, match=r"4 of 8 rows .* were never scored"):
        gs.read_trials(trials, study())
    with pytest.raises(DataError, match=r"4 of 8 rows .* were never scored"):
        trials.usable(study())


def test_trials_of_another_study_are_refused(frame: pd.DataFrame) -> None:
    trials = gs.read_trials(frame, study())
    judged = study(
        facets=[gs.Facet("task", role="legitimate"), gs.Facet("judge", role="error"), RUN]
    )
    counted = study(score=None, successes="k", trials="n")
    for other, name in ((judged, "judge"), (counted, "successes")):
        with pytest.raises(DataError, match=f"were read without '{name}'.*gs.read_trials"):
            gs.read_trials(trials, other)
        with pytest.raises(DataError, match=f"were read without '{name}'"):
            trials.usable(other)
    fewer = study(facets=[gs.Facet("task", role="legitimate")])
    with pytest.raises(DataError, match="row 1 and row 2 are the same trial"):
        gs.read_trials(trials, fewer)


# ---------------------------------------------------------------- real records


@pytest.mark.parametrize(
    ("name", "rows", "systems"),
    [("metr_horizon_runs", 7059, None), ("gpqa_diamond_epochs", 1980, 2)],
)
def test_real_records_are_read(shared: Path, name: str, rows: int, systems: int | None) -> None:
    declared = study(
        score="score",
        facets=[
            gs.Facet("task", role="legitimate"),
            gs.Facet("rollout", role="legitimate", nested_in=["system", "task"]),
        ],
    )
    trials = gs.read_trials(shared / "data" / f"{name}.csv.gz", declared)
    assert len(trials) == trials.counts["n_used"].sum() == rows
    assert systems is None or len(trials.counts) == systems


@pytest.mark.parametrize("call", [gs.check, gs.fit, gs.build_model])
@pytest.mark.parametrize("study", [None, "study.toml", pd.DataFrame()])
def test_a_study_is_needed_first(call: Any, study: Any) -> None:
    with pytest.raises(gs.DeclarationError, match="a study is needed first"):
        call(study, pd.DataFrame({"task": ["a"], "passed": [1]}))


def test_a_check_of_another_study_is_refused() -> None:
    counts = gs.Study(successes="k", trials="n", facets=[gs.Facet("task", role="legitimate")])
    other = gs.Study(successes="k", trials="n", facets=[gs.Facet("task", role="error")])
    found = gs.check(counts, pd.DataFrame({"task": ["a", "b"], "k": [1, 2], "n": [3, 3]}))
    for call in (gs.fit, gs.build_model):
        with pytest.raises(gs.DeclarationError, match="the check is of another study"):
            call(other, found)
