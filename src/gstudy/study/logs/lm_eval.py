"""lm-evaluation-harness samples: one line per document and filter, with a value per metric."""

from __future__ import annotations

import glob
import math
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from gstudy.study.logs.json_streams import records_of, value_of
from gstudy.study.logs.log_files import LogError, LogFile, LogRows
from gstudy.study.logs.row_columns import (
    RowColumns,
    label_of,
    number_of,
    outcome_of,
    same_responses,
)

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["read"]

_FACETS = ("file", "benchmark", "system", "task", "filter", "metric")

# Keys of a sample that are no metric; older samples do not list their metrics.
_OTHERS = frozenset(
    {
        *("doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics"),
        *("doc_hash", "prompt_hash", "target_hash", "task_name"),
    }
)


def read(file: LogFile) -> LogRows:
    """A samples file of lm-evaluation-harness.

    `benchmark` is the task in the file's name, `task` doc_id, `system` the model that the results
    beside it name, else the folder. There is a row for each `filter` and `metric`: both read the
    same response, and are no replications.

    Parameters
    ----------
    file : LogFile

    Returns
    -------
    LogRows
    """
    benchmark, date = _name_parts(file.path)
    system, told = _system(file.path, date)
    rows = RowColumns(_FACETS, ("filter",))
    responses, other = 1, dict[str, None]()
    for number, sample in records_of(file.path):
        if "doc_id" not in sample:
            raise LogError(f"line {number} has no doc_id")
        responses = max(responses, _responses(sample.get("resps")))
        for metric in _metrics(sample):
            score = _number(sample.get(metric))
            if score is None:
                other[metric] = None
                continue
            rows.add(
                file=file.name,
                benchmark=benchmark,
                system=system,
                task=label_of(sample["doc_id"], "doc_id"),
                filter=label_of(sample.get("filter"), "filter"),
                metric=metric,
                score=score,
                **outcome_of(score, None),
            )
    return LogRows(rows.frame(), tuple(_notes(rows, told, responses, list(other))))


def _notes(rows: RowColumns, told: str, responses: int, other: list[str]) -> list[str]:
    notes = [f"`system` is {told}", *same_responses(rows.frame(), "filter", "metric")]
    if responses > 1:
        notes.append(
            f"resps holds up to {responses} responses per document, which the filter made one "
            "score of: they are no rollouts"
        )
    if other:
        notes.append(f"no number per document, and left out: {', '.join(map(repr, other))}")
    return notes


def _name_parts(path: Path) -> tuple[str, str]:
    """The task and the date of samples_<task>_<date>.jsonl."""
    name = path.name.removesuffix(".gz").removesuffix(".jsonl")
    if not name.startswith("samples_"):
        return name, ""
    task, _, date = name.removeprefix("samples_").rpartition("_")
    return (task, date) if task else (date, "")


def _system(path: Path, date: str) -> tuple[str, str]:
    """The model, and what names it."""
    # With --output_path some.json the results are some_<date>.json.
    found = sorted(path.parent.glob(f"*_{glob.escape(date)}.json")) if date else []
    for results in found:
        try:
            name = value_of(results, "model_name")
        except (LogError, OSError):
            name = None
        if isinstance(name, str) and name:
            return name, "model_name of the results beside it"
    return PurePath(path.resolve()).parent.name or path.stem, "the name of its folder"


def _metrics(sample: dict[str, Any]) -> list[str]:
    listed = sample.get("metrics")
    if isinstance(listed, list):
        return [metric for metric in listed if isinstance(metric, str)]
    return [name for name in sample if name not in _OTHERS]


def _number(value: Any) -> float | None:
    """A metric of one document; of the kinds that are only pooled there is none."""
    if value is None:
        return math.nan
    number = number_of(value) if isinstance(value, bool | int | float | str) else None
    return number if isinstance(number, float) else None


def _responses(found: Any) -> int:
    """How many responses the first request has."""
    first = found[0] if isinstance(found, list) and found else None
    return len(first) if isinstance(first, list) else 1
