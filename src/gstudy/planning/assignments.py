"""Assignments: which judge scores which unit, with as many scores kept as there can be.

Rules are those of `variance.patterns`. Where a pattern leaves a choice (who the one judge is, which
judge stands at which place of the rotation, whose scores a judge of his own has given) the choice
is the one that finds most of its scores among those that exist.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["in_rotation", "most_used", "own_judges"]

Codes = npt.NDArray[np.intp]


def most_used(judges: Codes, n_judges: int) -> int:
    """The judge of most units: place of the first one.

    Parameters
    ----------
    judges : int array (n_scores,)
        Judge of each score that exists.
    n_judges : int
    """
    return int(np.argmax(np.bincount(judges, minlength=n_judges)))


def in_rotation(sums: Codes, n_judges: int, scored: tuple[Codes, Codes], known: int) -> Codes:
    """The judge of each unit, the sum of its digits modulo the number of judges.

    Parameters
    ----------
    sums : int array (n_units,)
        Sum of the digits of each unit.
    n_judges : int
        Judges in the rotation.
    scored : (int array (n_scores,), int array (n_scores,))
        Unit and judge of each score that exists.
    known : int
        Judges to choose from, at least `n_judges`.

    Returns
    -------
    int array (n_units,)

    Examples
    --------
    >>> scored = (np.array([0, 1]), np.array([1, 0]))
    >>> in_rotation(np.array([0, 1, 2]), 2, scored, 2).tolist()
    [1, 0, 1]
    """
    from scipy.optimize import linear_sum_assignment

    places = sums % n_judges
    kept = np.zeros((n_judges, known))
    np.add.at(kept, (places[scored[0]], scored[1]), 1)
    _, judge_at = linear_sum_assignment(kept, maximize=True)
    return np.asarray(judge_at[places], dtype=np.intp)


def own_judges(n_units: int, scored: tuple[Codes, Codes], n_judges: int) -> Codes:
    """The judge that each unit has for itself, -1 where a new one is needed.

    Parameters
    ----------
    n_units : int
    scored : (int array (n_scores,), int array (n_scores,))
        Unit and judge of each score that exists.
    n_judges : int

    Returns
    -------
    int array (n_units,)
        A largest matching of units and judges.

    Examples
    --------
    >>> own_judges(3, (np.array([0, 1, 1]), np.array([0, 0, 1])), 2).tolist()
    [0, 1, -1]
    """
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import maximum_bipartite_matching

    if not n_judges:
        return np.full(n_units, -1, dtype=np.intp)
    ones = np.ones(len(scored[0]), dtype=np.int8)
    graph = csr_matrix((ones, scored), shape=(n_units, n_judges))
    return np.asarray(maximum_bipartite_matching(graph, perm_type="column"), dtype=np.intp)


def digit_sums(digits: Sequence[Codes], n_units: int) -> Codes:
    """The sum of the digits of each unit; 0 without any."""
    total = np.zeros(n_units, dtype=np.intp)
    for own in digits:
        total = total + own
    return total
