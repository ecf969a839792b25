"""Cholesky factors between a few systems, from partial correlations or from a covariance.

``L L' = R ~ LKJ(2)`` (Lewandowski, Kurowicka and Joe 2009, doi:10.1016/j.jmva.2009.04.008). In
numba with their gradients for the direct path; `correlated` has the same for PyMC.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

__all__ = [
    "LKJ_SHAPE",
    "cholesky_draws",
    "cholesky_factor",
    "cholesky_factor_back",
    "covariance_factor",
    "covariance_factor_back",
    "partial_shapes",
]

Floats = NDArray[np.float64]

LKJ_SHAPE = 2.0


def partial_shapes(n_systems: int) -> Floats:
    """Shapes b of the partial correlations, ``2 Beta(b, b) - 1``, that make R LKJ(2).

    Below the diagonal, row after row; ``b = 2 + (S - 2 - column) / 2``.
    """
    _, column = np.tril_indices(n_systems, -1)
    return np.asarray(LKJ_SHAPE + (n_systems - 2 - column) / 2.0)


def cholesky_draws(partial: Floats, n_systems: int) -> Floats:
    """L (..., S, S) from draws (..., n_partial) of the partial correlations, as ``(1 + z) / 2``.

    ``L_ij = z_ij prod_{k<j} sqrt(1 - z_ik^2)``, ``L_ii`` with z = 1.
    """
    below = np.tril_indices(n_systems, -1)
    z = np.zeros((*partial.shape[:-1], n_systems, n_systems))
    z[(..., *below)] = 2.0 * partial - 1.0
    root = np.ones_like(z)
    root[(..., *below)] = 2.0 * np.sqrt(partial * (1.0 - partial))
    before = np.cumprod(np.concatenate([np.ones_like(root[..., :1]), root], axis=-1), axis=-1)
    return np.asarray(np.tril((z + np.eye(n_systems)) * before[..., :-1]))


@numba.njit(nogil=True, cache=True, error_model="numpy")
def covariance_factor(log_sds, logits, factor):  # pragma: no cover - compiled
    """Fill B = diag(sd) L (S, S), given the logits of the partial correlations as ``(1 + z) / 2``.

    Returned: the log density of the logits that makes ``L L'`` LKJ(2), without its constant.
    """
    n = factor.shape[0]
    factor[:] = 0.0
    log_p, at = 0.0, 0
    for i in range(n):
        left = np.exp(log_sds[i])
        for j in range(i):
            size = abs(logits[at])
            tail = np.exp(-size)
            z = (1.0 - tail) / (1.0 + tail)
            # A Beta(b, b) and the Jacobian of its logit: (p (1 - p))^b.
            log_p -= (LKJ_SHAPE + 0.5 * (n - 2 - j)) * (size + 2.0 * np.log1p(tail))
            factor[i, j] = left * (z if logits[at] >= 0.0 else -z)
            left *= 2.0 * np.sqrt(tail) / (1.0 + tail)
            at += 1
        factor[i, i] = left
    return log_p


@numba.njit(nogil=True, cache=True, error_model="numpy")
def covariance_factor_back(log_sds, logits, factor, d_factor, d_log_sds, d_logits):
    # pragma: no cover - compiled
    """Add to the gradients in log sds and logits, given that in the factor, and the log density's
    own."""
    n = factor.shape[0]
    left = np.empty(n)
    first = 0
    for i in range(n):
        left[0] = np.exp(log_sds[i])
        for j in range(i):
            # sqrt(1 - z^2) of the partial correlation z = tanh(logit / 2)
            left[j + 1] = left[j] / np.cosh(0.5 * logits[first + j])
        after = d_factor[i, i] * factor[i, i]
        for j in range(i - 1, -1, -1):
            z = np.tanh(0.5 * logits[first + j])
            root = left[j + 1] / left[j]
            shape = LKJ_SHAPE + 0.5 * (n - 2 - j)
            d_logits[first + j] += 0.5 * d_factor[i, j] * left[j + 1] * root
            d_logits[first + j] -= z * (0.5 * after + shape)
            after += d_factor[i, j] * factor[i, j]
        d_log_sds[i] += after
        first += i


@numba.njit(nogil=True, cache=True, error_model="numpy")
def cholesky_factor(covariance, factor):  # pragma: no cover - compiled
    """Fill the lower factor of a covariance (S, S); not a number where there is none."""
    n = covariance.shape[0]
    factor[:] = 0.0
    for i in range(n):
        for j in range(i + 1):
            rest = covariance[i, j]
            for k in range(j):
                rest -= factor[i, k] * factor[j, k]
            factor[i, j] = np.sqrt(rest) if i == j else rest / factor[j, j]


@numba.njit(nogil=True, cache=True, error_model="numpy")
def cholesky_factor_back(factor, d_factor):  # pragma: no cover - compiled
    """Gradient (S, S), symmetric, in the covariance, given that in its lower factor L.

    ``L^-T P L^-1`` made symmetric, P the lower half of ``L' dL`` with half its diagonal (Murray
    2016, arXiv 1602.07527).
    """
    n = factor.shape[0]
    found = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            for k in range(i, n):
                found[i, j] += factor[k, i] * d_factor[k, j]
        found[i, i] *= 0.5
    for j in range(n):
        for i in range(n - 1, -1, -1):
            for k in range(i + 1, n):
                found[i, j] -= factor[k, i] * found[k, j]
            found[i, j] /= factor[i, i]
    for i in range(n):
        for j in range(n - 1, -1, -1):
            for k in range(j + 1, n):
                found[i, j] -= found[i, k] * factor[k, j]
            found[i, j] /= factor[j, j]
    return 0.5 * (found + found.T)
