"""Designs side by side: what each of them would tell, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from gstudy.display import Shown, Table
from gstudy.variance.decomposition import SCORE
from gstudy.variance.draws import normal_quantile, stated, summarise
from gstudy.variance.latent import GAUSSIAN, widest

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from gstudy.study.designs import Design

__all__ = ["COLUMNS", "DesignComparison"]

COLUMNS = {
    "half_width": "half-width",
    "given_half_width": "of one given",
    "rerun": "two runs",
    "pass_k": "pass^{pass_k}",
    "mdd": "MDD",
    "p_ranking": "P(ranking)",
    "p_winner": "P(winner)",
    "p_target": "P(target)",
    "phi": "Phi",
    "phi_cut": "Phi({cut:g})",
    "generalizability": "E rho^2",
    "design_effect": "design effect",
    "effective_n": "effective n",
}
"""Quantities of the printed table, and what it calls them; others are in the summary alone."""

_DISTANCES = ("half_width", "given_half_width", "rerun", "pass_k", "mdd")
_CHANCES = ("p_ranking", "p_winner", "p_target")
_READINGS = {
    "half_width": "half-width: of the {coverage} interval of a score.",
    "given_half_width": "of one given: the same of a {object} that runs; half-width is that of a "
    "new one, how they differ included.",
    "rerun": "two runs: two runs of the same design differ by up to this in {coverage} of cases.",
    "pass_k": "pass^{pass_k}: half-width of the {coverage} interval of the chance that "
    "{pass_k} rollouts of a task all pass.",
    "mdd": "MDD: smallest true difference of two systems on shared levels that a {coverage} "
    "interval tells from zero with probability {power:g}.",
    "p_ranking": "P(ranking), P(winner): the scores are in the right order, and the best system "
    "has the best one.",
    "p_target": "P(target): posterior probability that the half-width is at most {target}.",
    "design_effect": "design effect: variance of a score over that of as many independent trials; "
    "effective n: so many independent trials tell as much.",
}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DesignComparison(Shown):
    """Predictions for several designs.

    Parameters
    ----------
    draws : xarray.DataArray (chain, draw, design, quantity)
        Score scale. `variance` of a score; `half_width` of its interval; where the score is that of
        a new system `given_half_width`, of one that runs; `rerun`, its variance over re-runs;
        `phi`, `phi_cut`, `generalizability`; `difference` and `separate`, variances of a
        difference of two systems on shared levels and on levels of their own; `mdd`, the minimal
        detectable difference on shared levels; `p_ranking`, `p_winner`; `p_target`, 1 in the draws
        that meet the target; `design_effect`, `effective_n`; `pass_k`, half-width of pass^k. A
        design that does not have a quantity has NaN.
    designs : mapping of str to Design or None
        By name; None is the design as collected.
    costs : mapping of str to float
        By name, in the currency of the prices; in trials where there are none.
    trials : mapping of str to float
        Trials behind one score, by name.
    estimand : str
        Whose score it is.
    coverage : float
        Nominal, of the interval of a score or difference.
    options : mapping
        `power`, and where they were asked for `target`, `cut`, `pass_k`.
    notes : tuple of str
        What was left out and why, and what the numbers are of.
    assumed : bool
        Whether the components were assumed, not estimated.
    family : {"binary", "gaussian"}
        Of the scores: distances between rates are shown in points.
    paid : str
        For how many systems a cost is, where for several.
    object : str
        What is measured.
    """

    draws: xr.DataArray
    designs: Mapping[str, Design | None]
    costs: Mapping[str, float]
    trials: Mapping[str, float]
    estimand: str
    coverage: float
    options: Mapping[str, float]
    notes: tuple[str, ...]
    assumed: bool
    family: str = "binary"
    paid: str = field(default="")
    object: str = "system"

    @property
    def scale(self) -> str:
        """Always the score scale."""
        return SCORE

    def summary(self, level: float = 0.95) -> pd.DataFrame:
        """One row per design and quantity.

        Parameters
        ----------
        level : float
            Posterior level of the equal-tailed intervals.

        Returns
        -------
        pandas.DataFrame
            Index `design`, `quantity`; columns `mean`, `median`, `sd`, `lower`, `upper`. Of
            `p_target` the mean is the probability, and there is no interval. `attrs` name scale,
            estimand, interval, level and coverage.

        Raises
        ------
        QuantityError
            For a level outside (0, 1).
        """
        import pandas as pd

        stacked = self.draws.transpose("design", "quantity", "chain", "draw")
        shape = stacked.shape
        values = stacked.values.reshape(shape[0] * shape[1], *shape[2:])
        names = [list(self.draws.coords[dim].values) for dim in ("design", "quantity")]
        index = pd.MultiIndex.from_product(names, names=["design", "quantity"])
        frame = pd.DataFrame(summarise(values, level), index=index)
        frame = frame[~np.isnan(values).all(axis=(1, 2))]
        chances = frame.index.get_level_values("quantity") == "p_target"
        frame.loc[chances, ["median", "sd", "lower", "upper"]] = np.nan
        estimand = f"predictions for {self.estimand}"
        frame.attrs.update(stated(self, estimand, level), coverage=self.coverage)
        return frame

    def table(self, level: float = 0.95) -> Table:
        """The table that is printed: one row per design."""
        import pandas as pd

        frame = self.summary(level)
        means = frame["mean"].unstack("quantity").reindex(list(self.designs))
        shown = pd.DataFrame({"cost": pd.Series(self.costs), "trials": pd.Series(self.trials)})
        shown = shown.reindex(list(self.designs)).rename_axis("design")
        if shown["cost"].equals(shown["trials"]) or shown["cost"].isna().all():
            shown = shown.drop(columns="cost")
        # Names say what is meant: they are never cut.
        formats = {"design": "span", "cost": "number4", "trials": "count"}
        for quantity, heading in COLUMNS.items():
            if quantity not in means:
                continue
            name = heading.format(**self.options)
            shown[name], formats[name] = self._column(quantity, means[quantity])
            if quantity == "half_width" and not self.assumed:
                own = frame.xs("half_width", level="quantity")
                for end in ("lower", "upper"):
                    shown[end], formats[end] = own[end], formats[name]
        return Table(
            frame=shown,
            title=f"Designs for {self.estimand}",
            scale=self.scale,
            level=None if self.assumed else level,
            notes=(
                *self._readings(set(means.columns)),
                *([self.paid] if self.paid else []),
                *self.notes,
            ),
            formats=formats,
        )

    def _column(self, quantity: str, means: pd.Series[float]) -> tuple[pd.Series[float], str]:
        """A column of the table, and how it is written."""
        if quantity == "rerun":
            draws = self.draws.sel(quantity="rerun")
            apart = normal_quantile(self.coverage) * (2 * draws) ** 0.5
            mean = apart.clip(max=widest(self.family)).mean(["chain", "draw"])
            means = mean.to_series().reindex(means.index)
        if quantity in _DISTANCES:
            return means, "number3" if self.family == GAUSSIAN else "points1"
        if quantity in _CHANCES:
            return means, "percent1"
        return means, "decimal2" if quantity == "design_effect" else (
            "int" if quantity == "effective_n" else "decimal3"
        )

    def _readings(self, quantities: set[str]) -> list[str]:
        told: dict[str, object] = {**self.options, "object": self.object}
        told["coverage"] = f"{100 * self.coverage:g}%"
        if "target" in self.options:
            target = self.options["target"]
            rate = self.family != GAUSSIAN
            told["target"] = f"{100 * target:g} points" if rate else f"{target:g}"
        return [text.format(**told) for name, text in _READINGS.items() if name in quantities]
