"""The design as found: which facets are crossed or nested, how full the cells are, the balance."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from gstudy.study.checking.splits import Splits
    from gstudy.study.declaration import Study
    from gstudy.study.index_sets import IndexSet

__all__ = ["CROSSED", "NESTED", "PARTLY_CROSSED", "UNDECLARED", "Layout", "Pairing", "find_layout"]

CROSSED = "crossed"
PARTLY_CROSSED = "partly crossed"
UNDECLARED = "nested, undeclared"
NESTED = "nested"


@dataclass(frozen=True, slots=True)
class Pairing:
    """How a facet lies to others in the data.

    Parameters
    ----------
    facet : str
    others : tuple of str
        The facet it is crossed with, or its parents.
    how : {"crossed", "partly crossed", "nested, undeclared", "nested"}
    filled, possible : int
        Crossed: cells with trials, and cells there could be. Nested: levels, and combinations of
        parents that hold them.
    least, median, most : float
        Trials per filled cell; of a nested facet, levels per combination of parents.
    """

    facet: str
    others: tuple[str, ...]
    how: str
    filled: int
    possible: int
    least: float
    median: float
    most: float


@dataclass(frozen=True, slots=True)
class Layout:
    """The design as found.

    Parameters
    ----------
    pairings : tuple of Pairing
        Facets with at least two levels: nested ones in their parents, then each crossed pair.
    facet_levels : dict of str to float
        Levels of each facet as a balanced design calls them: of a nested facet the mean number
        within one combination of its parents, of a counted one the mean number of trials.
    balanced : bool
        Every combination of levels holds the same number of trials.
    """

    pairings: tuple[Pairing, ...]
    facet_levels: dict[str, float]
    balanced: bool


def find_layout(study: Study, splits: Splits) -> Layout:
    """Read the design from the rows.

    Parameters
    ----------
    study : Study
    splits : Splits

    Returns
    -------
    Layout
    """
    records = splits.records
    labelled = [f.name for f in study.labelled]
    seen = [facet for facet in labelled if splits.is_sampled(facet)]
    nested = [_nested(facet, study, splits) for facet in seen if study.parents[facet]]
    pairs = [
        _crossed(a, b, study, splits)
        for a, b in itertools.combinations(seen, 2)
        if a not in study.closure(b)
        and b not in study.closure(a)
        # What the parents already tell would only be told again.
        and not splits.is_told_by_parents(a, b)
        and not splits.is_told_by_parents(b, a)
    ]
    levels = {facet: _n_within(facet, study, splits) for facet in records.facets}
    trials = records.trials
    full = len(trials) == round(float(np.prod(list(levels.values()))))
    even = all(pairing.least == pairing.most for pairing in nested)
    if records.counted:
        levels[records.counted] = _tidy(records.n_trials / len(trials))
    return Layout(
        pairings=(*nested, *pairs),
        facet_levels={facet: levels[facet] for facet in study.facet_names},
        balanced=bool(full and even and trials.min() == trials.max()),
    )


def _n_within(facet: str, study: Study, splits: Splits) -> float:
    whole = study.closure(facet)
    return _tidy(splits.of(whole).n_levels / splits.of(whole - {facet}).n_levels)


def _tidy(value: float) -> float:
    return int(value) if value == int(value) else value


def _nested(facet: str, study: Study, splits: Splits) -> Pairing:
    whole = study.closure(facet)
    parents = splits.of(whole - {facet})
    if facet == splits.records.counted:
        children = parents.totals(splits.records.trials)
        n_levels = splits.records.n_trials
        spread = _spread(children)
        return Pairing(facet, study.parents[facet], NESTED, n_levels, parents.n_levels, *spread)
    own = splits.of(whole)
    children = np.bincount(parents.index[own.first_rows()], minlength=parents.n_levels)
    return Pairing(
        facet, study.parents[facet], NESTED, own.n_levels, parents.n_levels, *_spread(children)
    )


def _crossed(a: str, b: str, study: Study, splits: Splits) -> Pairing:
    first, second = study.closure(a), study.closure(b)
    cells = splits.of(first | second)
    shared = splits.of(first & second)
    # Two facets nested in the same parents can only meet within them.
    sides = [
        np.bincount(shared.index[splits.of(side).first_rows()], minlength=shared.n_levels)
        for side in (first, second)
    ]
    possible = int((sides[0].astype(np.int64) * sides[1]).sum())
    trials = cells.totals(splits.records.trials)
    how = _how(first, second, cells.n_levels == possible, splits)
    return Pairing(a, (b,), how, cells.n_levels, possible, *_spread(trials))


def _how(first: IndexSet, second: IndexSet, full: bool, splits: Splits) -> str:
    if full:
        return CROSSED
    cells = splits.of(first | second)
    inside = any(cells.equals(splits.of(s)) and splits.is_repeated(s) for s in (first, second))
    return UNDECLARED if inside else PARTLY_CROSSED


def _spread(counts: npt.NDArray[np.integer]) -> tuple[float, float, float]:
    return float(counts.min()), float(np.median(counts)), float(counts.max())
