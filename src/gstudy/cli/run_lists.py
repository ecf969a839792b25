"""The list of runs of a chosen design, as a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gstudy.cli.exits import usage_error

if TYPE_CHECKING:
    from gstudy.cli.design_answers import Answer
    from gstudy.cli.design_sources import DesignSource
    from gstudy.display import Table
    from gstudy.planning.runs import RunList

__all__ = ["written_runs"]

_INSPECT = "inspect"


def written_runs(
    source: DesignSource, answers: list[Answer], path: Path, form: str | None, data: Path | None
) -> tuple[Table | None, str]:
    """Write the missing trials of the chosen design.

    Parameters
    ----------
    source : DesignSource
    answers : list of Answer
    path : Path
    form : {"table", "inspect"} or None
    data : Path or None
        The trials; by default those of the study.

    Returns
    -------
    table : Table or None
        How many trials are missing; None where there is nothing to run.
    text : str

    Raises
    ------
    typer.Exit
        A usage error, when the trials are not known.
    QuantityError, DataError
        As `gs.run_list`.
    """
    from gstudy.planning.runs import run_list

    if not source.declared:
        raise usage_error("--run-list needs the columns of the trials: --study FILE declares them.")
    design = next((a.design for a in answers if a.design is not None), None)
    if design is None:
        return None, f"No list of runs: no trial is to be added, and {path} was not written."
    if not path.parent.is_dir():
        raise usage_error(f"--run-list {path}: the folder {path.parent} is not there.")
    runs = run_list(design, _trials_path(source, data), study=source.study)
    if form == _INSPECT:
        commands = runs.inspect(logs=_logs(runs))
        _write_commands(path, commands)
        logs = " and your logs in place of LOG_..." if "LOG_" in "".join(commands) else ""
        how = f"commands; put your task in place of TASK{logs}"
    else:
        runs.write(path)
        how = f"{len(runs.frame):,} rows"
    return runs.table(), f"{runs.table().text()}\n\nWrote {path}: {how}."


def _logs(runs: RunList) -> dict[str, str]:
    """A placeholder for the log of each system, so that its commands can be told apart."""
    measured = runs.study.object
    if measured is None:
        return {}
    labels = runs.frame[runs.study.facet(measured).source_column].unique()
    return {str(label): f"LOG_{label}" for label in labels}


def _trials_path(source: DesignSource, data: Path | None) -> Path:
    if data is not None:
        return data
    if source.study.data is None:
        raise usage_error("--run-list needs the trials that exist: --data TRIALS.")
    return source.study.data


def _write_commands(path: Path, commands: tuple[str, ...]) -> None:
    from gstudy.cli.output import write_text

    write_text(path, "".join(f"{command}\n" for command in commands))
