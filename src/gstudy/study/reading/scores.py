"""Scores and counts: a column's values as numbers, or the first one that is none."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gstudy.errors import DataError, explain
from gstudy.study.reading.unique_values import unique_values

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd

    from gstudy.study.reading.source_rows import Source

__all__ = ["TRUTH", "UNSCORED", "as_number", "as_score", "numbers_of", "read_counts", "read_scores"]

Flags = npt.NDArray[np.bool_]

# Texts that say, in whatever case, that a trial was never scored.
UNSCORED = frozenset({"", "nan", "na", "n/a", "none", "null", "<na>"})
TRUTH = {"true": 1.0, "false": 0.0}

# The largest count that a table's float columns hold exactly.
_MOST = 2**53

_WRONG = -1.0
_THRESHOLD = (
    'If scores are graded, declare family = "gaussian"; or set a threshold of your own, such as '
    "df[{0!r}] = df[{0!r}] >= 0.5."
)
_UNREDUCED = (
    "If it is the mean over several runs of one task, give one row per run (unreduced epochs), or "
    "their counts: successes = and trials =. "
)
_TEXT = (
    'Write 1 for a pass and 0 for a fail; a run that failed is outcome = "failed", and one that '
    "nobody scored has no score."
)


def read_scores(
    column: pd.Series, name: str, source: Source, *, ignore: Flags, has_rollouts: bool
) -> npt.NDArray[np.float64]:
    """A column of scores as 0, 1, and NaN where a trial was never scored.

    Parameters
    ----------
    column : pandas.Series (n_rows,)
        0/1, true/false in any case, 1.0/0.0, of any type; missing values.
    name : str
        Name of the column, for errors.
    source : Source
        Where it comes from, for errors.
    ignore : bool array (n_rows,)
        Rows of failed runs, whose score says nothing: NaN.
    has_rollouts : bool
        Whether the study has a nested facet: without one, a fraction may be a mean over runs.

    Returns
    -------
    float64 array (n_rows,)

    Raises
    ------
    DataError
        For any other value, naming the first.
    """
    unique = unique_values(column)
    numbers = numbers_of(unique.codes, unique.values, _score)
    rows = np.flatnonzero((numbers == _WRONG) & ~ignore)
    if rows.size:
        value = unique.values[unique.codes[rows[0]]]
        raise DataError(
            explain(
                f"{source.at(int(rows[0]), name)}: this is no score "
                f"({source.share(rows, numbers.size)} rows hold such a value)",
                given=value,
                allowed="0 or 1, true or false; nothing where a trial was never scored",
                do=_advice(value, name, has_rollouts),
            )
        )
    numbers[ignore] = np.nan
    return numbers


def _advice(value: Any, name: str, has_rollouts: bool) -> str | None:
    """What to do about a value that is no score."""
    number = as_number(value)
    if number is None:
        return _TEXT
    if not math.isfinite(number):
        return None
    mean = 0 < number < 1 and not has_rollouts
    return (_UNREDUCED if mean else "") + _THRESHOLD.format(name)


def read_counts(
    successes: pd.Series, trials: pd.Series, source: Source, *, ignore: Flags
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Flags]:
    """Two columns of counts as whole numbers.

    Parameters
    ----------
    successes, trials : pandas.Series (n_rows,)
        The columns, under their own names.
    source : Source
        Where they come from, for errors.
    ignore : bool array (n_rows,)
        Rows of failed runs: only their number of trials is read.

    Returns
    -------
    successes, trials : int64 array (n_rows,)
        0 of 0 where a row was never scored.
    scored : bool array (n_rows,)
        Rows with both counts and at least one trial.

    Raises
    ------
    DataError
        For a negative or fractional count, text, more successes than trials, and successes
        without trials, naming the first row.
    """
    passed = _counts(successes, source, ignore)
    total = _counts(trials, source, np.zeros_like(ignore))
    lost = np.flatnonzero(~np.isnan(passed) & np.isnan(total) & ~ignore)
    if lost.size:
        raise DataError(
            explain(
                f"{source.at(int(lost[0]), str(trials.name))}: the number of trials is missing",
                given=f"{passed[lost[0]]:g} successes",
                do="Fill it in, or leave both counts empty if nothing was scored.",
            )
        )
    over = np.flatnonzero((passed > total) & ~ignore)
    if over.size:
        first = int(over[0])
        raise DataError(
            explain(
                f"{source.at(first, str(successes.name))}: more successes than trials",
                given=f"{passed[first]:g} of {total[first]:g}",
                allowed=f"0 to the number in column {trials.name!r}",
                do="Were the two columns exchanged?",
            )
        )
    scored = ~np.isnan(passed) & (total > 0) & ~ignore
    kept = np.where(scored | ignore, np.nan_to_num(total), 0).astype(np.int64)
    return np.where(scored, passed, 0).astype(np.int64), kept, scored


def _counts(column: pd.Series, source: Source, ignore: Flags) -> npt.NDArray[np.float64]:
    """Counts, NaN where missing or ignored."""
    unique = unique_values(column)
    numbers = numbers_of(unique.codes, unique.values, _count)
    rows = np.flatnonzero((numbers == _WRONG) & ~ignore)
    if rows.size:
        value = unique.values[unique.codes[rows[0]]]
        number = as_number(value)
        fraction = number is not None and math.isfinite(number) and number != int(number)
        raise DataError(
            explain(
                f"{source.at(int(rows[0]), str(column.name))}: this is no count",
                given=value,
                allowed="a whole number, 0 or more",
                do="Give the number of passes, not a rate or a sum of graded scores."
                if fraction
                else None,
            )
        )
    numbers[ignore] = np.nan
    return numbers


def numbers_of(
    codes: npt.NDArray[np.int64], values: list[Any], read: Callable[[Any], float]
) -> npt.NDArray[np.float64]:
    """The number of each row, read once per distinct value; NaN where there is none."""
    return np.array([*(read(value) for value in values), np.nan], dtype=np.float64)[codes]


def _score(value: Any) -> float:
    """0, 1, NaN for never scored, or the mark for a wrong one."""
    number = as_score(value)
    return abs(number) if number in (0.0, 1.0) or math.isnan(number) else _WRONG


def _count(value: Any) -> float:
    """A whole number, NaN for a missing one, or the mark for a wrong one."""
    if isinstance(value, str) and value.strip().lower() in UNSCORED:
        return math.nan
    number = None if isinstance(value, bool) else as_number(value)
    whole = number is not None and 0 <= number <= _MOST and number == int(number)
    return number if number is not None and whole else _WRONG


def as_score(value: Any) -> float:
    """The number or 0 or 1 for a word, NaN for never scored, infinity for what is no number."""
    if isinstance(value, str):
        text = value.strip().lower()
        if text in UNSCORED:
            return math.nan
        value = TRUTH.get(text, text)
    number = as_number(value)
    return math.inf if number is None else number


def as_number(value: Any) -> float | None:
    """The value as a number; None for what is none, also for digits of other scripts."""
    if not isinstance(value, str | bool | int | float | Decimal):
        return None
    if isinstance(value, str) and (not value.isascii() or "_" in value):
        return None
    try:
        return float(value)
    except ValueError:
        return None
    except OverflowError:
        return math.inf
