"""Draws of many effects in a quarter of the memory: half-precision coordinates, packed by four.

Of a component with more than 5,000 levels a fit keeps the mean and sd of each effect, not its
draws. The sampler stores them until then: 100,000 effects in 4 x 1,000 draws are 3.2 GB of double
precision. Their coordinates are standardised, and a half keeps 11 bits of each: an error of at
most 2^-12 of its size in one draw, unbiased, and far below that in a mean over draws. All else
keeps double precision. What each draw is, and so every sd, is not touched: only its record.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
from numpy.typing import NDArray

from gstudy.model.c_functions import carray

if TYPE_CHECKING:
    from gstudy.model.parameterisation import Parameterisation

__all__ = ["PER_DOUBLE", "Halves", "expand_halves", "halves_of", "stored_in_halves"]

Floats = NDArray[np.float64]

PER_DOUBLE = 4

_ANY = numba.types.voidptr
_EXPAND = numba.types.int64(numba.types.uint64, numba.types.uint64, _ANY, _ANY, _ANY)


@dataclass(frozen=True, slots=True)
class Halves:
    """Which coordinates of an unconstrained vector are stored in half precision.

    Parameters
    ----------
    n_free : int
        Length of the vector.
    parts : tuple of (int, int)
        Ranges of coordinates, ascending; empty for none.
    """

    n_free: int
    parts: tuple[tuple[int, int], ...]

    @property
    def n_packed(self) -> int:
        """Coordinates in half precision."""
        return sum(stop - start for start, stop in self.parts)

    @property
    def n_stored(self) -> int:
        """Doubles that one draw takes."""
        return self.n_free - self.n_packed + -(-self.n_packed // PER_DOUBLE)

    def numbers(self) -> NDArray[np.int64]:
        """What `expand_halves` reads at the end of its buffer."""
        flat = [bound for part in self.parts for bound in part]
        return np.array([len(self.parts), *flat], dtype=np.int64)

    def unpacked(self, stored: Floats) -> Floats:
        """Stored draws (n, n_stored) as vectors (n, n_free)."""
        x = np.empty((len(stored), self.n_free))
        n_exact = self.n_free - self.n_packed
        packed = np.ascontiguousarray(stored[:, n_exact:]).view(np.float16)
        at, taken, end = 0, 0, 0
        for start, stop in (*self.parts, (self.n_free, self.n_free)):
            x[:, end:start] = stored[:, at : at + start - end]
            x[:, start:stop] = packed[:, taken : taken + stop - start]
            at, taken, end = at + start - end, taken + stop - start, stop
        return x


def stored_in_halves(compiled: Any, halves: Halves) -> Any:
    """A nutpie model that stores its vectors so.

    Parameters
    ----------
    compiled : nutpie.compile_pymc.CompiledPyMCModel
        From `compile_direct`: the first number in its buffer tells how much of it it reads.
    halves : Halves
    """
    n = halves.n_stored
    return replace(
        compiled,
        compiled_expand_func=expand_halves,
        n_expanded=n,
        shape_info=(["x"], [slice(0, n)], [(n,)]),
        _shapes={"x": (n,)},
        user_data=np.concatenate([compiled.user_data, halves.numbers().view(np.float64)]),
    )


def halves_of(p: Parameterisation, most_levels: int) -> Halves:
    """Half precision for the effects of components with more levels than are kept draw by draw."""
    parts, at = [], p.n_scales
    for block in p.blocks:
        if block.size > most_levels and not block.fixed:
            parts.append((at, at + block.n_free))
        at += block.n_free
    return Halves(p.n_free, tuple(parts))


@numba.njit(nogil=True, cache=True)
def _half(bits):  # pragma: no cover - compiled
    """The bits of a double rounded to those of a half: ties to even, tiny ones to 0."""
    exponent = ((bits >> np.uint64(52)) & np.uint64(0x7FF)) - np.uint64(1008)
    sign = (bits >> np.uint64(48)) & np.uint64(0x8000)
    if np.int64(exponent) <= 0:
        return sign
    if np.int64(exponent) > 30:
        return sign | np.uint64(0x7BFF)
    found = (exponent << np.uint64(10)) | ((bits >> np.uint64(42)) & np.uint64(0x3FF))
    rest = bits & np.uint64(0x3FFFFFFFFFF)
    tie = np.uint64(0x20000000000)
    if rest > tie or (rest == tie and (found & np.uint64(1))):
        found += np.uint64(1)
    return sign | min(found, np.uint64(0x7BFF))


@numba.cfunc(_EXPAND, cache=True)
def expand_halves(n_free, n_stored, x_, out_, buffer):
    # pragma: no cover - compiled
    n, m = np.int64(n_free), np.int64(n_stored)
    x, bits = carray(x_, (n,), np.float64), carray(x_, (n,), np.uint64)
    out, packed = carray(out_, (m,), np.float64), carray(out_, (4 * m,), np.uint16)
    length = carray(buffer, (1,), np.int64)[0]
    n_parts = carray(buffer, (length + 1,), np.int64)[length]
    ints = carray(buffer, (length + 1 + 2 * n_parts,), np.int64)
    at, end = np.int64(0), np.int64(0)
    for part in range(n_parts + 1):
        start = ints[length + 1 + 2 * part] if part < n_parts else n
        for i in range(end, start):
            out[at] = x[i]
            at += 1
        end = ints[length + 2 + 2 * part] if part < n_parts else n
    for i in range(4 * at, 4 * m):
        packed[i] = np.uint16(0)
    at *= 4
    for part in range(n_parts):
        for i in range(ints[length + 1 + 2 * part], ints[length + 2 + 2 * part]):
            packed[at] = np.uint16(_half(bits[i]))
            at += 1
    return 0
