"""Two systems task by task: on which tasks each one is ahead, as observed and in the posterior."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from gstudy._words import plural
from gstudy.questions.banks import (
    Levels,
    common_levels,
    group_means,
    kept_facets,
    own_levels,
)
from gstudy.study.cells import joined_labels
from gstudy.variance.draws import Array
from gstudy.variance.trial_weights import object_rows

if TYPE_CHECKING:
    from gstudy.fits.fitted import Fit

__all__ = ["SURE", "Discordance", "aligned", "discordance_of", "levels_of"]

SURE = 0.95
"""Posterior probability from which on one of the two counts as better on a task."""

Key = tuple[Hashable, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Discordance:
    """Two systems on the levels that were run.

    Parameters
    ----------
    tasks : pandas.DataFrame
        One row per task that both ran: `n_A`, `n_B`, `rate_A`, `rate_B`, `difference`,
        `p_better`.
    difference : array (chain, draw)
        Expected score of B less that of A over all levels that were run.
    facet : str or None
        The facet whose levels are the tasks.
    n_levels : int
        Levels that `difference` is averaged over.
    common : bool
        Whether each system's score is over all of them, and not over its own.
    """

    tasks: pd.DataFrame
    difference: Array
    facet: str | None
    n_levels: int
    common: bool = True

    @property
    def counts(self) -> dict[str, int]:
        """Numbers of tasks: `a_ahead`, `b_ahead`, `equal` (observed), `a_better`, `b_better`
        (posterior probability over .95)."""
        gap, sure = self.tasks["difference"], self.tasks["p_better"]
        return {
            "a_ahead": int((gap < 0).sum()),
            "b_ahead": int((gap > 0).sum()),
            "equal": int((gap == 0).sum()),
            "a_better": int((sure < 1 - SURE).sum()),
            "b_better": int((sure > SURE).sum()),
        }

    def sentences(self, baseline: str, other: str) -> tuple[str, ...]:
        """The counts in words, none without shared tasks."""
        if not len(self.tasks) or self.facet is None:
            return ()
        n, found = len(self.tasks), self.counts
        name = plural(self.facet) if n != 1 else self.facet
        text = (
            f"{n:,} shared {name}: {other} is ahead on {found['b_ahead']:,}, {baseline} on "
            f"{found['a_ahead']:,}, equal on {found['equal']:,} (observed). Better with a "
            f"posterior probability over {100 * SURE:g}%: {other} on {found['b_better']:,}, "
            f"{baseline} on {found['a_better']:,}."
        )
        return (text,)


def discordance_of(
    fits: Mapping[str, Fit], labels: tuple[str, str], task: str | None, seed: int
) -> Discordance:
    """Compare two systems on the levels that were run.

    Parameters
    ----------
    fits : mapping of str to Fit
        The fit of each system: the same one twice, or separate ones.
    labels : tuple of str
        A and B.
    task : str or None
        The facet whose levels are compared one by one.
    seed : int
        Of effects on levels that one of the systems did not run.

    Returns
    -------
    Discordance
    """
    levels = levels_of(fits, labels)
    common = levels[labels[0]] is levels[labels[1]]
    own = [own_levels(fits[label], label, levels[label].facets) for label in labels]
    study = fits[labels[0]].study
    inside = frozenset() if task is None else study.closure(task)
    shared: list[Key] = []
    if task is not None and study.object not in inside:
        ran = [set(part.column(inside)) for part in own]
        shared = [key for key in dict.fromkeys(own[0].column(inside)) if key in ran[1]]
    scores = []
    for label in labels:
        groups = np.column_stack([levels[label].weights, _groups(levels[label], inside, shared)])
        scores.append(group_means(fits[label], label, levels[label], groups, seed))
    first, second = aligned(scores)
    better = (second > first)[..., 1:].mean(axis=(0, 1))
    return Discordance(
        tasks=_tasks(fits, labels, task, shared, better),
        difference=second[..., 0] - first[..., 0],
        facet=task,
        n_levels=len(levels[labels[0]].labels)
        if common
        else sum(len(part.labels) for part in levels.values()),
        common=common,
    )


def levels_of(fits: Mapping[str, Fit], labels: tuple[str, ...]) -> dict[str, Levels]:
    """The levels that systems are compared on: all that any of them ran, with common weights.

    Where a kept facet is nested in the object no level is common, and each has its own.

    Parameters
    ----------
    fits : mapping of str to Fit
        By label.
    labels : tuple of str

    Returns
    -------
    dict of str to Levels
    """
    facets = kept_facets(list(fits.values()))
    study = fits[labels[0]].study
    own = {label: own_levels(fits[label], label, facets) for label in labels}
    if any(study.object in study.closure(facet) for facet in facets):
        return own
    return dict.fromkeys(labels, common_levels(list(own.values())))


def aligned(draws: list[Array]) -> list[Array]:
    """Draws of separate fits, cut to as many chains and draws as all of them have."""
    chains, length = (min(array.shape[axis] for array in draws) for axis in (0, 1))
    return [array[:chains, :length] for array in draws]


def _groups(levels: Levels, inside: frozenset[str], keys: list[Key]) -> Array:
    """Weights of the levels in the mean of each task, (n_levels, n_tasks)."""
    place = {key: i for i, key in enumerate(keys)}
    groups = np.zeros((len(levels.labels), len(keys)))
    for row, key in enumerate(levels.column(inside)):
        if key in place:
            groups[row, place[key]] = levels.weights[row]
    return groups / groups.sum(axis=0)


def _tasks(
    fits: Mapping[str, Fit],
    labels: tuple[str, str],
    task: str | None,
    keys: list[Key],
    better: Array,
) -> pd.DataFrame:
    """Observed scores of both systems on each shared task."""
    counts = [_observed(fits[label], label, task, keys) for label in labels]
    (n_a, sum_a), (n_b, sum_b) = counts
    # Compared without division: 1 of 3 and 2 of 6 are equal.
    gap = np.where(sum_b * n_a == sum_a * n_b, 0.0, sum_b / n_b - sum_a / n_a)
    return pd.DataFrame(
        {
            "n_A": n_a.astype(int),
            "n_B": n_b.astype(int),
            "rate_A": sum_a / n_a,
            "rate_B": sum_b / n_b,
            "difference": gap,
            "p_better": better,
        },
        index=pd.Index(_names(keys), name=task or "task", dtype=object),
    )


def _observed(fit: Fit, label: str, task: str | None, keys: list[Key]) -> tuple[Array, Array]:
    """Trials and sum of the scores of one system on each task."""
    n, total = np.zeros(len(keys)), np.zeros(len(keys))
    if task is None or not keys:
        return n, total
    cells, place = fit.design.cells, {key: i for i, key in enumerate(keys)}
    rows = object_rows(cells, fit.study.object)
    inside = fit.study.closure(task)
    facets = [facet for facet in cells.facets if facet in inside]
    columns = [cells.facets.index(facet) for facet in facets]
    texts = [cells.labels[facet] for facet in facets]
    for row in rows.get(label, rows[next(iter(rows))]).tolist():
        key = tuple(own[cells.codes[row, c]] for own, c in zip(texts, columns, strict=True))
        if key in place:
            n[place[key]] += cells.trials[row]
            total[place[key]] += cells.successes[row]
    return n, total


def _names(keys: list[Key]) -> list[str]:
    """One text per task; of several facets the labels joined by ":"."""
    labels = [[str(key[i]) for key in keys] for i in range(len(keys[0]))] if keys else []
    codes = np.repeat(np.arange(len(keys), dtype=np.int32)[:, None], len(labels), axis=1)
    return joined_labels(labels, codes) if keys else []
