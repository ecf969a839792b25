"""Fit a study: sample its model, recover mu and all effects, measure the gates."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from gstudy.errors import ConvergenceWarning
from gstudy.fits.gates import warn_if_failed
from gstudy.model.chains import (
    direct_chains,
    own_direct_chains,
    pymc_chains,
    thinned,
)
from gstudy.model.integrated import integrated_drawing
from gstudy.model.large import large_drawing, memory_line
from gstudy.model.parameterisation import RESIDUAL, Parameterisation, parameterise
from gstudy.model.recovered import Recovered, recovered_draws
from gstudy.model.rounds import fit_of_run, sampled_round
from gstudy.model.settings import TARGET_ACCEPT, Settings, make_settings, second_attempt
from gstudy.model.sweep import recover, redraw_shifts, shifting_pairs
from gstudy.model.until import lengthened, until_advice
from gstudy.study.assessment import Assessment
from gstudy.study.declaration import Study
from gstudy.study.estimable import assess as assess_design
from gstudy.study.estimable import warn_if_left_out
from gstudy.study.integrable import integrable_component

if TYPE_CHECKING:
    import xarray as xr

    from gstudy.fits.fitted import Fit
    from gstudy.model.chains import Chains
    from gstudy.model.rounds import Draw, Run
    from gstudy.model.until import Printed
    from gstudy.model.varying import Varying
    from gstudy.study.cells import Cells

__all__ = ["drawing", "fit", "fit_assessed", "warn_of_gates"]

RECOVERY_STREAM = 1
"""Second word of the seed of the recovery's random numbers, apart from the sampler's."""


def fit(
    study: Study,
    trials: Any,
    *,
    seed: int | None = None,
    draws: int = 1000,
    tune: int = 1000,
    chains: int | None = 4,
    cores: int | None = None,
    sampler: Literal["pymc", "direct"] = "pymc",
    target_accept: float = TARGET_ACCEPT,
    progress: bool = True,
    store_effects: bool | None = None,
    until: int | None = None,
    printed: Sequence[Printed] = (),
) -> Fit:
    """Fit the declared study to its trials.

    The model is ``logit P(y = 1) = mu + sum_c u_c[level]`` with one normal component per index
    set, or the same linear predictor for graded scores with a normal residual; controlled facets
    with several levels add fixed effects that sum to zero (see `build_model`). If a gate fails, one
    refit is made and recorded: at target_accept 0.99 after divergences, else 4 times as long,
    keeping every fourth draw.

    Parameters
    ----------
    study : Study
    trials : Trials, DataFrame, path or Assessment
    seed : int, optional
        One seed gives the same draws at any number of cores. Drawn and recorded when absent.
    draws, tune : int
        Draws kept and tuning steps of each chain.
    chains : int, optional
        None: as many as the machine has processors, from 2 to 8, which share the draws that 4
        chains would make. It is sooner done (2 chains on 2 processors warm up once, 4 of them twice
        in a row), but one seed gives other draws on another machine: hence 4 by default.
    cores : int, optional
        Chains sampled at the same time; all processors by default.
    sampler : {"pymc", "direct"}
        "pymc" samples the PyMC model with nutpie. "direct" hands nutpie the same log-posterior
        written in numba: no compilation, for loops of refits. Where that wins, "direct" integrates
        the effects of one component out and draws them afterwards: the same posterior. So it does
        with a component alone many of whose levels have the same data (`gstudy.model.one_way`, ten
        times as fast), and with one whose levels have at most 8 trials, or are single cells many of
        which are alike (`gstudy.model.integrable_effects`, up to four times as fast).
    target_accept : float
        Of NUTS, between 0 and 1; shorter steps the nearer it is to 1. A fit with divergences is
        made once more at 0.99.
    progress : bool
        Show progress on a terminal or in Jupyter.
    store_effects : bool, optional
        Keep the draws of every level effect (True) or only of components with at most 5,000
        levels, the others as mean and sd (None, the default).
    until : int, optional
        Add rounds of draws until bulk and tail ESS of mu, every sd and every system's level, and of
        what `printed` gives, are at least this (400 or more), or there are 20 times `draws`. Of a
        fit that needs no refit `gstudy.extend` with this `until` makes the same, bit for bit.
    printed : sequence of callable
        Functions of the fit, such as `gstudy.variance_budget`: the draws of their results need
        their ESS too.

    Returns
    -------
    Fit
        Its posterior has ``mu``, ``sd(<component>)`` and ``u(<component>)``, ``fixed(<facet>)`` of
        controlled facets and ``sd(residual)`` of graded scores without known errors: on the logit
        scale, or in score units.

    Raises
    ------
    DeclarationError, DataError
        When the declaration or the trials are wrong, or a setting is out of range.

    Warns
    -----
    EstimabilityWarning
        When a declared component is left out because the data cannot inform it.
    ConvergenceWarning
        When a gate still fails after the refit, or `until` was not reached.

    Notes
    -----
    Rounds end at fixed multiples of `draws`, chosen by the effective sizes so far and never by a
    clock, so that `until` too gives one set of draws for one seed.

    Examples
    --------
    >>> import gstudy as gs
    >>> study, trials = gs.example("airline")
    >>> fit = gs.fit(study, trials, seed=1, sampler="direct", progress=False)  # doctest: +SKIP
    """
    settings = make_settings(
        seed=seed,
        draws=draws,
        tune=tune,
        chains=chains,
        cores=cores,
        sampler=sampler,
        target_accept=target_accept,
        progress=progress,
        store_effects=store_effects,
        until=until,
    )
    assessment = _assessed(study, trials)
    if settings.progress:
        sys.stderr.write(memory_line(assessment, settings))
    result = fit_assessed(assessment, settings, printed)
    warn_of_gates(result, stacklevel=3)
    return result


def fit_assessed(
    assessment: Assessment, settings: Settings, printed: Sequence[Printed] = ()
) -> Fit:
    """Sample a design, and once more if a gate fails (see `second_attempt`); no warning."""
    draw = drawing(assessment, settings.sampler)
    run = _run(draw, assessment, settings, printed)
    again = second_attempt(run.diagnostics, settings)
    if again is not None:
        settings, why = again
        run = _run(draw, assessment, settings, printed)
        run = replace(run, diagnostics=replace(run.diagnostics, refits=(why,)))
    return fit_of_run(run, assessment, settings)


def warn_of_gates(result: Fit, *, stacklevel: int) -> None:
    """A ConvergenceWarning for gates that fail, and one where `until` was not reached."""
    warn_if_failed(result.diagnostics, stacklevel=stacklevel + 1)
    advice = until_advice(result)
    if advice is not None:
        warnings.warn(advice, ConvergenceWarning, stacklevel=stacklevel)


def _assessed(study: Study, trials: Any) -> Assessment:
    """What check finds; its warning points at the line that called `fit`."""
    if isinstance(trials, Assessment):
        return trials.of(study)
    assessment = assess_design(study, trials)
    warn_if_left_out(assessment, stacklevel=4)
    return assessment


def _run(draw: Draw, assessment: Assessment, settings: Settings, printed: Sequence[Printed]) -> Run:
    """The first round, and those after it that `until` asks for; none after divergences."""
    run = sampled_round(draw, settings)
    if settings.until is None:
        return run
    return lengthened(run, partial(sampled_round, draw), assessment, settings, printed)


def drawing(assessment: Assessment, sampler: str) -> Draw:
    """What makes draws of the swept model, and comes back from it; compiled once for all rounds."""
    if any(component.varies for component in assessment.components):
        return _own_drawing(assessment, sampler)
    cells = assessment.cells
    p = parameterise(cells, assessment.mu_prior, assessment.residual_prior)
    place = integrable_component(cells) if sampler == "direct" else None
    if place is not None:
        return integrated_drawing(assessment, p, place, RECOVERY_STREAM)
    sample = direct_chains(p) if sampler == "direct" else _pymc_chains(p, cells)
    in_halves = large_drawing(assessment, p, RECOVERY_STREAM) if sampler == "direct" else None

    def draw(settings: Settings) -> tuple[Recovered, xr.Dataset]:
        if in_halves is not None and not settings.store_effects:
            return in_halves(settings)
        values, stats = sample(settings)
        values = thinned(values, settings.keep_every)
        rng = np.random.default_rng([settings.seed, RECOVERY_STREAM])
        mu, effects = recover(p, values, rng)
        names = [f"sd({block.name})" for block in p.random]
        flat = [e.reshape(-1, e.shape[-1]) for e in effects]
        sds = [values[name].ravel() for name in names]
        redraw_shifts(cells, sds, flat, rng, shifting_pairs(cells))
        names += [RESIDUAL] if p.residual_prior is not None else []
        scales = {"mu": mu} | {name: values[name] for name in names}
        return recovered_draws(assessment, scales, effects, settings.store_effects), stats

    return draw


def _pymc_chains(p: Parameterisation, cells: Cells) -> Chains:
    from gstudy.model.graph import model_of

    return pymc_chains(lambda: model_of(p, cells))


def _own_pymc_chains(varying: Varying) -> Chains:
    from gstudy.model.own_graph import own_model

    return pymc_chains(lambda: own_model(varying))


def _own_drawing(assessment: Assessment, sampler: str) -> Draw:
    """The same with own sds of each system."""
    from gstudy.model.levels import recover_levels
    from gstudy.model.own_recovered import recovered_own
    from gstudy.model.varying import vary

    varying = vary(assessment)
    sample = own_direct_chains(varying) if sampler == "direct" else _own_pymc_chains(varying)

    def draw(settings: Settings) -> tuple[Recovered, xr.Dataset]:
        values, stats = sample(settings)
        values = thinned(values, settings.keep_every)
        rng = np.random.default_rng([settings.seed, RECOVERY_STREAM])
        draws = recover_levels(varying, values, rng)
        return recovered_own(assessment, varying, draws, rng, settings.store_effects), stats

    return draw
