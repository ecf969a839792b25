"""Outcomes: what the two policies make of trials that failed or were never scored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt
import pandas as pd

from gstudy.errors import DataError, explain
from gstudy.study.records import natural_order

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gstudy.study.declaration import Study
    from gstudy.study.reading.source_rows import Source

__all__ = ["Settled", "settle", "usable_trials"]

Flags = npt.NDArray[np.bool_]

# So many names are listed before "and 7 more".
_LISTED = 5


@dataclass(frozen=True, slots=True, eq=False)
class Settled:
    """Trials after the two policies.

    Parameters
    ----------
    usable : pandas.DataFrame
        A column of labels per facet, then `successes` and `trials` (int64; of graded scores
        `successes` is float64, maybe with `standard_error`); one row per used row.
    counts : pandas.DataFrame
        Index: the object's levels, or "all"; columns n_rows, n_used, n_failed, n_unscored.
    notes : tuple of str
        One line for each thing that a reader of the numbers must know; empty if all were scored.
    failed_runs : dict
        As `Trials.failed_runs`.
    """

    usable: pd.DataFrame
    counts: pd.DataFrame
    notes: tuple[str, ...]
    failed_runs: dict[str, float | None]


def settle(table: pd.DataFrame, study: Study, source: Source) -> Settled:
    """Apply `on_failed_run` and `on_missing_score` to a long table.

    Parameters
    ----------
    table : pandas.DataFrame
        As `Trials.table` holds it.
    study : Study
    source : Source
        Where they come from, for errors.

    Returns
    -------
    Settled

    Raises
    ------
    DataError
        When a policy is "raise" and there is such a trial, when a reason has no policy, when a
        row of counts failed without a number of trials, and when no trial is left.
    """
    groups, failed, unscored, policies, used = _judged(table, study, source)
    notes = [
        *_failed_notes(table, failed, policies, groups, study, source),
        *_unscored_notes(unscored, groups, source),
        *_lost_levels(table, used, study),
    ]
    counts = _counts(groups, used, failed, unscored, source)
    usable = _usable(table, used, study, source)
    return Settled(usable, counts, tuple(notes), _failed_runs(table, failed, source))


def usable_trials(table: pd.DataFrame, study: Study, source: Source) -> pd.DataFrame:
    """`Settled.usable` alone: notes and counts take longer, and were told when trials were read.

    Parameters
    ----------
    table, study, source
        As in `settle`, whose errors it raises.
    """
    return _usable(table, _judged(table, study, source).used, study, source)


class _Judged(NamedTuple):
    """The object of each row, what came of it, the policy that it falls under, and whether it
    counts."""

    groups: pd.Series
    failed: Flags
    unscored: Flags
    policies: npt.NDArray[np.object_]
    used: Flags


def _judged(table: pd.DataFrame, study: Study, source: Source) -> _Judged:
    outcome = table["outcome"].to_numpy(dtype=object)
    failed, unscored = outcome == "failed", outcome == "unscored"
    groups = _objects(table, study)
    policies = _failed_policies(table, failed, study, source)
    _refuse_failed(table, failed & (policies == "raise"), groups, source, study)
    if study.on_missing_score == "raise":
        _refuse_unscored(unscored, groups, source)
    incorrect = failed & (policies == "incorrect")
    _refuse_uncounted(table, incorrect, source)
    _refuse_unweighed(table, incorrect, source)
    used = ~(failed | unscored) | incorrect
    if not used.any():
        _refuse_nothing_left(failed, unscored, source)
    return _Judged(groups, failed, unscored, policies, used)


def _usable(table: pd.DataFrame, used: Flags, study: Study, source: Source) -> pd.DataFrame:
    rows = table.loc[used]
    names = [facet.name for facet in study.labelled if facet.name in table]
    kept = rows[names].reset_index(drop=True)
    if study.score is None:
        successes, trials = rows["successes"].to_numpy(), rows["trials"].to_numpy()
    else:
        # A failed run that is used is one without a score: it counts as 0.
        graded = study.family == "gaussian"
        successes = np.nan_to_num(rows["score"].to_numpy())
        trials = _multiples(source, len(table))[used]
        successes = successes if graded else successes.astype(np.int64) * trials
    kept = kept.assign(successes=successes, trials=trials)
    if "squares" in table:
        kept = kept.assign(squares=np.nan_to_num(rows["squares"].to_numpy()))
    if study.standard_error is None:
        return kept
    return kept.assign(standard_error=rows["standard_error"].to_numpy())


def _multiples(source: Source, n_rows: int) -> npt.NDArray[np.int64]:
    """How many trials each row of the table is: 1, but where alike rows are told once."""
    return np.ones(n_rows, dtype=np.int64) if source.alike is None else source.alike.rows


def _objects(table: pd.DataFrame, study: Study) -> pd.Series:
    """The level of the object that each row belongs to, "all" without an object."""
    if study.object is None:
        return pd.Series("all", index=table.index, dtype="str")
    return _levels(table, study.object, study).rename(study.object)


def _levels(table: pd.DataFrame, facet: str, study: Study) -> pd.Series:
    """The level of a facet in each row: its label, after those of its parents if it is nested."""
    own = study.closure(facet)
    names = [name for name in study.facet_names if name in own and name != facet]
    level: pd.Series = table[facet]
    for name in reversed(names):
        level = table[name] + ":" + level
    return level


def _failed_policies(
    table: pd.DataFrame, failed: Flags, study: Study, source: Source
) -> npt.NDArray[np.object_]:
    """What is done with each row if it failed."""
    policy = study.on_failed_run
    if isinstance(policy, str):
        return np.full(len(table), policy, dtype=object)
    reasons = table["reason"].to_numpy(dtype=object)
    for reason in pd.unique(reasons[failed]):
        if reason not in policy:
            rows = np.flatnonzero(failed & (reasons == reason))
            written = f'"{reason}"'
            raise DataError(
                explain(
                    f"{source.name}, {source.row(int(rows[0]))}: the run failed for a reason that "
                    f"on_failed_run does not name ({source.count(rows):,} such rows)",
                    given=reason,
                    allowed=policy,
                    do=f'Add {written} = "incorrect" (score 0) or {written} = "drop" to '
                    "on_failed_run in [model].",
                )
            )
    return np.array([policy.get(reason, "raise") for reason in reasons], dtype=object)


def _refuse_failed(
    table: pd.DataFrame, wrong: Flags, groups: pd.Series, source: Source, study: Study
) -> None:
    if not wrong.any():
        return
    first = int(np.argmax(wrong))
    reason = table["reason"].iloc[first]
    as_incorrect, dropped = _told_rates(table, wrong, study, source)
    raise DataError(
        explain(
            f"{source.name}: {_how_many(wrong, groups, source)} are failed runs, the first "
            f"{source.row(first)}{f' ({reason})' if reason else ''}; nothing says how they count",
            allowed=f'on_failed_run = "incorrect" (score 0: {as_incorrect}) or "drop" '
            f"({dropped}), or one of them per reason",
            do='Write it in [model] of the study, such as on_failed_run = "incorrect".',
        )
    )


def _told_rates(
    table: pd.DataFrame, failed: Flags, study: Study, source: Source
) -> tuple[str, str]:
    """The score if failed runs count as 0, and if they are dropped, as an error tells it."""
    rates = _rates(table, failed, source)
    if study.family == "gaussian":
        as_zero, dropped = ("none" if rate is None else f"mean {rate:.4g}" for rate in rates)
    else:
        as_zero, dropped = ("none" if rate is None else f"{rate:.1%}" for rate in rates)
        as_zero, dropped = f"{as_zero} pass", f"{dropped} pass"
    return as_zero, dropped


def _rates(table: pd.DataFrame, failed: Flags, source: Source) -> tuple[float | None, float | None]:
    """Mean score if failed runs count as incorrect, and if they are dropped; None of no trial."""
    passed, total, extra = _sums(table, failed, source)
    whole = total + extra
    return passed / whole if whole else None, passed / total if total else None


def _sums(table: pd.DataFrame, failed: Flags, source: Source) -> tuple[float, int, int]:
    """Sum of scores, and numbers of scored and of failed trials."""
    if "score" in table:
        scores = table["score"].to_numpy()
        total = float(np.nansum(scores * _multiples(source, len(table))))
        return total, source.count(~np.isnan(scores)), source.count(failed)
    trials = table["trials"].to_numpy()
    extra = int(trials[failed].sum())
    return float(table["successes"].to_numpy().sum()), int(trials.sum()) - extra, extra


def _failed_runs(table: pd.DataFrame, failed: Flags, source: Source) -> dict[str, float | None]:
    """What failed runs do to the score under each policy; nothing when none failed."""
    if not failed.any():
        return {}
    _, total, extra = _sums(table, failed, source)
    as_incorrect, dropped = _rates(table, failed, source)
    share = extra / (total + extra) if total + extra else None
    return {"n_failed": extra, "share": share, "incorrect": as_incorrect, "drop": dropped}


def _refuse_unscored(unscored: Flags, groups: pd.Series, source: Source) -> None:
    if not unscored.any():
        return
    raise DataError(
        explain(
            f"{source.name}: {_how_many(unscored, groups, source)} were never scored, the first "
            f"{source.row(int(np.argmax(unscored)))}",
            allowed='on_missing_score = "drop"',
            do='Score them, or write on_missing_score = "drop" in [model] of the study. If the '
            'run failed, say so in a column: outcome = "failed".',
        )
    )


def _refuse_uncounted(table: pd.DataFrame, incorrect: Flags, source: Source) -> None:
    """A row of counts that failed says how many trials failed with it."""
    if "trials" not in table:
        return
    rows = np.flatnonzero(incorrect & (table["trials"].to_numpy() == 0))
    if rows.size:
        raise DataError(
            explain(
                f"{source.name}, {source.row(int(rows[0]))}: the row failed and counts as "
                f"incorrect, but its number of trials is missing ({rows.size:,} such rows)",
                do='Fill it in, or write on_failed_run = "drop" in [model] of the study.',
            )
        )


def _refuse_unweighed(table: pd.DataFrame, incorrect: Flags, source: Source) -> None:
    """A failed run that counts as 0 is weighed by its standard error like any other score."""
    if "standard_error" not in table:
        return
    rows = np.flatnonzero(incorrect & np.isnan(table["standard_error"].to_numpy()))
    if rows.size:
        raise DataError(
            explain(
                f"{source.name}, {source.row(int(rows[0]))}: the run failed and counts as score "
                f"0, but has no standard error ({rows.size:,} such rows)",
                do='Fill it in, or write on_failed_run = "drop" in [model] of the study.',
            )
        )


def _refuse_nothing_left(failed: Flags, unscored: Flags, source: Source) -> NoReturn:
    """No trial is left: names the policies that dropped them."""
    dropped = {"on_failed_run": failed, "on_missing_score": unscored}
    policies = [policy for policy, rows in dropped.items() if rows.any()]
    why = ", and at why nothing was scored" if unscored.any() else ""
    raise DataError(
        explain(
            f"no trial of {source.name} can be used",
            given=f"{source.count(failed):,} failed, {source.count(unscored):,} never scored",
            do=f"Look at {' and '.join(policies)}{why}.",
        )
    )


def _how_many(flags: Flags, groups: pd.Series, source: Source) -> str:
    whole = source.n_rows(flags.size)
    return f"{source.count(flags):,} of {whole:,} rows{_by_group(flags, groups, source)}"


def _by_group(flags: Flags, groups: pd.Series, source: Source) -> str:
    """Rows per level of the object, most first; nothing without an object."""
    if groups.name is None:
        return ""
    counts = _value_counts(groups, flags, source)
    return f" ({_listed(f'{level}: {n:,}' for level, n in counts.items())})"


def _value_counts(values: pd.Series, flags: Flags, source: Source) -> pd.Series:
    """Rows of the source per value, most first; as many in the order of their first rows."""
    if source.alike is None:
        return values[flags].value_counts()
    rows = pd.Series(source.alike.rows[flags])
    counts = rows.groupby(values[flags].to_numpy(), sort=False).sum()
    return counts.sort_values(ascending=False, kind="stable")


def _listed(texts: Iterable[str]) -> str:
    every = list(texts)
    more = f" and {len(every) - _LISTED:,} more" if len(every) > _LISTED else ""
    return ", ".join(every[:_LISTED]) + more


def _failed_notes(
    table: pd.DataFrame,
    failed: Flags,
    policies: npt.NDArray[np.object_],
    groups: pd.Series,
    study: Study,
    source: Source,
) -> list[str]:
    notes = []
    zero = "counted as score 0" if study.family == "gaussian" else "counted as incorrect"
    for policy, verb in (("incorrect", zero), ("drop", "dropped")):
        rows = failed & (policies == policy)
        if rows.any():
            why, n = _reasons(_value_counts(table["reason"], rows, source)), source.count(rows)
            runs = "failed run" if n == 1 else "failed runs"
            notes.append(f"{n:,} {runs}{why} {verb}{_by_group(rows, groups, source)}")
    return notes


def _reasons(counts: pd.Series) -> str:
    """Why runs failed, the most frequent reason first; nothing if none was given."""
    if len(counts) == 1:
        return f" ({counts.index[0]})" if counts.index[0] else ""
    return f" ({_listed(f'{reason or "no reason"}: {n:,}' for reason, n in counts.items())})"


def _unscored_notes(unscored: Flags, groups: pd.Series, source: Source) -> list[str]:
    if not unscored.any():
        return []
    n = source.count(unscored)
    rows = "row" if n == 1 else "rows"
    return [f"{n:,} {rows} never scored, dropped{_by_group(unscored, groups, source)}"]


def _lost_levels(table: pd.DataFrame, used: Flags, study: Study) -> list[str]:
    """Levels without any trial left; those of rollouts go with their one trial anyway."""
    if used.all():
        return []
    notes = []
    for facet in study.labelled:
        if facet.name in study.redrawn_on_rerun() or facet.name not in table:
            continue
        level = _levels(table, facet.name, study)
        lost = natural_order(set(level[~used]) - set(level[used]))
        if lost:
            noun = "level has" if len(lost) == 1 else "levels have"
            notes.append(f"{len(lost):,} {facet.name} {noun} no trial left: {_listed(lost)}")
    return notes


def _counts(
    groups: pd.Series, used: Flags, failed: Flags, unscored: Flags, source: Source
) -> pd.DataFrame:
    rows = _multiples(source, len(groups))
    named = {
        "n_rows": np.ones(len(groups), bool),
        "n_used": used,
        "n_failed": failed,
        "n_unscored": unscored,
    }
    codes, levels = pd.factorize(groups, sort=True)
    sums = {
        name: np.bincount(codes, weights=rows * flag, minlength=len(levels)).astype(np.int64)
        for name, flag in named.items()
    }
    counts = pd.DataFrame(sums, index=pd.Index(levels, name=groups.name))
    return counts.loc[natural_order(str(level) for level in counts.index)]
