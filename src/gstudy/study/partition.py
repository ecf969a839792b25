"""Partitions of rows by the levels of an index set, on integer codes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Codes", "Partition", "split"]

Codes = npt.NDArray[np.int32]

# Up to this many bins per row a table of all possible keys is cheaper than sorting the keys.
_BINS_PER_ROW = 8
_FREE_BINS = 1_000_000
_LARGEST_KEY = 2**62


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """Which level each row belongs to.

    Parameters
    ----------
    index : int32 array (n_rows,)
        Level of each row, 0 to n_levels - 1; levels are ordered as their tuples of codes are.
    n_levels : int
        Number of levels that occur.
    """

    index: Codes
    n_levels: int

    def refines(self, other: Partition) -> bool:
        """Whether each level of this partition lies in one level of `other`."""
        if self.n_levels < other.n_levels:
            return False
        image = np.empty(self.n_levels, dtype=np.int32)
        image[self.index] = other.index
        return bool(np.array_equal(image[self.index], other.index))

    def equals(self, other: Partition) -> bool:
        """Whether both split the rows identically, whatever the numbers of their levels."""
        return self.n_levels == other.n_levels and self.refines(other)

    def first_rows(self) -> npt.NDArray[np.intp]:
        """The first row of each level."""
        rows = np.empty(self.n_levels, dtype=np.intp)
        rows[self.index[::-1]] = np.arange(len(self.index) - 1, -1, -1)
        return rows

    def sums(self, values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Sum of `values` (n_rows,) within each level."""
        sums = np.bincount(self.index, weights=values, minlength=self.n_levels)
        return np.asarray(sums, dtype=np.float64)

    def totals(self, weights: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
        """Sum of whole-number `weights` (n_rows,) within each level."""
        sums = np.bincount(self.index, weights=weights, minlength=self.n_levels)
        return np.rint(sums).astype(np.int64)


def split(codes: Codes, columns: Sequence[int]) -> Partition:
    """Rows by their distinct tuples of codes.

    Parameters
    ----------
    codes : int32 array (n_rows, n_facets)
        Codes from 0 up in each column.
    columns : sequence of int
        The columns that make the tuple, the most significant first. None at all gives one level.

    Returns
    -------
    Partition

    Examples
    --------
    >>> import numpy as np
    >>> p = split(np.array([[0, 1], [0, 0], [2, 1]], dtype=np.int32), [0, 1])
    >>> p.index.tolist(), p.n_levels
    ([1, 0, 2], 3)
    """
    n_rows = codes.shape[0]
    key, size = np.zeros(n_rows, dtype=np.int64), 1
    for column in columns:
        values = codes[:, column]
        radix = int(values.max(initial=0)) + 1
        if size * radix > _LARGEST_KEY:
            key, size = _ranked(key, size)
        key = key * radix + values
        size *= radix
    index, n_levels = _ranked(key, size)
    return Partition(index.astype(np.int32), n_levels)


def _ranked(key: npt.NDArray[np.int64], size: int) -> tuple[npt.NDArray[np.int64], int]:
    """Keys in [0, size) replaced by their ranks among the keys that occur."""
    if size <= _BINS_PER_ROW * len(key) + _FREE_BINS:
        present = np.bincount(key, minlength=size) > 0
        ranks = np.cumsum(present) - 1
        return ranks[key], int(np.count_nonzero(present))
    distinct, inverse = np.unique(key, return_inverse=True)
    return inverse, len(distinct)
