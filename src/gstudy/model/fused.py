"""PyTensor Ops around the fused likelihoods: value and gradient in one pass.

Apart from the kernels, so that the direct path imports no PyTensor.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import disconnected_type
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.link.numba.dispatch.basic import register_funcify_default_op_cache_key

from gstudy.model import gaussian, likelihood
from gstudy.model.gaussian import gaussian_pass
from gstudy.model.likelihood import binomial_pass

__all__ = ["FusedBinomial", "FusedGaussian"]


class FusedBinomial(Op):
    """PyTensor Op around `binomial_pass`: value and gradient are computed together.

    Inputs: mu (scalar), effects (vector), index (cells by components), successes, trials.
    Outputs: log-likelihood, its gradient in mu, its gradient in the effects.
    """

    __props__ = ()

    def make_node(self, *inputs: Any) -> Apply[Any]:
        mu, effects, index, successes, trials = map(pt.as_tensor_variable, inputs)
        outputs = [pt.dscalar(), pt.dscalar(), pt.dvector()]
        return Apply(self, [mu, effects, index, successes, trials], outputs)

    def perform(self, node: Apply[Any], inputs: Any, output_storage: Any) -> None:
        mu, effects, index, successes, trials = inputs
        d_effects = np.empty_like(effects)
        log_p, d_mu = binomial_pass(mu.item(), effects, index, successes, trials, d_effects)
        for storage, value in zip(output_storage, (log_p, d_mu, d_effects), strict=True):
            storage[0] = np.asarray(value)

    def infer_shape(self, node: Apply[Any], shapes: Any) -> list[Any]:
        return [(), (), shapes[1]]

    def connection_pattern(self, node: Apply[Any]) -> list[list[bool]]:
        return [[True] * 3, [True] * 3, [False] * 3, [False] * 3, [False] * 3]

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Any]:
        d_log_p = cotangents[0]
        _, d_mu, d_effects = outputs
        return [d_log_p * d_mu, d_log_p * d_effects, *(disconnected_type() for _ in range(3))]


@register_funcify_default_op_cache_key(FusedBinomial)
def _funcify_fused_binomial(op: FusedBinomial, node: Apply[Any], **kwargs: Any) -> tuple[Any, int]:
    @numba.njit(nogil=True)
    def fused_binomial(mu, effects, index, successes, trials):
        d_effects = np.empty_like(effects)
        log_p, d_mu = binomial_pass(mu.item(), effects, index, successes, trials, d_effects)
        return np.asarray(log_p), np.asarray(d_mu), d_effects

    return fused_binomial, likelihood.KERNEL_VERSION


class FusedGaussian(Op):
    """PyTensor Op around `gaussian_pass`: value and gradient are computed together.

    Inputs: mu (scalar), effects (vector), log_sd (scalar), index (cells by components), means,
    precision, squares and n_trials (scalars). Outputs: log-likelihood, its gradients in mu, in the
    effects and in log_sd.
    """

    __props__ = ()

    def make_node(self, *inputs: Any) -> Apply[Any]:
        outputs = [pt.dscalar(), pt.dscalar(), pt.dvector(), pt.dscalar()]
        return Apply(self, list(map(pt.as_tensor_variable, inputs)), outputs)

    def perform(self, node: Apply[Any], inputs: Any, output_storage: Any) -> None:
        mu, effects, log_sd, index, means, precision, squares, n_trials = inputs
        d_effects = np.empty_like(effects)
        log_p, d_mu, d_log_sd = gaussian_pass(
            mu.item(), effects, index, means, precision, log_sd.item(), squares.item(),
            n_trials.item(), d_effects,
        )  # fmt: skip
        for storage, value in zip(output_storage, (log_p, d_mu, d_effects, d_log_sd), strict=True):
            storage[0] = np.asarray(value)

    def infer_shape(self, node: Apply[Any], shapes: Any) -> list[Any]:
        return [(), (), shapes[1], ()]

    def connection_pattern(self, node: Apply[Any]) -> list[list[bool]]:
        return [[True] * 4] * 3 + [[False] * 4] * 5

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Any]:
        d_log_p = cotangents[0]
        slopes = [d_log_p * slope for slope in outputs[1:]]
        return [*slopes, *(disconnected_type() for _ in inputs[3:])]


@register_funcify_default_op_cache_key(FusedGaussian)
def _funcify_fused_gaussian(op: FusedGaussian, node: Apply[Any], **kwargs: Any) -> tuple[Any, int]:
    @numba.njit(nogil=True)
    def fused_gaussian(mu, effects, log_sd, index, means, precision, squares, n_trials):
        d_effects = np.empty_like(effects)
        log_p, d_mu, d_log_sd = gaussian_pass(
            mu.item(), effects, index, means, precision, log_sd.item(), squares.item(),
            n_trials.item(), d_effects,
        )  # fmt: skip
        return np.asarray(log_p), np.asarray(d_mu), d_effects, np.asarray(d_log_sd)

    return fused_gaussian, gaussian.KERNEL_VERSION
