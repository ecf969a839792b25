"""Graded scores: the density is that of every single score, and posteriors are the exact ones."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytensor
import pytensor.tensor as pt
import pytest
from designs import checked, within
from models import (
    DESIGNS,
    Shape,
    agree,
    crossed,
    fixed_effects,
    graded,
    nested,
    shape_of,
    slopes_agree,
    tolerance,
)
from pytensor.compile.mode import Mode

import gstudy as gs
from gstudy.model.direct import direct_posterior
from gstudy.model.fused import FusedGaussian
from gstudy.model.sampling import fit
from gstudy.model.sweep import shifting_pairs
from gstudy.study.priors import Prior

REFERENCES = {
    row["id"]: row
    for row in json.loads(
        (Path(__file__).parent / "oracles" / "references.json").read_text(encoding="utf-8")
    )["references"]
}
RESIDUAL = Prior("HalfNormal", {"sigma": 3.0})
NORMAL = Prior("Normal", {"mu": 2.0, "sigma": 4.0})


def scored(design: str = "crossed", residual: Prior | None = RESIDUAL, seed: int = 2) -> Shape:
    """Scores about 2 with a spread of 1.5 in the cells of a design."""
    shape = shape_of(DESIGNS[design](), mu=NORMAL)
    scores = np.random.default_rng(seed).normal(2.0, 1.5, int(shape.cells.trials.sum()))
    return graded(shape, scores, residual)


SHAPES = {
    "crossed": scored,
    "nested": lambda: scored("nested"),
    "known errors": lambda: scored(residual=None),
    "fixed effects": lambda: fixed_effects(scored(), "system", 1.5),
    "everything": lambda: replace(
        fixed_effects(scored(residual=Prior("HalfCauchy", {"beta": 1.0})), "task", 0.8),
        mu_prior=Prior("StudentT", {"nu": 4.0, "mu": 1.0, "sigma": 2.0}),
    ),
}


@pytest.mark.parametrize("name", SHAPES)
def test_both_paths_agree(name: str) -> None:
    agree(SHAPES[name](), 25)


@pytest.mark.slow
@pytest.mark.parametrize("how", [{"sweep": []}, {"standardise": False}, {"weighted": False}])
@pytest.mark.parametrize("name", SHAPES)
def test_both_paths_agree_compiled_and_however_written(name: str, how: dict[str, Any]) -> None:
    agree(SHAPES[name](), 100, numba=True, **how)


@pytest.mark.parametrize("sweep", [None, []])
@pytest.mark.parametrize("name", SHAPES)
def test_the_gradient_is_that_of_the_value(name: str, sweep: list[str] | None) -> None:
    posterior = direct_posterior(SHAPES[name]().parameterised(sweep=sweep))
    p = posterior.parameterisation
    slopes_agree(posterior, p.start + np.random.default_rng(8).normal(size=posterior.n_free))


@pytest.mark.parametrize("known", [False, True])
def test_the_op_is_pymcs_normal_over_rows(known: bool) -> None:
    """Value and gradients, all constants included: nothing is left out of the density."""
    import pymc as pm

    rng = np.random.default_rng(2)
    shape = shape_of(crossed(), mu=NORMAL)
    scores = rng.normal(2.0, 1.5, int(shape.cells.trials.sum()))
    errors = np.random.default_rng(1).uniform(0.5, 2.0, len(scores))
    p = graded(shape, scores, None if known else RESIDUAL).parameterised()
    rows = np.repeat(np.arange(len(p.trials)), p.trials.astype(int))
    assert p.graded is not None
    mean, effects, log_sd = pt.dscalar("mean"), pt.dvector("effects"), pt.dscalar("log_sd")
    scale = np.asarray(0.0) if known else log_sd
    totals = np.array([p.graded.squares, p.graded.n_trials, p.graded.constant])
    inputs = (mean, effects, scale, p.index, p.graded.means, p.graded.precision, *totals[:2])
    ours = FusedGaussian()(*inputs)[0] + totals[2]
    eta = mean + effects[p.index[rows]].sum(axis=-1)
    sigma = errors if known else pt.exp(log_sd)
    theirs = pm.logp(pm.Normal.dist(eta, sigma), scores).sum()
    free = [mean, effects, *([] if known else [log_sd])]
    both = [[value, *pytensor.grad(value, free)] for value in (ours, theirs)]
    mode = Mode(linker="py", optimizer="fast_compile")
    function = pytensor.function(free, [*both[0], *both[1]], mode=mode)
    for _ in range(20):
        point = [rng.normal(), rng.normal(size=len(p.weights)), 0.5 * rng.normal()]
        values = function(*point[: len(free)])
        half = len(values) // 2
        for mine, other in zip(values[:half], values[half:], strict=True):
            np.testing.assert_allclose(mine, other, rtol=0, atol=tolerance(float(values[0])))


def test_the_unit_of_the_score_changes_nothing() -> None:
    """Scores, priors and location times k: the density of N scores and the location is k^-1 each,
    and the same coordinates are used."""
    k = 3e6
    shape = shape_of(crossed(), mu=NORMAL)
    priors = {c.name.replace(":", "__"): RESIDUAL for c in shape.cells.components}
    large = {name: Prior("HalfNormal", {"sigma": k * RESIDUAL.sigma}) for name in priors}
    n = int(shape.cells.trials.sum())
    scores = np.random.default_rng(3).normal(2.0, 1.5, n)
    one = graded(shape_of(crossed(), mu=NORMAL, **priors), scores, RESIDUAL).parameterised()
    mu = Prior("Normal", {"mu": 2.0 * k, "sigma": 4.0 * k})
    residual = Prior("HalfNormal", {"sigma": 3.0 * k})
    other = graded(shape_of(crossed(), mu=mu, **large), k * scores, residual).parameterised()
    rng = np.random.default_rng(4)
    for _ in range(20):
        step = rng.normal(size=one.n_free)
        small, _ = direct_posterior(one)(one.start + one.start_width * step)
        value, _ = direct_posterior(other)(other.start + other.start_width * step)
        assert value == pytest.approx(small - (n + 1) * np.log(k), abs=1e-8 * n)


def test_the_prior_predictive_has_the_spread_of_cell_means() -> None:
    import pymc as pm

    from gstudy.model.graph import model_of

    shape = scored()
    with model_of(shape.parameterised(), shape.cells):
        prior = pm.sample_prior_predictive(
            draws=400, random_seed=1, compile_kwargs={"mode": "FAST_COMPILE"}
        )
    drawn = prior["prior_predictive"]["scores"].to_numpy()[0]
    assert drawn.shape == (400, len(shape.cells.trials))
    # Var = mu 16, and at most 9 + 1 + 1 and 9 of the sds' second moments: sigma^2 each.
    variances = [c.prior.sigma**2 for c in shape.cells.components]
    expected = 16.0 + sum(variances) + 9.0 / shape.cells.trials
    ratio = drawn.var(axis=0) / expected
    assert ratio.mean() == pytest.approx(1.0, abs=0.25)


def test_graded_scores_have_no_shifting_pairs() -> None:
    assert shifting_pairs(scored().cells) == []


@pytest.mark.parametrize("level", [0.0, 7.3])
def test_scores_that_never_differ_are_refused(level: float) -> None:
    """The density of a residual sd of 0 would be infinite."""
    shape = shape_of(crossed(), mu=NORMAL)
    n = int(shape.cells.trials.sum())
    with pytest.raises(gs.DataError, match="never differ in score"):
        graded(shape, np.full(n, level), RESIDUAL).parameterised()
    rows = np.repeat(np.arange(len(shape.cells.trials)), shape.cells.trials)
    with pytest.raises(gs.DataError, match="Keep one trial of each cell, or give known errors"):
        graded(shape, 0.1 * rows + level, RESIDUAL).parameterised()
    # An additive model does not fit every cell, and known errors are above 0.
    additive = shape_of(nested(), mu=NORMAL)
    few = np.repeat(np.arange(len(additive.cells.trials)), additive.cells.trials)
    assert graded(additive, 0.1 * few, RESIDUAL).parameterised().graded is not None
    assert graded(shape, np.full(n, level), None).parameterised().graded is not None


# ---------------------------------------------------------------- posteriors computed elsewhere


def half_normal(sigma: float) -> dict[str, Any]:
    return {"dist": "HalfNormal", "sigma": sigma}


def shrout_fleiss() -> tuple[gs.Study, pd.DataFrame]:
    given = REFERENCES["exact_gauss_crossed_shrout_fleiss"]["input"]["data"]
    rows = [(t, j, y) for t, row in enumerate(given) for j, y in enumerate(row)]
    study = gs.Study(
        score="y",
        family="gaussian",
        object="target",
        facets=[gs.Facet("judge", role="error")],
        interactions="none",
        priors={
            "mu": {"dist": "Normal", "mu": 5.0, "sigma": 5.0},
            **{f"sd({name})": half_normal(3.0) for name in ("target", "judge", "residual")},
        },
    )
    return study, pd.DataFrame(rows, columns=["target", "judge", "y"])


def batches(name: str, mu: tuple[float, float], sigma: float) -> tuple[gs.Study, pd.DataFrame]:
    given = REFERENCES[name]["input"]["y_by_batch"]
    rows = [(b, r, y) for b, row in enumerate(given) for r, y in enumerate(row)]
    study = gs.Study(
        score="y",
        family="gaussian",
        facets=[gs.Facet("batch", role="legitimate"), within("sample", "batch")],
        priors={
            "mu": {"dist": "Normal", "mu": mu[0], "sigma": mu[1]},
            **{f"sd({name})": half_normal(sigma) for name in ("batch", "residual")},
        },
    )
    return study, pd.DataFrame(rows, columns=["batch", "sample", "y"])


def eight_schools() -> tuple[gs.Study, pd.DataFrame]:
    given = REFERENCES["posteriordb_eight_schools_noncentered"]["input"]
    study = gs.Study(
        score="y",
        family="gaussian",
        standard_error="se",
        facets=[gs.Facet("school", role="legitimate")],
        priors={
            "mu": {"dist": "Normal", "mu": 0.0, "sigma": 5.0},
            "sd(school)": {"dist": "HalfCauchy", "beta": 5.0},
        },
    )
    return study, pd.DataFrame({"school": range(8), "y": given["y"], "se": given["se"]})


def draws_of(study: gs.Study, table: pd.DataFrame, **how: Any) -> gs.Fit:
    result = fit(
        study, checked(study, table), **{"seed": 5, "draws": 2500, "sampler": "direct", **how}
    )
    assert result.diagnostics.divergences == 0
    return result


def close(draws: np.ndarray, expected: dict[str, float], slack: float) -> None:
    """Mean and sd to 4 MCSE + slack, quantiles to 4 MCSE + 4 slack."""
    from arviz_stats.base import array_stats

    for key, value in expected.items():
        if key in ("mean", "sd"):
            error = float(array_stats.mcse(draws, method=key))
            found = draws.mean() if key == "mean" else draws.std()
            assert found == pytest.approx(value, abs=4 * error + slack), key
        else:
            p = float(key[1:]) / 100.0
            error = float(array_stats.mcse(draws, method="quantile", prob=p))
            assert np.quantile(draws, p) == pytest.approx(value, abs=4 * error + 4 * slack), key


@pytest.mark.reference
def test_crossed_scores_of_shrout_and_fleiss() -> None:
    result = draws_of(*shrout_fleiss(), progress=False)
    target, judge, rest = (result.sd(name) for name in ("target", "judge", "residual"))
    measured = {
        "sigma_target": target,
        "sigma_judge": judge,
        "sigma_resid": rest,
        "ICC(2,1)=Phi(1)": target**2 / (target**2 + judge**2 + rest**2),
        "ICC(3,1)=Erho2(1)": target**2 / (target**2 + rest**2),
        "ICC(2,k)=Phi(4)": target**2 / (target**2 + (judge**2 + rest**2) / 4),
        "ICC(3,k)=Erho2(4)": target**2 / (target**2 + rest**2 / 4),
    }
    reference = REFERENCES["exact_gauss_crossed_shrout_fleiss"]["expected"]["posterior"]
    for name, draws in measured.items():
        close(draws, reference[name], 5e-4)


@pytest.mark.reference
@pytest.mark.parametrize(
    ("name", "mu", "sigma", "slack"),
    [("dyestuff", (1500.0, 100.0), 100.0, 0.02), ("dyestuff2", (5.0, 5.0), 5.0, 1e-3)],
)
def test_batches(name: str, mu: tuple[float, float], sigma: float, slack: float) -> None:
    """Of the second the variance between batches is estimated negative by mean squares."""
    result = draws_of(*batches(name, mu, sigma), progress=False)
    batch, rest = result.sd("batch"), result.sd("residual")
    expected = REFERENCES[name]["expected"]["exact_posterior"]
    close(batch, expected["sigma_batch"], slack)
    close(rest, expected["sigma_resid"], slack)
    close(batch**2 / (batch**2 + rest**2), expected["icc"], 1e-3)


@pytest.mark.reference
def test_eight_schools() -> None:
    """Means to 4 combined Monte Carlo errors of ours and of the reference draws."""
    from arviz_stats.base import array_stats

    result = draws_of(*eight_schools(), progress=False)
    expected = REFERENCES["posteriordb_eight_schools_noncentered"]["expected"]
    theta = result.mu[..., None] + result.effects("school").to_numpy()
    measured = {"mu": result.mu, "tau": result.sd("school")}
    measured |= {f"theta[{i + 1}]": theta[..., i] for i in range(8)}
    for name, draws in measured.items():
        # 10,000 reference draws; the error of the thetas is at most the largest that is given.
        theirs = expected["mcse"].get(name, 0.06)
        error = float(np.hypot(array_stats.mcse(draws, method="mean"), theirs))
        assert draws.mean() == pytest.approx(expected["mean"][name], abs=4 * error), name


@pytest.mark.reference
@pytest.mark.parametrize("seed", range(3))
def test_eight_schools_at_the_defaults_have_no_divergence(seed: int) -> None:
    result = draws_of(*eight_schools(), progress=False, draws=1000, seed=seed)
    assert result.diagnostics.passed, str(result.diagnostics)
    assert result.diagnostics.refits == ()
    assert "sd(residual)" not in result.posterior["posterior"]


@pytest.mark.slow
@pytest.mark.reference
@pytest.mark.parametrize("problem", [shrout_fleiss, eight_schools])
def test_both_samplers_have_one_posterior(problem: Any) -> None:
    from test_model_sweep import LIMIT, differ

    fits = [draws_of(*problem(), progress=False, sampler=name) for name in ("pymc", "direct")]
    names = [name for name in fits[0].posterior["posterior"].data_vars if name[:2] in ("mu", "sd")]
    for name in names:
        one, other = (f.posterior["posterior"][name].to_numpy() for f in fits)
        assert max(differ(one, other)) < LIMIT, name


def test_the_residual_sd_is_in_the_posterior_and_in_the_gates() -> None:
    result = draws_of(*shrout_fleiss(), progress=False, draws=1000)
    variable = result.posterior["posterior"]["sd(residual)"]
    assert variable.dims == ("chain", "draw")
    assert "sd(residual)" in result.diagnostics.frame.index
