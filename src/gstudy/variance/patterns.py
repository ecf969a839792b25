"""Judge patterns: which judge scores which unit, and how many levels a set then counts for.

A unit is a combination of levels of the facets that are neither the judge J nor nested in it. In
a balanced design a set A counts for 1/q_A levels. With every judge on every unit that is the
product of the counts. With one judge a unit it changes for the sets that hold J:

- a fresh judge each: J is nested in the units, of which there are N;
- in rotation (round robin): the judge of a unit is the sum of its digits, the 0-based places of
  its levels within their parents, modulo n_J. Let B be A without J and M the number of units in a
  level of B, M = prod n_f over the facets f not in B. Each level of B holds M_j units of judge j,

      sum_j (M_j / M)^2 = 1/n_J + 1/(n_J M^2) sum_{k=1}^{n_J-1} prod_f (sin(pi k n_f / n_J)
                                                                        / sin(pi k / n_J))^2

  by Parseval, since M_j is the circular convolution of the boxes of n_f ones. It is 1/n_J where
  any n_f is a multiple of n_J.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gstudy.errors import QuantityError, explain
from gstudy.study.index_sets import IndexSet, Rule, close
from gstudy.variance.draws import Array

if TYPE_CHECKING:
    from gstudy.variance.structure import Structure

__all__ = ["Count", "Spread", "below", "coincidence", "find_judge", "judge_of", "unit_facets"]

Count = float | Array
"""A number of levels, infinity included; or one per design, (n_designs,)."""

JUDGE = "judge"
# Rows times judges that are held at a time.
_LARGEST_BLOCK = 4_000_000


def find_judge(roles: Mapping[str, str], nesting: Sequence[Rule]) -> str | None:
    """The facet whose levels are judges, or None.

    Parameters
    ----------
    roles : mapping of str to str
        Role of each facet.
    nesting : sequence of (trigger, whole)

    Returns
    -------
    str or None
        The facet named "judge", unless it is controlled or measured; else the only facet of role
        error that is nested in nothing.
    """
    if roles.get(JUDGE) in ("error", "legitimate"):
        return JUDGE
    crossed = [f for f, role in roles.items() if role == "error" and close({f}, nesting) == {f}]
    return crossed[0] if len(crossed) == 1 else None


def judge_of(structure: Structure, judges: str) -> str:
    """The facet whose levels a pattern assigns, checked.

    Parameters
    ----------
    structure : Structure
    judges : str
        One of `JUDGES`.

    Raises
    ------
    QuantityError
        When no facet is the judge, or when it is measured, not sampled or part of a merged
        component, so that it cannot be assigned anew.
    """
    judge = find_judge(structure.roles, structure.nesting)
    if judge is None or judge == structure.object:
        errors = [f for f, role in structure.roles.items() if role == "error"]
        raise QuantityError(
            explain(
                f"judges = {judges!r} needs a judge, and no facet of the study is known as one",
                given=f"facets of role error: {', '.join(errors) or 'none'}",
                allowed="a facet named 'judge', or one crossed facet of role error",
                do="Name that facet 'judge' in the study and keep its column.",
            )
        )
    if judges in ("round robin", "fresh"):
        _check_assignable(structure, judge, judges)
    return judge


def _check_assignable(structure: Structure, judge: str, judges: str) -> None:
    if judge in structure.not_sampled and judges == "fresh":
        raise QuantityError(
            explain(
                f"{judge!r} was not sampled (one level, {structure.not_sampled[judge]!r}): its "
                "variance is unknown",
                given=f"judges={judges!r}",
                do="Collect more of its levels, or keep the one: judges='one'.",
            )
        )
    for whole, parts in structure.merged.items():
        if judge in whole and len({part & whole for part in parts}) > 1:
            raise QuantityError(
                explain(
                    f"{structure.name(whole)!r} is one component: the data cannot tell its parts "
                    f"apart, so that {judge!r} cannot be assigned anew",
                    given=f"judges={judges!r}",
                    allowed="'all', as they were collected",
                    do="Collect trials that separate them, then fit again.",
                )
            )


def below(judge: str, facets: Iterable[str], nesting: Sequence[Rule]) -> frozenset[str]:
    """The judge and the facets that are nested in it."""
    return frozenset({judge}) | {f for f in facets if judge in close({f}, nesting)}


def unit_facets(
    roles: Mapping[str, str], nesting: Sequence[Rule], object_facet: str | None
) -> tuple[str, ...]:
    """The facets whose levels make a unit, each with a digit of the rotation, in declared order.

    Neither the judge and what is nested in it, nor the object and controlled facets: each system
    and each controlled level has the same rotation.
    """
    judge = find_judge(roles, nesting)
    inside = frozenset() if judge is None else below(judge, roles, nesting)
    return tuple(
        facet
        for facet, role in roles.items()
        if role != "controlled" and facet != object_facet and facet not in inside
    )


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """How a balanced design spreads over the levels of index sets.

    Parameters
    ----------
    counts : mapping of str to float or array (n_designs,)
        Levels per parent of each facet that splits trials: sampled ones and those inside the
        residual; the object counts 1.
    judges : str
        One of `JUDGES`.
    judge : str, optional
        The judge; not needed with "all".
    inside : frozenset of str
        The judge and what is nested in it.
    """

    counts: Mapping[str, Count]
    judges: str = "all"
    judge: str | None = None
    inside: IndexSet = frozenset()

    @classmethod
    def of(
        cls, structure: Structure, counts: Mapping[str, Count], follows: IndexSet, judges: str
    ) -> Spread:
        """The spread of a design.

        Parameters
        ----------
        structure : Structure
        counts : mapping of str to float or array (n_designs,)
        follows : frozenset of str
            Facets whose levels others determine: they split nothing further.
        judges : str
        """
        known = [f for f in (*structure.facets, *structure.absorbed) if f not in follows]
        own = {facet: counts.get(facet, 1) for facet in known if facet != structure.object}
        if judges == "all":
            return cls(own)
        judge = judge_of(structure, judges)
        if judges == "one":
            own = {facet: 1 if facet == judge else n for facet, n in own.items()}
        return cls(own, judges, judge, below(judge, own, structure.nesting))

    @property
    def units(self) -> Count:
        """Number of units."""
        return self._product(facet for facet in self.counts if facet not in self.inside)

    @property
    def trials(self) -> Count:
        """Number of trials of a unit's cell times the number of cells, each with one trial."""
        alone = {self.judge} if self.judges != "all" else frozenset()
        return self._product(facet for facet in self.counts if facet not in alone)

    @property
    def apart(self) -> IndexSet:
        """Facets of which no two levels of the object share a level: judges that are fresh."""
        return self.inside if self.judges == "fresh" else frozenset()

    def levels(self, index_set: IndexSet) -> Count:
        """1/q_A: how many levels of a set would weigh alike.

        Parameters
        ----------
        index_set : frozenset of str
            With all parents of its facets.
        """
        if self.judges in ("all", "one") or self.judge not in index_set:
            return self._product(index_set)
        outer, inner = index_set - self.inside, index_set & self.inside - {self.judge}
        if self.judges == "fresh":
            return self.units * self._product(inner)
        free = [n for facet, n in self.counts.items() if facet not in self.inside | outer]
        shared = coincidence(self.counts.get(self.judge, 1), free)
        return self._product(outer | inner) * _inverse(shared)

    def used(self) -> dict[str, Count]:
        """Levels of each facet, of fresh judges as many as there are units."""
        fresh = {self.judge: self.units} if self.judges == "fresh" and self.judge else {}
        return {**self.counts, **fresh}

    def _product(self, facets: Iterable[str]) -> Count:
        return math.prod(self.counts.get(facet, 1) for facet in facets)


def coincidence(n_judges: Count, free: Sequence[Count]) -> Count:
    """Probability that two units of a group, drawn with replacement, have the same judge.

    Parameters
    ----------
    n_judges : float or array (n_designs,)
        Judges in the rotation; infinity for more than there are sums of digits.
    free : sequence of float or array (n_designs,)
        Levels of each facet that varies inside the group.

    Returns
    -------
    float or array (n_designs,)
        The sum over judges of the squared share of units.

    Examples
    --------
    Two judges over three rollouts have two and one:

    >>> round(coincidence(2, [3]), 4) == round((4 + 1) / 9, 4)
    True
    """
    sizes = [np.asarray(n, dtype=float) for n in (n_judges, *free)]
    table = np.stack(np.broadcast_arrays(*(np.atleast_1d(n) for n in sizes)), axis=1)
    judges, counts = table[:, 0], table[:, 1:]
    # A rotation never comes back to the first judge when there are more than sums of digits.
    sums = np.where(np.isinf(counts), 0, counts - 1).sum(axis=1) + 1
    judges = np.where(np.isinf(judges), sums, judges)
    rests = np.where(np.isinf(counts), 0, counts) % judges[:, None]
    distinct, back = np.unique(np.column_stack([judges, rests]), axis=0, return_inverse=True)
    excess = _excess(distinct[:, 0], distinct[:, 1:])[back.ravel()]
    flat = 1 / judges + excess / counts.prod(axis=1) ** 2
    never = np.isinf(table[:, 0]) & np.isinf(counts).any(axis=1)
    found = np.where(never, 0.0, flat)
    return float(found[0]) if all(n.ndim == 0 for n in sizes) else found


def _excess(judges: Array, rests: Array) -> Array:
    """1/n_J times the sum over k of the products, by row."""
    found = np.empty(len(judges))
    for n in np.unique(judges):
        rows = np.flatnonzero(judges == n)
        step = max(1, _LARGEST_BLOCK // int(n))
        for start in range(0, len(rows), step):
            block = rows[start : start + step]
            found[block] = _powers(int(n), rests[block]).sum(axis=1) / n
    return found


def _powers(n: int, rests: Array) -> Array:
    """Squared Fourier coefficients, k = 1 .. n - 1, of a convolution of boxes; (n_rows, n - 1)."""
    k = np.arange(1, n)
    powers = np.ones((len(rests), n - 1))
    for rest in rests.T:
        turned = np.sin(np.pi / n * ((rest[:, None] * k) % n))
        powers *= (turned / np.sin(np.pi / n * k)) ** 2
    return powers


def _inverse(shared: Count) -> Count:
    with np.errstate(divide="ignore"):
        found = 1 / np.asarray(shared)
    return float(found) if found.ndim == 0 else found
