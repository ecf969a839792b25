"""Priors of the mean, of the standard deviations and of fixed effects."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING

import numpy as np

from gstudy.errors import DeclarationError, did_you_mean, explain

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = [
    "FAMILIES",
    "MU_DEFAULT",
    "Prior",
    "default_fixed_prior",
    "default_mu_prior",
    "default_residual_prior",
    "default_sd_prior",
]

FAMILIES: Mapping[str, tuple[str, ...]] = {
    "Normal": ("mu", "sigma"),
    "StudentT": ("nu", "mu", "sigma"),
    "HalfNormal": ("sigma",),
    "HalfStudentT": ("nu", "sigma"),
    "HalfCauchy": ("beta",),
    "Exponential": ("lam",),
    "Gamma": ("alpha", "beta"),
    "LogNormal": ("mu", "sigma"),
    "ZeroSumNormal": ("sigma",),
}
"""The families there are, with their parameters in order, as PyMC calls them."""

_FAMILIES_OF = {
    "mu": ("Normal", "StudentT"),
    "sd": ("HalfNormal", "HalfStudentT", "HalfCauchy", "Exponential", "Gamma", "LogNormal"),
    "fixed": ("ZeroSumNormal",),
}

# What a parameter is: a scale, a rate (one over a scale), a place, a log of a scale, or a shape.
_KINDS = {
    **{(dist, "sigma"): "scale" for dist in FAMILIES if dist != "LogNormal"},
    **{(dist, "nu"): "freedom" for dist in ("StudentT", "HalfStudentT")},
    **{(dist, "mu"): "place" for dist in ("Normal", "StudentT")},
    ("HalfCauchy", "beta"): "scale",
    ("Exponential", "lam"): "rate",
    ("Gamma", "beta"): "rate",
    ("Gamma", "alpha"): "shape",
    ("LogNormal", "mu"): "log scale",
    ("LogNormal", "sigma"): "log spread",
}

# Shapes have no unit: with fewer degrees of freedom or less shape nothing holds the tail or the
# point 0, with more the family is another one to the last digit.
_ALWAYS = {"freedom": (1.0, 1e4), "shape": (0.1, 1e4), "log spread": (0.01, 10.0)}

# Beyond these, on the logit scale, every pass rate is 0 or 1 to the last digit, or a component is
# gone: nothing that an evaluation can show, and too steep for any sampler.
_ON_LOGITS = {
    "scale": (1e-4, 1e3),
    "rate": (1e-3, 1e4),
    "place": (-100.0, 100.0),
    "log scale": (-9.2, 6.9),
}

# In the unit of a graded score anything goes whose square is a number.
_LARGEST = 1e100
_IN_UNITS = {
    "scale": (1 / _LARGEST, _LARGEST),
    "rate": (1 / _LARGEST, _LARGEST),
    "place": (-_LARGEST, _LARGEST),
    "log scale": (-math.log(_LARGEST), math.log(_LARGEST)),
}

_POSITIVE = ("scale", "rate", "freedom", "shape", "log spread")

# From this many levels on the data, not the prior, decide how large an sd is; real task sds run
# from 1.4 to 18.5 on the logit scale, so that a narrower default would pull them down.
_MANY_LEVELS = 8
_SIGMA_MANY_LEVELS = 5.0
_SIGMA_FEW_OBJECTS = 2.0
_SIGMA_FEW_LEVELS = 1.0

_SIGMA_FIXED = 2.5

# Of graded scores, in standard deviations of all scores.
_SIGMA_OF_GRADED_MEAN = 2.5
_SIGMA_OF_GRADED_SD = 2.0


@dataclass(frozen=True, slots=True, init=False)
class Prior:
    """One prior: a family and its parameters, as PyMC parameterises it.

    Parameters
    ----------
    dist : str
        For `mu` "Normal" (mu, sigma) or "StudentT" (nu, mu, sigma). For a standard deviation
        "HalfNormal" (sigma), "HalfStudentT" (nu, sigma), "HalfCauchy" (beta, a scale),
        "Exponential" (lam, a rate), "Gamma" (alpha, a shape; beta, a rate) or "LogNormal" (mu,
        sigma, of the logarithm). For fixed effects "ZeroSumNormal" (sigma).
    parameters : mapping or pairs
        By name, on the logit scale for a binary score and in the score's unit for a graded one;
        kept as pairs, so that a prior can be compared and hashed.

    Raises
    ------
    DeclarationError
        For another family, an unknown or missing parameter, or one that is no number, has the
        wrong sign or is out of range.

    Examples
    --------
    >>> str(Prior("HalfNormal", {"sigma": 5}))
    'HalfNormal(sigma=5)'
    >>> round(float(Prior("HalfNormal", {"sigma": 5}).logpdf(0.0)), 4)
    -1.8352
    """

    dist: str
    parameters: tuple[tuple[str, float], ...]

    def __init__(
        self, dist: str, parameters: Mapping[str, float] | tuple[tuple[str, float], ...]
    ) -> None:
        object.__setattr__(self, "dist", dist)
        object.__setattr__(self, "parameters", _checked("a prior", dist, dict(parameters)))

    @classmethod
    def from_value(cls, key: str, value: object, family: str = "binary") -> Prior:
        """The prior that a declaration gives for `key`.

        Parameters
        ----------
        key : str
            ``"mu"``, ``"sd(<component>)"``, ``"sd(residual)"`` or ``"fixed(<facet>)"``: it says
            which distributions are allowed, and errors name it.
        value : Prior or mapping
            Such as ``{"dist": "HalfNormal", "sigma": 5.0}``.
        family : {"binary", "gaussian"}
            Of the score: on the logit scale parameters have a range.

        Returns
        -------
        Prior

        Raises
        ------
        DeclarationError
            When it is no prior, or not one that `key` can take.
        """
        where = "priors.mu" if key == "mu" else f'priors."{key}"'
        allowed = _FAMILIES_OF["mu" if key == "mu" else key.partition("(")[0]]
        if isinstance(value, Prior):
            value = value.to_dict()
        if not isinstance(value, Mapping) or "dist" not in value:
            raise DeclarationError(
                explain(
                    f"{where} is not a prior",
                    given=value,
                    allowed=f"such as {_example(allowed[0])}",
                )
            )
        dist = value["dist"]
        if dist not in allowed:
            raise DeclarationError(
                explain(
                    f"{where} cannot have this dist",
                    given=dist,
                    allowed=[f"{name}({', '.join(FAMILIES[name])})" for name in allowed],
                    do=did_you_mean(str(dist), allowed) or f"Write {_example(allowed[0])}.",
                )
            )
        rest = {name: number for name, number in value.items() if name != "dist"}
        units = _IN_UNITS if family == "gaussian" else _ON_LOGITS
        return cls(str(dist), _checked(where, str(dist), rest, units))

    @property
    def sigma(self) -> float:
        """The parameter `sigma` of a family that has one."""
        return dict(self.parameters)["sigma"]

    @property
    def mu(self) -> float:
        """The parameter `mu`; 0 for a family that has none."""
        return dict(self.parameters).get("mu", 0.0)

    def logpdf(self, x: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Log density at `x`; minus infinity outside of the support.

        Parameters
        ----------
        x : array
            Values in the prior's own unit. Of a ZeroSumNormal the last axis holds the effects of
            all levels, K of them, and the density is that of their K - 1 free directions.

        Returns
        -------
        float64 array
            Shape of `x`; of a ZeroSumNormal without its last axis.
        """
        values, p = np.asarray(x, dtype=float), dict(self.parameters)
        if self.dist == "ZeroSumNormal":
            squares = (values**2).sum(axis=-1) / p["sigma"] ** 2
            scale = math.log(p["sigma"]) + 0.5 * math.log(2 * math.pi)
            return np.asarray(-0.5 * squares - (values.shape[-1] - 1) * scale)
        return np.asarray(_log_density(self.dist, p, values), dtype=float)

    def draw(
        self, rng: np.random.Generator, size: int | tuple[int, ...] | None = None
    ) -> npt.NDArray[np.float64]:
        """Random values of the prior.

        Parameters
        ----------
        rng : numpy.random.Generator
        size : int or tuple of int, optional
            Shape; of a ZeroSumNormal the last axis holds the effects, which sum to 0.

        Returns
        -------
        float64 array
        """
        return np.asarray(_random(self.dist, dict(self.parameters), rng, size), dtype=float)

    def to_dict(self) -> dict[str, str | float]:
        """The prior as it stands in a declaration."""
        return {"dist": self.dist, **dict(self.parameters)}

    def __str__(self) -> str:
        numbers = ", ".join(f"{name}={number:g}" for name, number in self.parameters)
        return f"{self.dist}({numbers})"


def default_sd_prior(n_levels: int, *, is_object: bool, score_scale: float | None = None) -> Prior:
    """The default prior of a component's standard deviation.

    On the logit scale HalfNormal(5) from 8 levels on; with fewer, HalfNormal(2) for the object of
    measurement and HalfNormal(1) for any other component. Of graded scores HalfNormal(2 s_y).

    Parameters
    ----------
    n_levels : int
        Levels of the component in the data.
    is_object : bool
        Whether the component is the object of measurement itself.
    score_scale : float, optional
        Of graded scores s_y, the standard deviation of all of them.

    Returns
    -------
    Prior

    Examples
    --------
    >>> str(default_sd_prior(3, is_object=False))
    'HalfNormal(sigma=1)'
    >>> str(default_sd_prior(3, is_object=False, score_scale=1.5))
    'HalfNormal(sigma=3)'
    """
    if score_scale is not None:
        sigma = _SIGMA_OF_GRADED_SD * score_scale
    elif n_levels >= _MANY_LEVELS:
        sigma = _SIGMA_MANY_LEVELS
    else:
        sigma = _SIGMA_FEW_OBJECTS if is_object else _SIGMA_FEW_LEVELS
    return Prior("HalfNormal", {"sigma": sigma})


def default_mu_prior(mean: float, score_scale: float | None) -> Prior:
    """The default prior of mu: Normal(0, 3) on the logit scale, else Normal(mean, 2.5 s_y)."""
    if score_scale is None:
        return MU_DEFAULT
    return Prior("Normal", {"mu": mean, "sigma": _SIGMA_OF_GRADED_MEAN * score_scale})


def default_residual_prior(score_scale: float) -> Prior:
    """The default prior of the residual sd of graded scores: HalfNormal(2 s_y)."""
    return Prior("HalfNormal", {"sigma": _SIGMA_OF_GRADED_SD * score_scale})


def default_fixed_prior(score_scale: float | None = None) -> Prior:
    """The default prior of fixed effects: ZeroSumNormal(2.5), of graded scores (2.5 s_y)."""
    unit = 1.0 if score_scale is None else score_scale
    return Prior("ZeroSumNormal", {"sigma": _SIGMA_FIXED * unit})


def _log_density(
    dist: str, p: Mapping[str, float], x: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    from scipy import stats

    if dist == "Normal":
        found = stats.norm.logpdf(x, p["mu"], p["sigma"])
    elif dist == "StudentT":
        found = stats.t.logpdf(x, p["nu"], p["mu"], p["sigma"])
    elif dist == "HalfNormal":
        found = stats.halfnorm.logpdf(x, scale=p["sigma"])
    elif dist == "HalfStudentT":
        whole = math.log(2) + stats.t.logpdf(x, p["nu"], scale=p["sigma"])
        found = np.where(x >= 0, whole, -math.inf)
    elif dist == "HalfCauchy":
        found = stats.halfcauchy.logpdf(x, scale=p["beta"])
    elif dist == "Exponential":
        found = stats.expon.logpdf(x, scale=1 / p["lam"])
    elif dist == "Gamma":
        found = stats.gamma.logpdf(x, p["alpha"], scale=1 / p["beta"])
    else:
        found = stats.lognorm.logpdf(x, p["sigma"], scale=math.exp(p["mu"]))
    return np.asarray(found, dtype=float)


def _random(
    dist: str,
    p: Mapping[str, float],
    rng: np.random.Generator,
    size: int | tuple[int, ...] | None,
) -> npt.ArrayLike:
    if dist == "Normal":
        return rng.normal(p["mu"], p["sigma"], size)
    if dist == "StudentT":
        return p["mu"] + p["sigma"] * rng.standard_t(p["nu"], size)
    if dist == "HalfNormal":
        return p["sigma"] * np.abs(rng.standard_normal(size))
    if dist == "HalfStudentT":
        return p["sigma"] * np.abs(rng.standard_t(p["nu"], size))
    if dist == "HalfCauchy":
        return p["beta"] * np.abs(rng.standard_cauchy(size))
    if dist == "Exponential":
        return rng.exponential(1 / p["lam"], size)
    if dist == "Gamma":
        return rng.gamma(p["alpha"], 1 / p["beta"], size)
    if dist == "LogNormal":
        return rng.lognormal(p["mu"], p["sigma"], size)
    values = p["sigma"] * np.atleast_1d(rng.standard_normal(size))
    return values - values.mean(axis=-1, keepdims=True)


def _checked(
    where: str,
    dist: str,
    parameters: Mapping[str, object],
    units: Mapping[str, tuple[float, float]] = _IN_UNITS,
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
    return tuple((name, _number(where, dist, name, parameters.get(name), units)) for name in names)


def _number(
    where: str, dist: str, name: str, value: object, units: Mapping[str, tuple[float, float]]
) -> float:
    kind = _KINDS[dist, name]
    allowed = "a number above 0" if kind in _POSITIVE else "a number"
    if value is None:
        raise DeclarationError(
            explain(f"{where}: {dist} needs {name!r}", do=f"Write {_example(dist)}.")
        )
    number = _finite(value)
    if number is None:
        raise DeclarationError(
            explain(f"{where}: {name} is no number", given=value, allowed=allowed)
        )
    if kind in _POSITIVE and number <= 0:
        raise DeclarationError(
            explain(f"{where}: {name} is not positive", given=value, allowed=allowed)
        )
    low, high = _ALWAYS[kind] if kind in _ALWAYS else units[kind]
    if not low <= number <= high:
        logit = units is _ON_LOGITS and kind not in _ALWAYS
        raise DeclarationError(
            explain(
                f"{where}: {name} is out of range",
                given=value,
                allowed=f"from {low:g} to {high:g}" + (", on the logit scale" if logit else ""),
                do="A pass rate of 0.9 is 2.2 there, and one of 0.999 is 6.9." if logit else None,
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


_EXAMPLES = {
    "Normal": (0.0, 3.0),
    "StudentT": (4.0, 0.0, 3.0),
    "HalfNormal": (5.0,),
    "HalfStudentT": (4.0, 2.5),
    "HalfCauchy": (2.5,),
    "Exponential": (0.5,),
    "Gamma": (2.0, 0.5),
    "LogNormal": (0.0, 1.0),
    "ZeroSumNormal": (2.5,),
}


def _example(dist: str) -> str:
    numbers = zip(FAMILIES[dist], _EXAMPLES[dist], strict=True)
    inside = ", ".join(f"{name} = {number}" for name, number in numbers)
    return f'{{ dist = "{dist}", {inside} }}'


# The logit of a rate with Jeffreys' prior has sd pi.
MU_DEFAULT = Prior("Normal", {"mu": 0.0, "sigma": 3.0})
