"""The benchmark: run, merge, compare, print; what is wrong is listed at the end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.attempts import (
    LEAST_ESS,
    METHODS,
    AttemptError,
    TooSlowError,
    cold_seconds,
    until_enough,
    warm,
)
from benchmarks.comparison import differences, missed_limits, unfinished
from benchmarks.problems import PROBLEMS
from benchmarks.records import (
    MEASURED,
    Records,
    posterior_rows,
    result_row,
    too_slow_row,
)
from benchmarks.tables import table

if TYPE_CHECKING:
    from benchmarks.methods import Method
    from benchmarks.problems import Problem

__all__ = ["failures_of", "run"]

Say = Callable[[str], None]

LARGEST_RHAT = 1.05
"""Of another library's chains: beyond it, or with divergences, they prove nothing against ours."""


def run(
    workloads: Sequence[str],
    methods: Sequence[str],
    seed: int,
    *,
    limit: float,
    output: Path,
    say: Say,
) -> list[str]:
    """Measure everything that can be measured here; what failed, one text each.

    Parameters
    ----------
    workloads, methods : sequence of str
        Keys of `PROBLEMS` and `METHODS`.
    seed : int
    limit : float
        Seconds for one method and workload.
    output : Path
        Of the CSV, which is written after every row.
    say : callable
        Takes each line of the report.
    """
    records, failures = Records.read(output), []
    absent = {name: METHODS[name].missing() for name in methods}
    chosen = [METHODS[name] for name in methods if not absent[name]]
    skipped = {name: why for name, why in absent.items() if why}
    for problem in map(PROBLEMS.__getitem__, workloads):
        if problem.missing:
            say(f"{problem.name} is skipped: {problem.missing}")
            continue
        for method in chosen:
            try:
                records = _measured(records, problem, method, seed, limit)
            except AttemptError as error:
                failures.append(str(error))
                print(error, file=sys.stderr, flush=True)
            records.write(output)
            print(".", end="", file=sys.stderr, flush=True)
        failures += _report(problem, records, skipped, say)
    return failures


def _measured(
    records: Records, problem: Problem, method: Method, seed: int, limit: float
) -> Records:
    """The tables with this method's row."""
    when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M")
    try:
        warm(problem, method, limit=limit)
        found = until_enough(problem, method, seed, limit=limit)
    except TooSlowError as slow:
        row = too_slow_row(
            problem.name,
            method,
            seed,
            limit=limit,
            least_ess=LEAST_ESS,
            reason=str(slow),
            when=when,
        )
        return records.merged(row, [])
    found = cold_seconds(problem, method, found)
    row = result_row(found, method, limit=limit, least_ess=LEAST_ESS, when=when)
    return records.merged(row, posterior_rows(found))


def _report(problem: Problem, records: Records, skipped: dict[str, str], say: Say) -> list[str]:
    """Print what one workload gave; its failures."""
    rows = records.results
    if not (rows["workload"] == problem.name).any():
        return []
    say(f"\n{table(problem, rows, skipped).text()}\n")
    found = differences(rows, records.posteriors, problem.name)
    if found:
        worst = max(found, key=lambda difference: difference.share_of_allowed)
        say(
            f"Posterior means: {len(found)} differences between methods, the largest "
            f"{100 * worst.share_of_allowed:.0f}% of\nwhat is allowed:\n  {worst}"
        )
    return failures_of(problem, records, say)


def failures_of(problem: Problem, records: Records, say: Say = print) -> list[str]:
    """What is wrong with the rows of one workload: a wrong answer, gates, limits."""
    rows = records.results[records.results["workload"] == problem.name]
    ours = {name for name, method in METHODS.items() if method.is_ours}
    doubtful = set(rows[(rows["divergences"] > 0) | (rows["rhat"] > LARGEST_RHAT)]["method"]) - ours
    disagreements = []
    for difference in differences(rows, records.posteriors, problem.name):
        if not difference.agrees:
            if doubtful & set(difference.methods):
                say(
                    f"Differs, but of chains with divergences or R-hat above {LARGEST_RHAT}: "
                    f"{difference}"
                )
            else:
                disagreements.append(f"the methods disagree: {difference}")
    own = rows[rows["method"].isin(ours)]
    gates = [
        f"{row.method} on {problem.name}: {row.gates}"
        for row in own[own["status"] == MEASURED].itertuples()
        if row.gates != "passed"
    ]
    late = [
        f"{name} on {problem.name} did not reach ESS {LEAST_ESS:.0f} in time: {why}"
        for name, why in unfinished(own, problem.name).items()
    ]
    return [*disagreements, *gates, *late, *missed_limits(problem, rows)]
