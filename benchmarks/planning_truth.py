"""`python -m benchmarks.planning_truth`: does a pilot of 4 rollouts predict what larger designs do?

Data: pass counts of 48 systems with at least 100 rollouts on each of 164 tasks, as in
`benchmarks.truth`. From these 4 rollouts a task are drawn without replacement, each system is
fitted by itself, and designs with 1, 4 and 16 rollouts of the same tasks are predicted:

- variance over re-runs, and with it the standard error of the score for these tasks: against
  ``sum_t p_t (1 - p_t) / (T n^2)`` of the full counts, n tasks of T rollouts. `rerun` is what
  `gs.rerun_noise` predicts, the expectation ``E[p (1 - p)] / (T n)`` over tasks like these; `these`
  that of the fitted tasks, ``sum_t p_t (1 - p_t) / (T n^2)`` of each draw's effects. Both go as
  1/T, so that they hold the truth at every T or at none.
- variance over new tasks and rollouts (`gs.variance_budget`): against ``S^2 / n + sum_t p_t
  (1 - p_t) / (T n^2)``, S^2 the variance of the p_t, divisor n - 1, less what their own rollouts
  add. The posterior is of the population of tasks, the truth of a sample of 164. At one rollout it
  is ``m (1 - m) / n``, which ends at ``1 / (4 n)``: where the pass rate is near 1/2 the estimate of
  the full counts lies at that end or beyond it, and no posterior does. There is no limit for it.
- a re-run that was made: the score of T other rollouts of each task, against the 95% interval of
  scores that are drawn from the posterior of these tasks' rates (posterior predictive).

A miss of a variance is listed with the smallest p of the fit's posterior check, and what it is of:
`planning_truth_misses.csv`.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

import gstudy as gs
from benchmarks.truth import DATA, LEVEL, full_counts, holds, resampled, study
from gstudy.display import Table

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[np.float64]

__all__ = ["PREDICTED", "main", "rates_of", "summarised", "true_variances", "unbiased_products"]

RESULTS = Path(__file__).with_name("planning_truth.csv")
PILOT = 4
PREDICTED = (1, 4, 16)
LEAST_COVERAGE = 0.95
ESTIMANDS = ("rerun", "these", "total", "score")
_CHECKS = 500


def unbiased_products(successes: Array, trials: Array) -> Array:
    """Unbiased estimates of p (1 - p), ``k (n - k) / (n (n - 1))``, of k passes of n."""
    return successes * (trials - successes) / (trials * (trials - 1))


def true_variances(successes: Array, trials: Array, rollouts: int) -> tuple[float, float]:
    """Variance over re-runs of these tasks, and over new tasks and rollouts, of the full counts."""
    n = len(trials)
    products = unbiased_products(successes, trials)
    rerun = float(products.sum()) / (rollouts * n**2)
    between = float(np.var(successes / trials, ddof=1) - np.mean(products / trials))
    return rerun, between / n + rerun


def rates_of(fit: gs.Fit) -> Array:
    """Pass rates of the tasks that were fitted; (chain, draw, task)."""
    logits = fit.mu[..., None] + fit.effects("task").values
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * logits)))


def smallest_p(fit: gs.Fit, seed: int) -> tuple[float, str]:
    """The smallest p of a fit's posterior check, and its statistic."""
    found = gs.posterior_check(fit, draws=_CHECKS, seed=seed).summary()["p"]
    return float(found.min()), str(found.idxmin())


def measured(
    fit: gs.Fit, drawn: pd.DataFrame, own: pd.DataFrame, rng: np.random.Generator
) -> list[dict[str, object]]:
    """One row per predicted number of rollouts of one system's fit.

    `drawn` are the rows of its pilot, `own` its full counts, in one order of tasks.
    """
    successes, trials = (own[c].to_numpy(float) for c in ("successes", "trials"))
    left = [own[c].to_numpy() - drawn[c].to_numpy() for c in ("successes", "trials")]
    rates, n = rates_of(fit), len(own)
    products = (rates * (1 - rates)).sum(axis=-1)
    rows = []
    for rollouts in PREDICTED:
        design = {"task": n, "trials": rollouts}
        rerun, total = true_variances(successes, trials, rollouts)
        again = rng.hypergeometric(left[0], left[1] - left[0], rollouts).sum() / (rollouts * n)
        new = rng.binomial(rollouts, rates).sum(axis=-1) / (rollouts * n)
        found = {
            "rerun": (gs.rerun_noise(fit, design).draws.values, rerun),
            "these": (products / (rollouts * n**2), rerun),
            "total": (gs.variance_budget(fit, design).variance.values, total),
            "score": (new, float(again)),
        }
        row: dict[str, object] = {"rollouts": rollouts, "true_se": rerun**0.5}
        for name, (draws, truth) in found.items():
            row[f"{name}_holds"], *_ = holds(draws, truth)
            if name != "score":
                row[f"{name}_ratio"] = float(draws.mean()) / truth
        row["rerun_se"] = float(np.sqrt(found["rerun"][0]).mean())
        rows.append(row)
    return rows


def run(resamples: int, seed: int, draws: int) -> pd.DataFrame:
    """Every resample: one row per system, resample and predicted number of rollouts."""
    counts = full_counts()
    rows: list[dict[str, object]] = []
    for resample in range(resamples):
        table = resampled(counts, PILOT, np.random.default_rng([seed, PILOT, resample]))
        with warnings.catch_warnings():
            # Fits that fail a gate are kept, and counted.
            warnings.simplefilter("ignore", gs.ConvergenceWarning)
            fits = gs.fit_by(
                study(),
                table,
                by="system",
                seed=seed + 1000 * resample,
                draws=draws,
                progress=False,
            )
        for i, (system, fit) in enumerate(fits.items()):
            mine = table["system"] == system
            rng = np.random.default_rng([seed, resample, i])
            found = measured(fit, table[mine], counts[mine], rng)
            missed = not all(row[f"{name}_holds"] for row in found for name in ESTIMANDS[:3])
            p, statistic = smallest_p(fit, seed) if missed else (float("nan"), "")
            known = {"system": system, "resample": resample, "check_p": p, "check_of": statistic}
            known["gates_failed"] = not fit.diagnostics.passed
            rows += [known | row for row in found]
        print(".", end="", file=sys.stderr, flush=True)
    return pd.DataFrame(rows)


def summarised(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per system and predicted number of rollouts: shares and means over resamples."""
    shares = [f"{name}_holds" for name in ESTIMANDS]
    means = ["true_se", "rerun_se", *(f"{name}_ratio" for name in ESTIMANDS[:3])]
    groups = rows.groupby(["system", "rollouts"], sort=False)
    found = groups[[*means, *shares]].mean()
    found["check_p"] = groups["check_p"].min()
    found["gates_failed"] = groups["gates_failed"].sum()
    found["resamples"] = groups.size()
    return found.reset_index()


def misses(rows: pd.DataFrame) -> pd.DataFrame:
    """The fits of which a variance was missed, with what and the check's smallest p."""
    held = rows[[f"{name}_holds" for name in ESTIMANDS[:3]]].all(axis=1)
    kept = ["system", "resample", "rollouts", "rerun_ratio", "these_ratio", "total_ratio"]
    kept += [f"{name}_holds" for name in ESTIMANDS[:3]]
    return rows.loc[~held, [*kept, "check_p", "check_of"]]


def report(rows: pd.DataFrame, resamples: int) -> Table:
    """Shares over all systems and resamples, one row per predicted number of rollouts."""
    shares = [f"{name}_holds" for name in ESTIMANDS]
    frame = rows.groupby("rollouts")[shares].mean().rename(columns=lambda c: c.split("_")[0])
    return Table(
        frame=frame,
        title=f"Held by 95% intervals from {PILOT} rollouts: {rows['system'].nunique()} systems, "
        f"{resamples} resamples",
        scale="score",
        notes=(
            "rerun, these: variance over re-runs of these tasks; total: over new tasks too;",
            "score: the score of other rollouts of these tasks (posterior predictive).",
        ),
        formats=dict.fromkeys(frame.columns, "percent1"),
    )


def missed(rows: pd.DataFrame) -> list[str]:
    """The limits that do not hold, one text each.

    Intervals of what is these tasks' own (their variance, their next score) are right where they
    hold 95%, and may miss by chance; those of tasks like these must hold at least as much.
    """
    texts = []
    for rollouts, own in rows.groupby("rollouts"):
        chance = 2.5 * (LEVEL * (1 - LEVEL) / len(own)) ** 0.5
        least = {"rerun": LEAST_COVERAGE, "total": LEAST_COVERAGE}
        least |= dict.fromkeys(("these", "score"), LEVEL - chance)
        for name, wanted in least.items():
            if name == "total" and rollouts == 1:
                continue
            share = float(own[f"{name}_holds"].mean())
            if share < wanted:
                texts.append(f"{rollouts} rollouts, {name}: held in {share:.1%}, not {wanted:.1%}")
    return texts


def main(arguments: list[str] | None = None) -> int:
    """Run; 1 when a limit is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.planning_truth")
    parser.add_argument("--resamples", type=int, default=3)
    parser.add_argument("--draws", type=int, default=1000, help="of each chain")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, default=RESULTS, metavar="CSV")
    chosen = parser.parse_args(arguments)
    if not DATA.is_file():
        print(f"needs {DATA.name} in ../shared/data")
        return 1
    start = time.perf_counter()
    rows = run(chosen.resamples, chosen.seed, chosen.draws)
    print(f"\n{report(rows, chosen.resamples).text()}")
    print(f"{time.perf_counter() - start:.0f} s")
    output: Path = chosen.output
    summarised(rows).round(6).to_csv(output, index=False, lineterminator="\n")
    aside = output.with_name(f"{output.stem}_misses.csv")
    misses(rows).round(4).to_csv(aside, index=False, lineterminator="\n")
    failures = missed(rows)
    for failure in failures:
        print(f"MISSED: {failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
