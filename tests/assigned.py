"""Judge patterns row by row: every trial of a balanced design written down."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

import pandas as pd


def assigned(
    counts: Mapping[str, int],
    judges: str,
    *,
    judge: str = "judge",
    inside: Sequence[str] = (),
) -> pd.DataFrame:
    """One row per trial of one level of the object, with a label within its parents per facet.

    `inside` are the facets that are nested in the judge.
    """
    unit = [facet for facet in counts if facet != judge and facet not in inside]
    rows = []
    for place, digits in enumerate(itertools.product(*(range(counts[f]) for f in unit))):
        n_judges = counts.get(judge, 1)
        chosen = {
            "all": list(range(n_judges)),
            "one": [0],
            "round robin": [sum(digits) % n_judges],
            "fresh": [place],
        }[judges]
        below = itertools.product(*(range(counts[f]) for f in inside))
        rows += [
            dict(zip(unit, digits, strict=True))
            | {judge: j}
            | dict(zip(inside, lower, strict=True))
            for j, lower in itertools.product(chosen, list(below))
        ]
    return pd.DataFrame(rows)


def q_of(rows: pd.DataFrame, facets: Iterable[str]) -> float:
    """The sum over the levels of a set of the squared share of trials in it."""
    share = rows.groupby(list(facets)).size() / len(rows)
    return float((share**2).sum())
