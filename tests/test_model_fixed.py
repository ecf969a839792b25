"""Fixed effects of controlled facets: known sd, sum of zero, and no part in any mean."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from designs import checked, study_of, within
from models import DESIGNS, agree, crossed, fixed_effects, shape_of, slopes_agree

import gstudy as gs
from gstudy.model.direct import direct_posterior
from gstudy.model.parameterisation import LOCATION
from gstudy.model.sampling import fit
from gstudy.model.sweep import recover, shifting_pairs

CASES = [("crossed", "system"), ("crossed", "task"), ("nested", "judge")]
SIGMA = 2.5


@pytest.mark.parametrize(("design", "name"), CASES)
def test_both_paths_agree(design: str, name: str) -> None:
    agree(fixed_effects(shape_of(DESIGNS[design]()), name, SIGMA))


@pytest.mark.slow
@pytest.mark.parametrize("how", [{"sweep": []}, {"standardise": False}, {"weighted": False}])
@pytest.mark.parametrize(("design", "name"), CASES)
def test_both_paths_agree_compiled_and_however_written(
    design: str, name: str, how: dict[str, Any]
) -> None:
    agree(fixed_effects(shape_of(DESIGNS[design]()), name, SIGMA), 100, numba=True, **how)


@pytest.mark.parametrize("sweep", [None, []])
@pytest.mark.parametrize(("design", "name"), CASES)
def test_the_gradient_is_that_of_the_value(design: str, name: str, sweep: list[str] | None) -> None:
    shape = fixed_effects(shape_of(DESIGNS[design]()), name, SIGMA)
    posterior = direct_posterior(shape.parameterised(sweep=sweep))
    slopes_agree(posterior, np.random.default_rng(8).normal(size=posterior.n_free))


def test_there_is_no_sd_and_no_mean_of_fixed_effects() -> None:
    """Recovery adds means to random components only, and keeps what the likelihood sees."""
    shape = fixed_effects(shape_of(crossed()), "system", SIGMA)
    p = shape.parameterised()
    direct = direct_posterior(p)
    assert direct.n_free == 2 + (9 - 1) + (p.blocks[1].size - 1) + (4 - 1) + 1
    x = np.random.default_rng(1).normal(size=(3, 7, direct.n_free))
    values = direct.unpack(x)
    assert "sd(system)" not in values
    _, effects = recover(p, values, np.random.default_rng(2))
    np.testing.assert_allclose(effects[-1].sum(axis=-1), 0.0, atol=1e-12)
    np.testing.assert_array_equal(effects[-1], values["fixed(system)"])
    swept = np.concatenate([values[b.variable] for b in p.blocks], axis=-1)
    mu, effects = recover(p, values, np.random.default_rng(2))
    eta = mu[..., None] + np.concatenate(effects, axis=-1)[..., p.index].sum(axis=-1)
    mean = values[LOCATION] - swept @ p.weights
    np.testing.assert_allclose(eta, mean[..., None] + swept[..., p.index].sum(axis=-1), atol=1e-12)


def test_fixed_effects_are_never_shifted() -> None:
    """A level that always passes is worth a shift only where its effects are random."""
    shape = shape_of(crossed())
    successes = shape.cells.successes.copy()
    successes[shape.cells.index[0] == 0] = 0
    shape = replace(shape, cells=replace(shape.cells, successes=successes))
    assert (0, 2) in shifting_pairs(shape.cells)
    fixed = fixed_effects(shape, "system", SIGMA)
    names = [c.name for c in fixed.cells.components]
    assert names == ["task", "system:task", "system"]
    assert all(2 not in pair for pair in shifting_pairs(fixed.cells))


# ---------------------------------------------------------------- an exact posterior

PRIORS = {
    "mu": {"dist": "Normal", "mu": 1.0, "sigma": 2.0},
    "sd(task)": {"dist": "HalfNormal", "sigma": 1.5},
    "fixed(prompt)": {"dist": "ZeroSumNormal", "sigma": 0.7},
}


def known_errors() -> tuple[gs.Study, pd.DataFrame]:
    """Tasks under three prompts, some left out, each score with its own known error."""
    study = study_of(
        "task",
        gs.Facet("prompt", role="controlled"),
        interactions="none",
        family="gaussian",
        standard_error="error",
        priors=PRIORS,
    )
    rng = np.random.default_rng(6)
    table = pd.DataFrame([(t, c) for t in range(6) for c in "abc"], columns=["task", "prompt"])
    table["error"] = rng.uniform(0.4, 1.2, len(table))
    truth = 1.0 + rng.normal(size=6)[table["task"]] + table["prompt"].map({"a": -1, "b": 0, "c": 1})
    table["score"] = truth + table["error"] * rng.normal(size=len(table))
    return study, table.iloc[[*range(4), *range(5, 16), 17]]


def exact(table: pd.DataFrame) -> dict[str, tuple[float, float]]:
    """Means and sds of mu, the sd of tasks and the fixed effects: normal given the sd, which is
    integrated over a grid."""
    y, error = table["score"].to_numpy(), table["error"].to_numpy()
    tasks = np.eye(6)[table["task"].to_numpy()]
    prompts = np.eye(3)[table["prompt"].map(dict(zip("abc", range(3), strict=True)))]
    contrast = np.eye(3) - 1 / 3
    design = np.column_stack([np.ones(len(y)), prompts])
    prior = np.zeros((4, 4))
    prior[0, 0] = 2.0**2
    prior[1:, 1:] = 0.7**2 * contrast
    start = np.array([1.0, 0.0, 0.0, 0.0])
    grid = np.linspace(1e-4, 9.0, 4000)
    weights, means, covariances = [], [], []
    for sd in grid:
        noise = np.diag(error**2) + sd**2 * tasks @ tasks.T
        total = noise + design @ prior @ design.T
        off = y - design @ start
        gain = prior @ design.T @ np.linalg.inv(total)
        log_p = -0.5 * (np.linalg.slogdet(total)[1] + off @ np.linalg.solve(total, off))
        weights.append(log_p - 0.5 * (sd / 1.5) ** 2)
        means.append(start + gain @ off)
        covariances.append(prior - gain @ design @ prior)
    weight = np.exp(np.array(weights) - max(weights))
    weight /= weight.sum()
    mean = weight @ np.array(means)
    spread = weight @ (np.array([np.diag(c) for c in covariances]) + (means - mean) ** 2)
    sd_mean = weight @ grid
    found = {"sd": (float(sd_mean), float((weight @ (grid - sd_mean) ** 2) ** 0.5))}
    for name, m, v in zip(("mu", "a", "b", "c"), mean, spread, strict=True):
        found[name] = (float(m), float(v**0.5))
    return found


def test_the_posterior_is_exact() -> None:
    from arviz_stats.base import array_stats

    study, table = known_errors()
    result = fit(study, checked(study, table), seed=4, draws=2500, sampler="direct", progress=False)
    assert result.diagnostics.divergences == 0
    variable = result.posterior["posterior"]["fixed(prompt)"]
    assert variable.dims == ("chain", "draw", "prompt")
    assert list(variable["prompt"].values) == ["a", "b", "c"]
    effects = variable.to_numpy()
    np.testing.assert_allclose(effects.sum(axis=-1), 0.0, atol=1e-12)
    draws = {"mu": result.mu, "sd": result.sd("task")}
    draws |= {label: effects[..., i] for i, label in enumerate("abc")}
    for name, (mean, sd) in exact(table).items():
        for method, value in (("mean", mean), ("sd", sd)):
            error = float(array_stats.mcse(draws[name], method=method))
            found = getattr(draws[name], "mean" if method == "mean" else "std")()
            assert found == pytest.approx(value, abs=4 * error + 1e-3), (name, method)
    assert {"fixed(prompt)[a]", "fixed(prompt)[b]", "fixed(prompt)[c]"} <= set(
        result.diagnostics.frame.index
    )
    assert "sd(prompt)" not in result.posterior["posterior"]


@pytest.mark.slow
def test_both_samplers_have_one_posterior() -> None:
    from test_model_sweep import LIMIT, differ

    study = study_of(
        "task",
        gs.Facet("prompt", role="controlled"),
        within("rollout", "system", "task", "prompt"),
        object="system",
        interactions=["task:prompt"],
    )
    rng = np.random.default_rng(3)
    rows = [(s, t, c, r) for s in range(4) for t in range(9) for c in "ab" for r in range(3)]
    table = pd.DataFrame(rows, columns=["system", "task", "prompt", "rollout"])
    table["score"] = rng.random(len(table)) < np.where(table["prompt"] == "a", 0.4, 0.7)
    found = checked(study, table.assign(score=table["score"].astype(int)))
    fits = [
        fit(study, found, draws=2500, seed=6, sampler=sampler, progress=False)
        for sampler in ("pymc", "direct")
    ]
    for name in ("mu", "sd(task)", "sd(task:prompt)", "sd(system)"):
        one, other = (f.posterior["posterior"][name].to_numpy() for f in fits)
        assert max(differ(one, other)) < LIMIT, name
    one, other = (f.posterior["posterior"]["fixed(prompt)"].to_numpy()[..., 0] for f in fits)
    assert max(differ(one, other)) < LIMIT
