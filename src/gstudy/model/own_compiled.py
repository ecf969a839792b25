"""The direct posterior of own sds as a C function for nutpie, as `compiled` has that of one sd."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba
import numpy as np

from gstudy.model.c_functions import LOG_POSTERIOR, carray, nutpie_model, status
from gstudy.model.own_direct import OwnArguments, own_log_posterior

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gstudy.model.own_layout import OwnDirectPosterior

__all__ = ["compile_own_direct"]

HEADER = 8
"""Numbers before the arrays: length, blocks, groups, effects, links, systems and cells."""


@numba.njit(nogil=True, cache=True)
def _arguments(ints, floats):  # pragma: no cover - compiled
    """The buffer as `OwnArguments`."""
    n_blocks, n_groups, n_effects, n_links = ints[1], ints[2], ints[3], ints[4]
    n_systems, n_cells = ints[5], ints[6]
    at = HEADER
    blocks = ints[at : at + 6 * n_blocks].reshape((n_blocks, 6))
    at += 6 * n_blocks
    sizes = ints[at : at + n_groups]
    at += n_groups
    linked = ints[at : at + 2 * n_links].reshape((n_links, 2))
    at += 2 * n_links
    positions = ints[at : at + n_cells * (n_blocks + 1)].reshape((n_cells, n_blocks + 1))
    at += n_cells * (n_blocks + 1)
    priors = floats[at : at + 2 * n_blocks].reshape((n_blocks, 2))
    at += 2 * n_blocks
    information = floats[at : at + n_effects]
    scores = floats[at + n_effects : at + 2 * n_effects]
    at += 2 * n_effects
    weights = floats[at : at + n_links]
    at += n_links
    levels = floats[at : at + 2 * n_systems].reshape((2, n_systems))
    at += 2 * n_systems
    successes = floats[at : at + n_cells]
    trials = floats[at + n_cells : at + 2 * n_cells]
    return OwnArguments(
        blocks, sizes, priors, information, scores, linked, weights, levels, positions, successes,
        trials, floats[at + 2 * n_cells :],
    )  # fmt: skip


@numba.cfunc(LOG_POSTERIOR, cache=True, error_model="numpy")
def _own_log_posterior_c(n_free, x_, gradient_, value_, buffer):
    # pragma: no cover - compiled
    n = np.int64(n_free)
    length = carray(buffer, (1,), np.int64)[0]
    given = _arguments(carray(buffer, (length,), np.int64), carray(buffer, (length,), np.float64))
    found, slope = own_log_posterior(carray(x_, (n,)), given)
    carray(value_, (1,))[0] = found
    return status(found, slope, carray(gradient_, (n,)))


def compile_own_direct(posterior: OwnDirectPosterior) -> Any:
    """A nutpie model whose draws are the unconstrained vectors, under the name "x"."""
    n = posterior.n_free
    return nutpie_model(_own_log_posterior_c, _packed(posterior.given), np.zeros(n), np.ones(n))


def _packed(given: OwnArguments) -> NDArray[np.float64]:
    """All arguments in one buffer of 8-byte numbers."""
    whole = [given.blocks, given.sizes, given.linked, given.positions]
    real = [
        given.priors, given.information, given.scores, given.weights, given.levels,
        given.successes, given.trials, given.numbers,
    ]  # fmt: skip
    length = HEADER + sum(part.size for part in (*whole, *real))
    counted = (given.blocks, given.sizes, given.information, given.weights)
    head = [length, *map(len, counted), given.levels.shape[1], len(given.trials)]
    header = np.array(head + [0] * (HEADER - len(head)), dtype=np.int64)
    ints = [part.ravel().view(np.float64) for part in (header, *whole)]
    return np.concatenate([*ints, *(part.ravel() for part in real)])
