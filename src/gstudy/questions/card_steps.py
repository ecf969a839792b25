"""The next step on an evaluation card: the single enlargement with most precision per trial."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gstudy.display import bare_points, number
from gstudy.errors import QuantityError
from gstudy.planning.next_steps import next_steps
from gstudy.planning.steps import MORE
from gstudy.questions.card_cells import interval_of

if TYPE_CHECKING:
    from gstudy.fits.fitted import Fit
    from gstudy.planning.steps import NextSteps
    from gstudy.variance.draws import Array

__all__ = ["NEXT", "NEXT_DRAWS", "next_entry", "next_step", "next_text"]

NEXT = ("next_step", "next_facet", "next_before", "next_after", "next_trials", "next_probability")
NEXT_DRAWS = ("next_width", "next_gain")

COVERAGE = 0.95
"""Of the interval of a score whose half-width it is."""

# Gains as near to each other are the same.
_CLOSE = 1e-9


def next_step(fit: Fit, system: str | None) -> tuple[dict[str, Any], dict[str, Array]]:
    """The enlargement of one facet that narrows the interval of a score most for its trials.

    Parameters
    ----------
    fit : Fit
    system : str or None
        As for `gs.next_steps`.

    Returns
    -------
    facts : dict
        `NEXT`; NaN where there is none, or where merged components leave open which it is.
    draws : dict of str to array (chain, draw)
        `NEXT_DRAWS`: half-width after the step, and by how much each added trial narrows it; of a
        step with two bounds the worse.
    """
    nothing = dict.fromkeys(NEXT, np.nan), dict.fromkeys(NEXT_DRAWS, np.full(fit.mu.shape, np.nan))
    try:
        steps = next_steps(fit, system=system, coverage=COVERAGE)
    except QuantityError:
        return nothing
    found = _best(steps)
    if found is None:
        return nothing
    place, probability = found
    step, draws = steps.steps[place], steps.draws.isel(step=place)
    told = (step.facet, step.before, step.after, step.trials, probability)
    name = step.name.removesuffix(f" ({step.bound})")
    width, gain = (draws.sel(quantity=q).to_numpy() for q in ("half_width", "gain"))
    return (
        dict(zip(NEXT, (name, *told), strict=True)),
        dict(zip(NEXT_DRAWS, (width, gain), strict=True)),
    )


def _best(steps: NextSteps) -> tuple[int, float] | None:
    """Place of the best step, and the posterior probability that it is, at worst."""
    gains = steps.draws.sel(quantity="gain").transpose("step", "chain", "draw").to_numpy()
    gains = gains.reshape(len(steps.steps), -1)
    ends: dict[str, list[int]] = {}
    for place, step in enumerate(steps.steps):
        if step.kind == MORE and step.trials > 0:
            ends.setdefault(step.facet, []).append(place)
    if not ends:
        return None
    # Of a merged component the step at best and at worst: it has to win at worst.
    worst = {facet: min(own, key=lambda i: gains[i].mean()) for facet, own in ends.items()}
    best = max(worst, key=lambda facet: gains[worst[facet]].mean())
    own = gains[worst[best]]
    others = [place for facet, places in ends.items() if facet != best for place in places]
    rivals = gains[others].max(axis=0, initial=0.0)
    highest = max([0.0, *(float(gains[place].mean()) for place in others)])
    if own.mean() <= 0 or own.mean() < highest * (1 - _CLOSE):
        return None
    return worst[best], float((own >= rivals * (1 - _CLOSE)).mean())


def next_text(row: pd.Series[Any], *, binary: bool) -> str:
    """The step with the half-width after it; empty where it is not known."""
    if pd.isna(row["next_step"]):
        return ""
    width = row["next_width"]
    told = f"{bare_points(width)} points" if binary else number(width)
    return f"{row['next_step']} (to \N{PLUS-MINUS SIGN}{told})"


def next_entry(row: pd.Series[Any]) -> dict[str, Any] | None:
    """The step for JSON; None where it is not known."""
    if pd.isna(row["next_step"]):
        return None
    return {
        "step": str(row["next_step"]),
        "facet": str(row["next_facet"]),
        "before": float(row["next_before"]),
        "after": float(row["next_after"]),
        "added_trials": float(row["next_trials"]),
        "half_width": interval_of(row, "next_width"),
        "gain_per_trial": interval_of(row, "next_gain"),
        "probability": float(row["next_probability"]),
    }
