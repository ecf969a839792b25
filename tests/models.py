"""Designs that the tests of the model start from, and the way from a vector to a PyMC point."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytensor
import pytensor.tensor as pt
import pytest
from designs import checked, study_of, within
from pytensor.compile.mode import Mode
from pytensor.configdefaults import config

import gstudy as gs
from gstudy.model.direct import direct_posterior, scale_names
from gstudy.model.graph import model_of
from gstudy.model.parameterisation import LOCATION, parameterise
from gstudy.study.cells import Graded
from gstudy.study.priors import Prior

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gstudy.model.direct import DirectPosterior
    from gstudy.model.parameterisation import Parameterisation
    from gstudy.study.cells import Cells
    from gstudy.study.estimable import Assessment


def random_trials(levels: dict[str, int], seed: int, share: float = 1.0) -> pd.DataFrame:
    """Scores drawn at random on a grid, of which a share of the rows is kept."""
    table = pd.DataFrame(
        itertools.product(*(range(n) for n in levels.values())), columns=list(levels)
    ).astype(str)
    rng = np.random.default_rng(seed)
    table["score"] = rng.integers(0, 2, len(table))
    return table[rng.random(len(table)) < share]


def crossed() -> Assessment:
    """Ragged systems x tasks with their interaction and rollouts inside the residual."""
    study = study_of(
        "task", within("rollout", "system", "task"), object="system", interactions=["system:task"]
    )
    return checked(study, random_trials({"system": 4, "task": 9, "rollout": 4}, 1, 0.8))


def nested() -> Assessment:
    """Items in subtests, rollouts that two judges score."""
    study = study_of(
        "subtest",
        within("item", "subtest"),
        within("rollout", "subtest", "item"),
        gs.Facet("judge", role="error"),
    )
    return checked(study, random_trials({"subtest": 5, "item": 3, "rollout": 3, "judge": 2}, 2))


def kept() -> Assessment:
    """A facet of one level that is kept: its prior is all that is known of it."""
    study = study_of("task", "snapshot", within("rollout", "task"), keep=["snapshot"])
    return checked(study, random_trials({"task": 6, "snapshot": 1, "rollout": 5}, 3))


def taught() -> Assessment:
    """24 lecturers, each in one of 3 departments, which nobody has declared: what lies below comes
    first among the components."""
    study = study_of("department", "student", object="lecturer", interactions="none")
    table = random_trials({"lecturer": 24, "student": 6}, 4, 0.8)
    return checked(study, table.assign(department=table["lecturer"].astype(int) % 3))


def counts(passes: Sequence[int], trials: Sequence[int], **rest: Any) -> Assessment:
    """One facet, k passes of n trials per level."""
    study = gs.Study(
        successes="k", trials="n", facets=[gs.Facet("task", role="legitimate")], **rest
    )
    table = pd.DataFrame({"task": range(len(passes)), "k": passes, "n": trials})
    return checked(study, table)


@dataclass(frozen=True)
class Shape:
    """What a model is made from: cells, the prior of mu and that of a residual sd."""

    cells: Cells
    mu_prior: Prior
    residual_prior: Prior | None = None

    def parameterised(self, **how: Any) -> Parameterisation:
        return parameterise(self.cells, self.mu_prior, self.residual_prior, **how)


def shape_of(found: Assessment, *, mu: Prior | None = None, **priors: Prior) -> Shape:
    """The shape of a design; priors of its components by name, ``x__y`` for x:y."""
    named = {name.replace("__", ":"): prior for name, prior in priors.items()}
    components = [replace(c, prior=named.get(c.name, c.prior)) for c in found.cells.components]
    cells = replace(found.cells, components=tuple(components))
    return Shape(cells, mu or found.mu_prior)


def fixed_effects(shape: Shape, name: str, sigma: float = 2.5) -> Shape:
    """The same with one component as the fixed effects of a controlled facet, last."""
    cells = shape.cells
    order = sorted(range(len(cells.components)), key=lambda c: cells.components[c].name == name)
    prior = Prior("ZeroSumNormal", {"sigma": sigma})
    components = [
        replace(c, fixed=True, prior=prior) if c.name == name else c
        for c in (cells.components[i] for i in order)
    ]
    cells = replace(
        cells,
        components=tuple(components),
        index=tuple(cells.index[i] for i in order),
        levels=tuple(cells.levels[i] for i in order),
    )
    return replace(shape, cells=cells)


def graded(shape: Shape, scores: np.ndarray, residual: Prior | None, seed: int = 1) -> Shape:
    """The same cells with graded scores, one per trial in the order of the cells; without a prior
    of the residual sd each has a known error."""
    cells = shape.cells
    rows = np.repeat(np.arange(len(cells.trials)), cells.trials)
    errors = np.random.default_rng(seed).uniform(0.5, 2.0, len(scores))
    weight = np.ones(len(scores)) if residual is not None else errors**-2
    precision = np.bincount(rows, weights=weight)
    mean = np.bincount(rows, weights=weight * scores) / precision
    squares = np.bincount(rows, weights=weight * (scores - mean[rows]) ** 2)
    known = residual is None
    return Shape(
        replace(
            cells,
            successes=np.bincount(rows, weights=scores),
            graded=Graded(
                mean=mean,
                squares=squares,
                precision=precision if known else None,
                log_errors=float(np.log(errors).sum()) if known else 0.0,
            ),
        ),
        shape.mu_prior,
        residual,
    )


# Enough for some points: rewriting more of the graph takes longer than to run it as it is.
INTERPRETED = Mode(linker="py", optimizer="merge")


def interpreted(model: Any) -> Any:
    """Log-density of a PyMC model by terms, and its gradient, as a function of a point."""
    # Term by term: the interpreter adds no more than 30 at a time.
    terms = [term.sum() for term in model.logp(sum=False)]
    # Of all values at once: PyMC goes through the graph once for each of them.
    slopes = pytensor.grad(pt.stack(terms).sum(), model.value_vars)
    gradient = pt.concatenate([slope.ravel() for slope in slopes])
    return model.compile_fn([*terms, gradient], mode=INTERPRETED)


def compiled(shape: Shape, p: Parameterisation, *, numba: bool) -> tuple[Any, list[str]]:
    """Log-posterior and gradient of the PyMC model, and the order of its values: compiled as for
    sampling, or interpreted, which is ready in a tenth of the time."""
    with config.change_flags(numba__fastmath=False), model_of(p, shape.cells) as model:
        if numba:
            terms = [term.sum() for term in model.logp(sum=False)]
            both = model.compile_fn([*terms, model.dlogp()])
        else:
            both = interpreted(model)
    return both, [v.name for v in model.value_vars]


def tolerance(value: float) -> float:
    return 1e-9 * (1.0 + abs(value))


def agree(shape: Shape, n_points: int = 40, *, numba: bool = False, **how: Any) -> None:
    """Direct path and PyMC model at random points, in value and gradient."""
    p = shape.parameterised(**how)
    direct = direct_posterior(p)
    both, names = compiled(shape, p, numba=numba)
    rng = np.random.default_rng(5)
    for _ in range(n_points):
        x = p.start + p.start_width * rng.normal(size=direct.n_free)
        point, sizes = point_of(direct, x)
        value, slope = direct(x)
        *terms, gradient = both(point)
        assert float(sum(terms)) == pytest.approx(value, abs=tolerance(value))
        ends = np.cumsum(sizes)[:-1]
        places = dict(zip(point, np.split(np.arange(direct.n_free), ends), strict=True))
        order = np.concatenate([places[name] for name in names])
        np.testing.assert_allclose(gradient, slope[order], rtol=0, atol=tolerance(value))


def slopes_agree(posterior: DirectPosterior, x: np.ndarray) -> None:
    """The direct gradient is that of the value, by central differences."""
    _, gradient = posterior(x)
    step = 1e-6
    for i in range(posterior.n_free):
        ahead, behind = x.copy(), x.copy()
        ahead[i] += step
        behind[i] -= step
        slope = (posterior(ahead)[0] - posterior(behind)[0]) / (2 * step)
        # Rounding of the value over the step, and the step squared.
        assert gradient[i] == pytest.approx(slope, rel=1e-6, abs=2e-6)


DESIGNS = {"crossed": crossed, "nested": nested, "kept": kept, "taught": taught}


def point_of(posterior: DirectPosterior, x: np.ndarray) -> tuple[dict[str, Any], list[int]]:
    """The PyMC model's point at an unconstrained vector, and where its values stand in it."""
    p = posterior.parameterisation
    point: dict[str, Any] = {f"{name}_log__": x[i] for i, name in enumerate(scale_names(p))}
    at = p.n_scales
    for block in p.blocks:
        if block.n_free:
            suffix = "sweptstandardised" if block.zero_sum else "standardised"
            point[f"{block.variable}_{suffix}__"] = x[at : at + block.n_free]
        at += block.n_free
    point[LOCATION] = x[-1]
    return point, [np.size(value) for value in point.values()]
