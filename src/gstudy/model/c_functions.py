"""C functions for nutpie, so that chains run side by side.

A Python function would hold the interpreter's lock between gradients: measured on 838 cells, two
chains at a time then take as long as one after the other. nutpie calls compiled functions by
address, without the lock; they read their arguments from one flat buffer. Each is compiled when its
module is imported: what a fit does not need is not compiled for it.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

__all__ = ["LOG_POSTERIOR", "carray", "nutpie_model", "status"]

Floats = NDArray[np.float64]

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


@numba.cfunc(_EXPAND, cache=True)
def _expand_c(n_free, n_expanded, x_, out_, buffer):
    # pragma: no cover - compiled
    n = np.int64(n_free)
    x, out = carray(x_, (n,)), carray(out_, (n,))
    for i in range(n):
        out[i] = x[i]
    return 0


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
