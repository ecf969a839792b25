"""Components that a study file assumes, so that designs can be compared before any trial."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from types import MappingProxyType
from typing import Any

from gstudy.errors import QuantityError, did_you_mean, explain

__all__ = ["SCALES", "Assumed"]

SCALES = ("score", "logit")
"""Scales that components can be assumed on."""

_MEANS = {"score": "mean", "logit": "mu"}


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class Assumed:
    """Variances of components with the mean that belongs to them; what `gs.assume` takes.

    Parameters
    ----------
    components : mapping of str to float
        Variance of each component, squared units of the scale.
    scale : {"score", "logit"}
    mean : float, optional
        Expected score; of the score scale.
    mu : float, optional
        Grand mean on the logit scale; of that scale.

    Raises
    ------
    QuantityError
        For another scale, a mean that is missing or belongs to the other scale, no components,
        and a variance that is no number from 0 on.

    Examples
    --------
    >>> Assumed({"task": 0.12, "rollout": 0.09}, mean=0.7)
    Assumed({'task': 0.12, 'rollout': 0.09}, scale='score', mean=0.7)
    """

    components: Mapping[str, float]
    scale: str
    mean: float | None
    mu: float | None

    def __init__(
        self,
        components: Mapping[str, float],
        *,
        scale: str = "score",
        mean: float | None = None,
        mu: float | None = None,
    ) -> None:
        _check_scale(scale)
        _check_mean(scale, {"mean": mean, "mu": mu})
        object.__setattr__(self, "components", _components(components))
        object.__setattr__(self, "scale", scale)
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "mu", mu)

    def to_dict(self) -> dict[str, Any]:
        """The table of the assumptions in a study file."""
        key = _MEANS[self.scale]
        return {
            "scale": self.scale,
            key: getattr(self, key),
            "components": dict(self.components),
        }

    def __eq__(self, other: object) -> bool:
        return self.to_dict() == other.to_dict() if isinstance(other, Assumed) else NotImplemented

    def __hash__(self) -> int:
        return hash((frozenset(self.components.items()), self.scale, self.mean, self.mu))

    def __repr__(self) -> str:
        key = _MEANS[self.scale]
        means = f"{key}={getattr(self, key)!r}"
        return f"Assumed({dict(self.components)!r}, scale={self.scale!r}, {means})"

    def __reduce__(self) -> tuple[Any, ...]:
        # Read-only mappings do not pickle.
        return (_rebuilt, (self.to_dict(),))


def _rebuilt(table: dict[str, Any]) -> Assumed:
    return Assumed(**table)


def _check_scale(scale: object) -> None:
    if scale not in SCALES:
        raise QuantityError(
            explain(
                "unknown scale", given=scale, allowed=SCALES, do=did_you_mean(str(scale), SCALES)
            )
        )


def _check_mean(scale: str, given: Mapping[str, object]) -> None:
    key = _MEANS[scale]
    others = [name for name, value in given.items() if name != key and value is not None]
    if others or not _is_finite(given[key]):
        raise QuantityError(
            explain(
                f"assumed components on the {scale} scale need {key}, and nothing else",
                given={name: value for name, value in given.items() if value is not None},
                allowed=f"{key}: a finite number",
            )
        )


def _components(value: object) -> Mapping[str, float]:
    if not isinstance(value, Mapping) or not value:
        raise QuantityError(
            explain(
                "no components are assumed",
                given=value if isinstance(value, Mapping) else type(value).__name__,
                allowed="such as { task = 0.12, rollout = 0.06 }",
            )
        )
    for name, variance in value.items():
        if not isinstance(name, str) or not _is_finite(variance) or variance < 0:
            raise QuantityError(
                explain(
                    f"the variance of {name!r} is not usable",
                    given=variance,
                    allowed="numbers from 0 on",
                    do="Give variances, not standard deviations or shares.",
                )
            )
    return MappingProxyType({name: float(variance) for name, variance in value.items()})


def _is_finite(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    return math.isfinite(float(value))
