"""Graded scores in groups of trials: what a normal likelihood needs to know of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from gstudy.errors import DataError, explain

if TYPE_CHECKING:
    from gstudy.study.partition import Partition

__all__ = ["Graded", "combine", "graded_trials", "score_spread"]

Floats = npt.NDArray[np.float64]

# Scores that differ by less than this, relative to their size, are one score.
_ROUNDING = 1e-14

# Below this ratio of spread to size the likelihood has too few digits left.
_LEAST_RATIO = 1e-10

# Samplers start near 1: beyond these they were seen not to reach the scale of the scores.
_SMALLEST_SD = 1e-8
_LARGEST_SD = 1e10


@dataclass(frozen=True, slots=True, eq=False)
class Graded:
    """What the model knows of graded scores in each cell: with `trials`, all of the likelihood.

    Parameters
    ----------
    mean : float64 array (n_cells,)
        Mean score; with known errors weighted by 1 / error^2.
    squares : float64 array (n_cells,)
        Sum of squared deviations from `mean` within the cell, weighted likewise.
    precision : float64 array (n_cells,), or None
        Sum of 1 / error^2 where the errors are known, else None: one residual sd is estimated.
    log_errors : float
        Sum over all trials of the log of the known errors; 0 without.
    """

    mean: Floats
    squares: Floats
    precision: Floats | None = None
    log_errors: float = 0.0


def graded_trials(scores: Floats, errors: Floats | None, squares: Floats | None = None) -> Graded:
    """Single trials as groups of one, or groups that were counted outside of memory.

    Parameters
    ----------
    scores : float64 array (n_trials,)
    errors : float64 array (n_trials,), or None
        Known standard errors.
    squares : float64 array (n_trials,), optional
        Squared deviations within groups.
    """
    zeros = np.zeros(len(scores)) if squares is None else squares
    if errors is None:
        return Graded(scores, zeros)
    return Graded(scores, zeros, errors**-2.0, float(np.log(errors).sum()))


def combine(graded: Graded, trials: npt.NDArray[np.int64], groups: Partition) -> Graded:
    """Several groups of trials as one each; two passes, so that large scores lose no digits.

    With weights w (trials, or precisions): ``m = sum w m_i / sum w`` and
    ``squares = sum squares_i + sum w (m_i - m)^2``.

    Parameters
    ----------
    graded : Graded
        Of `n_rows` groups.
    trials : int64 array (n_rows,)
        Trials in each of them.
    groups : Partition
        Which rows become one.

    Returns
    -------
    Graded
        Of `groups.n_levels` groups.

    Examples
    --------
    >>> import numpy as np
    >>> from gstudy.study.partition import Partition
    >>> pairs = Partition(np.array([0, 0, 1], dtype=np.int32), 2)
    >>> single = graded_trials(np.array([1.0, 3.0, 7.0]), None)
    >>> both = combine(single, np.ones(3, dtype=np.int64), pairs)
    >>> both.mean.tolist(), both.squares.tolist()
    ([2.0, 7.0], [2.0, 0.0])
    """
    weights = trials.astype(float) if graded.precision is None else graded.precision
    total = groups.sums(weights)
    mean = groups.sums(weights * graded.mean) / total
    mean = mean + groups.sums(weights * (graded.mean - mean[groups.index])) / total
    apart = groups.sums(weights * (graded.mean - mean[groups.index]) ** 2)
    return Graded(
        mean=mean,
        squares=groups.sums(graded.squares) + apart,
        precision=None if graded.precision is None else total,
        log_errors=graded.log_errors,
    )


def score_spread(graded: Graded, trials: npt.NDArray[np.int64]) -> tuple[float, float]:
    """Mean and standard deviation of all scores; 1 for the sd where they are all the same.

    Parameters
    ----------
    graded : Graded
    trials : int64 array (n_groups,)
        Trials in each group.

    Returns
    -------
    mean, sd : float

    Raises
    ------
    DataError
        For scores that vary too much or too little for a sampler: by themselves, or for their size.
    """
    n, scores = int(trials.sum()), graded.mean
    mean = float((trials * scores).sum() / n)
    mean += float((trials * (scores - mean)).sum() / n)
    # In units of the largest: the square of 1e-200 is 0. Of known errors `squares` are weighted,
    # but then every group is one trial and has none.
    size = float(np.abs(scores).max()) or 1.0
    squares = (trials * ((scores - mean) / size) ** 2).sum() + (graded.squares / size / size).sum()
    sd = size * float(np.sqrt(squares / max(n - 1, 1)))
    if sd <= _ROUNDING * size:
        return mean, 1.0
    _check_spread(mean, sd, size)
    return mean, sd


def _check_spread(mean: float, sd: float, size: float) -> None:
    """Refuse scores whose spread is far from 1, or lost beside their size."""
    if sd < _LEAST_RATIO * size:
        raise DataError(
            explain(
                "the scores differ by too little for their size: their differences are lost in the "
                "rounding of the numbers",
                given=f"a standard deviation of {sd:.2g} around a mean of {mean:.6g}",
                allowed=f"a standard deviation from {_LEAST_RATIO:g} times the largest score",
                do=f"Subtract {mean:.3g} from every score.",
            )
        )
    if not _SMALLEST_SD <= sd <= _LARGEST_SD:
        power = round(-float(np.log10(sd)))
        raise DataError(
            explain(
                "the scores are in a unit that no sampler can work in",
                given=f"a standard deviation of {sd:.2g}",
                allowed=f"standard deviations from {_SMALLEST_SD:g} to {_LARGEST_SD:g}",
                do=f"Rescale: multiply every score, and its standard error, by 1e{power}.",
            )
        )
