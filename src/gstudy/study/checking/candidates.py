"""The index sets that are considered for the model: facets, interactions, kept sets."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gstudy.study.declaration import Study
    from gstudy.study.index_sets import IndexSet

__all__ = ["Candidate", "candidates", "tops"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """An index set to be judged.

    Parameters
    ----------
    name : str
        Declared name, parents included.
    facets : frozenset of str
        The set, parents included.
    tops : tuple of str
        The facets in it that no other one is nested in: one for a facet's own component.
    asked : {"facet", "listed", "auto", "kept"}
    kept : bool
        Whether `keep` names it.
    """

    name: str
    facets: IndexSet
    tops: tuple[str, ...]
    asked: str
    kept: bool


def candidates(study: Study, is_sampled: Callable[[str], bool]) -> list[Candidate]:
    """The sets to judge, small ones first, then in declared order.

    Parameters
    ----------
    study : Study
    is_sampled : callable
        Whether a labelled facet has at least two levels.

    Returns
    -------
    list of Candidate
        One per facet that is not controlled; the listed interactions, or for "auto" every pair
        of sampled facets of which neither is nested in the other and one at least is not
        controlled; and what only `keep` names.
    """
    free = [facet.name for facet in study.facets if facet.role != "controlled"]
    found: dict[IndexSet, str] = {study.closure(facet): "facet" for facet in free}
    if study.interactions == "auto":
        eligible = [facet.name for facet in study.labelled if is_sampled(facet.name)]
        fixed = study.fixed_facets
        mains = {study.closure(facet) for facet in eligible}
        for pair in itertools.combinations(eligible, 2):
            if not fixed.issuperset(pair) and study.closure(pair) not in mains:
                found.setdefault(study.closure(pair), "auto")
    elif study.interactions != "none":
        for name in study.interactions:
            found.setdefault(_named(name), "listed")
    keep = {_named(name) for name in study.keep}
    for whole in keep:
        found.setdefault(whole, "kept")
    place = {facet: i for i, facet in enumerate(study.facet_names)}
    ordered = sorted(found, key=lambda whole: (len(whole), sorted(place[f] for f in whole)))
    return [
        Candidate(
            name=study.name_of(whole),
            facets=whole,
            tops=tops(whole, study),
            asked=found[whole],
            kept=whole in keep,
        )
        for whole in ordered
    ]


def tops(whole: Iterable[str], study: Study) -> tuple[str, ...]:
    """The facets of a set that no other facet of it is nested in, in declared order."""
    members = frozenset(whole)
    parents = frozenset[str]().union(*(study.closure(f) - {f} for f in members))
    return tuple(facet for facet in study.facet_names if facet in members - parents)


def _named(name: str) -> IndexSet:
    """The set of a canonical name; facet names hold no colon."""
    return frozenset(name.split(":"))
