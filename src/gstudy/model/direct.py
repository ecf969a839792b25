"""The direct path: the model's log-posterior and gradient in numba, handed to nutpie.

It starts in a tenth of a second where the PyMC path compiles for several, and is the same
density: value and gradient agree with the PyMC model to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from gstudy.model.likelihood import binomial_pass
from gstudy.model.parameterisation import LOCATION, Parameterisation

__all__ = ["DirectPosterior", "direct_posterior", "log_posterior"]

LOG_2PI = float(np.log(2.0 * np.pi))

LARGE_PRODUCT = 1e100
"""Logs of many ratios are taken of their product, which is let go before it could overflow."""


@numba.njit(nogil=True, cache=True)
def _spread(free, full):  # pragma: no cover - compiled
    """K - 1 free coordinates to K that sum to zero, isometrically (PyMC's ZeroSumTransform)."""
    n = full.shape[0]
    total = 0.0
    for i in range(n - 1):
        total += free[i]
    root = np.sqrt(n)
    norm = total / (root + n)
    for i in range(n - 1):
        full[i] = free[i] - norm
    full[n - 1] = -total / root


@numba.njit(nogil=True, cache=True)
def _spread_back(d_full, d_free):  # pragma: no cover - compiled
    """Transpose of `_spread`: gradient in the full vector to gradient in the free one."""
    n = d_full.shape[0]
    root = np.sqrt(n)
    total = 0.0
    for i in range(n - 1):
        total += d_full[i]
    common = total / (root + n) + d_full[n - 1] / root
    for i in range(n - 1):
        d_free[i] = d_full[i] - common


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _place(sd, swept, w, information, scores, scales, effects):
    # pragma: no cover - compiled
    """Coordinates w of one component to scales and effects (in place); the log Jacobian."""
    variance = sd * sd
    size = w.shape[0]
    for i in range(size):  # no sums in here, so that it runs on whole registers
        scales[i] = sd / np.sqrt(1.0 + variance * information[i])
        effects[i] = scales[i] * (w[i] + scales[i] * scores[i])
    mean = 0.0
    inverse_scales = 0.0
    log_scales = 0.0
    product = 1.0
    for i in range(size):
        ratio = sd / scales[i]  # at least 1
        mean += effects[i]
        inverse_scales += ratio
        product *= ratio
        if product > LARGE_PRODUCT:
            log_scales -= np.log(product)
            product = 1.0
    log_scales += size * np.log(sd) - np.log(product)
    if not swept:
        return log_scales
    mean /= size
    for i in range(size):
        effects[i] -= mean
    return log_scales + np.log(inverse_scales / (sd * size))


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _place_back(sd, swept, scores, scales, w, d_effects):
    # pragma: no cover - compiled
    """Gradient in the effects to gradient in w (in place); returned: derivative of the
    log-posterior in log sd, through the effects and through the log Jacobian."""
    size = w.shape[0]
    mean = 0.0
    if swept:
        for i in range(size):
            mean += d_effects[i]
        mean /= size
    d_log_sd = 0.0
    inverse_scales = 0.0
    d_inverse_scales = 0.0
    for i in range(size):
        inverse = 1.0 / scales[i]
        slack = scales[i] / sd
        slack *= slack  # the prior's share of an effect's precision
        d_w = (d_effects[i] - mean) * scales[i]
        d_log_sd += slack * (1.0 + d_w * (w[i] + 2.0 * scales[i] * scores[i]))
        inverse_scales += inverse
        d_inverse_scales += slack * inverse
        d_effects[i] = d_w
    if swept:
        d_log_sd -= d_inverse_scales / inverse_scales
    return d_log_sd


@numba.njit(nogil=True, cache=True, error_model="numpy")
def log_posterior(
    x,
    sizes,
    swept,
    prior_sd,
    information,
    scores,
    mu_mean,
    mu_sd,
    weights,
    index,
    successes,
    trials,
    constant,
):  # pragma: no cover - compiled
    """Log-posterior and gradient at `x` = [log sd of each component, w of each, location].

    `sizes`, `swept`, `prior_sd` have one entry per component, `information`, `scores` and
    `weights` one per effect; `constant` is the sum of the log binomial coefficients. The density
    is that of the PyMC model on its unconstrained scale.
    """
    n_components = sizes.shape[0]
    n_effects = weights.shape[0]
    grad = np.zeros_like(x)
    w = np.empty(n_effects)
    scales = np.empty(n_effects)
    effects = np.empty(n_effects)
    log_p = constant
    mean_variance = mu_sd * mu_sd
    mean = x[x.shape[0] - 1]  # the swept mean: mu plus the mean effect of each swept component
    at_x, at_u = n_components, 0
    for c in range(n_components):
        part = slice(at_u, at_u + sizes[c])
        n_free = sizes[c] - 1 if swept[c] else sizes[c]
        sd = np.exp(x[c])
        log_p += np.log(2.0) - 0.5 * LOG_2PI - np.log(prior_sd[c])
        log_p += -0.5 * (sd / prior_sd[c]) ** 2 + x[c]
        if swept[c]:
            _spread(x[at_x : at_x + n_free], w[part])
            mean_variance += sd * sd / sizes[c]
        else:
            w[part] = x[at_x : at_x + n_free]
        log_p += _place(
            sd, swept[c], w[part], information[part], scores[part], scales[part], effects[part]
        )
        sum_sq = 0.0
        for i in range(at_u, at_u + sizes[c]):
            sum_sq += effects[i] * effects[i]
            mean -= weights[i] * effects[i]
        sum_sq /= sd * sd
        log_p -= n_free * (0.5 * LOG_2PI + x[c]) + 0.5 * sum_sq
        grad[c] = 1.0 - (sd / prior_sd[c]) ** 2 + sum_sq - n_free
        at_x += n_free
        at_u += sizes[c]
    off = mean - mu_mean
    log_p -= 0.5 * (LOG_2PI + np.log(mean_variance) + off * off / mean_variance)
    d_variance = 0.5 * (off * off / mean_variance - 1.0) / mean_variance

    d_effects = np.empty(n_effects)
    value, d_mean = binomial_pass(mean, effects, index, successes, trials, d_effects)
    log_p += value
    d_mean -= off / mean_variance
    grad[x.shape[0] - 1] = d_mean
    at_x, at_u = n_components, 0
    for c in range(n_components):
        part = slice(at_u, at_u + sizes[c])
        n_free = sizes[c] - 1 if swept[c] else sizes[c]
        sd = np.exp(x[c])
        if swept[c]:
            grad[c] += d_variance * 2.0 * sd * sd / sizes[c]
        for i in range(at_u, at_u + sizes[c]):
            d_effects[i] -= weights[i] * d_mean + effects[i] / (sd * sd)
        grad[c] += _place_back(sd, swept[c], scores[part], scales[part], w[part], d_effects[part])
        if swept[c]:
            _spread_back(d_effects[part], grad[at_x : at_x + n_free])
        else:
            grad[at_x : at_x + n_free] = d_effects[part]
        at_x += n_free
        at_u += sizes[c]
    return log_p, grad


@dataclass(frozen=True, slots=True)
class DirectPosterior:
    """The arguments of `log_posterior`, and the way back from its vectors to named arrays."""

    parameterisation: Parameterisation
    arguments: tuple[Any, ...]

    @property
    def n_free(self) -> int:
        """Length of the unconstrained vector."""
        return self.parameterisation.n_free

    def __call__(self, x: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Log-posterior and gradient at one unconstrained vector."""
        value, gradient = log_posterior(x, *self.arguments)
        return value, gradient

    def unpack(self, x: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        """Draws (..., n_free) to the values of the PyMC model's free variables, by name."""
        p = self.parameterisation
        values = {f"sd({b.name})": np.exp(x[..., i]) for i, b in enumerate(p.blocks)}
        at = len(p.blocks)
        for block, part in zip(p.blocks, p.slices(), strict=True):
            w = x[..., at : at + block.n_free]
            if block.n_free:
                given = values[f"sd({block.name})"][..., None] ** 2
                given = given / (1.0 + given * p.information[part])
                w = spread(w) if block.swept else w
                effects = np.sqrt(given) * w + given * p.scores[part]
                mean = effects.mean(axis=-1, keepdims=True) if block.swept else 0.0
                values[block.variable] = effects - mean
            at += block.n_free
        values[LOCATION] = x[..., -1]
        return values


def spread(free: NDArray[np.float64]) -> NDArray[np.float64]:
    """`_spread` over the last axis of an array of draws."""
    n = free.shape[-1] + 1
    total = free.sum(axis=-1, keepdims=True)
    norm = total / (np.sqrt(n) + n)
    return np.concatenate([free - norm, -total / np.sqrt(n)], axis=-1)


def direct_posterior(parameterisation: Parameterisation) -> DirectPosterior:
    """Bind a parameterisation and its cells to `log_posterior`."""
    p = parameterisation
    arguments = (
        np.array([b.size for b in p.blocks], dtype=np.int64),
        np.array([b.swept for b in p.blocks], dtype=np.bool_),
        np.array([b.prior_sd for b in p.blocks], dtype=np.float64),
        p.information,
        p.scores,
        p.mu_mean,
        p.mu_sd,
        p.weights,
        p.index,
        p.successes,
        p.trials,
        p.log_coefficients,
    )
    return DirectPosterior(p, arguments)
