"""Index sets: sets of facets that bring their parents along, and the names of components.

Everything that indexes a component (a latent effect, a score-scale share, a coefficient) is a
frozen set of facet names here; names are made from sets and never parsed with patterns.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

from gstudy.errors import QuantityError, did_you_mean, explain

__all__ = ["IndexSet", "Rule", "close", "closed_sets", "find_set", "set_name"]

IndexSet = frozenset[str]
Rule = tuple[IndexSet, IndexSet]
"""(trigger, whole): a set that contains `trigger` must contain `whole`."""


def close(facets: Iterable[str], rules: Sequence[Rule]) -> IndexSet:
    """The smallest set that holds `facets` and obeys every rule.

    >>> sorted(close({"rollout"}, [(frozenset({"rollout"}), frozenset({"rollout", "task"}))]))
    ['rollout', 'task']
    """
    current = frozenset(facets)
    while True:
        grown = current.union(*(whole for trigger, whole in rules if trigger <= current))
        if grown == current:
            return current
        current = grown


def nesting_rules(parents: Mapping[str, Sequence[str]]) -> list[Rule]:
    """One rule per nested facet: it brings its parents along."""
    return [
        (frozenset({child}), frozenset({child, *above}))
        for child, above in parents.items()
        if above
    ]


def closed_sets(facets: Sequence[str], rules: Sequence[Rule]) -> list[IndexSet]:
    """Every non-empty closed subset of `facets`, small sets first, in declared order."""
    seen: dict[IndexSet, None] = {}
    for size in range(1, len(facets) + 1):
        for combination in itertools.combinations(facets, size):
            seen.setdefault(close(combination, rules))
    order = {facet: i for i, facet in enumerate(facets)}
    return sorted(seen, key=lambda s: (len(s), sorted(order[f] for f in s)))


def set_name(index_set: Iterable[str], order: Sequence[str]) -> str:
    """Facets joined by ":" in declared order.

    >>> set_name({"rollout", "task"}, ["task", "rollout"])
    'task:rollout'
    """
    members = frozenset(index_set)
    return ":".join(facet for facet in order if facet in members)


def find_set(
    name: str, named: Mapping[str, IndexSet], order: Sequence[str], rules: Sequence[Rule]
) -> str:
    """The key of `named` that `name` means: itself, its facets in any order and with parents
    left out, or the last facet alone where that is unique.

    Raises
    ------
    QuantityError
        When nothing, or more than one thing, has that name.
    """
    if name in named:
        return name
    parts = frozenset(name.split(":"))
    if parts <= frozenset(order):
        whole = close(parts, rules)
        hits = [key for key, value in named.items() if value == whole]
        if len(hits) == 1:
            return hits[0]
    raise QuantityError(
        explain(
            f"no component is named {name!r}",
            allowed=named.keys(),
            do=did_you_mean(name, named.keys()),
        )
    )
