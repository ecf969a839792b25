"""Effects that were integrated out, drawn exactly: each given its trials and the other effects.

The log density of such an effect is concave (`level_modes`). Its largest value and the tangents on
both sides of the mode lie above it: a draw from that hat is kept with the ratio of the two
(adaptive rejection sampling, Gilks and Wild 1992, with tangents that stay). With tangents at
sqrt(2) Laplace sds nine in ten are kept. What is kept under a lower bound needs no look at the
density: under the chords between the mode and where the tangents touch, or under the parabola of
the largest curvature that such a density can have (a quarter a trial, beside the prior's).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numba
import numpy as np
from numpy.typing import NDArray

from gstudy.model.level_modes import level_mode, log_ratio, mode_of_cells

if TYPE_CHECKING:
    from gstudy.model.one_way import OneWay

__all__ = ["level_effects_drawn", "own_effects_drawn"]

Floats = NDArray[np.float64]

TANGENT = 1.4142135623730951
"""Where the tangents touch, in Laplace sds: the best place for a normal density, 89% of whose draws
are kept."""


def level_effects_drawn(found: OneWay, mu: Floats, sd: Floats, rng: np.random.Generator) -> Floats:
    """One draw of every level's effect for each draw of mu and sd.

    Parameters
    ----------
    found : OneWay
    mu, sd : array (draw,)
        Logit scale.
    rng : numpy.random.Generator

    Returns
    -------
    array (draw, n_levels)
    """
    effects = np.empty((len(mu), len(found.of_level)))
    order = np.argsort(found.of_level, kind="stable")
    # One layout, for which it is compiled.
    mu, sd = np.ascontiguousarray(mu), np.ascontiguousarray(sd)
    _fill_levels(mu, sd, found.classes, order, rng, effects)
    return effects


def own_effects_drawn(
    eta: Floats,
    sd: Floats,
    successes: Floats,
    trials: Floats,
    begins: NDArray[np.int64],
    rng: np.random.Generator,
) -> Floats:
    """One draw of every level's effect, given its cells, for each draw of the other effects.

    Parameters
    ----------
    eta : array (draw, n_cells)
        Sum of all other effects of each cell, logit scale; cells level by level.
    sd : array (draw,)
    successes, trials : array (n_cells,)
    begins : array (n_levels + 1,)
        First cell of each level, then the number of cells.
    rng : numpy.random.Generator

    Returns
    -------
    array (draw, n_levels)
    """
    effects = np.empty((len(eta), len(begins) - 1))
    _fill_own(eta, np.ascontiguousarray(sd), successes, trials, begins, rng, effects)
    return effects


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _hat(k, n, eta, begin, end, precision, top, curvature, hat):  # pragma: no cover - compiled
    """Left and right (rows): where the tangent comes down from the largest value, how fast, and
    how fast the chord to where it touches does; of both, how far that is, and the parabola."""
    reach = TANGENT / np.sqrt(curvature)
    for side in range(2):
        u = top - reach if side == 0 else top + reach
        value, slope = log_ratio(u, top, k, n, eta, begin, end, precision)
        hat[side, 0] = u - value / slope
        hat[side, 1] = abs(slope)
        hat[side, 2] = value / reach
    steepest = precision
    for i in range(begin, end):
        steepest += 0.25 * n[i]
    hat[:, 3], hat[:, 4] = reach, 0.5 * steepest


@numba.njit(nogil=True, cache=True, error_model="numpy", inline="always")
def _drawn(k, n, eta, begin, end, precision, top, hat, rng):  # pragma: no cover - compiled
    """One effect."""
    flat, left = hat[1, 0] - hat[0, 0], 1.0 / hat[0, 1]
    whole = flat + left + 1.0 / hat[1, 1]
    while True:
        place = rng.random() * whole - left
        height = 0.0
        if place < 0.0:
            height = -rng.standard_exponential()
            u = hat[0, 0] + height / hat[0, 1]
        elif place < flat:
            u = hat[0, 0] + place
        else:
            height = -rng.standard_exponential()
            u = hat[1, 0] - height / hat[1, 1]
        height -= rng.standard_exponential()
        away = abs(u - top)
        if -hat[0, 4] * away * away >= height:
            return u
        if away < hat[0, 3] and hat[0 if u < top else 1, 2] * away >= height:
            return u
        value, _ = log_ratio(u, top, k, n, eta, begin, end, precision)
        if value >= height:
            return u


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _fill_levels(mu, sd, classes, order, rng, effects):  # pragma: no cover - compiled
    """Effects (draw, n_levels) in place; `order` has the levels class by class."""
    hat, eta = np.empty((2, 5)), np.empty(len(classes))
    k, n = classes[:, 0].copy(), classes[:, 1].copy()
    for d in range(mu.shape[0]):
        precision = 1.0 / (sd[d] * sd[d])
        at, top = 0, 0.0
        eta[:] = mu[d]
        for g in range(classes.shape[0]):
            top, curvature = level_mode(k[g], n[g], mu[d], precision, top)
            _hat(k, n, eta, g, g + 1, precision, top, curvature, hat)
            for level in order[at : at + int(classes[g, 2])]:
                drawn = _drawn(k, n, eta, g, g + 1, precision, top, hat, rng)
                effects[d, level] = drawn
            at += int(classes[g, 2])


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _fill_own(eta, sd, k, n, begins, rng, effects):  # pragma: no cover - compiled
    """Effects (draw, n_levels) in place, each given its own cells."""
    hat = np.empty((2, 5))
    tops = np.zeros(effects.shape[1])  # of the draw before: where the next modes are looked for
    for d in range(eta.shape[0]):
        precision, own = 1.0 / (sd[d] * sd[d]), eta[d]
        for level in range(effects.shape[1]):
            begin, end = begins[level], begins[level + 1]
            top, curvature = mode_of_cells(k, n, own, begin, end, precision, tops[level])
            _hat(k, n, own, begin, end, precision, top, curvature, hat)
            effects[d, level] = _drawn(k, n, own, begin, end, precision, top, hat, rng)
            tops[level] = top
