"""Trials without a study: what is assumed from the names of their columns."""

from __future__ import annotations

import gzip
from pathlib import Path

import pandas as pd
import pytest

import gstudy as gs
from gstudy.cli.assumed import assumed_study
from gstudy.errors import DataError, DeclarationError

HEADER = "Model,task_id,epoch,judge,cost,correct,outcome"


@pytest.fixture
def trials(tmp_path: Path) -> Path:
    path = tmp_path / "trials.csv"
    path.write_text(f"\ufeff{HEADER}\n", encoding="utf-8")
    return path


def test_roles_and_nesting_follow_the_names(trials: Path) -> None:
    study = assumed_study(trials).study
    assert study.score == "correct"
    assert study.object == "system"
    assert study.facet_names == ("system", "task", "rollout", "judge")
    assert {facet.name: facet.source_column for facet in study.facets} == {
        "system": "Model",
        "task": "task_id",
        "rollout": "epoch",
        "judge": "judge",
    }
    assert study.parents["rollout"] == ("system", "task")
    assert study.facet("judge").role == "error"
    assert study.parents["judge"] == ()


def test_columns_that_nothing_was_made_of_are_told(trials: Path) -> None:
    assert assumed_study(trials).unused == ("cost",)


def test_the_text_is_a_study_file_that_means_the_same(trials: Path) -> None:
    assumed = assumed_study(trials)
    path = trials.with_name("study.toml")
    path.write_text(assumed.toml, encoding="utf-8")
    assert gs.Study.from_toml(path) == assumed.study


def test_counts_are_known(tmp_path: Path) -> None:
    path = tmp_path / "counts.csv"
    path.write_text("task,passes,rollouts\na,1,4\n")
    study = assumed_study(path).study
    assert (study.successes, study.trials) == ("passes", "rollouts")
    assert study.facet_names == ("task", "rollout")
    assert study.counted == "rollout"


def test_conditions_are_crossed_and_hold_rollouts(tmp_path: Path) -> None:
    path = tmp_path / "trials.csv"
    path.write_text("system,task,snapshot,rollout,passed\n")
    study = assumed_study(path).study
    assert study.parents["snapshot"] == ()
    assert study.parents["rollout"] == ("system", "task", "snapshot")


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".jsonl", ".jsonl.gz", ".parquet"])
def test_every_kind_of_file_is_known(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"trials{suffix}"
    frame = pd.DataFrame({"task": ["a", "b"], "passed": [0, 1]})
    if suffix == ".parquet":
        frame.to_parquet(path)
    else:
        lines = suffix.startswith(".jsonl")
        text = frame.to_json(orient="records", lines=True) if lines else frame.to_csv(index=False)
        data = text.encode()
        path.write_bytes(gzip.compress(data) if suffix.endswith(".gz") else data)
    assert assumed_study(path).study.facet_names == ("task",)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("task,points", r"no column of .* is known to be a score, and no study was given"),
        ("thing,passed", r"no column of .* is known to be a task, .* --study study\.toml"),
    ],
)
def test_what_cannot_be_guessed_is_asked_for(tmp_path: Path, header: str, message: str) -> None:
    path = tmp_path / "trials.csv"
    path.write_text(header)
    with pytest.raises(DeclarationError, match=message):
        assumed_study(path)


@pytest.mark.parametrize("name", ["trials.csv", "trials.jsonl"])
def test_empty_files_are_told(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text("")
    with pytest.raises(DataError, match=rf"{name} is empty\. Allowed: one row per trial"):
        assumed_study(path)


def test_files_of_other_kinds_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "trials.xlsx"
    path.write_text("")
    with pytest.raises(DataError, match=r"is neither trials, a study nor a run.* Given: '\.xlsx'"):
        assumed_study(path)


@pytest.mark.parametrize("name", ["missing.csv", "broken.csv.gz", "broken.parquet", "broken.jsonl"])
def test_files_that_cannot_be_read_are_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name.startswith("broken"):
        path.write_bytes(b"\x1f\x00\xff not what the suffix says")
    with pytest.raises(DataError, match=r"cannot be read: "):
        assumed_study(path)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("trials.jsonl", "5\n"),
        ("trials.jsonl", "[1]\n"),
        ("trials.csv", "a" * 300_000 + ",task\n"),
    ],
)
def test_odd_beginnings_of_files_are_refused(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises((DataError, DeclarationError), match=name):
        assumed_study(path)
