"""The cells of an evaluation card: numbers with their intervals as text and as plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gstudy.display import number

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "BANDS",
    "band",
    "band_text",
    "interval_of",
    "plain",
    "span",
    "variance_text",
    "whole",
    "with_interval",
]

BANDS = ((0.5, "poor"), (0.75, "moderate"), (0.9, "good"), (np.inf, "excellent"))
"""Upper ends and names of the bands of Koo and Li (2016), for the ends of an interval only."""


def band(value: float) -> str:
    """The band of Koo and Li (2016) that an end of an ICC's interval is in.

    >>> band(0.49), band(0.5), band(0.75), band(0.9)
    ('poor', 'moderate', 'good', 'excellent')
    """
    return next(name for end, name in BANDS if value < end)


def interval_of(row: pd.Series[Any], name: str) -> dict[str, float] | None:
    """Mean and ends of a quantity; None where it is not known."""
    if np.isnan(row[name]):
        return None
    return {
        "mean": float(row[name]),
        "lower": float(row[f"{name}_lower"]),
        "upper": float(row[f"{name}_upper"]),
    }


def with_interval(row: pd.Series[Any], name: str, show: Any) -> str:
    """Mean and ends of a quantity as text; empty where it is not known."""
    found = interval_of(row, name)
    if found is None:
        return ""
    return f"{show(found['mean'])} ({show(found['lower'])} to {show(found['upper'])})"


def span(row: pd.Series[Any], name: str, show: Any) -> str:
    """The ends of a quantity as text."""
    return f"{show(row[f'{name}_lower'])} to {show(row[f'{name}_upper'])}"


def band_text(row: pd.Series[Any]) -> str:
    """The bands that the ends of the ICC's interval are in."""
    found = interval_of(row, "icc")
    if found is None:
        return ""
    low, high = band(found["lower"]), band(found["upper"])
    return low if low == high else f"{low} to {high}"


def variance_text(value: float) -> str:
    """A variance on the score scale, small ones too."""
    return f"{value:.3f}" if value >= 0.0005 else number(value)


def whole(value: float) -> int | None:
    """A count for JSON; None where there is none."""
    return None if np.isnan(value) else int(value)


def plain(value: float) -> float | None:
    """A number for JSON; None where there is none."""
    return None if np.isnan(value) else float(value)
