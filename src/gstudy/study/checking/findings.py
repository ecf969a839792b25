"""What a careful reader would ask about the trials before fitting: one sentence per finding."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from gstudy.study.checking.own_variances import ignored_varying

if TYPE_CHECKING:
    from gstudy.study.checking.splits import Splits
    from gstudy.study.declaration import Study
    from gstudy.study.partition import Partition
    from gstudy.study.records import Records

__all__ = ["findings"]

# A drift is told when the rank-order trend lies this many standard errors from none.
_DRIFT_Z = 3.0

# Labels, groups and pairs that a note spells out.
_SHOWN = 3


def findings(study: Study, splits: Splits) -> tuple[str, ...]:
    """Disconnected designs, undeclared nesting, runs declared crossed, drift over rollout order.

    Parameters
    ----------
    study : Study
    splits : Splits

    Returns
    -------
    tuple of str
        One note per finding, with what to do.
    """
    return (
        *ignored_varying(study, splits),
        *_disconnected(study, splits),
        *_undeclared_nesting(study, splits),
        *_crossed_runs(study, splits),
        *_drifts(study, splits),
        *_whole_scores(splits),
    )


def _disconnected(study: Study, splits: Splits) -> Iterable[str]:
    """Groups of objects that share no level of a facet they should be compared on."""
    if study.object is None or not splits.is_sampled(study.object):
        return
    own, redrawn = study.closure(study.object), study.redrawn_on_rerun()
    for facet in splits.records.facets:
        other = study.closure(facet)
        if not splits.is_sampled(facet) or study.object in other or facet in own | redrawn:
            continue
        groups = _connected(splits.of(own), splits.of(other))
        if groups.max() > 0:
            labels = _labels(study.object, splits)
            named = [_and([labels[i] for i in np.flatnonzero(groups == g)]) for g in range(2)]
            n = int(groups.max()) + 1
            example = "for example " if n > 2 else ""
            yield (
                f"{n} groups of {study.object} share no {facet}: {example}{named[0]} against "
                f"{named[1]}. Differences between the groups cannot be told from differences "
                f"between their levels of {facet}: run some {facet} levels with all of them."
            )


def _connected(first: Partition, second: Partition) -> npt.NDArray[np.int64]:
    """Group of each level of `first`, linked through common levels of `second`; from 0 up."""
    group: npt.NDArray[np.int64] = np.arange(first.n_levels)
    while True:
        reached = np.full(second.n_levels, first.n_levels)
        np.minimum.at(reached, second.index, group[first.index])
        lowest = group.copy()
        np.minimum.at(lowest, first.index, reached[second.index])
        if np.array_equal(lowest, group):
            return np.searchsorted(np.unique(group), group)
        group = lowest


def _undeclared_nesting(study: Study, splits: Splits) -> Iterable[str]:
    """Pairs declared crossed in which each level of one lies in one level of the other."""
    facets = [facet for facet in splits.records.facets if splits.is_sampled(facet)]
    for child, parent in itertools.permutations(facets, 2):
        low, high = study.closure(child), study.closure(parent)
        if parent in low or child in high or not splits.is_repeated(low):
            continue
        if splits.is_told_by_parents(child, parent):
            continue
        inner, outer = splits.of(low), splits.of(high)
        if inner.n_levels > outer.n_levels and inner.refines(outer):
            rows = inner.first_rows()
            # Two examples from two parents, where there are two.
            second = int(np.flatnonzero(outer.index[rows] != outer.index[rows[0]])[0])
            pairs = [
                f"{_label(child, rows[i], splits)} under {_label(parent, rows[i], splits)}"
                for i in (0, second)
            ]
            above = [*study.parents[child], parent]
            yield (
                f"each {child} occurs under one {parent} only ({', '.join(pairs)}), but they are "
                f"declared crossed. If {child} levels belong to {parent} levels, declare "
                f"it: [facets.{child}] nested_in = {_toml_list(above)}."
            )


def _crossed_runs(study: Study, splits: Splits) -> Iterable[str]:
    """The crossed facet that looks like a number of the run within all the others.

    Only in a study without any nested facet, and only the facet with the fewest levels: tasks
    and versions are numbered too, but then something else tells the runs apart.
    """
    if study.rollout is not None or study.score is None or any(study.parents.values()):
        return
    told = [f.name for f in study.labelled if f.role != "error" and splits.is_sampled(f.name)]
    own = [name for name in told if name != study.object]
    run = min(own, key=lambda name: len(splits.records.labels[name]), default=None)
    if run is None or len(own) < 2:
        return
    others = [name for name in told if name != run]
    if _counts_up(splits.records.labels[run]) and _starts_over(run, others, splits):
        yield (
            f"{run} is declared crossed: its level {splits.records.labels[run][0]!r} is the same "
            f"in every {' and '.join(others)}. If {run} only numbers the runs within each of "
            f"them, declare it: [facets.{run}] nested_in = {_toml_list(others)}."
        )


def _counts_up(labels: Sequence[str]) -> bool:
    """Whether labels are 0, 1, 2, ... or 1, 2, 3, ..."""
    return any(list(labels) == [str(i + start) for i in range(len(labels))] for start in (0, 1))


def _starts_over(facet: str, others: Sequence[str], splits: Splits) -> bool:
    """Whether the levels of a facet count up from the first in each combination of others."""
    within = splits.of(others)
    pairs = splits.of({*others, facet})
    rows = pairs.first_rows()
    group = within.index[rows]
    code = splits.records.codes[rows, splits.records.facets.index(facet)]
    highest = np.zeros(within.n_levels, dtype=np.int64)
    np.maximum.at(highest, group, code)
    sizes = np.bincount(group, minlength=within.n_levels)
    return bool(np.all(sizes == highest + 1) and np.median(sizes) > 1)


def _drifts(study: Study, splits: Splits) -> Iterable[str]:
    for facet in splits.records.facets:
        if facet in study.redrawn_on_rerun() and _is_numbered(splits.records.labels[facet]):
            yield from _drift(facet, study, splits)


def _whole_scores(splits: Splits) -> Iterable[str]:
    """Graded scores that are all 0 or 1."""
    records = splits.records
    if records.graded is None or splits.known_errors or not _are_whole(records):
        return
    yield (
        "every score is 0 or 1: the noise of such a score follows from its rate, which the default "
        'family = "binary" knows and "gaussian" does not.'
    )


def _are_whole(records: Records) -> bool:
    """Whether all graded scores are 0 or 1; of counted trials from their mean and squares, which
    are then m and n m (1 - m)."""
    assert records.graded is not None
    mean = records.graded.mean
    if not records.is_file_counted:
        return bool(np.isin(mean, (0.0, 1.0)).all())
    expected = records.trials * mean * (1.0 - mean)
    return bool((np.abs(records.graded.squares - expected) <= 1e-9 * records.trials).all())


def _is_numbered(labels: Sequence[str]) -> bool:
    return len(labels) > 1 and all(label.isascii() and label.isdigit() for label in labels)


def _drift(facet: str, study: Study, splits: Splits) -> Iterable[str]:
    """Trend of the pass rate over the order of a nested facet's labels, within its parents."""
    whole = study.closure(facet)
    own, parents = splits.of(whole), splits.of(whole - {facet})
    if own.n_levels == len(splits.records.labels[facet]) and parents.n_levels > 1:
        # Unique numbers under every parent are identifiers, not an order.
        return
    rate = own.sums(splits.records.successes) / own.totals(splits.records.trials)
    group = parents.index[own.first_rows()]
    place = _places(group)
    within = study.name_of(whole - {facet})
    z = _trend(place, rate, group)
    early, late = rate[place < 1 / 3], rate[place > 2 / 3]
    if abs(z) > _DRIFT_Z and len(early) and len(late):
        graded = study.family == "gaussian"
        score = "mean score" if graded else "pass rate"
        first, last = (
            f"{part.mean():.4g}" if graded else f"{part.mean():.1%}" for part in (early, late)
        )
        yield (
            f"the {score} drifts over {facet} order: {first} in the first third, "
            f"{last} in the last (z = {z:+.1f} within {within}). Levels "
            f"of {facet} are then no repeats of one another: look for a cache, a rate "
            f"limit or a changed snapshot, and declare what changed as a facet."
        )


def _places(group: npt.NDArray[np.integer]) -> npt.NDArray[np.float64]:
    """Place of each level in its group's order, from 0 to 1; 0.5 when it is alone."""
    order = np.argsort(group, kind="stable")
    sizes = np.bincount(group)
    starts = np.cumsum(sizes) - sizes
    rank = np.empty(len(group))
    rank[order] = np.arange(len(group)) - np.repeat(starts, sizes)
    steps = np.maximum(sizes[group] - 1, 1)
    places: npt.NDArray[np.float64] = np.where(sizes[group] > 1, rank / steps, 0.5)
    return places


def _trend(
    place: npt.NDArray[np.float64], rate: npt.NDArray[np.float64], group: npt.NDArray[np.integer]
) -> float:
    """Stratified permutation z of the covariance of place and rate within groups.

    With deviations within groups, ``T = sum x y`` has mean 0 and variance
    ``sum_g (sum x^2)(sum y^2) / (n_g - 1)`` when rates are exchangeable within a group.
    """
    sizes = np.bincount(group)

    def centred(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        means = np.bincount(group, weights=values) / sizes
        deviations: npt.NDArray[np.float64] = values - means[group]
        return deviations

    x, y = centred(place), centred(rate)
    squares = [np.bincount(group, weights=v**2) for v in (x, y)]
    variance = float((squares[0] * squares[1] / np.maximum(sizes - 1, 1)).sum())
    return float((x * y).sum() / np.sqrt(variance)) if variance > 0 else 0.0


def _labels(facet: str, splits: Splits) -> list[str]:
    """One quoted label per level of a facet, with its parents' labels."""
    rows = splits.of(splits.study.closure(facet)).first_rows()
    return [_label(facet, row, splits) for row in rows]


def _label(facet: str, row: int, splits: Splits) -> str:
    records, whole = splits.records, splits.study.closure(facet)
    parts = [
        records.labels[name][records.codes[row, i]]
        for i, name in enumerate(records.facets)
        if name in splits.reduced(whole)
    ]
    return repr(":".join(parts))


def _and(texts: Sequence[str]) -> str:
    shown = list(texts[:_SHOWN])
    if len(texts) > _SHOWN:
        shown.append(f"{len(texts) - _SHOWN} more")
    return ", ".join(shown)


def _toml_list(names: Sequence[str]) -> str:
    return "[" + ", ".join(f'"{name}"' for name in names) + "]"
