"""The one style of all plots: colours, marks, axes, and the words above them."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from gstudy._marks import visible
from gstudy.display import shortened
from gstudy.errors import QuantityError, explain
from gstudy.fits.gates import STAMP
from gstudy.report.axes import figure_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "ALARM",
    "COLOURS",
    "GRID",
    "INK",
    "LINES",
    "MARKS",
    "PALE",
    "alarm_of",
    "clean",
    "new_axes",
    "plain",
    "put_legend",
    "refuse",
    "row_labels",
    "wrapped_lines",
    "write_above",
]

# Okabe and Ito (2008), told apart with any colour vision, neighbours of unlike lightness; marks
# and line styles say the same in grey.
COLOURS = ("#0072B2", "#E69F00", "#D55E00", "#56B4E9", "#009E73", "#444444", "#CC79A7")
MARKS = ("o", "s", "^", "D", "v", "P", "X")
LINES = ("-", "--", ":", "-.")
INK = "#222222"
PALE = "#666666"
GRID = "#DDDDDD"
ALARM = "#B00020"

_LONGEST_LABEL = 34
_WIDTH_INCHES = 8.0
_LINE_POINTS = 13
_CHARACTERS_AN_INCH = 15.0


def new_axes(
    ax: Axes | None, height: float, width: float = _WIDTH_INCHES
) -> tuple[Figure, Axes, bool]:
    """The axes to draw on, their figure, and whether the figure is our own."""
    if ax is not None:
        return figure_of(ax), ax, False
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(width, height), layout="constrained", facecolor="white")
    ax.set_facecolor("white")
    return figure, ax, True


def alarm_of(notes: Iterable[str]) -> str | None:
    """The stamp among the notes of a result: that its numbers must not be published.

    >>> alarm_of(["two systems", "NOT CONVERGED: 2 divergences."])
    'NOT CONVERGED: 2 divergences.'
    """
    return next((note for note in notes if note.startswith(STAMP)), None)


def plain(text: object) -> str:
    """A label as it is drawn: a dollar sign is no formula, a control character no mark."""
    return visible(str(text)).replace("$", r"\$")


def row_labels(ax: Axes, names: Iterable[object], longest: int = _LONGEST_LABEL) -> None:
    """Labels of the rows 0, 1, ... from the top; long ones lose their middle."""
    labels = shortened([visible(str(name)) for name in names], longest)
    ax.set_yticks(np.arange(len(labels)), [label.replace("$", r"\$") for label in labels])


def clean(ax: Axes, *, grid: str = "x", xlabel: str = "", ylabel: str = "") -> None:
    """No frame but at the left, a pale grid, small ticks."""
    ax.tick_params(axis="both", length=0, labelsize=9, labelcolor=INK)
    ax.grid(axis="both" if grid == "both" else "x" if grid == "x" else "y", color=GRID, lw=0.8)
    ax.set_axisbelow(True)
    for side in ("top", "right", "bottom"):
        ax.spines[side].set_visible(False)
    ax.spines["left"].set_color("#AAAAAA")
    if xlabel:
        ax.set_xlabel(xlabel, fontsize=9, color=INK)
    if ylabel:
        ax.set_ylabel(ylabel, fontsize=9, color=INK)


def write_above(
    ax: Axes, title: str, caption: Sequence[str], *, alarm: str | None = None, inches: float = 6.0
) -> None:
    """Title and caption above the axes, an alarm before the caption and in its colour.

    Parameters
    ----------
    ax : Axes
    title : str
    caption : sequence of str
        One sentence an entry, each on lines of its own.
    alarm : str, optional
        A stamp of numbers that must not be published.
    inches : float
        Width that lines are wrapped to.
    """
    most = int(_CHARACTERS_AN_INCH * inches)
    lines = [*([alarm] if alarm else []), *caption]
    below = [part for line in lines for part in wrapped_lines(line, most)]
    above = wrapped_lines(title, int(0.85 * most))
    pad = 10 + _LINE_POINTS * len(below)
    ax.set_title("\n".join(map(plain, above)), loc="left", fontsize=10.5, color=INK, pad=pad)
    ax.annotate(
        "\n".join(map(plain, below)),
        (0, 1),
        xycoords="axes fraction",
        xytext=(0, 6),
        textcoords="offset points",
        va="bottom",
        fontsize=9,
        color=ALARM if alarm else PALE,
        annotation_clip=False,
    )


def put_legend(
    figure: Figure, ax: Axes, *, own: bool, side: str = "lower center", marks: float = 1.0
) -> None:
    """The legend outside of our own axes, inside given ones; `marks`: how much larger they are."""
    place: dict[str, Any] = {"loc": "best"}
    if own:
        place = {"loc": f"outside {side}", "ncols": 1 if side == "right upper" else 4}
    (figure if own else ax).legend(frameon=False, fontsize=9, markerscale=marks, **place)


def wrapped_lines(text: str, most: int) -> list[str]:
    """The text in lines of so many characters."""
    return textwrap.wrap(visible(text), most)


def refuse(what: str, given: object, allowed: str, do: str) -> QuantityError:
    """The error of a plot that is given something else; raise what it returns."""
    return QuantityError(
        explain(f"this plot is of {what}", given=type(given).__name__, allowed=allowed, do=do)
    )
