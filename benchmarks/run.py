"""The benchmark: run, compare, print, write; what is wrong is listed at the end."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import pandas as pd

from benchmarks import startup
from benchmarks.attempts import METHODS, Attempt, AttemptError, until_enough, warm
from benchmarks.comparison import by_method, differences, missed_limits, ratios
from benchmarks.methods import CHAINS, CORES
from benchmarks.problems import PROBLEMS
from gstudy.display import Table

if TYPE_CHECKING:
    from benchmarks.methods import Method
    from benchmarks.problems import Problem

__all__ = ["REFERENCES", "results", "run", "table"]

REFERENCES = ("bambi-0.8", "bambi-0.95")
"""The first is as its users run it, the second has the same sampler settings as ours: the limits
hold against both."""

PACKAGES = ("gstudy", "bambi", "pymc", "nutpie", "numba", "numpy")


def run(
    workloads: Sequence[str],
    methods: Sequence[str],
    seeds: Sequence[int],
    *,
    limit: float,
    output: Path,
    say: Callable[[str], None],
) -> list[str]:
    """Measure everything that can be measured here; what failed, one text each.

    Parameters
    ----------
    workloads, methods : sequence of str
        Keys of `PROBLEMS` and `METHODS`.
    seeds : sequence of int
        Every method runs once with each.
    limit : float
        Seconds for one method, workload and seed.
    output : Path
        Of the CSV.
    say : callable
        Takes each line of the report.
    """
    problems = [p for p in map(PROBLEMS.__getitem__, workloads) if _runs_here(p, p.missing, say)]
    chosen = [m for m in map(METHODS.__getitem__, methods) if _runs_here(m, _absent(m), say)]
    attempts, failures = [], []
    for problem in problems:
        for method, seed in _turns(chosen, seeds):
            try:
                if seed == seeds[0]:
                    warm(problem, method, limit=limit)
                attempts.append(until_enough(problem, method, seed, limit=limit))
                print(".", end="", file=sys.stderr, flush=True)
            except AttemptError as error:
                failures.append(str(error))
        failures += _report(problem, attempts, say)
    help_seconds = startup.help_seconds()
    say(f"gstudy --help: {help_seconds:.2f} s from start to exit, median of {startup.RUNS} runs")
    if help_seconds > startup.LIMIT:
        failures.append(f"gstudy --help takes {help_seconds:.2f} s, more than {startup.LIMIT} s")
    results(attempts, help_seconds).to_csv(output, index=False, lineterminator="\n")
    return failures


def _runs_here(thing: Problem | Method, why_not: str, say: Callable[[str], None]) -> bool:
    if why_not:
        say(f"{thing.name} is skipped: {why_not}")
    return not why_not


def _absent(method: Method) -> str:
    if not method.requires or importlib.util.find_spec(method.requires):
        return ""
    return f"{method.requires} is not installed (extra `bench`)"


def _turns(methods: Sequence[Method], seeds: Sequence[int]) -> list[tuple[Method, int]]:
    """Methods alternate, so that what else the machine does meets them all alike."""
    return [(method, seed) for seed in seeds for method in methods]


def _report(problem: Problem, attempts: Sequence[Attempt], say: Callable[[str], None]) -> list[str]:
    """Print what one workload gave; its failures."""
    if not by_method(attempts, problem.name):
        return []
    say(f"\n{table(problem, attempts).text()}\n")
    found = differences(attempts, problem.name)
    if found:
        worst = max(found, key=lambda difference: difference.share_of_allowed)
        say(
            f"Posterior means: {len(found)} differences between methods, the largest "
            f"{100 * worst.share_of_allowed:.0f}% of\nwhat is allowed:\n  {worst}"
        )
    disagreements = [f"the methods disagree: {d}" for d in found if not d.agrees]
    short = [
        f"{run.method} on {run.workload}, seed {run.seed}: smallest ESS {run.ess:.0f}, not "
        f"{METHODS[run.method].least_ess:.0f}, within the time limit"
        for run in attempts
        if run.workload == problem.name and run.ess < METHODS[run.method].least_ess
    ]
    missed = [
        text
        for reference in REFERENCES
        for text in missed_limits(problem, ratios(attempts, problem.name, reference), reference)
    ]
    return [*disagreements, *short, *missed]


def table(problem: Problem, attempts: Sequence[Attempt]) -> Table:
    """One row per method on a workload, medians over seeds."""
    over = {name: ratios(attempts, problem.name, name) for name in REFERENCES}
    rows = [
        {
            "method": name,
            "draws": median(run.draws for run in runs),
            "seconds": median(run.seconds for run in runs),
            "ESS": median(run.ess for run in runs),
            "ESS/s": median(run.ess_per_second for run in runs),
            "/CPU s": median(run.ess / run.cpu_seconds for run in runs),
            "div.": sum(run.divergences for run in runs),
            "MB": max(run.peak_mb for run in runs),
            **{_heading(ref): over[ref][name] for ref in REFERENCES if over[ref]},
        }
        for name, runs in by_method(attempts, problem.name).items()
    ]
    seeds = len({run.seed for run in attempts})
    return Table(
        pd.DataFrame(rows),
        title=f"{problem.name}: smallest bulk ESS per second over mu and all sds",
        notes=(_note(seeds),),
        formats={
            "draws": "int",
            "seconds": "number3",
            "ESS": "int",
            "ESS/s": "number3",
            "/CPU s": "number3",
            "div.": "int",
            "MB": "int",
            **{_heading(ref): "number3" for ref in REFERENCES},
        },
    )


def _heading(reference: str) -> str:
    return "x " + reference.replace("bambi-", "B.")


def _note(seeds: int) -> str:
    return (
        f"{CHAINS} chains on {CORES} cores; draws are per chain; medians over {seeds} "
        f"{'seed' if seeds == 1 else 'seeds'}, divergences summed. Seconds hold model, "
        "compilation (numba's disk cache warm) and sampling in a fresh process; /CPU s is the ESS "
        "per second of CPU time; x is ESS/s over that of Bambi at its target_accept."
    )


def results(attempts: Sequence[Attempt], help_seconds: float) -> pd.DataFrame:
    """Every run as a row, and one for the start of the program."""
    over = {
        (run.workload, ref): ratios(attempts, run.workload, ref)
        for run in attempts
        for ref in REFERENCES
    }
    rows: list[dict[str, object]] = [
        {
            "workload": run.workload,
            "method": run.method,
            "seed": run.seed,
            "chains": CHAINS,
            "cores": CORES,
            "tune": run.tune,
            "draws": run.draws,
            "target_accept": METHODS[run.method].target_accept,
            "seconds": round(run.seconds, 3),
            "cpu_seconds": round(run.cpu_seconds, 3),
            "total_seconds": round(run.total_seconds, 3),
            "smallest_ess": round(run.ess, 1),
            "quantity": run.slowest,
            "ess_per_second": round(run.ess_per_second, 3),
            "divergences": run.divergences,
            "refits": run.refits,
            "peak_mb": round(run.peak_mb),
            **{
                f"median_ratio_to_{ref}": round(over[run.workload, ref][run.method], 2)
                for ref in REFERENCES
                if over[run.workload, ref]
            },
        }
        for run in attempts
    ]
    rows.append(
        {"workload": "startup", "method": "gstudy --help", "seconds": round(help_seconds, 3)}
    )
    frame = pd.DataFrame(rows)
    whole = ["seed", "chains", "cores", "tune", "draws", "divergences", "refits", "peak_mb"]
    present = [name for name in whole if name in frame]
    return frame.astype(dict.fromkeys(present, "Int64")).assign(versions=_versions())


def _versions() -> str:
    installed = [name for name in PACKAGES if importlib.util.find_spec(name)]
    return ", ".join(f"{name} {version(name)}" for name in installed)
