"""What stands under a design in which not every judge scores everything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gstudy.variance.designs import needed_counts
from gstudy.variance.draws import Array
from gstudy.variance.patterns import judge_of

if TYPE_CHECKING:
    from gstudy.planning.terms import Terms
    from gstudy.variance.claims import Claim
    from gstudy.variance.structure import Structure

__all__ = ["PatternedStanding"]


@dataclass(frozen=True, slots=True, eq=False)
class PatternedStanding:
    """As `Standing`, of a balanced design with a judge pattern: q_A does not scale, but is known.

    Parameters
    ----------
    terms : Terms
    levels : mapping of str to float
    judges : str
    """

    terms: Terms
    levels: Mapping[str, float]
    judges: str

    @property
    def structure(self) -> Structure:
        """That of the terms."""
        return self.terms.structure

    @property
    def claim(self) -> Claim:
        """That of the terms."""
        return self.terms.claim

    @property
    def effective(self) -> Mapping[str, float]:
        """The levels: the design is balanced."""
        return self.levels

    @property
    def facets(self) -> list[str]:
        """Facets that can change alone: no merged ones, and no judges whose number is said."""
        # Parts that only the measured facet tells apart are one set here.
        parts = [{p & whole for p in parts} for whole, parts in self.structure.merged.items()]
        kept = frozenset[str]().union(*(p for sets in parts if len(sets) > 1 for p in sets))
        if self.judges in ("one", "fresh"):
            kept |= {judge_of(self.structure, self.judges)}
        kept |= self.claim.pinned
        return [facet for facet in needed_counts(self.structure) if facet not in kept]

    @property
    def variance(self) -> Array:
        """Variance of the score now, (n_draws,)."""
        return self._variance(self.levels)

    def scaled(self, facet: str, times: float) -> tuple[Array, Array]:
        """The variance with so many times the levels of a facet, twice."""
        found = self._variance(self._changed(facet, times))
        return found, found

    def price(
        self, cost: Mapping[str, float] | None, facet: str | None, times: float, systems: int = 1
    ) -> float:
        """What a design costs with so many times the levels of a facet, for so many systems."""
        counts = self.levels if facet is None else self._changed(facet, times)
        return float(self.terms.price(cost, counts, judges=self.judges, systems=systems))

    def _changed(self, facet: str, times: float) -> dict[str, float]:
        return {**self.levels, facet: self.levels[facet] * times}

    def _variance(self, counts: Mapping[str, float]) -> Array:
        factors = self.terms.factors(counts, judges=self.judges)
        return np.asarray(self.terms.variance(factors)[0])
