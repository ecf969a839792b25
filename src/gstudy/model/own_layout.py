"""Between a model with own sds and the direct path: its arguments, and draws by name."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gstudy.model.factors import partial_shapes
from gstudy.model.own_direct import (
    COMMON,
    CROSSED,
    FIXED,
    OWN,
    OwnArguments,
    own_log_posterior,
    own_values,
)
from gstudy.model.parameterisation import LOCATION, MU_SCALE
from gstudy.model.sd_priors import encode, known

if TYPE_CHECKING:
    from gstudy.model.sd_priors import Encoded
    from gstudy.model.varying import OwnBlock, Varying

__all__ = ["OwnDirectPosterior", "own_direct_posterior"]

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

LOG_2PI = math.log(2.0 * math.pi)


@dataclass(frozen=True, slots=True, eq=False)
class OwnDirectPosterior:
    """The arguments of `own_log_posterior`, and the way back from its vectors to named arrays.

    Parameters
    ----------
    varying : Varying
    given : OwnArguments
    places : int array (n_effects,)
        Where each of the direct path's effects stands in those of `varying`: there the last level
        of each row comes at the end of its block.
    n_free : int
        Length of the unconstrained vector.
    """

    varying: Varying
    given: OwnArguments
    places: Whole
    n_free: int

    def __call__(self, x: Floats) -> tuple[float, Floats]:
        """Log-posterior and gradient at one unconstrained vector."""
        value, gradient = own_log_posterior(x, self.given)
        return value, gradient

    def unpack(self, x: Floats) -> dict[str, Floats]:
        """Draws (..., n_free) to the values of the PyMC model's free variables, by name."""
        v, shape, n_systems = self.varying, x.shape[:-1], self.varying.n_systems
        flat = own_values(np.ascontiguousarray(x.reshape(-1, self.n_free)), self.given)
        z = np.empty_like(flat)
        z[:, self.places] = flat[:, : len(self.places)]
        values = {MU_SCALE: np.exp(x[..., 0])} if v.base.mu_nu > 0.0 else {}
        for block, part, row in zip(v.blocks, v.slices(), self.given.blocks, strict=True):
            at, n_sds = row[3], row[1]
            if n_sds:
                own = (n_sds,) if block.component.varies else ()
                values[f"sd({block.name})"] = np.exp(x[..., at : at + n_sds]).reshape(
                    (*shape, *own)
                )
            rows: tuple[int, ...] = ()
            if block.segments is None:
                end, rows = at + n_sds, (n_systems,)
                logits = x[..., end : end + n_systems * (n_systems - 1) // 2]
                values[f"partial({block.name})"] = 1.0 / (1.0 + np.exp(-logits))
            if block.segments is None or block.segments.n_free:
                values[block.variable] = z[:, part].reshape((*shape, *rows, -1))
        values[LOCATION] = flat[:, len(self.places) :].reshape((*shape, n_systems, 1))
        return values


def own_direct_posterior(varying: Varying) -> OwnDirectPosterior:
    """Bind a model with own sds and its cells to `own_log_posterior`.

    Parameters
    ----------
    varying : Varying

    Returns
    -------
    OwnDirectPosterior
    """
    v = varying
    priors = [_prior(block) for block in v.blocks]
    sizes = [_sizes(block, v.n_systems) for block in v.blocks]
    table, n_free = _table(v, priors, sizes)
    places = np.concatenate(
        [p.start + _order(b) for b, p in zip(v.blocks, v.slices(), strict=True)]
    )
    n_effects = len(places)
    # Where each effect of `varying` stands here; the levels of the systems keep their places.
    at = np.concatenate([np.argsort(places), n_effects + np.arange(v.n_systems)])
    system, effect = np.nonzero(v.weights[:, places])
    constant = v.base.log_coefficients - 0.5 * LOG_2PI * v.n_systems + _constant_of_mu(v)
    for block, prior, row, size in zip(v.blocks, priors, table, sizes, strict=True):
        constant += _constant(block, prior, int(row[1]), v.n_systems, int(size.sum() - len(size)))
    given = OwnArguments(
        blocks=table,
        sizes=np.concatenate(sizes),
        priors=np.array([(prior.a, prior.b) for prior in priors]),
        information=v.information[places],
        scores=v.scores[places],
        linked=np.stack([system, effect], axis=1),
        weights=v.weights[:, places][system, effect],
        levels=np.stack([v.level_information, v.level_scores]),
        positions=np.ascontiguousarray(at[v.base.index], dtype=np.int64),
        successes=v.base.successes,
        trials=v.base.trials,
        numbers=np.array([v.base.mu_mean, v.base.mu_sd**2, v.base.mu_nu, constant]),
    )
    return OwnDirectPosterior(v, given, places, n_free)


def _kind(block: OwnBlock) -> int:
    if block.segments is None:
        return CROSSED
    if block.component.fixed:
        return FIXED
    return OWN if block.per_system else COMMON


def _prior(block: OwnBlock) -> Encoded:
    prior = block.component.prior
    return known(prior.sigma) if block.component.fixed else encode(prior)


def _sizes(block: OwnBlock, n_systems: int) -> Whole:
    """Levels in each row of each group."""
    if block.segments is None:
        return np.array([block.size // n_systems])
    return block.segments.sizes.astype(np.int64)


def _table(v: Varying, priors: list[Encoded], sizes: list[Whole]) -> tuple[Whole, int]:
    """`OwnArguments.blocks`, and the number of coordinates."""
    rows, at_x, at_effect, at_group = [], int(v.base.mu_nu > 0.0), 0, 0
    for block, prior, size in zip(v.blocks, priors, sizes, strict=True):
        kind = _kind(block)
        n_sds = 0 if kind == FIXED else v.n_systems if block.component.varies else 1
        n_rows = v.n_systems if kind == CROSSED else 1
        rows.append([kind, n_sds, prior.kind, at_x, at_effect, at_group])
        n_partial = len(partial_shapes(v.n_systems)) if kind == CROSSED else 0
        at_x += n_sds + n_partial + n_rows * int((size - 1).sum())
        at_effect += block.size
        at_group += len(size)
    return np.array(rows, dtype=np.int64).reshape(-1, 6), at_x + v.n_systems


def _order(block: OwnBlock) -> Whole:
    """Places in a block of its rows' levels, row after row."""
    if block.segments is None:
        return np.arange(block.size)
    return np.argsort(block.segments.member.argmax(axis=0), kind="stable")


def _constant(block: OwnBlock, prior: Encoded, n_sds: int, n_systems: int, n_free: int) -> float:
    """Constants of one block's priors: its sds, partial correlations and standard effects."""
    if block.segments is not None:
        return n_sds * prior.constant - 0.5 * LOG_2PI * n_free
    beta = sum(2.0 * math.lgamma(b) - math.lgamma(2.0 * b) for b in partial_shapes(n_systems))
    return n_sds * prior.constant - beta - 0.5 * LOG_2PI * n_systems * n_free


def _constant_of_mu(v: Varying) -> float:
    """Constant of the InverseGamma prior of mu's scale."""
    half = 0.5 * v.base.mu_nu
    return half * math.log(half) - math.lgamma(half) if half else 0.0
