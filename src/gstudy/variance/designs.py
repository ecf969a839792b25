"""Balanced designs: what may be asked for, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from gstudy.errors import QuantityError, did_you_mean, explain
from gstudy.study.designs import TRIALS, Design
from gstudy.variance.patterns import Count, Spread, judge_of

if TYPE_CHECKING:
    from gstudy.study.index_sets import IndexSet
    from gstudy.variance.structure import Structure

__all__ = [
    "check_universe",
    "checked_counts",
    "design_text",
    "following",
    "needed_counts",
    "read_design",
    "separated",
]

_JUDGED = {
    "one": "one judge for all",
    "round robin": "one judge a unit in rotation",
    "fresh": "a fresh judge for each unit",
}


def design_text(design: Mapping[str, Any] | None) -> str:
    """A design in words."""
    if design is None:
        return "as collected"
    judged = _JUDGED.get(Design.read(design).judges)
    parts = [f"{facet} = {n}" for facet, n in design.items()]
    return "with " + ", ".join([*parts, *([judged] if judged else [])])


def read_design(structure: Structure, design: Mapping[str, Any]) -> dict[str, float]:
    """The counts of a balanced design, checked.

    Parameters
    ----------
    structure : Structure
    design : mapping of str to int
        Facet to its number of levels, of a nested facet within one combination of its parents;
        "trials" to the trials per cell where these are counted without a facet. A `Design` may say
        who judges what.

    Returns
    -------
    dict of str to float
        Of a single judge for all, and of judges that are fresh, 1.

    Raises
    ------
    QuantityError
        For an unknown facet, a number of levels that is not a whole number from 1 on, a facet
        that matters and is left out, more levels of a facet than one where only one was sampled,
        a change of one facet of a merged component alone, and judges that cannot be assigned so.
    """
    asked = Design.read(design)
    needed = needed_counts(structure)
    counts = {_facet_of_design(structure, key, needed): n for key, n in asked.items()}
    for facet, n in counts.items():
        _check_pinned(structure, facet, n)
    counts |= _lone_judge(structure, asked)
    missing = [facet for facet in needed if facet not in counts]
    if missing:
        raise QuantityError(
            explain(
                f"the design does not say how many levels of {missing[0]!r} it has",
                given=dict(design),
                allowed=f"a number for each of {', '.join(needed)}",
                do=_how_to_count(structure, missing[0]),
            )
        )
    _check_merged(structure, counts)
    return {facet: float(n) for facet, n in counts.items()}


def checked_counts(
    structure: Structure, design: Mapping[str, Any], finite: Mapping[str, int]
) -> dict[str, float]:
    """The counts of a design that has no more levels of a facet than its universe.

    Raises
    ------
    QuantityError
        As `read_design` and `check_universe`.
    """
    counts = read_design(structure, design)
    check_universe(structure, counts, finite, Design.read(design).judges)
    return counts


def check_universe(
    structure: Structure, counts: Mapping[str, Count], finite: Mapping[str, int], judges: str
) -> None:
    """Whether designs have no more levels than the universe of each facet.

    Parameters
    ----------
    structure : Structure
    counts : mapping of str to float or array (n_designs,)
        Levels of each facet, of a nested one per parent.
    finite : mapping of str to int
        Levels in the universe of each facet that has a finite one.
    judges : str
        Who judges what: fresh judges are as many as there are units.

    Raises
    ------
    QuantityError
        For a facet with more levels than its universe.
    """
    used = Spread.of(structure, counts, following(structure), judges).used()
    for facet, size in finite.items():
        most = float(np.max({**counts, **used}.get(facet, 1)))
        if most > size:
            raise QuantityError(
                explain(
                    f"{facet!r} has more levels than its universe",
                    given=int(most) if math.isfinite(most) else most,
                    allowed=f"at most {size}, the declared universe of {facet}",
                    do="Take fewer levels, or correct the universe in the study.",
                )
            )


def needed_counts(structure: Structure) -> list[str]:
    """What a design must say: facets of sets and inside the residual, in declared order."""
    known = {*structure.facets, *structure.absorbed} - {structure.object}
    needed = [facet for facet in structure.order if facet in known]
    return [*needed, TRIALS] if structure.counts_trials else needed


def following(structure: Structure) -> frozenset[str]:
    """Facets of merged components whose levels the others of the component determine."""
    determined = set[str]()
    for whole, parts in structure.merged.items():
        if len(parts) > 1:
            smallest = min((part & whole for part in parts), key=len)
            determined |= whole - smallest
    return frozenset(determined)


def _facet_of_design(structure: Structure, key: str, needed: Iterable[str]) -> str:
    if key in structure.order or key in needed:
        return key
    named = [facet for facet in structure.order if structure.roles[facet] != "controlled"]
    allowed = [*named, TRIALS] if structure.counts_trials else named
    raise QuantityError(
        explain(
            f"the design names an unknown facet {key!r}",
            allowed=allowed,
            do=did_you_mean(str(key), allowed),
        )
    )


def _lone_judge(structure: Structure, asked: Design) -> dict[str, int]:
    """The number of judges where the pattern says it, which the design may leave out."""
    if asked.judges == "all":
        return {}
    judge = judge_of(structure, asked.judges)
    if asked.judges == "round robin":
        return {}
    if asked.get(judge, 1) != 1:
        raise QuantityError(
            explain(
                f"judges={asked.judges!r} says how many levels of {judge!r} there are",
                given={judge: asked[judge]},
                do=f"Leave {judge!r} out, or use judges='all' or 'round robin'.",
            )
        )
    return {judge: 1}


def _check_pinned(structure: Structure, facet: str, n: int) -> None:
    """Facets of which a design can only have one level."""
    if facet in structure.controlled:
        raise QuantityError(
            explain(
                f"{facet!r} is controlled: a design covers its levels as the study weighs them",
                given={facet: n},
                do=f"Leave {facet!r} out, and give the other facets per level where they are "
                "nested in it.",
            )
        )
    if n == 1 or (facet in structure.facets and facet != structure.object):
        return
    if facet in (structure.object, *structure.given) or structure.roles.get(facet) == "object":
        what = f"{facet!r} is measured: a design is of one of its levels"
    elif facet in structure.not_sampled:
        label = structure.not_sampled[facet]
        what = f"{facet!r} was not sampled (one level, {label!r}): its variance is unknown"
    elif structure.roles.get(facet) == "controlled":
        what = f"{facet!r} is controlled: it is pinned at one level"
    else:
        return
    raise QuantityError(
        explain(
            f"the design asks for {n} levels of {facet!r}, which this source does not cover",
            given=n,
            allowed="1",
            do=f"{what}.",
        )
    )


def separated(structure: Structure, counts: Mapping[str, float]) -> list[IndexSet]:
    """Merged components of which a design changes one facet alone.

    The merged sets split the rows identically: so must the design.

    Parameters
    ----------
    structure : Structure
    counts : mapping of str to float
        Levels of each facet, of a nested one per parent.

    Returns
    -------
    list of frozenset of str
    """
    return [
        whole
        for whole, parts in structure.merged.items()
        if len({math.prod(counts.get(facet, 1) for facet in part & whole) for part in parts}) > 1
    ]


def _check_merged(structure: Structure, counts: Mapping[str, int]) -> None:
    for whole in separated(structure, counts):
        facets = ", ".join(f for f in structure.order if f in whole and f in counts)
        raise QuantityError(
            explain(
                f"{structure.name(whole)!r} is one component: the data cannot tell its parts "
                "apart, so that one of its facets cannot change alone",
                given={f: counts[f] for f in structure.order if f in whole and f in counts},
                allowed=f"designs in which {facets} go together as they were collected",
                do="Collect trials that separate them, then fit again.",
            )
        )


def _how_to_count(structure: Structure, facet: str) -> str:
    if facet == TRIALS:
        return "Add 'trials': the number of trials per cell."
    if facet in structure.absorbed:
        return f"Add {facet!r}: it is inside the residual, and sets the number of trials."
    return f"Add {facet!r} with its number of levels, of a nested facet within one parent."
