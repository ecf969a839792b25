"""Effects of one component given mu, sd and its trials: exact draws, level by level.

The conditional of an effect is log-concave. Between its mode and the places at which the integrand
is known it falls, so that steps of the heights at their inner ends lie above it: a place drawn
from the steps is kept with the ratio of the two, mostly without the density being computed, since
whatever lies below the outer end is below the density too (Devroye, Non-Uniform Random Variate
Generation, 1986, chapter II.3).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numba
import numpy as np
from numpy.typing import NDArray

from gstudy.model.one_way import MOST_NODES, fill_sides, level_mode

if TYPE_CHECKING:
    from gstudy.model.one_way import OneWay

__all__ = ["drawn_effects"]

Floats = NDArray[np.float64]


def drawn_effects(
    found: OneWay, mu: Floats, sd: Floats, rng: np.random.Generator, *, cores: int
) -> Floats:
    """One draw of every level's effect for each draw of mu and sd.

    Parameters
    ----------
    found : OneWay
    mu, sd : array (chain, draw)
        Logit scale.
    rng : numpy.random.Generator
        Each chain has a stream of its own: the number of cores changes no draw.
    cores : int
        Chains at a time.

    Returns
    -------
    array (chain, draw, n_levels)
    """
    effects = np.empty((*mu.shape, len(found.of_level)))
    order = np.argsort(found.of_level, kind="stable")
    streams = rng.spawn(len(mu))

    def fill(chain: int) -> None:
        _fill(mu[chain], sd[chain], found.classes, order, streams[chain], effects[chain])

    with ThreadPoolExecutor(max(cores, 1)) as pool:
        list(pool.map(fill, range(len(mu))))
    return effects


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _log_ratio(u, top, k, n, mu, precision):  # pragma: no cover - compiled
    """Log of the integrand at the effect u over that at `top`."""
    eta, eta_top = mu + u, mu + top
    # log(1 + exp(eta)) without overflow.
    soft = max(eta, 0.0) + np.log1p(np.exp(-abs(eta)))
    soft_top = max(eta_top, 0.0) + np.log1p(np.exp(-abs(eta_top)))
    return k * (u - top) - n * (soft - soft_top) - 0.5 * precision * (u - top) * (u + top)


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _running(sides, right, left, sums):  # pragma: no cover - compiled
    """Running sums of the heights at the inner ends of the steps, right of the mode, then left.

    The last step of a side ends where the density is below exp(-30) of its largest value.
    """
    total, at = 0.0, 0
    for side in range(2):
        for j in range((right if side == 0 else left) + 1):
            total += sides[side, j]
            sums[at] = total
            at += 1


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _drawn(k, n, mu, precision, top, width, sides, right, sums, rng):
    # pragma: no cover - compiled
    """One effect."""
    while True:
        place = rng.random() * sums[-1]
        step = int(min(np.searchsorted(sums, place, side="right"), sums.shape[0] - 1))
        side, j = (0, step) if step <= right else (1, step - right - 1)
        inner, outer = sides[side, j], sides[side, j + 1]
        inside = 1.0 - (sums[step] - place) / inner
        u = top + (width if side == 0 else -width) * (j + inside)
        level = rng.random() * inner
        if level <= outer or level <= np.exp(_log_ratio(u, top, k, n, mu, precision)):
            return u


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _fill(mu, sd, classes, order, rng, effects):  # pragma: no cover - compiled
    """Effects (draw, n_levels) in place; `order` has the levels class by class."""
    sides = np.empty((2, MOST_NODES + 1))
    sums = np.empty(2 * MOST_NODES)
    for d in range(mu.shape[0]):
        precision = 1.0 / (sd[d] * sd[d])
        at, top = 0, 0.0
        for g in range(classes.shape[0]):
            k, n, count = classes[g, 0], classes[g, 1], int(classes[g, 2])
            top, curvature = level_mode(k, n, mu[d], precision, top)
            width, right, left = fill_sides(k, n, mu[d], precision, top, curvature, sides)
            known = sums[: right + left + 2]
            _running(sides, right, left, known)
            for level in order[at : at + count]:
                effects[d, level] = _drawn(
                    k, n, mu[d], precision, top, width, sides, right, known, rng
                )
            at += count
