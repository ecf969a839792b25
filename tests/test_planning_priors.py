"""Components from the priors alone: their distribution, and what every table says of them."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
from designs import checked, study_of, within
from scipy.stats import halfnorm, kstest, norm

import gstudy as gs
from gstudy.errors import EstimabilityWarning, QuantityError
from gstudy.planning.terms import error_terms, score_terms
from gstudy.variance.basis import latent_of

DESIGN = {"task": 50, "rollout": 4, "judge": 3}


def agent(**rest: Any) -> gs.Study:
    return study_of(
        "task",
        within("rollout", "system", "task"),
        gs.Facet("judge", role="error"),
        object="system",
        **rest,
    )


def test_draws_follow_the_default_priors() -> None:
    latent = latent_of(gs.prior_components(agent(), DESIGN, draws=5_000, seed=3))
    sigmas = {
        "system": 2,
        "task": 5,
        "judge": 1,
        "system:task": 5,
        "system:judge": 1,
        "task:judge": 5,
        "system:task:rollout": 5,
    }
    assert set(latent.names) == set(sigmas)
    for name, variance in zip(latent.names, latent.variances, strict=True):
        found = kstest(np.sqrt(variance.ravel()), halfnorm(scale=sigmas[name]).cdf)
        assert found.pvalue > 1e-3, name
    assert kstest(latent.mu.ravel(), norm(0, 3).cdf).pvalue > 1e-3
    together = np.corrcoef(np.sqrt(latent.variances.reshape(len(sigmas), -1)))
    assert abs(together - np.eye(len(sigmas))).max() < 4 / math.sqrt(5_000)


def test_the_number_of_levels_decides_on_the_default() -> None:
    def sigma(design: Any, name: str, **rest: Any) -> float:
        vc = gs.prior_components(
            study_of("task", gs.Facet("judge", role="error"), "env", **rest), design, draws=4000
        )
        latent = latent_of(vc)
        return float(np.sqrt(latent.variances[latent.names.index(name)].mean()))

    few, many = {"task": 7, "judge": 2, "env": 2}, {"task": 8, "judge": 8, "env": 2}
    assert sigma(few, "task") == pytest.approx(1, rel=0.05)
    assert sigma(many, "task") == pytest.approx(5, rel=0.05)
    assert sigma(many, "judge") == pytest.approx(5, rel=0.05)
    fresh = gs.Design({"task": 7, "env": 2}, judges="fresh")
    assert sigma(fresh, "judge") == pytest.approx(5, rel=0.05)
    lone = gs.Design({"task": 7, "env": 2}, judges="one")
    assert sigma(lone, "judge") == pytest.approx(1, rel=0.05)
    named = {**many, "system": 9}
    assert sigma(named, "system", object="system") == pytest.approx(5, rel=0.05)
    assert sigma(many, "system", object="system") == pytest.approx(2, rel=0.05)


def test_the_same_components_and_priors_as_a_check_of_such_trials() -> None:
    study = agent()
    levels = {"system": 3, **DESIGN}
    trials = gs.simulate(study, levels, sd={"task": 1.0}, seed=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimabilityWarning)
        design = checked(study, trials)
    vc = gs.prior_components(study, levels)
    note = vc.notes[-1]
    assert {c.name for c in design.components} == set(latent_of(vc).names)
    for component in design.components:
        assert f"sd({component.name}) ~ {component.prior}" in note
    expected = gs.prior_predictive(study, design, draws=5_000, seed=5).summary()
    share = float(gs.icc(gs.prior_components(study, levels, draws=5_000), "task").draws.mean())
    error = 4 * 0.3 / math.sqrt(5_000) * math.sqrt(2)
    assert share == pytest.approx(expected.loc["ICC(task)", "mean"], abs=error)


def test_declared_priors_are_drawn_from() -> None:
    study = agent(
        interactions="none",
        priors={
            "mu": {"dist": "Normal", "mu": 1.0, "sigma": 0.001},
            "sd(task)": {"dist": "LogNormal", "mu": 0.0, "sigma": 0.01},
        },
    )
    vc = gs.prior_components(study, DESIGN)
    latent = latent_of(vc)
    assert latent.mu == pytest.approx(np.ones(latent.mu.shape), abs=0.01)
    task = latent.variances[latent.names.index("task")]
    assert task == pytest.approx(np.ones(task.shape), rel=0.12)
    same, other = (gs.prior_components(study, DESIGN, seed=seed) for seed in (0, 1))
    assert (same.draws == vc.draws).all()
    assert (other.draws != vc.draws).any()


def test_every_table_says_that_it_is_of_the_priors_alone() -> None:
    vc = gs.prior_components(agent(), DESIGN, draws=200)
    results = [
        vc,
        gs.variance_components(vc, scale="logit"),
        gs.variance_budget(vc, DESIGN),
        gs.phi(vc, DESIGN),
        gs.icc(vc, "task"),
        gs.sem(vc, DESIGN),
        gs.rerun_noise(vc, DESIGN),
        gs.noises(vc, DESIGN),
    ]
    for result in results:
        text = " ".join(str(result).split())
        assert "Prior only: no trial informs these numbers" in text
        assert "Assumed" not in text
        assert "do not tell this ICC" not in text
        assert not result.assumed
    assert str(vc).startswith("Prior variance components")
    assert "lower" in vc.table().frame
    assert gs.variance_budget(vc, DESIGN).estimand.endswith("(priors alone)")
    mixed = gs.assume(vc.basis.study, {"task": 1.0}, base=vc, scale="logit")
    sources = gs.variance_components(mixed, scale="logit").summary()["source"]
    assert sources["task"] == "assumed"
    assert sources["judge"] == "prior"


def test_terms_of_the_priors_are_its_budgets() -> None:
    vc = gs.prior_components(agent(), DESIGN, draws=300)
    terms, errors = score_terms(vc), error_terms(vc)
    for design in (DESIGN, gs.Design({"task": 9, "rollout": 2}, judges="fresh")):
        asked = gs.Design.read(design)
        counts = terms.counts(asked)
        found = terms.variance(terms.factors(counts, judges=asked.judges))
        budget = gs.variance_budget(vc, design).variance.values
        np.testing.assert_allclose(found, budget, rtol=1e-12)
        error = errors.variance(errors.factors(counts, judges=asked.judges))
        np.testing.assert_allclose(np.sqrt(error), gs.sem(vc, design).draws.values, rtol=1e-12)


def test_one_trial_per_level_is_the_noise_of_a_trial() -> None:
    vc = gs.prior_components(study_of("task", within("rollout", "task")), {"task": 20})
    assert list(vc.rows) == ["task", "residual"]
    alone = gs.prior_components(study_of("task"), {}, draws=500)
    assert list(alone.rows) == ["residual"]
    budget = gs.variance_budget(alone, {"task": 50})
    mean = alone.mean.values
    np.testing.assert_allclose(budget.variance.values, mean * (1 - mean) / 50, rtol=1e-12)
    kept = study_of("task", within("rollout", "task"), keep=["rollout"])
    assert "task:rollout" in gs.prior_components(kept, {"task": 20, "rollout": 2}).rows


def test_graded_scores_need_declared_priors() -> None:
    half = {"dist": "HalfNormal", "sigma": 2.0}
    priors = {
        "mu": {"dist": "Normal", "mu": 50, "sigma": 10},
        "sd(task)": half,
        "sd(residual)": {"dist": "HalfNormal", "sigma": 4.0},
    }
    facets = ("task", within("rollout", "task"))
    vc = gs.prior_components(
        study_of(*facets, family="gaussian", priors=priors), {"task": 9}, draws=5_000
    )
    means = vc.draws.mean(("chain", "draw")).values
    # E sd^2 = sigma^2; the variance of sd^2 is 2 sigma^4.
    for mean, sigma in zip(means, (2.0, 4.0), strict=True):
        assert mean == pytest.approx(sigma**2, abs=4 * math.sqrt(2) * sigma**2 / math.sqrt(5_000))
    del priors["sd(task)"]
    with pytest.raises(QuantityError, match=r"default prior of sd\(task\) follows from scores"):
        gs.prior_components(study_of(*facets, family="gaussian", priors=priors), {"task": 9})
    known = study_of("task", family="gaussian", standard_error="se")
    with pytest.raises(QuantityError, match="known errors"):
        gs.prior_components(known, {"task": 9})


def test_controlled_facets_are_at_one_level() -> None:
    study = study_of(gs.Facet("mode", role="controlled"), "task", within("rollout", "task"))
    vc = gs.prior_components(study, {"task": 20})
    assert "At one level of mode." in str(vc)


def test_what_is_refused() -> None:
    with pytest.raises(QuantityError, match=r"unknown facet 'taks'.*Did you mean 'task'"):
        gs.prior_components(agent(), {"taks": 5})
    with pytest.raises(QuantityError, match="how many levels of 'judge'"):
        gs.prior_components(agent(), {"task": 5, "rollout": 2})
    for draws in (0, 99, 2.5, True, 10**6):
        with pytest.raises(QuantityError, match="no number of prior draws"):
            gs.prior_components(agent(), DESIGN, draws=draws)
    with pytest.raises(QuantityError, match="no design as collected"):
        gs.variance_budget(gs.prior_components(agent(), DESIGN, draws=100))
