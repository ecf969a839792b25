"""Logs as the source of a study's trials."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from gstudy.errors import DataError, explain
from gstudy.study.logs.collected import read_logs
from gstudy.study.logs.formats import is_log
from gstudy.study.logs.json_streams import first_keys
from gstudy.study.logs.log_files import LogError
from gstudy.study.logs.log_table import is_log_table, source_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gstudy.study.declaration import Study
    from gstudy.study.reading.wanted_columns import WantedColumns

__all__ = ["from_logs", "logs_notes", "refuse_two_runs"]

_SAID = ("score", "outcome", "reason", "detail")
_TABLES = (".csv", ".csv.gz", ".parquet")
_LINES = (".jsonl", ".jsonl.gz")
_LISTED = 5


def from_logs(source: object, wanted: WantedColumns) -> object:
    """The table of logs, if that is what a source is; else the source.

    A folder is logs; so is a file whose content is a log, unless it is JSON lines with every
    column that the study names.

    Parameters
    ----------
    source : object
        What `read_trials` was given.
    wanted : WantedColumns

    Returns
    -------
    object
    """
    if not isinstance(source, str | os.PathLike):
        return source
    path = Path(source)
    name = path.name.lower()
    if path.is_dir():
        return read_logs(path)
    if not path.is_file() or name.endswith(_TABLES):
        return source
    if name.endswith(_LINES) and _has_columns(path, wanted):
        return source
    return read_logs(path) if is_log(path) else source


def _has_columns(path: Path, wanted: WantedColumns) -> bool:
    try:
        _, keys = first_keys(path, lambda _, keys: wanted.needed.keys() <= set(keys))
    except (LogError, OSError, EOFError):
        return True
    return wanted.needed.keys() <= set(keys)


def refuse_two_runs(source: object, study: Study) -> str | None:
    """Refuse a trial that two logs hold, or that a column which is no facet tells apart.

    Parameters
    ----------
    source : object
        What trials are read from: looked at if it is a table of logs, or part of one.
    study : Study

    Returns
    -------
    str or None
        What errors call the logs; None for another source.

    Raises
    ------
    DataError
        Naming both files and what tells the two rows apart.
    """
    if not isinstance(source, pd.DataFrame) or not is_log_table(source):
        return None
    columns = [facet.source_column for facet in study.labelled]
    if "file" in source and columns and all(name in source for name in columns):
        _refuse_repeated(source.reset_index(drop=True), columns, study)
    return source_of(source)


def logs_notes(source: object) -> tuple[str, ...]:
    """What a table of logs says of itself, with how many files were skipped."""
    if not isinstance(source, pd.DataFrame) or not is_log_table(source):
        return ()
    skipped = source.attrs["skipped"]
    names = ", ".join(name for name, _ in skipped[:_LISTED]) + (" ..." if skipped[_LISTED:] else "")
    left = [f"{len(skipped):,} files gave no rows: {names}"] if skipped else []
    return (*source.attrs["notes"], *left)


def _refuse_repeated(table: pd.DataFrame, columns: Sequence[str], study: Study) -> None:
    codes = table.groupby(list(columns), dropna=False, sort=False).ngroup()
    again = codes.duplicated().to_numpy()
    if not again.any() or study.score is None:
        return
    second = int(np.argmax(again))
    first = int(np.argmax((codes == codes.iloc[second]).to_numpy()))
    one, other = table.iloc[first], table.iloc[second]
    trial = ", ".join(f"{name} {str(one[name])[:60]!r}" for name in columns)
    differ = [
        name
        for name in table.columns
        if name not in (*columns, *_SAID, "file") and str(one[name]) != str(other[name])
    ]
    files = [str(one["file"]), str(other["file"])]
    where = f"{files[0]} and {files[1]} both hold" if files[0] != files[1] else f"{files[0]} holds"
    twice = "" if files[0] != files[1] else " twice"
    raise DataError(
        explain(
            f"{where} the trial {trial}{twice} ({int(again.sum()):,} of {len(table):,} rows repeat "
            "an earlier one)",
            allowed="one row for each combination of the study's facets",
            do=_advice(one, other, differ, files),
        )
    )


def _told(label: object) -> str:
    return "none" if label is None or label != label else str(label)[:60]


def _advice(one: pd.Series, other: pd.Series, differ: list[str], files: list[str]) -> str:
    if differ:
        name = differ[0]
        label = other[name] if pd.isna(one[name]) else one[name]
        told = ", ".join(f"{n} ({_told(one[n])}, {_told(other[n])})" for n in differ[:4])
        return (
            f"They differ in {told}: declare what tells them apart as a facet, or read one: "
            f"gs.read_logs(path, keep={{{name!r}: {str(label)!r}}})."
        )
    if files[0] != files[1]:
        return (
            f"Read one of the two: gs.read_logs(path, keep={{'file': {files[0]!r}}}); or declare "
            'the runs as a facet, such as [facets.run] column = "file", role = "legitimate".'
        )
    return "Drop the repeats, or declare the facet that tells them apart."
