"""Columns that a reader fills row by row, and the values that may stand in them."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any

import pandas as pd

from gstudy.study.logs.log_files import LogError
from gstudy.study.reading.labels import label_text
from gstudy.study.reading.scores import as_number

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["RowColumns", "label_of", "number_of", "outcome_of", "same_responses"]

_LONGEST = 300
_SAID = ("outcome", "reason", "detail")


class RowColumns:
    """A table that grows by rows.

    Parameters
    ----------
    facets : sequence of str
        Columns of labels, before `score`, `outcome`, `reason` and `detail`.
    optional : sequence of str
        Which of them are left out if no row has such a label.
    numbers : sequence of str
        Further columns of numbers, at the end.
    """

    def __init__(
        self, facets: Sequence[str], optional: Sequence[str] = (), numbers: Sequence[str] = ()
    ) -> None:
        self._optional = (*optional, "detail")
        self._numbers = tuple(numbers)
        names = (*facets, "score", *_SAID, *numbers)
        self._columns: dict[str, list[Any]] = {name: [] for name in names}

    def add(self, **values: Any) -> None:
        """One row; what is not given is missing, or "" of a reason or detail."""
        for name, column in self._columns.items():
            value = values.get(name)
            if isinstance(value, str):
                # The labels of a million rows are few: each is held once.
                value = sys.intern(str(value))
            column.append("" if value is None and name in _SAID else value)

    def __len__(self) -> int:
        return len(self._columns["score"])

    def frame(self) -> pd.DataFrame:
        """The rows, without the optional columns that are empty."""
        columns: dict[str, pd.Series] = {}
        for name, values in self._columns.items():
            if name == "score":
                columns[name] = _scores(values)
            elif name in self._numbers:
                columns[name] = pd.Series(values, dtype="float64")
            elif name not in self._optional or any(
                value is not None and value != "" for value in values
            ):
                columns[name] = pd.Series([_text(value) for value in values], dtype="str")
        return pd.DataFrame(columns)


def _scores(values: list[Any]) -> pd.Series:
    """Numbers; if a value is none, all stay as they are, for the study to refuse."""
    numeric = all(value is None or isinstance(value, float) for value in values)
    return pd.Series(values, dtype="float64" if numeric else "object")


def _text(value: str | None) -> str | None:
    # Lone surrogates, which JSON can hold, are no text that a column of text can.
    return None if value is None else value.encode(errors="replace").decode()


def label_of(value: Any, name: str) -> str | None:
    """A label as text, None for a missing one.

    Raises
    ------
    LogError
        For a list or an object.
    """
    if value is None:
        return None
    try:
        return label_text(value)
    except (TypeError, ValueError) as error:
        raise LogError(f"{name}: {error}") from None


def number_of(value: Any) -> float | Any:
    """A score as a number; NaN where it is missing, the value itself where it is no number.

    A reward of 1 that arithmetic left a millionth off is 1.
    """
    if value is None:
        return math.nan
    number = as_number(value)
    if number is None:
        return value if isinstance(value, str) else repr(value)[:_LONGEST]
    return 1.0 if abs(number - 1) <= 1e-6 else float(number)


def outcome_of(score: Any, failed: str | None) -> dict[str, str]:
    """The outcome and its reason: failed for a reason, or scored, or unscored."""
    if failed:
        return {"outcome": "failed", "reason": failed}
    unscored = isinstance(score, float) and math.isnan(score)
    return {"outcome": "unscored" if unscored else "scored"}


def same_responses(frame: pd.DataFrame, *names: str) -> list[str]:
    """A note for each column that tells scores of one response apart, and no trials."""
    notes = []
    for name in names:
        labels = list(dict.fromkeys(frame[name].dropna())) if name in frame else []
        if len(labels) > 1:
            notes.append(
                f"{len(labels)} {name}s score the same responses ({', '.join(labels[:5])}): they "
                f"are no replications; choose one with keep={{{name!r}: {labels[0]!r}}}"
            )
    return notes
