"""The effect of a level given its cells: log density, mode, and integrals about it.

The log density of an effect u is the sum of ``k (eta + u) - n log(1 + exp(eta + u))`` over the
level's cells less ``u^2 / (2 sd^2)``; it is concave.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from gstudy.model.one_way import (
    LARGEST_DROP,
    LONGEST_STEP,
    MOST_NEWTON_STEPS,
    NEWTON_TOLERANCE,
    STEP,
    safe_step,
)

__all__ = ["integral_about_mode", "log_ratio", "mode_of_cells"]

LOG_2PI = math.log(2.0 * math.pi)


@numba.njit(nogil=True, cache=True, error_model="numpy")
def log_ratio(u, top, k, n, eta, begin, end, precision):  # pragma: no cover - compiled
    """Log density at the effect u less that at `top`, and its slope at u, given several cells."""
    value, slope = -0.5 * precision * (u - top) * (u + top), -precision * u
    for i in range(begin, end):
        here, there = eta[i] + u, eta[i] + top
        tail, tail_top = np.exp(-abs(here)), np.exp(-abs(there))
        # log(1 + exp(eta)) without overflow.
        soft = max(here, 0.0) - max(there, 0.0) + np.log((1.0 + tail) / (1.0 + tail_top))
        value += k[i] * (u - top) - n[i] * soft
        slope += k[i] - n[i] * (1.0 if here >= 0.0 else tail) / (1.0 + tail)
    return value, slope


@numba.njit(nogil=True, cache=True, error_model="numpy")
def mode_of_cells(k, n, eta, begin, end, precision, start):  # pragma: no cover - compiled
    """The effect of largest density given several cells, and its Laplace precision there."""
    low, high = 0.0, 0.0
    for i in range(begin, end):
        low -= (n[i] - k[i]) / precision
        high += k[i] / precision
    u, before = min(max(start, low), high), high - low
    curvature = precision
    for _ in range(MOST_NEWTON_STEPS):
        slope, curvature = -precision * u, precision
        for i in range(begin, end):
            p = 1.0 / (1.0 + np.exp(-(eta[i] + u)))
            slope += k[i] - n[i] * p
            curvature += n[i] * p * (1.0 - p)
        if slope > 0.0:
            low = u
        else:
            high = u
        step = safe_step(u, slope / curvature, low, high, before)
        before = abs(step)
        u += step
        if step * step * curvature <= NEWTON_TOLERANCE**2:
            break
    return u, curvature


@numba.njit(nogil=True, cache=True, error_model="numpy")
def integral_about_mode(k, n, eta, sd, chances):  # pragma: no cover - compiled
    """Log of the marginal likelihood of a level's cells, and the mean of (u / sd)^2 given them.

    Trapezoid sums about the mode, exact however small the likelihood is.

    Parameters
    ----------
    k, n, eta : (n_cells,) float64
        Passes, trials, sum of all other effects.
    sd : float
        Of the effect.
    chances : (n_cells,) float64
        Overwritten with the mean chance to pass of each cell given all of them.
    """
    precision = 1.0 / (sd * sd)
    top, curvature = mode_of_cells(k, n, eta, 0, k.shape[0], precision, 0.0)
    step = min(STEP / np.sqrt(curvature), LONGEST_STEP)
    total, square = 0.0, 0.0
    chances[:] = 0.0
    for side in range(2):
        j = side  # the mode itself belongs to the right
        while True:
            u = top + (j * step if side == 0 else -j * step)
            value, _ = log_ratio(u, top, k, n, eta, 0, k.shape[0], precision)
            if not value > -LARGEST_DROP:
                break
            weight = np.exp(value)
            total += weight
            square += weight * u * u
            for i in range(k.shape[0]):
                chances[i] += weight / (1.0 + np.exp(-(eta[i] + u)))
            j += 1
    found = -0.5 * precision * top * top + np.log(total * step) - 0.5 * LOG_2PI - np.log(sd)
    for i in range(k.shape[0]):
        at = eta[i] + top
        found += k[i] * at - n[i] * (max(at, 0.0) + np.log1p(np.exp(-abs(at))))
        chances[i] /= total
    return found, square * precision / total
