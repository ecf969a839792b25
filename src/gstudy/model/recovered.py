"""Recovered draws by name: what the gates measure, and the posterior as a tree.

Every way of writing the model ends here: mu, sds and effects as they stand in the declaration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gstudy.fits.fitted import cell_groups
from gstudy.study.assessment import LARGEST_STORED, Assessment

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Recovered", "recovered_draws", "recovered_tree"]

Floats = NDArray[np.float64]

SAMPLE = ("chain", "draw")


@dataclass(frozen=True, slots=True, eq=False)
class Recovered:
    """Draws of one posterior on the scale of the linear predictor.

    Parameters
    ----------
    scalars : mapping of str to array (chain, draw)
        Parameters that the gates measure: mu, sds, fixed effects level by level.
    derived : mapping of str to array (chain, draw)
        What the gates measure beside them, such as the level of each system.
    variables : mapping of str to (dims, array)
        The posterior group.
    coords : mapping of str to array
        Labels of the dimensions but chain and draw.
    """

    scalars: Mapping[str, Floats]
    derived: Mapping[str, Floats]
    variables: Mapping[str, tuple[tuple[str, ...], Floats]]
    coords: Mapping[str, NDArray[Any]] = field(default_factory=dict)


def recovered_draws(
    assessment: Assessment,
    scales: Mapping[str, Floats],
    effects: Sequence[Floats],
    store_effects: bool | None,
    summarised: Mapping[int, tuple[Floats, Floats]] | None = None,
) -> Recovered:
    """Name the draws of a model with one sd per component.

    Parameters
    ----------
    assessment : Assessment
    scales : mapping of str to array (chain, draw)
        ``mu``, ``sd(<component>)`` and ``sd(residual)`` where there is one.
    effects : sequence of arrays (chain, draw, K)
        One per component of the cells: the fixed effects last.
    store_effects : bool, optional
        As in `gstudy.fit`.
    summarised : mapping of int to (array (K,), array (K,)), optional
        Mean and sd of the effects of components, by their place, whose draws are not there.

    Returns
    -------
    Recovered
    """
    cells = assessment.cells
    moments = {} if summarised is None else summarised
    scalars = dict(scales)
    variables: dict[str, Any] = {name: (SAMPLE, values) for name, values in scales.items()}
    coords: dict[str, Any] = {}
    for c, component in enumerate(cells.components):
        name, labels = component.name, cells.level_labels(c)
        coords[name] = np.array(labels, dtype=str)
        if component.fixed:
            variables[f"fixed({name})"] = ((*SAMPLE, name), effects[c])
            scalars |= {f"fixed({name})[{x}]": effects[c][..., i] for i, x in enumerate(labels)}
        elif c not in moments and (store_effects or component.n_levels <= LARGEST_STORED):
            variables[f"u({name})"] = ((*SAMPLE, name), effects[c])
        else:
            both = moments.get(c) or (effects[c].mean(axis=(0, 1)), effects[c].std(axis=(0, 1)))
            variables[f"u_mean({name})"] = ((name,), both[0])
            variables[f"u_sd({name})"] = ((name,), both[1])
    levels = _object_levels(assessment, scales["mu"], effects)
    return Recovered(scalars, levels, variables, coords)


def _object_levels(
    assessment: Assessment, mu: Floats, effects: Sequence[Floats]
) -> dict[str, Floats]:
    """Level of each system: what every number of one system is computed from."""
    obj = assessment.study.object
    for c, component in enumerate(assessment.components):
        if obj is not None and component.facets == frozenset({obj}) and effects[c].size:
            labels = assessment.cells.level_labels(c)
            return {f"mu + u({x})": mu + effects[c][..., i] for i, x in enumerate(labels)}
    return {}


def recovered_tree(assessment: Assessment, recovered: Recovered, stats: xr.Dataset) -> xr.DataTree:
    """The posterior as a DataTree with ArviZ groups and facet labels as coordinates."""
    import xarray as xr

    n_chains, n_draws = recovered.scalars["mu"].shape
    coords = {"chain": np.arange(n_chains), "draw": np.arange(n_draws), **recovered.coords}
    groups = {
        "posterior": xr.Dataset(dict(recovered.variables), coords=coords),
        "sample_stats": stats,
        **cell_groups(assessment),
    }
    return xr.DataTree.from_dict(groups)
