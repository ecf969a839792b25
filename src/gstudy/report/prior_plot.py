"""The plot of priors beside posteriors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gstudy.fits.fitted import Fit
from gstudy.fits.gates import stamp
from gstudy.report.ridges import HEIGHT, density, draw_interval, draw_ridge
from gstudy.report.style import (
    COLOURS,
    clean,
    new_axes,
    put_legend,
    refuse,
    row_labels,
    write_above,
)
from gstudy.variance.draws import labelled, proportion

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from gstudy.study.priors import Prior
    from gstudy.variance.draws import Array

__all__ = ["plot_priors"]

_ROW_INCHES = 0.62
_AROUND_INCHES = 1.6
_POINTS = 400
# How far beyond the posterior draws the axis goes, as a share of their range.
_MARGIN = 0.12
_FAR = 0.999


def plot_priors(fit: Fit, *, level: float = 0.95, ax: Axes | None = None) -> tuple[Figure, Axes]:
    """Prior and posterior densities of the mean and of every standard deviation.

    Parameters
    ----------
    fit : Fit
    level : float
        Posterior level of the equal-tailed intervals at the feet of the ridges.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    figure : matplotlib.figure.Figure
    axes : matplotlib.axes.Axes
        x: logit scale (of graded scores their unit), as far as the posteriors go.

    Raises
    ------
    QuantityError
        For what is no fit, and a level outside (0, 1).

    Examples
    --------
    >>> import gstudy as gs
    >>> gs.plot_priors(gs.load("run.nc"))  # doctest: +SKIP
    """
    level = proportion(level, "level")
    if not isinstance(fit, Fit):
        raise refuse(
            "the priors of a fit",
            fit,
            "what gs.fit and gs.load return",
            'Such as gs.plot_priors(gs.load("run.nc")).',
        )
    rows = _rows(fit)
    figure, ax, own = new_axes(ax, _AROUND_INCHES + _ROW_INCHES * len(rows))
    low, high = _range([values for values, _ in rows.values()])
    grid = np.linspace(low, high, _POINTS)
    for place, (name, (values, prior)) in enumerate(rows.items()):
        curve = density(values, (-np.inf, np.inf) if name == "mu" else (0.0, np.inf))
        _draw_row(ax, place, curve, (grid, np.exp(prior.logpdf(grid))))
        draw_interval(ax, place, values, level)
    row_labels(ax, [f"{name}  ~ {prior}" for name, (_, prior) in rows.items()], longest=48)
    ax.set_ylim(len(rows) - 0.7, -HEIGHT - 0.15)
    ax.set_xlim(low, high)
    scale = "score" if fit.study.family == "gaussian" else "logit"
    clean(ax, xlabel=f"mean and standard deviations, {scale} scale")
    caption = f"{scale} scale; point: posterior mean, line: {100 * level:g}% equal-tailed interval"
    alarm = stamp(labelled(fit.mu), fit.diagnostics)
    write_above(ax, "Prior and posterior", [caption], alarm=alarm, inches=5.2)
    put_legend(figure, ax, own=own)
    return figure, ax


def _draw_row(
    ax: Axes, place: int, curve: tuple[Array, Array] | None, prior: tuple[Array, Array]
) -> None:
    """Posterior and prior density of one parameter, on one scale."""
    grid, flat = prior
    peak = max(float(flat.max()), 0.0 if curve is None else float(curve[1].max()))
    first = place == 0
    draw_ridge(ax, place, curve, peak, colour=COLOURS[0], label="posterior" if first else None)
    ax.plot(
        grid,
        np.where(flat > 0, place - HEIGHT * flat / peak, np.nan),
        color=COLOURS[2],
        linestyle="--",
        linewidth=1.6,
        zorder=4,
        label="prior" if first else None,
    )


def _rows(fit: Fit) -> dict[str, tuple[Array, Prior]]:
    """Draws and prior of every row; own sds of each system by themselves."""
    rows = {"mu": (fit.mu, fit.design.mu_prior)}
    for component in fit.design.components:
        if component.varies is None:
            rows[f"sd({component.name})"] = (fit.sd(component.name), component.prior)
            continue
        for label in fit.own_labels(component.name):
            own = fit.own_sd(component.name, label)
            rows[f"sd({component.name}) of {label}"] = (own, component.prior)
    if fit.design.residual_prior is not None:
        rows["sd(residual)"] = (fit.sd("residual"), fit.design.residual_prior)
    return rows


def _range(draws: list[Array]) -> tuple[float, float]:
    """From 0, or below it as far as the mean goes, to the far end of the posteriors."""
    low = min(0.0, *(float(np.quantile(x, 1 - _FAR)) for x in draws))
    high = max(float(np.quantile(x, _FAR)) for x in draws)
    margin = _MARGIN * (high - low)
    return low - margin * (low < 0), high + margin
