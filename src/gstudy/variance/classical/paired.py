"""The difference of two systems on shared tasks, split into data noise and re-run noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import TYPE_CHECKING

import numpy as np

from gstudy._words import listed
from gstudy.display import Shown, Table, number
from gstudy.errors import QuantityError, did_you_mean, explain
from gstudy.variance.classical.noise_split import NoiseSplit, TaskScores, p_value, root, split_noise
from gstudy.variance.classical.score_rows import (
    ScoreRows,
    check_frame,
    declared,
    label_of,
    object_column,
    score_rows,
)
from gstudy.variance.draws import Array

if TYPE_CHECKING:
    import pandas as pd

    from gstudy.study.declaration import Study
    from gstudy.study.trials import Trials

__all__ = ["PairedNoise", "paired_noise"]

DIFFERENCE = "B - A"

# So many tasks are listed before "and 7 more".
_LISTED = 3


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PairedNoise(Shown):
    """Data and re-run noise of two systems and of their difference; point values, score scale.

    Parameters
    ----------
    A, B : str
        The systems; A is the baseline.
    splits : mapping of str to NoiseSplit
        By "A", "B" and "B - A".
    rollouts : float or None
        Rollouts of each task that the second standard error is of; None: as collected, where
        tasks have different numbers.
    paired_p, unpaired_p : float
        Two-sided normal p values of the scores as collected.
    tasks : tuple of str
        The tasks that are used.
    notes : tuple of str
        Which tasks are left out, and what else a reader must know.
    graded : bool
        Whether scores may be other than 0 and 1.
    """

    A: str
    B: str
    splits: Mapping[str, NoiseSplit]
    rollouts: float | None
    paired_p: float
    unpaired_p: float
    tasks: tuple[str, ...]
    notes: tuple[str, ...]
    graded: bool

    @property
    def scale(self) -> str:
        """Always the score scale."""
        return "score"

    @property
    def difference(self) -> NoiseSplit:
        """The difference B - A."""
        return self.splits[DIFFERENCE]

    def summary(self) -> pd.DataFrame:
        """One row for A, B and B - A.

        Returns
        -------
        pandas.DataFrame
            Index `score`: "A", "B", "B - A"; columns `system`, `mean`, `data`, `rerun`, `total`
            (variances, squared score units) and the standard errors `se_one` (one rollout of each
            task), `se_rollouts` (as many as `rollouts` says), `se_data` (unlimited rollouts) and
            `se_rerun` (these tasks, one rollout). `attrs` name scale, estimand and rollouts.
        """
        import pandas as pd

        rows = [
            {
                "mean": one.mean,
                "data": one.data,
                "rerun": one.rerun,
                "total": one.total,
                "se_one": one.standard_error(1),
                "se_rollouts": one.standard_error(self.rollouts),
                "se_data": root(one.data / one.n_tasks),
                "se_rerun": root(one.rerun / one.n_tasks),
            }
            for one in self.splits.values()
        ]
        frame = pd.DataFrame(rows, index=pd.Index(list(self.splits), name="score"))
        frame.insert(0, "system", [self.A, self.B, ""])
        frame.attrs.update(
            scale=self.scale,
            estimand="mean score over tasks",
            interval=None,
            level=None,
            rollouts=self.rollouts,
        )
        return frame

    def table(self) -> Table:
        """The table that is printed."""
        second = "SE collected" if self.rollouts is None else f"SE {self.rollouts:g} rollouts"
        headers = {
            "system": "system",
            "mean": "mean",
            "data": "data",
            "rerun": "re-run",
            "se_one": "SE 1 rollout",
            "se_rollouts": second,
        }
        if self.rollouts == 1:
            del headers["se_rollouts"]
        error = "number3" if self.graded else "points2"
        variance = "number4" if self.graded else "decimal4"
        formats = dict.fromkeys(("data", "re-run"), variance)
        formats |= {"mean": "number4" if self.graded else "percent1", "system": "text"}
        formats |= dict.fromkeys(("SE 1 rollout", second), error)
        return Table(
            frame=self.summary()[list(headers)].rename(columns=headers),
            title=f"Data and re-run noise of {self.A} (A) and {self.B} (B), point values",
            scale=self.scale,
            notes=(self._reading(), self._tests(), *self.notes),
            formats=formats,
        )

    def _reading(self) -> str:
        return (
            f"Variances of one rollout of one task: between tasks (data) and between rollouts of "
            f"a task (re-run). SE: of the mean of {len(self.tasks):,} tasks."
        )

    def _tests(self) -> str:
        return (
            f"B - A as collected, two-sided normal p: paired {number(self.paired_p)}, unpaired "
            f"{number(self.unpaired_p)}."
        )


def paired_noise(
    trials: Trials | pd.DataFrame,
    A: str,
    B: str,
    *,
    study: Study | None = None,
    task: str | None = None,
    system: str | None = None,
    score: str | None = None,
    rollouts: float | None = None,
    family: str | None = None,
) -> PairedNoise:
    """Split the variance of two systems' difference on shared tasks into data and re-run noise.

    Parameters
    ----------
    trials : Trials or pandas.DataFrame
        With `study` anything that the study reads; else a table with the columns that are named
        here, a row per rollout.
    A, B : str
        Two systems; A is the baseline.
    study : Study, optional
        Names the object, the tasks and what a re-run draws anew, and counts failed trials. Judge
        calls within a rollout are averaged first.
    task : str, optional
        The facet of tasks: by default "task", or the one that a re-run of the study keeps.
    system : str, optional
        The facet of systems: by default "system", or the study's object.
    score : str, optional
        Without a study, the column of scores: "score" by default.
    rollouts : float, optional
        Rollouts of each task for the second standard error; by default those collected.
    family : {"binary", "gaussian"}, optional
        What scores are, without a study: 0/1 by default, "gaussian" for graded ones.

    Returns
    -------
    PairedNoise

    Raises
    ------
    QuantityError
        For an unknown facet or system, fewer than two tasks that both systems did with two
        rollouts or more, another facet that varies within a task, a number of rollouts below 1,
        and as `gstudy.clustered_se`.
    DataError
        When a table does not fit the study, and for labels that collide.

    Notes
    -----
    Of tasks that both systems did at least twice, n of them with K rollouts each: a system's
    re-run noise is the mean variance within a task (divisor K - 1), its data noise the variance
    of its task means (divisor n) less re-run noise / K. For 0/1 scores both add to m (1 - m). Of
    the difference, re-run noise is the sum of the two, data noise the variance of the task means'
    difference less re-run noise / K. ``SE = sqrt((data + rerun / K) / n)``. With unequal K, the
    mean of each task's own term is taken off. p values: normal, variances with divisor n - 1,
    paired by task or not (the estimator of Wang 2025, arXiv 2512.21326).

    Examples
    --------
    >>> import pandas as pd
    >>> import gstudy as gs
    >>> table = pd.DataFrame(
    ...     {
    ...         "task": list("aabbcc") * 2,
    ...         "system": ["old"] * 6 + ["new"] * 6,
    ...         "score": [0, 1, 1, 1, 0, 0, 1, 1, 1, 1, 0, 1],
    ...     }
    ... )
    >>> gs.paired_noise(table, "old", "new").summary()[["data", "rerun"]].round(3).loc["B"].tolist()
    [-0.028, 0.167]
    """
    # Named columns read a table by themselves.
    study = declared(trials, study) if score is None else study
    objects = object_column(trials, study, system, needed=True)
    assert objects is not None
    rows = _rows(trials, study, family, score, [task or "task", objects])
    rows.has(objects)
    A, B = label_of(A), label_of(B)
    _check_pair(rows, objects, A, B)
    groups = {name: part for name, part in rows.groups(objects).items() if name in (A, B)}
    task = _task_facet(rows, objects) if task is None else task
    rows.has(task)
    unit = _unit(rows, task, objects)
    _check_within(groups, objects, unit)
    scores, names, notes = _shared_tasks({A: groups[A], B: groups[B]}, unit, task)
    return _result(A, B, scores, names, notes, rollouts, rows.graded)


def _result(
    A: str,
    B: str,
    scores: Sequence[TaskScores],
    names: Sequence[str],
    notes: Sequence[str],
    rollouts: float | None,
    graded: bool,
) -> PairedNoise:
    a, b = scores
    parts = [(one.means, one.within, one.within / one.rollouts) for one in scores]
    both = tuple(y + x for x, y in zip(parts[0][1:], parts[1][1:], strict=True))
    splits = {
        "A": split_noise(*parts[0]),
        "B": split_noise(*parts[1]),
        DIFFERENCE: split_noise(b.means - a.means, both[0], both[1]),
    }
    change, n = splits[DIFFERENCE], len(names)
    separate = (splits["A"].collected + splits["B"].collected) / (n - 1)
    counts = np.concatenate([a.rollouts, b.rollouts])
    told = [*notes]
    if np.ptp(counts) > 0:
        told.append(
            f"Tasks have {counts.min():.0f} to {counts.max():.0f} rollouts: each has the same "
            "weight in a mean."
        )
    below = [name for name, one in splits.items() if one.data < 0]
    told += _constant(splits)
    if below:
        told.append(
            f"Negative data noise, left as computed: {', '.join(below)}. Task means vary less "
            "than rollouts of one task would make them."
        )
    return PairedNoise(
        A=A,
        B=B,
        splits=splits,
        rollouts=_per_task(rollouts, counts),
        paired_p=p_value(change.mean, change.collected / (n - 1)),
        unpaired_p=p_value(change.mean, separate),
        tasks=tuple(names),
        notes=tuple(told),
        graded=graded,
    )


def _constant(splits: Mapping[str, NoiseSplit]) -> list[str]:
    """That some scores do not vary at all, so that there is no noise to split and no test."""
    still = [name for name, one in splits.items() if one.total == 0 and one.collected == 0]
    if not still:
        return []
    names = listed([name for name in still if name != DIFFERENCE])
    text = (
        f"The scores of {names} do not vary: their noise is 0 here, which is not to say that it "
        "is 0 on other tasks (gs.fit has an interval)."
    )
    told = [text]
    if DIFFERENCE in still:
        told.append("Without any variance there is no p value.")
    return told


def _rows(
    trials: Trials | pd.DataFrame,
    study: Study | None,
    family: str | None,
    score: str | None,
    columns: Sequence[str],
) -> ScoreRows:
    from gstudy.study.trials import Trials

    if study is not None:
        if score is not None:
            raise QuantityError(
                explain("the study names the score", given=score, do="Leave score out.")
            )
        return _averaged(score_rows(trials, study, family), study)
    if score is not None:
        table = trials.rows("this estimate") if isinstance(trials, Trials) else trials
        check_frame(table)
        if score not in table:
            raise QuantityError(
                explain(
                    f"there is no column {score!r}",
                    allowed=[str(column) for column in table.columns],
                    do=did_you_mean(score, map(str, table.columns)),
                )
            )
        taken = [*columns, *(["outcome"] if "outcome" in table else [])]
        trials = table[[name for name in taken if name in table]].assign(score=table[score])
    return score_rows(trials, None, family, columns)


def _averaged(rows: ScoreRows, study: Study) -> ScoreRows:
    """One row per rollout: the mean of what was scored of it."""
    redrawn = study.redrawn_on_rerun().intersection(rows.facets)
    first = {f for f in redrawn if not (study.closure(f) - {f}) & redrawn}
    if not first:
        return rows
    inner = frozenset(rows.facets) - redrawn | study.closure(first)
    runs = rows.by([name for name in rows.facets if name in inner])
    if runs.n_levels == rows.n_trials:
        return rows
    totals, counts, _ = rows.sums(runs)
    means = totals / counts
    return replace(
        rows,
        codes=rows.codes[runs.first_rows()],
        totals=means,
        squares=means**2,
        counts=np.ones(len(means)),
    )


def _check_pair(rows: ScoreRows, objects: str, A: str, B: str) -> None:
    facets = rows.level_facets(objects)
    known = rows.level_names(rows.by(facets), facets)
    for name in (A, B):
        if name not in known:
            raise QuantityError(
                explain(
                    f"no {objects} is called {name!r}", allowed=known, do=did_you_mean(name, known)
                )
            )
    if A == B:
        raise QuantityError(explain("a system is compared with itself", given=A, allowed=known))


def _task_facet(rows: ScoreRows, objects: str) -> str:
    """The facet that a re-run of the study keeps; "task" without a study."""
    study = rows.study
    if study is None:
        return "task"
    redrawn = study.redrawn_on_rerun()
    kept = [
        name
        for name in rows.facets
        if name != objects and name not in redrawn and len(rows.labels[name]) > 1
    ]
    leaves = [name for name in kept if not any(name in study.closure(x) for x in kept if x != name)]
    if len(leaves) == 1:
        return leaves[0]
    raise QuantityError(
        explain(
            "it is not clear which facet the tasks are",
            given=leaves or list(rows.facets),
            do='Name it: task="...".',
        )
    )


def _unit(rows: ScoreRows, task: str, objects: str) -> tuple[str, ...]:
    """The facets whose labels make a task."""
    facets = rows.level_facets(task)
    if objects in facets:
        raise QuantityError(
            explain(
                f"{task!r} is nested in {objects!r}: two systems share no task",
                given=task,
                allowed="task: a facet whose levels both systems do",
            )
        )
    return facets


def _check_within(groups: Mapping[str, ScoreRows], objects: str, unit: Sequence[str]) -> None:
    """Refuse a facet that is neither of the task nor drawn anew: its levels are no re-runs."""
    for rows in groups.values():
        if rows.study is None:
            return
        free = rows.study.redrawn_on_rerun() | {objects, *unit}
        tasks = rows.by(unit).n_levels
        for name in rows.facets:
            if name not in free and rows.by([*unit, name]).n_levels > tasks:
                raise QuantityError(
                    explain(
                        f"{name!r} varies within {unit[-1]!r}: its levels are no re-runs",
                        do=f"Take one level of {name!r}, or average over them first; gs.fit has a "
                        "variance for each facet.",
                    )
                )


def _shared_tasks(
    groups: Mapping[str, ScoreRows], unit: Sequence[str], task: str
) -> tuple[list[TaskScores], list[str], list[str]]:
    """Both systems' scores on the tasks that each did at least twice, and what is left out."""
    parts = {name: rows.by(unit) for name, rows in groups.items()}
    labels = {name: rows.level_names(parts[name], unit) for name, rows in groups.items()}
    sums = {name: rows.sums(parts[name]) for name, rows in groups.items()}
    place = {name: {label: i for i, label in enumerate(found)} for name, found in labels.items()}
    (one, first), (other, second) = labels.items()
    shared = [label for label in first if label in place[other]]
    alone = [label for label in [*first, *second] if label not in set(shared)]
    twice = [
        label
        for label in shared
        if min(sums[name][1][place[name][label]] for name in (one, other)) > 1
    ]
    once = [label for label in shared if label not in set(twice)]
    if len(twice) < 2:
        _refuse(len(shared), len(twice), len(once), task)
    notes = []
    if once:
        notes.append(_without(once, task, "one rollout only by A or B, so no variance within"))
    if alone:
        notes.append(_without(alone, task, "not done by both"))
    scores = []
    for name in (one, other):
        rows = [place[name][label] for label in twice]
        totals, counts, apart = (values[rows] for values in sums[name])
        scores.append(TaskScores(totals / counts, apart / (counts - 1), counts))
    return scores, twice, notes


def _refuse(shared: int, twice: int, once: int, task: str) -> None:
    raise QuantityError(
        explain(
            f"fewer than two levels of {task!r} have two rollouts or more by A and by B: with one "
            "rollout, data noise and re-run noise cannot be told apart",
            given=f"{shared} done by both, {once} of them once only, {twice} at least twice",
            do="Collect a second rollout of each task.",
        )
    )


def _without(labels: Sequence[str], task: str, why: str) -> str:
    more = f" and {len(labels) - _LISTED:,} more" if len(labels) > _LISTED else ""
    noun = "level" if len(labels) == 1 else "levels"
    return f"Left out, {len(labels):,} {task} {noun} ({why}): {', '.join(labels[:_LISTED])}{more}."


def _per_task(rollouts: object, counts: Array) -> float | None:
    if rollouts is None:
        return float(counts[0]) if np.ptp(counts) == 0 else None
    value = float(rollouts) if isinstance(rollouts, Real) else float("nan")
    if isinstance(rollouts, bool) or not 1 <= value < float("inf"):
        raise QuantityError(
            explain("rollouts is no number of them", given=rollouts, allowed="numbers from 1")
        )
    return value
