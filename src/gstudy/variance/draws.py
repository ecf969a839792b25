"""Arrays of draws with their labels, and their summaries: per draw first, summarised last."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from statistics import NormalDist
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np
import numpy.typing as npt

from gstudy.errors import QuantityError, explain

if TYPE_CHECKING:
    import xarray as xr

__all__ = [
    "INTERVAL_KIND",
    "Array",
    "Measured",
    "checked_seed",
    "labelled",
    "normal_quantile",
    "proportion",
    "stated",
    "summarise",
    "unlabelled",
]

Array = npt.NDArray[np.float64]

INTERVAL_KIND = "equal-tailed"


class Measured(Protocol):
    """A result: variances or ratios of them, on a scale, estimated or assumed."""

    @property
    def scale(self) -> str:
        """ "score" or "logit"."""

    @property
    def assumed(self) -> bool:
        """Whether the components were assumed, not estimated."""


def labelled(values: Array, component: Sequence[str] | None = None) -> xr.DataArray:
    """Draws as an xarray object.

    Parameters
    ----------
    values : array (chain, draw), or (component, chain, draw) with `component` given
    component : sequence of str, optional

    Returns
    -------
    xarray.DataArray (chain, draw[, component])
    """
    import xarray as xr

    if component is None:
        values = values[None]
    n_chains, n_draws = values.shape[1:]
    coords: dict[str, object] = {"chain": np.arange(n_chains), "draw": np.arange(n_draws)}
    if component is None:
        return xr.DataArray(values[0], coords, ("chain", "draw"))
    coords["component"] = np.array(list(component), dtype=object)
    return xr.DataArray(np.moveaxis(values, 0, -1), coords, ("chain", "draw", "component"))


def unlabelled(draws: xr.DataArray) -> Array:
    """The array (component, chain, draw), or (chain, draw), of labelled draws."""
    order = ["component", "chain", "draw"] if "component" in draws.dims else ["chain", "draw"]
    return np.asarray(draws.transpose(*order).values, dtype=float)


def summarise(values: Array, level: float) -> dict[str, Array]:
    """Mean, median, sd and equal-tailed interval over all draws.

    Parameters
    ----------
    values : array (n, chain, draw)
    level : float
        Posterior level of the interval, in (0, 1).

    Returns
    -------
    dict of str to array (n,)
        `mean`, `median`, `sd`, `lower`, `upper`. One draw, as of assumed components, has sd 0
        and an interval without width.

    Raises
    ------
    QuantityError
        For a level outside (0, 1).
    """
    tail = (1 - proportion(level, "level")) / 2
    flat = values.reshape(len(values), -1)
    lower, median, upper = np.quantile(flat, [tail, 0.5, 1 - tail], axis=1)
    sd = flat.std(axis=1, ddof=1) if flat.shape[1] > 1 else np.zeros(len(flat))
    return {"mean": flat.mean(axis=1), "median": median, "sd": sd, "lower": lower, "upper": upper}


def stated(result: Measured, estimand: str, level: float) -> dict[str, object]:
    """The `attrs` of a summary: what its numbers are, and on which scale."""
    return {
        "scale": result.scale,
        "estimand": estimand,
        "interval": INTERVAL_KIND,
        "level": level,
        "assumed": result.assumed,
    }


def normal_quantile(coverage: float) -> float:
    """Half-width of a normal interval of this coverage, in standard deviations.

    Raises
    ------
    QuantityError
        For a coverage outside (0, 1).

    Examples
    --------
    >>> round(normal_quantile(0.95), 2)
    1.96
    """
    # By the lower end: the upper one of a coverage next to 1 rounds to 1.
    return abs(NormalDist().inv_cdf((1 - proportion(coverage, "coverage")) / 2))


def proportion(value: object, name: str) -> float:
    """A level or coverage, checked.

    Raises
    ------
    QuantityError
        When it is no number in (0, 1).
    """
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < 1:
        raise QuantityError(
            explain(
                f"{name} is not a proportion",
                given=value,
                allowed="numbers between 0 and 1, both excluded",
                do=f"Write {name}=0.95 for 95%.",
            )
        )
    return float(value)


def checked_seed(seed: object) -> int:
    """A seed, checked.

    Raises
    ------
    QuantityError
        When it is no whole number from 0 on.
    """
    whole = isinstance(seed, int | np.integer) and not isinstance(seed, bool)
    if not whole or int(cast("int", seed)) < 0:
        raise QuantityError(
            explain("the seed is not usable", given=seed, allowed="whole numbers from 0 on")
        )
    return int(cast("int", seed))
