"""tau-bench results: one list of runs, each of one task in one trial."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

from gstudy.study.logs.json_streams import items_of
from gstudy.study.logs.log_files import LogError, LogFile, LogRows
from gstudy.study.logs.row_columns import RowColumns, label_of, number_of, outcome_of

__all__ = ["read"]


def read(file: LogFile) -> LogRows:
    """A result file of tau-bench.

    `task` is task_id, `rollout` trial, `score` the reward. The file does not name what was run:
    `system` is its name. A run that raised an error failed.

    Parameters
    ----------
    file : LogFile

    Returns
    -------
    LogRows
    """
    system = PurePosixPath(file.name).name.removesuffix(".gz").removesuffix(".json")
    rows = RowColumns(("file", "benchmark", "system", "task", "rollout"))
    for number, run in enumerate(items_of(file.path, "item"), start=1):
        if not isinstance(run, dict):
            raise LogError(f"entry {number} of the list is no run")
        score = number_of(run.get("reward"))
        error = _error(run)
        rows.add(
            file=file.name,
            benchmark="tau-bench",
            system=system,
            task=label_of(run.get("task_id"), "task_id"),
            rollout=label_of(run.get("trial", 0), "trial"),
            score=score,
            detail=error,
            **outcome_of(score, "error" if error else None),
        )
    note = "tau-bench does not record what was run: `system` is the name of the file"
    return LogRows(rows.frame(), (note,))


def _error(run: dict[str, Any]) -> str:
    """What a run says that raised instead of ending; a tool's error inside a run is none."""
    info = run.get("info")
    if isinstance(info, dict) and info.get("error") and "reward_info" not in info:
        return str(info["error"])[:300]
    return ""
