"""`python -m benchmarks.variants`: the direct path with one of its choices left out at a time.

How the model is written for the sampler changes no posterior, only how well NUTS moves and what a
gradient takes. One run of 4 x (1,000 + 1,000) draws each, without the refit that a failed gate
would bring: smallest bulk ESS of mu and all sds per CPU second, recovery included (`variants.csv`);
`gradients` are those of the kept draws. Fails where the posterior mean of mu or an sd differs from
that of the path as it is by more than 5 Monte Carlo standard errors, unless the variant's own
chains have divergences or have not met.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import nutpie

from benchmarks.attempts import measure
from benchmarks.methods import CHAINS, CORES, Sampled
from benchmarks.problems import PROBLEMS
from benchmarks.run import LARGEST_RHAT
from gstudy.model import parameterisation, sampling
from gstudy.model.rounds import sampled_round
from gstudy.model.settings import TARGET_ACCEPT, make_settings

if TYPE_CHECKING:
    from gstudy.study.assessment import Assessment

__all__ = ["VARIANTS", "largest_z", "main", "sampled"]

RESULTS = Path(__file__).with_name("variants.csv")
COLUMNS = [
    "workload", "variant", "cpu_seconds", "gradients", "smallest_ess", "quantity",
    "ess_per_cpu_second", "divergences", "largest_z",
]  # fmt: skip
WORKLOADS = [
    "airline", "gpqa", "metr", "tau2_multijudge", "panel", "sim_20x170x8", "sim_6x100x2x5x3",
    "classic_insteval",
]  # fmt: skip
SEED, TUNE, DRAWS = 1, 1000, 1000
LARGEST_Z = 5.0
"""Of about 200 differences the largest of right ones is above it once in 9,000 runs."""

AS_IT_IS, LOW_RANK = "as it is", "mass matrix of low rank"
OF_LOW_RANK = {"airline", "gpqa", "tau2_multijudge"}
"""Workloads of about 200 coordinates at most: with the 933 of `metr` a run took 616 CPU seconds."""

type Variant = Callable[[], AbstractContextManager[Any]]


def _written(**options: Any) -> Variant:
    """The model as `parameterise` writes it with these options."""
    own = partial(parameterisation.parameterise, **options)
    return lambda: patch.object(sampling, "parameterise", own)


def _nothing(*_: Any) -> None:
    """There is no component to integrate out."""


def _not_integrated() -> AbstractContextManager[Any]:
    return patch.object(sampling, "integrable_component", _nothing)


def _none_above(_cells: Any, _modes: Any, above: list[list[int]]) -> list[list[int]]:
    return [[] for _ in above]


def _not_making_up() -> AbstractContextManager[Any]:
    return patch.object(parameterisation, "making_up", _none_above)


def _neither() -> AbstractContextManager[Any]:
    both = ExitStack()
    both.enter_context(_not_integrated())
    both.enter_context(_not_making_up())
    return both


def _low_rank() -> AbstractContextManager[Any]:
    own = partial(nutpie.sample, adaptation="low_rank")
    return patch.object(nutpie, "sample", own)


VARIANTS: Mapping[str, Variant] = {
    AS_IT_IS: nullcontext,
    "effects of one component are not integrated out": _not_integrated,
    "effects do not make up for those above": _not_making_up,
    "neither of these two": _neither,
    "means of components are not swept": _written(sweep=()),
    "location is not weighted by information": _written(weighted=False),
    "effects are not standardised by their trials": _written(standardise=False),
    LOW_RANK: _low_rank,
}


def sampled(design: Assessment, variant: str, *, tune: int, draws: int) -> dict[str, Any]:
    """One run of a variant: what `measure` finds, CPU seconds and gradients."""
    settings = make_settings(
        seed=SEED, draws=draws, tune=tune, chains=CHAINS, cores=CORES, sampler="direct",
        target_accept=TARGET_ACCEPT, progress=False, store_effects=None,
    )  # fmt: skip
    with VARIANTS[variant]():
        cpu = time.process_time()
        run = sampled_round(sampling.drawing(design, "direct"), settings)
        cpu = time.process_time() - cpu
    scalars = ("mu", *(f"sd({component.name})" for component in design.components))
    found = measure(
        Sampled({name: run.quantities[name] for name in scalars}, 0.0, run.diagnostics.divergences)
    )
    gradients = int(run.stats["n_steps"].sum())
    return {**found, "cpu": cpu, "gradients": gradients, "divergences": run.diagnostics.divergences}


def largest_z(one: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    """Largest difference of posterior means in its Monte Carlo standard errors."""
    return max(
        abs(mean - other["means"][name]) / math.hypot(one["mcse"][name], other["mcse"][name])
        for name, mean in one["means"].items()
    )


def _row(workload: str, variant: str, found: Mapping[str, Any], z: float) -> dict[str, Any]:
    return {
        "workload": workload,
        "variant": variant,
        "cpu_seconds": round(found["cpu"], 2),
        "gradients": found["gradients"],
        "smallest_ess": round(found["ess"]),
        "quantity": found["slowest"],
        "ess_per_cpu_second": float(f"{found['ess'] / found['cpu']:.3g}"),
        "divergences": found["divergences"],
        "largest_z": round(z, 2),
    }


def measured(workload: str, variants: list[str]) -> list[dict[str, Any]]:
    """A row for each variant, the path as it is first; before each a short run that compiles."""
    design = PROBLEMS[workload].design()
    rows: list[dict[str, Any]] = []
    first: dict[str, Any] = {}
    for variant in variants:
        if variant == LOW_RANK and workload not in OF_LOW_RANK:
            continue
        sampled(design, variant, tune=10, draws=10)
        found = sampled(design, variant, tune=TUNE, draws=DRAWS)
        first = first or found
        rows.append(_row(workload, variant, found, largest_z(found, first)))
        proves = not found["divergences"] and found["rhat"] <= LARGEST_RHAT
        rows[-1]["differs"] = proves and rows[-1]["largest_z"] > LARGEST_Z
        print({name: rows[-1][name] for name in COLUMNS}, flush=True)
    return rows


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    """Merged by workload into the table that is there."""
    kept: list[dict[str, Any]] = []
    if path.is_file():
        new = {row["workload"] for row in rows}
        with path.open(newline="") as file:
            kept = [row for row in csv.DictReader(file) if row["workload"] not in new]
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, COLUMNS, extrasaction="ignore")
        table.writeheader()
        table.writerows([*kept, *rows])


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, write the table; 1 where a posterior differs."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.variants", description=__doc__)
    parser.add_argument("--workload", nargs="+", choices=PROBLEMS, default=WORKLOADS)
    parser.add_argument("--output", type=Path, default=RESULTS)
    given = parser.parse_args(arguments)
    rows = []
    for workload in given.workload:
        if PROBLEMS[workload].missing:
            print(f"{workload} is skipped: {PROBLEMS[workload].missing}")
            continue
        rows += measured(workload, list(VARIANTS))
    _write(given.output, rows)
    wrong = [row for row in rows if row["differs"]]
    for row in wrong:
        print(f"FAILED: {row['workload']}, {row['variant']}: z = {row['largest_z']}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
