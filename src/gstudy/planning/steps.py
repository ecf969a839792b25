"""The rows of a next-step table, and how they are shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gstudy._words import listed, plural
from gstudy.display import Shown, Table
from gstudy.variance.decomposition import SCORE
from gstudy.variance.draws import stated, summarise
from gstudy.variance.latent import GAUSSIAN

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

__all__ = ["FEWER", "FLOOR", "MORE", "NOW", "ONE", "PIN", "NextSteps", "Step"]

NOW = "now"
MORE = "more levels"
FEWER = "fewer levels"
FLOOR = "floor"
ONE = "one level, same claim"
PIN = "pin it, smaller claim"

_MEANINGS = {
    ONE: "one level, same claim: the score still speaks for levels that were not sampled, and "
    "knows them less well, so that its interval widens.",
    PIN: "pin it, smaller claim: the score speaks for these levels alone, so that its interval "
    "narrows; of others it says nothing. No trial is added, and nothing is known better.",
    FLOOR: "floor: what is left with any number of levels of that facet alone.",
}


@dataclass(frozen=True, slots=True)
class Step:
    """One change of a design.

    Parameters
    ----------
    name : str
        What is changed, in words; no two are alike.
    kind : str
        `NOW`, `MORE`, `FEWER`, `FLOOR`, `ONE` or `PIN`.
    facet : str
        Empty for the design as it stands.
    before, after : float
        Levels of the facet.
    trials : float
        Trials that are added, for one system; NaN for a floor.
    cost : float
        What they add to the cost.
    bound : {"", "at best", "at worst"}
        Of a facet of a merged component: whether the step helps as much, or as little, as the
        data leave open.
    """

    name: str
    kind: str
    facet: str
    before: float
    after: float
    trials: float
    cost: float
    bound: str = ""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class NextSteps(Shown):
    """What each single change of a design would do.

    Parameters
    ----------
    draws : xarray.DataArray (chain, draw, step, quantity)
        Score scale: `variance` and `half_width` of the score after the step; `change` of the
        half-width, below 0 where it narrows; `reduction`, the share of the variance that goes;
        `gain`, by how much a unit of cost narrows the half-width, NaN where nothing is paid.
    steps : tuple of Step
    estimand : str
        Whose score it is, under which design.
    coverage : float
        Nominal, of the score's interval.
    currency : str
        "trials" where no prices were given, else "cost".
    notes : tuple of str
    assumed : bool
        Whether the components were assumed, not estimated.
    family : {"binary", "gaussian"}
    """

    draws: xr.DataArray
    steps: tuple[Step, ...]
    estimand: str
    coverage: float
    currency: str
    notes: tuple[str, ...]
    assumed: bool
    family: str = "binary"

    @property
    def scale(self) -> str:
        """Always the score scale."""
        return SCORE

    def summary(self, level: float = 0.95) -> pd.DataFrame:
        """One row per step.

        Parameters
        ----------
        level : float
            Posterior level of the equal-tailed intervals.

        Returns
        -------
        pandas.DataFrame
            Index `step`; columns `kind`, `facet`, `before`, `after` (levels), `bound`,
            `added_trials`, `added_cost`; `mean`, `median`, `sd`, `lower`, `upper` of the
            half-width; `change`, `reduction` and `gain`, each with `_lower` and `_upper`. `attrs`
            name scale, estimand, interval and level.

        Raises
        ------
        QuantityError
            For a level outside (0, 1).
        """
        import pandas as pd

        columns = {
            "kind": [s.kind for s in self.steps],
            "facet": [s.facet for s in self.steps],
            "before": [s.before for s in self.steps],
            "after": [s.after for s in self.steps],
            "bound": [s.bound for s in self.steps],
            "added_trials": [s.trials for s in self.steps],
            "added_cost": [s.cost for s in self.steps],
            **self._of("half_width", level),
        }
        for name in ("change", "reduction", "gain"):
            found = self._of(name, level)
            columns[name] = found["mean"]
            columns |= {f"{name}_{end}": found[end] for end in ("lower", "upper")}
        index = pd.Index([s.name for s in self.steps], name="step")
        frame = pd.DataFrame(columns, index=index)
        what = f"half-width of a {100 * self.coverage:g}% interval of {self.estimand}"
        frame.attrs.update(stated(self, what, level))
        return frame

    def table(self, level: float = 0.95) -> Table:
        """The table that is printed."""
        frame = self.summary(level)
        unit = "trial" if self.currency == "trials" else "cost"
        on_rates = self.family != GAUSSIAN
        shown = frame[["added_trials", "added_cost", "mean", "lower", "upper", "change", "gain"]]
        shown = shown.assign(gain=shown["gain"] * (100 if on_rates else 1)).rename(
            columns={
                "added_trials": "added trials",
                "added_cost": "added cost",
                "mean": "half-width",
                "gain": f"{'points' if on_rates else 'gain'} per {unit}",
            }
        )
        dropped = ["lower", "upper"] if self.assumed else []
        dropped += ["added cost"] if self.currency == "trials" else []
        form = "points1" if on_rates else "number3"
        return Table(
            frame=shown.drop(columns=dropped),
            title=f"Next steps from {self.estimand}",
            scale=self.scale,
            level=None if self.assumed else level,
            notes=(*self._meanings(), *self._best(), *self.notes),
            formats={
                # Names say what is meant: they are never cut.
                "step": "span",
                "added trials": "count",
                "added cost": "number4",
                **dict.fromkeys(("half-width", "lower", "upper", "change"), form),
                shown.columns[-1]: "number3",
            },
        )

    def _of(self, quantity: str, level: float) -> dict[str, np.ndarray]:
        values = self.draws.sel(quantity=quantity).transpose("step", "chain", "draw").values
        return dict(summarise(values, level))

    def _meanings(self) -> list[str]:
        kinds = {step.kind for step in self.steps}
        told = [text for kind, text in _MEANINGS.items() if kind in kinds]
        merged = [plural(s.facet) for s in self.steps if s.bound and s.kind == MORE]
        if merged:
            names = listed(list(dict.fromkeys(merged)))
            told.append(
                f"at best, at worst: the data cannot tell whether the variance is that of {names} "
                "or of what they go together with."
            )
        return told

    def _best(self) -> list[str]:
        """Which step narrows the interval most for its cost, and how sure that is."""
        places = [i for i, s in enumerate(self.steps) if s.kind == MORE and s.cost > 0]
        if len(places) < 2 or any(self.steps[i].bound for i in places):
            return []
        gains = self.draws.sel(quantity="gain").values[..., places].reshape(-1, len(places))
        best = int(gains.mean(axis=0).argmax())
        if not gains[:, best].mean() > 0:
            return []
        text = f"Most precision for its cost: {self.steps[places[best]].name}"
        if self.assumed:
            return [f"{text}."]
        sure = float((gains.argmax(axis=1) == best).mean())
        return [f"{text} (posterior probability {sure:.2f})."]


def labelled_steps(
    quantities: Mapping[str, np.ndarray], names: list[str], shape: tuple[int, int]
) -> xr.DataArray:
    """Draws (n_steps, n_draws) of each quantity as (chain, draw, step, quantity)."""
    import xarray as xr

    stacked = np.stack([q.reshape(len(names), *shape) for q in quantities.values()], axis=-1)
    coords: dict[str, object] = {
        "chain": np.arange(shape[0]),
        "draw": np.arange(shape[1]),
        "step": np.array(names, dtype=object),
        "quantity": list(quantities),
    }
    moved = np.moveaxis(stacked, 0, 2)
    return xr.DataArray(moved, coords, ("chain", "draw", "step", "quantity"))
