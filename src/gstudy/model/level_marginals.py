"""Levels with few trials, integrated out: one grid over the effect serves every level.

Where each level of a component has few trials, such as a rollout with a call of every judge, the
likelihood of its trials given the sums eta of all other effects is

    int prod_j expit(eta_j + u)^k_j (1 - expit(eta_j + u))^(n_j - k_j) Normal(u; 0, sd^2) du

over its places j: the cells, with passes k_j of n_j trials. Levels whose places have the same other
effects and trials, such as the rollouts of one system on one task, differ in their passes alone,
and share the grid's expits. On it, ``u = sd z``, the trapezoid rule's error falls off exponentially
(Trefethen and Weideman 2014). With the weights w of a level's grid, which sum to one,

    d / d eta_j = k_j - n_j sum w expit(eta_j + sd z),  d / d log sd = sum w z^2 - 1.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from gstudy.model.level_modes import integral_about_mode
from gstudy.model.unrolled import add_effects, add_residuals, lane_sum

__all__ = [
    "FARTHEST",
    "GRID_ROWS",
    "REACH",
    "effect_grid",
    "grid_pass",
    "grid_size",
    "grid_spacing",
    "row_product",
]

LANES = 4
"""Sums of so many interleaved parts run on whole registers; the number of points is a multiple."""

REACH = 7.0
"""Of the grid, in sds: a normal has 3e-12 beyond."""

EXPONENT, EXPONENT_A_TRIAL = 25.0, 1.5
"""exp(-exponent) is the size of what the rule counts wrong beside the normal alone; a trial's expit
has a pole, and each further one adds to its order. Measured against adaptive quadrature, the error
of a level's log-likelihood is below 1e-9 for 1 to 8 trials drawn from the model, sds .05 to 18."""

FARTHEST = 600.0
"""Most of |eta| + REACH sd, in logits. A trajectory that goes so far has left the posterior."""

GRID_ROWS = 4

LEAST_LIKELY = 1e-6
"""Trials of a level that are less likely are not left to the grid, whose error is absolute: their
integral is taken about its own mode. In the posterior hardly a level is; a chain that starts far
away would find no way back without."""

SPREAD = 0.5 * math.log(2.0 * math.pi)


@numba.njit(nogil=True, cache=True, error_model="numpy")
def grid_spacing(sd, trials):  # pragma: no cover - compiled
    """Distance of the grid's points in z, for at most so many trials a level.

    The rule is wrong by the integrand's Fourier transform at the frequency 2 pi / spacing. That of
    the normal falls as exp(-frequency^2 / 2), that of expit(sd z) as exp(-rate frequency) with
    rate pi / sd; of the product at the frequency f not below the rate as
    exp(rate^2 / 2 - rate f), below as the normal's.
    """
    rate, exponent = math.pi / sd, EXPONENT + EXPONENT_A_TRIAL * trials
    if rate * rate > 2.0 * exponent:
        return 2.0 * math.pi / math.sqrt(2.0 * exponent)
    return 2.0 * math.pi / (exponent / rate + 0.5 * rate)


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _fill_odds(mu, effects, index, sd, eta, odds):  # pragma: no cover - compiled
    """Logits and odds of failing at each place, in place; whether none lies too far out."""
    near = True
    eta[:] = mu
    add_effects(effects, index, eta)
    for i in range(eta.shape[0]):
        near &= abs(eta[i]) + REACH * sd < FARTHEST
        odds[i] = np.exp(-eta[i])
    return near


@numba.njit(nogil=True, cache=True, error_model="numpy")
def grid_size(sd, trials):  # pragma: no cover - compiled
    """Number of the grid's points, a multiple of LANES."""
    points = 2.0 * REACH / grid_spacing(sd, trials) + 1.0
    return LANES * np.int64(np.ceil(points / LANES))


@numba.njit(nogil=True, cache=True, error_model="numpy")
def effect_grid(sd, trials):  # pragma: no cover - compiled
    """Rows: z^2, normal density times spacing, exp(-sd z), and z, at points from -REACH to REACH.

    The first LANES points are computed, the others multiplied on from the one LANES before them:
    nothing more is exponentiated, and a thousand points later the error is 1e-12.
    """
    size = grid_size(sd, trials)
    step = 2.0 * REACH / (size - 1)
    stride = LANES * step
    found = np.empty((GRID_ROWS, size))
    for i in range(LANES):
        z = step * i - REACH
        found[1, i] = step * np.exp(-0.5 * z * z - SPREAD)
        found[2, i] = np.exp(-sd * z)
        found[3, i] = np.exp(-stride * (z + 0.5 * stride))  # of the density, to the next one
    faster, shrink = np.exp(-stride * stride), np.exp(-sd * stride)
    for start in range(LANES, size, LANES):
        for i in range(start, start + LANES):
            after, before = np.uintp(i), np.uintp(i - LANES)
            found[1, after] = found[1, before] * found[3, before]
            found[2, after] = found[2, before] * shrink
            found[3, after] = found[3, before] * faster
    for i in range(size):
        z = step * i - REACH
        found[0, i], found[3, i] = z * z, z
    return found


@numba.njit(nogil=True, cache=True, error_model="numpy", inline="always")
def row_product(x, rows, row):  # pragma: no cover - compiled
    """Sum of products of two rows, the same way."""
    quarter = x.shape[0] // LANES
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    for i in range(quarter):
        a += x[i] * rows[row, i]
        b += x[np.uintp(quarter + i)] * rows[row, np.uintp(quarter + i)]
        c += x[np.uintp(2 * quarter + i)] * rows[row, np.uintp(2 * quarter + i)]
        d += x[np.uintp(3 * quarter + i)] * rows[row, np.uintp(3 * quarter + i)]
    return (a + b) + (c + d)


@numba.njit(nogil=True, cache=True, error_model="numpy", inline="always")
def _fill(odds, first, places, grid, passing, failing):  # pragma: no cover - compiled
    """Chances to pass and to fail at every point of the grid, for each of some places."""
    for j in range(places):
        of_place = odds[first + j]
        for i in range(grid.shape[1]):
            ratio = of_place * grid[2, i]
            p = 1.0 / (1.0 + ratio)
            passing[j, i] = p
            failing[j, i] = ratio * p


@numba.njit(nogil=True, cache=True, error_model="numpy", inline="always")
def _weigh(patterns, row, trials, grid, passing, failing, weights):  # pragma: no cover - compiled
    """Density times likelihood of one pattern at every point, in place; their sum."""
    size = weights.shape[0]
    first, places = np.int64(patterns[row, 0]), np.int64(patterns[row, 1])
    for i in range(size):
        weights[i] = grid[1, i]
    for j in range(places):
        passes = np.int64(patterns[row, 4 + j])
        failures = np.int64(trials[first + j]) - passes
        for _ in range(passes):
            for i in range(size):
                weights[i] *= passing[j, i]
        for _ in range(failures):
            for i in range(size):
                weights[i] *= failing[j, i]
    return lane_sum(weights)


@numba.njit(nogil=True, cache=True, error_model="numpy")
def grid_pass(mu, effects, index, passes, trials, patterns, log_sd, d_effects):
    # pragma: no cover - compiled
    """Log-likelihood with the levels' effects integrated out, and its gradient.

    Parameters
    ----------
    mu : float
        Common logit.
    effects : (n_effects,) float64
        Effects of the other components, one after the other.
    index : (n_places, n_components) int32
        Position in `effects` of each component's level, for each place; those of levels that share
        a grid lie one after the other.
    passes : (n_places,) float64
        Of all levels together.
    trials : (n_places,) float64
        Of each level.
    patterns : (n_patterns, 4 + most places) float64
        First place, number of places, number of levels, trials of each, and passes at each place,
        of levels that have the same (`study.integrable.Patterns`).
    log_sd : float
        Of the levels' effects.
    d_effects : (n_effects,) float64
        Overwritten with the gradient in `effects`.

    Returns
    -------
    (float, float, float)
        The log-likelihood without binomial coefficients, and its derivatives in `mu` and `log_sd`.
    """
    n_patterns, most = patterns.shape[0], patterns.shape[1] - 4
    d_effects[:] = 0.0
    sd = np.exp(log_sd)
    n_places = index.shape[0]
    eta, odds, slopes = np.empty(n_places), np.empty(n_places), np.empty(n_places)
    if not _fill_odds(mu, effects, index, sd, eta, odds):
        return -np.inf, 0.0, 0.0
    grid = effect_grid(sd, patterns[:, 3].max())
    size = grid.shape[1]
    passing, failing = np.empty((most, size)), np.empty((most, size))
    weights, together = np.empty(size), np.empty(size)
    rare, chances = np.empty(most), np.empty(most)
    log_p, d_mu, d_log_sd = 0.0, 0.0, 0.0
    row = 0
    while row < n_patterns:
        first, places = np.int64(patterns[row, 0]), np.int64(patterns[row, 1])
        _fill(odds, first, places, grid, passing, failing)
        for i in range(size):
            together[i] = 0.0
        for j in range(places):
            rare[j] = 0.0
        while row < n_patterns and patterns[row, 0] == first:
            found = _weigh(patterns, row, trials, grid, passing, failing, weights)
            n_levels = patterns[row, 2]
            d_log_sd -= n_levels
            if found > LEAST_LIKELY:
                log_p += n_levels * np.log(found)
                share = n_levels / found
                for i in range(size):
                    together[i] += share * weights[i]
            else:
                value, square = integral_about_mode(
                    patterns[row, 4 : 4 + places],
                    trials[first : first + places],
                    eta[first : first + places],
                    sd,
                    chances[:places],
                )
                log_p += n_levels * value
                d_log_sd += n_levels * square
                for j in range(places):
                    rare[j] += n_levels * chances[j]
            row += 1
        d_log_sd += row_product(together, grid, 0)
        for j in range(first, first + places):
            expected = row_product(together, passing, j - first) + rare[j - first]
            slope = passes[j] - trials[j] * expected
            d_mu += slope
            slopes[j] = slope
    add_residuals(slopes, index, d_effects)
    return log_p, d_mu, d_log_sd
