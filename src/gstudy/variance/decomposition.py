"""Components on a named scale: latent draws in, variances that add up to one trial's out.

Score scale: the Hoeffding (functional ANOVA) components of the pass probability. With S the sum
of all variances of the logit and S_A that of the components inside the set A,

    V(A) = Cov(expit eta_1, expit eta_2) of two logits that share S_A,
    v(A) = V(A) - sum of v(B) over the proper subsets B of A.

Sets without a component of their own have a v(A) too: the logit link makes interactions. With the
noise of one trial, E[p(1-p)], the v(A) add up to m(1-m), the variance of one score. Of graded
scores the v(A) are the variances of the components themselves.

Logit scale: the variances of the components themselves, and pi^2/3 of one trial.

With several controlled levels there is one v_ll'(A) for each pair of them; see `levels`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gstudy.errors import QuantityError, did_you_mean, explain
from gstudy.study.index_sets import IndexSet, close
from gstudy.variance.draws import Array
from gstudy.variance.kernel import margin_moments
from gstudy.variance.latent import GAUSSIAN, find_level
from gstudy.variance.levels import (
    LevelParts,
    differences,
    linear_levels,
    margin_of,
    not_negative,
    score_levels,
)
from gstudy.variance.remembered import remembered

if TYPE_CHECKING:
    from gstudy.variance.basis import Basis
    from gstudy.variance.controlled import Controlled
    from gstudy.variance.latent import Latent
    from gstudy.variance.structure import Structure

__all__ = [
    "LOGIT",
    "SCORE",
    "Decomposition",
    "average",
    "decompose",
    "decompositions",
    "hoeffding",
    "population",
    "scale_of",
]

SCORE = "score"
LOGIT = "logit"
MOST_NUMBERS = 20_000_000
"""Decompositions of all systems are kept together up to about so many numbers, 160 MB."""

# Residual variance of a logistic trial on the logit scale.
_LOGISTIC_VARIANCE = math.pi**2 / 3


@dataclass(frozen=True, slots=True, eq=False)
class Decomposition:
    """The variance of one trial's score, split into components; one scale.

    Parameters
    ----------
    structure : Structure
    scale : {"score", "logit"}
    sets : tuple of frozenset of str
        Small sets first.
    unique : array (n_sets, chain, draw)
        v(A), the variance of each set alone.
    mean : array (chain, draw)
        Score scale: expected score. Logit scale: expected logit.
    noise : array (chain, draw)
        Variance of one trial given everything else.
    controlled : Controlled or None
        With several controlled levels these and their weights w_l: `mean` and `noise` are then
        averages with weights w_l, and `unique` is the sum of w_l w_l' v_ll'(A), or of w_l v_ll(A)
        where A is nested in a controlled facet.
    levels : LevelParts or None
        The parts that were averaged.
    """

    structure: Structure
    scale: str
    sets: tuple[IndexSet, ...]
    unique: Array
    mean: Array
    noise: Array
    controlled: Controlled | None = None
    levels: LevelParts | None = None

    @property
    def level_unique(self) -> Array | None:
        """v_ll'(A) (n_sets, n_levels, n_levels, chain, draw); None with one controlled level."""
        return None if self.levels is None else self.levels.unique

    @property
    def level_means(self) -> Array | None:
        """Expected score at each controlled level (n_levels, chain, draw), or None with one."""
        return None if self.levels is None else self.levels.means

    @property
    def level_noise(self) -> Array | None:
        """Noise of one trial at each controlled level (n_levels, chain, draw), or None."""
        return None if self.levels is None else self.levels.noise

    @property
    def has_noise(self) -> bool:
        """Whether trials have noise of their own: assumed components may hold it themselves."""
        return bool(self.noise.any())

    @property
    def total(self) -> Array:
        """Variance of one trial, m(1-m) on the score scale; (chain, draw).

        With several controlled levels that of one trial within a level, averaged over levels.
        """
        return np.asarray(self._within().sum(axis=0) + self.noise)

    def inside(self, index_set: IndexSet) -> Array:
        """V(A): the sum of v(B) over the sets inside A; (chain, draw)."""
        return np.asarray(np.tensordot(self._are_inside(index_set), self.unique, axes=1))

    def within(self, index_set: IndexSet) -> Array:
        """V(A) of two trials at the same controlled level, averaged over levels; (chain, draw)."""
        return np.asarray(np.tensordot(self._are_inside(index_set), self._within(), axes=1))

    def _are_inside(self, index_set: IndexSet) -> Array:
        return np.array([own <= index_set for own in self.sets], dtype=float)

    def _within(self) -> Array:
        """v(A) of two trials at the same controlled level, averaged over levels."""
        if self.levels is None or self.controlled is None:
            return self.unique
        return np.asarray(
            np.einsum("l,allcd->acd", self.controlled.weights, self.levels.unique, optimize=True)
        )

    def of(self, index_set: IndexSet) -> Array:
        """v(A), zero for a set without a row; (chain, draw)."""
        if index_set in self.sets:
            return np.asarray(self.unique[self.sets.index(index_set)])
        return np.zeros(self.mean.shape)


def scale_of(scale: str) -> str:
    """The scale, checked.

    Raises
    ------
    QuantityError
        When it is neither "score" nor "logit".
    """
    if scale not in (SCORE, LOGIT):
        raise QuantityError(
            explain(
                "unknown scale",
                given=scale,
                allowed=(SCORE, LOGIT),
                do=did_you_mean(str(scale), (SCORE, LOGIT)),
            )
        )
    return scale


def decompose(latent: Latent, scale: str) -> Decomposition:
    """Split the variance of one trial on a scale.

    Parameters
    ----------
    latent : Latent
        Without components that have an sd per level of the object: those of a given one.
    scale : {"score", "logit"}

    Returns
    -------
    Decomposition

    Raises
    ------
    QuantityError
        For the logit scale of graded scores.
    """
    return remembered(latent, ("decomposition", scale), lambda own: _decomposed(own, scale))


def _decomposed(latent: Latent, scale: str) -> Decomposition:
    linear = scale == LOGIT or latent.family == GAUSSIAN
    spanned = latent.structure.spanned(latent.sets)
    sets = tuple(s for s in spanned if not linear or s in latent.sets)
    noise = _linear_noise(latent, scale) if linear else latent.mu
    if latent.controlled is not None:
        levels = (
            linear_levels(latent, latent.controlled, sets, noise)
            if linear
            else score_levels(latent, latent.controlled, sets)
        )
        return _over_levels(latent, scale, sets, levels)
    if linear:
        unique = _summed(latent, sets)
        return Decomposition(latent.structure, scale, sets, unique, latent.mu, noise)
    shape = latent.mu.shape
    shared = np.empty((len(sets), latent.mu.size))
    for row, index_set in zip(shared, sets, strict=True):
        row[:] = latent.inside(index_set).ravel()
    moments = margin_moments(margin_of(latent), shared)
    return Decomposition(
        structure=latent.structure,
        scale=SCORE,
        sets=sets,
        unique=hoeffding(moments.shared, sets).reshape(len(sets), *shape),
        mean=moments.mean.reshape(shape),
        noise=moments.noise.reshape(shape),
    )


def _linear_noise(latent: Latent, scale: str) -> Array:
    """Variance of one trial given everything else, on the scale of the linear predictor."""
    if latent.family != GAUSSIAN:
        return np.full(latent.mu.shape, _LOGISTIC_VARIANCE)
    if scale == LOGIT:
        raise QuantityError(
            explain(
                "graded scores have no logit scale: their components are in units of the score",
                given=scale,
                allowed=(SCORE,),
                do="Leave scale out.",
            )
        )
    assert latent.noise is not None
    return latent.noise


def _summed(latent: Latent, sets: Sequence[IndexSet]) -> Array:
    """Variances of the components by set; those of equal sets add."""
    unique = np.zeros((len(sets), *latent.mu.shape))
    for index_set, variance in zip(latent.sets, latent.variances, strict=True):
        unique[sets.index(index_set)] += variance
    return unique


def _over_levels(
    latent: Latent, scale: str, sets: tuple[IndexSet, ...], levels: LevelParts
) -> Decomposition:
    """The average over controlled levels, with the weights of the reported score.

    What is nested in a controlled facet, as tasks in domains, is at one level of it only: there
    the average is that of one trial, as for the noise.
    """
    assert latent.controlled is not None
    weights, structure = latent.controlled.weights, latent.structure
    unique = np.einsum("l,m,almcd->acd", weights, weights, levels.unique, optimize=True)
    nested = [i for i, s in enumerate(sets) if close(s, structure.nesting) & structure.controlled]
    unique[nested] = np.einsum("l,allcd->acd", weights, levels.unique[nested], optimize=True)
    return Decomposition(
        structure=latent.structure,
        scale=scale,
        sets=sets,
        unique=not_negative(unique),
        mean=np.tensordot(weights, levels.means, axes=1),
        noise=np.tensordot(weights, levels.noise, axes=1),
        controlled=latent.controlled,
        levels=levels,
    )


def hoeffding(covariances: Array, sets: Sequence[IndexSet]) -> Array:
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
        Not negative: what rounding leaves below zero is zero.

    Raises
    ------
    GstudyError
        When one is further below zero than the kernel's error, which cannot be.
    """
    return not_negative(differences(covariances, sets))


def decompositions(basis: Basis, scale: str, system: str | None) -> dict[str | None, Decomposition]:
    """One decomposition per system that is meant.

    Parameters
    ----------
    basis : Basis
    scale : {"score", "logit"}
    system : str or None
        A label; "new" for the population of systems; None for every fitted system by itself, or
        for the population where none is known.

    Returns
    -------
    dict
        Label (None: the population, or a study without an object) to its decomposition.

    Raises
    ------
    QuantityError
        For an unknown system or scale, and for "new" where the object was not sampled.
    """
    scale_of(scale)
    system = basis.system if system is None else system
    if basis.latent is None:
        label = None if system == "new" else basis.system
        return {label: _assumed(basis, scale, system)}
    latent, known = basis.latent, basis.latent.object_effects
    if latent.object is None:
        _check_single(known, system, basis.study.object)
        return {None: decompose(latent, scale)}
    if isinstance(system, str) and system == "new" and system in known:
        raise QuantityError(
            explain(
                f"system='new' means a new {latent.object}, and a level is called 'new' too",
                do="Rename that level in the trials, so that it is clear which one is meant.",
            )
        )
    whole = system is None and not known
    if whole or (isinstance(system, str) and system == "new"):
        return {None: population(latent, scale)}
    if system is not None:
        label = find_level(system, known, latent.object)
        return {label: decompose(latent.given(label), scale)}
    if len(known) * latent.mu.size * 2 ** len(latent.structure.facets) > MOST_NUMBERS:
        return _of_every_level(basis, scale)
    return remembered(basis, ("decompositions", scale), lambda own: _of_every_level(own, scale))


def _of_every_level(basis: Basis, scale: str) -> dict[str | None, Decomposition]:
    """Of each fitted level of the object, given."""
    latent = basis.latent
    assert latent is not None
    return {label: decompose(latent.given(label), scale) for label in latent.object_effects}


def population(latent: Latent, scale: str) -> Decomposition:
    """The decomposition over the population of the object.

    Raises
    ------
    QuantityError
        When each fitted level of the object has variances of its own: a new one's are unknown.
    """
    if latent.own:
        names = ", ".join(latent.structure.name(own.index_set) for own in latent.own)
        raise QuantityError(
            explain(
                f"each {latent.object} has its own sd of {names} here, so that those of a new one, "
                f"and what compares all {latent.object} levels, are unknown",
                do=f"Fit the study without varies = {latent.object!r}: shared sds serve Phi, "
                "E rho^2 and a new one.",
            )
        )
    return decompose(latent, scale)


def average(parts: Mapping[str | None, Decomposition]) -> Decomposition:
    """The mean of several systems' decompositions, per draw."""
    all_parts = list(parts.values())
    first = all_parts[0]
    if len(all_parts) == 1:
        return first
    return Decomposition(
        structure=first.structure,
        scale=first.scale,
        sets=first.sets,
        unique=np.mean([part.unique for part in all_parts], axis=0),
        mean=np.mean([part.mean for part in all_parts], axis=0),
        noise=np.mean([part.noise for part in all_parts], axis=0),
        controlled=first.controlled,
        levels=_average_levels([part.levels for part in all_parts]),
    )


def _average_levels(parts: Sequence[LevelParts | None]) -> LevelParts | None:
    known = [part for part in parts if part is not None]
    if not known:
        return None
    return LevelParts(
        np.mean([part.unique for part in known], axis=0),
        np.mean([part.means for part in known], axis=0),
        np.mean([part.noise for part in known], axis=0),
    )


def _assumed(basis: Basis, scale: str, system: str | None) -> Decomposition:
    assert basis.score is not None
    if scale == LOGIT:
        raise QuantityError(
            explain(
                "components assumed on the score scale have no logit scale",
                given=scale,
                allowed=(SCORE,),
                do="Assume variances on the logit scale: gs.assume(..., mu=, scale='logit').",
            )
        )
    if system not in (None, "new", basis.system):
        raise QuantityError(
            explain(
                f"assumed score-scale components know no system {system!r}",
                allowed="None, 'new'",
                do="Assume logit-scale components with effects={label: logit} to give systems.",
            )
        )
    return basis.score


def _check_single(known: Mapping[str, object], system: str | None, facet: str | None) -> None:
    """The object has one level, or there is none: what may be asked for."""
    if system is None or system in known:
        return
    if system == "new":
        what = f"one level of {facet} was sampled" if known else "none has effects of its own"
        what = what if facet else "the study has no object"
        raise QuantityError(
            explain(
                f"there is no population of systems to draw a new one from: {what}",
                given="system='new'",
                do="Leave system out.",
            )
        )
    find_level(system, known, facet)
