"""Trials: the long table that every reader makes and everything else starts from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd

from gstudy.errors import DataError, explain
from gstudy.study.declaration import checked_study
from gstudy.study.outcomes import settle
from gstudy.study.reading.duplicates import refuse_duplicates
from gstudy.study.reading.graded_scores import read_errors, read_graded
from gstudy.study.reading.labels import read_labels
from gstudy.study.reading.readers import read_columns
from gstudy.study.reading.said_outcomes import read_said_outcomes
from gstudy.study.reading.scores import read_counts, read_scores
from gstudy.study.reading.source_rows import Source
from gstudy.study.reading.wanted_columns import WantedColumns

if TYPE_CHECKING:
    from pathlib import Path

    from gstudy.study.declaration import Study

__all__ = ["Trials", "read_trials"]

Flags = npt.NDArray[np.bool_]

_SCORE_KEYS = ("score", "successes", "trials", "standard_error")
_SAID = ("outcome", "reason")


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
    """

    table: pd.DataFrame
    source: str
    counts: pd.DataFrame
    notes: tuple[str, ...] = ()
    failed_runs: Mapping[str, float | None] = field(default_factory=dict)
    study: Study | None = None

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
        return settle(self.table, study, Source(self.source)).usable

    def __len__(self) -> int:
        return len(self.table)

    def __repr__(self) -> str:
        total = self.counts.sum()
        source = PurePath(self.source).name
        lines = [f"Trials from {source}: {len(self.table):,} rows, {total['n_used']:,} used"]
        return "\n  ".join([*lines, *self.notes])


def read_trials(source: str | Path | pd.DataFrame | Trials, study: Study) -> Trials:
    """Read and check the trials of a study.

    Labels are read as text: a CSV's "None" or "007" stays what it is. Only the columns that the
    study names are looked at, and `outcome` ("scored", "failed", "unscored") and `reason` if
    they are there.

    Parameters
    ----------
    source : str, Path, pandas.DataFrame or Trials
        A .csv, .parquet or .jsonl file (.csv and .jsonl also as .gz), or a DataFrame. `Trials`
        are checked against this study again.
    study : Study

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
    frame, place = read_columns(source, wanted)
    labels = {
        facet.name: read_labels(frame[facet.source_column], facet.source_column, place)
        for facet in study.labelled
    }
    refuse_duplicates(labels, study, place)
    said_columns = {name: frame[name] for name in wanted.optional if name in frame}
    said = read_said_outcomes(said_columns, len(frame), place)
    numbers, scored = _numbers(frame, study, place, said.failed)
    columns = {name: pd.Series(found.array(), dtype="str") for name, found in labels.items()}
    return _settled(pd.DataFrame(columns | numbers | said.beside(scored, place)), study, place)


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


def _settled(table: pd.DataFrame, study: Study, place: Source) -> Trials:
    """The trials with their counts; policies that refuse do so now, not at the fit."""
    settled = settle(table, study, place)
    return Trials(table, place.name, settled.counts, settled.notes, settled.failed_runs, study)


def _again(trials: Trials, study: Study) -> Trials:
    """Trials that were read already, under this study."""
    place = Source(trials.source)
    columns = _check_columns(trials, study)
    labels = {
        facet.name: read_labels(trials.table[facet.name], facet.name, place)
        for facet in study.labelled
    }
    refuse_duplicates(labels, study, place)
    if study.score is not None and study.family == "binary":
        _refuse_graded(trials, place)
    return _settled(trials.table[[*columns, "outcome", "reason"]], study, place)


def _refuse_graded(trials: Trials, place: Source) -> None:
    """Scores that were read for a graded study may be none for a binary one."""
    failed = (trials.table["outcome"] == "failed").to_numpy(dtype=bool)
    read_scores(trials.table["score"], "score", place, ignore=failed, has_rollouts=True)


def _check_columns(trials: Trials, study: Study) -> list[str]:
    """The columns of the long table that this study needs."""
    scores = ["successes", "trials"] if study.score is None else ["score"]
    scores += ["standard_error"] if study.standard_error is not None else []
    columns = [*(facet.name for facet in study.labelled), *scores]
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
