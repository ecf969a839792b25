"""Designs that the tests of the model start from, and the way from a vector to a PyMC point."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from designs import checked, study_of, within

import gstudy as gs
from gstudy.model.parameterisation import LOCATION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gstudy.model.direct import DirectPosterior
    from gstudy.study.estimable import Assessment


def random_trials(levels: dict[str, int], seed: int, share: float = 1.0) -> pd.DataFrame:
    """Scores drawn at random on a grid, of which a share of the rows is kept."""
    table = pd.DataFrame(
        itertools.product(*(range(n) for n in levels.values())), columns=list(levels)
    ).astype(str)
    rng = np.random.default_rng(seed)
    table["score"] = rng.integers(0, 2, len(table))
    return table[rng.random(len(table)) < share]


def crossed() -> Assessment:
    """Ragged systems x tasks with their interaction and rollouts inside the residual."""
    study = study_of(
        "task", within("rollout", "system", "task"), object="system", interactions=["system:task"]
    )
    return checked(study, random_trials({"system": 4, "task": 9, "rollout": 4}, 1, 0.8))


def nested() -> Assessment:
    """Items in subtests, rollouts that two judges score."""
    study = study_of(
        "subtest",
        within("item", "subtest"),
        within("rollout", "subtest", "item"),
        gs.Facet("judge", role="error"),
    )
    return checked(study, random_trials({"subtest": 5, "item": 3, "rollout": 3, "judge": 2}, 2))


def kept() -> Assessment:
    """A facet of one level that is kept: its prior is all that is known of it."""
    study = study_of("task", "snapshot", within("rollout", "task"), keep=["snapshot"])
    return checked(study, random_trials({"task": 6, "snapshot": 1, "rollout": 5}, 3))


def counts(passes: Sequence[int], trials: Sequence[int], **rest: Any) -> Assessment:
    """One facet, k passes of n trials per level."""
    study = gs.Study(
        successes="k", trials="n", facets=[gs.Facet("task", role="legitimate")], **rest
    )
    table = pd.DataFrame({"task": range(len(passes)), "k": passes, "n": trials})
    return checked(study, table)


DESIGNS = {"crossed": crossed, "nested": nested, "kept": kept}


def point_of(posterior: DirectPosterior, x: np.ndarray) -> tuple[dict[str, Any], list[int]]:
    """The PyMC model's point at an unconstrained vector, and where its values stand in it."""
    blocks = posterior.parameterisation.blocks
    point: dict[str, Any] = {f"sd({b.name})_log__": x[i] for i, b in enumerate(blocks)}
    at = len(blocks)
    for block in blocks:
        if block.n_free:
            suffix = "sweptstandardised" if block.swept else "standardised"
            point[f"{block.variable}_{suffix}__"] = x[at : at + block.n_free]
        at += block.n_free
    point[LOCATION] = x[-1]
    return point, [np.size(value) for value in point.values()]
