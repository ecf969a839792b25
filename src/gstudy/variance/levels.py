"""Variances and covariances between the levels of controlled facets, by index set.

With fixed effects b_l a trial at level l has mean logit mu + b_l. Two trials at levels l and l'
that share A and nothing else share the variance s_A(l, l') of the components inside A: all of
them when l = l', else those whose effects are the same at both levels, which are combinations of
several controlled facets' levels: the components whose own controlled facets agree. Then

    V_ll'(A) = Cov(expit eta_l, expit eta_l') of logits that share s_A(l, l'),

and v_ll'(A) are its Hoeffding differences. Off the diagonal they may be negative; their sum
over all pairs of levels with the weights of the levels is a variance and is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gstudy.errors import GstudyError, explain
from gstudy.study.index_sets import IndexSet
from gstudy.variance.draws import Array
from gstudy.variance.kernel import (
    KERNEL_ERROR,
    logistic_margin,
    margin_covariances,
    margin_moments,
)
from gstudy.variance.remembered import remembered

if TYPE_CHECKING:
    from gstudy.variance.controlled import Controlled
    from gstudy.variance.latent import Latent
    from gstudy.variance.margins import Margin

__all__ = [
    "LevelParts",
    "differences",
    "linear_levels",
    "margin_of",
    "not_negative",
    "score_levels",
]


@dataclass(frozen=True, slots=True, eq=False)
class LevelParts:
    """The variance of one trial at each controlled level, and what two levels share.

    Parameters
    ----------
    unique : array (n_sets, n_levels, n_levels, chain, draw)
        v_ll'(A).
    means : array (n_levels, chain, draw)
    noise : array (n_levels, chain, draw)
        Variance of one trial given everything else.
    """

    unique: Array
    means: Array
    noise: Array


def score_levels(latent: Latent, controlled: Controlled, sets: Sequence[IndexSet]) -> LevelParts:
    """The score-scale parts of pass probabilities.

    Parameters
    ----------
    latent : Latent
    controlled : Controlled
    sets : sequence of frozenset of str
        Small sets first; closed under unions.

    Returns
    -------
    LevelParts
    """
    n_levels, shape = len(controlled.levels), latent.mu.shape
    same = _shared(latent, sets, None)
    known: dict[IndexSet, Array] = {}
    margins = [margin_of(latent, level) for level in range(n_levels)]
    unique = np.empty((len(sets), n_levels, n_levels, latent.mu.size))
    noise, expected = np.empty((2, n_levels, latent.mu.size))
    for one in range(n_levels):
        moments = margin_moments(margins[one], same)
        noise[one], expected[one] = moments.noise, moments.mean
        unique[:, one, one] = not_negative(differences(moments.shared, sets))
        for two in range(one + 1, n_levels):
            agreeing = controlled.common(one, two)
            if agreeing not in known:
                known[agreeing] = _shared(latent, sets, agreeing)
            shared = margin_covariances(margins[one], margins[two], known[agreeing])
            unique[:, one, two] = unique[:, two, one] = differences(shared, sets)
    return LevelParts(
        unique.reshape(*unique.shape[:3], *shape),
        expected.reshape(n_levels, *shape),
        noise.reshape(n_levels, *shape),
    )


def margin_of(latent: Latent, level: int | None = None) -> Margin:
    """The expanded margin of one trial's logit, kept with the latent draws.

    Parameters
    ----------
    latent : Latent
    level : int, optional
        One of its controlled levels; by default none has an effect.

    Returns
    -------
    Margin
    """

    def expanded(own: Latent) -> Margin:
        mean = own.mu
        if level is not None and own.controlled is not None:
            mean = mean + own.controlled.offsets[level]
        return logistic_margin(mean.ravel(), own.total.ravel())

    return remembered(latent, ("margin", level), expanded)


def linear_levels(
    latent: Latent, controlled: Controlled, sets: Sequence[IndexSet], noise: Array
) -> LevelParts:
    """The parts on the scale of the linear predictor: variances of the components themselves.

    Parameters
    ----------
    latent : Latent
    controlled : Controlled
    sets : sequence of frozenset of str
    noise : array (chain, draw)

    Returns
    -------
    LevelParts
    """
    n_levels = len(controlled.levels)
    unique = np.zeros((len(sets), n_levels, n_levels, *latent.mu.shape))
    for index_set, held, variance in zip(latent.sets, latent.held, latent.variances, strict=True):
        unique[sets.index(index_set)] += controlled.agree(held)[..., None, None] * variance
    return LevelParts(
        unique, latent.mu + controlled.offsets, np.broadcast_to(noise, controlled.offsets.shape)
    )


def differences(covariances: Array, sets: Sequence[IndexSet]) -> Array:
    """v(A) from V(A): what each set adds to its proper subsets.

    Parameters
    ----------
    covariances : array (n_sets, n)
        V(A), of the same sets.
    sets : sequence of frozenset of str
        Small sets first; closed under unions.

    Returns
    -------
    array (n_sets, n)
    """
    unique = np.array(covariances, dtype=float)
    for i, index_set in enumerate(sets):
        for j in range(i):
            if sets[j] < index_set:
                unique[i] -= unique[j]
    return unique


def not_negative(variances: Array) -> Array:
    """The variances; what rounding leaves below zero is zero.

    Raises
    ------
    GstudyError
        When one is further below zero than the kernel's error, which cannot be.
    """
    lowest = float(variances.min(initial=0.0))
    if lowest < -KERNEL_ERROR:
        raise GstudyError(
            explain(
                "a score-scale component is negative by more than rounding can make",
                given=lowest,
                do="This is a fault of gstudy: please report it with the run file.",
            )
        )
    return np.asarray(np.maximum(variances, 0.0))


def _shared(latent: Latent, sets: Sequence[IndexSet], agreeing: IndexSet | None) -> Array:
    """s_A of each set at levels that agree on these controlled facets, (n_sets, n)."""
    shared = np.empty((len(sets), latent.mu.size))
    for row, index_set in zip(shared, sets, strict=True):
        row[:] = latent.inside(index_set, agreeing).ravel()
    return shared
