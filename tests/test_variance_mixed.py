"""Assumed components beside estimated ones, published ones, and graded scores."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from designs import grid, study_of, within
from handmade import small_fit
from sources import fitted, one

import gstudy as gs
from gstudy.errors import QuantityError
from gstudy.variance.basis import latent_of


def judged_fit(**changes: Any) -> gs.Fit:
    """Tasks, two rollouts each, scored by three judges: task:judge is left out."""
    study = study_of(
        "task", within("rollout", "task"), gs.Facet("judge", role="error"),
        interactions="none", **changes,
    )  # fmt: skip
    table = grid({"task": range(9), "rollout": range(2), "judge": "xyz"})
    return fitted(study, table, shape=(2, 25))


def test_logit_components_replace_and_join_estimated_ones_in_every_draw() -> None:
    fit = judged_fit()
    vc = gs.assume(fit.study, {"judge": 0.25, "judge:task": 0.4}, base=fit, scale="logit")
    latent, plain = latent_of(vc), latent_of(fit)
    np.testing.assert_array_equal(latent.mu, plain.mu)
    found = dict(zip(latent.names, latent.variances, strict=True))
    kept = dict(zip(plain.names, plain.variances, strict=True))
    assert list(found) == [*kept, "task:judge"]
    for name in ("task", "task:rollout"):
        np.testing.assert_array_equal(found[name], kept[name])
    assert (found["judge"] == 0.25).all()
    assert (found["task:judge"] == 0.4).all()
    assert vc.draws.shape[:2] == (2, 25)
    found = gs.variance_budget(vc)
    assert found.effective_levels["task:judge"] == pytest.approx(27)
    assert not found.assumed


def test_every_table_says_which_rows_are_assumed() -> None:
    fit = judged_fit()
    vc = gs.assume(fit.study, {"judge": 0.25, "judge:task": 0.4}, base=fit, scale="logit")
    expected = {
        "task": "estimated",
        "task:rollout": "estimated",
        "judge": "assumed",
        "task:judge": "assumed",
    }
    assert vc.summary()["source"][:4].to_dict() == expected
    score, budget = gs.variance_components(vc, scale="score"), gs.variance_budget(vc)
    for result in (vc, score, budget):
        assert result.summary()["source"]["judge"] == "assumed"
        assert "estimated" in str(result)
        assert max(map(len, str(result).splitlines())) <= 80
    note = "Assumed, not estimated: judge 0.25, judge:task 0.4 (variances, logit scale)."
    for result in (
        vc, score, budget, gs.icc(vc, "task"), gs.phi(vc, object="task"), gs.rerun_noise(vc),
        gs.noises(vc), gs.sem(vc, object="task"),
    ):  # fmt: skip
        assert note in result.notes
    assert "(partly assumed)" in budget.estimand
    # What is estimated has no such column.
    assert "source" not in gs.variance_components(fit).summary()
    assert "source" not in gs.assume(fit.study, {"task": 1.0}, mu=0.0, scale="logit").summary()


def test_score_rows_replace_and_join_estimated_ones_in_every_draw() -> None:
    fit = judged_fit()
    vc = gs.assume(fit.study, {"judge": 0.01, "residual": 0.1}, base=fit)
    plain = gs.variance_components(fit)
    assert list(vc.rows) == list(plain.rows)
    for name in vc.rows:
        values = vc.draws.sel(component=name).values
        if name in ("judge", "residual"):
            assert (values == {"judge": 0.01, "residual": 0.1}[name]).all()
            assert vc.rows[name]["source"] == "assumed"
        else:
            np.testing.assert_array_equal(values, plain.draws.sel(component=name).values)
            assert vc.rows[name]["source"] == "estimated"
    np.testing.assert_array_equal(vc.mean.values, plain.mean.values)
    budget = gs.variance_budget(vc)
    np.testing.assert_allclose(budget.draws.sel(component="judge").values, 0.01 / 3)
    with pytest.raises(QuantityError, match="assumed on the score scale have no logit scale"):
        gs.variance_components(vc, scale="logit")


def test_a_facet_that_was_not_sampled_may_be_assumed() -> None:
    study = study_of("task", within("rollout", "task"), gs.Facet("judge", role="error"))
    table = grid({"task": range(9), "rollout": range(2), "judge": ["gpt"]})
    fit = fitted(study, table, shape=(1, 9))
    with pytest.raises(QuantityError, match="judge' was not sampled"):
        gs.variance_budget(fit, {"task": 9, "rollout": 2, "judge": 3})
    for scale, value in (("logit", 0.3), ("score", 0.004)):
        vc = gs.assume(study, {"judge": value}, base=fit, scale=scale)
        wide = gs.variance_budget(vc, {"task": 9, "rollout": 2, "judge": 3})
        assert wide.rows["judge"]["source"] == "assumed"
        assert wide.rows["judge"]["role"] == "error"
        assert wide.effective_levels["judge"] == 3
        assert gs.variance_budget(vc).effective_levels["judge"] == 1


def test_a_facet_inside_the_residual_may_be_assumed_for_a_design() -> None:
    fit = small_fit()
    vc = gs.assume(fit.study, {"rollout": 0.5}, base=fit, scale="logit")
    design = {"task": 8, "rollout": 3}
    found = gs.variance_budget(vc, design, system="new")
    assert found.effective_levels["system:task:rollout"] == pytest.approx(24)
    assert not found.assumed
    with pytest.raises(QuantityError, match="no design as collected"):
        gs.variance_budget(vc)


def test_score_rows_of_several_systems_are_those_of_a_new_one() -> None:
    fit = small_fit()
    vc = gs.assume(fit.study, {"system:task": 0.01}, base=fit)
    plain = gs.variance_components(fit, system="new")
    assert list(vc.rows) == list(plain.rows)
    assert (vc.draws.sel(component="system:task") == 0.01).all()
    phi = gs.phi(vc)
    assert ((phi.draws > 0) & (phi.draws < 1)).all()
    assert "Assumed, not estimated: system:task 0.01 (variances, score scale)." in phi.notes


def test_a_base_of_assumed_components_stays_assumed() -> None:
    study = study_of("task", "judge")
    base = gs.assume(study, {"task": 1.0}, mu=0.3, scale="logit")
    vc = gs.assume(study, {"judge": 0.5, "task": 2.0}, base=base, scale="logit")
    whole = gs.assume(study, {"task": 2.0, "judge": 0.5}, mu=0.3, scale="logit")
    assert vc.assumed
    design = {"task": 9, "judge": 2}
    assert one(gs.variance_budget(vc, design).variance) == one(
        gs.variance_budget(whole, design).variance
    )


@pytest.mark.parametrize(
    ("components", "how", "message"),
    [
        ({"judge": 0.1}, {"mean": 0.5}, "mean is that of the base, and cannot be given too"),
        ({"judge": 0.1}, {"mu": 0.5, "scale": "logit"}, "mu is that of the base"),
        ({"judge": 0.1}, {"base": 3}, "a fit or variance components are needed"),
        ({"residual": 3.0}, {"scale": "logit"}, "the residual of the logit scale is always pi^2/3"),
        ({"jugde": 0.1}, {}, "Did you mean 'judge'"),
        ({"judge": -0.1}, {}, "Give variances, not standard deviations"),
    ],
)
def test_what_cannot_stand_beside_a_base_is_refused(
    components: dict[str, float], how: dict[str, Any], message: str
) -> None:
    fit = judged_fit()
    with pytest.raises(QuantityError, match=re.escape(message)):
        gs.assume(fit.study, components, **{"base": fit, **how})


def test_a_base_is_of_the_same_study_and_tells_its_parts_apart() -> None:
    fit = judged_fit()
    with pytest.raises(QuantityError, match="the base is of another study"):
        gs.assume(study_of("task"), {"task": 0.1}, base=fit)
    study = study_of(
        "task", within("rollout", "task"), gs.Facet("judge", role="error"), interactions="none"
    )
    merged = fitted(study, grid({"task": range(6), "rollout": [0], "judge": range(2)}))
    for scale in ("score", "logit"):
        with pytest.raises(QuantityError, match="its parts cannot be replaced one by one"):
            gs.assume(study, {"task": 0.1}, base=merged, scale=scale)
    table = grid({"system": "AB", "task": range(8), "rollout": range(3)})
    own = study_of(
        gs.Facet("task", role="legitimate", varies="system"),
        within("rollout", "system", "task"),
        object="system",
    )
    with pytest.raises(QuantityError, match=r"'task' has an sd of its own for each system"):
        gs.assume(own, {"task": 0.1}, base=fitted(own, table), scale="logit")


def test_published_interactions_give_the_published_variance(oracle: Any) -> None:
    given = oracle("published")["tee_mmlu"]
    study = study_of(
        "item", "sut", "variant", "temperature",
        within("replicate", "item", "variant", "sut", "temperature"),
        interactions=[
            "item:sut", "item:variant", "variant:sut", "item:variant:sut:temperature"
        ],
    )  # fmt: skip
    vc = gs.assume(study, given["components"], mean=0.7)
    expected = given["expected"]
    budget = gs.variance_budget(vc, given["design"])
    assert one(budget.variance) == pytest.approx(expected["variance"], rel=1e-12)
    shares = 100 * budget.summary()["share"]
    names = {"item:sut": "item:sut", "sut": "sut", "variant:sut": "sut:variant"}
    names |= {"item:variant": "item:variant", "variant": "variant"}
    for name, row in names.items():
        assert round(shares[row], 2) == expected["shares_percent"][name], name
    assert round(shares["item"], 2) == 79.85
    replicates = budget.effective_levels["item:sut:variant:temperature:replicate"]
    assert replicates == pytest.approx(57_600)
    changes = {
        "double items": {"item": 400},
        "double variants": {"variant": 8},
        "one sut (n=1, still random)": {"sut": 1},
        "one temperature": {"temperature": 1},
        "one sut and one temperature": {"sut": 1, "temperature": 1},
        "double replications": {"replicate": 16},
    }
    whole = one(budget.variance)
    for name, change in changes.items():
        found = one(gs.variance_budget(vc, {**given["design"], **change}).variance)
        assert round(100 * (1 - found / whole), 1) == expected["reduction_percent"][name], name


def test_repeated_rollouts_reduce_variance_as_published(oracle: Any) -> None:
    given = oracle("published")["miller"]["variance_reduction_uniform_tasks"]
    study = study_of("task", within("rollout", "task"))
    vc = gs.assume(study, given["components"], mean=0.5)
    single = one(gs.variance_budget(vc, {"task": 100, "rollout": 1}).variance)
    for key, n in (("K=2", 2), ("K=4", 4), ("K=6", 6), ("limit", 10**12)):
        found = one(gs.variance_budget(vc, {"task": 100, "rollout": n}).variance)
        assert 1 - found / single == pytest.approx(given[key], rel=1e-9)


# ---------------------------------------------------------------- graded scores


def graded_fit(**changes: Any) -> gs.Fit:
    study = study_of(
        "task", gs.Facet("judge", role="error"), object="system", family="gaussian",
        interactions=["system:task"], **changes,
    )  # fmt: skip
    table = grid({"system": "ABC", "task": range(8), "judge": "xyz"})
    rng = np.random.default_rng(2)
    return fitted(study, table.assign(score=rng.normal(50, 10, len(table))), shape=(2, 25))


def test_graded_scores_have_their_components_themselves() -> None:
    fit = graded_fit()
    frame = gs.variance_components(fit, system="new").draws
    for name in ("system", "task", "judge", "system:task", "residual"):
        values = frame.sel(component=name).values
        np.testing.assert_allclose(values, fit.sd(name) ** 2, rtol=1e-12)
    assert set(frame.component.values) == {"system", "task", "judge", "system:task", "residual"}
    v = {name: fit.sd(name) ** 2 for name in (*fit.components, "residual")}
    error = v["task"] / 8 + v["judge"] / 3 + v["system:task"] / 8 + v["residual"] / 24
    np.testing.assert_allclose(
        gs.phi(fit).draws.values, v["system"] / (v["system"] + error), rtol=1e-12
    )
    np.testing.assert_allclose(gs.sem(fit).draws.values, np.sqrt(error), rtol=1e-12)
    cut = gs.phi(fit, cut=42.0).draws.values
    gap = (fit.mu - 42.0) ** 2 + v["system"]
    np.testing.assert_allclose(cut, gap / (gap + error), rtol=1e-12)
    whole = sum(v.values())
    np.testing.assert_allclose(
        gs.icc(fit, "task", system="new").draws.values, v["task"] / whole, rtol=1e-12
    )


def test_graded_scores_are_in_their_own_units() -> None:
    fit = graded_fit()
    for result in (gs.variance_budget(fit), gs.rerun_noise(fit), gs.sem(fit), gs.noises(fit)):
        text = str(result)
        assert "points" not in text
        assert " pt" not in text
        assert "score scale" in text
    for call in (
        lambda: gs.variance_components(fit, scale="logit"),
        lambda: gs.phi(fit, scale="logit"),
        lambda: gs.icc(fit, "task", scale="logit"),
        lambda: gs.assume(fit.study, {"task": 1.0}, mu=0.0, scale="logit"),
    ):
        with pytest.raises(QuantityError, match="graded scores have no logit scale"):
            call()
    with pytest.raises(QuantityError, match=r"the ICC of 'A' alone.*For own variances fit each"):
        gs.icc(fit, "task", system="A")


def test_graded_components_may_be_assumed() -> None:
    study = study_of("task", "judge", family="gaussian")
    vc = gs.assume(study, {"task": 81.0, "residual": 30.0}, mean=-12.5)
    assert vc.notes == ("Assumed components, not estimated from data.", *vc.notes[1:])
    assert not any("add up" in note for note in vc.notes)
    budget = gs.variance_budget(vc, {"task": 9, "judge": 2})
    assert one(budget.variance) == pytest.approx(81 / 9 + 30 / 18)
    with pytest.raises(QuantityError, match="mean: the expected score, a finite number"):
        gs.assume(study, {"task": 81.0})
    with pytest.raises(QuantityError, match="Allowed: numbers from 0 on"):
        gs.assume(study, {"task": -1.0}, mean=0.0)
    fit = graded_fit()
    mixed = gs.assume(fit.study, {"judge": 400.0}, base=fit)
    assert mixed.rows["judge"]["source"] == "assumed"


def test_graded_scores_at_controlled_levels_share_a_fixed_mean() -> None:
    study = study_of(
        "task", gs.Facet("c", role="controlled"), within("rollout", "task", "c"),
        family="gaussian", interactions=["task:c"],
    )  # fmt: skip
    table = grid({"task": range(6), "c": "xy", "rollout": range(3)})
    rng = np.random.default_rng(3)
    fit = fitted(study, table.assign(score=rng.normal(size=len(table))), shape=(2, 10))
    v = {name: fit.sd(name) ** 2 for name in (*fit.components, "residual")}
    found = gs.variance_components(fit)
    task = v["task"] + v["task:c"] / 2
    np.testing.assert_allclose(found.draws.sel(component="task").values, task, rtol=1e-12)
    np.testing.assert_allclose(found.mean.values, fit.mu, rtol=1e-12, atol=1e-12)
    budget = gs.variance_budget(fit).variance.values
    np.testing.assert_allclose(budget, task / 6 + v["residual"] / 36, rtol=1e-12)
    within_level = v["task"] + v["task:c"]
    icc = gs.icc(fit, "task").draws.values
    np.testing.assert_allclose(icc, within_level / (within_level + v["residual"]), rtol=1e-12)


def test_known_errors_weigh_each_trial_by_its_own() -> None:
    study = study_of("school", family="gaussian", standard_error="se")
    errors = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])
    table = pd.DataFrame(
        {"school": list("ABCDEFGH"), "score": [28.0, 8, -3, 7, -1, 1, 18, 12], "se": errors}
    )
    fit = fitted(study, table, shape=(2, 10))
    latent = latent_of(fit)
    np.testing.assert_allclose(latent.noise, np.mean(errors**2))
    variance = gs.variance_budget(fit).variance.values
    expected = fit.sd("school") ** 2 / 8 + np.sum(errors**2) / 64
    np.testing.assert_allclose(variance, expected, rtol=1e-12)
    twice = pd.concat([table, table.iloc[:3]]).assign(run=lambda t: np.arange(len(t)))
    study = study_of(
        "school", within("run", "school"), family="gaussian", standard_error="se", average="school"
    )
    fit = fitted(study, twice, shape=(2, 10))
    weights = np.where(np.isin(twice["school"], list("ABC")), 1 / 16, 1 / 8)
    noise = np.sum(weights**2 * twice["se"].to_numpy() ** 2)
    part = gs.variance_budget(fit).draws.sel(component="residual").values
    np.testing.assert_allclose(part, noise, rtol=1e-12)
