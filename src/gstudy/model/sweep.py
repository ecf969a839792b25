"""Back from the swept model: mu and every level effect, exactly, from each draw.

The data see ``mu + sum of mean effects`` only as one sum, so the sampler works on that sum and on
effects that sum to zero. Given the sum, mu and the mean effects are jointly normal: they are drawn
here, per posterior draw.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gstudy.model.ancestors import levels_above
from gstudy.model.parameterisation import LOCATION, MU_SCALE, Parameterisation

if TYPE_CHECKING:
    from gstudy.study.cells import Cells

__all__ = ["recover", "redraw_shifts", "shifting_pairs"]

Floats = NDArray[np.float64]

DRAWS_AT_ONCE = 256


def recover(
    parameterisation: Parameterisation, values: Mapping[str, Floats], rng: np.random.Generator
) -> tuple[Floats, list[Floats]]:
    """Draw mu and the effects of every component given the sampled variables.

    Draw mu' and mean effects ubar' from their priors; with ``r = mu* - mu' - sum ubar'`` and
    ``V = s0^2 + sum sd_k^2 / K_k``, ``mu = mu' + r s0^2 / V`` and ``ubar_k = ubar'_k +
    r (sd_k^2 / K_k) / V`` are draws from their conditional given the swept mean mu*.

    Parameters
    ----------
    parameterisation : Parameterisation
    values : mapping
        Draws (...,) of ``sd(<component>)``, ``mu(swept)`` and, under a StudentT prior of mu,
        ``scale(mu)``, and (..., K) of each effect variable.
    rng : numpy.random.Generator

    Returns
    -------
    mu : array (...,)
    effects : list of arrays (..., K), one per component, fixed effects last: as they were sampled
    """
    p = parameterisation
    effects: list[Floats] = []
    swept_mean = np.array(values[LOCATION], dtype=float)
    for block, part in zip(p.blocks, p.slices(), strict=True):
        # A swept component of one level has no variable: all of its effect is its mean.
        none = np.zeros((*swept_mean.shape, block.size))
        effects.append(np.array(values[block.variable]) if block.n_free else none)
        swept_mean -= effects[-1] @ p.weights[part]
    scale = values[MU_SCALE] if p.mu_nu > 0.0 else 1.0
    variances = [np.full(swept_mean.shape, p.mu_sd**2 * scale)]
    variances += [values[f"sd({b.name})"] ** 2 / b.size for b in p.blocks if b.swept]
    means = [rng.standard_normal(swept_mean.shape) * np.sqrt(v) for v in variances]
    means[0] += p.mu_mean
    excess = (swept_mean - sum(means)) / sum(variances)
    mu, *shifts = [mean + excess * v for mean, v in zip(means, variances, strict=True)]
    swept = [c for c, block in enumerate(p.blocks) if block.swept]
    for c, shift in zip(swept, shifts, strict=True):
        effects[c] += shift[..., None]
    return mu, effects


def shifting_pairs(cells: Cells) -> list[tuple[int, int]]:
    """Pairs (outer, inner) of components worth redrawing: an outer level that never or always
    passes moves freely against the inner levels below it, and NUTS is slow to follow. There is
    none among graded scores, and fixed effects are bound to sum to zero."""
    pairs: list[tuple[int, int]] = []
    random = [] if cells.graded is not None else [c for c in cells.components if not c.fixed]
    for a, outer in enumerate(random):
        passes = np.bincount(cells.index[a], weights=cells.successes, minlength=outer.n_levels)
        trials = np.bincount(cells.index[a], weights=cells.trials, minlength=outer.n_levels)
        if ((passes == 0) | (passes == trials)).any():
            inner = [b for b, c in enumerate(random) if outer.facets < c.facets]
            pairs += [(a, b) for b in inner]
    return pairs


def redraw_shifts(
    cells: Cells,
    sds: Sequence[Floats],
    effects: Sequence[Floats],
    rng: np.random.Generator,
    pairs: Sequence[tuple[int, int]],
) -> None:
    """Redraw, in place, the shifts of an outer level against its inner levels.

    Adding d to an outer effect and taking it off every inner effect below leaves the likelihood
    unchanged, so d given all else is normal with precision ``1/sd_outer^2 + n/sd_inner^2``: one
    exact Gibbs step per pair, which leaves the posterior as it is.

    Parameters
    ----------
    cells : Cells
    sds : arrays (draws,), one per component
    effects : arrays (draws, K), one per component; overwritten
    rng : numpy.random.Generator
    pairs : (outer, inner) component positions
    """
    n_draws = len(sds[0]) if sds else 0
    for outer, inner in pairs:
        parent = levels_above(cells, outer, inner)
        order = np.argsort(parent, kind="stable")
        present, starts, counts = np.unique(parent[order], return_index=True, return_counts=True)
        for start in range(0, n_draws, DRAWS_AT_ONCE):
            rows = slice(start, start + DRAWS_AT_ONCE)
            outer_precision = sds[outer][rows, None] ** -2.0
            inner_precision = sds[inner][rows, None] ** -2.0
            below = np.add.reduceat(effects[inner][rows][:, order], starts, axis=1)
            above = effects[outer][rows][:, present]
            precision = outer_precision + counts * inner_precision
            mean = (below * inner_precision - above * outer_precision) / precision
            shift = mean + rng.standard_normal(mean.shape) / np.sqrt(precision)
            effects[outer][rows, present] += shift
            effects[inner][rows] -= np.repeat(shift, counts, axis=1)[:, np.argsort(order)]
