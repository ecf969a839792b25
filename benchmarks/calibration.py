"""`python -m benchmarks.calibration`: are posteriors right where the model is?

Simulation-based calibration (Talts et al. 2018, arXiv:1804.06788) of the direct path: truths are
drawn from the default priors, trials from the truths, and the rank of every truth among the
posterior draws must be uniform. Ranked are what users read: mu, every sd, the components and ICCs
on the score scale, the shares of the budget, Phi and E rho^2.

The loop is our own: simuk, the library for it, compiles and refits a PyMC, Bambi or NumPyro model,
and what is calibrated here is the direct path with its recovery of mu and effects, which is none.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

import gstudy as gs
from benchmarks.ranks import coverage, coverage_limits, path_p_value, rank_of
from gstudy.display import Table

if TYPE_CHECKING:
    import numpy.typing as npt

    from gstudy.study.assessment import Assessment

    Floats = npt.NDArray[np.float64]

__all__ = ["DESIGNS", "Design", "assessed", "chunks", "quantities", "replication", "summarised"]

RESULTS = Path(__file__).with_name("calibration.csv")
FOLDER = Path("build/calibration")
LEVELS = (0.5, 0.8, 0.9, 0.95)
ERROR = 0.01
"""Probability that any of all quantities is outside its limits where all posteriors are right: by
Bonferroni each has this, divided by their number. They are dependent, so that it is less."""

CHUNK = 20
CHAINS, DRAWS, TUNE = 4, 1000, 1000
RANKED = 200
"""Draws of each fit that are ranked, of all chains: thinned so that they are nearly independent."""


@dataclass(frozen=True, slots=True)
class Design:
    """One design: a study, levels of its facets, and what its coefficients are of.

    Parameters
    ----------
    study : Study
    levels : mapping of str to int
        Of a nested facet within each combination of its parents.
    measured : str
        The object of Phi and E rho^2.
    iccs : tuple of str
    system : "new" or None
        Of components, ICCs and budget: of a population of systems, or of the only one.
    """

    study: gs.Study
    levels: Mapping[str, int]
    measured: str
    iccs: tuple[str, ...]
    system: str | None


def _systems() -> Design:
    study = gs.Study(
        score="score",
        object="system",
        facets=[
            gs.Facet("task", role="legitimate"),
            gs.Facet("rollout", role="legitimate", nested_in=["system", "task"]),
        ],
        interactions=["system:task"],
    )
    levels = {"system": 4, "task": 12, "rollout": 3}
    return Design(study, levels, "system", ("system", "task", "system:task"), "new")


def _judges() -> Design:
    study = gs.Study(
        score="score",
        facets=[
            gs.Facet("task", role="legitimate"),
            gs.Facet("rollout", role="legitimate", nested_in=["task"]),
            gs.Facet("judge", role="error"),
        ],
        interactions="none",
    )
    levels = {"task": 10, "rollout": 4, "judge": 3}
    return Design(study, levels, "task", ("task", "rollout", "judge"), None)


DESIGNS: Mapping[str, Callable[[], Design]] = {"systems": _systems, "judges": _judges}


def assessed(design: Design) -> Assessment:
    """Cells and components of the design; which scores are in it does not matter."""
    grid = itertools.product(*(range(n) for n in design.levels.values()))
    table = pd.DataFrame(grid, columns=list(design.levels)).astype(str)
    table["score"] = np.arange(len(table)) % 2
    with warnings.catch_warnings():
        # That rollouts lie inside the residual is meant.
        warnings.simplefilter("ignore", gs.EstimabilityWarning)
        return gs.check(design.study, table)


def truth_of(found: Assessment, rng: np.random.Generator) -> tuple[dict[str, Floats], Floats]:
    """A draw of mu, sds and effects from their priors, and the logit of each cell."""
    mu = float(found.mu_prior.draw(rng))
    values = {"mu": np.array(mu)}
    logit = np.full(len(found.cells.trials), mu)
    for component, index in zip(found.components, found.cells.index, strict=True):
        sd = float(component.prior.draw(rng))
        effects = sd * rng.standard_normal(component.n_levels)
        values |= {f"sd({component.name})": np.array(sd), f"u({component.name})": effects}
        logit += effects[index]
    return values, logit


def _known(fit: gs.Fit, values: Mapping[str, Floats]) -> gs.Fit:
    """The fit with the truth as its only draw: every quantity is computed of both alike."""
    draws = fit.posterior["posterior"].to_dataset().isel(chain=[0], draw=[0])
    truth = {name: np.asarray(values[name])[None, None] for name in draws.data_vars}
    tree = fit.posterior.copy()
    tree["posterior"] = type(tree)(draws.copy(data=truth))
    return replace(fit, posterior=tree)


def _thinned(fit: gs.Fit) -> gs.Fit:
    step = CHAINS * DRAWS // RANKED
    tree = fit.posterior.copy()
    draws = tree["posterior"].to_dataset().isel(draw=slice(None, None, step))
    tree["posterior"] = type(tree)(draws)
    return replace(fit, posterior=tree)


def quantities(fit: gs.Fit, design: Design) -> dict[str, Floats]:
    """Everything that is ranked, one number per draw."""
    found = {"mu": fit.mu} | {f"sd({name})": fit.sd(name) for name in fit.components}
    components = gs.variance_components(fit, system=design.system).draws
    shares = gs.variance_budget(fit, system=design.system).shares
    for kind, draws in (("v", components), ("share", shares)):
        for name in draws.coords["component"].values.tolist():
            found[f"{kind}({name})"] = draws.sel(component=name).values
    for name in design.iccs:
        found[f"ICC({name})"] = gs.icc(fit, name, system=design.system).draws.values
    found["Phi"] = gs.phi(fit, object=design.measured).draws.values
    found["E rho^2"] = gs.generalizability(fit, object=design.measured).draws.values
    return {name: np.asarray(values, dtype=float).ravel() for name, values in found.items()}


def replication(
    name: str, design: Design, found: Assessment, number: int, seed: int
) -> dict[str, Any]:
    """One truth, its trials, their fit: the rank of each quantity, and the sampler's gates."""
    rng = np.random.default_rng([seed, list(DESIGNS).index(name), number])
    values, logit = truth_of(found, rng)
    passed = rng.binomial(found.cells.trials, 0.5 * (1.0 + np.tanh(0.5 * logit)))
    data = replace(found, cells=replace(found.cells, successes=passed))
    with warnings.catch_warnings():
        # Fits that fail a gate are kept, and counted.
        warnings.simplefilter("ignore", gs.ConvergenceWarning)
        fit = gs.fit(
            design.study,
            data,
            seed=int(rng.integers(2**32)),
            draws=DRAWS,
            tune=TUNE,
            chains=CHAINS,
            cores=1,
            sampler="direct",
            progress=False,
        )
    truth = quantities(_known(fit, values), design)
    draws = quantities(_thinned(fit), design)
    ranks = rank_of(
        np.concatenate(list(truth.values())), np.stack([draws[name] for name in truth]), rng
    )
    gates = {
        "passed": fit.diagnostics.passed,
        "divergences": fit.diagnostics.divergences,
        "refits": len(fit.diagnostics.refits),
    }
    return {"number": number, **gates, **dict(zip(truth, ranks.tolist(), strict=True))}


def chunks(n: int) -> list[range]:
    """Replications that are run, and written, together."""
    return [range(start, min(start + CHUNK, n)) for start in range(0, n, CHUNK)]


def _run_chunk(name: str, numbers: range, seed: int, target: Path) -> float:
    """Run and write one chunk, whole or not at all; seconds that it took."""
    start = time.perf_counter()
    design = DESIGNS[name]()
    found = assessed(design)
    rows = [replication(name, design, found, number, seed) for number in numbers]
    part = target.with_suffix(".part")
    pd.DataFrame(rows).to_csv(part, index=False)
    part.replace(target)
    return time.perf_counter() - start


def simulated(name: str, n: int, seed: int, folder: Path, jobs: int) -> pd.DataFrame:
    """The ranks of n replications; those that are in the folder are read, not run."""
    from joblib import Parallel, delayed

    files = [folder / f"{name}-{own.start:05d}-{own.stop:05d}.csv" for own in chunks(n)]
    waiting = [
        (own, file) for own, file in zip(chunks(n), files, strict=True) if not file.is_file()
    ]
    start = time.perf_counter()
    runs = Parallel(n_jobs=jobs, return_as="generator_unordered")(
        delayed(_run_chunk)(name, own, seed, file) for own, file in waiting
    )
    for done, _ in enumerate(runs, 1):
        seconds = time.perf_counter() - start
        left = seconds / done * (len(waiting) - done)
        print(f"{name}: {done} of {len(waiting)}, {left:.0f} s left", file=sys.stderr, flush=True)
    return pd.concat([pd.read_csv(file) for file in files], ignore_index=True)


def summarised(ranks: Mapping[str, pd.DataFrame], seed: int) -> pd.DataFrame:
    """One row per design and quantity: coverage, its limits, the ECDF's p-value, verdicts.

    Parameters
    ----------
    ranks : mapping of str to DataFrame
        Per design; columns as `replication` gives.
    seed : int
        For the place of a truth within its rank.
    """
    rng = np.random.default_rng([seed, 0])
    names = {design: _quantity_names(table) for design, table in ranks.items()}
    error = ERROR / sum(map(len, names.values()))
    rows = []
    for design, table in ranks.items():
        n = len(table)
        low, high = coverage_limits(n, 0.9, error)
        for quantity in names[design]:
            own = table[quantity].to_numpy(dtype=np.int64)
            held = {level: coverage(own, RANKED, level, rng) for level in LEVELS}
            p_value = path_p_value(own, RANKED)
            rows.append(
                {
                    "design": design,
                    "quantity": quantity,
                    "n": n,
                    **{f"coverage_{100 * level:g}": held[level] / n for level in LEVELS},
                    "lower_90": low / n,
                    "upper_90": high / n,
                    "ecdf_p": p_value,
                    "coverage_passed": low <= held[0.9] <= high,
                    "ecdf_passed": p_value >= error,
                }
            )
    return pd.DataFrame(rows)


def _quantity_names(table: pd.DataFrame) -> list[str]:
    return [name for name in table if name not in ("number", "passed", "divergences", "refits")]


def report(summary: pd.DataFrame, ranks: Mapping[str, pd.DataFrame]) -> list[Table]:
    """One table per design."""
    tables = []
    for design, table in ranks.items():
        own = summary[summary["design"] == design]
        first = own.iloc[0]
        failed = int((~table["passed"]).sum())
        columns = [f"coverage_{100 * level:g}" for level in LEVELS]
        frame = own.set_index("quantity")[[*columns, "ecdf_p"]]
        frame = frame.rename(columns={name: name.removeprefix("coverage_") for name in columns})
        frame["inside"] = (own["coverage_passed"] & own["ecdf_passed"]).to_numpy()
        diverged, refits = int(table["divergences"].gt(0).sum()), int(table["refits"].sum())
        limits = f"{first['lower_90']:.1%} to {first['upper_90']:.1%}"
        each = f"{ERROR:g} over all {len(summary)} quantities, {ERROR / len(summary):.2g} each"
        notes = (
            f"Coverage of central 50, 80, 90 and 95% intervals; limits at 90%: {limits}.",
            f"ecdf_p: of the whole ECDF of the ranks. Limits and p-values at {each} (Bonferroni).",
            f"{failed} fits fail a gate, {diverged} with divergences; {refits} refits; all kept.",
        )
        formats = dict.fromkeys(frame.columns[: len(columns)], "percent1")
        title = f"{design}: {len(table)} simulated studies, {RANKED} ranked draws each"
        tables.append(
            Table(frame=frame, title=title, notes=notes, formats=formats | {"ecdf_p": "decimal3"})
        )
    return tables


def _prepare(folder: Path, seed: int, *, resume: bool) -> None:
    """An empty folder, or one with replications of the same settings.

    Raises
    ------
    SystemExit
        When it holds something else.
    """
    settings = {"seed": seed, "draws": DRAWS, "tune": TUNE, "chains": CHAINS, "ranked": RANKED}
    note = folder / "settings.json"
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        if not resume:
            raise SystemExit(f"{folder} is not empty: give --resume, or another --folder")
        if not note.is_file() or json.loads(note.read_text(encoding="utf-8")) != settings:
            raise SystemExit(f"{folder} has replications of other settings: give another --folder")
    note.write_text(json.dumps(settings), encoding="utf-8")


def parser() -> argparse.ArgumentParser:
    """The options."""
    found = argparse.ArgumentParser(prog="python -m benchmarks.calibration")
    found.description = "Simulation-based calibration of the direct path."
    found.add_argument("--n", type=int, default=1000, help="simulated studies of each design")
    found.add_argument("--design", nargs="+", choices=DESIGNS, default=list(DESIGNS))
    found.add_argument("--seed", type=int, default=1)
    found.add_argument("--jobs", type=int, default=2, help="processes")
    found.add_argument("--folder", type=Path, default=FOLDER, help="of the ranks")
    found.add_argument("--resume", action="store_true", help="go on with the ranks in the folder")
    found.add_argument("--output", type=Path, default=RESULTS, metavar="CSV")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; 1 when a quantity is outside its limits."""
    chosen = parser().parse_args(arguments)
    _prepare(chosen.folder, chosen.seed, resume=chosen.resume)
    start = time.perf_counter()
    ranks = {
        name: simulated(name, chosen.n, chosen.seed, chosen.folder, chosen.jobs)
        for name in chosen.design
    }
    summary = summarised(ranks, chosen.seed)
    for table in report(summary, ranks):
        print(f"\n{table.text()}")
    print(f"\n{time.perf_counter() - start:.0f} s")
    summary.round(5).to_csv(chosen.output, index=False, lineterminator="\n")
    outside = summary[~(summary["coverage_passed"] & summary["ecdf_passed"])]
    for row in outside.itertuples():
        print(f"OUTSIDE: {row.design}, {row.quantity}: 90% interval covers {row.coverage_90:.1%}")
    return 1 if len(outside) else 0


if __name__ == "__main__":
    sys.exit(main())
