"""The weight of each trial in the reported score: what `average` declares."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from gstudy.study.index_sets import IndexSet
from gstudy.study.partition import split
from gstudy.variance.draws import Array

if TYPE_CHECKING:
    from gstudy.study.cells import Cells
    from gstudy.study.declaration import Study

__all__ = [
    "averaged_set",
    "cell_weights",
    "known_errors",
    "level_shares",
    "mean_shares",
    "object_rows",
]

Rows = npt.NDArray[np.intp]


def averaged_set(study: Study) -> IndexSet:
    """The facet whose levels weigh alike in the reported score, with its parents; empty when all
    trials do."""
    facet = study.averaged_over
    return frozenset() if facet is None else study.closure(facet)


def object_rows(cells: Cells, object_facet: str | None) -> dict[str | None, Rows]:
    """The cells of each level of the object; under None all of them where there is none."""
    if object_facet is None or object_facet not in cells.facets:
        return {None: np.arange(len(cells.trials))}
    own = cells.codes[:, cells.facets.index(object_facet)]
    labels = cells.labels[object_facet]
    return {labels[code]: np.flatnonzero(own == code) for code in np.unique(own)}


def cell_weights(cells: Cells, rows: Rows, over: IndexSet) -> Array:
    """Weight of each of these cells in the mean of their scores; they sum to 1.

    Parameters
    ----------
    cells : Cells
    rows : int array
        The cells of one reported score.
    over : frozenset of str
        As `averaged_set` gives it: each of its levels weighs alike, and within a level each
        trial; empty: each trial alike.

    Returns
    -------
    array (n_rows,)
    """
    trials = cells.trials[rows].astype(float)
    if not over:
        return np.asarray(trials / trials.sum())
    levels = split(cells.codes[rows], _columns(cells, over))
    sums = np.bincount(levels.index, weights=trials, minlength=levels.n_levels)
    return np.asarray(trials / sums[levels.index] / levels.n_levels)


def level_shares(
    study: Study, cells: Cells, facets: Iterable[str]
) -> dict[str | None, dict[tuple[str, ...], float]]:
    """Weight of each combination of labels in the reported score of each system.

    Parameters
    ----------
    study : Study
    cells : Cells
    facets : iterable of str
        Controlled facets.

    Returns
    -------
    dict
        Label of the system (None without an object), then labels in declared order of the facets,
        to the weight; 0 for what a system was not run at. They sum to 1 in each system.
    """
    columns = _columns(cells, frozenset(facets))
    levels = split(cells.codes, columns)
    over = averaged_set(study)
    codes = cells.codes[levels.first_rows()][:, columns].tolist()
    labels = [cells.labels[cells.facets[column]] for column in columns]
    keys = [tuple(own[c] for own, c in zip(labels, row, strict=True)) for row in codes]
    found = {}
    for label, rows in object_rows(cells, study.object).items():
        weights = cell_weights(cells, rows, over)
        shares = np.bincount(levels.index[rows], weights, levels.n_levels)
        found[label] = dict(zip(keys, shares.tolist(), strict=True))
    return found


def mean_shares(
    shares: Mapping[str | None, Mapping[tuple[str, ...], float]],
) -> dict[tuple[str, ...], float]:
    """The weights averaged over the systems."""
    parts = list(shares.values())
    return {key: sum(part[key] for part in parts) / len(parts) for key in parts[0]}


def known_errors(cells: Cells) -> Array | None:
    """Squared known error of a trial of each cell (n_cells,), or None when none are known.

    Within a cell the harmonic mean stands for each trial's: exact with one trial in a cell.
    """
    if cells.graded is None or cells.graded.precision is None:
        return None
    return np.asarray(cells.trials / cells.graded.precision)


def _columns(cells: Cells, facets: IndexSet) -> list[int]:
    return [i for i, facet in enumerate(cells.facets) if facet in facets]
