"""Columns as codes: how many values they have, and which of them lie inside others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from gstudy.study.reading.labels import is_unicode
from gstudy.study.reading.scores import as_number
from gstudy.study.reading.unique_values import unique_values

__all__ = ["Codes", "LabelColumn", "determines", "joint", "label_column", "n_levels", "per_level"]

Codes = npt.NDArray[np.int64]

_LONG = 80
_LOOKED_AT = 1000


@dataclass(frozen=True, slots=True, eq=False)
class LabelColumn:
    """A column that may be a facet.

    Parameters
    ----------
    name : str
    codes : int64 array (n_rows,)
        Place of each row's value in `values`, -1 where there is none.
    values : list
        Each value once.
    """

    name: str
    codes: Codes
    values: list[Any]

    @property
    def n_levels(self) -> int:
        """Distinct values."""
        return len(self.values)

    @property
    def n_missing(self) -> int:
        """Rows without one."""
        return int((self.codes < 0).sum())

    @property
    def complete(self) -> bool:
        """Whether every row has a value that can be a label."""
        return self.n_missing == 0 and self.n_levels > 0 and not self.fault()

    def fault(self) -> str | None:
        """Why its name or values cannot stand in a study, if so."""
        if not self.name.strip() or "\x00" in self.name or not is_unicode(self.name):
            return "its name cannot be written in a study file"
        if any(isinstance(value, list | dict | set | bytes) for value in self._some()):
            return "it holds lists or objects"
        return None

    @property
    def fractional(self) -> bool:
        """Whether it holds numbers that are not all whole."""
        numbers = [as_number(value) for value in self._some()]
        found = [x for x in numbers if x is not None and math.isfinite(x)]
        return len(found) == len(numbers) > 0 and any(x != int(x) for x in found)

    @property
    def numeric(self) -> bool:
        """Whether all its values are numbers."""
        return all(as_number(value) is not None for value in self._some())

    @property
    def long(self) -> bool:
        """Whether it holds texts rather than names."""
        lengths = [len(value) for value in self._some() if isinstance(value, str)]
        return bool(lengths) and sum(lengths) / len(lengths) > _LONG

    @property
    def dates(self) -> bool:
        """Whether it holds dates or times."""
        texts = [value for value in self._some() if isinstance(value, str)]
        if len(texts) < self.n_levels and len(texts) < _LOOKED_AT:
            return all(hasattr(value, "isoformat") for value in self._some())
        return all(len(text) >= 8 and _is_date(text) for text in texts) if texts else False

    def _some(self) -> list[Any]:
        return self.values[:_LOOKED_AT]


def label_column(name: str, column: pd.Series) -> LabelColumn:
    """A column with its values, blank text being none."""
    unique = unique_values(column)
    blank = [not isinstance(v, str) or bool(v.strip()) for v in unique.values]
    places = np.full(len(blank) + 1, -1, dtype=np.int64)
    places[:-1][blank] = np.arange(sum(blank))
    kept = [value for value, there in zip(unique.values, blank, strict=True) if there]
    return LabelColumn(name, places[unique.codes], kept)


def joint(columns: Sequence[LabelColumn], n_rows: int) -> Codes:
    """One code per combination of the columns' values."""
    codes = np.zeros(n_rows, dtype=np.int64)
    for column in columns:
        wide = codes * (column.n_levels + 1) + column.codes + 1
        codes = pd.factorize(wide)[0].astype(np.int64)
    return codes


def n_levels(codes: Codes) -> int:
    """Distinct codes."""
    return int(pd.unique(codes).size)


def determines(own: Codes, other: LabelColumn) -> bool:
    """Whether rows with one code all have one value of another column."""
    pairs = own * (other.n_levels + 1) + other.codes + 1
    return n_levels(pairs) == n_levels(own)


def per_level(own: Codes, other: LabelColumn) -> float:
    """Distinct values of another column in the rows of one code, on average."""
    pairs = own * (other.n_levels + 1) + other.codes + 1
    return n_levels(pairs) / max(n_levels(own), 1)


def _is_date(text: str) -> bool:
    head = text[:10]
    parts = head.replace("/", "-").split("-")
    return len(parts) == 3 and all(part.isdigit() for part in parts) and len(head) == 10
