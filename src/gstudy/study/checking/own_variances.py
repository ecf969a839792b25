"""Facets with own sds per level of the object: what the data must hold for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gstudy.errors import DeclarationError, explain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gstudy.study.checking.splits import Splits
    from gstudy.study.declaration import Study
    from gstudy.study.index_sets import IndexSet

__all__ = ["MOST_OBJECTS", "crossed_inside", "ignored_varying", "varying_here"]

# Correlations and sds of more systems than this are too many for one model.
MOST_OBJECTS = 8


def varying_here(study: Study, splits: Splits) -> dict[str, str]:
    """Facets with own sds in these data, and the object that they vary by.

    Parameters
    ----------
    study : Study
    splits : Splits

    Returns
    -------
    dict of str to str
        Empty when the object has one level: one sd is then its own.

    Raises
    ------
    DeclarationError
        When the object has more than 8 levels.
    """
    measured = study.object
    if not study.varying or measured is None or not splits.is_sampled(measured):
        return {}
    n_levels = splits.of(study.closure(measured)).n_levels
    if n_levels > MOST_OBJECTS:
        names = ", ".join(f"facets.{facet}.varies" for facet in study.varying)
        raise DeclarationError(
            explain(
                f"{names}: own sds and their correlations are for 2 to {MOST_OBJECTS} levels of "
                f"{measured}",
                given=f"{n_levels} levels",
                do=f"Fit each by itself: gs.fit_by(study, trials, by={measured!r}), with varies "
                f"taken out; or keep the trials of {MOST_OBJECTS}.",
            )
        )
    return study.varying


def ignored_varying(study: Study, splits: Splits) -> list[str]:
    """A note where own sds are declared and the object has one level."""
    measured = study.object
    if not study.varying or measured is None or splits.is_sampled(measured):
        return []
    facets = ", ".join(study.varying)
    return [f"varies of {facets} says nothing here: the trials hold one level of {measured}."]


def crossed_inside(varying: Mapping[str, str], study: Study, splits: Splits) -> dict[IndexSet, str]:
    """The object with each crossed facet that varies by it: sets inside that facet's component.

    Parameters
    ----------
    varying : mapping of str to str
        From :func:`varying_here`.
    study : Study
    splits : Splits

    Returns
    -------
    dict of frozenset of str to str
        The set, and the facet whose own effects are of it.

    Raises
    ------
    DeclarationError
        When each level of the facet occurs with one level of the object only, and when no level
        of the object has two trials of one level of the facet.
    """
    found: dict[IndexSet, str] = {}
    for facet, measured in varying.items():
        own = study.closure(facet)
        if measured in own or not splits.is_sampled(facet):
            continue
        both = own | study.closure(measured)
        if splits.of(both).equals(splits.of(own)):
            parents = ", ".join(f'"{name}"' for name in (measured, *study.parents[facet]))
            _refuse(
                facet,
                f"each {facet} occurs with one {measured} only, so that nothing is correlated",
                f"Declare it: [facets.{facet}] nested_in = [{parents}].",
            )
        if splits.most_trials(both) == 1:
            _refuse(
                facet,
                f"no {measured} has two trials of one {facet}, so that its own sd cannot be told "
                "from the chance of each trial",
                "Take varies out, or collect two or more trials in some of them.",
            )
        found[both] = facet
    return found


def _refuse(facet: str, what: str, do: str) -> None:
    raise DeclarationError(explain(f"facets.{facet}.varies: {what}", do=do))
