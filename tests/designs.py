"""Small studies and tables that several tests of the study room start from."""

from __future__ import annotations

import itertools
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

import gstudy as gs
from gstudy.errors import EstimabilityWarning

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gstudy.study.estimable import Assessment


def study_of(*facets: gs.Facet | str, **rest: Any) -> gs.Study:
    """A study of `score`; a name alone is a crossed legitimate facet."""
    declared = [gs.Facet(f, role="legitimate") if isinstance(f, str) else f for f in facets]
    return gs.Study(**{"score": "score", "facets": declared, **rest})


def within(name: str, *parents: str, role: str = "legitimate") -> gs.Facet:
    """A nested facet."""
    return gs.Facet(name, role=role, nested_in=parents)


def grid(levels: Mapping[str, Sequence[Any]], seed: int = 1) -> pd.DataFrame:
    """Every combination of labels, with scores drawn at random."""
    table = pd.DataFrame(itertools.product(*levels.values()), columns=list(levels))
    rng = np.random.default_rng(seed)
    return table.assign(score=rng.integers(0, 2, len(table)))


def checked(study: gs.Study, table: pd.DataFrame | gs.Trials) -> Assessment:
    """`gs.check` where a left-out component is no news."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimabilityWarning)
        return gs.check(study, table)


def verdicts(found: Assessment) -> dict[str, str]:
    """Verdict by name."""
    return {row.name: row.verdict for row in found.rows}
