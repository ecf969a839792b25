"""Correlated normal effects, one system after the other, standardised by what their trials say.

Effects ``u = B z`` of S systems on T levels, z independent standard normal, B lower triangular.
What the systems before s say of its effects is ``c_s = sum_{j<s} B_sj z_j``; given that and its own
trials (score g, information I about u_s), with ``r^2 = 1 + B_ss^2 I`` and to first order,

    z_s = w_s / r + B_ss (g_s - I_s c_s) / r^2,

less its mean over levels where swept. Without information that is the non-centred form, with much
the centred one. Value and gradient are written in numba: as a graph they would take PyTensor ten
times as long to compile.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import DisconnectedType, disconnected_type
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.link.numba.dispatch.basic import register_funcify_default_op_cache_key

__all__ = ["Innovations", "innovations", "innovations_back"]

KERNEL_VERSION = 1
"""Part of the key of the compiled code on disk: raise it with every change of a kernel."""


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
    z = np.empty((n_systems, size))
    log_det = 0.0
    for s in range(n_systems):
        own = b[s, s]
        if swept:
            _spread(w[s], z[s])
        else:
            z[s] = w[s]
        roots, mean = 0.0, 0.0
        for t in range(size):
            expected = 0.0
            for j in range(s):
                expected += b[s, j] * z[j, t]
            v = 1.0 + own * own * information[s, t]
            root = np.sqrt(v)
            z[s, t] = z[s, t] / root + own * (scores[s, t] - information[s, t] * expected) / v
            mean += z[s, t]
            roots += root
            log_det -= np.log(root)
        if swept:
            z[s] -= mean / size
            log_det += np.log(roots / size)
    return z, log_det


@numba.njit(nogil=True, cache=True, error_model="numpy")
def innovations_back(b, w, information, scores, swept, z, d_z, d_log_det):
    # pragma: no cover - compiled
    """Gradients in b, w and scores, given those in z and in the log Jacobian."""
    n_systems, size = information.shape
    d_b, d_w, d_scores = np.zeros_like(b), np.empty_like(w), np.empty_like(scores)
    d_z = d_z.copy()
    full, d_full = np.empty(size), np.empty(size)
    for s in range(n_systems - 1, -1, -1):
        own, mean = b[s, s], 0.0
        if swept:
            _spread(w[s], full)
            mean = d_z[s].mean()
        else:
            full[:] = w[s]
        roots, d_roots, d_own = 0.0, 0.0, 0.0
        for t in range(size):
            known = information[s, t]
            expected = 0.0
            for j in range(s):
                expected += b[s, j] * z[j, t]
            v = 1.0 + own * own * known
            root = np.sqrt(v)
            surprise = scores[s, t] - known * expected
            d_y = d_z[s, t] - mean
            d_full[t] = d_y / root
            d_scores[s, t] = d_y * own / v
            d_own += d_y * (surprise * (2.0 - v) / v - full[t] * own * known / root) / v
            d_own -= d_log_det * own * known / v
            d_expected = -d_scores[s, t] * known
            for j in range(s):
                d_b[s, j] += d_expected * z[j, t]
                d_z[j, t] += d_expected * b[s, j]
            roots += root
            d_roots += own * known / root
        if swept:
            d_own += d_log_det * d_roots / roots
            _spread_back(d_full, d_w[s])
        else:
            d_w[s] = d_full
        d_b[s, s] = d_own
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


class Innovations(Op):
    """PyTensor Op around `innovations`: (b, w, information, scores) to (z, log Jacobian)."""

    __props__ = ("swept",)

    def __init__(self, *, swept: bool) -> None:
        self.swept = swept

    def make_node(self, *inputs: Any) -> Apply[Any]:
        given = [pt.as_tensor_variable(x) for x in inputs]
        return Apply(self, given, [pt.dmatrix(), pt.dscalar()])

    def perform(self, node: Apply[Any], inputs: Any, output_storage: Any) -> None:
        b, w, information, scores = inputs
        z, log_det = innovations(b, w, information, scores, self.swept)
        output_storage[0][0], output_storage[1][0] = z, np.asarray(log_det)

    def infer_shape(self, node: Apply[Any], shapes: Any) -> list[Any]:
        return [shapes[2], ()]

    def connection_pattern(self, node: Apply[Any]) -> list[list[bool]]:
        # Where a derivative is always zero it is computed as such.
        return [[True, True], [True, True], [False, False], [True, True]]

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Any]:
        d_z, d_log_det = cotangents
        if isinstance(d_z.type, DisconnectedType):
            d_z = pt.zeros_like(outputs[0])
        if isinstance(d_log_det.type, DisconnectedType):
            d_log_det = np.asarray(0.0)
        found: Any = _InnovationsBack(swept=self.swept)(*inputs, outputs[0], d_z, d_log_det)
        d_b, d_w, d_scores = found
        return [d_b, d_w, disconnected_type(), d_scores]


class _InnovationsBack(Op):
    """PyTensor Op around `innovations_back`."""

    __props__ = ("swept",)

    def __init__(self, *, swept: bool) -> None:
        self.swept = swept

    def make_node(self, *inputs: Any) -> Apply[Any]:
        given = [pt.as_tensor_variable(x) for x in inputs]
        return Apply(self, given, [pt.dmatrix(), pt.dmatrix(), pt.dmatrix()])

    def perform(self, node: Apply[Any], inputs: Any, output_storage: Any) -> None:
        b, w, information, scores, z, d_z, d_log_det = inputs
        found = innovations_back(b, w, information, scores, self.swept, z, d_z, d_log_det.item())
        for storage, value in zip(output_storage, found, strict=True):
            storage[0] = value

    def infer_shape(self, node: Apply[Any], shapes: Any) -> list[Any]:
        return [shapes[0], shapes[1], shapes[3]]


@register_funcify_default_op_cache_key(Innovations)
def _funcify_innovations(op: Innovations, node: Apply[Any], **kwargs: Any) -> tuple[Any, int]:
    swept = op.swept

    @numba.njit(nogil=True)
    def forward(b, w, information, scores):
        z, log_det = innovations(b, w, information, scores, swept)
        return z, np.asarray(log_det)

    return forward, KERNEL_VERSION


@register_funcify_default_op_cache_key(_InnovationsBack)
def _funcify_back(op: _InnovationsBack, node: Apply[Any], **kwargs: Any) -> tuple[Any, int]:
    swept = op.swept

    @numba.njit(nogil=True)
    def backward(b, w, information, scores, z, d_z, d_log_det):
        return innovations_back(b, w, information, scores, swept, z, d_z, d_log_det.item())

    return backward, KERNEL_VERSION
