"""Labels: one conversion of a facet's values to text, whatever type the table gave them.

A level is found by its text, so that the same value always gives the same text, and two
different values of one column never do.
"""

from __future__ import annotations

import datetime
import math
import unicodedata
import uuid
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gstudy.errors import DataError, explain
from gstudy.study.reading.unique_values import UniqueValues, unique_values

if TYPE_CHECKING:
    import pandas as pd

    from gstudy.study.reading.source_rows import Source

__all__ = ["Labels", "is_unicode", "label_text", "read_labels"]

_NUMBERS = (int, float, Decimal)
_DATES = (datetime.date, datetime.time, datetime.timedelta)
_EXAMPLE = "text, whole numbers, true/false, dates"


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """A facet's labels.

    Parameters
    ----------
    codes : int64 array (n_rows,)
        Place of each row's label in `texts`.
    texts : list of str
        Each label once.
    """

    codes: npt.NDArray[np.int64]
    texts: list[str]

    def array(self) -> npt.NDArray[np.object_]:
        """The text of each row."""
        return np.array(self.texts, dtype=object)[self.codes]


def label_text(value: Any) -> str:
    """The text of one label value.

    Numbers without a fraction lose their ".0", so that 1, 1.0 and a column that became float
    around a missing value agree; text stays as it is, so that "007" and "None" are labels.

    Parameters
    ----------
    value : str, bool, int, float, Decimal, date or UUID

    Returns
    -------
    str

    Raises
    ------
    TypeError
        For a value of another type: it is no label.

    Examples
    --------
    >>> [label_text(value) for value in ("007", 7, 7.0, 0.5, True)]
    ['007', '7', '7', '0.5', 'True']
    """
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, float | Decimal) and math.isfinite(value) and value == int(value):
        return str(int(value))
    if isinstance(value, (*_NUMBERS, *_DATES, uuid.UUID)):
        return str(value)
    raise TypeError(f"a {type(value).__name__} is no label")


def is_unicode(text: str) -> bool:
    """Whether a text can be written as UTF-8; lone surrogates cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def read_labels(column: pd.Series, name: str, source: Source) -> Labels:
    """The labels of a facet's column.

    Parameters
    ----------
    column : pandas.Series (n_rows,)
    name : str
        Name of the column, for errors.
    source : Source
        Where the column comes from, for errors.

    Returns
    -------
    Labels

    Raises
    ------
    DataError
        For a missing label, one that is no text, number or date, one with NUL or broken
        Unicode, for two different values with one text, and for texts that print alike.
    """
    unique = unique_values(column)
    _refuse_missing(unique, name, source)
    texts: list[str] = []
    for i, value in enumerate(unique.values):
        try:
            texts.append(label_text(value))
        except TypeError as error:
            raise DataError(
                explain(
                    f"{source.at(unique.row_of(i), name)}: {error}", given=value, allowed=_EXAMPLE
                )
            ) from None
    _refuse_unsafe(texts, unique, name, source)
    _refuse_alike(texts, unique, name, source)
    return _merged(texts, unique, name, source)


def _refuse_missing(unique: UniqueValues, name: str, source: Source) -> None:
    values = enumerate(unique.values)
    blank = [i for i, value in values if isinstance(value, str) and not value.strip()]
    missing = (unique.codes < 0) | np.isin(unique.codes, blank)
    rows = np.flatnonzero(missing)
    if rows.size:
        count = f"{source.share(rows, unique.codes.size)} rows have none"
        raise DataError(
            explain(
                f"{source.at(int(rows[0]), name)}: the label is missing ({count})",
                allowed="a label in every row",
                do="Fill it in, or take these rows out; a missing label is never a level.",
            )
        )


def _refuse_unsafe(texts: list[str], unique: UniqueValues, name: str, source: Source) -> None:
    for i, text in enumerate(texts):
        broken = "NUL" if "\x00" in text else None if is_unicode(text) else "broken Unicode"
        if broken:
            raise DataError(
                explain(
                    f"{source.at(unique.row_of(i), name)}: the label holds {broken}",
                    given=text,
                    allowed="any text without NUL that is valid Unicode",
                    do="Clean the labels: a saved run cannot hold this one.",
                )
            )


def _refuse_alike(texts: list[str], unique: UniqueValues, name: str, source: Source) -> None:
    """Texts that print alike are one level to a reader, and would be two to the model."""
    first: dict[str, int] = {}
    for i, text in enumerate(texts):
        other = first.setdefault(unicodedata.normalize("NFC", text).strip(), i)
        if texts[other] != text:
            raise DataError(
                explain(
                    f"{source.name}, column {name!r}: two labels look alike: {texts[other]!a} in "
                    f"{source.row(unique.row_of(other))} and {text!a} in "
                    f"{source.row(unique.row_of(i))}",
                    allowed="labels that differ in more than blanks at their ends or in how "
                    "Unicode composes a letter",
                    do="Write them alike if they are one level, or rename one of them.",
                )
            )


def _merged(texts: list[str], unique: UniqueValues, name: str, source: Source) -> Labels:
    """One code per text; texts that different values share are refused."""
    first: dict[str, int] = {}
    for i, text in enumerate(texts):
        other = first.setdefault(text, i)
        if _kind(unique.values[other]) != _kind(unique.values[i]):
            raise DataError(
                explain(
                    f"{source.name}, column {name!r}: two different values are one label, "
                    f"{text!r}: {unique.values[other]!r} in {source.row(unique.row_of(other))} "
                    f"and {unique.values[i]!r} in {source.row(unique.row_of(i))}",
                    do=f"Make the column one type, such as df[{name!r}].astype(str), if they are "
                    "one level, or rename one of them.",
                )
            )
    place = {text: code for code, text in enumerate(first)}
    codes = np.array([place[text] for text in texts], dtype=np.int64)
    return Labels(codes[unique.codes], list(first))


def _kind(value: Any) -> str:
    """Values of one kind with one text are one value: 1 and 1.0, but not 1 and "1"."""
    if isinstance(value, str):
        return "text"
    if isinstance(value, bool):
        return "truth"
    return "number" if isinstance(value, _NUMBERS) else "other"
