"""Own sds of each system: how the model of a study with `varies` is written for the sampler.

The data see mu, the effect of a system and the means of all effects only as one level of each
system. Sampled are these levels and effects without their means, standardised by what their trials
say; as in `parameterisation`, no choice changes the posterior.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gstudy.model.modes import posterior_modes
from gstudy.model.parameterisation import INFORMATION_KEPT, Parameterisation, parameterise
from gstudy.model.segments import Segments
from gstudy.study.cells import joined_labels

if TYPE_CHECKING:
    from gstudy.model.modes import Modes
    from gstudy.study.assessment import Assessment
    from gstudy.study.cells import Cells
    from gstudy.study.components import Component

__all__ = ["OwnBlock", "Varying", "by_system", "vary"]

Floats = NDArray[np.float64]

NEWTON_STEPS = 20


@dataclass(frozen=True, slots=True, eq=False)
class OwnBlock:
    """One component as the sampler of own sds sees it.

    Parameters
    ----------
    component : Component
    size : int
        Effects: K, or S T of a facet crossed with the object.
    segments : Segments or None
        Segments with a swept mean each: one per system where the component holds the object, else
        a single one. None of a facet crossed with the object.
    """

    component: Component
    size: int
    segments: Segments | None

    @property
    def name(self) -> str:
        """Its component's name."""
        return self.component.name

    @property
    def variable(self) -> str:
        """Name of its standard effects z, without their means, in the PyMC model."""
        return f"z({self.name})"

    @property
    def n_segments(self) -> int:
        """Segments; 0 of a facet crossed with the object."""
        return 0 if self.segments is None else len(self.segments.member)

    @property
    def per_system(self) -> bool:
        """Whether each system has a segment."""
        return self.n_segments > 1


@dataclass(frozen=True, slots=True, eq=False)
class Varying:
    """A model with own sds of each system, ready to be written down.

    ``level_s = mu + u_object[s] + the means of all other effects over the levels of system s``;
    sampled is ``location_s = level_s + weights_s' effects``, `weights` (S, n_effects) being shares
    of the information within each system's trials; `level_information` and `level_scores` (S,) are
    those of all its trials about that location. `base` has the likelihood and the prior of mu:
    rows of its index (n_cells, n_blocks + 1) point into the effects of all blocks laid end to end,
    then the levels of the systems.

    Systems stand in the order of the information about them, the best known first: `order` has
    their places in that order, sorted as their `labels` (and all results) are.
    """

    blocks: tuple[OwnBlock, ...]
    base: Parameterisation
    order: NDArray[np.int64]
    labels: tuple[str, ...]
    weights: Floats
    information: Floats
    scores: Floats
    level_information: Floats
    level_scores: Floats

    @property
    def n_systems(self) -> int:
        """Levels of the object."""
        return len(self.labels)

    def slices(self) -> list[slice]:
        """Each block's part of the effects."""
        ends = np.cumsum([0, *(b.size for b in self.blocks)]).tolist()
        return [slice(start, end) for start, end in pairwise(ends)]


def by_system(component: str, place: int = 1) -> str:
    """Dimension of the systems that a component has its own sds of, and of their second axis."""
    return f"by({component})" if place == 1 else f"by_{place}({component})"


def vary(assessment: Assessment, *, standardise: bool = True, weighted: bool = True) -> Varying:
    """Choose the parameterisation of a design with own sds.

    Parameters
    ----------
    assessment : Assessment
        With `varies` in at least one component.
    standardise : bool
        Standardise effects by their trials (True), or leave them non-centred.
    weighted : bool
        Weight the location by information (True) or equally.
    """
    cells = assessment.cells
    rank, order_of_systems, labels = _systems(assessment)
    n_systems = len(labels)
    known = _reference(cells, rank, n_systems)
    kept = INFORMATION_KEPT * standardise
    blocks, index, weights, information, scores = [], [], [], [], []
    start = 0
    for c, component in enumerate(cells.components):
        segments = _segments(assessment, c, rank, n_systems)
        order = np.arange(len(known.effects[c])) if segments is None else segments.order
        place = np.argsort(order)[known.index[c]]
        blocks.append(OwnBlock(component, len(order), segments))
        information.append(known.information[c][order] * kept)
        # At the modes' own sd, a^2 score is the mode.
        precision = information[-1] + known.sd[c][order] ** -2
        scores.append(known.effects[c][order] * precision * standardise)
        weights.append(_weights(place, rank, known.of_cells, n_systems, segments, len(order)))
        index.append(place + start)
        start += len(order)
    index.append(rank + start)
    level_information = np.bincount(rank, known.of_cells)
    middle = np.bincount(rank, known.of_cells * known.eta) / level_information
    base = parameterise(replace(cells, components=(), index=(), levels=()), assessment.mu_prior)
    return Varying(
        blocks=tuple(blocks),
        base=replace(base, index=np.ascontiguousarray(np.array(index, dtype=np.int32).T)),
        order=order_of_systems,
        labels=labels,
        weights=np.concatenate(weights, axis=1) * weighted,
        information=np.concatenate(information),
        scores=np.concatenate(scores),
        level_information=level_information * kept,
        level_scores=level_information * kept * middle,
    )


def _object(assessment: Assessment) -> str:
    """The facet whose levels have own sds."""
    return next(str(c.varies) for c in assessment.components if c.varies)


def _systems(
    assessment: Assessment,
) -> tuple[NDArray[np.int64], NDArray[np.int64], tuple[str, ...]]:
    """Per cell the place of its system, best known first; for each label its place; labels."""
    cells, name = assessment.cells, _object(assessment)
    inside = [f for f in cells.facets if f in assessment.study.closure(name)]
    codes = cells.codes[:, [cells.facets.index(f) for f in inside]]
    # Labels of systems in several families may be the same.
    own = cells.codes[:, [cells.facets.index(name)]]
    if len(np.unique(own)) == len(np.unique(codes, axis=0)):
        inside, codes = [name], own
    found, at = np.unique(codes, axis=0, return_inverse=True)
    labels = joined_labels([cells.labels[f] for f in inside], found.astype(np.int32))
    rate = (cells.successes + 0.5) / (cells.trials + 1.0)
    known = np.bincount(at.ravel(), weights=cells.trials * rate * (1.0 - rate))
    rank = np.argsort(np.argsort(-known, kind="stable"))
    return rank[at.ravel()], rank, tuple(labels)


@dataclass(frozen=True, slots=True, eq=False)
class _Reference:
    """Rough modes: per component the level of each cell (one per system and level of a facet
    crossed with the object), and of each level effect, sd and information; logit and information
    of each cell."""

    index: list[NDArray[np.int32]]
    effects: list[Floats]
    sd: list[Floats]
    information: list[Floats]
    eta: Floats
    of_cells: Floats


def _reference(cells: Cells, rank: NDArray[np.int64], n_systems: int) -> _Reference:
    """Modes of each system from its own trials; of what systems share, from all trials."""
    paired = _paired(cells, rank, n_systems)
    joint = posterior_modes(paired)
    sd = [np.full(len(e), one) for e, one in zip(joint.effects, joint.sd, strict=True)]
    found = _Reference(
        list(paired.index),
        joint.effects,
        sd,
        joint.information,
        np.empty(len(rank)),
        np.empty(len(rank)),
    )
    for s in range(n_systems):
        rows = rank == s
        own = _rows_of(cells, rows)
        modes = posterior_modes(own)
        found.eta[rows], found.of_cells[rows] = _cell_information(own, modes)
        for c, component in enumerate(cells.components):
            if component.varies is None:
                continue
            crossed, size = _crossed(component), component.n_levels
            theirs = np.arange(size) if crossed else np.unique(own.index[c])
            ours = theirs + s * size * crossed
            found.effects[c][ours] = modes.effects[c][theirs]
            found.information[c][ours] = modes.information[c][theirs]
            found.sd[c][ours] = modes.sd[c]
    return found


def _rows_of(cells: Cells, rows: NDArray[np.bool_]) -> Cells:
    return replace(
        cells,
        codes=cells.codes[rows],
        successes=cells.successes[rows],
        trials=cells.trials[rows],
        index=tuple(index[rows] for index in cells.index),
    )


def _paired(cells: Cells, rank: NDArray[np.int64], n_systems: int) -> Cells:
    """Cells in which a facet crossed with the object has one level per system and level."""
    components, index = list(cells.components), list(cells.index)
    for c, component in enumerate(cells.components):
        if _crossed(component):
            size = component.n_levels
            components[c] = replace(component, n_levels=n_systems * size)
            index[c] = (rank * size + cells.index[c]).astype(np.int32)
    return replace(cells, components=tuple(components), index=tuple(index))


def _crossed(component: Component) -> bool:
    """Whether each of its levels has an effect in each system, correlated between them."""
    return component.varies is not None and component.varies not in component.facets


def _segments(
    assessment: Assessment, c: int, rank: NDArray[np.int64], n_systems: int
) -> Segments | None:
    """One segment per system where the component holds the object, else one."""
    component, index = assessment.cells.components[c], assessment.cells.index[c]
    if _crossed(component):
        return None
    if component.fixed or _object(assessment) not in component.facets:
        return Segments.of(np.zeros(component.n_levels, dtype=np.int64), 1)
    segment = np.zeros(component.n_levels, dtype=np.int64)
    segment[index] = rank
    return Segments.of(segment, n_systems)


def _cell_information(cells: Cells, modes: Modes) -> tuple[Floats, Floats]:
    """Logit and n p (1 - p) of each cell at the modes, with the common logit that fits best."""
    k, n = cells.successes, cells.trials
    effects = sum(e[i] for e, i in zip(modes.effects, cells.index, strict=True))
    common = 0.0
    for _ in range(NEWTON_STEPS):
        p = 1.0 / (1.0 + np.exp(-(common + effects)))
        slope = float((n * p * (1.0 - p)).sum()) + 1.0
        common += float(np.clip((k - n * p).sum() / slope, -1.0, 1.0))
    return np.asarray(common + effects), np.asarray(n * p * (1.0 - p), dtype=np.float64)


def _weights(
    place: NDArray[np.int64],
    rank: NDArray[np.int64],
    information: Floats,
    n_systems: int,
    segments: Segments | None,
    size: int,
) -> Floats:
    """Each effect's share (S, size) of the information in a system's trials.

    Effects sum to zero in each segment, so an equal part drops out.
    """
    found = np.zeros((n_systems, size))
    np.add.at(found, (rank, place), information)
    share = found / found.sum(axis=1, keepdims=True)
    if segments is None:
        rows = share.reshape(n_systems, n_systems, -1)
        return np.asarray(rows - rows.mean(axis=-1, keepdims=True)).reshape(n_systems, size)
    means = share @ segments.member.T / segments.sizes
    return np.asarray(share - means @ segments.member)
