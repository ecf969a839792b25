"""Ranks of simulated truths among posterior draws: uniform where the posterior is right.

The ECDF band is that of Säilynoja, Bürkner and Vehtari (2022), Statistics and Computing 32:32: a
pointwise binomial interval at every possible rank, at the level at which the whole path of a
uniform sample stays inside with the probability that is asked for. That probability is computed
by recursion over the ranks (their section 3), not simulated: at levels such as 0.01 over 60
quantities a simulation would need millions of paths.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import stats

__all__ = [
    "coverage",
    "coverage_limits",
    "path_p_value",
    "rank_of",
    "staying_probability",
]

Floats = npt.NDArray[np.float64]
Ranks = npt.NDArray[np.int64]


def rank_of(truth: Floats, draws: Floats, rng: np.random.Generator) -> Ranks:
    """Number of draws below the truth; among equal ones every place is as likely.

    Parameters
    ----------
    truth : array (n,)
    draws : array (n, L)
    rng : numpy.random.Generator

    Returns
    -------
    int64 array (n,)
        0 to L.
    """
    below = (draws < truth[:, None]).sum(axis=1)
    ties = (draws == truth[:, None]).sum(axis=1)
    return np.asarray(below + rng.integers(0, ties + 1), dtype=np.int64)


def coverage(ranks: Ranks, n_draws: int, level: float, rng: np.random.Generator) -> int:
    """How many truths lie in the central interval of this level.

    A rank r stands for the interval [r, r + 1] / (L + 1); the truth's place in it is drawn, so
    that the expected share is the level exactly, whatever the number of draws.
    """
    place = (ranks + rng.random(len(ranks))) / (n_draws + 1)
    return int((np.abs(place - 0.5) <= level / 2).sum())


def coverage_limits(n: int, level: float, error: float) -> tuple[int, int]:
    """Counts between which a coverage of `level` falls, outside with probability `error` at most.

    Equal-tailed binomial limits, both included.
    """
    low, high = stats.binom.ppf([error / 2, 1 - error / 2], n, level)
    return int(low), int(high)


def path_p_value(ranks: Ranks, n_draws: int) -> float:
    """Probability that uniform ranks have an ECDF as far out somewhere as this one.

    "Far out" is the smallest pointwise binomial tail over all ranks.
    """
    n = len(ranks)
    counts = np.bincount(ranks, minlength=n_draws + 1).cumsum()[:-1]
    z = np.arange(1, n_draws + 1) / (n_draws + 1)
    tails = np.minimum(stats.binom.cdf(counts, n, z), stats.binom.sf(counts - 1, n, z))
    # The tail itself must lie inside: the band that touches it is the widest that it leaves.
    return 1.0 - staying_probability(float(tails.min()) * (1 + 1e-9), n, n_draws)


def staying_probability(tail: float, n: int, n_draws: int) -> float:
    """Probability that the ECDF of uniform ranks has both binomial tails >= `tail` everywhere.

    Parameters
    ----------
    tail : float
        Of the pointwise band, on each side.
    n : int
        Ranks.
    n_draws : int
        L: ranks run from 0 to L.

    Notes
    -----
    The counts at successive ranks are a Markov chain: given c at z, the number between z and z'
    is Binomial(n - c, (z' - z) / (1 - z)).
    """
    counts = np.array([0])
    mass = np.array([1.0])
    before = 0.0
    for i in range(1, n_draws + 1):
        z = i / (n_draws + 1)
        inside = _inside(tail, n, z)
        step = inside[None, :] - counts[:, None]
        move = stats.binom.pmf(step, (n - counts)[:, None], (z - before) / (1 - before))
        mass, counts, before = mass @ move, inside, z
        if not mass.any():
            return 0.0
    return float(mass.sum())


def _inside(tail: float, n: int, z: float) -> Ranks:
    """Counts whose two binomial tails are not below `tail`."""
    every = np.arange(n + 1)
    low = stats.binom.cdf(every, n, z) >= tail
    high = stats.binom.sf(every - 1, n, z) >= tail
    return np.flatnonzero(low & high).astype(np.int64)
