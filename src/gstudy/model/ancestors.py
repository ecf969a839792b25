"""Which effects lie above an effect, and how much of its trials' information gets up to them.

A level of system:task lies in one system and one task, a rollout in one task: their trials see the
effects above and the effect itself as one sum. So do those of a lecturer who has taught in a single
department, whether that was declared or not: the trials decide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gstudy.model.modes import Modes
    from gstudy.study.cells import Cells

__all__ = [
    "NONE",
    "components_above",
    "from_above",
    "levels_above",
    "making_up",
    "passed_information",
    "places_above",
]

Floats = NDArray[np.float64]

NONE = -1
"""Place of no effect."""

FEWEST_BELOW = 20
"""Levels from which on a component makes up for what is above it. The sd of fewer is so uncertain
that the share they make up for is wrong as often as right: 2 systems x 4 tasks x 3 judges, graded,
had up to 3 divergences in 5 of 6 seeds, and none without."""

LEAST_SLACK = 0.1
"""Median of sd^2 I of its levels from which on a component makes up for what is above it. One whose
levels say less is too narrow to: what changes above is made up elsewhere, and all of its scores
would be wrong by it. Measured on LLMBar (benchmarks), 7,860 levels of task:prompt with sd^2 I of
.08: ESS of their sd in 1,000 draws 69 and 90 where they make up, 191 and 155 where they do not."""


def components_above(cells: Cells) -> list[list[int]]:
    """For each component those of which each of its levels lies in one level.

    There are none for fixed effects and for components of few levels. A component of one level is
    its own mean, which is swept: it is above none. Of components whose facets are no part of each
    other the one with fewer levels is above.
    """
    return [
        [a for a in range(len(cells.components)) if _lies_in(cells, a, c)]
        if not component.fixed and component.n_levels >= FEWEST_BELOW
        else []
        for c, component in enumerate(cells.components)
    ]


def _lies_in(cells: Cells, above: int, component: int) -> bool:
    outer, inner = cells.components[above], cells.components[component]
    if outer.n_levels == 1 or outer.n_levels > inner.n_levels:
        return False
    if outer.facets < inner.facets:
        return True
    if outer.n_levels == inner.n_levels:
        return False
    found = levels_above(cells, above, component)
    return bool((found[cells.index[component]] == cells.index[above]).all())


def making_up(cells: Cells, modes: Modes, above: Sequence[Sequence[int]]) -> list[Sequence[int]]:
    """The components above those that can make up for them, of `components_above`; of others none.

    Parameters
    ----------
    cells : Cells
    modes : Modes
    above : sequence of sequences of int
        Of `components_above`.

    Returns
    -------
    list of sequences of int, one per component
    """
    slack = [sd**2 * float(np.median(i)) for sd, i in zip(modes.sd, modes.information, strict=True)]
    return [found if slack[c] >= LEAST_SLACK else [] for c, found in enumerate(above)]


def from_above(cells: Cells) -> list[int]:
    """Components in an order in which those above come before those below."""
    components = cells.components
    return sorted(
        range(len(components)), key=lambda c: (components[c].n_levels, len(components[c].facets))
    )


def levels_above(cells: Cells, above: int, component: int) -> NDArray[np.int32]:
    """The level of component `above` that each level of `component` lies in."""
    found = np.empty(cells.components[component].n_levels, dtype=np.int32)
    found[cells.index[component]] = cells.index[above]
    return found


def places_above(cells: Cells, above: Sequence[Sequence[int]]) -> NDArray[np.int32]:
    """Places (n_effects, most above) of the effects above each effect, all components laid end to
    end; `NONE` fills the rows."""
    sizes = [component.n_levels for component in cells.components]
    begin = np.cumsum([0, *sizes])
    found = np.full((begin[-1], max(map(len, above), default=0)), NONE, dtype=np.int32)
    for c, components in enumerate(above):
        for k, a in enumerate(components):
            found[begin[c] : begin[c + 1], k] = levels_above(cells, a, c) + begin[a]
    return found


def passed_information(
    cells: Cells,
    sd: Sequence[float],
    of_cells: Floats,
    above: Sequence[Sequence[int]],
    bounded: Sequence[NDArray[Any]] | None = None,
) -> list[Floats]:
    """Information about each level once the effects below it have taken their part.

    A cell's information is divided by ``1 + sum of sd^2 I`` over the effects below: their own
    trials, of information I, tell what they add only so far as it exceeds their prior.

    Parameters
    ----------
    cells : Cells
    sd : sequence of float
        Of each component.
    of_cells : array (n_cells,)
        Information of each cell's trials.
    above : sequence of sequences of int
        Of `components_above`.
    bounded : sequence of bool arrays, one per component, optional
        Levels that have information at all.

    Returns
    -------
    list of arrays (K,), one per component
    """
    found: dict[int, Floats] = {}
    # From the end: what is below a component is known before it.
    for c in reversed(from_above(cells)):
        share = np.ones(len(of_cells))
        for b in found:
            if c in above[b]:
                share += sd[b] ** 2 * found[b][cells.index[b]]
        size = cells.components[c].n_levels
        sums = np.bincount(cells.index[c], weights=of_cells / share, minlength=size)
        found[c] = sums if bounded is None else sums * bounded[c]
    return [found[c] for c in range(len(above))]
