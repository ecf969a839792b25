"""What the priors say before sampling: closed forms, and words."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from designs import checked, study_of, within
from models import random_trials
from scipy.special import expit, logit
from scipy.stats import norm

import gstudy as gs
from gstudy.errors import QuantityError
from gstudy.questions.prior_predictions import PriorPredictive, prior_predictive
from gstudy.study.estimable import Assessment

DRAWS = 20_000


@pytest.fixture(scope="module")
def tasks() -> Assessment:
    study = study_of("task", within("rollout", "task"))
    return checked(study, random_trials({"task": 12, "rollout": 3}, 1))


@pytest.fixture(scope="module")
def found(tasks: Assessment) -> PriorPredictive:
    return prior_predictive(tasks.study, tasks, draws=DRAWS, seed=1)


def test_a_narrow_sd_leaves_the_logit_normal_score() -> None:
    priors = {
        "mu": {"dist": "Normal", "mu": 0.4, "sigma": 0.7},
        "sd(task)": {"dist": "HalfNormal", "sigma": 1e-4},
    }
    study = study_of("task", within("rollout", "task"), priors=priors)
    table = random_trials({"task": 12, "rollout": 3}, 1)
    frame = prior_predictive(study, table, draws=DRAWS, seed=1).summary(0.9)
    expected = expit(norm.ppf([0.05, 0.5, 0.95], 0.4, 0.7))
    np.testing.assert_allclose(
        frame.loc["score", ["lower", "median", "upper"]], expected, atol=0.01
    )
    np.testing.assert_allclose(frame.loc["score of a new task", "median"], expected[1], atol=0.01)
    assert frame.loc["ICC(task)", "upper"] < 1e-6
    assert frame.attrs["scale"] == "score"
    assert frame.attrs["level"] == 0.9


def test_the_rate_of_a_new_task_is_the_logit_of_mu_and_its_effect(found: PriorPredictive) -> None:
    rate = found.draws.sel(component="score of a new task").values.ravel()
    # mu ~ N(0, 3), u ~ N(0, sd), sd ~ HalfNormal(5): variance of the logit 9 + 25.
    assert np.isclose(np.var(logit(np.clip(rate, 1e-16, 1 - 1e-16))), 34, rtol=0.06)
    assert abs(rate.mean() - 0.5) < 4 * 0.5 / np.sqrt(DRAWS)


def test_scores_and_iccs_are_those_of_gs_icc(tasks: Assessment) -> None:
    one = prior_predictive(tasks.study, tasks, draws=200, seed=4).draws
    rng = np.random.default_rng(4)
    mu = tasks.mu_prior.draw(rng, (1, 200))
    sd = tasks.components[0].prior.draw(rng, (1, 200))
    for i in (0, 57, 199):
        vc = gs.assume(tasks.study, {"task": sd[0, i] ** 2}, mu=mu[0, i], scale="logit")
        expected = float(gs.icc(vc, "task").draws.values.item())
        assert one.sel(component="ICC(task)").values[0, i] == pytest.approx(expected, abs=1e-9)


def test_shares_add_up_to_one() -> None:
    study = study_of(
        "task", within("rollout", "task"), gs.Facet("judge", role="error"), object="system"
    )
    table = random_trials({"system": 3, "task": 9, "rollout": 2, "judge": 3}, 1)
    result = prior_predictive(study, checked(study, table), draws=500, seed=1)
    names = [n for n in result.rows.index if n.startswith("share of ")]
    np.testing.assert_allclose(result.draws.sel(component=names).sum("component"), 1.0, atol=1e-9)
    assert "share of interactions made by the logit link" in names


def test_default_priors_of_one_facet_are_broad(found: PriorPredictive) -> None:
    told = found.summary()["prior"]
    assert set(told[["score", "score of a new task", "ICC(task)"]]) == {"broad"}
    text = found.table().text()
    assert "The prior of the score is broad" in text
    assert "sd(task) ~ HalfNormal(sigma=5)" in " ".join(text.split())
    assert "few levels" not in text


def test_a_component_of_few_levels_is_said_to_be_expected_small() -> None:
    study = study_of("site", within("rollout", "site"))
    result = prior_predictive(study, random_trials({"site": 3, "rollout": 9}, 1), seed=1)
    assert result.summary().loc["ICC(site)", "prior"] == "narrow"
    assert "Small ones are expected by the prior of ICC(site)" in " ".join(
        result.table().text().split()
    )


def test_it_needs_no_assessment_and_one_seed_gives_one_table(tasks: Assessment) -> None:
    table = random_trials({"task": 12, "rollout": 3}, 1)
    one = prior_predictive(tasks.study, table, draws=300, seed=3)
    two = prior_predictive(tasks.study, tasks, draws=300, seed=3)
    np.testing.assert_array_equal(one.draws.values, two.draws.values)


def test_graded_scores_have_their_moments() -> None:
    study = study_of("task", within("rollout", "task"), score="y", family="gaussian")
    table = random_trials({"task": 12, "rollout": 3}, 1).drop(columns="score")
    table["y"] = np.random.default_rng(1).normal(50.0, 2.0, len(table))
    assessment = checked(study, table)
    result = prior_predictive(study, assessment, draws=DRAWS, seed=1)
    s_y = table["y"].std()
    frame = result.summary()
    assert frame.loc["score", "mean"] == pytest.approx(table["y"].mean(), abs=0.15)
    assert frame.loc["score", "sd"] == pytest.approx(2.5 * s_y, rel=0.04)
    # A new task adds E sd^2 = (2 s_y)^2.
    new = np.sqrt((2.5**2 + 2**2) * s_y**2)
    assert frame.loc["score of a new task", "sd"] == pytest.approx(new, rel=0.04)
    # Task and residual have the same prior.
    assert frame.loc["ICC(task)", "mean"] == pytest.approx(0.5, abs=0.01)


def test_heavy_tailed_priors_have_scores_too() -> None:
    priors = {"sd(task)": {"dist": "HalfCauchy", "beta": 5.0}}
    study = study_of("task", within("rollout", "task"), priors=priors)
    table = random_trials({"task": 12, "rollout": 3}, 1)
    values = prior_predictive(study, table, draws=2000, seed=1).draws.values
    assert np.isfinite(values).all()
    assert values.min() >= 0
    assert values.max() <= 1


def test_controlled_levels_add_their_effect_to_the_mean() -> None:
    priors = {"mu": {"dist": "Normal", "mu": 0.0, "sigma": 1e-3}}
    study = study_of(
        "task", gs.Facet("harness", role="controlled"), within("rollout", "task", "harness"),
        priors={**priors, "sd(task)": {"dist": "HalfNormal", "sigma": 1e-4}}, interactions="none",
    )  # fmt: skip
    table = random_trials({"task": 12, "harness": 2, "rollout": 3}, 1)
    result = prior_predictive(study, table, draws=DRAWS, seed=1)
    score = result.draws.sel(component="score").values
    # Two effects of Normal(0, 2.5) around their mean: variance 2.5^2 / 2.
    assert logit(score).std() == pytest.approx(2.5 / np.sqrt(2), rel=0.03)
    assert "At one level of harness." in result.notes


@pytest.mark.parametrize("draws", [10, 99.5, True])
def test_a_bad_number_of_draws_is_named(tasks: Assessment, draws: object) -> None:
    with pytest.raises(QuantityError, match="draws is no number of prior draws"):
        prior_predictive(tasks.study, tasks, draws=draws)


def test_the_table_is_a_table(found: PriorPredictive) -> None:
    assert isinstance(found.table().frame, pd.DataFrame)
    assert "Prior predictive" in found._repr_html_()
