"""Systems that were run at different levels of a controlled facet: what may be compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gstudy.errors import QuantityError, explain
from gstudy.variance.trial_weights import level_shares

if TYPE_CHECKING:
    from gstudy.fits.fitted import Fit

__all__ = ["refuse_unlike", "unlike_levels"]

_SAME = 1e-9
_LISTED = 4


def unlike_levels(fits: Mapping[str, Fit]) -> tuple[str, ...]:
    """A sentence per controlled facet that the systems were run at unlike levels of.

    Parameters
    ----------
    fits : mapping of str to Fit
        Label of each system to the fit that knows it, one for all or one each.

    Returns
    -------
    tuple of str
    """
    notes = []
    for facet, shares in _by_facet(fits).items():
        every = {label for own in shares.values() for label in own}
        some = {name: own for name, own in shares.items() if set(own) != every}
        if some:
            told = [f"{name} at {', '.join(own)} only" for name, own in some.items()]
            more = f" and {len(told) - _LISTED} more" if len(told) > _LISTED else ""
            notes.append(
                f"Not all were run at all {len(every)} levels of {facet} "
                f"({'; '.join(told[:_LISTED])}{more}). A system's own score is over the levels "
                "that it was run at; differences and ranks over new levels take each at all of "
                f"them, which the model fills in: its own effect at a level of {facet} that it was "
                "never run at is a new draw from their sd."
            )
        elif _differ(shares):
            notes.append(
                f"The systems' scores weigh the levels of {facet} differently, each as it was "
                "run; differences and ranks over new levels weigh them as on average."
            )
    return tuple(notes)


def refuse_unlike(fits: Mapping[str, Fit]) -> None:
    """Separate fits are compared at the same levels of every controlled facet only.

    Raises
    ------
    QuantityError
        Naming the facet and what each system was run at.
    """
    for facet, shares in _by_facet(fits).items():
        first, *rest = shares
        for other in rest:
            if set(shares[other]) != set(shares[first]):
                raise QuantityError(
                    explain(
                        f"{first!r} and {other!r} were not run at the same levels of {facet}, so "
                        "that separate fits of them are of unlike scores",
                        given={first: sorted(shares[first]), other: sorted(shares[other])},
                        do=f"Keep the trials at the levels of {facet} that all share, or fit all "
                        "systems together by gs.fit.",
                    )
                )


def _differ(shares: Mapping[str, Mapping[str, float]]) -> bool:
    first, *rest = shares.values()
    return any(abs(own[label] - first[label]) > _SAME for own in rest for label in first)


def _by_facet(fits: Mapping[str, Fit]) -> dict[str, dict[str, dict[str, float]]]:
    """Per controlled facet, per system, the weight of each label in its reported score."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for system, fit in fits.items():
        for facet in fit.study.facets:
            if facet.role == "controlled" and facet.name != fit.study.counted:
                found.setdefault(facet.name, {})[system] = _shares(fit, system, facet.name)
    return found


def _shares(fit: Fit, system: str, facet: str) -> dict[str, float]:
    if facet in fit.design.pinned:
        return {fit.design.pinned[facet]: 1.0}
    shares = level_shares(fit.study, fit.design.cells, {facet})
    own = shares[system] if system in shares else next(iter(shares.values()))
    return {labels[0]: weight for labels, weight in own.items() if weight > 0}
