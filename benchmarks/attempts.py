"""One timed run of a method on a workload, in a process of its own.

A fresh process pays for its compilation as a user's first fit does. What numba keeps on disk is
warm: an untimed run of a few draws comes first, for every method alike.
"""

from __future__ import annotations

import importlib
import json
import resource
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import bambi_nutpie, ours
from benchmarks.methods import Method, Plan, Sampled
from benchmarks.problems import PROBLEMS

if TYPE_CHECKING:
    from benchmarks.problems import Problem

__all__ = ["METHODS", "Attempt", "AttemptError", "attempt", "attempt_apart", "until_enough", "warm"]

METHODS = {method.name: method for method in (*ours.METHODS, *bambi_nutpie.METHODS)}

ROOT = Path(__file__).resolve().parents[1]
WARMING_DRAWS = 10
KIB_PER_UNIT = 1 if sys.platform != "darwin" else 1 / 1024


class AttemptError(RuntimeError):
    """A run that gave no numbers."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """What one run measured.

    Parameters
    ----------
    workload, method : str
    seed, tune, draws : int
        Settings, per chain.
    seconds, cpu_seconds : float
        From a checked design to draws of all quantities; imports and reading are left out. CPU
        time is that of all threads: what other work on the machine disturbs least.
    total_seconds : float
        With the runs before it that had too few draws.
    ess : float
        Smallest bulk ESS over mu and all sds.
    slowest : str
        The quantity that has it.
    divergences, refits : int
    peak_mb : float
        Largest resident memory of the process, imports included.
    means, mcse : dict of str to float
        Posterior mean of each quantity (logit scale) and its Monte Carlo standard error.
    """

    workload: str
    method: str
    seed: int
    tune: int
    draws: int
    seconds: float
    cpu_seconds: float
    total_seconds: float
    ess: float
    slowest: str
    divergences: int
    refits: int
    peak_mb: float
    means: dict[str, float]
    mcse: dict[str, float]

    @property
    def ess_per_second(self) -> float:
        """Smallest bulk ESS per second of wall time."""
        return self.ess / self.seconds


def attempt(problem: Problem, method: Method, plan: Plan) -> Attempt:
    """Run in this process."""
    design = problem.design()
    for module in method.imports:
        importlib.import_module(module)
    wall, cpu = time.perf_counter(), time.process_time()
    sampled = method.sample(design, plan)
    seconds, cpu_seconds = time.perf_counter() - wall, time.process_time() - cpu
    ess, means, mcse = _measure(sampled)
    slowest = min(ess, key=ess.__getitem__)
    return Attempt(
        workload=problem.name,
        method=method.name,
        seed=plan.seed,
        tune=plan.tune,
        draws=plan.draws,
        seconds=seconds,
        cpu_seconds=cpu_seconds,
        total_seconds=seconds,
        ess=ess[slowest],
        slowest=slowest,
        divergences=sampled.divergences,
        refits=sampled.refits,
        peak_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIB_PER_UNIT / 1024,
        means=means,
        mcse=mcse,
    )


def _measure(sampled: Sampled) -> tuple[dict[str, float], dict[str, float], dict[str, float]]:
    """Bulk ESS, mean and MCSE of the mean of every quantity, by ArviZ."""
    layer: Any = importlib.import_module("arviz_stats.base")
    stats, found = layer.array_stats, sampled.quantities
    return (
        {name: float(stats.ess(x, method="bulk")) for name, x in found.items()},
        {name: float(x.mean()) for name, x in found.items()},
        {name: float(stats.mcse(x, method="mean")) for name, x in found.items()},
    )


def attempt_apart(problem: Problem, method: Method, plan: Plan, *, limit: float) -> Attempt:
    """Run in a fresh process.

    Raises
    ------
    AttemptError
        When it fails, or is not done after `limit` seconds.
    """
    settings = [str(value) for value in (plan.seed, plan.tune, plan.draws)]
    command = [sys.executable, "-m", "benchmarks.attempts", problem.name, method.name, *settings]
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=limit
        )
    except subprocess.TimeoutExpired:
        raise AttemptError(
            f"{method.name} on {problem.name}: not done after {limit:.0f} s"
        ) from None
    if done.returncode:
        raise AttemptError(f"{method.name} on {problem.name} failed:\n{done.stderr}")
    return Attempt(**json.loads(done.stdout.splitlines()[-1]))


def warm(problem: Problem, method: Method, *, limit: float) -> None:
    """Fill the caches on disk with a run of a few draws."""
    attempt_apart(problem, method, Plan(0, WARMING_DRAWS, WARMING_DRAWS), limit=limit)


def until_enough(problem: Problem, method: Method, seed: int, *, limit: float) -> Attempt:
    """Run, with twice the draws each time, until the smallest ESS is enough.

    The last run counts, compilation included. When the next would not be done within `limit`
    seconds the last one stands, with the ESS that it has.
    """
    plan, spent = Plan(seed, method.tune, method.draws), 0.0
    while True:
        found = attempt_apart(problem, method, plan, limit=limit)
        spent += found.seconds
        if found.ess >= method.least_ess or spent + 2 * found.seconds > limit:
            return replace(found, total_seconds=spent)
        plan = replace(plan, draws=2 * plan.draws)


def _child(workload: str, method: str, *settings: str) -> None:
    plan = Plan(*(int(value) for value in settings))
    print(json.dumps(asdict(attempt(PROBLEMS[workload], METHODS[method], plan))))


if __name__ == "__main__":
    _child(*sys.argv[1:])
