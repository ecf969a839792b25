"""`python -m benchmarks.search`: the search of designs, and a loop over `gs.variance_budget`.

A study of 5 crossed facets and the noise of a trial, 32 terms, with 4,000 posterior draws made up
without any sampling, and 100,000 designs. Each row is a process of its own: seconds of the call
after imports, and by how much it raised the process's peak memory. `best` and `cheapest` solve one
facet, so that they lay out a tenth of the designs; `frontier` ranks all of them by the posterior
mean variance; `chances` counts for each of them the draws that meet a target, as the search of the
cheapest does where it can leave none out. The loop takes a sample of the same designs one at
a time.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["COLUMNS", "TASKS", "main", "measured"]

RESULTS = Path(__file__).with_name("search.csv")
COLUMNS = ["what", "designs", "draws", "terms", "seconds", "memory_mb", "limit", "times_naive"]
FACETS = ("task", "rater", "site", "prompt", "harness")
LEVELS = 10
DRAWS = 4_000
SAMPLE = 50
LIMIT = 10.0
TARGET = 0.112
# A budget above any design in these bounds, so that none is left out.
BOUNDS = dict.fromkeys(FACETS, (1, LEVELS))
BUDGET = float(LEVELS**5)


def source() -> Any:
    """Score-scale components with made-up draws: every set of five crossed facets."""
    import gstudy as gs
    from gstudy.variance.basis import Basis, structure_of_study
    from gstudy.variance.components import components_of
    from gstudy.variance.decomposition import SCORE, Decomposition

    rng = np.random.default_rng(1)
    study = gs.Study(score="score", facets=[gs.Facet(f, role="legitimate") for f in FACETS])
    sets = [frozenset(group) for n in range(1, 6) for group in itertools.combinations(FACETS, n)]
    shape = (4, DRAWS // 4)
    unique = 0.004 * np.exp(rng.normal(0, 0.4, (len(sets), *shape)))
    part = Decomposition(
        structure=structure_of_study(study, sets),
        scale=SCORE,
        sets=tuple(sets),
        unique=unique,
        mean=np.full(shape, 0.6),
        noise=np.full(shape, 0.05),
    )
    return components_of(Basis(study, part.structure, None, part, cells=None), SCORE)


def best(components: Any) -> int:
    """The best design of all."""
    import gstudy as gs

    gs.best_design(components, budget=BUDGET / 3, bounds=BOUNDS)
    return LEVELS**5


def frontier(components: Any) -> int:
    """All designs that none dominates."""
    import gstudy as gs

    gs.design_frontier(components, budget=BUDGET, bounds=BOUNDS)
    return LEVELS**5


def chances(components: Any) -> int:
    """How probable it is for every design that it meets a target."""
    from gstudy.planning.requests import request_of

    request = request_of(
        components, cost=None, bounds=BOUNDS, multiples=None, judges="all", pin=None, system=None,
        goal="half_width", coverage=0.95, systems=None,
    )  # fmt: skip
    counts = request.spaces[0].lay_out(BUDGET, None)
    found = request.goal.chances(counts, "all", TARGET)
    return len(found)


def cheapest(components: Any) -> int:
    """The cheapest design that meets a target that few do."""
    import gstudy as gs

    found = gs.cheapest_design(components, target=TARGET, bounds=BOUNDS)
    assert found.cost > LEVELS**3
    return LEVELS**5


def loop(components: Any) -> int:
    """Some of the designs, one at a time."""
    import gstudy as gs

    rng = np.random.default_rng(2)
    for levels in rng.integers(1, LEVELS + 1, (SAMPLE, 5)):
        budget = gs.variance_budget(components, dict(zip(FACETS, levels.tolist(), strict=True)))
        float((budget.half_width() <= TARGET).mean())
    return SAMPLE


TASKS = {
    "best": best,
    "cheapest": cheapest,
    "frontier": frontier,
    "chances": chances,
    "loop": loop,
}
"""What is measured, by row."""


def child(what: str) -> None:
    """One row, printed as JSON."""
    components = source()
    # The first call imports and decomposes.
    loop_of_one(components)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    designs = TASKS[what](components)
    seconds = time.perf_counter() - start
    raised = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    row = {"designs": designs, "draws": DRAWS, "terms": 2**5}
    print(json.dumps({**row, "seconds": seconds, "memory_mb": raised / 1024}))


def loop_of_one(components: Any) -> None:
    """What every row needs once."""
    import gstudy as gs

    gs.variance_budget(components, dict.fromkeys(FACETS, 2)).half_width()
    gs.best_design(components, budget=4, bounds=dict.fromkeys(FACETS, (1, 2)))


def measured(what: str) -> dict[str, Any]:
    """One row of a fresh process."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.search", "--child", what],
        capture_output=True, text=True, check=False, cwd=Path(__file__).resolve().parents[1],
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{what} failed: {done.stderr[-2000:]}")
    row: dict[str, Any] = json.loads(done.stdout)
    return {"what": what, **row}


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, write the table; 1 when the limit is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.search", description=__doc__)
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--child", choices=TASKS, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.child:
        child(given.child)
        return 0
    rows = [measured(what) for what in TASKS]
    each = rows[-1]["seconds"] / rows[-1]["designs"]
    for row in rows:
        row["times_naive"] = round(each * row["designs"] / row["seconds"], 1)
        row["limit"] = LIMIT if row["what"] != "loop" else None
        row["seconds"] = round(row["seconds"], 2)
        row["memory_mb"] = round(row["memory_mb"])
        print(row, flush=True)
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
