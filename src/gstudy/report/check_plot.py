"""The plot of a posterior check: each observed statistic against its replicates."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from gstudy._marks import visible
from gstudy.display import number, shortened
from gstudy.errors import QuantityError, explain
from gstudy.questions.posterior_checks import PosteriorCheck
from gstudy.report.axes import figure_of
from gstudy.report.style import ALARM, INK, PALE, alarm_of

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from gstudy.variance.draws import Array

__all__ = ["plot_posterior_check"]

# Okabe and Ito (2008), told apart with any colour vision; marks and words say the same.
_COLOURS = {"fits": "#0072B2", "a little": "#E69F00", "too": "#D55E00"}
_MARKS = {"fits": "o", "a little": "D", "too": "X"}
_WORDS = {"fits": "fits", "a little": "outside 95%", "too": "outside 99%"}
_BAND = "#BBBBBB"

_LONGEST_LABEL = 34
_ROW_INCHES = 0.3
_AROUND_INCHES = 1.5
_WIDTH_INCHES = 8.5
_CAPTION_CHARACTERS = 88

# In sds of the replicates; what lies further out is drawn at the edge, with an arrow.
_REACH = 6.0


def plot_posterior_check(
    check: PosteriorCheck, *, level: float = 0.95, ax: Axes | None = None
) -> tuple[Figure, Axes]:
    """Observed statistics as points, their replicates as intervals; one row each, standardised.

    Parameters
    ----------
    check : PosteriorCheck
    level : float
        Of the interval of the replicates, in (0, 1).
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    figure : matplotlib.figure.Figure
    axes : matplotlib.axes.Axes
        x: distance from the median of the replicates in their sds. Beside each row the observed
        value and the interval in their own unit, score scale.

    Raises
    ------
    QuantityError
        For what is no posterior check, and a level outside (0, 1).

    Examples
    --------
    >>> import gstudy as gs
    >>> check = gs.posterior_check(gs.load("run.nc"))  # doctest: +SKIP
    >>> figure, axes = gs.plot_posterior_check(check)  # doctest: +SKIP
    """
    if not isinstance(check, PosteriorCheck):
        raise QuantityError(
            explain(
                "this plot is of a posterior check",
                given=type(check).__name__,
                allowed="what gs.posterior_check returns",
                do="Such as gs.plot_posterior_check(gs.posterior_check(fit)).",
            )
        )
    frame = check.summary(level)
    frame = frame.loc[check.table(level).frame.index]
    own = ax is None
    if ax is None:
        import matplotlib.pyplot as plt

        height = _AROUND_INCHES + _ROW_INCHES * len(frame)
        figure, ax = plt.subplots(
            figsize=(_WIDTH_INCHES, height), layout="constrained", facecolor="white"
        )
        ax.set_facecolor("white")
    else:
        figure = figure_of(ax)
    _draw(ax, frame)
    _style(ax, frame)
    _write(ax, check, level)
    # Beside the axes there is room only in a figure of our own.
    place = {"loc": "outside lower center", "ncols": 4} if own else {"loc": "lower right"}
    (figure if own else ax).legend(frameon=False, fontsize=9, **place)
    return figure, ax


def _draw(ax: Axes, frame: pd.DataFrame) -> None:
    places = np.arange(len(frame))
    unit = np.where(frame["sd"] > 0, frame["sd"], 1.0)
    away: dict[str, Array] = {
        key: np.asarray((frame[key] - frame["median"]) / unit, dtype=float)
        for key in ("lower", "upper", "observed")
    }
    seen = away["observed"]
    ax.hlines(
        places, away["lower"], away["upper"], color=_BAND, linewidth=7, zorder=2, label="replicates"
    )
    ax.axvline(0, color=PALE, linewidth=0.8, zorder=1)
    kinds = np.array([_kind(str(verdict)) for verdict in frame["verdict"]])
    for kind in _COLOURS:
        own = (kinds == kind) & ~np.isnan(seen)
        if own.any():
            far = own & (np.abs(seen) > _REACH)
            marks = {_MARKS[kind]: own & ~far, "<": far & (seen < 0), ">": far & (seen > 0)}
            for mark, chosen in marks.items():
                label = f"observed, {_WORDS[kind]}" if mark == _MARKS[kind] else None
                _points(ax, seen[chosen], places[chosen], mark, _COLOURS[kind], label)


def _points(
    ax: Axes, x: Array, y: npt.NDArray[np.intp], mark: str, colour: str, label: str | None
) -> None:
    ax.plot(
        np.clip(x, -_REACH, _REACH),
        y,
        linestyle="none",
        marker=mark,
        color=colour,
        markeredgecolor="white",
        markersize=8,
        zorder=3,
        label=label,
    )


def _kind(verdict: str) -> str:
    return next((kind for kind in ("too", "a little") if verdict.startswith(kind)), "fits")


def _style(ax: Axes, frame: pd.DataFrame) -> None:
    labels = shortened([visible(str(name)) for name in frame.index], _LONGEST_LABEL)
    # Labels are the user's: a dollar sign in one is no formula.
    ax.set_yticks(np.arange(len(frame)), [label.replace("$", r"\$") for label in labels])
    ax.set_ylim(len(frame) - 0.4, -0.6)
    ax.set_xlim(-_REACH - 0.4, _REACH + 0.4)
    ax.set_xlabel("distance from the median of the replicates, in their sds", fontsize=9)
    ax.tick_params(axis="both", length=0, labelsize=9, labelcolor=INK)
    ax.grid(axis="x", color="#EEEEEE", linewidth=0.8, zorder=0)
    ax.set_axisbelow(True)
    for side in ("top", "right", "bottom"):
        ax.spines[side].set_visible(False)
    ax.spines["left"].set_color("#AAAAAA")
    for place, row in enumerate(frame.itertuples()):
        text = f"{_plain(row.observed)}  [{_plain(row.lower)}, {_plain(row.upper)}]"
        ax.annotate(
            text,
            (1, place),
            xycoords=("axes fraction", "data"),
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
            fontsize=8.5,
            color=INK,
            annotation_clip=False,
        )


def _plain(value: Any) -> str:
    found = float(value)
    return "-" if np.isnan(found) else f"{found:.3f}" if abs(found) < 100 else number(found)


def _write(ax: Axes, check: PosteriorCheck, level: float) -> None:
    alarm = alarm_of(check.notes)
    caption = f"{check.scale} scale; right: observed value, {100 * level:g}% of replicates"
    lines = [*(textwrap.wrap(visible(alarm), _CAPTION_CHARACTERS) if alarm else []), caption]
    title = "Posterior check: observed against replicated trials"
    ax.set_title(title, loc="left", fontsize=10.5, color=INK, pad=12 + 13 * len(lines))
    ax.annotate(
        "\n".join(lines).replace("$", r"\$"),
        (0, 1),
        xycoords="axes fraction",
        xytext=(0, 8),
        textcoords="offset points",
        va="bottom",
        fontsize=9,
        color=ALARM if alarm else PALE,
    )
