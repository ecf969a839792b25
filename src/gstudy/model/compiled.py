"""The direct posterior of one sd per component as a C function (see `c_functions`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba
import numpy as np
from numpy.typing import NDArray

from gstudy.model.c_functions import LOG_POSTERIOR, carray, nutpie_model, status
from gstudy.model.direct import log_posterior

if TYPE_CHECKING:
    from gstudy.model.direct import DirectPosterior

__all__ = ["compile_direct"]

HEADER = 12
"""Numbers before the arrays: length, blocks, priors, effects, family, most above, and rows and
columns of sums, of the index of cells, and of classes."""


@numba.cfunc(LOG_POSTERIOR, cache=True, error_model="numpy")
def _log_posterior_c(n_free, x_, gradient_, value_, buffer):
    # pragma: no cover - compiled
    n = np.int64(n_free)
    length = carray(buffer, (1,), np.int64)[0]
    ints = carray(buffer, (length,), np.int64)
    floats = carray(buffer, (length,), np.float64)
    n_blocks, n_priors, n_effects, family, n_above = ints[1], ints[2], ints[3], ints[4], ints[5]
    n_sums, n_added, n_cells, n_seen = ints[6], ints[7], ints[8], ints[9]
    at = HEADER
    sizes = ints[at : at + n_blocks]
    zero_sum = ints[at + n_blocks : at + 2 * n_blocks]
    swept = ints[at + 2 * n_blocks : at + 3 * n_blocks]
    order = ints[at + 3 * n_blocks : at + 4 * n_blocks]
    at += 4 * n_blocks
    kinds = ints[at : at + n_priors]
    at += n_priors
    above = ints[at : at + n_effects * n_above].reshape((n_effects, n_above))
    at += n_effects * n_above
    rows = ints[at : at + n_sums * n_added].reshape((n_sums, n_added))
    at += n_sums * n_added
    # Half as long, so that the cells of large designs stay in the processor's cache.
    halves = carray(buffer, (2 * length,), np.int32)
    index = halves[2 * at : 2 * at + n_cells * n_seen].reshape((n_cells, n_seen))
    at += (n_cells * n_seen + 1) // 2
    prior_a = floats[at : at + n_priors]
    prior_b = floats[at + n_priors : at + 2 * n_priors]
    at += 2 * n_priors
    information = floats[at : at + n_effects]
    scores = floats[at + n_effects : at + 2 * n_effects]
    weights = floats[at + 2 * n_effects : at + 3 * n_effects]
    at += 3 * n_effects
    observed = floats[at : at + n_cells]
    trials = floats[at + n_cells : at + 2 * n_cells]
    at += 2 * n_cells
    n_classes, width = ints[10], ints[11]
    classes = floats[at : at + n_classes * width].reshape((n_classes, width))
    found, slope = log_posterior(
        carray(x_, (n,)), sizes, zero_sum, swept, order, kinds, prior_a, prior_b, information,
        scores, weights, above, rows, index, observed, trials, classes, family,
        floats[at + n_classes * width : length],
    )  # fmt: skip
    carray(value_, (1,))[0] = found
    return status(found, slope, carray(gradient_, (n,)))


def compile_direct(posterior: DirectPosterior) -> Any:
    """A nutpie model whose draws are the unconstrained vectors, under the name "x"."""
    p = posterior.parameterisation
    return nutpie_model(_log_posterior_c, _packed(posterior), p.start, p.start_width)


def _packed(posterior: DirectPosterior) -> NDArray[np.float64]:
    """All arguments of `log_posterior` but x, in one buffer of 8-byte numbers."""
    (
        sizes, zero_sum, swept, order, kinds, prior_a, prior_b, information, scores, weights, above,
        rows, index, observed, trials, classes, family, numbers,
    ) = posterior.arguments  # fmt: skip
    whole = [part.ravel() for part in (sizes, zero_sum, swept, order, kinds, above, rows)]
    whole.append(np.append(index.ravel(), np.zeros(index.size % 2, np.int32)).view(np.int64))
    real = [
        prior_a, prior_b, information, scores, weights, observed, trials, classes.ravel(), numbers,
    ]  # fmt: skip
    length = HEADER + sum(part.size for part in (*whole, *real))
    head = [length, len(sizes), len(kinds), len(weights), family, above.shape[1]]
    header = np.array([*head, *rows.shape, *index.shape, *classes.shape], dtype=np.int64)
    return np.concatenate([*(part.view(np.float64) for part in (header, *whole)), *real])
