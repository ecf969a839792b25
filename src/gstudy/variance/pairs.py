"""Two given systems: the variance of the difference of their reported scores.

Trials of two systems share tasks, judges and environments, but nothing that belongs to one system.
With S_12(A) the shared variance of the components inside A that do not hold the object (of a
component with own variances, correlation times the two sds),

    V12(A) = Cov(expit eta_1, expit eta_2) of logits that share S_12(A),
    Cov = sum over A of  v12(A) * sum over the levels g of A of  w1_g w2_g,
    Var(B - A) = Var_A + Var_B - 2 Cov,

v12 the Hoeffding differences of V12, w_g the weight of a system's trials in level g. Each system
has its own trial noise, and none of it is in Cov.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from gstudy.errors import QuantityError, did_you_mean, explain
from gstudy.study.index_sets import IndexSet, close
from gstudy.study.partition import split
from gstudy.variance.basis import Basis, basis_of
from gstudy.variance.claims import claim_of
from gstudy.variance.controlled import level_rows
from gstudy.variance.decomposition import SCORE, Decomposition, decompose
from gstudy.variance.draws import Array, normal_quantile
from gstudy.variance.kernel import margin_covariances
from gstudy.variance.latent import GAUSSIAN
from gstudy.variance.levels import differences, margin_of
from gstudy.variance.remembered import remembered
from gstudy.variance.trial_weights import averaged_set, cell_weights, object_rows
from gstudy.variance.weights import Factor, Weights, bank_parts, weights_within

if TYPE_CHECKING:
    from gstudy.fits.fitted import Fit
    from gstudy.variance.components import VarianceComponents
    from gstudy.variance.controlled import Controlled
    from gstudy.variance.latent import Latent
    from gstudy.variance.structure import Structure

__all__ = [
    "Pair",
    "comparable",
    "cross_components",
    "pair_of",
    "shared_factors",
    "shared_weights",
    "system_weights",
]


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """Variances of two systems' reported scores under one design, and what they share.

    Parameters
    ----------
    labels : tuple of str
        A, the baseline, and B.
    structure : Structure
        Without the object.
    sets : tuple of frozenset of str
        Small sets first.
    first, second : array (n_sets, chain, draw)
        What each set contributes to the variance of A's and of B's score, v(A) q_A.
    crossed : array (n_sets, chain, draw)
        What each set contributes to their covariance, v12(A) q12_A; it may be negative.
    noise : array (2, chain, draw)
        Trial noise in each score.
    means : array (2, chain, draw)
        Expected scores over new levels of every random facet.

    Examples
    --------
    >>> import gstudy as gs
    >>> study = gs.Study(
    ...     score="passed", object="system", facets=[gs.Facet("task", role="legitimate")]
    ... )
    >>> vc = gs.assume(
    ...     study, {"task": 4.0}, mu=0.0, scale="logit", effects={"A": -0.5, "B": 0.5}
    ... )
    >>> pair = pair_of(vc, "A", "B", {"task": 100})
    >>> [float(v.item().__round__(5)) for v in (pair.noise.sum(0), pair.difference, pair.rerun)]
    [0.00297, 0.00303, 0.00297]
    """

    labels: tuple[str, str]
    structure: Structure
    sets: tuple[IndexSet, ...]
    first: Array
    second: Array
    crossed: Array
    noise: Array
    means: Array

    @property
    def contributions(self) -> Array:
        """What each set contributes to Var(B - A), (n_sets, chain, draw)."""
        return self.first + self.second - 2 * self.crossed

    @property
    def covariance(self) -> Array:
        """Covariance of the two scores, (chain, draw)."""
        return np.asarray(self.crossed.sum(axis=0))

    @property
    def difference(self) -> Array:
        """Var(B - A), (chain, draw)."""
        return np.asarray(self.contributions.sum(axis=0) + self.noise.sum(axis=0))

    @property
    def rerun(self) -> Array:
        """Part of Var(B - A) that a re-run of the same levels draws anew, (chain, draw)."""
        moving = np.array(self.structure.redrawn_sets(self.sets), dtype=bool)
        return np.asarray(self.contributions[moving].sum(axis=0) + self.noise.sum(axis=0))

    @property
    def data(self) -> Array:
        """Part of Var(B - A) that comes from which levels were drawn that a re-run keeps."""
        return self.kept_of(frozenset(self.structure.facets))

    def kept_of(self, facets: IndexSet) -> Array:
        """Part of Var(B - A) of the sets that a re-run keeps and that hold any of these facets.

        Parameters
        ----------
        facets : frozenset of str

        Returns
        -------
        array (chain, draw)
        """
        redrawn = self.structure.redrawn_sets(self.sets)
        rows = [
            bool(index_set & facets) and not moving
            for index_set, moving in zip(self.sets, redrawn, strict=True)
        ]
        return np.asarray(self.contributions[np.array(rows, dtype=bool)].sum(axis=0))

    def smallest_gap(self, coverage: float = 0.95) -> Array:
        """The smallest difference that such a comparison resolves, z sqrt(Var(B - A)).

        Parameters
        ----------
        coverage : float
            Of the interval that has to exclude zero, in (0, 1).

        Returns
        -------
        array (chain, draw)

        Raises
        ------
        QuantityError
            For a coverage outside (0, 1).
        """
        return np.asarray(normal_quantile(coverage) * np.sqrt(self.difference))


def pair_of(
    source: Fit | VarianceComponents,
    baseline: str,
    other: str,
    design: Mapping[str, Any] | None = None,
) -> Pair:
    """The variances and the covariance of two systems' scores.

    Parameters
    ----------
    source : Fit or VarianceComponents
    baseline, other : str
        Labels of two fitted systems, A and B.
    design : mapping of str to int, optional
        A balanced design, in which both run the same levels of every facet that is not nested in
        the object, except judges that a `Design` calls fresh; by default each one's own trials as
        collected.

    Returns
    -------
    Pair

    Raises
    ------
    QuantityError
        For systems that were not fitted or are the same, and for a design that is not usable.
    """
    basis = basis_of(source)
    latent = comparable(basis, baseline, other)
    labels = (baseline, other)
    parts = [decompose(latent.given(label), SCORE) for label in labels]
    weights = system_weights(basis, parts[0], labels, design)
    sets, crossed = cross_components(latent, baseline, other)
    if design is None:
        factors = [error for error, _ in shared_factors(basis, latent, labels, sets)]
    else:
        # One design for both: each has the other's weights, but not its fresh judges.
        factors = [np.atleast_2d(weights[0].crossed(index_set)) for index_set in sets]
    order = parts[0].sets
    joint = np.zeros((len(order), *latent.mu.shape))
    for index_set, factor, values in zip(sets, factors, crossed, strict=True):
        joint[order.index(index_set)] = np.tensordot(factor, values, axes=2)
    own = [_contributed(part, each) for part, each in zip(parts, weights, strict=True)]
    return Pair(
        labels=labels,
        structure=parts[0].structure,
        sets=order,
        first=own[0][:-1],
        second=own[1][:-1],
        crossed=joint,
        noise=np.stack([rows[-1] for rows in own]),
        means=np.stack([part.mean for part in parts]),
    )


def cross_components(
    latent: Latent, baseline: str, other: str
) -> tuple[tuple[IndexSet, ...], Array]:
    """Hoeffding components of the covariance of two given systems' scores, v12.

    Parameters
    ----------
    latent : Latent
        With the effects of both systems.
    baseline, other : str

    Returns
    -------
    sets : tuple of frozenset of str
        The sets that components without the object span, small sets first; any other set shares
        exactly nothing.
    values : array (n_sets, n_levels, n_levels, chain, draw)
        By the controlled level of the baseline's trial and that of the other's; one of each
        without controlled levels. Score scale; negative where the correlation of own effects is.
    """
    one, two = latent.given(baseline), latent.given(other)
    parts = _shared_variances(latent, baseline, other)
    known = [index_set for index_set, _, _ in parts]
    sets = tuple(one.structure.spanned(known))
    if one.family == GAUSSIAN:
        # Without a link only components share anything.
        sets = tuple(index_set for index_set in sets if index_set in known)
    n_levels = 1 if one.controlled is None else len(one.controlled.levels)
    values = np.zeros((len(sets), n_levels, n_levels, *latent.mu.shape))
    for i, j in np.ndindex(n_levels, n_levels):
        agreeing = frozenset() if one.controlled is None else one.controlled.common(i, j)
        shared = np.zeros((len(sets), *latent.mu.shape))
        for place, index_set in enumerate(sets):
            for part, held, variance in parts:
                if part <= index_set and held <= agreeing:
                    shared[place] += variance
        found = _covariances(one, two, (i, j), shared)
        values[:, i, j] = differences(found, sets)
    return sets, values


def shared_factors(
    basis: Basis, latent: Latent, labels: tuple[str, str], sets: Sequence[IndexSet]
) -> list[tuple[Array, Factor]]:
    """What v12(A) counts with in the covariance of two systems' trials as collected.

    Parameters
    ----------
    basis : Basis
        Of a fit.
    latent : Latent
    labels : tuple of str
    sets : sequence of frozenset of str
        Without the object.

    Returns
    -------
    list of (array (n_levels, n_levels), same or 0)
        Of each set q12_A less what the claim takes out of it, the error; and what that is, the
        covariance of the universe scores.
    """
    structure = latent.structure.without_object()

    def share(index_set: IndexSet) -> Array:
        return shared_weights(basis, labels, [index_set])[0]

    claim = claim_of(basis.study, basis.structure)
    banks = bank_parts(structure, sets, claim, share, latent.controlled)
    parts = [(share(index_set), banks.get(index_set, 0.0)) for index_set in sets]
    return [(whole - bank, bank) for whole, bank in parts]


def shared_weights(basis: Basis, labels: tuple[str, str], sets: Sequence[IndexSet]) -> list[Array]:
    """q12_A, the sum over the levels g of A of w1_g w2_g, of the trials as collected.

    Parameters
    ----------
    basis : Basis
        Of a fit.
    labels : tuple of str
        Two levels of the object.
    sets : sequence of frozenset of str
        Without the object.

    Returns
    -------
    list of array (n_levels, n_levels)
        Per set by the controlled levels of both; 0 for a set of which the two share no level.
    """
    found = []
    for index_set in sets:
        tables = remembered(basis, ("level weights", index_set), partial(_Tables, index_set))
        found.append(np.asarray(tables.of(labels[0]).T @ tables.of(labels[1])))
    return found


class _Tables:
    """Weight of a system's trials in each level of a set and at each controlled level."""

    def __init__(self, index_set: IndexSet, basis: Basis) -> None:
        cells = basis.cells
        assert cells is not None
        self.cells, self.over = cells, averaged_set(basis.study)
        self.rows = remembered(basis, "rows", lambda own: object_rows(cells, own.study.object))
        controlled = None if basis.latent is None else basis.latent.controlled
        self.n_levels = 1 if controlled is None else len(controlled.levels)
        # A level of a nested facet is the tuple of its parents' labels and its own.
        known = close(index_set, basis.structure.nesting)
        self.is_own = basis.study.object in known
        columns = [i for i, facet in enumerate(cells.facets) if facet in known]
        groups = split(cells.codes, columns)
        self.size = groups.n_levels * self.n_levels
        self.places = groups.index * self.n_levels
        if controlled is not None:
            self.places = self.places + level_rows(cells, controlled)
        self.known: dict[str, Array] = {}

    def of(self, label: str) -> Array:
        """Of one system, (n_groups, n_levels)."""
        if self.is_own:
            return np.zeros((1, self.n_levels))
        if label not in self.known:
            rows = self.rows[label]
            weights = cell_weights(self.cells, rows, self.over)
            flat = np.bincount(self.places[rows], weights, self.size)
            self.known[label] = flat.reshape(-1, self.n_levels)
        return self.known[label]


def _shared_variances(
    latent: Latent, baseline: str, other: str
) -> list[tuple[IndexSet, IndexSet, Array]]:
    """Of each component that both share its set, the controlled facets that it holds, and the
    covariance of the two systems' effects."""
    gone = latent.structure.object_set
    shared = [
        (index_set, held, variance)
        for index_set, held, variance in zip(
            latent.sets, latent.held, latent.variances, strict=True
        )
        if not index_set & gone
    ]
    for own in latent.own:
        if own.correlation is not None:
            i, j = own.labels.index(baseline), own.labels.index(other)
            covariance = own.correlation[i, j] * own.sds[i] * own.sds[j]
            shared.append((own.index_set, own.held, covariance))
    return shared


def _covariances(one: Latent, two: Latent, levels: tuple[int, int], shared: Array) -> Array:
    """V12(A) of each shared variance at two controlled levels, (n_sets, chain, draw)."""
    if one.family == GAUSSIAN or not len(shared):
        return shared
    margins = [
        margin_of(given, None if given.controlled is None else level)
        for given, level in zip((one, two), levels, strict=True)
    ]
    flat = shared.reshape(len(shared), -1)
    return margin_covariances(margins[0], margins[1], flat).reshape(shared.shape)


def system_weights(
    basis: Basis,
    part: Decomposition,
    labels: Sequence[str],
    design: Mapping[str, Any] | None,
) -> list[Weights]:
    """The weights of each system's trials as collected, or for each those of one design.

    Parameters
    ----------
    basis : Basis
    part : Decomposition
        Of one of the systems.
    labels : sequence of str
    design : mapping or None

    Returns
    -------
    list of Weights

    Raises
    ------
    QuantityError
        For a design that is not usable.
    """

    def within(own: Basis) -> dict[str | None, Weights]:
        return weights_within(
            part.structure,
            part.sets,
            own.study.object,
            design=design,
            cells=own.cells,
            claim=claim_of(own.study, own.structure, design=design),
            controlled=part.controlled if design is None else _common(own),
        )

    found = within(basis) if design is not None else remembered(basis, "pair weights", within)
    return [found[None if design is not None else label] for label in labels]


def _common(basis: Basis) -> Controlled | None:
    """The controlled levels with the weights that they have on average over the systems."""
    return None if basis.latent is None else basis.latent.controlled


def _contributed(part: Decomposition, weights: Weights) -> Array:
    """What each set contributes to the variance of one score, then the trial noise."""
    if part.levels is None:
        values, noise = part.unique[:, None, None], part.noise * weights.noise
    else:
        values, noise = part.levels.unique, np.tensordot(weights.noise, part.levels.noise, axes=1)
    errors = [weights.of(s, None) - weights.claimed(s, None) for s in part.sets]
    rows = [
        np.tensordot(np.atleast_2d(error), value, axes=2)
        for error, value in zip(errors, values, strict=True)
    ]
    return np.stack([*rows, noise])


def comparable(basis: Basis, baseline: str, other: str) -> Latent:
    """The latent draws, when both are systems of it and differ.

    Raises
    ------
    QuantityError
        When fewer than two systems were fitted, one of these was not, or both are the same.
    """
    latent = basis.latent
    if latent is None or len(latent.object_effects) < 2:
        raise QuantityError(
            explain(
                "two systems are compared by a fit of both of them",
                given=f"a source that knows {_known(latent)}",
                allowed="a fit of a study with an object, with at least two of its levels",
                do="Fit both systems together, or pass the result of gs.fit_by.",
            )
        )
    known = list(latent.object_effects)
    for label in (baseline, other):
        if label not in known:
            raise QuantityError(
                explain(
                    f"no {latent.object} is called {label!r}",
                    allowed=known,
                    do=did_you_mean(str(label), known),
                )
            )
    if baseline == other:
        raise QuantityError(
            explain(
                "a system is compared with itself",
                given=baseline,
                allowed="two different labels",
            )
        )
    return latent


def _known(latent: Latent | None) -> str:
    known = [] if latent is None else list(latent.object_effects)
    return "no system" if not known else f"only {known[0]!r}"
