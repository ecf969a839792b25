"""JSON lines: one object per line, each value with the type that JSON gives it."""

from __future__ import annotations

import codecs
import json
from typing import TYPE_CHECKING, Any

import pandas as pd

from gstudy.errors import DataError, explain
from gstudy.study.reading.csv_files import open_plain

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gstudy.study.reading.wanted_columns import WantedColumns

__all__ = ["read_json_lines"]


class _Repeated(dict[str, Any]):
    """An object that names a key twice."""


def read_json_lines(path: Path, wanted: WantedColumns) -> pd.DataFrame:
    """The wanted keys of a file with one JSON object per line, plain or gzipped.

    Parameters
    ----------
    path : Path
    wanted : WantedColumns

    Returns
    -------
    pandas.DataFrame
        Columns of Python objects; None where a line has no such key.

    Raises
    ------
    DataError
        For a line that is not a JSON object, with its number, and for a key that is in no line
        or in one line twice.
    """
    names = (*wanted.needed, *wanted.optional)
    values: dict[str, list[Any]] = {name: [] for name in names}
    header: dict[str, None] = {}
    for record in _records(path):
        if not header.keys() >= record.keys():
            header.update(dict.fromkeys(record))
        for name in names:
            values[name].append(record.get(name))
    if not header:
        raise DataError(explain(f"{path} is empty", allowed="one JSON object per trial and line"))
    columns = wanted.among(list(header), str(path))
    return pd.DataFrame({name: pd.Series(values[name], dtype=object) for name in columns})


def _records(path: Path) -> Iterator[dict[str, Any]]:
    with open_plain(path) as raw:
        for number, line in enumerate(raw, start=1):
            bare = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
            text = _decoded(bare, path, number).strip()
            if text:
                yield _record(text, path, number)


def _decoded(line: bytes, path: Path, number: int) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        raise DataError(
            explain(f"{path}, line {number} is not UTF-8 text", do="Save the file as UTF-8.")
        ) from None


def _record(text: str, path: Path, number: int) -> dict[str, Any]:
    record = _value(text, path, number)
    if not isinstance(record, dict):
        raise DataError(
            explain(
                f"{path}, line {number} is not a JSON object",
                given=text,
                allowed='one object per line, such as {"task": "t1", "passed": true}',
            )
        )
    if isinstance(record, _Repeated):
        raise DataError(
            explain(
                f"{path}, line {number}: key {next(iter(record))!r} is there twice",
                do="Keep one of them.",
            )
        )
    return record


def _value(text: str, path: Path, number: int) -> Any:
    fault = "the line does not end after its value"
    try:
        value, end = _DECODER.raw_decode(text)
        if end == len(text):
            return value
    except json.JSONDecodeError as error:
        fault = f"{error.msg} at character {error.pos + 1}"
    except (ValueError, RecursionError) as error:
        fault = str(error)
    document = number == 1 and text in ("[", "{")
    raise DataError(
        explain(
            f"{path}, line {number} is not JSON: {fault}",
            given=text,
            allowed="one JSON object per line",
            do="The file is one JSON document: write each trial on a line of its own."
            if document
            else None,
        )
    )


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) == len(pairs):
        return record
    keys = [key for key, _ in pairs]
    return _Repeated({key: None for key in keys if keys.count(key) > 1})


_DECODER = json.JSONDecoder(object_pairs_hook=_object)
