"""Effects of one facet with own sds of each system, correlated between systems.

``u_t ~ Normal(0, B B')`` over the systems, independent between levels t, ``B = diag(sd) L`` and
``L L' = R ~ LKJ(2)`` (Lewandowski, Kurowicka and Joe 2009, doi:10.1016/j.jmva.2009.04.008).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt
from numpy.typing import NDArray
from pymc.distributions.transforms import ZeroSumTransform
from pymc.logprob.transforms import Transform

from gstudy.model.fused_innovations import Innovations

__all__ = [
    "InnovationsStandardised",
    "cholesky",
    "standard_innovations",
]

Floats = NDArray[np.float64]

LOG_2PI = np.asarray(np.log(2.0 * np.pi))
LOG_4 = np.asarray(np.log(4.0))


def cholesky(partial: Any, n_systems: int) -> Any:
    """L (S, S) from the partial correlations, each as ``(1 + z) / 2`` between 0 and 1.

    ``L_ij = z_ij prod_{k<j} sqrt(1 - z_ik^2)``, ``L_ii`` with z = 1.
    """
    below = np.tril_indices(n_systems, -1)
    zeros = pt.zeros((n_systems, n_systems))
    z = zeros[below].set(2.0 * partial - 1.0)
    log_root = zeros[below].set(0.5 * (LOG_4 + pt.log(partial) + pt.log1p(-partial)))
    before = np.triu(np.ones((n_systems, n_systems)), 1)
    return (z + np.eye(n_systems)) * pt.exp(pt.dot(log_root, before))


class InnovationsStandardised(Transform):
    """Coordinates w to innovations z (S, T) by `Innovations`, of a variable with the parameters b,
    information and scores."""

    ndim_supp = 2

    def __init__(self, *, swept: bool) -> None:
        self.swept = swept
        self.name = "sweptstandardised" if swept else "standardised"

    def _found(self, value: Any, inputs: Any) -> Any:
        return Innovations(swept=self.swept)(inputs[2], value, inputs[3], inputs[4])

    def backward(self, value: Any, *inputs: Any) -> Any:
        return self._found(value, inputs)[0]

    def log_jac_det(self, value: Any, *inputs: Any) -> Any:
        return self._found(value, inputs)[1]

    def forward(self, value: Any, *inputs: Any) -> Any:
        b, information, scores = inputs[2:5]
        own = pt.diagonal(b)[:, None]
        expected = pt.dot(b, value) - own * value
        v = 1.0 + own**2 * information
        root = pt.sqrt(v)
        full = root * (value - own * (scores - information * expected) / v)
        if not self.swept:
            return full
        mean = -pt.sum(full, axis=-1, keepdims=True) / pt.sum(root, axis=-1, keepdims=True)
        return ZeroSumTransform((-1,)).forward(full + mean * root)


def standard_innovations(
    name: str, b: Any, information: Floats, scores: Any, *, swept: bool
) -> Any:
    """The PyMC variable z (S, T), standard normal, each row with sum zero where swept.

    Its law does not depend on the arguments: they make the coordinates that are sampled.

    Parameters
    ----------
    name : str
    b : tensor (S, S)
        Lower Cholesky factor of the covariance between systems (logit).
    information : array (S, T)
    scores : tensor (S, T)
        Of the trials of each system about the effects ``b z``.
    swept : bool
    """
    import pymc as pm

    n_systems, size = information.shape
    constant = LOG_2PI * n_systems * (size - swept)

    def log_density(value: Any, *_: Any) -> Any:
        return -0.5 * (pt.sum(value**2) + constant)

    def draw(_: Any, known: Any, __: Any, rng: Any = None, size: Any = None) -> Floats:
        z = rng.standard_normal((*(size or ()), *known.shape))
        return np.asarray(z - z.mean(axis=-1, keepdims=True) if swept else z)

    return pm.CustomDist(
        name,
        b,
        information,
        scores,
        logp=log_density,
        random=draw,
        support_point=lambda rv, size, _, known, __: pt.zeros_like(known),
        signature="(s,s),(s,t),(s,t)->(s,t)",
        default_transform=InnovationsStandardised(swept=swept),
    )
