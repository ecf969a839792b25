"""What a study of tasks by rollouts will say about the ICC: its expected information.

A task's passes k of T are binomial given its logit, ``mu + sd z``, z standard normal. With
``P_k(mu, log sd)`` the probability of k passes, n tasks carry the Fisher information

    I = n sum_k (dP_k)(dP_k)' / P_k,

exactly, by quadrature over z. The posterior of (mu, log sd) is about normal with precision I plus
what the priors add, and the ICC, a smooth function of the two, has the variance ``g' I^-1 g``. The
interval is taken on the scale of the logit of the ICC, where it keeps to (0, 1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gstudy.errors import QuantityError, explain
from gstudy.variance.draws import Array

if TYPE_CHECKING:
    from gstudy.study.priors import Prior

__all__ = [
    "icc_and_slopes",
    "interval_width",
    "logit_icc_sd",
    "prior_information",
    "task_information",
]

# Nodes of the trapezoid on z; beyond 8 the normal density is nothing.
_REACH, _NODES = 8.0, 1601
# A cell of passes this improbable carries no information.
_NOTHING = 1e-300
_STEP = 1e-4
# An interval of the logit that reaches further than this from its middle is none of the ICC.
_FARTHEST = 2.0


def _rule() -> tuple[Array, Array]:
    z = np.linspace(-_REACH, _REACH, _NODES)
    weights = np.exp(-0.5 * z**2)
    return z, weights / weights.sum()


def task_information(mu: float, sd: float, rollouts: int) -> Array:
    """Fisher information of one task about (mu, log sd), logit scale.

    Parameters
    ----------
    mu, sd : float
    rollouts : int
        Trials of the task.

    Returns
    -------
    array (2, 2)

    Examples
    --------
    Without variation between tasks it is that of a binomial about its logit, and nothing about sd:

    >>> abs(task_information(0.0, 1e-9, 4)).round(6).tolist()
    [[1.0, 0.0], [0.0, 0.0]]
    """
    z, weights = _rule()
    logits = mu + sd * z
    k = np.arange(rollouts + 1)
    choose = np.array([math.lgamma(rollouts + 1) - math.lgamma(i + 1) for i in k])
    choose -= np.array([math.lgamma(rollouts - i + 1) for i in k])
    passed, failed = -np.logaddexp(0, -logits), -np.logaddexp(0, logits)
    terms = np.exp(choose[:, None] + k[:, None] * passed + (rollouts - k)[:, None] * failed)
    slopes = terms * (k[:, None] - rollouts * np.exp(passed))
    p = terms @ weights
    gradient = np.stack([slopes @ weights, slopes @ (weights * sd * z)])
    known = p > _NOTHING
    return np.asarray((gradient[:, known] / p[known]) @ gradient[:, known].T)


def icc_and_slopes(mu: float, sd: float) -> tuple[float, Array]:
    """ICC of tasks on the score scale, and its slopes in mu and log sd.

    Parameters
    ----------
    mu, sd : float
        Logit scale.

    Returns
    -------
    (float, array (2,))
        ``Var(p) / (m (1 - m))``.

    Raises
    ------
    QuantityError
        Where no score varies: every rate is 0, or every one is 1, to the last digit.
    """
    if mu > 0:
        # The rates of failures, which keep their digits where those of passes are next to 1.
        icc, slopes = icc_and_slopes(-mu, sd)
        return icc, slopes * [-1, 1]
    z, weights = _rule()
    p = np.exp(-np.logaddexp(0, -(mu + sd * z)))
    slope = p * (1 - p)
    mean, square = float(p @ weights), float(p**2 @ weights)
    by = np.stack([weights, weights * sd * z])
    d_mean, d_square = by @ slope, by @ (2 * p * slope)
    total = mean * (1 - mean)
    if not total > 0:
        raise QuantityError(
            explain(
                "no ICC is defined where no score varies",
                given={"mu": mu, "sd": sd},
                do="Take a mean logit at which some trials pass and some fail.",
            )
        )
    icc = (square - mean**2) / total
    return icc, (d_square - 2 * mean * d_mean - icc * (1 - 2 * mean) * d_mean) / total


def prior_information(mu_prior: Prior, sd_prior: Prior, mu: float, sd: float) -> Array:
    """Curvature that the priors add in mu and log sd, never negative; array (2, 2)."""

    def log_sd(x: Array) -> Array:
        return np.asarray(sd_prior.logpdf(np.exp(x)) + x)

    curvatures = [
        _curvature(np.asarray(mu_prior.logpdf(mu + _STEP * _STENCIL))),
        _curvature(log_sd(math.log(sd) + _STEP * _STENCIL)),
    ]
    return np.diag(np.maximum(curvatures, 0.0))


_STENCIL = np.array([-1.0, 0.0, 1.0])


def _curvature(values: Array) -> float:
    return float(-(values[0] - 2 * values[1] + values[2]) / _STEP**2)


def logit_icc_sd(
    mu: float, sd: float, tasks: Sequence[int], information: Array, prior: Array
) -> tuple[float, Array]:
    """Logit of the ICC, and its posterior sd at several numbers of tasks.

    Parameters
    ----------
    mu, sd : float
        Logit scale.
    tasks : sequence of int
    information : array (2, 2)
        Of one task.
    prior : array (2, 2)

    Returns
    -------
    (float, array (n_tasks,))
    """
    icc, slopes = icc_and_slopes(mu, sd)
    slopes = slopes / (icc * (1 - icc))
    found = [slopes @ np.linalg.solve(n * information + prior, slopes) for n in tasks]
    return math.log(icc / (1 - icc)), np.sqrt(found)


def interval_width(logit: Array, sd: Array, quantile: float, error: Array) -> Array:
    """Width of the interval of a proportion whose logit has this mean and sd.

    Parameters
    ----------
    logit, sd : array
    quantile : float
        Of the standard normal distribution.
    error : array
        Standard error of the proportion itself, which makes the interval where the data hardly
        tell it from 0 or 1: there its logit has no useful sd.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        ends = [np.exp(-np.logaddexp(0, -(logit + s * quantile * sd))) for s in (-1, 1)]
        far = quantile * sd < _FARTHEST
    return np.asarray(np.where(far, ends[1] - ends[0], np.minimum(2 * quantile * error, 1.0)))
