"""How the rows of a study split by its index sets, with one-level facets left out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from gstudy.study.checking.candidates import tops
from gstudy.study.partition import Partition, split
from gstudy.study.records import parents_first

if TYPE_CHECKING:
    from gstudy.study.declaration import Study
    from gstudy.study.index_sets import IndexSet
    from gstudy.study.records import Records

__all__ = ["Splits"]


class Splits:
    """Partitions of a study's rows by index sets; each is computed once.

    Parameters
    ----------
    records : Records
    study : Study

    Attributes
    ----------
    one_level : dict of str to str
        Facets with one level in the data, and its label; left out of index sets unless `keep`
        asks for them.
    dropped : frozenset of str
        The one-level facets that are left out of index sets.
    known_errors : bool
        Whether every score brings its standard error: one trial then tells its level.
    """

    def __init__(self, records: Records, study: Study) -> None:
        self.records = records
        self.study = study
        self.known_errors = study.standard_error is not None
        self._known: dict[IndexSet, Partition] = {}
        self.one_level = {
            facet: records.labels[facet][0]
            for facet in records.facets
            if self.of(study.closure(facet)).n_levels == 1
        }
        kept = {top for name in study.keep for top in tops(name.split(":"), study)}
        self.dropped = frozenset(self.one_level) - kept

    def of(self, facets: Iterable[str]) -> Partition:
        """The rows by the levels of a set; codes of parents come before those of children."""
        whole = frozenset(facets)
        if whole not in self._known:
            inside = [facet for facet in self.records.facets if facet in whole]
            order = parents_first(inside, self.study)
            places = [self.records.facets.index(facet) for facet in order]
            self._known[whole] = split(self.records.codes, places)
        return self._known[whole]

    def is_sampled(self, facet: str) -> bool:
        """Whether a labelled facet has at least two levels."""
        return facet not in self.one_level

    def reduced(self, facets: Iterable[str]) -> IndexSet:
        """An index set without the one-level facets."""
        return frozenset(facets) - self.dropped

    def trials_per_level(self, facets: Iterable[str]) -> float:
        """Mean number of trials in one level of a set."""
        return self.records.n_trials / self.of(facets).n_levels

    def most_trials(self, facets: Iterable[str]) -> int:
        """Largest number of trials in one level of a set."""
        return int(self.of(facets).totals(self.records.trials).max())

    def is_informed(self, facets: Iterable[str]) -> bool:
        """Whether the variance of a set can be told from the noise of single trials."""
        return self.known_errors or self.most_trials(facets) > 1

    def is_repeated(self, facets: Iterable[str]) -> bool:
        """Whether most levels of a set have several rows; else what they lie in is no news."""
        rows = self.of(facets).totals(self.records.n_rows)
        return bool(np.median(rows) > 1)

    def is_told_by_parents(self, child: str, other: str) -> bool:
        """Whether the parents of a nested facet already lie in one level of `other` each."""
        above = self.study.closure(child) - {child}
        return bool(above) and self.of(above).refines(self.of(self.study.closure(other)))
