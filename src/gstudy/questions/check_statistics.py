"""Statistics of scores that a posterior check compares: functions of sums per cell."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from gstudy.study.partition import split
from gstudy.study.records import parents_first

if TYPE_CHECKING:
    from gstudy.questions.replicates import Array, Scores
    from gstudy.study.cells import Cells
    from gstudy.study.declaration import Study

__all__ = [
    "Groups",
    "Statistic",
    "agreement",
    "anova_iccs",
    "extreme_shares",
    "grouped",
    "rates",
    "slope",
    "spread",
]


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """Cells brought together by the levels of some facets.

    Parameters
    ----------
    order : int array (n,)
        The cells that count, group after group.
    starts : int array (n_groups,)
        Where in `order` each group begins.
    trials : int array (n_groups,)
    codes : int array (n_groups, n_facets)
        Codes of each group in all facets of the cells; of those it is not made by, of one cell.
    """

    order: npt.NDArray[np.intp]
    starts: npt.NDArray[np.intp]
    trials: npt.NDArray[np.int64]
    codes: npt.NDArray[np.int32]

    def totals(self, values: Array) -> Array:
        """Sums over the cells of each group; (..., n_cells) to (..., n_groups)."""
        return np.asarray(np.add.reduceat(values[..., self.order], self.starts, axis=-1))


@dataclass(frozen=True, slots=True, eq=False)
class Statistic:
    """One statistic of a table of scores, or the same of several levels of the object.

    Parameters
    ----------
    family : str
        "spread", "extremes", "agreement", "rate", "drift", "repeats" or "icc".
    names : tuple of str
        As they are printed.
    of : callable
        From `Scores` with arrays (..., n_cells) to an array (..., n_names).
    subjects : tuple of str
        The level of the object that each is of, "" for all of them.
    anew : frozenset of str
        Facets whose effects are drawn anew in its replicates.
    """

    family: str
    names: tuple[str, ...]
    of: Callable[[Scores], Array]
    subjects: tuple[str, ...] = ("",)
    anew: frozenset[str] = frozenset()


def grouped(
    cells: Cells,
    study: Study,
    facets: Iterable[str],
    mask: npt.NDArray[np.bool_] | None = None,
) -> Groups:
    """Groups of the cells that share their levels of some facets.

    Parameters
    ----------
    cells : Cells
    study : Study
    facets : iterable of str
        Those that the cells do not know are left out.
    mask : bool array (n_cells,), optional
        Cells that count.
    """
    members = frozenset(facets)
    places = np.arange(len(cells.trials)) if mask is None else np.flatnonzero(mask)
    columns = [
        cells.facets.index(facet)
        for facet in parents_first(cells.facets, study)
        if facet in members
    ]
    index = split(cells.codes[places], columns).index
    by_group = np.argsort(index, kind="stable")
    order = places[by_group]
    starts = np.flatnonzero(np.diff(index[by_group], prepend=-1))
    trials = np.add.reduceat(cells.trials[order], starts)
    return Groups(order, starts, trials, cells.codes[order[starts]])


def rates(groups: Groups) -> Callable[[Scores], Array]:
    """Mean score of each group, (..., n_groups)."""
    return lambda scores: groups.totals(scores.sums) / groups.trials


def spread(groups: Groups) -> Callable[[Scores], Array]:
    """Standard deviation over groups of their mean scores, divisor n - 1; (..., 1)."""
    mean = rates(groups)
    return lambda scores: np.asarray(mean(scores).std(axis=-1, ddof=1, keepdims=True))


def extreme_shares(groups: Groups) -> Callable[[Scores], Array]:
    """Shares of the groups with two trials or more in which all pass, and all fail; (..., 2)."""
    several = groups.trials > 1

    def shares(scores: Scores) -> Array:
        passes = groups.totals(scores.sums)[..., several]
        ends = passes == groups.trials[several], passes == 0
        return np.stack([end.mean(axis=-1) for end in ends], axis=-1)

    return shares


def agreement(whole: Groups, parts: Groups | None) -> Callable[[Scores], Array]:
    """Share of agreeing pairs among trials of one group that are of different parts; (..., 1).

    Parameters
    ----------
    whole : Groups
        Trials that share all but the judge.
    parts : Groups or None
        The same with the judge; None when trials of one judge are told apart by nothing, so that
        every pair counts.
    """

    def pairs(groups: Groups, scores: Scores) -> Array:
        # Ordered pairs of equal scores, a trial with itself included.
        passes = groups.totals(scores.sums)
        return (passes**2 + (groups.trials - passes) ** 2).sum(axis=-1, keepdims=True)

    own = whole.trials.sum() if parts is None else np.square(parts.trials).sum()
    n_pairs = float(np.square(whole.trials).sum() - own)

    def share(scores: Scores) -> Array:
        same = own if parts is None else pairs(parts, scores)
        return np.asarray((pairs(whole, scores) - same) / n_pairs)

    return share


def slope(levels: Groups, place: Array) -> Callable[[Scores], Array]:
    """Change of the mean score from the first to the last place, within parents; (..., 1).

    Parameters
    ----------
    levels : Groups
    place : array (n_groups,)
        From 0 to 1, centred within the parent of each level.
    """
    mean, weight = rates(levels), place / np.square(place).sum()
    return lambda scores: np.asarray(mean(scores) @ weight)[..., None]


def anova_iccs(groups: Groups, owner: npt.NDArray[np.intp]) -> Callable[[Scores], Array]:
    """One-way ANOVA ICC(1,1) of each owner's groups, (..., n_owners).

    ``(MSB - MSW) / (MSB + (n0 - 1) MSW)`` as in `anova_icc`; NaN where it is not defined.

    Parameters
    ----------
    groups : Groups
    owner : int array (n_groups,)
        From 0 up: the system of each group.
    """
    order = np.argsort(owner, kind="stable")
    starts = np.flatnonzero(np.diff(owner[order], prepend=-1))
    n = groups.trials.astype(float)

    def per_owner(values: Array) -> Array:
        return np.asarray(np.add.reduceat(values[..., order], starts, axis=-1))

    total, count = per_owner(n), per_owner(np.ones_like(n))
    n0 = _ratio(total - per_owner(n**2) / total, count - 1)

    def iccs(scores: Scores) -> Array:
        sums = groups.totals(scores.sums)
        levels = per_owner(sums**2 / n)
        between = _ratio(levels - per_owner(sums) ** 2 / total, count - 1)
        within = _ratio(per_owner(groups.totals(scores.squares)) - levels, total - count)
        return _ratio(between - within, between + (n0 - 1) * within)

    return iccs


def _ratio(part: Array, whole: Array) -> Array:
    whole = np.broadcast_to(whole, np.broadcast_shapes(np.shape(part), np.shape(whole)))
    ratio = np.divide(part, whole, out=np.full(whole.shape, np.nan), where=whole > 1e-12)
    return np.asarray(ratio)
