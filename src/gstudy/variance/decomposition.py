"""Components on a named scale: latent draws in, variances that add up to one trial's out.

Score scale: the Hoeffding (functional ANOVA) components of the pass probability. With S the sum
of all variances of the logit and S_A that of the components inside the set A,

    V(A) = Cov(expit eta_1, expit eta_2) of two logits that share S_A,
    v(A) = V(A) - sum of v(B) over the proper subsets B of A.

Sets without a component of their own have a v(A) too: the logit link makes interactions. With the
noise of one trial, E[p(1-p)], the v(A) add up to m(1-m), the variance of one score.

Logit scale: the variances of the components themselves, and pi^2/3 of one trial.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gstudy.errors import GstudyError, QuantityError, did_you_mean, explain
from gstudy.study.index_sets import IndexSet
from gstudy.variance.draws import Array
from gstudy.variance.kernel import KERNEL_ERROR, logistic_moments
from gstudy.variance.latent import find_level

if TYPE_CHECKING:
    from gstudy.variance.basis import Basis
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
    "scale_of",
]

SCORE = "score"
LOGIT = "logit"
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
    """

    structure: Structure
    scale: str
    sets: tuple[IndexSet, ...]
    unique: Array
    mean: Array
    noise: Array

    @property
    def has_noise(self) -> bool:
        """Whether trials have noise of their own: assumed components may hold it themselves."""
        return bool(self.noise.any())

    @property
    def total(self) -> Array:
        """Variance of one trial, m(1-m) on the score scale; (chain, draw)."""
        return np.asarray(self.unique.sum(axis=0) + self.noise)

    def inside(self, index_set: IndexSet) -> Array:
        """V(A): the sum of v(B) over the sets inside A; (chain, draw)."""
        inside = np.array([own <= index_set for own in self.sets], dtype=float)
        return np.asarray(np.tensordot(inside, self.unique, axes=1))

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
    scale : {"score", "logit"}

    Returns
    -------
    Decomposition
    """
    if scale == LOGIT:
        noise = np.full(latent.mu.shape, _LOGISTIC_VARIANCE)
        order = [s for s in latent.structure.spanned(latent.sets) if s in latent.sets]
        unique = latent.variances[[latent.sets.index(s) for s in order]]
        return Decomposition(latent.structure, LOGIT, tuple(order), unique, latent.mu, noise)
    sets = tuple(latent.structure.spanned(latent.sets))
    shape = latent.mu.shape
    total = latent.variances.sum(axis=0)
    shared = np.empty((len(sets), latent.mu.size))
    for row, index_set in zip(shared, sets, strict=True):
        row[:] = latent.inside(index_set).ravel()
    moments = logistic_moments(latent.mu.ravel(), total.ravel(), shared)
    return Decomposition(
        structure=latent.structure,
        scale=SCORE,
        sets=sets,
        unique=hoeffding(moments.shared, sets).reshape(len(sets), *shape),
        mean=moments.mean.reshape(shape),
        noise=moments.noise.reshape(shape),
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
    unique = np.array(covariances, dtype=float)
    for i, index_set in enumerate(sets):
        for j in range(i):
            if sets[j] < index_set:
                unique[i] -= unique[j]
    lowest = float(unique.min(initial=0.0))
    if lowest < -KERNEL_ERROR:
        raise GstudyError(
            explain(
                "a score-scale component is negative by more than rounding can make",
                given=lowest,
                do="This is a fault of gstudy: please report it with the run file.",
            )
        )
    return np.asarray(np.maximum(unique, 0.0))


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
        return {None: _assumed(basis, scale, system)}
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
        return {None: decompose(latent, scale)}
    labels = list(known) if system is None else [find_level(system, known, latent.object)]
    return {label: decompose(latent.given(label), scale) for label in labels}


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
    if system not in (None, "new"):
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
        what = f"one level of {facet} was sampled" if facet else "the study has no object"
        raise QuantityError(
            explain(
                f"there is no population of systems to draw a new one from: {what}",
                given="system='new'",
                do="Leave system out.",
            )
        )
    find_level(system, known, facet)
