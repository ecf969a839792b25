"""The tasks one by one: pass rate, whether it is flaky, whether it is dead, how many are live."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from gstudy._words import plural
from gstudy.display import Shown, Table, number
from gstudy.errors import QuantityError, did_you_mean, explain
from gstudy.fits.fitted import Fit
from gstudy.fits.gates import stamp
from gstudy.fits.substitutes import advice_on
from gstudy.questions.banks import group_means, kept_facets, own_levels, task_facet
from gstudy.questions.observed import observed_scores
from gstudy.study.cells import joined_labels
from gstudy.variance.basis import latent_of
from gstudy.variance.draws import INTERVAL_KIND, Array, proportion, summarise
from gstudy.variance.latent import BINARY
from gstudy.variance.trial_weights import object_rows

if TYPE_CHECKING:
    import numpy.typing as npt
    import xarray as xr

    from gstudy.questions.banks import Levels
    from gstudy.study.cells import Cells

__all__ = ["FLAKY", "TaskTable", "live_tasks", "task_table"]

FLAKY = (0.05, 0.95)
"""A task is flaky for a system that passes it with a probability strictly between these."""

_FLAKY_NOTE = (
    f"flaky: posterior probability that the pass rate lies strictly between {FLAKY[0]:.2f} and "
    f"{FLAKY[1]:.2f}{{}}. dead: every trial{{}} had the same score."
)
_SEED = 0

Key = tuple[Hashable, ...]


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class TaskTable(Shown):
    """One row per task: expected score, how probably it is flaky, whether it is dead.

    Parameters
    ----------
    draws : xarray.DataArray (chain, draw, task)
        Expected score of each task given its fitted effects, score scale; of several systems the
        mean over those that ran it.
    live : xarray.DataArray (chain, draw), or None
        Effective number of live tasks, see `live_tasks`; None of graded scores.
    observed : pandas.DataFrame
        Index: the tasks; columns `n_trials`, `n_systems`, `rate` (observed mean), `p_flaky` (NaN
        of graded scores) and `dead`.
    facet : str
        The facet whose levels are the tasks.
    systems : tuple of str
        Whose scores they are; empty without an object of measurement.
    family : {"binary", "gaussian"}
    notes : tuple of str
    """

    draws: xr.DataArray
    live: xr.DataArray | None
    observed: pd.DataFrame
    facet: str
    systems: tuple[str, ...]
    family: str
    notes: tuple[str, ...] = ()

    @property
    def scale(self) -> str:
        """Always the score scale."""
        return "score"

    @property
    def together(self) -> bool:
        """Whether a row is the mean over several systems: none is where each has its own tasks."""
        return bool((self.observed["n_systems"] > 1).any())

    @property
    def estimand(self) -> str:
        """What the intervals are of, in words."""
        kind = "pass rate" if self.family == BINARY else "mean score"
        whose = f", mean over {len(self.systems)} systems" if self.together else ""
        return f"{kind} of each {self.facet} in the data{whose}"

    @property
    def n_dead(self) -> int:
        """Number of tasks of which every trial had the same score."""
        return int(self.observed["dead"].sum())

    def summary(self, level: float = 0.95) -> pd.DataFrame:
        """One row per task, the least often passed first.

        Parameters
        ----------
        level : float
            Posterior level of the equal-tailed intervals, in (0, 1).

        Returns
        -------
        pandas.DataFrame
            Index: the tasks; columns `n_trials`, `n_systems`, `rate` (observed), `mean`, `median`,
            `sd`, `lower`, `upper` (posterior), `p_flaky`, `dead`. `attrs` name scale, estimand,
            interval and level.

        Raises
        ------
        QuantityError
            For a level outside (0, 1).
        """
        level = proportion(level, "level")
        values = self.draws.transpose("task", "chain", "draw").to_numpy()
        frame = self.observed[["n_trials", "n_systems", "rate"]].assign(
            **summarise(values, level),
            p_flaky=self.observed["p_flaky"],
            dead=self.observed["dead"],
        )
        frame = frame.sort_values(["mean", "rate"], kind="stable")
        frame.attrs.update(
            scale="score", estimand=self.estimand, interval=INTERVAL_KIND, level=level
        )
        return frame

    def table(self, level: float = 0.95) -> Table:
        """The table that is printed."""
        summary, binary = self.summary(level), self.family == BINARY
        columns = ["n_trials", "rate", "mean", "lower", "upper"]
        frame = summary[[*columns, *(["p_flaky"] if binary else []), "dead"]]
        return Table(
            frame=frame.rename(
                columns={"n_trials": "trials", "rate": "observed", "p_flaky": "flaky"}
            ),
            title=f"{plural(self.facet).capitalize()}: {self.estimand}",
            scale="score",
            level=level,
            notes=(*self._sentences(level), *self.notes),
            formats={
                "trials": "int",
                **dict.fromkeys(
                    ("observed", "mean", "lower", "upper"), "percent1" if binary else "number3"
                ),
                "flaky": "percent0",
            },
        )

    def _sentences(self, level: float) -> list[str]:
        several = self.together
        tail = (1 - level) / 2
        told = []
        if self.live is not None:
            low, high = np.quantile(self.live.to_numpy(), [tail, 1 - tail])
            told.append(
                f"Effective number of live {plural(self.facet)}: "
                f"{number(float(self.live.mean()))} of {len(self.observed):,} ({number(float(low))}"
                f" to {number(float(high))}); {self.n_dead:,} dead"
                f"{' for these systems' if several else ''}."
            )
            told.append(
                _FLAKY_NOTE.format(
                    ", mean over the systems" if several else "",
                    " of every system" if several else "",
                )
            )
        else:
            told.append(f"{self.n_dead:,} dead: every trial had the same score.")
        return told


def task_table(fit: Fit, *, system: str | None = None, tasks: str | None = None) -> TaskTable:
    """Expected score of every task in the data, which are flaky, and which tell nothing.

    Parameters
    ----------
    fit : Fit
    system : str, optional
        One system; by default all, and then the mean over those that ran the task.
    tasks : str, optional
        The facet whose levels are the tasks; by default the legitimate facet with most levels
        that a re-run keeps.

    Returns
    -------
    TaskTable

    Raises
    ------
    QuantityError
        For what is no fit, an unknown system, a facet that no re-run keeps, a fit without tasks,
        and one whose draws of the effects were not kept.

    Notes
    -----
    The score of task t for system s is its expectation given the fitted effects,
    ``p_ts = E[expit(mu + u_t + u_s + u_ts + e)]``, e what a re-run draws anew; other kept facets
    at the levels that were run. *Flaky*: the posterior probability of ``0.05 < p_ts < 0.95``, a
    task that one in twenty trials decides otherwise; of several systems its mean over them. *Dead*:
    every trial of every system had the same score, so that the task tells these systems apart no
    more than a constant would. Effective number of live tasks: see `live_tasks`.

    Examples
    --------
    >>> import gstudy as gs
    >>> gs.task_table(gs.load("run.nc"))  # doctest: +SKIP
    """
    if not isinstance(fit, Fit):
        raise QuantityError(
            explain(
                "a table of tasks is of a fit",
                given=type(fit).__name__,
                allowed="what gs.fit and gs.load return",
                do=advice_on(fit),
            )
        )
    facet = _facet(fit, tasks)
    labels = _systems(fit, system)
    keys, mean, flaky, n_systems = _rates(fit, labels, facet)
    binary = fit.study.family == BINARY
    observed = _observed(fit, labels, facet, keys).assign(
        n_systems=n_systems, p_flaky=flaky if binary else np.nan
    )
    draws = _labelled(mean, observed.index)
    note = stamp(draws, fit.diagnostics)
    return TaskTable(
        draws=draws,
        live=_labelled(live_tasks(mean)) if binary else None,
        observed=observed,
        facet=facet,
        systems=tuple(label for label in labels if label is not None),
        family=fit.study.family,
        notes=(note,) if note else (),
    )


def live_tasks(rates: Array) -> Array:
    """Effective number of live tasks, ``(sum w)^2 / sum w^2`` with ``w_t = p_t (1 - p_t)``.

    Parameters
    ----------
    rates : array (..., n_tasks)
        Pass rates p of each task, of several systems their mean.

    Returns
    -------
    array (...)
        0 where every rate is 0 or 1.

    Notes
    -----
    ``p (1 - p)`` with p the mean over systems is the variance of one 0/1 trial of the task over
    systems and rollouts: between systems plus within. A task that all always pass, or never, has
    none of it and tells nothing; k tasks with one rate and any number of dead ones count k. The
    form is Kish's effective sample size.

    Examples
    --------
    >>> float(live_tasks(np.array([0.5, 0.5, 0.0, 1.0])))
    2.0
    """
    weights = rates * (1 - rates)
    squares = (weights**2).sum(axis=-1)
    found = np.zeros(np.shape(squares))
    return np.asarray(np.divide(weights.sum(axis=-1) ** 2, squares, out=found, where=squares > 0))


def _rates(
    fit: Fit, labels: list[str | None], facet: str
) -> tuple[list[Key], Array, Array, npt.NDArray[np.intp]]:
    """Tasks, their rates (chain, draw, task), P(flaky), and how many systems ran each."""
    parts = {label: own_levels(fit, label, kept_facets([fit])) for label in labels}
    columns = {label: _keys(fit, part, facet, label) for label, part in parts.items()}
    keys = list(dict.fromkeys(key for column in columns.values() for key in column))
    order = {key: i for i, key in enumerate(keys)}
    total = np.zeros((*fit.mu.shape, len(keys)))
    flaky, n_systems = np.zeros(len(keys)), np.zeros(len(keys), dtype=np.intp)
    for label, levels in parts.items():
        own = list(dict.fromkeys(columns[label]))
        places = [order[key] for key in own]
        rates = group_means(fit, label, levels, _groups(levels, columns[label], own), _SEED)
        total[..., places] += rates
        flaky[places] += ((rates > FLAKY[0]) & (rates < FLAKY[1])).mean(axis=(0, 1))
        n_systems[places] += 1
    return keys, total / n_systems, flaky / n_systems, n_systems


def _keys(fit: Fit, levels: Levels, facet: str, label: str | None) -> list[Key]:
    """The task of each level, with the system where each system has tasks of its own."""
    inside = fit.study.closure(facet)
    own = (label,) if _own_tasks(fit, facet, [label]) else ()
    return [(*own, *key) for key in levels.column(inside)]


def _own_tasks(fit: Fit, facet: str, labels: list[str | None]) -> bool:
    """Whether tasks of two systems are two tasks whatever their labels."""
    return labels != [None] and fit.study.object in fit.study.closure(facet)


def _facet(fit: Fit, tasks: str | None) -> str:
    known = kept_facets([fit])
    chosen = task_facet(fit) if tasks is None else tasks
    if chosen is None or chosen not in known:
        raise QuantityError(
            explain(
                "there are no tasks to list: a re-run keeps nothing that the fit knows"
                if chosen is None
                else f"the levels of {chosen!r} cannot be listed one by one",
                given=tasks,
                allowed=f"facets that a re-run keeps: {', '.join(known) or 'none here'}",
                do=did_you_mean(str(tasks), known) if tasks else "",
            )
        )
    return chosen


def _systems(fit: Fit, system: str | None) -> list[str | None]:
    """Labels of the systems with effects of their own; None alone where there are none."""
    latent = latent_of(fit)
    known: list[str | None] = list(latent.object_effects) if latent.object is not None else [None]
    if system is None:
        return known
    names = list(observed_scores(fit).index)
    if system not in names or (known != [None] and system not in known):
        raise QuantityError(
            explain(
                f"no system is named {system!r}",
                allowed=names,
                do=did_you_mean(system, names),
            )
        )
    return [system] if system in known else known


def _groups(levels: Levels, column: list[Key], keys: list[Key]) -> Array:
    """Weights of one system's levels in the score of each task, (n_levels, n_tasks)."""
    place = {key: i for i, key in enumerate(keys)}
    groups = np.zeros((len(levels.labels), len(keys)))
    columns = [place[key] for key in column]
    groups[np.arange(len(columns)), columns] = levels.weights
    return groups / groups.sum(axis=0)


def _observed(fit: Fit, labels: list[str | None], facet: str, keys: list[Key]) -> pd.DataFrame:
    """Trials, mean score, and whether all scores of it are the same, per task."""
    cells = fit.design.cells
    inside = fit.study.closure(facet)
    by_label = object_rows(cells, fit.study.object)
    rows = np.concatenate(
        [by_label[label] for label in labels if label in by_label] or list(by_label.values())
    )
    facets = [name for name in cells.facets if name in inside]
    place = {key: i for i, key in enumerate(keys)}
    single: Mapping[str, str] = {**fit.design.not_sampled, **fit.design.pinned}
    # Keys hold every facet of the task, those with one level too.
    known = [name for name in kept_facets([fit]) if name in inside]
    if _own_tasks(fit, facet, labels):
        known = [str(fit.study.object), *known]
    texts = [
        [cells.labels[name][code] for code in cells.codes[rows, cells.facets.index(name)].tolist()]
        if name in facets
        else [single[name]] * len(rows)
        for name in known
    ]
    at = np.array([place[key] for key in zip(*texts, strict=True)], dtype=np.intp)
    n = np.bincount(at, weights=cells.trials[rows], minlength=len(keys))
    sums = np.bincount(at, weights=cells.successes[rows], minlength=len(keys))
    return pd.DataFrame(
        {
            "n_trials": n.astype(int),
            "rate": sums / n,
            "dead": _dead(cells, rows, at, sums, n),
        },
        index=pd.Index(_names(keys), name=facet, dtype=object),
    )


def _dead(
    cells: Cells, rows: npt.NDArray[np.intp], at: npt.NDArray[np.intp], sums: Array, n: Array
) -> npt.NDArray[np.bool_]:
    """Whether every single score of a task is the same."""
    if cells.graded is None:
        return np.asarray((sums == 0) | (sums == n))
    low, high = np.full(len(n), np.inf), np.full(len(n), -np.inf)
    np.minimum.at(low, at, cells.graded.mean[rows])
    np.maximum.at(high, at, cells.graded.mean[rows])
    inside = np.bincount(at, weights=cells.graded.squares[rows], minlength=len(n))
    return np.asarray((low == high) & (inside == 0))


def _names(keys: list[Key]) -> list[str]:
    """One text per task; of several facets the labels joined by ":"."""
    labels = [[str(key[i]) for key in keys] for i in range(len(keys[0]))]
    codes = np.repeat(np.arange(len(keys), dtype=np.int32)[:, None], len(labels), axis=1)
    return joined_labels(labels, codes)


def _labelled(values: Array, tasks: pd.Index[str] | None = None) -> xr.DataArray:
    """Draws (chain, draw[, task])."""
    import xarray as xr

    coords: dict[str, object] = {
        "chain": np.arange(values.shape[0]),
        "draw": np.arange(values.shape[1]),
    }
    if tasks is None:
        return xr.DataArray(values, coords, ("chain", "draw"))
    coords["task"] = np.array(list(tasks), dtype=object)
    return xr.DataArray(values, coords, ("chain", "draw", "task"))
