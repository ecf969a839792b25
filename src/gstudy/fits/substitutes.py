"""Substitutes: what is given where a fit is needed, and what to do then."""

from __future__ import annotations

from os import PathLike

from gstudy.fits.many import Fits

__all__ = ["advice_on"]


def advice_on(given: object) -> str | None:
    """How to come from this to a fit; None where nothing is known of it."""
    if isinstance(given, str | PathLike):
        return "Load it first with gs.load(path)."
    if isinstance(given, Fits):
        one = f", such as fits[{given.labels[0]!r}]" if given.labels else ""
        return (
            f"Each level has a fit of its own: take one{one}, or gs.level_summary(fits) for score, "
            "ICC and re-run noise of all."
        )
    return None
