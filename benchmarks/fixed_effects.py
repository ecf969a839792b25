"""Fixed effects that sum to zero, as columns of a design with independent normal coefficients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from gstudy.study.estimable import Assessment

__all__ = ["Covariate", "contrasts", "covariates"]


@dataclass(frozen=True, slots=True)
class Covariate:
    """One column: its values per cell, and the sd of the normal prior of its coefficient."""

    values: NDArray[np.float64]
    sigma: float


def contrasts(levels: int) -> NDArray[np.float64]:
    """Orthonormal columns (levels, levels - 1) that sum to zero (Helmert's).

    With coefficients Normal(0, sigma^2) the effects of the levels are ZeroSumNormal(sigma): their
    covariance is sigma^2 (I - 1/levels).
    """
    found = np.zeros((levels, levels - 1))
    for k in range(1, levels):
        found[:k, k - 1] = 1.0
        found[k, k - 1] = -k
    return found / np.linalg.norm(found, axis=0)


def covariates(design: Assessment) -> tuple[Covariate, ...]:
    """The columns of every controlled facet with several levels, in order."""
    start = len(design.components)
    return tuple(
        Covariate(column[index], component.prior.sigma)
        for component, index in zip(design.fixed, design.cells.index[start:], strict=True)
        for column in contrasts(component.n_levels).T
    )
