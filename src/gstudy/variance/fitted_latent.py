"""From a fit to its latent draws."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from gstudy.study.index_sets import IndexSet
from gstudy.variance.controlled import (
    Controlled,
    controlled_of_fit,
    object_level_effects,
)
from gstudy.variance.draws import Array
from gstudy.variance.latent import Latent, Own
from gstudy.variance.structure import Structure
from gstudy.variance.trial_weights import known_errors, level_shares, mean_shares

if TYPE_CHECKING:
    from gstudy.fits.fitted import Fit
    from gstudy.study.components import Component

__all__ = ["latent_of_fit"]


def latent_of_fit(fit: Fit, structure: Structure) -> Latent:
    """The latent draws of a fit.

    Parameters
    ----------
    fit : Fit
    structure : Structure
        Of the same fit.

    Returns
    -------
    Latent
    """
    shared = [component for component in fit.design.components if component.varies is None]
    held = structure.controlled
    shares = level_shares(fit.study, fit.design.cells, held) if held else {}
    controlled = controlled_of_fit(fit, mean_shares(shares)) if held else None
    variances = [fit.sd(component.name) ** 2 for component in shared]
    return Latent(
        structure=structure,
        mu=fit.mu,
        sets=tuple(component.facets - held for component in shared),
        variances=np.stack(variances) if variances else np.zeros((0, *fit.mu.shape)),
        object_effects=_object_effects(fit, structure.object),
        family=fit.study.family,
        noise=_noise(fit),
        held=tuple(component.facets & held for component in shared),
        controlled=controlled,
        level_effects=_level_effects(fit, controlled, structure.object),
        level_weights={} if controlled is None else _level_weights(shares, controlled),
        own=tuple(
            _own(fit, component, structure)
            for component in fit.design.components
            if component.varies is not None
        ),
    )


def _level_weights(
    shares: Mapping[str | None, Mapping[tuple[str, ...], float]], controlled: Controlled
) -> dict[str, Array]:
    """Of each system the weights of the controlled levels, (n_levels,)."""
    return {
        label: np.array([own[labels] for labels in controlled.levels])
        for label, own in shares.items()
        if label is not None
    }


def _noise(fit: Fit) -> Array | None:
    """Variance of one graded trial given everything else."""
    if fit.study.family != "gaussian":
        return None
    cells = fit.design.cells
    squares = known_errors(cells)
    if squares is None:
        return np.asarray(fit.sd("residual") ** 2)
    return np.full(fit.mu.shape, float(squares @ cells.trials / cells.trials.sum()))


def _own(fit: Fit, component: Component, structure: Structure) -> Own:
    """A varying component, one sd per level of the object."""
    measured = structure.object or ""
    labels = fit.design.cells.labels[measured]
    crossed = measured not in component.facets
    correlation = None
    if crossed:
        values = fit.correlation(component.name).transpose("chain", "draw", ...).values
        correlation = np.moveaxis(values, (2, 3), (0, 1))
    gone: IndexSet = structure.object_set | structure.controlled
    return Own(
        index_set=component.facets - gone,
        labels=labels,
        sds=np.stack([fit.own_sd(component.name, label) for label in labels]),
        correlation=correlation,
        held=component.facets & structure.controlled,
    )


def _level_effects(
    fit: Fit, controlled: Controlled | None, object_facet: str | None
) -> dict[str, Array]:
    if controlled is None or object_facet is None:
        return {}
    return object_level_effects(fit, controlled, object_facet)


def _object_effects(fit: Fit, object_facet: str | None) -> dict[str, Array]:
    """Effects of the levels of the object; of an object with one level, zero."""
    design = fit.design
    if object_facet is None:
        label = design.not_sampled.get(fit.study.object or "")
        return {} if label is None else {label: np.zeros(fit.mu.shape)}
    own = frozenset({object_facet})
    cells = design.cells
    for i, component in enumerate(design.components):
        if own in component.merged:
            effects = fit.effects(component.name).values
            facets = [facet for facet in cells.facets if facet in component.facets]
            codes = cells.levels[i][:, facets.index(object_facet)]
            labels = cells.labels[object_facet]
            return {labels[code]: effects[..., k] for k, code in enumerate(codes)}
    return {}
