"""Fits of many effects: draws kept small while sampling, recovered block by block.

The same draws of mu and the sds as any other fit has. Of components with more than 5,000 levels
only sums go from block to block: the mean and sd of each effect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gstudy.model.chains import run_stored
from gstudy.model.parameterisation import RESIDUAL, Parameterisation
from gstudy.model.recovered import recovered_draws
from gstudy.model.settings import REFIT_KEEP_EVERY
from gstudy.model.sweep import recover, redraw_shifts, shifting_pairs
from gstudy.study.assessment import LARGEST_STORED
from gstudy.study.memory import size_text

if TYPE_CHECKING:
    import xarray as xr

    from gstudy.model.recovered import Recovered
    from gstudy.model.rounds import Draw
    from gstudy.model.settings import Settings
    from gstudy.study.assessment import Assessment

__all__ = ["BLOCK", "Found", "Moments", "large_drawing", "memory_line"]

Floats = NDArray[np.float64]

BLOCK = 1_000_000
"""Numbers in each array of a block of draws: 8 MB, of which about ten are alive at a time."""


@dataclass(slots=True)
class Moments:
    """Mean and sum of squared deviations over draws, put together block by block.

    Parameters
    ----------
    size : int
        Number of effects.
    """

    size: int
    n: int = 0
    mean: Floats = field(init=False)
    squares: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.mean, self.squares = np.zeros(self.size), np.zeros(self.size)

    def add(self, draws: Floats) -> None:
        """Take in a block (draws, size)."""
        mean, n = draws.mean(axis=0), self.n + len(draws)
        step = mean - self.mean
        self.squares += ((draws - mean) ** 2).sum(axis=0) + step**2 * (self.n * len(draws) / n)
        self.mean += step * (len(draws) / n)
        self.n = n

    @property
    def sd(self) -> Floats:
        """Standard deviation over the draws, divided by their number as `numpy.std`."""
        return np.asarray(np.sqrt(self.squares / self.n))


def large_drawing(assessment: Assessment, p: Parameterisation, stream: int) -> Draw | None:
    """What makes draws by the direct path without storing those of every effect.

    Parameters
    ----------
    assessment : Assessment
    p : Parameterisation
    stream : int
        Second word of the seed of the recovery.

    Returns
    -------
    callable, or None
        None when every component's effects are stored anyway.
    """
    if all(block.fixed or block.size <= LARGEST_STORED for block in p.blocks):
        return None
    from gstudy.model.compiled import compile_direct
    from gstudy.model.direct import direct_posterior
    from gstudy.model.halves import halves_of, stored_in_halves

    halves = halves_of(p, LARGEST_STORED)
    posterior = direct_posterior(p)
    compiled = stored_in_halves(compile_direct(posterior), halves)
    pairs = shifting_pairs(assessment.cells)

    def draw(settings: Settings) -> tuple[Recovered, xr.Dataset]:
        chains, stats = run_stored(compiled, settings, settings.seed)
        kept = [x[settings.keep_every - 1 :: settings.keep_every] for x in chains]
        rng = np.random.default_rng([settings.seed, stream])
        found = Found(assessment, p, (len(kept), len(kept[0])))
        step = max(1, BLOCK // p.n_free)
        for c, stored in enumerate(kept):
            for start in range(0, len(stored), step):
                values = posterior.unpack(halves.unpacked(stored[start : start + step]))
                mu, effects = recover(p, values, rng)
                sds = [values[f"sd({block.name})"] for block in p.random]
                redraw_shifts(assessment.cells, sds, effects, rng, pairs)
                found.add((c, slice(start, start + step)), values | {"mu": mu}, effects)
        return found.recovered(), stats

    return draw


def memory_line(assessment: Assessment, settings: Settings) -> str:
    """What a fit is going to take, told before it starts; also of the refit if a gate fails."""
    first, again = (
        size_text(
            assessment.peak_memory(
                settings.draws,
                settings.chains,
                tune=settings.tune,
                sampler=settings.sampler,
                store_effects=settings.store_effects,
                keep_every=keep_every,
            )
        )
        for keep_every in (settings.keep_every, REFIT_KEEP_EVERY)
    )
    effects = sum(component.n_levels for component in assessment.cells.components)
    size = f"{settings.chains} x {settings.draws:,} draws of {effects:,} effects"
    more = "" if again == first else f", {again} in a longer refit if a gate fails"
    return f"{size}: about {first} of memory at the peak{more}\n"


class Found:
    """Draws of scales and of small components, moments of the others.

    Parameters
    ----------
    assessment : Assessment
    p : Parameterisation
        With a block for every component.
    shape : (int, int)
        Chains and draws.
    store_effects : bool
        Keep the draws of all effects.
    """

    def __init__(
        self,
        assessment: Assessment,
        p: Parameterisation,
        shape: tuple[int, int],
        *,
        store_effects: bool = False,
    ) -> None:
        self.assessment, self.store_effects = assessment, store_effects
        names = ["mu", *(f"sd({block.name})" for block in p.random)]
        names += [RESIDUAL] if p.residual_prior is not None else []
        self.scales = {name: np.empty(shape) for name in names}
        many = [not b.fixed and b.size > LARGEST_STORED and not store_effects for b in p.blocks]
        self.moments = {c: Moments(p.blocks[c].size) for c, is_many in enumerate(many) if is_many}
        self.effects = [
            np.empty((0, 0, b.size)) if is_many else np.empty((*shape, b.size))
            for b, is_many in zip(p.blocks, many, strict=True)
        ]

    def add(
        self, place: tuple[int, slice], values: Mapping[str, Floats], effects: Sequence[Floats]
    ) -> None:
        """Take in a block of one chain: scales (draws,) by name and effects (draws, K)."""
        for name, scale in self.scales.items():
            scale[place] = values[name]
        for c, draws in enumerate(effects):
            if c in self.moments:
                self.moments[c].add(draws)
            else:
                self.effects[c][place] = draws

    def recovered(self) -> Recovered:
        """What was taken in, by name."""
        summarised = {c: (moments.mean, moments.sd) for c, moments in self.moments.items()}
        keep = True if self.store_effects else None
        return recovered_draws(self.assessment, self.scales, self.effects, keep, summarised)
