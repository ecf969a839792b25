"""How precise an ANOVA ICC of several facets is: the sampling variance of its mean squares.

In a balanced design the component of a set A has the expected mean square

    EMS_A = noise + sum over B that hold A of v(B) N / n_B,

n_B the levels of B and N the number of trials, on ``df_A = n_A - sum of df_B over the proper
subsets B of A`` degrees of freedom (the empty set has one). The mean squares are independent, each
with the variance ``2 EMS^2 / df`` for normal scores (Searle, Casella and McCulloch, Variance
Components, 1992, section 4.2), and the ICC follows by the delta method. With one facet that is
Bonett's formula with n (k - 1) degrees of freedom where he has (n - 1)(k - 1). 0/1 scores are not
normal: see `gstudy.icc_width` for how far off it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gstudy.variance.draws import Array

if TYPE_CHECKING:
    from gstudy.study.index_sets import IndexSet

__all__ = ["degrees_of_freedom", "icc_error"]


def degrees_of_freedom(
    sets: Sequence[IndexSet], levels: Mapping[IndexSet, float]
) -> dict[IndexSet, float]:
    """Degrees of freedom of each set.

    Parameters
    ----------
    sets : sequence of frozenset of str
        All closed sets, small ones first.
    levels : mapping of frozenset of str to float
        Number of levels of each set.

    Examples
    --------
    >>> a, b = frozenset("a"), frozenset("b")
    >>> degrees_of_freedom([a, b, a | b], {a: 5, b: 3, a | b: 15})[a | b]
    8
    """
    found: dict[IndexSet, float] = {}
    for own in sets:
        found[own] = levels[own] - 1 - sum(found[other] for other in found if other < own)
    return found


def icc_error(
    sets: Sequence[IndexSet],
    unique: Array,
    noise: Array,
    levels: Mapping[IndexSet, float],
    trials: float,
    measured: IndexSet,
) -> tuple[Array, Array]:
    """ICC of a set, and the standard error of its ANOVA estimate.

    Parameters
    ----------
    sets : sequence of frozenset of str
        All closed sets, small ones first.
    unique : array (n_sets, n_draws)
        v(A); score scale.
    noise : array (n_draws,)
        Variance of a trial.
    levels : mapping of frozenset of str to float
    trials : float
        In all; as many as the largest set has levels when each cell has one.
    measured : frozenset of str
        The set whose ICC it is.

    Returns
    -------
    icc, error : array (n_draws,)
    """
    df = degrees_of_freedom(sets, levels)
    design = np.array([[trials / levels[b] if a <= b else 0.0 for b in sets] for a in sets])
    # The mean squares of all sets, then that of the trials within a cell.
    design = np.block([[design, np.ones((len(sets), 1))], [np.zeros(len(sets)), 1.0]])
    freedom = np.array([*(df[own] for own in sets), trials - levels[sets[-1]]])
    parts = np.vstack([unique, noise])
    if freedom[-1] == 0:
        # One trial of each cell: the largest set cannot be told from the noise.
        design, freedom = design[:-1, [*range(len(sets) - 1), -1]], freedom[:-1]
        parts = np.vstack([unique[:-1], unique[-1] + noise])
    inside = np.array([*(own <= measured for own in sets), False], dtype=float)[: len(parts)]
    if freedom.size < len(sets) + 1:
        inside[-1] = 0.0
    total = parts.sum(axis=0)
    icc = (inside @ parts) / total
    slopes = np.linalg.solve(design.T, (inside[:, None] - icc) / total)
    squares = design @ parts
    return icc, np.sqrt((slopes**2 * 2 * squares**2 / freedom[:, None]).sum(axis=0))
