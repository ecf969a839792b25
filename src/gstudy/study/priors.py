"""Priors of the mean and of the standard deviations, on the logit scale."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real

from gstudy.errors import DeclarationError, did_you_mean, explain

__all__ = ["FAMILIES", "MU_DEFAULT", "Prior", "default_sd_prior"]

FAMILIES: Mapping[str, tuple[str, ...]] = {"Normal": ("mu", "sigma"), "HalfNormal": ("sigma",)}
"""The families there are, with their parameters in order."""

# Beyond these, on the logit scale, every pass rate is 0 or 1 to the last digit, or a component is
# gone: nothing that an evaluation can show, and too steep for any sampler.
_SIGMA_RANGE = (1e-4, 1e3)
_LARGEST_MU = 100.0

_FAMILY_OF_MU = "Normal"
_FAMILY_OF_SD = "HalfNormal"

# From this many levels on the data, not the prior, decide how large an sd is; real task sds run
# from 1.4 to 18.5 on the logit scale, so that a narrower default would pull them down.
_MANY_LEVELS = 8
_SIGMA_MANY_LEVELS = 5.0
_SIGMA_FEW_OBJECTS = 2.0
_SIGMA_FEW_LEVELS = 1.0


@dataclass(frozen=True, slots=True, init=False)
class Prior:
    """One prior: a family and its parameters.

    Parameters
    ----------
    dist : {"Normal", "HalfNormal"}
        Normal is for `mu`, HalfNormal for the standard deviations.
    parameters : mapping or pairs
        ``mu`` and ``sigma``, or ``sigma``, on the logit scale; kept as pairs, so that a prior
        can be compared and hashed.

    Raises
    ------
    DeclarationError
        For another family, an unknown or missing parameter, or one that is no number, has the
        wrong sign or is out of range.

    Examples
    --------
    >>> str(Prior("HalfNormal", {"sigma": 5}))
    'HalfNormal(sigma=5)'
    """

    dist: str
    parameters: tuple[tuple[str, float], ...]

    def __init__(
        self, dist: str, parameters: Mapping[str, float] | tuple[tuple[str, float], ...]
    ) -> None:
        object.__setattr__(self, "dist", dist)
        object.__setattr__(self, "parameters", _checked("a prior", dist, dict(parameters)))

    @classmethod
    def from_value(cls, key: str, value: object) -> Prior:
        """The prior that a declaration gives for `key`.

        Parameters
        ----------
        key : str
            ``"mu"`` or ``"sd(<component>)"``: it says which family is allowed, and errors name it.
        value : Prior or mapping
            Such as ``{"dist": "HalfNormal", "sigma": 5.0}``.

        Returns
        -------
        Prior

        Raises
        ------
        DeclarationError
            When it is no prior, or not one that `key` can take.
        """
        where = "priors.mu" if key == "mu" else f'priors."{key}"'
        family = _FAMILY_OF_MU if key == "mu" else _FAMILY_OF_SD
        if isinstance(value, Prior):
            value = value.to_dict()
        if not isinstance(value, Mapping) or "dist" not in value:
            raise DeclarationError(
                explain(
                    f"{where} is not a prior", given=value, allowed=f"such as {_example(family)}"
                )
            )
        if value["dist"] != family:
            raise DeclarationError(
                explain(
                    f"{where} cannot have this dist",
                    given=value["dist"],
                    allowed=f"{family}({', '.join(FAMILIES[family])})",
                    do=did_you_mean(str(value["dist"]), [family])
                    or f"Other families are not there yet: write {_example(family)}.",
                )
            )
        rest = {name: number for name, number in value.items() if name != "dist"}
        return cls(family, _checked(where, family, rest))

    @property
    def sigma(self) -> float:
        """Scale, on the logit scale."""
        return dict(self.parameters)["sigma"]

    @property
    def mu(self) -> float:
        """Centre of a Normal, on the logit scale; 0 for a HalfNormal."""
        return dict(self.parameters).get("mu", 0.0)

    def to_dict(self) -> dict[str, str | float]:
        """The prior as it stands in a declaration."""
        return {"dist": self.dist, **dict(self.parameters)}

    def __str__(self) -> str:
        numbers = ", ".join(f"{name}={number:g}" for name, number in self.parameters)
        return f"{self.dist}({numbers})"


def default_sd_prior(n_levels: int, *, is_object: bool) -> Prior:
    """The default prior of a component's standard deviation, on the logit scale.

    HalfNormal(5) from 8 levels on; with fewer, HalfNormal(2) for the object of measurement and
    HalfNormal(1) for any other component.

    Parameters
    ----------
    n_levels : int
        Levels of the component in the data.
    is_object : bool
        Whether the component is the object of measurement itself.

    Returns
    -------
    Prior

    Examples
    --------
    >>> str(default_sd_prior(3, is_object=False))
    'HalfNormal(sigma=1)'
    """
    if n_levels >= _MANY_LEVELS:
        sigma = _SIGMA_MANY_LEVELS
    else:
        sigma = _SIGMA_FEW_OBJECTS if is_object else _SIGMA_FEW_LEVELS
    return Prior(_FAMILY_OF_SD, {"sigma": sigma})


def _checked(
    where: str, dist: str, parameters: Mapping[str, object]
) -> tuple[tuple[str, float], ...]:
    """The parameters as numbers, in the family's order."""
    if dist not in FAMILIES:
        raise DeclarationError(
            explain(
                f"{where} has an unknown dist",
                given=dist,
                allowed=FAMILIES,
                do=did_you_mean(str(dist), FAMILIES),
            )
        )
    names = FAMILIES[dist]
    for name in parameters:
        if name not in names:
            raise DeclarationError(
                explain(
                    f"{where}: {dist} has no parameter {name!r}",
                    allowed=names,
                    do=did_you_mean(str(name), names) or f"Write {_example(dist)}.",
                )
            )
    return tuple((name, _number(where, dist, name, parameters.get(name))) for name in names)


def _number(where: str, dist: str, name: str, value: object) -> float:
    allowed = "a number above 0" if name == "sigma" else "a number"
    if value is None:
        raise DeclarationError(
            explain(f"{where}: {dist} needs {name!r}", do=f"Write {_example(dist)}.")
        )
    number = _finite(value)
    if number is None:
        raise DeclarationError(
            explain(f"{where}: {name} is no number", given=value, allowed=allowed)
        )
    if name == "sigma" and number <= 0:
        raise DeclarationError(
            explain(f"{where}: sigma is not positive", given=value, allowed=allowed)
        )
    low, high = _SIGMA_RANGE if name == "sigma" else (-_LARGEST_MU, _LARGEST_MU)
    if not low <= number <= high:
        raise DeclarationError(
            explain(
                f"{where}: {name} is out of range",
                given=value,
                allowed=f"from {low:g} to {high:g}, on the logit scale",
                do="A pass rate of 0.9 is 2.2 there, and one of 0.999 is 6.9.",
            )
        )
    return number


def _finite(value: object) -> float | None:
    """The value as a finite number, numpy's numbers too; None when it is none."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _example(dist: str) -> str:
    numbers = {"mu": "0.0", "sigma": "3.0" if dist == "Normal" else "5.0"}
    inside = ", ".join(f"{name} = {numbers[name]}" for name in FAMILIES[dist])
    return f'{{ dist = "{dist}", {inside} }}'


# The logit of a rate with Jeffreys' prior has sd pi.
MU_DEFAULT = Prior("Normal", {"mu": 0.0, "sigma": 3.0})
