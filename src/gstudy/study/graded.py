"""Graded scores in groups of trials: what a normal likelihood needs to know of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from gstudy.study.partition import Partition

__all__ = ["Graded", "combine", "graded_trials", "score_spread"]

Floats = npt.NDArray[np.float64]

# Scores that differ by less than this, relative to their size, are one score.
_ROUNDING = 1e-12


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


def graded_trials(scores: Floats, errors: Floats | None) -> Graded:
    """Single trials as groups of one.

    Parameters
    ----------
    scores : float64 array (n_trials,)
    errors : float64 array (n_trials,), or None
        Known standard errors.
    """
    zeros = np.zeros(len(scores))
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


def score_spread(scores: Floats) -> tuple[float, float]:
    """Mean and standard deviation of all scores; 1 for the sd where they are all the same.

    Parameters
    ----------
    scores : float64 array (n_trials,)

    Returns
    -------
    mean, sd : float
    """
    mean = float(scores.mean())
    mean += float((scores - mean).mean())
    sd = float(np.sqrt(((scores - mean) ** 2).sum() / max(len(scores) - 1, 1)))
    return mean, sd if sd > _ROUNDING * float(np.abs(scores).max()) else 1.0
