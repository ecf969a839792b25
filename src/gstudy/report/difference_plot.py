"""The plot of the difference of two systems."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gstudy.display import percent
from gstudy.questions.differences import Comparison
from gstudy.report.ridges import HEIGHT, density, draw_interval, draw_ridge
from gstudy.report.style import (
    COLOURS,
    INK,
    PALE,
    alarm_of,
    clean,
    new_axes,
    refuse,
    row_labels,
    write_above,
)
from gstudy.variance.draws import proportion

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from gstudy.variance.draws import Array

__all__ = ["plot_difference"]

_ROW_INCHES = 0.75
_AROUND_INCHES = 1.7


def plot_difference(
    comparison: Comparison, *, level: float = 0.95, ax: Axes | None = None
) -> tuple[Figure, Axes]:
    """Posterior density of B - A under each named estimand.

    Parameters
    ----------
    comparison : Comparison
    level : float
        Posterior level of the equal-tailed intervals at the feet of the ridges.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    figure : matplotlib.figure.Figure
    axes : matplotlib.axes.Axes
        x: percentage points, of graded scores their unit. What counts as worse is shaded.

    Raises
    ------
    QuantityError
        For what is no comparison, and a level outside (0, 1).

    Examples
    --------
    >>> import gstudy as gs
    >>> gs.plot_difference(gs.compare_systems(fit, "A", "B"))  # doctest: +SKIP
    """
    level = proportion(level, "level")
    if not isinstance(comparison, Comparison):
        raise refuse(
            "the difference of two systems",
            comparison,
            "what gs.compare_systems returns",
            'Such as gs.plot_difference(gs.compare_systems(fit, "A", "B")).',
        )
    summary = comparison.summary(level)
    size = 100.0 if comparison.family == "binary" else 1.0
    draws = {str(x): size * comparison.draws.sel(estimand=x).to_numpy() for x in summary.index}
    figure, ax, _ = new_axes(ax, _AROUND_INCHES + _ROW_INCHES * len(draws))
    for place, (values, better) in enumerate(zip(draws.values(), summary["p_better"], strict=True)):
        _draw_row(ax, place, values, float(better), level)
    row_labels(ax, draws)
    ax.set_ylim(len(draws) - 0.7, -HEIGHT - 0.15)
    _mark_sides(ax, size * comparison.margin, np.concatenate([x.ravel() for x in draws.values()]))
    unit = "points" if comparison.family == "binary" else "score units"
    clean(ax, xlabel=f"difference of scores, {unit}")
    shaded = f"shaded: worse by more than {size * comparison.margin:g} {unit}"
    caption = [
        f"score scale; point: posterior mean, line: {100 * level:g}% equal-tailed interval",
        *([shaded] if comparison.margin else []),
    ]
    alarm = alarm_of(comparison.notes)
    title = f"{comparison.other} minus {comparison.baseline} (the baseline)"
    write_above(ax, title, caption, alarm=alarm)
    return figure, ax


def _draw_row(ax: Axes, place: int, values: Array, better: float, level: float) -> None:
    """One estimand: density, interval, and how probably B is better."""
    curve = density(values)
    # Each by its own peak: the rows are three questions, not one.
    peak = 1.0 if curve is None else float(curve[1].max())
    draw_ridge(ax, place, curve, peak, colour=COLOURS[0])
    draw_interval(ax, place, values, level)
    ax.annotate(
        f"P(better) {percent(better, 0)}",
        (1, place - 0.25),
        xycoords=("axes fraction", "data"),
        xytext=(8, 0),
        textcoords="offset points",
        va="center",
        fontsize=9,
        color=INK,
        annotation_clip=False,
    )


def _mark_sides(ax: Axes, margin: float, values: Array) -> None:
    """The line of no difference, and what counts as worse."""
    low, high = (float(x) for x in np.quantile(values, [0.0005, 0.9995]))
    space = 0.08 * (high - low)
    low, high = min(low - space, -space), max(high + space, space)
    ax.set_xlim(low, high)
    ax.axvline(0, color=PALE, linewidth=1.2, zorder=1)
    if margin:
        ax.axvspan(low, max(-margin, low), color="#EEEEEE", zorder=0)
