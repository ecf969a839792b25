"""CSV files: every value stays the text that stands in the file."""

from __future__ import annotations

import csv
import gzip
import io
import sys
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa

from gstudy.errors import DataError, explain
from gstudy.study.reading.labels import is_unicode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from gstudy.study.reading.wanted_columns import WantedColumns

__all__ = ["csv_to_parquet", "is_gzip", "open_plain", "read_csv"]

_CHUNK = 1 << 20

# A record must lie within one block: transcripts in other columns can be megabytes long.
_BLOCK = 1 << 25


def read_csv(path: Path, wanted: WantedColumns) -> pd.DataFrame:
    """The wanted columns of a CSV file, plain or gzipped, as text.

    No text means "missing": "None", "NA" and "" arrive as they are.

    Parameters
    ----------
    path : Path
    wanted : WantedColumns

    Returns
    -------
    pandas.DataFrame
        Arrow-backed text, one row per record.

    Raises
    ------
    DataError
        For an empty file, a column missing or there twice, a line with too few or too many
        values, a quote that never closes, text that is not UTF-8, a damaged gzip.
    """
    header = _header(path)
    columns = wanted.among(header, str(path), _delimiter_hint(header))
    _check_quotes(path)
    table = _records(path, columns, pa.large_string())
    frame: pd.DataFrame = table.to_pandas(types_mapper=pd.ArrowDtype)
    return frame


def csv_to_parquet(path: Path, wanted: WantedColumns, target: Path) -> None:
    """Copy the wanted columns of a CSV file to a Parquet file, block by block.

    Parameters
    ----------
    path : Path
    wanted : WantedColumns
    target : Path
        Overwritten.

    Raises
    ------
    DataError
        As `read_csv`.
    """
    from pyarrow import parquet

    header = _header(path)
    columns = wanted.among(header, str(path), _delimiter_hint(header))
    _check_quotes(path)
    schema = pa.schema([(name, pa.string()) for name in columns])
    with parquet.ParquetWriter(target, schema, compression="snappy") as writer:
        for batch in _batches(path, columns, pa.string()):
            writer.write_batch(batch.select(columns))


def open_plain(path: Path) -> IO[bytes] | gzip.GzipFile:
    """The file's bytes, unpacked if it is gzipped."""
    return gzip.open(path, "rb") if is_gzip(path) else path.open("rb")


def is_gzip(path: Path) -> bool:
    """Whether the file's name says that it is gzipped."""
    return path.suffix.lower() == ".gz"


def _header(path: Path) -> list[str]:
    # Text is decoded ahead of the header: what cannot be decoded must not matter here.
    with (
        open_plain(path) as raw,
        io.TextIOWrapper(raw, "utf-8-sig", "surrogateescape", "") as text,
    ):
        try:
            header = next((row for row in csv.reader(text) if row), None)
        except csv.Error as error:
            raise DataError(explain(f"{path}: the header cannot be read: {error}")) from None
    if header is None:
        raise DataError(explain(f"{path} is empty", allowed="a header and one row per trial"))
    if any(not is_unicode(name) for name in header):
        raise DataError(
            explain(f"{path}: the header is not UTF-8 text", do="Save the file as UTF-8.")
        )
    return header


def _delimiter_hint(header: list[str]) -> str | None:
    for mark, name in ((";", "semicolons"), ("\t", "tabs")):
        if len(header) == 1 and mark in header[0]:
            return f"The header is separated by {name}: save the file with commas."
    return None


def _records(path: Path, columns: list[str], kind: Any) -> Any:
    """The columns as an Arrow table of that type; refuses ragged lines and broken text."""
    from pyarrow import csv as arrow_csv

    with _refusals(path, columns, kind) as note, _stream(path) as stream:
        return arrow_csv.read_csv(stream, **_options(columns, kind, note))


def _batches(path: Path, columns: list[str], kind: Any) -> Iterator[Any]:
    """The same in blocks, one after the other."""
    from pyarrow import csv as arrow_csv

    with (
        _refusals(path, columns, kind) as note,
        _stream(path) as stream,
        arrow_csv.open_csv(stream, **_options(columns, kind, note)) as reader,
    ):
        yield from reader


def _stream(path: Path) -> Any:
    return pa.input_stream(path, compression="gzip" if is_gzip(path) else None)


def _options(columns: list[str], kind: Any, note: Callable[[Any], str]) -> dict[str, Any]:
    from pyarrow import csv as arrow_csv

    return {
        # Threads lose the numbers of wrong lines.
        "read_options": arrow_csv.ReadOptions(use_threads=False, block_size=_BLOCK),
        "parse_options": arrow_csv.ParseOptions(newlines_in_values=True, invalid_row_handler=note),
        "convert_options": arrow_csv.ConvertOptions(
            include_columns=columns, column_types=dict.fromkeys(columns, kind)
        ),
    }


@contextmanager
def _refusals(path: Path, columns: list[str], kind: Any) -> Iterator[Callable[[Any], str]]:
    """Arrow's complaints in our words; what is given takes note of a ragged line."""
    ragged: list[Any] = []

    def note(row: Any) -> str:
        ragged.append(row)
        return "error"

    try:
        yield note
    except pa.ArrowInvalid as error:
        if ragged:
            raise _ragged(path, ragged[0]) from None
        if kind != pa.large_binary():
            _refuse_undecodable(path, columns)
        raise DataError(explain(f"{path} cannot be read as CSV: {error}")) from None


def _ragged(path: Path, row: Any) -> DataError:
    # Arrow counts the header as row 1.
    place = f"row {row.number - 1}"
    return DataError(
        explain(
            f"{path}, {place} has {row.actual_columns} values where the header names "
            f"{row.expected_columns} columns",
            given=row.text,
            do="Mend that line; a value that holds a comma stands in double quotes.",
        )
    )


def _refuse_undecodable(path: Path, columns: list[str]) -> None:
    before = 0
    for batch in _batches(path, columns, pa.large_binary()):
        for column in columns:
            for position, value in enumerate(batch[column].to_pylist()):
                try:
                    value.decode()
                except UnicodeDecodeError:
                    raise DataError(
                        explain(
                            f"{path}, row {before + position + 1}, column {column!r} is not "
                            "UTF-8 text",
                            given=value,
                            do="Save the file as UTF-8.",
                        )
                    ) from None
        before += batch.num_rows


def _check_quotes(path: Path) -> None:
    """A quote that never closes would swallow the rest of the file without a word."""
    quotes = 0
    with open_plain(path) as raw:
        while chunk := raw.read(_CHUNK):
            quotes += chunk.count(b'"')
    if quotes % 2 == 0:
        return
    rows = 0
    with open_plain(path) as raw, io.TextIOWrapper(raw, "utf-8-sig", "replace", "") as text:
        limit = csv.field_size_limit(sys.maxsize)
        try:
            for row in csv.reader(text, strict=True):
                rows += bool(row)
        except csv.Error as error:
            raise DataError(
                explain(
                    f"{path}, {f'row {rows}' if rows else 'the header'}: "
                    f"a double quote is not closed ({error})",
                    do="Mend that line; a quote inside a quoted value is written twice.",
                )
            ) from None
        finally:
            csv.field_size_limit(limit)
