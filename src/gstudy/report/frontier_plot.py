"""The plot of a frontier: how precise a design can be for its cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gstudy._marks import visible
from gstudy.planning.found import FoundDesigns
from gstudy.report.style import (
    COLOURS,
    INK,
    alarm_of,
    clean,
    new_axes,
    plain,
    refuse,
    write_above,
)
from gstudy.report.ticks import log_axis
from gstudy.variance.latent import GAUSSIAN

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from gstudy.variance.draws import Array

__all__ = ["plot_frontier"]

_HEIGHT_INCHES = 4.6
_MOST_NAMED = 6
# Widest ratio of costs that a plain axis shows well.
_WIDE = 12
_GOALS = {
    "half_width": "half-width of the score",
    "given_half_width": "half-width of a given score",
    "difference": "half-width of a difference",
    "mdd": "difference that is found",
    "phi": "Phi",
    "generalizability": "E rho^2",
}
_RISING = ("phi", "generalizability")
_BAND = "#9CB8CC"


def plot_frontier(
    found: FoundDesigns, *, level: float = 0.95, ax: Axes | None = None
) -> tuple[Figure, Axes]:
    """Cost against precision, of the designs that no other dominates.

    Parameters
    ----------
    found : FoundDesigns
        From `gs.design_frontier`.
    level : float
        Posterior level of the equal-tailed intervals.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    figure : matplotlib.figure.Figure
    axes : matplotlib.axes.Axes
        A staircase: at each cost the best design that it pays for. Some designs are named by their
        numbers of levels.

    Raises
    ------
    QuantityError
        For what are no found designs, and a level outside (0, 1).

    Examples
    --------
    >>> import gstudy as gs
    >>> study = gs.Study(score="passed", facets=[gs.Facet("task", role="legitimate")])
    >>> vc = gs.assume(study, {"task": 0.1, "residual": 0.14}, mean=0.6)
    >>> figure, axes = gs.plot_frontier(gs.design_frontier(vc, budget=50))
    >>> axes.get_xlabel()
    'cost, trials'
    """
    if not isinstance(found, FoundDesigns):
        raise refuse(
            "a frontier of designs",
            found,
            "what gs.design_frontier returns",
            "Such as gs.plot_frontier(gs.design_frontier(fit, budget=500)).",
        )
    frame = found.summary(level)
    figure, ax, _ = new_axes(ax, _HEIGHT_INCHES)
    on_points = found.goal not in _RISING and found.family != GAUSSIAN
    unit = 100.0 if on_points else 1.0
    _draw(ax, frame, unit, intervals=not found.assumed)
    cost = frame["cost"].to_numpy()
    if cost[0] > 0 and cost[-1] > _WIDE * cost[0]:
        log_axis(ax, "x", float(cost[0]), float(cost[-1]))
    ax.margins(x=0.04, y=0.1)
    ax.set_ylim(bottom=0)
    named = _name_designs(ax, frame, unit, found)
    clean(
        ax,
        grid="both",
        xlabel=f"cost, {found.currency}" if found.currency else "cost",
        ylabel=_GOALS[found.goal] + (", points" if on_points else ""),
    )
    write_above(ax, found.title, _caption(found, level, named), alarm=alarm_of(found.notes))
    return figure, ax


def _draw(ax: Axes, frame: pd.DataFrame, unit: float, *, intervals: bool) -> None:
    cost, mean = frame["cost"].to_numpy(), unit * frame["mean"].to_numpy()
    if intervals:
        low, high = unit * frame["lower"].to_numpy(), unit * frame["upper"].to_numpy()
        ax.vlines(cost, low, high, color=_BAND, linewidth=_width(cost), zorder=2)
    ax.plot(cost, mean, drawstyle="steps-post", color=COLOURS[0], linewidth=1.2, zorder=3)
    size = float(np.clip(150 / len(frame), 2.5, 6.0))
    ax.plot(cost, mean, "o", color=COLOURS[0], markersize=size, zorder=4)


def _width(cost: Array) -> float:
    return float(np.clip(120 / len(cost), 1.2, 4.0))


def _name_designs(ax: Axes, frame: pd.DataFrame, unit: float, found: FoundDesigns) -> list[str]:
    """Numbers of levels beside some designs; the facets that they are of."""
    facets = list(dict.fromkeys(facet for design in found.designs for facet in design))
    # Where the stairs leave room: above falling ones, under rising ones.
    rises = found.goal in _RISING
    chosen = _apart(frame["cost"].to_numpy(), log=ax.get_xscale() == "log")
    for place in chosen:
        row = frame.iloc[place]
        levels = " \N{MULTIPLICATION SIGN} ".join(
            "\N{EN DASH}" if (n := found.designs[place].get(facet)) is None else f"{n:,}"
            for facet in facets
        )
        if row["judges"] != "all":
            levels += f", {row['judges']}"
        ax.annotate(
            plain(levels),
            (row["cost"], unit * row["mean"]),
            xytext=(5, -5 if rises else 5),
            textcoords="offset points",
            va="top" if rises else "bottom",
            fontsize=8.5,
            color=INK,
            zorder=5,
            bbox={"boxstyle": "round,pad=0.1", "facecolor": "white", "alpha": 0.8, "lw": 0},
        )
    return facets


def _apart(cost: Array, *, log: bool) -> list[int]:
    """Places of designs that stand evenly along the axis, the first and the last among them."""
    along = np.log(cost) if log else cost
    wanted = np.linspace(along[0], along[-1], min(_MOST_NAMED, len(cost)))
    return sorted({int(np.abs(along - x).argmin()) for x in wanted})


def _caption(found: FoundDesigns, level: float, facets: list[str]) -> list[str]:
    if found.assumed:
        first = "score scale; assumed components, no intervals"
    else:
        first = (
            f"score scale; points: posterior means, bars: {100 * level:g}% equal-tailed intervals"
        )
    order = " \N{MULTIPLICATION SIGN} ".join(visible(name) for name in facets)
    return [first, f"numbers: levels of {order}"]
