"""Scores over given levels: these tasks, or a finite bank of which some tasks were sampled.

Effects of fitted levels are known per draw; a level that was not run is drawn anew per draw; what a
re-run draws anew, or the claim leaves open, is integrated over. The score of a level is

    E[expit(mu + fixed effects + known effects + e)],    e ~ Normal(0, variances left),

and that of a bank the weighted mean of its levels' scores. Graded scores need no link.
"""

from __future__ import annotations

import zlib
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from gstudy.study.partition import split
from gstudy.variance.draws import Array
from gstudy.variance.kernel import logistic_mean
from gstudy.variance.latent import GAUSSIAN
from gstudy.variance.trial_weights import averaged_set, cell_weights, object_rows

if TYPE_CHECKING:
    from gstudy.fits.fitted import Fit
    from gstudy.study.cells import Cells
    from gstudy.study.components import Component
    from gstudy.variance.latent import Latent

__all__ = [
    "INTEGRATED",
    "Levels",
    "bank_mean",
    "common_levels",
    "group_means",
    "kept_facets",
    "new_level_mean",
    "own_levels",
    "single_levels",
    "task_facet",
]

INTEGRATED = None
"""Label of a level that is averaged over exactly, with its effects as variances."""

# Numbers held at once per block of draws.
_BLOCK = 2**21


@dataclass(frozen=True, slots=True, eq=False)
class Levels:
    """Levels that scores are averaged over.

    Parameters
    ----------
    facets : tuple of str
        In declared order, without the object.
    labels : tuple of tuple
        One label per facet; a whole number in place of a text is a level that nobody ran, and
        `INTEGRATED` stands for the exact mean over such levels.
    weights : array (n_levels,)
        They sum to 1.
    """

    facets: tuple[str, ...]
    labels: tuple[tuple[Hashable, ...], ...]
    weights: Array

    def column(self, facets: Iterable[str]) -> list[tuple[Hashable, ...]]:
        """The labels of some of the facets, one tuple per level."""
        known = frozenset(facets)
        places = [i for i, facet in enumerate(self.facets) if facet in known]
        return [tuple(row[i] for i in places) for row in self.labels]


def kept_facets(fits: Sequence[Fit]) -> tuple[str, ...]:
    """The facets whose levels a re-run keeps, of those that every fit knows the levels of.

    Parameters
    ----------
    fits : sequence of Fit
        Of one study.

    Returns
    -------
    tuple of str
        In declared order, without the object.
    """
    study = fits[0].study
    redrawn = study.redrawn_on_rerun()
    known = [{*fit.design.cells.facets, *single_levels(fit)} for fit in fits]
    told = frozenset[str]().union(*(fit.design.cells.facets for fit in fits))
    return tuple(
        facet
        for facet in study.facet_names
        if facet in told
        and facet != study.object
        and facet not in redrawn
        and all(facet in own for own in known)
    )


def task_facet(fit: Fit) -> str | None:
    """The facet whose levels are the tasks: the one with most levels of the legitimate ones that
    a re-run keeps, or of all kept ones where none is legitimate.

    Parameters
    ----------
    fit : Fit

    Returns
    -------
    str or None
        None when a re-run keeps nothing.
    """
    kept = [facet for facet in kept_facets([fit]) if fit.study.facet(facet).role != "controlled"]
    legitimate = [facet for facet in kept if fit.study.facet(facet).role == "legitimate"]
    cells = fit.design.cells

    def n_levels(facet: str) -> int:
        inside = fit.study.closure(facet)
        columns = [i for i, name in enumerate(cells.facets) if name in inside]
        return split(cells.codes, columns).n_levels

    return max(legitimate or kept, key=n_levels, default=None)


def own_levels(fit: Fit, label: str | None, facets: Sequence[str]) -> Levels:
    """The levels that one system ran, with their weights in its reported score.

    Parameters
    ----------
    fit : Fit
    label : str or None
        The level of the object, of several; else all trials.
    facets : sequence of str
        As `kept_facets` gives them.

    Returns
    -------
    Levels
    """
    cells, single = fit.design.cells, single_levels(fit)
    by_label = object_rows(cells, fit.study.object)
    rows = by_label[label] if label in by_label else by_label[next(iter(by_label))]
    shares = cell_weights(cells, rows, averaged_set(fit.study))
    columns = [_labels_of(cells, facet, rows, single) for facet in facets]
    weights: dict[tuple[Hashable, ...], float] = {}
    keys = zip(*columns, strict=True) if columns else iter([()] * len(rows))
    for key, share in zip(keys, shares.tolist(), strict=True):
        weights[key] = weights.get(key, 0.0) + share
    return Levels(tuple(facets), tuple(weights), np.array(list(weights.values())))


def common_levels(parts: Sequence[Levels]) -> Levels:
    """The levels that any of several systems ran, each with its mean weight.

    Parameters
    ----------
    parts : sequence of Levels
        Of the same facets.

    Returns
    -------
    Levels
    """
    weights: dict[tuple[Hashable, ...], float] = {}
    for part in parts:
        for key, weight in zip(part.labels, part.weights.tolist(), strict=True):
            weights[key] = weights.get(key, 0.0) + weight / len(parts)
    return Levels(parts[0].facets, tuple(weights), np.array(list(weights.values())))


def bank_mean(fit: Fit, label: str | None, levels: Levels, seed: int) -> Array:
    """Expected score over given levels, per draw.

    Parameters
    ----------
    fit : Fit
    label : str or None
        The level of the object; None where it has none.
    levels : Levels
    seed : int
        Of the effects of levels that were not run; with one seed two systems of a fit share
        those that they have in common.

    Returns
    -------
    array (chain, draw)
        Score scale.
    """
    return group_means(fit, label, levels, levels.weights[:, None], seed)[..., 0]


def group_means(
    fit: Fit,
    label: str | None,
    levels: Levels,
    groups: Array,
    seed: int,
) -> Array:
    """Weighted means of the expected scores of given levels, per draw.

    Parameters
    ----------
    fit : Fit
    label : str or None
    levels : Levels
    groups : array (n_levels, n_groups)
        Weights of the levels in each mean.
    seed : int

    Returns
    -------
    array (chain, draw, n_groups)
        Score scale. A component whose facets are all among those of `levels` (the object aside)
        enters with its effects, any other with its variance, as it does at integrated levels.
    """
    known = {*levels.facets, fit.study.object}
    mean, left = fit.mu.ravel(), np.zeros(fit.mu.size)
    terms, variances, averaged = [], [], [np.zeros(len(levels.labels), dtype=bool)]
    for place, component in enumerate(fit.design.cells.components):
        if component.facets <= known:
            terms.append(_term(fit, place, label, levels, seed))
            if not component.fixed:
                averaged.append(_integrated(levels, component.facets))
                variances.append(_sd(fit, component, label) ** 2)
        elif not component.fixed:
            left = left + _sd(fit, component, label) ** 2
    patterns, pattern = np.unique(np.array(averaged), axis=1, return_inverse=True)
    means = np.zeros((mean.size, groups.shape[1]))
    for k, shares in enumerate(patterns[1:].T):
        rows = np.flatnonzero(pattern == k)
        open_here = left + sum(v for v, is_open in zip(variances, shares, strict=True) if is_open)
        step = max(_BLOCK // max(len(rows), 1), 1)
        for start in range(0, mean.size, step):
            block = slice(start, start + step)
            eta = np.repeat(mean[block, None], len(rows), axis=1)
            for effects, places in terms:
                eta += effects[block][:, places[rows]]
            means[block] += _expected(eta, open_here[block], fit.study.family) @ groups[rows]
    return means.reshape(*fit.mu.shape, groups.shape[1])


def _integrated(levels: Levels, facets: Iterable[str]) -> npt.NDArray[np.bool_]:
    """Which levels are averaged over in any of these facets, (n_levels,)."""
    return np.array([INTEGRATED in own for own in levels.column(facets)], dtype=bool)


def new_level_mean(latent: Latent) -> Array:
    """Expected score over new levels of every random facet, per draw.

    Parameters
    ----------
    latent : Latent
        Of one given system, or of a study without an object.

    Returns
    -------
    array (chain, draw)
        Score scale; over the controlled levels their weighted mean.
    """
    if latent.controlled is None:
        means, weights = latent.mu[None], np.ones(1)
    else:
        means, weights = latent.mu + latent.controlled.offsets, latent.controlled.weights
    scores = means if latent.family == GAUSSIAN else logistic_mean(means, latent.total)
    return np.asarray(np.tensordot(weights, scores, axes=1))


def _expected(eta: Array, left: Array, family: str) -> Array:
    """Expected scores (n_draws, n_levels), over the variance that is left in each draw."""
    if family == GAUSSIAN:
        return eta
    if not left.any():
        # Overflow of exp is p = 0, as it should be.
        with np.errstate(over="ignore"):
            return np.asarray(1 / (1 + np.exp(-eta)))
    return logistic_mean(eta, left[:, None])


def _term(
    fit: Fit, place: int, label: str | None, levels: Levels, seed: int
) -> tuple[Array, npt.NDArray[np.intp]]:
    """Effects (n_draws, n) of one component, and which of them each level has."""
    cells = fit.design.cells
    component = cells.components[place]
    facets = [facet for facet in cells.facets if facet in component.facets]
    labels = [cells.labels[facet] for facet in facets]
    found = {
        tuple(own[code] for own, code in zip(labels, row, strict=True)): k
        for k, row in enumerate(cells.levels[place].tolist())
    }
    whole = {facet: i for i, facet in enumerate(levels.facets)}
    keys = [
        tuple(label if facet == fit.study.object else row[whole[facet]] for facet in facets)
        for row in levels.labels
    ]
    effects = _effects(fit, component, label)
    new = dict.fromkeys(key for key in keys if key not in found and INTEGRATED not in key)
    if new:
        drawn = _new_effects(fit, component, label, len(new), [seed, place])
        effects = np.concatenate([effects, drawn], axis=1)
        found |= {key: len(found) + i for i, key in enumerate(new)}
    # What is averaged over has no effect: the last one, of nothing.
    effects = np.concatenate([effects, np.zeros((len(effects), 1))], axis=1)
    return effects, np.array([found.get(key, len(found)) for key in keys], dtype=np.intp)


def _new_effects(
    fit: Fit, component: Component, label: str | None, n_new: int, seeds: list[int]
) -> Array:
    """Effects of levels that were not run, (n_draws, n_new), the same in every call."""
    n_draws, measured = fit.mu.size, fit.study.object
    together = measured in fit.design.sampled and measured not in component.facets
    if not together:
        # What belongs to one system is its own; two fits know nothing of each other.
        seeds = [*seeds, zlib.crc32(str(label).encode())]
    rng, sd = np.random.default_rng(seeds), _sd(fit, component, label)[:, None]
    if component.varies is None or not together:
        return np.asarray(sd * rng.standard_normal((n_draws, n_new)))
    systems = list(fit.design.cells.labels[measured or ""])
    correlation = fit.correlation(component.name).transpose("chain", "draw", ...).values
    root = np.linalg.cholesky(correlation.reshape(n_draws, len(systems), len(systems)))
    row = root[:, systems.index(str(label))]
    z = rng.standard_normal((n_draws, len(systems), n_new))
    return np.asarray(sd * np.einsum("ds,dsn->dn", row, z))


def _effects(fit: Fit, component: Component, label: str | None) -> Array:
    """Effects of a component for one system, (n_draws, n_levels)."""
    if component.fixed:
        (facet,) = component.facets
        values = fit.fixed(facet)
    else:
        values = fit.effects(component.name)
    array = values.transpose("chain", "draw", ...)
    if array.ndim == 4:
        by = str(array.dims[3])
        array = array.isel({by: list(map(str, array.coords[by].values)).index(str(label))})
    return np.asarray(array.values, dtype=float).reshape(fit.mu.size, -1)


def _sd(fit: Fit, component: Component, label: str | None) -> Array:
    """Sd of a component, for one system where it has its own, (n_draws,)."""
    if component.varies is not None and label is not None:
        return fit.own_sd(component.name, label).ravel()
    return fit.sd(component.name).ravel()


def single_levels(fit: Fit) -> dict[str, str]:
    """Facets with one level, and its label."""
    return {**fit.design.not_sampled, **fit.design.pinned}


def _labels_of(
    cells: Cells, facet: str, rows: npt.NDArray[np.intp], single: Mapping[str, str]
) -> list[str]:
    """The label of one facet in each of these cells."""
    if facet not in cells.facets:
        return [single[facet]] * len(rows)
    labels = cells.labels[facet]
    return [labels[code] for code in cells.codes[rows, cells.facets.index(facet)].tolist()]
