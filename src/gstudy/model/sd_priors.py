"""Priors of standard deviations: their densities, written for the compiled posterior and for PyMC.

The sampler moves on x = log sd. Each family is a few numbers: a kind, two parameters and the part
of the log density that no draw changes.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numba
import numpy as np

if TYPE_CHECKING:
    from gstudy.study.priors import Prior

__all__ = ["KNOWN", "Encoded", "encode", "known", "log_density", "pymc_prior", "typical_sd"]

KNOWN = -1
"""Kind of an sd that is given, not estimated: its value is the first parameter."""

HALF_NORMAL, HALF_STUDENT_T, HALF_CAUCHY, EXPONENTIAL, GAMMA, LOG_NORMAL = range(6)

LOG_2 = math.log(2.0)
LOG_PI = math.log(math.pi)


class Encoded(NamedTuple):
    """A prior as numbers: kind, parameters a and b, and the constant of its log density."""

    kind: int
    a: float
    b: float
    constant: float


def encode(prior: Prior) -> Encoded:
    """The numbers of one prior of a standard deviation.

    Parameters
    ----------
    prior : Prior
        HalfNormal(sigma), HalfStudentT(nu, sigma), HalfCauchy(beta), Exponential(lam),
        Gamma(alpha, beta), beta a rate, or LogNormal(mu, sigma): PyMC's parameters.

    Returns
    -------
    Encoded
    """
    of = dict(prior.parameters)
    if prior.dist == "HalfNormal":
        s = of["sigma"]
        return Encoded(HALF_NORMAL, s, 0.0, 0.5 * (LOG_2 - LOG_PI) - math.log(s))
    if prior.dist == "HalfStudentT":
        nu, s = of["nu"], of["sigma"]
        norm = math.lgamma(0.5 * (nu + 1.0)) - math.lgamma(0.5 * nu)
        constant = LOG_2 + norm - 0.5 * (math.log(nu) + LOG_PI) - math.log(s)
        return Encoded(HALF_STUDENT_T, s, nu, constant)
    if prior.dist == "HalfCauchy":
        return Encoded(HALF_CAUCHY, of["beta"], 0.0, LOG_2 - LOG_PI - math.log(of["beta"]))
    if prior.dist == "Exponential":
        return Encoded(EXPONENTIAL, of["lam"], 0.0, math.log(of["lam"]))
    if prior.dist == "Gamma":
        a, rate = of["alpha"], of["beta"]
        return Encoded(GAMMA, a, rate, a * math.log(rate) - math.lgamma(a))
    m, s = of["mu"], of["sigma"]
    return Encoded(LOG_NORMAL, m, s, -0.5 * (LOG_2 + LOG_PI) - math.log(s))


def known(sd: float) -> Encoded:
    """A given sd in place of a prior."""
    return Encoded(KNOWN, sd, 0.0, 0.0)


@numba.njit(nogil=True, cache=True, error_model="numpy")
def log_density(kind, a, b, x):  # pragma: no cover - compiled
    """Log density of x = log sd without its constant, and its derivative in x.

    The Jacobian of sd = exp(x) is in: the density is that of x.
    """
    if kind == LOG_NORMAL:
        off = (x - a) / b
        return -0.5 * off * off, -off / b
    sd = np.exp(x)
    if kind == HALF_NORMAL:
        square = (sd / a) ** 2
        return x - 0.5 * square, 1.0 - square
    if kind == HALF_STUDENT_T:
        square = (sd / a) ** 2 / b
        return x - 0.5 * (b + 1.0) * np.log1p(square), 1.0 - (b + 1.0) / (1.0 + 1.0 / square)
    if kind == HALF_CAUCHY:
        square = (sd / a) ** 2
        return x - np.log1p(square), 1.0 - 2.0 / (1.0 + 1.0 / square)
    if kind == EXPONENTIAL:
        return x - a * sd, 1.0 - a * sd
    return a * x - b * sd, a - b * sd  # Gamma


def pymc_prior(name: str, prior: Prior, **shape: Any) -> Any:
    """The same prior as a variable of the PyMC model in whose context this is called, of that
    `shape` or `dims`."""
    import pymc as pm

    # Arrays, not Python floats: PyTensor would take those in single precision.
    parameters = {key: np.asarray(value) for key, value in prior.parameters}
    return getattr(pm, prior.dist)(name, **parameters, **shape)


def typical_sd(prior: Prior) -> float:
    """A value in the middle of what the prior says, to start a search for the mode from."""
    of = dict(prior.parameters)
    if prior.dist == "Exponential":
        return float(1.0 / of["lam"])
    if prior.dist == "Gamma":
        return float(of["alpha"] / of["beta"])
    if prior.dist == "LogNormal":
        return math.exp(of["mu"])
    return float(of["beta"] if prior.dist == "HalfCauchy" else of["sigma"])
