"""Sums of effects that many cells share: added up once, not in every cell.

A level of task:judge lies in one task and one judge, so that their effects and its own are one sum
for all of its cells; a handful of systems, prompts and orders has few combinations, each of which
is one sum too. The likelihood reads sums in the place of effects: nine components of 73,370 cells
need 4 of them a cell.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numba
import numpy as np
from numpy.typing import NDArray

__all__ = ["NO_EFFECT", "SharedSums", "add_back", "add_up", "shared_sums"]

NO_EFFECT = -1
"""Fills the rows of sums that have fewer effects than others."""


@dataclass(frozen=True, slots=True, eq=False)
class SharedSums:
    """Which effects each sum adds up, and which sums each cell sees.

    Parameters
    ----------
    rows : array (n_sums, most effects) of int32
        Places of effects, `NO_EFFECT` after them. Without rows the cells see the effects.
    index : array (n_cells, n_seen) of int32
        Places of sums.
    """

    rows: NDArray[np.int32]
    index: NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """Components that are added up together: their combinations, and that of each cell."""

    rows: NDArray[np.int32]
    of_cell: NDArray[np.int64]

    @property
    def cost(self) -> int:
        """Additions that make the sums."""
        return self.rows.size

    def with_(self, other: _Group) -> _Group:
        """The two together."""
        pairs = self.of_cell * len(other.rows) + other.of_cell
        found, of_cell = np.unique(pairs, return_inverse=True)
        first, second = np.divmod(found, len(other.rows))
        rows = np.concatenate([self.rows[first], other.rows[second]], axis=1)
        return _Group(rows, of_cell.ravel())


def shared_sums(index: NDArray[np.int32]) -> SharedSums:
    """Sums that leave least to add: two groups become one while that saves additions.

    Parameters
    ----------
    index : array (n_cells, n_components) of int32
        Place of each component's effect, for each cell.

    Returns
    -------
    SharedSums
    """
    groups = [_single(index[:, c]) for c in range(index.shape[1])]
    joined = {pair: groups[pair[0]].with_(groups[pair[1]]) for pair in _pairs(groups)}
    while joined:
        saved = {
            (a, b): len(index) + groups[a].cost + groups[b].cost - both.cost
            for (a, b), both in joined.items()
        }
        best = max(saved, key=saved.__getitem__)
        if saved[best] <= 0:
            break
        kept = [i for i in range(len(groups)) if i not in best]
        known = {
            (kept.index(a), kept.index(b)): both
            for (a, b), both in joined.items()
            if a in kept and b in kept
        }
        groups = [*(groups[i] for i in kept), joined[best]]
        last = len(groups) - 1
        joined = known | {(i, last): groups[i].with_(groups[last]) for i in range(last)}
    return _laid_out(groups, index)


def _single(places: NDArray[np.int32]) -> _Group:
    found, of_cell = np.unique(places, return_inverse=True)
    return _Group(found[:, None], of_cell.ravel())


def _pairs(groups: list[_Group]) -> list[tuple[int, int]]:
    return list(combinations(range(len(groups)), 2))


def _laid_out(groups: list[_Group], index: NDArray[np.int32]) -> SharedSums:
    """The sums of all groups end to end."""
    if all(group.rows.shape[1] == 1 for group in groups):
        return SharedSums(np.zeros((0, 0), dtype=np.int32), index)
    begin = np.cumsum([0, *(len(group.rows) for group in groups)])
    most = max(group.rows.shape[1] for group in groups)
    rows = np.full((begin[-1], most), NO_EFFECT, dtype=np.int32)
    for group, start in zip(groups, begin[:-1], strict=True):
        rows[start : start + len(group.rows), : group.rows.shape[1]] = group.rows
    seen = [group.of_cell + start for group, start in zip(groups, begin[:-1], strict=True)]
    return SharedSums(rows, np.ascontiguousarray(np.array(seen, dtype=np.int32).T))


@numba.njit(nogil=True, cache=True)
def add_up(effects, rows):  # pragma: no cover - compiled
    """The sums (n_sums,) of effects (n_effects,); the effects themselves without rows."""
    n_sums, most = rows.shape
    if n_sums == 0:
        return effects
    sums = np.empty(n_sums)
    for i in range(n_sums):
        total = 0.0
        for k in range(most):
            if rows[i, k] < 0:
                break
            total += effects[rows[i, k]]
        sums[i] = total
    return sums


@numba.njit(nogil=True, cache=True)
def add_back(d_sums, rows, n_effects):  # pragma: no cover - compiled
    """Transpose of `add_up`: gradient in the sums to gradient in the effects."""
    n_sums, most = rows.shape
    if n_sums == 0:
        return d_sums
    d_effects = np.zeros(n_effects)
    for i in range(n_sums):
        for k in range(most):
            if rows[i, k] < 0:
                break
            d_effects[rows[i, k]] += d_sums[i]
    return d_effects
