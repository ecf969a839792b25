"""Round numbers: for ticks of logarithmic axes, and for lines of equal height."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

__all__ = ["amount", "log_axis", "round_numbers"]

_STEPS = ((1, 1.5, 2, 3, 4, 5, 7), (1, 2, 5), (1, 3), (1,))
_MOST = 8


def round_numbers(low: float, high: float, most: int = _MOST) -> list[float]:
    """Round numbers from low to high, in about equal ratios.

    Parameters
    ----------
    low, high : float
        Above 0.
    most : int
        No more than so many, as far as powers of 10 allow.

    Returns
    -------
    list of float

    Examples
    --------
    >>> round_numbers(3, 60)
    [5.0, 10.0, 20.0, 50.0]
    >>> round_numbers(1, 4)
    [1.0, 1.5, 2.0, 3.0, 4.0]
    """
    found: list[float] = []
    for steps in _STEPS:
        found = _between(low, high, steps)
        if len(found) <= most:
            break
    return found


def amount(value: float) -> str:
    """A number as ticks and lines name it: without zeros that say nothing.

    >>> amount(9.6), amount(20.0), amount(209.64), amount(12345.6)
    ('9.6', '20', '209.6', '12,346')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def log_axis(ax: Axes, which: str, low: float, high: float) -> None:
    """A logarithmic axis "x" or "y" with plain numbers at its ticks."""
    from matplotlib.ticker import NullFormatter, NullLocator

    ticks = round_numbers(low, high)
    (ax.set_xscale if which == "x" else ax.set_yscale)("log")
    axis = ax.xaxis if which == "x" else ax.yaxis
    axis.set_ticks(ticks, [amount(tick) for tick in ticks])
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())


def _between(low: float, high: float, steps: Sequence[float]) -> list[float]:
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    every = np.array([step * 10.0**power for power in powers for step in steps])
    close = 1e-9
    return [float(f"{x:.2g}") for x in every if low * (1 - close) <= x <= high * (1 + close)]
