"""The plot of two facets: half-width of the score over their levels, with lines of equal cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from gstudy._marks import visible
from gstudy._words import plural
from gstudy.display import bare_points, number
from gstudy.planning.goals import checked_width
from gstudy.planning.prices import declared_cost
from gstudy.planning.terms import score_terms
from gstudy.report.style import ALARM, COLOURS, INK, alarm_of, clean, new_axes, plain, write_above
from gstudy.report.ticks import amount, log_axis, round_numbers
from gstudy.report.width_grids import checked_ends, width_grid
from gstudy.study.designs import Design
from gstudy.variance.basis import basis_of
from gstudy.variance.draws import labelled, proportion
from gstudy.variance.latent import GAUSSIAN

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.contour import QuadContourSet
    from matplotlib.figure import Figure

    from gstudy.fits.fitted import Fit
    from gstudy.planning.terms import Terms
    from gstudy.report.width_grids import WidthGrid
    from gstudy.variance.components import VarianceComponents

__all__ = ["plot_design_grid"]

_HEIGHT_INCHES = 5.2
_COST_LINES = 5
_WIDTH_LINES = 9
_COST = COLOURS[2]
# Where labels of lines stand, as shares of the axes.
_WIDTHS_AT, _COSTS_AT, _MARGIN = 0.3, 0.68, 0.07
# Labels nearer to each other might touch.
_APART = 0.12
# A line as near to the target as that is the same.
_CLOSE = 0.02


def plot_design_grid(
    source: Fit | VarianceComponents,
    levels: Mapping[str, tuple[int, int]],
    *,
    design: Mapping[str, int] | None = None,
    cost: Mapping[str, float] | None = None,
    target: float | None = None,
    system: str | None = None,
    coverage: float = 0.95,
    level: float = 0.95,
    ax: Axes | None = None,
) -> tuple[Figure, Axes]:
    """Half-width of the score over the levels of two facets, with lines of equal cost.

    Parameters
    ----------
    source : Fit or VarianceComponents
    levels : mapping of str to (int, int)
        The smallest and the largest number of levels of two facets: along the first axis, and up
        the second.
    design : Design or mapping of str to int, optional
        Levels of the other facets, with what it pins and who judges what.
    cost : mapping of str to float, optional
        Price of a unit of each facet; by default that of the study, else trials are counted. Of
        one system.
    target : float, optional
        A half-width, in units of the score: 0.03 is 3 points. Marked with its interval.
    system : str, optional
        As for `variance_budget`.
    coverage : float
        Nominal coverage of the score's interval.
    level : float
        Posterior level of the equal-tailed interval of the target's line.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    figure : matplotlib.figure.Figure
    axes : matplotlib.axes.Axes

    Raises
    ------
    QuantityError
        For levels that are not of two facets, a facet whose other levels are missing from
        `design`, more levels than a universe, a target or level that is none, and as
        `variance_budget`.

    Notes
    -----
    Lines of equal half-width are of its posterior mean. With a target the dotted lines are where
    the ends of its posterior interval meet it: beyond the outer one the half-width is below the
    target with probability (1 + level) / 2.

    Examples
    --------
    >>> import gstudy as gs
    >>> study = gs.Study(
    ...     score="passed",
    ...     facets=[
    ...         gs.Facet("task", role="legitimate"),
    ...         gs.Facet("rollout", role="legitimate", nested_in=["task"]),
    ...     ],
    ... )
    >>> vc = gs.assume(study, {"task": 0.10, "rollout": 0.14}, mean=0.6)
    >>> figure, axes = gs.plot_design_grid(vc, {"task": (20, 400), "rollout": (1, 8)})
    >>> axes.get_xlabel(), axes.get_ylabel()
    ('tasks', 'rollouts of each task')
    """
    ends, level = checked_ends(levels), proportion(level, "level")
    aim = None if target is None else checked_width(target)
    fixed = Design({}) if design is None else Design.read(design)
    terms = score_terms(source, system=system, pin=list(fixed.pin))
    priced = declared_cost(terms.study, cost)
    grid = width_grid(terms, ends, fixed, priced, coverage, level)
    basis = basis_of(source)
    figure, ax, _ = new_axes(ax, _HEIGHT_INCHES)
    unit = 1.0 if basis.study.family == GAUSSIAN else 100.0
    # Before the lines: their labels find their places by the scales.
    for which, (low, high) in zip("xy", ends.values(), strict=True):
        log_axis(ax, which, low, high)
    ax.set_xlim(grid.x[0], grid.x[-1])
    ax.set_ylim(grid.y[0], grid.y[-1])
    _draw_widths(ax, grid, unit, aim)
    if aim is not None:
        _draw_target(ax, grid, aim, unit, intervals=not basis.assumed)
    costs = _draw_costs(ax, grid, "trials" if priced is None else "")
    names = [_of_each(terms, facet) for facet in ends]
    clean(ax, grid="both", xlabel=plain(names[0]), ylabel=plain(names[1]))
    points = "points" if unit > 1 else "units of the score"
    what = f"half-width of the {100 * coverage:g}% interval of the score, {points}"
    others = fixed.replace(levels={f: n for f, n in fixed.items() if f not in ends})
    lines = [
        f"score scale; lines: {'' if basis.assumed else 'posterior mean '}{what}",
        *(["assumed components, no intervals"] if basis.assumed else []),
        *([] if aim is None else [_aim_line(grid, aim, unit, level, basis.assumed)]),
        *([_cost_line(terms, priced)] if costs else []),
        *_other_line(others),
    ]
    several = " and ".join(plural(visible(facet)) for facet in ends)
    stamped = basis.stamp(labelled(terms.variance(grid.corner).reshape(terms.shape)))
    write_above(
        ax, f"Half-width of the score over {several}", lines, alarm=alarm_of(stamped), inches=6.6
    )
    return figure, ax


def _draw_widths(ax: Axes, grid: WidthGrid, unit: float, target: float | None) -> None:
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap, LogNorm

    width = unit * grid.mean
    low, high = float(width.min()), float(width.max())
    if not 0 < low < high:
        return
    # The narrower the darker, pale enough for the lines.
    tones = ListedColormap(colormaps["Blues"](np.linspace(0.5, 0.02, 256)))
    ax.pcolormesh(
        grid.x,
        grid.y,
        width,
        cmap=tones,
        norm=LogNorm(low, high),
        shading="gouraud",
        rasterized=True,
        zorder=0.5,
    )
    # The target has a line of its own.
    own = -1.0 if target is None else unit * target
    lines = [x for x in round_numbers(low, high, _WIDTH_LINES) if abs(x - own) > _CLOSE * x]
    if lines:
        drawn = ax.contour(grid.x, grid.y, width, levels=lines, colors=INK, linewidths=1.1)
        _name_lines(ax, drawn, _around, _WIDTHS_AT)


def _draw_costs(ax: Axes, grid: WidthGrid, currency: str) -> bool:
    """Lines of equal cost; whether there are any."""
    low, high = float(grid.cost.min()), float(grid.cost.max())
    lines = round_numbers(low, high, _COST_LINES) if 0 < low < high else []
    if not lines:
        return False
    drawn = ax.contour(
        grid.x, grid.y, grid.cost, levels=lines, colors=_COST, linewidths=1.4, linestyles="--"
    )

    def named(value: float) -> str:
        return f"{amount(value)} {currency}" if currency else f"cost {amount(value)}"

    _name_lines(ax, drawn, named, _COSTS_AT)
    return True


def _draw_target(ax: Axes, grid: WidthGrid, target: float, unit: float, *, intervals: bool) -> None:
    """Where the half-width meets the target, and where the ends of its interval do."""
    for values in (grid.lower, grid.upper) if intervals else ():
        if values.min() < target < values.max():
            where: dict[str, Any] = {"levels": [target], "linewidths": 1.6, "linestyles": ":"}
            ax.contour(grid.x, grid.y, values, colors=ALARM, **where)
    if grid.mean.min() < target < grid.mean.max():
        aim = ax.contour(
            grid.x, grid.y, unit * grid.mean, levels=[unit * target], colors=ALARM, linewidths=2.8
        )
        _name_lines(ax, aim, _around, _WIDTHS_AT)


def _name_lines(
    ax: Axes, drawn: QuadContourSet, named: Callable[[float], str], height: float
) -> None:
    """Labels of lines at a height of the axes, off its edges and off the labels there are."""
    to_axes = ax.transData + ax.transAxes.inverted()
    taken = [to_axes.transform(text.get_position()) for text in ax.texts]
    places = []
    for path in drawn.get_paths():
        vertices = np.asarray(path.vertices).reshape(-1, 2)
        inside = to_axes.transform(vertices)
        kept = np.all((inside > _MARGIN) & (inside < 1 - _MARGIN), axis=1)
        for other in taken:
            kept &= np.linalg.norm(inside - other, axis=1) > _APART
        if kept.any():
            best = np.where(kept, np.abs(inside[:, 1] - height), np.inf).argmin()
            places.append(tuple(vertices[best]))
            taken.append(inside[best])
    if places:
        ax.clabel(drawn, fmt=named, fontsize=9, inline_spacing=4, manual=places)


def _around(width: float) -> str:
    return f"\N{PLUS-MINUS SIGN}{amount(width)}"


def _aim_line(grid: WidthGrid, target: float, unit: float, level: float, assumed: bool) -> str:
    told = (
        f"half-width {bare_points(target)} points" if unit > 1 else f"half-width {number(target)}"
    )
    if not grid.mean.min() < target < grid.mean.max():
        return f"{told}: {'more' if target >= grid.mean.max() else 'less'} than that of all designs"
    dotted = "" if assumed else f"; dotted: the ends of its {100 * level:g}% equal-tailed interval"
    return f"thick: {told}{dotted}"


def _cost_line(terms: Terms, cost: Mapping[str, float] | None) -> str:
    whose = f" of one {visible(terms.study.object)}" if terms.study.object else ""
    return f"dashed: {'trials' if cost is None else 'cost'}{whose}"


def _other_line(fixed: Design) -> list[str]:
    told = [f"{visible(facet)} {n:,}" for facet, n in fixed.items()]
    told += [f"judges: {fixed.judges}"] if fixed.judges != "all" else []
    told += [f"pinned: {', '.join(fixed.pin)}"] if fixed.pin else []
    return [f"with {'; '.join(told)}"] if told else []


def _of_each(terms: Terms, facet: str) -> str:
    """The facet in the plural, with what each of them is counted in."""
    parents = [p for p in terms.study.parents.get(facet, ()) if p != terms.study.object]
    within = f" of each {' and '.join(map(visible, parents))}" if parents else ""
    return f"{plural(visible(facet))}{within}"
