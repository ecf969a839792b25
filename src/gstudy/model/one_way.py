"""One component: its effects integrated out of the posterior, and drawn afterwards.

Given mu and sd the levels of a single component are independent, and levels with the same passes
in the same number of trials have the same integral: 1,000 tasks with 8 trials each make 9 of them.
The sampler then moves in mu and log sd alone,

    log p(mu, sd | y) = log p(mu) + log p(sd) + sum_g count_g log I(k_g, n_g),
    I(k, n) = int expit(mu + u)^k (1 - expit(mu + u))^(n - k) Normal(u; 0, sd^2) du,

and each effect is drawn from its exact conditional given mu, sd and its trials. The integrals are
trapezoid sums around the mode. They converge geometrically, since the integrand is analytic: with
the steps taken here the relative error is below 1e-9 up to 3,000 trials a level.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numba
import numpy as np
from numpy.typing import NDArray

from gstudy.model.sd_priors import Encoded, encode, log_density

if TYPE_CHECKING:
    from gstudy.model.parameterisation import Parameterisation

__all__ = [
    "LARGEST_DROP",
    "LONGEST_STEP",
    "MOST_NEWTON_STEPS",
    "MOST_NODES",
    "NEWTON_TOLERANCE",
    "STEP",
    "OneWay",
    "fill_sides",
    "level_mode",
    "one_way",
    "one_way_log_posterior",
    "safe_step",
]

Floats = NDArray[np.float64]

LOG_2PI = math.log(2.0 * math.pi)

STEP = 0.65
"""Steps of the trapezoid sums in Laplace sds of the integrand: a normal one would do with 0.9 (an
error of exp(-2 pi^2 / 0.9^2) = 3e-11), a skewed one not."""

LONGEST_STEP = 0.38
"""In logits: where many trials all pass, the integrand is steep on one side of a flat top, and
analytic only up to about pi / 2 from the real line: exp(-2 pi (pi / 2) / 0.38) = 5e-12."""

LARGEST_DROP = 30.0
"""Sums end where the integrand is exp(-30) of its largest value."""

MOST_NODES = 2048
"""On one side of the mode."""

LEVELS_A_CLASS = 3
"""The integrals win where there are at least this many levels to one of them; else their sums cost
as much as the effects do."""

MOST_NEWTON_STEPS = 100
NEWTON_TOLERANCE = 1e-4
"""In Laplace sds, of the last step: what is left after it is about the square of that."""


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


def one_way(p: Parameterisation) -> OneWay | None:
    """The classes of a design with one random component; None where integrals do not win.

    Parameters
    ----------
    p : Parameterisation

    Returns
    -------
    OneWay or None
        None also with several components, fixed effects, graded scores, and levels whose trials
        are in several cells.
    """
    if p.graded is not None or len(p.blocks) != 1 or p.blocks[0].fixed:
        return None
    n_levels = p.blocks[0].size
    if len(p.index) != n_levels or len(np.unique(p.index)) != n_levels:
        return None
    data = np.column_stack([p.successes, p.trials])[np.argsort(p.index[:, 0])]
    found, of_level, counts = np.unique(data, axis=0, return_inverse=True, return_counts=True)
    if LEVELS_A_CLASS * len(found) > n_levels:
        return None
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
def safe_step(u, step, low, high, before):  # pragma: no cover - compiled
    """A Newton step from u, or one half of the way between two ends where it leaves them or is not
    half as long as the one before."""
    if not low <= u + step <= high or abs(step) > 0.5 * before:
        return 0.5 * (low + high) - u
    return step


@numba.njit(nogil=True, cache=True, error_model="numpy")
def level_mode(k, n, mu, precision, start):  # pragma: no cover - compiled
    """The effect at which the integrand is largest, and its Laplace precision there.

    Newton steps between two ends at which the slope differs in sign.
    """
    low, high = -(n - k) / precision, k / precision
    u = min(max(start, low), high)
    curvature = precision
    before = high - low
    for _ in range(MOST_NEWTON_STEPS):
        p = 1.0 / (1.0 + np.exp(-(mu + u)))
        slope = k - n * p - precision * u
        curvature = n * p * (1.0 - p) + precision
        if slope > 0.0:
            low = u
        else:
            high = u
        step = safe_step(u, slope / curvature, low, high, before)
        before = abs(step)
        u += step
        if step * step * curvature <= NEWTON_TOLERANCE**2:
            break
    return u, curvature


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _power(base, n):  # pragma: no cover - compiled
    """base^n of a whole number n >= 0, by squaring."""
    found = 1.0
    while n > 0:
        if n & 1:
            found *= base
        base *= base
        n >>= 1
    return found


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _fill_side(k, n, mu, precision, top, stride, values):  # pragma: no cover - compiled
    """The integrand at top + stride, top + 2 stride, ... over that at `top`, until it is too small
    to count; how many count. The one after them is filled in too.

    Every factor from one node to the next is multiplied on: nothing is exponentiated, and nothing
    overflows, since to the right the odds are those of a failure.
    """
    least = np.exp(-LARGEST_DROP)
    whole = np.int64(n)
    up = stride > 0.0
    shrink, tilt = np.exp(-abs(stride)), np.exp((k / n - (1.0 if up else 0.0)) * stride)
    fall = np.exp(-precision * stride * (top + 0.5 * stride))
    faster = np.exp(-precision * stride * stride)
    odds = np.exp(-(mu + top) if up else mu + top)
    lift, normal = 1.0 + odds, 1.0
    for j in range(values.shape[0]):
        odds *= shrink
        lift *= tilt
        normal *= fall
        fall *= faster
        values[j] = normal * _power(lift / (1.0 + odds), whole)
        if not values[j] > least:
            return j
    return values.shape[0]


@numba.njit(nogil=True, cache=True, error_model="numpy")
def fill_sides(k, n, mu, precision, top, curvature, sides):  # pragma: no cover - compiled
    """Both sides of a mode in `sides` (2, nodes), whose first nodes are the mode itself.

    Returned: the step, and how many nodes count on the right and on the left besides the mode. The
    step is doubled where the nodes do not reach far enough: with sds above about 100 logits, of
    which hardly a prior has any.
    """
    step = min(STEP / np.sqrt(curvature), LONGEST_STEP)
    sides[:, 0] = 1.0
    most = sides.shape[1] - 1
    while True:
        right = _fill_side(k, n, mu, precision, top, step, sides[0, 1:])
        left = _fill_side(k, n, mu, precision, top, -step, sides[1, 1:])
        if right < most and left < most:
            return step, right, left
        step *= 2.0


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _level_sums(sides, top, step, right, left):  # pragma: no cover - compiled
    """Sums of the integrand over its value at `top`, times 1, u and u^2, at top + j step."""
    total, first, second = 1.0, top, top * top
    for side in range(2):
        stride = step if side == 0 else -step
        for j in range(1, (right if side == 0 else left) + 1):
            value, u = sides[side, j], top + j * stride
            total += value
            first += value * u
            second += value * u * u
    return total, first, second


@numba.njit(nogil=True, cache=True, error_model="numpy")
def one_way_log_posterior(x, classes, numbers):  # pragma: no cover - compiled
    """Log-posterior and gradient at `x` = [log sd, log scale of mu where mu_nu > 0, mu].

    The derivatives are means over each level's conditional: E[u] / sd^2 in mu, and
    E[u^2] / sd^2 - 1 in log sd.
    """
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
    precision = np.exp(-2.0 * x[0])
    sides = np.empty((2, MOST_NODES + 1))
    top = 0.0
    for g in range(classes.shape[0]):
        k, n, count = classes[g, 0], classes[g, 1], classes[g, 2]
        top, curvature = level_mode(k, n, mu, precision, top)
        step, right, left = fill_sides(k, n, mu, precision, top, curvature, sides)
        total, first, second = _level_sums(sides, top, step, right, left)
        eta = mu + top
        soft = max(eta, 0.0) + np.log1p(np.exp(-abs(eta)))
        log_p += count * (
            k * eta
            - n * soft
            - 0.5 * precision * top * top
            + np.log(total * step)
            - 0.5 * LOG_2PI
            - x[0]
        )
        grad[last] += count * precision * first / total
        grad[0] += count * (precision * second / total - 1.0)
    return log_p, grad
