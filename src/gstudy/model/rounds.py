"""Rounds: draws of one posterior made at several times, joined chain by chain.

A round is a run of its own: chains start anew, from their own stream of the seed, and warm up
again. A sampler's state need not be kept then, a fit from a file goes on like one in memory, and
every round is another test of whether the chains find the same posterior.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gstudy.fits.fitted import Fit
from gstudy.fits.gates import assess
from gstudy.model.interrupts import interruptible
from gstudy.model.recovered import SAMPLE, Recovered, recovered_tree

if TYPE_CHECKING:
    import xarray as xr

    from gstudy.fits.gates import Diagnostics
    from gstudy.model.settings import Settings
    from gstudy.study.assessment import Assessment

__all__ = ["Draw", "Run", "fit_of_run", "joined", "round_settings", "sampled_round"]

Floats = NDArray[np.float64]
Variables = Mapping[str, tuple[tuple[str, ...], Floats]]

type Draw = Callable[[Settings], tuple[Recovered, xr.Dataset]]
"""Settings to recovered draws, and the sampler statistics of all draws, kept or not."""

ROUND_STREAM = 2
"""Second word of the seeds of further rounds, apart from the recovery's."""


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """The draws of one or several rounds.

    Parameters
    ----------
    quantities : mapping of str to array (chain, draw)
        What the gates measure.
    variables : mapping of str to (dims, array)
        The posterior group.
    coords : mapping of str to array
        Labels of the dimensions but chain and draw.
    stats : xarray.Dataset
        Sampler statistics of the kept draws.
    diagnostics : Diagnostics
        Of all rounds together; divergences and E-BFMI also of draws that were not kept.
    rounds : tuple of int
        Draws of each chain in each round.
    missed : str, optional
        What has not the effective size that was asked for.
    """

    quantities: Mapping[str, Floats]
    variables: Variables
    coords: Mapping[str, NDArray[Any]]
    stats: xr.Dataset
    diagnostics: Diagnostics
    rounds: tuple[int, ...]
    missed: str | None = None

    @property
    def draws(self) -> int:
        """Draws of each chain in all rounds."""
        return sum(self.rounds)


def sampled_round(draw: Draw, settings: Settings) -> Run:
    """One round, measured."""
    with interruptible():
        recovered, stats = draw(settings)
    quantities = {**recovered.scalars, **recovered.derived}
    return Run(
        quantities=quantities,
        variables=recovered.variables,
        coords=recovered.coords,
        stats=_last_of(stats, settings.keep_every),
        diagnostics=assess(quantities, stats),
        rounds=(settings.draws,),
    )


def round_settings(settings: Settings, place: int, draws: int) -> Settings:
    """The settings of the round that has `place` rounds before it: its own seed and size.

    The seed is made from that of the fit and the place alone: one seed gives one set of draws,
    whether the rounds are made by one call or by several.
    """
    if place == 0:
        return replace(settings, draws=draws)
    seed = np.random.SeedSequence([settings.seed, ROUND_STREAM, place]).generate_state(1)[0]
    return replace(settings, draws=draws, seed=int(seed))


def joined(first: Run, second: Run) -> Run:
    """Two runs as one: the draws of each chain one after the other, the gates measured anew.

    R-hat and effective sizes are those of all draws; divergences add up. A chain's E-BFMI is the
    lowest of its rounds, since each round has tuned its own steps and a bad one must show.
    """
    quantities = {
        name: np.concatenate([values, second.quantities[name]], axis=1)
        for name, values in first.quantities.items()
    }
    one, other = first.diagnostics, second.diagnostics
    found = assess(quantities, second.stats, refits=(*one.refits, *other.refits))
    return Run(
        quantities=quantities,
        variables=_joined_variables(first, second),
        coords=first.coords,
        stats=_joined_stats(first.stats, second.stats),
        diagnostics=replace(
            found,
            divergences=one.divergences + other.divergences,
            ebfmi=_lowest(one.ebfmi, other.ebfmi),
        ),
        rounds=(*first.rounds, *second.rounds),
    )


def fit_of_run(run: Run, assessment: Assessment, settings: Settings) -> Fit:
    """The fit that these draws are."""
    recovered = Recovered(run.quantities, {}, run.variables, run.coords)
    return Fit(
        posterior=recovered_tree(assessment, recovered, run.stats),
        study=assessment.study,
        design=assessment,
        diagnostics=run.diagnostics,
        settings=settings.recorded(run.rounds, run.missed),
    )


def _last_of(stats: xr.Dataset, keep_every: int) -> xr.Dataset:
    """Sampler statistics of the draws that are kept; the gates count those of all."""
    if keep_every == 1:
        return stats
    kept = stats.isel(draw=slice(keep_every - 1, None, keep_every))
    return kept.assign_coords(draw=np.arange(kept.sizes["draw"]))


def _joined_stats(first: xr.Dataset, second: xr.Dataset) -> xr.Dataset:
    """Statistics that both have, one after the other."""
    import xarray as xr

    variables = {
        str(name): (
            SAMPLE,
            np.concatenate(
                [x[name].transpose(*SAMPLE, ...).to_numpy() for x in (first, second)], axis=1
            ),
        )
        for name in first.data_vars
        if name in second and first[name].ndim == len(SAMPLE)
    }
    coords = {"chain": first["chain"].to_numpy()}
    found = xr.Dataset(variables, coords=coords)
    return found.assign_coords(draw=np.arange(found.sizes["draw"]))


def _lowest(one: tuple[float, ...], other: tuple[float, ...]) -> tuple[float, ...]:
    """Chain by chain; what is not a number stays so."""
    if not one or not other:
        return one or other
    return tuple(float(x) for x in np.minimum(one, other))


def _joined_variables(first: Run, second: Run) -> Variables:
    """Draws one after the other; means and sds of effects that were not kept are pooled."""
    found: dict[str, tuple[tuple[str, ...], Floats]] = {}
    for name, (dims, values) in first.variables.items():
        if dims[: len(SAMPLE)] != SAMPLE:
            continue
        if name in second.variables:
            found[name] = (dims, np.concatenate([values, second.variables[name][1]], axis=1))
    names = [*first.variables, *second.variables]
    pooled = dict.fromkeys(name[7:-1] for name in names if name.startswith("u_mean("))
    for component in pooled:
        found |= _pooled(component, [first, second])
    return found


def _pooled(component: str, runs: list[Run]) -> Variables:
    """Mean and sd of all draws of the effects, from those of each run."""
    moments = [_moments(component, run) for run in runs]
    dims = moments[0][0]
    weights = np.array([run.draws for run in runs], dtype=float)
    weights /= weights.sum()
    mean = sum(w * m for w, (_, m, _) in zip(weights, moments, strict=True))
    variance = sum(
        w * (sd**2 + (m - mean) ** 2) for w, (_, m, sd) in zip(weights, moments, strict=True)
    )
    return {
        f"u_mean({component})": (dims, np.asarray(mean)),
        f"u_sd({component})": (dims, np.sqrt(variance)),
    }


def _moments(component: str, run: Run) -> tuple[tuple[str, ...], Floats, Floats]:
    if f"u_mean({component})" in run.variables:
        dims, mean = run.variables[f"u_mean({component})"]
        return dims, mean, run.variables[f"u_sd({component})"][1]
    dims, effects = run.variables[f"u({component})"]
    return dims[len(SAMPLE) :], effects.mean(axis=(0, 1)), effects.std(axis=(0, 1))
