"""What a reported score claims: its average, finite banks of levels, and what is pinned."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gstudy._words import listed, plural
from gstudy.errors import QuantityError, did_you_mean, explain
from gstudy.study.designs import Design
from gstudy.study.index_sets import IndexSet, close
from gstudy.variance.trial_weights import averaged_set

if TYPE_CHECKING:
    from gstudy.study.declaration import Study
    from gstudy.variance.controlled import Controlled
    from gstudy.variance.structure import Structure

__all__ = ["Claim", "claim_of"]


@dataclass(frozen=True, slots=True)
class Claim:
    """What a score is claimed to be the score of.

    Parameters
    ----------
    average : str
        "trials", a facet, or the facet of a macro average.
    over : frozenset of str
        The facet whose levels weigh alike, with its parents; empty when all trials do.
    macro : bool
        Whether `average` is declared as macro average.
    finite : mapping of str to int
        Facets with a finite universe: its number of levels, of a nested facet per parent.
    pinned : frozenset of str
        Facets whose levels stay, with their parents; without the object.
    named : tuple of str
        The pinned facets as they were asked for.
    """

    average: str = "trials"
    over: IndexSet = frozenset()
    macro: bool = False
    finite: Mapping[str, int] = field(default_factory=dict)
    pinned: IndexSet = frozenset()
    named: tuple[str, ...] = ()

    def closed(self, index_set: IndexSet) -> bool:
        """Whether a set (without the object) has finitely many levels: all finite or pinned."""
        return bool(index_set) and index_set <= self.pinned | frozenset(self.finite)

    def words(
        self, structure: Structure, *, collected: bool, controlled: Controlled | None = None
    ) -> str:
        """The claim as it stands behind "the score of ...", each part after a comma.

        Parameters
        ----------
        structure : Structure
        collected : bool
            Whether it is of trials as collected: of a balanced design the mean over trials is
            that over levels.
        controlled : Controlled, optional
        """
        parts = []
        if self.average != "trials":
            how = f"{{ macro = {self.average} }}" if self.macro else self.average
            parts.append(f"mean over {plural(self.average)} (average = {how})")
        elif collected:
            parts.append("mean over all trials")
        parts += [
            _bank(facet, n, structure)
            for facet, n in self.finite.items()
            if facet in structure.facets and facet not in self.pinned
        ]
        if self.named:
            parts.append(f"these {listed([plural(facet) for facet in self.named])} (pinned)")
        if controlled is not None:
            parts.append(_levels(controlled))
        return "".join(f", {part}" for part in parts)


def claim_of(
    study: Study,
    structure: Structure,
    pin: Sequence[str] | None = None,
    design: Mapping[str, int] | None = None,
) -> Claim:
    """The claim that a study declares, with some facets pinned.

    Parameters
    ----------
    study : Study
    structure : Structure
    pin : sequence of str, optional
        Facets whose levels stay as they are: the claim is about these levels only.
    design : mapping of str to int, optional
        A `Design` may pin facets too.

    Returns
    -------
    Claim

    Raises
    ------
    QuantityError
        For a facet that is unknown, measured or inside the residual.
    """
    names = _pins(structure, pin, () if design is None else Design.read(design).pin)
    pinned = close(names, structure.nesting) - structure.object_set - structure.given
    return Claim(
        average=study.averaged_over or "trials",
        over=averaged_set(study),
        macro=not isinstance(study.average, str),
        finite={f.name: f.universe for f in study.facets if f.universe is not None},
        pinned=pinned,
        named=names,
    )


def _pins(structure: Structure, pin: Sequence[str] | None, more: Sequence[str]) -> tuple[str, ...]:
    """The facets to pin, checked, in declared order."""
    if pin is not None and not isinstance(pin, str | Sequence):
        raise QuantityError(
            explain("pin is no list of facets", given=pin, allowed=structure.facets)
        )
    asked = [*([] if pin is None else [pin] if isinstance(pin, str) else pin), *more]
    known = [f for f in structure.facets if f != structure.object]
    for name in asked:
        if name in known or name in structure.not_sampled:
            continue
        if name not in structure.order:
            why, do = "it is no facet", did_you_mean(str(name), known)
        elif name in structure.absorbed:
            why = "it is inside the residual, with one trial per level"
            do = "Collect several trials per level to tell it apart."
        elif structure.roles[name] == "controlled":
            why, do = "it is controlled, which pins it already", "Leave it out."
        else:
            why, do = "it is measured", "Ask for one of its levels by system=."
        raise QuantityError(
            explain(f"{name!r} cannot be pinned: {why}", given=asked, allowed=known, do=do)
        )
    return tuple(facet for facet in structure.order if facet in asked)


def _bank(facet: str, n: int, structure: Structure) -> str:
    parents: Iterable[str] = close({facet}, structure.nesting) - {facet}
    inside = [parent for parent in structure.order if parent in parents]
    per = f" per {' and '.join(inside)}" if inside else ""
    return f"a bank of {n} {plural(facet) if n != 1 else facet}{per}"


def _levels(controlled: Controlled) -> str:
    """Over which fixed levels it is averaged."""
    names = listed(list(controlled.facets))
    n_levels = len(controlled.levels)
    what = "levels" if len(controlled.facets) == 1 else "combinations"
    return f"averaged over the {n_levels} {what} of {names}"
