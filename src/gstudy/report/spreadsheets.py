"""Tables as CSV that a spreadsheet opens without running anything."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gstudy.display import Table

__all__ = ["harmless", "table_csv"]

# What a spreadsheet reads as a formula when a text begins with it, and what it skips before one.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def harmless(value: object) -> object:
    """The value; a text that a spreadsheet would take for a formula gets an apostrophe in front.

    >>> harmless("=1+2"), harmless("task"), harmless(-1.5)
    ("'=1+2", 'task', -1.5)
    """
    if isinstance(value, str) and value.lstrip(" ").startswith(_FORMULA):
        return f"'{value}"
    return value


def table_csv(table: Table) -> str:
    """Columns and rows of a table, unrounded.

    Parameters
    ----------
    table : Table

    Returns
    -------
    str
    """
    plain = table.json()
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([harmless(name) for name in plain["columns"]])
    writer.writerows([harmless(value) for value in row] for row in plain["rows"])
    return text.getvalue()
