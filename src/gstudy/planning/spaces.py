"""The spaces of a search: one per judge pattern, of the facets that the source's designs count."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from gstudy.errors import QuantityError, explain
from gstudy.planning.axes import Axis
from gstudy.planning.candidates import Counts, Space
from gstudy.planning.goals import Goal
from gstudy.study.designs import JUDGES, Design
from gstudy.variance.designs import following
from gstudy.variance.patterns import Spread, below, judge_of

if TYPE_CHECKING:
    from gstudy.planning.standing import Standing
    from gstudy.planning.terms import Terms
    from gstudy.study.index_sets import IndexSet
    from gstudy.variance.draws import Array
    from gstudy.variance.structure import Structure

__all__ = ["Prices", "spaces_of"]

Prices = Callable[[Mapping[str, "Array"], str], "Array"]
"""Cost of designs with a judge pattern, (n_designs,)."""


def spaces_of(
    terms: Terms | Standing,
    goal: Goal,
    prices: Prices,
    axes: Mapping[str, Axis],
    judges: str | Sequence[str] = ("all",),
) -> list[Space]:
    """The space of each judge pattern, in the order given.

    Parameters
    ----------
    terms : Terms or Standing
    goal : Goal
    prices : function of (counts, judges)
    axes : mapping of str to Axis
        Of every facet that is counted.
    judges : str or sequence of str
        Patterns to look at.

    Returns
    -------
    list of Space

    Raises
    ------
    QuantityError
        For an unknown pattern, and one that needs a judge where there is none.
    """
    patterns = dict.fromkeys(_patterns(judges))
    return [_space(terms, goal, prices, axes, pattern) for pattern in patterns]


def _patterns(judges: object) -> list[str]:
    names = [judges] if isinstance(judges, str) else judges
    if not isinstance(names, Sequence) or not names:
        raise QuantityError(
            explain("judges is no list of judge patterns", given=judges, allowed=JUDGES)
        )
    return [Design({}, judges=name).judges for name in names]


def _space(
    terms: Terms | Standing,
    goal: Goal,
    prices: Prices,
    axes: Mapping[str, Axis],
    pattern: str,
) -> Space:
    structure, claim = terms.structure, terms.claim
    judge = None if pattern == "all" else judge_of(structure, pattern)
    known = dict(axes)
    if judge in known and pattern in ("one", "fresh"):
        known[judge] = Axis(1, 1)
    limited = pattern == "fresh" and judge in claim.finite
    if limited and judge is not None:
        inside = below(judge, known, structure.nesting)
        known = {f: a if f in inside else _upto(a, claim.finite[judge]) for f, a in known.items()}
    fixed = frozenset[str]()
    if pattern == "round robin" and judge is not None:
        # A pinned judge's bank has the weights of the rotation, which even out as the error does.
        fixed = frozenset(known) if judge in claim.pinned else frozenset({judge})
    if limited or (goal.rises and claim.pinned):
        fixed = frozenset(known)
    return Space(
        axes=known,
        judges=pattern,
        judge=judge,
        price=lambda counts: prices(counts, pattern),
        tied=_tied(structure),
        fixed=fixed,
        usable=_limited(structure, claim.finite[judge]) if limited and judge else None,
    )


def _tied(structure: Structure) -> list[list[IndexSet]]:
    """Parts of merged components, whose levels a design gives alike numbers."""
    found = []
    for whole, parts in structure.merged.items():
        inside = list(dict.fromkeys(part & whole - structure.object_set for part in parts))
        if len(inside) > 1:
            found.append(inside)
    return found


def _upto(axis: Axis, most: float) -> Axis:
    listed = None if axis.listed is None else axis.listed[axis.listed <= most]
    return replace(axis, high=min(axis.high, most), listed=listed)


def _limited(structure: Structure, universe: int) -> Callable[[Counts], npt.NDArray[np.bool_]]:
    follows = following(structure)

    def usable(counts: Counts) -> npt.NDArray[np.bool_]:
        units = Spread.of(structure, counts, follows, "fresh").units
        return np.asarray(np.asarray(units) <= universe)

    return usable
