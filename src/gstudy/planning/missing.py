"""Missing trials: what a design has and the trials have not, and which judge scores it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd

from gstudy.planning.assignments import digit_sums, in_rotation, most_used, own_judges
from gstudy.planning.grids import codes_of, places_within
from gstudy.planning.labels import written
from gstudy.planning.run_requests import counted_key, roles_of, scoring_judge
from gstudy.study.records import natural_order
from gstudy.variance.patterns import below, unit_facets

if TYPE_CHECKING:
    from gstudy.planning.grids import Grid
    from gstudy.study.declaration import Study
    from gstudy.study.designs import Design

__all__ = ["KIND", "RUN", "SCORE_ONLY", "missing_trials", "run_facets", "target_trials"]

KIND = "kind"
RUN, SCORE_ONLY = "run", "score only"

Flags = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.intp]

_HAS = "there/"  # no facet's name may hold the mark


def run_facets(study: Study) -> list[str]:
    """The facets that tell runs apart: all but judges, and what is repeated within a run."""
    judge = scoring_judge(study)
    inside = frozenset() if judge is None else below(judge, study.facet_names, study.rules)
    repeats = {
        facet.name
        for facet in study.facets
        if facet.role == "error"
        and facet.nested_in
        and (study.closure(facet.name) - {facet.name}) & study.redrawn_on_rerun()
    }
    names = [facet.name for facet in study.labelled]
    return [name for name in names if name not in inside and name not in repeats]


def target_trials(grid: Grid, asked: Design, judge: str | None) -> pd.DataFrame:
    """Every trial of the design, over what exists and new levels."""
    if judge is None or asked.judges == "all":
        return grid.rows(grid.facets)
    inside = below(judge, grid.facets, grid.study.rules)
    units = grid.rows([facet for facet in grid.facets if facet not in inside])
    pairs = _assigned(grid, units, asked, judge)
    return grid.expanded(pairs, [f for f in grid.facets if f in inside and f != judge])


def _assigned(grid: Grid, units: pd.DataFrame, asked: Design, judge: str) -> pd.DataFrame:
    """Each unit with its judge."""
    known = natural_order(grid.used[judge].unique())
    pairs = grid.used[[*units.columns, judge]].drop_duplicates()
    places = {label: i for i, label in enumerate(known)}
    by = np.array([places[label] for label in pairs[judge]], dtype=np.intp)
    scored = codes_of(units, pairs), by
    if asked.judges == "one":
        return units.assign(**{judge: known[most_used(scored[1], len(known))]})
    taken = grid.taken[judge].unique()
    if asked.judges == "fresh":
        own = own_judges(len(units), scored, len(known))
        new = iter(written(judge, taken, int((own < 0).sum())))
        return units.assign(**{judge: [known[i] if i >= 0 else next(new) for i in own]})
    n = grid.wanted_levels(judge)
    labels = np.array([*known, *written(judge, taken, max(0, n - len(known)))], dtype=object)
    ways = [in_rotation(s, n, scored, len(labels)) for s in _sums(grid, units)]
    found = max(ways, key=lambda way: int((way[scored[0]] == scored[1]).sum()))
    return units.assign(**{judge: labels[found]})


def _sums(grid: Grid, units: pd.DataFrame) -> list[Codes]:
    """Sums of the digits of each unit: levels in natural order, and in that of their first trial.

    New levels are the last ones in both, and stay so under other names in the second.
    """
    study = grid.study
    facets = [f for f in unit_facets(roles_of(study), study.rules, study.object) if f in units]
    there = pd.concat([grid.used[list(units.columns)], units], ignore_index=True)
    found = []
    for rows in (units, there):
        digits = []
        for facet in facets:
            columns = [*grid.parents(facet), facet]
            levels = rows[columns].drop_duplicates()
            digit = places_within(levels, facet, columns[:-1])
            digits.append(digit[codes_of(levels, units)])
        found.append(digit_sums(digits, len(units)))
    return found


def _counted_cells(
    grid: Grid, asked: Design, target: pd.DataFrame, used: pd.DataFrame
) -> pd.DataFrame:
    """The same where trials are counted: rows with the number that a cell needs.

    Runs that a judge has not scored are those that another judge has of the same cell.
    """
    study, facets = grid.study, list(target.columns)
    runs = [facet for facet in run_facets(study) if facet in facets]
    there = used.groupby(facets, sort=False)["trials"].sum().rename(_HAS).reset_index()
    counts = target.merge(there, how="left", on=facets).fillna({_HAS: 0}).astype({_HAS: np.int64})
    has = counts[_HAS]
    made = counts.groupby(runs, sort=False)[_HAS].transform("max") if runs else has
    key = str(counted_key(study))
    n = asked[key] if key in asked else int(max(used["trials"].mode()))
    scored = np.maximum(np.minimum(made, n) - has, 0)
    parts = {SCORE_ONLY: scored, RUN: np.maximum(n - has - scored, 0)}
    column = str(study.trials)
    rows = [counts[facets].assign(**{column: k, KIND: kind}) for kind, k in parts.items()]
    found = pd.concat(rows).sort_index(kind="stable")
    return found[found[column] > 0]


def missing_trials(
    grid: Grid, asked: Design, target: pd.DataFrame, used: pd.DataFrame
) -> pd.DataFrame:
    """The rows of the target that do not exist, with their kind."""
    study = grid.study
    if study.score is None:
        return _counted_cells(grid, asked, target, used)
    facets = list(target.columns)
    absent = ~_among(target, used[facets])
    rows = target[absent]
    runs = [facet for facet in run_facets(study) if facet in facets]
    exists = _among(rows[runs], used[runs]) if runs else np.ones(len(rows), dtype=bool)
    return rows.assign(**{KIND: np.where(exists, SCORE_ONLY, RUN)})


def _among(rows: pd.DataFrame, others: pd.DataFrame) -> Flags:
    """Which rows are among others, which may repeat."""
    return codes_of(others.drop_duplicates(), rows) >= 0
