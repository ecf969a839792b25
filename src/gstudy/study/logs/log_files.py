"""Log files: which files a path stands for, and what a reader finds in one."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

__all__ = ["LogError", "LogFile", "LogRows", "Run", "Skipped", "find_files"]


class LogError(Exception):
    """Why a file gives no rows; never shown as it is: it becomes a DataError or a skipped file."""


@dataclass(frozen=True, slots=True)
class LogFile:
    """A file that may be a log.

    Parameters
    ----------
    path : Path
    name : str
        What the column `file` says: the path below the folder that was given, with "/".
    """

    path: Path
    name: str


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file without rows, and why."""

    file: str
    why: str


@dataclass(frozen=True, slots=True)
class Run:
    """What a log says of the run that wrote it, so that its shards and retries are found.

    Parameters
    ----------
    ids : frozenset of str
        Logs that share one of them are of one run.
    created : str
        When it began, as text that sorts by time.
    """

    ids: frozenset[str]
    created: str


@dataclass(frozen=True, slots=True, eq=False)
class LogRows:
    """The trials of one log.

    Parameters
    ----------
    frame : pandas.DataFrame
        A column of text per facet, then `score`, `outcome` and `reason`.
    notes : tuple of str
        What a reader of the numbers must know of this file.
    run : Run, optional
        None where the format does not tell.
    """

    frame: pd.DataFrame
    notes: tuple[str, ...] = ()
    run: Run | None = None


def find_files(path: Path) -> tuple[list[LogFile], list[Skipped]]:
    """The files below a folder, each once, in the order of their names; or the one file.

    Parameters
    ----------
    path : Path
        A folder, also one named like a log, is walked; links are followed.

    Returns
    -------
    files : list of LogFile
    skipped : list of Skipped
        Links that lead nowhere or to a file that is there already, pipes and devices.
    """
    if not path.is_dir():
        return [LogFile(path, _shown(path.name))], []
    files: list[LogFile] = []
    skipped: list[Skipped] = []
    seen: dict[str, str] = {}
    names = {found.relative_to(path).as_posix(): found for found in _walk(path)}
    # A file comes before links to it.
    for own in sorted(names, key=lambda name: (names[name].is_symlink(), name)):
        found, name = names[own], _shown(own)
        first = seen.setdefault(os.path.realpath(found), name)
        if first != name:
            skipped.append(Skipped(name, f"it is a link to {first}, which is read"))
        elif not found.exists():
            skipped.append(Skipped(name, "it is a link that leads nowhere"))
        elif not found.is_file():
            skipped.append(Skipped(name, "it is no file, but a pipe or a device"))
        else:
            files.append(LogFile(found, name))
    return sorted(files, key=lambda file: file.name), skipped


def _shown(name: str) -> str:
    """A name as text; the system's names may hold bytes that are none."""
    return name.encode(errors="backslashreplace").decode()


def _walk(folder: Path) -> Iterator[Path]:
    """Every entry that is no folder; a folder that links make seen twice is walked once."""
    seen: set[str] = set()
    for root, folders, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(root)
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        # Real folders before links to them, so that names are the plain ones.
        folders.sort(key=lambda name: ((Path(root) / name).is_symlink(), name))
        for name in names:
            yield Path(root) / name
