"""What a search was asked for: source, goal, prices and spaces, brought to one form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from gstudy.display import number
from gstudy.errors import QuantityError, explain
from gstudy.planning.axes import axes_of
from gstudy.planning.found import FoundDesigns, labelled_designs
from gstudy.planning.goals import Goal, goal_of
from gstudy.planning.prices import declared_cost
from gstudy.planning.spaces import spaces_of
from gstudy.variance.basis import basis_of
from gstudy.variance.components import component_notes
from gstudy.variance.decomposition import SCORE, decompositions

if TYPE_CHECKING:
    from gstudy.fits.fitted import Fit
    from gstudy.planning.axes import Bound
    from gstudy.planning.candidates import Space
    from gstudy.planning.choices import Choice
    from gstudy.planning.spaces import Prices
    from gstudy.planning.terms import Terms
    from gstudy.variance.basis import Basis
    from gstudy.variance.components import VarianceComponents
    from gstudy.variance.draws import Array

__all__ = ["Request", "money", "request_of", "whole_systems"]

_SCORED_ALONE = ("half_width", "given_half_width", "phi", "generalizability")


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """A search of a source.

    Parameters
    ----------
    basis : Basis
    terms : Terms
        Of the goal.
    goal : Goal
    spaces : list of Space
    system : str or None
    currency : str
        What costs are counted in: "trials", or nothing where prices are given.
    systems : int
        How many systems run the design.
    coverage : float
        Nominal, of the interval that the goal is of.
    """

    basis: Basis
    terms: Terms
    goal: Goal
    spaces: list[Space]
    system: str | None
    currency: str
    systems: int
    coverage: float

    def result(self, choices: Sequence[Choice], title: str, notes: Sequence[str]) -> FoundDesigns:
        """The designs of a search with the draws of their goal."""
        pin = self.terms.claim.named
        draws = [self.goal.draws(c.columns, c.space.judges)[0] for c in choices]
        labelled = labelled_designs(draws, self.terms.shape)
        named = labelled.rename(self.goal.name).assign_attrs(scale=SCORE)
        return FoundDesigns(
            draws=named,
            designs=tuple(choice.design(pin) for choice in choices),
            costs=tuple(choice.cost for choice in choices),
            goal=self.goal.name,
            title=title,
            notes=(*notes, *self.notes(named)),
            assumed=self.basis.assumed,
            family=self.basis.study.family,
            coverage=self.coverage,
            currency=self.currency,
        )

    def notes(self, draws: Any) -> tuple[str, ...]:
        """What every table from this source must say."""
        parts = decompositions(self.basis, SCORE, self.system)
        paid = [f"Costs are of {self.systems} systems."] if self.systems > 1 else []
        pair = ["The difference is that of two systems of the population, on shared levels."]
        return (
            *self._claimed(),
            *paid,
            *(pair if self.goal.name in ("difference", "mdd") else []),
            *self.basis.stamp(draws),
            *component_notes(self.basis, parts),
        )

    def _claimed(self) -> tuple[str, ...]:
        """What a claim about some levels alone is of; the interval says nothing of others."""
        claim = self.terms.claim
        if not claim.named:
            return ()
        words = claim.words(self.terms.structure, collected=False).removeprefix(", ")
        return (f"A smaller claim, {words}: of others the interval says nothing.",)

    def money(self, cost: float) -> str:
        """A cost in words."""
        return money(cost, self.currency)


def request_of(
    source: Fit | VarianceComponents,
    *,
    cost: Mapping[str, float] | None,
    bounds: Mapping[str, Bound] | None,
    multiples: Mapping[str, int] | None,
    judges: str | Sequence[str],
    pin: Sequence[str] | None,
    system: str | None,
    goal: str,
    coverage: float,
    systems: int | None,
) -> Request:
    """The request of a search, checked.

    Raises
    ------
    QuantityError
        For an unknown goal, system, facet or judge pattern, bounds that leave nothing, and prices
        of what the study does not have.
    """
    basis = basis_of(source)
    cost = declared_cost(basis.study, cost)
    wanted = goal_of(source, goal, system=system, pin=pin, coverage=coverage)
    terms = cast("Terms", wanted.form)
    paid = whole_systems(systems, 1 if goal in _SCORED_ALONE else 2)
    axes = axes_of(terms.structure, terms.claim.finite, bounds, multiples)
    spaces = spaces_of(terms, wanted, prices_of(terms, cost, paid), axes, judges)
    currency = "trials" if cost is None else ""
    return Request(basis, terms, wanted, spaces, system, currency, paid, coverage)


def prices_of(terms: Terms, cost: Mapping[str, float] | None, systems: int) -> Prices:
    """The cost of designs, also where it is the same for all of them."""

    def prices(counts: Mapping[str, Array], judges: str) -> Array:
        found = terms.price(cost, counts, judges=judges, systems=systems)
        shape = np.shape(next(iter(counts.values()), np.ones(1)))
        return np.broadcast_to(np.asarray(found, dtype=float), shape)

    return prices


def whole_systems(systems: object, default: int) -> int:
    """The number of systems that run a design, checked.

    Raises
    ------
    QuantityError
        When it is no whole number from 1 on.
    """
    if systems is None:
        return default
    usable = isinstance(systems, int | np.integer) and not isinstance(systems, bool)
    if not usable or int(cast("int", systems)) < 1:
        raise QuantityError(
            explain(
                "the number of systems is not usable",
                given=systems,
                allowed="whole numbers from 1 on",
            )
        )
    return int(cast("int", systems))


def money(cost: float, currency: str) -> str:
    """A cost in words.

    >>> money(1200.0, "trials"), money(12.345, "")
    ('1200 trials', 'a cost of 12.35')
    """
    if currency:
        return f"{cost:.0f} {currency}"
    return f"a cost of {number(cost, 4)}"
