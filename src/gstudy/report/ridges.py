"""Densities of posterior draws as rows of one plot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gstudy.report.style import INK, PALE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gstudy.variance.draws import Array

__all__ = ["HEIGHT", "density", "draw_interval", "draw_ridge"]

HEIGHT = 0.78
"""Of the highest ridge, in rows."""

_CONSTANT = 1e-9


def density(
    values: Array, bounds: tuple[float, float] = (-np.inf, np.inf)
) -> tuple[Array, Array] | None:
    """Grid and density of draws; None where all are the same.

    Parameters
    ----------
    values : array
    bounds : tuple of float
        What a value can be: nothing is drawn outside.

    Returns
    -------
    grid, pdf : array
    """
    flat = np.ravel(values)
    if not np.ptp(flat) > _CONSTANT:
        return None
    import arviz_stats.base

    # The library has no types: its names are looked up, as the gates do.
    grid, pdf, _ = vars(arviz_stats.base)["array_stats"].kde(flat, bound_correction=True)
    inside = (grid >= bounds[0]) & (grid <= bounds[1])
    return np.asarray(grid[inside]), np.asarray(pdf[inside])


def draw_ridge(
    ax: Axes,
    place: float,
    curve: tuple[Array, Array] | None,
    peak: float,
    *,
    colour: str,
    label: str | None = None,
) -> None:
    """One density as a filled ridge that stands on row `place` (rows count downwards)."""
    if curve is None:
        return
    grid, pdf = curve
    top = place - HEIGHT * pdf / peak
    ax.fill_between(grid, place, top, color=colour, alpha=0.45, linewidth=0, zorder=2, label=label)
    ax.plot(grid, top, color=INK, linewidth=0.9, zorder=3)


def draw_interval(ax: Axes, place: float, values: Array, level: float) -> None:
    """Equal-tailed interval and mean on the foot of a ridge."""
    tail = (1 - level) / 2
    low, high = np.quantile(values, [tail, 1 - tail])
    ax.hlines(place, low, high, color=INK, linewidth=2.2, zorder=4)
    ax.plot(
        [float(np.mean(values))],
        [place],
        marker="o",
        color="white",
        markeredgecolor=INK,
        markersize=5.5,
        linestyle="none",
        zorder=5,
    )
    ax.axhline(place, color=PALE, linewidth=0.4, zorder=1)
