"""The direct posterior as C functions for nutpie, so that chains run side by side.

A Python function would hold the interpreter's lock between gradients: measured on 838 cells, two
chains at a time then take as long as one after the other. nutpie calls compiled functions by
address, without the lock; they read their arguments from one flat buffer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba
import numpy as np
from numpy.typing import NDArray

from gstudy.model.direct import log_posterior

if TYPE_CHECKING:
    from gstudy.model.direct import DirectPosterior

__all__ = ["LOG_POSTERIOR", "carray", "compile_direct", "nutpie_model", "status"]

Floats = NDArray[np.float64]

HEADER = 12
"""Numbers before the arrays: length, blocks, priors, effects, family, most above, and rows and
columns of sums, of the index of cells, and of classes."""

carray: Any = vars(numba)["carray"]
"""An array at an address; numba knows it by identity."""

_DOUBLES = numba.types.CPointer(numba.types.double)
LOG_POSTERIOR = numba.types.int64(
    numba.types.uint64, _DOUBLES, _DOUBLES, _DOUBLES, numba.types.voidptr
)
_EXPAND = numba.types.int64(
    numba.types.uint64, numba.types.uint64, _DOUBLES, _DOUBLES, numba.types.voidptr
)
# What nutpie takes for "not finite": the trajectory ends there as a divergence.
_GRADIENT_NOT_FINITE, _VALUE_NOT_FINITE = 3, 4


@numba.njit(nogil=True, cache=True)
def status(value, slope, gradient):  # pragma: no cover - compiled
    """Hand the slope over as the gradient; 0, or why the trajectory ends here."""
    for i in range(slope.shape[0]):
        gradient[i] = slope[i]
        if not np.isfinite(slope[i]):
            return _GRADIENT_NOT_FINITE
    return 0 if np.isfinite(value) else _VALUE_NOT_FINITE


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


@numba.cfunc(_EXPAND, cache=True)
def _expand_c(n_free, n_expanded, x_, out_, buffer):
    # pragma: no cover - compiled
    n = np.int64(n_free)
    x, out = carray(x_, (n,)), carray(out_, (n,))
    for i in range(n):
        out[i] = x[i]
    return 0


def compile_direct(posterior: DirectPosterior) -> Any:
    """A nutpie model whose draws are the unconstrained vectors, under the name "x"."""
    p = posterior.parameterisation
    return nutpie_model(_log_posterior_c, _packed(posterior), p.start, p.start_width)


def nutpie_model(log_posterior_c: Any, packed: Floats, start: Floats, start_width: Floats) -> Any:
    """A C function and the buffer it reads as a nutpie model, whose chains start within
    `start_width` of `start` (n_free,)."""
    from nutpie.compile_pymc import CompiledPyMCModel

    n = len(start)

    def first_point(seed: int) -> Floats:
        step = np.random.default_rng(seed).uniform(-1.0, 1.0, n)
        return np.asarray(start + start_width * step)

    return CompiledPyMCModel(
        dims={},
        compiled_logp_func=log_posterior_c,
        compiled_expand_func=_expand_c,
        initial_point_func=first_point,
        shared_data={},
        shared_var_keys={},
        user_data=packed,
        n_expanded=n,
        shape_info=(["x"], [slice(0, n)], [(n,)]),
        logp_func=None,
        expand_func=None,
        _n_dim=n,
        _shapes={"x": (n,)},
        _coords={},
    )


def _packed(posterior: DirectPosterior) -> Floats:
    """All arguments of `log_posterior` but x, in one buffer of 8-byte numbers."""
    (
        sizes, zero_sum, swept, order, kinds, prior_a, prior_b, information, scores, weights, above,
        rows, index, observed, trials, classes, family, numbers,
    ) = posterior.arguments  # fmt: skip
    whole = [
        part.astype(np.int64).ravel()
        for part in (sizes, zero_sum, swept, order, kinds, above, rows)
    ]
    whole.append(np.append(index.ravel(), np.zeros(index.size % 2, np.int32)).view(np.int64))
    real = [
        prior_a, prior_b, information, scores, weights, observed, trials, classes.ravel(), numbers,
    ]  # fmt: skip
    length = HEADER + sum(part.size for part in (*whole, *real))
    head = [length, len(sizes), len(kinds), len(weights), family, above.shape[1]]
    header = np.array([*head, *rows.shape, *index.shape, *classes.shape], dtype=np.int64)
    return np.concatenate([*(part.view(np.float64) for part in (header, *whole)), *real])
