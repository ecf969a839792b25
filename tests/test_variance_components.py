"""Components on both scales, from assumed values and from fits."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from designs import grid, study_of, within
from handmade import small_fit
from scipy.special import expit
from sources import fitted, logit_source, one

import gstudy as gs
from gstudy.errors import GstudyError, QuantityError
from gstudy.variance.basis import basis_of, latent_of
from gstudy.variance.components import components_of
from gstudy.variance.decomposition import hoeffding
from gstudy.variance.kernel import logistic_covariance, logistic_mean

PI2_3 = np.pi**2 / 3


def values(vc: Any) -> dict[str, float]:
    return dict(zip(vc.rows, vc.draws.values.mean(axis=(0, 1)), strict=True))


@pytest.mark.parametrize("case", [0, 1, 2])
def test_score_scale_components_equal_numbers_computed_elsewhere(oracle: Any, case: int) -> None:
    given = oracle("score_scale")["cases"][case]
    roles = {"system": "object"}
    rest = {"object": "system"} if "system" in given["facets"] else {}
    vc = gs.variance_components(
        logit_source(
            given["logit_sd"],
            given["mu"],
            facets=given["facets"],
            nested=given["nested_in"],
            roles=roles,
            **rest,
        ),
        scale="score",
    )
    expected = given["expected"]
    found = values(vc)
    assert one(vc.mean) == pytest.approx(expected["mean"], abs=1e-8)
    assert found.pop("residual") == pytest.approx(expected["bernoulli_noise"], abs=1e-8)
    assert set(found) == set(expected["components"])
    for name, value in expected["components"].items():
        assert found[name] == pytest.approx(value, abs=1e-8), name
    budget = gs.variance_budget(vc, given["design"])
    assert one(budget.variance) == pytest.approx(expected["variance_of_mean"], abs=1e-8)


def test_components_of_two_crossed_facets_with_an_object(oracle: Any) -> None:
    given = oracle("extra")["cases"]["phi_erho2_crossed"]
    vc = gs.variance_components(
        logit_source(given["logit_sd"], given["mu"], facets=["task", "judge"], object="system")
    )
    found = values(vc)
    assert one(vc.mean) == pytest.approx(given["mean"], abs=1e-8)
    assert found["residual"] == pytest.approx(given["bernoulli"], abs=1e-8)
    for name, value in given["components"].items():
        assert found[name] == pytest.approx(value, abs=1e-8), name


@pytest.mark.parametrize(("label", "key"), [("low", "u=-1.2"), ("high", "u=0.8")])
def test_one_given_system_equals_numbers_computed_elsewhere(
    oracle: Any, label: str, key: str
) -> None:
    given = oracle("extra")["cases"]["phi_finite_facet"]
    expected = oracle("extra")["cases"]["one_given_system"][key]
    source = logit_source(
        given["logit_sd"],
        given["mu"],
        facets=["task", "env", "rollout"],
        nested={"rollout": ["system", "task", "env"]},
        object="system",
        effects={"low": -1.2, "high": 0.8},
    )
    vc = gs.variance_components(source, scale="score", system=label)
    found = values(vc)
    assert one(vc.mean) == pytest.approx(expected["mean"], abs=1e-8)
    assert found.pop("residual") == pytest.approx(expected["bernoulli"], abs=1e-8)
    assert found == pytest.approx(expected["components"], abs=1e-8)
    budget = gs.variance_budget(source, given["design"], system=label)
    assert one(budget.variance) == pytest.approx(expected["variance"], abs=1e-8)
    assert vc.summary()["includes"]["task"] == "task, system:task"


@pytest.mark.parametrize("id_", ["mu0_s0.5", "mu0_s1", "mu0_s2", "mu-2_s1", "mu1.5_s0.8", "mu3_s1"])
def test_one_facet_equals_logit_normal_moments(oracle: Any, id_: str) -> None:
    found = {row["id"]: row for row in oracle("references")["references"]}[f"logitnormal_{id_}"]
    expected = found["expected"]
    source = logit_source({"task": found["input"]["sigma"]}, found["input"]["mu"], facets=["task"])
    score, logit = (gs.icc(source, "task", scale=scale) for scale in ("score", "logit"))
    assert one(gs.variance_components(source, scale="score").mean) == pytest.approx(
        expected["marginal_p"], abs=2e-6
    )
    assert one(score.draws) == pytest.approx(expected["icc_observed_scale"], abs=2e-6)
    assert one(logit.draws) == pytest.approx(expected["icc_latent_scale"], abs=2e-6)
    assert abs(one(score.draws) - expected["icc_delta_approx"]) > 1e-3
    assert (score.scale, logit.scale) == ("score", "logit")


def test_the_logit_scale_has_the_components_alone_and_a_fixed_residual(oracle: Any) -> None:
    source = logit_source({"task": 1.2, "judge": 0.3}, 0.8, facets=["task", "judge"])
    found = values(gs.variance_components(source, scale="logit"))
    assert found == pytest.approx({"task": 1.44, "judge": 0.09, "residual": PI2_3})
    half = {row["id"]: row for row in oracle("references")["references"]}["latent_icc_half"]
    source = logit_source({"task": half["input"]["sigma"]}, 0.0, facets=["task"])
    assert one(gs.icc(source, "task", scale="logit").draws) == pytest.approx(0.5, abs=1e-12)


def test_interactions_that_only_the_link_makes_have_their_own_lines() -> None:
    source = logit_source({"task": 1.2, "judge": 0.3}, 0.8, facets=["task", "judge"])
    frame = gs.variance_components(source, scale="score").summary()
    assert frame.loc["task:judge", "includes"] == "made by the logit link"
    assert frame.loc["task:judge", "mean"] > 0
    assert frame["share"].sum() == pytest.approx(1.0, abs=1e-14)


def test_sets_that_no_union_of_components_makes_are_left_out() -> None:
    source = logit_source(
        {"task": 1.0, "task:env:rollout": 1.0},
        0.3,
        facets=["task", "env", "rollout"],
        nested={"rollout": ["task", "env"]},
    )
    found = list(gs.variance_components(source, scale="score").rows)
    assert found == ["task", "task:env:rollout", "residual"]


def test_every_fitted_system_by_itself_then_their_mean() -> None:
    fit = small_fit()
    whole = gs.variance_components(fit)
    basis = basis_of(fit)
    parts = [components_of(basis, "score", label) for label in ("A", "B:1", "C/2")]
    np.testing.assert_allclose(
        whole.draws.values, np.mean([part.draws.values for part in parts], axis=0), rtol=1e-9
    )
    mu, effects = fit.mu, fit.effects("system").sel(system="B:1").values
    variance = fit.sd("task") ** 2 + fit.sd("system:task") ** 2
    mean = logistic_mean(mu + effects, variance)
    np.testing.assert_allclose(parts[1].mean.values, mean, rtol=1e-12)
    by_hand = logistic_covariance(mu + effects, mu + effects, variance, variance, variance)
    np.testing.assert_allclose(parts[1].draws.sel(component="task").values, by_hand, rtol=1e-9)
    assert parts[1].draws.dims == ("chain", "draw", "component")
    assert "mean over the 3 fitted" in whole.estimand


def test_a_fit_that_shares_its_sds_refuses_the_numbers_of_one_system() -> None:
    fit = small_fit()
    asked = {
        "variance components": gs.variance_components,
        "variance budget": gs.variance_budget,
        "ICC": lambda source, **how: gs.icc(source, "task", **how),
        "re-run noise": gs.rerun_noise,
        "re-run and data noise": gs.noises,
    }
    for what, function in asked.items():
        with pytest.raises(QuantityError) as refused:
            function(fit, system="A")
        text = str(refused.value)
        assert f"the {what} of 'A' alone cannot come from a fit in which all 3 levels" in text
        assert "declare varies = 'system' on a facet of the study" in text
        assert "gs.fit_by(study, trials, by='system')" in text
        assert "Allowed: None (the mean over the fitted ones) and 'new'" in text
        assert function(fit).notes == function(fit, system=None).notes
        assert function(fit, system="new") is not None
    # The door of benchmarks says what it is.
    shown = components_of(basis_of(fit), "score", "A")
    assert "The sds are shared by all levels of system" in "\n".join(shown.notes)
    with pytest.raises(QuantityError, match="the ICC of 'A' alone"):
        gs.icc(shown, "task")


def test_assumed_components_of_one_system_stay_of_that_system() -> None:
    source = logit_source(
        {"system": 1.0, "task": 1.2}, 0.3, facets=["task"], object="system",
        effects={"A": 0.5, "B": -0.5},
    )  # fmt: skip
    vc = gs.variance_components(source, scale="score", system="A")
    again = gs.variance_budget(vc, {"task": 9})
    assert again.draws.equals(gs.variance_budget(source, {"task": 9}, system="A").draws)
    assert "The sds are shared by all levels of system" in "\n".join(vc.notes)
    with pytest.raises(QuantityError, match="this source is of 'A' alone"):
        gs.phi(vc)


def test_a_new_system_brings_the_variance_between_systems() -> None:
    frame = gs.variance_components(small_fit(), system="new").summary()
    assert list(frame.index) == ["system", "task", "system:task", "residual"]
    assert frame.loc["system", "role"] == "object"
    assert frame.loc["residual", "includes"] == "system:task:rollout, trial"


def test_one_system_alone_is_the_study_and_has_its_declared_names() -> None:
    table = grid({"system": ["only"], "task": range(6), "rollout": range(2), "judge": "xy"})
    study = study_of(
        "task",
        within("rollout", "system", "task"),
        gs.Facet("judge", role="error"),
        object="system",
        interactions="none",
    )
    fit = fitted(study, table)
    vc = gs.variance_components(fit)
    assert vc.estimand == "one trial of system only"
    assert "system:task:rollout" in vc.rows
    assert "system:task:rollout:judge" in vc.rows
    same = gs.variance_components(fit, system="only")
    assert same.draws.equals(vc.draws)
    assert one_line(gs.icc(fit, "rollout").name) == "ICC(system:task:rollout)"
    with pytest.raises(QuantityError, match="one level of system was sampled"):
        gs.variance_components(fit, system="new")
    with pytest.raises(QuantityError, match="Did you mean 'only'"):
        gs.variance_components(fit, system="onl")


def one_line(text: str) -> str:
    return " ".join(text.split())


def test_no_object_has_no_new_system() -> None:
    source = logit_source({"task": 1.0}, 0.0, facets=["task"])
    with pytest.raises(QuantityError, match="the study has no object"):
        gs.variance_components(source, system="new")
    with pytest.raises(QuantityError, match="no level of an object was fitted"):
        gs.variance_components(source, system="A")


def test_unknown_systems_and_scales_are_refused_with_the_nearest() -> None:
    fit = small_fit()
    with pytest.raises(QuantityError, match=r"no level of system is called 'B:2'.*mean 'B:1'"):
        gs.variance_components(fit, system="B:2")
    with pytest.raises(QuantityError, match=r"Allowed: score, logit. Did you mean 'logit'"):
        gs.variance_components(fit, scale="logits")
    with pytest.raises(QuantityError, match="a fit or variance components are needed"):
        gs.variance_components(3)


def test_an_object_merged_with_a_facet_is_known_and_leaves_no_variance() -> None:
    # Each system has its own harness: one component, whose effect is the system's.
    table = grid({"system": "ABC", "task": range(6), "rollout": range(3)})
    table["harness"] = table["system"].str.lower()
    counts = table.groupby(["system", "task", "harness"], as_index=False).agg(
        k=("score", "sum"), n=("score", "size")
    )
    study = study_of(
        "task",
        "harness",
        object="system",
        interactions=["system:task"],
        score=None,
        successes="k",
        trials="n",
    )
    fit = fitted(study, counts, shape=(2, 5))
    assert fit.components[0] == "system + harness"
    latent = latent_of(fit)
    assert set(latent.object_effects) == {"A", "B", "C"}
    given = latent.given("B")
    assert given.names == ("task",)
    assert np.allclose(given.mu, fit.mu + fit.effects("system + harness").values[..., 1])
    frame = gs.variance_components(fit, system="new").summary()
    assert frame.loc["system + harness", "role"] == "not separable"


def test_simulated_studies_vary_as_the_components_say() -> None:
    # The formula's 0.0044377 against means of simulated studies, whose relative error is 1.6%.
    rng = np.random.default_rng(20)
    means = np.concatenate([simulated_means(rng, 500) for _ in range(16)])
    assert means.var() == pytest.approx(0.0044377, rel=0.06)
    assert means.mean() == pytest.approx(0.631874, abs=0.003)


def simulated_means(rng: np.random.Generator, n: int) -> np.ndarray:
    """Scores of n studies: 30 tasks x 2 environments x 4 rollouts x 3 judges."""

    def normal(sd: float, *shape: int) -> np.ndarray:
        return sd * rng.standard_normal((n, *shape))

    logit = (
        0.8
        + normal(1.2, 30, 1, 1, 1)
        + normal(0.4, 1, 2, 1, 1)
        + normal(0.3, 1, 1, 1, 3)
        + normal(0.5, 30, 2, 1, 1)
        + normal(0.9, 30, 2, 4, 1)
    )
    return np.asarray((rng.random(logit.shape) < expit(logit)).mean(axis=(1, 2, 3, 4)))


def test_a_component_below_zero_by_more_than_rounding_is_a_fault() -> None:
    sets = [frozenset("a"), frozenset("ab")]
    assert hoeffding(np.array([[0.2], [0.2 - 1e-15]]), sets)[1, 0] == 0.0
    with pytest.raises(GstudyError, match="negative by more than rounding can make"):
        hoeffding(np.array([[0.2], [0.19]]), sets)


def test_summary_names_scale_estimand_and_interval() -> None:
    vc = gs.variance_components(small_fit())
    frame = vc.summary(level=0.9)
    assert frame.attrs["scale"] == "score"
    assert frame.attrs["interval"] == "equal-tailed"
    assert frame.attrs["level"] == 0.9
    assert "system" in frame.attrs["estimand"]
    assert list(frame.columns[:6]) == ["facet", "mean", "median", "sd", "lower", "upper"]
    flat = vc.draws.sel(component="task").values.ravel()
    assert frame.loc["task", "lower"] == np.quantile(flat, 0.05)
    assert frame.loc["task", "sd"] == flat.std(ddof=1)
    with pytest.raises(QuantityError, match="level is not a proportion"):
        vc.summary(level=95)
    with pytest.raises(dataclasses.FrozenInstanceError):
        vc.scale = "logit"


def test_tables_name_their_scale_and_fit_eighty_columns() -> None:
    fit = small_fit()
    results: list[Any] = [
        gs.variance_components(fit),
        gs.variance_components(fit, scale="logit"),
        gs.variance_budget(fit),
        gs.icc(fit, "task"),
        gs.phi(fit),
        gs.rerun_noise(fit),
    ]
    for result in results:
        text = str(result)
        assert max(map(len, text.splitlines())) <= 80
        assert f"{result.scale} scale, 95% equal-tailed intervals" in text
        assert f"{result.scale} scale" in result._repr_html_()
        assert repr(result) == text


def test_a_fit_that_fails_its_gates_stamps_every_result() -> None:
    fit = small_fit()
    assert not any("NOT CONVERGED" in note for note in gs.variance_budget(fit).notes)
    bad = dataclasses.replace(fit, diagnostics=dataclasses.replace(fit.diagnostics, divergences=7))
    for result in (
        gs.variance_components(bad),
        gs.variance_budget(bad),
        gs.icc(bad, "task"),
        gs.phi(bad),
        gs.rerun_noise(bad),
    ):
        assert result.notes[0].startswith("NOT CONVERGED: 7 divergences")
        assert "NOT CONVERGED" in str(result)


def test_score_and_logit_scale_share_one_source_of_draws() -> None:
    fit = small_fit()
    logit = gs.variance_components(fit, scale="logit", system="new")
    np.testing.assert_allclose(
        logit.draws.sel(component="task").values, fit.sd("task") ** 2, rtol=1e-14
    )
    score = gs.variance_components(logit, scale="score")
    assert score.draws.equals(gs.variance_components(fit, system="new").draws)
    assert basis_of(logit).system == "new"


def test_nothing_here_imports_pymc() -> None:
    code = (
        "import sys, gstudy as gs\n"
        "study = gs.Study(score='s', facets=[gs.Facet('task', role='legitimate')])\n"
        "vc = gs.assume(study, {'task': 1.0}, mu=0.0, scale='logit')\n"
        "gs.variance_budget(vc, {'task': 9}).summary()\n"
        "import gstudy.variance.classical, gstudy.variance.rerun\n"
        "assert 'pymc' not in sys.modules and 'pytensor' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_level_that_is_called_new_is_not_taken_for_a_new_one() -> None:
    study = gs.Study(score="s", object="m", facets=[gs.Facet("task", role="legitimate")])
    sources = {"new": 0.5, "old": -0.5}
    vc = gs.assume(study, {"m": 1.0, "task": 1.0}, mu=0.0, scale="logit", effects=sources)
    with pytest.raises(QuantityError, match=r"a level is called 'new' too"):
        gs.variance_components(vc, system="new")


@pytest.mark.parametrize("system", [1, ["a"]])
def test_a_system_is_named_by_its_text(system: Any) -> None:
    study = gs.Study(score="s", object="m", facets=[gs.Facet("task", role="legitimate")])
    vc = gs.assume(study, {"task": 1.0}, mu=0.0, scale="logit", effects={"a": 0.5})
    with pytest.raises(QuantityError, match="no level of m is called"):
        gs.variance_components(vc, system=system)
