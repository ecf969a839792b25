"""Marginal likelihoods of the levels of a single component, all of them in one pass.

A level with k passes in n trials has, with ``p = expit(mu + sd z)``,

    I(k, n) = int p^k (1 - p)^(n - k) Normal(z; 0, 1) dz.

Of few trials all levels share one grid over z (`level_marginals`), on which the powers of p and of
1 - p are made once. A level of many trials, one whose trials are unlikely there, and every level
where sd is so large that the grid would need more points than its modes do, has nodes about its own
mode (`level_modes`). The derivatives are means over a level's conditional:

    d log I / d mu = E[z] / sd,  d log I / d log sd = E[z^2] - 1.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from gstudy.model.level_marginals import (
    FARTHEST,
    GRID_ROWS,
    REACH,
    effect_grid,
    grid_size,
    row_product,
)
from gstudy.model.level_modes import LOG_2PI, MOST_NODES, fill_sides, level_mode
from gstudy.model.unrolled import lane_sum

__all__ = ["level_integrals"]

MOST_TRIALS = 32
"""Of a level on the grid: of more a point on it tells too little."""

MOST_NUMBERS = 4000
"""In a table of powers. Larger ones leave the processor's nearest cache, and nodes about the modes
are fewer: with 8 trials where the sd is above about 16, with 32 above 2."""

LEAST_LIKELY = 1e-3
"""Probability of its passes below which a level has its own nodes: the grid's error is absolute.
Against sums about the mode, with 1 to 32 trials and sds .05 to 18, a level's log is wrong by at
most 1e-9 and its slopes by 2e-8."""

COMBINATIONS = np.array(
    [[float(math.comb(n, k)) for k in range(MOST_TRIALS + 1)] for n in range(MOST_TRIALS + 1)]
)


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _most_on_grid(mu, sd, classes):  # pragma: no cover - compiled
    """Most trials of a level that the grid serves; 0 where it serves none."""
    most = 0.0
    for g in range(classes.shape[0]):
        n = classes[g, 1]
        if most < n <= MOST_TRIALS:
            most = n
    near = abs(mu) + REACH * sd < FARTHEST
    return most if near and (most + 1.0) * grid_size(sd, most) <= MOST_NUMBERS else 0.0


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _powers(mu, grid, passing, failing):  # pragma: no cover - compiled
    """Powers 0, 1, ... of the chance to pass at each point, and of that to fail times the density,
    in the rows of two tables."""
    odds = np.exp(-mu)
    for i in range(grid.shape[1]):
        ratio = odds * grid[2, i]
        p = 1.0 / (1.0 + ratio)
        passing[0, i], passing[1, i] = 1.0, p
        failing[0, i], failing[1, i] = grid[1, i], grid[1, i] * ratio * p
        grid[2, i] = ratio * p
    for j in range(2, passing.shape[0]):
        for i in range(grid.shape[1]):
            passing[j, i] = passing[j - 1, i] * passing[1, i]
            failing[j, i] = failing[j - 1, i] * grid[2, i]


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _mode_sums(sides, top, step, right, left):  # pragma: no cover - compiled
    """Sums of the integrand over its value at `top`, times 1, u and u^2, at top + j step."""
    total, first, second = 1.0, top, top * top
    for side in range(2):
        stride = step if side == 0 else -step
        for j in range(1, (right if side == 0 else left) + 1):
            value, u = sides[side, j], top + j * stride
            total += value
            first += value * u
            second += value * u * u
    return total, first, second


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _about_mode(k, n, mu, log_sd, start, sides):  # pragma: no cover - compiled
    """The mode of u = sd z, log I, E[z] / sd and E[z^2] of one level, by nodes of its own."""
    precision = np.exp(-2.0 * log_sd)
    top, curvature = level_mode(k, n, mu, precision, start)
    step, right, left = fill_sides(k, n, mu, precision, top, curvature, sides)
    total, first, second = _mode_sums(sides, top, step, right, left)
    eta = mu + top
    value = k * eta - n * (max(eta, 0.0) + np.log1p(np.exp(-abs(eta))))
    value += np.log(total * step) - 0.5 * precision * top * top - 0.5 * LOG_2PI - log_sd
    return top, value, precision * first / total, precision * second / total


@numba.njit(nogil=True, cache=True, error_model="numpy")
def level_integrals(mu, log_sd, classes):  # pragma: no cover - compiled
    """Log-likelihood of all levels, and its derivatives in mu and log sd.

    Parameters
    ----------
    mu, log_sd : float
    classes : (n_classes, 3) float64
        Passes, trials, and how many levels have them.

    Returns
    -------
    (float, float, float)
        Without binomial coefficients.
    """
    sd = np.exp(log_sd)
    most = np.int64(_most_on_grid(mu, sd, classes))
    grid = effect_grid(sd, most) if most > 0 else np.empty((GRID_ROWS, 0))
    size, rows = grid.shape[1], most + 1
    # One array for everything: to ask for memory takes as long as a class does.
    work = np.empty(2 * (MOST_NODES + 1) + (2 * rows + 2) * size)
    sides = work[: 2 * (MOST_NODES + 1)].reshape((2, MOST_NODES + 1))
    tables = work[2 * (MOST_NODES + 1) :].reshape((2 * rows + 2, size))
    passing, failing = tables[:rows], tables[rows : 2 * rows]
    weights, together = tables[2 * rows], tables[2 * rows + 1]
    together[:] = 0.0
    if most > 0:
        _powers(mu, grid, passing, failing)
    value, d_mu, d_log_sd, top = 0.0, 0.0, 0.0, 0.0
    for g in range(classes.shape[0]):
        k, n, count = classes[g, 0], classes[g, 1], classes[g, 2]
        d_log_sd -= count
        if n <= most:
            passes, failures = np.int64(k), np.int64(n - k)
            for i in range(size):
                weights[i] = passing[passes, i] * failing[failures, i]
            total = lane_sum(weights)
            if COMBINATIONS[np.int64(n), passes] * total > LEAST_LIKELY:
                value += count * np.log(total)
                share = count / total
                for i in range(size):
                    together[i] += share * weights[i]
                continue
        top, found, first, second = _about_mode(k, n, mu, log_sd, top, sides)
        value += count * found
        d_mu += count * first
        d_log_sd += count * second
    if most > 0:
        d_mu += row_product(together, grid, 3) / sd
        d_log_sd += row_product(together, grid, 0)
    return value, d_mu, d_log_sd
