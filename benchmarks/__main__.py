"""`python -m benchmarks`: the command line."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.attempts import METHODS
from benchmarks.plots import draw
from benchmarks.problems import PROBLEMS
from benchmarks.run import run

RESULTS = Path(__file__).with_name("results.csv")
LIMIT = 600.0


def parser() -> argparse.ArgumentParser:
    """The options."""
    found = argparse.ArgumentParser(prog="python -m benchmarks")
    found.description = (
        "Smallest bulk ESS per second of gstudy and of other libraries on the same cells. Rows are "
        "merged into the CSV by workload and method."
    )
    found.add_argument("--workload", nargs="+", choices=PROBLEMS, default=list(PROBLEMS))
    found.add_argument("--method", nargs="+", choices=METHODS, default=list(METHODS))
    found.add_argument("--seed", type=int, default=1, metavar="N")
    found.add_argument(
        "--limit",
        type=float,
        default=LIMIT,
        metavar="SECONDS",
        help="for one method and workload (default: %(default)g)",
    )
    found.add_argument(
        "--output",
        type=Path,
        default=RESULTS,
        metavar="CSV",
        help="default: benchmarks/results.csv, which is tracked; posteriors.csv and speed.png lie "
        "beside it",
    )
    found.add_argument("--plot", action="store_true", help="only draw the CSV again")
    return found


def main(arguments: list[str] | None = None) -> int:
    """Run; 1 when a method failed, the methods disagree, or a limit is missed."""
    chosen = parser().parse_args(arguments)
    failures = (
        []
        if chosen.plot
        else run(
            chosen.workload,
            chosen.method,
            chosen.seed,
            limit=chosen.limit,
            output=chosen.output,
            say=print,
        )
    )
    if chosen.output.is_file():
        draw(chosen.output)
    for failure in failures:
        print(f"FAILED: {failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
