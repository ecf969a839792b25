"""Sources with one exact draw on a real design, and variances of means by enumerating pairs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from designs import checked

from gstudy.variance.basis import Basis, structure_of_design
from gstudy.variance.components import components_of
from gstudy.variance.controlled import Controlled, combinations
from gstudy.variance.kernel import logistic_covariance, logistic_mean
from gstudy.variance.latent import Latent
from gstudy.variance.trial_weights import level_shares, mean_shares

if TYPE_CHECKING:
    import gstudy as gs
    from gstudy.variance.components import VarianceComponents


def one(value: float) -> np.ndarray:
    return np.full((1, 1), float(value))


def exact_source(
    study: gs.Study,
    table: pd.DataFrame,
    sds: Mapping[str, float],
    mu: float,
    *,
    fixed: Mapping[tuple[str, ...], float] | None = None,
    weights: Sequence[float] | None = None,
    effects: Mapping[str, float] | None = None,
    level_effects: Mapping[str, Sequence[float]] | None = None,
) -> VarianceComponents:
    """One draw with these sds on the design of a table: as a fit without any uncertainty."""
    design = checked(study, table)
    structure = structure_of_design(study, design)
    held = structure.controlled
    controlled = None
    if held:
        facets = tuple(f for f in study.facet_names if f in held)
        levels = combinations(design.cells, facets)
        shares = mean_shares(level_shares(study, design.cells, held))
        controlled = Controlled(
            facets,
            levels,
            np.stack([one((fixed or {})[labels]) for labels in levels]),
            np.array([shares[labels] for labels in levels] if weights is None else weights),
        )
    components = {c.name: c for c in design.components}
    assert set(components) == set(sds), (set(components), set(sds))
    latent = Latent(
        structure=structure,
        mu=one(mu),
        sets=tuple(components[name].facets - held for name in sds),
        variances=np.stack([one(sd**2) for sd in sds.values()]),
        object_effects={label: one(u) for label, u in (effects or {}).items()},
        held=tuple(components[name].facets & held for name in sds),
        controlled=controlled,
        level_effects={
            label: np.stack([one(u) for u in values])
            for label, values in (level_effects or {}).items()
        },
    )
    return components_of(Basis(study, structure, latent, None, design.cells), "score")


Key = Callable[[Mapping[str, Any]], Any]


def by_pairs(
    rows: Sequence[Mapping[str, Any]],
    weights: Sequence[float],
    sds: Mapping[tuple[str, ...], float],
    mu: Callable[[Mapping[str, Any]], float],
    *,
    claim: Sequence[tuple[Mapping[str, Any], float]] = (),
    claimed: Sequence[tuple[str, ...]] = (),
) -> float:
    """Variance of a weighted mean of trials, minus a claim, over all ordered pairs.

    Parameters
    ----------
    rows, weights
        Trials: labels by facet.
    sds
        Facets that tell a component's effects apart, to its sd.
    mu
        Mean logit of a trial.
    claim
        Levels that the claim is the mean of, with their weights; each shares only the
        components `claimed` with a trial that has the same labels.
    """
    total = sum(sd**2 for sd in sds.values())
    everything = [(row, w, True) for row, w in zip(rows, weights, strict=True)]
    everything += [(row, -w, False) for row, w in claim]
    variance = 0.0
    pairs = {"m1": [], "m2": [], "shared": [], "w": []}
    for (i, one_), (j, two) in itertools.product(enumerate(everything), repeat=2):
        if i == j and one_[2]:
            mean = float(logistic_mean(mu(one_[0]), total))
            variance += one_[1] ** 2 * mean * (1 - mean)
            continue
        both = one_[2] and two[2]
        shared = sum(
            sd**2
            for facets, sd in sds.items()
            if (both or facets in claimed) and all(one_[0][f] == two[0][f] for f in facets)
        )
        pairs["m1"].append(mu(one_[0]))
        pairs["m2"].append(mu(two[0]))
        pairs["shared"].append(shared)
        pairs["w"].append(one_[1] * two[1])
    n = len(pairs["w"])
    cov = logistic_covariance(
        np.array(pairs["m1"]), np.array(pairs["m2"]), np.full(n, total), np.full(n, total),
        np.array(pairs["shared"]),
    )  # fmt: skip
    return variance + float(np.array(pairs["w"]) @ cov)
