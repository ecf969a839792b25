"""Checks of what is assumed: names of components, and variances that a score can have."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from typing import TYPE_CHECKING

from gstudy.errors import QuantityError, did_you_mean, explain
from gstudy.study.index_sets import IndexSet
from gstudy.variance.decomposition import LOGIT, SCORE
from gstudy.variance.latent import GAUSSIAN
from gstudy.variance.structure import RESIDUAL

if TYPE_CHECKING:
    from gstudy.study.declaration import Study

__all__ = ["assumed_sets", "check_variances", "checked_mapping", "is_finite"]

# No score in [0, 1] varies more; no logit is worth more, and the kernel ends there.
_LARGEST = {SCORE: 0.25, LOGIT: 100.0**2}


def checked_mapping(name: str, value: object, example: str, *, empty: bool = True) -> None:
    """A mapping, or nothing; of components, a mapping that holds something.

    Raises
    ------
    QuantityError
        For anything else.
    """
    if value is None and empty:
        return
    if not isinstance(value, Mapping) or not (value or empty):
        raise QuantityError(
            explain(
                f"{name} is no mapping of names to numbers",
                given=value if isinstance(value, Mapping) else type(value).__name__,
                allowed=f"such as {example}",
            )
        )


def assumed_sets(
    study: Study, components: Mapping[str, float], held: IndexSet
) -> dict[IndexSet, float]:
    """Variances by index set; every name is understood, none twice.

    Parameters
    ----------
    study : Study
    components : mapping of str to float
        The residual is left out.
    held : frozenset of str
        Controlled facets with fixed effects, which interactions may hold.

    Returns
    -------
    dict of frozenset of str to float
        With controlled facets.

    Raises
    ------
    QuantityError
        For a name that is no component, and for two names of one.
    """
    found: dict[IndexSet, float] = {}
    for name, value in components.items():
        if name == RESIDUAL:
            continue
        whole = study.closure(_facets(study, name, held))
        if whole in found:
            raise QuantityError(
                explain(f"two values are given for {study.name_of(whole)!r}", given=name)
            )
        found[whole] = value
    return found


def check_variances(components: Mapping[str, float], scale: str, family: str) -> None:
    """Variances that are numbers, not negative, and not larger than any score's.

    Raises
    ------
    QuantityError
        For another one.
    """
    largest = math.inf if family == GAUSSIAN else _LARGEST[scale]
    for name, value in components.items():
        finite = is_finite(value)
        if not finite or not 0 <= value <= largest:
            raise QuantityError(
                explain(
                    f"the variance of {name!r} is not usable on the {scale} scale",
                    given=value,
                    allowed=f"numbers from 0 to {largest:g}"
                    if math.isfinite(largest)
                    else "numbers from 0 on",
                    do="Give variances, not standard deviations or shares." if finite else None,
                )
            )


def is_finite(value: object) -> bool:
    """Whether a value is a finite number, and no truth value."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    return math.isfinite(float(value))


def _facets(study: Study, name: str, held: IndexSet) -> list[str]:
    """The facets that a component's name holds, checked."""
    parts = [part.strip() for part in str(name).split(":")]
    for part in parts:
        if part not in study.facet_names:
            raise QuantityError(
                explain(
                    f"no component can be named {name!r}: {part!r} is no facet",
                    allowed=[*study.facet_names, RESIDUAL],
                    do=did_you_mean(part, [*study.facet_names, RESIDUAL]),
                )
            )
    _check_pinned(study, name, parts, held)
    return parts


def _check_pinned(study: Study, name: str, parts: list[str], held: IndexSet) -> None:
    """A controlled facet is part of a component where it has fixed effects, or is a parent."""
    pinned = [part for part in parts if study.facet(part).role == "controlled"]
    brought = study.closure([part for part in parts if part not in pinned])
    for part in pinned:
        if part not in held and part not in brought:
            raise QuantityError(
                explain(
                    f"{part!r} is controlled: it is pinned and has no variance",
                    given=name,
                    do=f"On the logit scale fixed={{{part!r}: {{level: effect}}}} gives it several "
                    "levels.",
                )
            )
    if len(pinned) == len(parts):
        raise QuantityError(
            explain(
                f"{name!r} is controlled: its levels have fixed effects and no variance",
                given=name,
                do="Leave it out; its interactions with other facets may be given.",
            )
        )
