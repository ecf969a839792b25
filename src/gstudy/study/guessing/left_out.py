"""Why a column is no facet, in a few words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gstudy.study.guessing import column_words as words
from gstudy.study.guessing.label_columns import determines
from gstudy.study.guessing.main_facets import SYSTEM, TASK

if TYPE_CHECKING:
    from gstudy.study.guessing.guessed_facets import Draft
    from gstudy.study.guessing.label_columns import LabelColumn

__all__ = ["why_left_out"]

_NUMBERS = 20
_SHOWN = 40


def why_left_out(draft: Draft, column: LabelColumn) -> str:
    """What a column holds that makes it no facet.

    Parameters
    ----------
    draft : Draft
        With all its facets.
    column : LabelColumn

    Returns
    -------
    str
    """
    if column.n_levels == 0:
        return "empty"
    fault = column.fault() or _texts(column)
    if fault is not None:
        return fault
    if column.n_levels == 1:
        return f"one value, {str(column.values[0])[:_SHOWN]!r}"
    if column.n_levels == draft.n_rows:
        return "a value of its own in every row"
    same = _same(draft, column)
    if same is not None:
        return same
    if column.fractional or (column.numeric and column.n_levels > _NUMBERS):
        return "numbers that differ between trials"
    if column.n_missing:
        return f"no value in {column.n_missing:,} rows"
    if words.holds_word(column.name, words.MEASURES):
        return "differs between trials of one kind: a result of the trial"
    return "differs between trials of one kind, and its name says nothing known"


def _texts(column: LabelColumn) -> str | None:
    if column.long:
        return "free text"
    return "dates or times" if column.dates else None


def _same(draft: Draft, column: LabelColumn) -> str | None:
    """Whether a facet, or two, tell what the column tells."""
    facets = [facet for facet in draft.facets if facet.n_levels > 1]
    for facet in facets:
        own = draft.columns[facet.column]
        if determines(own.codes, column):
            if own.n_levels == column.n_levels:
                return f"tells the same rows apart as {facet.name}"
            return f"an attribute of {facet.name}: each one has one value"
    pair = [facet.name for facet in facets if facet.name in (SYSTEM, TASK)]
    if len(pair) > 1 and determines(draft.codes(pair), column):
        return "one value for each system and task: it tells no more apart"
    others = [facet.name for facet in facets if facet.role != "error" and facet.name != "rollout"]
    if len(others) > len(pair) and determines(draft.codes(others), column):
        return f"one value for each {' x '.join(others)}: it tells no more apart"
    return None
