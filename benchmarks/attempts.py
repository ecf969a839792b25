"""Timed runs of a method on a workload, each in a process of its own.

A fresh process pays for its imports and its compilation as a user's first fit does. What numba
keeps on disk is warm: an untimed run of a few draws comes first, for the methods that keep any.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import math
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.libraries import (
    bench_bambi,
    bench_lme4,
    bench_numpyro,
    bench_ours,
    bench_rstanarm,
)
from benchmarks.methods import Method, Plan, Sampled
from benchmarks.problems import PROBLEMS

if TYPE_CHECKING:
    from benchmarks.problems import Problem

__all__ = [
    "COLD_ESS",
    "LEAST_ESS",
    "METHODS",
    "Attempt",
    "AttemptError",
    "TooSlowError",
    "attempt",
    "attempt_apart",
    "cold_seconds",
    "computed_cold_seconds",
    "draws_for",
    "measure",
    "until_enough",
    "warm",
    "weighted_mean",
]

METHODS = {
    method.name: method
    for module in (bench_ours, bench_bambi, bench_numpyro, bench_rstanarm, bench_lme4)
    for method in module.METHODS
}

ROOT = Path(__file__).resolve().parents[1]
LEAST_ESS = 100.0
COLD_ESS = 400.0
FIRST = (1000, 1000)
"""Tuning and draws of each chain at first: the default of every library that has one."""
SHORT = (500, 100)
"""The trial, whose row stands where the first run is not done within the limit."""
HOPE = 1.5
"""The first run is tried up to this many limits at the trial's pace, which tuning slows."""
MARGIN = 1.2
"""More draws than the last run's ESS asks for, because ESS varies between runs."""
LONGEST_COLD = 180.0
"""Seconds; a longer run to ESS 400 is computed from the last run, not made."""
WARMING_DRAWS = 10
KIB_PER_UNIT = 1 if sys.platform != "darwin" else 1 / 1024


class AttemptError(RuntimeError):
    """A run that gave no numbers."""


class TooSlowError(AttemptError):
    """A run that was not done within the limit."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """What one run measured.

    Parameters
    ----------
    workload, method : str
    seed, tune, draws : int
        Settings, per chain.
    seconds, cpu_seconds : float
        From a checked design to draws of mu and all sds; imports and reading are left out. CPU
        time is that of all threads and processes.
    compile_seconds : float
        The part of the seconds in which model code was written and compiled.
    cold_seconds : float
        From the start of the process to the ESS of the draws, imports and reading included.
    ess, rhat : float
        Smallest bulk ESS and largest R-hat of mu and all sds; NaN of a point estimate.
    slowest : str
        The quantity that has the smallest ESS.
    divergences : int
    failures : tuple of str
        Gates that are not passed.
    peak_mb : float
        Largest resident memory of one process, imports included.
    means, mcse : dict of str to float
        Posterior mean of each quantity (logit scale) and its Monte Carlo standard error.
    remark : str
    rounds : int
        Runs until this one.
    cold_400_seconds : float
        Of a process that starts cold and stops at ESS 400; NaN where no ESS is known.
    cold_400_is_measured : bool
        Whether a process did that, or it is computed from this run.
    """

    workload: str
    method: str
    seed: int
    tune: int
    draws: int
    seconds: float
    cpu_seconds: float
    compile_seconds: float
    cold_seconds: float
    ess: float
    rhat: float
    slowest: str
    divergences: int
    failures: tuple[str, ...]
    peak_mb: float
    means: dict[str, float]
    mcse: dict[str, float]
    remark: str = ""
    rounds: int = 1
    cold_400_seconds: float = math.nan
    cold_400_is_measured: bool = False

    @property
    def sampling_seconds(self) -> float:
        """Seconds of tuning and drawing."""
        return self.seconds - self.compile_seconds

    @property
    def ess_per_second(self) -> float:
        """Smallest bulk ESS per second of wall time, compilation included."""
        return self.ess / self.seconds

    @property
    def ess_per_sampling_second(self) -> float:
        """The same without compilation."""
        return self.ess / self.sampling_seconds


def attempt(problem: Problem, method: Method, plan: Plan, *, started: float) -> Attempt:
    """Run in this process, which began at `started` (`time.time`)."""
    for module in method.imports:
        importlib.import_module(module)
    design = problem.design()
    wall, cpu = time.perf_counter(), _cpu_seconds()
    sampled = method.sample(design, plan)
    seconds, cpu_seconds = time.perf_counter() - wall, _cpu_seconds() - cpu
    measured = _point(sampled) if method.is_point else measure(sampled)
    return Attempt(
        workload=problem.name,
        method=method.name,
        seed=plan.seed,
        tune=plan.tune,
        draws=plan.draws,
        seconds=seconds if sampled.seconds is None else sampled.seconds,
        cpu_seconds=cpu_seconds,
        compile_seconds=sampled.compile_seconds,
        cold_seconds=time.time() - started,
        divergences=sampled.divergences,
        peak_mb=_peak_mb(),
        remark=sampled.remark,
        **measured,
    )


def _cpu_seconds() -> float:
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def _peak_mb() -> float:
    whose = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return max(resource.getrusage(who).ru_maxrss for who in whose) * KIB_PER_UNIT / 1024


def _point(sampled: Sampled) -> dict[str, Any]:
    """A point estimate: values, and nothing to measure."""
    means = {name: float(value.mean()) for name, value in sampled.quantities.items()}
    mcse = dict.fromkeys(means, math.nan)
    return {
        "ess": math.nan,
        "rhat": math.nan,
        "slowest": "",
        "failures": (),
        "means": means,
        "mcse": mcse,
    }


def measure(sampled: Sampled) -> dict[str, Any]:
    """Gates and ESS of every quantity as drawn; weighted mean and its MCSE, by ArviZ."""
    layer: Any = importlib.import_module("arviz_stats.base")
    gates: Any = importlib.import_module("gstudy.fits.gates")
    found = gates.assess(sampled.quantities, {"diverging": [sampled.divergences]})
    ess = found.frame["ess_bulk"]
    means, mcse = {}, {}
    for name, x in sampled.quantities.items():
        means[name], mcse[name] = weighted_mean(x, sampled.weights, layer.array_stats.mcse)
    return {
        "ess": float(ess.min(skipna=False)),
        "rhat": float(found.frame["rhat"].max(skipna=False)),
        "slowest": str(ess.idxmin()) if ess.notna().any() else "",
        "failures": tuple(found.failures()) if sampled.failures is None else sampled.failures,
        "means": means,
        "mcse": mcse,
    }


def weighted_mean(x: Any, weights: Any, mcse: Callable[..., Any]) -> tuple[float, float]:
    """Mean of draws (chain, draw) and its Monte Carlo standard error.

    With weights it is the self-normalised estimate ``sum w x / sum w``, and its error that of the
    mean of ``w (x - mean) / mean(w)`` (the delta method).
    """
    if weights is None:
        return float(x.mean()), float(mcse(x, method="mean"))
    relative = weights / weights.mean()
    mean = float((relative * x).mean())
    return mean, float(mcse(relative * (x - mean), method="mean"))


def attempt_apart(problem: Problem, method: Method, plan: Plan, *, limit: float) -> Attempt:
    """Run in a fresh process.

    Raises
    ------
    TooSlowError
        When it is not done after `limit` seconds.
    AttemptError
        When it fails.
    """
    settings = [str(value) for value in (plan.seed, plan.tune, plan.draws, time.time())]
    command = [sys.executable, "-m", "benchmarks.attempts", problem.name, method.name, *settings]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as child:
        try:
            out, err = child.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            raise TooSlowError(
                f"{method.name} on {problem.name}: {plan.tune} + {plan.draws} draws are not done "
                f"after {limit:.0f} s"
            ) from None
        finally:
            # R and PyMC's chains are processes of its own session; on Ctrl-C they end too.
            if child.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
    if child.returncode:
        raise AttemptError(f"{method.name} on {problem.name} failed:\n{err[-2000:]}")
    found = json.loads(out.splitlines()[-1])
    return Attempt(**{**found, "failures": tuple(found["failures"])})


def warm(problem: Problem, method: Method, *, limit: float) -> None:
    """Fill the caches on disk with a run of a few draws."""
    if method.warms:
        with contextlib.suppress(TooSlowError):
            attempt_apart(problem, method, Plan(0, WARMING_DRAWS, WARMING_DRAWS), limit=limit)


def until_enough(problem: Problem, method: Method, seed: int, *, limit: float) -> Attempt:
    """Run, with more draws each time, until the smallest ESS is at least 100.

    The last run alone is counted, its tuning and compilation included. Where a run to ESS 100 would
    take longer than `limit` seconds, the last one stands with the ESS that it has.

    Raises
    ------
    TooSlowError
        When not even a short run is done within the limit.
    """
    found = _first(problem, method, seed, limit=limit)
    plan = Plan(seed, found.tune, found.draws)
    rounds = 1
    while not method.is_point and not found.ess >= LEAST_ESS:
        plan = replace(plan, draws=draws_for(LEAST_ESS, found))
        if _expected_seconds(found, plan) > limit:
            break
        try:
            found = attempt_apart(problem, method, plan, limit=limit)
        except TooSlowError:
            break
        rounds += 1
    return replace(found, rounds=rounds)


def _first(problem: Problem, method: Method, seed: int, *, limit: float) -> Attempt:
    """The run of the default length, or the trial where that would not be done."""
    plan = Plan(seed, *FIRST)
    if method.is_point:
        return attempt_apart(problem, method, plan, limit=limit)
    trial = attempt_apart(problem, method, Plan(seed, *SHORT), limit=limit)
    if _expected_seconds(trial, plan) > HOPE * limit:
        return trial
    try:
        return attempt_apart(problem, method, plan, limit=limit)
    except TooSlowError:
        return trial


def draws_for(ess: float, last: Attempt) -> int:
    """Draws of each chain that should give this ESS, from those that the last run took.

    At most 16 times as many: the ESS of chains that have not met means little.
    """
    factor = MARGIN * ess / last.ess if last.ess > 0 else math.inf
    return math.ceil(last.draws * min(factor, 16.0))


def _expected_seconds(last: Attempt, plan: Plan) -> float:
    more = (plan.tune + plan.draws) / (last.tune + last.draws)
    return last.compile_seconds + last.sampling_seconds * more


def computed_cold_seconds(last: Attempt) -> float:
    """Seconds from a cold start to ESS 400, ESS being proportional to draws after tuning."""
    iterations = last.tune + last.draws
    needed = last.tune + last.draws * COLD_ESS / last.ess
    return last.cold_seconds + last.sampling_seconds * (needed / iterations - 1.0)


def cold_seconds(problem: Problem, method: Method, last: Attempt) -> Attempt:
    """The last run with the time to ESS 400 from a cold process.

    A run with the library's default length that reached it is that process. Of a longer or shorter
    one the process is run with as many draws as should do, when that takes 3 minutes at most; else
    the time is computed.
    """
    if method.is_point or not last.ess > 0:
        return last
    default = (last.tune, last.draws) == FIRST
    if default and last.ess >= COLD_ESS:
        return replace(last, cold_400_seconds=last.cold_seconds, cold_400_is_measured=True)
    expected = computed_cold_seconds(last)
    if expected <= LONGEST_COLD:
        plan = Plan(last.seed, FIRST[0], max(FIRST[1], draws_for(COLD_ESS, last)))
        with contextlib.suppress(TooSlowError):
            cold = attempt_apart(problem, method, plan, limit=3 * LONGEST_COLD)
            if cold.ess >= COLD_ESS:
                return replace(last, cold_400_seconds=cold.cold_seconds, cold_400_is_measured=True)
            expected = computed_cold_seconds(cold)
    return replace(last, cold_400_seconds=expected)


def _child(workload: str, method: str, seed: str, tune: str, draws: str, started: str) -> None:
    plan = Plan(int(seed), int(tune), int(draws))
    found = attempt(PROBLEMS[workload], METHODS[method], plan, started=float(started))
    print(json.dumps(asdict(found)))


if __name__ == "__main__":
    _child(*sys.argv[1:])
