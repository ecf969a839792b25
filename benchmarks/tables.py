"""The printed table of one workload."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from benchmarks.comparison import REFERENCES, ratios
from benchmarks.methods import CHAINS, CORES
from benchmarks.records import LIMIT
from gstudy.display import Table

if TYPE_CHECKING:
    import pandas as pd

    from benchmarks.problems import Problem

__all__ = ["table"]

_FORMATS = {
    "s": "number3",
    "ESS": "int",
    "ESS/s": "number3",
    "no comp.": "number3",
    "400": "number3",
    "MB": "int",
    "div.": "int",
    "x rows": "number3",
    "x cells": "number3",
}


def table(problem: Problem, rows: pd.DataFrame, skipped: Mapping[str, str]) -> Table:
    """One row per method on a workload, from the tracked table."""
    import pandas as pd

    own = rows[rows["workload"] == problem.name]
    frame = pd.DataFrame(
        {
            "method": own["method"],
            "s": own["seconds"],
            "ESS": own["smallest_ess"],
            "ESS/s": own["ess_per_second"],
            "no comp.": own["ess_per_sampling_second"],
            "400": own["cold_400_seconds"],
            "MB": own["peak_mb"],
            "div.": own["divergences"],
        }
    ).reset_index(drop=True)
    for reference in REFERENCES:
        over = ratios(rows, problem.name, reference)
        if over:
            frame[f"x {reference.removeprefix('bambi-')}"] = [
                over.get(name, float("nan")) for name in frame["method"]
            ]
    return Table(
        frame,
        title=f"{problem.name}: {problem.about}",
        notes=(
            _note(),
            *_remarks(own),
            *(f"{name} is skipped: {skipped[name]}" for name in skipped),
        ),
        formats={name: how for name, how in _FORMATS.items() if name in frame},
    )


def _note() -> str:
    return (
        f"{CHAINS} chains on {CORES} cores. ESS: smallest bulk ESS of mu and all sds; s: model, "
        "compilation (numba's disk cache warm) and sampling in a fresh process; ESS/s counts all "
        "of that, no comp. leaves compilation out; 400: seconds from a cold start, imports "
        "included, to ESS 400; x rows, x cells: ESS/s over that of Bambi with one row per trial "
        "and its own sampler, and given our cells and nutpie."
    )


def _remarks(own: pd.DataFrame) -> list[str]:
    """What a reader of single rows must know, and which rows are of another day."""
    found = []
    for row in own.itertuples():
        parts = [str(row.remark)] if isinstance(row.remark, str) and row.remark else []
        if isinstance(row.gates, str) and row.gates not in ("", "passed"):
            parts.append(f"gates: {row.gates}")
        if row.cold_400 == "computed":
            parts.append("400 is computed")
        if parts:
            sign = "over the limit: " if row.status == LIMIT else ""
            found.append(f"{row.method}: {sign}{'; '.join(parts)}")
    days = sorted({str(day)[:10] for day in own["measured"]})
    if len(days) > 1:
        found.append(f"The rows were measured on different days: {', '.join(days)}.")
    return found
