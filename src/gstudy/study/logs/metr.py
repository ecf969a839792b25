"""METR runs: one line per run of an agent or a human on a task."""

from __future__ import annotations

from typing import Any

import pandas as pd

from gstudy.study.logs.json_streams import records_of
from gstudy.study.logs.log_files import LogFile, LogRows
from gstudy.study.logs.row_columns import RowColumns, label_of, number_of, outcome_of

__all__ = ["read"]

_FACETS = (
    "file",
    "benchmark",
    "task_family",
    "system",
    "task",
    "rollout",
    "run_id",
    "human_source",
)


def read(file: LogFile) -> LogRows:
    """A runs file of METR's time-horizon data.

    `system` is alias, `task` task_id, `rollout` the order of started_at within both, `score`
    score_binarized (`score_raw` the graded one), `stopped_by` what fatal_error_from says.

    Parameters
    ----------
    file : LogFile

    Returns
    -------
    LogRows
        Runs that a limit or an error stopped count by the score that METR gave them; without a
        score they failed.
    """
    optional = ("task_family", "run_id", "human_source", "stopped_by")
    numbers = ("score_raw", "human_minutes", "started_at")
    rows = RowColumns((*_FACETS, "stopped_by"), optional, numbers)
    stopped = 0
    for _, run in records_of(file.path):
        binary = run.get("score_binarized")
        score = number_of(run.get("score") if binary is None else binary)
        by = label_of(run.get("fatal_error_from"), "fatal_error_from")
        failed = by if by and score != score else None
        stopped += by is not None and failed is None
        rows.add(
            file=file.name,
            benchmark="METR",
            task_family=label_of(run.get("task_family"), "task_family"),
            system=label_of(run.get("alias"), "alias"),
            task=label_of(run.get("task_id"), "task_id"),
            run_id=label_of(run.get("run_id"), "run_id"),
            human_source=label_of(run.get("human_source"), "human_source"),
            stopped_by=by,
            rollout="",
            score=score,
            score_raw=_number(run.get("score")),
            human_minutes=_number(run.get("human_minutes")),
            started_at=_number(run.get("started_at")),
            **outcome_of(score, failed),
        )
    notes = (
        [f"{stopped:,} runs were stopped (column `stopped_by`) and count by the score METR gave"]
        if stopped
        else []
    )
    return LogRows(_numbered(rows.frame()), tuple(notes))


def _number(value: Any) -> float | None:
    number = number_of(value)
    return number if isinstance(number, float) else None


def _numbered(frame: pd.DataFrame) -> pd.DataFrame:
    """The runs of a system on a task, numbered from 1 by when they began."""
    if frame.empty:
        return frame
    began = frame["started_at"].fillna(0.0)
    order = frame.assign(started_at=began).sort_values("started_at", kind="stable")
    numbers = order.groupby(["system", "task"], dropna=False).cumcount() + 1
    rollout = numbers.reindex(frame.index).astype("str")
    return frame.assign(rollout=rollout).drop(columns="started_at")
