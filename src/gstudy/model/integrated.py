"""Draws of a model without the effects of one component: sampled without, then drawn.

A component that is not alone is drawn given the others (`integrable_effects`), one alone given mu
and its sd (`one_way`); block by block, so that effects which are not stored take no memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gstudy.model.chains import direct_chains, one_way_chains, processors, thinned
from gstudy.model.conditional_effects import level_effects_drawn, own_effects_drawn
from gstudy.model.integrable_effects import without_effects
from gstudy.model.large import BLOCK, Found
from gstudy.model.one_way import OneWay, one_way
from gstudy.model.sweep import recover, redraw_shifts, shifting_pairs

if TYPE_CHECKING:
    import xarray as xr

    from gstudy.model.chains import Chains
    from gstudy.model.parameterisation import Parameterisation
    from gstudy.model.recovered import Recovered
    from gstudy.model.rounds import Draw
    from gstudy.model.settings import Settings
    from gstudy.study.assessment import Assessment

__all__ = ["integrated_drawing"]

Floats = NDArray[np.float64]

type Drawn = Callable[
    [Mapping[str, Floats], np.random.Generator], tuple[dict[str, Floats], list[Floats]]
]
"""Sampled values (draw, ...) to scales and the effects (draw, K) of every component."""


def integrated_drawing(
    assessment: Assessment, p: Parameterisation, place: int, stream: int
) -> Draw:
    """What makes draws by the direct path without the effects of one component as coordinates.

    Parameters
    ----------
    assessment : Assessment
    p : Parameterisation
        With the component's effects.
    place : int
        The component (see `gstudy.study.integrable`).
    stream : int
        Second word of the seed of the recovery: each chain has a stream of its own, so that the
        number of cores changes no draw.

    Returns
    -------
    callable
    """
    sample, drawn = _alone(p) if len(p.blocks) == 1 else _among_others(assessment, p, place)

    def draw(settings: Settings) -> tuple[Recovered, xr.Dataset]:
        values, stats = sample(settings)
        values = thinned(values, settings.keep_every)
        shape = (settings.chains, settings.draws)
        found = Found(assessment, p, shape, store_effects=bool(settings.store_effects))
        streams = np.random.default_rng([settings.seed, stream]).spawn(shape[0])
        step = max(1, BLOCK // (len(p.trials) + p.n_free))

        def block(chain: int, part: slice) -> tuple[dict[str, Floats], list[Floats]]:
            return drawn({name: x[chain, part] for name, x in values.items()}, streams[chain])

        with ThreadPoolExecutor(settings.cores or processors()) as pool:
            for start in range(0, shape[1], step):
                part = slice(start, start + step)
                blocks = pool.map(block, range(shape[0]), repeat(part))
                # One after the other: sums do not depend on which chain is ready first.
                for chain, (scales, effects) in enumerate(blocks):
                    found.add((chain, part), scales, effects)
        return found.recovered(), stats

    return draw


def _alone(p: Parameterisation) -> tuple[Chains, Drawn]:
    """Chains of mu and the sd of the only component, and its effects given them."""
    found = one_way(p)
    return one_way_chains(found), partial(_only_effects, found, f"sd({p.blocks[0].name})")


def _only_effects(
    found: OneWay, name: str, values: Mapping[str, Floats], rng: np.random.Generator
) -> tuple[dict[str, Floats], list[Floats]]:
    mu, sd = values["mu"], values["sd"]
    return {"mu": mu, name: sd}, [level_effects_drawn(found, mu, sd, rng)]


def _among_others(assessment: Assessment, p: Parameterisation, place: int) -> tuple[Chains, Drawn]:
    """Chains of all else, and every effect given that."""
    reduced = without_effects(p, assessment.cells, place)
    pairs = shifting_pairs(assessment.cells)
    return direct_chains(reduced), partial(_all_effects, assessment, reduced, pairs)


def _all_effects(
    assessment: Assessment,
    reduced: Parameterisation,
    pairs: list[tuple[int, int]],
    values: Mapping[str, Floats],
    rng: np.random.Generator,
) -> tuple[dict[str, Floats], list[Floats]]:
    """Scales and the effects of every component, the integrated ones in their place."""
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
