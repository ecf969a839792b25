"""What a score claims: its average, finite banks, pinned facets; against numbers and pairs."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest
from designs import grid, study_of, within
from exact import by_pairs, exact_source
from handmade import small_fit
from sources import fitted, logit_source, one

import gstudy as gs
from gstudy.errors import QuantityError
from gstudy.variance.weights import Weights, collected


def ragged(oracle: Any, *facets: gs.Facet, **rest: Any) -> tuple[Any, dict[str, Any]]:
    """The ragged design of the oracle, with its one exact draw."""
    case = oracle("extra")["cases"]["unbalanced_one_mean"]
    rows = pd.DataFrame(case["rows_task_rollout_judge"], columns=["task", "rollout", "judge"])
    declared = facets or ("task", within("rollout", "task"), gs.Facet("judge", role="error"))
    study = study_of(*declared, interactions="none", **rest)
    table = rows.assign(score=[0, 1, 1, 0, 1, 1, 0, 1, 0, 1])
    return exact_source(study, table, case["logit_sd"], case["mu"]), case


@pytest.mark.parametrize(("average", "key"), [("trials", "pooled"), ("task", "mean_of_task_means")])
def test_the_average_decides_the_weights(oracle: Any, average: str, key: str) -> None:
    source, case = ragged(oracle, average=average)
    budget = gs.variance_budget(source)
    assert one(budget.variance) == pytest.approx(case[key]["variance"], abs=1e-8)
    levels = budget.effective_levels
    assert {n: 1 / levels[n] for n in case[key]["q"]} == pytest.approx(case[key]["q"], abs=1e-12)
    other = {"pooled": "mean_of_task_means", "mean_of_task_means": "pooled"}[key]
    assert abs(one(budget.variance) - case[other]["variance"]) > 1e-3
    said = "mean over all trials" if average == "trials" else "mean over tasks (average = task)"
    assert budget.estimand == f"the score of the study, as collected, {said}"
    assert said in " ".join(str(budget).split("\n\n")[0].split())
    assert said in gs.rerun_noise(source).estimand
    assert said in gs.phi(source, object="task").estimand


def test_a_mean_of_task_means_is_the_sum_over_its_pairs(oracle: Any) -> None:
    source, case = ragged(oracle, average="task")
    rows = [dict(zip("trj", r, strict=True)) for r in case["rows_task_rollout_judge"]]
    counts = [sum(other["t"] == row["t"] for other in rows) for row in rows]
    sds = {("t",): 1.4, ("t", "r"): 0.8, ("j",): 0.4}
    expected = by_pairs(rows, [1 / 4 / n for n in counts], sds, lambda _: case["mu"])
    assert one(gs.variance_budget(source).variance) == pytest.approx(expected, abs=1e-10)


def domains() -> pd.DataFrame:
    """Three domains of 2, 3 and 5 tasks, task k with 1 + k % 3 trials."""
    tasks = [(d, f"{d}{k}") for d, n in zip("abc", (2, 3, 5), strict=True) for k in range(n)]
    rows = [
        {"domain": d, "task": t, "rollout": r, "score": (r + i) % 2}
        for i, (d, t) in enumerate(tasks)
        for r in range(1 + i % 3)
    ]
    return pd.DataFrame(rows)


@pytest.mark.parametrize("nested", [True, False])
def test_a_macro_average_weighs_domains_alike(nested: bool) -> None:
    table = domains()
    study = study_of(
        "domain", within("task", *(["domain"] if nested else [])), within("rollout", "task"),
        average={"macro": "domain"}, interactions="none", keep=["rollout"],
    )  # fmt: skip
    names = ("domain", "domain:task", "domain:task:rollout")
    plain = names if nested else ("domain", "task", "task:rollout")
    source = exact_source(study, table, dict(zip(plain, (0.5, 1.2, 0.7), strict=True)), 0.4)
    rows = table.to_dict("records")
    counts = table["domain"].map(table["domain"].value_counts())
    sds = {("domain",): 0.5, ("task",): 1.2, ("task", "rollout"): 0.7}
    expected = by_pairs(rows, list(1 / 3 / counts), sds, lambda _: 0.4)
    budget = gs.variance_budget(source)
    assert one(budget.variance) == pytest.approx(expected, abs=1e-10)
    assert "mean over domains (average = { macro = domain })" in budget.estimand


def test_finite_universes_of_nested_facets(oracle: Any) -> None:
    case = oracle("extra")["cases"]["finite_universe_nested"]
    for key, expected in case["variance"].items():
        sizes = dict(part.split("=") for part in key.split(","))
        bank = {f: None if n == "inf" else int(n) for f, n in sizes.items()}
        study = study_of(
            gs.Facet("h", role="legitimate", universe=bank["h"]),
            gs.Facet("i", role="legitimate", nested_in=["h"], universe=bank["i"]),
            gs.Facet("e", role="legitimate", universe=bank["e"]),
            within("rollout", "h", "i", "e"),
        )
        variances = {name: sd**2 for name, sd in case["logit_sd"].items()}
        source = gs.assume(study, variances, mu=case["mu"], scale="logit")
        budget = gs.variance_budget(source, case["design"])
        assert one(budget.variance) == pytest.approx(expected, abs=1e-8), key
        for facet, n in bank.items():
            per = " per h" if facet == "i" else ""
            assert (f"a bank of {n} {facet}s{per}" in budget.estimand) == (n is not None)


def finite_facet(oracle: Any, universe: int | None, **rest: Any) -> tuple[Any, dict[str, Any]]:
    case = oracle("extra")["cases"]["phi_finite_facet"]
    study = study_of(
        "task",
        gs.Facet("env", role="legitimate", universe=universe),
        within("rollout", "system", "task", "env"),
        object="system",
    )
    variances = {name: sd**2 for name, sd in case["logit_sd"].items()}
    return gs.assume(study, variances, mu=case["mu"], scale="logit", **rest), case


def test_coefficients_of_a_finite_facet(oracle: Any) -> None:
    source, case = finite_facet(oracle, 3)
    design = case["design"]
    phi, rho = (one(f(source, design).draws) for f in (gs.phi, gs.generalizability))
    assert phi == pytest.approx(case["Phi"], abs=1e-8)
    assert rho == pytest.approx(case["Erho2"], abs=1e-8)
    assert abs(phi - case["WRONG_literal_rule_Phi"]) > 1e-2
    absolute, relative = (one(gs.sem(source, design, relative=r).draws) for r in (False, True))
    assert absolute**2 == pytest.approx(case["var_absolute"], abs=1e-8)
    assert relative**2 == pytest.approx(case["var_relative"], abs=1e-8)
    # The universe-score variance is the budget's row of a new system.
    budget = gs.variance_budget(source, design, system="new")
    assert one(budget.draws.sel(component="system")) == pytest.approx(
        case["v_object_universe"], abs=1e-8
    )
    assert one(budget.variance) == pytest.approx(
        case["v_object_universe"] + case["var_absolute"], abs=1e-8
    )
    assert gs.phi(source, design).estimand.endswith(
        "with task = 20, env = 2, rollout = 3, a bank of 3 envs (assumed components)"
    )
    endless, _ = finite_facet(oracle, None)
    found = [one(gs.sem(endless, design, relative=r).draws) ** 2 for r in (False, True)]
    none = case["universe_none"]
    assert found == pytest.approx([none["var_absolute"], none["var_relative"]], abs=1e-8)


def test_standard_errors_are_in_points_of_the_score(oracle: Any) -> None:
    source, case = finite_facet(oracle, 3)
    text = str(gs.sem(source, case["design"]))
    assert "8.8 pt" in text
    assert "Standard error of a score that is read by itself" in text
    assert "pt" not in str(gs.sem(source, case["design"], scale="logit"))
    assert gs.sem(source, case["design"], relative=True).summary().index[0] == "relative SEM"


def test_a_pinned_facet_with_the_weights_of_the_data(oracle: Any) -> None:
    case = oracle("extra")["cases"]["pinned_tasks_unequal_weights"]
    study = study_of("task", score=None, successes="k", trials="n")
    counts = {"task": list("abcd"), "k": [1] * 4, "n": case["trials_per_task"]}
    source = exact_source(study, pd.DataFrame(counts), case["logit_sd"], case["mu"])
    free = one(gs.variance_budget(source).variance)
    pinned = one(gs.variance_budget(source, pin=["task"]).variance)
    assert free == pytest.approx(case["variance_new_tasks"], abs=1e-8)
    assert pinned == pytest.approx(case["variance_rerun"], abs=1e-8)
    assert one(gs.rerun_noise(source).draws) == pytest.approx(case["variance_rerun"], abs=1e-8)
    assert abs(pinned - case["WRONG_q_minus_1_over_N"]) > 1e-3
    estimand = gs.variance_budget(source, pin="task").estimand
    assert estimand.endswith("mean over all trials, these tasks (pinned)")


def bank_table() -> list[dict[str, Any]]:
    """Tasks 0-3 of a bank, judges x and y, unequal numbers of trials."""
    rows = [(0, "x", 3), (0, "y", 1), (1, "x", 2), (2, "y", 2), (2, "x", 1), (3, "y", 1)]
    return [
        {"task": t, "judge": j, "try": i}
        for t, j, n in rows
        for i in range(n)
    ]  # fmt: skip


def bank_source(universe: Mapping[str, int]) -> Any:
    rows = pd.DataFrame(bank_table()).groupby(["task", "judge"], as_index=False).size()
    table = rows.rename(columns={"size": "n"}).assign(k=1)
    study = study_of(
        gs.Facet("task", role="legitimate", universe=universe.get("task")),
        gs.Facet("judge", role="error", universe=universe.get("judge")),
        interactions=["task:judge"], keep=["task:judge"], score=None, successes="k", trials="n",
    )  # fmt: skip
    return exact_source(study, table, BANK_SDS, 0.3)


BANK_SDS = {"task": 1.1, "judge": 0.6, "task:judge": 0.8}
BANK = {("task",): 1.1, ("judge",): 0.6, ("task", "judge"): 0.8}


def test_a_finite_bank_with_unequal_weights_is_the_sum_over_its_pairs() -> None:
    rows = bank_table()
    weights = [1 / len(rows)] * len(rows)
    claim = [({"task": t}, 1 / 7) for t in range(7)]
    expected = by_pairs(rows, weights, BANK, lambda _: 0.3, claim=claim, claimed=[("task",)])
    found = one(gs.variance_budget(bank_source({"task": 7})).variance)
    assert found == pytest.approx(expected, abs=1e-10)
    # A bank of tasks and judges: the interaction is finite too.
    claim = [({"task": t, "judge": j}, 1 / 21) for t in range(7) for j in "xyz"]
    expected = by_pairs(rows, weights, BANK, lambda _: 0.3, claim=claim, claimed=list(BANK))
    found = one(gs.variance_budget(bank_source({"task": 7, "judge": 3})).variance)
    assert found == pytest.approx(expected, abs=1e-10)


def test_pinned_levels_of_a_bank_keep_the_weights_of_the_data() -> None:
    rows = bank_table()
    weights = [1 / len(rows)] * len(rows)
    shares = {t: sum(row["task"] == t for row in rows) / len(rows) for t in range(4)}
    # These tasks, each by a bank of three judges.
    claim = [({"task": t, "judge": j}, w / 3) for t, w in shares.items() for j in "xyz"]
    expected = by_pairs(rows, weights, BANK, lambda _: 0.3, claim=claim, claimed=list(BANK))
    source = bank_source({"task": 7, "judge": 3})
    budget = gs.variance_budget(source, pin=["task"])
    assert one(budget.variance) == pytest.approx(expected, abs=1e-10)
    assert "a bank of 3 judges, these tasks (pinned)" in budget.estimand
    everything = gs.variance_budget(source, pin=["judge", "task"])
    kept = everything.draws.sel(component=["task", "judge", "task:judge"])
    np.testing.assert_allclose(kept.values, 0.0, atol=1e-18)
    assert one(everything.variance) == pytest.approx(one(gs.rerun_noise(source).draws))


def test_pinned_facets_join_the_universe_score() -> None:
    sds = {"system": 0.8, "task": 1.5, "system:task": 0.7}
    source = logit_source(sds, 0.2, facets=["task"], object="system")
    parts = gs.variance_components(source, scale="score", system="new").draws
    v = dict(zip(parts.component.values, parts.values[0, 0], strict=True))
    noise = v["residual"] / 20
    found = gs.phi(source, {"task": 20}, pin=["task"])
    between = v["system"] + v["system:task"] / 20
    assert one(found.draws) == pytest.approx(between / (between + noise), rel=1e-12)
    assert one(gs.sem(source, {"task": 20}, pin=["task"]).draws) == pytest.approx(noise**0.5)
    assert "these tasks (pinned)" in str(found).split("\n\n")[0]


def test_designs_beyond_the_universe_are_refused(oracle: Any) -> None:
    source, case = finite_facet(oracle, 3)
    with pytest.raises(QuantityError, match=r"'env' has more levels than its universe.*Given: 4"):
        gs.variance_budget(source, {**case["design"], "env": 4})
    with pytest.raises(QuantityError, match="at most 3, the declared universe of env"):
        gs.phi(source, {**case["design"], "env": 4})


@pytest.mark.parametrize(
    ("pin", "message"),
    [
        (["taks"], "'taks' cannot be pinned: it is no facet"),
        (["taks"], "Did you mean 'task'"),
        (["system"], "'system' cannot be pinned: it is measured. Given: ['system']. Allowed: task"),
        ("rollout", "'rollout' cannot be pinned: it is inside the residual"),
        ("mode", "'mode' cannot be pinned: it is controlled, which pins it already"),
    ],
)
def test_what_cannot_be_pinned_is_refused(pin: Any, message: str) -> None:
    table = grid({"system": "ABC", "task": range(6), "mode": ["m"], "rollout": range(3)})
    study = study_of(
        "task", gs.Facet("mode", role="controlled"), within("rollout", "system", "task"),
        object="system",
    )  # fmt: skip
    fit = fitted(study, table, shape=(1, 4))
    for function in (gs.variance_budget, gs.phi, gs.sem):
        with pytest.raises(QuantityError, match=re.escape(message)):
            function(fit, pin=pin)


def test_the_object_variance_may_be_that_of_the_fitted_systems() -> None:
    fit = small_fit()
    means = [
        gs.score(fit).draws.sel(system=label).values for label in ("A", "B:1", "C/2")
    ]  # fmt: skip
    error = gs.sem(fit).draws.values ** 2
    between = np.var(means, axis=0, ddof=1)
    found = gs.phi(fit, finite=True)
    np.testing.assert_allclose(found.draws.values, between / (between + error), rtol=1e-10)
    assert "among the fitted ones" in found.estimand
    relative = gs.sem(fit, relative=True).draws.values ** 2
    rho = gs.generalizability(fit, finite=True).draws.values
    np.testing.assert_allclose(rho, between / (between + relative), rtol=1e-10)
    with pytest.raises(QuantityError, match="the variance among the fitted levels of 'task' needs"):
        gs.phi(fit, object="task", finite=True)
    source = logit_source({"system": 1.0, "task": 1.0}, 0.0, facets=["task"], object="system")
    with pytest.raises(QuantityError, match="Leave finite out for the variance over a population"):
        gs.phi(source, {"task": 9}, finite=True)


def test_weights_of_a_bank_are_left_out_where_nothing_is_finite() -> None:
    fit = small_fit()
    task = frozenset({"task"})
    found = collected(fit.design.cells, [task], "system")
    assert all(isinstance(w, Weights) and not w.bank for w in found.values())


def test_random_ragged_designs_have_the_variance_of_their_pairs() -> None:
    rng = np.random.default_rng(4)
    for average, universe in itertools.product(("trials", "task"), (None, 9)):
        keep = rng.random((6, 3, 2)) < 0.6
        rows = [
            {"task": t, "judge": j, "try": r}
            for t, j, r in zip(*np.nonzero(keep), strict=True)
        ]  # fmt: skip
        table = pd.DataFrame(rows).groupby(["task", "judge"], as_index=False).size()
        study = study_of(
            gs.Facet("task", role="legitimate", universe=universe),
            gs.Facet("judge", role="error"),
            average=average, interactions=["task:judge"], keep=["task:judge"], score=None,
            successes="k", trials="size",
        )  # fmt: skip
        source = exact_source(study, table.assign(k=1), BANK_SDS, -0.2)
        counts = {t: sum(row["task"] == t for row in rows) for t in range(6)}
        n_tasks = sum(n > 0 for n in counts.values())
        weights = [
            1 / len(rows) if average == "trials" else 1 / n_tasks / counts[row["task"]]
            for row in rows
        ]
        claim = [] if universe is None else [({"task": t}, 1 / universe) for t in range(universe)]
        expected = by_pairs(rows, weights, BANK, lambda _: -0.2, claim=claim, claimed=[("task",)])
        found = one(gs.variance_budget(source).variance)
        assert found == pytest.approx(expected, abs=1e-10), (average, universe)
