"""The facets of a study together: one object, known parents, no cycle, one column each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gstudy.errors import DeclarationError, did_you_mean, explain
from gstudy.study.facets import Facet

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["check_columns", "check_nesting", "counted_facet", "with_object"]


def with_object(facets: object, name: object) -> tuple[tuple[Facet, ...], str | None]:
    """The facets with the object of measurement among them, and the object's name.

    ``object = "system"`` alone stands for a facet "system" with role "object", placed first.

    Raises
    ------
    DeclarationError
        For no facets, something that is no facet, one name twice, two objects.
    """
    declared = _facets(facets)
    if name is not None and (not isinstance(name, str) or not name.strip()):
        raise DeclarationError(
            explain("object is not a facet's name", given=name, allowed='such as object = "system"')
        )
    objects = [facet.name for facet in declared if facet.role == "object"]
    if name is not None:
        same = next((facet for facet in declared if facet.name == name), None)
        if same is None:
            declared = (Facet(name, role="object"), *declared)
        elif same.role != "object":
            raise DeclarationError(
                explain(
                    f"object is {name!r}, but facets.{name}.role says otherwise",
                    given=same.role,
                    do=f'Write role = "object" there, or take object = "{name}" away.',
                )
            )
        objects = [name, *(other for other in objects if other != name)]
    if len(objects) > 1:
        raise DeclarationError(
            explain(
                "a study has one object of measurement",
                given=objects,
                do=f"Keep {objects[0]!r}, and give {objects[1]!r} the role legitimate, error "
                "or controlled; any facet may be taken as the object after the fit.",
            )
        )
    if not declared:
        raise DeclarationError(
            explain(
                "the study has no facets",
                do='Declare what varies, such as [facets.task] with role = "legitimate".',
            )
        )
    return declared, objects[0] if objects else None


def check_nesting(facets: Sequence[Facet], counted: str | None, measured: str | None) -> None:
    """Every parent is a facet, none is its own ancestor, and none is merely counted.

    Raises
    ------
    DeclarationError
        Naming the facet and the parent at fault.
    """
    names = [facet.name for facet in facets]
    parents = {facet.name: facet.nested_in for facet in facets}
    for facet in facets:
        key = f"facets.{facet.name}.nested_in"
        for parent in facet.nested_in:
            if parent not in names:
                raise DeclarationError(
                    explain(
                        f"{key} names an unknown facet",
                        given=parent,
                        allowed=[name for name in names if name != facet.name],
                        do=_unknown_parent(parent, names, measured),
                    )
                )
            if parent == counted:
                raise DeclarationError(
                    explain(
                        f"{key} names {parent!r}, whose column only counts trials",
                        given=parent,
                        do=f"{parent!r} has no levels to be nested in: give one row per level.",
                    )
                )
    for name in names:
        cycle = _cycle(name, parents)
        if cycle:
            raise DeclarationError(
                explain(
                    f"facets.{name}.nested_in goes round in a circle",
                    given=" in ".join(cycle),
                    do="A level cannot lie inside itself: take one nested_in out.",
                )
            )


def _unknown_parent(parent: str, names: Sequence[str], measured: str | None) -> str:
    """What to do about a parent that is no facet: often the object, left undeclared."""
    if near := did_you_mean(parent, names):
        return near
    if measured is None:
        return (
            f'Write object = "{parent}" at the top of the study if that is what is measured. '
            f"Declare [facets.{parent}] if it is another facet, or take it out."
        )
    return f"Declare [facets.{parent}], or take it out. The object here is {measured!r}."


def check_columns(facets: Sequence[Facet], columns: Mapping[str, str | None]) -> None:
    """No column of the trials stands for two things.

    Parameters
    ----------
    columns : mapping
        ``score``, or ``successes`` and ``trials``: key of the declaration to its column.

    Raises
    ------
    DeclarationError
        Naming the column and both things. One nested facet may have the column of `trials`.
    """
    used = {column: key for key, column in columns.items() if column is not None}
    for facet in facets:
        column = facet.source_column
        if column not in used or (used[column] == "trials" and facet.nested_in):
            used[column] = f"facets.{facet.name}"
            continue
        raise DeclarationError(
            explain(
                f"column {column!r} is used twice: by {used[column]} and facets.{facet.name}",
                given=column,
                allowed="one column for each facet, and others for the score",
                do="Only a nested facet can share the column of trials: its levels are counted, "
                "not named. Name its parents in nested_in."
                if used[column] == "trials"
                else f'Say which column holds it: [facets.{facet.name}] column = "...".',
            )
        )


def counted_facet(facets: Sequence[Facet], trials: str | None) -> str | None:
    """The facet whose column is that of `trials`: its levels are counted, not named."""
    if trials is None:
        return None
    found = next((facet for facet in facets if facet.source_column == trials), None)
    if found is not None and found.role == "object":
        raise DeclarationError(
            explain(
                f"the object {found.name!r} has the column of trials, which only counts",
                given=trials,
                do="Name the column that holds the object's labels.",
            )
        )
    return None if found is None else found.name


def _facets(facets: object) -> tuple[Facet, ...]:
    listed = tuple(facets) if isinstance(facets, list | tuple) else (facets,)
    for facet in listed:
        if not isinstance(facet, Facet):
            raise DeclarationError(
                explain(
                    "facets holds something that is no facet",
                    given=facet,
                    allowed="a list of gstudy.Facet",
                    do='Such as facets=[gs.Facet("task", role="legitimate")].',
                )
            )
    names = [facet.name for facet in listed]
    for name in names:
        if names.count(name) > 1:
            raise DeclarationError(
                explain("two facets have one name", given=name, do="Rename one of them.")
            )
    return listed


def _cycle(start: str, parents: Mapping[str, Sequence[str]]) -> list[str]:
    """The path from `start` upwards that comes back to it; empty when there is none."""
    paths = [[start]]
    seen: set[str] = set()
    while paths:
        path = paths.pop()
        for parent in parents.get(path[-1], ()):
            if parent == start:
                return [*path, parent]
            if parent not in seen:
                seen.add(parent)
                paths.append([*path, parent])
    return []
