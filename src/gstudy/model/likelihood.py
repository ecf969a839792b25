"""The fused binomial likelihood: gather, softplus, residual and scatter in one pass over cells.

One numba kernel serves both the PyTensor Op inside the PyMC model and the direct path, so the
two cannot differ. It is compiled without fast-math: the same input gives the same bits.
"""

from __future__ import annotations

import numba
import numpy as np

from gstudy.model.unrolled import add_effects, add_residuals, lane_sum

__all__ = ["binomial_pass"]

KERNEL_VERSION = 4
"""Part of the key of the compiled code on disk: raise it with every change of the kernel."""


CELLS_AT_ONCE = 512
"""Cells whose linear predictors are held at a time: they stay in the processor's nearest cache. A
double can hold the product of so many factors between 1 and 2."""

FARTHEST = 700.0
"""Beyond, exp(-|eta|) is taken as exp(-700): no double near 1 can tell."""

LOG2_E = 1.4426950408889634
# log 2 in two parts, of which the first times a small whole number is exact.
LOG_2_HIGH, LOG_2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
# Added to a whole number k it leaves k + 1023, the exponent of 2^k, in the last bits of a double.
EXPONENT = 1023.0 + 1.5 * 2.0**52
EXPONENT_PLACE = 52


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _tails(eta, found, bits):  # pragma: no cover - compiled
    """exp(-|eta|) to rounding: 2^k exp(r), |r| <= log(2) / 2, exp(r) by its series.

    Plain arithmetic runs on whole registers, calls of an exponential do not.
    """
    powers = bits.view(np.float64)
    for i in range(eta.shape[0]):
        x = max(-abs(eta[i]), -FARTHEST)
        k = np.floor(x * LOG2_E + 0.5)
        r = (x - k * LOG_2_HIGH) - k * LOG_2_LOW
        # In parts that do not wait for each other.
        square = r * r
        fourth = square * square
        low = (1.0 + r) + square * (0.5 + r * (1.0 / 6.0))
        middle = (1.0 / 24.0 + r * (1.0 / 120.0)) + square * (1.0 / 720.0 + r * (1.0 / 5040.0))
        high = (1.0 / 40320.0 + r * (1.0 / 362880.0)) + square * (
            1.0 / 3628800.0 + r * (1.0 / 39916800.0)
        )
        found[i] = low + fourth * (middle + fourth * (high + fourth * (1.0 / 479001600.0)))
        powers[i] = k + EXPONENT
    for i in range(eta.shape[0]):
        bits[i] = bits[i] << EXPONENT_PLACE
    for i in range(eta.shape[0]):
        found[i] *= powers[i]


@numba.njit(nogil=True, cache=True, error_model="numpy", inline="always")
def _log_product(factors):  # pragma: no cover - compiled
    """Sum of logs of at most `CELLS_AT_ONCE` numbers between 1 and 2: the log of their product."""
    quarter = factors.shape[0] // 4
    a, b, c, d = 1.0, 1.0, 1.0, 1.0
    for i in range(quarter):
        a *= factors[i]
        b *= factors[np.uintp(quarter + i)]
        c *= factors[np.uintp(2 * quarter + i)]
        d *= factors[np.uintp(3 * quarter + i)]
    for i in range(4 * quarter, factors.shape[0]):
        a *= factors[i]
    return np.log((a * b) * (c * d))


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _weighted_logs(factors, tried):  # pragma: no cover - compiled
    """Sum of trials times log of numbers between 1 and 2: one log for each run of equal trials."""
    n = tried[0]
    alike = True
    for j in range(tried.shape[0]):
        alike &= tried[j] == n
    if alike:
        return n * _log_product(factors)
    total, product = 0.0, 1.0
    for j in range(tried.shape[0]):
        if tried[j] != n:
            total += n * np.log(product)
            product, n = 1.0, tried[j]
        product *= factors[j]
    return total + n * np.log(product)


@numba.njit(nogil=True, cache=True, error_model="numpy")
def binomial_pass(mu, effects, index, successes, trials, d_effects):  # pragma: no cover - compiled
    """Log-likelihood (without binomial coefficients) and its gradient, in one pass.

    Parameters
    ----------
    mu : float
        Common logit.
    effects : (n_effects,) float64
        Effects of all components, one after the other.
    index : (n_cells, n_components) int32
        Position in `effects` of each component's level, for each cell.
    successes, trials : (n_cells,) float64
    d_effects : (n_effects,) float64
        Overwritten with the gradient in `effects`.

    Returns
    -------
    (float, float)
        ``sum(k * eta - n * log(1 + exp(eta)))`` and its derivative in `mu`.
    """
    n_cells = index.shape[0]
    d_effects[:] = 0.0
    log_p = 0.0
    d_mu = 0.0
    eta, tails = np.empty(CELLS_AT_ONCE), np.empty(CELLS_AT_ONCE)
    residuals, straight = np.empty(CELLS_AT_ONCE), np.empty(CELLS_AT_ONCE)
    bits = np.empty(CELLS_AT_ONCE, dtype=np.int64)
    for start in range(0, n_cells, CELLS_AT_ONCE):
        size = min(CELLS_AT_ONCE, n_cells - start)
        # Parts, not start + j: numba would look at each place whether it counts from the end.
        rows, passed = index[start : start + size], successes[start : start + size]
        tried = trials[start : start + size]
        for j in range(size):
            eta[j] = mu
        add_effects(effects, rows, eta[:size])
        _tails(eta[:size], tails[:size], bits[:size])
        for j in range(size):  # no sums in here, so that it runs on whole registers
            rest = 1.0 / (1.0 + tails[j])
            up = eta[j] >= 0.0
            residuals[j] = passed[j] - tried[j] * (rest if up else tails[j] * rest)
            straight[j] = (passed[j] - (tried[j] if up else 0.0)) * eta[j]
            tails[j] += 1.0
        log_p += lane_sum(straight[:size]) - _weighted_logs(tails[:size], tried)
        d_mu += lane_sum(residuals[:size])
        add_residuals(residuals, rows, d_effects)
    return log_p, d_mu
