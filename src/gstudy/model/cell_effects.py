"""The component with one level per cell, taken out of the sampler's coordinates.

Such as system:task where each system ran each task several times, or rollouts with several judge
calls each. Given all else its effects are independent, so that the sampler can do without them:
they are integrated out (`cell_marginals`), and drawn afterwards (`conditional_effects`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from gstudy.model.parameterisation import Parameterisation
    from gstudy.study.priors import Prior

__all__ = ["CellEffects", "without_cell_effects"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class CellEffects:
    """A component whose effects are integrated out.

    Parameters
    ----------
    place : int
        Among the components of the cells.
    name : str
    prior : Prior
        Of its sd.
    level_of_cell : array (n_cells,) of int
    classes : array (n_classes, 2)
        Pairs of passes and trials that occur.
    of_cell : array (n_cells,)
        The pair of each cell.
    """

    place: int
    name: str
    prior: Prior
    level_of_cell: NDArray[np.int64]
    classes: Floats
    of_cell: Floats

    def by_level(self, of_cells: Floats) -> Floats:
        """Draws (..., n_cells) in the order of the component's levels."""
        found = np.empty_like(of_cells)
        found[..., self.level_of_cell] = of_cells
        return found


def without_cell_effects(p: Parameterisation, place: int) -> Parameterisation:
    """The same model without the effects of single cells.

    Parameters
    ----------
    p : Parameterisation
    place : int
        The component with one level per cell (see `gstudy.study.integrable`).

    Returns
    -------
    Parameterisation
    """
    data = np.column_stack([p.successes, p.trials])
    classes, of_cell = np.unique(data, axis=0, return_inverse=True)
    block, part = p.blocks[place], p.slices()[place]
    taken = CellEffects(
        place=place,
        name=block.name,
        prior=block.prior,
        level_of_cell=(p.index[:, place] - part.start).astype(np.int64),
        classes=classes.astype(np.float64),
        of_cell=of_cell.astype(np.float64).ravel(),
    )
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
        above=_moved(p.above[kept], part),
        index=np.ascontiguousarray(_moved(np.delete(p.index, place, axis=1), part)),
        cell_effects=taken,
        start=p.start[-n_free:],
        start_width=p.start_width[-n_free:],
    )


def _moved(places: NDArray[np.int32], gone: slice) -> NDArray[np.int32]:
    """Places in a vector from which a part was taken."""
    return np.where(places >= gone.stop, places - (gone.stop - gone.start), places)
