"""Which effects the direct path does without while it samples: those of levels with few trials, and
of a component alone whose levels are alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from gstudy.study.cells import Cells

__all__ = ["MOST_TRIALS", "Patterns", "integrable_component", "patterns_of", "single_cells"]

Ints = NDArray[np.int64]

CELLS_A_CLASS = 15
"""Tables for each pair of passes and trials win where there are at least this many cells to one; of
more than `MOST_TRIALS` trials, whose tables take longer, `OF_MANY_TRIALS` times as many. A gradient
by tables and by one grid for every cell takes, of 396 cells of 5 trials (66 a pair) 41 and 76 us,
of 3,400 of 8 trials (378 a pair) 60 and 457."""

OF_MANY_TRIALS = 4
"""Measured, smallest bulk ESS of an sd or mu per CPU second with tables and without, system:task of
4 systems: 30 cells a pair of 10 trials 924 and 1,181, of 20 trials 528 and 689, of 40 trials 228
and 349; 60 a pair of 10 trials 710 and 508, of 20 trials 334 and 329; 120 of 10 trials 378 and
269."""

LEVELS_A_CLASS = 3
"""Integrals of a component alone win where there are at least this many levels to one of them; else
their sums cost as much as the effects do."""

MOST_TRIALS = 8
"""Of a level: the likelihood of more is too narrow for a grid that all levels share."""

CELLS_A_PLACE = 3
"""A grid wins where at least so many cells share each place, and with it the chances along the
grid. Measured, smallest bulk ESS of an sd or mu per CPU second with effects integrated out and
without, at target_accept 0.9: 73 cells a place (tasks of 5 judges' calls in 3 domains) 257 and 71;
5 (rollouts of 3 judges' calls) 47 and 11; 3 (of 2 judges' calls) 34 and 32 (26 and 18 at 0.95).
With one (tasks with a judge of their own each) a gradient takes 290 and 86 us."""


@dataclass(frozen=True, slots=True, eq=False)
class Patterns:
    """Levels of a component by what their trials see, and the passes of those trials.

    A place is a cell with its trials and all other effects; levels with the same places, such as
    the rollouts of one system on one task, differ in their passes alone.

    Parameters
    ----------
    rows : array (n_patterns, 4 + most places)
        First place, number of places, number of levels, trials of each, and passes at each place;
        those with the same places one after the other.
    cells : array (n_places,) of int
        A cell that is at each place; the places of a row lie one after the other.
    passes : array (n_places,)
        Of all levels together.
    """

    rows: NDArray[np.float64]
    cells: Ints
    passes: NDArray[np.float64]


def integrable_component(cells: Cells) -> int | None:
    """The component whose effects are integrated out, by its place; None without one.

    Parameters
    ----------
    cells : Cells

    Returns
    -------
    int or None
        The only one, if many of its levels are alike (see `LEVELS_A_CLASS`); else the one with the
        most levels among components of single cells of which many are alike (see `CELLS_A_CLASS`),
        and components with at most `MOST_TRIALS` trials a level many of which see the same (see
        `CELLS_A_PLACE`).
    """
    own = any(component.varies for component in cells.components)
    if cells.graded is not None or own:
        return None
    if len(cells.components) == 1:
        return 0 if _alike(cells) else None
    found = [place for place in range(len(cells.components)) if _few_trials(cells, place)]
    return max(found, key=lambda place: cells.components[place].n_levels, default=None)


def _alike(cells: Cells) -> bool:
    """Whether each level of the only component is a cell, and many have the same data."""
    [component] = cells.components
    if component.fixed or len(cells.trials) != component.n_levels:
        return False
    return LEVELS_A_CLASS * len(_pairs(cells)) <= component.n_levels


def _pairs(cells: Cells) -> Ints:
    """Pairs of passes and trials (n_pairs, 2) that cells have."""
    return np.unique(np.column_stack([cells.successes, cells.trials]), axis=0)


def single_cells(cells: Cells, place: int) -> bool:
    """Whether a component has one level per cell, many of which have the same passes of the same
    number of trials: such as system:task where each system ran each task several times."""
    n_cells = len(cells.trials)
    if cells.components[place].n_levels != n_cells:
        return False
    times = 1 if cells.trials.max() <= MOST_TRIALS else OF_MANY_TRIALS
    return times * CELLS_A_CLASS * len(_pairs(cells)) <= n_cells


def _few_trials(cells: Cells, place: int) -> bool:
    """Whether the effects of a component can be integrated out, and it pays."""
    taken = cells.components[place]
    if taken.fixed or any(taken.facets < other.facets for other in cells.components):
        return False
    if single_cells(cells, place):
        return True
    trials = np.bincount(cells.index[place], weights=cells.trials, minlength=taken.n_levels)
    if trials.max() > MOST_TRIALS:
        return False
    return CELLS_A_PLACE * len(patterns_of(cells, place).cells) <= len(cells.trials)


def patterns_of(cells: Cells, place: int) -> Patterns:
    """Levels of a component by their places and passes.

    Parameters
    ----------
    cells : Cells
    place : int
        Of the component.

    Returns
    -------
    Patterns
    """
    others = [index for c, index in enumerate(cells.index) if c != place]
    seen = np.column_stack([*others, cells.trials])
    _, cell_at, at = np.unique(seen, axis=0, return_index=True, return_inverse=True)
    level, at = cells.index[place], at.ravel()
    order = np.lexsort((at, level))
    counts = np.bincount(level, minlength=cells.components[place].n_levels)
    column = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    places = np.full((len(counts), counts.max()), -1, dtype=np.int64)
    passes = np.zeros(places.shape, dtype=np.int64)
    places[level[order], column] = at[order]
    passes[level[order], column] = cells.successes[order]
    rows, n_levels = np.unique(np.hstack([places, passes]), axis=0, return_counts=True)
    places, passes = np.hsplit(rows, 2)
    return _in_groups(places, passes, n_levels, cell_at, cells.trials[cell_at])


def _in_groups(places: Ints, passes: Ints, n_levels: Ints, cell_at: Ints, trials: Ints) -> Patterns:
    """Rows with the same places, which lie one after the other, share one copy of them; `cell_at`
    and `trials` are of each place."""
    new = np.concatenate([[True], (places[1:] != places[:-1]).any(axis=1)])
    group = np.cumsum(new) - 1
    used = places[new] >= 0
    sizes = used.sum(axis=1)
    first = np.cumsum(sizes) - sizes
    together = np.zeros(used.shape)
    np.add.at(together, group, passes * n_levels[:, None])
    of_level = np.where(used, trials[places[new]], 0).sum(axis=1)[group]
    heads = [first[group], sizes[group], n_levels, of_level]
    return Patterns(
        rows=np.column_stack([*heads, passes]).astype(np.float64),
        cells=cell_at[places[new][used]],
        passes=together[used],
    )
