"""Inspect logs: read through inspect_ai, of each sample only what was scored."""

from __future__ import annotations

import contextlib
import logging
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from gstudy.errors import DataError, explain
from gstudy.study.logs.json_streams import items_of
from gstudy.study.logs.log_files import LogError, LogFile, LogRows, Run
from gstudy.study.logs.row_columns import RowColumns, label_of, number_of, outcome_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["SCALAR", "read_eval", "read_json"]

Format = Literal["eval", "json"]

_FACETS = ("file", "benchmark", "system", "task", "rollout", "judge", "metric")

# Inspect's letters: correct, incorrect, partial, no answer.
_LETTERS = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
_WORDS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}

SCALAR = "value"
"""The label of column `metric` where a scorer gave one value, beside scorers that gave several."""

# A .json log beyond this size is read sample by sample: inspect_ai holds such a log whole.
LARGE = 100_000_000

# The name that Inspect gives a score of its oldest logs, which did not say its scorer.
_NAMELESS = "88F74D2C"


@dataclass(frozen=True, slots=True)
class Sample:
    """What a log says of one sample in one epoch."""

    id: Any
    epoch: Any
    scores: dict[str, tuple[Any, str]]
    error: str
    limit: str


def read_eval(file: LogFile) -> LogRows:
    """A log in Inspect's archive format, of whatever compression.

    `benchmark` is the task, `system` the model, `task` the sample's id, `rollout` its epoch,
    `judge` the scorer (with the model of its role, where one is bound), `score` C = 1, I = 0,
    P = 0.5, N = 0 or a number. A scorer that gave several values has a row for each, by `metric`.
    An error or a limit is a failed run, with its score kept where it has one.

    Parameters
    ----------
    file : LogFile

    Returns
    -------
    LogRows

    Raises
    ------
    DataError
        When inspect_ai is not installed.
    """
    return _read(file, "eval")


def read_json(file: LogFile) -> LogRows:
    """A log in Inspect's JSON format, whatever its name."""
    return _read(file, "json")


def _read(file: LogFile, form: Format) -> LogRows:
    _need_inspect(file)
    from inspect_ai.log import read_eval_log, read_eval_log_sample_summaries

    path = str(file.path)
    with _quiet(), _faults():
        header = read_eval_log(path, header_only=True, format=form)
        samples = (
            _streamed(file, header)
            if form == "json" and file.path.stat().st_size > LARGE
            else map(_summarised, read_eval_log_sample_summaries(path, format=form))
        )
        rows, notes = _rows(file, header, list(samples))
    return LogRows(rows.frame(), tuple(notes), _run(header))


def _need_inspect(file: LogFile) -> None:
    from importlib.util import find_spec

    if find_spec("inspect_ai") is None:
        raise DataError(
            explain(
                f"{file.name} is a log of Inspect, and inspect_ai, which reads it, is not "
                "installed",
                do="Install it: pip install 'gstudy[inspect]'",
            )
        )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without what inspect_ai logs about old fields of a log."""
    logger = logging.getLogger("inspect_ai")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


@contextlib.contextmanager
def _faults() -> Iterator[None]:
    """Whatever inspect_ai raises on a damaged log is a fault of the log."""
    try:
        yield
    except (LogError, DataError, KeyboardInterrupt, MemoryError):
        raise
    except Exception as error:
        said = str(error).splitlines()[0][:200] if str(error) else ""
        raise LogError(f"Inspect cannot read it: {type(error).__name__}: {said}") from None


def _summarised(summary: Any) -> Sample:
    # Releases before 0.3.245 give no reasons.
    scores = {
        name: (score.value, str(getattr(score, "reason", None) or ""))
        for name, score in (summary.scores or {}).items()
    }
    error, limit = (str(said or "").strip() for said in (summary.error, summary.limit))
    return Sample(summary.id, summary.epoch, scores, error, limit)


def _streamed(file: LogFile, header: Any) -> Iterator[Sample]:
    """The samples of a .json log, one at a time."""
    nameless = header.results.scores[0].name if header.results and header.results.scores else ""
    for sample in items_of(file.path, "samples.item"):
        if not isinstance(sample, dict) or "id" not in sample:
            raise LogError("a sample of it is no object with an id")
        scores = sample.get("scores") or {}
        if not scores and isinstance(sample.get("score"), dict):
            scores = {nameless or _NAMELESS: sample["score"]}
        error, limit = sample.get("error"), sample.get("limit")
        yield Sample(
            sample["id"],
            sample.get("epoch", 1),
            {name: (s.get("value"), str(s.get("reason") or "")) for name, s in scores.items()},
            str((error.get("message") if isinstance(error, dict) else error) or "").strip(),
            str((limit.get("type") if isinstance(limit, dict) else limit) or "").strip(),
        )


def _rows(file: LogFile, header: Any, samples: list[Sample]) -> tuple[RowColumns, list[str]]:
    rows = RowColumns(_FACETS, ("metric",))
    judges = _judges(header, samples)
    metrics = _metrics(samples)
    kept = 0
    for sample in samples:
        failed = "error" if sample.error else f"{sample.limit} limit" if sample.limit else None
        labels = {
            "file": file.name,
            "benchmark": header.eval.task,
            "system": header.eval.model,
            "task": label_of(sample.id, "id"),
            "rollout": label_of(sample.epoch, "epoch"),
            "detail": sample.error[:300],
        }
        for judge, label in judges.items():
            value, reason = sample.scores.get(judge, (None, ""))
            for metric, part in _parts(value, metrics.get(judge, {})).items():
                score = _score(part)
                kept += failed is not None and score == score
                said = outcome_of(score, failed)
                if said["outcome"] == "unscored":
                    said["reason"] = reason
                rows.add(judge=label, metric=metric, score=score, **labels, **said)
    notes = _notes(header, samples, kept)
    for judge, names in metrics.items():
        if len(names) > 1:
            listed = [str(name) for name in names]
            notes.append(
                f"{judge} gives {len(listed)} values at once ({', '.join(listed[:5])}): choose one "
                f"with keep={{'metric': {listed[0]!r}}}, or declare the facet metric"
            )
    return rows, notes


def _judges(header: Any, samples: Iterable[Sample]) -> dict[str, str | None]:
    """Each scorer of the log and its label; one without a label where nothing was scored."""
    found = {judge: None for sample in samples for judge in sample.scores}
    if not found and any(sample.error or sample.limit for sample in samples):
        # Every run of it failed: the log's own list says who would have scored.
        found = dict.fromkeys(name for name, _ in _scorers(header))
    if not found:
        return {"": None}
    models = _role_models(header)
    return {judge: f"{judge} ({models[judge]})" if judge in models else judge for judge in found}


def _role_models(header: Any) -> dict[str, str]:
    """Scorer to the model that its role is bound to, where the log binds it."""
    roles = header.eval.model_roles or {}
    found: dict[str, str] = {}
    for name, scorer in _scorers(header) if roles else ():
        options = scorer.options or {}
        graded = name.startswith("model_graded")
        role = options.get("model_role", "grader" if graded else None)
        role = role.get("name", "grader") if isinstance(role, dict) else role
        if options.get("model") is None and isinstance(role, str) and role in roles:
            found[name] = _models(roles[role])
    return found


def _scorers(header: Any) -> list[tuple[str, Any]]:
    """The scorers of a log by the names of their scores: Inspect numbers alike ones, qa, qa1."""
    found: dict[str, Any] = {}
    for scorer in header.eval.scorers or []:
        base = scorer.name.rpartition("/")[2]
        names = (base, *(f"{base}{i}" for i in range(1, len(found) + 1)))
        found[next(name for name in names if name not in found)] = scorer
    return list(found.items())


def _models(bound: Any) -> str:
    return " + ".join(part.model for part in (bound if isinstance(bound, list) else [bound]))


def _metrics(samples: list[Sample]) -> dict[str, dict[str | None, Any]]:
    """The names of each scorer's values, in a log where a scorer gave several at once."""
    found: dict[str, dict[str | None, Any]] = {}
    several = False
    for sample in samples:
        for judge, (value, _) in sample.scores.items():
            parts = _parts(value, {SCALAR: None})
            several |= isinstance(value, dict | list)
            found.setdefault(judge, {}).update(dict.fromkeys(parts))
    return found if several else {}


def _parts(value: Any, names: dict[str | None, Any]) -> dict[str | None, Any]:
    """The values of a score by their names: all that its scorer uses, where it has none."""
    if isinstance(value, dict) and value:
        return {str(name): part for name, part in value.items()}
    if isinstance(value, list) and value:
        return {str(i): part for i, part in enumerate(value)}
    if value is None or isinstance(value, dict | list):
        return dict.fromkeys(names or {None: None})
    return {SCALAR if names else None: value}


def _score(value: Any) -> Any:
    """The number that a value stands for; any other text stays what it is."""
    if isinstance(value, str):
        text = value.strip()
        if text in _LETTERS:
            return _LETTERS[text]
        if text.lower() in _WORDS:
            return _WORDS[text.lower()]
    number = number_of(value)
    return math.nan if number is None else number


def _notes(header: Any, samples: list[Sample], kept: int) -> list[str]:
    notes = []
    status = {"cancelled": "was cancelled", "error": "ended with an error"}.get(
        header.status, "never ended" if header.status == "started" else ""
    )
    if status:
        notes.append(f"the run {status}: the {len(samples):,} samples in it are read")
    if getattr(header, "invalidated", False):
        notes.append("samples of it were marked as invalid in Inspect; they are read")
    if samples and not any(sample.scores for sample in samples):
        notes.append(f"nothing in it was scored ({len(samples):,} samples)")
    if kept:
        notes.append(
            f"{kept:,} scores are of samples that failed: they stand in `score`, and count by the "
            "study's on_failed_run"
        )
    return notes


def _run(header: Any) -> Run:
    """The ids by which shards and retries are found: of the log, of its task, of its run.

    A run may hold several tasks and models: there its logs are one only if they ran the same.
    """
    spec = header.eval
    same = (spec.task, spec.task_args, spec.solver, spec.solver_args, spec.model, spec.model_args)
    alike = repr((*same, spec.model_base_url, spec.model_generate_config))
    ids = {f"eval {spec.eval_id}" if spec.eval_id else "", f"task {spec.task_id}"}
    ids |= {f"run {spec.run_id} {alike}"} if spec.run_id else set()
    return Run(frozenset(ids - {"", "task "}), str(spec.created))
