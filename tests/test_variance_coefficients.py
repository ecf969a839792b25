"""ICC, Phi and E rho^2 against numbers computed elsewhere, and their limits."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from designs import grid, study_of, within
from handmade import small_fit
from hypothesis import given, settings
from hypothesis import strategies as st
from sources import fitted, logit_source, one

import gstudy as gs
from gstudy.errors import QuantityError

PI2_3 = math.pi**2 / 3


def test_phi_and_e_rho2_of_two_crossed_facets(oracle: Any) -> None:
    case = oracle("extra")["cases"]["phi_erho2_crossed"]
    source = logit_source(case["logit_sd"], case["mu"], facets=["task", "judge"], object="system")
    phi = one(gs.phi(source, case["design"]).draws)
    rho = one(gs.generalizability(source, case["design"]).draws)
    assert phi == pytest.approx(case["Phi"], abs=1e-8)
    assert rho == pytest.approx(case["Erho2"], abs=1e-8)
    assert abs(phi - case["WRONG_without_bernoulli"]["Phi"]) > 1e-2
    assert abs(rho - case["WRONG_without_bernoulli"]["Erho2"]) > 1e-2
    # The error variances behind them, from the parts of a new system's budget.
    parts = gs.variance_budget(source, case["design"], system="new").draws
    found = dict(zip(parts.component.values, parts.values[0, 0], strict=True))
    between = found.pop("system")
    assert sum(found.values()) == pytest.approx(case["var_absolute"], abs=1e-8)
    relative = [v for name, v in found.items() if name == "residual" or "system" in name]
    assert sum(relative) == pytest.approx(case["var_relative"], abs=1e-8)
    assert between == pytest.approx(case["components"]["system"], abs=1e-8)


def phi_lambda(oracle: Any) -> tuple[Any, dict[str, Any]]:
    case = oracle("extra")["cases"]["phi_lambda"]
    source = logit_source(
        case["logit_sd"],
        case["mu"],
        facets=["task", "rollout"],
        nested={"rollout": ["system", "task"]},
        object="system",
    )
    return source, case


def test_phi_on_both_scales_and_at_cuts(oracle: Any) -> None:
    source, case = phi_lambda(oracle)
    design = case["design"]
    assert one(gs.phi(source, design).draws) == pytest.approx(case["Phi"], abs=1e-8)
    rho = gs.generalizability(source, design)
    assert one(rho.draws) == pytest.approx(case["Erho2"], abs=1e-8)
    for cut in (0.5, 0.7):
        found = gs.phi(source, design, cut=cut)
        assert one(found.draws) == pytest.approx(case[f"Phi({cut})"], abs=1e-8)
        assert found.name == f"Phi({cut})"
    logit = case["logit_scale"]
    assert one(gs.phi(source, design, scale="logit").draws) == pytest.approx(logit["Phi"], abs=1e-8)
    rho = gs.generalizability(source, design, scale="logit")
    assert one(rho.draws) == pytest.approx(logit["Erho2"], abs=1e-8)
    assert rho.scale == "logit"


def test_icc_of_two_crossed_facets(oracle: Any) -> None:
    case = oracle("extra")["cases"]["icc_two_crossed_facets"]
    source = logit_source(case["logit_sd"], case["mu"], facets=["task", "judge"])
    for facet in ("task", "judge"):
        score, logit = (gs.icc(source, facet, scale=scale) for scale in ("score", "logit"))
        assert one(score.draws) == pytest.approx(case[f"icc_{facet}"], abs=1e-8)
        assert one(logit.draws) == pytest.approx(case[f"logit_icc_{facet}"], abs=1e-8)
    both = one(gs.icc(source, "judge:task").draws)
    assert both > case["icc_task"] + case["icc_judge"]


def test_the_icc_of_a_child_holds_its_parents() -> None:
    source = logit_source(
        {"task": 1.0, "task:rollout": 0.5},
        0.0,
        facets=["task", "rollout"],
        nested={"rollout": ["task"]},
    )
    logit = one(gs.icc(source, "rollout", scale="logit").draws)
    assert logit == pytest.approx(1.25 / (1.25 + PI2_3))
    assert gs.icc(source, "rollout").name == "ICC(task:rollout)"


def test_the_score_icc_is_what_the_anova_estimates() -> None:
    # 4,000 tasks with 5 rollouts each: the ANOVA's error is about 0.007.
    rng = np.random.default_rng(5)
    rate = 1 / (1 + np.exp(-(0.7 + 1.6 * rng.standard_normal(4000))))
    passes = rng.binomial(5, rate)
    table = {"task": np.arange(4000).astype(str), "successes": passes, "trials": np.full(4000, 5)}
    anova = gs.anova_icc(pd.DataFrame(table)).value
    source = logit_source({"task": 1.6}, 0.7, facets=["task"])
    assert anova == pytest.approx(one(gs.icc(source, "task").draws), abs=0.02)
    assert abs(anova - one(gs.icc(source, "task", scale="logit").draws)) > 0.08


def test_draws_of_coefficients_follow_their_formulas_on_the_logit_scale() -> None:
    fit = small_fit()
    system, task, both = (fit.sd(n) ** 2 for n in ("system", "task", "system:task"))
    total = system + task + both + PI2_3
    np.testing.assert_allclose(
        gs.icc(fit, "system", scale="logit", system="new").draws.values, system / total, rtol=1e-12
    )
    np.testing.assert_allclose(
        gs.icc(fit, "task", scale="logit").draws.values,
        (task + both) / (task + both + PI2_3),
        rtol=1e-12,
    )
    noise = PI2_3 / 24
    np.testing.assert_allclose(
        gs.phi(fit, scale="logit").draws.values,
        system / (system + task / 8 + both / 8 + noise),
        rtol=1e-12,
    )
    np.testing.assert_allclose(
        gs.generalizability(fit, {"task": 40, "rollout": 2}, scale="logit").draws.values,
        system / (system + both / 40 + PI2_3 / 80),
        rtol=1e-12,
    )


def test_any_facet_may_be_the_object_after_the_fit() -> None:
    fit = small_fit()
    system, task, both = (fit.sd(n) ** 2 for n in ("system", "task", "system:task"))
    found = gs.phi(fit, {"system": 3, "rollout": 3}, scale="logit", object="task")
    expected = task / (task + system / 3 + both / 3 + PI2_3 / 9)
    np.testing.assert_allclose(found.draws.values, expected, rtol=1e-12)
    collected = gs.phi(fit, scale="logit", object="task")
    np.testing.assert_allclose(collected.draws.values, expected, rtol=1e-12)
    assert found.estimand == "of task scores with system = 3, rollout = 3"
    assert collected.estimand == "of task scores as collected, mean over all trials"


@pytest.mark.parametrize(
    ("object_", "message"),
    [
        ("judge", "'judge' cannot be the object: it has no component"),
        ("taks", "Did you mean 'task'"),
        ("rollout", "'rollout' cannot be the object: it is nested in system, task"),
    ],
)
def test_objects_that_cannot_be_are_refused(object_: str, message: str) -> None:
    source = logit_source(
        {"system": 1.0, "task": 1.0, "rollout": 0.5},
        0.0,
        facets=["task", "rollout", "judge"],
        nested={"rollout": ["system", "task"]},
        object="system",
    )
    design = {"task": 4, "rollout": 2, "judge": 1}
    with pytest.raises(QuantityError, match=re.escape(message)):
        gs.phi(source, design, object=object_)


def test_phi_needs_an_object_that_was_sampled() -> None:
    source = logit_source({"task": 1.0}, 0.0, facets=["task"])
    with pytest.raises(QuantityError, match=r"the study declares none.*Pass object='<facet>'"):
        gs.phi(source, {"task": 9})
    study = study_of("task", within("rollout", "system", "task"), object="system")
    table = grid({"system": ["only"], "task": range(6), "rollout": range(3)})
    fit = fitted(study, table, shape=(1, 4))
    with pytest.raises(QuantityError, match="compare levels of 'system', and one was sampled"):
        gs.generalizability(fit)
    assert 0 < float(gs.phi(fit, object="task").draws.mean()) < 1


def test_cuts_are_scores(oracle: Any) -> None:
    source, case = phi_lambda(oracle)
    with pytest.raises(QuantityError, match="the cut is not a score"):
        gs.phi(source, case["design"], cut=70)
    with pytest.raises(QuantityError, match="a cut is a score, and this is the logit scale"):
        gs.phi(source, case["design"], cut=0.7, scale="logit")


@settings(max_examples=60, deadline=None)
@given(
    st.floats(-12, 12),
    st.lists(st.one_of(st.just(0.0), st.floats(1e-6, 30.0)), min_size=3, max_size=3),
    st.sampled_from(["score", "logit"]),
)
def test_every_ratio_stays_between_zero_and_one(mu: float, sds: list[float], scale: str) -> None:
    sources = dict(zip(("system", "task", "system:task"), sds, strict=True))
    source = logit_source(sources, mu, facets=["task"], object="system")
    found = [gs.icc(source, name, scale=scale) for name in ("task", "system", "system:task")]
    found += [gs.phi(source, {"task": 3}, scale=scale)]
    found += [gs.generalizability(source, {"task": 3}, scale=scale)]
    for value in found:
        assert 0 <= one(value.draws) <= 1
    shares = gs.variance_components(source, scale=scale).shares.values
    assert np.all((shares >= 0) & (shares <= 1))


def test_an_icc_near_zero_has_an_interval_and_a_note() -> None:
    study = study_of("task", score=None, successes="k", trials="n")
    rows = [{"task": str(i), "k": 5, "n": 10} for i in range(10)]
    fit = fitted(study, rows, shape=(2, 200))
    fit.posterior["posterior"]["sd(task)"][:] *= 0.05
    found = gs.icc(fit, "task")
    frame = found.summary()
    assert 0 < frame.loc["ICC(task)", "lower"] < frame.loc["ICC(task)", "upper"] < 0.05
    assert "At the boundary: the data do not tell this ICC from zero." in found.notes
    assert "boundary" not in "".join(gs.icc(small_fit(), "task").notes)


def test_a_summary_of_a_coefficient_names_everything() -> None:
    found = gs.icc(small_fit(), "task")
    frame = found.summary(0.9)
    assert frame.index.tolist() == ["ICC(task)"]
    assert frame.columns.tolist() == ["mean", "median", "sd", "lower", "upper"]
    assert frame.attrs["scale"] == "score"
    assert frame.attrs["level"] == 0.9
    assert frame.attrs["interval"] == "equal-tailed"
    assert found.draws.dims == ("chain", "draw")
    assert "boundary" not in str(found)


def test_a_merged_object_is_said_to_be_merged() -> None:
    table = grid({"system": "ABC", "task": range(6), "rollout": range(3)})
    table["harness"] = table["system"].str.lower()
    study = study_of(
        "task", "harness", within("rollout", "system", "task"), object="system",
        interactions="none",
    )  # fmt: skip
    fit = fitted(study, table, shape=(1, 5))
    found = gs.phi(fit)
    assert "system + harness is one component: system cannot be told apart." in found.notes
    between = fit.sd("system + harness") ** 2
    expected = between / (between + fit.sd("task") ** 2 / 6 + PI2_3 / 18)
    np.testing.assert_allclose(gs.phi(fit, scale="logit").draws.values, expected, rtol=1e-12)
    design = {"task": 6, "rollout": 3, "harness": 1}
    np.testing.assert_allclose(
        gs.phi(fit, design, scale="logit").draws.values, expected, rtol=1e-12
    )


def test_each_coefficient_says_in_words_what_it_is() -> None:
    fit = small_fit()
    assert "Correlation of two trials that share this" in str(gs.icc(fit, "task"))
    assert "variance of a score that is read by itself" in str(gs.phi(fit))
    assert "above or below the cut" in str(gs.phi(fit, cut=0.5))
    assert "scores compared on one design" in str(gs.generalizability(fit))
