"""What to collect so that a component can be estimated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gstudy.study.checking.candidates import tops
from gstudy.study.components import (
    INSIDE_RESIDUAL,
    KEPT,
    MERGED,
    NOT_CROSSED,
    NOT_SAMPLED,
    TOO_FEW_CELLS,
    TOO_FEW_TRIALS,
    WEAK,
    Verdict,
)

if TYPE_CHECKING:
    from gstudy.study.checking.splits import Splits
    from gstudy.study.declaration import Study
    from gstudy.study.index_sets import IndexSet

__all__ = ["ENOUGH_LEVELS", "advise"]

# From this many levels on a component is no longer weak.
ENOUGH_LEVELS = 5


def advise(verdict: Verdict, merged: Sequence[IndexSet], splits: Splits) -> str:
    """What to collect, in one clause; "" when nothing is missing.

    Parameters
    ----------
    verdict : Verdict
    merged : sequence of frozenset of str
        The declared sets that split the rows as this one does, itself included.
    splits : Splits

    Returns
    -------
    str
    """
    study = splits.study
    names = tops(verdict.facets, study)
    one_level = [name for name in names if name in splits.one_level]
    if one_level and verdict.verdict in (NOT_SAMPLED, KEPT):
        return "" if one_level == [study.object] else _more_levels(one_level[0], 1, study)
    if verdict.verdict in (INSIDE_RESIDUAL, KEPT):
        return _repeat(names[-1], splits)
    if verdict.verdict.startswith(MERGED):
        return _separate(verdict.facets, merged, splits)
    if verdict.verdict == WEAK:
        return _weak(names, verdict.n_levels, study)
    if verdict.verdict == NOT_CROSSED:
        return _cross(names, splits)
    if verdict.verdict == TOO_FEW_CELLS:
        return f"more levels of {' or '.join(names)}"
    if verdict.verdict == TOO_FEW_TRIALS:
        return "two or more trials in most cells"
    return ""


def _more_levels(facet: str, found: int, study: Study) -> str:
    missing = ENOUGH_LEVELS - found
    parents = study.parents[facet]
    where = f" in each level of {', '.join(parents)}" if parents and found == 1 else ""
    return f"{missing} more level{'s' if missing > 1 else ''} of {facet}{where}"


def _weak(names: Sequence[str], n_levels: int, study: Study) -> str:
    if len(names) == 1:
        return _more_levels(names[0], n_levels, study)
    return f"more levels of {' or '.join(names)}"


def _repeat(facet: str, splits: Splits) -> str:
    """How a facet with one trial per level gets more."""
    study = splits.study
    scorers = [
        other.name
        for other in study.labelled
        if other.role == "error" and not other.nested_in and other.name not in study.closure(facet)
    ]
    how = f": score it with a second level of {scorers[0]}" if scorers else ""
    if facet == study.counted:
        return f"one row per level of {facet}, with two or more trials in some of them{how}"
    return f"two or more trials in some levels of {facet}{how}"


def _cross(names: Sequence[str], splits: Splits) -> str:
    """Which of two facets should occur with several levels of the other."""
    first, second = (splits.of(splits.study.closure(name)) for name in names)
    inner, outer = names if first.refines(second) else reversed(names)
    return f"levels of {inner} with more than one level of {outer}"


def _separate(own: IndexSet, merged: Sequence[IndexSet], splits: Splits) -> str:
    """What would make the merged sets split the rows differently."""
    study = splits.study
    other = next(whole for whole in merged if whole != own)
    small, large = sorted([own, other], key=len)
    if small < large:
        inner = [name for name in tops(large, study) if name not in small]
        within = study.name_of(splits.reduced(small))
        return f"two or more levels of {' or '.join(inner)} within a level of {within}"
    pair = [study.name_of(splits.reduced(whole)) for whole in (small, large)]
    return f"some levels of {pair[0]} with more than one level of {pair[1]}"
