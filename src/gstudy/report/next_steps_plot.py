"""The plot of next steps: the half-width of the score after each single change of a design."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gstudy._marks import visible
from gstudy.display import bare_points, number
from gstudy.planning.steps import FEWER, FLOOR, MORE, NOW, ONE, PIN, NextSteps
from gstudy.report.style import (
    COLOURS,
    INK,
    PALE,
    alarm_of,
    clean,
    new_axes,
    put_legend,
    refuse,
    row_labels,
    write_above,
)
from gstudy.report.ticks import amount
from gstudy.variance.latent import GAUSSIAN

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["plot_next_steps"]

_ROW_INCHES = 0.3
_AROUND_INCHES = 1.75
_LONGEST_LABEL = 36
_WIDTH_INCHES = 8.0
_CHARACTERS_AN_INCH = 14.0
# Bars of so many times the half-width now, and longer ones, are cut.
_FARTHEST = 2.5
# Colour and hatch of each kind, so that they differ in grey too.
_LOOKS = {
    NOW: ("#777777", ""),
    MORE: (COLOURS[0], ""),
    FEWER: (COLOURS[6], ".."),
    FLOOR: (COLOURS[3], "////"),
    ONE: (COLOURS[1], "xxxx"),
    PIN: ("#BBBBBB", ""),
}


def plot_next_steps(
    steps: NextSteps, *, level: float = 0.95, ax: Axes | None = None
) -> tuple[Figure, Axes]:
    """Half-width of the score after each single change of a design, with what it costs.

    Parameters
    ----------
    steps : NextSteps
    level : float
        Posterior level of the equal-tailed intervals of the half-widths.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    figure : matplotlib.figure.Figure
    axes : matplotlib.axes.Axes
        The design now on top, under it the changes by kind, the narrowest first; at the right what
        is added.

    Raises
    ------
    QuantityError
        For what are no next steps, and a level outside (0, 1).

    Examples
    --------
    >>> import gstudy as gs
    >>> study = gs.Study(score="passed", facets=[gs.Facet("task", role="legitimate")])
    >>> vc = gs.assume(study, {"task": 0.1, "residual": 0.14}, mean=0.6)
    >>> figure, axes = gs.plot_next_steps(gs.next_steps(vc, {"task": 100}))
    >>> [text.get_text() for text in axes.get_yticklabels()][:2]
    ['now', 'task: 100 to 200']
    """
    if not isinstance(steps, NextSteps):
        raise refuse(
            "next steps",
            steps,
            "what gs.next_steps returns",
            "Such as gs.plot_next_steps(gs.next_steps(fit)).",
        )
    frame = _ordered(steps.summary(level))
    figure, ax, own = new_axes(ax, _AROUND_INCHES + _ROW_INCHES * len(frame))
    _draw_bars(ax, frame, _unit(steps), intervals=not steps.assumed)
    cut = _write_widths(ax, frame, steps)
    _write_added(ax, frame, "trials" if steps.currency == "trials" else "cost")
    row_labels(ax, frame.index, _LONGEST_LABEL)
    ax.set_ylim(len(frame) - 0.4, -0.6)
    points = "" if steps.family == GAUSSIAN else ", points"
    what = f"half-width of the {100 * steps.coverage:g}% interval of the score{points}"
    clean(ax, xlabel=what)
    write_above(
        ax,
        f"Next steps from {steps.estimand}",
        _caption(steps, level, cut=cut),
        alarm=alarm_of(steps.notes),
        inches=_WIDTH_INCHES - 0.4 - _longest(frame) / _CHARACTERS_AN_INCH,
    )
    put_legend(figure, ax, own=own)
    return figure, ax


def _longest(frame: pd.DataFrame) -> int:
    """Characters of the longest label as it is drawn: the words stand right of it."""
    return min(_LONGEST_LABEL, max(len(visible(str(name))) for name in frame.index))


def _ordered(frame: pd.DataFrame) -> pd.DataFrame:
    """By kind, the narrowest first."""
    places = {kind: i for i, kind in enumerate(_LOOKS)}
    keys = frame.assign(place=frame["kind"].map(places))
    return keys.sort_values(["place", "mean"], kind="stable").drop(columns="place")


def _draw_bars(ax: Axes, frame: pd.DataFrame, unit: float, *, intervals: bool) -> None:
    rows = np.arange(len(frame))
    mean = unit * frame["mean"].to_numpy()
    for kind, (colour, hatch) in _LOOKS.items():
        own = (frame["kind"] == kind).to_numpy()
        if own.any():
            # Its row says so.
            label = None if kind == NOW else kind
            style: dict[str, Any] = {"color": colour, "hatch": hatch, "edgecolor": "white"}
            ax.barh(rows[own], mean[own], height=0.66, linewidth=0, label=label, zorder=2, **style)
    ax.axvline(mean[0], color=INK, linestyle="--", linewidth=1, zorder=3)
    if intervals:
        ends = unit * frame[["lower", "upper"]].to_numpy().T
        # White under black: seen on dark bars too.
        ax.hlines(rows, *ends, color="white", linewidth=3.4, zorder=4)
        ax.hlines(rows, *ends, color=INK, linewidth=1.4, zorder=5)


def _write_widths(ax: Axes, frame: pd.DataFrame, steps: NextSteps) -> bool:
    """The mean beside each bar; whether the axis cuts some that are far longer."""
    unit = _unit(steps)
    mean = unit * frame["mean"].to_numpy()
    ends = mean if steps.assumed else np.maximum(mean, unit * frame["upper"].to_numpy())
    most = 1.16 * float(ends[mean <= _FARTHEST * mean[0]].max()) or 1.0
    ax.set_xlim(0, most)
    for row, (value, end) in enumerate(zip(mean, ends, strict=True)):
        cut = value > most
        told = number(value) if steps.family == GAUSSIAN else bare_points(value / unit)
        ax.annotate(
            f"{told} \N{RIGHTWARDS ARROW}" if cut else told,
            (most if cut else end, row),
            xytext=(-6 if cut else 6, 0),
            textcoords="offset points",
            ha="right" if cut else "left",
            va="center",
            fontsize=9,
            color=INK,
            zorder=6,
            bbox={"boxstyle": "round,pad=0.1", "facecolor": "white", "lw": 0},
        )
    return bool((mean > most).any())


def _unit(steps: NextSteps) -> float:
    return 1.0 if steps.family == GAUSSIAN else 100.0


def _write_added(ax: Axes, frame: pd.DataFrame, currency: str) -> None:
    """What each step adds, right of the axes."""
    for row, (kind, added) in enumerate(
        zip(frame["kind"], frame[f"added_{currency}"], strict=True)
    ):
        if kind in (NOW, PIN) or np.isnan(added):
            continue
        sign = "+" if added >= 0 else "\N{MINUS SIGN}"
        told = f"{sign}{amount(abs(added))}"
        ax.annotate(
            f"{told} trials" if currency == "trials" else f"cost {told}",
            (1, row),
            xycoords=("axes fraction", "data"),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
            color=PALE,
            annotation_clip=False,
        )


def _caption(steps: NextSteps, level: float, *, cut: bool) -> list[str]:
    if steps.assumed:
        first = "score scale; assumed components, no intervals; dashed: now"
    else:
        lines = f"lines: {100 * level:g}% equal-tailed intervals"
        first = f"score scale; bars: posterior means, {lines}; dashed: now"
    kinds = {step.kind for step in steps.steps}
    narrower = "pin it: the interval is of these levels alone, and says nothing of others"
    longer = "arrow: the bar is longer than the axis"
    return [first, *([narrower] if PIN in kinds else []), *([longer] if cut else [])]
