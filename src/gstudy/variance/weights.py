"""How the trials of a reported mean spread over the levels of each index set.

With trial weights w_i that sum to 1 a set A enters the variance of the mean with

    q_A = sum over the levels g of A of (sum of w_i in g)^2,

and the noise of one trial with the sum of w_i^2. 1/q_A is the effective number of levels.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gstudy.errors import QuantityError, did_you_mean, explain
from gstudy.study.index_sets import IndexSet
from gstudy.study.partition import split
from gstudy.variance.structure import Structure

if TYPE_CHECKING:
    from gstudy.study.cells import Cells

__all__ = [
    "TRIALS",
    "Weights",
    "balanced",
    "collected",
    "design_text",
    "mean_weights",
    "read_design",
    "weights_within",
]

TRIALS = "trials"
"""Key of a design for the number of trials per cell, where they are counted without a facet."""


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights of one reported mean, within one level of the object.

    Parameters
    ----------
    q : mapping of frozenset of str to float
        q_A by index set, the object left out of the set: it counts 1.
    noise : float
        Sum of the squared trial weights, 1/N of N trials.
    """

    q: Mapping[IndexSet, float]
    noise: float

    def of(self, index_set: IndexSet, object_facet: str | None) -> float:
        """q_A of a set that may hold the object."""
        return self.q[index_set - {object_facet}] if object_facet else self.q[index_set]


def balanced(
    structure: Structure, counts: Mapping[str, float], sets: Iterable[IndexSet]
) -> Weights:
    """Weights of a fully crossed, balanced design: q_A = 1 / product of the counts.

    Parameters
    ----------
    structure : Structure
    counts : mapping of str to float
        Levels of each facet as `read_design` gives them, of a nested facet per parent; infinity
        is allowed.
    sets : iterable of frozenset of str

    Returns
    -------
    Weights
    """
    follows = _following(structure)
    own = {facet: counts.get(facet, 1) for facet in structure.facets if facet not in follows}
    q = {}
    for index_set in sets:
        reduced = index_set - {structure.object}
        q[reduced] = 1 / math.prod(own.get(facet, 1) for facet in reduced)
    absorbed = math.prod(counts[facet] for facet in structure.absorbed)
    n_trials = math.prod(own[facet] for facet in own if facet != structure.object) * absorbed
    return Weights(q, 1 / (n_trials * counts.get(TRIALS, 1)))


def collected(
    cells: Cells, sets: Iterable[IndexSet], object_facet: str | None
) -> dict[str | None, Weights]:
    """Weights of the design as collected, every trial alike, within each level of the object.

    Parameters
    ----------
    cells : Cells
    sets : iterable of frozenset of str
    object_facet : str or None
        Without one, all cells are one mean.

    Returns
    -------
    dict
        Label of the level (None without an object) to its weights.
    """
    reduced = list(dict.fromkeys(index_set - {object_facet} for index_set in sets))
    if object_facet is None or object_facet not in cells.facets:
        return {None: _of_rows(cells, np.arange(len(cells.trials)), reduced)}
    own = cells.codes[:, cells.facets.index(object_facet)]
    labels = cells.labels[object_facet]
    return {
        labels[code]: _of_rows(cells, np.flatnonzero(own == code), reduced)
        for code in np.unique(own)
    }


def weights_within(
    structure: Structure,
    sets: Sequence[IndexSet],
    object_facet: str | None,
    *,
    design: Mapping[str, Any] | None,
    cells: Cells | None,
) -> dict[str | None, Weights]:
    """Weights within each level of the object; under None those of the average level.

    Parameters
    ----------
    structure : Structure
    sets : sequence of frozenset of str
    object_facet : str or None
        The facet whose levels are averaged over, also when one of them is given.
    design : mapping or None
        A balanced design, alike for every level; None for the design as collected.
    cells : Cells or None

    Returns
    -------
    dict

    Raises
    ------
    QuantityError
        For a design that is not usable, and for none where no data were collected.
    """
    if design is not None:
        return {None: balanced(structure, read_design(structure, design), sets)}
    if cells is None:
        raise QuantityError(
            explain(
                "assumed components have no design as collected",
                allowed=f"a number of levels for each of {', '.join(_needed(structure))}",
                do="Pass design={facet: number of levels}.",
            )
        )
    found = collected(cells, sets, object_facet)
    return {None: mean_weights(found.values()), **found}


def design_text(design: Mapping[str, Any] | None) -> str:
    """A design in words."""
    if design is None:
        return "as collected"
    return "with " + ", ".join(f"{facet} = {n}" for facet, n in design.items())


def mean_weights(parts: Iterable[Weights]) -> Weights:
    """The average design: q_A and noise averaged over several designs."""
    designs = list(parts)
    q = {s: float(np.mean([design.q[s] for design in designs])) for s in designs[0].q}
    return Weights(q, float(np.mean([design.noise for design in designs])))


def read_design(structure: Structure, design: Mapping[str, Any]) -> dict[str, float]:
    """The counts of a balanced design, checked.

    Parameters
    ----------
    structure : Structure
    design : mapping of str to int
        Facet to its number of levels, of a nested facet within one combination of its parents;
        "trials" to the trials per cell where these are counted without a facet.

    Returns
    -------
    dict of str to float

    Raises
    ------
    QuantityError
        For an unknown facet, a number of levels that is not a whole number from 1 on, a facet
        that matters and is left out, more levels of a facet than one where only one was sampled,
        and a change of one facet of a merged component alone.
    """
    if not isinstance(design, Mapping):
        raise QuantityError(
            explain(
                "a design is a mapping of facets to numbers of levels",
                given=type(design).__name__,
                allowed="such as {'task': 200, 'rollout': 4}",
            )
        )
    needed = _needed(structure)
    counts = {
        _facet_of_design(structure, key, needed): _count(key, value)
        for key, value in design.items()
    }
    for facet, n in counts.items():
        _check_pinned(structure, facet, n)
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


def _of_rows(cells: Cells, rows: Any, reduced: Iterable[IndexSet]) -> Weights:
    trials = cells.trials[rows]
    # Exact in integers: the sums of squares stay far below 2^53 for any number of trials that
    # fits a memory.
    total = int(trials.sum())
    q = {}
    for index_set in reduced:
        columns = [i for i, facet in enumerate(cells.facets) if facet in index_set]
        levels = split(cells.codes[rows], columns)
        sums = levels.totals(trials).astype(float)
        q[index_set] = float(sums @ sums) / total**2
    return Weights(q, 1 / total)


def _needed(structure: Structure) -> list[str]:
    """What a design must say: facets of sets and inside the residual, in declared order."""
    known = {*structure.facets, *structure.absorbed} - {structure.object}
    needed = [facet for facet in structure.order if facet in known]
    return [*needed, TRIALS] if structure.counts_trials else needed


def _following(structure: Structure) -> frozenset[str]:
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


def _count(key: str, value: Any) -> int:
    try:
        n = operator.index(value)
    except TypeError:
        n = 0
    if n < 1 or isinstance(value, bool):
        raise QuantityError(
            explain(
                f"the number of levels of {key!r} is not usable",
                given=value,
                allowed="whole numbers from 1 on",
            )
        )
    return n


def _check_pinned(structure: Structure, facet: str, n: int) -> None:
    """Facets of which a design can only have one level."""
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


def _check_merged(structure: Structure, counts: Mapping[str, int]) -> None:
    """Merged sets split the rows identically: so must the design."""
    for whole, parts in structure.merged.items():
        sizes = {math.prod(counts.get(facet, 1) for facet in part & whole) for part in parts}
        if len(sizes) > 1:
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
