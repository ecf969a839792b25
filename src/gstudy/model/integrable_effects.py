"""A component whose levels have few trials, taken out of the sampler's coordinates.

Such as system:task where each system ran each task several times, or rollouts with several judge
calls each. Given all else its effects are independent, so that the sampler can do without them:
they are integrated out, by tables where cells have a level each and many are alike
(`cell_marginals`), else on a grid (`level_marginals`); and drawn afterwards
(`conditional_effects`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gstudy.model.ancestors import NONE
from gstudy.study.integrable import patterns_of, single_cells

if TYPE_CHECKING:
    from gstudy.model.parameterisation import Parameterisation
    from gstudy.study.cells import Cells
    from gstudy.study.priors import Prior

__all__ = ["LevelEffects", "without_effects"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class LevelEffects:
    """A component whose effects are integrated out, and what its likelihood is computed from.

    Parameters
    ----------
    place : int
        Among the components of the cells.
    name : str
    prior : Prior
        Of its sd.
    by_tables : bool
        Whether each level has one cell and tables give its likelihood; else a grid does.
    index : array (n_rows, n_components) of int32
        Positions of the other effects: of every cell for tables, of every place for a grid.
    observed, trials : array (n_rows,)
        For tables the class of each cell (its trials are not used), for a grid passes of all levels
        and trials of each at every place.
    classes : array
        Pairs of passes and trials that occur, or the rows of `Patterns`.
    """

    place: int
    name: str
    prior: Prior
    by_tables: bool
    index: NDArray[np.int32]
    observed: Floats
    trials: Floats
    classes: Floats


def without_effects(p: Parameterisation, cells: Cells, place: int) -> Parameterisation:
    """The same model without the effects of one component.

    Parameters
    ----------
    p : Parameterisation
    cells : Cells
    place : int
        The component (see `gstudy.study.integrable`).

    Returns
    -------
    Parameterisation
    """
    block, part = p.blocks[place], p.slices()[place]
    index = np.ascontiguousarray(_moved(np.delete(p.index, place, axis=1), part))
    kept = np.ones(len(p.weights), dtype=np.bool_)
    kept[part] = False
    # Every coordinate starts at 0, but for the location.
    n_free = p.n_free - block.n_free
    return replace(
        p,
        blocks=tuple(b for c, b in enumerate(p.blocks) if c != place),
        weights=p.weights[kept],
        information=p.information[kept],
        scores=p.scores[kept],
        above=_above_without(p.above[kept], part),
        index=index,
        integrated=_level_effects(p, cells, place, index),
        start=p.start[-n_free:],
        start_width=p.start_width[-n_free:],
    )


def _level_effects(
    p: Parameterisation, cells: Cells, place: int, index: NDArray[np.int32]
) -> LevelEffects:
    block, by_tables = p.blocks[place], single_cells(cells, place)
    if by_tables:
        pairs = np.column_stack([p.successes, p.trials])
        classes, of_cell = np.unique(pairs, axis=0, return_inverse=True)
        observed, trials = of_cell.ravel().astype(np.float64), p.trials
    else:
        found = patterns_of(cells, place)
        index = np.ascontiguousarray(index[found.cells])
        classes, observed, trials = found.rows, found.passes, p.trials[found.cells]
    return LevelEffects(place, block.name, block.prior, by_tables, index, observed, trials, classes)


def _above_without(above: NDArray[np.int32], gone: slice) -> NDArray[np.int32]:
    """Places of the effects above, without those that were taken: `NONE` last in each row."""
    left = np.where((above >= gone.start) & (above < gone.stop), NONE, above)
    order = np.argsort(left == NONE, axis=1, kind="stable")
    return _moved(np.take_along_axis(left, order, axis=1), gone)


def _moved(places: NDArray[np.int32], gone: slice) -> NDArray[np.int32]:
    """Places in a vector from which a part was taken."""
    return np.where(places >= gone.stop, places - (gone.stop - gone.start), places)
