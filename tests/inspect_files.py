"""Logs of Inspect that tests build offline."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def sample(
    task: int | str, scores: dict[str, Any] | None = None, *, epoch: int = 1, **more: Any
) -> Any:
    """A sample: `error` and `limit` as text, scores as values or as whole Score objects."""
    from inspect_ai.log import EvalError, EvalSample, EvalSampleLimit
    from inspect_ai.scorer import Score

    error, limit = more.pop("error", None), more.pop("limit", None)
    return EvalSample(
        id=task,
        epoch=epoch,
        input="question",
        target="answer",
        scores={
            name: value if isinstance(value, Score) else Score(value=value)
            for name, value in scores.items()
        }
        if scores is not None
        else None,
        error=None if error is None else EvalError(message=error, traceback="", traceback_ansi=""),
        limit=None if limit is None else EvalSampleLimit(type=limit, limit=10),
        **more,
    )


def write_log(path: Path, samples: list[Any], **spec: Any) -> Path:
    """A log at that path, .eval or .json; `status`, and any field of the eval's specification."""
    from inspect_ai.log import EvalConfig, EvalDataset, EvalLog, EvalSpec, write_eval_log

    status = spec.pop("status", "success")
    name = path.name
    own: dict[str, Any] = {
        "eval_id": f"eval-{name}",
        "run_id": f"run-{name}",
        "task_id": f"task-{name}",
        "created": "2026-01-01T00:00:00+00:00",
        "task": "quiz",
        "model": "openai/gpt-5",
        "dataset": EvalDataset(name="d", samples=len(samples)),
        "config": EvalConfig(),
    }
    log = EvalLog(status=status, eval=EvalSpec(**{**own, **spec}), samples=samples)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_eval_log(log, str(path))
    return path
