"""Cells with an effect of their own, integrated out: a table of marginal likelihoods.

Where a component has one level per cell, such as system:task, each cell's likelihood given the sum
eta of all other effects is one smooth function of eta for each pair (k, n) of passes and trials,

    g(eta) = log int expit(eta + u)^k (1 - expit(eta + u))^(n - k) Normal(u; 0, sd^2) du.

It is computed at nodes, with three derivatives, and interpolated in between by the polynomial of
degree 7 that has them at both ends. Of few trials the nodes of all pairs share a grid over u
(`level_marginals`); with s the derivative of the log-likelihood in eta, and means over u in the
conditional of a node,

    g' = E[s],  g'' = E[s^2 + s'] - g'^2,  g''' = E[s^3 + 3 s s' + s''] - 3 g' E[s^2 + s'] + 2 g'^3.

Of many trials each node has nodes of its own in u, about its mode; with the cumulants kappa of u,

    g' = kappa_1 / sd^2,  g'' = kappa_2 / sd^4 - 1 / sd^2,  g''' = kappa_3 / sd^6.

Of both ``dg / d log sd = sd^2 (g'' + g'^2)``.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from gstudy.model.level_marginals import (
    FARTHEST,
    LEAST_LIKELY,
    REACH,
    effect_grid,
    row_product,
)
from gstudy.model.level_modes import MOST_NODES, fill_sides, level_mode
from gstudy.model.unrolled import add_effects, add_residuals, lane_sum
from gstudy.study.integrable import MOST_TRIALS

__all__ = ["marginal_pass"]

LEAST_SPACING, SPACING_AN_SD, MOST_SPACING = 0.7, 0.5, 2.8
"""Between nodes, in logits: the error is spacing^8 / (8! 2^8) of the eighth derivative, which falls
with the sd, since integrals are the smoother the more they mix. Measured against nodes about every
mode, for 1 to 60 trials and sds .02 to 15, it is below 2e-8 a trial."""

DEGREE = 7

MOST_INTERVALS = 20_000
"""Of all tables together. A trajectory that goes so far has left the posterior."""

LOG_2PI = math.log(2.0 * math.pi)


@numba.njit(nogil=True, cache=True, error_model="numpy")
def node_spacing(sd):  # pragma: no cover - compiled
    """Distance of the tables' nodes, in logits."""
    return min(LEAST_SPACING + SPACING_AN_SD * sd, MOST_SPACING)


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _node(
    k, n, eta, precision, log_sd, start, spacing, sides, found
):  # pragma: no cover - compiled
    """g and its derivatives times 1, spacing, spacing^2, spacing^3; returned is about where the
    mode of the next node will be."""
    top, curvature = level_mode(k, n, eta, precision, start)
    step, right, left = fill_sides(k, n, eta, precision, top, curvature, sides)
    total, first, second, third = 1.0, 0.0, 0.0, 0.0  # about the mode
    for side in range(2):
        stride = step if side == 0 else -step
        for j in range(1, (right if side == 0 else left) + 1):
            value, u = sides[side, j], j * stride
            total += value
            value *= u
            first += value
            value *= u
            second += value
            third += value * u
    mean = first / total
    square = second / total
    variance = square - mean * mean
    skew = third / total - 3.0 * mean * square + 2.0 * mean * mean * mean
    at = eta + top
    soft = max(at, 0.0) + np.log1p(np.exp(-abs(at)))
    found[0] = (
        (k * at - n * soft - 0.5 * precision * top * top + np.log(total * step))
        - 0.5 * LOG_2PI
        - log_sd
    )
    found[1] = spacing * precision * (top + mean)
    found[2] = spacing**2 * precision * (precision * variance - 1.0)
    found[3] = spacing**3 * precision**3 * skew
    return top - spacing * (1.0 - precision / curvature)


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _polynomial(a, b, c):  # pragma: no cover - compiled
    """Coefficients of the polynomial on [0, 1] with values and three derivatives a at 0, b at 1."""
    c[0], c[1], c[2], c[3] = a[0], a[1], 0.5 * a[2], a[3] / 6.0
    d0 = b[0] - c[0] - c[1] - c[2] - c[3]
    d1 = b[1] - c[1] - 2.0 * c[2] - 3.0 * c[3]
    d2 = b[2] - 2.0 * c[2] - 6.0 * c[3]
    d3 = b[3] - 6.0 * c[3]
    c[4] = 35.0 * d0 - 15.0 * d1 + 2.5 * d2 - d3 / 6.0
    c[5] = -84.0 * d0 + 39.0 * d1 - 7.0 * d2 + 0.5 * d3
    c[6] = 70.0 * d0 - 34.0 * d1 + 6.5 * d2 - 0.5 * d3
    c[7] = -20.0 * d0 + 10.0 * d1 - 2.0 * d2 + d3 / 6.0


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _ranges(eta, of_class, n_classes, per_logit):  # pragma: no cover - compiled
    """First interval of each class, and where its table begins among all; nothing when they are
    too many."""
    low, high = np.full(n_classes, np.inf), np.full(n_classes, -np.inf)
    for i in range(eta.shape[0]):
        g = of_class[i]
        low[g] = min(low[g], eta[i])
        high[g] = max(high[g], eta[i])
    first = np.empty(n_classes, dtype=np.int64)
    begin = np.zeros(n_classes + 1, dtype=np.int64)
    for g in range(n_classes):
        width = (high[g] - low[g]) * per_logit + 2.0
        if not width + begin[g] < MOST_INTERVALS:
            return first, begin[:0]
        first[g] = np.int64(np.floor(low[g] * per_logit))
        begin[g + 1] = begin[g] + np.int64(np.floor(high[g] * per_logit)) - first[g] + 1
    return first, begin


@numba.njit(nogil=True, cache=True, error_model="numpy", inline="always")
def _fill_powers(odds, grid, passing, failing):  # pragma: no cover - compiled
    """Powers 0, 1, ... of the chances to pass and to fail at every point of the grid."""
    for i in range(grid.shape[1]):
        ratio = odds * grid[2, i]
        p = 1.0 / (1.0 + ratio)
        passing[0, i], failing[0, i] = 1.0, 1.0
        passing[1, i], failing[1, i] = p, ratio * p
    for power in range(2, passing.shape[0]):
        for i in range(grid.shape[1]):
            passing[power, i] = passing[power - 1, i] * passing[1, i]
            failing[power, i] = failing[power - 1, i] * failing[1, i]


@numba.njit(nogil=True, cache=True, error_model="numpy", inline="always")
def _grid_node(
    k, n, spacing, grid, passing, failing, weights, found
):  # pragma: no cover - compiled
    """g and its derivatives times 1, spacing, spacing^2, spacing^3 by a shared grid; False where
    the trials are too unlikely for it (see `level_marginals.LEAST_LIKELY`).

    With p the chance to pass: s = k - n p, s' = -n (p - p^2), s'' = -n (p - 3 p^2 + 2 p^3).
    """
    passes, failures = np.int64(k), np.int64(n - k)
    for i in range(grid.shape[1]):
        weights[i] = grid[1, i] * passing[passes, i] * failing[failures, i]
    total = lane_sum(weights)
    if not total > LEAST_LIKELY:
        return False
    p = row_product(weights, passing, 1) / total
    p2 = row_product(weights, passing, 2) / total
    p3 = row_product(weights, passing, 3) / total
    first = k - n * p
    second = k * k - 2.0 * k * n * p + n * n * p2 - n * (p - p2)
    third = k * (k * k - 3.0 * k * n * p + 3.0 * n * n * p2) - n * n * n * p3
    third -= n * (3.0 * k * (p - p2) - 3.0 * n * (p2 - p3) + p - 3.0 * p2 + 2.0 * p3)
    found[0] = np.log(total)
    found[1] = spacing * first
    found[2] = spacing**2 * (second - first * first)
    found[3] = spacing**3 * (third - 3.0 * first * second + 2.0 * first * first * first)
    return True


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _grid_tables(classes, first, begin, sd, spacing):  # pragma: no cover - compiled
    """Polynomials of all intervals of all classes by a grid that they share."""
    most = np.int64(np.max(classes[:, 1]))
    grid = effect_grid(sd, most)
    powers = (3 if most < 3 else most) + 1  # moments need the third
    size, n_classes = grid.shape[1], classes.shape[0]
    passing, failing = np.empty((powers, size)), np.empty((powers, size))
    weights, sides = np.empty(size), np.empty((2, MOST_NODES + 1))
    precision, log_sd = 1.0 / (sd * sd), np.log(sd)
    ends = np.empty((n_classes, 2, 4))
    found = np.empty((begin[-1], DEGREE + 1))
    last = first + begin[1:] - begin[:-1]
    for node in range(first.min(), last.max() + 1):
        _fill_powers(np.exp(-node * spacing), grid, passing, failing)
        here = node & 1
        for g in range(n_classes):
            if first[g] <= node <= last[g]:
                k, n = classes[g, 0], classes[g, 1]
                if not _grid_node(k, n, spacing, grid, passing, failing, weights, ends[g, here]):
                    _node(
                        k, n, node * spacing, precision, log_sd, 0.0, spacing, sides, ends[g, here]
                    )
                if node > first[g]:
                    at = begin[g] + node - first[g] - 1
                    _polynomial(ends[g, 1 - here], ends[g, here], found[at])
    return found


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _mode_tables(classes, first, begin, precision, log_sd, spacing):  # pragma: no cover - compiled
    """Polynomials of all intervals of all classes, (n_intervals, DEGREE + 1), by modes."""
    found = np.empty((begin[-1], DEGREE + 1))
    sides = np.empty((2, MOST_NODES + 1))
    ends = np.empty((2, 4))
    for g in range(classes.shape[0]):
        k, n = classes[g, 0], classes[g, 1]
        at = first[g] * spacing
        top = _node(k, n, at, precision, log_sd, 0.0, spacing, sides, ends[0])
        for i in range(begin[g], begin[g + 1]):
            at += spacing
            here, there = (i - begin[g]) % 2, (i - begin[g] + 1) % 2
            top = _node(k, n, at, precision, log_sd, top, spacing, sides, ends[there])
            _polynomial(ends[here], ends[there], found[i])
    return found


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _tables(classes, first, begin, variance, spacing):  # pragma: no cover - compiled
    """Polynomials of all intervals of all classes, (n_intervals, DEGREE + 1)."""
    sd = np.sqrt(variance)
    farthest = spacing * max(-first.min(), (first + begin[1:] - begin[:-1]).max())
    if classes[:, 1].max() <= MOST_TRIALS and farthest + REACH * sd < FARTHEST:
        return _grid_tables(classes, first, begin, sd, spacing)
    return _mode_tables(classes, first, begin, 1.0 / variance, np.log(sd), spacing)


@numba.njit(nogil=True, cache=True, error_model="numpy")
def marginal_pass(mu, effects, index, of_class, classes, log_sd, d_effects):
    # pragma: no cover - compiled
    """Log-likelihood with the cells' own effects integrated out, and its gradient.

    Parameters
    ----------
    mu : float
        Common logit.
    effects : (n_effects,) float64
        Effects of the other components, one after the other.
    index : (n_cells, n_components) int32
        Position in `effects` of each component's level, for each cell.
    of_class : (n_cells,) float64
        Row of `classes` of each cell.
    classes : (n_classes, 2) float64
        Passes and trials.
    log_sd : float
        Of the cells' own effects.
    d_effects : (n_effects,) float64
        Overwritten with the gradient in `effects`.

    Returns
    -------
    (float, float, float)
        The log-likelihood without binomial coefficients, and its derivatives in `mu` and `log_sd`.
    """
    n_cells = index.shape[0]
    d_effects[:] = 0.0
    eta, slopes = np.full(n_cells, mu), np.empty(n_cells)
    add_effects(effects, index, eta)
    group = np.empty(n_cells, dtype=np.int64)
    for i in range(n_cells):
        group[i] = np.int64(of_class[i])
    variance = np.exp(2.0 * log_sd)
    spacing = node_spacing(np.sqrt(variance))
    per_logit = 1.0 / spacing
    first, begin = _ranges(eta, group, classes.shape[0], per_logit)
    if begin.shape[0] == 0:
        return -np.inf, 0.0, 0.0
    tables = _tables(classes, first, begin, variance, spacing)
    log_p, d_mu, squares, bends = 0.0, 0.0, 0.0, 0.0
    begins = begin[:-1] - first
    for i in range(n_cells):
        g = group[i]
        place = eta[i] * per_logit
        whole = np.floor(place)
        t = place - whole
        row = np.uintp(begins[g] + np.int64(whole))
        value, slope, bend = tables[row, DEGREE], 0.0, 0.0
        for power in range(DEGREE):
            bend = bend * t + slope
            slope = slope * t + value
            value = value * t + tables[row, np.uintp(DEGREE - 1 - power)]
        log_p += value
        slope *= per_logit
        d_mu += slope
        squares += slope * slope
        bends += bend
        slopes[i] = slope
    add_residuals(slopes, index, d_effects)
    return log_p, d_mu, variance * (squares + bends * (2.0 * per_logit**2))
