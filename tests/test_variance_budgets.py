"""Budgets of reported scores, against what is published and computed elsewhere."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from designs import study_of, within
from handmade import small_fit
from sources import logit_source, one

import gstudy as gs
from gstudy.errors import QuantityError


def handbook(oracle: Any) -> tuple[gs.VarianceComponents, dict[str, Any]]:
    given = oracle("published")["handbook_docs_agent"]
    study = study_of(
        "query",
        "version",
        within("rollout", "query", "version"),
        within("judge_call", "query", "version", "rollout", role="error"),
    )
    return gs.assume(study, given["score_scale_components"], mean=given["mean"]), given


def points(budget: Any) -> float:
    return round(100 * one(budget.half_width()), 1)


def test_the_handbooks_budget(oracle: Any) -> None:
    vc, given = handbook(oracle)
    expected = given["expected"]
    budget = gs.variance_budget(vc, given["design"])
    assert one(budget.variance) == pytest.approx(expected["variance"], abs=1e-15)
    assert points(budget) == expected["half_width_95_points"]
    shares = budget.summary()["share"]
    assert list(shares.index) == [
        "query",
        "version",
        "query:version:rollout",
        "query:version:rollout:judge_call",
    ]
    assert [round(100 * x, 1) for x in shares] == list(expected["shares_percent"].values())
    assert "half-width of a 95% interval of the score: 10.2 points." in str(budget).lower()


def test_the_handbooks_next_steps(oracle: Any) -> None:
    vc, given = handbook(oracle)
    design = given["design"]
    steps = [step for step in given["next_steps"] if isinstance(step["change"], dict)]
    assert len(steps) == 4
    for step in steps:
        found = gs.variance_budget(vc, {**design, **step["change"]})
        assert points(found) == step["half_width_points"], step
    endless = gs.variance_budget(vc, {**design, "query": 10**12})
    assert points(endless) == given["expected"]["unlimited_queries_half_width_points"]


def test_the_papers_allocation_of_four_hundred_trials(oracle: Any) -> None:
    given = oracle("published")["paper_allocation"]
    study = study_of("task", within("trial", "task"))
    vc = gs.assume(study, {"task": 0.1, "trial": 0.02}, mean=0.5)
    wide, narrow = (
        math.sqrt(one(gs.variance_budget(vc, {"task": d["n"], "trial": d["T"]}).variance))
        for d in given["designs"]
    )
    reduction = 100 * (1 - wide / narrow)
    assert round(reduction) == given["expected"]["standard_error_reduction_percent"]


def test_noise_is_per_judge_call(oracle: Any) -> None:
    given = oracle("extra")["cases"]["judges_crossed_bernoulli"]
    source = logit_source(
        given["logit_sd"],
        given["mu"],
        facets=["task", "rollout", "judge"],
        nested={"rollout": ["task"]},
        roles={"judge": "error"},
    )
    variance = one(gs.variance_budget(source, given["design"]).variance)
    assert variance == pytest.approx(given["variance"], abs=1e-8)
    assert abs(variance - given["WRONG_bernoulli_over_rollouts"]) > 1e-3


def test_a_budget_adds_up_in_every_draw() -> None:
    budget = gs.variance_budget(small_fit())
    np.testing.assert_allclose(budget.shares.sum("component").values, 1.0, rtol=1e-13)
    np.testing.assert_allclose(budget.variance.values, budget.draws.values.sum(axis=-1), rtol=1e-13)
    assert ((budget.shares >= 0) & (budget.shares <= 1)).all()
    assert budget.half_width().dims == ("chain", "draw")
    np.testing.assert_allclose(
        budget.half_width(0.9).values / budget.half_width().values, 1.644854 / 1.959964, rtol=1e-6
    )
    with pytest.raises(QuantityError, match=r"coverage is not a proportion.*coverage=0.95 for 95%"):
        budget.half_width(95)


def test_the_summary_has_shares_levels_and_roles() -> None:
    frame = gs.variance_budget(small_fit(), {"task": 40, "rollout": 2}).summary(0.9)
    assert list(frame.columns) == [
        "facet",
        "mean",
        "median",
        "sd",
        "lower",
        "upper",
        "share",
        "share_lower",
        "share_upper",
        "n_effective",
        "role",
        "includes",
    ]
    assert frame.index.name == "component"
    assert frame["n_effective"].to_dict() == pytest.approx({"task": 40, "residual": 80})
    assert (frame["share_lower"] <= frame["share"]).all()
    assert frame.attrs["level"] == 0.9
    assert frame.attrs["estimand"] == (
        "variance of the score of one system, mean over the 3 fitted, with task = 40, rollout = 2"
    )


def test_more_of_anything_never_adds_variance() -> None:
    source = logit_source(
        {"task": 1.2, "judge": 0.6, "task:rollout": 0.9},
        0.4,
        facets=["task", "rollout", "judge"],
        nested={"rollout": ["task"]},
    )
    design = {"task": 10, "rollout": 2, "judge": 2}
    base = one(gs.variance_budget(source, design).variance)
    for facet in design:
        more = gs.variance_budget(source, {**design, facet: 2 * design[facet]})
        assert one(more.variance) < base


def test_a_budget_on_the_logit_scale_has_no_interactions_of_the_link() -> None:
    source = logit_source({"task": 1.2, "judge": 0.6}, 0.4, facets=["task", "judge"])
    budget = gs.variance_budget(source, {"task": 10, "judge": 2}, scale="logit")
    expected = 1.44 / 10 + 0.36 / 2 + math.pi**2 / 3 / 20
    assert one(budget.variance) == pytest.approx(expected, rel=1e-14)
    assert budget.scale == "logit"
    assert "points" not in str(budget)


def test_roles_are_totalled() -> None:
    source = logit_source(
        {"task": 1.2, "judge": 0.6}, 0.4, facets=["task", "judge"], roles={"judge": "error"}
    )
    budget = gs.variance_budget(source, {"task": 10, "judge": 2})
    totals = budget.by_role()
    assert list(totals.index) == ["legitimate", "error"]
    assert totals["share"].sum() == pytest.approx(1)
    task = budget.draws.sel(component="task")
    assert totals.loc["legitimate", "mean"] == pytest.approx(one(task))
    assert totals.attrs["scale"] == "score"
    assert "By role: legitimate" in str(budget)
