"""Levels side by side: score, ICC and re-run noise of fits with their own variances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gstudy.display import Shown, Table
from gstudy.errors import QuantityError, explain
from gstudy.fits.gates import stamp
from gstudy.fits.many import Fits
from gstudy.variance.coefficients import icc
from gstudy.variance.draws import INTERVAL_KIND, proportion, summarise
from gstudy.variance.rerun import rerun_noise

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from gstudy.fits.fitted import Fit

__all__ = ["LevelSummary", "level_summary"]

QUANTITIES = ("icc", "rerun_sd")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LevelSummary(Shown):
    """ICC and re-run noise of every level, score scale.

    Parameters
    ----------
    draws : xarray.DataArray (chain, draw, level, quantity)
        Quantities "icc" and "rerun_sd", the standard deviation of the score over re-runs; NaN
        where a level has no such component.
    observed : pandas.DataFrame
        Index: the levels; columns `n_trials`, `score`, `passed` (all sampler gates).
    facet : str
        The facet of the ICC.
    by : str
    notes : tuple of str
    """

    draws: xr.DataArray
    observed: pd.DataFrame
    facet: str
    by: str
    notes: tuple[str, ...]

    def summary(self, level: float = 0.95) -> pd.DataFrame:
        """One row per level.

        Parameters
        ----------
        level : float
            Posterior level of the equal-tailed intervals.

        Returns
        -------
        pandas.DataFrame
            Index: the levels; columns `n_trials`, `score` (observed mean over all trials),
            `icc`, `icc_lower`, `icc_upper`, `rerun_sd`, `rerun_sd_lower`, `rerun_sd_upper`
            (posterior means and intervals) and `passed`. Score scale.

        Raises
        ------
        QuantityError
            For a level outside (0, 1).
        """
        level = proportion(level, "level")
        table = self.observed.drop(columns="passed")
        for name in QUANTITIES:
            values = self.draws.sel(quantity=name).transpose("level", "chain", "draw").values
            found = summarise(values, level)
            table[name] = found["mean"]
            table[f"{name}_lower"], table[f"{name}_upper"] = found["lower"], found["upper"]
        table["passed"] = self.observed["passed"]
        table.attrs.update(
            scale="score", estimand=self._estimand(), interval=INTERVAL_KIND, level=level
        )
        return table

    def table(self, level: float = 0.95) -> Table:
        """The table that is printed."""
        import pandas as pd

        summary = self.summary(level)
        frame = pd.DataFrame(
            {
                "trials": summary["n_trials"],
                "score": summary["score"],
                f"ICC({self.facet})": summary["icc"],
                "ICC interval": _spans(summary, "icc", 1.0, 2),
                "re-run sd": summary["rerun_sd"],
                "sd interval": _spans(summary, "rerun_sd", 100.0, 1),
                "gates": np.where(summary["passed"], "passed", "FAILED"),
            }
        )
        return Table(
            frame=frame,
            title=self._estimand(),
            scale="score",
            level=level,
            notes=self.notes,
            formats={
                "trials": "int",
                "score": "percent1",
                f"ICC({self.facet})": "decimal2",
                "re-run sd": "points1",
                **dict.fromkeys(("ICC interval", "sd interval"), "span"),
            },
        )

    def _estimand(self) -> str:
        return f"ICC and re-run noise by {self.by}, each level from its own fit"


def level_summary(fits: Fits, facet: str | None = None) -> LevelSummary:
    """Score, ICC and re-run noise of every level, each from its own fit.

    Parameters
    ----------
    fits : Fits
        What `gstudy.fit_by` returns.
    facet : str, optional
        The component of the ICC; by default the legitimate facet with most levels that a re-run
        keeps, such as "task".

    Returns
    -------
    LevelSummary

    Raises
    ------
    QuantityError
        For what are no fits by level, a facet that is no text, and when no level has such a
        component.

    See Also
    --------
    contrasts : differences between levels, with their intervals.

    Examples
    --------
    >>> import gstudy as gs
    >>> fits = gs.fit_by(study, trials, by="system", seed=1)  # doctest: +SKIP
    >>> gs.level_summary(fits)  # doctest: +SKIP
    """
    if not getattr(fits, "labels", ()):
        raise QuantityError(
            explain(
                "fits by level are needed",
                given=type(fits).__name__,
                allowed="what gs.fit_by returns, with one fit at least",
            )
        )
    facet = _largest(fits) if facet is None else facet
    if not isinstance(facet, str):
        raise QuantityError(
            explain(
                "the component of the ICC is named by a text",
                given=facet,
                allowed='such as "task"',
                do="For any function of a fit: gs.contrasts(fits, lambda fit: ...).",
            )
        )
    for part in facet.split(":"):
        fits.study.facet(part)  # or what names there are
    draws = _labelled([_quantities(fit, facet) for fit in fits.values()], fits)
    return LevelSummary(
        draws=draws,
        observed=fits.summary()[["n_trials", "score", "passed"]],
        facet=facet,
        by=fits.by,
        notes=_notes(fits, draws, facet),
    )


def _largest(fits: Fits) -> str:
    """The legitimate facet with most levels that is fitted somewhere and no re-run draws anew."""
    redrawn = fits.study.redrawn_on_rerun()
    levels: dict[str, int] = {}
    for fit in fits.values():
        for facet in fit.study.facets:
            own = fit.study.closure(facet.name) - set(fit.design.not_sampled)
            if facet.role != "legitimate" or facet.name in redrawn:
                continue
            for component in fit.design.components:
                if own in component.merged:
                    most = max(levels.get(facet.name, 0), component.n_levels)
                    levels[facet.name] = most
    if not levels:
        raise QuantityError(
            explain(
                "no level has a legitimate facet that a re-run keeps",
                allowed=sorted({name for fit in fits.values() for name in fit.components}),
                do='Name the component of the ICC: gs.level_summary(fits, "...").',
            )
        )
    return max(levels, key=lambda name: levels[name])


def _quantities(fit: Fit, facet: str) -> list[Any]:
    """ICC and re-run sd, (chain, draw); None where the level has no such component."""
    try:
        ratio = icc(fit, facet).draws.values
    except QuantityError:
        ratio = None
    return [ratio, np.sqrt(rerun_noise(fit).draws.values)]


def _labelled(rows: list[list[Any]], fits: Fits) -> xr.DataArray:
    import xarray as xr

    shape = rows[0][1].shape
    filled = [[np.full(shape, np.nan) if array is None else array for array in row] for row in rows]
    return xr.DataArray(
        np.array(filled),
        coords={
            "level": np.array(fits.labels, dtype=object),
            "quantity": np.array(QUANTITIES, dtype=object),
            "chain": np.arange(shape[0]),
            "draw": np.arange(shape[1]),
        },
        dims=("level", "quantity", "chain", "draw"),
    ).transpose("chain", "draw", "level", "quantity")


def _notes(fits: Fits, draws: xr.DataArray, facet: str) -> tuple[str, ...]:
    values = draws.transpose("level", "quantity", "chain", "draw").values.reshape(
        -1, *_shape(draws)
    )
    present = values[~np.isnan(values).any(axis=(1, 2))]
    failed = fits.stamp()
    if not failed and (note := stamp(np.moveaxis(present, 0, -1))):
        failed = (note,)
    missing = [label for label in fits.labels if np.isnan(draws.sel(level=label).values).any()]
    return (
        *failed,
        *([f"No component {facet!r} at {', '.join(map(repr, missing))}."] if missing else []),
        *(f"Not fitted: {label!r}: {error}" for label, error in fits.failures.items()),
        "re-run sd: of the reported score, when the same levels are run again",
    )


def _shape(draws: xr.DataArray) -> tuple[int, int]:
    return draws.sizes["chain"], draws.sizes["draw"]


def _spans(summary: pd.DataFrame, name: str, factor: float, digits: int) -> list[str]:
    """Intervals as text."""
    pairs = zip(summary[f"{name}_lower"], summary[f"{name}_upper"], strict=True)
    return [
        "" if np.isnan(low) else f"{factor * low:.{digits}f} to {factor * high:.{digits}f}"
        for low, high in pairs
    ]
