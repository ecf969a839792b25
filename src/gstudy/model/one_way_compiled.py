"""The posterior of one component without its effects, as a C function for nutpie."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba
import numpy as np

from gstudy.model.c_functions import LOG_POSTERIOR, carray, nutpie_model, status
from gstudy.model.one_way import one_way_log_posterior

if TYPE_CHECKING:
    from gstudy.model.one_way import OneWay

__all__ = ["compile_one_way"]

NUMBERS = 7
"""Of the priors, after the length of the buffer and before the classes."""


@numba.cfunc(LOG_POSTERIOR, cache=True, error_model="numpy")
def _one_way_c(n_free, x_, gradient_, value_, buffer):
    # pragma: no cover - compiled
    n = np.int64(n_free)
    length = carray(buffer, (1,), np.int64)[0]
    floats = carray(buffer, (length,), np.float64)
    classes = floats[1 + NUMBERS :].reshape((-1, 3))
    found, slope = one_way_log_posterior(carray(x_, (n,)), classes, floats[1 : 1 + NUMBERS])
    carray(value_, (1,))[0] = found
    return status(found, slope, carray(gradient_, (n,)))


def compile_one_way(found: OneWay) -> Any:
    """A nutpie model whose draws are [log sd, log scale of mu, mu], under the name "x"."""
    parts = [found.numbers, found.classes.ravel()]
    length = np.array([1 + sum(part.size for part in parts)], dtype=np.int64)
    packed = np.concatenate([length.view(np.float64), *parts])
    return nutpie_model(_one_way_c, packed, found.start, found.start_width)
