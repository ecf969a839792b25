"""The headline: a system's score, the naive interval, and the one that covers the claim."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from gstudy.display import Shown, Table
from gstudy.errors import QuantityError, did_you_mean, explain
from gstudy.fits.fitted import Fit
from gstudy.fits.gates import stamp
from gstudy.variance.basis import latent_of
from gstudy.variance.draws import proportion
from gstudy.variance.kernel import logistic_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt
    import xarray as xr

    from gstudy.variance.latent import Latent

__all__ = ["SHARED_SDS", "UNNAMED", "Score", "listed", "naive_interval", "plural", "score"]

EVERYTHING = "all trials"
"""Row of a study without an object of measurement."""

UNNAMED = "scored"
"""Index of the table of such a study."""

SHARED_SDS = (
    "The systems share one set of sds here. For a system's own variances, fit its trials alone."
)

NO_EFFECTS = (
    "The systems have no effects of their own in this model (their component is merged with "
    "another or left out), so that there is one row for all of them."
)


UNEVEN = (
    "The trials are spread unevenly: the observed score weights a task, or other level, by its "
    "trials, the pass rate over new levels weights all alike. The two may differ by more than "
    "the interval."
)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Score(Shown):
    """Observed pass rate, naive interval and full interval, one row per system.

    Parameters
    ----------
    draws : xarray.DataArray (chain, draw, system)
        Posterior of the estimand, score scale.
    observed : pandas.DataFrame
        Index: systems; columns `n_trials`, `passes` and, per facet that the model knows,
        `n_<facet>`, the number of its levels.
    estimand : str
        What the full interval is an interval of, in words.
    notes : tuple of str
        What a reader must know beside it.
    """

    draws: xr.DataArray
    observed: pd.DataFrame
    estimand: str
    notes: tuple[str, ...] = ()

    def summary(self, level: float = 0.95) -> pd.DataFrame:
        """The table, one row per system.

        Parameters
        ----------
        level : float
            Of both intervals, in (0, 1).

        Returns
        -------
        pandas.DataFrame
            Index: systems; columns `n_trials`, `n_<facet>`, `rate` (observed), `naive_lower`,
            `naive_upper` (Wilson), `mean`, `median`, `lower`, `upper` (equal-tailed, of the
            estimand) and `ratio`, the full width over the naive one. Score scale.

        Raises
        ------
        QuantityError
            For a level outside (0, 1).
        """
        level = proportion(level, "level")
        passed = self.observed["passes"].to_numpy()
        trials = self.observed["n_trials"].to_numpy()
        low, high = naive_interval(passed, trials, level)
        values = self.draws.transpose("system", ...).to_numpy().reshape(len(passed), -1)
        tails = np.quantile(values, [(1 - level) / 2, 0.5, (1 + level) / 2], axis=1)
        table = self.observed.drop(columns="passes").assign(
            rate=passed / trials,
            naive_lower=low,
            naive_upper=high,
            mean=values.mean(axis=1),
            median=tails[1],
            lower=tails[0],
            upper=tails[2],
            ratio=(tails[2] - tails[0]) / (high - low),
        )
        table.attrs.update(
            scale="score", estimand=self.estimand, interval="equal-tailed", level=level
        )
        return table

    def table(self, level: float = 0.95) -> Table:
        """The summary as a table that can be printed."""
        summary = self.summary(level)
        frame = pd.DataFrame(
            {
                "trials": summary["n_trials"],
                "score": summary["rate"],
                "naive interval": _spans(summary["naive_lower"], summary["naive_upper"]),
                "new levels": summary["mean"],
                "full interval": _spans(summary["lower"], summary["upper"]),
                "ratio": summary["ratio"],
            }
        )
        return Table(
            frame=frame,
            title="Score (observed pass rate)",
            scale="score",
            level=level,
            notes=(
                "naive: Wilson, as if every trial were independent of the others",
                f"new levels, full interval: {self.estimand}",
                "ratio: how many times as wide as the naive interval the full one is",
                *self.notes,
            ),
            formats={
                "trials": "int",
                "score": "percent1",
                "new levels": "percent1",
                "ratio": "decimal1",
            },
        )


def score(fit: Fit, *, system: str | None = None) -> Score:
    """The observed pass rate beside its naive interval and the posterior of what it estimates.

    The estimand is the pass rate over new levels of every random facet,
    ``E[expit(mu + u_o + e)]`` with ``e ~ Normal(0, S)``, u_o the system's own effect and S the sum
    of all other variances, computed per draw. The naive interval is Wilson's (1927) over the
    trials.

    Parameters
    ----------
    fit : Fit
    system : str, optional
        One system; every system by default.

    Returns
    -------
    Score

    Raises
    ------
    QuantityError
        For a system that is not in the data, and for what is no fit.

    Examples
    --------
    >>> import gstudy as gs
    >>> gs.score(gs.load("run.nc")).summary()  # doctest: +SKIP
    """
    import xarray as xr

    if not isinstance(fit, Fit):
        raise QuantityError(
            explain(
                "a score is of a fit: it needs the trials beside the draws",
                given=type(fit).__name__,
                allowed="what gs.fit and gs.load return",
            )
        )
    latent, observed = latent_of(fit), _observed(fit)
    rates = _rates(latent)
    unable: tuple[str, ...] = ()
    if set(rates) != set(observed.index):
        if len(observed) > 1:
            observed, unable = _observed(fit, apart=False), (NO_EFFECTS,)
        rates = {observed.index[0]: _rate(latent)}
    names = list(observed.index) if system is None else [_known(system, list(observed.index))]
    draws = xr.DataArray(
        np.stack([rates[name] for name in names], axis=-1),
        dims=("chain", "draw", "system"),
        coords={"system": np.array(names, dtype=object)},
        name="score",
    )
    uneven = UNEVEN if _uneven(fit) else None
    note = stamp(draws, fit.diagnostics)
    shared = SHARED_SDS if len(rates) > 1 else None
    return Score(
        draws=draws,
        observed=observed.loc[names],
        estimand=_estimand(fit),
        notes=tuple(text for text in (note, uneven, shared, *unable) if text),
    )


def naive_interval(
    passed: npt.ArrayLike, trials: npt.ArrayLike, level: float = 0.95
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Wilson's interval of a pass rate, as if every trial were independent.

    Parameters
    ----------
    passed, trials : array
    level : float
        In (0, 1).

    Returns
    -------
    lower, upper : array
        Score scale; never of width 0.

    Examples
    --------
    >>> low, high = naive_interval(0, 307)
    >>> float(low), round(float(high), 6)
    (0.0, 0.012358)
    """
    from statsmodels.stats.proportion import proportion_confint

    low, high = proportion_confint(
        np.asarray(passed), np.asarray(trials), alpha=1 - level, method="wilson"
    )
    return np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)


def plural(facet: str) -> str:
    """The plural of a facet's name, as prose needs it.

    >>> plural("task"), plural("query"), plural("judge_call")
    ('tasks', 'queries', 'judge_calls')
    """
    if facet.endswith(("s", "x", "ch", "sh")):
        return f"{facet}es"
    if facet.endswith("y") and facet[-2:-1] not in set("aeiou"):
        return f"{facet[:-1]}ies"
    return f"{facet}s"


def listed(words: Sequence[str]) -> str:
    """Words as prose lists them.

    >>> listed(["tasks", "snapshots", "judges"])
    'tasks, snapshots and judges'
    """
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _rates(latent: Latent) -> dict[str, npt.NDArray[np.float64]]:
    """Draws (chain, draw) of the estimand of each system that has an effect of its own."""
    if latent.object is None:
        return {}
    return {name: _rate(latent.given(name)) for name in latent.object_effects}


def _rate(latent: Latent) -> npt.NDArray[np.float64]:
    """Pass rate over new levels of every component."""
    return logistic_mean(latent.mu, latent.variances.sum(axis=0))


def _observed(fit: Fit, *, apart: bool = True) -> pd.DataFrame:
    """Trials, passes and levels of each facet, per system."""
    cells = fit.design.cells
    measured = fit.study.object
    groups = {EVERYTHING: np.ones(len(cells.trials), dtype=bool)}
    if apart and measured in cells.facets:
        column = cells.codes[:, cells.facets.index(measured)]
        groups = {label: column == code for code, label in enumerate(cells.labels[measured])}
    rows = [
        {
            "n_trials": int(cells.trials[mask].sum()),
            "passes": int(cells.successes[mask].sum()),
            **_levels(fit, mask),
        }
        for mask in groups.values()
    ]
    name = measured if measured in cells.facets and apart else UNNAMED
    return pd.DataFrame(rows, index=pd.Index(list(groups), name=name, dtype=object))


def _uneven(fit: Fit) -> bool:
    """Whether levels of a facet differ in their number of trials within one system.

    Then the pooled score and the pass rate over new levels are two quantities.
    """
    cells, measured = fit.design.cells, fit.study.object
    own = [cells.facets.index(measured)] if measured in cells.facets else []
    for facet in cells.facets:
        inside = {facet, *fit.study.closure(facet)} & set(cells.facets)
        columns = sorted({*own, *(cells.facets.index(f) for f in inside)})
        _, level = np.unique(cells.codes[:, columns], axis=0, return_inverse=True)
        totals = np.bincount(level.ravel(), weights=cells.trials)
        system = np.zeros(len(totals), dtype=int)
        if own:
            system[level.ravel()] = cells.codes[:, own[0]]
        means = np.bincount(system, weights=totals) / np.maximum(np.bincount(system), 1)
        if (totals != means[system]).any():
            return True
    return False


def _levels(fit: Fit, mask: npt.NDArray[np.bool_]) -> dict[str, int]:
    """Number of levels of each facet, parents included, among some cells."""
    cells, study = fit.design.cells, fit.study
    counts = {}
    for facet in cells.facets:
        if facet != study.object:
            columns = [cells.facets.index(f) for f in study.closure(facet) if f in cells.facets]
            counts[f"n_{facet}"] = len(np.unique(cells.codes[mask][:, columns], axis=0))
    return counts


def _estimand(fit: Fit) -> str:
    """The claim in words: what is drawn anew."""
    design = fit.design
    gone = {*design.not_sampled, *design.pinned, fit.study.object}
    drawn = [f"new {plural(f.name)}" for f in fit.study.facets if f.name not in gone]
    return f"pass rate over {listed(drawn) or 'new trials'}"


def _known(system: object, systems: list[str]) -> str:
    if isinstance(system, str) and system in systems:
        return system
    raise QuantityError(
        explain(
            f"no system is named {system!r}",
            allowed=systems,
            do=did_you_mean(system, systems),
        )
    )


def _spans(lower: pd.Series[float], upper: pd.Series[float]) -> list[str]:
    """Intervals as text, in percent."""
    pairs = zip(lower, upper, strict=True)
    return [f"{100 * low:.1f}% to {100 * high:.1f}%" for low, high in pairs]
