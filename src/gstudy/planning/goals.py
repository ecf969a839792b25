"""What a design is chosen by: a linear form in its factors, per draw, in chunks of flat memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from gstudy._words import plural
from gstudy.errors import QuantityError, did_you_mean, explain
from gstudy.planning.terms import Terms, error_terms, score_terms
from gstudy.variance.basis import basis_of
from gstudy.variance.draws import Array, normal_quantile, proportion
from gstudy.variance.latent import widest

if TYPE_CHECKING:
    from gstudy.fits.fitted import Fit
    from gstudy.variance.basis import Basis
    from gstudy.variance.components import VarianceComponents

__all__ = ["GOALS", "POWER", "Form", "Goal", "checked_target", "checked_width", "goal_of"]

GOALS = ("half_width", "given_half_width", "difference", "mdd", "phi", "generalizability")
"""Half-width of a score's interval, of that of a given system of the population, of that of a
difference of two on shared levels, the smallest difference that a test of it finds with power 0.8,
and the two coefficients."""

POWER = 0.8
_COEFFICIENTS = ("phi", "generalizability")
# Draws times designs that are held at a time: 16 MB.
_CHUNK = 2_000_000
# A goal this close to its target is rounding.
_ROUNDING = 1e-12
# Variances this far apart, of that of the smallest design, are rounding.
_NOTHING = 1e-15


class Form(Protocol):
    """A variance that is linear in factors of the design, as `Terms` are."""

    @property
    def values(self) -> Array:
        """What the factors multiply, (n_terms, n_draws)."""

    def factors(
        self, counts: Mapping[str, Any], *, judges: str = "all", relative: bool = False
    ) -> Array:
        """Factors of designs, (n_designs, n_terms)."""


@dataclass(frozen=True, slots=True, eq=False)
class Goal:
    """A quantity of a design, per draw.

    Parameters
    ----------
    name : str
        One of `GOALS`.
    form : Form
        Of the variance (of a score, or the error variance).
    times : float
        The quantity is this times the root of the variance; not used by coefficients.
    between : function of (counts, judges), optional
        Of a coefficient the variance between levels of the object, (n_designs, n_draws).
    relative : bool
        Whether only sets with the object count.
    most : float
        The largest value: two pass rates differ by at most 1.
    """

    name: str
    form: Form
    times: float = 1.0
    between: Callable[[Mapping[str, Any], str], Array] | None = None
    relative: bool = False
    most: float = np.inf

    @property
    def rises(self) -> bool:
        """Whether more is better."""
        return self.between is not None

    def scores(self, counts: Mapping[str, Array], judges: str) -> Array:
        """What a search makes least, (n_designs,).

        The posterior mean variance, of a coefficient its posterior mean with a minus.
        """
        if self.rises:
            return -self._by_chunk(counts, judges, lambda x: x.mean(axis=1))
        means = self.form.values.mean(axis=1)
        found = np.empty(_n_designs(counts))
        for part in _parts(counts, len(means)):
            chunk = {facet: n[part] for facet, n in counts.items()}
            found[part] = self._factors(chunk, judges) @ means
        return found

    def chances(self, counts: Mapping[str, Array], judges: str, target: float) -> Array:
        """Posterior probability that each design meets a target, (n_designs,)."""
        if self.rises:
            limit = target * (1 - _ROUNDING)
            return self._by_chunk(counts, judges, lambda x: (x >= limit).mean(axis=1))
        if target >= self.most:
            return np.ones(_n_designs(counts))
        limit = (target / self.times) ** 2 * (1 + _ROUNDING)
        return self._by_chunk(counts, judges, lambda x: (x <= limit).mean(axis=1))

    def draws(self, counts: Mapping[str, Array], judges: str) -> Array:
        """The quantity, (n_designs, n_draws)."""
        found = self._quantities(counts, judges)
        if self.rises:
            return found
        return np.minimum(self.times * np.sqrt(np.maximum(found, 0.0)), self.most)

    def slack(self, scores: Array | float) -> Array:
        """How far from these scores others are only by rounding."""
        if self.rises:
            return np.full(np.shape(scores), _ROUNDING)
        whole = float(self.form.values.mean(axis=1).sum())
        return np.asarray(np.abs(scores) * _ROUNDING + _NOTHING * abs(whole))

    def _quantities(self, counts: Mapping[str, Array], judges: str) -> Array:
        """Variances, or coefficients, (n_designs, n_draws)."""
        variance = self._factors(counts, judges) @ self.form.values
        if self.between is None:
            return np.asarray(variance)
        own = self.between(counts, judges)
        whole = own + variance
        return np.divide(own, whole, out=np.zeros_like(whole), where=whole > 0)

    def _factors(self, counts: Mapping[str, Array], judges: str) -> Array:
        return self.form.factors(counts, judges=judges, relative=self.relative)

    def _by_chunk(
        self, counts: Mapping[str, Array], judges: str, reduce: Callable[[Array], Array]
    ) -> Array:
        found = np.empty(_n_designs(counts))
        for part in _parts(counts, self.form.values.shape[1]):
            chunk = {facet: n[part] for facet, n in counts.items()}
            found[part] = reduce(self._quantities(chunk, judges))
        return found


def goal_of(
    source: Fit | VarianceComponents,
    name: str,
    *,
    system: str | None,
    pin: Sequence[str] | None,
    coverage: float,
) -> Goal:
    """The goal of a source.

    Raises
    ------
    QuantityError
        For an unknown goal, one that needs an object where there is none, and a coverage outside
        (0, 1).
    """
    if name not in GOALS:
        raise QuantityError(
            explain("unknown goal", given=name, allowed=GOALS, do=did_you_mean(name, GOALS))
        )
    z = normal_quantile(coverage)
    if name == "half_width":
        terms = score_terms(source, system=system, pin=pin)
        return Goal(name, terms, z, most=widest(terms.study.family))
    if system is not None:
        raise QuantityError(
            explain(
                f"the goal {name!r} is of a population of systems, and system names one",
                given=system,
                do="Leave system out, or take goal='half_width'.",
            )
        )
    _check_population(basis_of(source), name)
    terms = error_terms(source, pin=pin)
    if name == "given_half_width":
        return Goal(name, terms, z, most=widest(terms.study.family))
    relative = name != "phi"
    if name in _COEFFICIENTS:
        return Goal(name, terms, between=_between(terms), relative=relative)
    if name == "mdd":
        z += normal_quantile(2 * POWER - 1)
    return Goal(name, terms, z * np.sqrt(2), relative=True, most=widest(terms.study.family))


def _check_population(basis: Basis, name: str) -> None:
    """Whether several systems are behind a source, as a goal that compares them needs."""
    measured = basis.study.object
    if measured is None:
        raise QuantityError(
            explain(
                f"the goal {name!r} needs an object of measurement, and the study declares none",
                do="Declare object, the facet that is measured, or take goal='half_width'.",
            )
        )
    single = basis.system not in (None, "new") or measured in basis.structure.not_sampled
    if single:
        label = basis.structure.not_sampled.get(measured, basis.system)
        raise QuantityError(
            explain(
                f"the goal {name!r} is of several {plural(measured)}, and this source is of one",
                given=label,
                do=f"Fit several {plural(measured)} together, or take goal='half_width'.",
            )
        )


def checked_target(goal: Goal, target: object) -> float:
    """A target, checked.

    Raises
    ------
    QuantityError
        When it is no number above 0, of a coefficient none in (0, 1).
    """
    return proportion(target, "target") if goal.rises else checked_width(target)


def checked_width(target: object) -> float:
    """A width in units of the score, above 0.

    Raises
    ------
    QuantityError
        For anything else.
    """
    known = isinstance(target, Real) and not isinstance(target, bool)
    value = float(target) if known and isinstance(target, Real) else np.nan
    if not np.isfinite(value) or value <= 0:
        raise QuantityError(
            explain(
                "the target is not usable",
                given=target,
                allowed="numbers above 0, in units of the score: 0.03 is 3 points",
            )
        )
    return value


def _between(terms: Terms) -> Callable[[Mapping[str, Any], str], Array]:
    return lambda counts, judges: terms.between(counts, judges=judges)


def _n_designs(counts: Mapping[str, Array]) -> int:
    return len(next(iter(counts.values())))


def _parts(counts: Mapping[str, Array], width: int) -> Iterator[slice]:
    """Slices of designs that are held at a time."""
    step = max(1, _CHUNK // width)
    return (slice(start, start + step) for start in range(0, _n_designs(counts), step))
