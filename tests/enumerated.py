"""Every design of a small space, one at a time: naive variances, and costs by counting units."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import gstudy as gs
from gstudy.variance.draws import normal_quantile

if TYPE_CHECKING:
    from gstudy.study.declaration import Study

Levels = Mapping[str, int]


@dataclass(frozen=True)
class Tried:
    """A design, its cost, the draws of its goal, and what a search makes least."""

    design: gs.Design
    cost: float
    draws: np.ndarray
    score: float


def every_design(
    values: Mapping[str, Sequence[int]], judges: Sequence[str], pin: Sequence[str] = ()
) -> Iterator[gs.Design]:
    """All combinations; of one judge and of fresh ones without a number of judges."""
    for pattern in judges:
        known = {f: n for f, n in values.items() if f != "judge" or pattern in SEVERAL}
        for levels in itertools.product(*known.values()):
            yield gs.Design(dict(zip(known, levels, strict=True)), judges=pattern, pin=pin)


SEVERAL = ("all", "round robin")


def counted_cost(
    study: Study, cost: Mapping[str, float], design: gs.Design, systems: int = 1
) -> float:
    """The cost of a design by writing down every trial and counting distinct units."""
    facets = [f.name for f in study.facets if f.role != "controlled"]
    parents = {f.name: [*f.nested_in] for f in study.facets}
    judge = "judge" if "judge" in facets else None
    levels = {f: design.get(f, 1) for f in facets} | (
        {study.object: systems} if study.object else {}
    )
    several = judge is not None and design.judges == "all"
    walked = [f for f in facets if f != judge or several]
    trials = list(itertools.product(*(range(levels[f]) for f in walked))) * design.get("trials", 1)

    def closed(facet: str) -> list[str]:
        found = {facet}
        while True:
            more = found | {p for f in found for p in parents[f]}
            if more == found:
                return [f for f in walked if f in found]
            found = more

    total = 0.0
    for facet, each in cost.items():
        if facet in ("trials", judge):
            total += each * len(trials)
            continue
        places = [walked.index(f) for f in closed(facet)]
        total += each * len({tuple(trial[i] for i in places) for trial in trials})
    return total * (systems if study.object is None else 1)


def score_of(source: Any, design: gs.Design, goal: str) -> np.ndarray:
    """The variance of the goal by the functions that take one design; of a coefficient itself."""
    if goal == "half_width":
        return gs.variance_budget(source, design).variance.values.ravel()
    if goal == "phi":
        return gs.phi(source, design).draws.values.ravel()
    if goal == "generalizability":
        return gs.generalizability(source, design).draws.values.ravel()
    return 2 * gs.sem(source, design, relative=True).draws.values.ravel() ** 2


def goal_draws(scores: np.ndarray, goal: str) -> np.ndarray:
    """The goal from its variance; no two pass rates differ by more than 1."""
    if goal in ("phi", "generalizability"):
        return scores
    z = normal_quantile(0.95) + (normal_quantile(0.6) if goal == "mdd" else 0.0)
    return np.minimum(z * np.sqrt(scores), 1.0)
