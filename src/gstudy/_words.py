"""Words of prose: plurals and lists of facets."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["listed", "plural"]


def plural(facet: str) -> str:
    """The plural of a facet's name, as prose needs it.

    >>> plural("task"), plural("query"), plural("judge_call"), plural("tasks")
    ('tasks', 'queries', 'judge_calls', 'tasks')
    """
    if facet.endswith("s") and not facet.endswith(("ss", "us", "is")):
        return facet
    if facet.endswith(("s", "x", "ch", "sh")):
        return f"{facet}es"
    if facet.endswith("y") and facet[-2:-1] not in set("aeiou"):
        return f"{facet[:-1]}ies"
    return f"{facet}s"


def listed(words: Sequence[str]) -> str:
    """Words as prose lists them.

    >>> listed(["tasks", "snapshots", "judges"])
    'tasks, snapshots and judges'
    """
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
