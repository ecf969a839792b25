"""The kernels of `innovations` as one PyTensor Op, for the PyMC model."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import DisconnectedType, disconnected_type
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.link.numba.dispatch.basic import register_funcify_default_op_cache_key

from gstudy.model.innovations import KERNEL_VERSION, innovations, innovations_back

__all__ = ["Innovations"]


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
