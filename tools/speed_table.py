"""Writes the README's table of speeds from the tracked benchmarks/results.csv.

The table stands between the lines `<!-- speed: begin -->` and `<!-- speed: end -->`. Without
`--write` nothing is written: the exit code is 1 when the table is not the one of the CSV.

    python tools/speed_table.py [README.md] [--results CSV] [--write]
"""

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results.csv"
BEGIN, END = "<!-- speed: begin -->", "<!-- speed: end -->"
METHODS = {
    "direct": "gstudy, direct",
    "pymc": "gstudy, PyMC",
    "numpyro": "NumPyro by hand",
    "bambi-cells": "Bambi, our cells, nutpie",
    "bambi-rows": "Bambi, trial rows",
    "rstanarm": "rstanarm",
}
RATIO_OF, RATIO_TO = "direct", "bambi-cells"
OVER_LIMIT = "over limit"

Rows = Mapping[tuple[str, str], Mapping[str, str]]


def read(path: Path) -> dict[tuple[str, str], dict[str, str]]:
    """The rows of the CSV by workload and method."""
    with path.open(newline="", encoding="utf-8") as file:
        return {(row["workload"], row["method"]): row for row in csv.DictReader(file)}


def number(value: float) -> str:
    """Two significant digits, and no exponent.

    >>> number(1234.0), number(17.4), number(0.163)
    ('1,200', '17', '0.16')
    """
    rounded = float(f"{value:.2g}")
    return f"{rounded:,.{max(0, 1 - math.floor(math.log10(rounded)))}f}"


def speed(rows: Rows, workload: str, method: str) -> str:
    """ESS per second; at most so much of a method that was not done in time, a dash without one."""
    row = rows.get((workload, method))
    if row is None or not row["ess_per_second"]:
        return "–"
    mark = "≤ " if row["status"] == OVER_LIMIT else ""
    return mark + number(float(row["ess_per_second"]))


def ratio(rows: Rows, workload: str) -> str:
    """How many times the reference's speed ours is; at least so many of one that was not done."""
    pair = [rows.get((workload, method)) for method in (RATIO_OF, RATIO_TO)]
    if any(row is None or not row["ess_per_second"] for row in pair):
        return "–"
    ours, reference = (float(row["ess_per_second"]) for row in pair if row is not None)
    late = pair[1] is not None and pair[1]["status"] == OVER_LIMIT
    return ("≥ " if late else "") + number(ours / reference)


def lines(rows: Rows) -> list[str]:
    """The table in Markdown."""
    shown = [method for method in METHODS if any(name == method for _, name in rows)]
    workloads = list(dict.fromkeys(workload for workload, _ in rows))
    heading = ["workload", *(METHODS[method] for method in shown), "direct over Bambi on cells"]
    body = [
        [f"`{name}`", *(speed(rows, name, method) for method in shown), ratio(rows, name)]
        for name in workloads
    ]
    return [_row(heading), _row(["---", *["---:"] * (len(heading) - 1)]), *map(_row, body)]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def with_table(markdown: str, table: Sequence[str]) -> str:
    """The text with this table between the two marks."""
    if markdown.count(BEGIN) != 1 or markdown.count(END) != 1:
        raise SystemExit(f"the file needs one line {BEGIN} and one line {END}")
    before, rest = markdown.split(BEGIN)
    _, after = rest.split(END)
    return "\n".join([before + BEGIN, "", *table, "", END + after])


def main() -> None:
    parser = argparse.ArgumentParser(description="Writes the README's table of speeds.")
    parser.add_argument("file", type=Path, nargs="?", default=ROOT / "README.md")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--write", action="store_true", help="write the table to the file")
    given = parser.parse_args()
    shown = given.file.read_text(encoding="utf-8")
    found = with_table(shown, lines(read(given.results)))
    if given.write:
        given.file.write_text(found, encoding="utf-8")
    elif found != shown:
        raise SystemExit(f"{given.file} does not show {given.results.name}: run with --write")


if __name__ == "__main__":
    main()
