"""`python -m benchmarks.designs`: do simulated studies vary as `gs.compare_designs` predicts?

Trials are drawn by numpy from logit-normal truths, 20,000 studies of each of five designs: tasks
crossed with environments, tasks nested in domains, judges in rotation, a finite bank of tasks, and
ragged trials as collected. Nothing is fitted: the package is given the true components, and its
predictions are held against what the studies do:

- `variance` of the reported score about its universe score, the mean over four given systems;
- `phi`: systems are drawn anew; the variance between their universe scores over that and the mean
  squared error of the reported ones;
- `ranking`, `winner`: how often the four scores are in the right order, and the best one is right;
- `power`: two systems differ by the predicted minimal detectable difference; how often the interval
  of their difference excludes zero. Scores of N trials are multiples of 1/N, and the limit falls
  somewhere between two of them: at N = 150 that alone moved the power from .80 to .78. Each
  difference is spread evenly over one such step, which adds a thousandth to its variance.

Standard errors are those of a jackknife over batches of studies. Any |z| above 4 is a failure.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.special import expit

import gstudy as gs
from gstudy.study.estimable import assess
from gstudy.variance.basis import Basis, structure_of_design
from gstudy.variance.components import components_of
from gstudy.variance.draws import normal_quantile
from gstudy.variance.latent import Latent

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[np.float64]

__all__ = ["CASES", "Case", "main", "measured", "source_of"]

RESULTS = Path(__file__).with_name("designs.csv")
STUDIES = 20_000
BATCHES = 50
LIMIT = 4.0
POWER = 0.8
COLUMNS = ["design", "quantity", "predicted", "simulated", "standard_error", "z", "studies"]
SYSTEMS = "ABCD"


@dataclass(frozen=True)
class Case:
    """A design and the truth behind its trials.

    Parameters
    ----------
    name : str
    facets : sequence of Facet
    sds : mapping of str to float
        Component to its logit sd; "system" for new ones.
    effects : sequence of float
        Logit effects of the four given systems.
    rows : DataFrame
        Cells of all systems: labels, the number of trials `n`, and whether they are `sampled`;
        those that are not belong to the bank alone.
    design : Design or None
        What the package is asked about; None: as collected.
    mu : float
    bank : bool
        Whether the score is claimed for the mean over all rows of a system.
    """

    name: str
    facets: Sequence[gs.Facet]
    sds: Mapping[str, float]
    effects: Sequence[float]
    rows: pd.DataFrame
    design: Mapping[str, int] | None
    mu: float = 0.3
    bank: bool = False
    interactions: Sequence[str] = field(default=("system:task",))

    @property
    def study(self) -> gs.Study:
        """The declaration."""
        return gs.Study(
            score="score",
            object="system",
            facets=list(self.facets),
            interactions=list(self.interactions),
        )

    def within(self) -> float:
        """Logit variance of all that is not the system's own effect."""
        return sum(sd**2 for name, sd in self.sds.items() if name != "system")


def _grid(**levels: Sequence[Any]) -> pd.DataFrame:
    rows = itertools.product(*levels.values())
    return pd.DataFrame(rows, columns=list(levels)).assign(n=1, sampled=True)


def _legitimate(name: str, *parents: str, universe: int | None = None) -> gs.Facet:
    return gs.Facet(name, role="legitimate", nested_in=parents, universe=universe)


def _crossed() -> Case:
    rows = _grid(system=SYSTEMS, task=range(60), environment=range(3)).assign(n=2)
    return Case(
        "crossed",
        [
            _legitimate("task"),
            gs.Facet("environment", role="error"),
            _legitimate("rollout", "system", "task", "environment"),
        ],
        {"system": 0.6, "task": 1.4, "environment": 0.3, "system:task": 0.7},
        (-0.45, -0.15, 0.0, 0.5),
        rows,
        gs.Design({"task": 60, "environment": 3, "rollout": 2}),
    )


def _nested() -> Case:
    rows = _grid(system=SYSTEMS, domain=range(15), task=range(6)).assign(n=3)
    return Case(
        "nested",
        [
            _legitimate("domain"),
            _legitimate("task", "domain"),
            _legitimate("rollout", "system", "domain", "task"),
        ],
        {"system": 0.7, "domain": 0.6, "domain:task": 1.2, "system:domain": 0.4},
        (-0.3, 0.0, 0.1, 0.6),
        rows,
        gs.Design({"domain": 15, "task": 6, "rollout": 3}),
        interactions=("system:domain",),
    )


def _rotation() -> Case:
    rows = _grid(system=SYSTEMS, task=range(50), rollout=range(3))
    rows["judge"] = (rows["task"] + rows["rollout"]) % 4
    return Case(
        "round robin",
        [
            _legitimate("task"),
            _legitimate("rollout", "system", "task"),
            gs.Facet("judge", role="error"),
        ],
        {"system": 0.5, "task": 1.5, "rollout": 0.8, "judge": 0.5, "system:task": 0.6},
        (-0.2, 0.1, 0.3, 0.7),
        rows,
        gs.Design({"task": 50, "rollout": 3, "judge": 4}, judges="round robin"),
    )


def _finite() -> Case:
    rows = _grid(system=SYSTEMS, task=range(80)).assign(n=4)
    return Case(
        "finite universe",
        [_legitimate("task", universe=80), _legitimate("rollout", "system", "task")],
        {"system": 0.6, "task": 1.8, "system:task": 0.8},
        (-0.35, -0.05, 0.1, 0.5),
        rows.assign(sampled=rows["task"] < 50),
        gs.Design({"task": 50, "rollout": 4}),
        bank=True,
    )


def _ragged() -> Case:
    rows = _grid(system=SYSTEMS, task=range(70))
    rng, place = np.random.default_rng(3), rows["system"].map(SYSTEMS.index)
    kept = rng.random(len(rows)) < 0.5 + 0.12 * place
    rows = rows.assign(n=rng.integers(1, 6, len(rows)))[kept]
    return Case(
        "ragged",
        [_legitimate("task"), _legitimate("rollout", "system", "task")],
        {"system": 0.6, "task": 1.4, "system:task": 0.7},
        (-0.4, -0.1, 0.1, 0.6),
        rows.reset_index(drop=True),
        None,
    )


CASES: dict[str, Callable[[], Case]] = {
    "crossed": _crossed,
    "nested": _nested,
    "round robin": _rotation,
    "finite universe": _finite,
    "ragged": _ragged,
}


# ---------------------------------------------------------------- what the package predicts


def source_of(case: Case, effects: Sequence[float] | None = None) -> gs.VarianceComponents:
    """The true components, with the effects of given systems or for the population."""
    known = dict(zip(SYSTEMS, effects, strict=True)) if effects is not None else {}
    if case.design is not None:
        sds = {k: sd for k, sd in case.sds.items() if k != "system" or not known}
        variances = {name: sd**2 for name, sd in sds.items()}
        return gs.assume(case.study, variances, mu=case.mu, scale="logit", effects=known or None)
    return _as_collected(case, known)


def _as_collected(case: Case, known: Mapping[str, float]) -> gs.VarianceComponents:
    """True components beside the trials that were collected."""
    times = case.rows.index.repeat(case.rows["n"])
    trials = case.rows.loc[times, ["system", "task"]].assign(score=0)
    trials["rollout"] = trials.groupby(["system", "task"]).cumcount()
    trials.iloc[::2, trials.columns.get_loc("score")] = 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        study, found = case.study, assess(case.study, trials)
    structure = structure_of_design(study, found)
    components = {c.name: c.facets for c in found.components}
    one = np.ones((1, 1))
    latent = Latent(
        structure=structure,
        mu=case.mu * one,
        sets=tuple(components[name] for name in case.sds),
        variances=np.stack([sd**2 * one for sd in case.sds.values()]),
        object_effects={label: u * one for label, u in known.items()},
    )
    return components_of(Basis(study, structure, latent, None, found.cells), "score")


def _predicted(case: Case) -> dict[str, float]:
    """Of the four given systems, and Phi of new ones."""
    given = _means(case, case.effects)
    new = gs.phi(source_of(case, None), case.design)
    return {
        "variance": given["variance"],
        "phi": float(new.draws.mean()),
        "ranking": given["p_ranking"],
        "winner": given["p_winner"],
        "power": POWER,
    }


def _means(case: Case, effects: Sequence[float], **how: Any) -> dict[str, float]:
    found = gs.compare_designs(source_of(case, effects), [case.design], power=POWER, **how)
    means = found.draws.isel(design=0).mean(["chain", "draw"])
    return {str(q): float(means.sel(quantity=q)) for q in means.coords["quantity"].values}


def _detectable(case: Case) -> tuple[tuple[float, ...], float, float]:
    """Effects at which A and B differ by the minimal detectable difference, that, its variance."""

    def at(gap: float) -> tuple[tuple[float, ...], dict[str, float]]:
        effects = (0.0, gap, *case.effects[2:])
        return effects, _means(case, effects, compared=("A", "B"))

    def excess(gap: float) -> float:
        effects, means = at(gap)
        one, two = _universe(case, np.array(effects[:2]))
        return float(two - one - means["mdd"])

    gap = float(brentq(excess, 0.01, 3.0, xtol=1e-6))
    effects, means = at(gap)
    return effects, means["mdd"], means["difference"]


# ---------------------------------------------------------------- simulated studies


def _universe(case: Case, effects: Array) -> Array:
    """Expected score of systems with these effects, over new levels of everything else."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(101)
    logits = case.mu + effects[..., None] + np.sqrt(case.within()) * nodes
    return np.asarray(expit(logits) @ weights / weights.sum())


def _studies(
    case: Case, effects: Sequence[float] | None, n: int, rng: np.random.Generator
) -> Iterator[tuple[Array, Array]]:
    """Reported and universe scores of the systems, (batch, 4) each, batch by batch."""
    rows = case.rows
    codes = pd.factorize(rows["system"])[0]
    owned = np.eye(len(SYSTEMS))[codes]
    weights = owned * (rows["n"] * rows["sampled"]).to_numpy()[:, None]
    weights = weights / weights.sum(axis=0)
    claimed = owned / owned.sum(axis=0)
    places = {name: _places(case, name) for name in case.sds if name != "system"}
    trials = rows["n"].to_numpy()
    for size in [n // BATCHES] * BATCHES:
        own = np.broadcast_to(np.asarray(effects if effects is not None else 0.0), (size, 4))
        if effects is None:
            own = case.sds["system"] * rng.normal(size=(size, 4))
        eta = case.mu + own[:, codes]
        for name, place in places.items():
            eta = eta + case.sds[name] * rng.normal(size=(size, place.max() + 1))[:, place]
        p = expit(eta)
        reported = (rng.binomial(trials, p) / trials) @ weights
        yield reported, p @ claimed if case.bank else _universe_of(case, own)


def _universe_of(case: Case, effects: Array) -> Array:
    """As `_universe`, from a table where there are many effects."""
    nodes = np.linspace(-6, 6, 4001)
    return np.asarray(np.interp(effects, nodes, _universe(case, nodes)))


def _places(case: Case, name: str) -> npt.NDArray[np.intp]:
    """The level of a component that each row has; a nested facet brings its parents."""
    parents = {facet.name: facet.nested_in for facet in case.facets}
    facets = {f for part in name.split(":") for f in (part, *parents.get(part, ()))}
    return np.asarray(case.rows.groupby(sorted(facets)).ngroup())


def _step(case: Case) -> float:
    """Step between the scores of two systems with equally many trials; 0 of others."""
    sampled = case.rows[case.rows["sampled"]]
    trials = sampled.groupby("system")["n"].sum()
    return 1 / float(trials.iloc[0]) if trials.nunique() == 1 else 0.0


def _jackknife(above: Array, below: Array) -> tuple[float, float]:
    """A ratio of sums over batches, and its standard error."""
    whole = above.sum() / below.sum()
    left = (above.sum() - above) / (below.sum() - below)
    n = len(above)
    return float(whole), float(np.sqrt((n - 1) / n * ((left - left.mean()) ** 2).sum()))


def _simulated(case: Case, n: int, rng: np.random.Generator) -> dict[str, tuple[float, float]]:
    """Each quantity in simulated studies, with its standard error."""
    sums: dict[str, list[tuple[float, float]]] = {}

    def add(name: str, above: Array, below: Array | float = 1.0) -> None:
        pair = (float(np.sum(above)), float(np.sum(np.broadcast_to(below, np.shape(above)))))
        sums.setdefault(name, []).append(pair)

    for reported, universe in _studies(case, case.effects, n, rng):
        add("variance", (reported - universe) ** 2)
        # Equal scores are in either order.
        shown = reported + 1e-9 * rng.normal(size=reported.shape)
        order = np.argsort(universe, axis=1)
        add("ranking", (np.argsort(shown, axis=1) == order).all(axis=1))
        add("winner", shown.argmax(axis=1) == order[:, -1])
    for reported, universe in _studies(case, None, n, rng):
        # What a finite bank moves all systems by is neither between them nor an error.
        between = universe.var(axis=1, ddof=1)
        add("phi", between, between + ((reported - universe) ** 2).mean(axis=1))
    effects, difference, variance = _detectable(case)
    least = normal_quantile(0.95) * np.sqrt(variance)
    for reported, universe in _studies(case, effects, n, rng):
        error = reported - universe
        apart = difference + error[:, 1] - error[:, 0]
        add("power", apart + _step(case) * (rng.random(len(apart)) - 0.5) > least)
    return {name: _jackknife(*np.array(pairs).T) for name, pairs in sums.items()}


# ---------------------------------------------------------------- the table


def measured(case: Case, n: int, seed: int) -> list[dict[str, Any]]:
    """The rows of one design."""
    predicted = _predicted(case)
    simulated = _simulated(case, n, np.random.default_rng([seed, len(case.name)]))
    rows = []
    for quantity, value in predicted.items():
        seen, error = simulated[quantity]
        rows.append(
            {
                "design": case.name,
                "quantity": quantity,
                "predicted": round(value, 6),
                "simulated": round(seen, 6),
                "standard_error": float(f"{error:.2g}"),
                "z": round((seen - value) / error, 2),
                "studies": n,
            }
        )
    return rows


def main(arguments: list[str] | None = None) -> int:
    """Simulate, write the table; 1 when a prediction is off by more than Monte Carlo error."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.designs", description=__doc__)
    parser.add_argument("--studies", type=int, default=STUDIES)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--design", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--output", type=Path, default=RESULTS)
    given = parser.parse_args(arguments)
    rows = []
    for name in given.design:
        start = time.perf_counter()
        rows += measured(CASES[name](), given.studies, given.seed)
        print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)
    with given.output.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, COLUMNS)
        table.writeheader()
        table.writerows(rows)
    print(pd.DataFrame(rows).to_string(index=False))
    failures = [row for row in rows if not abs(row["z"]) <= LIMIT]
    for row in failures:
        print(f"FAILED: {row['design']}, {row['quantity']}: z = {row['z']}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
