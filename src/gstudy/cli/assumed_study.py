"""A declaration where only variances were given: what the names of their facets imply."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from gstudy._words import listed
from gstudy.errors import QuantityError, explain
from gstudy.study.guessing.column_words import JUDGES, OBJECTS, ROLLOUTS, normal_name

if TYPE_CHECKING:
    from gstudy.study.declaration import Study

__all__ = ["facet_rows", "implied_mean", "implied_study"]

_RESIDUAL = "residual"
_LARGEST = 0.25


def implied_study(components: Iterable[str]) -> Study:
    """Facets that are crossed, but for rollouts and calls of a judge, which are nested.

    Parameters
    ----------
    components : iterable of str
        Such as "task", "rollout" and "task:judge".

    Returns
    -------
    Study
        A rollout, an epoch or a run is nested in all that it can be a repeat of, a call of a judge
        (`judge_call`) in everything; judges are errors, and a system is what is measured.

    Examples
    --------
    >>> study = implied_study(["task", "judge", "rollout"])
    >>> study.facet("rollout").nested_in, study.facet("judge").role
    (('task',), 'error')
    """
    from gstudy.study.declaration import Study
    from gstudy.study.facets import Facet

    parts = [part.strip() for name in components for part in name.split(":")]
    names = [name for name in dict.fromkeys(parts) if name != _RESIDUAL]
    kinds = {name: _kind(name) for name in names}
    measured = next((name for name in names if kinds[name] == "object"), None)
    facets = [
        Facet(
            name,
            role="error" if kinds[name] in ("judge", "call") else "legitimate",
            nested_in=_parents(name, kinds),
        )
        for name in names
        if name != measured
    ]
    return Study(score="passed", object=measured, facets=facets)


def implied_mean(components: Mapping[str, float]) -> float:
    """The larger mean with which a 0/1 score has the sum of these variances.

    Raises
    ------
    QuantityError
        When no 0/1 score varies so much.

    Examples
    --------
    >>> round(implied_mean({"task": 0.10, "rollout": 0.14}), 3)
    0.6
    """
    total = sum(components.values())
    # Negative variances are refused where they are read.
    if total > _LARGEST or not total > 0:
        raise QuantityError(
            explain(
                f"the variances add up to {total:.4g}, which no 0/1 score has",
                allowed=f"a sum above 0 and up to {_LARGEST}",
                do="Give variances, not standard deviations or shares; on the logit scale --mu.",
            )
        )
    return float(0.5 + (0.25 - total) ** 0.5)


def facet_rows(study: Study) -> list[tuple[str, str]]:
    """Each facet with its role and what it is nested in, in words."""
    rows = []
    for facet in study.facets:
        inside = f", new in each {listed(list(facet.nested_in))}" if facet.nested_in else ""
        role = "what is measured" if facet.name == study.object else facet.role
        rows.append((facet.name, f"{role}{inside}"))
    return rows


def _kind(name: str) -> str:
    """What a name is of: "object", "judge", "call", "rollout" or "other"."""
    word = normal_name(name)
    if word in OBJECTS:
        return "object"
    if word in JUDGES:
        return "judge"
    if word.split("_")[0] in JUDGES:
        return "call"
    return "rollout" if word in ROLLOUTS else "other"


def _parents(name: str, kinds: Mapping[str, str]) -> list[str]:
    """What a repeat is a repeat of; of several repeats each is nested in those before it."""
    own = kinds[name]
    if own not in ("rollout", "call"):
        return []
    outer = ("object", "other") if own == "rollout" else ("object", "other", "judge", "rollout")
    before = list(kinds)[: list(kinds).index(name)]
    return [f for f, kind in kinds.items() if kind in outer or (kind == own and f in before)]
