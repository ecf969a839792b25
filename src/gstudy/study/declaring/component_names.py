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
    """

    facets: tuple[str, ...]
    rules: list[Rule]
    counted: str | None

    def close(self, *facets: str) -> IndexSet:
        """The facets with all their parents."""
        return close(facets, self.rules)

    def name(self, whole: IndexSet) -> str:
        """The canonical name of an index set."""
        return set_name(whole, self.facets)

    def mains(self) -> dict[str, IndexSet]:
        """Each facet with its parents, by name of the facet."""
        return {facet: self.close(facet) for facet in self.facets if facet != self.counted}


def declared_sets(nesting: Nesting, interactions: str | tuple[str, ...]) -> dict[str, IndexSet]:
    """Every component that a declaration allows, by canonical name.

    Main components in declared order, then interactions: those listed, or with "auto" each pair
    of facets of which neither is nested in the other.
    """
    mains = nesting.mains()
    if interactions == "auto":
        pairs = (nesting.close(*pair) for pair in itertools.combinations(mains, 2))
        added = [whole for whole in pairs if whole not in mains.values()]
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
    near = did_you_mean(value, ("auto", "none")) if isinstance(value, str) else None
    names = _texts(value, key, '"auto", "none", or a list such as ["system:task"]', near)
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
    value: object, nesting: Nesting, sets: Mapping[str, IndexSet]
) -> Mapping[str, Prior]:
    """The priors under their canonical keys: "mu" and "sd(<component>)".

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
        found[key] = Prior.from_value(key, prior)
    return MappingProxyType(found)


def _prior_key(key: object, nesting: Nesting, sets: Mapping[str, IndexSet]) -> str:
    allowed = ["mu", *(f"sd({name})" for name in sets)]
    if key == "mu":
        return "mu"
    kind, _, rest = str(key).partition("(")
    inside = rest.removesuffix(")")
    if kind == "fixed" or inside == "residual":
        raise DeclarationError(
            explain(
                f'priors."{key}" is not there yet',
                allowed=allowed,
                do="A binary score has no residual sd, and controlled facets have no effects yet: "
                "take it out.",
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
    return f"sd({_component(inside, nesting, sets, f'priors."{key}"')})"


def _component(text: str, nesting: Nesting, sets: Mapping[str, IndexSet], key: str) -> str:
    """The name in `sets` of the component that `text` means."""
    whole = nesting.close(*_facets_named(text, nesting, key))
    _refuse_counted(text, whole, nesting, key)
    name = nesting.name(whole)
    if name not in sets:
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
    whole = nesting.close(*_facets_named(text, nesting, key))
    _refuse_counted(text, whole, nesting, key)
    own = next((facet for facet, main in nesting.mains().items() if main == whole), None)
    if own is None:
        return whole
    parents = ", ".join(facet for facet in nesting.facets if facet in whole and facet != own)
    reason = f"{own!r} is nested in {parents}, so that this" if parents else f"{own!r} alone"
    raise DeclarationError(
        explain(
            f"{key} names no interaction",
            given=text,
            allowed="two or more facets, none of which is nested in all the others",
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
