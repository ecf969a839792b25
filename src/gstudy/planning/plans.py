"""A plan: stop, or what to add to the trials that exist, or that nothing would do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gstudy.display import Shown, Table, number, points
from gstudy.variance.decomposition import SCORE
from gstudy.variance.draws import stated, summarise
from gstudy.variance.latent import GAUSSIAN

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from gstudy.study.designs import Design

__all__ = ["ADD", "CANNOT", "STOP", "Plan"]

STOP = "stop"
ADD = "add"
CANNOT = "cannot"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Plan(Shown):
    """Whether a study is precise enough, and what would make it so.

    Parameters
    ----------
    draws : xarray.DataArray (chain, draw, state)
        Half-width of the score's interval: "now"; where trials are added also "then"; where no
        number of them is enough "floor".
    decision : {"stop", "add", "cannot"}
    target : float
        The most that the half-width may be, in units of the score.
    probability : float
        Posterior probability with which it must be met.
    before, after : mapping of str to float
        Levels of each facet as collected, and with what is added; of a nested facet per
        combination of its parents, a mean where they are uneven.
    design : Design or None
        What is to exist in the end, for a run list: whole numbers, a mean that stays cut off.
    added_trials, added_cost : float
        For one system.
    estimand : str
    coverage : float
    notes : tuple of str
    family : {"binary", "gaussian"}
    bounded : bool
        Whether bounds kept it from more: then what cannot be reached may be without them.
    """

    draws: xr.DataArray
    decision: str
    target: float
    probability: float
    before: Mapping[str, float]
    after: Mapping[str, float]
    design: Design | None
    added_trials: float
    added_cost: float
    estimand: str
    coverage: float
    notes: tuple[str, ...]
    family: str = "binary"
    bounded: bool = False

    @property
    def scale(self) -> str:
        """Always the score scale."""
        return SCORE

    @property
    def assumed(self) -> bool:
        """Never: a plan is of a fit."""
        return False

    @property
    def chances(self) -> dict[str, float]:
        """Posterior probability that each state meets the target."""
        met = (self.draws <= self.target * (1 + 1e-12)).mean(("chain", "draw"))
        return dict(zip(self.states, met.values.tolist(), strict=True))

    @property
    def states(self) -> list[str]:
        """The states, in order."""
        return [str(state) for state in self.draws["state"].values]

    @property
    def sentence(self) -> str:
        """The plan in one sentence."""
        target = f"{self._length(self.target)} with probability {self.probability:g}"
        if self.decision == STOP:
            return f"Stop: the half-width is at most {target}."
        if self.decision == CANNOT:
            allowed = " within the bounds" if self.bounded else ""
            return f"No number of trials{allowed} brings the half-width to {target}."
        added = ", ".join(
            f"{facet} {self.before[facet]:.4g} to {n:.4g}"
            for facet, n in self.after.items()
            if n != self.before[facet]
        )
        return f"Add {added}: the half-width is then at most {target}."

    def summary(self, level: float = 0.95) -> pd.DataFrame:
        """One row per state.

        Parameters
        ----------
        level : float
            Posterior level of the equal-tailed intervals.

        Returns
        -------
        pandas.DataFrame
            Index `state`; columns `mean`, `median`, `sd`, `lower`, `upper` of the half-width,
            `p_target`, `added_trials`, `added_cost` (missing of a floor). `attrs` name scale,
            estimand, interval and level.

        Raises
        ------
        QuantityError
            For a level outside (0, 1).
        """
        import pandas as pd

        values = self.draws.transpose("state", "chain", "draw").values
        added = {"now": (0.0, 0.0), "then": (self.added_trials, self.added_cost)}
        nothing = (float("nan"),) * 2
        frame = pd.DataFrame(
            {
                **summarise(values, level),
                "p_target": list(self.chances.values()),
                "added_trials": [added.get(state, nothing)[0] for state in self.states],
                "added_cost": [added.get(state, nothing)[1] for state in self.states],
            },
            index=pd.Index(self.states, name="state"),
        )
        what = f"half-width of a {100 * self.coverage:g}% interval of {self.estimand}"
        frame.attrs.update(stated(self, what, level))
        return frame

    def table(self, level: float = 0.95) -> Table:
        """The table that is printed."""
        frame = self.summary(level).drop(columns=["median", "sd"])
        form = "number3" if self.family == GAUSSIAN else "points1"
        names = {"mean": "half-width", "p_target": "P(target)"}
        names |= {name: name.replace("_", " ") for name in ("added_trials", "added_cost")}
        return Table(
            frame=frame.rename(columns=names),
            title=self.sentence,
            scale=self.scale,
            level=level,
            notes=(
                f"Half-width of a {100 * self.coverage:g}% interval of {self.estimand}.",
                *self.notes,
            ),
            formats={
                **dict.fromkeys(("half-width", "lower", "upper"), form),
                "P(target)": "decimal2",
                "added trials": "count",
                "added cost": "number4",
            },
        )

    def _length(self, value: float) -> str:
        return number(value) if self.family == GAUSSIAN else points(value)


def labelled_states(states: Mapping[str, np.ndarray], shape: tuple[int, int]) -> xr.DataArray:
    """Draws (n_draws,) of each state as (chain, draw, state)."""
    import xarray as xr

    stacked = np.stack([values.reshape(shape) for values in states.values()], axis=-1)
    coords = {"chain": np.arange(shape[0]), "draw": np.arange(shape[1]), "state": list(states)}
    return xr.DataArray(stacked, coords, ("chain", "draw", "state"))
