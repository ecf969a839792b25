"""Tables to the terminal, as JSON, or as files."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from gstudy.errors import DataError, explain

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from gstudy.display import Table

__all__ = ["SCHEMA", "hint", "make_directory", "payload", "print_json", "show", "write_text"]

SCHEMA = 1
"""Raised when a name or the meaning of a column in the JSON changes."""


def payload(tables: Mapping[str, Table]) -> dict[str, Any]:
    """``{"schema", "gstudy", "tables": {name: {scale, level, columns, rows}}}``."""
    from importlib.metadata import version

    return {
        "schema": SCHEMA,
        "gstudy": version("gstudy"),
        "tables": {name: table.json() for name, table in tables.items()},
    }


def print_json(tables: Mapping[str, Table]) -> None:
    """The payload on standard output, and nothing else."""
    print(json.dumps(payload(tables), indent=1, ensure_ascii=False, allow_nan=False))


def show(text: str) -> None:
    """Text on standard output, in what its encoding can hold."""
    from gstudy.display import printable

    print(printable(text))


def hint(text: str, *, quiet: bool) -> None:
    """A line beside the result, on standard error."""
    from gstudy.display import printable

    if not quiet:
        print(printable(text, getattr(sys.stderr, "encoding", None)), file=sys.stderr)


def make_directory(path: Path) -> Path:
    """The directory, made with its parents when it is missing.

    Raises
    ------
    DataError
        When it cannot be made, or a file has its name.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(
            explain(
                f"the directory {path} cannot be made: {error.strerror or error}",
                do="Give another one with --out.",
            )
        ) from error
    return path


def write_text(path: Path, text: str) -> None:
    """A text file in UTF-8.

    Raises
    ------
    DataError
        When it cannot be written.
    """
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise DataError(
            explain(
                f"{path} cannot be written: {error.strerror or error}",
                do="Give another directory with --out.",
            )
        ) from error
