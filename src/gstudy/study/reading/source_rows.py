"""Where a value stands: the file or table, the row counted from 1, the column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Alike", "Source"]


@dataclass(frozen=True, slots=True, eq=False)
class Alike:
    """Which rows of a source stand behind each row of a table that tells alike ones once.

    Parameters
    ----------
    first : int64 array (n,)
        Position of the first of them, from 0; ascending.
    rows : int64 array (n,)
        How many they are.
    """

    first: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]

    def part(self, chosen: npt.NDArray[Any]) -> Alike:
        """Of some rows of the table."""
        return Alike(self.first[chosen], self.rows[chosen])


@dataclass(frozen=True, slots=True)
class Source:
    """What errors say about the place of a value.

    Parameters
    ----------
    name : str
        The file, or "DataFrame".
    index : pandas.Index, optional
        Index of a DataFrame: its labels are said beside the number of the row.
    alike : Alike, optional
        Of a table whose rows each stand for several.
    """

    name: str
    index: pd.Index | None = None
    alike: Alike | None = None

    def count(self, chosen: npt.NDArray[Any]) -> int:
        """How many rows of the source some rows of the table are: positions, or one flag each."""
        if self.alike is not None:
            return int(self.alike.rows[chosen].sum())
        return int(chosen.sum()) if chosen.dtype == np.bool_ else chosen.size

    def n_rows(self, size: int) -> int:
        """How many rows of the source a table of that many rows is."""
        return size if self.alike is None else int(self.alike.rows.sum())

    def share(self, chosen: npt.NDArray[Any], size: int) -> str:
        """How many of how many rows: "3 of 1,200"."""
        return f"{self.count(chosen):,} of {self.n_rows(size):,}"

    def row(self, position: int) -> str:
        """The row at a position counted from 0, as the user counts: "row 3 (index 17)"."""
        number = (position if self.alike is None else int(self.alike.first[position])) + 1
        label = number if self.index is None else _plain(self.index[position])
        if isinstance(label, int) and label == number:
            return f"row {number}"
        return f"row {number} (index {label!r})"

    def at(self, position: int, column: str) -> str:
        """File, row and column: "trials.csv, row 3, column 'task'"."""
        return f"{self.name}, {self.row(position)}, column {column!r}"


def _plain(label: Any) -> Any:
    """A label of an index without numpy's types, which would show in its repr."""
    if isinstance(label, tuple):
        return tuple(_plain(part) for part in label)
    return label.item() if isinstance(label, np.generic) else label
