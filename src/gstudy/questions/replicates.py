"""Replicated trials: scores drawn anew from posterior draws, in the cells that were observed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from gstudy.fits.fitted import Fit
    from gstudy.study.cells import Cells
    from gstudy.study.components import Component

__all__ = ["Scores", "effects_kept", "log_likelihood", "observed_scores", "replicated"]

Array = npt.NDArray[np.float64]
Picks = npt.NDArray[np.intp]

# Replicates are drawn in batches of so many cells in all: 8 bytes each, a few arrays at a time.
_BATCH_CELLS = 2_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """Scores of each cell, observed or replicated.

    Parameters
    ----------
    sums, squares : array (..., n_cells)
        Sum of the scores, and of their squares; of 0/1 scores both are the passes.
    """

    sums: Array
    squares: Array


def observed_scores(cells: Cells) -> Scores:
    """The scores as collected, arrays (n_cells,)."""
    if cells.graded is None:
        passes = cells.successes.astype(float)
        return Scores(passes, passes)
    graded, n = cells.graded, cells.trials
    # With known errors the deviations are weighted by 1 / error^2: back to their mean size.
    factor = 1.0 if graded.precision is None else n / graded.precision
    return Scores(n * graded.mean, graded.squares * factor + n * graded.mean**2)


def replicated(
    fit: Fit, picks: Picks, rng: np.random.Generator, anew: frozenset[str] = frozenset()
) -> Iterator[Scores]:
    """Replicates of the scores, one per picked draw, in batches.

    Parameters
    ----------
    fit : Fit
    picks : int array (n,)
        Places among all draws, chain after chain.
    rng : numpy.random.Generator
    anew : frozenset of str
        Facets with new levels: the effects of every component that holds one of them are drawn
        from ``Normal(0, sd)`` of the same draw; all others are those of the fitted levels.

    Yields
    ------
    Scores
        Arrays (b, n_cells), the b adding up to n.
    """
    cells = fit.design.cells
    size = max(1, _BATCH_CELLS // max(len(cells.trials), 1))
    for start in range(0, len(picks), size):
        batch = picks[start : start + size]
        yield _scores(fit, batch, _predictor(fit, batch, rng, anew), rng)


def effects_kept(fit: Fit) -> bool:
    """Whether the draws of every effect are in the fit, not only their mean and sd."""
    posterior = fit.posterior["posterior"]
    return all(f"u({component.name})" in posterior for component in fit.design.components)


def log_likelihood(fit: Fit) -> Array:
    """Log-likelihood of all cells given the fitted effects, up to a constant.

    Parameters
    ----------
    fit : Fit
        With the draws of every effect (see `effects_kept`).

    Returns
    -------
    array (chain, draw)
        Binary: ``sum k eta - n log(1 + exp(eta))``. Graded: the normal one, of known or
        estimated errors.
    """
    cells, total = fit.design.cells, np.empty(fit.mu.size)
    size = max(1, _BATCH_CELLS // max(len(cells.trials), 1))
    rng = np.random.default_rng(0)  # nothing is drawn: every effect is kept
    for start in range(0, total.size, size):
        picks = np.arange(start, min(start + size, total.size))
        eta = _predictor(fit, picks, rng, frozenset())
        if cells.graded is None:
            cell = cells.successes * eta - cells.trials * np.logaddexp(0.0, eta)
        else:
            cell = _graded_log_likelihood(fit, picks, eta)
        total[picks] = cell.sum(axis=1)
    return total.reshape(fit.mu.shape)


def _graded_log_likelihood(fit: Fit, picks: Picks, eta: Array) -> Array:
    cells = fit.design.cells
    graded = cells.graded
    assert graded is not None
    if graded.precision is not None:
        return np.asarray(-0.5 * graded.precision * (graded.mean - eta) ** 2)
    sd = _values(fit, "sd(residual)", picks)[:, None]
    squares = graded.squares + cells.trials * (graded.mean - eta) ** 2
    return np.asarray(-cells.trials * np.log(sd) - 0.5 * squares / sd**2)


def _values(fit: Fit, variable: str, picks: Picks, component: Component | None = None) -> Array:
    """Picked draws of a variable, (n, ...); systems in the order of their codes in the cells."""
    draws = fit.posterior["posterior"].to_dataset()[variable].transpose("chain", "draw", ...)
    if component is not None and component.varies is not None:
        labels = list(fit.design.cells.labels[component.varies])
        by = [f"by({component.name})", f"by_2({component.name})"]
        draws = draws.sel({dim: labels for dim in by if dim in draws.dims})
        draws = draws.transpose(..., *[dim for dim in by if dim in draws.dims])
    values = np.asarray(draws.values)
    return np.asarray(values.reshape(-1, *values.shape[2:])[picks], dtype=float)


def _predictor(fit: Fit, picks: Picks, rng: np.random.Generator, anew: frozenset[str]) -> Array:
    """Linear predictor of each cell, (n, n_cells)."""
    cells = fit.design.cells
    eta = np.repeat(_values(fit, "mu", picks)[:, None], len(cells.trials), axis=1)
    for i, component in enumerate(cells.components):
        place: tuple[Any, ...] = (slice(None), cells.index[i])
        if component.fixed:
            eta += _values(fit, f"fixed({component.name})", picks)[place]
            continue
        fresh = bool(component.facets & anew)
        effects = (_new_effects if fresh else _fitted_effects)(fit, i, picks, rng)
        if effects.ndim == 3:
            place = (*place, cells.codes[:, cells.facets.index(component.varies or "")])
        eta += effects[place]
    return eta


def _fitted_effects(fit: Fit, i: int, picks: Picks, rng: np.random.Generator) -> Array:
    """Effects of the fitted levels as drawn, or drawn from the mean and sd that were kept."""
    component = fit.design.cells.components[i]
    posterior = fit.posterior["posterior"]
    if f"u({component.name})" in posterior:
        return _values(fit, f"u({component.name})", picks, component)
    mean = posterior[f"u_mean({component.name})"].to_numpy()
    sd = posterior[f"u_sd({component.name})"].to_numpy()
    return np.asarray(mean + sd * rng.standard_normal((len(picks), *mean.shape)))


def _new_effects(fit: Fit, i: int, picks: Picks, rng: np.random.Generator) -> Array:
    """Effects of new levels, Normal(0, sd)."""
    cells = fit.design.cells
    component, n_levels = cells.components[i], len(cells.levels[i])
    sd = _values(fit, f"sd({component.name})", picks, component)
    if sd.ndim == 1:
        return np.asarray(sd[:, None] * rng.standard_normal((len(picks), n_levels)))
    if component.varies in component.facets:
        owner = _owner(cells, component, i)
        return np.asarray(sd[:, owner] * rng.standard_normal((len(picks), n_levels)))
    shape = (len(picks), n_levels, sd.shape[1])
    root = np.linalg.cholesky(_values(fit, f"corr({component.name})", picks, component))
    correlated = np.einsum("nks,nts->nkt", rng.standard_normal(shape), root)
    return np.asarray(sd[:, None, :] * correlated)


def _owner(cells: Cells, component: Component, i: int) -> npt.NDArray[np.int32]:
    """Of each level of a component that is nested in the object, the code of its object."""
    inside = [facet for facet in cells.facets if facet in component.facets]
    return cells.levels[i][:, inside.index(component.varies or "")]


def _scores(fit: Fit, picks: Picks, eta: Array, rng: np.random.Generator) -> Scores:
    cells = fit.design.cells
    n, graded = cells.trials, cells.graded
    if graded is None:
        from scipy.special import expit

        passes = rng.binomial(n, expit(eta)).astype(float)
        return Scores(passes, passes)
    if graded.precision is None:
        sd = _values(fit, "sd(residual)", picks)[:, None]
    else:
        sd = np.sqrt(n / graded.precision)[None, :]
    mean = eta + sd / np.sqrt(n) * rng.standard_normal(eta.shape)
    within = np.where(n > 1, rng.chisquare(np.maximum(n - 1, 1), eta.shape), 0.0) * sd**2
    return Scores(n * mean, within + n * mean**2)
