"""The table of logs: a DataFrame that says what was skipped and what to know of it."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

import pandas as pd

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gstudy.study.logs.log_files import Skipped

__all__ = ["LogTable", "is_log_table", "log_table", "source_of"]

_KEY = "gstudy.logs"
_LISTED = 10


class LogTable(pd.DataFrame):
    """Trials from logs, one row per score; any pandas operation gives a plain DataFrame.

    Its columns are `file`, one per facet (`benchmark`, `system`, `task`, `rollout`, `judge` and
    what else the format has), `score`, `outcome` ("scored", "failed", "unscored") and `reason`.
    """

    @property
    def _constructor(self) -> Any:
        return pd.DataFrame

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the numbers must know."""
        return tuple(self.attrs["notes"])

    @property
    def skipped(self) -> pd.DataFrame:
        """Files without rows: columns `file` and `why`."""
        return pd.DataFrame(self.attrs["skipped"], columns=["file", "why"])

    def _said(self) -> list[str]:
        lines = [*self.notes, *(f"skipped {name}: {why}" for name, why in self.attrs["skipped"])]
        rest = len(lines) - _LISTED
        more = [f"and {rest:,} more: .notes and .skipped"] if rest > 0 else []
        return [*lines[:_LISTED], *more]

    def __repr__(self) -> str:
        return "\n".join([super().__repr__(), *self._said()])

    def _repr_html_(self) -> str | None:
        own: Any = super()  # whose types do not know the method
        table: str | None = own._repr_html_()
        said = "".join(f"<li>{html.escape(line)}</li>" for line in self._said())
        return f"{table}<ul>{said}</ul>" if table and said else table


def log_table(
    frame: pd.DataFrame, source: str, notes: Iterable[str], skipped: Iterable[Skipped]
) -> LogTable:
    """A table of logs with what there is to say of it."""
    table = LogTable(frame)
    table.attrs.update(
        {
            _KEY: source,
            "notes": list(notes),
            "skipped": [[one.file, one.why] for one in skipped],
        }
    )
    return table


def is_log_table(value: object) -> bool:
    """Whether a DataFrame is of logs, or a part of one."""
    return isinstance(value, pd.DataFrame) and _KEY in value.attrs


def source_of(table: pd.DataFrame) -> str:
    """The path that a table of logs was read from."""
    return str(table.attrs[_KEY])
