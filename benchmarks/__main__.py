"""`python -m benchmarks`: the command line."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.attempts import METHODS
from benchmarks.problems import PROBLEMS
from benchmarks.run import run

RESULTS = Path(__file__).with_name("results.csv")
LIMIT = 720.0


def parser() -> argparse.ArgumentParser:
    """The options."""
    found = argparse.ArgumentParser(prog="python -m benchmarks")
    found.description = "Smallest bulk ESS per second of gstudy and of Bambi on the same cells."
    found.add_argument("--workload", nargs="+", choices=PROBLEMS, default=list(PROBLEMS))
    found.add_argument("--method", nargs="+", choices=METHODS, default=list(METHODS))
    found.add_argument("--seed", nargs="+", type=int, default=[1], metavar="N")
    found.add_argument(
        "--limit",
        type=float,
        default=LIMIT,
        metavar="SECONDS",
        help="for one method, workload and seed (default: %(default)g)",
    )
    found.add_argument(
        "--output",
        type=Path,
        default=RESULTS,
        metavar="CSV",
        help="default: benchmarks/results.csv, which is tracked: give another for a partial run",
    )
    return found


def main(arguments: list[str] | None = None) -> int:
    """Run; 1 when a method failed, the methods disagree, or a limit is missed."""
    chosen = parser().parse_args(arguments)
    failures = run(
        chosen.workload,
        chosen.method,
        chosen.seed,
        limit=chosen.limit,
        output=chosen.output,
        say=print,
    )
    for failure in failures:
        print(f"FAILED: {failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
