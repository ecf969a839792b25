"""Expectations over a standard normal, alone and times Hermite polynomials.

Nodes lie symmetrically, so that polynomials of even and odd order each need one half of them.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = [
    "BLOCK",
    "MOST_BLOCKS",
    "Rule",
    "chunk_size",
    "hermite_halves",
    "levels_of",
    "probabilities",
    "rule_of",
]

Array = npt.NDArray[np.float64]

# The normal density is below 1e-31 outside, so that high Hermite functions keep their digits.
_HALF_RANGE = 12.0
# The trapezoid's error is exp(-2 pi^2 / (sd h)): h = .12 serves sds up to 3 and is halved with
# each doubling of the sd. The last level serves sds to 100 in full.
_STEP = 0.12
_STEP_SD = 3.0

BLOCK = 64
"""Terms of an expansion that are computed at once."""

MOST_BLOCKS = (4, 64, 64, 64, 32, 16)
"""Of each level: tables of at most 52 MB, and 1e-8 up to sd 24. Up to sd 3, where the step is
wide, 256 terms leave less than rounding."""

_MAX_LEVEL = len(MOST_BLOCKS) - 1
# Numbers held at once per chunk of draws.
_CHUNK = 2**18


@dataclass(frozen=True, slots=True)
class Rule:
    """Trapezoid for expectations over a standard normal; the middle node is 0."""

    nodes: Array
    weights: Array


@functools.lru_cache(maxsize=_MAX_LEVEL + 1)
def rule_of(level: int) -> Rule:
    """The trapezoid of a level.

    Parameters
    ----------
    level : int
        As `levels_of` gives it.

    Returns
    -------
    Rule
    """
    step = _STEP / 2**level
    count = round(_HALF_RANGE / step)
    nodes = step * np.arange(-count, count + 1)
    return Rule(nodes, step * np.exp(-0.5 * nodes**2) / math.sqrt(2 * math.pi))


def levels_of(var: Array) -> npt.NDArray[np.intp]:
    """The level of the trapezoid that serves each logit variance."""
    doublings = np.ceil(np.log2(np.maximum(np.sqrt(var), _STEP_SD) / _STEP_SD))
    return np.minimum(doublings, _MAX_LEVEL).astype(np.intp)


def chunk_size(level: int) -> int:
    """Draws that are computed at once."""
    return max(_CHUNK // rule_of(level).nodes.size, 1)


def probabilities(mean: Array, var: Array, nodes: Array) -> Array:
    """``expit(-|mean| + sd z)`` at the nodes, (n_draws, n_nodes)."""
    logits = np.abs(mean)[:, None] - np.sqrt(var)[:, None] * nodes
    with np.errstate(over="ignore"):
        np.exp(logits, out=logits)
    logits += 1.0
    return np.asarray(np.reciprocal(logits, out=logits))


@functools.lru_cache(maxsize=sum(MOST_BLOCKS))
def hermite_halves(level: int, index: int) -> tuple[Array, Array]:
    """Weighted ``h_k`` at the nodes above 0 for odd k, and at 0 and above for even k.

    Parameters
    ----------
    level : int
    index : int
        Of the block: k = 64 index + 1 ... 64 index + 64.

    Returns
    -------
    odd : array (n_positive, 32)
    even : array (n_positive + 1, 32)
        The node 0, which has no mirror image, counts half.
    """
    block, middle = _hermite_block(level, index), rule_of(level).nodes.size // 2
    odd, even = block[middle + 1 :, 0::2].copy(), block[middle:, 1::2].copy()
    even[0] *= 0.5
    return odd, even


# The recurrence goes on from the last block of a level.
@functools.lru_cache(maxsize=2 * len(MOST_BLOCKS))
def _hermite_block(level: int, index: int) -> Array:
    """Weighted ``h_k`` at the nodes, k = 64 index + 1 ... 64 index + 64; (n_nodes, 64).

    The recurrence runs on Hermite *functions* (h_k times the root of the density), which stay
    bounded; the polynomials themselves overflow.
    """
    rule = rule_of(level)
    step = rule.nodes[1] - rule.nodes[0]
    root = np.sqrt(rule.weights / step)
    if index == 0:
        before, last = np.zeros_like(root), root
    else:
        previous = _hermite_block(level, index - 1)
        # The stored block carries the weights; only its last two columns are needed back.
        before, last = previous[:, -2] / (root * step), previous[:, -1] / (root * step)
    block = np.empty((rule.nodes.size, BLOCK))
    for j in range(BLOCK):
        k = index * BLOCK + j
        before, last = last, (rule.nodes * last - math.sqrt(k) * before) / math.sqrt(k + 1)
        block[:, j] = last
    block *= (root * step)[:, None]
    return block
