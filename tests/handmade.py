"""Fits made by hand: real design, random draws, no sampler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from gstudy.fits.fitted import Fit, cell_groups
from gstudy.fits.gates import assess
from gstudy.study.declaration import Study
from gstudy.study.estimable import assess as assess_design
from gstudy.study.facets import Facet

if TYPE_CHECKING:
    from gstudy.study.estimable import Assessment

# What a label may hold, and has to come back from a file as it was.
LABELS = [
    "a:b",
    "a/b",
    '"quoted"',
    "<script>alert(1)</script>",
    "日本語 ü",
    "back\\slash",
    " 7 ",
    "007",
]


def small_study(**changes: Any) -> tuple[Study, pd.DataFrame]:
    """Systems x tasks x rollouts with odd labels, 1/0 scores, deterministic."""
    study = Study(
        score="passed",
        object="system",
        facets=[
            Facet("task", role="legitimate"),
            Facet("rollout", role="legitimate", nested_in=["system", "task"]),
        ],
        **changes,
    )
    rng = np.random.default_rng(7)
    rows = [
        {"system": system, "task": task, "rollout": rollout, "passed": int(rng.random() < 0.5)}
        for system in ("A", "B:1", "C/2")
        for task in LABELS
        for rollout in range(3)
    ]
    return study, pd.DataFrame(rows)


def fit_by_hand(design: Assessment, *, shape: tuple[int, int] = (4, 250), seed: int = 3) -> Fit:
    """A fit of this design with independent normal draws."""
    rng = np.random.default_rng(seed)
    variables: dict[str, Any] = {"mu": (("chain", "draw"), rng.normal(0.2, 0.3, shape))}
    coords: dict[str, Any] = {"chain": np.arange(shape[0]), "draw": np.arange(shape[1])}
    if design.residual_prior is not None:
        variables["sd(residual)"] = (("chain", "draw"), np.exp(rng.normal(0.0, 0.2, shape)))
    for i, component in enumerate(design.cells.components):
        name = component.name
        labels = np.array(design.cells.level_labels(i), dtype=str)
        if component.fixed:
            effects = rng.normal(size=(*shape, len(labels)))
            effects -= effects.mean(axis=-1, keepdims=True)
            variables[f"fixed({name})"] = (("chain", "draw", name), effects)
            coords[name] = labels
            continue
        if component.varies:
            own = _own_variables(design, i, rng, shape)
            variables |= own[0]
            coords |= own[1]
            continue
        sd = np.exp(rng.normal(0.0, 0.2, shape))
        variables[f"sd({name})"] = (("chain", "draw"), sd)
        effects = rng.normal(size=(*shape, len(labels))) * sd[..., None]
        variables[f"u({name})"] = (("chain", "draw", name), effects)
        coords[name] = labels
    stats = {
        "diverging": (("chain", "draw"), np.zeros(shape, dtype=bool)),
        "energy": (("chain", "draw"), rng.normal(size=shape)),
        "n_steps": (("chain", "draw"), rng.integers(1, 8, size=shape)),
        "step_size": (("chain", "draw"), np.full(shape, 0.7)),
    }
    tree = xr.DataTree.from_dict(
        {
            "posterior": xr.Dataset(variables, coords=coords),
            "sample_stats": xr.Dataset(stats),
            **cell_groups(design),
        }
    )
    scalars = {name: values for name, (dims, values) in variables.items() if len(dims) == 2}
    return Fit(
        posterior=tree,
        study=design.study,
        design=design,
        diagnostics=assess(scalars, {name: values for name, (_, values) in stats.items()}),
        settings={"seed": seed, "draws": shape[1], "chains": shape[0], "sampler": "direct"},
    )


def _own_variables(
    design: Assessment, place: int, rng: np.random.Generator, shape: tuple[int, int]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Draws of a component with own sds: crossed with the object, or nested in it."""
    component, cells = design.cells.components[place], design.cells
    name, measured = component.name, str(component.varies)
    systems = np.array(cells.labels[measured], dtype=str)
    labels = np.array(cells.level_labels(place), dtype=str)
    by, by_2 = f"by({name})", f"by_2({name})"
    sds = np.exp(rng.normal(0.0, 0.2, (*shape, len(systems))))
    variables: dict[str, Any] = {f"sd({name})": (("chain", "draw", by), sds)}
    coords: dict[str, Any] = {name: labels, by: systems}
    if measured in component.facets:
        facets = [facet for facet in cells.facets if facet in component.facets]
        own = sds[..., cells.levels[place][:, facets.index(measured)]]
        variables[f"u({name})"] = (("chain", "draw", name), rng.normal(size=own.shape) * own)
        return variables, coords
    rho = rng.uniform(0.2, 0.9, shape)[..., None, None]
    correlation = rho + (1 - rho) * np.eye(len(systems))
    variables[f"corr({name})"] = (("chain", "draw", by, by_2), correlation)
    coords[by_2] = systems
    normal = rng.normal(size=(*shape, len(labels), len(systems)))
    mixed = np.einsum("...st,...kt->...ks", np.linalg.cholesky(correlation), normal)
    effects = mixed * sds[..., None, :]
    variables[f"u({name})"] = (("chain", "draw", name, by), effects)
    return variables, coords


def small_fit(**changes: Any) -> Fit:
    """`small_study`, checked and fitted by hand."""
    study, frame = small_study(**changes)
    return fit_by_hand(assess_design(study, frame))
