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
    for i, component in enumerate(design.components):
        name = component.name
        labels = np.array(design.cells.level_labels(i), dtype=str)
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


def small_fit(**changes: Any) -> Fit:
    """`small_study`, checked and fitted by hand."""
    study, frame = small_study(**changes)
    return fit_by_hand(assess_design(study, frame))
