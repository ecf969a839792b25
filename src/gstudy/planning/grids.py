"""Grids: every trial that a balanced design has, over the levels that exist and new ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd

from gstudy.errors import QuantityError, explain
from gstudy.planning.labels import Numbering, continued, numbering_of, written
from gstudy.study.records import natural_order, parents_first

if TYPE_CHECKING:
    from gstudy.study.declaration import Study

__all__ = ["MOST_ROWS", "Grid", "codes_of", "places_within"]

MOST_ROWS = 10_000_000
"""Rows of a list that are refused as a mistake."""


@dataclass(frozen=True)
class Grid:
    """What exists, and how many levels of each facet are wanted.

    Parameters
    ----------
    study : Study
    used : pandas.DataFrame
        Labels of the usable trials, a column per labelled facet.
    taken : pandas.DataFrame
        Labels of all trials, also of those that failed or were never scored: no new level is
        called like one of them.
    wanted : mapping of str to int
        Levels per parent; a facet that is left out keeps what it has, a nested one as many as most
        of its parents have.
    """

    study: Study
    used: pd.DataFrame
    taken: pd.DataFrame
    wanted: Mapping[str, int]

    @cached_property
    def facets(self) -> list[str]:
        """Labelled facets, parents before children."""
        return parents_first([facet.name for facet in self.study.labelled], self.study)

    def parents(self, facet: str) -> list[str]:
        """The labelled facets that a facet is nested in, parents first."""
        above = self.study.closure(facet) - {facet}
        return [name for name in self.facets if name in above]

    def wanted_levels(self, facet: str) -> int:
        """Levels per parent: of the design, or as collected."""
        if facet in self.wanted:
            return self.wanted[facet]
        above = self.parents(facet)
        if not above:
            return int(self.used[facet].nunique())
        sizes = self.used[[*above, facet]].drop_duplicates().groupby(above).size()
        # Of numbers that are equally common the larger one.
        return int(max(sizes.mode()))

    def rows(self, facets: Iterable[str]) -> pd.DataFrame:
        """Every combination of levels of some facets, with all their parents.

        Raises
        ------
        QuantityError
            For more rows than a table should have.
        """
        inside = set(facets)
        return self.expanded(pd.DataFrame(index=[0]), [f for f in self.facets if f in inside])

    def expanded(self, rows: pd.DataFrame, facets: Sequence[str]) -> pd.DataFrame:
        """Rows with the levels of further facets beside each."""
        for facet in facets:
            above = self.parents(facet)
            _refuse_large(len(rows) * max(1, self.wanted_levels(facet)))
            levels = self._levels(facet, rows[above].drop_duplicates() if above else None)
            rows = rows.merge(levels, on=above) if above else rows.merge(levels, how="cross")
        return rows.reset_index(drop=True)

    def _levels(self, facet: str, groups: pd.DataFrame | None) -> pd.DataFrame:
        """The levels of a facet, with a column for each of its parents."""
        if groups is None:
            own = natural_order(self.used[facet].unique())
            return pd.DataFrame({facet: [*own, *self._new(facet, own, self.taken[facet])]})
        above = list(groups.columns)
        used, taken = (_children(table, above, facet) for table in (self.used, self.taken))
        rows = []
        for key in groups.itertuples(index=False, name=None):
            own = used.get(key, [])
            rows += [(*key, label) for label in (*own, *self._new(facet, own, taken.get(key, [])))]
        return pd.DataFrame(rows, columns=[*above, facet])

    def _new(self, facet: str, own: Sequence[str], taken: Iterable[str]) -> list[str]:
        """New labels of one group of levels."""
        role = self.study.facet(facet).role
        missing = 0 if role in ("object", "controlled") else self.wanted_levels(facet) - len(own)
        if missing <= 0:
            return []
        labels = list(dict.fromkeys(taken))
        if facet in self._counted_on:
            return continued(facet, labels, self._numberings.get(facet), missing)
        return written(facet, labels, missing)

    @cached_property
    def _counted_on(self) -> frozenset[str]:
        """Facets of which nobody writes a level: rollouts, and repeated calls of a judge."""
        repeats = {f.name for f in self.study.facets if f.role == "error" and f.nested_in}
        return self.study.redrawn_on_rerun() | repeats

    @cached_property
    def _numberings(self) -> dict[str, Numbering]:
        found = {
            f: numbering_of(self.taken[f].unique()) for f in self._counted_on & set(self.taken)
        }
        return {facet: own for facet, own in found.items() if own is not None}


def places_within(rows: pd.DataFrame, facet: str, above: Sequence[str]) -> npt.NDArray[np.intp]:
    """0-based place of each row's level among those of its parents, in order of appearance."""
    levels = rows[[*above, facet]].drop_duplicates()
    places = levels.groupby(list(above), sort=False).cumcount() if above else np.arange(len(levels))
    levels = levels.assign(**{_PLACE: np.asarray(places)})
    return rows[[*above, facet]].merge(levels, how="left")[_PLACE].to_numpy(dtype=np.intp)


_PLACE = "place/"  # no facet's name may hold the mark


def codes_of(rows: pd.DataFrame, others: pd.DataFrame) -> npt.NDArray[np.intp]:
    """Place of each of the other rows among distinct rows of the same columns; -1 for none."""
    columns = list(rows.columns)
    numbered = rows.assign(**{_PLACE: np.arange(len(rows))})
    found = others[columns].merge(numbered, how="left", on=columns)[_PLACE]
    return found.fillna(-1).to_numpy(dtype=np.intp)


def _children(
    table: pd.DataFrame, above: Sequence[str], facet: str
) -> dict[tuple[str, ...], list[str]]:
    """Labels of a facet in natural order, by the labels of its parents."""
    found: dict[tuple[str, ...], list[str]] = {}
    for *key, label in table[[*above, facet]].drop_duplicates().itertuples(index=False, name=None):
        found.setdefault(tuple(key), []).append(label)
    return {key: natural_order(labels) for key, labels in found.items()}


def _refuse_large(n_rows: int) -> None:
    if n_rows > MOST_ROWS:
        raise QuantityError(
            explain(
                "the design has more trials than a list of runs should hold",
                given=f"{n_rows:,}",
                allowed=f"up to {MOST_ROWS:,}",
                do="Numbers of levels of a nested facet are within one combination of its parents.",
            )
        )
