"""`python -m benchmarks.convergence`: how many rollouts a task make the ICC of a system known?

Six systems of `benchmarks.truth`'s data, ICCs from 0.2 to 0.9 (two with one pass rate, 0.474): the
convergence curve of `gs.convergence` at 2 to 256 of at least 1,058 rollouts on each of 164 tasks.
Mustahsan et al. 2025 (arXiv 2512.06710) find that the ICC of structured tasks converges by 8 to 16
trials, and that of GAIA level 3 by 32; their criterion is a point estimate that stays. Beside it
stand here the intervals: of the ICC of tasks like these, which 164 tasks bound from below however
many rollouts there are, and of that of these tasks, which goes on shrinking.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import pandas as pd

import gstudy as gs
from benchmarks.truth import DATA, full_counts, study, true_values
from gstudy.display import Table

__all__ = ["LEVELS", "PAPER", "SYSTEMS", "main", "settled"]

RESULTS = Path(__file__).with_name("convergence.csv")
SYSTEMS = (
    "qwen2-1.5b-instruct",
    "qwen2.5-coder-7b-instruct",
    "deepseek_v2_lite_chat",
    "google_codegemma_1.1_7b_it",
    "qwen3-14b",
    "google_gemma_3_12b_it",
)
LEVELS = (2, 4, 8, 16, 32, 64, 128, 256)
PAPER = {"structured tasks": (8, 16), "GAIA level 3": (32, 32)}
"""The paper's numbers of trials (oracles/published.json, paper_convergence)."""

NEAR = 0.02
"""A point estimate has settled where it stays so near the ICC of the full counts."""


def settled(anova: pd.DataFrame, truth: pd.Series) -> pd.Series:
    """By system the rollouts from which on every resample's ANOVA ICC stays near the full one."""
    away = (anova["icc"] - anova["group"].map(truth)).abs()
    worst = away.groupby([anova["group"], anova["rollouts"]]).max().unstack()
    found = {}
    for system, row in worst.iterrows():
        far = row.index[~(row < NEAR)]
        later = [n for n in row.index if not len(far) or n > far.max()]
        found[system] = float(later[0]) if later else float("nan")
    return pd.Series(found)


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, write the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.convergence")
    parser.add_argument("--resamples", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, default=RESULTS, metavar="CSV")
    chosen = parser.parse_args(arguments)
    if not DATA.is_file():
        print(f"needs {DATA.name} in ../shared/data")
        return 1
    start = time.perf_counter()
    counts = full_counts()
    counts = counts[counts["system"].isin(SYSTEMS)].reset_index(drop=True)
    curve = gs.convergence(
        study(),
        counts,
        levels=LEVELS,
        resamples=chosen.resamples,
        seed=chosen.seed,
        progress=False,
    )
    truth = true_values(counts)["icc"]
    rows = curve.summary().reset_index()
    rows.insert(1, "true_icc", rows["system"].map(truth))
    rows.round(4).to_csv(chosen.output, index=False, lineterminator="\n")
    print(curve.table().text())
    below = curve.stays_below()
    below.columns = [f"{estimand} {width:g}" for estimand, width in below.columns]
    known = below.assign(true_icc=truth, point=settled(curve.anova, truth)).loc[list(SYSTEMS)]
    aside = chosen.output.with_name(f"{chosen.output.stem}_known.csv")
    known.rename_axis("system").round(4).to_csv(aside, lineterminator="\n")
    told = ", ".join(
        f"{kind} {low}{'' if low == high else f' to {high}'}" for kind, (low, high) in PAPER.items()
    )
    notes = (
        "Rollouts from which on the 95% interval is narrower.",
        f"point: from which on the ANOVA ICC stays within {NEAR:g} of that of the full counts.",
        f"The paper, by its point estimates: {told}.",
    )
    print(f"\n{Table(known, 'When the ICC is known', scale='score', notes=notes).text()}")
    print(f"{time.perf_counter() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
