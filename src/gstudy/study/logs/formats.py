"""Which format a file is of, told by what stands in it and not by its name."""

from __future__ import annotations

import zipfile
from collections.abc import Collection
from typing import TYPE_CHECKING

from gstudy.study.logs import every_eval_ever, inspect_logs, lm_eval, metr, tau2_bench, tau_bench
from gstudy.study.logs.json_streams import first_keys, open_bytes
from gstudy.study.logs.log_files import LogError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from gstudy.study.logs.log_files import LogFile, LogRows

__all__ = ["FORMATS", "is_log", "read_log"]

FORMATS = (
    "Inspect (.eval, .json)",
    "tau-bench",
    "tau2-bench",
    "lm-evaluation-harness (samples_*.jsonl)",
    "METR runs",
    "Every Eval Ever",
)

_ZIP = b"PK\x03\x04"
_NONE = "it is no log of a format that gstudy reads"


# Keys of an object that say, together, what the file is.
_OBJECTS: tuple[tuple[frozenset[str], Callable[[LogFile], LogRows]], ...] = (
    (frozenset({"eval", "status"}), inspect_logs.read_json),
    (frozenset({"eval", "plan"}), inspect_logs.read_json),
    (frozenset({"info", "simulations"}), tau2_bench.read),
    (frozenset({"info", "tasks"}), tau2_bench.read),
    (frozenset({"task_id", "termination_reason", "reward_info"}), tau2_bench.read_simulation),
    (frozenset({"doc_id", "resps"}), lm_eval.read),
    (frozenset({"run_id", "task_id", "alias"}), metr.read),
    (frozenset({"evaluation_id", "model_id", "sample_id"}), every_eval_ever.read),
)
_LISTS: tuple[tuple[frozenset[str], Callable[[LogFile], LogRows]], ...] = (
    (frozenset({"task_id", "reward", "traj"}), tau_bench.read),
    (frozenset({"task_id", "reward", "trial"}), tau_bench.read),
)

# What is no log of trials, and where those are.
_NO_TRIALS = (
    (
        frozenset({"results", "versions"}),
        "it holds lm-evaluation-harness's results, not its samples: run with --log_samples",
    ),
    (
        frozenset({"results", "configs"}),
        "it holds lm-evaluation-harness's results, not its samples: run with --log_samples",
    ),
    (
        frozenset({"schema_version", "evaluation_results"}),
        "it holds Every Eval Ever's aggregate; the trials are in its .jsonl",
    ),
)


def read_log(file: LogFile) -> LogRows:
    """The trials of a file.

    Parameters
    ----------
    file : LogFile

    Returns
    -------
    LogRows

    Raises
    ------
    LogError
        When it is no log, is damaged or has no trials.
    """
    found = _reader(file.path)(file)
    if found.frame.empty:
        raise LogError("; ".join(found.notes) or "there are no trials in it")
    return found


def is_log(path: Path) -> bool:
    """Whether a file is a log of a known format, also one without trials."""
    try:
        _reader(path)
    except (LogError, OSError):
        return False
    return True


def _reader(path: Path) -> Callable[[LogFile], LogRows]:
    with open_bytes(path) as raw:
        start = raw.read(4096)
    if not start.strip():
        raise LogError("it is empty")
    if start.startswith(_ZIP):
        return _zip_reader(path)
    if start.lstrip()[:1] not in (b"{", b"["):
        raise LogError(_NONE)
    listed, keys = first_keys(path, lambda listed, keys: _known(listed, keys) is not None)
    reader = _known(listed, keys)
    if reader is not None:
        return reader
    why = [why for wanted, why in _NO_TRIALS if not listed and wanted <= set(keys)]
    raise LogError(why[0] if why else _NONE)


def _known(listed: bool, keys: Collection[str]) -> Callable[[LogFile], LogRows] | None:
    found = set(keys)
    return next(
        (read for wanted, read in (_LISTS if listed else _OBJECTS) if wanted <= found), None
    )


def _zip_reader(path: Path) -> Callable[[LogFile], LogRows]:
    try:
        with zipfile.ZipFile(path) as archive:
            names = set(archive.namelist())
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise LogError(f"its archive is damaged: {error}") from None
    if names & {"header.json", "_journal/start.json"}:
        return inspect_logs.read_eval
    raise LogError("it is an archive, but no log of Inspect")
