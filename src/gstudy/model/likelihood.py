"""The fused binomial likelihood: gather, softplus, residual and scatter in one pass over cells.

One numba kernel serves both the PyTensor Op inside the PyMC model and the direct path, so the
two cannot differ. It is compiled without fast-math: the same input gives the same bits.
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

__all__ = ["FusedBinomial", "binomial_pass"]

MOST_FACTORS = 500
"""Factors between 1 and 2 that a double can hold the product of, with room to spare."""

KERNEL_VERSION = 2
"""Part of the key of the compiled code on disk: raise it with every change of the kernel."""


@numba.njit(nogil=True, cache=True)
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
    # Sums of log(1 + exp(-|eta|)) over cells with one number of trials are logs of products.
    product, held, n_held = 1.0, 0, 0.0
    for i in range(n_cells):
        eta = mu
        for c in range(n_components):
            eta += effects[index[i, c]]
        n = trials[i]
        if n != n_held or held == MOST_FACTORS:
            log_p -= n_held * np.log(product)
            product, held, n_held = 1.0, 0, n
        tail = np.exp(-abs(eta))
        rest = 1.0 / (1.0 + tail)
        product *= 1.0 + tail
        held += 1
        if eta >= 0.0:
            log_p += (successes[i] - n) * eta
            residual = successes[i] - n * rest
        else:
            log_p += successes[i] * eta
            residual = successes[i] - n * (tail * rest)
        d_mu += residual
        for c in range(n_components):
            d_effects[index[i, c]] += residual
    return log_p - n_held * np.log(product), d_mu


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

    return fused_binomial, KERNEL_VERSION
