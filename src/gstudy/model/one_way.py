"""One component: its effects integrated out of the posterior, and drawn afterwards.

Given mu and sd the levels of a single component are independent, and levels with the same passes
in the same number of trials have the same integral: 1,000 tasks with 8 trials each make 9 of them.
The sampler then moves in mu and log sd alone,

    log p(mu, sd | y) = log p(mu) + log p(sd) + sum_g count_g log I(k_g, n_g),
    I(k, n) = int expit(mu + u)^k (1 - expit(mu + u))^(n - k) Normal(u; 0, sd^2) du,

and each effect is drawn from its exact conditional given mu, sd and its trials. How the integrals
are made: `one_way_integrals`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numba
import numpy as np
from numpy.typing import NDArray

from gstudy.model.one_way_integrals import level_integrals
from gstudy.model.sd_priors import Encoded, encode, log_density

if TYPE_CHECKING:
    from gstudy.model.parameterisation import Parameterisation

__all__ = ["OneWay", "one_way", "one_way_log_posterior"]

Floats = NDArray[np.float64]

LOG_2PI = math.log(2.0 * math.pi)


@dataclass(frozen=True, slots=True, eq=False)
class OneWay:
    """Classes of levels with equal data, and the priors of mu and sd.

    Parameters
    ----------
    classes : array (n_classes, 3)
        Passes, trials, and how many levels have them.
    of_level : array (n_levels,) of int
        Class of each level.
    prior : Encoded
        Of sd.
    mu_mean, mu_sd, mu_nu : float
        Prior of mu: Normal, or StudentT as a scale mixture where mu_nu > 0.
    constant : float
        What no draw changes: constants of the priors, binomial coefficients.
    start, start_width : array (n_free,)
        Where chains begin: log sd, the log of mu's scale where there is one, mu.
    """

    classes: Floats
    of_level: NDArray[np.int64]
    prior: Encoded
    mu_mean: float
    mu_sd: float
    mu_nu: float
    constant: float
    start: Floats
    start_width: Floats

    @property
    def numbers(self) -> Floats:
        """Kind and parameters of sd's prior, then those of mu's, then the constant."""
        kind, a, b, _ = self.prior
        return np.array([kind, a, b, self.mu_mean, self.mu_sd, self.mu_nu, self.constant])

    def __call__(self, x: Floats) -> tuple[float, Floats]:
        """Log-posterior and gradient at [log sd, log scale of mu, mu]."""
        value, gradient = one_way_log_posterior(x, self.classes, self.numbers)
        return value, gradient


def one_way(p: Parameterisation) -> OneWay:
    """The classes of a design with one random component, each of whose levels is a cell.

    Parameters
    ----------
    p : Parameterisation

    Returns
    -------
    OneWay
    """
    data = np.column_stack([p.successes, p.trials])[np.argsort(p.index[:, 0])]
    found, of_level, counts = np.unique(data, axis=0, return_inverse=True, return_counts=True)
    prior = encode(p.blocks[0].prior)
    constant = p.log_coefficients + prior.constant
    if p.mu_nu > 0.0:
        half = 0.5 * p.mu_nu
        constant += half * math.log(half) - math.lgamma(half)
    ends = [*range(p.n_scales), p.n_free - 1]
    return OneWay(
        classes=np.column_stack([found, counts]).astype(np.float64),
        of_level=of_level.astype(np.int64).ravel(),
        prior=prior,
        mu_mean=p.mu_mean,
        mu_sd=p.mu_sd,
        mu_nu=p.mu_nu,
        constant=constant,
        start=p.start[ends],
        start_width=p.start_width[ends],
    )


@numba.njit(nogil=True, cache=True, error_model="numpy")
def one_way_log_posterior(x, classes, numbers):  # pragma: no cover - compiled
    """Log-posterior and gradient at `x` = [log sd, log scale of mu where mu_nu > 0, mu]."""
    grad = np.zeros_like(x)
    last = x.shape[0] - 1
    mu_mean, mu_sd, mu_nu = numbers[3], numbers[4], numbers[5]
    value, slope = log_density(np.int64(numbers[0]), numbers[1], numbers[2], x[0])
    log_p = numbers[6] + value
    grad[0] = slope
    mu = x[last]
    variance = mu_sd * mu_sd
    off = mu - mu_mean
    if mu_nu > 0.0:
        variance *= np.exp(x[1])
        half = 0.5 * mu_nu * np.exp(-x[1])
        log_p -= 0.5 * mu_nu * x[1] + half
        grad[1] = half - 0.5 * mu_nu + 0.5 * (off * off / variance - 1.0)
    log_p -= 0.5 * (LOG_2PI + np.log(variance) + off * off / variance)
    grad[last] = -off / variance
    value, d_mu, d_log_sd = level_integrals(mu, x[0], classes)
    grad[last] += d_mu
    grad[0] += d_log_sd
    return log_p + value, grad
