"""The direct path of a model with own sds: the log-posterior of `own_graph` in numba.

Coordinates are those of the PyMC model, in its order: log scale of mu, then per component log sds,
logits of partial correlations and standard effects, last the levels of the systems.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from gstudy.model.factors import (
    cholesky_factor,
    cholesky_factor_back,
    covariance_factor,
    covariance_factor_back,
)
from gstudy.model.innovations import innovations, innovations_back
from gstudy.model.likelihood import binomial_pass
from gstudy.model.sd_priors import log_density

__all__ = ["COMMON", "CROSSED", "FIXED", "OWN", "OwnArguments", "own_log_posterior", "own_values"]

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

KIND, N_SDS, PRIOR, AT_X, AT_EFFECT, AT_GROUP = range(6)
"""Columns of the table of blocks."""

CROSSED, OWN, COMMON, FIXED = range(4)
"""Kinds of block: effects in each system, correlated between them; effects of one system each;
effects that systems share; such effects with a known sd and without a mean."""

MU_MEAN, MU_VARIANCE, MU_NU, CONSTANT = range(4)
"""Places of the numbers."""


class OwnArguments(NamedTuple):
    """What `own_log_posterior` is given beside a vector.

    Effects come in groups of rows of one size; each row sums to zero. A crossed block is one group
    with a row per system, an own block has one group of one row per system, any other has one row.

    Parameters
    ----------
    blocks : (n_blocks, 6) int64
        Kind, number of log sds, kind of their prior, and where coordinates, effects and groups
        start.
    sizes : (n_groups,) int64
        Levels in each row of a group.
    priors : (n_blocks, 2) float64
        Parameters of `log_density`; of fixed effects the known sd.
    information, scores : (n_effects,) float64
    linked : (n_links, 2) int64
        System and effect of each weight that is not zero.
    weights : (n_links,) float64
    levels : (2, S) float64
        Information and scores of all trials of each system.
    positions : (n_cells, n_blocks + 1) int64
        Into the effects, after which the levels of the systems follow.
    successes, trials : (n_cells,) float64
    numbers : (4,) float64
        Mean and variance of mu's prior, its degrees of freedom or 0, and the sum of all constants.
    """

    blocks: Whole
    sizes: Whole
    priors: Floats
    information: Floats
    scores: Floats
    linked: Whole
    weights: Floats
    levels: Floats
    positions: Whole
    successes: Floats
    trials: Floats
    numbers: Floats


@numba.njit(nogil=True, cache=True, error_model="numpy")
def own_log_posterior(x, given):  # pragma: no cover - compiled
    """Log-posterior and gradient at `x`: the density of the PyMC model on its unconstrained scale.

    Parameters
    ----------
    x : (n_free,) float64
    given : OwnArguments

    Returns
    -------
    (float, (n_free,) float64)
    """
    n_systems, n_effects = given.levels.shape[1], given.information.shape[0]
    grad, z = np.zeros_like(x), np.empty(n_effects + n_systems)
    effects = np.zeros(n_effects + n_systems)
    factors = np.zeros((given.blocks.shape[0] + 1, n_systems, n_systems))
    log_p = _forward(x, given, grad, factors, z, effects)
    d_effects = np.empty_like(effects)
    value, _ = binomial_pass(
        0.0, effects, given.positions, given.successes, given.trials, d_effects
    )
    d_covariance = _levels_back(x, given, factors[-1], z, effects, d_effects, grad)
    if given.numbers[MU_NU] > 0.0:
        grad[0] += d_covariance.sum() * given.numbers[MU_VARIANCE] * np.exp(x[0])
    for c in range(given.blocks.shape[0]):
        _block_back(x, given, c, factors[c], d_covariance, z, d_effects, grad)
    return log_p + value, grad


@numba.njit(nogil=True, cache=True, error_model="numpy")
def own_values(x, given):  # pragma: no cover - compiled
    """Standard effects and standard levels (n, n_effects + S) of draws x (n, n_free)."""
    n_systems, n_effects = given.levels.shape[1], given.information.shape[0]
    grad, z = np.empty(x.shape[1]), np.empty((x.shape[0], n_effects + n_systems))
    factors = np.empty((given.blocks.shape[0] + 1, n_systems, n_systems))
    for i in range(x.shape[0]):
        effects = np.zeros(n_effects + n_systems)
        factors[:] = 0.0
        _forward(x[i], given, grad, factors, z[i], effects)
    return z


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _forward(x, given, grad, factors, z, effects):  # pragma: no cover - compiled
    """All effects and the levels after them; log prior and Jacobian.

    Filled are the factor of each block and last that of the levels, standard effects `z`,
    `effects`, and the gradient of the priors of sds.
    """
    log_p = given.numbers[CONSTANT]
    variance = given.numbers[MU_VARIANCE]
    nu = given.numbers[MU_NU]
    if nu > 0.0:  # scale(mu) ~ InverseGamma(nu / 2, nu / 2)
        variance *= np.exp(x[0])
        half = 0.5 * nu * np.exp(-x[0])
        log_p -= 0.5 * nu * x[0] + half
        grad[0] = half - 0.5 * nu
    covariance = np.full((factors.shape[1], factors.shape[1]), variance)
    for c in range(given.blocks.shape[0]):
        log_p += _scales(x, given, c, factors[c], grad)
        log_p += _block_effects(x, given, c, factors[c], z, effects)
        _add_means(given, c, factors[c], covariance)
    cholesky_factor(covariance, factors[-1])
    return log_p + _levels(x, given, factors[-1], z, effects)


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _scales(x, given, c, factor, grad):  # pragma: no cover - compiled
    """Factor of the covariance of a block's effects between systems, diagonal but where crossed;
    log density of its sds and correlations."""
    block, prior, n_systems = given.blocks[c], given.priors[c], factor.shape[0]
    at, n_sds = block[AT_X], block[N_SDS]
    log_p = 0.0
    for s in range(n_sds):
        value, slope = log_density(block[PRIOR], prior[0], prior[1], x[at + s])
        log_p += value
        grad[at + s] = slope
    if block[KIND] == CROSSED:
        return log_p + covariance_factor(x[at : at + n_sds], x[at + n_sds :], factor)
    for s in range(n_systems):
        factor[s, s] = np.exp(x[at + s % n_sds]) if n_sds > 0 else prior[0]
    return log_p


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _scales_back(x, given, c, factor, d_factor, grad):  # pragma: no cover - compiled
    """From the gradient in a factor to that in log sds and partial correlations."""
    block = given.blocks[c]
    at, n_sds = block[AT_X], block[N_SDS]
    if block[KIND] == CROSSED:
        end = at + n_sds
        covariance_factor_back(x[at:end], x[end:], factor, d_factor, grad[at:end], grad[end:])
    elif n_sds > 0:
        for s in range(factor.shape[0]):
            grad[at + s % n_sds] += d_factor[s, s] * factor[s, s]


@numba.njit(nogil=True, cache=True)
def _groups(given, c, n_systems):  # pragma: no cover - compiled
    """Rows of each group of a block, its groups, and where their coordinates start."""
    block = given.blocks[c]
    at = block[AT_X] + block[N_SDS]
    if block[KIND] == CROSSED:
        return n_systems, 1, at + n_systems * (n_systems - 1) // 2
    return 1, n_systems if block[KIND] == OWN else 1, at


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _block_effects(x, given, c, factor, z, effects):  # pragma: no cover - compiled
    """Fill in the effects of a block; their log prior and Jacobian."""
    n_rows, n_groups, at = _groups(given, c, factor.shape[0])
    start, log_p = given.blocks[c, AT_EFFECT], 0.0
    for g in range(n_groups):
        size = given.sizes[given.blocks[c, AT_GROUP] + g]
        if size == 1:  # all of an effect is its mean
            z[start : start + n_rows] = 0.0
            start += n_rows
            continue
        b = factor[g : g + n_rows, g : g + n_rows].copy()
        w = x[at : at + n_rows * (size - 1)].reshape((n_rows, size - 1))
        part, shape = slice(start, start + n_rows * size), (n_rows, size)
        known = given.information[part].reshape(shape), given.scores[part].reshape(shape)
        found, value = innovations(b, w, known[0], known[1], True)
        z[part] = found.ravel()
        log_p += value - 0.5 * (found * found).sum()
        u = effects[part].reshape(shape)
        for s in range(n_rows):
            for j in range(s + 1):
                for t in range(size):
                    u[s, t] += b[s, j] * found[j, t]
        at += w.size
        start += found.size
    return log_p


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _block_back(x, given, c, factor, d_covariance, z, d_effects, grad):
    # pragma: no cover - compiled
    """Gradient in the coordinates of a block, given that in its effects and in the covariance of
    the levels."""
    n_rows, n_groups, at = _groups(given, c, factor.shape[0])
    start = given.blocks[c, AT_EFFECT]
    d_factor = _means_back(given, c, factor, d_covariance)
    for g in range(n_groups):
        size = given.sizes[given.blocks[c, AT_GROUP] + g]
        if size == 1:
            start += n_rows
            continue
        b = factor[g : g + n_rows, g : g + n_rows].copy()
        end = at + n_rows * (size - 1)
        w = x[at:end].reshape((n_rows, size - 1))
        part, shape = slice(start, start + n_rows * size), (n_rows, size)
        known = given.information[part].reshape(shape), given.scores[part].reshape(shape)
        found, d_u = z[part].reshape(shape), d_effects[part].reshape(shape)
        d_z = -found
        for s in range(n_rows):
            for j in range(s + 1):
                for t in range(size):
                    d_z[j, t] += b[s, j] * d_u[s, t]
                    d_factor[g + s, g + j] += d_u[s, t] * found[j, t]
        d_b, d_w, _ = innovations_back(b, w, known[0], known[1], True, found, d_z, 1.0)
        d_factor[g : g + n_rows, g : g + n_rows] += d_b
        grad[at:end] = d_w.ravel()
        at = end
        start += found.size
    _scales_back(x, given, c, factor, d_factor, grad)


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _add_means(given, c, factor, covariance):  # pragma: no cover - compiled
    """Add the covariance between systems of the means of a block's effects."""
    kind, n_systems = given.blocks[c, KIND], factor.shape[0]
    sizes = given.sizes[given.blocks[c, AT_GROUP] :]
    if kind == CROSSED:
        for i in range(n_systems):
            for j in range(n_systems):
                covariance[i, j] += (factor[i] * factor[j]).sum() / sizes[0]
    elif kind == OWN:
        for s in range(n_systems):
            covariance[s, s] += factor[s, s] ** 2 / sizes[s]
    elif kind == COMMON:
        covariance += factor[0, 0] ** 2 / sizes[0]


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _means_back(given, c, factor, d_covariance):  # pragma: no cover - compiled
    """Gradient in the factor of a block, through the covariance of the means."""
    kind, n_systems = given.blocks[c, KIND], factor.shape[0]
    sizes = given.sizes[given.blocks[c, AT_GROUP] :]
    found = np.zeros_like(factor)
    if kind == CROSSED:
        for i in range(n_systems):
            for j in range(n_systems):
                found[i] += 2.0 / sizes[0] * d_covariance[i, j] * factor[j]
    elif kind == OWN:
        for s in range(n_systems):
            found[s, s] = 2.0 * d_covariance[s, s] * factor[s, s] / sizes[s]
    elif kind == COMMON:
        found[0, 0] = 2.0 * d_covariance.sum() * factor[0, 0] / sizes[0]
    return found


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _level_scores(given, effects):  # pragma: no cover - compiled
    """Scores (S, 1) of the trials of each system about its level, given its effects."""
    expected = np.full(given.levels.shape[1], given.numbers[MU_MEAN])
    for k in range(given.weights.shape[0]):
        expected[given.linked[k, 0]] += given.weights[k] * effects[given.linked[k, 1]]
    return (given.levels[1] - given.levels[0] * expected).reshape((-1, 1))


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _levels(x, given, factor, z, effects):  # pragma: no cover - compiled
    """Fill in the levels of the systems; their log prior and Jacobian."""
    n = factor.shape[0]
    w, information = x[x.shape[0] - n :].reshape((n, 1)), given.levels[0].reshape((n, 1))
    scores = _level_scores(given, effects)
    found, log_p = innovations(factor, w, information, scores, False)
    first = given.information.shape[0]
    for s in range(n):
        z[first + s] = found[s, 0]
        effects[first + s] = given.numbers[MU_MEAN]
        for j in range(s + 1):
            effects[first + s] += factor[s, j] * found[j, 0]
    return log_p - 0.5 * (found * found).sum()


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _levels_back(x, given, factor, z, effects, d_effects, grad):  # pragma: no cover - compiled
    """Gradient in the covariance of the levels; those in their coordinates and in the effects that
    they are expected from are filled in and added."""
    n, first = factor.shape[0], given.information.shape[0]
    w, information = x[x.shape[0] - n :].reshape((n, 1)), given.levels[0].reshape((n, 1))
    scores, found = _level_scores(given, effects), z[first:].reshape((n, 1))
    d_z, d_factor = -found, np.zeros_like(factor)
    for s in range(n):
        for j in range(s + 1):
            d_z[j, 0] += factor[s, j] * d_effects[first + s]
            d_factor[s, j] = d_effects[first + s] * found[j, 0]
    d_b, d_w, d_scores = innovations_back(factor, w, information, scores, False, found, d_z, 1.0)
    grad[x.shape[0] - n :] = d_w[:, 0]
    for k in range(given.weights.shape[0]):
        s = given.linked[k, 0]
        d_effects[given.linked[k, 1]] -= given.weights[k] * given.levels[0, s] * d_scores[s, 0]
    return cholesky_factor_back(factor, d_factor + d_b)
