"""The distinct values of a column, so that a million rows cost as much as their values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

__all__ = ["UniqueValues", "unique_values"]


@dataclass(frozen=True, slots=True)
class UniqueValues:
    """A column as codes and distinct values.

    Parameters
    ----------
    codes : int64 array (n_rows,)
        Index of each row's value, -1 where it is missing.
    values : list
        Distinct values that occur, as Python objects; `1`, `True` and `"1"` are three.
    """

    codes: npt.NDArray[np.int64]
    values: list[Any]

    def row_of(self, value: int) -> int:
        """Position of the first row with the value of that index."""
        return int(np.argmax(self.codes == value))


def unique_values(column: pd.Series) -> UniqueValues:
    """The distinct values of a column, of whatever type pandas gave it.

    Parameters
    ----------
    column : pandas.Series (n_rows,)

    Returns
    -------
    UniqueValues
    """
    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return _of_categories(column)
    if isinstance(dtype, np.dtype) and dtype.kind == "O":
        return _of_objects(column)
    try:
        codes, values = pd.factorize(column)
    except (TypeError, NotImplementedError):
        # Nested Arrow types cannot be hashed: as objects they are told apart, then refused.
        return _of_objects(column.astype(object))
    return _used(codes.astype(np.int64), [_plain(value) for value in values])


def _of_categories(column: pd.Series) -> UniqueValues:
    """Values of a categorical column; unused categories are none."""
    categories = _of_objects(pd.Series(list(column.cat.categories), dtype=object))
    codes = np.append(categories.codes, -1)[column.cat.codes.to_numpy()]
    return _used(codes, categories.values)


def _used(codes: npt.NDArray[np.int64], values: list[Any]) -> UniqueValues:
    """Only the values that occur: categories, and Arrow's dictionaries, hold others too."""
    found = pd.unique(codes[codes >= 0])
    place = np.full(len(values) + 1, -1, dtype=np.int64)
    place[found] = np.arange(found.size)
    return UniqueValues(place[codes], [values[i] for i in found])


def _of_objects(column: pd.Series) -> UniqueValues:
    """Values of several types: each type by itself, since Python holds True, 1 and 1.0 equal."""
    array = column.to_numpy(dtype=object)
    missing = pd.isna(column).to_numpy(dtype=bool)
    types = np.array([id(type(value)) for value in array], dtype=np.int64)
    codes = np.full(array.size, -1, dtype=np.int64)
    values: list[Any] = []
    for kind in pd.unique(types[~missing]):
        rows = np.flatnonzero((types == kind) & ~missing)
        try:
            own, distinct = pd.factorize(array[rows])
        except TypeError:
            own, distinct = np.arange(rows.size), array[rows]
        codes[rows] = own + len(values)
        values.extend(_plain(value) for value in distinct)
    return UniqueValues(codes, values)


def _plain(value: Any) -> Any:
    """A numpy scalar as its Python value."""
    return value.item() if isinstance(value, np.generic) else value
