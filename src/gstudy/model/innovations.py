"""Correlated normal effects, one system after the other, standardised by what their trials say.

Effects ``u = B z`` of S systems on T levels, z independent standard normal, B lower triangular.
What the systems before s say of its effects is ``c_s = sum_{j<s} B_sj z_j``; given that and its own
trials (score g, information I about u_s), with ``r^2 = 1 + B_ss^2 I`` and to first order,

    z_s = w_s / r + B_ss (g_s - I_s c_s) / r^2,

less its mean over levels where swept. Without information that is the non-centred form, with much
the centred one. Value and gradient are written in numba for the direct path, and for PyTensor,
which would take ten times as long to compile them as a graph.
"""

from __future__ import annotations

import numba
import numpy as np

__all__ = ["KERNEL_VERSION", "innovations", "innovations_back"]

KERNEL_VERSION = 2
"""Part of the key of the compiled code on disk: raise it with every change of a kernel."""

LARGE_PRODUCT = 1e100
"""Logs of many variances are taken of their product, which is let go before it could overflow."""


@numba.njit(nogil=True, cache=True, error_model="numpy")
def innovations(b, w, information, scores, swept):  # pragma: no cover - compiled
    """Innovations z (S, T) and the log of the Jacobian dz/dw.

    Parameters
    ----------
    b : (S, S) float64
        Lower triangular.
    w : (S, T) float64, (S, T - 1) where swept
    information, scores : (S, T) float64
    swept : bool
        Each row of z sums to zero.
    """
    n_systems, size = information.shape
    z, expected, variances = np.empty((n_systems, size)), np.empty(size), np.empty(size)
    log_det = 0.0
    for s in range(n_systems):
        _expected(b, z, s, expected)
        own, known, score, y = b[s, s], information[s], scores[s], z[s]
        if swept:
            _spread(w[s], y)
        else:
            y[:] = w[s]
        for t in range(size):  # no sums in here, so that it runs on whole registers
            v = 1.0 + own * own * known[t]
            y[t] = y[t] / np.sqrt(v) + own * (score[t] - known[t] * expected[t]) / v
            variances[t] = v
        log_det -= 0.5 * _log_product(variances)
        if swept:
            roots = 0.0
            for t in range(size):
                roots += np.sqrt(variances[t])
            log_det += np.log(roots / size)
            y -= y.sum() / size
    return z, log_det


@numba.njit(nogil=True, cache=True)
def _expected(b, z, s, expected):  # pragma: no cover - compiled
    """What the systems before s say of its effects."""
    expected[:] = 0.0
    for j in range(s):
        share, before = b[s, j], z[j]
        for t in range(expected.shape[0]):
            expected[t] += share * before[t]


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _log_product(factors):  # pragma: no cover - compiled
    """Log of a product of factors of 1 or more."""
    found, product = 0.0, 1.0
    for factor in factors:
        product *= factor
        if product > LARGE_PRODUCT:
            found += np.log(product)
            product = 1.0
    return found + np.log(product)


@numba.njit(nogil=True, cache=True, error_model="numpy")
def innovations_back(b, w, information, scores, swept, z, d_z, d_log_det):
    # pragma: no cover - compiled
    """Gradients in b, w and scores, given those in z and in the log Jacobian."""
    n_systems, size = information.shape
    d_b, d_w, d_scores = np.zeros_like(b), np.empty_like(w), np.empty_like(scores)
    d_z = d_z.copy()
    full, d_full, d_own, expected = np.empty((4, size))
    roots, d_roots = np.empty((2, size))
    for s in range(n_systems - 1, -1, -1):
        _expected(b, z, s, expected)
        own, known, d_y, d_score = b[s, s], information[s], d_z[s], d_scores[s]
        if swept:
            _spread(w[s], full)
            d_y -= d_y.sum() / size
        else:
            full[:] = w[s]
        for t in range(size):  # no sums in here, so that it runs on whole registers
            slack = 1.0 / (1.0 + own * own * known[t])
            inverse = np.sqrt(slack)
            pull, share = own * known[t], d_y[t] * slack
            surprise = scores[s, t] - known[t] * expected[t]
            d_full[t] = d_y[t] * inverse
            d_score[t] = own * share
            d_own[t] = share * (surprise * (2.0 * slack - 1.0) - full[t] * pull * inverse)
            d_own[t] -= d_log_det * pull * slack
            d_roots[t] = pull * inverse
            roots[t] = inverse + own * d_roots[t]
        d_b[s, s] = d_own.sum()
        if swept:
            d_b[s, s] += d_log_det * d_roots.sum() / roots.sum()
            _spread_back(d_full, d_w[s])
        else:
            d_w[s] = d_full
        for j in range(s):
            for t in range(size):
                pull = d_score[t] * known[t]
                d_b[s, j] -= pull * z[j, t]
                d_z[j, t] -= pull * b[s, j]
    return d_b, d_w, d_scores


@numba.njit(nogil=True, cache=True)
def _spread(free, full):  # pragma: no cover - compiled
    """T - 1 free coordinates to T that sum to zero, isometrically (PyMC's ZeroSumTransform)."""
    n = full.shape[0]
    total = free.sum()
    root = np.sqrt(n)
    full[: n - 1] = free - total / (root + n)
    full[n - 1] = -total / root


@numba.njit(nogil=True, cache=True)
def _spread_back(d_full, d_free):  # pragma: no cover - compiled
    """Transpose of `_spread`."""
    n = d_full.shape[0]
    root = np.sqrt(n)
    d_free[:] = d_full[: n - 1] - (d_full[: n - 1].sum() / (root + n) + d_full[n - 1] / root)
