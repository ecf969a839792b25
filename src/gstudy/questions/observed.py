"""What was observed: trials, levels, the declared average of the scores, naive intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from gstudy.variance.draws import Array, normal_quantile
from gstudy.variance.latent import GAUSSIAN
from gstudy.variance.trial_weights import averaged_set, cell_weights

if TYPE_CHECKING:
    import numpy.typing as npt

    from gstudy.fits.fitted import Fit
    from gstudy.study.cells import Cells

__all__ = [
    "EVERYTHING",
    "UNNAMED",
    "naive_bounds",
    "naive_interval",
    "observed_scores",
    "spread_unevenly",
]

EVERYTHING = "all trials"
"""Row of a study without an object of measurement."""

UNNAMED = "scored"
"""Index of the table of such a study."""


def observed_scores(fit: Fit, *, apart: bool = True) -> pd.DataFrame:
    """Trials, levels and the reported score of each system.

    Parameters
    ----------
    fit : Fit
    apart : bool
        Whether each level of the object has a row of its own.

    Returns
    -------
    pandas.DataFrame
        Index: systems; columns `n_trials`, `rate` (the mean of the scores that the study
        declares), `sd` (of single scores, score units) and `n_<facet>` per facet that the model
        knows, its number of levels.
    """
    cells, measured = fit.design.cells, fit.study.object
    groups = {EVERYTHING: np.ones(len(cells.trials), dtype=bool)}
    labelled = apart and measured in cells.facets
    if labelled:
        assert measured is not None
        column = cells.codes[:, cells.facets.index(measured)]
        groups = {label: column == code for code, label in enumerate(cells.labels[measured])}
    rows = [
        {
            "n_trials": int(cells.trials[mask].sum()),
            "rate": _reported(fit, mask),
            "sd": _spread(cells, mask),
            **_level_counts(fit, mask),
        }
        for mask in groups.values()
    ]
    name = measured if labelled else UNNAMED
    return pd.DataFrame(rows, index=pd.Index(list(groups), name=name, dtype=object))


def naive_bounds(observed: pd.DataFrame, family: str, level: float) -> tuple[Array, Array]:
    """The interval that takes every trial as independent of the others.

    Parameters
    ----------
    observed : pandas.DataFrame
        As `observed_scores` gives it.
    family : {"binary", "gaussian"}
        Wilson's interval of a rate; of graded scores ``mean +- z s / sqrt(n)``.
    level : float
        In (0, 1).

    Returns
    -------
    lower, upper : array
        Score scale.
    """
    rate, n = observed["rate"].to_numpy(dtype=float), observed["n_trials"].to_numpy(dtype=float)
    if family == GAUSSIAN:
        half = normal_quantile(level) * observed["sd"].to_numpy(dtype=float) / np.sqrt(n)
        return rate - half, rate + half
    return naive_interval(rate * n, n, level)


def naive_interval(
    passed: npt.ArrayLike, trials: npt.ArrayLike, level: float = 0.95
) -> tuple[Array, Array]:
    """Wilson's interval of a pass rate, as if every trial were independent.

    Parameters
    ----------
    passed, trials : array
    level : float
        In (0, 1).

    Returns
    -------
    lower, upper : array
        Score scale; never of width 0.

    Examples
    --------
    >>> low, high = naive_interval(0, 307)
    >>> float(low), round(float(high), 6)
    (0.0, 0.012358)
    """
    from statsmodels.stats.proportion import proportion_confint

    low, high = proportion_confint(
        np.asarray(passed), np.asarray(trials), alpha=1 - level, method="wilson"
    )
    return np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)


def spread_unevenly(fit: Fit) -> bool:
    """Whether levels of a facet differ in their number of trials within one system.

    Then the mean over trials and the score over new levels are two quantities.
    """
    cells, measured = fit.design.cells, fit.study.object
    own = [cells.facets.index(measured)] if measured in cells.facets else []
    for facet in cells.facets:
        inside = {facet, *fit.study.closure(facet)} & set(cells.facets)
        columns = sorted({*own, *(cells.facets.index(f) for f in inside)})
        _, level = np.unique(cells.codes[:, columns], axis=0, return_inverse=True)
        totals = np.bincount(level.ravel(), weights=cells.trials)
        system = np.zeros(len(totals), dtype=int)
        if own:
            system[level.ravel()] = cells.codes[:, own[0]]
        means = np.bincount(system, weights=totals) / np.maximum(np.bincount(system), 1)
        if (totals != means[system]).any():
            return True
    return False


def _reported(fit: Fit, mask: npt.NDArray[np.bool_]) -> float:
    """The mean of the scores of some cells, as the study averages them."""
    cells, over = fit.design.cells, averaged_set(fit.study)
    if not over:
        # Of counts exact, whatever the order of the cells.
        return float(cells.successes[mask].sum()) / int(cells.trials[mask].sum())
    rows = np.flatnonzero(mask)
    weights = cell_weights(cells, rows, over)
    return float(weights @ (cells.successes[rows] / cells.trials[rows]))


def _spread(cells: Cells, mask: npt.NDArray[np.bool_]) -> float:
    """Sd of the single scores of some cells, divisor n - 1."""
    trials, sums = cells.trials[mask].astype(float), cells.successes[mask].astype(float)
    n, means = trials.sum(), sums / trials
    if n < 2:
        return float("nan")
    within = sums * (1 - means)
    if cells.graded is not None:
        within = cells.graded.squares[mask]
        if cells.graded.precision is not None:
            # Squares are weighted by 1 / error^2 there.
            within = within * trials / cells.graded.precision[mask]
    between = trials * (means - sums.sum() / n) ** 2
    return float(np.sqrt((within.sum() + between.sum()) / (n - 1)))


def _level_counts(fit: Fit, mask: npt.NDArray[np.bool_]) -> dict[str, int]:
    """Number of levels of each facet, parents included, among some cells."""
    cells, study = fit.design.cells, fit.study
    counts = {}
    for facet in cells.facets:
        if facet != study.object:
            columns = [cells.facets.index(f) for f in study.closure(facet) if f in cells.facets]
            counts[f"n_{facet}"] = len(np.unique(cells.codes[mask][:, columns], axis=0))
    return counts
