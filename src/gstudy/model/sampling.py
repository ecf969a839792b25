"""Fit a study: sample its model, recover mu and all effects, measure the gates."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from gstudy.errors import DeclarationError, explain
from gstudy.fits.fitted import Fit, cell_groups
from gstudy.fits.gates import ESS_LIMIT, Diagnostics, assess, warn_if_failed
from gstudy.model.interrupts import interruptible
from gstudy.model.parameterisation import Parameterisation, parameterise
from gstudy.model.sweep import recover, redraw_shifts, shifting_pairs
from gstudy.study.assessment import LARGEST_STORED, Assessment
from gstudy.study.declaration import Study
from gstudy.study.estimable import assess as assess_design
from gstudy.study.estimable import warn_if_left_out

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["fit"]

Floats = NDArray[np.float64]

TARGET_ACCEPT = 0.95
REFIT_TARGET_ACCEPT = 0.99

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
    set (see `build_model`). If a gate fails, one refit at target_accept 0.99 is made and recorded.

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
        written in numba: no compilation, for loops of refits.
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
    settings = _Settings(
        seed=_seed(seed),
        draws=_whole("draws", draws, 1),
        tune=_whole("tune", tune, 1),
        chains=_whole("chains", chains, 1),
        cores=None if cores is None else _whole("cores", cores, 1),
        sampler=sampler,
        target_accept=target_accept,
        progress=progress and _can_show_progress(),
        store_effects=store_effects,
    )
    assessment = _assessed(study, trials)
    result = _attempt(assessment, settings, refits=())
    if _worth_refitting(result.diagnostics, settings):
        settings = settings.stricter()
        result = _attempt(assessment, settings, refits=(_refit_note(result.diagnostics),))
    warn_if_failed(result.diagnostics, stacklevel=3)
    return result


def _assessed(study: Study, trials: Any) -> Assessment:
    """What check finds; its warning points at the line that called `fit`."""
    if isinstance(trials, Assessment):
        return trials.of(study)
    assessment = assess_design(study, trials)
    warn_if_left_out(assessment, stacklevel=4)
    return assessment


@dataclass(frozen=True, slots=True)
class _Settings:
    seed: int
    draws: int
    tune: int
    chains: int
    cores: int | None
    sampler: str
    target_accept: float
    progress: bool
    store_effects: bool | None

    def __post_init__(self) -> None:
        if self.sampler not in ("pymc", "direct"):
            raise DeclarationError(
                explain("unknown sampler", given=self.sampler, allowed=["pymc", "direct"])
            )
        number = isinstance(self.target_accept, Real)
        if not number or not 0.0 < self.target_accept < 1.0:
            raise DeclarationError(
                explain(
                    "target_accept is out of range",
                    given=self.target_accept,
                    allowed="a number between 0 and 1, such as 0.95",
                )
            )

    def stricter(self) -> _Settings:
        from dataclasses import replace

        return replace(self, target_accept=REFIT_TARGET_ACCEPT)

    def recorded(self) -> dict[str, Any]:
        """What a saved run says of how it was made."""
        packages = ("gstudy", "pymc", "nutpie", "numba", "numpy", "arviz")
        return {
            "seed": self.seed,
            "draws": self.draws,
            "tune": self.tune,
            "chains": self.chains,
            "sampler": self.sampler,
            "target_accept": self.target_accept,
            "versions": {name: version(name) for name in packages},
        }


def _attempt(assessment: Assessment, settings: _Settings, refits: tuple[str, ...]) -> Fit:
    """Sample once, recover, measure."""
    cells = assessment.cells
    p = parameterise(cells, assessment.mu_prior)
    sample = _sample_direct if settings.sampler == "direct" else _sample_pymc
    with interruptible():
        values, stats = sample(p, assessment, settings)
    rng = np.random.default_rng([settings.seed, RECOVERY_STREAM])
    mu, effects = recover(p, values, rng)
    sds = [values[f"sd({block.name})"] for block in p.blocks]
    flat = [e.reshape(-1, e.shape[-1]) for e in effects]
    redraw_shifts(cells, [sd.ravel() for sd in sds], flat, rng, shifting_pairs(cells))
    quantities = {"mu": mu} | {f"sd({b.name})": sd for b, sd in zip(p.blocks, sds, strict=True)}
    levels = _object_levels(assessment, mu, effects)
    return Fit(
        posterior=_tree(assessment, quantities, effects, stats, settings.store_effects),
        study=assessment.study,
        design=assessment,
        diagnostics=assess(quantities | levels, stats, refits=refits),
        settings=settings.recorded(),
    )


def _sample_direct(
    p: Parameterisation, assessment: Assessment, settings: _Settings
) -> tuple[Mapping[str, Floats], xr.Dataset]:
    import nutpie

    from gstudy.model.compiled import compile_direct
    from gstudy.model.direct import direct_posterior

    posterior = direct_posterior(p)
    running = nutpie.sample(
        compile_direct(posterior),
        draws=settings.draws,
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
    p: Parameterisation, assessment: Assessment, settings: _Settings
) -> tuple[Mapping[str, Floats], xr.Dataset]:
    import pymc as pm
    from pytensor.configdefaults import config

    from gstudy.model.graph import model_of

    # Fast-math compiles to other instructions from a cold cache than from a warm one, and one
    # seed then gives two sets of draws.
    with config.change_flags(numba__fastmath=False), model_of(p, assessment.cells):
        trace = pm.sample(
            draws=settings.draws,
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


def _cores(settings: _Settings) -> int:
    import os

    return settings.cores or min(settings.chains, os.cpu_count() or 1)


def _object_levels(assessment: Assessment, mu: Floats, effects: list[Floats]) -> dict[str, Floats]:
    """Logit level of each system: what every number of one system is computed from."""
    obj = assessment.study.object
    for c, component in enumerate(assessment.components):
        if obj is not None and component.facets == frozenset({obj}):
            labels = assessment.cells.level_labels(c)
            return {f"mu + u({x})": mu + effects[c][..., i] for i, x in enumerate(labels)}
    return {}


def _tree(
    assessment: Assessment,
    quantities: Mapping[str, Floats],
    effects: list[Floats],
    stats: xr.Dataset,
    store_effects: bool | None,
) -> xr.DataTree:
    """The posterior as a DataTree with ArviZ groups and facet labels as coordinates."""
    import xarray as xr

    n_chains, n_draws = quantities["mu"].shape
    sample = ("chain", "draw")
    coords: dict[str, Any] = {"chain": np.arange(n_chains), "draw": np.arange(n_draws)}
    variables: dict[str, Any] = {name: (sample, q) for name, q in quantities.items()}
    for c, component in enumerate(assessment.components):
        name = component.name
        coords[name] = np.array(assessment.cells.level_labels(c), dtype=str)
        if store_effects or component.n_levels <= LARGEST_STORED:
            variables[f"u({name})"] = ((*sample, name), effects[c])
        else:
            variables[f"u_mean({name})"] = (name, effects[c].mean(axis=(0, 1)))
            variables[f"u_sd({name})"] = (name, effects[c].std(axis=(0, 1)))
    groups = {
        "posterior": xr.Dataset(variables, coords=coords),
        "sample_stats": stats.drop_attrs(),
        **cell_groups(assessment),
    }
    return xr.DataTree.from_dict(groups)


def _worth_refitting(diagnostics: Diagnostics, settings: _Settings) -> bool:
    """A refit cannot help a run too short to pass, and is made once."""
    enough = settings.chains * settings.draws >= 2 * ESS_LIMIT and settings.chains > 1
    return enough and not diagnostics.passed and settings.target_accept < REFIT_TARGET_ACCEPT


def _refit_note(diagnostics: Diagnostics) -> str:
    return f"refitted at target_accept {REFIT_TARGET_ACCEPT} because: " + "; ".join(
        diagnostics.failures()[:3]
    )


def _can_show_progress() -> bool:
    """Only where someone watches: a terminal or a notebook."""
    return sys.stderr.isatty() or "ipykernel" in sys.modules


def _seed(seed: int | None) -> int:
    if seed is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    return _whole("seed", seed, 0, 2**32 - 1)


def _whole(name: str, value: Any, least: int, most: int | None = None) -> int:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if whole and least <= value and (most is None or value <= most):
        return int(value)
    upto = f"{least} or more" if most is None else f"{least} to {most}"
    raise DeclarationError(
        explain(f"{name} is not a whole number in range", given=value, allowed=f"whole, {upto}")
    )
