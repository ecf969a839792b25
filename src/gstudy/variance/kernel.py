"""Moments of pass probabilities whose logits are normal: the way from draws to the score scale.

For bivariate normal logits the covariance of the two probabilities depends on the variance that
the logits share, whichever effects are shared. With the normalised Hermite polynomials h_k and
``c_k(m, S) = E[expit(m + sqrt(S) Z) h_k(Z)]``, Mehler's formula gives

    Cov = sum over k >= 1 of  c_k(m_1, S_1) c_k(m_2, S_2) rho^k,    rho = shared / sqrt(S_1 S_2).

One quadrature per draw and margin serves every shared variance. As ``sum c_k^2`` is the variance
of the probability, what is left after K terms is known, bounds the error and chooses K.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gstudy.errors import QuantityError, explain

__all__ = [
    "KERNEL_ERROR",
    "LogisticMoments",
    "logistic_covariance",
    "logistic_mean",
    "logistic_moments",
    "logistic_variance",
]

Array = npt.NDArray[np.float64]

KERNEL_ERROR = 1e-10
"""Bound of the absolute error of a covariance for variances up to 36 (1e-8 up to sd 20)."""

# The normal density is below 1e-31 outside, so that high Hermite functions keep their digits.
_HALF_RANGE = 12.0
# The trapezoid's error is exp(-2 pi^2 / (sd h)): h = .06 serves sds up to 6 and is halved with
# each doubling of the sd. The last level serves sds to 100 in full.
_STEP = 0.06
_STEP_SD = 6.0
# Terms come in blocks of 64 until the remainder of each draw is below its tolerance, at most so
# many per level: tables of at most 52 MB, and 1e-8 up to sd 24.
_BLOCK = 64
_MAX_TERMS = (4096, 4096, 4096, 2048, 1024)
_MAX_LEVEL = len(_MAX_TERMS) - 1
# Remainder allowed: relative to the product of the margins' sds, which is at most 1/4.
_TOLERANCE = 1e-11
_TOLERANCE_WIDE = 4e-9
# Numbers held at once per chunk of draws.
_CHUNK = 2**18


@dataclass(frozen=True, slots=True)
class LogisticMoments:
    """Moments of ``p = expit(eta)``, ``eta ~ Normal(mean, var)``, one set per draw.

    Parameters
    ----------
    mean : array (n_draws,)
        E[p].
    noise : array (n_draws,)
        E[p(1-p)], the variance of one 0/1 trial given p.
    shared : array (n_sets, n_draws)
        Covariance of two probabilities that share the given part of the logit variance.
    """

    mean: Array
    noise: Array
    shared: Array


def logistic_mean(mean: npt.ArrayLike, var: npt.ArrayLike) -> Array:
    """Expected pass probability E[expit(eta)] for ``eta ~ Normal(mean, var)``.

    Parameters
    ----------
    mean, var : array_like
        Mean and variance on the logit scale; they broadcast.

    Returns
    -------
    array
        Score scale, of the broadcast shape.

    Raises
    ------
    QuantityError
        For a variance that is negative or not finite.

    Examples
    --------
    >>> float(logistic_mean(1.0, 2.0).round(4))
    0.6751
    """
    return _one_margin(mean, var, "mean")


def logistic_variance(mean: npt.ArrayLike, var: npt.ArrayLike) -> Array:
    """Variance of the pass probability, Var(expit(eta)) for ``eta ~ Normal(mean, var)``.

    Parameters, returns and errors are those of `logistic_mean`.

    Examples
    --------
    >>> float(logistic_variance(0.0, 1.0).round(4))
    0.0434
    """
    return _one_margin(mean, var, "variance")


def logistic_covariance(
    mean_1: npt.ArrayLike,
    mean_2: npt.ArrayLike,
    var_1: npt.ArrayLike,
    var_2: npt.ArrayLike,
    var_shared: npt.ArrayLike,
) -> Array:
    """Cov(expit(eta_1), expit(eta_2)) for bivariate normal logits.

    Parameters
    ----------
    mean_1, mean_2, var_1, var_2 : array_like
        Margins on the logit scale.
    var_shared : array_like
        Cov(eta_1, eta_2); all five broadcast. An axis along which only this one varies costs
        almost nothing: the margins are expanded once for all of it.

    Returns
    -------
    array
        Score scale, of the broadcast shape.

    Raises
    ------
    QuantityError
        For a variance that is negative or not finite, or a shared variance above
        ``sqrt(var_1 var_2)``.

    Notes
    -----
    Hermite (Mehler) expansion, see the module. Absolute error at most 1e-10 for variances up to
    36 and 1e-8 up to a total sd of 20.

    Examples
    --------
    >>> float(logistic_covariance(0.0, 0.0, 1.0, 1.0, 0.5).round(6))
    0.021428
    """
    margins = np.broadcast_arrays(mean_1, mean_2, var_1, var_2)
    shape = np.broadcast_shapes(margins[0].shape, np.shape(var_shared))
    margin_shape = (1,) * (len(shape) - margins[0].ndim) + margins[0].shape
    set_axes = [i for i, n in enumerate(shape) if margin_shape[i] == 1 and n != 1]
    draw_axes = [i for i in range(len(shape)) if i not in set_axes]
    order = [*set_axes, *draw_axes]
    moved = np.transpose(np.broadcast_to(np.asarray(var_shared, float), shape), order)
    n_draws = math.prod(shape[i] for i in draw_axes)
    flat = [np.asarray(margin, dtype=float).reshape(n_draws) for margin in margins]
    cov = _moments(flat[0], flat[1], flat[2], flat[3], moved.reshape(-1, n_draws)).shared
    return np.transpose(cov.reshape(moved.shape), np.argsort(order))


def logistic_moments(mean: Array, var: Array, shared: Array) -> LogisticMoments:
    """Mean, trial noise and the covariances of many shared variances, in one pass.

    Parameters
    ----------
    mean, var : array (n_draws,)
        Mean and total variance of the logit.
    shared : array (n_sets, n_draws)
        Shared variance of each set, at most `var`.

    Returns
    -------
    LogisticMoments

    Raises
    ------
    QuantityError
        As `logistic_covariance`.

    Examples
    --------
    >>> one = np.ones(1)
    >>> moments = logistic_moments(0 * one, one, np.array([[0.5], [1.0]]))
    >>> [float(v) for v in moments.shared[:, 0].round(4)]
    [0.0214, 0.0434]
    """
    return _moments(mean, mean, var, var, shared)


def _one_margin(mean: npt.ArrayLike, var: npt.ArrayLike, what: str) -> Array:
    """The mean or variance of p over the broadcast of `mean` and `var`."""
    means, variances = np.broadcast_arrays(np.asarray(mean, float), np.asarray(var, float))
    flat_mean, flat_var = means.ravel(), variances.ravel()
    _check_variances(flat_var)
    out = np.empty(flat_mean.shape)
    for chunk, level in _chunks(flat_var):
        rule = _rule(level)
        low = _probabilities(flat_mean[chunk], flat_var[chunk], rule.nodes)
        expected = low @ rule.weights
        if what == "variance":
            out[chunk] = _spread(low, expected, rule.weights)
        else:
            out[chunk] = np.where(flat_mean[chunk] > 0, 1 - expected, expected)
    return out.reshape(means.shape)


def _moments(
    mean_1: Array, mean_2: Array, var_1: Array, var_2: Array, shared: Array
) -> LogisticMoments:
    """Moments of margin 1 and its covariances with margin 2; flat arrays, chunked over draws."""
    _check_variances(var_1)
    _check_variances(var_2)
    rho = _correlation(var_1, var_2, shared)
    n_sets, n_draws = rho.shape
    moments = LogisticMoments(np.empty(n_draws), np.empty(n_draws), np.empty((n_sets, n_draws)))
    same = np.array_equal(mean_1, mean_2) and np.array_equal(var_1, var_2)
    for chunk, level in _chunks(np.maximum(var_1, var_2)):
        rule = _rule(level)
        first = _probabilities(mean_1[chunk], var_1[chunk], rule.nodes)
        second = first if same else _probabilities(mean_2[chunk], var_2[chunk], rule.nodes)
        flipped = (mean_1[chunk] > 0) != (mean_2[chunk] > 0)
        wide = bool((np.maximum(var_1, var_2)[chunk] > _STEP_SD**2).any())
        expected = first @ rule.weights
        moments.mean[chunk] = np.where(mean_1[chunk] > 0, 1 - expected, expected)
        moments.noise[chunk] = (first * (1 - first)) @ rule.weights
        moments.shared[:, chunk] = _mehler(
            first, second, flipped, rho[:, chunk], level, _TOLERANCE_WIDE if wide else _TOLERANCE
        )
    return moments


def _mehler(
    first: Array, second: Array, flipped: npt.NDArray[np.bool_], rho: Array, level: int,
    tolerance: float,
) -> Array:  # fmt: skip
    """``sum_k c_k(1) c_k(2) rho^k`` for one chunk of draws; rho (n_sets, n_draws)."""
    weights = _rule(level).weights
    left_1 = _spread(first, first @ weights, weights)
    left_2 = left_1 if second is first else _spread(second, second @ weights, weights)
    # What rounding of p makes of a variance of nothing is never chased.
    allowed = tolerance * np.sqrt(left_1 * left_2) + 1e-28 * (first @ weights) * (second @ weights)
    # At rho = 1 of equal margins nothing is lost: the remainder itself stands for the tail.
    steep = np.abs(rho).max(axis=0, initial=0.0, where=(np.abs(rho) < 1) | (second is not first))
    products: list[Array] = []
    for block in _blocks(level):
        c_1 = first @ block
        c_2 = c_1 if second is first else second @ block
        products.append((c_1 * c_2).T)
        left_1 = np.maximum(left_1 - np.sum(c_1 * c_1, axis=1), 0.0)
        left_2 = left_1 if second is first else left_2 - np.sum(c_2 * c_2, axis=1)
        left_2 = np.maximum(left_2, 0.0)
        n_terms = len(products) * _BLOCK
        if np.all(steep ** (n_terms + 1) * np.sqrt(left_1 * left_2) <= allowed):
            break
    terms = np.concatenate(products)
    # c_k(-m) = (-1)^(k+1) c_k(m): every margin is computed at -|m|, where p keeps its digits.
    terms[1::2, flipped] *= -1
    tail = left_1 if second is first else np.zeros_like(left_1)
    return _horner(terms, tail, rho)


def _horner(terms: Array, tail: Array, rho: Array) -> Array:
    """``sum_k terms[k-1] rho^k + tail rho^(K+1)``; the tail is at its upper bound."""
    total = np.broadcast_to(tail, rho.shape) * rho
    for term in terms[::-1]:
        total += term
        total *= rho
    return total


@dataclass(frozen=True, slots=True)
class _Rule:
    """Trapezoid for expectations over a standard normal."""

    nodes: Array
    weights: Array


@functools.lru_cache(maxsize=_MAX_LEVEL + 1)
def _rule(level: int) -> _Rule:
    step = _STEP / 2**level
    count = round(_HALF_RANGE / step)
    nodes = step * np.arange(-count, count + 1)
    return _Rule(nodes, step * np.exp(-0.5 * nodes**2) / math.sqrt(2 * math.pi))


@functools.lru_cache(maxsize=sum(_MAX_TERMS) // _BLOCK)
def _hermite_block(level: int, index: int) -> Array:
    """Weighted ``h_k`` at the nodes, k = 64 index + 1 ... 64 index + 64; (n_nodes, 64).

    The recurrence runs on Hermite *functions* (h_k times the root of the density), which stay
    bounded; the polynomials themselves overflow.
    """
    rule = _rule(level)
    step = rule.nodes[1] - rule.nodes[0]
    root = np.sqrt(rule.weights / step)
    if index == 0:
        before, last = np.zeros_like(root), root
    else:
        previous = _hermite_block(level, index - 1)
        # The stored block carries the weights; only its last two columns are needed back.
        before, last = previous[:, -2] / (root * step), previous[:, -1] / (root * step)
    block = np.empty((rule.nodes.size, _BLOCK))
    for j in range(_BLOCK):
        k = index * _BLOCK + j
        before, last = last, (rule.nodes * last - math.sqrt(k) * before) / math.sqrt(k + 1)
        block[:, j] = last
    block *= (root * step)[:, None]
    return block


def _blocks(level: int) -> Iterator[Array]:
    return (_hermite_block(level, index) for index in range(_MAX_TERMS[level] // _BLOCK))


def _chunks(var: Array) -> Iterator[tuple[npt.NDArray[np.intp], int]]:
    """Draws of like total sd, with the level of the trapezoid that serves them."""
    order = np.argsort(var, kind="stable")
    sds = np.sqrt(var[order])
    levels = np.ceil(np.log2(np.maximum(sds, _STEP_SD) / _STEP_SD)).astype(int)
    for level in np.unique(np.minimum(levels, _MAX_LEVEL)):
        here = order[np.minimum(levels, _MAX_LEVEL) == level]
        size = max(_CHUNK // _rule(int(level)).nodes.size, 1)
        for start in range(0, here.size, size):
            yield here[start : start + size], int(level)


def _probabilities(mean: Array, var: Array, nodes: Array) -> Array:
    """``expit(-|mean| + sd z)`` at the nodes, (n_draws, n_nodes)."""
    logits = np.abs(mean)[:, None] - np.sqrt(var)[:, None] * nodes
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(logits)))


def _spread(low: Array, expected: Array, weights: Array) -> Array:
    """Variance under the quadrature, without the cancellation of E[p^2] - E[p]^2."""
    return np.asarray(((low - expected[:, None]) ** 2) @ weights)


def _correlation(var_1: Array, var_2: Array, shared: Array) -> Array:
    scale = np.sqrt(var_1 * var_2)
    # What rounding of sums of variances can make; beyond it the input is wrong.
    slack = 1e-9 * scale + 1e-300
    if not np.all(np.abs(shared) <= scale + slack):
        raise QuantityError(
            explain(
                "a shared variance is larger than the variances that share it",
                given=float(np.nanmax(np.abs(shared) - scale)),
                allowed="|var_shared| <= sqrt(var_1 * var_2)",
            )
        )
    rho = np.divide(shared, scale, out=np.zeros(np.shape(shared)), where=scale > 0)
    # A sum in another order than the total's is the total.
    rho[np.abs(rho - 1) < 1e-13] = 1.0
    return np.clip(rho, -1, 1)


def _check_variances(var: Array) -> None:
    if not np.all(np.isfinite(var) & (var >= 0)):
        bad = var[~(np.isfinite(var) & (var >= 0))]
        raise QuantityError(
            explain(
                "a variance on the logit scale is not usable",
                given=float(bad[0]),
                allowed="finite numbers that are not negative",
            )
        )
