"""What a list of runs says beside its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from gstudy._words import plural

if TYPE_CHECKING:
    from gstudy.planning.grids import Grid
    from gstudy.study.designs import Design

__all__ = ["run_notes"]

_OTHER_JUDGES = (
    "Scores by other judges than the pattern's are not needed; those that exist stay in the trials "
    "unless they are taken out."
)
_LEFT_OUT = (
    "trials that failed or were never scored do not count as there: they are run again under new "
    "labels."
)


def run_notes(
    grid: Grid, asked: Design, judge: str | None, n_left_out: int, frame: pd.DataFrame
) -> tuple[str, ...]:
    """What was kept, what must be found first, and what to do with the results.

    Parameters
    ----------
    grid : Grid
    asked : Design
    judge : str or None
    n_left_out : int
        Trials that the study's policies leave out.
    frame : pandas.DataFrame
        The rows of the list.
    """
    notes = _kept_notes(grid, judge if asked.judges != "all" else None)
    notes += _new_notes(grid, frame)
    if asked.judges != "all":
        notes.append(_OTHER_JUDGES)
    if n_left_out:
        notes.append(f"{n_left_out:,} {_LEFT_OUT}")
    if grid.study.score is None and len(frame):
        notes.append("Add the results to the counts of their cells: one row for each.")
    return tuple(notes)


def _kept_notes(grid: Grid, apart: str | None) -> list[str]:
    """Facets of which more levels exist than the design has."""
    notes = []
    for facet in grid.facets:
        if facet not in grid.wanted or facet == apart:
            continue
        above, n = grid.parents(facet), grid.wanted[facet]
        levels = grid.used[[*above, facet]].drop_duplicates()
        sizes = levels.groupby(above).size() if above else pd.Series([len(levels)])
        more = int((sizes > n).sum())
        if more:
            where = f" in {more:,} of {len(sizes):,} combinations of its parents" if above else ""
            notes.append(
                f"Nothing is run for {facet} by itself{where}: {int(sizes.max()):,} "
                f"{plural(facet)} exist and the design has {n:,}; all are kept, and filled."
            )
    return notes


def _new_notes(grid: Grid, frame: pd.DataFrame) -> list[str]:
    """Levels that somebody must write or find."""
    notes = []
    for facet in grid.study.labelled:
        start = f"new {facet.name} "
        labels = frame[facet.source_column]
        columns = [grid.study.facet(f).source_column for f in (*grid.parents(facet.name),)]
        new = frame.loc[labels.astype(str).str.startswith(start), [*columns, facet.source_column]]
        n = len(new.drop_duplicates())
        if n:
            notes.append(
                f"{n:,} new {plural(facet.name) if n > 1 else facet.name} must be found or "
                f"written, called {start.strip()} 1 and so on until they have names."
            )
    return notes
