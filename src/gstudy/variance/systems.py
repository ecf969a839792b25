"""Whose variances they are: one system's own, or those that all systems share."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from gstudy.errors import QuantityError, explain
from gstudy.variance.latent import GAUSSIAN

if TYPE_CHECKING:
    from gstudy.variance.basis import Basis

__all__ = ["refuse_shared"]

_LARGEST_VARYING = 8


def refuse_shared(basis: Basis, system: str | None, what: str) -> None:
    """Refuse one system's numbers where all systems share their sds.

    With shared sds the ICC, the budget and the re-run noise of a system follow from its mean and
    the others' variances; in real data they do not.

    Parameters
    ----------
    basis : Basis
    system : str or None
        As the user gave it.
    what : str
        The quantity, in words.

    Raises
    ------
    QuantityError
        For a level of the object in a fit of several without sds of their own.
    """
    asked = basis.system if system is None else system
    latent = basis.latent
    # What is no text is refused where the system is looked up.
    if not isinstance(cast(object, asked), str) or basis.cells is None:
        return
    if latent is None or latent.own:
        return
    known = latent.object_effects
    if asked not in known or len(known) < 2:
        return
    name = basis.study.object
    mends = [f"fit each {name} alone by gs.fit_by(study, trials, by={name!r})"]
    if len(known) <= _LARGEST_VARYING and latent.family != GAUSSIAN:
        mends = [f"declare varies = {name!r} on a facet of the study and fit again", *mends]
    raise QuantityError(
        explain(
            f"the {what} of {asked!r} alone cannot come from a fit in which all {len(known)} "
            f"levels of {name} share their sds: they would not be variances of its own",
            allowed="None (the mean over the fitted ones) and 'new'",
            do=f"For own variances {', or '.join(mends)}.",
        )
    )
