"""The leaderboard: one row per system, with ranks and tiers that know how sure they are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from gstudy.display import Shown, Table, number
from gstudy.questions.observed import naive_bounds
from gstudy.questions.scores import kind_of_score
from gstudy.variance.draws import INTERVAL_KIND, Array, normal_quantile, proportion, summarise
from gstudy.variance.latent import BINARY, widest

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["RESOLVED", "WIDTH", "Leaderboard", "rank_draws", "rank_interval", "tiers_of"]

RESOLVED = 0.975
"""Posterior probability (one-sided) from which on one system is resolved from another: the 95%
equal-tailed interval of their difference excludes zero."""

WIDTH = 100
"""Terminal cells of the printed table."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Leaderboard(Shown):
    """Scores of several systems, the best observed first.

    Parameters
    ----------
    draws : xarray.DataArray (chain, draw, system)
        Posterior of the declared estimand of each system, score scale.
    these_tasks : xarray.DataArray (chain, draw, system)
        Posterior of the expected score over the levels that any of them ran.
    new_tasks : xarray.DataArray (chain, draw, system), or None
        Posterior over new levels from one joint fit; None without one.
    icc : xarray.DataArray (chain, draw, system), or None
        ICC of the tasks, from own variances; None of shared ones.
    rerun : xarray.DataArray (chain, draw, system), or None
        Variance over re-runs of the score as collected, from own variances.
    observed : pandas.DataFrame
        Index: systems; columns `n_trials`, `rate`, `sd` and `n_<facet>`.
    estimand, average : str
        What the full interval is of, and how the observed score weights its trials, in words.
    task : str or None
        The facet whose ICC it is.
    family : {"binary", "gaussian"}
    notes : tuple of str
    """

    draws: xr.DataArray
    these_tasks: xr.DataArray
    new_tasks: xr.DataArray | None
    icc: xr.DataArray | None
    rerun: xr.DataArray | None
    observed: pd.DataFrame
    estimand: str
    average: str
    task: str | None
    family: str
    notes: tuple[str, ...]

    def summary(self, level: float = 0.95) -> pd.DataFrame:
        """One row per system, sorted by the observed score.

        Parameters
        ----------
        level : float
            Of all intervals, in (0, 1).

        Returns
        -------
        pandas.DataFrame
            Index: systems; columns `n_trials`, `n_<facet>`, `rate` (observed), `naive_lower`,
            `naive_upper`, `mean`, `lower`, `upper` (declared estimand), with own variances
            `icc`, `icc_lower`, `icc_upper` and `rerun`, `rerun_lower`, `rerun_upper` (how far two
            re-runs differ at most in 95% of cases, score units), `rank_lower`, `rank_upper`,
            `p_best` (these tasks), with a joint fit `new_rank_lower`, `new_rank_upper`,
            `p_best_new`, and `tier`. Ranks count from 1, the best. `attrs` name scale, estimand,
            interval and level.

        Raises
        ------
        QuantityError
            For a level outside (0, 1).
        """
        level = proportion(level, "level")
        low, high = naive_bounds(self.observed, self.family, level)
        found = summarise(_rows(self.draws), level)
        frame = self.observed.drop(columns=["rate", "sd"]).assign(
            rate=self.observed["rate"],
            naive_lower=low,
            naive_upper=high,
            mean=found["mean"],
            lower=found["lower"],
            upper=found["upper"],
            **self._measured(level),
            **_ranked(self.these_tasks, level, "rank", "p_best"),
        )
        if self.new_tasks is not None:
            frame = frame.assign(**_ranked(self.new_tasks, level, "new_rank", "p_best_new"))
        frame["tier"] = tiers_of(_rows(self.these_tasks))
        frame.attrs.update(
            scale="score", estimand=self.estimand, interval=INTERVAL_KIND, level=level
        )
        return frame.sort_values("rate", ascending=False, kind="stable")

    def table(self, level: float = 0.95) -> Table:
        """The table that is printed."""
        summary = self.summary(level)
        binary = self.family == BINARY
        size = 100.0 if binary else 1.0
        columns: dict[str, object] = {"trials": summary["n_trials"]}
        formats = {
            "trials": "int",
            "score": "decimal1" if binary else "number3",
            "best": "percent0",
            **dict.fromkeys(("naive", "full", "ICC", "rank", "new"), "span"),
        }
        if f"n_{self.task}" in summary:
            columns["tasks"], formats["tasks"] = summary[f"n_{self.task}"], "int"
        columns["score"] = size * summary["rate"]
        for name, key in (("naive", "naive_"), ("full", "")):
            ends = (size * summary[f"{key}lower"], size * summary[f"{key}upper"])
            columns[name] = _spans(*ends, digits=1 if binary else None)
        if self.icc is not None:
            spans = _spans(summary["icc_lower"], summary["icc_upper"], digits=2)
            columns["ICC"] = [span.replace("0.", ".") for span in spans]
        if self.rerun is not None:
            columns["re-run"], formats["re-run"] = size * summary["rerun"], formats["score"]
        for name, key in (("rank", "rank"), ("new", "new_rank")):
            if f"{key}_lower" in summary:
                columns[name] = _ranks(summary[f"{key}_lower"], summary[f"{key}_upper"])
        columns |= {"tier": summary["tier"], "best": summary["p_best"]}
        return Table(
            frame=pd.DataFrame(columns, index=summary.index),
            title=f"Scores: observed {kind_of_score(self.family)} ({self.average}), full interval "
            f"of the {self.estimand}",
            scale="score",
            level=level,
            notes=(*self._readings(), *self.notes),
            formats=formats,
        )

    def __str__(self) -> str:
        return self.table().text(WIDTH)

    def __repr__(self) -> str:
        return self.table().text(WIDTH)

    def _measured(self, level: float) -> dict[str, Array]:
        """ICC and the difference of two re-runs, with their intervals, where they are known."""
        columns: dict[str, Array] = {}
        if self.icc is not None:
            columns |= _interval(_rows(self.icc), level, "icc")
        if self.rerun is not None:
            apart = normal_quantile(0.95) * np.sqrt(2 * _rows(self.rerun))
            apart = apart.clip(max=widest(self.family))
            columns |= _interval(apart, level, "rerun")
        return columns

    def _readings(self) -> list[str]:
        """What the columns are."""
        binary = self.family == BINARY
        unit = "in percent" if binary else "in score units"
        how = "Wilson" if binary else "mean +- z s / sqrt(n)"
        told = [
            f"score, naive ({how}, as if every trial were independent) and full intervals: {unit}"
        ]
        if self.icc is not None:
            told.append(
                f"ICC: interval of ICC({self.task}), correlation of two trials that share it"
            )
        if self.rerun is not None:
            told.append(
                "re-run: two runs of the same evaluation differ by up to this in 95% of cases"
            )
        told.append("rank: posterior interval of the rank on these tasks, best: P(rank 1) there")
        if self.new_tasks is not None:
            told.append("new: posterior interval of the rank over new tasks, from the joint fit")
        told.append(
            "tier: holds what is not resolved from its best system on these tasks (best one better "
            f"with a probability under {100 * RESOLVED:g}%)"
        )
        return told


def rank_draws(values: Array) -> Array:
    """Rank of each system in each draw, 1 the highest.

    Parameters
    ----------
    values : array (n_systems, ...)

    Returns
    -------
    array (n_systems, ...)
        Equal values have the mean of their ranks.

    Examples
    --------
    >>> rank_draws(np.array([[0.3], [0.9], [0.3]])).ravel().tolist()
    [2.5, 1.0, 2.5]
    """
    from scipy.stats import rankdata

    return np.asarray(rankdata(-values, axis=0), dtype=float)


def rank_interval(ranks: Array, level: float) -> tuple[Array, Array]:
    """Equal-tailed interval of ranks: the narrowest whole one that leaves out at most each tail.

    Parameters
    ----------
    ranks : array (n_systems, ...)
        As `rank_draws` gives them.
    level : float
        In (0, 1).

    Returns
    -------
    lower, upper : array (n_systems,)

    Examples
    --------
    >>> low, high = rank_interval(np.array([[1.0] * 98 + [2.0] * 2]), 0.95)
    >>> float(low[0]), float(high[0])
    (1.0, 1.0)
    """
    flat, tail = ranks.reshape(len(ranks), -1), (1 - level) / 2
    lower = np.quantile(flat, tail, axis=1, method="inverted_cdf")
    upper = -np.quantile(-flat, tail, axis=1, method="inverted_cdf")
    return np.floor(lower), np.ceil(upper)


def tiers_of(values: Array, resolved: float = RESOLVED) -> list[int]:
    """Tier of each system: 1 the best.

    The best system by mean opens tier 1, which holds every system that is not resolved from it:
    the best one is better with a probability under `resolved`. The best of the rest opens the
    next.

    Parameters
    ----------
    values : array (n_systems, chain, draw)
    resolved : float

    Returns
    -------
    list of int

    Examples
    --------
    >>> draws = np.array([[[0.1, 0.2]], [[0.8, 0.9]], [[0.85, 0.8]]])
    >>> tiers_of(draws)
    [2, 1, 1]
    """
    flat = values.reshape(len(values), -1)
    left = sorted(range(len(flat)), key=lambda i: -float(flat[i].mean()))
    tiers, tier = [0] * len(flat), 0
    while left:
        tier += 1
        best = left[0]
        inside = [i for i in left if i == best or (flat[best] > flat[i]).mean() < resolved]
        for i in inside:
            tiers[i] = tier
        left = [i for i in left if i not in inside]
    return tiers


def _ranked(draws: xr.DataArray, level: float, rank: str, best: str) -> dict[str, Array]:
    """Rank interval and P(best) of each system."""
    values = _rows(draws)
    lower, upper = rank_interval(rank_draws(values), level)
    # A draw in which several are equally the best counts for each of them in part.
    top = values == values.max(axis=0)
    share = (top / top.sum(axis=0)).reshape(len(values), -1).mean(axis=1)
    return {
        f"{rank}_lower": lower.astype(int),
        f"{rank}_upper": upper.astype(int),
        best: share,
    }


def _interval(values: Array, level: float, name: str) -> dict[str, Array]:
    found = summarise(values, level)
    return {name: found["mean"], f"{name}_lower": found["lower"], f"{name}_upper": found["upper"]}


def _rows(draws: xr.DataArray) -> Array:
    """The array (system, chain, draw)."""
    return np.asarray(draws.transpose("system", "chain", "draw").values, dtype=float)


def _spans(lower: Iterable[float], upper: Iterable[float], *, digits: int | None) -> list[str]:
    """Intervals as text; "" where there is none."""
    pairs = [(float(a), float(b)) for a, b in zip(lower, upper, strict=True)]
    if digits is None:
        return [f"{number(a)} to {number(b)}" for a, b in pairs]
    return ["" if np.isnan(a) else f"{a:.{digits}f}-{b:.{digits}f}" for a, b in pairs]


def _ranks(lower: Iterable[int], upper: Iterable[int]) -> list[str]:
    """Rank intervals as text."""
    return [str(a) if a == b else f"{a}-{b}" for a, b in zip(lower, upper, strict=True)]
