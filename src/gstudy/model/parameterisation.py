"""How the model is written for the sampler: swept means, weights, and standardised effects.

All choices leave the posterior as it is; they only decide how well NUTS moves. They are made
from the counts by a short deterministic calculation, never from a pilot run: one data set has
one model.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gstudy.model.modes import posterior_modes

if TYPE_CHECKING:
    from gstudy.study.cells import Cells
    from gstudy.study.priors import Prior

__all__ = ["LOCATION", "Block", "Parameterisation", "parameterise"]

Floats = NDArray[np.float64]

LOCATION = "mu(swept)"
"""Name of the model's location: no facet can be called so."""

INFORMATION_KEPT = 0.4
"""Part of the information at the mode that the coordinates count on: trials are shared with the
other components and say less away from the mode. Measured, smallest bulk ESS of an sd in 4,000
draws at 0.25, 0.4, 0.6 and 1: two systems on 198 saturated tasks 1485, 1432, 1075, 731; eleven
systems on 83 ragged tasks 1106, 1291, 1362, 1051; 50 tasks x 4 trials 3262, 3579, 2427, 1907."""


@dataclass(frozen=True, slots=True)
class Block:
    """One component as the sampler sees it."""

    name: str
    size: int
    prior_sd: float
    swept: bool

    @property
    def n_free(self) -> int:
        """Free coordinates: a swept component gives one up to the common mean."""
        return self.size - 1 if self.swept else self.size

    @property
    def variable(self) -> str:
        """Name of its effects in the PyMC model; without their mean where swept."""
        return f"effect({self.name})"


@dataclass(frozen=True, slots=True)
class Parameterisation:
    """A model ready to be written down: blocks, prior of mu, weights, scores and cells.

    ``location = mu + sum over swept components of (mean effect + weights' (effect - mean))``;
    `weights` (n_effects,) are each level's share of its component's information, so that the
    likelihood's curvature does not couple the location with any effect.

    The sampler's coordinates w of a component with sd s give ``effect = a w + a^2 score``,
    ``a^2 = s^2 / (1 + s^2 information)``: mean and sd of an effect given its trials, to first
    order (less their mean where swept). Where trials say little this is the non-centred form,
    where they say much the centred one; in between neither a funnel nor a ridge is left.
    `information` and `scores` are (n_effects,).

    `index` (n_cells, n_components) points into the effects of all components laid end to end.
    """

    blocks: tuple[Block, ...]
    mu_mean: float
    mu_sd: float
    weights: Floats
    information: Floats
    scores: Floats
    index: NDArray[np.int32]
    successes: Floats
    trials: Floats
    log_coefficients: float

    @property
    def n_free(self) -> int:
        """Number of unconstrained coordinates."""
        return len(self.blocks) + sum(b.n_free for b in self.blocks) + 1

    def slices(self) -> list[slice]:
        """Each component's part of the effects vector."""
        ends = np.cumsum([0, *(b.size for b in self.blocks)]).tolist()
        return [slice(start, end) for start, end in pairwise(ends)]


def parameterise(
    cells: Cells,
    mu_prior: Prior,
    *,
    sweep: Collection[str] | None = None,
    standardise: bool = True,
    weighted: bool = True,
) -> Parameterisation:
    """Choose the parameterisation of a design.

    Parameters
    ----------
    cells : Cells
        The design's cells and components.
    mu_prior : Prior
        Normal prior of mu (logit).
    sweep : collection of component names, optional
        Components to sweep; all by default.
    standardise : bool
        Standardise effects by their trials (True), or leave them non-centred.
    weighted : bool
        Weight the location by information (True) or equally.
    """
    modes = posterior_modes(cells)
    blocks, weights, information, scores, index, start = [], [], [], [], [], 0
    for c, component in enumerate(cells.components):
        size = component.n_levels
        swept = sweep is None or component.name in sweep
        blocks.append(Block(component.name, size, component.prior.sigma, swept))
        information.append(modes.information[c] * (INFORMATION_KEPT * standardise))
        # At the modes' own sd, a^2 score is the mode.
        scores.append(modes.effects[c] * (information[-1] + modes.sd[c] ** -2) * standardise)
        weights.append(_weights(modes.information[c], swept and weighted))
        index.append(cells.index[c] + start)
        start += size
    n_cells = len(cells.trials)
    return Parameterisation(
        blocks=tuple(blocks),
        mu_mean=mu_prior.mu,
        mu_sd=mu_prior.sigma,
        weights=np.concatenate(weights) if weights else np.zeros(0),
        information=np.concatenate(information) if information else np.zeros(0),
        scores=np.concatenate(scores) if scores else np.zeros(0),
        index=np.ascontiguousarray(np.array(index, dtype=np.int32).reshape(-1, n_cells).T),
        successes=cells.successes.astype(np.float64),
        trials=cells.trials.astype(np.float64),
        log_coefficients=_log_coefficients(cells),
    )


def _weights(information: Floats, weighted: bool) -> Floats:
    """Share of the information per level; zeros (no weighting) leave the plain swept mean."""
    if not weighted:
        return np.zeros(len(information))
    # Effects sum to zero, so an equal part drops out.
    return np.asarray(information / information.sum() - 1.0 / len(information))


def _log_coefficients(cells: Cells) -> float:
    """Sum of log binomial coefficients: constant, kept so that the density is pm.Binomial's."""
    from scipy.special import gammaln

    k, n = cells.successes.astype(float), cells.trials.astype(float)
    return float(np.sum(gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)))
