"""T terms of analysis of variance: uncorrected sums of squares and what they expect.

``T(A) = sum over levels a of A of (sum of the scores in a)^2 / n_a`` of a set of facets A. Where
every component B has independent effects of variance s_B^2, also the residual,

``E T(A) = N mu^2 + sum_B k_A(B) s_B^2``, ``k_A(B) = sum_a (sum_b n_ab^2) / n_a``,

n_ab the trials that share level a of A and level b of B (Henderson 1953, Biometrics 9:226, Method
I; Searle, Casella and McCulloch 1992, chapter 5; Brennan 2001, chapter 7). Equating T to its
expectation and solving gives Henderson I; where the design is balanced that is the estimator by
expected mean squares of Cornfield and Tukey (Brennan 2001, chapter 3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gstudy.study.partition import Partition

__all__ = ["Terms", "confounded", "mobius", "shared_counts", "solve", "terms_of"]

Array = npt.NDArray[np.float64]

# Relative size of a singular value, or of an entry of its vector, that is none.
_ZERO = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Terms:
    """T terms of sets of facets, and the coefficients of their expectations.

    Parameters
    ----------
    names : tuple of str
        Terms but the residual's, small sets first; the residual's is last and called "residual".
    n_levels : int array (n_terms,)
        Levels of each; of the residual, trials.
    mean : float
        Mean score.
    corrected : array (n_terms,)
        ``T(A) - T(mean)``, from scores around their mean: no digits are lost to a large one.
    coefficients : array (1 + n_terms, n_terms)
        ``k_A(B)``: the row of the mean first, then one per term; columns are components.
    """

    names: tuple[str, ...]
    n_levels: npt.NDArray[np.int64]
    mean: float
    corrected: Array
    coefficients: Array

    @property
    def n_trials(self) -> int:
        """Number of trials, N."""
        return int(self.n_levels[-1])

    @property
    def mean_term(self) -> float:
        """``T(mean) = N mean^2``."""
        return self.n_trials * self.mean**2

    @property
    def expected(self) -> Array:
        """Coefficients of ``E[T(A) - T(mean)]``, (n_terms, n_terms)."""
        difference: Array = self.coefficients[1:] - self.coefficients[0]
        return difference


def solve(terms: Terms) -> Array:
    """The variance components whose expected T terms are the observed ones, (n_terms,).

    Negative ones are left so. The terms must not be confounded.
    """
    expected, rows = _scaled(terms)
    return np.asarray(np.linalg.solve(expected, terms.corrected / rows))


def confounded(terms: Terms) -> list[str]:
    """Names of the components that the design cannot tell apart, none when it can."""
    expected, _ = _scaled(terms)
    _, sizes, vectors = np.linalg.svd(expected)
    null = vectors[sizes <= _ZERO * sizes[0]]
    involved = np.abs(null).max(axis=0, initial=0.0) > 1e-6
    return [name for name, bad in zip(terms.names, involved, strict=True) if bad]


def _scaled(terms: Terms) -> tuple[Array, Array]:
    """Expectations with rows of like size, and the sizes."""
    rows = np.abs(terms.expected).max(axis=1)
    rows = np.where(rows > 0, rows, 1.0)
    return terms.expected / rows[:, None], rows


def mobius(values: Sequence[float], below: Sequence[Sequence[int]]) -> Array:
    """Each value less those of all that lies below: sums of squares and degrees of freedom.

    Parameters
    ----------
    values : sequence of float
        ``T(A) - T(mean)``, or levels less one; a term after all that is below it.
    below : sequence of sequence of int
        Per term the places of the terms inside it.

    Returns
    -------
    array (n_terms,)

    Examples
    --------
    >>> mobius([2.0, 3.0, 11.0], [[], [], [0, 1]]).tolist()
    [2.0, 3.0, 6.0]
    """
    own = np.zeros(len(values))
    for i, inside in enumerate(below):
        own[i] = values[i] - own[list(inside)].sum()
    return own


def shared_counts(whole: Partition, joint: Partition, counts: Array) -> float:
    """``sum_a (sum_b n_ab^2) / n_a``: `joint` splits the rows by a and b, `whole` by a.

    Parameters
    ----------
    whole, joint : Partition
    counts : array (n_rows,)
        Trials of each row.

    Returns
    -------
    float
    """
    n_a = np.bincount(whole.index, weights=counts, minlength=whole.n_levels)
    n_ab = np.bincount(joint.index, weights=counts, minlength=joint.n_levels)
    owner = whole.index[joint.first_rows()]
    return float(np.sum(n_ab**2 / n_a[owner]))


def terms_of(
    partitions: Mapping[str, Partition],
    joints: Mapping[tuple[str, str], Partition],
    totals: Array,
    counts: Array,
    squares: float,
) -> Terms:
    """The T terms of rows of scores.

    Parameters
    ----------
    partitions : mapping of str to Partition
        The rows by the levels of each term but the residual.
    joints : mapping of pair of str to Partition
        The rows by the levels of two terms at once.
    totals, counts : array (n_rows,)
        Sum and number of each row's scores.
    squares : float
        Sum of squared deviations of all scores from their mean.

    Returns
    -------
    Terms
    """
    n_trials, mean = float(counts.sum()), float(totals.sum() / counts.sum())
    names = list(partitions)
    centred = totals - mean * counts
    corrected, rows = [], []
    every = Partition(np.zeros(len(counts), dtype=np.int32), 1)
    rows.append([shared_counts(every, part, counts) for part in partitions.values()] + [1.0])
    for a, part in partitions.items():
        sums = np.bincount(part.index, weights=centred, minlength=part.n_levels)
        sizes = np.bincount(part.index, weights=counts, minlength=part.n_levels)
        corrected.append(float(np.sum(sums**2 / sizes)))
        rows.append([shared_counts(part, joints[a, b], counts) for b in names] + [part.n_levels])
    rows.append([n_trials] * (len(names) + 1))
    n_levels = [part.n_levels for part in partitions.values()]
    return Terms(
        names=(*names, "residual"),
        n_levels=np.array([*n_levels, round(n_trials)], dtype=np.int64),
        mean=mean,
        corrected=np.array([*corrected, squares]),
        coefficients=np.array(rows, dtype=float),
    )
