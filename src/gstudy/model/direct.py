"""The direct path: the model's log-posterior and gradient in numba, handed to nutpie.

It starts in a tenth of a second where the PyMC path compiles for several, and is the same
density: value and gradient agree with the PyMC model to rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from gstudy.model.cell_marginals import marginal_pass
from gstudy.model.gaussian import gaussian_pass
from gstudy.model.level_marginals import grid_pass
from gstudy.model.likelihood import binomial_pass
from gstudy.model.parameterisation import LOCATION, MU_SCALE, Parameterisation
from gstudy.model.sd_priors import KNOWN, encode, known, log_density
from gstudy.model.shared_sums import add_back, add_up, shared_sums

__all__ = ["DirectPosterior", "direct_posterior", "log_posterior", "scale_names"]

LOG_2PI = float(np.log(2.0 * np.pi))

BINARY, RESIDUAL_SD, KNOWN_ERRORS, CELL_EFFECTS, LEVEL_EFFECTS = range(5)
"""What is observed: passes; graded scores with a residual sd to estimate, or with known errors;
passes whose cells, or levels of few trials, have an effect that is integrated out."""

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


@numba.njit(nogil=True, cache=True)
def _compensate(scores, information, above, effects, found):  # pragma: no cover - compiled
    """Scores less what the effects above already explain."""
    for i in range(scores.shape[0]):
        total = 0.0
        for k in range(above.shape[1]):
            if above[i, k] < 0:
                break
            total += effects[above[i, k]]
        found[i] = scores[i] - information[i] * total


@numba.njit(nogil=True, cache=True)
def _compensate_back(information, above, scales, d_w, d_effects):  # pragma: no cover - compiled
    """Add to the gradient in the effects above what comes through `_compensate`."""
    for i in range(information.shape[0]):
        back = information[i] * scales[i] * d_w[i]
        for k in range(above.shape[1]):
            if above[i, k] < 0:
                break
            d_effects[above[i, k]] -= back


@numba.njit(nogil=True, cache=True)
def _begins(sizes, zero_sum, n_scales):  # pragma: no cover - compiled
    """Where each block's coordinates and effects begin."""
    at_x, at_u = np.empty_like(sizes), np.empty_like(sizes)
    x, u = n_scales, 0
    for c in range(sizes.shape[0]):
        at_x[c], at_u[c] = x, u
        x += sizes[c] - 1 if zero_sum[c] else sizes[c]
        u += sizes[c]
    return at_x, at_u


@numba.njit(nogil=True, cache=True, error_model="numpy")
def log_posterior(
    x,
    sizes,
    zero_sum,
    swept,
    order,
    kinds,
    prior_a,
    prior_b,
    information,
    scores,
    weights,
    above,
    rows,
    index,
    observed,
    trials,
    classes,
    family,
    numbers,
):  # pragma: no cover - compiled
    """Log-posterior and gradient at `x` = [log sds, log scale of mu, w of each block, location].

    `sizes`, `zero_sum`, `swept` have one entry per block, `order` those above before those below;
    `kinds`, `prior_a`, `prior_b` (see
    `sd_priors`) too and one more for a residual sd; `information`, `scores` and `weights` one per
    effect, `above` a row with the places of the effects above it. `rows` and `index` say which sums
    of effects each cell sees (`shared_sums`). `observed` and `trials` are passes and trials of each
    cell, or mean scores and their precision. Where effects are integrated out, `observed`, `trials`
    and `classes` are those of `LevelEffects`, and the sums of its `index`. `numbers` has mu_mean,
    mu_sd, mu_nu, squares, n_trials and the sum of all constants.
    The density is that of the PyMC model on its unconstrained scale.
    """
    n_blocks = sizes.shape[0]
    n_effects = weights.shape[0]
    mu_mean, mu_sd, mu_nu = numbers[0], numbers[1], numbers[2]
    grad = np.zeros_like(x)
    sds = np.empty(n_blocks)
    w = np.empty(n_effects)
    scales = np.empty(n_effects)
    effects = np.empty(n_effects)
    known_scores = np.empty(n_effects)
    log_p = numbers[5]
    n_scales = 0
    n_random = 0  # blocks with an sd to estimate: they come first
    for c in range(kinds.shape[0]):
        if kinds[c] == KNOWN:
            sds[c] = prior_a[c]
            continue
        value, slope = log_density(kinds[c], prior_a[c], prior_b[c], x[n_scales])
        log_p += value
        grad[n_scales] = slope
        if c < n_blocks:
            sds[c] = np.exp(x[n_scales])
            n_random += 1
        n_scales += 1
    mean_variance = mu_sd * mu_sd
    if mu_nu > 0.0:
        mean_variance *= np.exp(x[n_scales])
        half = 0.5 * mu_nu * np.exp(-x[n_scales])
        log_p -= 0.5 * mu_nu * x[n_scales] + half
        grad[n_scales] = half - 0.5 * mu_nu
        n_scales += 1
    mu_variance = mean_variance
    mean = x[x.shape[0] - 1]  # the swept mean: mu plus the mean effect of each swept component
    first_x, first_u = _begins(sizes, zero_sum, n_scales)
    for c in order:
        at_x, at_u = first_x[c], first_u[c]
        part = slice(at_u, at_u + sizes[c])
        n_free = sizes[c] - 1 if zero_sum[c] else sizes[c]
        sd = sds[c]
        if swept[c]:
            mean_variance += sd * sd / sizes[c]
        if zero_sum[c]:
            _spread(x[at_x : at_x + n_free], w[part])
        else:
            w[part] = x[at_x : at_x + n_free]
        given = known_scores[part]
        _compensate(scores[part], information[part], above[part], effects, given)
        log_p += _place(
            sd, zero_sum[c], w[part], information[part], given, scales[part], effects[part]
        )
        sum_sq = 0.0
        for i in range(at_u, at_u + sizes[c]):
            sum_sq += effects[i] * effects[i]
            mean -= weights[i] * effects[i]
        sum_sq /= sd * sd
        log_p -= n_free * (0.5 * LOG_2PI + np.log(sd)) + 0.5 * sum_sq
        if c < n_random:
            grad[c] += sum_sq - n_free
    off = mean - mu_mean
    log_p -= 0.5 * (LOG_2PI + np.log(mean_variance) + off * off / mean_variance)
    d_variance = 0.5 * (off * off / mean_variance - 1.0) / mean_variance

    sums = add_up(effects, rows)
    d_sums = np.empty_like(sums)
    if family == BINARY:
        value, d_mean = binomial_pass(mean, sums, index, observed, trials, d_sums)
    elif family == CELL_EFFECTS:
        value, d_mean, slope = marginal_pass(
            mean, sums, index, observed, classes, x[n_random], d_sums
        )
        grad[n_random] += slope
    elif family == LEVEL_EFFECTS:
        value, d_mean, slope = grid_pass(
            mean, sums, index, observed, trials, classes, x[n_random], d_sums
        )
        grad[n_random] += slope
    else:
        log_sd = x[n_random] if family == RESIDUAL_SD else 0.0
        value, d_mean, slope = gaussian_pass(
            mean, sums, index, observed, trials, log_sd, numbers[3], numbers[4], d_sums
        )
        if family == RESIDUAL_SD:
            grad[n_random] += slope
    log_p += value
    d_effects = add_back(d_sums, rows, n_effects)
    d_mean -= off / mean_variance
    grad[x.shape[0] - 1] = d_mean
    if mu_nu > 0.0:
        grad[n_scales - 1] += d_variance * mu_variance
    for c in order[::-1]:
        at_x, at_u = first_x[c], first_u[c]
        part = slice(at_u, at_u + sizes[c])
        n_free = sizes[c] - 1 if zero_sum[c] else sizes[c]
        sd = sds[c]
        for i in range(at_u, at_u + sizes[c]):
            d_effects[i] -= weights[i] * d_mean + effects[i] / (sd * sd)
        d_w = d_effects[part]
        slope = _place_back(sd, zero_sum[c], known_scores[part], scales[part], w[part], d_w)
        _compensate_back(information[part], above[part], scales[part], d_w, d_effects)
        if c < n_random:
            grad[c] += slope
            if swept[c]:
                grad[c] += d_variance * 2.0 * sd * sd / sizes[c]
        if zero_sum[c]:
            _spread_back(d_w, grad[at_x : at_x + n_free])
        else:
            grad[at_x : at_x + n_free] = d_w
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
        values = {name: np.exp(x[..., i]) for i, name in enumerate(scale_names(p))}
        n_effects = len(p.weights)
        # One more, which is 0: the place of no effect.
        effects = np.zeros((*x.shape[:-1], n_effects + 1))
        begins = p.n_scales + np.cumsum([0, *(block.n_free for block in p.blocks)])
        for c in p.order:
            block, part = p.blocks[c], p.slices()[c]
            if block.n_free == 0:
                continue
            w = x[..., begins[c] : begins[c + 1]]
            sd = block.prior.sigma if block.fixed else values[f"sd({block.name})"][..., None]
            given = sd**2 / (1.0 + sd**2 * p.information[part])
            others = effects_above(effects, p.above[part])
            score = p.scores[part] - p.information[part] * others
            found = np.sqrt(given) * (spread(w) if block.zero_sum else w) + given * score
            mean = found.mean(axis=-1, keepdims=True) if block.zero_sum else 0.0
            effects[..., part] = values[block.variable] = found - mean
        values[LOCATION] = x[..., -1]
        return values


def effects_above(effects: NDArray[np.float64], above: NDArray[np.int32]) -> Any:
    """Sum of the effects above each effect of one component; the last of `effects` is 0."""
    return sum((effects[..., above[:, k]] for k in range(above.shape[1])), start=0.0)


def spread(free: NDArray[np.float64]) -> NDArray[np.float64]:
    """`_spread` over the last axis of an array of draws."""
    n = free.shape[-1] + 1
    total = free.sum(axis=-1, keepdims=True)
    norm = total / (np.sqrt(n) + n)
    return np.concatenate([free - norm, -total / np.sqrt(n)], axis=-1)


def scale_names(p: Parameterisation) -> list[str]:
    """Names of the variables whose logs come first, in their order."""
    names = [f"sd({block.name})" for block in p.random]
    names += [p.last_sd[0]] if p.last_sd is not None else []
    return names + ([MU_SCALE] if p.mu_nu > 0.0 else [])


def direct_posterior(parameterisation: Parameterisation) -> DirectPosterior:
    """Bind a parameterisation and its cells to `log_posterior`.

    The arguments have the types that they have in the buffer of `compiled`: the kernel is compiled
    once.
    """
    p = parameterisation
    priors = [known(b.prior.sigma) if b.fixed else encode(b.prior) for b in p.blocks]
    priors += [encode(p.last_sd[1])] if p.last_sd is not None else []
    constant = sum((prior.constant for prior in priors), start=_other_constants(p))
    graded, integrated, family = p.graded, p.integrated, BINARY
    index, observed, trials, classes = p.index, p.successes, p.trials, np.zeros((0, 2))
    if graded is not None:
        family = KNOWN_ERRORS if graded.prior is None else RESIDUAL_SD
        observed, trials = graded.means, graded.precision
    elif integrated is not None:
        family = CELL_EFFECTS if integrated.by_tables else LEVEL_EFFECTS
        index, classes = integrated.index, integrated.classes
        observed, trials = integrated.observed, integrated.trials
    sums = shared_sums(index)
    totals = (0.0, 0.0) if graded is None else (graded.squares, graded.n_trials)
    arguments = (
        np.array([b.size for b in p.blocks], dtype=np.int64),
        np.array([b.zero_sum for b in p.blocks], dtype=np.int64),
        np.array([b.swept for b in p.blocks], dtype=np.int64),
        np.array(p.order, dtype=np.int64),
        np.array([prior.kind for prior in priors], dtype=np.int64),
        np.array([prior.a for prior in priors], dtype=np.float64),
        np.array([prior.b for prior in priors], dtype=np.float64),
        p.information,
        p.scores,
        p.weights,
        p.above.astype(np.int64),
        sums.rows.astype(np.int64),
        sums.index,
        observed,
        trials,
        classes,
        family,
        np.array([p.mu_mean, p.mu_sd, p.mu_nu, *totals, constant]),
    )
    return DirectPosterior(p, arguments)


def _other_constants(p: Parameterisation) -> float:
    """Constants of the likelihood and of the InverseGamma prior of mu's scale."""
    constant = p.log_coefficients if p.graded is None else p.graded.constant
    if p.mu_nu > 0.0:
        half = 0.5 * p.mu_nu
        constant += half * math.log(half) - math.lgamma(half)
    return constant
