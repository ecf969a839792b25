"""Draws of a model with own sds by name: what the gates measure, and the posterior's variables."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gstudy.model.recovered import SAMPLE, Recovered
from gstudy.model.sweep import redraw_shifts, shifting_pairs
from gstudy.model.varying import by_system
from gstudy.study.assessment import LARGEST_STORED

if TYPE_CHECKING:
    from gstudy.model.levels import OwnDraws
    from gstudy.model.varying import OwnBlock, Varying
    from gstudy.study.assessment import Assessment

__all__ = ["recovered_own"]

Floats = NDArray[np.float64]


def recovered_own(
    assessment: Assessment,
    varying: Varying,
    draws: OwnDraws,
    rng: np.random.Generator,
    store_effects: bool | None,
) -> Recovered:
    """Name the draws of a model with own sds, after a redraw of what its components share.

    Parameters
    ----------
    assessment : Assessment
    varying : Varying
    draws : OwnDraws
        Overwritten: shifts between shared components are drawn anew (see `redraw_shifts`).
    rng : numpy.random.Generator
    store_effects : bool, optional
        As in `gstudy.fit`.

    Returns
    -------
    Recovered
    """
    _redraw(assessment, draws, rng)
    scalars = {"mu": draws.mu}
    derived: dict[str, Floats] = {}
    variables: dict[str, Any] = {"mu": (SAMPLE, draws.mu)}
    coords: dict[str, Any] = {}
    for c, block in enumerate(varying.blocks):
        name, labels = block.name, assessment.cells.level_labels(c)
        coords[name] = np.array(labels, dtype=str)
        effects = draws.effects[c]
        if block.component.fixed:
            variables[f"fixed({name})"] = ((*SAMPLE, name), effects)
            scalars |= {f"fixed({name})[{x}]": effects[..., i] for i, x in enumerate(labels)}
            continue
        scalars |= _sds(block, draws.sds[c], varying.labels)
        variables |= _variables(block, draws, c, store_effects)
        if block.component.varies is not None:
            coords[by_system(name)] = np.array(varying.labels, dtype=str)
        correlation = draws.correlations[c]
        if correlation is not None:
            coords[by_system(name, 2)] = np.array(varying.labels, dtype=str)
            scalars |= _correlations(name, correlation, varying.labels)
        if block.per_system and block.size == block.n_segments:
            derived |= {f"mu + u({x})": draws.mu + effects[..., i] for i, x in enumerate(labels)}
    return Recovered(scalars, derived, variables, coords)


def _redraw(assessment: Assessment, draws: OwnDraws, rng: np.random.Generator) -> None:
    """Redraw the shifts between components with one sd."""
    components = assessment.cells.components
    pairs = [
        (outer, inner)
        for outer, inner in shifting_pairs(assessment.cells)
        if components[outer].varies is None and components[inner].varies is None
    ]
    shared = {place for pair in pairs for place in pair}
    for place in shared:
        draws.effects[place] = np.ascontiguousarray(draws.effects[place])
    flat = [
        e.reshape(-1, e.shape[-1]) if c in shared else e[:0] for c, e in enumerate(draws.effects)
    ]
    sds = [sd.ravel() if c in shared else draws.mu.ravel() for c, sd in enumerate(draws.sds)]
    redraw_shifts(assessment.cells, sds, flat, rng, pairs)


def _sds(block: OwnBlock, sd: Floats, labels: tuple[str, ...]) -> dict[str, Floats]:
    if block.component.varies is None:
        return {f"sd({block.name})": sd}
    return {f"sd({block.name})[{x}]": sd[..., s] for s, x in enumerate(labels)}


def _correlations(name: str, correlation: Floats, labels: tuple[str, ...]) -> dict[str, Floats]:
    return {
        f"corr({name})[{labels[a]}, {labels[b]}]": correlation[..., a, b]
        for a, b in combinations(range(len(labels)), 2)
    }


def _variables(
    block: OwnBlock, draws: OwnDraws, c: int, store_effects: bool | None
) -> dict[str, Any]:
    """Sds, correlations and effects of one component, with their dimensions."""
    name, own = block.name, (by_system(block.name),)
    crossed = block.segments is None
    found: dict[str, Any] = {
        f"sd({name})": ((*SAMPLE, *(own if block.component.varies else ())), draws.sds[c])
    }
    if crossed:
        found[f"corr({name})"] = ((*SAMPLE, *own, by_system(name, 2)), draws.correlations[c])
    dims, effects = (name, *(own if crossed else ())), draws.effects[c]
    if store_effects or block.component.n_levels <= LARGEST_STORED:
        found[f"u({name})"] = ((*SAMPLE, *dims), effects)
    else:
        found[f"u_mean({name})"] = (dims, effects.mean(axis=(0, 1)))
        found[f"u_sd({name})"] = (dims, effects.std(axis=(0, 1)))
    return found
