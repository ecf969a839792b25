"""A convergence curve: ICC of tasks at growing numbers of rollouts, and where it is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from gstudy._words import plural
from gstudy.display import Shown, Table
from gstudy.variance.draws import INTERVAL_KIND, proportion

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["LIKE_THESE", "THESE", "WIDTHS", "Convergence"]

WIDTHS = (0.1, 0.05)
"""Widths of the interval below which an ICC counts as known."""

LIKE_THESE, THESE = "tasks like these", "these tasks"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Convergence(Shown):
    """ICC of tasks at growing numbers of rollouts a task.

    Parameters
    ----------
    draws : xarray.DataArray (estimand, group, rollouts, resample, chain, draw)
        ICC, score scale: "tasks like these" is that of the population which the tasks are a sample
        of, "these tasks" that of the tasks in the trials. NaN where a group has fewer rollouts,
        and of these tasks for graded scores.
    anova : pandas.DataFrame
        Columns `group`, `rollouts`, `resample`, `icc`: the ANOVA ICC(1,1) of the same trials.
    facet : str
    by : str or None
        What groups are levels of.
    n_levels : mapping of str to int
        Levels of the facet in each group.
    notes : tuple of str
    """

    draws: xr.DataArray
    anova: pd.DataFrame
    facet: str
    by: str | None
    n_levels: Mapping[str, int]
    notes: tuple[str, ...] = ()

    @property
    def scale(self) -> str:
        """Always the score scale."""
        return "score"

    def summary(self, level: float = 0.95) -> pd.DataFrame:
        """One row per group and number of rollouts; means over the resamples.

        Parameters
        ----------
        level : float
            Posterior level of the equal-tailed intervals, in (0, 1).

        Returns
        -------
        pandas.DataFrame
            Index: group and `rollouts`; columns `mean`, `median`, `sd`, `lower`, `upper`, `width`
            of the ICC of tasks like these, `these_mean`, `these_lower`, `these_upper`,
            `these_width` of that of these tasks, and `anova`.

        Raises
        ------
        QuantityError
            For a level outside (0, 1).
        """
        tail = (1 - proportion(level, "level")) / 2
        frame = self._summarised(LIKE_THESE, tail)
        these = self._summarised(THESE, tail)[["mean", "lower", "upper", "width"]]
        frame = frame.join(these.add_prefix("these_"))
        means = self.anova.groupby(["group", "rollouts"], sort=False)["icc"].mean()
        frame["anova"] = means.reindex(frame.index)
        frame = frame[frame["mean"].notna()].rename_axis(index=[self.by or "group", "rollouts"])
        frame.attrs.update(
            scale=self.scale,
            estimand=f"ICC({self.facet}) by rollouts of each",
            interval=INTERVAL_KIND,
            level=level,
        )
        return frame

    def stays_below(self, widths: Sequence[float] = WIDTHS, *, level: float = 0.95) -> pd.DataFrame:
        """From how many rollouts on the interval is narrower, at all larger numbers too.

        Parameters
        ----------
        widths : sequence of float
            Of the whole interval, mean over the resamples.
        level : float

        Returns
        -------
        pandas.DataFrame
            Index: groups; columns: estimand and width; the smallest such number of rollouts, NaN
            where the interval is not narrower at the largest.
        """
        summary = self.summary(level)
        found: dict[tuple[str, float], dict[str, float]] = {}
        for estimand, column in ((LIKE_THESE, "width"), (THESE, "these_width")):
            for width in widths:
                limit = proportion(width, "width")
                found[estimand, width] = {
                    str(group): _first_below(own.droplevel(0), limit)
                    for group, own in summary[column].groupby(level=0, sort=False)
                }
        frame = pd.DataFrame(found).rename_axis(index=self.by or "group")
        frame.columns.names = ["estimand", "width"]
        return frame

    def table(self, level: float = 0.95) -> Table:
        """The table that is printed."""
        frame = self.summary(level)
        binary = frame["these_width"].notna().any()
        these = ["these_mean", "these_width"] if binary else []
        shown = frame[["mean", "lower", "upper", "width", *these, "anova"]]
        shown = shown.rename(
            columns={"these_mean": "these", "these_width": "their width", "anova": "ANOVA"}
        )
        if len(self.n_levels) == 1:
            shown = shown.droplevel(0)
        return Table(
            frame=shown,
            title=f"ICC({self.facet}) by rollouts of each {self.facet}",
            scale=self.scale,
            level=level,
            notes=(*self._sentences(level), *self._misfits(frame), *self.notes),
            formats=dict.fromkeys(shown.columns, "decimal3"),
        )

    def _misfits(self, frame: pd.DataFrame) -> list[str]:
        """Groups whose last interval leaves out the ICC of the very tasks that it is made of."""
        last = frame.groupby(level=0, sort=False).tail(1)
        known = last[last["these_mean"].notna()]
        out = known[~known["these_mean"].between(known["lower"], known["upper"])]
        many = plural(self.facet)
        notes = []
        for place, row in zip(out.index, out.to_dict(orient="records"), strict=True):
            group, rollouts = tuple(place)
            whose = "" if len(self.n_levels) == 1 else f"{group}: "
            notes.append(
                f"{whose}at {rollouts:,} rollouts the interval for {many} like these, "
                f"{row['lower']:.3f} to {row['upper']:.3f}, leaves out the ICC of these {many}, "
                f"{row['these_mean']:.3f}: effects of {many} are not normal on the logit scale, "
                f"and so many rollouts show it. Read that of these {many}; gs.posterior_check of "
                "a fit says more."
            )
        return notes

    def _summarised(self, estimand: str, tail: float) -> pd.DataFrame:
        """Means over resamples of what is summarised within each."""
        part = self.draws.sel(estimand=estimand).stack(sample=("chain", "draw"))
        values = part.transpose("group", "rollouts", "resample", "sample").to_numpy()
        quantiles = np.quantile(values, [tail, 0.5, 1 - tail], axis=-1)
        known = {
            "mean": values.mean(axis=-1),
            "median": quantiles[1],
            "sd": values.std(axis=-1, ddof=1),
            "lower": quantiles[0],
            "upper": quantiles[2],
            "width": quantiles[2] - quantiles[0],
        }
        labels = [list(self.draws.coords[name].values) for name in ("group", "rollouts")]
        index = pd.MultiIndex.from_product(labels, names=["group", "rollouts"])
        columns = {name: value.mean(axis=-1).ravel() for name, value in known.items()}
        return pd.DataFrame(columns, index=index)

    def _sentences(self, level: float) -> list[str]:
        """The numbers of rollouts at which intervals stay narrow."""
        found = self.stays_below(level=level)
        several, notes = len(found) > 1, []
        for column in found.columns:
            (estimand, width), reached = tuple(column), found[column].dropna()
            whose = f"{plural(self.facet)} like these" if estimand == LIKE_THESE else ""
            whose = whose or f"these {plural(self.facet)}"
            if not len(reached) and estimand == THESE and self._graded():
                continue
            when = "not reached" if not len(reached) else f"from {_span(reached)} rollouts on"
            of = f" (in {len(reached)} of {len(found)})" if several and len(reached) else ""
            notes.append(f"Interval narrower than {width:g}, {whose}: {when}{of}.")
        n = sorted(set(self.n_levels.values()))
        size = f"{n[0]:,}" if len(n) == 1 else f"{n[0]:,} to {n[-1]:,}"
        notes.append(
            f"However many rollouts there are, {size} {plural(self.facet)} leave the ICC of "
            f"{plural(self.facet)} like these uncertain."
        )
        return notes

    def _graded(self) -> bool:
        return bool(np.isnan(self.draws.sel(estimand=THESE)).all())


def _first_below(widths: pd.Series, limit: float) -> float:
    """The smallest number of rollouts from which on every width is below the limit."""
    first = float("nan")
    for rollouts, width in reversed(list(widths.items())):
        if not width < limit:
            break
        first = float(str(rollouts))
    return first


def _span(reached: pd.Series) -> str:
    low, high = int(reached.min()), int(reached.max())
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
