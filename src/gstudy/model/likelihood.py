"""The fused binomial likelihood: gather, softplus, residual and scatter in one pass over cells.

One numba kernel serves both the PyTensor Op inside the PyMC model and the direct path, so the
two cannot differ. It is compiled without fast-math: the same input gives the same bits.
"""

from __future__ import annotations

import numba
import numpy as np

__all__ = ["binomial_pass"]

MOST_FACTORS = 500
"""Factors between 1 and 2 that a double can hold the product of, with room to spare."""

KERNEL_VERSION = 3
"""Part of the key of the compiled code on disk: raise it with every change of the kernel."""


CELLS_AT_ONCE = 256
"""Cells whose linear predictors are held at a time: they stay in the processor's nearest cache."""

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
        series = 1.0 / 39916800.0 + r / 479001600.0
        series = 1.0 / 362880.0 + r * (1.0 / 3628800.0 + r * series)
        series = 1.0 / 5040.0 + r * (1.0 / 40320.0 + r * series)
        series = 1.0 / 120.0 + r * (1.0 / 720.0 + r * series)
        series = 1.0 / 6.0 + r * (1.0 / 24.0 + r * series)
        found[i] = 1.0 + r * (1.0 + r * (0.5 + r * series))
        powers[i] = k + EXPONENT
    for i in range(eta.shape[0]):
        bits[i] = bits[i] << EXPONENT_PLACE
    for i in range(eta.shape[0]):
        found[i] *= powers[i]


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
    n_cells, n_components = index.shape
    d_effects[:] = 0.0
    log_p = 0.0
    d_mu = 0.0
    eta, tails = np.empty(CELLS_AT_ONCE), np.empty(CELLS_AT_ONCE)
    bits = np.empty(CELLS_AT_ONCE, dtype=np.int64)
    # Sums of log(1 + exp(-|eta|)) over cells with one number of trials are logs of products.
    product, held, n_held = 1.0, 0, 0.0
    for start in range(0, n_cells, CELLS_AT_ONCE):
        size = min(CELLS_AT_ONCE, n_cells - start)
        # Parts, not start + j: numba would look at each place whether it counts from the end.
        rows, passed = index[start : start + size], successes[start : start + size]
        tried = trials[start : start + size]
        for j in range(size):
            total = mu
            for c in range(n_components):
                total += effects[np.uintp(rows[j, c])]
            eta[j] = total
        _tails(eta[:size], tails[:size], bits[:size])
        for j in range(size):
            n, k, tail = tried[j], passed[j], tails[j]
            if n != n_held or held == MOST_FACTORS:
                log_p -= n_held * np.log(product)
                product, held, n_held = 1.0, 0, n
            product *= 1.0 + tail
            held += 1
            rest = 1.0 / (1.0 + tail)
            up = eta[j] >= 0.0
            log_p += (k - (n if up else 0.0)) * eta[j]
            residual = k - n * (rest if up else tail * rest)
            d_mu += residual
            for c in range(n_components):
                d_effects[np.uintp(rows[j, c])] += residual
    return log_p - n_held * np.log(product), d_mu
