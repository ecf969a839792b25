"""`python -m benchmarks.refits`: what a refit takes in a process that has fitted already.

`gs.fit` as it is by default, 4 x (1,000 + 1,000), by the direct path, everything included: the
model, sampling, recovery, gates, the labelled tree. Simulated: one system on 100 and 1,000 tasks,
10 systems on 100 tasks with and without system:task, and 2 on 200 tasks with own sds, by both
samplers; 8 rollouts of each cell.
`besides_sampling` is the CPU time outside of the sampler; `gradients` those of the kept draws
(tuning takes about as many).
"""

from __future__ import annotations

import argparse
import csv
import itertools
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from gstudy.study.assessment import Assessment
    from gstudy.study.declaration import Study

__all__ = ["DESIGNS", "main", "refitted", "simulated"]

RESULTS = Path(__file__).with_name("refits.csv")
COLUMNS = ["what", "cells", "effects", "seconds", "cpu_seconds", "besides_sampling", "gradients"]
ROLLOUTS = 8
# Systems, tasks, whether system:task is a component, whether tasks have own sds.
DESIGNS = {
    "1 system x 100 tasks": (1, 100, False, False),
    "1 system x 1,000 tasks": (1, 1000, False, False),
    "10 systems x 100 tasks": (10, 100, False, False),
    "10 systems x 100 tasks, system:task": (10, 100, True, False),
    "2 systems x 200 tasks, own sds": (2, 200, False, True),
    "2 systems x 200 tasks, own sds, PyMC": (2, 200, False, True),
}


def simulated(
    n_systems: int, n_tasks: int, crossed: bool, own: bool = False
) -> tuple[Study, Assessment]:
    """A study with sds 1 (system), 2 (task) and, where it is a component, 0.9 (system:task)."""
    import pandas as pd

    import gstudy as gs
    from gstudy.study.estimable import assess

    rng = np.random.default_rng(1)
    logits = 0.3 + rng.normal(0, 1, (n_systems, 1)) * (n_systems > 1) + rng.normal(0, 2, n_tasks)
    logits = logits + rng.normal(0, 0.9, (n_systems, n_tasks)) * crossed
    passed = rng.random((n_systems, n_tasks, ROLLOUTS)) < 1 / (1 + np.exp(-logits[..., None]))
    rows = itertools.product(range(n_systems), range(n_tasks), range(ROLLOUTS))
    frame = pd.DataFrame(rows, columns=["system", "task", "rollout"]).astype(str)
    frame["score"] = passed.ravel().astype(int)
    parents = ["system", "task"] if n_systems > 1 else ["task"]
    facets = [
        gs.Facet("task", role="legitimate", varies="system" if own else None),
        gs.Facet("rollout", role="legitimate", nested_in=parents),
    ]
    declared: dict[str, Any] = {}
    if n_systems > 1:
        declared = {"object": "system", "interactions": ["system:task"] if crossed else []}
    else:
        frame = frame.drop(columns="system")
    study = gs.Study(score="score", facets=facets, **declared)
    return study, assess(study, frame)


def refitted(what: str, runs: int) -> dict[str, Any]:
    """Means over several refits, after one that is not counted."""
    import gstudy as gs
    from gstudy.model import chains

    study, found = simulated(*DESIGNS[what])
    how: dict[str, Any] = {"sampler": "pymc" if "PyMC" in what else "direct", "progress": False}
    sampler, sampling = chains.run_chains, []

    def timed(*arguments: Any) -> Any:
        start = time.process_time()
        result = sampler(*arguments)
        sampling.append(time.process_time() - start)
        return result

    chains.run_chains = timed
    try:
        gs.fit(study, found, seed=0, **how)
        sampling.clear()
        wall, cpu = time.perf_counter(), time.process_time()
        fits = [gs.fit(study, found, seed=i + 1, **how) for i in range(runs)]
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    finally:
        chains.run_chains = sampler
    steps = [int(fit.posterior["sample_stats"]["n_steps"].sum()) for fit in fits]
    return {
        "what": what,
        "cells": len(found.cells.trials),
        "effects": sum(component.n_levels for component in found.components),
        "seconds": round(wall / runs, 3),
        "cpu_seconds": round(cpu / runs, 3),
        "besides_sampling": round((cpu - sum(sampling)) / runs, 3),
        "gradients": sum(steps) // runs,
    }


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, write the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.refits", description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--output", type=Path, default=RESULTS)
    given = parser.parse_args(arguments)
    rows = []
    for what in DESIGNS:
        rows.append(refitted(what, given.runs))
        print(rows[-1], flush=True)
    with given.output.open("w", newline="") as file:
        table = csv.DictWriter(file, COLUMNS)
        table.writeheader()
        table.writerows(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
