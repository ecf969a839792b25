"""Back from the model with own sds: mu and every effect, exactly, from each draw.

Given the level of each system, mu, the systems' effects and the means of all other effects are
jointly normal: they are drawn here, per posterior draw, as in `sweep`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gstudy.model.factors import cholesky_draws
from gstudy.model.parameterisation import LOCATION, MU_SCALE

if TYPE_CHECKING:
    from gstudy.model.varying import OwnBlock, Varying

__all__ = ["OwnDraws", "recover_levels"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class OwnDraws:
    """Posterior draws, systems in the order of their labels.

    Parameters
    ----------
    mu : array (...,)
    sds : list of arrays (...,) or (..., S)
        One per component; of fixed effects the known sd.
    effects : list of arrays (..., K) or (..., K, S)
    correlations : list of arrays (..., S, S), or None
        None of components that are not crossed with the object.
    """

    mu: Floats
    sds: list[Floats]
    effects: list[Floats]
    correlations: list[Floats | None]


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """What one component adds to the systems' levels: effects less their means, and the law of
    the means, ``factor z`` with z standard normal."""

    effects: Floats
    factor: Floats
    sd: Floats
    correlation: Floats | None = None


def recover_levels(
    varying: Varying, values: Mapping[str, Floats], rng: np.random.Generator
) -> OwnDraws:
    """Draw mu and the effects of every component given the sampled variables.

    Mu' and means m_k' are drawn from their priors, with covariance C_k between systems each; with
    ``r = level - mu' - sum m_k'`` and ``V = s0^2 1 1' + sum C_k``, ``m_k = m_k' + C_k V^-1 r`` (mu
    likewise) are draws from their conditional given the levels.

    Parameters
    ----------
    varying : Varying
    values : mapping
        Draws (..., ) + shape of each free variable of `own_model`.
    rng : numpy.random.Generator

    Returns
    -------
    OwnDraws
    """
    v = varying
    parts = [_part(v, block, values) for block in v.blocks]
    s0 = _mu_sd(v, values)
    factors = [s0[..., None, None] * np.ones((v.n_systems, 1)), *(p.factor for p in parts)]
    means = [_times(f, rng.standard_normal((*s0.shape, f.shape[-1]))) for f in factors]
    means[0] += v.base.mu_mean
    root = np.linalg.cholesky(sum(f @ np.swapaxes(f, -1, -2) for f in factors))
    excess = v.base.mu_mean + (root @ values[LOCATION])[..., 0] - sum(means)
    pull = _solved(root @ np.swapaxes(root, -1, -2), excess)
    means = [
        mean + _times(f, _times(np.swapaxes(f, -1, -2), pull))
        for mean, f in zip(means, factors, strict=True)
    ]
    effects = [
        _whole(v, block, part, mean)
        for block, part, mean in zip(v.blocks, parts, means[1:], strict=True)
    ]
    order = v.order
    return OwnDraws(
        mu=means[0][..., 0],
        sds=[_relabelled(b, p.sd, order) for b, p in zip(v.blocks, parts, strict=True)],
        effects=effects,
        correlations=[
            None if p.correlation is None else p.correlation[..., order, :][..., order]
            for p in parts
        ],
    )


def _times(matrix: Floats, vector: Floats) -> Floats:
    return np.asarray((matrix @ vector[..., None])[..., 0])


def _solved(matrix: Floats, vector: Floats) -> Floats:
    return np.asarray(np.linalg.solve(matrix, vector[..., None])[..., 0])


def _mu_sd(v: Varying, values: Mapping[str, Floats]) -> Floats:
    """Prior sd of mu in each draw."""
    scale = values.get(MU_SCALE, np.ones(values[LOCATION].shape[:-2]))
    return np.asarray(v.base.mu_sd * np.sqrt(scale))


def _part(v: Varying, block: OwnBlock, values: Mapping[str, Floats]) -> _Part:
    shape, n_systems = values[LOCATION].shape[:-2], v.n_systems
    if block.segments is None:
        sd = values[f"sd({block.name})"]
        root = cholesky_draws(values[f"partial({block.name})"], n_systems)
        factor = sd[..., None] * root / np.sqrt(block.size / n_systems)
        effects = (sd[..., None] * root @ values[block.variable]).reshape(*shape, block.size)
        return _Part(effects, factor, sd, root @ np.swapaxes(root, -1, -2))
    fixed = block.component.fixed
    sd = np.full(shape, block.component.prior.sigma) if fixed else values[f"sd({block.name})"]
    own = sd if sd.ndim > len(shape) else sd[..., None] * np.ones(block.n_segments)
    effects = np.zeros((*shape, block.size))
    if block.segments.n_free:
        effects = (own @ block.segments.member) * values[block.variable]
    if fixed:
        return _Part(effects, np.zeros((*shape, n_systems, 0)), sd)
    mean_sd = own / np.sqrt(block.segments.sizes)
    if block.per_system:
        factor = mean_sd[..., None] * np.eye(n_systems)
    else:
        factor = np.ones((n_systems, 1)) * mean_sd[..., None]
    return _Part(effects, factor, sd)


def _whole(v: Varying, block: OwnBlock, part: _Part, mean: Floats) -> Floats:
    """Effects with their means, levels in the component's order, systems in that of labels."""
    if block.segments is None:
        rows = part.effects.reshape(*mean.shape, -1) + mean[..., None]
        return np.asarray(np.swapaxes(rows[..., v.order, :], -1, -2))
    segments = block.segments
    by_segment = mean if block.per_system else mean[..., :1]
    return np.asarray((part.effects + by_segment @ segments.member)[..., segments.place])


def _relabelled(block: OwnBlock, sd: Floats, order: NDArray[np.int64]) -> Floats:
    return sd[..., order] if block.component.varies is not None else sd
