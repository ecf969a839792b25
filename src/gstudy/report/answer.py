"""The answer in a few sentences: the score, how far it moves, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gstudy._words import listed, plural
from gstudy.display import bare_points, number, percent, points
from gstudy.questions.scores import UNNAMED, score
from gstudy.variance.budgets import variance_budget
from gstudy.variance.rerun import rerun_noise

if TYPE_CHECKING:
    import xarray as xr

    from gstudy.fits.fitted import Fit
    from gstudy.questions.scores import Score
    from gstudy.variance.rerun import RerunNoise

__all__ = ["answer_draws", "answer_lines", "kept_words"]

LEVEL = 0.95
_MOST_SYSTEMS = 8

_READING = (
    "Score scale, {}; intervals, also those in brackets, are 95% equal-tailed intervals of the "
    "posterior, the naive one takes every trial as independent."
)
_POINTS = "where a point is a percentage point"
_UNITS = "in units of the score"


def answer_draws(fit: Fit) -> list[xr.DataArray]:
    """Draws of every number in the answer."""
    budget, rerun = variance_budget(fit), rerun_noise(fit)
    return [score(fit).draws, budget.draws, budget.half_width(LEVEL), rerun.draws]


def answer_lines(fit: Fit) -> tuple[str, ...]:
    """Score with both intervals, half-width of a new study, largest source, re-run noise.

    Parameters
    ----------
    fit : Fit

    Returns
    -------
    tuple of str
        Sentences; every interval is a 95% equal-tailed one, score scale.
    """
    found, binary = score(fit), fit.study.family == "binary"
    budget, rerun = variance_budget(fit), rerun_noise(fit)
    rows = budget.summary(LEVEL).sort_values("share", ascending=False, kind="stable")
    largest = rows.iloc[0]
    share, low, high = (percent(largest[f"share{end}"], 0) for end in ("", "_lower", "_upper"))
    kept = kept_words(fit, rerun)
    width = _distance(budget.half_width(LEVEL), binary)
    apart = _distance(rerun.difference(), binary)
    study = f"In a new study of this design 95% of scores lie within {width} of the expected one"
    source = f"The largest source of that is {rows.index[0]}: {share} of the variance"
    again = f"A re-run of the same {kept} moves the score by up to {apart}, 95 times in 100."
    return (
        *_score_lines(found),
        f"{study} ({budget.estimand}).",
        f"{source} ({low} to {high}).",
        f"{again} {rerun.bound}".rstrip(),
        _READING.format(_POINTS if binary else _UNITS),
    )


def kept_words(fit: Fit, rerun: RerunNoise) -> str:
    """What a re-run keeps, as prose lists it: the same tasks and judge.

    Parameters
    ----------
    fit : Fit
    rerun : RerunNoise
        Of the fit.

    Returns
    -------
    str
    """
    single = {*fit.design.pinned, *fit.design.not_sampled}
    words = [facet if facet in single else plural(facet) for facet in rerun.pinned]
    return listed(words) or "evaluation"


def _score_lines(found: Score) -> list[str]:
    """Of one system a sentence with both intervals; of several a list with the full ones."""
    summary = found.summary(LEVEL)
    show = percent if found.family == "binary" else number
    if len(summary) > 1:
        told = [
            f"{label} {show(row['rate'])} ({show(row['lower'])} to {show(row['upper'])})"
            for label, row in summary.head(_MOST_SYSTEMS).iterrows()
        ]
        more = len(summary) - len(told)
        told += [f"and {more} more, see Scores"] if more else []
        head = f"Scores ({found.average}) with their full intervals, of the {found.estimand}"
        return [f"{head}: {'; '.join(told)}."]
    row = summary.iloc[0]
    whose = "" if found.observed.index.name == UNNAMED else f" of {summary.index[0]}"
    naive = f"{show(row['naive_lower'])} to {show(row['naive_upper'])}"
    full = f"{show(row['lower'])} to {show(row['upper'])}, {row['ratio']:.1f} times as wide"
    return [
        f"Score{whose}: {show(row['rate'])} ({found.average}, {row['n_trials']:,.0f} trials).",
        f"Naive interval: {naive}. Full interval, of the {found.estimand}: {full}.",
    ]


def _distance(draws: xr.DataArray, binary: bool) -> str:
    values = draws.to_numpy()
    low, high = (float(x) for x in np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]))
    if binary:
        return f"{points(float(values.mean()))} ({bare_points(low)} to {bare_points(high)})"
    return f"{number(float(values.mean()))} ({number(low)} to {number(high)})"
