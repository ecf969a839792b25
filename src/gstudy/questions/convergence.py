"""Convergence: how the ICC of tasks settles as each task has more rollouts."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gstudy.errors import QuantityError, explain
from gstudy.questions.banks import task_facet
from gstudy.questions.convergence_curves import LIKE_THESE, THESE, Convergence
from gstudy.questions.tasks import task_table
from gstudy.study.declaration import checked_study
from gstudy.study.parts import Part, split_by
from gstudy.study.thinned import fewest_rollouts, thinned
from gstudy.study.trials import Trials, read_trials
from gstudy.variance.classical.anova import anova_icc
from gstudy.variance.coefficients import icc
from gstudy.variance.draws import Array, checked_seed
from gstudy.variance.latent import BINARY
from gstudy.variance.normality import bank_icc

if TYPE_CHECKING:
    from gstudy.fits.fitted import Fit
    from gstudy.study.declaration import Study

__all__ = ["convergence"]

_ALL = "all"
_MOST_RESAMPLES = 1000


def convergence(
    study: Study,
    trials: Trials | pd.DataFrame | str | Path,
    *,
    by: str | None = None,
    facet: str | None = None,
    levels: Sequence[int] | None = None,
    resamples: int = 1,
    seed: int = 0,
    draws: int = 1000,
    tune: int = 1000,
    chains: int = 4,
    n_jobs: int | None = None,
    progress: bool = True,
) -> Convergence:
    """ICC of tasks from 2, 4, 8, ... of the rollouts that a data set has: when is it known?

    Parameters
    ----------
    study : Study
    trials : Trials, DataFrame or path
    by : str, optional
        Facet or column with one curve per level; by default the object, since each system has
        variances of its own.
    facet : str, optional
        Whose ICC; by default the tasks: the legitimate facet with most levels that a re-run keeps.
    levels : sequence of int, optional
        Rollouts of each task, 2 or more; by default powers of 2. Larger numbers than each task of
        a group has are left out for that group.
    resamples : int
        Random parts of the trials at each number.
    seed : int
        Of the parts and of the fits.
    draws, tune, chains, n_jobs, progress
        As for `gstudy.fit_by`.

    Returns
    -------
    Convergence

    Raises
    ------
    QuantityError
        For numbers of rollouts or resamples that are none, and when no group has 2 rollouts of
        each task.
    DeclarationError, DataError
        As `gstudy.fit_by`.

    Notes
    -----
    At each number T of rollouts a random part of the trials, T rollouts of each task without
    replacement, is fitted anew by the direct path. *Tasks like these*: ``ICC = V(task)/(m(1-m))``
    of `gstudy.icc`; its interval does not shrink to nothing, since the tasks are a sample. *These
    tasks*: ``(mean p_t^2 - m^2) / (m (1 - m))``, p_t the rates of the fitted tasks in each draw, m
    their mean: what the ANOVA ICC of ever more rollouts of them becomes. Where the two part at many
    rollouts the normal task effects of the model do not fit, which few rollouts cannot show: of six
    real systems the first went wrong for three at 256 rollouts (0.40 for 0.20 at worst), the second
    for none; a note says so.

    Examples
    --------
    >>> import gstudy as gs
    >>> study, trials = gs.example("airline")
    >>> gs.convergence(study, trials, levels=[2, 4])  # doctest: +SKIP
    """
    seed, resamples = checked_seed(seed), _checked_resamples(resamples)
    study = checked_study(study)
    by, parts = _parts(study, trials, by)
    usable = {part.label: part.trials.usable(part.study) for part in parts}
    fewest = {part.label: fewest_rollouts(usable[part.label], part.study) for part in parts}
    chosen = _checked_levels(levels, fewest)
    jobs: dict[tuple[str, int, int], tuple[Study, pd.DataFrame]] = {}
    for i, part in enumerate(parts):
        for rollouts in [n for n in chosen if n <= fewest[part.label]]:
            for resample in range(resamples):
                rng = np.random.default_rng([seed, i, rollouts, resample])
                table = thinned(usable[part.label], part.study, rollouts, rng)
                jobs[part.label, rollouts, resample] = part.study, table
    settings = {"draws": draws, "tune": tune, "chains": chains, "n_jobs": n_jobs}
    return _measured(jobs, parts, chosen, resamples, facet, by, seed, progress, settings)


def _parts(
    study: Study, trials: Trials | pd.DataFrame | str | Path, by: str | None
) -> tuple[str | None, list[Part]]:
    by = study.object if by is None else by
    if by is None:
        return None, [Part(_ALL, study, read_trials(trials, study))]
    return split_by(study, trials, by)


def _measured(
    jobs: Mapping[tuple[str, int, int], tuple[Study, pd.DataFrame]],
    parts: Sequence[Part],
    levels: Sequence[int],
    resamples: int,
    facet: str | None,
    by: str | None,
    seed: int,
    progress: bool,
    settings: Mapping[str, Any],
) -> Convergence:
    """Fit every part, and keep of each its ICCs."""
    import xarray as xr

    from gstudy.model.refits import refitted

    keys = {f"{label}, {n} rollouts, resample {i + 1}": (label, n, i) for label, n, i in jobs}
    tables = {name: jobs[key] for name, key in keys.items()}
    values, anova, failed = dict[tuple[str, int, int], Array](), [], 0
    n_levels: dict[str, int] = {}
    for name, fit in refitted(tables, seed=seed, progress=progress, **settings):
        label, rollouts, resample = key = keys[name]
        facet = task_facet(fit) if facet is None else facet
        values[key], n_levels[label] = _iccs(fit, str(facet))
        own, table = jobs[key]
        point = anova_icc(table, str(facet), study=own).value
        anova.append({"group": label, "rollouts": rollouts, "resample": resample, "icc": point})
        failed += not fit.diagnostics.passed
    coords: dict[str, Any] = {
        "group": [part.label for part in parts],
        "rollouts": list(levels),
        "resample": list(range(resamples)),
    }
    places = list(itertools.product(*coords.values()))
    absent = np.full_like(next(iter(values.values())), np.nan)
    stacked = np.stack([values.get(place, absent) for place in places], axis=1)
    shape = (2, *map(len, coords.values()), *absent.shape[1:])
    coords = {"estimand": [LIKE_THESE, THESE], **coords}
    coords |= {"chain": np.arange(shape[-2]), "draw": np.arange(shape[-1])}
    found = xr.DataArray(stacked.reshape(shape), coords, tuple(coords), name="icc")
    notes = _notes(parts, n_levels, failed, len(jobs))
    return Convergence(found, pd.DataFrame(anova), str(facet), by, n_levels, notes)


def _iccs(fit: Fit, facet: str) -> tuple[Array, int]:
    """ICC of tasks like these and of these (2, chain, draw), and the number of them."""
    population = icc(fit, facet).draws.values
    if fit.study.family != BINARY:
        n = fit.design.component(facet).n_levels
        return np.stack([population, np.full(population.shape, np.nan)]), n
    rates = task_table(fit, tasks=facet).draws.transpose("chain", "draw", "task").to_numpy()
    return np.stack([population, bank_icc(rates)]), rates.shape[-1]


def _notes(
    parts: Sequence[Part], n_levels: Mapping[str, int], failed: int, total: int
) -> tuple[str, ...]:
    notes = []
    absent = [part.label for part in parts if part.label not in n_levels]
    if absent:
        notes.append(
            f"Left out: {', '.join(absent[:3])}{' and others' if len(absent) > 3 else ''}; some "
            "task has fewer rollouts than the smallest number."
        )
    if failed:
        notes.append(f"{failed:,} of {total:,} fits fail a gate of the sampler; they count.")
    return tuple(notes)


def _checked_resamples(value: object) -> int:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or not 1 <= int(str(value)) <= _MOST_RESAMPLES:
        raise QuantityError(
            explain(
                "resamples is no number of parts",
                given=value,
                allowed=f"whole numbers from 1 to {_MOST_RESAMPLES:,}",
            )
        )
    return int(str(value))


def _checked_levels(levels: Sequence[int] | None, fewest: Mapping[str, int]) -> list[int]:
    """Numbers of rollouts in order, of which some group has each."""
    most = max(fewest.values())
    if levels is None:
        chosen = [2**k for k in range(1, max(most, 1).bit_length()) if 2**k <= most]
    else:
        chosen = _whole_levels(levels)
    found = [n for n in chosen if n <= most]
    if not found:
        raise QuantityError(
            explain(
                "no group has so many rollouts of each task",
                given=chosen or None,
                allowed=f"numbers from 2 to {most:,}: the fewest rollouts that a task has"
                if most >= 2
                else "trials with two rollouts or more of each task",
                do="Take tasks with fewer rollouts out.",
            )
        )
    return found


def _whole_levels(levels: object) -> list[int]:
    listed = isinstance(levels, Sequence | np.ndarray) and not isinstance(levels, str)
    values = list(levels) if listed and isinstance(levels, Sequence | np.ndarray) else []
    right = [isinstance(n, int | np.integer) and not isinstance(n, bool) and n >= 2 for n in values]
    if not values or not all(right):
        raise QuantityError(
            explain(
                "levels are no numbers of rollouts", given=levels, allowed="whole numbers from 2 on"
            )
        )
    return sorted({int(n) for n in values})
