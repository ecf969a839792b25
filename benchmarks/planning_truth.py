"""`python -m benchmarks.planning_truth`: does a pilot of 4 rollouts predict what larger designs do?

Data: pass counts of 48 systems with at least 100 rollouts on each of 164 tasks, as in
`benchmarks.truth`. From these 4 rollouts a task are drawn without replacement, each system is
fitted by itself, and designs with 1, 4 and 16 rollouts of the same tasks are predicted. The truth
is what the full counts say of n tasks of T rollouts:

- variance over re-runs: ``sum_t p_t (1 - p_t) / (T n^2)``, each product estimated without bias;
- variance over new tasks and rollouts: ``S^2 / n`` more, S^2 the variance of the p_t, divisor
  n - 1, less what their own rollouts add;
- a re-run that was made: the score of T other rollouts of each task.

Both variances are statistics of 164 tasks with some hundred rollouts each. They are held against

- `these`, `these_total`: the posterior predictive distribution of these very statistics. In each
  draw the rollouts that the pilot did not take are drawn anew from the fitted tasks' rates, and
  the full counts that they make give the statistic. The question and the answer are of the same
  tasks, with the noise of the counts on both sides: such intervals hold 95% or the model is wrong.
- `rerun`, `total`: the posterior of `gs.rerun_noise` and `gs.variance_budget`, which are of the
  population of tasks. It knows nothing of how these 164 differ from their population.
- `score`: the posterior predictive distribution of the score.

At one rollout the variance over new tasks is ``m (1 - m) / n`` and ends at ``1 / (4 n)``; what the
full counts give may lie beyond that (`of_limit` above 1). An equal-tailed interval of what has an
end never holds the end: of the population it misses where m is near 1/2, however right it is, and
there is no limit for it. `these_total` has no such end.

`planning_truth.csv` has a row per system and number of rollouts, with the smallest p of its fits'
posterior checks; `planning_truth_misses.csv` every miss with the p of that fit's check;
`planning_truth_held.csv` the misses of each estimand and the probability of so many or more of
right 95% intervals (binomial).

Right 95% intervals miss one time in twenty, and no check tells such a miss. What a check has to
explain is a system that is missed again and again: `repeated_misses` finds those by the binomial
probability of their misses, and each must have a low p.

`these_total` has no limit. gstudy prints no such number; it is here because it shows how far real
task effects are from the model's normal ones (docs/truth.md), and at 4 rollouts they are not quite.
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
VARIANCES = ("rerun", "total", "these", "these_total")
ESTIMANDS = (*VARIANCES, "score")
LIMITED = ("these", "score")
"""Predictive intervals with a limit."""
LEAST_P = 0.01
LOW_P = 0.1
"""A posterior check says that a system is unlike the model where one of its resamples has less."""
_CHECKS = 500


def unbiased_products(successes: Array, trials: Array) -> Array:
    """Unbiased estimates of p (1 - p), ``k (n - k) / (n (n - 1))``, of k passes of n."""
    return successes * (trials - successes) / (trials * (trials - 1))


def true_variances(successes: Array, trials: Array, rollouts: int) -> tuple[Array, Array]:
    """Variance over re-runs of these tasks, and over new tasks and rollouts, of full counts.

    Parameters
    ----------
    successes : array (..., n_tasks)
    trials : array (n_tasks,)
    rollouts : int

    Returns
    -------
    rerun, total : array (...)
    """
    n = len(trials)
    products = unbiased_products(successes, trials)
    rerun = products.sum(axis=-1) / (rollouts * n**2)
    between = np.var(successes / trials, axis=-1, ddof=1) - np.mean(products / trials, axis=-1)
    return np.asarray(rerun), np.asarray(between / n + rerun)


def predicted_counts(
    drawn: tuple[Array, Array], trials: Array, rates: Array, rng: np.random.Generator
) -> Array:
    """Full counts as a pilot predicts them: its own passes and those of the rollouts that it left.

    Parameters
    ----------
    drawn : tuple of array (n_tasks,)
        Passes and trials of the pilot.
    trials : array (n_tasks,)
        Of the full counts.
    rates : array (..., n_tasks)
        Pass rates by draw.
    rng : numpy.random.Generator

    Returns
    -------
    array (..., n_tasks)
    """
    passed, taken = drawn
    return np.asarray(passed + rng.binomial((trials - taken).astype(int), rates))


def chance_of_misses(misses: int, cases: int) -> float:
    """Probability of so many misses or more, of independent intervals that hold 95%."""
    from scipy.stats import binom

    return float(binom.sf(misses - 1, cases, 1 - LEVEL))


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
    pilot = drawn["successes"].to_numpy(float), drawn["trials"].to_numpy(float)
    rates, n = rates_of(fit), len(own)
    counts = predicted_counts(pilot, trials, rates, rng)
    left = (successes - pilot[0]).astype(int), (trials - pilot[1]).astype(int)
    rows = []
    for rollouts in PREDICTED:
        design = {"task": n, "trials": rollouts}
        rerun, total = map(float, true_variances(successes, trials, rollouts))
        these, these_total = true_variances(counts, trials, rollouts)
        again = rng.hypergeometric(left[0], left[1] - left[0], rollouts).sum() / (rollouts * n)
        new = rng.binomial(rollouts, rates).sum(axis=-1) / (rollouts * n)
        found = {
            "rerun": (gs.rerun_noise(fit, design).draws.values, rerun),
            "total": (gs.variance_budget(fit, design).variance.values, total),
            "these": (these, rerun),
            "these_total": (these_total, total),
            "score": (new, float(again)),
        }
        row: dict[str, object] = {"rollouts": rollouts, "true_se": rerun**0.5}
        row["of_limit"] = 4 * n * total
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
            p, statistic = smallest_p(fit, seed)
            known = {"system": system, "resample": resample, "check_p": p, "check_of": statistic}
            known["gates_failed"] = not fit.diagnostics.passed
            rows += [known | row for row in found]
        print(".", end="", file=sys.stderr, flush=True)
    return pd.DataFrame(rows)


def summarised(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per system and predicted number of rollouts: shares and means over resamples."""
    shares = [f"{name}_holds" for name in ESTIMANDS]
    means = ["true_se", "rerun_se", "of_limit", *(f"{name}_ratio" for name in VARIANCES)]
    groups = rows.groupby(["system", "rollouts"], sort=False)
    found = groups[[*means, *shares]].mean()
    found["check_p"] = groups["check_p"].min()
    found["gates_failed"] = groups["gates_failed"].sum()
    found["resamples"] = groups.size()
    return found.reset_index()


def misses(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per miss: of what, by how much the mean is off, and the smallest p of the check."""
    found = []
    for name in ESTIMANDS:
        own = rows[~rows[f"{name}_holds"].astype(bool)]
        kept = own[["system", "resample", "rollouts", "of_limit", "check_p", "check_of"]]
        ratio = own.get(f"{name}_ratio", pd.Series(np.nan, own.index))
        found.append(kept.assign(estimand=name, ratio=ratio))
    first = ["estimand", "rollouts", "system", "resample", "ratio"]
    return pd.concat(found)[[*first, "of_limit", "check_p", "check_of"]]


def held(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per number of rollouts and estimand: misses, and how likely so many are by chance."""
    found = []
    for rollouts, own in rows.groupby("rollouts"):
        for name in ESTIMANDS:
            n_misses, cases = int((~own[f"{name}_holds"].astype(bool)).sum()), len(own)
            chance = chance_of_misses(n_misses, cases)
            found.append((rollouts, name, cases, n_misses, 1 - n_misses / cases, chance))
    columns = ["rollouts", "estimand", "cases", "misses", "held", "p_so_many_or_more"]
    return pd.DataFrame(found, columns=columns)


def repeated_misses(rows: pd.DataFrame, name: str = "rerun") -> pd.DataFrame:
    """Systems whose misses of an estimand are more than chance gives, with their checks' p.

    So many or more misses of right 95% intervals have a probability below `LEAST_P` over all
    systems together (Bonferroni). Every number of rollouts is missed by itself.
    """
    found = []
    for (rollouts, system), own in rows.groupby(["rollouts", "system"], sort=False):
        n_misses = int((~own[f"{name}_holds"].astype(bool)).sum())
        chance = min(chance_of_misses(n_misses, len(own)) * rows["system"].nunique(), 1.0)
        if n_misses and chance < LEAST_P:
            least, middle = own["check_p"].min(), own["check_p"].median()
            found.append((rollouts, system, n_misses, len(own), chance, least, middle))
    columns = ["rollouts", "system", "misses", "cases", "chance", "least_p", "median_p"]
    return pd.DataFrame(found, columns=columns)


def report(rows: pd.DataFrame, resamples: int) -> Table:
    """Shares over all systems and resamples, one row per predicted number of rollouts."""
    shares = [f"{name}_holds" for name in ESTIMANDS]
    frame = rows.groupby("rollouts")[shares].mean()
    frame = frame.rename(columns=lambda c: c.removesuffix("_holds").replace("_", " "))
    return Table(
        frame=frame,
        title=f"Held by 95% intervals from {PILOT} rollouts: {rows['system'].nunique()} systems, "
        f"{resamples} resamples",
        scale="score",
        notes=(
            "rerun, total: variance over re-runs, and over new tasks too, of tasks like these.",
            "these, these total: the same of the full counts of these tasks (predictive).",
            "score: of other rollouts of these tasks (predictive).",
        ),
        formats=dict.fromkeys(frame.columns, "percent1"),
    )


def missed(rows: pd.DataFrame) -> list[str]:
    """The limits that do not hold, one text each.

    Predictive intervals are right where they hold 95%, and may miss by chance; posterior intervals
    of the population must hold at least as much, but for the total at one rollout. A system that is
    missed again and again must have a low p of its posterior check.
    """
    texts = []
    for row in held(rows).to_dict(orient="records"):
        name, where = row["estimand"], f"{row['rollouts']} rollouts, {row['estimand']}"
        where += f": held in {row['held']:.1%}"
        if name in LIMITED:
            chance = row["p_so_many_or_more"]
            texts += [f"{where}, by chance with p = {chance:.2g}"] if chance < LEAST_P else []
        elif name != "these_total" and (name, row["rollouts"]) != ("total", 1):
            texts += [f"{where}, not {LEAST_COVERAGE:.1%}"] if row["held"] < LEAST_COVERAGE else []
    for row in repeated_misses(rows).to_dict(orient="records"):
        if row["least_p"] >= LOW_P:
            missed_times = f"missed {row['misses']} of {row['cases']} times"
            texts.append(f"{row['system']}: {missed_times}, no check below {LOW_P}")
    return texts


def explained(rows: pd.DataFrame) -> list[str]:
    """What is said of re-run noise: which misses are a system's own, and how many are left."""
    again = repeated_misses(rows)
    one = rows[rows["rollouts"] == PILOT]
    lines = [
        f"{row['system']}: re-run noise missed {row['misses']} of {row['cases']} times, smallest "
        f"check p {row['least_p']:.2g}, median {row['median_p']:.2g}"
        for row in again[again["rollouts"] == PILOT].to_dict(orient="records")
    ]
    rest = one[~one["system"].isin(again["system"])]
    n_misses = int((~rest["rerun_holds"].astype(bool)).sum())
    left = f"all others: {n_misses} of {len(rest)}, {n_misses / len(rest):.1%} (chance gives 5%)"
    return [*lines, left]


def main(arguments: list[str] | None = None) -> int:
    """Run; 1 when a limit is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.planning_truth")
    parser.add_argument("--resamples", type=int, default=10)
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
    print("\n".join(explained(rows)))
    print(f"{time.perf_counter() - start:.0f} s")
    output: Path = chosen.output
    summarised(rows).round(6).to_csv(output, index=False, lineterminator="\n")
    for name, table in (("misses", misses(rows)), ("held", held(rows))):
        aside = output.with_name(f"{output.stem}_{name}.csv")
        table.round(4).to_csv(aside, index=False, lineterminator="\n")
    failures = missed(rows)
    for failure in failures:
        print(f"MISSED: {failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
