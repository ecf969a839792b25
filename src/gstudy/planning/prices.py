"""What designs cost: prices of units times how many there are."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gstudy.errors import QuantityError, did_you_mean, explain
from gstudy.study.costs import Cost
from gstudy.study.designs import TRIALS
from gstudy.study.index_sets import IndexSet, close
from gstudy.variance.patterns import Count, find_judge, unit_facets

if TYPE_CHECKING:
    from gstudy.study.declaration import Study
    from gstudy.variance.controlled import Controlled

__all__ = ["declared_cost", "price"]


def price(
    study: Study,
    cost: Mapping[str, float] | None,
    counts: Mapping[str, Count],
    *,
    judges: str = "all",
    systems: int = 1,
    follows: IndexSet = frozenset(),
    controlled: Controlled | None = None,
) -> Count:
    """The price of designs.

    Parameters
    ----------
    study : Study
    cost : mapping of str to float, or None
        Price of a unit by facet; None counts trials.
    counts : mapping of str to float or array (n_designs,)
        Levels of each facet, of a nested one per parent; what is left out is 1.
    judges : str
        Who judges what: with one judge a unit a unit has one call.
    systems : int
        How many levels of the object run the design. What is nested in the object is paid for
        each of them, and so is a trial; tasks and environments that they share are paid once.
    follows : frozenset of str
        Facets whose levels others determine: they make no more trials.
    controlled : Controlled, optional
        Controlled facets with several levels: every combination that occurs is run.

    Returns
    -------
    float or array (n_designs,)
        In the currency of the cost.

    Raises
    ------
    QuantityError
        For a facet that the study does not have, and for several systems of a study without an
        object.

    Examples
    --------
    >>> import gstudy as gs
    >>> study = gs.Study(
    ...     score="passed",
    ...     facets=[
    ...         gs.Facet("task", role="legitimate"),
    ...         gs.Facet("rollout", role="legitimate", nested_in=["task"]),
    ...         gs.Facet("judge", role="error"),
    ...     ],
    ... )
    >>> cost = gs.Cost({"task": 25, "rollout": 1.0, "judge": 0.02})
    >>> price(study, cost, {"task": 10, "rollout": 4, "judge": 3})
    292.4
    """
    priced = Cost.read(cost)
    rules = study.rules
    known = _Counts({**counts, **({study.object: systems} if study.object else {})}, controlled)
    judge = find_judge({facet.name: facet.role for facet in study.facets}, rules)
    single = {judge} if judges != "all" else set()
    running = [facet for facet in study.facet_names if facet not in follows | single]
    trials = known.product(running) * counts.get(TRIALS, 1)
    _check_systems(study, systems)
    total: Count = 0.0
    for facet, each in priced.items():
        if facet in (TRIALS, judge):
            total = total + each * trials
        else:
            _check_facet(study, facet)
            levels = close({facet}, rules)
            apart = judge is not None and judges != "all" and judge in levels
            total = total + each * (
                _of_judges(study, levels, known, judges) if apart else known.product(levels)
            )
    return total


@dataclass(frozen=True, slots=True, eq=False)
class _Counts:
    """Levels of each facet of designs, with the controlled levels that are run."""

    levels: Mapping[str, Count]
    controlled: Controlled | None

    def of(self, facet: str | None) -> Count:
        return 1 if facet is None else self.levels.get(facet, 1)

    def product(self, facets: Iterable[str]) -> Count:
        """Combinations of levels of some facets; of controlled ones those that occur."""
        asked = frozenset(facets)
        held = self.controlled
        fixed = 1 if held is None else held.n_levels(asked)
        rest = asked if held is None else asked.difference(held.facets)
        return fixed * math.prod(self.of(facet) for facet in sorted(rest))


def declared_cost(study: Study, cost: Mapping[str, float] | None) -> Mapping[str, float] | None:
    """The prices that are given, else those that the study declares; None where trials count."""
    return cost if cost is not None else study.cost


def _of_judges(study: Study, levels: IndexSet, counts: _Counts, judges: str) -> Count:
    """Levels of a set with the judge where each unit has one judge.

    Of units that agree in the set's other facets there are as many different judges as their sums
    of digits have remainders: consecutive ones, until all judges have their turn.
    """
    roles = {facet.name: facet.role for facet in study.facets}
    judge = find_judge(roles, study.rules)
    units = unit_facets(roles, study.rules, study.object)
    free = [counts.of(facet) for facet in units if facet not in levels]
    different: Count = 1
    if judges == "fresh":
        different = math.prod(free)
    elif judges == "round robin":
        sums = 1 + sum(np.asarray(n) - 1 for n in free)
        different = np.minimum(counts.of(judge), sums)[()]
    return different * counts.product(levels - {judge})


def _check_systems(study: Study, systems: int) -> None:
    if systems != 1 and study.object is None:
        raise QuantityError(
            explain(
                "several systems have a price only where the study has an object",
                given=systems,
                do="Declare object in the study.",
            )
        )


def _check_facet(study: Study, facet: str) -> None:
    if facet not in study.facet_names:
        allowed = [*study.facet_names, TRIALS]
        raise QuantityError(
            explain(
                f"the cost names an unknown facet {facet!r}",
                allowed=allowed,
                do=did_you_mean(facet, allowed),
            )
        )
