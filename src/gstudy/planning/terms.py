"""The variance of a reported score as a linear form: terms that no design changes, times factors.

Var = sum over A of v(A) (q_A - what the claim takes out) + noise of one trial * sum of w_i^2

for any number of designs at a time. With several controlled levels each term is their average with
the weights of the reported score, sum_l sum_l' w_l w_l' v_ll'(A) over the pairs of levels that can
have a level of A in common, and sum_l w_l^2 noise_l: a balanced design multiplies them alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from gstudy.errors import QuantityError, explain
from gstudy.planning.prices import price
from gstudy.study.designs import Design
from gstudy.study.index_sets import IndexSet
from gstudy.variance.basis import basis_of
from gstudy.variance.claims import Claim, claim_of
from gstudy.variance.decomposition import SCORE, Decomposition, average, decompositions
from gstudy.variance.designs import check_universe, checked_counts, following
from gstudy.variance.draws import Array
from gstudy.variance.error_variance import object_part
from gstudy.variance.patterns import Count
from gstudy.variance.structure import Structure
from gstudy.variance.systems import refuse_shared
from gstudy.variance.weights import Weights, balanced, level_products

if TYPE_CHECKING:
    from gstudy.fits.fitted import Fit
    from gstudy.study.declaration import Study
    from gstudy.variance.components import VarianceComponents
    from gstudy.variance.controlled import Controlled

__all__ = ["Terms", "error_terms", "score_terms"]


@dataclass(frozen=True, slots=True, eq=False)
class Terms:
    """Variance of a reported score as a linear form: values times factors of the design.

    Parameters
    ----------
    structure : Structure
    sets : tuple of frozenset of str
        Small sets first.
    values : array (n_terms, n_draws)
        v(A) of each set, then the noise of one trial; squared units of the score.
    shape : tuple of int
        Number of chains and of draws of each.
    claim : Claim
    means : array (n_draws,)
        Expected score.
    study : Study
    controlled : Controlled or None
        The controlled levels that were averaged over.
    own : array (n_draws,), or None
        Of error variances the variance between levels of the object, without banks; None: the
        terms are of a score, of which the object's variance is a part.

    Examples
    --------
    >>> import gstudy as gs
    >>> study = gs.Study(score="passed", facets=[gs.Facet("task", role="legitimate")])
    >>> terms = score_terms(gs.assume(study, {"task": 0.1, "residual": 0.14}, mean=0.6))
    >>> factors = terms.factors({"task": np.array([50, 100, np.inf])})
    >>> terms.mean_variance(factors).round(5)
    array([0.0048, 0.0024, 0.    ])
    """

    structure: Structure
    sets: tuple[IndexSet, ...]
    values: Array
    shape: tuple[int, int]
    claim: Claim
    means: Array
    study: Study
    controlled: Controlled | None = None
    own: Array | None = None

    def counts(self, design: Mapping[str, int]) -> dict[str, float]:
        """The counts of a design, checked as for `variance_budget`.

        Raises
        ------
        QuantityError
            For a design that is not usable, has more levels than a universe, or pins what these
            terms do not.
        """
        asked = Design.read(design)
        pinned = claim_of(self.study, self.structure, asked.pin).pinned
        if not pinned <= self.claim.pinned:
            raise QuantityError(
                explain(
                    "the design pins facets that these terms do not",
                    given=list(asked.pin),
                    allowed=list(self.claim.named),
                    do="Make terms of this claim by pin=.",
                )
            )
        return checked_counts(self.structure, asked, self.claim.finite)

    def factors(
        self, counts: Mapping[str, Count], *, judges: str = "all", relative: bool = False
    ) -> Array:
        """What each term is multiplied by, q_A less what the claim takes out.

        Parameters
        ----------
        counts : mapping of str to float or array (n_designs,)
            Levels of each facet, of a nested one per parent; infinity is allowed where the
            universe is not finite. What is left out is 1.
        judges : str
            Who judges what.
        relative : bool
            Of error variances: leave out the sets that move all levels of the object alike.

        Returns
        -------
        array (n_designs, n_terms)

        Raises
        ------
        QuantityError
            For more levels than a universe holds, and for a relative variance of a score.
        """
        if relative and self.own is None:
            raise QuantityError(
                explain("the variance of a score is not relative", do="Use error_terms.")
            )
        weights = self._weights(counts, judges)
        columns: list[Count] = [
            self._factor(index_set, weights, relative) for index_set in self.sets
        ]
        return _columns([*columns, weights.noise], counts)

    def between(self, counts: Mapping[str, Count], judges: str = "all") -> Array:
        """Variance between the universe scores of the object's levels, (n_designs, n_draws).

        With the sets of which every other facet is finite or pinned: the claim has them.

        Raises
        ------
        QuantityError
            For terms of a score, and for more levels than a universe holds.
        """
        if self.own is None:
            raise QuantityError(
                explain(
                    "the terms of a score hold no variance between systems", do="Use error_terms."
                )
            )
        weights = self._weights(counts, judges)
        banks: list[Count] = [
            weights.claimed(index_set, self.structure.object) if self._above(index_set) else 0.0
            for index_set in self.sets
        ]
        return self.own + self.variance(_columns([*banks, 0.0], counts))

    def variance(self, factors: Array) -> Array:
        """The variance of each design in each draw, (n_designs, n_draws)."""
        return np.asarray(factors @ self.values)

    def mean_variance(self, factors: Array) -> Array:
        """The posterior mean of the variance of each design, (n_designs,)."""
        return np.asarray(factors @ self.values.mean(axis=1))

    def price(
        self,
        cost: Mapping[str, float] | None,
        counts: Mapping[str, Count],
        *,
        judges: str = "all",
        systems: int = 1,
    ) -> Count:
        """`prices.price` of designs of this source, with its controlled levels and with facets
        that others determine."""
        return price(
            self.study,
            cost,
            counts,
            judges=judges,
            systems=systems,
            follows=following(self.structure),
            controlled=self.controlled,
        )

    def _weights(self, counts: Mapping[str, Count], judges: str) -> Weights:
        check_universe(self.structure, counts, self.claim.finite, judges)
        return balanced(self.structure, counts, self.sets, claim=self.claim, judges=judges)

    def _above(self, index_set: IndexSet) -> bool:
        """Whether a set holds the object and more."""
        return bool(self.structure.object_set) and self.structure.object_set < index_set

    def _factor(self, index_set: IndexSet, weights: Weights, relative: bool) -> Count:
        own, measured = self.structure.object_set, self.structure.object
        whole, taken = weights.of(index_set, measured), weights.claimed(index_set, measured)
        if self.own is None:
            # What the claim takes out of the error is part of the object's own variance.
            return whole if self._above(index_set) else whole - taken
        alike = not (own <= index_set or index_set & weights.apart)
        return 0.0 if index_set <= own or (relative and alike) else whole - taken


def score_terms(
    source: Fit | VarianceComponents,
    *,
    system: str | None = None,
    pin: Sequence[str] | None = None,
) -> Terms:
    """The terms of the variance of a reported score, on the score scale.

    Parameters
    ----------
    source : Fit or VarianceComponents
    system : str, optional
        As for `variance_budget`: a fitted level of the object, "new", or by default every fitted
        one by itself, then their mean per draw.
    pin : list of str, optional

    Returns
    -------
    Terms

    Raises
    ------
    QuantityError
        As `variance_budget`.
    """
    basis = basis_of(source)
    refuse_shared(basis, system, "variance of a design")
    whole = average(decompositions(basis, SCORE, system))
    claim = claim_of(basis.study, whole.structure, pin)
    # A design weighs controlled levels alike for all systems, as on average.
    controlled = whole.controlled if basis.latent is None else basis.latent.controlled
    return _terms(basis.study, whole, claim, controlled)


def error_terms(
    source: Fit | VarianceComponents,
    *,
    object: str | None = None,
    pin: Sequence[str] | None = None,
) -> Terms:
    """The terms of the error variance of scores in a population, on the score scale.

    Parameters
    ----------
    source : Fit or VarianceComponents
    object : str, optional
        Facet that is measured, by default the study's own.
    pin : list of str, optional

    Returns
    -------
    Terms

    Raises
    ------
    QuantityError
        As `phi`.
    """
    basis = basis_of(source)
    part = object_part(basis, SCORE, object)
    claim = claim_of(basis.study, part.structure, pin)
    own = part.inside(part.structure.object_set).ravel()
    return replace(_terms(basis.study, part, claim, part.controlled), own=own)


def _terms(study: Study, part: Decomposition, claim: Claim, controlled: Controlled | None) -> Terms:
    n_sets, shape = len(part.sets), part.mean.shape
    unique, noise, mean = part.unique, part.noise, part.mean
    if part.levels is not None and controlled is not None:
        weights, levels = controlled.weights, part.levels
        unique = np.array(
            [
                np.tensordot(level_products(part.structure, s, controlled), values, axes=2)
                for s, values in zip(part.sets, levels.unique, strict=True)
            ]
        )
        noise = np.tensordot(weights**2, levels.noise, axes=1)
        mean = np.tensordot(weights, levels.means, axes=1)
    values = np.concatenate([unique.reshape(n_sets, noise.size), noise.reshape(1, -1)])
    return Terms(
        structure=part.structure,
        sets=part.sets,
        values=values,
        shape=(shape[0], shape[1]),
        claim=claim,
        means=mean.ravel(),
        study=study,
        controlled=controlled,
    )


def _columns(factors: Sequence[Count], counts: Mapping[str, Count]) -> Array:
    """One row per design, one column per term."""
    n_designs = np.broadcast(*(np.atleast_1d(n) for n in counts.values()), np.ones(1)).size
    return np.stack([np.broadcast_to(factor, (n_designs,)) for factor in factors], axis=1)
