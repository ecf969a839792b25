"""Predicted widths of the interval of an ICC, draw by draw, in three ways."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gstudy.errors import QuantityError, explain
from gstudy.planning.icc_information import (
    interval_width,
    logit_icc_sd,
    prior_information,
    task_information,
)
from gstudy.planning.icc_mean_squares import icc_error
from gstudy.study.designs import TRIALS
from gstudy.study.priors import default_mu_prior, default_sd_prior
from gstudy.variance.designs import needed_counts, read_design
from gstudy.variance.draws import Array, normal_quantile
from gstudy.variance.weights import balanced

if TYPE_CHECKING:
    from gstudy.study.index_sets import IndexSet
    from gstudy.variance.basis import Basis
    from gstudy.variance.decomposition import Decomposition
    from gstudy.variance.structure import Structure

__all__ = ["Sizes", "bonett_widths", "information_widths", "mean_square_widths"]

Sizes = Mapping[str, Sequence[int]]
"""Numbers of "tasks" and of "rollouts"."""

# Draws that widths are computed for: each takes a quadrature per number of rollouts.
_DRAWS = 200
_ENOUGH = 8
_SMALLEST_SD = 1e-3
_EDGE = 1e-12


def information_widths(basis: Basis, label: str | None, sizes: Sizes, coverage: float) -> Array:
    """Posterior widths of the only facet of 0/1 scores, by the expected information.

    Parameters
    ----------
    basis : Basis
    label : str or None
        The level of the object.
    sizes : mapping
    coverage : float

    Returns
    -------
    array (n_tasks, n_rollouts, chain, draw)
        For evenly chosen draws.
    """
    assert basis.latent is not None
    latent = basis.latent if label is None else basis.latent.given(label)
    mus, sds = _thinned(latent.mu), np.sqrt(_thinned(latent.total))
    known = basis.study.priors
    mu_prior = known.get("mu") or default_mu_prior(0.0, None)
    sd_prior = known.get(f"sd({latent.names[0]})") or default_sd_prior(_ENOUGH, is_object=False)
    quantile = normal_quantile(coverage)
    shape = (len(sizes["tasks"]), len(sizes["rollouts"]), *mus.shape)
    widths = np.empty(shape)
    for place in np.ndindex(mus.shape):
        mu, sd = float(mus[place]), max(float(sds[place]), _SMALLEST_SD)
        prior = prior_information(mu_prior, sd_prior, mu, sd)
        for j, rollouts in enumerate(sizes["rollouts"]):
            own = task_information(mu, sd, rollouts)
            logit, spread = logit_icc_sd(mu, sd, sizes["tasks"], own, prior)
            icc = 1 / (1 + math.exp(-logit))
            error = bonett_error(np.array(icc), np.array(sizes["tasks"]), rollouts)
            found = interval_width(np.array(logit), spread, quantile, error)
            widths[(slice(None), j, *place)] = found
    return widths


def mean_square_widths(
    part: Decomposition,
    name: str,
    sizes: Sizes,
    design: Mapping[str, int] | None,
    coverage: float,
) -> Array:
    """Widths by mean squares of normal scores, of any balanced design.

    Parameters
    ----------
    part : Decomposition
        Score scale.
    name : str
        The facet.
    sizes : mapping
    design : mapping or None
        Levels of the other facets.
    coverage : float

    Returns
    -------
    array (n_tasks, n_rollouts, chain, draw)

    Raises
    ------
    QuantityError
        For facets whose levels the design does not say, and a single level of one.
    """
    structure = part.structure
    facet = structure.facet_of(structure.find(name))
    counts_of = _designs(structure, facet, design)
    sets = structure.sets()
    unique = np.stack([_thinned(part.of(own)) for own in sets])
    noise = _thinned(part.noise)
    if not (unique.sum(axis=0) + noise).all():
        raise QuantityError(
            explain(
                "no ICC is defined where no score varies: every variance is 0",
                do="Give the noise of a trial too: residual=..., or a variance above 0.",
            )
        )
    shape = noise.shape
    flat = unique.reshape(len(sets), -1), noise.ravel()
    rows = [
        _one_width(structure, sets, flat, counts_of(n, k), structure.find(name), coverage)
        for n in sizes["tasks"]
        for k in sizes["rollouts"]
    ]
    return np.reshape(rows, (len(sizes["tasks"]), len(sizes["rollouts"]), *shape))


def bonett_widths(part: Decomposition, name: str, sizes: Sizes, coverage: float) -> Array:
    """Bonett's widths, ``2 z SE``, of the only facet; as `mean_square_widths`."""
    index_set = part.structure.find(name)
    whole = part.total
    inside = part.within(index_set)
    icc = _thinned(np.divide(inside, whole, out=np.zeros_like(whole), where=whole > 0))
    quantile = normal_quantile(coverage)
    rows = [
        2 * quantile * bonett_error(icc, np.array(n), k)
        for n in sizes["tasks"]
        for k in sizes["rollouts"]
    ]
    return np.reshape(rows, (len(sizes["tasks"]), len(sizes["rollouts"]), *icc.shape))


def bonett_error(icc: Array, tasks: Array, rollouts: int) -> Array:
    """Bonett's standard error of an ICC of so many rollouts of each task."""
    k = rollouts
    spread = (1 - icc) * (1 + (k - 1) * icc)
    return np.asarray(spread * np.sqrt(2 / (k * (k - 1) * (tasks - 1))))


def _one_width(
    structure: Structure,
    sets: Sequence[IndexSet],
    parts: tuple[Array, Array],
    counts: Mapping[str, float],
    measured: IndexSet,
    coverage: float,
) -> Array:
    _check_several(structure, counts)
    weights = balanced(structure, counts, sets)
    levels = {own: round(1 / float(weights.q[own])) for own in sets}
    trials = round(1 / float(weights.noise))
    icc, error = icc_error(sets, *parts, levels, trials, measured)
    icc = np.clip(icc, _EDGE, 1 - _EDGE)
    logit = np.log(icc / (1 - icc))
    return interval_width(logit, error / (icc * (1 - icc)), normal_quantile(coverage), error)


def _check_several(structure: Structure, counts: Mapping[str, float]) -> None:
    for facet in structure.facets:
        if counts[facet] < 2:
            raise QuantityError(
                explain(
                    f"of a single level of {facet!r} no variance can be told",
                    given={facet: int(counts[facet])},
                    allowed="2 levels or more of each facet",
                )
            )


def _designs(
    structure: Structure, facet: str, design: Mapping[str, int] | None
) -> Callable[[int, int], Mapping[str, float]]:
    """The counts of a design by its numbers of levels and of rollouts."""
    given = dict(design or {})
    needed = [name for name in needed_counts(structure) if name != facet]
    repeats = {*structure.redrawn, *structure.absorbed, TRIALS}
    # Without a facet of their own rollouts are the trials of a cell.
    key = next((name for name in needed if name in repeats and name not in given), TRIALS)
    rest = [name for name in needed if name not in given and name != key]
    if rest:
        raise QuantityError(
            explain(
                "other facets vary besides: how many levels of each?",
                given=given or None,
                allowed=f"a number for each of {', '.join(rest)}",
                do="Pass them as design={facet: number of levels}.",
            )
        )

    def counts(n: int, rollouts: int) -> Mapping[str, float]:
        own = {key: rollouts} if key in needed else {}
        alone = {TRIALS: float(rollouts)} if key == TRIALS else {}
        return alone | read_design(structure, {**given, facet: n, **own})

    return counts


def _thinned(values: Array) -> Array:
    """Evenly chosen draws of every chain, (..., chain, draw)."""
    n_chains, n_draws = values.shape[-2:]
    each = min(n_draws, max(1, _DRAWS // n_chains))
    return values[..., np.linspace(0, n_draws - 1, each).round().astype(int)]
