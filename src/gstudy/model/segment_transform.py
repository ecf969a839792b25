"""Effects in segments for PyMC: standard normal, standardised by what their trials say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytensor.tensor as pt
from numpy.typing import NDArray
from pymc.logprob.transforms import Transform

if TYPE_CHECKING:
    from gstudy.model.segments import Segments

__all__ = ["SegmentsStandardised", "segment_effects"]

Floats = NDArray[np.float64]

LOG_2PI = np.asarray(np.log(2.0 * np.pi))


class SegmentsStandardised(Transform):
    """K - G coordinates to K standard effects z, each segment with sum zero.

    ``z = w / r + sd score / r^2`` less its mean, ``r^2 = 1 + sd^2 information``: the effects
    ``sd z`` standardised by what their trials say (see `Parameterisation`).
    """

    name = "sweptstandardised"
    ndim_supp = 1

    def __init__(self, segments: Segments, information: Floats, scores: Floats) -> None:
        self.member = segments.member
        self.sizes = segments.sizes
        self.free_member = segments.member[:, : segments.n_free]
        self.information = information
        self.scores = scores

    def _known(self, inputs: Any) -> tuple[Any, Any]:
        """Sd of each effect, and r."""
        sd = pt.dot(inputs[2], self.member)
        return sd, pt.sqrt(1.0 + sd**2 * self.information)

    def backward(self, value: Any, *inputs: Any) -> Any:
        sd, root = self._known(inputs)
        size = np.sqrt(self.sizes)
        total = pt.dot(self.free_member, value)
        free = value - pt.dot(total / (size + self.sizes), self.free_member)
        full = pt.concatenate([free, -total / size])
        z = full / root + sd * self.scores / root**2
        return z - pt.dot(pt.dot(self.member, z) / self.sizes, self.member)

    def forward(self, value: Any, *inputs: Any) -> Any:
        sd, root = self._known(inputs)
        off = value * root - sd * self.scores / root
        mean = -pt.dot(self.member, off) / pt.dot(self.member, root)
        full = off + pt.dot(mean, self.member) * root
        size, n_free = np.sqrt(self.sizes), self.free_member.shape[1]
        free, last = full[:n_free], full[n_free:]
        common = pt.dot(self.free_member, free) / (size + self.sizes) + last / size
        return free - pt.dot(common, self.free_member)

    def log_jac_det(self, value: Any, *inputs: Any) -> Any:
        _, root = self._known(inputs)
        means = pt.dot(self.member, root) / self.sizes
        return pt.sum(pt.log(means)) - pt.sum(pt.log(root))


def segment_effects(
    name: str, sds: Any, segments: Segments, information: Floats, scores: Floats
) -> Any:
    """The PyMC variable z (K,) in layout order: standard normal, each segment with sum zero.

    Parameters
    ----------
    name : str
    sds : tensor (G,)
        Logit sd of each segment: z does not depend on it, the coordinates that are sampled do.
    segments : Segments
    information, scores : arrays (K,)
        In layout order, of the effects ``sd z``.
    """
    import pymc as pm

    constant = LOG_2PI * segments.n_free

    def log_density(value: Any, *_: Any) -> Any:
        return -0.5 * (pt.sum(value**2) + constant)

    def draw(_: Any, member: Any, rng: Any = None, size: Any = None) -> Floats:
        z = rng.standard_normal((*(size or ()), member.shape[-1]))
        return np.asarray(z - (z @ member.T / segments.sizes) @ member)

    return pm.CustomDist(
        name,
        sds,
        # What is known is a parameter too: it tells PyMC the shape.
        segments.member,
        logp=log_density,
        random=draw,
        support_point=lambda rv, size, _, member: pt.zeros(member.shape[-1]),
        signature="(g),(g,k)->(k)",
        default_transform=SegmentsStandardised(segments, information, scores),
    )
