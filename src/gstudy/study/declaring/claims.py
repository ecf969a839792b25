"""What a facet claims beyond its role: a finite universe, and sds of each system's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gstudy.errors import DeclarationError, did_you_mean, explain
from gstudy.study.index_sets import close, nesting_rules

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gstudy.study.facets import Facet

__all__ = ["check_universes", "check_varying"]


def check_universes(facets: Sequence[Facet], counted: str | None) -> None:
    """A universe is of a facet whose levels are sampled and told apart.

    Raises
    ------
    DeclarationError
        For the object, a controlled facet and a counted one.
    """
    for facet in facets:
        if facet.universe is None:
            continue
        why = None
        if facet.role == "object":
            why = "the object's levels are measured, not sampled from a bank"
        elif facet.role == "controlled":
            why = "a controlled facet has all the levels that the claim is about"
        elif facet.name == counted:
            why = "its levels are only counted"
        if why:
            raise DeclarationError(
                explain(
                    f"facets.{facet.name}.universe has no meaning: {why}",
                    given=facet.universe,
                    allowed="a legitimate or error facet with labels",
                    do="Take it out.",
                )
            )


def check_varying(
    facets: Sequence[Facet], measured: str | None, counted: str | None, family: str
) -> None:
    """`varies` names the object, on a facet that each of its levels can have an sd of.

    Raises
    ------
    DeclarationError
        For another facet than the object; on the object, a parent of it, a controlled or a
        counted facet; and for graded scores.
    """
    rules = nesting_rules({facet.name: facet.nested_in for facet in facets})
    for facet in facets:
        if facet.varies is None:
            continue
        key = f"facets.{facet.name}.varies"
        if facet.varies != measured:
            raise DeclarationError(
                explain(
                    f"{key} does not name the object of measurement",
                    given=facet.varies,
                    allowed="no object is declared" if measured is None else f'"{measured}"',
                    do=_mend(facet.varies, measured),
                )
            )
        why = None
        if facet.role in ("object", "controlled"):
            why = f"a facet with the role {facet.role!r} has no sd of its own"
        elif facet.name == counted:
            why = "its levels are only counted, and have no sd"
        elif facet.name in close({measured}, rules):
            why = f"{measured!r} is nested in it, so that each {measured} has one level of it"
        if why:
            raise DeclarationError(
                explain(f"{key} has no meaning: {why}", given=facet.varies, do="Take it out.")
            )
        if family == "gaussian":
            raise DeclarationError(
                explain(
                    f"{key} is for 0/1 scores: graded ones have no own sds in one model",
                    given=facet.varies,
                    do=f"Take it out and fit each {measured} by itself: "
                    f"gs.fit_by(study, trials, by={measured!r}).",
                )
            )


def _mend(given: str, measured: str | None) -> str:
    if measured is None:
        return f'Write object = "{given}" at the top of the study.'
    return did_you_mean(given, [measured]) or f'Write varies = "{measured}", or take it out.'
