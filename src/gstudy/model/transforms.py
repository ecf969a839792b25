"""PyMC transforms to the sampler's coordinates: effects standardised by what their trials say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt
from numpy.typing import NDArray
from pymc.distributions.transforms import ZeroSumTransform
from pymc.logprob.transforms import Transform

__all__ = ["Compensated", "Standardised", "SweptStandardised"]

Floats = NDArray[np.float64]


def _given_trials(sigma: Any, information: Floats) -> Any:
    """Variance of each effect given its trials, ``s^2 / (1 + s^2 information)``."""
    return sigma**2 / (1.0 + sigma**2 * information)


class Standardised(Transform):
    """``effect = a w + a^2 score`` for independent normal effects (see `Parameterisation`)."""

    name = "standardised"
    ndim_supp = 0

    def __init__(self, information: Floats, scores: Floats) -> None:
        self.information = information
        self.scores = scores

    def backward(self, value: Any, *inputs: Any) -> Any:
        given = _given_trials(inputs[-1], self.information)
        return pt.sqrt(given) * value + given * self.scores

    def forward(self, value: Any, *inputs: Any) -> Any:
        given = _given_trials(inputs[-1], self.information)
        return (value - given * self.scores) / pt.sqrt(given)

    def log_jac_det(self, value: Any, *inputs: Any) -> Any:
        return 0.5 * pt.log(_given_trials(inputs[-1], self.information)) + pt.zeros_like(value)


class SweptStandardised(Transform):
    """The same for effects that sum to zero: K - 1 coordinates, and the mean is taken off.

    With Q an orthonormal basis of the vectors that sum to zero, the Jacobian is
    ``det(Q' diag(a) Q) = prod(a) mean(1 / a)``.
    """

    name = "sweptstandardised"
    ndim_supp = 1

    def __init__(self, information: Floats, scores: Floats) -> None:
        self.information = information
        self.scores = scores
        self.spread = ZeroSumTransform((-1,))

    def backward(self, value: Any, *inputs: Any) -> Any:
        given = _given_trials(_sigma(inputs), self.information)
        effects = pt.sqrt(given) * self.spread.backward(value) + given * self.scores
        return effects - pt.mean(effects, axis=-1, keepdims=True)

    def forward(self, value: Any, *inputs: Any) -> Any:
        given = _given_trials(_sigma(inputs), self.information)
        scale = pt.sqrt(given)
        off = (value - given * self.scores) / scale
        mean = -pt.sum(off, axis=-1, keepdims=True) / pt.sum(1.0 / scale, axis=-1, keepdims=True)
        return self.spread.forward(off + mean / scale)

    def log_jac_det(self, value: Any, *inputs: Any) -> Any:
        scale = pt.sqrt(_given_trials(_sigma(inputs), self.information))
        log_det = pt.sum(pt.log(scale), axis=-1) + pt.log(pt.mean(1.0 / scale, axis=-1))
        return log_det + pt.zeros_like(value).sum(axis=-1)


def _sigma(inputs: Any) -> Any:
    """Sigma, with a last axis of one, among a ZeroSumNormal's inputs: rng, size, sigma, shape."""
    return inputs[2]


class Compensated(Transform):
    """Either of them for effects with others above: the score is less ``information above``, the
    sum of the effects above each, which is the second parameter of the variable, after its sd."""

    ndim_supp = 1

    def __init__(self, information: Floats, scores: Floats, *, zero_sum: bool) -> None:
        self.information = information
        self.scores = scores
        self.zero_sum = zero_sum
        self.name = SweptStandardised.name if zero_sum else Standardised.name

    def _given(self, inputs: Any) -> tuple[Any, Any]:
        """The transform given the effects above, and its inputs."""
        sigma, above = inputs[2], inputs[3]
        kind = SweptStandardised if self.zero_sum else Standardised
        given = kind(self.information, self.scores - self.information * above)
        return given, (None, None, sigma)

    def backward(self, value: Any, *inputs: Any) -> Any:
        given, known = self._given(inputs)
        return given.backward(value, *known)

    def forward(self, value: Any, *inputs: Any) -> Any:
        given, known = self._given(inputs)
        return given.forward(value, *known)

    def log_jac_det(self, value: Any, *inputs: Any) -> Any:
        given, known = self._given(inputs)
        return pt.sum(given.log_jac_det(value, *known))
