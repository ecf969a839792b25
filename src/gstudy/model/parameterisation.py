"""How the model is written for the sampler: swept means, weights, and standardised effects.

All choices leave the posterior as it is; they only decide how well NUTS moves. They are made
from the counts by a short deterministic calculation, never from a pilot run: one data set has
one model.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gstudy.model.ancestors import (
    components_above,
    levels_above,
    making_up,
    passed_information,
    places_above,
)
from gstudy.model.gaussian import GradedScores, graded_scores
from gstudy.model.modes import Modes, posterior_modes

if TYPE_CHECKING:
    from gstudy.model.integrable_effects import LevelEffects
    from gstudy.study.cells import Cells
    from gstudy.study.priors import Prior

__all__ = ["LOCATION", "MU_SCALE", "RESIDUAL", "Block", "Parameterisation", "parameterise"]

Floats = NDArray[np.float64]

LOCATION = "mu(swept)"
"""Name of the model's location: no facet can be called so."""

RESIDUAL, MU_SCALE = "sd(residual)", "scale(mu)"
"""Names of the residual sd of graded scores and of the scale of a StudentT prior of mu."""

INFORMATION_KEPT = 0.4
"""Part of the information at the mode that coordinates count on where effects share their trials
(see `varying`): they say less away from the mode. Measured, smallest bulk ESS of an sd in 4,000
draws at 0.25, 0.4, 0.6 and 1: two systems on 198 saturated tasks 1485, 1432, 1075, 731; eleven
systems on 83 ragged tasks 1106, 1291, 1362, 1051; 50 tasks x 4 trials 3262, 3579, 2427, 1907."""

PASSED_KEPT = 0.5
"""The same part where the effects below have taken theirs (see `ancestors`). Measured, smallest
bulk ESS of an sd in 4,000 draws at 0.4, 0.5, 0.7 and 1: two systems on 198 saturated tasks 957,
961, 1068, 1150; eleven systems on 83 ragged tasks 1754, 1694, 1389, 1297 (1253 without `above`); 20
systems on 170 tasks 2001, 2054, 2291, 2914; 6 systems, 2 environments and 3 judges 706, 811, 878,
822 (1164 without); 5 judges on 278 tasks of 3 domains 2246, 1798 (mean of 3 seeds), 1968, 1568 (581
without)."""


@dataclass(frozen=True, slots=True)
class Block:
    """One component as the sampler sees it.

    Fixed effects sum to zero and have a known sd, `prior.sigma`; of any other component `prior` is
    that of its sd.
    """

    name: str
    size: int
    prior: Prior
    swept: bool
    fixed: bool = False

    @property
    def zero_sum(self) -> bool:
        """Whether its variable sums to zero: fixed effects, and what is left of swept ones."""
        return self.swept or self.fixed

    @property
    def n_free(self) -> int:
        """Free coordinates: effects that sum to zero have one less than levels."""
        return self.size - 1 if self.zero_sum else self.size

    @property
    def variable(self) -> str:
        """Name of its effects in the PyMC model; without their mean where swept."""
        return f"fixed({self.name})" if self.fixed else f"effect({self.name})"


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

    Trials see an effect and those above it, as the task of a rollout, as one sum: in the place of
    ``score`` stands ``score - information (sum of the effects above)``, so that an effect makes up
    for what changes above it and the sum stays. `above` (n_effects, most above) has the places of
    those effects, -1 where there is none.

    A StudentT prior of mu with `mu_nu` degrees of freedom is a scale mixture: mu is
    Normal(mu_mean, mu_sd^2 scale), ``scale ~ InverseGamma(mu_nu / 2, mu_nu / 2)``; of a Normal one
    `mu_nu` is 0.

    Fixed effects are blocks that come last: they are in no mean and in no variance.

    `index` (n_cells, n_components) points into the effects of all components laid end to end.
    `graded` has the scores of a gaussian study, whose `successes` are not used. The direct sampler
    starts within `start_width` of `start` (n_free,), and may leave the effects of one component to
    be drawn afterwards: `integrated`, no block then.
    """

    blocks: tuple[Block, ...]
    mu_mean: float
    mu_sd: float
    mu_nu: float
    weights: Floats
    information: Floats
    scores: Floats
    above: NDArray[np.int32]
    index: NDArray[np.int32]
    successes: Floats
    trials: Floats
    log_coefficients: float
    graded: GradedScores | None
    start: Floats
    start_width: Floats
    integrated: LevelEffects | None = None

    @property
    def n_free(self) -> int:
        """Number of unconstrained coordinates."""
        return len(self.start)

    @property
    def random(self) -> tuple[Block, ...]:
        """The blocks with an sd to estimate."""
        return tuple(block for block in self.blocks if not block.fixed)

    @property
    def residual_prior(self) -> Prior | None:
        """Prior of the residual sd, where there is one to estimate."""
        return None if self.graded is None else self.graded.prior

    @property
    def last_sd(self) -> tuple[str, Prior] | None:
        """Name and prior of an sd whose effects are no coordinates: that of the residual of graded
        scores, or of effects that are integrated out."""
        if self.integrated is not None:
            return f"sd({self.integrated.name})", self.integrated.prior
        return None if self.residual_prior is None else (RESIDUAL, self.residual_prior)

    @property
    def n_scales(self) -> int:
        """Coordinates before the effects: log sds, and the log of mu's scale."""
        return len(self.random) + (self.last_sd is not None) + (self.mu_nu > 0.0)

    @property
    def order(self) -> list[int]:
        """Blocks in an order in which those above come before those below: fixed effects first,
        then by size; of blocks of one size the one with fewer facets comes first anyway."""
        n_random = len(self.random)
        sizes = [block.size for block in self.random]
        return [*range(n_random, len(self.blocks)), *sorted(range(n_random), key=sizes.__getitem__)]

    def slices(self) -> list[slice]:
        """Each component's part of the effects vector."""
        ends = np.cumsum([0, *(b.size for b in self.blocks)]).tolist()
        return [slice(start, end) for start, end in pairwise(ends)]


def parameterise(
    cells: Cells,
    mu_prior: Prior,
    residual_prior: Prior | None = None,
    *,
    sweep: Collection[str] | None = None,
    standardise: bool = True,
    weighted: bool = True,
) -> Parameterisation:
    """Choose the parameterisation of a design.

    Parameters
    ----------
    cells : Cells
        The design's cells and components, fixed effects last.
    mu_prior : Prior
        Normal or StudentT, on the scale of the linear predictor.
    residual_prior : Prior, optional
        Of the residual sd of graded scores, where errors are not known.
    sweep : collection of component names, optional
        Components to sweep; all by default.
    standardise : bool
        Standardise effects by their trials (True), or leave them non-centred.
    weighted : bool
        Weight the location by information (True) or equally.
    """
    graded = graded_scores(cells, residual_prior)
    modes = posterior_modes(cells)
    above = making_up(cells, modes, components_above(cells))
    information, scores = _standards(cells, modes, above, standardise)
    blocks, weights, index, begin = [], [], [], 0
    for c, component in enumerate(cells.components):
        size, fixed = component.n_levels, component.fixed
        swept = not fixed and (sweep is None or component.name in sweep)
        blocks.append(Block(component.name, size, component.prior, swept, fixed))
        weights.append(_weights(modes.information[c], blocks[-1].zero_sum and weighted))
        index.append(cells.index[c] + begin)
        begin += size
    n_cells = len(cells.trials)
    mu = dict(mu_prior.parameters)
    mu_nu = mu.get("nu", 0.0)
    start, width = _start(blocks, modes, graded, mu_nu)
    return Parameterisation(
        blocks=tuple(blocks),
        mu_mean=mu["mu"],
        mu_sd=mu["sigma"],
        mu_nu=mu_nu,
        weights=np.concatenate(weights) if weights else np.zeros(0),
        information=np.concatenate(information) if information else np.zeros(0),
        scores=np.concatenate(scores) if scores else np.zeros(0),
        above=places_above(cells, above),
        index=np.ascontiguousarray(np.array(index, dtype=np.int32).reshape(-1, n_cells).T),
        successes=cells.successes.astype(np.float64),
        trials=cells.trials.astype(np.float64),
        log_coefficients=_log_coefficients(cells) if graded is None else 0.0,
        graded=graded,
        start=start,
        start_width=width,
    )


def _standards(
    cells: Cells, modes: Modes, above: Sequence[Sequence[int]], standardise: bool
) -> tuple[list[Floats], list[Floats]]:
    """Information and score of each level, one array per component."""
    bounded = [standardise * _bounded(cells, c) for c in range(len(above))]
    passed = passed_information(cells, modes.sd, modes.of_cells, above, bounded)
    information = [found * PASSED_KEPT for found in passed]
    scores = []
    for c, known in enumerate(information):
        # At the modes of the effects above and the modes' own sd, a^2 score is the mode.
        others = np.zeros(len(known))
        for a in above[c]:
            others += modes.effects[a][levels_above(cells, a, c)]
        score = modes.effects[c] * (known + modes.sd[c] ** -2) + known * others
        scores.append(score * bounded[c])
    return information, scores


def _bounded(cells: Cells, c: int) -> NDArray[np.bool_]:
    """Whether the trials bound a level's effect on both sides.

    Of a level that always or never passes they say only on which side it lies: its effect is a
    half-normal of the component's own sd, for which the non-centred form is the right one. With
    150 of 164 tasks like that the smallest ESS of 4,000 draws was 210 otherwise, and is 2,300.
    """
    size = cells.components[c].n_levels
    if cells.graded is not None or cells.components[c].fixed:
        return np.ones(size, dtype=np.bool_)
    passed = np.bincount(cells.index[c], weights=cells.successes, minlength=size)
    trials = np.bincount(cells.index[c], weights=cells.trials, minlength=size)
    return np.asarray((passed > 0) & (passed < trials))


def _start(
    blocks: Sequence[Block], modes: Modes, graded: GradedScores | None, mu_nu: float
) -> tuple[Floats, Floats]:
    """Where the coordinates start, and how far from it: 1 in each, but in the unit of a score."""
    sds = [modes.sd[c] for c, block in enumerate(blocks) if not block.fixed]
    if graded is not None and graded.prior is not None:
        sds.append(modes.residual_sd)
    log_sds = np.zeros(len(sds)) if graded is None else np.log(sds)
    others = np.zeros((mu_nu > 0.0) + sum(block.n_free for block in blocks))
    start = np.concatenate([log_sds, others, [modes.middle]])
    width = np.ones(len(start))
    width[-1] = modes.unit
    return start, width


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
