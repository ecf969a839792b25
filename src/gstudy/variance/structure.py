"""How the facets of a source hang together: its index sets, their names, roles and contents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from gstudy.errors import QuantityError, did_you_mean, explain
from gstudy.study.index_sets import IndexSet, Rule, close, closed_sets, set_name

__all__ = ["LINK", "NOT_SEPARABLE", "RESIDUAL", "Structure", "without_facets"]

RESIDUAL = "residual"
NOT_SEPARABLE = "not separable"
LINK = "made by the logit link"


@dataclass(frozen=True, slots=True)
class Structure:
    """The facets of a source, without any draws.

    Parameters
    ----------
    order : tuple of str
        Every facet of the study in declared order; names are made from it.
    facets : tuple of str
        Sampled facets: those that index sets are made of.
    nesting : tuple of (trigger, whole)
        A set that holds `trigger` holds `whole`: every facet brings its parents, whether they
        are sampled or not.
    rules : tuple of (trigger, whole)
        The same between sampled facets, with the rules of merged components.
    object : str or None
        The facet that is measured; None without one, or once a level of it is given.
    given : frozenset of str
        The object and what is merged with it, once one of their levels is given: they are in no
        set and in no name.
    roles : mapping of str to str
        Role of each facet.
    merged : mapping of index set to tuple of index sets
        Of each fitted component what it stands for, with the object; several when merged, or
        when sets become equal without the object.
    absorbed : tuple of str
        Facets inside the residual: in no set, they only multiply the number of trials.
    not_sampled : mapping of str to str
        Facets with one level, and its label.
    redrawn : frozenset of str
        Facets that a re-run draws anew.
    counts_trials : bool
        Whether the trials of a cell are counted without a facet of their own.
    controlled : frozenset of str
        Controlled facets with fixed effects: in no set, but in what a set stands for.
    """

    order: tuple[str, ...]
    facets: tuple[str, ...]
    nesting: tuple[Rule, ...]
    rules: tuple[Rule, ...]
    object: str | None
    given: frozenset[str]
    roles: Mapping[str, str]
    merged: Mapping[IndexSet, tuple[IndexSet, ...]]
    absorbed: tuple[str, ...]
    not_sampled: Mapping[str, str]
    redrawn: frozenset[str]
    counts_trials: bool
    controlled: frozenset[str] = frozenset()

    @property
    def pinned(self) -> IndexSet:
        """Every controlled facet, with one level or several."""
        return frozenset(f for f, role in self.roles.items() if role == "controlled")

    @property
    def object_set(self) -> IndexSet:
        """The object with the facets that its component is merged with; empty without one."""
        return close({self.object}, self.rules) if self.object else frozenset()

    def without_object(self) -> Structure:
        """The structure once a level of the object is given: every set loses the object."""
        gone = self.object_set
        if not gone:
            return self
        merged: dict[IndexSet, tuple[IndexSet, ...]] = {}
        for whole, parts in self.merged.items():
            if whole != gone:
                merged[whole - gone] = (*merged.get(whole - gone, ()), *parts)
        return replace(
            self,
            facets=tuple(facet for facet in self.facets if facet not in gone),
            rules=without_facets(self.rules, gone),
            object=None,
            given=gone,
            merged=merged,
        )

    def name(self, index_set: IndexSet) -> str:
        """Name of an index set: of merged components the joint one, parents included.

        A controlled facet is named where each part of the set holds it, as tasks nested in it do.
        """
        parts = self.merged.get(index_set, (index_set,))
        parts = tuple(part for part in parts if not part & self.controlled) or parts
        return " + ".join(dict.fromkeys(self._plain_name(part) for part in parts))

    def find(self, name: str) -> IndexSet:
        """The index set that a name means: facets in any order, parents may be left out.

        Raises
        ------
        QuantityError
            When it names no facet, or one that is in no set here; the message says why.
        """
        for whole in self.merged:
            if self.name(whole) == name:
                return whole
        parts = [part.strip() for part in str(name).split(":")]
        for part in parts:
            if part not in self.order:
                self._refuse_unknown(part, name)
        whole = close(close(parts, self.nesting) & frozenset(self.facets), self.rules)
        missing = [p for p in parts if p not in self.facets and not self._implied(p, parts)]
        if missing or not whole:
            self._refuse_missing(missing[0] if missing else parts[0], name)
        return whole

    def sets(self) -> list[IndexSet]:
        """Every closed set of sampled facets, small sets first."""
        return closed_sets(self.facets, self.rules)

    def spanned(self, components: Iterable[IndexSet]) -> list[IndexSet]:
        """The closed sets that unions of components make, small sets first.

        Any other set has no component of its own: its Hoeffding component is exactly zero.
        """
        found = {frozenset[str]()}
        for component in components:
            found |= {close(other | component, self.rules) for other in found}
        place = {facet: i for i, facet in enumerate(self.order)}
        return sorted(found - {frozenset()}, key=lambda s: (len(s), sorted(place[f] for f in s)))

    def contents(self, index_set: IndexSet) -> tuple[IndexSet, ...]:
        """The nested sets that cannot be told apart from this one, itself included."""
        if index_set in self.merged:
            return self.merged[index_set]
        own = [rule for rule in self.nesting if rule[0] <= index_set]
        inside = [(t & index_set, w & index_set) for t, w in own]
        members = [facet for facet in self.facets if facet in index_set]
        twins = [s for s in closed_sets(members, inside) if close(s, self.rules) == index_set]
        return tuple(twins)

    def role(self, index_set: IndexSet) -> str:
        """Role of a set: object, legitimate, error, or not separable when it mixes them."""
        return _one_role(self._facets_role(part) for part in self.contents(index_set))

    def residual_role(self) -> str:
        """Role of the noise of one trial: of the facets inside it, and of the trial itself."""
        inside = [self._with_parents(facet) for facet in self.absorbed]
        trial = frozenset(self.facets).union(*inside)
        return _one_role(self._facets_role(s - {self.object}) for s in [*inside, trial])

    def facet_of(self, index_set: IndexSet) -> str:
        """The facets that bring the others along, joined by ":"."""
        brought = {parent for child in index_set for parent in self._with_parents(child) - {child}}
        return set_name(index_set - brought or index_set, self.order)

    def includes(self, index_set: IndexSet) -> str:
        """What a row stands for, in words."""
        names = [
            set_name(close(part, self.nesting), self.order) for part in self.contents(index_set)
        ]
        if index_set not in self.merged:
            return LINK if len(names) == 1 else f"{LINK}: {', '.join(names)}"
        return ", ".join(names)

    def residual_includes(self) -> str:
        """What the residual holds besides the chance of one trial."""
        inside = [set_name(close({facet}, self.nesting), self.order) for facet in self.absorbed]
        return ", ".join([*inside, "trial"])

    def redrawn_sets(self, sets: Iterable[IndexSet]) -> list[bool]:
        """Of each set whether a re-run draws any of its facets anew."""
        return [bool(index_set & self.redrawn) for index_set in sets]

    def bound_to_redrawn(self) -> tuple[str, ...]:
        """Names of what a re-run keeps but the data cannot tell from what it draws anew.

        Sets without a redrawn facet that are merged with one that has some, and facets that are
        inside the residual.
        """
        merged = [parts for whole, parts in self.merged.items() if whole & self.redrawn]
        kept = [part for parts in merged for part in parts if not part & self.redrawn]
        inside = [frozenset({facet}) for facet in self.absorbed if facet not in self.redrawn]
        return tuple(dict.fromkeys(self._plain_name(part) for part in [*kept, *inside]))

    def _plain_name(self, index_set: IndexSet) -> str:
        whole = close(index_set, self.nesting)
        return set_name(whole - self.given, self.order)

    def _with_parents(self, facet: str) -> IndexSet:
        return close({facet}, self.nesting) - self.given

    def _facets_role(self, index_set: IndexSet) -> str:
        # What differs between controlled levels has the role of the facets that it varies over.
        roles = {self.roles[facet] for facet in index_set} - {"controlled"}
        if roles == {"object"}:
            return "object"
        return "error" if "error" in roles else "legitimate"

    def _implied(self, facet: str, parts: Iterable[str]) -> bool:
        """Whether a facet without sets is only named as the parent of another."""
        return any(p != facet and facet in close({p}, self.nesting) for p in parts)

    def _refuse_unknown(self, facet: str, name: str) -> None:
        raise QuantityError(
            explain(
                f"no component is named {name!r}",
                allowed=[self.name(s) for s in self.spanned(self.merged)],
                do=did_you_mean(facet, self.order),
            )
        )

    def _refuse_missing(self, facet: str, name: str) -> None:
        if facet in self.given:
            why = f"{facet!r} is measured, and its levels are given here"
            do = "Pass system='new' for the population of which they are a sample."
        elif facet in self.absorbed:
            why = f"{facet!r} is inside the residual: one trial per level"
            do = "Collect several trials per level to tell it apart."
        elif facet in self.not_sampled:
            why = f"{facet!r} was not sampled: one level, {self.not_sampled[facet]!r}"
            do = "Collect more of its levels."
        elif facet in self.controlled:
            why = f"{facet!r} is controlled: its levels are fixed, and averaged over"
            do = f"Ask for the rest without {facet!r}: its interactions with it are part of that."
        elif self.roles[facet] == "object":
            why = f"{facet!r} is inside the residual: one trial per level"
            do = "Collect several trials of each to tell them apart."
        else:
            why, do = f"{facet!r} is controlled: it is pinned and has no variance", None
        raise QuantityError(explain(f"there is no component {name!r}: {why}", do=do))


def without_facets(rules: Iterable[Rule], gone: IndexSet) -> tuple[Rule, ...]:
    """What rules say about the other facets; one that a facet which is gone triggers joined sets
    of which only one remains."""
    left = [(trigger, whole - gone) for trigger, whole in rules if not trigger & gone]
    return tuple((trigger, whole) for trigger, whole in left if not whole <= trigger)


def _one_role(roles: Iterable[str]) -> str:
    found = set(roles)
    return found.pop() if len(found) == 1 else NOT_SEPARABLE
