"""Margins: the pass probability of normal logits, expanded once for everything asked of it.

The coefficients ``c_k(m, S) = E[expit(m + sqrt(S) Z) h_k(Z)]`` do not depend on what is shared,
nor on the other margin. They are kept, and computed as far as the smallest remainder that was
asked for needs them.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from gstudy.variance.quadrature import (
    BLOCK,
    MOST_BLOCKS,
    Rule,
    chunk_size,
    hermite_halves,
    levels_of,
    probabilities,
    rule_of,
)
from gstudy.variance.threads import each

__all__ = ["Margin", "covariances"]

Array = npt.NDArray[np.float64]
Places = npt.NDArray[np.intp]

# Remainder allowed: relative to the product of the margins' sds, which is at most 1/4.
_TOLERANCE = 1e-11
_TOLERANCE_WIDE = 4e-9
_WIDE = 36.0
# Terms are summed for so many draws at once: what they need stays in the processor's cache.
_AT_ONCE = 512
# Terms of a set below this part of the largest power are not added: no digit of the sum is theirs.
_NOTHING = 1e-20
_STAGE = 16
# The linear algebra library starts threads of its own for products of more rows, and they wait in
# busy loops: it took twice the processors' time.
_ROWS = 16
_EXTENDING = threading.RLock()


@dataclass(slots=True, eq=False)
class _Block:
    """64 coefficients of some draws: `rows` says where each draw's are, -1 for none."""

    rows: Places
    values: Array
    n_rows: int = 0

    def reserve(self, draws: Places) -> None:
        """Rows for the coefficients of further draws."""
        end = self.n_rows + len(draws)
        if end > len(self.values):
            grown = np.empty((max(end, 2 * len(self.values)), BLOCK))
            grown[: self.n_rows] = self.values[: self.n_rows]
            self.values = grown
        self.rows[draws] = np.arange(self.n_rows, end)
        self.n_rows = end


class Margin:
    """``p = expit(eta)`` for ``eta ~ Normal(mean, var)``, draw by draw.

    Parameters
    ----------
    mean, var : array (n_draws,)
        Logit scale.
    moments_alone : bool
        Not to be expanded: `covariances` is for others.

    Attributes
    ----------
    expected : array (n_draws,)
        E[p].
    noise : array (n_draws,)
        E[p(1-p)].
    spread : array (n_draws,)
        Var(p), the sum of all squared coefficients.
    """

    def __init__(self, mean: Array, var: Array, *, moments_alone: bool = False) -> None:
        self.mean, self.var = mean, var
        self.levels = levels_of(var)
        self.expected, self.noise, self.spread = (np.empty(mean.shape) for _ in range(3))
        self.low = np.empty(mean.shape)
        self.most = np.array(MOST_BLOCKS)[self.levels]
        self.counts = np.full(len(mean), 0 if moments_alone else 1)
        self._blocks: list[_Block] = []
        self._left = [self.spread]
        everywhere = np.arange(len(mean))
        if not moments_alone:
            self._reserve(0, everywhere)
        each(self._measure, self._chunks(everywhere))
        self.expected[:] = np.where(mean > 0, 1 - self.low, self.low)

    def left(self, count: int, draws: Places) -> Array:
        """Sum of the squared coefficients that come after so many blocks of these draws."""
        return np.asarray(self._left[count][draws])

    def extend(self, draws: Places) -> None:
        """One more block of coefficients of these draws, which all have equally many."""
        count = int(self.counts[draws[0]])
        self._reserve(count, draws)
        each(partial(self._extend, count), self._chunks(draws))
        # Last, so that an interrupted extension is made again.
        self.counts[draws] = count + 1

    def block(self, index: int, draws: Places) -> Array:
        """Coefficients k = 64 index + 1 ... of these draws, (n_draws, 64)."""
        block = self._blocks[index]
        return block.values[block.rows[draws]]

    def _reserve(self, count: int, draws: Places) -> None:
        """Room for the next block of these draws."""
        if count == len(self._blocks):
            n = len(self.mean)
            self._blocks.append(_Block(np.full(n, -1), np.empty((len(draws), BLOCK))))
            self._left.append(np.full(n, np.nan))
        self._blocks[count].reserve(draws)

    def _measure(self, draws: Places) -> None:
        """The moments of these draws, which have one level, and their first coefficients."""
        rule, values = self._probabilities(draws)
        low = values @ rule.weights
        self.low[draws] = low
        self.noise[draws] = (values * (1 - values)) @ rule.weights
        # Without the cancellation of E[p^2] - E[p]^2.
        spread = ((values - low[:, None]) ** 2) @ rule.weights
        self.spread[draws] = np.where(self.var[draws] == 0, 0.0, spread)
        if self._blocks:
            self._fill(0, draws, values)

    def _extend(self, count: int, draws: Places) -> None:
        """The next coefficients of these draws, which have one level."""
        self._fill(count, draws, self._probabilities(draws)[1])

    def _probabilities(self, draws: Places) -> tuple[Rule, Array]:
        rule = rule_of(int(self.levels[draws[0]]))
        return rule, probabilities(self.mean[draws], self.var[draws], rule.nodes)

    def _fill(self, count: int, draws: Places, values: Array) -> None:
        """Coefficients from the probabilities at the nodes, and what they leave."""
        found = _coefficients(values, int(self.levels[draws[0]]), count)
        # c_k(-m) = (-1)^(k+1) c_k(m): all are computed at -|m|, where p keeps its digits.
        found[self.mean[draws] > 0, 1::2] *= -1
        left = self._left[count][draws] - np.einsum("ij,ij->i", found, found)
        self._left[count + 1][draws] = np.maximum(left, 0.0)
        block = self._blocks[count]
        block.values[block.rows[draws]] = found

    def _chunks(self, draws: Places) -> Iterator[Places]:
        """Few draws of one level at a time."""
        levels = self.levels[draws]
        for level in np.unique(levels):
            here, size = draws[levels == level], chunk_size(int(level))
            for start in range(0, len(here), size):
                yield here[start : start + size]


def covariances(one: Margin, two: Margin, rho: Array) -> Array:
    """``sum_k c_k(1) c_k(2) rho^k``, as far as the remainder matters.

    Parameters
    ----------
    one, two : Margin
        Of the same draws; one object twice for two logits of one distribution.
    rho : array (n_sets, n_draws)
        Correlations of the two logits, from -1 to 1.

    Returns
    -------
    array (n_sets, n_draws)
    """
    same = one is two
    size = np.abs(rho)
    # At rho = 1 of equal margins nothing is lost: the remainder itself stands for the tail.
    steep = size.max(axis=0, initial=0.0, where=(size < 1) | (not same))
    with _EXTENDING:
        counts = _extended(one, two, steep)
    total = np.empty(rho.shape)

    def add(draws: Places) -> None:
        total[:, draws] = _horner(one, two, draws, rho[:, draws], int(counts[draws[0]]))

    for draws in _alike(counts):
        add(draws)
    return total


def _alike(counts: Places) -> Iterator[Places]:
    """Few draws with equally many blocks at a time."""
    for count in np.unique(counts):
        draws = np.flatnonzero(counts == count)
        for start in range(0, len(draws), _AT_ONCE):
            yield draws[start : start + _AT_ONCE]


def _extended(one: Margin, two: Margin, steep: Array) -> Places:
    """Blocks that each draw needs, computed; the remainder is at most
    ``steep^(K+1) sqrt(left_1 left_2)`` after K terms."""
    wide = np.maximum(one.var, two.var) > _WIDE
    spreads = np.sqrt(one.spread * two.spread)
    # What rounding of p makes of a variance of nothing is never chased.
    allowed = np.where(wide, _TOLERANCE_WIDE, _TOLERANCE) * spreads + 1e-28 * one.low * two.low
    most = np.minimum(one.most, two.most)
    counts = np.zeros(len(steep), dtype=np.intp)
    open_ = np.arange(len(steep))
    done = 0
    while len(open_):
        for margin in (one, two):
            behind = open_[margin.counts[open_] == done]
            if len(behind):
                margin.extend(behind)
        done += 1
        counts[open_] = done
        left = np.sqrt(one.left(done, open_) * two.left(done, open_))
        enough = steep[open_] ** (done * BLOCK + 1) * left <= allowed[open_]
        open_ = open_[~(enough | (done >= most[open_]))]
    return counts


def _horner(one: Margin, two: Margin, draws: Places, rho: Array, count: int) -> Array:
    """``sum_k c_k c_k rho^k`` of some draws, each set as far as its powers matter.

    Of equal margins what is left after the last term is added at its upper bound.
    """
    largest = np.abs(rho).max(axis=1, initial=0.0)
    # The sets that take part in late terms come first.
    order = np.argsort(-largest, kind="stable")
    powers, total = rho[order], np.zeros(rho.shape)
    if one is two:
        total += one.left(count, draws) * powers
    needed = _terms_that_matter(largest[order])
    for index in reversed(range(count)):
        first = one.block(index, draws)
        products = first * (first if one is two else two.block(index, draws))
        terms = np.ascontiguousarray(products.T)
        for start in reversed(range(0, BLOCK, _STAGE)):
            n_sets = int(np.count_nonzero(needed > index * BLOCK + start))
            total_, powers_ = total[:n_sets], powers[:n_sets]
            for term in terms[start : start + _STAGE][::-1] if n_sets else ():
                total_ += term
                total_ *= powers_
    found = np.empty(rho.shape)
    found[order] = total
    return found


def _terms_that_matter(largest: Array) -> Array:
    """Terms of each set after which its powers are nothing."""
    with np.errstate(divide="ignore"):
        return np.asarray(math.log(_NOTHING) / np.log(np.minimum(largest, 1 - 1e-16)))


def _coefficients(values: Array, level: int, index: int) -> Array:
    """One block of coefficients (n_draws, 64) from probabilities at the nodes."""
    odd, even = hermite_halves(level, index)
    middle = values.shape[1] // 2
    above, below = values[:, middle:], values[:, middle::-1]
    found = np.empty((len(values), BLOCK))
    found[:, 0::2] = _product((above - below)[:, 1:], odd)
    found[:, 1::2] = _product(above + below, even)
    return found


def _product(values: Array, table: Array) -> Array:
    """The matrix product, few rows at a time."""
    found = np.empty((len(values), table.shape[1]))
    for start in range(0, len(values), _ROWS):
        here = slice(start, start + _ROWS)
        np.matmul(values[here], table, out=found[here])
    return found
