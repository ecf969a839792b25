"""Controlled facets with several levels: fixed effects, averaged on the score scale."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from designs import grid, study_of, within
from exact import by_pairs, exact_source
from scipy.special import expit
from sources import fitted, one

import gstudy as gs
from gstudy.errors import QuantityError
from gstudy.variance.basis import basis_of, latent_of
from gstudy.variance.contributions import mean_contributions, pairs_of
from gstudy.variance.decomposition import decompositions
from gstudy.variance.kernel import logistic_covariance, logistic_mean

MODE = gs.Facet("c", role="controlled")


def counted(rows: list[dict[str, Any]]) -> pd.DataFrame:
    return pd.DataFrame(rows).assign(k=lambda t: np.arange(len(t)) % 2)


def study_with(*facets: Any, **rest: Any) -> gs.Study:
    return study_of(*facets, score=None, successes="k", trials="n", **rest)


def fixed_effects(oracle: Any, **rest: Any) -> tuple[Any, dict[str, Any]]:
    """Three systems, 12 tasks, three controlled levels with 4, 2 and 2 rollouts."""
    case = oracle("extra")["cases"]["controlled_fixed_effects"]
    rows = [
        {"system": s, "task": f"t{t}", "c": "xyz"[level], "n": n}
        for s in "ABC"
        for t in range(case["design"]["task"])
        for level, n in enumerate(case["design"]["rollout_per_level"])
    ]
    study = study_with(
        "task", MODE, object="system", interactions=["system:task", "system:c", "task:c"], **rest
    )
    effects = {(label,): b for label, b in zip("xyz", case["b"], strict=True)}
    return exact_source(study, counted(rows), case["logit_sd"], case["mu"], fixed=effects), case


def test_fixed_effects_are_averaged_on_the_score_scale(oracle: Any) -> None:
    source, case = fixed_effects(oracle)
    assert latent_of(source).controlled.weights == pytest.approx(case["weights"])
    frame = source.summary()
    assert one(source.mean) == pytest.approx(case["mean"], abs=1e-8)
    assert frame["mean"][:3].to_dict() == pytest.approx(case["components"], abs=1e-8)
    assert frame["includes"].to_dict() == {
        "system": "system, system:c",
        "task": "task, task:c",
        "system:task": "system:task",
        "residual": "trial",
    }
    assert list(frame["role"]) == ["object", "legitimate", "legitimate", "legitimate"]
    assert one(gs.phi(source).draws) == pytest.approx(case["Phi"], abs=1e-8)
    assert one(gs.generalizability(source).draws) == pytest.approx(case["Erho2"], abs=1e-8)
    for relative, key in ((False, "var_absolute"), (True, "var_relative")):
        assert one(gs.sem(source, relative=relative).draws) ** 2 == pytest.approx(
            case[key], abs=1e-8
        )
    noise = gs.variance_budget(source, system="new").draws.sel(component="residual")
    assert one(noise) == pytest.approx(case["bernoulli_part"], abs=1e-8)
    assert source.estimand.endswith("averaged over the 3 levels of c")


def nested_tasks(oracle: Any, **rest: Any) -> tuple[Any, dict[str, Any], pd.DataFrame]:
    case = oracle("extra")["cases"]["controlled_nested_tasks"]
    rows = [
        {"domain": "ab"[d], "task": t, "n": case["rollouts_per_task"]}
        for d, n in enumerate(case["tasks_per_domain"])
        for t in range(n)
    ]
    domain = gs.Facet("domain", role="controlled")
    study = study_with(domain, within("task", "domain"), **rest)
    effects = {("a",): case["b"][0], ("b",): case["b"][1]}
    table = counted(rows)
    source = exact_source(study, table, case["logit_sd"], case["mu"], fixed=effects)
    return source, case, table


def test_tasks_nested_in_controlled_levels(oracle: Any) -> None:
    case = oracle("extra")["cases"]["controlled_nested_tasks"]
    study = study_of(
        gs.Facet("domain", role="controlled"), within("task", "domain"), within("rollout", "task")
    )
    shares = dict(zip("ab", case["weights"], strict=True))
    effects = dict(zip("ab", case["b"], strict=True))
    source = gs.assume(
        study, {"domain:task": 1.5**2}, mu=case["mu"], scale="logit",
        fixed={"domain": effects}, weights={"domain": shares},
    )  # fmt: skip
    found = gs.variance_components(source, scale="score")
    assert one(found.mean) == pytest.approx(case["mean"], abs=1e-8)
    assert list(found.rows) == ["domain:task", "residual"]
    # One trial lies in one level: its rows are averages over levels, and add up to its variance.
    levels = [case["mu"] + b for b in case["b"]]
    each = [float(logistic_covariance(m, m, 2.25, 2.25, 2.25)) for m in levels]
    means = [float(logistic_mean(m, 2.25)) for m in levels]
    shown = {row: one(found.draws.sel(component=row)) for row in found.rows}
    assert shown["domain:task"] == pytest.approx(np.dot(case["weights"], each), abs=1e-10)
    trial = np.dot(case["weights"], [m * (1 - m) for m in means])
    assert sum(shown.values()) == pytest.approx(trial, abs=1e-10)
    # A balanced design nested in the levels: only pairs within one level share a task.
    budget = gs.variance_budget(source, {"task": 5, "rollout": 2})
    within_level = [
        w**2 * float(logistic_covariance(case["mu"] + b, case["mu"] + b, 2.25, 2.25, 2.25)) / 5
        for w, b in zip(case["weights"], case["b"], strict=True)
    ]
    assert one(budget.draws.sel(component="domain:task")) == pytest.approx(
        sum(within_level), abs=1e-10
    )


def test_the_macro_mean_of_tasks_nested_in_controlled_levels(oracle: Any) -> None:
    """The oracle's weights 0.7 and 0.3 are no `average`; equal ones are."""
    source, case, table = nested_tasks(oracle, average={"macro": "domain"})
    total, variance = 2.25, 0.0
    for domain, b in zip("ab", case["b"], strict=True):
        n = int((table["domain"] == domain).sum())
        m = case["mu"] + b
        v = float(logistic_covariance(m, m, total, total, total))
        p = float(logistic_mean(m, total))
        variance += 0.25 * (v / n + (p * (1 - p) - v) / (2 * n))
    budget = gs.variance_budget(source)
    assert one(budget.variance) == pytest.approx(variance, abs=1e-10)
    assert budget.effective_levels["domain:task"] == pytest.approx(1 / (0.25 / 5 + 0.25 / 20))
    # The oracle: the same formula with its weights.
    weighted = exact_weights(source, case["weights"])
    assert weighted == pytest.approx(case["variance"], abs=1e-8)
    assert abs(weighted - case["WRONG_weights_counted_twice"]) > 1e-3


def exact_weights(source: Any, shares: list[float]) -> float:
    """The variance when the trials of level l together weigh shares[l]."""
    basis = basis_of(source)
    part = decompositions(basis, "score", None)[None]
    cells = basis.cells
    level = cells.codes[:, cells.facets.index("domain")]
    per_task = np.array(shares)[level] / np.bincount(level)[level]
    q = np.zeros((2, 2))
    np.add.at(q, (level, level), per_task**2)
    noise = np.bincount(level, weights=per_task**2 / cells.trials)
    variance = np.tensordot(q, part.level_unique[0], axes=2) + np.tensordot(
        noise, part.level_noise, axes=1
    )
    return float(variance.item())


def partly_crossed(oracle: Any, **rest: Any) -> tuple[Any, dict[str, Any]]:
    case = oracle("extra")["cases"]["controlled_partly_crossed"]
    pairs = [*((t, "x") for t in range(10)), *((t, "y") for t in range(5, 20))]
    rows = [{"task": t, "c": c, "n": 2} for t, c in pairs]
    study = study_with("task", MODE, interactions=["task:c"], keep=["task:c"], **rest)
    effects = {("x",): case["b"][0], ("y",): case["b"][1]}
    return exact_source(study, counted(rows), case["logit_sd"], case["mu"], fixed=effects), case


def test_tasks_partly_crossed_with_controlled_levels(oracle: Any) -> None:
    source, case = partly_crossed(oracle, average={"macro": "c"})
    budget = gs.variance_budget(source)
    assert one(source.mean) == pytest.approx(case["mean"], abs=1e-8)
    assert one(budget.variance) == pytest.approx(case["variance"], abs=1e-8)
    assert abs(one(budget.variance) - case["WRONG_q_from_trial_weights"]) > 1e-4
    # The mean over all trials is another score.
    pooled, _ = partly_crossed(oracle)
    assert abs(one(gs.variance_budget(pooled).variance) - case["variance"]) > 1e-4


def test_one_given_system_knows_its_effects_on_controlled_levels(oracle: Any) -> None:
    case = oracle("extra")["cases"]["one_given_system_controlled"]
    rows = [{"system": s, "task": t, "c": c, "n": 3} for s in "AB" for t in range(12) for c in "xy"]
    study = study_with(
        "task", MODE, object="system", interactions=["system:c", "task:c"], keep=["task:c"]
    )
    sds = {"system": 0.7, "system:c": 0.5, **case["logit_sd"]}
    source = exact_source(
        study, counted(rows), {k: sds[k] for k in ("system", "task", "system:c", "task:c")},
        case["mu"], fixed={("x",): case["b"][0], ("y",): case["b"][1]},
        effects={"A": case["u"], "B": 0.0}, level_effects={"A": case["u_c"], "B": [0.0, 0.0]},
    )  # fmt: skip
    basis = basis_of(source)
    given = decompositions(basis, "score", "A")["A"]
    assert float(given.mean.item()) == pytest.approx(case["mean"], abs=1e-8)
    assert given.structure.name(given.sets[0]) == "task"
    variance = mean_contributions(pairs_of(basis, {"A": given}, None))[0].sum()
    assert variance == pytest.approx(case["variance"], abs=1e-8)
    assert abs(variance - case["WRONG_system_c_as_variance_of_c"]) > 1e-4


BS = {"x": -0.9, "y": 0.3, "z": 0.6}
LEVEL_SDS = {"task": 1.2, "judge": 0.4, "task:c": 0.7}
KEYS = {("task",): 1.2, ("judge",): 0.4, ("task", "c"): 0.7}


def ragged_rows(rng: np.random.Generator) -> list[dict[str, Any]]:
    """Tasks by controlled levels by judges, some missing, one to three trials each."""
    cells = rng.integers(0, 4, (7, 3, 2))
    return [
        {"task": t, "c": "xyz"[level], "judge": j, "try": r}
        for (t, level, j), n in np.ndenumerate(cells)
        for r in range(n)
    ]


def ragged_source(rows: list[dict[str, Any]], **rest: Any) -> Any:
    table = pd.DataFrame(rows).groupby(["task", "c", "judge"], as_index=False).size()
    table = table.rename(columns={"size": "n"})
    study = study_with(
        gs.Facet("task", role="legitimate", universe=rest.pop("universe", None)), MODE,
        gs.Facet("judge", role="error"), interactions=["task:c"], keep=["task:c"], **rest,
    )  # fmt: skip
    return exact_source(
        study, counted(table.to_dict("records")), LEVEL_SDS, 0.2,
        fixed={(label,): b for label, b in BS.items()},
    )  # fmt: skip


def logit(row: Any) -> float:
    return 0.2 + BS[row["c"]]


@pytest.mark.parametrize("average", ["trials", "task", {"macro": "c"}])
def test_ragged_designs_have_the_variance_of_their_pairs(average: Any) -> None:
    rows = ragged_rows(np.random.default_rng(8))
    source = ragged_source(rows, average=average)
    by = {"trials": None, "task": "task"}.get(average, "c") if isinstance(average, str) else "c"
    groups = [None if by is None else row[by] for row in rows]
    weights = [1 / len(set(groups)) / groups.count(group) for group in groups]
    expected = by_pairs(rows, weights, KEYS, logit)
    assert one(gs.variance_budget(source).variance) == pytest.approx(expected, abs=1e-10)
    # A bank of 9 tasks, each at every level with the weight of the level.
    shares = {c: sum(w for row, w in zip(rows, weights, strict=True) if row["c"] == c) for c in BS}
    claim = [({"task": t, "c": c}, w / 9) for t in range(9) for c, w in shares.items()]
    expected = by_pairs(rows, weights, KEYS, logit, claim=claim, claimed=[("task",), ("task", "c")])
    finite = ragged_source(rows, average=average, universe=9)
    assert one(gs.variance_budget(finite).variance) == pytest.approx(expected, abs=1e-10)
    # These tasks, with the weight that each has at each level.
    claim = [(row, w) for row, w in zip(rows, weights, strict=True)]
    expected = by_pairs(rows, weights, KEYS, logit, claim=claim, claimed=[("task",), ("task", "c")])
    pinned = one(gs.variance_budget(source, pin=["task"]).variance)
    assert pinned == pytest.approx(expected, abs=1e-10)


def test_a_bank_nested_in_controlled_levels_is_one_per_level(oracle: Any) -> None:
    case = oracle("extra")["cases"]["controlled_nested_tasks"]
    rows = [
        {"domain": d, "task": f"{d}{t}", "try": r}
        for d, n in (("a", 3), ("b", 6))
        for t in range(n)
        for r in range(1 + t % 2)
    ]
    table = pd.DataFrame(rows).groupby(["domain", "task"], as_index=False).size()
    study = study_with(
        gs.Facet("domain", role="controlled"),
        gs.Facet("task", role="legitimate", nested_in=["domain"], universe=8),
    )
    effects = {("a",): -1.0, ("b",): 1.2}
    source = exact_source(
        study, counted(table.rename(columns={"size": "n"}).to_dict("records")),
        case["logit_sd"], 0.2, fixed=effects,
    )  # fmt: skip
    weights = [1 / len(rows)] * len(rows)
    shares = {d: sum(row["domain"] == d for row in rows) / len(rows) for d in "ab"}
    claim = [
        ({"domain": d, "task": f"{d}{t}"}, shares[d] / 8) for d in "ab" for t in range(8)
    ]  # fmt: skip
    expected = by_pairs(
        rows, weights, {("task",): 1.5}, lambda row: 0.2 + effects[(row["domain"],)],
        claim=claim, claimed=[("task",)],
    )  # fmt: skip
    budget = gs.variance_budget(source)
    assert one(budget.variance) == pytest.approx(expected, abs=1e-10)
    assert "a bank of 8 tasks per domain, averaged over the 2 levels of domain" in budget.estimand


def test_two_controlled_facets_run_over_their_combinations() -> None:
    rows = [
        {"task": t, "c": c, "e": e, "try": r}
        for t in range(5)
        for c, e in (("x", "p"), ("x", "q"), ("y", "q"))
        for r in range(1 + (t + ord(e)) % 2)
    ]
    table = pd.DataFrame(rows).groupby(["task", "c", "e"], as_index=False).size()
    study = study_with(
        "task", MODE, gs.Facet("e", role="controlled"), interactions=["task:c"], keep=["task:c"]
    )
    effects = {("x", "p"): -0.2, ("x", "q"): 0.4, ("y", "q"): 1.0}
    source = exact_source(
        study, counted(table.rename(columns={"size": "n"}).to_dict("records")),
        {"task": 1.0, "task:c": 0.6}, 0.1, fixed=effects,
    )  # fmt: skip
    with pytest.raises(QuantityError, match="'c' is controlled: its levels are fixed"):
        gs.icc(source, "task:c")
    assert "averaged over the 3 combinations of c and e" in source.estimand
    # A task's effect at c = y is one, whatever e is.
    expected = by_pairs(
        rows, [1 / len(rows)] * len(rows), {("task",): 1.0, ("task", "c"): 0.6},
        lambda row: 0.1 + effects[(row["c"], row["e"])],
    )  # fmt: skip
    assert one(gs.variance_budget(source).variance) == pytest.approx(expected, abs=1e-10)


def test_a_component_that_holds_one_of_two_controlled_facets_is_shared_over_the_other() -> None:
    """On the logit scale by hand: (V_task + V_env:task / 2) / n."""
    study = study_with(
        "task", gs.Facet("env", role="controlled"), gs.Facet("mode", role="controlled"),
        interactions=["task:env"],
    )  # fmt: skip
    source = gs.assume(
        study, {"task": 0.25, "task:env": 2.25}, mu=0.2, scale="logit",
        fixed={"env": {"a": 0.5, "b": -0.5}, "mode": {"p": 0.3, "q": -0.3}},
    )  # fmt: skip
    budget = gs.variance_budget(source, {"task": 20, "trials": 1}, scale="logit")
    task = float(budget.draws.sel(component="task").item())
    assert task == pytest.approx((0.25 + 2.25 / 2) / 20, abs=1e-14)


def test_the_icc_is_that_within_a_level(oracle: Any) -> None:
    source, case = partly_crossed(oracle, average={"macro": "c"})
    total = 1.5**2 + 0.8**2
    means = [case["mu"] + b for b in case["b"]]
    shared = [float(logistic_covariance(m, m, total, total, total)) for m in means]
    rates = [float(logistic_mean(m, total)) for m in means]
    expected = sum(shared) / sum(p * (1 - p) for p in rates)
    found = gs.icc(source, "task")
    assert one(found.draws) == pytest.approx(expected, abs=1e-10)
    assert "within a level of c, averaged" in found.estimand
    logit_icc = one(gs.icc(source, "task", scale="logit").draws)
    assert logit_icc == pytest.approx(total / (total + np.pi**2 / 3))


def test_assumed_fixed_effects_of_a_crossed_balanced_design() -> None:
    study = study_of("task", MODE, within("rollout", "task", "c"), interactions=["task:c"])
    source = gs.assume(
        study, {"task": 1.44, "task:c": 0.49}, mu=0.2, scale="logit",
        fixed={"c": {"x": -0.9, "y": 0.3, "z": 0.6}}, weights={"c": {"x": 0.5, "y": 0.3, "z": 0.2}},
    )  # fmt: skip
    w = {"x": 0.5, "y": 0.3, "z": 0.2}
    rows = [
        {"task": t, "c": c, "rollout": r} for t in range(4) for c in "xyz" for r in range(3)
    ]  # fmt: skip
    weights = [w[row["c"]] / 12 for row in rows]
    expected = by_pairs(rows, weights, {("task",): 1.2, ("task", "c"): 0.7}, logit)
    budget = gs.variance_budget(source, {"task": 4, "rollout": 3})
    assert one(budget.variance) == pytest.approx(expected, abs=1e-10)
    assert list(budget.rows) == ["task", "residual"]
    with pytest.raises(QuantityError, match="'c' is controlled: a design covers its levels"):
        gs.variance_budget(source, {"task": 4, "rollout": 3, "c": 2})
    equal = gs.assume(
        study, {"task": 1.0}, mu=0.0, scale="logit", fixed={"c": {"x": -1.0, "y": 1.0}}
    )
    assert one(gs.variance_components(equal, scale="score").mean) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"fixed": {"task": {"a": 1, "b": 2}}}, "fixed effects are of controlled facets, and 'tas"),
        ({"fixed": {"c": {"x": 1.0}}}, "the fixed effects of 'c' are of at least two levels"),
        ({"fixed": {"c": {"x": 1.0, "y": np.nan}}}, "the fixed effect of 'y' is not a finite"),
        ({"fixed": ["c"]}, "fixed is no mapping"),
        ({"weights": {"c": {"x": 1.0}}}, "weights are of the levels of fixed effects"),
        (
            {"fixed": {"c": {"x": 1, "y": 2}}, "weights": {"c": {"x": 1.0}}},
            "weights of 'c' are not",
        ),
        ({"fixed": {"c": {"x": 1, "y": 2}}, "weights": {"c": {"x": 0.4, "y": 0.5}}}, "with sum 1"),
        ({"fixed": {"c": {"x": 1, "y": 2}}, "weights": {"d": {}}}, "weights are given for 'd'"),
        ({"components": {"task:c": 1.0}}, "'c' is controlled: it is pinned and has no variance"),
        ({"components": {"c": 1.0}, "fixed": {"c": {"x": 1, "y": 2}}}, "its levels have fixed ef"),
        (
            {
                "components": {"system:c": 1.0},
                "fixed": {"c": {"x": 1, "y": 2}},
                "effects": {"A": 0.5},
            },
            "of a given system its effects on the levels of c are needed too",
        ),
    ],
)
def test_fixed_effects_that_cannot_be_are_refused(how: dict[str, Any], message: str) -> None:
    study = study_of("task", MODE, object="system", interactions=["task:c"])
    components = how.pop("components", {"task": 1.0})
    with pytest.raises(QuantityError, match=re.escape(message)):
        gs.assume(study, components, mu=0.0, scale="logit", **how)


def test_a_fit_brings_fixed_and_level_effects() -> None:
    table = grid({"system": "AB", "task": range(6), "c": "xyz", "rollout": range(2)})
    table = table[~((table["system"] == "B") & (table["c"] == "z"))]
    study = study_of(
        "task", MODE, within("rollout", "system", "task", "c"), object="system",
        interactions=["system:c", "task:c"],
    )  # fmt: skip
    fit = fitted(study, table, shape=(2, 30))
    latent = latent_of(fit)
    assert latent.structure.facets == ("system", "task")
    assert latent.held == tuple(frozenset({"c"} & set(name.split(":"))) for name in fit.components)
    np.testing.assert_allclose(latent.controlled.offsets, np.moveaxis(fit.fixed("c").values, -1, 0))
    # Level z weighs a third in A, nothing in B.
    np.testing.assert_allclose(latent.controlled.weights, [5 / 12, 5 / 12, 1 / 6])
    given = latent.given("A")
    own = fit.effects("system:c").sel(**{"system:c": "A:y"}).values
    np.testing.assert_allclose(
        given.controlled.offsets[1], fit.fixed("c").values[..., 1] + own, rtol=1e-12
    )
    unseen = latent.given("B").controlled.offsets[2] - latent.controlled.offsets[2]
    assert unseen.std() > 0
    budget = gs.variance_budget(fit)
    assert set(budget.rows) == {"task", "residual"}
    assert np.isfinite(budget.variance.values).all()
    assert "mean over the 2 fitted" in budget.estimand


def test_simulated_ragged_studies_vary_as_the_formula_says() -> None:
    """40,000 studies: the variance of their means has a relative error of 0.7%."""
    rows = ragged_rows(np.random.default_rng(8))
    source = ragged_source(rows, average={"macro": "c"})
    expected = one(gs.variance_budget(source).variance)
    levels = [row["c"] for row in rows]
    weights = np.array([1 / 3 / levels.count(c) for c in levels])
    task = np.array([row["task"] for row in rows])
    place = np.array(["xyz".index(c) for c in levels])
    judge = np.array([row["judge"] for row in rows])
    mean = 0.2 + np.array([BS[c] for c in levels])
    rng = np.random.default_rng(9)
    scores = []
    for _ in range(8):
        n = 5000
        eta = (
            mean
            + 1.2 * rng.standard_normal((n, 7))[:, task]
            + 0.7 * rng.standard_normal((n, 7, 3))[:, task, place]
            + 0.4 * rng.standard_normal((n, 2))[:, judge]
        )
        scores.append((rng.random(eta.shape) < expit(eta)) @ weights)
    found = np.concatenate(scores)
    assert found.var() == pytest.approx(expected, rel=0.035)
    assert found.mean() == pytest.approx(one(source.mean), abs=0.004)
