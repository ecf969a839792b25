"""Which effects the direct path does without while it samples: those that single cells have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from gstudy.study.cells import Cells

__all__ = ["cell_component"]

CELLS_A_CLASS = 150
"""Integrating wins where there are at least this many cells to each pair of passes and trials.
Measured, smallest bulk ESS of an sd or mu per CPU second with and without: 20 systems on 170
tasks (3,400 cells, 378 a pair) 259 and 61; two systems on 198 tasks (396 cells, 66 a pair) 108
and 188."""


def cell_component(cells: Cells) -> int | None:
    """The component whose effects are integrated out, by its place; None without one.

    It has one level per cell, such as system:task where each system ran each task several times,
    there are others beside it, and many cells have the same passes of the same number of trials.

    Parameters
    ----------
    cells : Cells

    Returns
    -------
    int or None
    """
    n_cells = len(cells.trials)
    own = any(component.varies for component in cells.components)
    if cells.graded is not None or own or len(cells.components) == 1:
        return None
    for place, component in enumerate(cells.components):
        if not component.fixed and component.n_levels == n_cells:
            pairs = np.unique(np.column_stack([cells.successes, cells.trials]), axis=0)
            return place if CELLS_A_CLASS * len(pairs) <= n_cells else None
    return None
