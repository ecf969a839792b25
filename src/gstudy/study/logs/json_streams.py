"""JSON as a stream: logs of a gigabyte are read one trial at a time."""

from __future__ import annotations

import codecs
import gzip
import json
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

from gstudy.study.logs.log_files import LogError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from pathlib import Path

__all__ = ["first_keys", "items_of", "open_bytes", "records_of", "value_of"]

_GZIP = b"\x1f\x8b"

# A document up to this size may be read at once where the stream cannot: NaN, whole numbers beyond
# 64 bits.
WHOLE = 256_000_000

_LONGEST = 150

# So many levels deep, a document is no log.
_DEEPEST = 900


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes] | gzip.GzipFile]:
    """The file's bytes, unpacked if they are gzipped, without a byte order mark."""
    with path.open("rb") as raw:
        packed = raw.read(2) == _GZIP
        raw.seek(0)
        stream: Any = gzip.GzipFile(fileobj=raw) if packed else raw
        if stream.read(3) != codecs.BOM_UTF8:
            stream.seek(0)
        yield stream


def records_of(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a file with one JSON object per line, and the numbers of their lines.

    Raises
    ------
    LogError
        For a line that is none.
    """
    with open_bytes(path) as raw:
        for number, line in enumerate(raw, start=1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise LogError(f"line {number} is not JSON: {_said(error)}") from None
            if not isinstance(record, dict):
                raise LogError(f"line {number} is not a JSON object")
            yield number, record


def items_of(path: Path, prefix: str) -> Iterator[Any]:
    """The values at a place of a JSON document, such as "item" or "simulations.item".

    Raises
    ------
    LogError
        For a document that breaks off or is none.
    """
    import ijson

    done = 0
    with open_bytes(path) as raw:
        try:
            for value in ijson.items(raw, prefix, use_float=True):
                done += 1
                yield value
            return
        except (ijson.JSONError, ValueError, RecursionError) as error:
            fault = error
    yield from _items_at_once(path, prefix, fault, done)


def _items_at_once(path: Path, prefix: str, fault: Exception, done: int) -> Iterator[Any]:
    """The values from one on, of the document as a whole: Python reads NaN and long numbers."""
    document = _whole(path, fault)
    values = [document]
    for step in prefix.split(".") if prefix else ():
        if step == "item":
            values = [v for value in values if isinstance(value, list) for v in value]
        else:
            values = [v[step] for v in values if isinstance(v, dict) and step in v]
    yield from values[done:]


def _whole(path: Path, fault: Exception) -> Any:
    size = path.stat().st_size
    if size > WHOLE:
        raise LogError(
            f"it cannot be read as a stream ({_said(fault)}), and is too large to be read at once"
        )
    try:
        with open_bytes(path) as raw:
            return json.loads(raw.read())
    except (ValueError, RecursionError) as error:
        raise LogError(f"it is not JSON: {_said(error)}") from None


def value_of(path: Path, prefix: str) -> Any:
    """The first value at a place of a JSON document, None if there is none."""
    return next(items_of(path, prefix), None)


def first_keys(
    path: Path, enough: Callable[[bool, Collection[str]], bool]
) -> tuple[bool, list[str]]:
    """The keys of a JSON file's first object.

    Parameters
    ----------
    path : Path
    enough : callable
        Whether a list is it, and these keys, say what the file is: the rest is not read.

    Returns
    -------
    listed : bool
        Whether the file is a list, whose first object it is.
    keys : list of str
        In their order; empty if there is no object.

    Raises
    ------
    LogError
        For an object that breaks off.
    """
    import ijson

    with open_bytes(path) as raw:
        try:
            return _first_keys(ijson.basic_parse(raw, multiple_values=True), enough)
        except (ijson.JSONError, ValueError, RecursionError) as error:
            fault = error
    listed, record = False, _first_record(path, fault)
    if isinstance(record, list):
        listed, record = True, record[0] if record else None
    return listed, list(record) if isinstance(record, dict) else []


def _first_record(path: Path, fault: Exception) -> Any:
    """The first line's object, or the whole document."""
    try:
        return next(records_of(path))[1]
    except (LogError, StopIteration):
        return _whole(path, fault)


def _first_keys(
    events: Iterator[tuple[str, Any]], enough: Callable[[bool, Collection[str]], bool]
) -> tuple[bool, list[str]]:
    keys: list[str] = []
    depth, listed = 0, False
    for event, value in events:
        level = 2 if listed else 1
        if event in ("start_map", "start_array"):
            listed = listed or (depth == 0 and event == "start_array")
            depth += 1
            if depth > _DEEPEST:
                return listed, []
        elif event in ("end_map", "end_array"):
            depth -= 1
            if depth < level:
                return listed, keys
        elif event == "map_key" and depth == level:
            keys.append(value)
            if enough(listed, keys):
                return listed, keys
        elif depth < level:
            return listed, keys
    return listed, keys


def _said(error: Exception) -> str:
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    return text[:_LONGEST]
