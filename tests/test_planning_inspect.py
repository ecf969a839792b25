"""Inspect itself runs the command lines of a list of runs (slow)."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from inspect_files import sample, write_log

import gstudy as gs


def executed(line: str, folder: Path) -> None:
    """Run a line as a shell would, with this environment's `inspect`."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    quiet = {"PATH": path, "INSPECT_DISPLAY": "plain", "INSPECT_LOG_DIR": str(folder / "logs")}
    done = subprocess.run(
        ["sh", "-c", line],
        cwd=folder,
        env={**os.environ, **quiet},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"


def answered() -> Iterator[Any]:
    """Three samples, two epochs, answered "answer" and scored by one scorer."""
    from inspect_ai.model import ModelOutput

    for task in ("1", "2", "3"):
        for epoch in (1, 2):
            output = ModelOutput.from_content("mockllm/model", "answer")
            yield sample(task, {"includes": "C"}, epoch=epoch, output=output)


def trials_of(log: Path) -> pd.DataFrame:
    """The trials of a log: one row per system, task, rollout and scorer."""
    frame = gs.read_logs(log)[["system", "task", "rollout", "judge", "score"]]
    return pd.DataFrame(frame.rename(columns={"score": "passed"}))


@pytest.mark.slow
def test_score_only_lines_run_and_their_results_fill_the_design(tmp_path: Path) -> None:
    pytest.importorskip("inspect_ai")
    log = write_log(tmp_path / "my log.eval", list(answered()), model="mockllm/model")
    study = gs.Study(
        score="passed",
        object="system",
        facets=[
            gs.Facet("task", role="legitimate"),
            gs.Facet("rollout", role="legitimate", nested_in=["system", "task"]),
            gs.Facet("judge", role="error"),
        ],
    )
    design = {"task": 3, "rollout": 2, "judge": 2}
    old = trials_of(log)
    assert set(old["judge"]) == {"includes"}
    # The second judge scores what the first one did, by another of Inspect's scorers.
    wanted = pd.concat([old, old.head(1).assign(judge="exact")])
    missing = gs.run_list(design, wanted, study=study)
    assert set(missing.frame["kind"]) == {"score only"}
    assert set(missing.frame["judge"]) == {"exact"}
    lines = missing.inspect("quiz", logs={"mockllm/model": str(log)})
    assert [shlex.split(line)[:2] for line in lines] == [["inspect", "score"]]
    for line in lines:
        executed(line, tmp_path)
    new = trials_of(log)
    assert new.groupby("judge").size().to_dict() == {"includes": 6, "exact": 6}
    assert gs.run_list(design, new, study=study).frame.empty
