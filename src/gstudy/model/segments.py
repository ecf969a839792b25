"""Effects of one component in segments: one sd each, and a mean of its own that is swept.

A component that holds the object has one segment per system, any other a single one. Levels are
laid out so that the free coordinates of all segments come first, the last level of each after.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Segments"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Segments:
    """Where each level of a component is laid out, and the segment it belongs to.

    Parameters
    ----------
    order : int array (K,)
        Levels of the component in layout order.
    member : array (G, K)
        1 where a place of the layout belongs to a segment.
    """

    order: NDArray[np.int64]
    member: Floats

    @property
    def sizes(self) -> Floats:
        """Levels of each segment (G,)."""
        return np.asarray(self.member.sum(axis=1))

    @property
    def n_free(self) -> int:
        """Free coordinates: each segment gives one up to its mean."""
        n_segments, size = self.member.shape
        return int(size - n_segments)

    @property
    def place(self) -> NDArray[np.int64]:
        """Layout place of each level (K,)."""
        return np.argsort(self.order)

    @classmethod
    def of(cls, segment: NDArray[np.integer[Any]], n_segments: int) -> Segments:
        """From the segment (K,) of each level; no segment is empty."""
        last = np.zeros(len(segment), dtype=bool)
        # The last level seen of each segment.
        last[len(segment) - 1 - np.unique(segment[::-1], return_index=True)[1]] = True
        order = np.lexsort((segment, last))
        member = (segment[order] == np.arange(n_segments)[:, None]).astype(np.float64)
        return cls(order, member)
