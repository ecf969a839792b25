"""Logs of one run: shards, retries and copies make one table, each sample taken once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gstudy.study.logs.log_files import LogRows

__all__ = ["merged_runs"]

_SAMPLE = ("benchmark", "system", "task", "rollout")
_ROW = (*_SAMPLE, "judge", "metric")
_LISTED = 4


def merged_runs(logs: Sequence[LogRows]) -> tuple[list[pd.DataFrame], list[str]]:
    """The tables of logs, without the samples that another log of the same run has better.

    A sample that is in several logs of one run is taken from one: one where it was scored before
    one where it failed, then the newest. Scores by a judge who is in another log only are kept.

    Parameters
    ----------
    logs : sequence of LogRows

    Returns
    -------
    frames : list of pandas.DataFrame
        One per log, in their order.
    notes : list of str
    """
    frames = [log.frame for log in logs]
    notes: list[str] = []
    for places in _groups(logs):
        table = pd.concat([frames[i].assign(_log=i) for i in places], ignore_index=True)
        kept = _kept(table, {i: rank for rank, i in enumerate(_by_age(logs, places))})
        dropped = int((~kept).sum())
        names = [str(frames[i]["file"].iloc[0]) for i in places]
        notes.append(_note(names, dropped))
        for i in places:
            frames[i] = frames[i][kept[table["_log"].to_numpy() == i]].reset_index(drop=True)
    return frames, notes


def _by_age(logs: Sequence[LogRows], places: Sequence[int]) -> list[int]:
    def age(i: int) -> tuple[str, int]:
        run = logs[i].run
        # Of copies of one log the first is taken.
        return (run.created if run else "", -i)

    return sorted(places, key=age)


def _groups(logs: Sequence[LogRows]) -> list[list[int]]:
    """Places of logs that share an id, directly or through others; only groups of several."""
    group = list(range(len(logs)))

    def root(i: int) -> int:
        while group[i] != i:
            i = group[i]
        return i

    first: dict[str, int] = {}
    for i, log in enumerate(logs):
        for own in log.run.ids if log.run else ():
            a, b = root(first.setdefault(own, i)), root(i)
            group[max(a, b)] = min(a, b)
    found: dict[int, list[int]] = {}
    for i in range(len(logs)):
        found.setdefault(root(i), []).append(i)
    return [places for places in found.values() if len(places) > 1]


def _kept(table: pd.DataFrame, rank: dict[int, int]) -> np.ndarray:
    """Which rows are taken."""
    sample = _codes(table, _SAMPLE)
    row = _codes(table, _ROW)
    log = table["_log"].to_numpy()
    age = np.array([rank[i] for i in log])
    scored = (table["outcome"] == "scored").to_numpy()
    # A sample of one log stands by its best row, so that its judges come from one log.
    own = pd.Series(scored).groupby([sample, log]).transform("max").to_numpy()
    worth = pd.Series(own * (len(rank) + 1) + age)
    best = worth.groupby(sample).transform("max").to_numpy() == worth.to_numpy()
    # Further judges of a sample, scored in a log that was not taken: the newest such row.
    extra = scored & ~np.isin(row, row[best])
    newest = pd.Series(np.where(extra, age, -1)).groupby(row).transform("max").to_numpy()
    kept: np.ndarray = best | (extra & (age == newest))
    return kept


def _codes(table: pd.DataFrame, names: Sequence[str]) -> np.ndarray:
    there = [name for name in names if name in table]
    codes: np.ndarray = table.groupby(there, dropna=False, sort=False).ngroup().to_numpy()
    return codes


def _note(names: list[str], dropped: int) -> str:
    listed = ", ".join(names[:_LISTED]) + (" ..." if len(names) > _LISTED else "")
    again = (
        f"{dropped:,} rows of samples that are in several were left out, a scored one kept before "
        "one that failed, then the newest"
        if dropped
        else "no sample is in two of them"
    )
    return f"{len(names)} logs are shards, retries or copies of one run ({listed}): {again}"
