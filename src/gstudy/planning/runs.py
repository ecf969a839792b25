"""Run lists: the trials that are missing so that a design is reached."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from gstudy.display import Shown, Table
from gstudy.errors import QuantityError, explain
from gstudy.planning.grids import Grid
from gstudy.planning.inspect_commands import inspect_commands
from gstudy.planning.missing import KIND, RUN, missing_trials, run_facets, target_trials
from gstudy.planning.run_notes import run_notes
from gstudy.planning.run_requests import (
    check_facets,
    check_judges,
    check_levels,
    judge_facet,
    wanted_levels,
)
from gstudy.study.declaration import checked_study
from gstudy.study.designs import Design
from gstudy.study.trials import Trials, read_trials
from gstudy.variance.designs import design_text

if TYPE_CHECKING:
    from gstudy.study.declaration import Study

__all__ = ["RunList", "run_list"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RunList(Shown):
    """The missing trials of a design.

    Parameters
    ----------
    frame : pandas.DataFrame
        One row per missing trial: the study's own columns of its facets, in declared order, and
        `kind`: "run" of a run that is still to be made, "score only" of one that exists and needs
        the score of this judge. Where trials are counted one row per cell, with the column of
        their number.
    study : Study
    design : Design
    judge : str or None
        The facet of judges, where there is one.
    notes : tuple of str
        What was kept although the design has less, and what the list does not say.
    """

    frame: pd.DataFrame
    study: Study
    design: Design
    judge: str | None
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        """Missing trials."""
        return int(self._trials().sum())

    def summary(self) -> pd.DataFrame:
        """What is to be made, by system.

        Returns
        -------
        pandas.DataFrame
            Index: the levels of the object, or "all"; columns `runs` (to be made), `scores` (of
            these runs) and `score_only` (scores of runs that exist).
        """
        frame = self.frame
        measured = self.study.object
        groups = (
            frame[self.study.facet(measured).source_column]
            if measured is not None
            else pd.Series("all", index=frame.index, dtype="str")
        )
        is_run = frame[KIND] == RUN
        counts = pd.DataFrame(
            {
                "runs": self._trials().where(is_run & ~self._repeated(), 0),
                "scores": self._trials().where(is_run, 0),
                "score_only": self._trials().where(~is_run, 0),
            }
        )
        found = counts.groupby(groups.to_numpy(), sort=False).sum()
        found.index.name = measured or "system"
        found.attrs.update(scale=None, estimand="missing trials", interval=None, level=None)
        return found

    def table(self) -> Table:
        """The table that is printed."""
        frame = self.summary()
        shown = frame.rename(columns={"score_only": "score only"})
        if self.judge is None:
            shown = shown[["runs"]]
        total = shown.sum()
        if len(shown) > 1:
            shown = pd.concat([shown, total.to_frame("all").T]).rename_axis(str(frame.index.name))
        nothing = () if len(self) else ("Nothing is missing: the design is reached.",)
        return Table(
            frame=shown,
            title=f"Missing trials of the design {design_text(self.design)}",
            notes=(*nothing, *self.notes),
            formats=dict.fromkeys(shown.columns, "int"),
        )

    def write(self, path: str | Path) -> Path:
        """Write the rows: .csv, .parquet or .jsonl by the ending.

        Parameters
        ----------
        path : str or Path

        Returns
        -------
        Path

        Raises
        ------
        QuantityError
            For another ending, and a folder that is not there.
        """
        path = Path(path)
        writers = {".csv": self._csv, ".parquet": self._parquet, ".jsonl": self._json_lines}
        if path.suffix not in writers or not path.parent.is_dir():
            raise QuantityError(
                explain(
                    "the list of runs cannot be written there",
                    given=str(path),
                    allowed=f"a file in a folder that exists, ending in {', '.join(writers)}",
                )
            )
        writers[path.suffix](path)
        return path

    def inspect(
        self, task: str = "TASK", *, logs: Mapping[str, str] | None = None
    ) -> tuple[str, ...]:
        """The list as command lines of Inspect AI, quoted for a POSIX shell.

        Samples of a system that need the same number of epochs are one `inspect eval`; scores of
        runs that exist are one `inspect score` per judge and system, of the whole log: Inspect
        chooses no samples there.

        Parameters
        ----------
        task : str
            The task as Inspect finds it, such as "evals/airline.py@airline".
        logs : mapping of str to str, optional
            System to the log of its runs, for `inspect score`; "all" without an object. By default
            the placeholder LOG_FILE.

        Returns
        -------
        tuple of str

        Raises
        ------
        QuantityError
            For fresh judges, and a label that Inspect's options cannot tell from another.

        Notes
        -----
        Levels of the object are models, tasks sample ids, new rollouts epochs, judges scorers (as
        `gstudy.read_logs` labels them); another facet is a task argument, ``-T facet=level``.
        Inspect numbers the epochs of each log from 1: number them on as in the list when logs are
        joined.
        """
        if self.design.judges == "fresh":
            raise QuantityError(
                explain(
                    "a new judge for each run is no scorer that Inspect could name",
                    given="judges='fresh'",
                    do="Write the list as a file: .write(path).",
                )
            )
        apart = self.design.judges != "all"
        return inspect_commands(self.frame, self.study, self.judge, task, logs or {}, apart=apart)

    def _trials(self) -> pd.Series:
        """Trials of each row."""
        column = self.study.trials
        if column is None:
            return pd.Series(1, index=self.frame.index)
        return self.frame[column]

    def _repeated(self) -> pd.Series:
        """Rows that score a run which a row before them scores too."""
        columns = [self.study.facet(f).source_column for f in run_facets(self.study)]
        if not columns:
            return pd.Series(False, index=self.frame.index)
        return self.frame.duplicated([*columns, KIND])

    def _csv(self, path: Path) -> None:
        self.frame.to_csv(path, index=False, lineterminator="\n")

    def _parquet(self, path: Path) -> None:
        self.frame.to_parquet(path, index=False)

    def _json_lines(self, path: Path) -> None:
        rows = self.frame.to_dict(orient="records")
        lines = (json.dumps(row, ensure_ascii=False) for row in rows)
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def run_list(
    design: Mapping[str, int],
    trials: Trials | pd.DataFrame | str | Path,
    *,
    study: Study | None = None,
) -> RunList:
    """The trials that are missing so that a design is reached, balanced over what exists.

    Parameters
    ----------
    design : Design or mapping of str to int
        Levels of each facet within one level of the object, of a nested facet per combination of
        its parents; a facet that is left out stays as it was collected. With a pattern of judges.
    trials : Trials, DataFrame or path
        What exists.
    study : Study, optional
        The declaration; by default the one that `trials` were read with.

    Returns
    -------
    RunList

    Raises
    ------
    QuantityError
        For an unknown facet, one that is measured or controlled, more levels than a universe or a
        pinned facet holds, a pattern without a judge, and without a study.
    DataError
        For trials that cannot be read, or that were counted outside of memory.

    Notes
    -----
    Every level that exists is kept, and each combination of levels gets what the design has: where
    it has fewer levels than exist nothing is run for that facet, and a note says so. New levels of
    facets that somebody must write are called "new task 1"; rollouts are numbered on. Trials that
    failed or were never scored, and that the study leaves out, do not count as there. One judge a
    unit in rotation is the judge at place ``sum of digits mod n`` (see `Design`); which judge
    stands at which place is chosen so that most scores that exist are kept.

    Examples
    --------
    >>> import gstudy as gs
    >>> study, trials = gs.example("panel")
    >>> missing = gs.run_list({"task": 62, "snapshot": 2, "rollout": 3, "judge": 3}, trials)
    >>> missing.summary().sum().to_dict()
    {'runs': 72, 'scores': 216, 'score_only': 2160}
    >>> missing.frame.iloc[0].to_dict()["kind"]
    'score only'
    """
    asked = Design.read(design)
    study, known = _read(trials, study)
    table, used = known.rows("a list of runs"), known.usable(study)
    names = [facet.name for facet in study.labelled]
    check_facets(study, asked)
    judge = judge_facet(study, asked)
    grid = Grid(study, used[names], table[names], wanted_levels(study, asked, judge))
    check_levels(grid, asked)
    target = target_trials(grid, asked, judge)
    check_judges(study, judge, target)
    missing = missing_trials(grid, asked, target, used)
    columns = {facet.name: facet.source_column for facet in study.labelled}
    order = [*names, *([study.trials] if study.trials else []), KIND]
    frame = missing[order].rename(columns=columns).reset_index(drop=True)
    notes = run_notes(grid, asked, judge, len(table) - len(used), frame)
    return RunList(frame, study, asked, judge, notes)


def _read(source: object, study: Study | None) -> tuple[Study, Trials]:
    if study is None and isinstance(source, Trials):
        study = source.study
    if study is None:
        raise QuantityError(
            explain(
                "a list of runs needs the study that the trials belong to",
                given=type(source).__name__,
                do="Pass study=..., or trials that gs.read_trials read.",
            )
        )
    checked: Any = source
    return checked_study(study), read_trials(checked, study)
