"""`python -m benchmarks.startup`: how long a user waits for a command, from start to exit.

Whole processes on `gpqa_diamond_epochs` (`../shared/data`): wall seconds, best of several, and CPU
seconds of the same run. Byte code and numba's disk cache are warm: an untimed run comes first.
Peer: a Bambi fit of the same cells, priors and draws with nutpie in a new process (`bambi-cells` of
`libraries/`), which reads the file as we do and neither checks it nor measures anything afterwards;
`times_peer` is its CPU time over that of the row.
"""

from __future__ import annotations

import argparse
import csv
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

__all__ = ["COMMANDS", "command_of", "main", "waited"]

RESULTS = Path(__file__).with_name("startup.csv")
ROOT = Path(__file__).resolve().parents[1]
COLUMNS = ["what", "seconds", "cpu_seconds", "memory_mb", "limit", "times_peer"]
PROBLEM = "gpqa"
PEER = "bambi-cells"
STUDY = """score = "score"
object = "system"
data = "{data}"
[facets.task]
role = "legitimate"
[facets.rollout]
role = "legitimate"
nested_in = ["system", "task"]
"""

type Arguments = tuple[str, ...]

COMMANDS: dict[str, tuple[Arguments, float | None]] = {
    "gstudy --help": (("--help",), 0.5),
    "gstudy check": (("check", "study.toml"), None),
    "gstudy fit, direct": (
        ("fit", "study.toml", "--sampler", "direct", "--seed", "1", "--out", "run.nc"),
        None,
    ),
    "gstudy budget, direct": (
        ("budget", "study.toml", "--sampler", "direct", "--seed", "1"),
        6.0,
    ),
    "gstudy budget, PyMC": (("budget", "study.toml", "--seed", "1"), 15.0),
    "gstudy budget of a saved run": (("budget", "run.nc"), None),
}
"""Arguments of the console script beside this interpreter, and the most seconds it may take."""


def command_of(what: str) -> list[str]:
    """The command line of a row."""
    if what == PEER:
        return [sys.executable, "-m", "benchmarks.startup", "--child"]
    return [str(Path(sys.executable).with_name("gstudy")), *COMMANDS[what][0]]


def waited(what: str, folder: Path) -> dict[str, Any]:
    """One process, run in a folder with `study.toml`."""
    known = os.environ | {"PYTHONPATH": str(ROOT)}
    with tempfile.TemporaryFile() as told:
        start = time.perf_counter()
        child = subprocess.Popen(
            command_of(what), stdout=told, stderr=subprocess.STDOUT, cwd=folder, env=known
        )
        _, status, used = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            told.seek(0)
            raise SystemExit(f"{what} failed: {told.read().decode(errors='replace')[-2000:]}")
    return {
        "what": what,
        "seconds": round(seconds, 2),
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 2),
        "memory_mb": used.ru_maxrss // 1024,
    }


def fit_of_peer() -> None:
    """What the peer's process does."""
    from benchmarks.libraries import bench_bambi
    from benchmarks.methods import Plan
    from benchmarks.problems import PROBLEMS

    method = next(m for m in bench_bambi.METHODS if m.name == PEER)
    if method.missing():
        raise SystemExit(method.missing())
    method.sample(PROBLEMS[PROBLEM].design(), Plan(seed=1, tune=1000, draws=1000))


def measured(runs: int) -> list[dict[str, Any]]:
    """The best of several runs of each row."""
    from benchmarks.problems import PROBLEMS, FromShared

    problem = PROBLEMS[PROBLEM]
    assert isinstance(problem, FromShared)
    if problem.missing:
        raise SystemExit(problem.missing)
    rows = []
    with tempfile.TemporaryDirectory(prefix="gstudy-startup-") as name:
        folder = Path(name)
        data = str(problem.path).replace("\\", "\\\\")
        (folder / "study.toml").write_text(STUDY.format(data=data))
        for what in (*COMMANDS, PEER):
            waited(what, folder)
            best = min(
                (waited(what, folder) for _ in range(runs)), key=lambda row: float(row["seconds"])
            )
            rows.append(best | {"limit": COMMANDS[what][1] if what in COMMANDS else None})
            print(rows[-1], flush=True)
    for row in rows:
        row["times_peer"] = round(rows[-1]["cpu_seconds"] / row["cpu_seconds"], 1)
    return rows


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, write the table; 1 when a limit is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.startup", description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.child:
        fit_of_peer()
        return 0
    rows = measured(given.runs)
    with given.output.open("w", newline="") as file:
        table = csv.DictWriter(file, COLUMNS)
        table.writeheader()
        table.writerows(rows)
    late = [row for row in rows if row["limit"] is not None and row["seconds"] > row["limit"]]
    for row in late:
        print(f"FAILED: {row['what']} took {row['seconds']} s, limit {row['limit']}")
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
