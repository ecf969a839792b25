"""Every library is given the same model: cells, priors, fixed effects, log-posterior."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest
from benchmarks import attempts, fixed_effects, methods
from benchmarks.libraries import bench_bambi, bench_numpyro, bench_rstanarm, r_scripts
from scipy import stats

import gstudy as gs

POINTS = 5


@pytest.fixture(scope="module")
def design() -> Any:
    """2 systems x 9 tasks x 3 modes (controlled) x 4 rollouts: two fixed columns."""
    study = gs.Study(
        score="passed",
        object="system",
        interactions=["system:task"],
        facets=[
            gs.Facet("task", role="legitimate"),
            gs.Facet("mode", role="controlled"),
            gs.Facet("rollout", role="legitimate", nested_in=["system", "task", "mode"]),
        ],
        priors={"mu": {"dist": "Normal", "mu": 0.2, "sigma": 1.5}},
    )
    sizes = {"system": 2, "task": 9, "mode": 3, "rollout": 4}
    trials = gs.simulate(study, sizes, sd={"task": 1.5}, seed=1)
    with pytest.warns(gs.EstimabilityWarning):
        return gs.check(study, trials.iloc[:-7])


def log_posterior(design: Any, mu: float, b: Any, sds: Any, offsets: Any) -> float:
    """Density of the non-centred model, written down once more: of mu, b, sds and offsets.

    The binomial coefficient of each cell is in it.
    """
    cells, prior = design.cells, design.mu_prior
    eta = np.full(len(cells.trials), mu)
    for value, x in zip(b, fixed_effects.covariates(design), strict=True):
        eta = eta + value * x.values
    found = stats.norm.logpdf(mu, prior.mu, prior.sigma) + stats.norm.logpdf(b, 0, 2.5).sum()
    for c, component in enumerate(design.components):
        eta = eta + sds[c] * offsets[c][cells.index[c]]
        found += stats.halfnorm.logpdf(sds[c], scale=component.prior.sigma)
        found += stats.norm.logpdf(offsets[c]).sum()
    rate = 1 / (1 + np.exp(-eta))
    return float(found + stats.binom.logpmf(cells.successes, cells.trials, rate).sum())


def a_point(design: Any, rng: np.random.Generator) -> tuple[float, Any, Any, list[Any]]:
    # Near 0: Bambi takes the logarithm of 1 - p, which has few digits left where p is near 1.
    offsets = [rng.normal(scale=0.3, size=c.n_levels) for c in design.components]
    sds = np.exp(rng.normal(scale=0.3, size=len(offsets)))
    return rng.normal(scale=0.3), rng.normal(scale=0.3, size=2), sds, offsets


def test_contrasts_are_a_zero_sum_normal() -> None:
    for levels in (2, 3, 7):
        q = fixed_effects.contrasts(levels)
        assert q.sum(axis=0) == pytest.approx(0, abs=1e-14)
        assert q @ q.T == pytest.approx(np.eye(levels) - 1 / levels, abs=1e-14)


def test_cells_keep_their_counts_and_levels(design: Any) -> None:
    frame = bench_bambi.cell_frame(design)
    assert (frame["passes"].to_numpy() == design.cells.successes).all()
    assert (frame["trials"].to_numpy() == design.cells.trials).all()
    for c, component in enumerate(design.components):
        codes = frame[f"group{c}"].cat.codes.to_numpy()
        assert (codes == design.cells.index[c]).all()
        assert codes.max() + 1 == component.n_levels
    columns = frame[["x0", "x1"]].to_numpy()
    mode = design.cells.index[len(design.components)]
    assert (columns == fixed_effects.contrasts(3)[mode]).all()


def test_trial_rows_collapse_to_the_cells(design: Any) -> None:
    rows = bench_bambi.trial_frame(design)
    assert set(rows["passed"]) == {0, 1}
    assert len(rows) == design.n_trials == 2 * 9 * 3 * 4 - 7
    keys = [name for name in rows if name.startswith(("group", "x"))]
    cells = bench_bambi.cell_frame(design).set_index(keys)[["passes", "trials"]]
    counted = rows.groupby(keys, observed=True)["passed"].agg(["sum", "count"])
    assert (counted.reindex(cells.index).to_numpy() == cells.to_numpy()).all()


def test_formulas_have_one_group_per_component_and_no_names(design: Any) -> None:
    groups = [f"(1|group{c})" for c in range(len(design.components))]
    for form, response in (("cells", "p(passes, trials)"), ("rows", "passed")):
        text = bench_bambi.formula(design, form)
        assert text == " + ".join([f"{response} ~ 1", "x0", "x1", *groups])
    assert "system" not in r_scripts.formula(design)


@pytest.mark.parametrize("form", ["cells", "rows"])
def test_bambi_has_our_log_posterior(design: Any, form: str) -> None:
    pytest.importorskip("bambi")
    from pytensor.compile.mode import Mode

    built = bench_bambi.model(design, form)
    built.build()
    graph = built.backend.model
    log_p = graph.compile_logp(mode=Mode(linker="py", optimizer="fast_compile"))
    rng = np.random.default_rng(1)
    # Rows have no binomial coefficients.
    cells = design.cells
    choices = stats.binom.logpmf(cells.successes, cells.trials, 0.5) + cells.trials * math.log(2)
    for _ in range(POINTS):
        mu, b, sds, offsets = a_point(design, rng)
        point = {"Intercept": mu, "x0": b[0], "x1": b[1]}
        for c in range(len(design.components)):
            point[f"1|group{c}_sigma_log__"] = math.log(sds[c])
            point[f"1|group{c}_offset"] = offsets[c]
        # PyMC's density is of log sd.
        expected = log_posterior(design, mu, b, sds, offsets) + np.log(sds).sum()
        expected -= 0.0 if form == "cells" else choices.sum()
        assert float(log_p(point)) == pytest.approx(expected, rel=1e-12)


# JAX computes in single precision: seven digits, lost a little over the sum of 54 cells.
SINGLE = 1e-5


def test_numpyro_has_our_log_posterior(design: Any) -> None:
    pytest.importorskip("numpyro")
    from numpyro.infer.util import log_density

    program, rng = bench_numpyro.model(design), np.random.default_rng(2)
    for _ in range(POINTS):
        mu, b, sds, offsets = a_point(design, rng)
        point: Mapping[str, Any] = {
            "mu": mu,
            **{f"b{i}": value for i, value in enumerate(b)},
            **{f"sd{c}": value for c, value in enumerate(sds)},
            **{f"z{c}": value for c, value in enumerate(offsets)},
        }
        found, _ = log_density(program, (), {}, point)
        expected = log_posterior(design, mu, b, sds, offsets)
        assert float(found) == pytest.approx(expected, rel=SINGLE)


def test_rstanarm_is_weighted_from_its_priors_to_ours(design: Any) -> None:
    rng, n = np.random.default_rng(3), 6
    groups = [f"group{c}" for c in range(len(design.components))]
    columns = {name: rng.gamma(2.0, size=n) for name in groups}
    columns |= {name: rng.normal(size=n) for name in ("mu", "x0", "x1")}
    draws = pd.DataFrame(columns)
    means = [x.values.mean() for x in fixed_effects.covariates(design)]
    assert max(map(abs, means)) > 1e-3  # seven trials are missing: the columns have means
    centred = draws["mu"] + means[0] * draws["x0"] + means[1] * draws["x1"]
    ours = stats.norm.logpdf(draws["mu"], 0.2, 1.5)
    theirs = stats.norm.logpdf(centred, 0.2, 1.5)
    for name, component in zip(groups, design.components, strict=True):
        prior = stats.halfnorm(scale=component.prior.sigma)
        ours = ours + prior.logpdf(draws[name])
        theirs = theirs + stats.expon.logpdf(draws[name], scale=prior.mean())
    difference = bench_rstanarm.log_weights(design, draws) - (ours - theirs)
    assert difference == pytest.approx(difference[0])


@pytest.mark.slow
def test_rstanarm_agrees_with_the_direct_path(design: Any) -> None:
    # Its terms are reordered, its intercept is of centred columns, its priors are others: all of
    # that is undone when the weighted means agree.
    rstanarm, direct = attempts.METHODS["rstanarm"], attempts.METHODS["direct"]
    if rstanarm.missing():
        pytest.skip(rstanarm.missing())
    plan = methods.Plan(1, 1000, 1000)
    ours, theirs = (attempts.measure(m.sample(design, plan)) for m in (direct, rstanarm))
    assert theirs["ess"] > 400
    for name, mean in ours["means"].items():
        error = math.hypot(ours["mcse"][name], theirs["mcse"][name])
        assert theirs["means"][name] == pytest.approx(mean, abs=4 * error), name


def test_lme4_reads_the_cells_and_gives_one_number_each(design: Any) -> None:
    lme4 = attempts.METHODS["lme4"]
    if lme4.missing():
        pytest.skip(lme4.missing())
    found = lme4.sample(design, None)
    names = [f"sd({component.name})" for component in design.components]
    assert list(found.quantities) == ["mu", *names]
    # The task effects are the large ones; sd 1.5 was simulated on 9 of them.
    assert 0.5 < found.quantities["sd(task)"].item() < 3.0
    assert found.seconds is not None
    assert found.remark.startswith("lme4 ")
