"""Moments of pass probabilities whose logits are normal: the way from draws to the score scale.

For bivariate normal logits the covariance of the two probabilities depends on the variance that
the logits share, whichever effects are shared. With the normalised Hermite polynomials h_k and
``c_k(m, S) = E[expit(m + sqrt(S) Z) h_k(Z)]``, Mehler's formula gives

    Cov = sum over k >= 1 of  c_k(m_1, S_1) c_k(m_2, S_2) rho^k,    rho = shared / sqrt(S_1 S_2).

One quadrature per draw and margin serves every shared variance. As ``sum c_k^2`` is the variance
of the probability, what is left after K terms is known, bounds the error and chooses K.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gstudy.errors import QuantityError, explain
from gstudy.variance.margins import Margin, covariances

__all__ = [
    "KERNEL_ERROR",
    "LogisticMoments",
    "logistic_covariance",
    "logistic_margin",
    "logistic_mean",
    "logistic_moments",
    "logistic_variance",
    "margin_covariances",
    "margin_moments",
]

Array = npt.NDArray[np.float64]

KERNEL_ERROR = 1e-10
"""Bound of the absolute error of a covariance for variances up to 36 (1e-8 up to sd 20)."""

# Draws whose expansions are held at once.
_AT_ONCE = 2**14


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
    cov = _covariances(flat[0], flat[1], flat[2], flat[3], moved.reshape(-1, n_draws))
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
    return margin_moments(logistic_margin(mean, var), shared)


def logistic_margin(mean: Array, var: Array) -> Margin:
    """The expansion of one margin, which serves every covariance with it.

    Parameters
    ----------
    mean, var : array (n_draws,)
        Logit scale.

    Returns
    -------
    Margin

    Raises
    ------
    QuantityError
        For a variance that is negative or not finite.
    """
    _check_variances(var)
    return Margin(mean, var)


def margin_moments(margin: Margin, shared: Array) -> LogisticMoments:
    """As `logistic_moments`, of a margin that is expanded already."""
    rho = _correlation(margin.var, margin.var, shared)
    return LogisticMoments(margin.expected, margin.noise, covariances(margin, margin, rho))


def margin_covariances(one: Margin, two: Margin, shared: Array) -> Array:
    """Cov(expit(eta_1), expit(eta_2)) of two margins that are expanded already.

    Parameters
    ----------
    one, two : Margin
        Of the same draws.
    shared : array (n_sets, n_draws)
        Cov(eta_1, eta_2).

    Returns
    -------
    array (n_sets, n_draws)

    Raises
    ------
    QuantityError
        For a shared variance above ``sqrt(var_1 var_2)``.
    """
    return covariances(one, two, _correlation(one.var, two.var, shared))


def _covariances(mean_1: Array, mean_2: Array, var_1: Array, var_2: Array, shared: Array) -> Array:
    """Covariances of flat margins, few draws at a time."""
    _check_variances(var_1)
    _check_variances(var_2)
    found = np.empty(shared.shape)
    for start in range(0, len(mean_1), _AT_ONCE):
        here = slice(start, start + _AT_ONCE)
        one = Margin(mean_1[here], var_1[here])
        same = np.array_equal(mean_1[here], mean_2[here]) and np.array_equal(
            var_1[here], var_2[here]
        )
        two = one if same else Margin(mean_2[here], var_2[here])
        found[:, here] = margin_covariances(one, two, shared[:, here])
    return found


def _one_margin(mean: npt.ArrayLike, var: npt.ArrayLike, what: str) -> Array:
    """The mean or variance of p over the broadcast of `mean` and `var`."""
    means, variances = np.broadcast_arrays(np.asarray(mean, float), np.asarray(var, float))
    flat_mean, flat_var = means.ravel(), variances.ravel()
    _check_variances(flat_var)
    out = np.empty(flat_mean.shape)
    for start in range(0, out.size, _AT_ONCE):
        here = slice(start, start + _AT_ONCE)
        margin = Margin(flat_mean[here], flat_var[here], moments_alone=True)
        out[here] = margin.spread if what == "variance" else margin.expected
    return out.reshape(means.shape)


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
