"""Designs that a search found, with their cost and the draws of what they were chosen by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gstudy.display import Shown, Table
from gstudy.errors import QuantityError, explain
from gstudy.study.designs import Design
from gstudy.variance.decomposition import SCORE
from gstudy.variance.draws import Array, stated, summarise
from gstudy.variance.latent import GAUSSIAN

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

__all__ = ["WORDS", "FoundDesigns", "labelled_designs", "words_of"]

WORDS = {
    "half_width": "half-width of a {level:g}% interval of the score",
    "given_half_width": "half-width of a {level:g}% interval of the score of a given system",
    "difference": "half-width of a {level:g}% interval of a difference of two systems",
    "mdd": "difference of two systems found with power 0.8",
    "phi": "Phi",
    "generalizability": "E rho^2",
}
_MOST_ROWS = 20
_OWN = ("design", "judges", "cost", "mean", "median", "sd", "lower", "upper")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FoundDesigns(Shown):
    """Designs that a search chose.

    Parameters
    ----------
    draws : xarray.DataArray (chain, draw, design)
        The goal of each design, in units of the score; of a coefficient in [0, 1].
    designs : tuple of Design
    costs : tuple of float
        In the currency of the prices; in trials where there are none.
    goal : str
    title : str
        What was searched for, in words.
    notes : tuple of str
    assumed : bool
        Whether the components were assumed, not estimated.
    family : {"binary", "gaussian"}
        Of the scores: distances between rates are shown in points.
    coverage : float
        Nominal, of the interval that the goal is of.
    currency : str
        What costs are counted in: "trials", or nothing where there are prices.
    """

    draws: xr.DataArray
    designs: tuple[Design, ...]
    costs: tuple[float, ...]
    goal: str
    title: str
    notes: tuple[str, ...]
    assumed: bool
    family: str = "binary"
    coverage: float = 0.95
    currency: str = ""

    @property
    def scale(self) -> str:
        """Always the score scale."""
        return SCORE

    @property
    def design(self) -> Design:
        """The design that was found.

        Raises
        ------
        QuantityError
            When there are several.
        """
        return self.designs[self._only()]

    @property
    def cost(self) -> float:
        """Its cost.

        Raises
        ------
        QuantityError
            When there are several designs.
        """
        return self.costs[self._only()]

    def summary(self, level: float = 0.95) -> pd.DataFrame:
        """One row per design, the cheapest first.

        Parameters
        ----------
        level : float
            Posterior level of the equal-tailed intervals.

        Returns
        -------
        pandas.DataFrame
            One column per facet with its number of levels, `judges`, `cost`, and `mean`, `median`,
            `sd`, `lower`, `upper` of the goal; of a facet that is called like one of these it is
            "cost (levels)". `attrs` name scale, estimand, interval and level.

        Raises
        ------
        QuantityError
            For a level outside (0, 1).
        """
        import pandas as pd

        facets = list(dict.fromkeys(facet for design in self.designs for facet in design))
        # A pattern that says the number of judges has none in its design.
        levels = {
            _column(facet): pd.array([design.get(facet) for design in self.designs], dtype="Int64")
            for facet in facets
        }
        values = summarise(np.moveaxis(self.draws.values, -1, 0), level)
        frame = pd.DataFrame(
            {**levels, "judges": [d.judges for d in self.designs], "cost": self.costs, **values},
            index=pd.RangeIndex(1, len(self.designs) + 1, name="design"),
        )
        frame.attrs.update(stated(self, words_of(self.goal, self.coverage), level))
        return frame

    def table(self, level: float = 0.95) -> Table:
        """The table that is printed; of many designs some, spread evenly over the log of cost."""
        frame = self.summary(level)
        shown = frame.iloc[_spread(self.costs)] if len(frame) > _MOST_ROWS else frame
        name = _heading(self.goal)
        columns = ["mean"] if self.assumed else ["mean", "lower", "upper"]
        dropped = [c for c in ("mean", "median", "sd", "lower", "upper") if c not in columns]
        alone = ["judges"] if set(shown["judges"]) == {"all"} else []
        shown = shown.drop(columns=[*dropped, *alone]).rename(columns={"mean": name})
        left = f"{len(shown)} of {len(frame)} designs, evenly over the log of cost"
        more = (f"{left}; summary() has them all.",) if len(shown) < len(frame) else ()
        return Table(
            frame=shown,
            title=self.title,
            scale=self.scale,
            level=None if self.assumed else level,
            notes=(*more, *self.notes),
            formats={
                "cost": "number4",
                "judges": "text",
                **dict.fromkeys((name, "lower", "upper"), self._form()),
            },
        )

    def _form(self) -> str:
        if self.goal in ("phi", "generalizability"):
            return "decimal3"
        return "number3" if self.family == GAUSSIAN else "points1"

    def _only(self) -> int:
        if len(self.designs) != 1:
            raise QuantityError(
                explain(
                    "there are several designs",
                    given=len(self.designs),
                    do="Take one of .designs and .costs.",
                )
            )
        return 0


def _spread(costs: Sequence[float]) -> list[int]:
    """Places of the first, the last, and those nearest to costs that rise by the same factor."""
    logs = np.log(np.maximum(costs, min((c for c in costs if c > 0), default=1.0)))
    wanted = np.linspace(logs[0], logs[-1], _MOST_ROWS)
    return sorted({int(i) for i in np.abs(logs[:, None] - wanted).argmin(axis=0)})


def _heading(goal: str) -> str:
    return goal.replace("_", "-")


def _column(facet: str) -> str:
    """The column of a facet: not one that tables of designs have anyway."""
    return f"{facet} (levels)" if facet in (*_OWN, *map(_heading, WORDS)) else facet


def words_of(goal: str, coverage: float) -> str:
    """The goal in words."""
    return WORDS[goal].format(level=100 * coverage)


def labelled_designs(values: Sequence[Array], shape: tuple[int, int]) -> xr.DataArray:
    """Draws (n_draws,) of each design as an xarray object (chain, draw, design)."""
    import xarray as xr

    stacked = np.moveaxis(np.stack(values).reshape(len(values), *shape), 0, -1)
    coords = {
        "chain": np.arange(shape[0]),
        "draw": np.arange(shape[1]),
        "design": np.arange(1, len(values) + 1),
    }
    return xr.DataArray(stacked, coords, ("chain", "draw", "design"))
