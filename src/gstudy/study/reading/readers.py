"""Files and DataFrames as raw columns: nothing is converted, guessed or dropped here."""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from gstudy.errors import DataError, explain
from gstudy.study.reading.csv_files import read_csv
from gstudy.study.reading.file_kinds import refuse_binary
from gstudy.study.reading.json_lines import read_json_lines
from gstudy.study.reading.parquet_files import read_parquet
from gstudy.study.reading.source_rows import Source

if TYPE_CHECKING:
    from collections.abc import Callable

    from gstudy.study.reading.wanted_columns import WantedColumns

__all__ = ["read_columns"]

_READERS: dict[str, Callable[[Path, WantedColumns], pd.DataFrame]] = {
    ".csv": read_csv,
    ".csv.gz": read_csv,
    ".parquet": read_parquet,
    ".jsonl": read_json_lines,
    ".jsonl.gz": read_json_lines,
}


# A fit that was saved.
_RUNS = (".nc", ".netcdf")


def read_columns(source: object, wanted: WantedColumns) -> tuple[pd.DataFrame, Source]:
    """The columns that a study names, as they are in a file or DataFrame.

    Parameters
    ----------
    source : str, Path or pandas.DataFrame
        A file is .csv, .parquet or .jsonl; .csv and .jsonl also gzipped (.gz).
    wanted : WantedColumns

    Returns
    -------
    pandas.DataFrame
        Rows numbered from 0, whatever index the source had.
    Source
        What errors call it.

    Raises
    ------
    DataError
        For anything else, a file that cannot be read, a column missing or there twice, and a
        table without rows.
    """
    if isinstance(source, pd.DataFrame):
        frame, place = _of_frame(source, wanted), Source("DataFrame", source.index)
    elif isinstance(source, str | os.PathLike):
        frame, place = _of_file(Path(source), wanted), Source(str(source))
    else:
        raise DataError(
            explain(
                "trials are read from a file or a DataFrame",
                given=f"{type(source).__module__}.{type(source).__qualname__}",
                allowed=f"pandas.DataFrame, or the path of a file: {', '.join(_READERS)}",
            )
        )
    if frame.empty:
        raise DataError(
            explain(
                f"{place.name} has no rows",
                allowed="one row per trial",
                do="Is it the right table?",
            )
        )
    return frame, place


def _of_frame(table: pd.DataFrame, wanted: WantedColumns) -> pd.DataFrame:
    inside = [name for name in table.index.names if name in wanted.needed]
    hint = f"{inside[0]!r} is in the index: use df.reset_index()." if inside else None
    if table.columns.nlevels > 1:
        hint = "The columns are a MultiIndex: give each one name, such as df.columns = [...]."
    columns = wanted.among(list(table.columns), "DataFrame", hint)
    return table[columns].reset_index(drop=True)


def _of_file(path: Path, wanted: WantedColumns) -> pd.DataFrame:
    try:
        if path.is_dir():
            raise DataError(
                explain(f"{path} is a folder", allowed=f"one file: {', '.join(_READERS)}")
            )
        read = _reader(path)
        if not path.exists():
            raise DataError(explain(f"no file {str(path)!r}", do="Check the path."))
        if path.suffix.lower() in (".csv", ".jsonl"):
            refuse_binary(path)
        return read(path, wanted)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(
            explain(
                f"{path} cannot be read: {error}",
                do="Is it damaged, or only partly copied? Write it again.",
            )
        ) from None


def _reader(path: Path) -> Callable[[Path, WantedColumns], pd.DataFrame]:
    name = path.name.lower()
    for suffix, read in _READERS.items():
        if name.endswith(suffix):
            return read
    if path.suffix.lower() in _RUNS:
        raise DataError(
            explain(
                f"{path} is a fit by its name, not trials",
                given=path.suffix,
                allowed=", ".join(_READERS),
                do="A fit is read by gs.load and shown by `gstudy budget`; give the trials.",
            )
        )
    raise DataError(
        explain(
            f"{path} has no suffix that says what it is",
            given=path.suffix,
            allowed=", ".join(_READERS),
            do="Rename it, or read it with pandas and give the DataFrame.",
        )
    )
