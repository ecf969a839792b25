"""`python -m benchmarks.truth`: do intervals from few rollouts hold what many rollouts show?

Data: pass counts of 48 systems with at least 100 rollouts on each of 164 tasks (HumanEval+, 0.7
temperature; github.com/all-the-noises, arXiv 2512.21326), from ../shared/data. From these, 4 and
16 rollouts a task are drawn without replacement, each system is fitted by itself, and the 95%
intervals are held against the full counts:

- ICC(task), score scale: against the one-way ANOVA ICC(1,1) of the full counts. With hundreds of
  rollouts a task it is the value of these tasks to two or three digits; the between-task variance
  has divisor k - 1, so that it estimates the ICC of tasks like these without bias. The posterior
  is of that ICC, and does not know that the truth comes from the same 164 tasks: an interval that
  is right covers at least as often as it says.
- pass rate: against the mean over these 164 tasks. The interval of this bank is the posterior of
  the mean of the fitted tasks' rates; the interval for new tasks, which `gs.score` gives, must be
  wider, and holds the bank's rate nearly always.

Beside: the ICC of each system from one joint fit with shared sds, once per number of rollouts.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

import gstudy as gs
from benchmarks.engines import engine
from benchmarks.problems import SHARED
from benchmarks.ranks import coverage_limits
from gstudy.display import Table
from gstudy.variance.basis import basis_of
from gstudy.variance.decomposition import decompositions

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[np.float64]

__all__ = ["anova_icc_of_counts", "bank_rate", "holds", "resampled", "run", "true_values"]

DATA = SHARED / "data" / "highk_human_eval_plus.csv.gz"
RESULTS = Path(__file__).with_name("truth.csv")
ROLLOUTS = (4, 16)
LEAST_ROLLOUTS = 100
LEVEL = 0.95
LEAST_COVERAGE = 0.95
LEAST_OF_A_SYSTEM = 0.5
MOST_BELOW = 1
CHANCE = 0.01
ESTIMANDS = {
    "icc_holds": "ICC(task)",
    "new_holds": "pass rate, new tasks",
    "bank_holds": "pass rate, these tasks",
}


def study(*, joint: bool = False) -> gs.Study:
    """Systems by tasks, counts of rollouts."""
    return gs.Study(
        successes="successes",
        trials="trials",
        object="system",
        facets=[gs.Facet("task", role="legitimate")],
        interactions=["system:task"] if joint else "none",
    )


def full_counts(path: Path = DATA) -> pd.DataFrame:
    """Systems with at least 100 rollouts on every task: system, task, successes, trials."""
    table = pd.read_csv(path)
    enough = table.groupby("system")["trials"].transform("min") >= LEAST_ROLLOUTS
    return table[enough].reset_index(drop=True)


def anova_icc_of_counts(successes: Array, trials: Array) -> float:
    """One-way ANOVA ICC(1,1) of 0/1 scores, k passes of n trials in each group.

    ``(MSB - MSW) / (MSB + (n0 - 1) MSW)``, ``n0 = (N - sum n^2 / N) / (k - 1)`` (Donner 1986).
    """
    total, groups = trials.sum(), len(trials)
    rates = successes / trials
    between = (trials * (rates - successes.sum() / total) ** 2).sum() / (groups - 1)
    within = (trials * rates * (1 - rates)).sum() / (total - groups)
    size = (total - (trials**2).sum() / total) / (groups - 1)
    return float((between - within) / (between + (size - 1) * within))


def true_values(counts: pd.DataFrame) -> pd.DataFrame:
    """Index: systems; columns `icc` and `rate` (mean over tasks), of the full counts."""
    rows = {
        str(system): (
            anova_icc_of_counts(own["successes"].to_numpy(float), own["trials"].to_numpy(float)),
            float((own["successes"] / own["trials"]).mean()),
        )
        for system, own in counts.groupby("system", sort=False)
    }
    return pd.DataFrame.from_dict(rows, orient="index", columns=["icc", "rate"])


def resampled(counts: pd.DataFrame, rollouts: int, rng: np.random.Generator) -> pd.DataFrame:
    """So many rollouts of each system and task, drawn without replacement."""
    passed, trials = counts["successes"].to_numpy(), counts["trials"].to_numpy()
    drawn = rng.hypergeometric(passed, trials - passed, rollouts)
    return counts.assign(successes=drawn, trials=rollouts)


def bank_rate(fit: gs.Fit) -> Array:
    """Posterior of the mean pass rate of the tasks that were fitted; (chain, draw)."""
    logits = fit.mu[..., None] + fit.effects("task").values
    return np.asarray((0.5 * (1.0 + np.tanh(0.5 * logits))).mean(axis=-1))


def holds(draws: Array, truth: float) -> tuple[bool, float, float]:
    """Whether the equal-tailed 95% interval holds a value, and its ends."""
    lower, upper = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return bool(lower <= truth <= upper), float(lower), float(upper)


def measured(fits: gs.Fits, truth: pd.DataFrame) -> list[dict[str, object]]:
    """One row per system: what its own fit says, and whether that holds."""
    rows: list[dict[str, object]] = []
    for system, fit in fits.items():
        icc = gs.icc(fit, "task").draws.values
        covered, lower, upper = holds(icc, float(truth.loc[system, "icc"]))
        rate = float(truth.loc[system, "rate"])
        new = gs.score(fit).draws.values
        bank, low, high = holds(bank_rate(fit), rate)
        rows.append(
            {
                "system": system,
                "icc_mean": float(icc.mean()),
                "icc_width": upper - lower,
                "icc_holds": covered,
                "bank_width": high - low,
                "bank_holds": bank,
                "new_holds": holds(new, rate)[0],
                "gates_failed": not fit.diagnostics.passed,
                "refits": len(fit.diagnostics.refits),
            }
        )
    return rows


def shared_sd_iccs(table: pd.DataFrame, truth: pd.DataFrame, seed: int) -> pd.DataFrame:
    """ICC of each system from one fit with shared sds: what must not be done."""
    fit = gs.fit(study(joint=True), table, seed=seed, sampler="direct", progress=False)
    basis = basis_of(fit)
    rows = {}
    for system in truth.index:
        part = decompositions(basis, "score", system)[system]
        ratio = part.inside(frozenset({"task"})) / part.total
        covered, lower, upper = holds(ratio, float(truth.loc[system, "icc"]))
        rows[system] = (float(ratio.mean()), lower, upper, covered)
    columns = ["shared_icc", "shared_lower", "shared_upper", "shared_holds"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns)


def run(
    resamples: int,
    seed: int,
    *,
    draws: int,
    n_jobs: int | None,
    shared: bool,
    say: Callable[[str], None],
) -> tuple[pd.DataFrame, list[str]]:
    """Every resample of both numbers of rollouts: one row per system and number; what failed."""
    counts = full_counts()
    truth = true_values(counts)
    parts, failures = [], []
    for rollouts in ROLLOUTS:
        rows: list[dict[str, object]] = []
        start = time.perf_counter()
        for resample in range(resamples):
            table = resampled(counts, rollouts, np.random.default_rng([seed, rollouts, resample]))
            with warnings.catch_warnings():
                # Fits that fail a gate are kept, and counted.
                warnings.simplefilter("ignore", gs.ConvergenceWarning)
                fits = gs.fit_by(
                    study(),
                    table,
                    by="system",
                    seed=seed + 1000 * resample + rollouts,
                    draws=draws,
                    n_jobs=n_jobs,
                    progress=False,
                )
            rows += measured(fits, truth)
            print(".", end="", file=sys.stderr, flush=True)
        seconds = time.perf_counter() - start
        result = by_system(rows, truth, rollouts)
        if shared:
            table = resampled(counts, rollouts, np.random.default_rng([seed, rollouts, 0]))
            result = result.join(shared_sd_iccs(table, truth, seed))
        parts.append(result.rename_axis("system").reset_index())
        say(f"\n{report(result, rollouts, resamples).text()}")
        say(f"{len(rows)} fits in {seconds:.0f} s, {seconds / len(rows):.2f} s each\n")
        failures += missed(result, rollouts)
    return pd.concat(parts, ignore_index=True), failures


def by_system(
    rows: Sequence[dict[str, object]], truth: pd.DataFrame, rollouts: int
) -> pd.DataFrame:
    """Shares and means over resamples, one row per system."""
    groups = pd.DataFrame(rows).groupby("system", sort=False)
    means = groups[["icc_mean", "icc_width", "bank_width"]].mean()
    covered = groups[["icc_holds", "bank_holds", "new_holds"]].mean()
    totals = groups[["gates_failed", "refits"]].sum()
    result = truth.rename(columns={"icc": "true_icc", "rate": "true_rate"})
    result = result.join([means, covered, totals, groups.size().rename("resamples")])
    result.insert(0, "rollouts", rollouts)
    return result


def report(result: pd.DataFrame, rollouts: int, resamples: int) -> Table:
    """The table that is printed: all systems together, then those that are seldom covered."""
    columns = ["icc_holds", "bank_holds", "new_holds", "icc_width", "gates_failed"]
    seldom = result[(result["icc_holds"] < LEAST_COVERAGE) | (result["bank_holds"] < 0.8)]
    frame = pd.concat([result[columns].mean().to_frame("all systems").T, seldom[columns]])
    frame["gates_failed"] = [result["gates_failed"].sum(), *seldom["gates_failed"]]
    notes = [
        f"Share of {resamples} resample(s) whose 95% interval holds the value of the full counts.",
        "Listed: systems whose ICC is held in under 95%, or whose rate in under 80%.",
        "bank: mean over these tasks; new: the interval for new tasks, against the same value.",
    ]
    if "shared_holds" in result:
        n = int(result["shared_holds"].sum())
        notes.append(f"One joint fit with shared sds holds the ICC of {n} of {len(result)}.")
    shares = dict.fromkeys(["icc_holds", "bank_holds", "new_holds"], "percent1")
    return Table(
        frame=frame.rename_axis("system"),
        title=f"{len(result)} systems, 164 tasks, {rollouts} rollouts a task",
        scale="score",
        notes=tuple(notes),
        formats=shares | {"icc_width": "decimal3", "gates_failed": "int"},
    )


def missed(result: pd.DataFrame, rollouts: int) -> list[str]:
    """The limits that do not hold, one text each.

    An interval of these tasks' mean is wrong in 5% where all is right: it may miss by chance.
    """
    texts = []
    n = int(result["resamples"].sum())
    by_chance = coverage_limits(n, LEVEL, CHANCE)[0] / n
    limits = {"icc_holds": LEAST_COVERAGE, "new_holds": LEAST_COVERAGE, "bank_holds": by_chance}
    for column, least in limits.items():
        what = ESTIMANDS[column]
        coverage = float(result[column].mean())
        below = list(result.index[result[column] < LEAST_OF_A_SYSTEM])
        if coverage < least:
            texts.append(f"{rollouts} rollouts, {what}: held in {coverage:.1%}, not {least:.1%}")
        if len(below) > MOST_BELOW:
            texts.append(f"{rollouts} rollouts, {what}: under 50% for {', '.join(below)}")
    return texts


def parser() -> argparse.ArgumentParser:
    """The options."""
    found = argparse.ArgumentParser(prog="python -m benchmarks.truth")
    found.description = "Coverage of the full-count values of 48 real systems."
    found.add_argument("--resamples", type=int, default=10)
    found.add_argument("--draws", type=int, default=1000, help="of each chain")
    found.add_argument("--seed", type=int, default=1)
    found.add_argument("--jobs", type=int, default=None, help="fits at the same time")
    found.add_argument(
        "--scheduler", metavar="ADDRESS", help="of a dask cluster that makes the fits"
    )
    found.add_argument("--without-shared", action="store_true", help="no joint fit")
    found.add_argument("--output", type=Path, default=RESULTS, metavar="CSV")
    return found


def main(arguments: list[str] | None = None) -> int:
    """Run; 1 when a limit is missed."""
    chosen = parser().parse_args(arguments)
    if not DATA.is_file():
        print(f"needs {DATA.name} in ../shared/data")
        return 1
    with engine(chosen.scheduler):
        result, failures = run(
            chosen.resamples,
            chosen.seed,
            draws=chosen.draws,
            n_jobs=chosen.jobs,
            shared=not chosen.without_shared,
            say=print,
        )
    result.round(4).to_csv(chosen.output, index=False, lineterminator="\n")
    for failure in failures:
        print(f"MISSED: {failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
