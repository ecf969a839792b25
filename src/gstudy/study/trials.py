"""Trials: the long table that every reader makes and everything else starts from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from gstudy.errors import DataError, explain
from gstudy.study.declaration import checked_study
from gstudy.study.logs.as_trials import from_logs, logs_notes, refuse_two_runs
from gstudy.study.outcomes import settle, usable_trials
from gstudy.study.reading.counted_rows import SQUARES
from gstudy.study.reading.duplicates import refuse_counted_duplicates, refuse_duplicates
from gstudy.study.reading.graded_scores import read_errors, read_graded
from gstudy.study.reading.labels import Labels, read_labels
from gstudy.study.reading.large_files import (
    advice_without_duckdb,
    is_large,
    open_counted,
    repeated_facet,
)
from gstudy.study.reading.readers import read_columns
from gstudy.study.reading.said_outcomes import read_said_outcomes
from gstudy.study.reading.scores import read_counts, read_scores
from gstudy.study.reading.source_rows import Alike, Source
from gstudy.study.reading.wanted_columns import WantedColumns

if TYPE_CHECKING:
    from gstudy.study.declaration import Study
    from gstudy.study.reading.counted_rows import CountedRows

__all__ = ["Trials", "read_trials"]

Flags = npt.NDArray[np.bool_]

_SCORE_KEYS = ("score", "successes", "trials", "standard_error")
_SAID = ("outcome", "reason")

# Distinct scores that a binary column may hold, and labels of rollouts that are all looked at.
_MOST_SCORES = 10_000
_MOST_LABELS = 2_000_000


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Trials:
    """The trials of a study, as they were recorded.

    Parameters
    ----------
    table : pandas.DataFrame
        One row per row of the source: a column of labels (text) per facet, then `score` (0, 1,
        NaN; of graded scores any number) and maybe its `standard_error`, or `successes` and
        `trials` (int64); then `outcome` ("scored", "failed", "unscored") and `reason` ("" if none
        was given).
    source : str
        The file, or "DataFrame".
    counts : pandas.DataFrame
        Index: the object's levels, or "all"; columns n_rows, n_used, n_failed, n_unscored.
    notes : tuple of str
        How failed and unscored trials counted, and which levels lost all their trials.
    failed_runs : mapping
        Empty without failed runs; else their number `n_failed`, their `share` of the scored and
        failed trials, and the mean score of all trials if they count as `incorrect` (0) and if
        they are left out (`drop`; None if nothing is left).
    study : Study, optional
        The declaration that they were read with.
    counted : str, optional
        Of a file that was counted outside of memory the facet that told repeated trials apart,
        such as rollouts: `table` has no column of it, and a row per distinct row of the others.
    alike : Alike, optional
        How many rows of that file each row of `table` is, and the first of them.
    of_logs : tuple of str
        The notes that the logs brought: they stay when the trials are read again.
    """

    table: pd.DataFrame
    source: str
    counts: pd.DataFrame
    notes: tuple[str, ...] = ()
    failed_runs: Mapping[str, float | None] = field(default_factory=dict)
    study: Study | None = None
    counted: str | None = None
    alike: Alike | None = None
    of_logs: tuple[str, ...] = ()

    def usable(self, study: Study) -> pd.DataFrame:
        """The trials that count under the study's two policies.

        Parameters
        ----------
        study : Study

        Returns
        -------
        pandas.DataFrame
            A column of labels per facet, then `successes` and `trials` (int64, 1 for a score).
            Graded scores are in `successes` (float64), maybe with their `standard_error`.

        Raises
        ------
        DataError
            When a policy is "raise" and there is such a trial, when no trial is left, and when
            the trials were read for a study with other facets.
        """
        _check_columns(self, study)
        return usable_trials(self.table, study, Source(self.source, alike=self.alike))

    def rows(self, what: str) -> pd.DataFrame:
        """The long table, for what needs every trial by itself.

        Parameters
        ----------
        what : str
            What needs it, for the error.

        Raises
        ------
        DataError
            When the trials were counted outside of memory.
        """
        if self.counted is None:
            return self.table
        raise DataError(
            explain(
                f"{what} needs every trial by itself, and those of {self.source} were counted "
                f"without their {self.counted}",
                given=f"{len(self):,} trials in {len(self.table):,} distinct rows",
                do="Read them into memory: gs.read_trials(source, study, counted=False), or a "
                "part of them.",
            )
        )

    def part(self, chosen: npt.NDArray[Any], study: Study) -> Trials:
        """Some rows of the table, as the trials of a study of their own."""
        table = self.table[chosen].reset_index(drop=True)
        alike = None if self.alike is None else self.alike.part(chosen)
        bare = replace(self, notes=(), failed_runs={}, of_logs=())
        return replace(bare, table=table, study=study, alike=alike)

    def __len__(self) -> int:
        return Source("", alike=self.alike).n_rows(len(self.table))

    def __repr__(self) -> str:
        total = self.counts.sum()
        source = PurePath(self.source).name
        lines = [f"Trials from {source}: {len(self):,} rows, {total['n_used']:,} used"]
        return "\n  ".join([*lines, *self.notes])


def read_trials(
    source: str | Path | pd.DataFrame | Trials,
    study: Study,
    *,
    counted: bool | None = None,
    duplicates: bool = True,
) -> Trials:
    """Read and check the trials of a study.

    Labels are read as text: a CSV's "None" or "007" stays what it is. Only the columns that the
    study names are looked at, and `outcome` ("scored", "failed", "unscored") and `reason` if
    they are there.

    Parameters
    ----------
    source : str, Path, pandas.DataFrame or Trials
        A .csv, .parquet or .jsonl file (.csv and .jsonl also as .gz), or a DataFrame. A folder,
        and a file that is a log, is read by `read_logs`. `Trials` are checked against this study
        again.
    study : Study
    counted : bool, optional
        Whether a .parquet or .csv file is counted outside of memory, by duckdb: only distinct rows
        without their rollouts are kept, with their numbers. By default it is from 5 million rows
        of Parquet or 200 MB of CSV on, where duckdb is installed (``pip install 'gstudy[large]'``)
        and a nested facet only repeats trials. The fit is the same; what asks for single trials
        says so.
    duplicates : bool
        Whether rows of such a file with the same labels on every facet are looked for, which takes
        longer than counting. Of all others they always are.

    Returns
    -------
    Trials

    Raises
    ------
    DeclarationError
        When `study` is none.
    DataError
        Naming file, row (counted from 1), column and value: scores that are not 0 or 1 (graded
        ones that are no numbers), wrong errors and counts, labels that are missing or collide,
        duplicate trials, missing columns, and failed or unscored trials that no policy decides
        on.

    Examples
    --------
    >>> import pandas as pd
    >>> import gstudy as gs
    >>> study = gs.Study(score="passed", facets=[gs.Facet("task", role="legitimate")])
    >>> read_trials(pd.DataFrame({"task": [1, 2], "passed": [True, False]}), study)
    Trials from DataFrame: 2 rows, 2 used
    """
    study = checked_study(study)
    if isinstance(source, Trials):
        return _again(source, study)
    wanted = _wanted(study)
    if counted or (counted is None and is_large(source, study)):
        return _read_counted(source, study, wanted, duplicates)
    told = from_logs(source, wanted)
    logs = refuse_two_runs(told, study)
    frame, place = read_columns(told, wanted)
    place = place if logs is None else replace(place, name=logs)
    labels = {
        facet.name: read_labels(frame[facet.source_column], facet.source_column, place)
        for facet in study.labelled
    }
    refuse_duplicates(labels, study, place)
    found = _settled(_long_table(frame, labels, study, place), study, place)
    advice = [] if counted is False else advice_without_duckdb(source, study)
    return _with_notes(found, (*logs_notes(told), *advice))


def _with_notes(trials: Trials, of_logs: tuple[str, ...]) -> Trials:
    return replace(trials, notes=(*trials.notes, *of_logs), of_logs=of_logs)


def _read_counted(source: object, study: Study, wanted: WantedColumns, duplicates: bool) -> Trials:
    """Trials of a file that are counted outside of memory."""
    if not isinstance(source, str | Path):
        raise DataError(
            explain(
                "only a file is counted outside of memory",
                given=type(source).__name__,
                allowed="the path of a .parquet or .csv file",
            )
        )
    last = repeated_facet(study)
    with open_counted(Path(source), study, wanted) as rows:
        frame, place = _alike_rows(rows, study, last)
        labels, numbered = dict[str, Labels](), False
        for facet in study.labelled:
            column = facet.source_column
            if facet.name != last:
                labels[facet.name] = read_labels(frame[column], column, place)
            else:
                numbered = _check_counted(rows, column)
        if duplicates:
            refuse_counted_duplicates(rows, list(labels), str(last), place, study)
    notes = [] if duplicates else [f"duplicate trials of {place.name} were not looked for"]
    if numbered:
        notes.append(f"a drift over {last} order was not looked for: the trials were counted")
    found = _settled(_long_table(frame, labels, study, place), study, place, counted=last)
    return _with_notes(found, tuple(notes))


def _alike_rows(rows: CountedRows, study: Study, last: str | None) -> tuple[pd.DataFrame, Source]:
    """The distinct rows of all columns but the counted facet's."""
    score = str(study.score)
    columns = [f.source_column for f in study.labelled if f.name != last]
    columns += [name for name in _wanted(study).optional if rows.has(name)]
    if study.family == "gaussian":
        return rows.alike_graded(columns, score)
    if rows.n_distinct(score) > _MOST_SCORES:
        # Far more than ways to write 0 and 1: the first wrong one is told.
        said = [name for name in columns if name in _SAID]
        frame, place = rows.first_values([score, *said], _MOST_SCORES)
        _long_table(frame, {}, study, place)
    return rows.alike([*columns, score])


def _check_counted(rows: CountedRows, column: str) -> bool:
    """Refuse labels of the counted facet that are none; whether they are numbers."""
    many = rows.n_distinct(column) > _MOST_LABELS
    values, place = rows.unsafe(column) if many else rows.alike([column])
    texts = read_labels(values[column], column, place).texts if len(values) else []
    return len(texts) > 1 and all(text.isascii() and text.isdigit() for text in texts)


def _long_table(
    frame: pd.DataFrame, labels: Mapping[str, Labels], study: Study, place: Source
) -> pd.DataFrame:
    """Labels, scores and outcomes of raw columns."""
    said_columns = {name: frame[name] for name in _wanted(study).optional if name in frame}
    said = read_said_outcomes(said_columns, len(frame), place)
    numbers, scored = _numbers(frame, study, place, said.failed)
    if SQUARES in frame:
        numbers["squares"] = frame[SQUARES]
    columns = {name: pd.Series(found.array(), dtype="str") for name, found in labels.items()}
    return pd.DataFrame(columns | numbers | said.beside(scored, place))


def _wanted(study: Study) -> WantedColumns:
    needed = {facet.source_column: f"facets.{facet.name}" for facet in study.labelled}
    for key in _SCORE_KEYS:
        column = getattr(study, key)
        if column is not None:
            needed[column] = key
    return WantedColumns(needed, tuple(name for name in _SAID if name not in needed))


def _numbers(
    frame: pd.DataFrame, study: Study, place: Source, failed: Flags
) -> tuple[dict[str, pd.Series], Flags]:
    """The columns of scores or counts, and which rows have any."""
    if study.family == "gaussian":
        return _graded(frame, study, place, failed)
    if study.score is not None:
        score = read_scores(
            frame[study.score],
            study.score,
            place,
            ignore=failed,
            has_rollouts=any(facet.nested_in for facet in study.facets),
        )
        return {"score": pd.Series(score)}, ~np.isnan(score)
    successes, trials, scored = read_counts(
        frame[study.successes], frame[study.trials], place, ignore=failed
    )
    return {"successes": pd.Series(successes), "trials": pd.Series(trials)}, scored


def _graded(
    frame: pd.DataFrame, study: Study, place: Source, failed: Flags
) -> tuple[dict[str, pd.Series], Flags]:
    name, error = str(study.score), study.standard_error
    score = read_graded(frame[name], name, place, ignore=failed)
    scored = ~np.isnan(score)
    if error is None:
        return {"score": pd.Series(score)}, scored
    errors = read_errors(frame[error], error, place, scored=scored, ignore=failed)
    return {"score": pd.Series(score), "standard_error": pd.Series(errors)}, scored


def _settled(
    table: pd.DataFrame, study: Study, place: Source, counted: str | None = None
) -> Trials:
    """The trials with their counts; policies that refuse do so now, not at the fit."""
    settled = settle(table, study, place)
    told = (settled.counts, settled.notes, settled.failed_runs)
    return Trials(table, place.name, *told, study, counted, place.alike)


def _again(trials: Trials, study: Study) -> Trials:
    """Trials that were read already, under this study."""
    place = Source(trials.source, alike=trials.alike)
    columns = _check_columns(trials, study)
    if trials.counted is None:
        labels = {
            facet.name: read_labels(trials.table[facet.name], facet.name, place)
            for facet in study.labelled
        }
        refuse_duplicates(labels, study, place)
    if study.score is not None and study.family == "binary":
        _refuse_graded(trials, place)
    table = trials.table[[*columns, "outcome", "reason"]]
    if trials.counted is None:
        return _with_notes(_settled(table, study, place), trials.of_logs)
    extra = [name for name in ("squares",) if name in trials.table and study.family == "gaussian"]
    found = _settled(table.assign(**trials.table[extra]), study, place, trials.counted)
    return _with_notes(found, trials.of_logs)


def _refuse_graded(trials: Trials, place: Source) -> None:
    """Scores that were read for a graded study may be none for a binary one."""
    failed = (trials.table["outcome"] == "failed").to_numpy(dtype=bool)
    read_scores(trials.table["score"], "score", place, ignore=failed, has_rollouts=True)


def _check_columns(trials: Trials, study: Study) -> list[str]:
    """The columns of the long table that this study needs."""
    if trials.counted is not None and repeated_facet(study) != trials.counted:
        trials.rows("a study with other facets or claims")
    scores = ["successes", "trials"] if study.score is None else ["score"]
    scores += ["standard_error"] if study.standard_error is not None else []
    labelled = [facet.name for facet in study.labelled if facet.name != trials.counted]
    columns = [*labelled, *scores]
    for name in columns:
        if name not in trials.table:
            raise DataError(
                explain(
                    f"the trials from {trials.source} were read without {name!r}",
                    given=list(trials.table.columns),
                    do="Read them again with this study: gs.read_trials(source, study).",
                )
            )
    return columns
