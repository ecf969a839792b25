"""`python -m benchmarks.large`: 100 million trials to cells, out of memory, and what it takes.

Makes a Parquet file of 200 systems x 1,000 tasks x 500 rollouts in a temporary folder (deleted
afterwards) and a CSV of its first fifth, and measures each way of counting in a process of its own:
seconds from start to cells, imports included, CPU seconds, and the largest resident memory. Peers
in the same run: pyarrow's group-by of the same columns, and pandas on as many rows as it is given.
"""

from __future__ import annotations

import argparse
import csv
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

__all__ = ["METHODS", "main"]

RESULTS = Path(__file__).with_name("large.csv")
N_SYSTEMS, N_TASKS = 200, 1_000
COLUMNS = ["method", "rows", "cells", "seconds", "cpu_seconds", "memory_mb"]


def make(path: Path, rows: int, kind: str) -> None:
    """A file of trials, rollouts outermost: neighbours share no cell."""
    import duckdb

    cells = N_SYSTEMS * N_TASKS
    with duckdb.connect(config={"memory_limit": "1GB", "threads": 2}) as connection:
        connection.execute(
            f"copy (select 'system-' || (i % {cells} // {N_TASKS}) as system, "
            f"'task-' || (i % {N_TASKS}) as task, (i // {cells})::INT as rollout, "
            f"(hash(i) % 10 < 4 + i % 3)::INT as passed from range({rows}) t(i)) "
            f"to '{path}' (format {kind})"
        )


def counted(path: Path, duplicates: bool) -> int:
    """Cells of a study of the file, as a fit would get them."""
    import gstudy as gs
    from gstudy.study.estimable import assess

    facets = [
        gs.Facet("task", role="legitimate"),
        gs.Facet("rollout", role="legitimate", nested_in=["system", "task"]),
    ]
    study = gs.Study(score="passed", object="system", facets=facets)
    trials = gs.read_trials(path, study, counted=True, duplicates=duplicates)
    return len(assess(study, trials).cells.trials)


def by_pyarrow(path: Path) -> int:
    """Sums and counts by pyarrow, block by block; nothing is checked."""
    from pyarrow import acero, dataset

    scan = acero.Declaration(
        "scan",
        acero.ScanNodeOptions(dataset.dataset(path), columns=_projected(dataset)),
    )
    sums = [("passed", "hash_sum", None, "k"), ("passed", "hash_count", None, "n")]
    grouped = acero.AggregateNodeOptions(sums, keys=["system", "task"])
    table = acero.Declaration("aggregate", grouped, inputs=[scan]).to_table()
    return int(table.num_rows)


def _projected(dataset: object) -> dict[str, object]:
    return {name: dataset.field(name) for name in ("system", "task", "passed")}


def by_pandas(path: Path) -> int:
    """Sums and counts by pandas, all rows in memory; nothing is checked."""
    import pandas as pd

    frame = pd.read_parquet(path, columns=["system", "task", "passed"])
    return len(frame.groupby(["system", "task"])["passed"].agg(["sum", "size"]))


METHODS = {
    "gstudy parquet": ("large.parquet", lambda path: counted(path, False)),
    "gstudy parquet, exact duplicates": ("large.parquet", lambda path: counted(path, True)),
    "gstudy csv, exact duplicates": ("part.csv", lambda path: counted(path, True)),
    "pyarrow parquet, sums alone": ("large.parquet", by_pyarrow),
    "pandas parquet, sums alone": ("part.parquet", by_pandas),
}


def measure(method: str, folder: Path, rows: int) -> dict[str, object]:
    """One method in a process of its own."""
    name, _ = METHODS[method]
    start = time.perf_counter()
    command = [sys.executable, "-m", "benchmarks.large", "--child", method, "--folder", str(folder)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    told = child.stdout.read()
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{method} failed")
    return {
        "method": method,
        "rows": rows if name.startswith("large") else rows // 5,
        "cells": int(told.split()[-1]),
        "seconds": round(time.perf_counter() - start, 1),
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
        "memory_mb": used.ru_maxrss // 1024,
    }


def main() -> None:
    """Make the files, measure every method, write the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.large", description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--child", choices=METHODS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        name, run = METHODS[given.child]
        print(run(given.folder / name))
        return
    with tempfile.TemporaryDirectory(prefix="gstudy-large-") as name:
        folder = Path(name)
        make(folder / "large.parquet", given.rows, "parquet")
        make(folder / "part.parquet", given.rows // 5, "parquet")
        make(folder / "part.csv", given.rows // 5, "csv")
        rows = []
        for method in METHODS:
            rows.append(measure(method, folder, given.rows))
            print(rows[-1], flush=True)
    with given.output.open("w", newline="") as file:
        table = csv.DictWriter(file, COLUMNS)
        table.writeheader()
        table.writerows(rows)
    print(f"this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MB")


if __name__ == "__main__":
    main()
