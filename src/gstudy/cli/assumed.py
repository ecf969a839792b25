"""The declaration that is assumed for trials that come without one, from names of columns."""

from __future__ import annotations

import csv
import io
import json
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gstudy.errors import DataError, DeclarationError, explain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from gstudy.study.declaration import Study

__all__ = ["Assumed", "assumed_study"]

# Whole names, compared without case; of each line the first one that is there is taken.
_SCORES = ("passed", "score", "correct", "is_correct", "success", "resolved")
_COUNTS = (("passes", "rollouts"), ("passes", "trials"), ("successes", "trials"), ("k", "n"))
_OBJECTS = ("system", "model", "agent", "policy")
_TASKS = ("task", "task_id", "item", "question", "problem", "instance_id", "sample_id", "query")
_CONDITIONS = ("environment", "snapshot", "harness", "prompt")
_ROLLOUTS = ("rollout", "epoch", "trial", "attempt", "run", "repeat", "replicate")
_JUDGES = ("judge", "grader", "rater", "scorer")

# Read by name, whatever the declaration says.
_ALWAYS_READ = ("outcome", "reason")


@dataclass(frozen=True, slots=True)
class Assumed:
    """A declaration made from names of columns.

    Parameters
    ----------
    study : Study
    toml : str
        The same as a study file.
    unused : tuple of str
        Columns that nothing was made of.
    """

    study: Study
    toml: str
    unused: tuple[str, ...]


def assumed_study(path: Path) -> Assumed:
    """The declaration that the columns of a file suggest.

    Parameters
    ----------
    path : Path
        Of the trials.

    Returns
    -------
    Assumed

    Raises
    ------
    DataError
        When the file cannot be read or is empty.
    DeclarationError
        When no column looks like a score, or none like a task.
    """
    from gstudy.study.declaration import Study

    columns = _columns(path)
    if not columns:
        raise DataError(
            explain(f"{path} is empty", allowed="one row per trial, with named columns")
        )
    known = {name.lower(): name for name in reversed(columns)}
    scores = _score_keys(known)
    facets = _facets(known, scores.get("trials"))
    if not scores:
        raise DeclarationError(_refusal(path, columns, "score", [*_SCORES, "passes + trials"]))
    if "task" not in facets:
        raise DeclarationError(_refusal(path, columns, "task", _TASKS))
    columns_of = (table.get("column", name) for name, table in facets.items())
    used = {*scores.values(), *columns_of, *_ALWAYS_READ}
    tables: dict[str, Any] = {"data": str(path.resolve()), **scores, "facets": facets}
    return Assumed(
        study=Study.from_dict(tables),
        toml=_toml({"data": path.name, **scores}, facets),
        unused=tuple(name for name in columns if name not in used),
    )


def _score_keys(known: Mapping[str, str]) -> dict[str, str]:
    for successes, trials in _COUNTS:
        if successes in known and trials in known:
            return {"successes": known[successes], "trials": known[trials]}
    found = _first(known, _SCORES)
    return {"score": found} if found else {}


def _facets(known: Mapping[str, str], counted: str | None) -> dict[str, dict[str, Any]]:
    """Tables of the facets; rollouts are drawn anew for every combination of what they serve."""
    facets: dict[str, dict[str, Any]] = {}

    def add(name: str, column: str | None, role: str, **more: Any) -> None:
        if column is not None:
            renamed = {} if column == name else {"column": column}
            facets[name] = {"role": role, **renamed, **more}

    add("system", _first(known, _OBJECTS), "object")
    add("task", _first(known, _TASKS), "legitimate")
    for name in _CONDITIONS:
        add(name, known.get(name), "legitimate")
    parents = list(facets)
    if parents:
        # Counts are of rollouts: how many, not which.
        rollouts = _first(known, _ROLLOUTS) if counted is None else counted
        add("rollout", rollouts, "legitimate", nested_in=parents)
    add("judge", _first(known, _JUDGES), "error")
    return facets


def _first(known: Mapping[str, str], names: Sequence[str]) -> str | None:
    return next((known[name] for name in names if name in known), None)


def _columns(path: Path) -> list[str]:
    """Names of the columns of a file of trials."""
    from gstudy.study.reading.csv_files import open_plain

    name = path.name.lower()
    try:
        if name.endswith(".parquet"):
            import pyarrow.parquet

            return [str(column) for column in pyarrow.parquet.read_schema(path).names]
        with open_plain(path) as stream:
            text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
            if name.endswith((".csv", ".csv.gz")):
                return next((row for row in csv.reader(text) if row), [])
            if name.endswith((".jsonl", ".jsonl.gz")):
                first = json.loads(next((line for line in text if line.strip()), "{}"))
                return list(first) if isinstance(first, dict) else []
    except (OSError, ValueError, EOFError, zlib.error, csv.Error, RecursionError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise DataError(
            explain(f"{path} cannot be read: {reason}", do="Check the path.")
        ) from error
    raise DataError(
        explain(
            f"{path} is neither trials, a study nor a run",
            given=path.suffix,
            allowed=".csv, .parquet, .jsonl (.gz), .toml of a study, .nc of a run",
        )
    )


def _refusal(path: Path, columns: Sequence[str], what: str, names: Sequence[str]) -> str:
    return explain(
        f"no column of {path} is known to be a {what}, and no study was given",
        given=list(columns),
        allowed=f"for a guess, a column called {', '.join(names)}",
        do="Declare the study in a file and pass it: --study study.toml.",
    )


def _toml(scores: Mapping[str, str], facets: Mapping[str, Mapping[str, Any]]) -> str:
    lines = [f"{key} = {_quoted(value)}" for key, value in scores.items()]
    for name, table in facets.items():
        lines += ["", f"[facets.{name}]"]
        lines += [f"{key} = {_quoted(value)}" for key, value in table.items()]
    return "\n".join(lines)


def _quoted(value: object) -> str:
    # JSON's texts and lists of texts are TOML's too, but for the one control character it allows.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
