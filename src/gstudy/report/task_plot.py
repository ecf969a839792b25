"""The plot of the tasks: expected score of each, sorted, with its interval."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gstudy._words import plural
from gstudy.display import number
from gstudy.questions.tasks import FLAKY, TaskTable
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

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["plot_tasks"]

_MOST_LABELLED = 60
_ROW_INCHES = 0.2
_AROUND_INCHES = 1.7
_LARGE_INCHES = 4.8
_DEAD = COLOURS[2]
_BAND = "#9CB8CC"


def plot_tasks(
    tasks: TaskTable, *, level: float = 0.95, ax: Axes | None = None
) -> tuple[Figure, Axes]:
    """Tasks sorted by their expected score, with intervals (a caterpillar).

    Parameters
    ----------
    tasks : TaskTable
    level : float
        Posterior level of the equal-tailed intervals.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    figure : matplotlib.figure.Figure
    axes : matplotlib.axes.Axes
        Up to 60 tasks are rows with their labels; more stand side by side, without labels.

    Raises
    ------
    QuantityError
        For what is no table of tasks, and a level outside (0, 1).

    Examples
    --------
    >>> import gstudy as gs
    >>> gs.plot_tasks(gs.task_table(gs.load("run.nc")))  # doctest: +SKIP
    """
    if not isinstance(tasks, TaskTable):
        raise refuse(
            "a table of tasks",
            tasks,
            "what gs.task_table returns",
            "Such as gs.plot_tasks(gs.task_table(fit)).",
        )
    frame = tasks.summary(level)
    labelled = len(frame) <= _MOST_LABELLED
    height = _AROUND_INCHES + _ROW_INCHES * len(frame) if labelled else _LARGE_INCHES
    figure, ax, own = new_axes(ax, height)
    (_draw_rows if labelled else _draw_columns)(ax, frame, tasks)
    alarm = alarm_of(tasks.notes)
    write_above(
        ax,
        f"{plural(tasks.facet).capitalize()}, sorted: {tasks.estimand}",
        _caption(tasks, level),
        alarm=alarm,
        inches=6.6,
    )
    put_legend(figure, ax, own=own, marks=1.0 if labelled else 2.0)
    return figure, ax


def _caption(tasks: TaskTable, level: float) -> list[str]:
    lines = [f"score scale; point: posterior mean, line: {100 * level:g}% equal-tailed interval"]
    if tasks.live is not None:
        live = number(float(tasks.live.mean()))
        lines.append(
            f"{len(tasks.observed):,} {plural(tasks.facet)}, {tasks.n_dead:,} dead; effective "
            f"number of live ones {live}; dotted: flaky from {FLAKY[0]:.2f} to {FLAKY[1]:.2f}"
        )
    return lines


def _draw_rows(ax: Axes, frame: pd.DataFrame, tasks: TaskTable) -> None:
    places = np.arange(len(frame))
    ax.hlines(places, frame["lower"], frame["upper"], color=_BAND, linewidth=3.5, zorder=2)
    ax.plot(frame["mean"], places, "o", color=COLOURS[0], markersize=5, zorder=4, label="expected")
    ax.plot(
        frame["rate"],
        places,
        "|",
        color=INK,
        markersize=9,
        markeredgewidth=1.5,
        zorder=3,
        label="observed",
    )
    dead = frame["dead"].to_numpy(dtype=bool)
    if dead.any():
        ax.plot(
            frame["rate"][dead],
            places[dead],
            "X",
            color=_DEAD,
            markeredgecolor="white",
            markersize=8,
            zorder=5,
            label="dead, observed",
        )
    row_labels(ax, frame.index)
    # The best at the top, as the columns of many tasks rise.
    ax.set_ylim(-0.7, len(frame) - 0.3)
    clean(ax, xlabel=_unit(tasks))
    if tasks.family == "binary":
        ax.set_xlim(-0.02, 1.02)
        for bound in FLAKY:
            ax.axvline(bound, color=PALE, linestyle=":", linewidth=1, zorder=1)


def _draw_columns(ax: Axes, frame: pd.DataFrame, tasks: TaskTable) -> None:
    places = np.arange(len(frame)) + 1
    width = float(np.clip(500 / len(frame), 0.45, 3.0))
    ax.vlines(places, frame["lower"], frame["upper"], color=_BAND, linewidth=width, zorder=2)
    dead = frame["dead"].to_numpy(dtype=bool)
    size = float(np.clip(900 / len(frame), 1.6, 4.0))
    ax.plot(
        places[~dead],
        frame["rate"][~dead],
        "o",
        color=COLOURS[1],
        markersize=size,
        markeredgecolor="none",
        alpha=0.8,
        zorder=3,
        label="observed",
    )
    if dead.any():
        ax.plot(
            places[dead],
            frame["rate"][dead],
            "|",
            color=_DEAD,
            markersize=7,
            markeredgewidth=max(0.5 * width, 0.6),
            zorder=3,
            label="dead, observed",
            clip_on=False,
        )
    ax.plot(places, frame["mean"], color=INK, linewidth=1.6, zorder=4, label="expected")
    ax.set_xlim(0, len(frame) + 1)
    clean(ax, grid="y", xlabel=f"{plural(tasks.facet)}, sorted", ylabel=_unit(tasks))
    if tasks.family == "binary":
        ax.set_ylim(-0.02, 1.02)
        for bound in FLAKY:
            ax.axhline(bound, color=PALE, linestyle=":", linewidth=1, zorder=1)


def _unit(tasks: TaskTable) -> str:
    return "pass rate" if tasks.family == "binary" else "mean score"
