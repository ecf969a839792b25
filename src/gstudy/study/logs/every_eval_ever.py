"""Every Eval Ever: instance-level JSON lines, one per sample of one evaluation."""

from __future__ import annotations

from typing import Any

from gstudy.study.logs.json_streams import records_of
from gstudy.study.logs.log_files import LogFile, LogRows
from gstudy.study.logs.row_columns import (
    RowColumns,
    label_of,
    number_of,
    outcome_of,
    same_responses,
)

__all__ = ["read"]

_FACETS = ("file", "benchmark", "system", "task", "rollout", "filter", "metric", "evaluation_id")


def read(file: LogFile) -> LogRows:
    """An instance-level file of Every Eval Ever (schemas 0.2 and 0.3).

    `benchmark` is evaluation_name, `system` model_id, `task` sample_id, `score` evaluation.score,
    `metric` evaluation_result_id where there is one, `filter` metadata.filter (of what was
    lm-evaluation-harness's), `rollout` metadata.epoch where there is one, else the order of the
    lines of one sample. A line with an error failed.

    Parameters
    ----------
    file : LogFile

    Returns
    -------
    LogRows
    """
    rows = RowColumns(_FACETS, ("filter", "metric", "evaluation_id"), ("is_correct",))
    seen: dict[tuple[str | None, ...], int] = {}
    numbered = 0
    for _, line in records_of(file.path):
        metadata = _part(line, "metadata")
        labels = {
            "benchmark": label_of(line.get("evaluation_name"), "evaluation_name"),
            "system": label_of(line.get("model_id"), "model_id"),
            "task": label_of(line.get("sample_id"), "sample_id"),
            "filter": label_of(metadata.get("filter"), "metadata.filter"),
            "metric": label_of(line.get("evaluation_result_id"), "evaluation_result_id"),
            "evaluation_id": label_of(line.get("evaluation_id"), "evaluation_id"),
        }
        key = tuple(labels.values())
        place = seen[key] = seen.get(key, 0) + 1
        epoch = metadata.get("epoch")
        numbered += epoch is None and place > 1
        evaluation = _part(line, "evaluation")
        correct = evaluation.get("is_correct")
        given = evaluation.get("score")
        score = number_of(correct if given is None else given)
        error = str(line.get("error") or "").strip()
        rows.add(
            file=file.name,
            rollout=label_of(place if epoch is None else epoch, "metadata.epoch"),
            score=score,
            is_correct=float(correct) if isinstance(correct, bool) else None,
            detail=error[:300],
            **labels,
            **outcome_of(score, "error" if error else None),
        )
    frame = rows.frame()
    notes = same_responses(frame, "filter", "metric")
    if numbered:
        notes.append(
            f"{numbered:,} lines repeat a sample of one evaluation: they are read as further "
            "rollouts of it, in their order"
        )
    return LogRows(frame, tuple(notes))


def _part(line: dict[str, Any], key: str) -> dict[str, Any]:
    value = line.get(key)
    return value if isinstance(value, dict) else {}
