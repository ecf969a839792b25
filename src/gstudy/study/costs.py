"""What a study costs: the price of one more unit of each facet, in any currency."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from numbers import Real
from types import MappingProxyType
from typing import Any

from gstudy.errors import QuantityError, explain
from gstudy.study.designs import TRIALS

__all__ = ["LARGEST", "Cost"]

LARGEST = 1e100
"""Prices and budgets up to this size, and prices down to its inverse, can be added up."""


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class Cost(Mapping[str, float]):
    """Price of one unit of each facet that costs anything.

    Parameters
    ----------
    prices : mapping of str to float
        Facet to the price of a unit, all in one currency. A unit is one level of the facet within
        its parents: a task written, a rollout run, an environment set up; of the judge it is a
        call, one trial scored. "trials" is the price of every trial. What is left out is free.

    Raises
    ------
    QuantityError
        For a price that is no number from 0 on or that is too large or too small to add up, and
        when nothing has a price.

    Examples
    --------
    >>> import gstudy as gs
    >>> cost = gs.Cost({"rollout": 1.0, "judge": 0.02, "task": 25})
    >>> cost["task"]
    25.0
    """

    prices: Mapping[str, float]

    def __init__(self, prices: Mapping[str, float]) -> None:
        if not isinstance(prices, Mapping):
            raise QuantityError(
                explain(
                    "a cost is a mapping of facets to prices",
                    given=type(prices).__name__,
                    allowed="such as {'rollout': 0.4, 'judge': 0.01}",
                )
            )
        found = {_facet(key): _price(key, value) for key, value in prices.items()}
        if not any(found.values()):
            raise QuantityError(
                explain(
                    "nothing has a price",
                    given=dict(prices),
                    allowed="at least one price above 0",
                    do="Leave the cost out to count trials.",
                )
            )
        object.__setattr__(self, "prices", MappingProxyType(found))

    @classmethod
    def read(cls, value: Mapping[str, float] | None) -> Cost:
        """The cost that a mapping is shorthand for; without one each trial costs 1.

        Raises
        ------
        QuantityError
            For a mapping that makes no cost.
        """
        if value is None:
            return cls({TRIALS: 1.0})
        return value if isinstance(value, Cost) else cls(value)

    def to_dict(self) -> dict[str, float]:
        """The table of the cost in a study file."""
        return dict(self.prices)

    def __getitem__(self, facet: str) -> float:
        return self.prices[facet]

    def __iter__(self) -> Iterator[str]:
        return iter(self.prices)

    def __len__(self) -> int:
        return len(self.prices)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Cost):
            return NotImplemented
        return dict(self.prices) == dict(other.prices)

    def __hash__(self) -> int:
        return hash(frozenset(self.prices.items()))

    def __repr__(self) -> str:
        return f"Cost({dict(self.prices)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        # Read-only mappings do not pickle.
        return (Cost, (dict(self.prices),))


def _facet(key: object) -> str:
    if not isinstance(key, str):
        raise QuantityError(
            explain("the cost names a facet that is no text", given=key, allowed="names")
        )
    return key


def _price(key: str, value: object) -> float:
    usable = isinstance(value, Real) and not isinstance(value, bool)
    price = float(value) if usable and isinstance(value, Real) else math.nan
    if not (price == 0 or 1 / LARGEST <= price <= LARGEST):
        large = f", those above it from {1 / LARGEST:g} to {LARGEST:g}" if price > 0 else ""
        raise QuantityError(
            explain(
                f"the price of {key!r} is not usable",
                given=value,
                allowed=f"numbers from 0 on{large}",
            )
        )
    return price
