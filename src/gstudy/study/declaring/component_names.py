"""Components as a declaration writes them, and the index sets that they mean."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from gstudy.errors import DeclarationError, did_you_mean, explain
from gstudy.study.index_sets import close, set_name
from gstudy.study.priors import Prior

if TYPE_CHECKING:
    from gstudy.study.index_sets import IndexSet, Rule

__all__ = ["Nesting", "declared_sets", "read_interactions", "read_keep", "read_priors"]


@dataclass(frozen=True, slots=True)
class Nesting:
    """The facets that names of components are made of.

    Parameters
    ----------
    facets : tuple of str
        Every facet, in declared order.
    rules : list of Rule
        One per nested facet.
    counted : str or None
        The facet that has no labels, and is in no component therefore.
    controlled : frozenset of str
        The facets that have fixed effects and no component of their own.
    inside : mapping of frozenset of str to str
        Sets that are part of another component: of the object and a facet that varies by it.
    residual : bool
        Whether there is a residual sd to estimate.
    """

    facets: tuple[str, ...]
    rules: list[Rule]
    counted: str | None
    controlled: frozenset[str] = frozenset()
    inside: Mapping[IndexSet, str] = MappingProxyType({})
    residual: bool = False

    def close(self, *facets: str) -> IndexSet:
        """The facets with all their parents."""
        return close(facets, self.rules)

    def name(self, whole: IndexSet) -> str:
        """The canonical name of an index set."""
        return set_name(whole, self.facets)

    def mains(self) -> dict[str, IndexSet]:
        """Each facet that has a component of its own with its parents, by name of the facet."""
        without = {self.counted, *self.controlled}
        return {facet: self.close(facet) for facet in self.facets if facet not in without}

    def pairs(self) -> list[IndexSet]:
        """The sets that "auto" tries: two facets of which one at least is not controlled."""
        labelled = [facet for facet in self.facets if facet != self.counted]
        pairs = [
            self.close(*pair)
            for pair in itertools.combinations(labelled, 2)
            if not self.controlled.issuperset(pair)
        ]
        mains = [self.close(facet) for facet in labelled]
        return [whole for whole in pairs if whole not in mains and whole not in self.inside]


def declared_sets(nesting: Nesting, interactions: str | tuple[str, ...]) -> dict[str, IndexSet]:
    """Every component that a declaration allows, by canonical name.

    Main components in declared order, then interactions: those listed, or with "auto" each pair
    of facets of which neither is nested in the other.
    """
    mains = nesting.mains()
    if interactions == "auto":
        added = nesting.pairs()
    else:
        names = () if isinstance(interactions, str) else interactions
        added = [frozenset(name.split(":")) for name in names]
    return {nesting.name(whole): whole for whole in (*mains.values(), *added)}


def read_interactions(value: object, nesting: Nesting) -> str | tuple[str, ...]:
    """The interactions under their canonical names, or "auto", or "none".

    Raises
    ------
    DeclarationError
        For an unknown facet, and for a set that is a facet's own component already.
    """
    key = "model.interactions"
    if value in ("auto", "none"):
        return str(value)
    near = None
    if isinstance(value, str) and not set(value.split(":")) <= {*nesting.facets}:
        near = did_you_mean(value, ("auto", "none"))
        near = near or '"auto" tries every pair of facets and tells which the trials can tell.'
    pairs = ", ".join(nesting.name(pair) for pair in nesting.pairs())
    listing = f"a list of {pairs} or larger sets" if pairs else 'a list such as ["system:task"]'
    names = _texts(value, key, f'"auto", "none", or {listing}', near)
    sets = [_interaction(text, nesting, key) for text in names]
    return tuple(dict.fromkeys(nesting.name(whole) for whole in sets)) or "none"


def read_keep(value: object, nesting: Nesting, sets: Mapping[str, IndexSet]) -> tuple[str, ...]:
    """The components to fit in any case, under their canonical names.

    Raises
    ------
    DeclarationError
        For an unknown facet, and for what is no component in `sets`.
    """
    names = _texts(value, "model.keep", 'a list of components such as ["task:rollout"]')
    return tuple(dict.fromkeys(_component(text, nesting, sets, "model.keep") for text in names))


def read_priors(
    value: object, nesting: Nesting, sets: Mapping[str, IndexSet], family: str
) -> Mapping[str, Prior]:
    """The priors under their canonical keys: "mu", "sd(<component>)", "sd(residual)" and
    "fixed(<facet>)".

    Raises
    ------
    DeclarationError
        For an unknown key, a key given twice, and what is no prior.
    """
    if not isinstance(value, Mapping):
        raise DeclarationError(
            explain(
                "priors is not a table",
                given=value,
                allowed='[priors] with "sd(task)" = { dist = "HalfNormal", sigma = 5.0 }',
            )
        )
    found: dict[str, Prior] = {}
    for written, prior in value.items():
        key = _prior_key(written, nesting, sets)
        if key in found:
            raise DeclarationError(
                explain(f"priors give {key} twice", given=written, do="Keep one of them.")
            )
        found[key] = Prior.from_value(key, prior, family)
    return MappingProxyType(found)


def _prior_key(key: object, nesting: Nesting, sets: Mapping[str, IndexSet]) -> str:
    fixed = {f"fixed({facet})" for facet in nesting.facets if facet in nesting.controlled}
    allowed = ["mu", *(f"sd({name})" for name in sets), *sorted(fixed)]
    allowed += ["sd(residual)"] if nesting.residual else []
    if key == "mu" or key in fixed or (key == "sd(residual)" and nesting.residual):
        return str(key)
    kind, _, rest = str(key).partition("(")
    inside = rest.removesuffix(")")
    if key == "sd(residual)":
        raise DeclarationError(
            explain(
                'priors."sd(residual)": there is no residual sd to estimate',
                allowed=allowed,
                do="The noise of a 0/1 score follows from its rate, and a column of standard "
                "errors is known: take it out.",
            )
        )
    if kind == "fixed":
        raise DeclarationError(
            explain(
                f'priors."{key}" names no controlled facet',
                allowed=allowed,
                do='Fixed effects are of facets with role = "controlled"; the sd of another one '
                f'has the key "sd({inside})".',
            )
        )
    if kind != "sd" or rest == inside:
        raise DeclarationError(
            explain(
                "priors has an unknown key",
                given=key,
                allowed=allowed,
                do=f'Write "sd({key})".' if key in sets else did_you_mean(str(key), allowed),
            )
        )
    unknown = [part for part in map(str.strip, inside.split(":")) if part not in nesting.facets]
    if unknown:
        raise DeclarationError(
            explain(
                f'priors."{key}" names an unknown facet {unknown[0]!r}',
                given=key,
                allowed=allowed,
                do=did_you_mean(str(key), allowed),
            )
        )
    return f"sd({_component(inside, nesting, sets, f'priors."{key}"')})"


def _component(text: str, nesting: Nesting, sets: Mapping[str, IndexSet], key: str) -> str:
    """The name in `sets` of the component that `text` means."""
    whole = nesting.close(*_facets_named(text, nesting, key))
    _refuse_counted(text, whole, nesting, key)
    name = nesting.name(whole)
    if name not in sets:
        _refuse_fixed(text, whole, nesting, key)
        _refuse_inside(text, whole, nesting, key)
        raise DeclarationError(
            explain(
                f"{key} names {name!r}, which is no component of this study",
                given=text,
                allowed=sets,
                do=f'List "{name}" in model.interactions too, or leave it out.',
            )
        )
    return name


def _interaction(text: str, nesting: Nesting, key: str) -> IndexSet:
    named = _facets_named(text, nesting, key)
    whole = nesting.close(*named)
    pairs = [nesting.name(pair) for pair in nesting.pairs()]
    if len(named) < text.count(":") + 1:
        raise DeclarationError(
            explain(
                f"{key} names a facet twice: a facet does not interact with itself",
                given=text,
                allowed=f"two or more different facets: {', '.join(pairs) or 'none here'}",
                do="Name each facet once.",
            )
        )
    _refuse_counted(text, whole, nesting, key)
    _refuse_fixed(text, whole, nesting, key)
    _refuse_inside(text, whole, nesting, key)
    own = next((facet for facet, main in nesting.mains().items() if main == whole), None)
    if own is None:
        return whole
    parents = ", ".join(facet for facet in nesting.facets if facet in whole and facet != own)
    reason = f"{own!r} is nested in {parents}, so that this" if parents else f"{own!r} alone"
    raise DeclarationError(
        explain(
            f"{key} names no interaction",
            given=text,
            allowed="two or more facets, none of which is nested in all the others: "
            f"{', '.join(pairs) or 'none here'}",
            do=f"Leave it out: {reason} is the main component of {own!r}, which is always there.",
        )
    )


def _facets_named(text: str, nesting: Nesting, key: str) -> frozenset[str]:
    """The facets that a name of a component holds, in any order, with or without parents."""
    parts = [part.strip() for part in text.split(":")]
    for part in parts:
        if part not in nesting.facets:
            raise DeclarationError(
                explain(
                    f"{key} names an unknown facet {part!r}",
                    given=text,
                    allowed=f"facets, joined by ':', of {', '.join(nesting.facets)}",
                    do=did_you_mean(part, nesting.facets),
                )
            )
    return frozenset(parts)


def _refuse_counted(text: str, whole: IndexSet, nesting: Nesting, key: str) -> None:
    if nesting.counted in whole:
        raise DeclarationError(
            explain(
                f"{key} names {nesting.counted!r}, whose column only counts trials",
                given=text,
                do="Its levels are inside the residual and are never fitted: leave it out, or "
                "give one row per level.",
            )
        )


def _refuse_fixed(text: str, whole: IndexSet, nesting: Nesting, key: str) -> None:
    """Facets that are all controlled have fixed effects, which are no component."""
    if not whole <= nesting.controlled:
        return
    several = len(whole) > 1
    raise DeclarationError(
        explain(
            f"{key} names {text!r}, of controlled facets only: their effects are fixed and are no "
            "component",
            given=text,
            allowed="sets with a facet that is not controlled",
            do="If their combinations matter, make one controlled facet of them, such as "
            'df["both"] = df["a"] + " " + df["b"].'
            if several
            else f'Take it out; the prior of the effects has the key "fixed({text})".',
        )
    )


def _refuse_inside(text: str, whole: IndexSet, nesting: Nesting, key: str) -> None:
    """The object with a facet that varies by it is part of that facet's component."""
    if whole in nesting.inside:
        facet = nesting.inside[whole]
        raise DeclarationError(
            explain(
                f"{key} names {nesting.name(whole)!r}, which is inside the own sds of {facet!r}",
                given=text,
                do=f"Take it out, or take varies out of [facets.{facet}].",
            )
        )


def _texts(value: object, key: str, example: str, near: str | None = None) -> tuple[str, ...]:
    """A list of texts as a tuple."""
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        listed = f'Write {key.rpartition(".")[2]} = ["{value}"].'
        raise DeclarationError(
            explain(
                f"{key} is not a list of components",
                given=value,
                allowed=example,
                do=near or (listed if isinstance(value, str) else None),
            )
        )
    return tuple(value)
