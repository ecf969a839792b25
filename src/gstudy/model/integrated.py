"""Draws of a model without the effects of one component: sampled without, then drawn."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gstudy.model.chains import direct_chains, processors, thinned
from gstudy.model.conditional_effects import own_effects_drawn
from gstudy.model.large import BLOCK, Found
from gstudy.model.sweep import recover, redraw_shifts, shifting_pairs

if TYPE_CHECKING:
    from collections.abc import Mapping

    import xarray as xr

    from gstudy.model.parameterisation import Parameterisation
    from gstudy.model.recovered import Recovered
    from gstudy.model.rounds import Draw
    from gstudy.model.settings import Settings
    from gstudy.study.assessment import Assessment

__all__ = ["integrated_drawing"]

Floats = NDArray[np.float64]


def integrated_drawing(
    assessment: Assessment, whole: Parameterisation, reduced: Parameterisation, stream: int
) -> Draw:
    """What makes draws by the direct path without the effects of one component as coordinates.

    Parameters
    ----------
    assessment : Assessment
    whole, reduced : Parameterisation
        With and without the component's effects.
    stream : int
        Second word of the seed of the recovery: each chain has a stream of its own, so that the
        number of cores changes no draw.

    Returns
    -------
    callable
    """
    sample = direct_chains(reduced)
    pairs = shifting_pairs(assessment.cells)

    def draw(settings: Settings) -> tuple[Recovered, xr.Dataset]:
        values, stats = sample(settings)
        values = thinned(values, settings.keep_every)
        shape = values[f"sd({whole.random[0].name})"].shape
        found = Found(assessment, whole, shape, store_effects=bool(settings.store_effects))
        streams = np.random.default_rng([settings.seed, stream]).spawn(shape[0])
        step = max(1, BLOCK // (len(whole.trials) + whole.n_free))

        def drawn(chain: int, part: slice) -> tuple[dict[str, Floats], list[Floats]]:
            given = {name: x[chain, part] for name, x in values.items()}
            return _all_effects(assessment, reduced, given, streams[chain], pairs)

        with ThreadPoolExecutor(settings.cores or processors()) as pool:
            for start in range(0, shape[1], step):
                part = slice(start, start + step)
                blocks = pool.map(drawn, range(shape[0]), repeat(part))
                # One after the other: sums do not depend on which chain is ready first.
                for chain, (scales, effects) in enumerate(blocks):
                    found.add((chain, part), scales, effects)
        return found.recovered(), stats

    return draw


def _all_effects(
    assessment: Assessment,
    reduced: Parameterisation,
    values: Mapping[str, Floats],
    rng: np.random.Generator,
    pairs: list[tuple[int, int]],
) -> tuple[dict[str, Floats], list[Floats]]:
    """Scales and the effects (draws, K) of every component, the integrated ones in their place."""
    cells, own = assessment.cells, reduced.integrated
    assert own is not None
    level = cells.index[own.place]
    by_level = np.argsort(level, kind="stable")
    begins = np.searchsorted(level[by_level], np.arange(level.max() + 2))
    mu, effects = recover(reduced, values, rng)
    eta = np.repeat(mu[:, None], len(by_level), axis=1)
    others = [index for c, index in enumerate(cells.index) if c != own.place]
    for drawn, index in zip(effects, others, strict=True):
        eta += drawn[:, index[by_level]]
    sd = values[f"sd({own.name})"]
    passes, trials = reduced.successes[by_level], reduced.trials[by_level]
    effects.insert(own.place, own_effects_drawn(eta, sd, passes, trials, begins, rng))
    random = [component for component in cells.components if not component.fixed]
    sds = [values[f"sd({component.name})"] for component in random]
    redraw_shifts(cells, sds, effects, rng, pairs)
    return {**values, "mu": mu}, effects
