"""Rows of a fit's table: an sd per component and system, fixed effects, correlations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gstudy.display import shortened

if TYPE_CHECKING:
    import numpy.typing as npt

    from gstudy.fits.fitted import Fit
    from gstudy.study.components import Component

__all__ = ["RESIDUAL", "beside_lines", "interval", "sd_rows"]

RESIDUAL = "residual"

# House interval: equal-tailed, which is invariant from sd to variance to share.
_LEVEL = 0.95
_SHOWN_LEVELS = 4
_LONGEST_LABEL = 30

Row = tuple[str, int, float, float, float]


def interval(values: npt.NDArray[np.float64]) -> tuple[float, float, float]:
    """Median and equal-tailed 95% interval over all draws."""
    tail = (1 - _LEVEL) / 2
    low, middle, high = np.quantile(values, [tail, 0.5, 1 - tail])
    return float(middle), float(low), float(high)


def sd_rows(fit: Fit) -> list[Row]:
    """Name, levels, median and interval of every sd, the most variable first.

    A component with own sds has a row per system, the residual of graded scores one.
    """
    rows = [row for component in fit.design.components for row in _rows_of(fit, component)]
    if fit.design.residual_prior is not None:
        rows.append((RESIDUAL, fit.design.n_trials, *interval(fit.sd(RESIDUAL))))
    return sorted(rows, key=lambda row: -row[2])


def beside_lines(fit: Fit) -> list[str]:
    """One line per controlled facet with its effects, one per correlated component."""
    lines = [_fixed_line(fit, component.name) for component in fit.design.fixed]
    crossed = [c for c in fit.design.components if c.varies and c.varies not in c.facets]
    return lines + [_correlation_line(fit, component.name) for component in crossed]


def _rows_of(fit: Fit, component: Component) -> list[Row]:
    sds = fit.sd(component.name)
    if sds.ndim == 2:
        return [(component.name, component.n_levels, *interval(sds))]
    systems = fit.own_labels(component.name)
    return [
        (f"{component.name} of {system}", component.n_levels, *interval(sds[..., i]))
        for i, system in enumerate(systems)
    ]


def _fixed_line(fit: Fit, facet: str) -> str:
    effects = fit.fixed(facet)
    values = [interval(effects.values[..., i]) for i in range(effects.sizes[facet])]
    labels = [str(label) for label in effects.coords[facet].values]
    texts = [
        f"{label} {middle:+.2f} [{low:+.2f}, {high:+.2f}]"
        for label, (middle, low, high) in zip(
            shortened(labels, _LONGEST_LABEL), values, strict=True
        )
    ]
    more = [f"and {len(texts) - _SHOWN_LEVELS} more"] if len(texts) > _SHOWN_LEVELS else []
    return f"{facet} (fixed effects): {', '.join([*texts[:_SHOWN_LEVELS], *more])}"


def _correlation_line(fit: Fit, name: str) -> str:
    values = fit.correlation(name).values
    first, second = np.triu_indices(values.shape[-1], k=1)
    pairs = [interval(values[..., i, j]) for i, j in zip(first, second, strict=True)]
    start = f"correlation of {name} effects between levels of {fit.study.object}"
    if len(pairs) == 1:
        middle, low, high = pairs[0]
        return f"{start}: {middle:.2f} [{low:.2f}, {high:.2f}]"
    medians = [middle for middle, _, _ in pairs]
    return f"{start}: medians from {min(medians):.2f} to {max(medians):.2f}"
