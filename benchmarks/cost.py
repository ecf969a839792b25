"""`python -m benchmarks.cost`: what a fit costs over cells 10^3 to 10^6 and components 1 to 6.

Each design is a process of its own: CPU microseconds per gradient of the direct path (the median of
rounds, after compilation), and the peak of memory that a fit is told to take. Designs of up to
`--fits` cells are also fitted (4 x 1,000 draws, direct): seconds, CPU seconds, gradients a draw,
and the peak that was measured. Rows are merged by cells and components into `cost.csv`.
"""

from __future__ import annotations

import argparse
import csv
import json
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["design", "main", "measure"]

RESULTS = Path(__file__).with_name("cost.csv")
CELLS = (1_000, 10_000, 100_000, 1_000_000)
COMPONENTS = (1, 2, 3, 4, 5, 6)
COLUMNS = [
    "cells", "components", "effects", "gradient_us", "gradient_ns_per_cell", "program_mb",
    "told_mb", "peak_mb", "fit_seconds", "fit_cpu_seconds", "gradients_per_draw", "divergences",
]  # fmt: skip

# Facets in the order they are added, with their share of the levels; then three interactions.
TRIALS = 4
SDS = (1.2, 0.8, 0.5, 0.7, 0.4, 0.4)


def design(n_cells: int, n_components: int) -> tuple[Any, Any]:
    """A crossed study with that many cells, each of four trials, and that many components."""
    import pandas as pd

    import gstudy as gs

    names = ["task", "system", "judge"][: min(n_components, 3)]
    # One facet has a level per cell; of several, tasks are most and judges few.
    split = {1: (n_cells,), 2: (n_cells // 20, 20), 3: (n_cells // 40, 10, 4)}[len(names)]
    grid = np.indices(split).reshape(len(split), -1)
    rng = np.random.default_rng(1)
    eta = np.full(grid.shape[1], 0.3)
    for codes, size, sd in zip(grid, split, SDS, strict=False):
        eta += rng.normal(0, sd, size)[codes]
    sets = ["task:system", "task:judge", "system:judge"][: max(n_components - 3, 0)]
    for name, sd in zip(sets, SDS[3:], strict=False):
        first, second = (names.index(facet) for facet in name.split(":"))
        eta += rng.normal(0, sd, (split[first], split[second]))[grid[first], grid[second]]
    frame = pd.DataFrame({name: grid[i] for i, name in enumerate(names)})
    frame["k"], frame["n"] = rng.binomial(TRIALS, 1 / (1 + np.exp(-eta))), TRIALS
    facets = [gs.Facet(name, role="legitimate") for name in names]
    study = gs.Study(successes="k", trials="n", facets=facets, interactions=sets or "none")
    return study, frame


def measure(n_cells: int, n_components: int, fitted: bool) -> dict[str, Any]:
    """One design: gradients, and a fit of it."""
    import gstudy as gs
    from gstudy.study.estimable import assess

    warnings.simplefilter("ignore")
    found = assess(*design(n_cells, n_components))
    row: dict[str, Any] = {"cells": len(found.cells.trials), "components": len(found.components)}
    row["effects"] = sum(component.n_levels for component in found.components)
    micros = _gradient(*_density(found))
    row["gradient_us"] = round(micros, 1)
    row["gradient_ns_per_cell"] = round(1e3 * micros / row["cells"], 1)
    row["program_mb"] = _peak()
    row["told_mb"] = found.peak_memory(sampler="direct") // 1_000_000
    if fitted:
        wall, cpu = time.perf_counter(), time.process_time()
        fit = gs.fit(found.study, found, seed=1, sampler="direct", progress=False)
        row["fit_seconds"] = round(time.perf_counter() - wall, 1)
        row["fit_cpu_seconds"] = round(time.process_time() - cpu, 1)
        row["peak_mb"] = _peak()
        row["gradients_per_draw"] = round(float(fit.posterior["sample_stats"]["n_steps"].mean()), 1)
        row["divergences"] = fit.diagnostics.divergences
    return row


def _density(found: Any) -> tuple[Any, Any]:
    """What a fit samples, with effects integrated out where it does so, and where that starts."""
    from gstudy.model.direct import direct_posterior
    from gstudy.model.integrable_effects import without_effects
    from gstudy.model.one_way import one_way
    from gstudy.model.parameterisation import parameterise
    from gstudy.study.integrable import integrable_component

    p = parameterise(found.cells, found.mu_prior)
    place = integrable_component(found.cells)
    if place is not None and len(p.blocks) == 1:
        alone = one_way(p)
        return alone, alone.start
    p = p if place is None else without_effects(p, found.cells, place)
    return direct_posterior(p), p.start


def _gradient(posterior: Any, x: Any) -> float:
    """CPU microseconds of one gradient: the median of seven rounds."""
    posterior(x)
    start = time.process_time()
    posterior(x)
    times = max(3, int(0.2 / max(time.process_time() - start, 1e-6)))
    rounds = []
    for _ in range(7):
        start = time.process_time()
        for _ in range(times):
            posterior(x)
        rounds.append(1e6 * (time.process_time() - start) / times)
    return float(np.median(rounds))


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 // 1_000_000


def main() -> None:
    """Measure the designs, each in a process, and merge the rows."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cost", description=__doc__)
    parser.add_argument("--cells", type=int, nargs="+", default=CELLS)
    parser.add_argument("--components", type=int, nargs="+", default=COMPONENTS)
    parser.add_argument("--fits", type=int, default=10_000, metavar="CELLS")
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        [cells], [components] = given.cells, given.components
        print(json.dumps(measure(cells, components, cells <= given.fits)))
        return
    known: dict[tuple[int, int], dict[str, Any]] = {}
    if given.output.exists():
        with given.output.open(newline="") as file:
            rows = csv.DictReader(file)
            known = {(int(row["cells"]), int(row["components"])): row for row in rows}
    for cells in given.cells:
        for components in given.components:
            row = _in_process(cells, components, given.fits)
            key = (row["cells"], row["components"])
            known[key] = known.get(key, {}) | row
            print(row, flush=True)
            _write(given.output, known)


def _in_process(cells: int, components: int, fits: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.cost", "--child", "--fits", str(fits)]
    command += ["--cells", str(cells), "--components", str(components)]
    ran = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


def _write(path: Path, known: dict[tuple[int, int], dict[str, Any]]) -> None:
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, COLUMNS)
        table.writeheader()
        table.writerows(known[key] for key in sorted(known))


if __name__ == "__main__":
    main()
