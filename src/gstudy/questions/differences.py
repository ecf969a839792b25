"""The difference of two systems' scores: its draws, its noise, its table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from gstudy.display import Shown, Table, number, points
from gstudy.errors import QuantityError, explain
from gstudy.questions.discordance import Discordance
from gstudy.variance.draws import INTERVAL_KIND, Array, normal_quantile, proportion, summarise
from gstudy.variance.latent import BINARY

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["A_DESIGN", "NEW_TASKS", "THESE_TASKS", "Comparison"]

NEW_TASKS = "new tasks"
THESE_TASKS = "these tasks"
A_DESIGN = "a design"


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Comparison(Shown):
    """The difference B - A of two systems' scores, A the baseline.

    Parameters
    ----------
    draws : xarray.DataArray (chain, draw, estimand)
        Posterior of the difference, score scale: over "new tasks", over "these tasks", and what
        another study of "a design" would report (predictive).
    baseline, other : str
        A and B.
    margin : float
        "Worse" means B below A by more than this; score scale, 0.02 is 2 points.
    design : str
        The design of the last estimand, in words; "" without one.
    noise : xarray.DataArray (chain, draw, part), or None
        Variance of B - A under that design, squared score units: parts "data" (new tasks), where
        there are any "other levels" (of other facets that a re-run keeps), "re-run" and "total".
        None of separate fits.
    discordance : Discordance
        Task by task.
    family : {"binary", "gaussian"}
    notes : tuple of str
    """

    draws: xr.DataArray
    baseline: str
    other: str
    margin: float
    design: str
    noise: xr.DataArray | None
    discordance: Discordance
    family: str
    notes: tuple[str, ...]

    @property
    def tasks(self) -> pd.DataFrame:
        """One row per task that both ran.

        Columns `n_A`, `n_B`, `rate_A`, `rate_B` (observed), `difference` (B - A) and `p_better`,
        the posterior probability that B's expected score on this task is above A's.
        """
        return self.discordance.tasks

    @property
    def n_shared(self) -> int:
        """Number of tasks that both ran."""
        return len(self.discordance.tasks)

    def smallest_gap(self, coverage: float = 0.95) -> xr.DataArray:
        """The smallest difference that a study of the design resolves, z sqrt(Var(B - A)).

        Parameters
        ----------
        coverage : float
            Of the interval that has to exclude zero, in (0, 1).

        Returns
        -------
        xarray.DataArray (chain, draw)

        Raises
        ------
        QuantityError
            For a coverage outside (0, 1), and of separate fits.
        """
        if self.noise is None:
            raise QuantityError(
                explain(
                    "separate fits do not tell the variance of the difference under a design",
                    do="Fit both systems together: gs.fit, with varies for own sds.",
                )
            )
        total = self.noise.sel(part="total", drop=True)
        return normal_quantile(coverage) * total**0.5

    def summary(self, level: float = 0.95) -> pd.DataFrame:
        """One row per estimand.

        Parameters
        ----------
        level : float
            Posterior level of the equal-tailed intervals.

        Returns
        -------
        pandas.DataFrame
            Index `estimand`; columns `mean`, `median`, `sd`, `lower`, `upper` (B - A, score
            scale), `p_better`, P(B - A > 0), and `p_worse`, P(B - A < -margin). `attrs` name
            scale, estimand, interval, level, margin, baseline and other.

        Raises
        ------
        QuantityError
            For a level outside (0, 1).
        """
        values = _stacked(self.draws, "estimand")
        flat = values.reshape(len(values), -1)
        frame = pd.DataFrame(
            {
                **summarise(values, level),
                "p_better": (flat > 0).mean(axis=1),
                "p_worse": (flat < -self.margin).mean(axis=1),
            },
            index=pd.Index(list(self.draws.coords["estimand"].values), name="estimand"),
        )
        frame.attrs.update(
            self._attributes(level, f"{self._difference()} under each named estimand")
        )
        return frame

    def noise_summary(self, level: float = 0.95) -> pd.DataFrame:
        """The split of Var(B - A) under the design.

        Parameters
        ----------
        level : float

        Returns
        -------
        pandas.DataFrame
            Index `part`, as in `noise`; columns `mean`, `median`, `sd`, `lower`, `upper`
            (variance, squared score units). Empty of separate fits.

        Raises
        ------
        QuantityError
            For a level outside (0, 1).
        """
        proportion(level, "level")
        parts = [] if self.noise is None else list(self.noise.coords["part"].values)
        found = {} if self.noise is None else summarise(_stacked(self.noise, "part"), level)
        frame = pd.DataFrame(found, index=pd.Index(parts, name="part", dtype=object))
        frame.attrs.update(self._attributes(level, f"variance of {self._difference()}"))
        return frame

    def table(self, level: float = 0.95) -> Table:
        """The table that is printed."""
        worse = f"P(worse by > {self._size(self.margin)})" if self.margin else "P(worse)"
        frame = self.summary(level)[["mean", "lower", "upper", "p_better", "p_worse"]]
        digits = "points1" if self.family == BINARY else "number3"
        return Table(
            frame=frame.rename(columns={"p_better": "P(better)", "p_worse": worse}),
            title=f"Difference of {self._kind()}s, {self.other} minus {self.baseline} (the "
            "baseline), under each named estimand",
            scale="score",
            level=level,
            notes=(
                *self._estimand_notes(),
                *self._noise_notes(level),
                *self.discordance.sentences(self.baseline, self.other),
                *self.notes,
            ),
            formats={
                **dict.fromkeys(("mean", "lower", "upper"), digits),
                "P(better)": "percent1",
                worse: "percent1",
            },
        )

    def _attributes(self, level: float, estimand: str) -> dict[str, object]:
        return {
            "scale": "score",
            "estimand": estimand,
            "interval": INTERVAL_KIND,
            "level": level,
            "margin": self.margin,
            "baseline": self.baseline,
            "other": self.other,
        }

    def _kind(self) -> str:
        return "pass rate" if self.family == BINARY else "mean score"

    def _difference(self) -> str:
        return f"the {self._kind()} of {self.other} minus that of {self.baseline}"

    def _size(self, value: float) -> str:
        return points(value) if self.family == BINARY else number(value)

    def _estimand_notes(self) -> list[str]:
        on_which = "all of them" if self.discordance.common else "its own"
        told = {
            NEW_TASKS: "the expected difference over new levels of every random facet",
            THESE_TASKS: f"over the {self.discordance.n_levels:,} levels that were run, each "
            f"system on {on_which}, whatever a re-run draws anew",
            A_DESIGN: f"what another study, {self.design}, would report (predictive)",
        }
        return [f"{name}: {told[name]}" for name in self.draws.coords["estimand"].values]

    def _noise_notes(self, level: float) -> list[str]:
        if self.noise is None:
            return []
        frame = self.noise_summary(level)
        sds = {part: np.sqrt(row) for part, row in frame[["mean", "lower", "upper"]].iterrows()}
        split = ", ".join(
            f"{part} {self._size(row['mean'])} ({self._size(row['lower'])} to "
            f"{self._size(row['upper'])})"
            for part, row in sds.items()
        )
        gap = {
            k: float(v[0]) for k, v in summarise(self.smallest_gap().values[None], level).items()
        }
        return [
            f"Noise of the difference, {self.design}, as standard deviations: {split}.",
            (
                "Smallest difference that such a study resolves at 95%: "
                f"{self._size(gap['mean'])} ({self._size(gap['lower'])} to "
                f"{self._size(gap['upper'])})."
                + (
                    " Two pass rates never differ by more than 100 points: it resolves none."
                    if self.family == BINARY and gap["mean"] > 1
                    else ""
                )
            ),
        ]


def _stacked(draws: xr.DataArray, dim: str) -> Array:
    """The array (dim, chain, draw) of draws."""
    return np.asarray(draws.transpose(dim, "chain", "draw").values, dtype=float)
