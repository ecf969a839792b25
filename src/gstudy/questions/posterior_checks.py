"""Posterior checks: whether trials drawn from the fit look like those that were collected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from gstudy._words import listed, plural
from gstudy.display import Shown, Table, number
from gstudy.errors import QuantityError, explain
from gstudy.fits.fitted import Fit
from gstudy.fits.gates import STAMP
from gstudy.fits.substitutes import advice_on
from gstudy.questions.check_statistics import Statistic
from gstudy.questions.checked_quantities import (
    fitted_statistics,
    new_task_statistics,
    task_facet,
    unavailable,
)
from gstudy.questions.replicates import Array, effects_kept, observed_scores, replicated
from gstudy.variance.coefficients import icc
from gstudy.variance.draws import INTERVAL_KIND, checked_seed, proportion

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

__all__ = ["PosteriorCheck", "posterior_check"]

# A statistic does not fit outside this share of its replicates, is noted outside the narrower one.
_STRICT = 0.99
_NOTED = 0.95

# Systems of which rows are printed; the summary has all.
_MOST_DRAWS = 100_000
_SHOWN_SYSTEMS = 8

# Own variances in one model are for so many systems; more are fitted each alone.
_MOST_VARYING = 8

_FITTED = "fitted"
_READING = (
    "median, interval: of trials drawn from the fit; p: two-sided mid-p. Rows of new levels draw "
    "their effects from a normal distribution, the others use the fitted effects. ICC: one-way "
    "ANOVA."
)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PosteriorCheck(Shown):
    """Statistics of the observed trials beside those of replicated trials.

    Parameters
    ----------
    draws : xarray.DataArray (replicate, statistic)
        The statistic of each replicate; score scale.
    observed : pandas.DataFrame
        Index `statistic`; columns `observed`, `family`, `subject` (the system it is of, or ""),
        `effects` ("fitted", or "new <facet>") and `tail`, the share of replicates outside which
        it does not fit.
    scale : {"score"}
    estimand : str
    notes : tuple of str
        What does not fit and what to do; what could not be checked.
    """

    draws: xr.DataArray
    observed: pd.DataFrame
    scale: str
    estimand: str
    notes: tuple[str, ...]

    @property
    def failed(self) -> tuple[str, ...]:
        """Names of the statistics that lie outside 99% of their replicates."""
        verdicts = _verdicts(self.draws.values, self.observed)
        return tuple(n for n, v in zip(self.observed.index, verdicts, strict=True) if "too" in v)

    def summary(self, level: float = 0.95) -> pd.DataFrame:
        """One row per statistic.

        Parameters
        ----------
        level : float
            Of the interval of the replicates, in (0, 1).

        Returns
        -------
        pandas.DataFrame
            Index `statistic`; columns `effects`, `observed`, `median`, `sd`, `lower`, `upper` (of
            the replicates), `p` (two-sided mid-p) and `verdict`.

        Raises
        ------
        QuantityError
            For a level outside (0, 1).
        """
        import pandas as pd

        tail = (1 - proportion(level, "level")) / 2
        values, observed = self.draws.values, self.observed["observed"].to_numpy(dtype=float)
        tails = _quantiles(values, [tail, 0.5, 1 - tail])
        frame = pd.DataFrame(
            {
                "effects": self.observed["effects"],
                "observed": observed,
                "median": tails[1],
                "sd": [_sd(column) for column in values.T],
                "lower": tails[0],
                "upper": tails[2],
                "p": _mid_p(values, observed),
                "verdict": _verdicts(values, self.observed),
            },
            index=self.observed.index,
        )
        frame.attrs.update(
            scale=self.scale, estimand=self.estimand, interval=INTERVAL_KIND, level=level
        )
        return frame

    def table(self, level: float = 0.95) -> Table:
        """The table that is printed: of many systems the rows that fit worst."""
        import pandas as pd

        frame = self.summary(level)
        shown, left = _shown(frame, self.observed)
        more = (f"Not shown: {left} rows of single systems; .summary() has them.",) if left else ()
        frame = frame.loc[shown]
        lower, upper = frame["lower"], frame["upper"]
        spans = [
            "-" if np.isnan(low) else f"{low:.3f} to {high:.3f}"
            for low, high in zip(lower, upper, strict=True)
        ]
        columns = {"observed": frame["observed"], "median": frame["median"], "interval": spans}
        return Table(
            frame=pd.DataFrame({**columns, "p": frame["p"], "verdict": frame["verdict"]}),
            title=f"Posterior check: {self.estimand}",
            scale=self.scale,
            level=level,
            notes=(*self.notes, *more, _READING),
            formats={
                **dict.fromkeys(("observed", "median", "p"), "decimal3"),
                "interval": "span",
                "verdict": "text",
            },
        )


def posterior_check(fit: Fit, *, draws: int = 500, seed: int | None = None) -> PosteriorCheck:
    """Draw trials anew from the fit, and compare them with those collected.

    Two kinds of replicates. With the *fitted* effects of every level: spread of the pass rates of
    each facet, tasks that always pass or fail, agreement of judges, rates of systems, drift over
    rollout order, and repeats of one task against chance. They see what the model cannot express,
    and are blind to a wrong distribution of the effects. With *new* effects of every task, drawn
    from ``Normal(0, sd)`` (the mixed predictive check of Gelman, Meng and Stern 1996): spread,
    tasks that always pass or fail, and the one-way ANOVA ICC(1,1) of tasks per system. They tell
    whether a normal task effect, and one sd for all systems, fit.

    Parameters
    ----------
    fit : Fit
    draws : int
        Replicates of each kind, 100 to 100,000.
    seed : int, optional

    Returns
    -------
    PosteriorCheck
        Score scale.

    Raises
    ------
    QuantityError
        For what is no fit, and a number of draws below 100 or above 100,000, or that is not whole.

    Notes
    -----
    ``p = 2 min(q, 1 - q)``, ``q = P(T_rep < T) + P(T_rep = T) / 2``. "Too high" and "too low" are
    outside 99% of the replicates; ICCs of several systems outside ``1 - 0.01 / systems``. Own
    variances (`varies`) are advised where the smallest p of the systems' ICCs, times their number,
    is under 0.05 (Bonferroni). The
    trials are used twice, to fit and to check, so that p is nearer to 1 than uniform when the model
    is true (by simulation p < .05 in at most 3% of true models): "fits" is weak evidence.

    Examples
    --------
    >>> import gstudy as gs
    >>> gs.posterior_check(gs.load("run.nc"), seed=1).summary()  # doctest: +SKIP
    """
    import pandas as pd
    import xarray as xr

    _check_arguments(fit, draws)
    task = task_facet(fit)
    rng = np.random.default_rng(None if seed is None else checked_seed(seed))
    statistics = fitted_statistics(fit)
    if task is not None:
        statistics += new_task_statistics(fit, task)
    _check_any(len(statistics))
    rows = [row for statistic in statistics for row in _rows(statistic)]
    observed = pd.DataFrame(rows).set_index("statistic")
    scores = observed_scores(fit.design.cells)
    observed["observed"] = np.concatenate([statistic.of(scores) for statistic in statistics])
    values = _replicates(fit, statistics, draws, rng)
    # Neither the trials nor any replicate have such a value: it is no statistic of this design.
    known = ~(np.isnan(values).all(axis=0) & observed["observed"].isna().to_numpy())
    undefined = _undefined(list(observed.index[~known]))
    observed, values = observed[known], values[:, known]
    _check_any(len(observed))
    labels = {"statistic": np.array(observed.index, dtype=object)}
    return PosteriorCheck(
        draws=xr.DataArray(values, labels, ("replicate", "statistic"), name="posterior_check"),
        observed=observed,
        scale="score",
        estimand="trials as collected against trials drawn from the fit",
        notes=(*_notes(fit, task, observed, values), *undefined),
    )


def _check_any(count: int) -> None:
    if not count:
        raise QuantityError(
            explain(
                "there is nothing to check: no facet has levels to compare, or trials to repeat",
                allowed="a fit with a component of 5 levels, a judge, or several systems",
            )
        )


def _undefined(names: list[str]) -> list[str]:
    """That some statistics cannot be checked, and why."""
    if not names:
        return []
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    listing = ", ".join(names[:3]) + more if more else listed(names)
    text = (
        f"Not checked: {listing}. Of trials of this design that is not defined: it compares two "
        "levels or more."
    )
    return [text]


def _check_arguments(fit: object, draws: Any) -> None:
    if not isinstance(fit, Fit):
        raise QuantityError(
            explain(
                "a posterior check is of a fit",
                given=type(fit).__name__,
                allowed="what gs.fit and gs.load return",
                do=advice_on(fit),
            )
        )
    whole = isinstance(draws, int | np.integer) and not isinstance(draws, bool)
    if not whole or not 100 <= draws <= _MOST_DRAWS:
        raise QuantityError(
            explain(
                "draws is no number of replicates",
                given=draws,
                allowed=f"whole numbers from 100 to {_MOST_DRAWS:,}",
                do="500 tell a tail of 1 in 100." if whole and draws > _MOST_DRAWS else None,
            )
        )


def _rows(statistic: Statistic) -> list[dict[str, object]]:
    """What is known of each value of a statistic before it is computed."""
    single = [subject for subject in statistic.subjects if subject]
    effects = "".join(f"new {facet}" for facet in statistic.anew) or _FITTED
    return [
        {
            "statistic": name,
            "family": statistic.family,
            "subject": subject,
            "effects": effects,
            # Several systems are as many chances to be outside.
            "tail": (1 - _STRICT) / (len(single) if subject else 1),
        }
        for name, subject in zip(statistic.names, statistic.subjects, strict=True)
    ]


def _replicates(
    fit: Fit, statistics: Sequence[Statistic], draws: int, rng: np.random.Generator
) -> Array:
    """Statistics of replicated trials, (draws, n_statistics)."""
    columns = []
    for anew in dict.fromkeys(statistic.anew for statistic in statistics):
        own = [statistic for statistic in statistics if statistic.anew == anew]
        picks = rng.choice(fit.mu.size, draws, replace=draws > fit.mu.size)
        batches = [
            np.concatenate([statistic.of(scores) for statistic in own], axis=-1)
            for scores in replicated(fit, picks, rng, anew)
        ]
        columns.append(np.concatenate(batches))
    return np.concatenate(columns, axis=1)


def _quantiles(values: Array, levels: Sequence[float]) -> Array:
    """Quantiles of each column over what is defined, (n_levels, n_columns)."""
    found = [
        np.quantile(column[~np.isnan(column)], levels)
        if not np.isnan(column).all()
        else np.full(len(levels), np.nan)
        for column in values.T
    ]
    return np.stack(found, axis=1)


def _sd(column: Array) -> float:
    defined = column[~np.isnan(column)]
    return float(defined.std(ddof=1)) if len(defined) > 1 else float("nan")


def _mid_p(values: Array, observed: Array) -> Array:
    """Two-sided mid-p of each column; NaN where the observed value is not defined."""
    defined = (~np.isnan(values)).sum(axis=0)
    # Sums of the same numbers in another order are equal for all that counts.
    tie = np.abs(values - observed) <= 1e-12 * (1 + np.abs(observed))
    below = ((values < observed) & ~tie).sum(axis=0) + 0.5 * tie.sum(axis=0)
    q = np.divide(below, defined, out=np.full(len(observed), np.nan), where=defined > 0)
    q[np.isnan(observed)] = np.nan
    return np.asarray(2 * np.minimum(q, 1 - q))


def _outside(values: Array, observed: Array, tails: Array) -> Array:
    """Whether each value lies outside all but a share of its replicates: -1 below, 1 above.

    A few hundred replicates do not reach far into the tails: outside is what has a mid-p below
    the share, or no replicate beyond it, and is also that improbable for a normal distribution of
    their mean and sd.
    """
    signs, p = np.zeros(len(observed)), _mid_p(values, observed)
    for i, (column, value, tail) in enumerate(zip(values.T, observed, tails, strict=True)):
        known = column[~np.isnan(column)]
        if len(known) < 2 or not (p[i] < tail or p[i] == 0):
            continue
        away = value - known.mean()
        reach = NormalDist().inv_cdf(1 - tail / 2) * known.std(ddof=1)
        signs[i] = np.sign(away) * (abs(away) > reach + 1e-9)
    return signs


def _verdicts(values: Array, observed: pd.DataFrame) -> list[str]:
    """In words: fits; a little high or low; too high or low; not defined."""
    found = observed["observed"].to_numpy(dtype=float)
    strict = _outside(values, found, observed["tail"].to_numpy(dtype=float))
    noted = _mid_p(values, found) < 1 - _NOTED
    sides = np.sign(found - _quantiles(values, [0.5])[0])
    words = []
    for value, sign, some, side in zip(found, strict, noted, sides, strict=True):
        if np.isnan(value) or np.isnan(side):
            words.append("not defined")
        elif sign:
            words.append("too high" if sign > 0 else "too low")
        elif some:
            words.append("a little high" if side > 0 else "a little low")
        else:
            words.append("fits")
    return words


def _shown(frame: pd.DataFrame, observed: pd.DataFrame) -> tuple[list[str], int]:
    """The rows that are printed, and how many are not: of many systems those with smallest p."""
    hidden: set[str] = set()
    for _, rows in observed[observed["subject"] != ""].groupby(["family", "effects"], sort=False):
        by_p = frame.loc[rows.index, "p"].sort_values(kind="stable")
        hidden |= set(by_p.index[_SHOWN_SYSTEMS:])
    return [name for name in frame.index if name not in hidden], len(hidden)


def _notes(fit: Fit, task: str | None, observed: pd.DataFrame, values: Array) -> tuple[str, ...]:
    verdicts = dict(zip(observed.index, _verdicts(values, observed), strict=True))
    bad = observed[[verdicts[name].startswith("too") for name in observed.index]]
    notes = []
    if not fit.diagnostics.passed:
        notes.append(f"{STAMP}: {'; '.join(fit.diagnostics.failures()[:3])}. Do not publish.")
    if task is not None:
        advice = _own_variances(fit, task, _unlike(observed, values))
        notes += [advice] if advice else []
        new = bad[(bad["effects"] != _FITTED) & (bad["subject"] == "")]
        # Below zero it is no question of the shape of the distribution.
        if (new.loc[new["family"] == "icc", "observed"] < 0).any():
            new = new[:0]
        if set(new["family"]) == {"spread"} and verdicts[str(new.index[0])] == "too low":
            notes.append(_less_than_chance(task))
        elif len(new):
            notes.append(_normal_fails(fit, task, new, observed, bool(advice)))
    else:
        notes.append("No legitimate facet in the model has 5 levels: no normal effect is checked.")
    notes += _negative(observed, verdicts)
    notes += _drifting(bad)
    if not effects_kept(fit):
        notes.append(
            "Of the components with most levels only mean and sd of the effects were kept: their "
            "effects are drawn from these, independently. store_effects=True keeps the draws."
        )
    return (*notes, *unavailable(fit))


def _unlike(observed: pd.DataFrame, values: Array) -> pd.DataFrame:
    """Rows of systems whose own ICC does not fit: p times their number is under 0.05."""
    own = ((observed["family"] == "icc") & (observed["subject"] != "")).to_numpy()
    rows, drawn = observed[own], values[:, own]
    found = rows["observed"].to_numpy(dtype=float)
    tail = (1 - _NOTED) / max(len(rows), 1)
    p = _mid_p(drawn, found)
    # Beyond all replicates is as improbable as these can tell, or as far out as a normal tail.
    far = _outside(drawn, found, np.full(len(rows), tail)) != 0
    return rows[np.where(p > 0, p < tail, far | ((p == 0) & (1 / len(drawn) < tail)))]


def _own_variances(fit: Fit, task: str, bad: pd.DataFrame) -> str:
    """The advice to give each system its own sds; "" where it has them or needs none."""
    if not len(bad) or any(c.varies and task in c.facets for c in fit.design.components):
        return ""
    measured = fit.study.object or ""
    n = len(fit.design.cells.labels[measured])
    names = listed([repr(name) for name in bad["subject"][:3]])
    more = f" and {len(bad) - 3} more" if len(bad) > 3 else ""
    fit_by = f'gs.fit_by(study, trials, by="{measured}")'
    declared = f'declare varies = "{measured}" for {task}, or use {fit_by}'
    return (
        f"One set of sds for all levels of {measured} does not fit the ICC of {names}{more}: "
        f"{declared if n <= _MOST_VARYING else f'use {fit_by}'}."
    )


def _normal_fails(
    fit: Fit, task: str, bad: pd.DataFrame, observed: pd.DataFrame, shared: bool
) -> str:
    """That new tasks do not look like those collected, with the ANOVA ICC beside the model's."""
    names = listed([f"{name} ({number(bad.loc[name, 'observed'])})" for name in bad.index])
    cause = ", or one set of sds for all systems does not," if shared else ""
    text = f"The normal {task} effect does not fit{cause}: {names}; outside 99% of replicates."
    anova = observed[(observed["family"] == "icc") & (observed["subject"] == "")]
    if not len(anova):
        return text
    draws = icc(fit, task).draws.to_numpy()
    low, middle, high = np.quantile(draws, [0.025, 0.5, 0.975])
    return (
        f"{text} ICC({task}), score scale: {middle:.3f} ({low:.3f} to {high:.3f}) in the model, "
        f"{float(anova['observed'].iloc[0]):.3f} by one-way ANOVA, which needs no normality."
    )


def _less_than_chance(task: str) -> str:
    return (
        f"The rates of {plural(task)} differ less than chance alone would make them: trials of one "
        f"{task} disagree more than independent ones. A variance cannot be negative: the model's "
        "is near 0."
    )


def _negative(observed: pd.DataFrame, verdicts: dict[str, str]) -> list[str]:
    """That repeats disagree more than chance would make them, and how far."""
    wanted = observed["family"].isin(["repeats", "icc"]) & (observed["observed"] < 0)
    chance, notes = [], []
    for name, value in observed.loc[wanted, "observed"].items():
        if verdicts[str(name)] in ("fits", "a little low"):
            chance.append(f"{name} ({value:.3f})")
            continue
        notes.append(
            f"{name} is {value:.3f}, below zero: scores of one level disagree more than those of "
            "different ones, further than chance can bring it. A variance cannot be negative: the "
            "model's is near 0, and what makes repeats alternate (such as the order of "
            "presentation) is a facet to declare."
        )
    if chance:
        more = f" and {len(chance) - 3} more" if len(chance) > 3 else ""
        notes.append(
            f"Below zero, no further than chance brings it: {listed(chance[:3])}{more}. A variance "
            "cannot be negative, the model's is small."
        )
    return notes


def _drifting(bad: pd.DataFrame) -> list[str]:
    return [
        f"The score moves over the rollouts ({name}: {100 * row['observed']:+.1f} points from "
        "first to last): they are no repeats of one another. Look for a cache, a rate limit or a "
        "changed snapshot."
        for name, row in bad[bad["family"] == "drift"].iterrows()
    ]
