"""From fits to the leaderboard: what each system's fit says, and what a joint fit adds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from gstudy._words import plural
from gstudy.errors import QuantityError, explain
from gstudy.fits.fitted import Fit
from gstudy.fits.gates import stamp
from gstudy.fits.many import Fits
from gstudy.fits.substitutes import advice_on
from gstudy.questions.banks import bank_mean, new_level_mean, task_facet
from gstudy.questions.discordance import aligned, levels_of
from gstudy.questions.observed import observed_scores
from gstudy.questions.ranking import Leaderboard
from gstudy.questions.scores import average_text, posterior_scores, score_estimand
from gstudy.questions.unlike import refuse_unlike, unlike_levels
from gstudy.variance.basis import latent_of
from gstudy.variance.coefficients import icc
from gstudy.variance.draws import Array, checked_seed
from gstudy.variance.rerun import rerun_noise

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["scores"]

SHARED = (
    "ICC and re-run noise are left out: the systems share one set of sds in this fit, which makes "
    "both follow the score. Own variances tell them: varies, or gs.fit_by."
)
NO_JOINT = (
    "Ranks over new tasks need the systems' joint posterior: pass joint=, a fit of all of them."
)
_LISTED = 3


@dataclass(frozen=True, slots=True)
class _Source:
    """The fit of each system, whether it has its own variances, and what is said of the rest."""

    fits: Mapping[str, Fit]
    own: bool
    joint: Fit | None
    missing: tuple[str, ...] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(self.fits)

    @property
    def first(self) -> Fit:
        return next(iter(self.fits.values()))


def scores(fits: Fits | Fit, joint: Fit | None = None, *, seed: int = 0) -> Leaderboard:
    """The leaderboard: one row per system.

    Parameters
    ----------
    fits : Fits or Fit
        The separate fits of `gs.fit_by` by the object, or one fit of all systems. From a fit with
        shared sds the columns that need own variances (ICC, re-run noise) are left out.
    joint : Fit, optional
        A joint fit of the same systems, for ranks over new tasks; not needed with one fit.
    seed : int
        Of the effects on tasks that a system did not run.

    Returns
    -------
    Leaderboard

    Raises
    ------
    QuantityError
        For fits that are not of one system each, systems without effects of their own, and a
        joint fit that lacks one of the systems.

    Notes
    -----
    Ranks over these tasks: per draw the rank of each system's expected score over all levels that
    any of them ran, each level with its mean weight in the reported scores; tasks that a system
    did not run are drawn anew. Ranks over new tasks: per draw of the joint posterior the rank of
    ``E expit`` over new levels. Tiers: greedy, see `gstudy.questions.ranking.tiers_of`.

    Examples
    --------
    >>> import gstudy as gs
    >>> study, trials = gs.example("panel")
    >>> gs.scores(gs.fit_by(study, trials, by="system", seed=1))  # doctest: +SKIP
    """
    seed = checked_seed(seed)
    source = _source(fits, joint)
    labels, first = source.labels, source.first
    task = task_facet(first)
    levels = levels_of(source.fits, labels)
    banks = [bank_mean(source.fits[label], label, levels[label], seed) for label in labels]
    draws, observed = _estimates(source)
    estimates = _by_system(draws, labels)
    return Leaderboard(
        draws=estimates,
        these_tasks=_by_system(banks, labels),
        new_tasks=None if source.joint is None else _new_tasks(source.joint, labels),
        icc=_iccs(source, task),
        rerun=_reruns(source),
        observed=observed,
        estimand=score_estimand(first, latent_of(first)),
        average=average_text(first),
        task=task,
        family=first.study.family,
        notes=(*_stamps(source, estimates), *_notes(source, observed, task)),
    )


def _source(fits: Fits | Fit, joint: Fit | None) -> _Source:
    if isinstance(fits, Fits):
        return _separate(fits, joint)
    if not isinstance(fits, Fit):
        raise QuantityError(
            explain(
                "a leaderboard is of fits: it needs the trials beside the draws",
                given=type(fits).__name__,
                allowed="what gs.fit_by, gs.fit and gs.load return",
                do=advice_on(fits),
            )
        )
    latent = latent_of(fits)
    labels = list(observed_scores(fits).index)
    if len(labels) > 1 and set(labels) != set(latent.object_effects):
        raise QuantityError(
            explain(
                "the systems have no effects of their own in this model: their component is "
                "merged with another or left out",
                given=labels,
                do="Collect tasks that several systems run, or use gs.fit_by.",
            )
        )
    joined = joint if joint is not None else fits if len(labels) > 1 else None
    _check_joint(joined, labels)
    return _Source(dict.fromkeys(labels, fits), bool(latent.own) or len(labels) == 1, joined)


def _separate(fits: Fits, joint: Fit | None) -> _Source:
    if fits.by != fits.study.object or not len(fits):
        raise QuantityError(
            explain(
                "a leaderboard needs one fit per system",
                given=f"{len(fits)} fits by {fits.by!r}",
                allowed=f"gs.fit_by(..., by={fits.study.object!r})",
            )
        )
    refuse_unlike(fits)
    _check_joint(joint, list(fits))
    _check_same_trials(joint, fits)
    missing = tuple(f"{label} is not ranked, not fitted: {e}" for label, e in fits.failures.items())
    return _Source(dict(fits.items()), True, joint, missing)


def _check_joint(joint: Fit | None, labels: list[str]) -> None:
    """The joint fit knows every system."""
    if joint is None:
        return
    known = latent_of(joint).object_effects
    missing = [label for label in labels if label not in known]
    if missing:
        raise QuantityError(
            explain(
                f"the joint fit does not know {missing[0]!r}",
                allowed=list(known),
                do="Fit all systems of the leaderboard together.",
            )
        )


def _check_same_trials(joint: Fit | None, fits: Fits) -> None:
    """The joint fit is of the same declaration and the same trials as each system's own."""
    if joint is None:
        return
    if joint.study.facet_names != fits.study.facet_names:
        raise QuantityError(
            explain(
                "the joint fit is of another study",
                given=", ".join(joint.study.facet_names),
                allowed=", ".join(fits.study.facet_names),
                do="Fit the same study and trials: gs.fit(study, trials).",
            )
        )
    together = observed_scores(joint)
    for label, fit in fits.items():
        own, same = observed_scores(fit).iloc[0], together.loc[label]
        if own["n_trials"] != same["n_trials"] or not np.isclose(own["rate"], same["rate"]):
            raise QuantityError(
                explain(
                    f"the joint fit is of other trials: {label!r} has {same['n_trials']:,.0f} in "
                    f"it and {own['n_trials']:,.0f} in its own fit, with means "
                    f"{same['rate']:.4g} and {own['rate']:.4g}",
                    do="Fit the same trials together: gs.fit(study, trials).",
                )
            )


def _estimates(source: _Source) -> tuple[list[Array], pd.DataFrame]:
    """Draws of each system's declared estimand, and what was observed of them."""
    draws, frames = [], []
    separate = len({id(fit) for fit in source.fits.values()}) == len(source.fits)
    for label, fit in source.fits.items():
        rates, observed, _ = posterior_scores(fit, latent_of(fit))
        name = observed.index[0] if separate else label
        draws.append(rates[name])
        frames.append(observed.loc[[name]].set_axis([label], axis=0))
    frame = pd.concat(frames)
    frame.index = pd.Index(list(source.fits), name=source.first.study.object, dtype=object)
    return draws, frame


def _given(source: _Source, label: str) -> str | None:
    """The system to ask a fit for: none of a fit that knows one only."""
    return label if label in latent_of(source.fits[label]).object_effects else None


def _iccs(source: _Source, task: str | None) -> xr.DataArray | None:
    """ICC of the tasks per system; NaN where its trials do not tell it."""
    if not source.own or task is None:
        return None
    found = []
    for label, fit in source.fits.items():
        try:
            draws = icc(fit, task, system=_given(source, label)).draws.values
        except QuantityError:
            draws = np.full(fit.mu.shape, np.nan)
        found.append(draws)
    return _by_system(found, source.labels)


def _reruns(source: _Source) -> xr.DataArray | None:
    """Variance over re-runs of each system's score as collected."""
    if not source.own:
        return None
    found = [
        rerun_noise(fit, system=_given(source, label)).draws.values
        for label, fit in source.fits.items()
    ]
    return _by_system(found, source.labels)


def _new_tasks(joint: Fit, labels: tuple[str, ...]) -> xr.DataArray:
    latent = latent_of(joint)
    means = [new_level_mean(latent.given(label, own_weights=False)) for label in labels]
    return _by_system(means, labels)


def _by_system(draws: list[Array], labels: tuple[str, ...]) -> xr.DataArray:
    """Draws (chain, draw, system)."""
    import xarray as xr

    stacked = np.stack(aligned(draws), axis=-1)
    return xr.DataArray(
        stacked,
        dims=("chain", "draw", "system"),
        coords={
            "chain": np.arange(stacked.shape[0]),
            "draw": np.arange(stacked.shape[1]),
            "system": np.array(labels, dtype=object),
        },
    )


def _stamps(source: _Source, draws: xr.DataArray) -> tuple[str, ...]:
    """The stamp of each fit that fails a gate, and of the draws."""
    known: dict[int, tuple[str, Fit]] = {}
    for label, fit in source.fits.items():
        known.setdefault(id(fit), (label, fit))
    several, notes = len(known) > 1, []
    for label, fit in known.values():
        note = stamp(draws.sel(system=[label]) if several else draws, fit.diagnostics)
        if note:
            notes.append(f"{note} ({label})" if several else note)
    if source.joint is not None and id(source.joint) not in known:
        note = stamp(source.joint.mu, source.joint.diagnostics)
        notes += [f"{note} (joint fit)"] if note else []
    return tuple(notes)


def _notes(source: _Source, observed: pd.DataFrame, task: str | None) -> tuple[str, ...]:
    notes = [*source.missing, *([] if source.own else [SHARED]), *unlike_levels(source.fits)]
    if source.joint is None and len(source.labels) > 1:
        notes.append(NO_JOINT)
    column = f"n_{task}"
    if column in observed and observed[column].nunique() > 1:
        counts = observed[column].sort_values(kind="stable")
        fewer = counts[counts < counts.max()]
        told = [f"{label} {n:,.0f}" for label, n in fewer.head(_LISTED).items()]
        more = f" and {len(fewer) - _LISTED} more" if len(fewer) > _LISTED else ""
        notes.append(
            f"Not all ran the same {plural(str(task))} ({', '.join(told)}{more} of "
            f"{counts.max():,.0f}): in ranks and tiers the others count as new to them."
        )
    return tuple(notes)
