"""The plot of a convergence curve: ICC at growing numbers of rollouts, and where it is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from gstudy._marks import visible
from gstudy._words import plural
from gstudy.errors import QuantityError, did_you_mean, explain
from gstudy.questions.convergence_curves import LIKE_THESE, THESE, WIDTHS, Convergence
from gstudy.report.style import (
    COLOURS,
    INK,
    alarm_of,
    clean,
    new_axes,
    plain,
    put_legend,
    refuse,
    write_above,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["plot_convergence"]

_HEIGHT_INCHES = 4.9
# Column prefix, colour, line, mark and sideways shift (in powers of 2) of each estimand.
_LOOKS = {
    LIKE_THESE: ("", COLOURS[0], "-", "o", -0.06),
    THESE: ("these_", COLOURS[2], "--", "s", 0.06),
}
_MARKS = {WIDTHS[0]: "v", WIDTHS[1]: "*"}
_BETWEEN = 1.05


def plot_convergence(
    found: Convergence,
    *,
    group: str | None = None,
    level: float = 0.95,
    ax: Axes | None = None,
) -> tuple[Figure, Axes]:
    """ICC at growing numbers of rollouts, of tasks like these and of these tasks.

    Parameters
    ----------
    found : Convergence
    group : str, optional
        Which of several groups, such as a system.
    level : float
        Posterior level of the equal-tailed intervals, and of the widths that are marked.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    figure : matplotlib.figure.Figure
    axes : matplotlib.axes.Axes
        Above the curves marks where the interval is narrower than 0.1 and than 0.05 from there on.

    Raises
    ------
    QuantityError
        For what is no convergence curve, no group where there are several, an unknown one, and a
        level outside (0, 1).

    Examples
    --------
    >>> import gstudy as gs
    >>> gs.plot_convergence(gs.convergence(study, trials), group="A")  # doctest: +SKIP
    """
    if not isinstance(found, Convergence):
        raise refuse(
            "a convergence curve",
            found,
            "what gs.convergence returns",
            "Such as gs.plot_convergence(gs.convergence(study, trials)).",
        )
    summary = found.summary(level)
    name = _checked_group(group, list(dict.fromkeys(map(str, summary.index.get_level_values(0)))))
    frame = cast("pd.DataFrame", summary.xs(name, level=0))
    reached = cast("pd.Series[float]", found.stays_below(WIDTHS, level=level).loc[name])
    figure, ax, own = new_axes(ax, _HEIGHT_INCHES)
    _draw_curves(ax, frame, found.facet)
    _draw_marks(ax, frame, reached)
    _draw_anova(ax, frame)
    rollouts = frame.index.to_numpy(dtype=float)
    ax.set_xscale("log", base=2)
    ax.set_xticks(rollouts, [f"{n:,.0f}" for n in rollouts])
    ax.minorticks_off()
    ax.set_xlim(rollouts[0] / 2**0.25, rollouts[-1] * 2**0.25)
    ax.set_ylim(0, min(1.08, 1.15 * _top(frame)))
    facet = visible(found.facet)
    clean(ax, grid="both", xlabel=plain(f"rollouts of each {facet}"), ylabel=plain(f"ICC({facet})"))
    several = len(found.n_levels) > 1
    title = f"ICC({facet}) by rollouts of each {facet}" + (f": {visible(name)}" if several else "")
    write_above(ax, title, _caption(found, reached, level), alarm=alarm_of(found.notes))
    put_legend(figure, ax, own=own)
    return figure, ax


def _checked_group(group: str | None, known: list[str]) -> str:
    if group is None and len(known) == 1:
        return known[0]
    if group not in known:
        raise QuantityError(
            explain(
                "the curve is of one group" if group is None else f"there is no group {group!r}",
                allowed=known,
                do="Name it by group=." if group is None else did_you_mean(str(group), known),
            )
        )
    return group


def _draw_curves(ax: Axes, frame: pd.DataFrame, facet: str) -> None:
    rollouts = frame.index.to_numpy(dtype=float)
    for estimand, (prefix, colour, line, mark, shift) in _LOOKS.items():
        mean, low, high = (frame[f"{prefix}{end}"].to_numpy() for end in ("mean", "lower", "upper"))
        if np.isnan(mean).all():
            continue
        x = rollouts * 2**shift
        ax.vlines(x, low, high, color=colour, linestyle=line, linewidth=1.6, zorder=3)
        ax.fill_between(x, low, high, color=colour, alpha=0.12, linewidth=0, zorder=1)
        label = plain(_whose(estimand, facet))
        ax.plot(
            x, mean, color=colour, linestyle=line, marker=mark, markersize=6, zorder=4, label=label
        )


def _draw_marks(ax: Axes, frame: pd.DataFrame, reached: pd.Series[float]) -> None:
    """At the upper end of the first interval from which on all are narrower."""
    for width, mark in _MARKS.items():
        label: str | None = f"narrower than {width:g} from here on"
        for estimand, (prefix, colour, _, _, shift) in _LOOKS.items():
            first = reached[estimand, width]
            if np.isnan(first):
                continue
            top = float(frame[f"{prefix}upper"].to_numpy()[frame.index == first][0])
            ax.plot(
                [first * 2**shift],
                [_BETWEEN * top],
                marker=mark,
                markersize=9,
                color=colour,
                markeredgecolor=INK,
                linestyle="none",
                zorder=5,
            )
            if label is not None:
                ax.plot(
                    [],
                    [],
                    marker=mark,
                    color="white",
                    markeredgecolor=INK,
                    markersize=9,
                    linestyle="none",
                    label=label,
                )
                label = None


def _draw_anova(ax: Axes, frame: pd.DataFrame) -> None:
    ax.plot(
        frame.index.to_numpy(dtype=float),
        frame["anova"].to_numpy(),
        marker="x",
        markersize=6,
        markeredgewidth=1.5,
        color=INK,
        linestyle="none",
        zorder=4,
        label="ANOVA ICC(1,1)",
    )


def _top(frame: pd.DataFrame) -> float:
    return float(np.nanmax(frame[["upper", "these_upper", "anova"]].to_numpy()))


def _whose(estimand: str, facet: str) -> str:
    many = plural(visible(facet))
    return f"{many} like these" if estimand == LIKE_THESE else f"these {many}"


def _caption(found: Convergence, reached: pd.Series[float], level: float) -> list[str]:
    lines = [
        f"score scale; points: posterior means, lines: {100 * level:g}% equal-tailed intervals"
    ]
    graded = bool(np.isnan(found.draws.sel(estimand=THESE)).all())
    for width in WIDTHS:
        told = [
            f"{_whose(estimand, found.facet)} {_when(reached[estimand, width])}"
            for estimand in _LOOKS
            if estimand == LIKE_THESE or not graded
        ]
        lines.append(f"interval narrower than {width:g}: {', '.join(told)}")
    return lines


def _when(first: float) -> str:
    return "not reached" if np.isnan(first) else f"from {first:,.0f} on"
