"""What each set contributes to the variance of a reported mean: v(A) q_A and the trial noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gstudy.errors import QuantityError, explain
from gstudy.variance.claims import Claim, claim_of
from gstudy.variance.decomposition import Decomposition
from gstudy.variance.draws import Array
from gstudy.variance.weights import Factor, Weights, weights_within

if TYPE_CHECKING:
    from gstudy.variance.basis import Basis
    from gstudy.variance.controlled import Controlled
    from gstudy.variance.structure import Structure

__all__ = [
    "averaged_object",
    "contributions",
    "effective_levels",
    "error_variance",
    "mean_contributions",
    "pairs_of",
    "total_error",
    "trial_noise",
    "universe_variance",
]

Pair = tuple[Decomposition, Weights]


def pairs_of(
    basis: Basis,
    parts: Mapping[str | None, Decomposition],
    design: Mapping[str, Any] | None,
    claim: Claim | None = None,
) -> list[Pair]:
    """Each system's decomposition with the weights of its own trials, or of a design.

    Parameters
    ----------
    basis : Basis
    parts : mapping of str or None to Decomposition
    design : mapping or None
    claim : Claim, optional
        By default the one that the study declares.

    Raises
    ------
    QuantityError
        For a design that is not usable, and a system without trials where there is none.
    """
    first = next(iter(parts.values()))
    if claim is None:
        claim = claim_of(basis.study, first.structure, design=design)
    weights = weights_within(
        first.structure,
        first.sets,
        averaged_object(basis, first.structure),
        design=design,
        cells=basis.cells,
        claim=claim,
        controlled=_levels_of(basis, first, design),
    )
    if design is not None:
        return [(part, weights[None]) for part in parts.values()]
    missing = [label for label in parts if label not in weights]
    if missing:
        raise QuantityError(
            explain(f"no trials of {missing[0]!r} were collected", do="Pass a design.")
        )
    return [(part, weights[label]) for label, part in parts.items()]


def _levels_of(
    basis: Basis, part: Decomposition, design: Mapping[str, Any] | None
) -> Controlled | None:
    """The controlled levels; a design weighs them alike for all systems, as on average."""
    if design is None or basis.latent is None:
        return part.controlled
    return basis.latent.controlled


def averaged_object(basis: Basis, structure: Structure) -> str | None:
    """The facet each level of which has its own score; none where all trials are one score.

    An object inside the residual has no effects: its levels only multiply the number of trials.
    """
    known = {structure.object, *structure.given, *structure.not_sampled}
    return basis.study.object if basis.study.object in known else None


def mean_contributions(pairs: Sequence[Pair]) -> tuple[Array, list[float]]:
    """Contributions to the variance of the mean, averaged over systems per draw.

    Returns
    -------
    contributions : array (n_components, chain, draw)
        Sets in their order, then the trial noise where there is any.
    levels : list of float
        1/q_A of each, q_A averaged over systems.
    """
    draws = np.mean([contributions(part, weights) for part, weights in pairs], axis=0)
    return draws, effective_levels(pairs)[: len(draws)]


def effective_levels(pairs: Sequence[Pair]) -> list[float]:
    """1/q_A of each set, q_A averaged over systems, then 1/sum of the squared trial weights."""
    q = np.array(
        [
            [
                *(_summed(weights.of(s, part.structure.object)) for s in part.sets),
                _summed(weights.noise),
            ]
            for part, weights in pairs
        ]
    )
    with np.errstate(divide="ignore"):
        return [float(x) for x in 1 / q.mean(axis=0)]


def contributions(part: Decomposition, weights: Weights) -> Array:
    """What each set contributes to the variance of the mean, then the trial noise if any.

    What a claim takes out of the error of a set that holds the object is part of the variance
    between levels of the object, and counts in their row where there is one.

    Parameters
    ----------
    part : Decomposition
    weights : Weights

    Returns
    -------
    array (n_components, chain, draw)
    """
    if part.levels is None and not weights.bank:
        measured = part.structure.object
        q = np.array([weights.of(s, measured) for s in part.sets], dtype=float)
        values = q[:, None, None] * part.unique
    else:
        values = np.array([error_variance(part, weights, i) for i in range(len(part.sets))])
        values = values.reshape(len(part.sets), *part.mean.shape)
        own, parts = part.structure.object_set, _universe_parts(part, weights)
        if own in part.sets:
            values[part.sets.index(own)] += parts.sum(axis=0)
        else:
            values += parts
    noise = [trial_noise(part, weights)[None]] if part.has_noise else []
    return np.concatenate([values, *noise])


def error_variance(part: Decomposition, weights: Weights, place: int) -> Array:
    """v(A) (q_A - the part that the claim takes out), of the set at `place`; (chain, draw)."""
    measured, index_set = part.structure.object, part.sets[place]
    factor = weights.of(index_set, measured) - weights.claimed(index_set, measured)
    return _times(part, place, factor)


def total_error(part: Decomposition, weights: Weights, *, relative: bool = False) -> Array:
    """Error variance of the mean: all that is not between levels of the object; (chain, draw).

    Parameters
    ----------
    part : Decomposition
    weights : Weights
    relative : bool
        Leave out the sets without the object, which move all of its levels alike.
    """
    own = part.structure.object_set
    total = trial_noise(part, weights)
    for place, index_set in enumerate(part.sets):
        alike = not (own <= index_set or index_set & weights.apart)
        if not index_set <= own and not (relative and alike):
            total = total + error_variance(part, weights, place)
    return total


def universe_variance(part: Decomposition, weights: Weights) -> Array:
    """What sets with the object and only finite or pinned facets add to the variance between
    levels of the object, v(A) sum W_g^2; (chain, draw)."""
    return np.asarray(_universe_parts(part, weights).sum(axis=0))


def _universe_parts(part: Decomposition, weights: Weights) -> Array:
    """That of each set, (n_sets, chain, draw)."""
    own, measured = part.structure.object_set, part.structure.object
    values = np.zeros((len(part.sets), *part.mean.shape))
    for place, index_set in enumerate(part.sets):
        if own and own < index_set:
            values[place] = _times(part, place, weights.claimed(index_set, measured))
    return values


def trial_noise(part: Decomposition, weights: Weights) -> Array:
    """The noise of single trials in the mean, (chain, draw)."""
    if part.levels is None:
        return np.asarray(part.noise * weights.noise)
    return np.asarray(np.tensordot(weights.noise, part.levels.noise, axes=1))


def _times(part: Decomposition, place: int, factor: Factor) -> Array:
    """v(A) times a factor, summed over pairs of controlled levels."""
    if part.levels is None or np.ndim(factor) == 0:
        return np.asarray(factor * part.unique[place])
    return np.asarray(np.tensordot(factor, part.levels.unique[place], axes=2))


def _summed(factor: Factor) -> float:
    return float(np.sum(factor))
