"""Folders of logs, logs as a study's trials, and a user's own table."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import gstudy as gs
from gstudy.errors import DataError
from gstudy.study.logs.log_table import LogTable


def tau(path: Path, tasks: int = 2, trials: int = 2) -> Path:
    runs = [
        {"task_id": task, "trial": trial, "reward": float(task % 2), "info": {}, "traj": []}
        for task in range(tasks)
        for trial in range(trials)
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(runs), encoding="utf-8")
    return path


def study(**rest: Any) -> gs.Study:
    facets = [
        gs.Facet("task", role="legitimate"),
        gs.Facet("rollout", role="legitimate", nested_in=["system", "task"]),
    ]
    return gs.Study(score="score", object="system", facets=facets, **rest)


# ---------------------------------------------------------------- folders


def test_links_pipes_and_hidden_files(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    tau(logs / "b" / "real.json")
    (logs / "a.json").symlink_to(logs / "b" / "real.json")
    (logs / "gone.json").symlink_to(logs / "nowhere.json")
    (logs / "loop").symlink_to(logs)
    tau(tmp_path / "elsewhere" / "other.json")
    (logs / "linked").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(logs / "pipe")
    (logs / ".DS_Store").write_bytes(b"\x00\x00\x00\x01Bud1")
    found = gs.read_logs(logs)
    assert list(dict.fromkeys(found["file"])) == ["b/real.json", "linked/other.json"]
    assert dict(zip(found.skipped["file"], found.skipped["why"], strict=True)) == {
        "a.json": "it is a link to b/real.json, which is read",
        "gone.json": "it is a link that leads nowhere",
        "pipe": "it is no file, but a pipe or a device",
        ".DS_Store": "it is no log of a format that gstudy reads",
    }


def test_a_file_that_fails_when_it_is_read(tmp_path: Path) -> None:
    if os.geteuid():
        tau(tmp_path / "a.json").chmod(0)
    else:  # root may read every file, but there is nothing at the address 0
        (tmp_path / "a.json").symlink_to("/proc/self/mem")
    tau(tmp_path / "b.json")
    found = gs.read_logs(tmp_path)
    assert set(found["file"]) == {"b.json"}
    why = "Permission denied" if os.geteuid() else "Input/output error"
    assert why in found.skipped["why"][0]


def test_a_name_that_is_no_text(tmp_path: Path) -> None:
    raw = os.fsencode(tmp_path) + b"/bad\xff.json"
    tau(tmp_path / "a.json").rename(os.fsdecode(raw))
    found = gs.read_logs(tmp_path)
    assert found["file"].unique().tolist() == ["bad\\udcff.json"]
    assert "bad" in repr(found)


def test_nothing_to_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"has no log that can be read.*Allowed: Inspect.*gs\.read_tr"
    ):
        gs.read_logs(tmp_path)
    (tmp_path / "notes.md").write_text("x")
    with pytest.raises(DataError, match=r"Given: 'notes\.md: it is no log of a format"):
        gs.read_logs(tmp_path)
    with pytest.raises(DataError, match=r"notes\.md cannot be read as a log: it is no log"):
        gs.read_logs(tmp_path / "notes.md")
    for path in (tmp_path / "missing", "a\x00b"):
        with pytest.raises(DataError, match="no file or folder"):
            gs.read_logs(path)
    with pytest.raises(DataError, match=r"(?s)from a file or a folder.*gs\.from_frame"):
        gs.read_logs(pd.DataFrame())


def test_several_paths_are_one_table(tmp_path: Path) -> None:
    one, other = tau(tmp_path / "x" / "a.json"), tau(tmp_path / "y" / "b.json")
    found = gs.read_logs([one, other.parent, str(other)])
    assert list(dict.fromkeys(found["file"])) == ["a.json", "y/b.json"]
    assert found.skipped["why"].tolist() == ["it is given twice"]


def test_keep_chooses_rows_and_names_what_is_not_there(tmp_path: Path) -> None:
    tau(tmp_path / "a.json", tasks=3)
    assert len(gs.read_logs(tmp_path, keep={"task": ["0", "2"], "rollout": "1"})) == 2
    with pytest.raises(DataError, match=r"keep names a column 'tsk'.*Did you mean 'task'\?"):
        gs.read_logs(tmp_path, keep={"tsk": "0"})
    with pytest.raises(DataError, match=r"no row of the logs has task '9'\. Allowed: 0, 1, 2"):
        gs.read_logs(tmp_path, keep={"task": "9"})


def test_the_table_says_what_there_is_to_know(tmp_path: Path) -> None:
    tau(tmp_path / "<b>.json")
    (tmp_path / "x.txt").write_text("x")
    found = gs.read_logs(tmp_path)
    assert isinstance(found, LogTable)
    assert "skipped x.txt: it is no log" in repr(found)
    assert "<b>.json: tau-bench does not record" in repr(found)
    page = found._repr_html_()
    assert page is not None
    assert "<b>" not in page
    assert type(found[found["score"] == 1]) is pd.DataFrame
    assert all(str(kind) == "str" for kind in found.drop(columns="score").dtypes)
    assert str(found["score"].dtype) == "float64"


def test_long_lists_of_notes_are_cut_in_print_only(tmp_path: Path) -> None:
    tau(tmp_path / "a.json")
    for i in range(30):
        (tmp_path / f"x{i}.txt").write_text("x")
    found = gs.read_logs(tmp_path)
    assert len(found.skipped) == 30
    assert repr(found).endswith("and 21 more: .notes and .skipped")


# ---------------------------------------------------------------- logs as trials


def test_a_study_reads_a_folder_a_log_and_a_table_of_logs(tmp_path: Path) -> None:
    path = tau(tmp_path / "a.json")
    for source in (tmp_path, path, str(path), gs.read_logs(path)):
        trials = gs.read_trials(source, study())
        assert len(trials) == 4
        assert "a.json: tau-bench does not record what was run" in trials.notes[0]
    (tmp_path / "x.txt").write_text("x")
    trials = gs.read_trials(tmp_path, study())
    assert "1 files gave no rows: x.txt" in trials.notes
    # What was skipped is said wherever the trials go.
    assert gs.read_trials(trials, study()).notes == trials.notes
    with pytest.warns(gs.EstimabilityWarning, match="rollout"):
        found = gs.check(study(), trials)
    assert "1 files gave no rows: x.txt" in str(found)


def test_errors_name_the_logs(tmp_path: Path) -> None:
    tau(tmp_path / "a.json")
    table = gs.read_logs(tmp_path).replace({"score": {1.0: 0.5}})
    with pytest.raises(DataError, match=rf"{tmp_path.name}, row 3 .*column 'score'.*no score"):
        gs.read_trials(table, study())
    wrong = gs.Study(score="passed", object="system", facets=study().facets[1:])
    with pytest.raises(DataError, match=r"no column 'passed'.*its columns file, benchmark"):
        gs.read_trials(tmp_path, wrong)


def test_json_lines_with_the_study_s_columns_are_a_table(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    record = {"run_id": "r", "task_id": "t", "alias": "A", "ok": 1}
    path.write_text(json.dumps(record) + "\n", encoding="utf-8")
    own = gs.Study(score="ok", facets=[gs.Facet("task", role="legitimate", column="task_id")])
    assert gs.read_trials(path, own).table["task"].tolist() == ["t"]
    assert gs.read_trials(path, own).notes == ()


def test_one_file_that_repeats_a_trial(tmp_path: Path) -> None:
    run = {"task_id": 1, "trial": 0, "reward": 1.0, "info": {}, "traj": []}
    (tmp_path / "a.json").write_text(json.dumps([run, run]), encoding="utf-8")
    with pytest.raises(DataError, match=r"a\.json holds the trial .* twice .*Drop the repeats"):
        gs.read_trials(tmp_path, study())


# ---------------------------------------------------------------- a table


TABLE = pd.DataFrame({"item": ["a", "b"], "ok": [1, 0], "score": [0.9, 0.1], 7: ["x", "y"]})


def test_from_frame_renames_and_keeps_the_rest() -> None:
    found = gs.from_frame(TABLE, task="item", score="ok", judge=7)
    assert found.to_dict("list") == {"task": ["a", "b"], "score": [1, 0], "judge": ["x", "y"]}
    assert found.attrs["notes"] == [
        "the table's own column 'score' was left out: 'ok' is called that"
    ]
    assert list(TABLE.columns) == ["item", "ok", "score", 7]
    assert list(gs.from_frame(TABLE, task="item").columns) == ["task", "ok", "score", 7]
    own = gs.Study(score="score", facets=[gs.Facet("task", role="legitimate")])
    assert gs.read_trials(found, own).table["score"].tolist() == [1, 0]


def test_from_frame_takes_one_column_twice() -> None:
    found = gs.from_frame(TABLE, task="item", rollout="item", score="score")
    assert list(found.columns) == ["task", "rollout", "score", "ok", 7]


@pytest.mark.parametrize(
    ("table", "names", "message"),
    [
        (TABLE, {"task": "itme"}, r"task: the table has no column 'itme'.*Did you mean 'item'\?"),
        (TABLE[["ok", "ok"]], {"score": "ok"}, r"the table has 2 columns 'ok'"),
        ("trials.csv", {"score": "ok"}, r"takes a table\. Given: 'str'.*gs\.read_trials"),
    ],
)
def test_from_frame_refuses(table: Any, names: dict[str, str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        gs.from_frame(table, **names)
