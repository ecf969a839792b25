"""Loops written out, four steps at a time: over the few effects of each cell, and sums.

A loop of unknown length in each cell takes three times as long: 73,370 cells of three effects are
added up in 56 us in place of 188, and their residuals handed back in 103 in place of 234.
"""

from __future__ import annotations

import numba
import numpy as np

__all__ = ["add_effects", "add_residuals", "lane_sum"]


@numba.njit(nogil=True, cache=True, error_model="numpy")
def add_effects(effects, index, eta):  # pragma: no cover - compiled
    """Add to each cell's linear predictor (n_cells,), in place, the effects that it sees.

    Parameters
    ----------
    effects : (n_effects,) float64
    index : (n_cells, n_seen) of a whole number type
        Places of effects.
    eta : (n_cells,) float64
    """
    n_cells, n_seen = index.shape
    c = 0
    while n_seen - c >= 4:
        for i in range(n_cells):
            eta[i] += (effects[np.uintp(index[i, c])] + effects[np.uintp(index[i, c + 1])]) + (
                effects[np.uintp(index[i, c + 2])] + effects[np.uintp(index[i, c + 3])]
            )
        c += 4
    if n_seen - c == 3:
        for i in range(n_cells):
            eta[i] += (
                effects[np.uintp(index[i, c])] + effects[np.uintp(index[i, c + 1])]
            ) + effects[np.uintp(index[i, c + 2])]
    elif n_seen - c == 2:
        for i in range(n_cells):
            eta[i] += effects[np.uintp(index[i, c])] + effects[np.uintp(index[i, c + 1])]
    elif n_seen - c == 1:
        for i in range(n_cells):
            eta[i] += effects[np.uintp(index[i, c])]


@numba.njit(nogil=True, cache=True, error_model="numpy")
def add_residuals(residuals, index, d_effects):  # pragma: no cover - compiled
    """Add each cell's residual (n_cells,), in place, to the gradient in the effects it sees."""
    n_cells, n_seen = index.shape
    c = 0
    while n_seen - c >= 4:
        for i in range(n_cells):
            residual = residuals[i]
            d_effects[np.uintp(index[i, c])] += residual
            d_effects[np.uintp(index[i, c + 1])] += residual
            d_effects[np.uintp(index[i, c + 2])] += residual
            d_effects[np.uintp(index[i, c + 3])] += residual
        c += 4
    if n_seen - c == 3:
        for i in range(n_cells):
            residual = residuals[i]
            d_effects[np.uintp(index[i, c])] += residual
            d_effects[np.uintp(index[i, c + 1])] += residual
            d_effects[np.uintp(index[i, c + 2])] += residual
    elif n_seen - c == 2:
        for i in range(n_cells):
            d_effects[np.uintp(index[i, c])] += residuals[i]
            d_effects[np.uintp(index[i, c + 1])] += residuals[i]
    elif n_seen - c == 1:
        for i in range(n_cells):
            d_effects[np.uintp(index[i, c])] += residuals[i]


@numba.njit(nogil=True, cache=True, error_model="numpy", inline="always")
def lane_sum(x):  # pragma: no cover - compiled
    """Of an array, in four interleaved parts: one chain of additions waits for each of them."""
    quarter = x.shape[0] // 4
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    for i in range(quarter):
        a += x[i]
        b += x[np.uintp(quarter + i)]
        c += x[np.uintp(2 * quarter + i)]
        d += x[np.uintp(3 * quarter + i)]
    for i in range(4 * quarter, x.shape[0]):
        a += x[i]
    return (a + b) + (c + d)
