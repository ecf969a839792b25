"""Logs from a folder: every format in one long table, and nothing skipped in silence."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from gstudy.errors import DataError, did_you_mean, explain
from gstudy.study.logs.formats import FORMATS, read_log
from gstudy.study.logs.log_files import LogError, LogFile, LogRows, Skipped, find_files
from gstudy.study.logs.log_table import LogTable, log_table
from gstudy.study.logs.one_run import merged_runs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["read_logs"]

# Columns in this order, where there are any, then the others.
_FIRST = (
    *("file", "benchmark", "environment", "system", "task", "rollout", "judge", "filter"),
    *("metric", "score", "outcome", "reason"),
)
_LISTED = 8


def read_logs(
    path: str | Path | Sequence[str | Path],
    *,
    keep: Mapping[str, str | Sequence[str]] | None = None,
) -> LogTable:
    """Read the logs of evaluations into one long table of trials.

    Formats, told by content: Inspect (`.eval` and `.json`; needs ``pip install
    'gstudy[inspect]'``), tau-bench and tau2-bench results, lm-evaluation-harness samples, METR
    runs, Every Eval Ever; JSON also gzipped. Logs of one Inspect run (shards, retries, copies) are
    merged, each sample taken once. Nothing is averaged and nothing is scored anew.

    Parameters
    ----------
    path : str, Path or list of them
        A log, or a folder, which is walked.
    keep : mapping, optional
        Column to the label, or labels, whose rows are kept, such as ``{"filter": "strict-match"}``.

    Returns
    -------
    LogTable
        A DataFrame with one row per score: `file`, a column of text per facet, `score`, `outcome`
        ("scored", "failed", "unscored") and `reason` of a failed run. `.notes` says what there is
        to know, `.skipped` which files gave no rows, and why.

    Raises
    ------
    DataError
        When a single file is no log or is damaged, a folder has no log, `keep` names what is not
        there, and when inspect_ai is needed and not installed.

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> import gstudy as gs
    >>> run = {"task_id": 3, "trial": 0, "reward": 1.0, "info": {}, "traj": []}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = pathlib.Path(folder, "gpt-4o-airline.json").write_text(json.dumps([run]))
    ...     logs = gs.read_logs(folder)
    >>> logs[["system", "task", "rollout", "score", "outcome"]].to_dict("records")
    [{'system': 'gpt-4o-airline', 'task': '3', 'rollout': '0', 'score': 1.0, 'outcome': 'scored'}]
    """
    source, files, skipped, single = _files(path)
    logs, found = _read_all(files, single)
    skipped.extend(found)
    if not logs:
        raise DataError(
            explain(
                f"{source} has no log that can be read",
                given="; ".join(f"{s.file}: {s.why}" for s in skipped[:_LISTED]) or None,
                allowed=FORMATS,
                do="A table of trials is read by gs.read_trials.",
            )
        )
    frames, merged = merged_runs(logs)
    table = _ordered(pd.concat(frames, ignore_index=True))
    if keep is not None:
        table = _only(table, keep)
    return log_table(table, source, [*merged, *_notes(logs)], skipped)


def _files(
    path: str | Path | Sequence[str | Path],
) -> tuple[str, list[LogFile], list[Skipped], bool]:
    """The files of all paths, and whether they are one that must be a log."""
    paths = list(path) if isinstance(path, list | tuple) else [path]
    files: list[LogFile] = []
    skipped: list[Skipped] = []
    seen: set[str] = set()
    for one in paths:
        place = _place(one)
        own, left = find_files(place)
        if len(paths) > 1:
            own = [LogFile(file.path, _inside(place, file.name)) for file in own]
            left = [Skipped(_inside(place, skip.file), skip.why) for skip in left]
        for file in own:
            real = os.path.realpath(file.path)
            if real in seen:
                skipped.append(Skipped(file.name, "it is given twice"))
            else:
                seen.add(real)
                files.append(file)
        skipped.extend(left)
    single = len(paths) == 1 and not _place(paths[0]).is_dir()
    source = str(paths[0]) if len(paths) == 1 else f"{len(paths)} logs"
    return source, files, skipped, single


def _place(path: object) -> Path:
    if not isinstance(path, str | os.PathLike):
        raise DataError(
            explain(
                "logs are read from a file or a folder",
                given=path,
                allowed="a path, or a list of paths",
                do="A DataFrame needs no reading: gs.from_frame names its columns.",
            )
        )
    place = Path(path)
    try:
        there = place.exists()
    except ValueError:
        there = False
    if not there:
        raise DataError(explain(f"no file or folder {str(place)!r}", do="Check the path."))
    return place


def _inside(place: Path, name: str) -> str:
    return name if name == place.name else f"{place.name}/{name}"


def _read_all(files: list[LogFile], single: bool) -> tuple[list[LogRows], list[Skipped]]:
    logs: list[LogRows] = []
    skipped: list[Skipped] = []
    for file in files:
        try:
            logs.append(read_log(file))
        except (LogError, OSError, EOFError) as error:
            if single:
                raise DataError(
                    explain(f"{file.path} cannot be read as a log: {error}", allowed=FORMATS)
                ) from None
            skipped.append(Skipped(file.name, str(error)))
    return logs, skipped


def _ordered(table: pd.DataFrame) -> pd.DataFrame:
    first = [name for name in _FIRST if name in table]
    rest = [name for name in table.columns if name not in first]
    table = table[[*first, *rest]]
    if "detail" in table:
        table = table.assign(detail=table["detail"].fillna(""))
    return table


def _notes(logs: list[LogRows]) -> list[str]:
    """The notes of files; one that several share is told once, with their number."""
    by_note: dict[str, list[str]] = {}
    for log in logs:
        for note in log.notes:
            by_note.setdefault(note, []).append(str(log.frame["file"].iloc[0]))
    return [f"{_named(names)}: {note}" for note, names in by_note.items()]


def _named(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1:,} more files"


def _only(table: pd.DataFrame, keep: Mapping[str, str | Sequence[str]]) -> pd.DataFrame:
    for column, wanted in keep.items():
        if column not in table:
            raise DataError(
                explain(
                    f"keep names a column {column!r} that the logs do not have",
                    allowed=[str(name) for name in table.columns],
                    do=did_you_mean(column, [str(name) for name in table.columns]),
                )
            )
        labels = [wanted] if isinstance(wanted, str) else [str(label) for label in wanted]
        there = [str(label) for label in table[column].dropna().unique()]
        for label in labels:
            if label not in there:
                raise DataError(
                    explain(
                        f"no row of the logs has {column} {label!r}",
                        allowed=there[:20],
                        do=did_you_mean(label, there),
                    )
                )
        table = table[table[column].isin(labels)].reset_index(drop=True)
    if table.empty:
        raise DataError(explain("no row of the logs is left", given=dict(keep)))
    return table
