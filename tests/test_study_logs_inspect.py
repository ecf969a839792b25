"""Inspect logs: the right long table of logs found in the wild, and of logs built for each case."""

from __future__ import annotations

import asyncio
import math
import sys
import zipfile
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from inspect_files import sample, write_log

import gstudy as gs
from gstudy.errors import DataError
from gstudy.study.logs import inspect_logs

pytest.importorskip("inspect_ai")

COLUMNS = ["file", "benchmark", "system", "task", "rollout", "judge", "score", "outcome", "reason"]


def texts(table: pd.DataFrame) -> list[list[str]]:
    """The rows as text, in an order that their own values give."""
    score = ["" if math.isnan(value) else f"{value:g}" for value in table["score"]]
    rows = table.assign(score=score)[COLUMNS].fillna("").astype(str)
    return sorted(rows.to_numpy().tolist())


def rows(table: pd.DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in table[list(columns)].itertuples(index=False)]


def study(**rest: Any) -> gs.Study:
    facets = [
        gs.Facet("task", role="legitimate"),
        gs.Facet("rollout", role="legitimate", nested_in=["system", "task"]),
    ]
    return gs.Study(score="score", object="system", facets=facets, **rest)


# ---------------------------------------------------------------- logs found in the wild


@pytest.fixture(scope="module")
def expected(shared: Path) -> pd.DataFrame:
    path = shared / "raw" / "EXPECTED_inspect_tidy.csv"
    return pd.read_csv(path, dtype=str, keep_default_na=False)


@pytest.mark.reference
def test_every_log_gives_the_expected_rows(expected: pd.DataFrame, shared: Path) -> None:
    total = 0
    for name, own in expected.groupby("file"):
        found = gs.read_logs(shared / "raw" / str(name))
        assert texts(found) == sorted(own[COLUMNS].to_numpy().tolist()), name
        total += len(found)
    assert total == 641


@pytest.mark.reference
def test_zstd_archive_gives_its_unscored_row(shared: Path) -> None:
    found = gs.read_logs(shared / "raw" / "inspect_retry-2-then-success_legacy.eval")
    assert rows(found, "system", "rollout", "outcome") == [("mockllm/test", "1", "unscored")]
    assert "nothing in it was scored (1 samples)" in found.notes[0]


@pytest.mark.reference
def test_large_json_logs_read_as_a_stream_are_the_same(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = sorted((shared / "raw").glob("inspect_*.json"))
    assert len(paths) == 4
    whole = [gs.read_logs(path) for path in paths]
    monkeypatch.setattr(inspect_logs, "LARGE", 0)
    for path, table in zip(paths, whole, strict=True):
        pd.testing.assert_frame_equal(gs.read_logs(path), table)


@pytest.mark.reference
def test_four_logs_are_four_systems_on_the_same_tasks(shared: Path) -> None:
    names = ("scanner", "set_a", "set_b", "set_c")
    logs = gs.read_logs([shared / "raw" / f"inspect_popularity_{name}.eval" for name in names])
    trials = gs.read_trials(logs, study())
    assert len(trials) == 400
    assert trials.table["system"].nunique() == 4
    assert trials.table.groupby("system")["task"].nunique().tolist() == [100] * 4


@pytest.mark.reference
def test_the_folder_in_one_go_counts_a_copy_once_and_names_what_it_skips(shared: Path) -> None:
    found = gs.read_logs(shared / "raw")
    of_inspect = found[found["file"].str.startswith("inspect_")]
    # 641 and the zstd log's row; one log is there as .eval and as .json.
    assert len(of_inspect) == 641
    assert any("inspect_log_formats.eval, inspect_log_formats.json" in note for note in found.notes)
    assert any("popularity.json: the run was cancelled: the 3 samples" in n for n in found.notes)
    skipped = dict(zip(found.skipped["file"], found.skipped["why"], strict=True))
    assert skipped["README.md"] == "it is no log of a format that gstudy reads"
    assert "there are no simulations in it" in skipped["tau2_HEAD_results_format.json"]
    names = set(found["file"]) | set(skipped) | {"inspect_log_formats.json"}
    assert names == {path.name for path in (shared / "raw").iterdir()}


# ---------------------------------------------------------------- scores


def test_letters_words_and_numbers_are_scores(tmp_path: Path) -> None:
    values = ["C", "I", "P", "N", True, False, 0.25, "0.5", "yes", "No", 7]
    samples = [sample(i, {"match": value}) for i, value in enumerate(values)]
    found = gs.read_logs(write_log(tmp_path / "a.eval", samples))
    assert found["score"].tolist() == [1, 0, 0.5, 0, 1, 0, 0.25, 0.5, 1, 0, 7]
    assert set(found["outcome"]) == {"scored"}
    assert found["task"].tolist() == [str(i) for i in range(len(values))]
    with pytest.raises(DataError, match=r"row 3.*no score.*Given: 0\.5.*set a threshold"):
        gs.read_trials(found, study())


@pytest.mark.parametrize("form", ["eval", "json"])
def test_what_is_no_number_is_never_a_zero(tmp_path: Path, form: str) -> None:
    values = ["C", math.nan, math.inf, 10**30, "abstain"]
    samples = [sample(i, {"match": value}) for i, value in enumerate(values)]
    found = gs.read_logs(write_log(tmp_path / f"a.{form}", samples))
    assert found["outcome"].tolist() == ["scored", "unscored", "scored", "scored", "scored"]
    assert [found["score"][i] for i in (0, 2, 4)] == [1.0, math.inf, "abstain"]
    for row, given in ((2, "inf"), (3, "1e"), (4, "'abstain'")):
        with pytest.raises(DataError, match=f"this is no score.*Given: {given}"):
            gs.read_trials(found.iloc[[0, row]], study())
    with pytest.raises(DataError, match="never scored"):
        gs.read_trials(found.iloc[:2], study())
    assert len(gs.read_trials(found.iloc[:2], study(on_missing_score="drop"))) == 2


def test_a_reason_for_no_score_is_kept(tmp_path: Path) -> None:
    from inspect_ai.scorer import Score

    score = Score(value=math.nan, reason="grader_failed")
    found = gs.read_logs(write_log(tmp_path / "a.eval", [sample("t", {"qa": score})]))
    assert rows(found, "outcome", "reason") == [("unscored", "grader_failed")]


def test_several_values_at_once_are_a_row_each(tmp_path: Path) -> None:
    samples = [
        sample("a", {"quality": {"helpful": 1, "safe": 0}, "match": "C"}),
        sample("b", {"quality": {"helpful": 0, "safe": 1}, "match": "I"}),
        sample("c", error="boom"),
    ]
    found = gs.read_logs(write_log(tmp_path / "a.eval", samples))
    assert rows(found[found["task"] == "b"], "judge", "metric", "score") == [
        ("quality", "helpful", 0),
        ("quality", "safe", 1),
        ("match", "value", 0),
    ]
    # A failed run is one of every metric, so that choosing one never loses it.
    failed = found[found["outcome"] == "failed"]
    assert rows(failed, "judge", "metric") == rows(found.iloc[:3], "judge", "metric")
    assert "quality gives 2 values at once (helpful, safe)" in found.notes[0]
    with pytest.raises(
        DataError, match=r"a\.eval holds the trial .* twice.*metric \(helpful, safe"
    ):
        gs.read_trials(found, study(on_failed_run="incorrect"))
    one = gs.read_logs(tmp_path / "a.eval", keep={"metric": "safe"})
    assert len(gs.read_trials(one, study(on_failed_run="incorrect"))) == 3


# ---------------------------------------------------------------- failed runs


@pytest.mark.parametrize("form", ["eval", "json"])
def test_errors_and_limits_failed_with_a_reason(tmp_path: Path, form: str) -> None:
    samples = [
        sample("a", {"match": "C"}),
        sample("b", error="RateLimitError('slow down')"),
        sample("c", {"match": "C"}, limit="token"),
        sample("d", limit="time"),
        sample("e", {"match": "I"}, error=""),
    ]
    found = gs.read_logs(write_log(tmp_path / f"a.{form}", samples))
    assert rows(found, "task", "judge", "outcome", "reason") == [
        ("a", "match", "scored", ""),
        ("b", "match", "failed", "error"),
        ("c", "match", "failed", "token limit"),
        ("d", "match", "failed", "time limit"),
        ("e", "match", "scored", ""),
    ]
    assert found["detail"].tolist() == ["", "RateLimitError('slow down')", "", "", ""]
    assert found["score"].tolist()[2] == 1.0
    assert "1 scores are of samples that failed" in found.notes[0]
    policy = {"error": "drop", "token limit": "incorrect", "time limit": "incorrect"}
    trials = gs.read_trials(found, study(on_failed_run=policy))
    assert trials.counts.loc["openai/gpt-5"].to_dict() == {
        "n_rows": 5,
        "n_used": 4,
        "n_failed": 3,
        "n_unscored": 0,
    }
    assert any("1 scores are of samples that failed" in note for note in trials.notes)


def test_a_log_in_which_all_failed_has_the_judges_it_names(tmp_path: Path) -> None:
    path = write_log(
        tmp_path / "a.eval",
        [sample("a", error="x"), sample("b", error="x")],
        scorers=[{"name": "pkg/qa"}, {"name": "qa"}],
        status="error",
    )
    found = gs.read_logs(path)
    assert rows(found, "task", "judge") == [("a", "qa"), ("a", "qa1"), ("b", "qa"), ("b", "qa1")]
    assert "the run ended with an error: the 2 samples in it are read" in found.notes[0]


@pytest.mark.parametrize(
    ("status", "said"), [("cancelled", "was cancelled"), ("started", "never ended")]
)
def test_a_run_that_did_not_end_is_named(tmp_path: Path, status: str, said: str) -> None:
    path = write_log(tmp_path / "a.eval", [sample("a", {"match": "C"})], status=status)
    assert gs.read_logs(path).notes == (f"a.eval: the run {said}: the 1 samples in it are read",)


def test_a_log_without_samples_is_skipped(tmp_path: Path) -> None:
    write_log(tmp_path / "a.eval", [], status="error")
    write_log(tmp_path / "b.eval", [sample("a", {"match": "C"})])
    found = gs.read_logs(tmp_path)
    assert rows(found.skipped, "file") == [("a.eval",)]
    assert "the run ended with an error" in found.skipped["why"][0]


# ---------------------------------------------------------------- judges and rollouts


def test_scorers_are_judges_and_epochs_rollouts(tmp_path: Path) -> None:
    samples = [
        sample(task, {"qa": "C", "qa1": "I", "match": score}, epoch=epoch)
        for task in ("a", "b")
        for epoch, score in ((1, "C"), (2, "I"))
    ]
    found = gs.read_logs(write_log(tmp_path / "a.eval", samples))
    assert len(found) == 12
    assert found.groupby(["task", "rollout", "judge"]).size().max() == 1
    judged = gs.Study(
        score="score",
        object="system",
        facets=[*study().facets[1:], gs.Facet("judge", role="error")],
    )
    assert len(gs.read_trials(found, judged)) == 12
    with pytest.raises(DataError, match=r"judge \(qa, qa1\).*keep=\{'judge': 'qa'\}"):
        gs.read_trials(found, study())


def test_a_judge_is_told_with_the_model_of_its_role(tmp_path: Path) -> None:
    from inspect_ai.model import ModelConfig

    for name, model in (("a", "openai/gpt-4o"), ("b", "google/gemini")):
        write_log(
            tmp_path / f"{name}.eval",
            [sample("t", {"model_graded_qa": "C", "model_graded_qa1": "I", "match": "C"})],
            model_roles={"grader": ModelConfig(model=model), "critic": ModelConfig(model="x/y")},
            scorers=[
                {"name": "model_graded_qa"},
                {"name": "model_graded_qa", "options": {"model_role": "critic"}},
                {"name": "match"},
            ],
        )
    found = gs.read_logs(tmp_path)
    assert found["judge"].tolist() == [
        "model_graded_qa (openai/gpt-4o)",
        "model_graded_qa1 (x/y)",
        "match",
        "model_graded_qa (google/gemini)",
        "model_graded_qa1 (x/y)",
        "match",
    ]


# ---------------------------------------------------------------- one run in several logs


def test_shards_of_one_run_are_one_table(tmp_path: Path) -> None:
    for shard in range(3):
        own = [sample(f"t{shard}", {"match": "C"}), sample(f"u{shard}", {"match": "I"})]
        write_log(tmp_path / f"s{shard}.eval", own, run_id="one")
    found = gs.read_logs(tmp_path)
    assert len(found) == 6
    said = "3 logs are shards, retries or copies of one run (s0.eval, s1.eval, s2.eval)"
    assert found.notes == (f"{said}: no sample is in two of them",)


@pytest.mark.parametrize("same", ["run_id", "eval_id", "task_id"])
def test_a_retry_takes_each_sample_once(tmp_path: Path, same: str) -> None:
    first = [
        sample("a", {"match": "C"}),
        sample("b", error="x"),
        sample("c", {"match": "I"}),
        sample("d", error="x"),
    ]
    again = [
        sample("b", {"match": "C"}),
        sample("c", {"match": "C"}),
        sample("d", error="y"),
        sample("a", error="z"),
    ]
    # The later one by its date, not by its name.
    write_log(tmp_path / "z.eval", first, created="2026-01-01T00:00:00+00:00", **{same: "one"})
    write_log(tmp_path / "a.eval", again, created="2026-01-02T00:00:00+00:00", **{same: "one"})
    found = gs.read_logs(tmp_path).sort_values("task")
    assert rows(found, "task", "file", "outcome", "score")[:3] == [
        ("a", "z.eval", "scored", 1.0),
        ("b", "a.eval", "scored", 1.0),
        ("c", "a.eval", "scored", 1.0),
    ]
    assert rows(found, "task", "file", "outcome", "detail")[3:] == [("d", "a.eval", "failed", "y")]
    assert len(gs.read_trials(tmp_path, study(on_failed_run="drop"))) == 4


def test_a_second_scoring_adds_its_judges(tmp_path: Path) -> None:
    write_log(tmp_path / "a.eval", [sample("t", {"match": "C"})], eval_id="one")
    write_log(
        tmp_path / "b.eval",
        [sample("t", {"qa": "I"})],
        eval_id="one",
        created="2026-01-02T00:00:00+00:00",
    )
    found = gs.read_logs(tmp_path)
    assert rows(found, "file", "judge", "score") == [("a.eval", "match", 1), ("b.eval", "qa", 0)]


def test_an_unscored_twin_is_told_from_the_scored_log(tmp_path: Path) -> None:
    write_log(tmp_path / "a.eval", [sample("t")])
    write_log(tmp_path / "b.eval", [sample("t", {"match": "C"})])
    with pytest.raises(DataError, match=r"judge \(none, match\).*keep=\{'judge': 'match'\}"):
        gs.read_trials(tmp_path, study())
    kept = gs.read_logs(tmp_path, keep={"judge": "match"})
    assert len(gs.read_trials(kept, study())) == 1


def test_one_run_of_two_settings_is_two_logs(tmp_path: Path) -> None:
    for name, size in (("a", 1), ("b", 2)):
        args = {"size": size}
        write_log(
            tmp_path / f"{name}.eval", [sample("t", {"match": "C"})], run_id="r", task_args=args
        )
    assert len(gs.read_logs(tmp_path)) == 2


def test_the_same_trial_in_two_runs_is_kept_and_refused_by_a_study(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_log(
            tmp_path / f"{name}.eval", [sample("t", {"match": "C"}), sample("u", {"match": 0})]
        )
    found = gs.read_logs(tmp_path)
    assert rows(found, "file", "task")[::2] == [("a.eval", "t"), ("b.eval", "t")]
    for source in (tmp_path, found, found.copy(), found[found["score"] == 1]):
        with pytest.raises(
            DataError,
            match=r"a\.eval and b\.eval both hold the trial system 'openai/gpt-5', task 't', "
            r"rollout '1' .*keep=\{'file': 'a\.eval'\}",
        ):
            gs.read_trials(source, study())
    assert len(gs.read_trials(gs.read_logs(tmp_path, keep={"file": "b.eval"}), study())) == 2
    by_file = gs.Study(
        score="score",
        object="system",
        facets=[
            gs.Facet("task", role="legitimate"),
            gs.Facet("run", role="legitimate", column="file"),
            gs.Facet("rollout", role="legitimate", nested_in=["system", "task", "run"]),
        ],
    )
    assert len(gs.read_trials(found, by_file)) == 4


# ---------------------------------------------------------------- names and damage


def test_the_content_tells_a_log_and_not_its_name(tmp_path: Path) -> None:
    write_log(tmp_path / "a.eval", [sample("t", {"match": "C"})]).rename(tmp_path / "renamed.bin")
    write_log(tmp_path / "b.json", [sample("u", {"match": "C"})]).rename(tmp_path / "renamed.txt")
    (tmp_path / "x.eval").mkdir()
    write_log(tmp_path / "x.eval" / "c.eval", [sample("v", {"match": "C"})])
    (tmp_path / "no.eval").write_text("task,score\nt,1\n")
    found = gs.read_logs(tmp_path)
    assert rows(found, "file", "task") == [
        ("renamed.bin", "t"),
        ("renamed.txt", "u"),
        ("x.eval/c.eval", "v"),
    ]
    assert rows(found.skipped, "file") == [("no.eval",)]


def test_damaged_logs_are_named_and_the_others_read(tmp_path: Path) -> None:
    good = write_log(tmp_path / "good.eval", [sample("t", {"match": "C"})])
    raw = good.read_bytes()
    (tmp_path / "cut.eval").write_bytes(raw[: len(raw) // 2])
    text = write_log(tmp_path / "j.json", [sample("u", {"match": "C"})]).read_bytes()
    (tmp_path / "j.json").unlink()
    (tmp_path / "cut.json").write_bytes(text[:-200])
    with zipfile.ZipFile(tmp_path / "broken.eval", "w") as archive:
        archive.writestr("header.json", "{}")
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("a.txt", "a")
    (tmp_path / "empty.eval").touch()
    found = gs.read_logs(tmp_path)
    assert found["file"].tolist() == ["good.eval"]
    why = dict(zip(found.skipped["file"], found.skipped["why"], strict=True))
    assert "its archive is damaged" in why["cut.eval"]
    assert "Inspect cannot read it" in why["cut.json"]
    assert "Inspect cannot read it" in why["broken.eval"]
    assert why["other.zip"] == "it is an archive, but no log of Inspect"
    assert why["empty.eval"] == "it is empty"
    with pytest.raises(DataError, match=r"cut\.eval cannot be read as a log: its archive"):
        gs.read_logs(tmp_path / "cut.eval")


def test_without_inspect_ai_the_mend_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_log(tmp_path / "a.eval", [sample("t", {"match": "C"})])
    monkeypatch.setitem(sys.modules, "inspect_ai", None)
    with pytest.raises(DataError, match=r"a\.eval is a log of Inspect.*pip install 'gstudy\[insp"):
        gs.read_logs(tmp_path)


def test_labels_that_no_study_takes_are_refused_by_the_study(tmp_path: Path) -> None:
    found = gs.read_logs(write_log(tmp_path / "a.eval", [sample("t\x00", {"match": "C"})]))
    with pytest.raises(DataError, match="the label holds NUL"):
        gs.read_trials(found, study())


@pytest.mark.reference
def test_a_log_whose_writer_died_is_read_from_its_journal(shared: Path, tmp_path: Path) -> None:
    whole = shared / "raw" / "inspect_popularity_set_c.eval"
    with zipfile.ZipFile(whole) as source, zipfile.ZipFile(tmp_path / "a.eval", "w") as cut:
        for name in source.namelist():
            if name.startswith(("_journal/", "samples/")):
                cut.writestr(name, source.read(name))
    found = gs.read_logs(tmp_path)
    assert found["score"].tolist() == gs.read_logs(whole)["score"].tolist()
    assert found.notes == ("a.eval: the run never ended: the 100 samples in it are read",)


def test_logs_are_read_inside_a_running_event_loop(tmp_path: Path) -> None:
    path = write_log(tmp_path / "a.eval", [sample("t", {"match": "C"})])

    async def cell() -> int:
        return len(gs.read_logs(path))

    assert asyncio.run(cell()) == 1
