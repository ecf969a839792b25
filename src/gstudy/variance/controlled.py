"""Controlled facets with several levels: fixed effects, averaged on the score scale."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from gstudy.study.partition import split
from gstudy.variance.draws import Array

if TYPE_CHECKING:
    from gstudy.fits.fitted import Fit
    from gstudy.study.cells import Cells
    from gstudy.study.index_sets import IndexSet

__all__ = ["Controlled", "controlled_of_fit", "level_rows"]

# Effects on combinations that no trial shows are new draws; always the same ones.
_SEED = 20260101


@dataclass(frozen=True, slots=True, eq=False)
class Controlled:
    """The levels of the controlled facets, and what each one adds to the linear predictor.

    Parameters
    ----------
    facets : tuple of str
        Controlled facets with several levels, in declared order.
    levels : tuple of tuple of str
        The combinations of their labels that occur.
    offsets : array (n_levels, chain, draw)
        Sum of the fixed effects of each combination, scale of the linear predictor; of one given
        system with its own effects on them.
    weights : array (n_levels,)
        Weight of each combination in the reported score; they sum to 1.
    """

    facets: tuple[str, ...]
    levels: tuple[tuple[str, ...], ...]
    offsets: Array
    weights: Array

    @property
    def names(self) -> tuple[str, ...]:
        """One text per combination."""
        return tuple(", ".join(labels) for labels in self.levels)

    def agree(self, facets: Iterable[str]) -> Array:
        """1 for each pair of combinations that have the same labels of these facets, else 0."""
        known = frozenset(facets)
        places = [i for i, facet in enumerate(self.facets) if facet in known]
        own = [tuple(labels[i] for i in places) for labels in self.levels]
        return np.array([[float(one == other) for other in own] for one in own])

    def n_levels(self, facets: Iterable[str]) -> int:
        """How many combinations of the labels of these facets occur; 1 of none of them."""
        known = frozenset(facets)
        places = [i for i, facet in enumerate(self.facets) if facet in known]
        return len({tuple(labels[i] for i in places) for labels in self.levels})

    def common(self, one: int, two: int) -> IndexSet:
        """The controlled facets on which two combinations agree."""
        pairs = zip(self.facets, self.levels[one], self.levels[two], strict=True)
        return frozenset(facet for facet, first, second in pairs if first == second)


def level_rows(cells: Cells, controlled: Controlled) -> npt.NDArray[np.intp]:
    """Of each cell the place of its combination among the controlled levels, int array."""
    places = {labels: i for i, labels in enumerate(controlled.levels)}
    columns = [cells.facets.index(facet) for facet in controlled.facets]
    labels = [cells.labels[facet] for facet in controlled.facets]
    rows = cells.codes[:, columns].tolist()
    found = [places[tuple(own[c] for own, c in zip(labels, row, strict=True))] for row in rows]
    return np.array(found, dtype=np.intp)


def controlled_of_fit(fit: Fit, weights: Mapping[tuple[str, ...], float]) -> Controlled | None:
    """The controlled levels of a fit, or None when each controlled facet has one.

    Parameters
    ----------
    fit : Fit
    weights : mapping of tuple of str to float
        Weight of each combination of labels in the reported score.

    Returns
    -------
    Controlled or None
    """
    facets = controlled_facets(fit)
    if not facets:
        return None
    levels = combinations(fit.design.cells, facets)
    effects = {facet: _by_label(fit, facet) for facet in facets}
    offsets = [
        np.sum([effects[f][label] for f, label in zip(facets, labels, strict=True)], axis=0)
        for labels in levels
    ]
    return Controlled(
        facets=facets,
        levels=levels,
        offsets=np.stack(offsets),
        weights=np.array([weights[labels] for labels in levels]),
    )


def controlled_facets(fit: Fit) -> tuple[str, ...]:
    """Controlled facets with fixed effects, in declared order."""
    members = frozenset[str]().union(*(component.facets for component in fit.design.fixed))
    return tuple(facet for facet in fit.study.facet_names if facet in members)


def combinations(cells: Cells, facets: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """The combinations of labels that occur in the cells."""
    columns = [cells.facets.index(facet) for facet in facets]
    rows = cells.codes[split(cells.codes, columns).first_rows()][:, columns].tolist()
    labels = [cells.labels[facet] for facet in facets]
    return tuple(tuple(own[c] for own, c in zip(labels, row, strict=True)) for row in rows)


def object_level_effects(fit: Fit, controlled: Controlled, object_facet: str) -> dict[str, Array]:
    """Effects of each level of the object on the controlled levels, (n_levels, chain, draw).

    Of a combination that no trial shows the effect is a new draw.
    """
    cells, shape = fit.design.cells, fit.mu.shape
    labels = cells.labels[object_facet]
    total = {label: np.zeros((len(controlled.levels), *shape)) for label in labels}
    rng = np.random.default_rng(_SEED)
    found = False
    for i, component in enumerate(fit.design.components):
        held = component.facets & frozenset(controlled.facets)
        if not held or component.facets - held != {object_facet} or component.varies:
            continue
        found = True
        known = _known_effects(fit, i, cells)
        facets = [facet for facet in cells.facets if facet in component.facets]
        for label, level in ((a, b) for a in labels for b in range(len(controlled.levels))):
            own = dict(zip(controlled.facets, controlled.levels[level], strict=True))
            own[object_facet] = label
            key = tuple(own[facet] for facet in facets)
            if key not in known:
                known[key] = rng.standard_normal(shape) * fit.sd(component.name)
            total[label][level] += known[key]
    return total if found else {}


def _known_effects(fit: Fit, place: int, cells: Cells) -> dict[tuple[str, ...], Array]:
    """Effects of one component by the labels of its levels, facets in declared order."""
    component = cells.components[place]
    effects = fit.effects(component.name).values
    labels = [cells.labels[facet] for facet in cells.facets if facet in component.facets]
    rows = cells.levels[place].tolist()
    return {
        tuple(own[c] for own, c in zip(labels, row, strict=True)): effects[..., k]
        for k, row in enumerate(rows)
    }


def _by_label(fit: Fit, facet: str) -> dict[str, Array]:
    """Fixed effects of a facet by label, (chain, draw)."""
    effects = fit.fixed(facet).transpose("chain", "draw", ...)
    labels = [str(label) for label in effects.coords[effects.dims[-1]].values]
    return {label: effects.values[..., k] for k, label in enumerate(labels)}
