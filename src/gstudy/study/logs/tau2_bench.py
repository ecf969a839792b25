"""tau2-bench results: a document with the simulations in it, or one file for each beside it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gstudy.study.logs.json_streams import first_keys, items_of, value_of
from gstudy.study.logs.log_files import LogError, LogFile, LogRows
from gstudy.study.logs.row_columns import RowColumns, label_of, number_of, outcome_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

__all__ = ["read", "read_simulation"]

_FACETS = ("file", "benchmark", "environment", "system", "agent", "user_simulator", "task")

# Ends that are not the agent's doing, and those that need a score. tau2-bench scores the agent's
# other ends, `max_steps` and `too_many_errors` among them, with 0. Its own pass rates leave out
# the first two; the study's `on_failed_run` decides here.
_FAILED = ("infrastructure_error", "context_window_exceeded", "unexpected_error", "user_error")
_STOPPED = ("user_stop", "agent_stop")

# Where newer results keep their simulations, each in a file named by its id.
_FOLDER = "simulations"
_RESULTS = frozenset({"info", "tasks"})


def read(file: LogFile) -> LogRows:
    """A results file of tau2-bench.

    `task` is task_id, `rollout` trial, `score` the reward, `environment` the domain, `system` the
    agent's model, `agent` how it was implemented, `user_simulator` the user's model.

    Parameters
    ----------
    file : LogFile

    Returns
    -------
    LogRows
        Newer results keep their simulations in the folder `simulations` beside them.
    """
    simulations: Iterable[Any] = items_of(file.path, "simulations.item")
    first = next(iter(simulations), None)
    if first is None:
        folder = file.path.parent / _FOLDER
        found = _rows(file, _beside(folder), value_of(file.path, "info"))
        return replace(found, notes=(*found.notes, *_index_notes(file, folder)))
    return _rows(file, _chain(first, simulations), value_of(file.path, "info"))


def read_simulation(file: LogFile) -> LogRows:
    """One simulation; those in the folder `simulations` beside a results file are read with it.

    Parameters
    ----------
    file : LogFile

    Returns
    -------
    LogRows
    """
    results = _results_above(file.path.parent)
    if results is not None:
        raise LogError(f"it is read with {results.name}, one folder up")
    return _rows(file, [value_of(file.path, "")], None)


def _results_above(folder: Path) -> Path | None:
    """The results file that a folder of simulations belongs to; its name is the user's choice."""
    if folder.name != _FOLDER:
        return None
    beside = sorted(folder.parent.glob("*.json"), key=lambda path: path.name != "results.json")
    return next((path for path in beside if _is_results(path)), None)


def _is_results(path: Path) -> bool:
    try:
        _, keys = first_keys(path, lambda _, keys: set(keys) >= _RESULTS)
    except (LogError, OSError):
        return False
    return set(keys) >= _RESULTS


def _index_notes(file: LogFile, folder: Path) -> list[str]:
    """What the index of newer results lists and the folder lacks, or has beyond it."""
    entries = [x for x in items_of(file.path, "simulation_index.item") if isinstance(x, dict)]
    listed = {str(entry.get("id")) for entry in entries}
    if not listed:
        return []
    there = {path.stem for path in folder.glob("*.json")}
    missing, more = len(listed - there), len(there - listed)
    notes = []
    if missing:
        notes.append(f"{missing:,} of the {len(listed):,} simulations in its index have no file")
    if more:
        notes.append(f"{more:,} simulations beside it are not in its index; they are read too")
    return notes


def _chain(first: Any, rest: Iterable[Any]) -> Iterator[Any]:
    yield first
    yield from rest


def _beside(folder: Path) -> Iterator[Any]:
    for path in sorted(folder.glob("*.json")):
        yield value_of(path, "")


def _rows(file: LogFile, simulations: Iterable[Any], info: Any) -> LogRows:
    labels = _labels(info)
    optional = ("environment", "agent", "user_simulator", "ended")
    rows = RowColumns((*_FACETS, "rollout", "ended"), optional)
    seen: dict[str | None, int] = {}
    numbered = False
    for number, run in enumerate(simulations, start=1):
        if not isinstance(run, dict):
            raise LogError(f"simulation {number} is no object")
        task = label_of(run.get("task_id"), "task_id")
        place = seen[task] = seen.get(task, -1) + 1
        numbered |= run.get("trial") is None
        trial = place if run.get("trial") is None else run["trial"]
        reward = run.get("reward_info")
        score = number_of(reward.get("reward") if isinstance(reward, dict) else None)
        ended = run.get("termination_reason")
        rows.add(
            file=file.name,
            benchmark="tau2-bench",
            task=task,
            rollout=label_of(trial, "trial"),
            ended=label_of(ended, "termination_reason"),
            score=score,
            **labels,
            **outcome_of(score, str(ended) if _has_failed(ended, score) else None),
        )
    notes = [] if len(rows) else ["there are no simulations in it, nor in a folder beside it"]
    if numbered:
        notes.append("simulations without a trial number are numbered in their order")
    return LogRows(rows.frame(), tuple(notes))


def _has_failed(ended: Any, score: Any) -> bool:
    return bool(ended) and (ended in _FAILED or (score != score and ended not in _STOPPED))


def _labels(info: Any) -> dict[str, str | None]:
    """What the results say of all their simulations."""
    told = info if isinstance(info, dict) else {}
    agent, user, environment = (
        part if isinstance(part := told.get(name), dict) else {}
        for name in ("agent_info", "user_info", "environment_info")
    )
    return {
        "environment": label_of(environment.get("domain_name"), "domain_name"),
        "system": label_of(agent.get("llm"), "agent_info.llm"),
        "agent": label_of(agent.get("implementation"), "agent_info.implementation"),
        "user_simulator": label_of(user.get("llm"), "user_info.llm"),
    }
