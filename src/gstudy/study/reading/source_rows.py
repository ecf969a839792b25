"""Where a value stands: the file or table, the row counted from 1, the column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Source"]


@dataclass(frozen=True, slots=True)
class Source:
    """What errors say about the place of a value.

    Parameters
    ----------
    name : str
        The file, or "DataFrame".
    index : pandas.Index, optional
        Index of a DataFrame: its labels are said beside the number of the row.
    """

    name: str
    index: pd.Index | None = None

    def row(self, position: int) -> str:
        """The row at a position counted from 0, as the user counts: "row 3 (index 17)"."""
        number = position + 1
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
