"""Graded scores: y ~ Normal(eta, residual sd), through one mean and one sum of squares per cell.

As `likelihood` for counts: one numba kernel serves the PyTensor Op inside the PyMC model and the
direct path, so the two cannot differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numba
import numpy as np
from numpy.typing import NDArray

from gstudy.errors import DataError, explain
from gstudy.model.unrolled import add_effects, add_residuals

if TYPE_CHECKING:
    from gstudy.study.cells import Cells
    from gstudy.study.priors import Prior

__all__ = ["GradedScores", "gaussian_pass", "graded_scores"]

Floats = NDArray[np.float64]

KERNEL_VERSION = 2
"""Part of the key of the compiled code on disk: raise it with every change of the kernel."""

LOG_2PI = float(np.log(2.0 * np.pi))


@dataclass(frozen=True, slots=True, eq=False)
class GradedScores:
    """All that the likelihood of graded scores needs.

    ``log p = constant - n log s - (squares + sum_i precision_i (means_i - eta_i)^2) / (2 s^2)``:
    the density of every single score. With known errors s is 1 and `precision` is the sum of
    ``1 / error^2`` in a cell; without, `precision` counts trials and s is the residual sd.

    Parameters
    ----------
    means, precision : (n_cells,) float64
    squares : float
        Squared deviations from the cells' means, summed (weighted by 1 / error^2 when known).
    n_trials : float
        Trials that share the unknown residual sd; 0 with known errors.
    constant : float
    prior : Prior or None
        Of the residual sd; None with known errors.
    """

    means: Floats
    precision: Floats
    squares: float
    n_trials: float
    constant: float
    prior: Prior | None


def graded_scores(cells: Cells, prior: Prior | None) -> GradedScores | None:
    """The scores of graded cells; None of binary ones.

    Parameters
    ----------
    cells : Cells
    prior : Prior or None
        Of the residual sd: needed where errors are not known.

    Returns
    -------
    GradedScores or None

    Raises
    ------
    DataError
        When repeated trials never differ: a residual sd of 0 then has infinite density.
    """
    graded = cells.graded
    if graded is None:
        return None
    n_trials, squares = float(cells.trials.sum()), float(graded.squares.sum())
    constant = -0.5 * n_trials * LOG_2PI
    means = graded.mean.astype(np.float64)
    if graded.precision is not None:
        precision = graded.precision.astype(np.float64)
        return GradedScores(means, precision, squares, 0.0, constant - graded.log_errors, None)
    if prior is None:
        raise TypeError("graded scores without known errors need a prior of the residual sd")
    if _never_differ(cells, squares):
        raise DataError(
            explain(
                "repeated trials never differ in score, so that there is no residual to estimate",
                given=f"{int(n_trials):,} trials in {len(means):,} cells",
                do="Keep one trial of each cell, or give known errors as standard_error.",
            )
        )
    trials = cells.trials.astype(np.float64)
    return GradedScores(means, trials, squares, n_trials, constant, prior)


def _never_differ(cells: Cells, squares: float) -> bool:
    """Whether the effects could fit every single score: repeated ones do not differ within their
    cell and one component has a level for each cell, or all scores are one number."""
    assert cells.graded is not None
    means = cells.graded.mean
    # Scores are as exact as their size: a part in 1e14 of it.
    rounding = 1e-28 * float(np.sum(cells.trials * means**2))
    if squares > rounding:
        return False
    saturated = any(component.n_levels == len(means) for component in cells.components)
    repeated = int(cells.trials.sum()) > len(means)
    return bool(np.ptp(means) == 0.0) or (repeated and saturated)


@numba.njit(nogil=True, cache=True, error_model="numpy")
def gaussian_pass(mu, effects, index, means, precision, log_sd, squares, n_trials, d_effects):
    # pragma: no cover - compiled
    """Log-likelihood (without its constant) and its gradient, in one pass over cells.

    Parameters
    ----------
    mu : float
        Common mean, in score units.
    effects : (n_effects,) float64
        Effects of all components, one after the other.
    index : (n_cells, n_components) int32
        Position in `effects` of each component's level, for each cell.
    means, precision : (n_cells,) float64
    log_sd : float
        Log of the residual sd; 0 with known errors.
    squares, n_trials : float
    d_effects : (n_effects,) float64
        Overwritten with the gradient in `effects`.

    Returns
    -------
    (float, float, float)
        The log-likelihood and its derivatives in `mu` and in `log_sd`.
    """
    n_cells = index.shape[0]
    d_effects[:] = 0.0
    share = np.exp(-2.0 * log_sd)
    off = squares
    d_mu = 0.0
    eta, pulls = np.full(n_cells, mu), np.empty(n_cells)
    add_effects(effects, index, eta)
    for i in range(n_cells):
        residual = means[i] - eta[i]
        pulls[i] = share * precision[i] * residual
        off += precision[i] * residual * residual
        d_mu += pulls[i]
    add_residuals(pulls, index, d_effects)
    off *= share
    return -n_trials * log_sd - 0.5 * off, d_mu, off - n_trials
