"""`gstudy init`, and `gstudy budget` of trials and logs without a study."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
from commands import ended
from handmade import small_study

import gstudy as gs

FEW = ("--sampler", "direct", "--seed", "5", "--tune", "400", "--cores", "2")


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]):
    return partial(ended, capsys)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    _, frame = small_study()
    frame.to_csv(tmp_path / "small.csv", index=False)
    return tmp_path


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    path = tmp_path / "logs"
    path.mkdir()
    for system, every in (("one", 2), ("two", 3)):
        runs = [
            {"task_id": i // 4, "trial": i % 4, "reward": float(i % every == 0), "traj": []}
            for i in range(32)
        ]
        (path / f"{system}.json").write_text(json.dumps(runs))
    return path


def test_init_writes_a_study_that_check_and_fit_take(command, folder: Path) -> None:
    study = folder / "study.toml"
    code, out, err = command("init", folder / "small.csv", "-o", study)
    assert code == 0, err
    assert f"Wrote {study}, guessed from small.csv:\n  score" in out
    assert "  rollout  legitimate, 3 labels in each system x task\n" in out
    assert "A fit estimates system, task, system:task." in out
    assert f"gstudy check {study}" in err
    assert gs.Study.from_toml(study) == gs.guess_study(folder / "small.csv").study
    code, out, _ = command("check", study)
    assert code == 0
    assert "small.csv: 72 usable trials" in out
    code, _, err = command("fit", study, "--out", folder / "run.nc", *FEW)
    assert code == 0, err


def test_init_of_logs(command, logs: Path) -> None:
    study = logs.parent / "study.toml"
    code, out, err = command("init", logs, "-o", study, "--quiet")
    assert (code, err) == (0, "")
    assert 'data = "logs"' in study.read_text(encoding="utf-8")
    assert "system     object, 2 labels" in out
    assert command("check", study)[0] == 0


def test_init_overwrites_nothing(command, folder: Path) -> None:
    study = folder / "study.toml"
    study.write_text("mine")
    code, out, err = command("init", folder / "small.csv", "-o", study)
    assert (code, out) == (1, "")
    assert "study.toml is there already" in err
    assert study.read_text() == "mine"


def test_init_as_json_holds_the_declaration_and_the_check(command, folder: Path) -> None:
    code, out, err = command("init", folder / "small.csv", "-o", folder / "s.toml", "--json")
    assert (code, err) == (0, "")
    tables = json.loads(out)["tables"]
    assert {"declaration", "components"} <= set(tables)
    columns = tables["declaration"]["columns"]
    rows = [dict(zip(columns, row, strict=True)) for row in tables["declaration"]["rows"]]
    assert [row["name"] for row in rows] == ["score", "system", "task", "rollout"]
    assert (folder / "s.toml").is_file()


@pytest.mark.parametrize(
    ("source", "out", "message"),
    [
        ("study.toml", "new.toml", "study.toml is a study file already"),
        ("run.nc", "new.toml", "run.nc is a run, which holds its study"),
        ("small.csv", "study.txt", "--out names a study file, such as study.toml"),
    ],
)
def test_init_of_what_has_a_study_is_a_usage_error(
    command, folder: Path, source: str, out: str, message: str
) -> None:
    code, _, err = command("init", folder / source, "-o", folder / out)
    assert code == 2
    assert message in err


def test_nothing_is_written_when_the_data_are_wrong(command, tmp_path: Path) -> None:
    data = tmp_path / "trials.csv"
    data.write_text("task,points\nt1,many\nt2,few\n")
    code, out, err = command("init", data, "-o", tmp_path / "study.toml")
    assert (code, out) == (1, "")
    assert "column 'points' of" in err
    assert 'gs.from_frame(df, score="...")' in err
    data.write_text("task,passed,outcome\nt1,1,scored\nt2,0,great\n")
    code, out, err = command("init", data, "-o", tmp_path / "study.toml")
    assert (code, out) == (1, "")
    assert "this is no outcome" in err
    assert not (tmp_path / "study.toml").exists()


def test_budget_of_logs_tells_what_it_assumed_and_how_to_change_it(command, logs: Path) -> None:
    code, out, err = command("budget", logs, *FEW)
    assert code == 0, err
    lines = out.splitlines()
    assert lines[0] == "No study was given. From the columns of logs this one is assumed:"
    assert "  task       legitimate, 8 labels" in lines
    assert "  not used   file" in lines
    assert lines[-1] == f"To change what was assumed: gstudy init {logs}"
    assert "logs: 64 trials, 2 systems x 8 tasks x 4 rollouts" in out


def test_budget_as_json_holds_the_assumed_declaration(command, folder: Path) -> None:
    code, out, err = command("budget", folder / "small.csv", "--json", *FEW)
    assert code == 0, err
    tables = json.loads(out)["tables"]
    assert next(iter(tables)) == "declaration"
    assert tables["declaration"]["rows"][0][:2] == ["score", "passed"]


def test_budget_of_what_cannot_be_guessed_names_the_columns(command, tmp_path: Path) -> None:
    data = tmp_path / "trials.csv"
    data.write_text("task,thing\nt1,x\nt2,y\n")
    code, out, err = command("budget", data, *FEW)
    assert (code, out) == (1, "")
    assert "no column of" in err
    assert "Given: ['task', 'thing']" in err
    assert "--study study.toml" in err
