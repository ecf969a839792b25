"""Bounds where a design changes one facet of a merged component alone.

The data tell the variance of the whole component, and not which of its parts holds it. The more
pairs of trials share it, the larger is the variance of their mean:

- the smallest is that of a component which trials share only when they agree on every part;
- the largest is that of one part which holds it all. The covariance of two trials is convex in the
  variance that they share, so that no split between parts gives more than the worst of them.

Where one part lies in another, as tasks and their rollouts, both bounds are reached.

Of a design as it stands the same bounds come from its own contributions: with k times the levels of
a facet that of a component is divided by k at best, as if it were a part that holds the facet, and
stays at worst, as if it were one that does not.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gstudy.errors import QuantityError, explain
from gstudy.study.designs import TRIALS, Design
from gstudy.study.index_sets import IndexSet, Rule, close
from gstudy.variance.components import VarianceComponents, components_of
from gstudy.variance.decomposition import SCORE
from gstudy.variance.designs import separated

if TYPE_CHECKING:
    from gstudy.variance.basis import Basis
    from gstudy.variance.latent import Latent
    from gstudy.variance.structure import Structure

__all__ = ["Bounds", "bounds_of", "changed_alone"]


@dataclass(frozen=True, slots=True, eq=False)
class Bounds:
    """Sources between whose variances that of a design lies.

    Parameters
    ----------
    names : tuple of str
        The merged components.
    least : VarianceComponents
        Every variance is at least that of this source.
    most : tuple of VarianceComponents
        No variance is larger than the largest of these.
    """

    names: tuple[str, ...]
    least: VarianceComponents
    most: tuple[VarianceComponents, ...]


def bounds_of(basis: Basis, design: Mapping[str, int]) -> Bounds | None:
    """The bounds of a design, or None where it separates no merged component.

    Parameters
    ----------
    basis : Basis
    design : mapping of str to int

    Returns
    -------
    Bounds or None

    Raises
    ------
    QuantityError
        When the object itself is merged: what is measured is then not known.
    """
    structure = basis.structure
    wholes = separated(structure, Design.read(design))
    if not wholes:
        return None
    for whole in wholes:
        if structure.object in whole and whole <= structure.object_set:
            raise QuantityError(
                explain(
                    f"{structure.name(whole)!r} is one component, so that no bound of a design "
                    f"which changes it tells what belongs to {structure.object}",
                    do="Collect trials that separate them, then fit again.",
                )
            )
    choices = [dict.fromkeys(structure.merged[whole]) for whole in wholes]
    unions = [frozenset[str]().union(*structure.merged[whole]) for whole in wholes]
    most = itertools.product(*choices)
    return Bounds(
        names=tuple(structure.name(whole) for whole in wholes),
        least=_unmerged(basis, dict(zip(wholes, unions, strict=True))),
        most=tuple(_unmerged(basis, dict(zip(wholes, own, strict=True))) for own in most),
    )


def changed_alone(
    structure: Structure, sets: Sequence[IndexSet], facet: str
) -> tuple[list[bool], list[bool]]:
    """Which contributions a change of one facet alone divides, at best and at worst.

    Parameters
    ----------
    structure : Structure
    sets : sequence of frozenset of str
    facet : str

    Returns
    -------
    at_best, at_worst : list of bool
        Of each set, then of the noise of one trial, which may be that of facets inside it. Alike
        but for what the data cannot tell apart.
    """
    nesting = structure.nesting
    trial = frozenset({*structure.facets, *structure.order, TRIALS})
    stand_for = [
        *(structure.contents(index_set) for index_set in sets),
        (trial, *(frozenset({inside}) for inside in structure.absorbed)),
    ]
    holding = [[facet in close(part, nesting) for part in parts] for parts in stand_for]
    return [any(own) for own in holding], [all(own) for own in holding]


def _unmerged(basis: Basis, parts: Mapping[IndexSet, IndexSet]) -> VarianceComponents:
    """The source in which each of these merged components is one of its parts alone."""
    structure, latent = basis.structure, basis.latent
    assert latent is not None
    kept = {whole: sets for whole, sets in structure.merged.items() if whole not in parts}
    rules = _rules(basis, kept)
    alone = {whole: (part,) for whole, part in parts.items()}
    renamed = {
        whole: close(frozenset[str]().union(*sets) - structure.controlled, rules)
        for whole, sets in {**kept, **alone}.items()
    }
    merged: dict[IndexSet, tuple[IndexSet, ...]] = {}
    for whole, sets in {**kept, **alone}.items():
        merged[renamed[whole]] = (*merged.get(renamed[whole], ()), *sets)
    new = replace(structure, rules=rules, merged=merged)
    return components_of(
        replace(basis, structure=new, latent=_with_sets(latent, new, renamed)), SCORE
    )


def _rules(basis: Basis, kept: Mapping[IndexSet, tuple[IndexSet, ...]]) -> tuple[Rule, ...]:
    """Nesting between sampled facets, and what stays merged."""
    structure = basis.structure
    sampled = frozenset(structure.facets)
    nesting = [(trigger & sampled, whole & sampled) for trigger, whole in structure.nesting]
    rules = [rule for rule in nesting if rule[0] and rule[0] != rule[1]]
    for sets in kept.values():
        parts = [part - structure.controlled for part in sets]
        union = frozenset[str]().union(*parts)
        rules += [(part, union) for part in parts if part != union]
    return tuple(rules)


def _with_sets(
    latent: Latent, structure: Structure, renamed: Mapping[IndexSet, IndexSet]
) -> Latent:
    """The draws with other index sets; of own sds without the object."""
    measured = latent.structure.object_set
    short = {whole - measured: new - measured for whole, new in renamed.items()}
    own = tuple(replace(o, index_set=short.get(o.index_set, o.index_set)) for o in latent.own)
    sets = tuple(renamed.get(index_set, index_set) for index_set in latent.sets)
    return replace(latent, structure=structure, sets=sets, own=own)
