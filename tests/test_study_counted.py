"""Trials counted outside of memory: all that a check says is what it says of rows in memory."""

import numpy as np
import pandas as pd
import pytest

import gstudy as gs
from gstudy.errors import DataError
from gstudy.study import trials as trials_module
from gstudy.study.checking import verdicts
from gstudy.study.estimable import assess
from gstudy.study.reading import counted_rows, large_files

SUFFIXES = ("csv", "csv.gz", "parquet")


def study_of(**changes):
    facets = [
        gs.Facet("task", role="legitimate"),
        gs.Facet("rollout", role="legitimate", nested_in=["system", "task"]),
    ]
    return gs.Study(**{"score": "passed", "object": "system", "facets": facets} | changes)


def rows_of(seed=1, n_systems=4, n_tasks=12, most=5):
    """Ragged runs in random order: 0 to `most` rollouts of each system on each task."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, most + 1, n_systems * n_tasks)
    cell = np.repeat(np.arange(counts.size), counts)
    rollout = np.arange(cell.size) - np.repeat(np.cumsum(counts) - counts, counts)
    frame = pd.DataFrame(
        {
            "system": [f"s{i}" for i in cell // n_tasks],
            "task": cell % n_tasks,
            "rollout": rollout,
            "passed": rng.integers(0, 2, cell.size),
        }
    )
    return frame.sample(frac=1, random_state=seed, ignore_index=True)


def written(frame, path):
    if path.suffix == ".parquet":
        frame.to_parquet(path, index=False)
    else:
        frame.to_csv(path, index=False)
    return path


def without_counting_notes(notes):
    return tuple(note for note in notes if "order was not looked for" not in note)


def assert_same(path, study):
    """The check of counted trials against that of rows in memory."""
    plain = gs.read_trials(path, study, counted=False)
    counted = gs.read_trials(path, study, counted=True)
    assert counted.counted == "rollout"
    assert len(counted) == len(plain)
    pd.testing.assert_frame_equal(counted.counts, plain.counts)
    assert counted.failed_runs == pytest.approx(dict(plain.failed_runs))
    first, second = assess(study, plain), assess(study, counted)
    if first.cells.graded is None:
        assert second.cells.digest() == first.cells.digest()
    assert second.rows == first.rows
    assert second.components == first.components
    assert second.rules == first.rules
    assert second.layout == first.layout
    drift = [note for note in first.notes if "drifts over rollout order" in note]
    assert [n for n in first.notes if n not in drift] == list(without_counting_notes(second.notes))
    assert second.n_trials == first.n_trials
    assert second.not_sampled == first.not_sampled
    assert second.facet_levels == first.facet_levels
    assert str(second.universe_table()) == str(first.universe_table())
    return first, second


def error_of(path, study, **settings):
    with pytest.raises(DataError) as error:
        gs.read_trials(path, study, **settings)
    return str(error.value)


def assert_same_error(path, study):
    told = error_of(path, study, counted=False)
    assert error_of(path, study, counted=True) == told
    return told


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_ragged_runs(tmp_path, suffix, seed):
    assert_same(written(rows_of(seed), tmp_path / f"runs.{suffix}"), study_of())


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_balanced_runs(tmp_path, suffix):
    grid = pd.MultiIndex.from_product(
        [["b", "a"], ["t10", "t9", "t1"], range(4)], names=["system", "task", "rollout"]
    )
    frame = grid.to_frame(index=False).assign(passed=np.arange(24) % 3 == 0)
    first, _ = assert_same(written(frame, tmp_path / f"runs.{suffix}"), study_of())
    assert first.layout.balanced


@pytest.mark.parametrize("policy", ["incorrect", "drop", {"timeout": "drop", "": "incorrect"}])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_failed_and_unscored_runs(tmp_path, suffix, policy):
    frame = rows_of(4)
    said = np.array(["", "failed", "scored"], dtype=object)[np.arange(len(frame)) % 3]
    frame["outcome"] = said
    frame["reason"] = np.where(np.arange(len(frame)) % 2 == 0, "timeout", "")
    frame["passed"] = frame["passed"].astype(object).where(said != "failed", None)
    frame["passed"] = frame["passed"].astype("Int64")
    frame.loc[frame.index[::7], ["passed", "outcome"]] = [pd.NA, ""]
    study = study_of(on_failed_run=policy, on_missing_score="drop")
    assert_same(written(frame, tmp_path / f"runs.{suffix}"), study)


def test_a_system_that_lost_all(tmp_path):
    frame = rows_of(5)
    frame["passed"] = frame["passed"].astype("Int64")
    frame.loc[frame["task"] == 3, "passed"] = pd.NA
    study = study_of(on_missing_score="drop")
    _, second = assert_same(written(frame, tmp_path / "runs.parquet"), study)
    assert any("1 task level has no trial left: 3" in note for note in second.notes)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_odd_labels(tmp_path, suffix):
    frame = rows_of(6)
    names = [
        "None",
        "007",
        "NA",
        "a:b",
        "it's",
        'say "x"',
        "Zoë",
        "x,y",
        "tab\there",
        "7",
        "é",
        "*",
    ]
    frame["task"] = [names[i] for i in frame["task"]]
    frame["rollout"] = [f"run {i}" for i in frame["rollout"]]
    _, second = assert_same(written(frame, tmp_path / f"runs.{suffix}"), study_of())
    assert set(second.cells.labels["task"]) <= set(names)


@pytest.mark.parametrize(
    "kind", ["int8", "int32", "uint16", "float64", "bool", "category", "string"]
)
def test_typed_columns(tmp_path, kind):
    frame = rows_of(7, n_tasks=2, most=9).drop_duplicates(["system", "task", "rollout"])
    frame["task"] = frame["task"].astype(kind)
    frame["passed"] = frame["passed"].astype(bool)
    assert_same(written(frame, tmp_path / "runs.parquet"), study_of())


@pytest.mark.parametrize(
    "spelling", [("TRUE", "False"), ("1.0", "0"), ("1e0", " 0 "), ("+1", "-0")]
)
def test_spellings_of_scores(tmp_path, spelling):
    frame = rows_of(8)
    frame["passed"] = np.where(frame["passed"] == 1, *spelling)
    frame.loc[::9, "passed"] = "N/A"
    assert_same(written(frame, tmp_path / "runs.csv"), study_of(on_missing_score="drop"))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_facets_of_other_columns_and_a_judge_inside(tmp_path, suffix):
    frame = rows_of(9).rename(columns={"task": "Task name", "rollout": 'run "no"'})
    frame = frame.loc[frame.index.repeat(2)].reset_index(drop=True)
    frame["call"] = np.arange(len(frame)) % 2
    facets = [
        gs.Facet("task", role="legitimate", column="Task name"),
        gs.Facet("run", role="legitimate", column='run "no"', nested_in=["system", "task"]),
        gs.Facet("rollout", role="error", column="call", nested_in=["run"]),
    ]
    first, _ = assert_same(
        written(frame, tmp_path / f"runs.{suffix}"), study_of(facets=facets, rollout="run")
    )
    assert first.component("run").n_levels == len(frame) // 2


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_graded_scores(tmp_path, suffix):
    frame = rows_of(10, most=8)
    rng = np.random.default_rng(2)
    frame["passed"] = rng.normal(1e6, 3.0, len(frame)).astype(object)
    frame.loc[::11, "passed"] = None
    frame["outcome"] = np.where(np.arange(len(frame)) % 13 == 1, "failed", "")
    study = study_of(family="gaussian", on_failed_run="drop", on_missing_score="drop")
    path = written(frame.astype({"passed": float}), tmp_path / f"runs.{suffix}")
    plain, counted = gs.read_trials(path, study), gs.read_trials(path, study, counted=True)
    first, second = assess(study, plain), assess(study, counted)
    assert second.cells.codes.tolist() == first.cells.codes.tolist()
    assert second.cells.trials.tolist() == first.cells.trials.tolist()
    np.testing.assert_allclose(second.cells.successes, first.cells.successes, rtol=1e-14)
    np.testing.assert_allclose(second.cells.graded.mean, first.cells.graded.mean, rtol=1e-14)
    # Squares of deviations of 3 about a mean of 1e6: rounding of 1e-10 in each deviation.
    np.testing.assert_allclose(second.cells.graded.squares, first.cells.graded.squares, atol=1e-7)
    assert second.score_scale == pytest.approx(first.score_scale, rel=1e-10)
    assert second.score_mean == pytest.approx(first.score_mean, rel=1e-14)
    pd.testing.assert_frame_equal(counted.counts, plain.counts)
    assert [r.verdict for r in second.rows] == [r.verdict for r in first.rows]


def test_columns_called_as_ours(tmp_path):
    names = {"system": "odd", "task": "value", "rollout": "mean", "passed": "squares"}
    frame = rows_of(24).rename(columns=names).assign(rows=1, first=2)
    path = written(frame, tmp_path / "runs.parquet")
    facets = [
        gs.Facet("system", role="object", column="odd"),
        gs.Facet("task", role="legitimate", column="value"),
        gs.Facet("rollout", role="legitimate", column="mean", nested_in=["system", "task"]),
    ]
    for family in ("binary", "gaussian"):
        study = study_of(score="squares", facets=facets, family=family)
        first, second = (
            assess(study, gs.read_trials(path, study, counted=counted)) for counted in (False, True)
        )
        assert second.cells.successes.tolist() == first.cells.successes.tolist()
        assert second.cells.trials.tolist() == first.cells.trials.tolist()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_whole_graded_scores_are_told(tmp_path, suffix):
    path = written(rows_of(11), tmp_path / f"runs.{suffix}")
    study = study_of(family="gaussian")
    for counted in (False, True):
        notes = assess(study, gs.read_trials(path, study, counted=counted)).notes
        assert sum("every score is 0 or 1" in note for note in notes) == 1


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("passed", "0.5", "this is no score"),
        ("passed", "yes", "this is no score"),
        ("passed", "", "were never scored"),
        ("task", " ", "the label is missing"),
        ("rollout", "", "the label is missing"),
        ("task", "t1 ", "two labels look alike"),
        ("system", "s\x00", "NUL"),
        ("outcome", "broken", "this is no outcome"),
        ("outcome", "failed", "nothing says how they count"),
        ("outcome", "unscored", "but there is a score"),
    ],
)
def test_errors_say_the_same(tmp_path, suffix, column, value, message):
    frame = rows_of(12).astype(str).assign(outcome="scored")
    frame["task"] = "t" + frame["task"]
    frame.loc[[17, 30], column] = value
    if (column, value) == ("passed", ""):
        frame = frame.drop(columns="outcome")
    path = written(frame, tmp_path / f"runs.{suffix}")
    told = assert_same_error(path, study_of())
    # A CSV with NUL is taken for no text.
    assert message in told or (message == "NUL" and "binary" in told)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("label", ["number", "text", "many"])
def test_duplicates_are_found_exactly(tmp_path, suffix, label, monkeypatch):
    frame = rows_of(13)
    if label != "number":
        frame["rollout"] = [f"r{i}" for i in frame["rollout"]]
    if label == "many":
        monkeypatch.setattr(counted_rows, "_MOST_BITS", 1)
    path = written(frame, tmp_path / f"once.{suffix}")
    gs.read_trials(path, study_of(), counted=True)
    frame = pd.concat([frame, frame.iloc[[40, 5, 5]]], ignore_index=True)
    path = written(frame, tmp_path / f"runs.{suffix}")
    told = assert_same_error(path, study_of())
    assert f"row 41 and row {len(frame) - 2} are the same trial" in told
    assert "3 of" in told
    found = gs.read_trials(path, study_of(), counted=True, duplicates=False)
    assert any("were not looked for" in note for note in found.notes)
    assert len(found) == len(frame)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"system,task,rollout,passed\na,1,1,1\na,1,2\n", "row 2 has 3 values"),
        (b"system,task,rollout,passed\na,1,1,1\na,\xff,2,1\n", "row 2, column 'task' is not UTF-8"),
        (b'system,task,rollout,passed\na,1,1,1\na,"2,2,1\n', "a double quote is not closed"),
        (b"system,task,rollout,passed\n", "has no rows"),
        (b"system,task,passed\na,1,1\n", "has no column 'rollout'"),
        (b"", "is empty"),
    ],
)
def test_broken_csv_says_the_same(tmp_path, text, message):
    path = tmp_path / "runs.csv"
    path.write_bytes(text)
    assert message in assert_same_error(path, study_of())


def test_a_damaged_gzip_says_the_same(tmp_path):
    path = written(rows_of(22), tmp_path / "runs.csv.gz")
    path.write_bytes(path.read_bytes()[:-20])
    assert "cannot be read" in assert_same_error(path, study_of())


@pytest.mark.parametrize(("label", "fault"), [("", "is missing"), ("r\x00", "holds NUL")])
def test_labels_of_too_many_rollouts(tmp_path, monkeypatch, label, fault):
    frame = rows_of(23)
    frame["rollout"] = [f"run {i}" for i in range(len(frame))]
    monkeypatch.setattr(trials_module, "_MOST_LABELS", 3)
    path = written(frame, tmp_path / "runs.parquet")
    assert len(gs.read_trials(path, study_of(), counted=True)) == len(frame)
    frame.loc[[7, 9], "rollout"] = label
    path = written(frame, tmp_path / "runs.parquet")
    told = error_of(path, study_of(), counted=True)
    assert "row 8, column 'rollout'" in told
    assert fault in told


def test_odd_csv_reads_the_same(tmp_path):
    path = tmp_path / "runs.csv"
    path.write_bytes(
        b'\xef\xbb\xbf\n\nsystem,task,rollout,passed\r\n"a\nb", "x",1,1\n\na,"1""2",1,0\r\n"",,,\n'[
            :-7
        ]
    )
    plain = gs.read_trials(path, study_of(), counted=False)
    counted = gs.read_trials(path, study_of(), counted=True)
    assert counted.table["task"].tolist() == plain.table["task"].tolist() == [' "x"', '1"2']
    assert counted.table["system"].tolist() == plain.table["system"].tolist() == ["a\nb", "a"]


def test_a_binary_column_of_many_numbers(tmp_path, monkeypatch):
    frame = rows_of(14)
    frame["passed"] = np.linspace(0, 1, len(frame))
    path = written(frame, tmp_path / "runs.parquet")
    monkeypatch.setattr(trials_module, "_MOST_SCORES", 3)
    assert "row 2, column 'passed': this is no score" in error_of(path, study_of(), counted=True)


def test_large_files_are_counted_by_themselves(tmp_path, monkeypatch):
    path = written(rows_of(15), tmp_path / "runs.parquet")
    assert gs.read_trials(path, study_of()).counted is None
    monkeypatch.setattr(large_files, "MANY_ROWS", 10)
    assert gs.read_trials(path, study_of()).counted == "rollout"
    assert assess(study_of(), path).n_trials == len(rows_of(15))
    assert gs.read_trials(path, study_of(), counted=False).counted is None
    # Without a facet that only repeats trials there is nothing to count.
    crossed = study_of(facets=[gs.Facet(f, role="legitimate") for f in ("task", "rollout")])
    assert gs.read_trials(path, crossed).counted is None


def test_what_cannot_be_counted_says_so(tmp_path):
    frame = rows_of(16)
    path = written(frame, tmp_path / "runs.parquet")
    crossed = study_of(facets=[gs.Facet(f, role="legitimate") for f in ("task", "rollout")])
    assert "no facet that could be counted" in error_of(path, crossed, counted=True)
    assert "only a file is counted" in error_of(frame, study_of(), counted=True)
    odd = written(frame, tmp_path / "runs[1].parquet")
    assert "its path holds one of" in error_of(odd, study_of(), counted=True)
    dated = frame.assign(task=pd.Timestamp("2026-01-01") + pd.to_timedelta(frame["task"], "D"))
    dated = written(dated, tmp_path / "dated.parquet")
    assert "column 'task' is timestamp" in error_of(dated, study_of(), counted=True)
    twice = written(frame.assign(Task=1), tmp_path / "twice.parquet")
    assert "upper and lower case" in error_of(twice, study_of(), counted=True)
    frame.to_json(tmp_path / "runs.jsonl", orient="records", lines=True)
    assert "no Parquet or CSV" in error_of(tmp_path / "runs.jsonl", study_of(), counted=True)
    assert "no file" in error_of(tmp_path / "none.csv", study_of(), counted=True)
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 and no more")
    assert "no Parquet file" in error_of(tmp_path / "bad.parquet", study_of(), counted=True)


def test_what_needs_single_trials_says_so(tmp_path):
    path = written(rows_of(17), tmp_path / "runs.parquet")
    counted = gs.read_trials(path, study_of(), counted=True)
    for ask in (
        lambda: gs.anova_icc(counted, facet="task", by="system"),
        lambda: gs.fit_by(study_of(), counted, by="rollout"),
        lambda: gs.check(study_of(keep=["rollout"]), counted),
    ):
        with pytest.raises(DataError, match="counted without their rollout"):
            ask()


def test_counted_trials_are_checked_again(tmp_path):
    frame = rows_of(26).assign(outcome="")
    frame["passed"] = frame["passed"].astype("Int64")
    frame.loc[::5, ["passed", "outcome"]] = [pd.NA, "failed"]
    path = written(frame, tmp_path / "runs.parquet")
    counted = gs.read_trials(path, study_of(on_failed_run="drop"), counted=True)
    for changes in (
        {"on_failed_run": "incorrect"},
        {"on_failed_run": "drop", "family": "gaussian"},
    ):
        study = study_of(**changes)
        again, plain = (gs.read_trials(trials, study) for trials in (counted, path))
        assert without_counting_notes(again.notes) == plain.notes
        assert len(again.notes) == len(plain.notes) + 1
        first, second = assess(study, plain), assess(study, again)
        assert second.cells.successes.tolist() == first.cells.successes.tolist()
        assert second.cells.trials.tolist() == first.cells.trials.tolist()


def test_parts_of_counted_trials(tmp_path):
    from gstudy.study.parts import split_by

    path = written(rows_of(18), tmp_path / "runs.csv")
    plain = split_by(study_of(), gs.read_trials(path, study_of()), "system")[1]
    counted = split_by(study_of(), gs.read_trials(path, study_of(), counted=True), "system")[1]
    for one, other in zip(plain, counted, strict=True):
        assert one.label == other.label
        first, second = assess(one.study, one.trials), assess(other.study, other.trials)
        assert second.cells.digest() == first.cells.digest()
        assert second.rows == first.rows


def test_a_counted_file_is_repr_like_another(tmp_path):
    path = written(rows_of(19), tmp_path / "runs.csv")
    counted = gs.read_trials(path, study_of(), counted=True)
    assert repr(counted).startswith(f"Trials from runs.csv: {len(rows_of(19)):,} rows")


def test_a_large_file_without_duckdb_says_what_would_help(tmp_path, monkeypatch):
    path = written(rows_of(25), tmp_path / "runs.csv")
    monkeypatch.setattr(large_files, "MANY_BYTES", 10)
    monkeypatch.setattr(large_files, "has_duckdb", lambda: False)
    found = gs.read_trials(path, study_of())
    assert found.counted is None
    assert any("pip install 'gstudy[large]'" in note for note in found.notes)
    assert not gs.read_trials(path, study_of(), counted=False).notes


def test_duckdb_is_asked_for_by_name(tmp_path, monkeypatch):
    import sys

    path = written(rows_of(20), tmp_path / "runs.csv")
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert "pip install 'gstudy[large]'" in error_of(path, study_of(), counted=True)


def test_verdict_of_counted_rollouts(tmp_path):
    path = written(rows_of(21), tmp_path / "runs.csv")
    found = assess(study_of(), gs.read_trials(path, study_of(), counted=True))
    row = next(row for row in found.rows if row.facets == frozenset({"system", "task", "rollout"}))
    assert row.verdict == verdicts.INSIDE_RESIDUAL
    assert row.n_levels == found.n_trials
