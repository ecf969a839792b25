"""Fit a study: sample its model, recover mu and all effects, measure the gates."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from gstudy.errors import DeclarationError, explain
from gstudy.fits.fitted import Fit
from gstudy.fits.gates import assess, warn_if_failed
from gstudy.model.interrupts import interruptible
from gstudy.model.parameterisation import RESIDUAL, Parameterisation, parameterise
from gstudy.model.recovered import Recovered, recovered_draws, recovered_tree
from gstudy.model.settings import TARGET_ACCEPT, Settings, make_settings, second_attempt
from gstudy.model.sweep import recover, redraw_shifts, shifting_pairs
from gstudy.study.assessment import Assessment
from gstudy.study.declaration import Study
from gstudy.study.estimable import assess as assess_design
from gstudy.study.estimable import warn_if_left_out

if TYPE_CHECKING:
    import pymc as pm
    import xarray as xr

__all__ = ["fit", "fit_assessed"]

Floats = NDArray[np.float64]

_POLL_SECONDS = 0.002

RECOVERY_STREAM = 1
"""Second word of the seed of the recovery's random numbers, apart from the sampler's."""


def fit(
    study: Study,
    trials: Any,
    *,
    seed: int | None = None,
    draws: int = 1000,
    tune: int = 1000,
    chains: int = 4,
    cores: int | None = None,
    sampler: Literal["pymc", "direct"] = "pymc",
    target_accept: float = TARGET_ACCEPT,
    progress: bool = True,
    store_effects: bool | None = None,
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
    chains : int
    cores : int, optional
        Chains sampled at the same time; all processors by default.
    sampler : {"pymc", "direct"}
        "pymc" samples the PyMC model with nutpie. "direct" hands nutpie the same log-posterior
        written in numba: no compilation, for loops of refits; not for studies with `varies`.
    target_accept : float
        Of NUTS, between 0 and 1.
    progress : bool
        Show progress on a terminal or in Jupyter.
    store_effects : bool, optional
        Keep the draws of every level effect (True) or only of components with at most 5,000
        levels, the others as mean and sd (None, the default).

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
        When a gate still fails after the refit.

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
    )
    result = fit_assessed(_assessed(study, trials), settings)
    warn_if_failed(result.diagnostics, stacklevel=3)
    return result


def fit_assessed(assessment: Assessment, settings: Settings) -> Fit:
    """Sample a design, and once more if a gate fails (see `second_attempt`); no warning."""
    result = _attempt(assessment, settings, refits=())
    again = second_attempt(result.diagnostics, settings)
    if again is None:
        return result
    settings, why = again
    return _attempt(assessment, settings, refits=(why,))


def _assessed(study: Study, trials: Any) -> Assessment:
    """What check finds; its warning points at the line that called `fit`."""
    if isinstance(trials, Assessment):
        return trials.of(study)
    assessment = assess_design(study, trials)
    warn_if_left_out(assessment, stacklevel=4)
    return assessment


def _attempt(assessment: Assessment, settings: Settings, refits: tuple[str, ...]) -> Fit:
    """Sample once, recover, measure."""
    with interruptible():
        recovered, stats = _posterior(assessment, settings)
    quantities = {**recovered.scalars, **recovered.derived}
    return Fit(
        posterior=recovered_tree(assessment, recovered, _last_of(stats, settings.keep_every)),
        study=assessment.study,
        design=assessment,
        diagnostics=assess(quantities, stats, refits=refits),
        settings=settings.recorded(),
    )


def _thinned(values: Mapping[str, Floats], keep_every: int) -> dict[str, Floats]:
    """The last of every so many draws of each chain."""
    return {name: x[:, keep_every - 1 :: keep_every] for name, x in values.items()}


def _last_of(stats: xr.Dataset, keep_every: int) -> xr.Dataset:
    """Sampler statistics of the draws that are kept; the gates count those of all."""
    kept = stats.isel(draw=slice(keep_every - 1, None, keep_every))
    return kept.assign_coords(draw=np.arange(kept.sizes["draw"]))


def _posterior(assessment: Assessment, settings: Settings) -> tuple[Recovered, xr.Dataset]:
    """Draws of the swept model, and back from it."""
    if any(component.varies for component in assessment.components):
        return _own_posterior(assessment, settings)
    cells = assessment.cells
    p = parameterise(cells, assessment.mu_prior, assessment.residual_prior)
    sample = _sample_direct if settings.sampler == "direct" else _sample_pymc
    values, stats = sample(p, assessment, settings)
    values = _thinned(values, settings.keep_every)
    rng = np.random.default_rng([settings.seed, RECOVERY_STREAM])
    mu, effects = recover(p, values, rng)
    names = [f"sd({block.name})" for block in p.random]
    flat = [e.reshape(-1, e.shape[-1]) for e in effects]
    sds = [values[name].ravel() for name in names]
    redraw_shifts(cells, sds, flat, rng, shifting_pairs(cells))
    names += [RESIDUAL] if p.residual_prior is not None else []
    scales = {"mu": mu} | {name: values[name] for name in names}
    return recovered_draws(assessment, scales, effects, settings.store_effects), stats


def _own_posterior(assessment: Assessment, settings: Settings) -> tuple[Recovered, xr.Dataset]:
    """The same with own sds of each system."""
    from gstudy.model.levels import recover_levels
    from gstudy.model.own_graph import own_model
    from gstudy.model.own_recovered import recovered_own
    from gstudy.model.varying import vary

    if settings.sampler == "direct":
        raise DeclarationError(
            explain(
                "the direct sampler has no own sds (varies)",
                given="direct",
                allowed=["pymc"],
                do='Use sampler="pymc", or fit each system by itself with gs.fit_by.',
            )
        )
    varying = vary(assessment)
    values, stats = _sample_model(lambda: own_model(varying), settings)
    values = _thinned(values, settings.keep_every)
    rng = np.random.default_rng([settings.seed, RECOVERY_STREAM])
    draws = recover_levels(varying, values, rng)
    return recovered_own(assessment, varying, draws, rng, settings.store_effects), stats


def _sample_direct(
    p: Parameterisation, assessment: Assessment, settings: Settings
) -> tuple[Mapping[str, Floats], xr.Dataset]:
    import nutpie

    from gstudy.model.compiled import compile_direct
    from gstudy.model.direct import direct_posterior

    posterior = direct_posterior(p)
    running = nutpie.sample(
        compile_direct(posterior),
        draws=settings.draws * settings.keep_every,
        tune=settings.tune,
        chains=settings.chains,
        cores=_cores(settings),
        seed=settings.seed,
        target_accept=settings.target_accept,
        save_warmup=False,
        progress_bar=settings.progress,
        blocking=False,
    )
    # Its own waiting holds back Ctrl-C while the chains call Python.
    while not _is_finished(running):
        time.sleep(_POLL_SECONDS)
    trace = running.wait()
    x = trace["posterior"].to_dataset()["x"].to_numpy()
    return posterior.unpack(x), trace["sample_stats"].to_dataset()


def _is_finished(running: Any) -> bool:
    try:
        return bool(running.is_finished)
    except TimeoutError:
        # It was too busy to answer.
        return False


def _sample_pymc(
    p: Parameterisation, assessment: Assessment, settings: Settings
) -> tuple[Mapping[str, Floats], xr.Dataset]:
    from gstudy.model.graph import model_of

    return _sample_model(lambda: model_of(p, assessment.cells), settings)


def _sample_model(
    write: Callable[[], pm.Model], settings: Settings
) -> tuple[Mapping[str, Floats], xr.Dataset]:
    """Draws of the free variables of a PyMC model."""
    import pymc as pm
    from pytensor.configdefaults import config

    # Fast-math compiles to other instructions from a cold cache than from a warm one, and one
    # seed then gives two sets of draws.
    with config.change_flags(numba__fastmath=False), write():
        trace = pm.sample(
            draws=settings.draws * settings.keep_every,
            tune=settings.tune,
            chains=settings.chains,
            cores=_cores(settings),
            random_seed=settings.seed,
            nuts_sampler="nutpie",
            nuts={"target_accept": settings.target_accept},
            progressbar=settings.progress,
            compute_convergence_checks=False,
            discard_tuned_samples=True,
            quiet=not settings.progress,
        )
    draws = trace["posterior"].to_dataset()
    free = {name: draws[name].to_numpy() for name in draws.data_vars}
    return free, trace["sample_stats"].to_dataset()


def _cores(settings: Settings) -> int:
    import os

    return settings.cores or min(settings.chains, os.cpu_count() or 1)
