"""Binomial cells: what the model and the fit know of the trials."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gstudy.study.graded import Graded, combine
from gstudy.study.partition import Codes, split
from gstudy.study.records import parents_first

if TYPE_CHECKING:
    from gstudy.study.components import Component
    from gstudy.study.declaration import Study
    from gstudy.study.records import Records

__all__ = ["Cells", "Graded", "joined_labels", "make_cells"]


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Trials that share every level of the model, collapsed: k passes of n trials.

    Parameters
    ----------
    facets : tuple of str
        Active facets in declared order: those of the components, and the object if labelled.
    labels : dict of str to tuple of str
        Own labels of each facet; a code is a place in it.
    codes : int32 array (n_cells, n_facets)
        One row per distinct combination of levels, sorted, parents before children.
    successes : int64 array (n_cells,)
        Passes; of graded scores (float64) the sum of the scores.
    trials : int64 array (n_cells,)
    components : tuple of Component
        Those of the assessment, then its fixed effects.
    index : tuple of int32 array (n_cells,)
        Per component the level of each cell, 0 to K - 1.
    levels : tuple of int32 array (K, n_facets_of_the_component)
        Per component the codes of each level, facets in declared order.
    graded : Graded or None
        Of graded scores.
    """

    facets: tuple[str, ...]
    labels: dict[str, tuple[str, ...]]
    codes: Codes
    successes: npt.NDArray[Any]
    trials: npt.NDArray[np.int64]
    components: tuple[Component, ...]
    index: tuple[Codes, ...]
    levels: tuple[Codes, ...]
    graded: Graded | None = None

    def level_labels(self, component: int) -> list[str]:
        """One text per level of a component.

        Parameters
        ----------
        component : int
            Its place in `components`.

        Returns
        -------
        list of str
            The label; of several facets the labels joined by ":", in which a backslash stands
            before each ":" and backslash of a label's own.
        """
        facets = [f for f in self.facets if f in self.components[component].facets]
        return joined_labels([self.labels[f] for f in facets], self.levels[component])

    def digest(self) -> str:
        """SHA-256 of labels and arrays: the hash of the trials, whatever the facets are called.

        Known errors are in it as the precisions of cells.
        """
        known = hashlib.sha256()
        for facet in self.facets:
            texts = [label.encode() for label in self.labels[facet]]
            _feed(known, np.array([len(texts), *map(len, texts)], dtype=np.int64))
            known.update(b"".join(texts))
        for codes in (self.codes, *self.index, *self.levels):
            _feed(known, codes)
        for counts in (self.successes, self.trials):
            _feed(known, counts)
        if self.graded is not None:
            _feed(known, self.graded.mean)
            _feed(known, self.graded.squares)
            if self.graded.precision is not None:
                _feed(known, self.graded.precision)
        return known.hexdigest()


def make_cells(
    records: Records, components: Sequence[Component], active: Iterable[str], study: Study
) -> Cells:
    """Collapse records to cells.

    Parameters
    ----------
    records : Records
    components : sequence of Component
    active : iterable of str
        Facets that cells are told apart by; they hold every facet of the components.
    study : Study

    Returns
    -------
    Cells
    """
    members = frozenset(active)
    facets = tuple(facet for facet in records.facets if facet in members)
    columns = [records.facets.index(facet) for facet in facets]
    order = parents_first(facets, study)
    rows = split(records.codes, [records.facets.index(facet) for facet in order])
    codes = np.ascontiguousarray(records.codes[rows.first_rows()][:, columns])
    index, levels = [], []
    for component in components:
        inside = [facet for facet in order if facet in component.facets]
        partition = split(codes, [facets.index(facet) for facet in inside])
        own = [i for i, facet in enumerate(facets) if facet in component.facets]
        index.append(partition.index)
        levels.append(np.ascontiguousarray(codes[partition.first_rows()][:, own]))
    graded = None if records.graded is None else combine(records.graded, records.trials, rows)
    return Cells(
        facets=facets,
        labels={facet: records.labels[facet] for facet in facets},
        codes=codes,
        successes=rows.totals(records.successes)
        if graded is None
        else rows.sums(records.successes),
        trials=rows.totals(records.trials),
        components=tuple(components),
        index=tuple(index),
        levels=tuple(levels),
        graded=graded,
    )


def joined_labels(labels: Sequence[Sequence[str]], codes: Codes) -> list[str]:
    """Labels of each row of codes, joined by ":"; one facet's labels stay as they are.

    >>> joined_labels([["a:b", "c"], ["1", "2"]], np.array([[0, 1], [1, 0]], dtype=np.int32))
    ['a\\\\:b:2', 'c:1']
    """
    if len(labels) == 1:
        return [labels[0][code] for code in codes[:, 0].tolist()]
    safe = [[_escaped(label) for label in own] for own in labels]
    return [
        ":".join(own[code] for own, code in zip(safe, row, strict=True)) for row in codes.tolist()
    ]


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace(":", "\\:")


def _feed(known: hashlib._Hash, array: npt.NDArray[Any]) -> None:
    # Shape first, and one byte order everywhere.
    known.update(np.array(array.shape, dtype="<i8").tobytes())
    known.update(np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).tobytes())
