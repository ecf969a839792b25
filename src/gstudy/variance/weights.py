"""How the trials of a reported mean spread over the levels of each index set.

With trial weights w_i that sum to 1 a set A enters the variance of the mean with

    q_A = sum over the levels g of A of (sum of w_i in g)^2,

and the noise of one trial with the sum of w_i^2. 1/q_A is the effective number of levels. With
several controlled levels q_A is a matrix, the sum over g of W_gl W_gl', W_gl the trial weight in g
at level l.

Where all facets of A besides the object are finite or pinned, the score is claimed for a bank of
levels with weights W_g, and A enters the error with

    q_A - 2 sum_g w_g W_g + sum_g W_g^2 = q_A - sum_g W_g^2,

for the W_g of equal levels, as well as for pinned levels with the weights of the data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from gstudy.errors import QuantityError, explain
from gstudy.study.designs import TRIALS, Design
from gstudy.study.index_sets import IndexSet, close
from gstudy.study.partition import split
from gstudy.variance.claims import Claim
from gstudy.variance.controlled import level_rows
from gstudy.variance.designs import checked_counts, following, needed_counts
from gstudy.variance.draws import Array
from gstudy.variance.patterns import Count, Spread
from gstudy.variance.trial_weights import Rows, cell_weights, known_errors, object_rows

if TYPE_CHECKING:
    from gstudy.study.cells import Cells
    from gstudy.variance.controlled import Controlled
    from gstudy.variance.structure import Structure

__all__ = [
    "Factor",
    "Weights",
    "balanced",
    "bank_parts",
    "collected",
    "level_products",
    "mean_weights",
    "weights_within",
]

Factor = float | Array
"""q_A: a number, or (n_levels, n_levels) with several controlled levels; of several balanced
designs at a time, without controlled levels, (n_designs,)."""

_NOTHING: IndexSet = frozenset()


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights of one reported mean, within one level of the object.

    Parameters
    ----------
    q : mapping of frozenset of str to float or array (n_levels, n_levels)
        q_A by index set, the object left out of the set: it counts 1.
    noise : float or array (n_levels,)
        Sum of the squared trial weights, 1/N of N trials alike; per controlled level. With known
        errors each trial counts by its squared error over their mean.
    bank : mapping of frozenset of str to float or array (n_levels, n_levels)
        Of each set whose facets are all finite or pinned the part of q_A that is no error, the sum
        of W_g^2; others are left out.
    apart : frozenset of str
        Facets of which no two levels of the object share a level, as judges that are fresh.
    """

    q: Mapping[IndexSet, Factor]
    noise: Factor
    bank: Mapping[IndexSet, Factor] = field(default_factory=dict)
    apart: IndexSet = _NOTHING

    def of(self, index_set: IndexSet, object_facet: str | None) -> Factor:
        """q_A of a set that may hold the object."""
        return self.q[index_set - {object_facet}] if object_facet else self.q[index_set]

    def claimed(self, index_set: IndexSet, object_facet: str | None) -> Factor:
        """The part of q_A that the claim takes out of the error, of a set that may hold the
        object; 0 of most."""
        return self.bank.get(index_set - {object_facet}, 0.0)

    def crossed(self, index_set: IndexSet) -> Factor:
        """q_A less what the claim takes out, of the covariance with another level of the object
        under the same design; of a set without the object."""
        if index_set & self.apart:
            return 0.0 * self.q[index_set]
        return self.q[index_set] - self.claimed(index_set, None)


def balanced(
    structure: Structure,
    counts: Mapping[str, Count],
    sets: Iterable[IndexSet],
    *,
    claim: Claim | None = None,
    controlled: Controlled | None = None,
    judges: str = "all",
) -> Weights:
    """Weights of a balanced design: with every judge on every unit q_A = 1 / product of the counts.

    Parameters
    ----------
    structure : Structure
    counts : mapping of str to float or array (n_designs,)
        Levels of each facet as `read_design` gives them, of a nested facet per parent; infinity
        is allowed. Arrays, for several designs at a time, only without controlled levels.
    sets : iterable of frozenset of str
    claim : Claim, optional
        By default nothing is finite or pinned.
    controlled : Controlled, optional
        The design is crossed with their levels, or nested in them, and weighs them so.
    judges : str
        Who judges what; see `patterns`.

    Returns
    -------
    Weights
    """
    spread = Spread.of(structure, counts, following(structure), judges)

    def share(index_set: IndexSet) -> Factor:
        return level_products(structure, index_set, controlled) / spread.levels(index_set)

    reduced = _reduced(sets, structure.object)
    each: Factor = 1.0 if controlled is None else controlled.weights**2
    return Weights(
        {index_set: share(index_set) for index_set in reduced},
        each / (spread.trials * counts.get(TRIALS, 1)),
        bank_parts(structure, reduced, claim or Claim(), share, controlled),
        spread.apart,
    )


def collected(
    cells: Cells,
    sets: Iterable[IndexSet],
    object_facet: str | None,
    *,
    structure: Structure | None = None,
    claim: Claim | None = None,
    controlled: Controlled | None = None,
) -> dict[str | None, Weights]:
    """Weights of the design as collected, within each level of the object.

    Parameters
    ----------
    cells : Cells
    sets : iterable of frozenset of str
    object_facet : str or None
        Without one, all cells are one mean.
    structure : Structure, optional
        Needed with a claim and with controlled levels.
    claim : Claim, optional
        By default every trial weighs alike, and nothing is finite or pinned.
    controlled : Controlled, optional

    Returns
    -------
    dict
        Label of the level (None without an object) to its weights.
    """
    reduced = _reduced(sets, object_facet)
    claim = claim or Claim()
    levels = None if controlled is None else level_rows(cells, controlled)
    squares = known_errors(cells)
    found = {}
    for label, rows in object_rows(cells, object_facet).items():
        # Whole numbers of trials alike stay exact until they are divided.
        weights = cells.trials[rows].astype(np.float64)
        if claim.over:
            weights = cell_weights(cells, rows, claim.over)
        own = None if levels is None or controlled is None else _Levels(levels[rows], controlled)
        share = _sharing(cells, rows, weights, own, structure)
        found[label] = Weights(
            {index_set: share(index_set) for index_set in reduced},
            _noise(cells, rows, weights, own, squares),
            {} if structure is None else bank_parts(structure, reduced, claim, share, controlled),
        )
    return found


def weights_within(
    structure: Structure,
    sets: Sequence[IndexSet],
    object_facet: str | None,
    *,
    design: Mapping[str, Any] | None,
    cells: Cells | None,
    claim: Claim | None = None,
    controlled: Controlled | None = None,
) -> dict[str | None, Weights]:
    """Weights within each level of the object; under None those of the average level.

    Parameters
    ----------
    structure : Structure
    sets : sequence of frozenset of str
    object_facet : str or None
        The facet whose levels are averaged over, also when one of them is given.
    design : mapping or None
        A balanced design, alike for every level; None for the design as collected.
    cells : Cells or None
    claim : Claim, optional
    controlled : Controlled, optional

    Returns
    -------
    dict

    Raises
    ------
    QuantityError
        For a design that is not usable or has more levels than the universe of its facet, and for
        none where no data were collected.
    """
    if design is not None:
        judges = Design.read(design).judges
        counts = checked_counts(structure, design, (claim or Claim()).finite)
        found = balanced(structure, counts, sets, claim=claim, controlled=controlled, judges=judges)
        return {None: found}
    if cells is None:
        raise QuantityError(
            explain(
                "assumed components have no design as collected",
                allowed=f"a number of levels for each of {', '.join(needed_counts(structure))}",
                do="Pass design={facet: number of levels}.",
            )
        )
    own = collected(
        cells, sets, object_facet, structure=structure, claim=claim, controlled=controlled
    )
    return {None: mean_weights(own.values()), **own}


def mean_weights(parts: Iterable[Weights]) -> Weights:
    """The average design: q_A and noise averaged over several designs."""
    designs = list(parts)
    return Weights(
        {s: _mean([design.q[s] for design in designs]) for s in designs[0].q},
        _mean([design.noise for design in designs]),
        {s: _mean([design.bank[s] for design in designs]) for s in designs[0].bank},
    )


def _mean(values: Sequence[Factor]) -> Factor:
    mean = np.mean([np.asarray(value) for value in values], axis=0)
    return float(mean) if np.ndim(mean) == 0 else np.asarray(mean)


def _reduced(sets: Iterable[IndexSet], object_facet: str | None) -> list[IndexSet]:
    return list(dict.fromkeys(index_set - {object_facet} for index_set in sets))


@dataclass(frozen=True, slots=True, eq=False)
class _Levels:
    """The controlled level of each of some cells."""

    rows: Rows
    controlled: Controlled

    @property
    def n(self) -> int:
        return len(self.controlled.levels)


def _sharing(
    cells: Cells, rows: Rows, weights: Array, levels: _Levels | None, structure: Structure | None
) -> Callable[[IndexSet], Factor]:
    """The function from a set to its q_A, for trials as collected."""
    nesting = () if structure is None else structure.nesting
    codes, total = cells.codes[rows], weights.sum()

    def share(index_set: IndexSet) -> Factor:
        # A level of a nested facet is the tuple of its parents' labels and its own.
        known = close(index_set, nesting)
        columns = [i for i, facet in enumerate(cells.facets) if facet in known]
        groups = split(codes, columns)
        if levels is None:
            sums = np.bincount(groups.index, weights=weights)
            return float(sums @ sums / total**2)
        places = groups.index * levels.n + levels.rows
        flat = np.bincount(places, weights=weights, minlength=groups.n_levels * levels.n)
        table = flat.reshape(groups.n_levels, levels.n)
        return np.asarray(table.T @ table / total**2)

    return share


def _noise(
    cells: Cells, rows: Rows, weights: Array, levels: _Levels | None, squares: Array | None
) -> Factor:
    """Sum of the squared trial weights; the trials of a cell weigh alike."""
    each = weights**2 / cells.trials[rows] / weights.sum() ** 2
    if squares is not None:
        each = each * squares[rows] * (cells.trials.sum() / (squares @ cells.trials))
    if levels is None:
        return float(each.sum())
    return np.bincount(levels.rows, weights=each, minlength=levels.n)


def bank_parts(
    structure: Structure,
    reduced: Iterable[IndexSet],
    claim: Claim,
    share: Callable[[IndexSet], Factor],
    controlled: Controlled | None,
) -> dict[IndexSet, Factor]:
    """Of each set whose facets are all finite or pinned the sum of W_g^2.

    `share` gives q_A of a set, or of two systems the sum of w1_g w2_g: then W1_g W2_g is summed.
    Pinned facets have the levels and weights of the data, each of the other facets' N levels below
    them the same weight: the sum over the pinned levels of (sum of w_i)^2, over N.
    """
    gone = structure.object_set
    follows = following(structure)
    found = {}
    for index_set in reduced:
        inside = index_set - gone
        if not claim.closed(inside):
            continue
        pinned = inside & claim.pinned
        n_levels = math.prod(claim.finite[f] for f in inside - pinned if f not in follows)
        whole = share(pinned) if pinned else _whole(share, controlled)
        apart = _agreeing(structure, inside, controlled)
        found[index_set] = whole * apart / n_levels
    return found


def _whole(share: Callable[[IndexSet], Factor], controlled: Controlled | None) -> Factor:
    """q of no facet at all: 1, or the products of the weights of two controlled levels."""
    return 1.0 if controlled is None else share(_NOTHING)


def _agreeing(structure: Structure, index_set: IndexSet, controlled: Controlled | None) -> Factor:
    """1 for the pairs of controlled levels that can have a level of the set in common."""
    if controlled is None:
        return 1.0
    return controlled.agree(close(index_set, structure.nesting))


def level_products(
    structure: Structure, index_set: IndexSet, controlled: Controlled | None
) -> Factor:
    """w_l w_l' of each pair of controlled levels that can have a level of the set in common.

    Parameters
    ----------
    structure : Structure
    index_set : frozenset of str
    controlled : Controlled or None
        Without several controlled levels it is 1.

    Returns
    -------
    float or array (n_levels, n_levels)
    """
    if controlled is None:
        return 1.0
    products = np.outer(controlled.weights, controlled.weights)
    return np.asarray(products * _agreeing(structure, index_set, controlled))
