"""Plots of results: each returns its figure and axes, and changes no global style."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import numpy as np

from gstudy._marks import visible
from gstudy.display import bare_points, number, percent, points, shortened
from gstudy.errors import QuantityError, explain
from gstudy.fits.gates import stamp
from gstudy.report.axes import figure_of
from gstudy.report.style import ALARM, INK, PALE, alarm_of
from gstudy.variance.budgets import VarianceBudget
from gstudy.variance.structure import RESIDUAL

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


__all__ = ["plot_budget"]

# Okabe and Ito (2008): told apart with any colour vision, and in grey by their lightness.
_COLOURS = {
    "object": "#009E73",
    "legitimate": "#0072B2",
    "error": "#D55E00",
    "not separable": "#CC79A7",
}
_OTHER = "#999999"

_LONGEST_LABEL = 30
_BAR_INCHES = 0.4
_LINE_INCHES = 0.175
_AXIS_INCHES = 0.55
_WIDTH_INCHES = 8.0

# Characters of a line that fit beside the labels.
_TITLE_CHARACTERS = 64
_CAPTION_CHARACTERS = 76


def plot_budget(
    budget: VarianceBudget, *, level: float = 0.95, ax: Axes | None = None
) -> tuple[Figure, Axes]:
    """Share of each source in the variance of the score: bars with posterior intervals.

    Parameters
    ----------
    budget : VarianceBudget
    level : float
        Posterior level of the intervals and of the half-width's interval, in (0, 1).
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    figure : matplotlib.figure.Figure
    axes : matplotlib.axes.Axes

    Raises
    ------
    QuantityError
        For what is no budget, and a level outside (0, 1).

    Examples
    --------
    >>> import gstudy as gs
    >>> study = gs.Study(score="passed", facets=[gs.Facet("task", role="legitimate")])
    >>> vc = gs.assume(study, {"task": 9.0}, mu=0.0, scale="logit")
    >>> figure, axes = gs.plot_budget(gs.variance_budget(vc, {"task": 100}))
    >>> [text.get_text() for text in axes.get_yticklabels()]
    ['task', 'residual']
    """
    if not isinstance(budget, VarianceBudget):
        raise QuantityError(
            explain(
                "a plot is of a budget",
                given=type(budget).__name__,
                allowed="what gs.variance_budget returns",
                do="Such as gs.plot_budget(gs.variance_budget(fit)).",
            )
        )
    frame = budget.summary(level).sort_values("share", ascending=False, kind="stable")
    title, caption, failed = _words(budget, level)
    own, several_roles = ax is None, frame["role"].nunique() > 1
    if ax is None:
        figure, ax = _new_figure(len(frame), len(title) + len(caption) + 2 * several_roles)
    else:
        figure = figure_of(ax)
    _draw_bars(ax, frame, intervals=not budget.assumed)
    _style(ax, frame)
    _write_above(ax, title, caption, failed=failed)
    if several_roles:
        # Beside the axes there is room only in a figure of our own.
        place = {"loc": "outside lower right", "ncols": 4} if own else {"loc": "lower right"}
        (figure if own else ax).legend(frameon=False, fontsize=9, **place)
    return figure, ax


def _new_figure(n_bars: int, n_lines: int) -> tuple[Figure, Axes]:
    """As high as bars of one thickness and the lines of text around them need."""
    import matplotlib.pyplot as plt

    height = _AXIS_INCHES + _BAR_INCHES * n_bars + _LINE_INCHES * n_lines
    figure, ax = plt.subplots(
        figsize=(_WIDTH_INCHES, height), layout="constrained", facecolor="white"
    )
    ax.set_facecolor("white")
    return figure, ax


def _draw_bars(ax: Axes, frame: pd.DataFrame, *, intervals: bool) -> None:
    places = np.arange(len(frame))
    share = frame["share"].to_numpy()
    for role in dict.fromkeys(frame["role"]):
        own = (frame["role"] == role).to_numpy()
        colour = _COLOURS.get(role, _OTHER)
        ax.barh(places[own], share[own], height=0.62, color=colour, label=role, zorder=2)
    ends = share
    if intervals:
        low, high = frame["share_lower"].to_numpy(), frame["share_upper"].to_numpy()
        # The mean of a skewed share may lie outside a narrow interval.
        reach = [np.maximum(share - low, 0), np.maximum(high - share, 0)]
        ax.errorbar(
            share, places, xerr=reach, fmt="none", ecolor=INK, elinewidth=1.2, capsize=3, zorder=3
        )
        ends = np.maximum(share, high)
    for place, value, end in zip(places, share, ends, strict=True):
        ax.annotate(
            percent(value),
            (end, place),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
            color=INK,
        )


def _style(ax: Axes, frame: pd.DataFrame) -> None:
    labels = shortened([visible(str(name)) for name in frame.index], _LONGEST_LABEL)
    # Labels are the user's: a dollar sign in one is no formula.
    ax.set_yticks(np.arange(len(frame)), [label.replace("$", r"\$") for label in labels])
    ax.set_ylim(len(frame) - 0.5, -0.5)
    ax.set_xlim(0, 1.12)
    ticks = np.linspace(0, 1, 6)
    ax.set_xticks(ticks, [percent(tick, 0) for tick in ticks])
    ax.set_xlabel("share of the variance of the reported score", fontsize=9, color=INK)
    ax.tick_params(axis="both", length=0, labelsize=9, labelcolor=INK)
    ax.grid(axis="x", color="#DDDDDD", linewidth=0.8, zorder=0)
    ax.set_axisbelow(True)
    for side in ("top", "right", "bottom"):
        ax.spines[side].set_visible(False)
    ax.spines["left"].set_color("#AAAAAA")


def _words(budget: VarianceBudget, level: float) -> tuple[list[str], list[str], bool]:
    """Title: whose score; caption: its width, scale, level and any stamp; whether there is one."""
    title = textwrap.wrap(visible(f"Variance budget: {budget.estimand}"), _TITLE_CHARACTERS)
    lines = [
        f"Half-width of the score's 95% interval: {_width(budget, level)}",
        _reading(budget, level),
        *_residual_lines(budget),
    ]
    note = alarm_of(budget.notes)
    if note is None and not budget.assumed:
        note = stamp(budget.draws)
    stamped = textwrap.wrap(visible(note), _CAPTION_CHARACTERS) if note else []
    return title, [*stamped, *lines], bool(note)


def _residual_lines(budget: VarianceBudget) -> list[str]:
    if RESIDUAL not in budget.rows:
        return []
    # The chance of the trial itself is always in it, and named last.
    others = budget.rows[RESIDUAL]["includes"].rpartition(", ")[0]
    text = "residual: chance in a single trial" + (f", and {others}" if others else "")
    return textwrap.wrap(visible(text), _CAPTION_CHARACTERS)


def _write_above(ax: Axes, title: list[str], caption: list[str], *, failed: bool) -> None:
    lines = [line.replace("$", r"\$") for line in caption]
    text = "\n".join(title).replace("$", r"\$")
    ax.set_title(text, loc="left", fontsize=10.5, color=INK, pad=10 + 13 * len(lines))
    ax.annotate(
        "\n".join(lines),
        (0, 1),
        xycoords="axes fraction",
        xytext=(0, 6),
        textcoords="offset points",
        va="bottom",
        fontsize=9,
        color=ALARM if failed else PALE,
    )


def _width(budget: VarianceBudget, level: float) -> str:
    tail = (1 - level) / 2
    width = budget.half_width(0.95).to_numpy().ravel()
    low, high = np.quantile(width, [tail, 1 - tail])
    shown = _amount(budget.scale, float(width.mean()))
    if budget.assumed:
        return f"±{shown}"
    low_text, high_text = (_bare(budget.scale, float(x)) for x in (low, high))
    return f"±{shown} ({low_text} to {high_text})"


def _amount(scale: str, x: float) -> str:
    return points(x) if scale == "score" else f"{number(x)} logits"


def _bare(scale: str, x: float) -> str:
    return bare_points(x) if scale == "score" else number(x)


def _reading(budget: VarianceBudget, level: float) -> str:
    if budget.assumed:
        return f"{budget.scale} scale; assumed components, no intervals"
    lines = f"lines: {100 * level:g}% equal-tailed intervals"
    return f"{budget.scale} scale; bars: posterior mean, {lines}"
