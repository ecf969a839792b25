"""Graded scores and their standard errors: a column's values as numbers, or the first wrong one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gstudy.errors import DataError, explain
from gstudy.study.reading.scores import TRUTH, UNSCORED, as_number, as_score, numbers_of
from gstudy.study.reading.unique_values import unique_values

if TYPE_CHECKING:
    import pandas as pd

    from gstudy.study.reading.source_rows import Source

__all__ = ["read_errors", "read_graded"]

Flags = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]

# Beyond these a square, or one over it, is no number.
_LARGEST = 1e90
_SMALLEST = 1e-90

_WRONG = math.inf


def read_graded(column: pd.Series, name: str, source: Source, *, ignore: Flags) -> Floats:
    """A column of graded scores as numbers, and NaN where a trial was never scored.

    Parameters
    ----------
    column : pandas.Series (n_rows,)
        Finite numbers, also as text; or truth values throughout, read as 1 and 0.
    name : str
        Name of the column, for errors.
    source : Source
        Where it comes from, for errors.
    ignore : bool array (n_rows,)
        Rows of failed runs, whose score says nothing: NaN.

    Returns
    -------
    float64 array (n_rows,)

    Raises
    ------
    DataError
        For a value that is no finite number, and for truth values among numbers.
    """
    unique = unique_values(column)
    truths = np.array([*(_is_truth(value) for value in unique.values), False])[unique.codes]
    numbers = numbers_of(unique.codes, unique.values, _score)
    rows = np.flatnonzero(np.isinf(numbers) & ~ignore)
    if rows.size:
        raise DataError(
            explain(
                f"{source.at(int(rows[0]), name)}: this is no graded score "
                f"({source.share(rows, numbers.size)} rows hold such a value)",
                given=unique.values[unique.codes[rows[0]]],
                allowed=f"a finite number up to {_LARGEST:g}; nothing where a trial was never "
                "scored",
                do='A run that failed is outcome = "failed", and one that nobody scored has no '
                "score.",
            )
        )
    used = ~np.isnan(numbers) & ~ignore
    mixed = np.flatnonzero(truths & used)
    if mixed.size and mixed.size < used.sum():
        raise DataError(
            explain(
                f"{source.at(int(mixed[0]), name)}: this is a truth value among numbers "
                f"({source.share(mixed, numbers.size)} rows hold one)",
                given=unique.values[unique.codes[mixed[0]]],
                allowed="numbers throughout",
                do="Write it as a number on the scale of the others.",
            )
        )
    numbers[ignore] = np.nan
    return numbers


def read_errors(
    column: pd.Series, name: str, source: Source, *, scored: Flags, ignore: Flags
) -> Floats:
    """A column of known standard errors, NaN where there is none.

    Parameters
    ----------
    column : pandas.Series (n_rows,)
        Numbers above 0, in the unit of the score.
    name : str
    source : Source
    scored : bool array (n_rows,)
        Rows with a score: those need an error.
    ignore : bool array (n_rows,)
        Rows of failed runs: what is no error there is none.

    Returns
    -------
    float64 array (n_rows,)

    Raises
    ------
    DataError
        For a value that is no positive number, and where a scored row has none.
    """
    unique = unique_values(column)
    numbers = numbers_of(unique.codes, unique.values, _error)
    rows = np.flatnonzero(np.isinf(numbers) & ~ignore)
    if rows.size:
        value = unique.values[unique.codes[rows[0]]]
        zero = as_number(value) == 0
        raise DataError(
            explain(
                f"{source.at(int(rows[0]), name)}: this is no standard error "
                f"({rows.size:,} of {numbers.size:,} rows hold such a value)",
                given=value,
                allowed="a finite number above 0, in the unit of the score",
                do="A score without any error has no noise to weigh it by: leave "
                "standard_error out, and one residual sd is estimated."
                if zero
                else None,
            )
        )
    lost = np.flatnonzero(scored & np.isnan(numbers))
    if lost.size:
        raise DataError(
            explain(
                f"{source.at(int(lost[0]), name)}: the score has no standard error "
                f"({lost.size:,} such rows)",
                allowed="a number above 0 beside every score",
                do="Fill it in, or leave standard_error out of the study.",
            )
        )
    numbers[np.isinf(numbers)] = np.nan
    return numbers


def _is_truth(value: Any) -> bool:
    return isinstance(value, bool) or (isinstance(value, str) and value.strip().lower() in TRUTH)


def _score(value: Any) -> float:
    """The number, NaN for never scored, or the mark for a wrong one."""
    number = as_score(value)
    return _WRONG if abs(number) > _LARGEST else number


def _error(value: Any) -> float:
    if isinstance(value, str) and value.strip().lower() in UNSCORED:
        return math.nan
    number = None if isinstance(value, bool) else as_number(value)
    return number if number is not None and _SMALLEST <= number <= _LARGEST else _WRONG
