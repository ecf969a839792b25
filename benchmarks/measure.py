"""`python -m benchmarks.measure`: from draws to the score scale, and what the plain way takes.

4,000 draws of a study of 5 crossed facets (10 systems x 30 tasks x 4 judges x 3 environments x 3
prompts; 10 components span 31 index sets), made up with total sds from 1.4 to 6.7 and no sampling.
Measured: components on both scales, the budget, ICC and Phi for a new system and each of the 10,
and all 45 pairs of systems; first with nothing kept ("first"), then again ("repeated"). The process
is warm: what is imported on first use was imported by the same calls on 100 draws.

Peer in the same run: the same covariances by Gauss-Hermite quadrature (40 x 40 nodes), draw by
draw, set by set, pair by pair, on a few draws; its seconds are multiplied up to 4,000 draws. Fails
where the two differ by more than the peer's own error.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import math
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from gstudy.fits.fitted import Fit
    from gstudy.study.assessment import Assessment
    from gstudy.study.declaration import Study

__all__ = ["made_up_fit", "main", "measured"]

RESULTS = Path(__file__).with_name("measure.csv")
COLUMNS = ["what", "seconds", "cpu_seconds", "times_ours"]
LIMIT = 2.0
LEVELS = {"system": 10, "task": 30, "judge": 4, "environment": 3, "prompt": 3}
SDS = {
    "system": 0.9,
    "task": 2.2,
    "judge": 0.4,
    "environment": 0.5,
    "prompt": 0.3,
    "system:task": 0.9,
    "system:judge": 0.2,
    "task:judge": 0.4,
    "task:environment": 0.5,
    "task:prompt": 0.4,
}
CHAINS = 4
NODES = 40
PEER_DRAWS = 5
# What 40 nodes leave at these sds.
PEER_ERROR = 2e-3

type Job = tuple[str, Callable[[], Any]]


def design() -> tuple[Study, Assessment]:
    """The study, with two rollouts of every combination."""
    import pandas as pd

    import gstudy as gs
    from gstudy.study.estimable import assess

    facets = [
        gs.Facet(name, role="error" if name == "judge" else "legitimate")
        for name in LEVELS
        if name != "system"
    ]
    facets.append(gs.Facet("rollout", role="legitimate", nested_in=list(LEVELS)))
    interactions = [name for name in SDS if ":" in name]
    study = gs.Study(score="score", object="system", facets=facets, interactions=interactions)
    labels = [[f"{name}-{i}" for i in range(size)] for name, size in LEVELS.items()]
    frame = pd.DataFrame(itertools.product(*labels), columns=list(LEVELS))
    # Both outcomes of every combination: the data are never looked at.
    both = pd.concat([frame.assign(rollout=i, score=i) for i in (0, 1)], ignore_index=True)
    return study, assess(study, both)


def made_up_fit(n_draws: int, seed: int) -> Fit:
    """A fit whose draws come from a random number generator, 4 chains of `n_draws`."""
    import xarray as xr

    from gstudy.fits.fitted import Fit, cell_groups
    from gstudy.fits.gates import assess

    study, found = design()
    rng, shape, sample = np.random.default_rng(seed), (CHAINS, n_draws), ("chain", "draw")
    scales = {"mu": rng.normal(0.3, 0.6, shape)}
    for name, sd in SDS.items():
        scales[f"sd({name})"] = sd * np.exp(rng.normal(0, 0.3, shape))
    variables: dict[str, Any] = {name: (sample, values) for name, values in scales.items()}
    coords: dict[str, Any] = {"chain": np.arange(CHAINS), "draw": np.arange(n_draws)}
    for i, component in enumerate(found.cells.components):
        labels = np.array(found.cells.level_labels(i), dtype=str)
        coords[component.name] = labels
        around = rng.normal(size=len(labels))
        effects = around + rng.normal(0, 0.2, (*shape, len(labels)))
        variables[f"u({component.name})"] = ((*sample, component.name), effects)
    stats = {"diverging": np.zeros(shape, dtype=bool), "energy": rng.normal(size=shape)}
    groups = {
        "posterior": xr.Dataset(variables, coords=coords),
        "sample_stats": xr.Dataset({name: (sample, x) for name, x in stats.items()}),
        **cell_groups(found),
    }
    return Fit(
        posterior=xr.DataTree.from_dict(groups),
        study=study,
        design=found,
        diagnostics=assess(scales, stats),
        settings={"seed": seed, "draws": n_draws, "chains": CHAINS, "sampler": "none"},
    )


def jobs(fit: Fit) -> Iterator[Job]:
    """What is asked of the fit."""
    import gstudy as gs
    from gstudy.variance.pairs import pair_of

    for scale in ("score", "logit"):
        yield (
            f"components, new system, {scale}",
            lambda s=scale: gs.variance_components(fit, scale=s, system="new"),
        )
        yield (
            f"components, 10 systems, {scale}",
            lambda s=scale: gs.variance_components(fit, scale=s),
        )
        yield f"ICC(task), {scale}", lambda s=scale: gs.icc(fit, "task", scale=s)
        yield f"Phi, {scale}", lambda s=scale: gs.phi(fit, scale=s)
    yield "budget, 10 systems", lambda: gs.variance_budget(fit)
    pairs = list(itertools.combinations(fit.design.cells.labels["system"], 2))
    yield "45 pairs", lambda: [pair_of(fit, one, two).difference for one, two in pairs]


def measured(fit: Fit, when: str) -> list[dict[str, Any]]:
    """Seconds of every job, and of all of them."""
    rows = []
    for what, job in jobs(fit):
        wall, cpu = time.perf_counter(), time.process_time()
        job()
        rows.append(_row(f"{when}: {what}", time.perf_counter() - wall, time.process_time() - cpu))
    total = [sum(row[name] for row in rows) for name in ("seconds", "cpu_seconds")]
    return [*rows, _row(f"{when}: all", *total)]


def plain_way(fit: Fit) -> tuple[dict[str, Any], float]:
    """Seconds of the peer for all draws, and its largest difference from ours on those it made."""
    from gstudy.variance.basis import latent_of
    from gstudy.variance.kernel import logistic_covariance

    latent = latent_of(fit)
    labels = list(latent.object_effects)
    given = {label: latent.given(label) for label in labels}
    sets = latent.structure.spanned(latent.sets)
    # Of each system every set; of two systems those without the object.
    of_one = [(label, label, s) for label in labels for s in _within(given[label])]
    of_two = [
        (one, two, s)
        for one, two in itertools.combinations(labels, 2)
        for s in sets
        if "system" not in s
    ]
    rule = _hermite()
    largest, start, cpu = 0.0, time.perf_counter(), time.process_time()
    found: dict[tuple[int, int], float] = {}
    asked: dict[tuple[int, int], tuple[float, ...]] = {}
    for draw in range(PEER_DRAWS):
        for place, (one, two, index_set) in enumerate((*of_one, *of_two)):
            # What two systems share are the components without the object.
            shared = float((latent if one != two else given[one]).inside(index_set)[0, draw])
            margins = [
                float(x[0, draw])
                for x in (given[one].mu, given[two].mu, given[one].total, given[two].total)
            ]
            asked[draw, place] = (*margins, shared)
            found[draw, place] = _covariance(*margins, shared, rule)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    for key, arguments in asked.items():
        largest = max(largest, abs(found[key] - float(logistic_covariance(*arguments))))
    scale = fit.mu.size / PEER_DRAWS
    what = f"peer: {len(of_one)} + {len(of_two)} covariances, quadrature draw by draw"
    return _row(what, seconds * scale, cpu * scale), largest


def _within(latent: Any) -> list[frozenset[str]]:
    return list(latent.structure.spanned(latent.sets))


def _hermite() -> tuple[Any, Any]:
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    return nodes, weights / math.sqrt(2 * math.pi)


def _covariance(
    mean_1: float, mean_2: float, var_1: float, var_2: float, shared: float, rule: tuple[Any, Any]
) -> float:
    """Given what is shared the two probabilities are independent: an inner mean each, one outer."""
    from scipy.special import expit

    nodes, weights = rule
    at = math.sqrt(shared) * nodes[:, None]
    inner = [
        expit(mean + at + math.sqrt(max(var - shared, 0.0)) * nodes) @ weights
        for mean, var in ((mean_1, var_1), (mean_2, var_2))
    ]
    expected = [p @ weights for p in inner]
    return float((inner[0] * inner[1]) @ weights - expected[0] * expected[1])


def _row(what: str, seconds: float, cpu_seconds: float) -> dict[str, Any]:
    return {"what": what, "seconds": round(seconds, 3), "cpu_seconds": round(cpu_seconds, 3)}


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, write the table; 1 when the peer disagrees or the limit is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.measure", description=__doc__)
    parser.add_argument("--draws", type=int, default=1_000, help="of each of 4 chains")
    parser.add_argument("--output", type=Path, default=RESULTS)
    given = parser.parse_args(arguments)
    for _, job in jobs(made_up_fit(25, 2)):
        job()
    fit = made_up_fit(given.draws, 1)
    first = measured(fit, "first")
    rows = [*first, measured(fit, "repeated")[-1]]
    peer, off = plain_way(fit)
    ours = first[-1]
    peer["times_ours"] = round(peer["cpu_seconds"] / ours["cpu_seconds"])
    rows.append(peer)
    for row in rows:
        print(row, flush=True)
    print(f"largest difference from the peer: {off:.1e}")
    with given.output.open("w", newline="") as file:
        table = csv.DictWriter(file, COLUMNS)
        table.writeheader()
        table.writerows(rows)
    failures = [f"{off:.1e} from the peer"] if off > PEER_ERROR else []
    if ours["seconds"] > LIMIT:
        failures.append(f"{ours['seconds']} s, limit {LIMIT}")
    for failure in failures:
        print(f"FAILED: {failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
