"""How each component is written for the sampler: swept or not, centred or not, and by what weights.

All choices leave the posterior as it is; they only decide how well NUTS moves. They are made
from the design and its counts, never from a pilot run, so one data set has one model.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from gstudy.study.cells import Cells
    from gstudy.study.priors import Prior

__all__ = ["Block", "Parameterisation", "parameterise"]

Floats = NDArray[np.float64]

PENALTY_SD = 3.0
"""Ridge sd (logit) of the modes that the choice of parameterisation is made from."""

NEWTON_SWEEPS = 5

FEW_LEVELS, MUCH_INFORMATION, FEW_LEVELS_CENTRING = 8, 30.0, 0.25
"""Few levels with many trials each: the sd may be near zero (a funnel when centred) or its prior
scale (a ridge sd * z = const when not). Measured on two levels of 1,000 trials: divergences in
4,000 draws 0-2 at centring 0, none at 0.25, 1-6 at 0.5, 50-80 at 1."""


@dataclass(frozen=True, slots=True)
class Block:
    """One component as the sampler sees it."""

    name: str
    size: int
    prior_sd: float
    centring: float
    swept: bool

    @property
    def n_free(self) -> int:
        """Free coordinates: a swept component gives one up to the common mean."""
        return self.size - 1 if self.swept else self.size

    @property
    def variable(self) -> str:
        """Name of its free variable: effects where centred, standardised effects where not."""
        return f"{'effect' if self.centring == 1.0 else 'z'}({self.name})"


@dataclass(frozen=True, slots=True)
class Parameterisation:
    """A model ready to be written down: blocks, prior of mu, weights and cells.

    ``location = mu + sum over swept components of (mean effect + weights' (effect - mean))``;
    `weights` (n_effects,) are each level's share of its component's information, so that the
    likelihood's curvature does not couple the location with any effect. `index` (n_cells,
    n_components) points into the effects of all components laid end to end.
    """

    blocks: tuple[Block, ...]
    mu_mean: float
    mu_sd: float
    weights: Floats
    index: NDArray[np.int32]
    successes: Floats
    trials: Floats
    log_coefficients: float

    @property
    def n_free(self) -> int:
        """Number of unconstrained coordinates."""
        return len(self.blocks) + sum(b.n_free for b in self.blocks) + 1

    @property
    def starts(self) -> list[int]:
        """Where each component's effects start."""
        return [0, *np.cumsum([b.size for b in self.blocks]).tolist()]

    def slices(self) -> list[slice]:
        """Each component's part of the effects vector."""
        starts = self.starts
        return [slice(a, b) for a, b in zip(starts[:-1], starts[1:], strict=True)]


def parameterise(
    cells: Cells,
    mu_prior: Prior,
    *,
    sweep: Collection[str] | None = None,
    centre: Mapping[str, float] | None = None,
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
    centre : mapping from component name to [0, 1], optional
        Degree of centring: 0 standardised effects, 1 the effects themselves; by default the
        more informative trials a level has, the more centred its component.
    weighted : bool
        Weight the location by information (True) or equally.
    """
    information = _information(cells)
    ratios = _signal_to_noise(cells)
    blocks, weights, index, start = [], [], [], 0
    for c, component in enumerate(cells.components):
        name, size = component.name, component.n_levels
        swept = sweep is None or name in sweep
        centring = _centring(ratios[c], size, information.sum() / size)
        if centre is not None:
            centring = float(centre.get(name, 0.0))
        blocks.append(Block(name, size, component.prior.sigma, centring, swept))
        weights.append(_weights(information, cells.index[c], size, swept and weighted))
        index.append(cells.index[c] + start)
        start += size
    n_cells = len(cells.trials)
    return Parameterisation(
        blocks=tuple(blocks),
        mu_mean=mu_prior.mu,
        mu_sd=mu_prior.sigma,
        weights=np.concatenate(weights) if weights else np.zeros(0),
        index=np.ascontiguousarray(np.array(index, dtype=np.int32).reshape(-1, n_cells).T),
        successes=cells.successes.astype(np.float64),
        trials=cells.trials.astype(np.float64),
        log_coefficients=_log_coefficients(cells),
    )


def _centring(ratio: float, size: int, information: float) -> float:
    """``r / (1 + r)``: the share of a level's posterior precision that comes from its trials."""
    floor = FEW_LEVELS_CENTRING if size < FEW_LEVELS and information > MUCH_INFORMATION else 0.0
    return max(ratio / (1.0 + ratio), floor) if size > 1 else 0.0


def _weights(information: Floats, levels: NDArray[np.int32], size: int, weighted: bool) -> Floats:
    """Share of the information per level; zeros (no weighting) leave the plain swept mean."""
    if not weighted:
        return np.zeros(size)
    share = np.bincount(levels, weights=information, minlength=size) / information.sum()
    return share - 1.0 / size  # effects sum to zero, so the equal part drops out


def _information(cells: Cells) -> Floats:
    """Fisher information of each cell on its logit, at its smoothed rate: n p (1 - p)."""
    k, n = cells.successes, cells.trials
    p = (k + 0.5) / (n + 1.0)
    return np.asarray(n * p * (1.0 - p), dtype=np.float64)


def _signal_to_noise(cells: Cells) -> list[float]:
    """Per component: a cautious estimate of sd^2 times the information of a typical level.

    Coarse components first. Given the effects of the coarser ones, level l of the next has score
    ``U_l = sum(k - n p)`` with variance ``I_l = sum(n p (1 - p))`` when its sd is zero, so
    ``sum(U^2 - I) / sum(I^2)`` estimates sd^2; two standard errors are taken off it. Effects are
    penalised modes, found by damped Newton steps one component at a time.
    """
    components, k, n = cells.components, cells.successes, cells.trials
    effects = [np.zeros(c.n_levels) for c in components]
    eta = np.full(len(n), np.log((k.sum() + 0.5) / ((n - k).sum() + 0.5)))
    ratios = [0.0] * len(components)
    order = sorted(range(len(components)), key=lambda c: components[c].n_levels)
    for done, c in enumerate(order):
        score, information = _level_sums(cells, c, eta)
        excess = (score**2 - information).sum() - 2.0 * (2.0 * (information**2).sum()) ** 0.5
        variance = max(excess, 0.0) / (information**2).sum()
        for _ in range(NEWTON_SWEEPS):
            for b in order[: done + 1]:
                eta += _newton_step(cells, b, eta, effects[b])
        ratios[c] = float(variance * np.median(_level_sums(cells, c, eta)[1]))
    return ratios


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


def _newton_step(cells: Cells, c: int, eta: Floats, effect: Floats) -> Floats:
    """Move the effects of component c (in place); the change of `eta`."""
    score, information = _level_sums(cells, c, eta)
    step = (score - effect / PENALTY_SD**2) / (information + 1.0 / PENALTY_SD**2)
    step = np.clip(step, -1.0, 1.0)
    effect += step
    return np.asarray(step[cells.index[c]])


def _log_coefficients(cells: Cells) -> float:
    """Sum of log binomial coefficients: constant, kept so that the density is pm.Binomial's."""
    from scipy.special import gammaln

    k, n = cells.successes.astype(float), cells.trials.astype(float)
    return float(np.sum(gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)))
