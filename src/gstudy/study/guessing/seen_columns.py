"""What a guess looks at: every column of a source, or of a large one some rows of likely ones."""

from __future__ import annotations

import csv
import io
import json
import os
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from gstudy.errors import DataError, explain
from gstudy.study.guessing import column_words as words
from gstudy.study.logs.collected import read_logs
from gstudy.study.logs.formats import is_log
from gstudy.study.logs.log_table import LogTable, is_log_table, source_of
from gstudy.study.reading.csv_files import open_plain
from gstudy.study.reading.file_kinds import refuse_binary
from gstudy.study.reading.labels import is_unicode
from gstudy.study.reading.large_files import MANY_BYTES
from gstudy.study.reading.readers import read_columns
from gstudy.study.reading.wanted_columns import WantedColumns

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["SeenColumns", "see_columns"]

_TABLES = (".csv", ".csv.gz", ".parquet")
_LINES = (".jsonl", ".jsonl.gz")
# Rows of a large file that are looked at, and lines of JSON whose keys are.
_MOST_ROWS = 1_000_000
_FIRST_LINES = 1000
_KNOWN = (
    *(words.SCORES, *words.COUNTS, words.ERRORS, words.OBJECTS, words.TASKS, words.ROLLOUTS),
    *(words.JUDGES, words.NAMED, words.EXCHANGEABLE, words.SAME_RESPONSE, ("outcome", "reason")),
)


@dataclass(frozen=True, slots=True, eq=False)
class SeenColumns:
    """A source as a guess sees it.

    Parameters
    ----------
    frame : pandas.DataFrame
        The columns that were looked at.
    name : str
        What errors call it.
    source : object
        What `read_trials` takes: the table of logs, or the source itself.
    path : Path or None
        For a study file.
    unseen : tuple of str
        Columns of a large file that were not looked at.
    notes : tuple of str
        What there is to say of how it was read.
    """

    frame: pd.DataFrame
    name: str
    source: Any
    path: Path | None
    unseen: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def of_logs(self) -> bool:
        """Whether they are of logs."""
        return is_log_table(self.source)


def see_columns(source: object) -> SeenColumns:
    """The columns of a table, a file of trials, a log or a folder of logs.

    Parameters
    ----------
    source : str, Path or pandas.DataFrame

    Returns
    -------
    SeenColumns

    Raises
    ------
    DataError
        For anything else, a file that cannot be read, and a table without rows.
    """
    if isinstance(source, pd.DataFrame):
        if source.columns.nlevels > 1 or source.empty:
            read_columns(source, WantedColumns({}))
        name = source_of(source) if is_log_table(source) else "DataFrame"
        path = Path(name) if isinstance(source, LogTable) and Path(name).exists() else None
        return SeenColumns(source.reset_index(drop=True), name, source, path)
    if not isinstance(source, str | os.PathLike):
        raise DataError(
            explain(
                "a study is guessed from trials",
                given=f"{type(source).__module__}.{type(source).__qualname__}",
                allowed="the path of a file or of logs, or a pandas.DataFrame",
            )
        )
    path = Path(source)
    if path.is_dir() or (path.is_file() and not _is_table(path) and is_log(path)):
        logs = read_logs(path)
        return SeenColumns(logs.reset_index(drop=True), str(path), logs, path)
    names = _columns(path)
    if not names:
        raise DataError(
            explain(f"{path} is empty", allowed="one row per trial, with named columns")
        )
    if path.stat().st_size >= MANY_BYTES and path.name.lower().endswith(_TABLES):
        return _of_large(path, names)
    # Of a column that is there twice the error tells, as it does when trials are read. A name that
    # is no Unicode, which JSON can hold, no table can.
    named = tuple(dict.fromkeys(name for name in names if name and is_unicode(name)))
    frame, _ = read_columns(path, WantedColumns({}, named))
    unseen = tuple(name for name in names if not is_unicode(name))
    return SeenColumns(frame, str(path), path, path, unseen)


def _is_table(path: Path) -> bool:
    return path.name.lower().endswith(_TABLES)


def _columns(path: Path) -> list[str]:
    """Names of the columns of a file of trials."""
    name = path.name.lower()
    try:
        if name.endswith(".parquet"):
            import pyarrow.parquet

            return [str(column) for column in pyarrow.parquet.read_schema(path).names]
        if name.endswith((*_TABLES, *_LINES)):
            if name.endswith((".csv", ".jsonl")) and path.exists():
                refuse_binary(path)
            with open_plain(path) as stream:
                text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
                if name.endswith(_TABLES):
                    return next((row for row in csv.reader(text) if row), [])
                return _keys(text)
    except (OSError, ValueError, EOFError, zlib.error, csv.Error, RecursionError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise DataError(
            explain(f"{path} cannot be read: {reason}", do="Check the path.")
        ) from error
    if not path.exists():
        raise DataError(explain(f"no file or folder {str(path)!r}", do="Check the path."))
    raise DataError(
        explain(
            f"{path} is neither trials, logs, a study nor a run",
            given=path.suffix,
            allowed=".csv, .parquet, .jsonl (.gz), logs or a folder of them, .toml of a study, "
            ".nc of a run",
        )
    )


def _keys(lines: io.TextIOWrapper) -> list[str]:
    """The keys of the first objects of JSON lines, in the order in which they come."""
    keys: dict[str, None] = {}
    for number, line in enumerate(lines):
        if number >= _FIRST_LINES:
            break
        record = json.loads(line) if line.strip() else {}
        keys.update(dict.fromkeys(record) if isinstance(record, dict) else {})
    return list(keys)


def _of_large(path: Path, names: Sequence[str]) -> SeenColumns:
    """Some rows of the columns whose names say something."""
    likely = [name for name in dict.fromkeys(names) if any(words.place(name, w) for w in _KNOWN)]
    unseen = tuple(name for name in names if name not in likely)
    if not likely:
        return SeenColumns(pd.DataFrame(), str(path), path, path, unseen)
    some = _some_parquet if path.suffix.lower() == ".parquet" else _some_csv
    frame = some(path, likely)
    note = f"guessed from {len(frame):,} rows of a large file, by the columns with known names"
    return SeenColumns(frame, str(path), path, path, unseen, (note,))


def _some_parquet(path: Path, names: list[str]) -> pd.DataFrame:
    """Row groups from all over the file."""
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        groups = file.num_row_groups
        size = max(file.metadata.num_rows // max(groups, 1), 1)
        step = -(-groups // max(_MOST_ROWS // size, 1))
        chosen = list(range(0, groups, step))
        table = file.read_row_groups(chosen, columns=names).slice(0, _MOST_ROWS)
    frame: pd.DataFrame = table.to_pandas(types_mapper=pd.ArrowDtype, ignore_metadata=True)
    return frame


def _some_csv(path: Path, names: list[str]) -> pd.DataFrame:
    """The first rows of the file."""
    try:
        return pd.read_csv(path, usecols=names, dtype=str, keep_default_na=False, nrows=_MOST_ROWS)[
            names
        ]
    except (ValueError, OSError, EOFError, zlib.error) as error:
        raise DataError(explain(f"{path} cannot be read as CSV: {error}")) from None
