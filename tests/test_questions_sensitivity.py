"""Prior sensitivity: a closed-form posterior, weak components, and words."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from designs import study_of, within
from handmade import small_fit
from models import random_trials
from scipy.stats import halfnorm, norm

import gstudy as gs
from gstudy.errors import ConvergenceWarning, EstimabilityWarning, QuantityError
from gstudy.fits.fitted import Fit
from gstudy.questions.sensitivity import (
    THRESHOLD,
    PriorSensitivity,
    log_prior,
    prior_sensitivity,
    weak_components_note,
)

GROUPS = gs.Study(successes="k", trials="n", facets=[gs.Facet("group", role="legitimate")])


def sampled(study: gs.Study, table: pd.DataFrame) -> Fit:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", EstimabilityWarning)
        return gs.fit(
            study, table, seed=1, sampler="direct", progress=False, draws=700, tune=500, cores=2
        )


@pytest.fixture(scope="module")
def two_groups() -> Fit:
    return sampled(GROUPS, pd.DataFrame({"group": ["a", "b"], "k": [3, 7], "n": [10, 10]}))


@pytest.fixture(scope="module")
def many_tasks() -> Fit:
    study = study_of("task", within("rollout", "task"), score="passed")
    table = gs.simulate(study, {"task": 80, "rollout": 6}, sd={"task": 1.5}, mu=0.3, seed=1)
    return sampled(study, table)


@pytest.fixture(scope="module")
def result(two_groups: Fit) -> PriorSensitivity:
    return prior_sensitivity(two_groups)


def test_log_prior_is_that_of_mu_and_every_sd() -> None:
    fit = small_fit()
    expected = norm(0, 3).logpdf(fit.mu)
    for component in fit.design.components:
        scale = dict(component.prior.parameters)["sigma"]
        expected = expected + halfnorm(scale=scale).logpdf(fit.sd(component.name))
    np.testing.assert_allclose(log_prior(fit), expected, atol=1e-10)


def test_two_groups_feel_the_prior_of_their_sd(result: PriorSensitivity, two_groups: Fit) -> None:
    frame = result.summary()
    assert 0.1 < frame.loc["sd(group)", "prior"] < 0.4
    assert frame.loc["sd(group)", "diagnosis"].startswith("prior matters")
    assert frame.loc["ICC(group)", "diagnosis"].startswith("prior matters")
    assert frame.loc["mu", "diagnosis"] == "prior hardly matters"
    text = " ".join(result.table().text().split())
    assert "Under 5 levels: group." in text
    note = weak_components_note(two_groups)
    assert note.startswith("Few levels, so that the prior matters")
    assert f"sd(group) {frame.loc['sd(group)', 'prior']:.2f}" in note
    assert "gs.prior_sensitivity(fit)" in note
    assert "\n" not in note


def test_three_groups_too() -> None:
    table = pd.DataFrame({"group": list("abc"), "k": [2, 5, 9], "n": [10] * 3})
    note = weak_components_note(sampled(GROUPS, table))
    assert "the prior matters" in note


def test_many_tasks_do_not(many_tasks: Fit) -> None:
    frame = prior_sensitivity(many_tasks).summary()
    assert (frame["prior"] < THRESHOLD).all()
    assert set(frame["diagnosis"]) == {"prior hardly matters"}
    assert frame.loc["sd(task)", "likelihood"] > 0.2
    assert list(frame.index) == [
        "mu",
        "sd(task)",
        "score",
        "ICC(task)",
        "share of task",
        "share of residual",
    ]
    assert weak_components_note(many_tasks) == ""


def test_sensitivities_are_those_of_arviz(result: PriorSensitivity) -> None:
    import arviz_stats
    import xarray as xr

    draws = result.draws
    tree = xr.DataTree.from_dict(
        {
            "posterior": draws[["mu", "sd(group)"]].rename({"sd(group)": "sd"}),
            "log_prior": draws[["log_prior"]],
            "log_likelihood": draws[["log_likelihood"]],
        }
    )
    expected = arviz_stats.psense_summary(tree, round_to=12)
    found = result.summary().loc[["mu", "sd(group)"], ["prior", "likelihood"]]
    np.testing.assert_allclose(
        found, expected.loc[["mu", "sd"], ["prior", "likelihood"]], atol=1e-9
    )


def test_effects_that_were_not_kept_leave_the_likelihood_out(many_tasks: Fit) -> None:
    tree = many_tasks.posterior.copy()
    tree["posterior"] = type(tree)(tree["posterior"].to_dataset().drop_vars("u(task)"))
    bare = Fit(tree, many_tasks.study, many_tasks.design, many_tasks.diagnostics, {})
    found = prior_sensitivity(bare)
    assert found.frame["likelihood"].isna().all()
    assert found.frame["prior"].notna().all()
    assert "The likelihood is not scaled" in found.notes[-1]


def test_graded_scores_scale_the_residual_too() -> None:
    study = study_of("task", within("rollout", "task"), score="y", family="gaussian")
    table = random_trials({"task": 20, "rollout": 4}, 1).drop(columns="score")
    rng = np.random.default_rng(1)
    table["y"] = rng.normal(size=20)[table["task"].astype(int)] + rng.normal(size=len(table))
    fit = sampled(study, table)
    frame = prior_sensitivity(fit).summary()
    assert "sd(residual)" in frame.index
    assert (frame["prior"] < THRESHOLD).all()
    residual = halfnorm(scale=2 * table["y"].std()).logpdf(fit.sd("residual"))
    task = halfnorm(scale=2 * table["y"].std()).logpdf(fit.sd("task"))
    mean = norm(table["y"].mean(), 2.5 * table["y"].std()).logpdf(fit.mu)
    np.testing.assert_allclose(log_prior(fit), residual + task + mean, atol=1e-6)


def test_a_prior_against_the_data_is_felt_more(result: PriorSensitivity) -> None:
    table = pd.DataFrame({"group": ["a", "b"], "k": [3, 7], "n": [10, 10]})
    tight = gs.Study(
        successes="k",
        trials="n",
        facets=[gs.Facet("group", role="legitimate")],
        priors={"mu": {"dist": "Normal", "mu": 2.0, "sigma": 0.2}},
    )
    frame = prior_sensitivity(sampled(tight, table)).summary()
    assert frame.loc["mu", "prior"] > max(THRESHOLD, 1.5 * result.frame.loc["mu", "prior"])


@pytest.mark.parametrize("ask", [prior_sensitivity, weak_components_note])
def test_what_is_no_fit_is_named(ask: object) -> None:
    with pytest.raises(QuantityError, match="the sensitivity to the prior is of a fit"):
        ask("run.nc")
