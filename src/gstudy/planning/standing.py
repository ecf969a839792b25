"""What stands now: a design's contributions, and how they change with the levels of its facets.

A design that is k times as large in one facet, spread as it is now, repeats its trials with new
levels of that facet and of what is nested in it. Each level g of a set A that holds the facet then
has k copies with 1/k of the weight, so that q_A = sum of W_g^2 falls to q_A / k; the q_A of other
sets, and what a claim takes out of them, stay. That is exact for a design as collected too, however
uneven it is, and no balanced design has to stand in for it. Levels that are no whole multiple of
those now are taken to spread as they do.

With one level of a facet in each of its parents, which keep their weights, q_A becomes q_A q_P /
q_F: F is the facet with its parents P, and q_P / q_F the effective number of its levels.

Where a component is merged, its set stands for several: those that hold the facet fall, the others
do not, and the data cannot tell which it is. Both ends are kept.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from gstudy.planning.merged import changed_alone
from gstudy.planning.prices import price
from gstudy.study.designs import TRIALS, Design
from gstudy.study.index_sets import IndexSet, close
from gstudy.study.partition import split
from gstudy.variance.contributions import (
    averaged_object,
    error_variance,
    pairs_of,
    trial_noise,
)
from gstudy.variance.designs import checked_counts, following, needed_counts
from gstudy.variance.draws import Array
from gstudy.variance.trial_weights import object_rows
from gstudy.variance.weights import Weights, mean_weights, weights_within

if TYPE_CHECKING:
    from gstudy.variance.basis import Basis
    from gstudy.variance.claims import Claim
    from gstudy.variance.controlled import Controlled
    from gstudy.variance.decomposition import Decomposition
    from gstudy.variance.patterns import Count
    from gstudy.variance.structure import Structure

__all__ = ["WHOLE", "Standing", "Stands", "most_of", "standing_of"]

WHOLE = 1e-9
"""Levels as collected are means, and a universe is whole: closer than this they are the same."""


class Stands(Protocol):
    """A design whose facets can change one at a time."""

    @property
    def facets(self) -> list[str]:
        """Facets that can change."""

    @property
    def levels(self) -> Mapping[str, float]:
        """Their levels now."""

    @property
    def claim(self) -> Claim:
        """What the score is the score of."""

    @property
    def structure(self) -> Structure:
        """How the facets hang together."""


@dataclass(frozen=True, slots=True, eq=False)
class Standing:
    """The variance of a score under a design, in parts that scale with numbers of levels.

    Parameters
    ----------
    basis : Basis
    structure : Structure
    claim : Claim
    sets : tuple of frozenset of str
    values : array (2 n_sets + 1, n_draws)
        v(A) q_A of each set, the trial noise, and minus what the claim takes out of each set.
    levels : mapping of str to float
        Levels of each facet now, of a nested one per combination of its parents, controlled ones
        too; as collected a mean. Their product, with the controlled levels and with what "trials"
        makes up for, is the number of trials.
    effective : mapping of str to float
        Levels of each facet, of those in one combination of its parents, that would weigh alike.
    controlled : Controlled or None
        The controlled levels, where there are several.
    """

    basis: Basis
    structure: Structure
    claim: Claim
    sets: tuple[IndexSet, ...]
    values: Array
    levels: Mapping[str, float]
    effective: Mapping[str, float]
    controlled: Controlled | None = None

    @property
    def facets(self) -> list[str]:
        """Facets whose levels a design counts, in declared order; pinned ones stay."""
        return [f for f in needed_counts(self.structure) if f not in self.claim.pinned]

    @property
    def variance(self) -> Array:
        """Variance of the score now, (n_draws,)."""
        return np.asarray(self.values.sum(axis=0))

    def factors(
        self, counts: Mapping[str, Any], *, judges: str = "all", relative: bool = False
    ) -> Array:
        """What each row of `values` is multiplied by under other numbers of levels.

        Of merged components the levels go together.

        Returns
        -------
        array (n_designs, n_rows)
        """
        del judges, relative
        follows = following(self.structure)
        changes = {
            facet: self.levels[facet] / np.asarray(n, dtype=float)
            for facet, n in counts.items()
            if facet not in follows
        }
        noise = math.prod(changes.values())
        columns = [
            *(self._ratio(index_set, changes) for index_set in self.sets),
            noise,
            *(1.0 for _ in self.sets),
        ]
        n_designs = np.broadcast(*(np.atleast_1d(n) for n in counts.values()), np.ones(1)).size
        return np.stack([np.broadcast_to(c, (n_designs,)) for c in columns], axis=1)

    def scaled(self, facet: str, times: float) -> tuple[Array, Array]:
        """The least and the most variance with so many times the levels of a facet.

        Parameters
        ----------
        facet : str
        times : float
            Infinity for levels without end.

        Returns
        -------
        least, most : array (n_draws,)
            The same but for merged components.
        """
        at_best, at_worst = changed_alone(self.structure, self.sets, facet)
        taken = [1.0] * len(self.sets)
        found = [
            np.array([*(1 / times if changes else 1.0 for changes in end), *taken]) @ self.values
            for end in (at_best, at_worst)
        ]
        return np.minimum(*found), np.maximum(*found)

    def price(
        self, cost: Mapping[str, float] | None, facet: str | None, times: float, systems: int = 1
    ) -> float:
        """What a design costs with so many times the levels of a facet, for so many systems."""
        follows = following(self.structure)
        # A facet that others determine makes no trials of its own, until it changes alone.
        changed = TRIALS if facet in follows else facet
        counts = dict(self.levels)
        for name in {facet, changed} - {None}:
            counts[str(name)] = counts.get(str(name), 1.0) * times
        return float(self.priced(cost, counts, systems))

    def priced(
        self, cost: Mapping[str, float] | None, counts: Mapping[str, Count], systems: int = 1
    ) -> Count:
        """What designs of these numbers of levels cost, for so many systems."""
        return price(
            self.basis.study,
            cost,
            counts,
            systems=systems,
            follows=following(self.structure),
            controlled=self.controlled,
        )

    def _ratio(self, index_set: IndexSet, changes: Mapping[str, Array]) -> Any:
        return math.prod((x for facet, x in changes.items() if facet in index_set), start=1.0)


def standing_of(
    basis: Basis,
    parts: Mapping[str | None, Decomposition],
    design: Design | None,
    claim: Claim,
) -> Standing:
    """What stands under a design in which every judge scores everything.

    Parameters
    ----------
    basis : Basis
    parts : mapping of str or None to Decomposition
    design : Design or None
        None for the design as collected.
    claim : Claim

    Returns
    -------
    Standing

    Raises
    ------
    QuantityError
        For a design that is not usable, and for none where no data were collected.
    """
    first = next(iter(parts.values()))
    structure = first.structure
    values = _values(pairs_of(basis, parts, design, claim))
    if design is not None:
        counts = checked_counts(structure, design, claim.finite)
        levels = effective = {f: counts.get(f, 1.0) for f in needed_counts(structure)}
    else:
        assert basis.cells is not None
        levels = _levels(basis, first, list(parts))
        effective = _effective(basis, first, claim, levels, list(parts))
    return Standing(
        basis, structure, claim, first.sets, values, levels, effective, first.controlled
    )


def most_of(standing: Stands, facet: str) -> float:
    """Levels in the universe, of a nested facet per parent; infinity without one."""
    return float(standing.claim.finite.get(facet, math.inf))


def _values(pairs: Sequence[tuple[Decomposition, Weights]]) -> Array:
    """Rows of `Standing.values`, averaged over systems."""
    found = []
    for part, weights in pairs:
        own, n_sets = part.structure.object_set, len(part.sets)
        plain = replace(weights, bank={})
        held = [error_variance(part, plain, i) for i in range(n_sets)]
        # What the claim takes out of a set with the object is a part of the object's variance.
        taken = [
            np.zeros_like(held[i])
            if own and own <= part.sets[i]
            else error_variance(part, weights, i) - held[i]
            for i in range(n_sets)
        ]
        found.append(np.stack([*held, trial_noise(part, weights), *taken]))
    return np.asarray(np.mean(found, axis=0)).reshape(len(found[0]), -1)


def _levels(basis: Basis, part: Decomposition, labels: Sequence[str | None]) -> dict[str, float]:
    """Mean levels of each facet as collected, of one system."""
    assert basis.cells is not None
    cells, structure, object_facet = basis.cells, part.structure, basis.study.object
    groups = object_rows(cells, object_facet)
    chosen = [rows for label, rows in groups.items() if label in labels] or list(groups.values())
    trials = float(np.mean([cells.trials[rows].sum() for rows in chosen]))
    found: dict[str, float] = {}
    for facet in structure.order:
        if facet not in structure.facets or facet == structure.object:
            continue
        known = close({facet}, structure.nesting)
        columns = [i for i, name in enumerate(cells.facets) if name in known - {object_facet}]
        units = float(np.mean([split(cells.codes[rows], columns).n_levels for rows in chosen]))
        above = math.prod(found.get(f, 1.0) for f in known - {facet})
        found[facet] = units / (above * _n_controlled(part, known))
    follows = following(structure)
    run = math.prod(n for facet, n in found.items() if facet not in follows)
    rest = trials / (run * _n_controlled(part, structure.controlled))
    # One facet inside the residual makes the trials of a cell; where there is none, "trials"
    # makes up for a crossing that is not complete.
    inside = [TRIALS] if structure.counts_trials else list(structure.absorbed)
    found |= dict.fromkeys(structure.absorbed, 1.0)
    return found | {(inside or [TRIALS])[0]: rest}


def _n_controlled(part: Decomposition, facets: IndexSet) -> int:
    """Combinations of the controlled levels of some facets."""
    return 1 if part.controlled is None else part.controlled.n_levels(facets)


def _effective(
    basis: Basis,
    part: Decomposition,
    claim: Claim,
    levels: Mapping[str, float],
    labels: Sequence[str | None],
) -> dict[str, float]:
    """Effective levels of each facet: q of its parents over q with it, of the average system."""
    structure = part.structure
    sampled = [f for f in levels if f in structure.facets]
    closed = {f: close({f}, structure.rules) - structure.object_set for f in sampled}
    parents = {f: (close({f}, structure.nesting) - {f}) & frozenset(sampled) for f in sampled}
    above = {f: close(parents[f], structure.rules) - structure.object_set for f in sampled}
    whole = frozenset(structure.facets) - structure.object_set
    sets = list(dict.fromkeys([whole, *closed.values(), *above.values()]))
    known = weights_within(
        structure,
        sets,
        averaged_object(basis, structure),
        design=None,
        cells=basis.cells,
        claim=claim,
        controlled=part.controlled,
    )
    chosen = [known[label] for label in labels if label in known and label is not None]
    mean = mean_weights(chosen) if chosen else known[None]

    def shared(index_set: IndexSet, within: IndexSet) -> float:
        """q of a set at controlled levels that agree on those within which it is counted."""
        factor = mean.of(index_set, structure.object) if index_set else 1.0
        if part.controlled is None:
            return float(np.sum(factor))
        weights = part.controlled.weights
        pairs = factor if np.ndim(factor) else factor * np.outer(weights, weights)
        return float(np.sum(pairs * part.controlled.agree(within)))

    found = {}
    for facet in sampled:
        within = close({facet}, structure.nesting) & structure.controlled
        found[facet] = shared(above[facet], within) / shared(closed[facet], within)
    rest = shared(whole, structure.controlled) / float(np.sum(mean.noise))
    return found | {f: rest if n != 1 else 1.0 for f, n in levels.items() if f not in found}
