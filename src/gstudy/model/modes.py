"""Rough posterior modes of all effects: the point that the sampler's coordinates are built around.

Penalised Newton steps, one component at a time, with sds updated by EM. Only a reference point:
any value gives the same posterior, a good one gives a fast sampler.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from gstudy.study.cells import Cells

__all__ = ["Modes", "posterior_modes"]

Floats = NDArray[np.float64]

SWEEPS = 40
SMALLEST_SD, LARGEST_SD, FIRST_SD = 0.05, 8.0, 1.0
LONGEST_STEP = 1.0


@dataclass(frozen=True, slots=True)
class Modes:
    """Per component: sd (logit), effects (K,) and the information (K,) of each level's trials."""

    sd: list[float]
    effects: list[Floats]
    information: list[Floats]


def posterior_modes(cells: Cells) -> Modes:
    """Modes of the effects, the information about each, and the sds they imply."""
    k, n = cells.successes, cells.trials
    eta = np.full(len(n), np.log((k.sum() + 0.5) / ((n - k).sum() + 0.5)))
    effects = [np.zeros(component.n_levels) for component in cells.components]
    sd = [min(FIRST_SD, component.prior.sigma) for component in cells.components]
    for _ in range(SWEEPS):
        eta += _common_step(cells, eta)
        for c in range(len(effects)):
            score, information = _level_sums(cells, c, eta)
            precision = information + 1.0 / sd[c] ** 2
            step = np.clip(
                (score - effects[c] / sd[c] ** 2) / precision, -LONGEST_STEP, LONGEST_STEP
            )
            effects[c] += step
            eta += step[cells.index[c]]
            variance = float(np.mean(effects[c] ** 2 + 1.0 / precision))
            sd[c] = float(np.clip(variance**0.5, SMALLEST_SD, LARGEST_SD))
    return Modes(sd, effects, [_level_sums(cells, c, eta)[1] for c in range(len(effects))])


def _common_step(cells: Cells, eta: Floats) -> float:
    p = 1.0 / (1.0 + np.exp(-eta))
    score = float((cells.successes - cells.trials * p).sum())
    information = float((cells.trials * p * (1.0 - p)).sum())
    return float(np.clip(score / (information + 1.0), -LONGEST_STEP, LONGEST_STEP))


def _level_sums(cells: Cells, c: int, eta: Floats) -> tuple[Floats, Floats]:
    """Score and information of each level of component c at the logits `eta`."""
    size = cells.components[c].n_levels
    p = 1.0 / (1.0 + np.exp(-eta))
    residual = cells.successes - cells.trials * p
    weight = cells.trials * p * (1.0 - p)
    levels = cells.index[c]
    return (
        np.bincount(levels, weights=residual, minlength=size),
        np.bincount(levels, weights=weight, minlength=size),
    )
