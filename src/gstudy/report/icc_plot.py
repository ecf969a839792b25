"""The plot of intraclass correlations: one density per system, and accuracy against ICC."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from gstudy._marks import visible
from gstudy.display import shortened
from gstudy.questions.levels import LevelSummary
from gstudy.questions.ranking import Leaderboard
from gstudy.report.ridges import HEIGHT, density, draw_interval, draw_ridge
from gstudy.report.style import (
    COLOURS,
    INK,
    LINES,
    MARKS,
    alarm_of,
    clean,
    new_axes,
    put_legend,
    refuse,
    row_labels,
    write_above,
)
from gstudy.variance.coefficients import Coefficient
from gstudy.variance.draws import proportion

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from gstudy.variance.draws import Array

__all__ = ["plot_accuracy_icc", "plot_icc"]

_ROW_INCHES = 0.48
_AROUND_INCHES = 1.25
_LEGEND_LABEL = 26
# Draws nearer to 0 or 1 are taken as this near, so that their logit is finite.
_EDGE = 1e-6

Source = Coefficient | Leaderboard | LevelSummary | Mapping[str, Coefficient]


def plot_icc(source: Source, *, level: float = 0.95, ax: Axes | None = None) -> tuple[Figure, Axes]:
    """Posterior density of an ICC, one ridge per system, the most reliable first.

    Parameters
    ----------
    source : Leaderboard, LevelSummary, Coefficient, or mapping of str to Coefficient
        From `gs.scores` or `gs.level_summary` of fits with own variances, from `gs.icc`, or
        several of the latter by name.
    level : float
        Posterior level of the equal-tailed intervals at the feet of the ridges.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    figure : matplotlib.figure.Figure
    axes : matplotlib.axes.Axes

    Raises
    ------
    QuantityError
        For what has no ICC, and a level outside (0, 1).

    Examples
    --------
    >>> import gstudy as gs
    >>> gs.plot_icc(gs.icc(gs.load("run.nc"), "task"))  # doctest: +SKIP
    """
    level = proportion(level, "level")
    name, draws, scale, notes = _read(source)
    order = sorted(draws, key=lambda label: -float(np.median(draws[label])))
    figure, ax, _ = new_axes(ax, _AROUND_INCHES + _ROW_INCHES * (len(order) + 0.4))
    curves = {label: density(draws[label], (0.0, 1.0)) for label in order}
    peak = max([float(c[1].max()) for c in curves.values() if c is not None], default=1.0)
    for place, label in enumerate(order):
        draw_ridge(ax, place, curves[label], peak, colour=COLOURS[0])
        draw_interval(ax, place, draws[label], level)
    row_labels(ax, order)
    ax.set_ylim(len(order) - 0.65, -HEIGHT - 0.15)
    ax.set_xlim(0, 1)
    clean(ax, xlabel=f"{visible(name)}: correlation of two trials that share it")
    caption = f"{scale} scale; ridge: posterior density, point: mean, line: {_interval(level)}"
    alarm = alarm_of(notes)
    write_above(ax, name, [caption], alarm=alarm)
    return figure, ax


def plot_accuracy_icc(
    board: Leaderboard, *, level: float = 0.95, ax: Axes | None = None
) -> tuple[Figure, Axes]:
    """Score against ICC, with the region that holds a system's joint posterior draws.

    Parameters
    ----------
    board : Leaderboard
        From `gs.scores` of fits with own variances, pass rates.
    level : float
        Share of the joint draws inside each region.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    figure : matplotlib.figure.Figure
    axes : matplotlib.axes.Axes

    Raises
    ------
    QuantityError
        For what is no leaderboard, one without ICCs, and a level outside (0, 1).

    Notes
    -----
    A region is the ellipse about the mean of (logit score, logit ICC) that holds exactly this share
    of the draws by their Mahalanobis distance, taken back to the score scale.

    Examples
    --------
    >>> import gstudy as gs
    >>> gs.plot_accuracy_icc(gs.scores(fits))  # doctest: +SKIP
    """
    level = proportion(level, "level")
    iccs: xr.DataArray | None = getattr(board, "icc", None)
    if iccs is None or board.family != "binary":
        raise refuse(
            "scores of systems with ICCs of their own",
            board,
            "what gs.scores returns of fits with own variances and pass rates",
            "Such as gs.plot_accuracy_icc(gs.scores(gs.fit_by(study, trials, by='system'))).",
        )
    labels = [str(label) for label in board.summary(level).index]
    shown = [label for label in labels if not np.isnan(iccs.sel(system=label)).any()]
    figure, ax, own = new_axes(ax, 4.9)
    top = 0.0
    texts = dict(zip(shown, shortened([visible(x) for x in shown], _LEGEND_LABEL), strict=True))
    for i, label in enumerate(shown):
        score = board.draws.sel(system=label).to_numpy().ravel()
        ratio = iccs.sel(system=label).to_numpy().ravel()
        name = texts[label].replace("$", r"\$")
        top = max(top, _draw_region(ax, i, score, ratio, level, name))
    ax.set_xlim(0, 1)
    ax.set_ylim(0, min(1.08 * top, 1.0) if top > 0 else 1.0)
    ticks = np.linspace(0, 1, 6)
    ax.set_xticks(ticks, [f"{100 * tick:.0f}%" for tick in ticks])
    clean(ax, grid="both", xlabel=board.estimand, ylabel=f"ICC({visible(str(board.task))})")
    caption = f"score scale; point: posterior mean, region: {100 * level:g}% of the joint draws"
    alarm = alarm_of(board.notes)
    write_above(ax, "Score against reliability, by system", [caption], alarm=alarm)
    if len(shown) > 1:
        put_legend(figure, ax, own=own, side="right upper")
    return figure, ax


def _draw_region(ax: Axes, i: int, score: Array, ratio: Array, level: float, label: str) -> float:
    """Mean and region of one system; how high they reach."""
    colour, mark = COLOURS[i % len(COLOURS)], MARKS[i % len(MARKS)]
    line = LINES[i % len(LINES)]
    outline = joint_region(score, ratio, level)
    if outline is not None:
        ax.fill(*outline, color=colour, alpha=0.16, linewidth=0, zorder=2)
        ax.plot(*outline, color=colour, linestyle=line, linewidth=1.4, zorder=3)
    ax.plot(
        [score.mean()],
        [ratio.mean()],
        marker=mark,
        color=colour,
        markeredgecolor=INK,
        markersize=7,
        linestyle=line,
        zorder=4,
        label=label,
    )
    return float(ratio.mean() if outline is None else outline[1].max())


def joint_region(score: Array, ratio: Array, level: float) -> tuple[Array, Array] | None:
    """Outline (x, y) of the region with this share of the draws; None where they do not vary."""
    pairs = np.stack([score, ratio]).clip(_EDGE, 1 - _EDGE)
    logits = np.log(pairs) - np.log1p(-pairs)
    centre, spread = logits.mean(axis=1, keepdims=True), np.cov(logits)
    if not np.linalg.det(spread) > 0:
        return None
    root = np.linalg.cholesky(spread)
    radius = np.quantile(np.linalg.norm(np.linalg.solve(root, logits - centre), axis=0), level)
    angle = np.linspace(0, 2 * np.pi, 200)
    circle = centre + radius * root @ np.stack([np.cos(angle), np.sin(angle)])
    x, y = 1 / (1 + np.exp(-circle))
    return x, y


def _read(source: Source) -> tuple[str, dict[str, Array], str, tuple[str, ...]]:
    """Name, draws by row, scale and notes of the ICCs."""
    if isinstance(source, Coefficient) and source.name.startswith("ICC("):
        return source.name, {source.name: source.draws.to_numpy()}, source.scale, source.notes
    if isinstance(source, Leaderboard) and source.icc is not None:
        found = {str(x): source.icc.sel(system=x).to_numpy() for x in source.observed.index}
        return f"ICC({source.task}) by system", _told(found), "score", source.notes
    if isinstance(source, LevelSummary):
        ratio = source.draws.sel(quantity="icc")
        found = {str(x): ratio.sel(level=x).to_numpy() for x in source.observed.index}
        return f"ICC({source.facet}) by {source.by}", _told(found), "score", source.notes
    if isinstance(source, Mapping):
        each = list(source.values())
        if len({(type(x), x.name) for x in each}) == 1 and isinstance(each[0], Coefficient):
            draws = {str(label): x.draws.to_numpy() for label, x in source.items()}
            notes = tuple(note for x in each for note in x.notes)
            return each[0].name, draws, each[0].scale, notes
    raise refuse(
        "intraclass correlations",
        source,
        "what gs.icc, gs.level_summary, or gs.scores of own variances return",
        'Such as gs.plot_icc(gs.icc(fit, "task")).',
    )


def _told(draws: dict[str, Array]) -> dict[str, Array]:
    """Those that the trials tell."""
    return {label: values for label, values in draws.items() if not np.isnan(values).any()}


def _interval(level: float) -> str:
    return f"{100 * level:g}% equal-tailed interval"
