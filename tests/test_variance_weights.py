"""How trials spread over levels: designs as collected, balanced designs, and what is refused."""

from __future__ import annotations

import itertools
import math
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from designs import grid, study_of, within
from handmade import small_fit
from sources import fitted, logit_source, one

import gstudy as gs
from gstudy.errors import QuantityError
from gstudy.variance.basis import basis_of
from gstudy.variance.contributions import mean_contributions, pairs_of
from gstudy.variance.decomposition import decompositions
from gstudy.variance.designs import read_design
from gstudy.variance.kernel import logistic_covariance, logistic_mean
from gstudy.variance.weights import balanced, collected, mean_weights


def ragged_rows(oracle: Any) -> pd.DataFrame:
    rows = oracle("extra")["cases"]["unbalanced_one_mean"]["rows_task_rollout_judge"]
    table = pd.DataFrame(rows, columns=["task", "rollout", "judge"])
    return table.assign(score=[0, 1, 1, 0, 1, 1, 0, 1, 0, 1])


def ragged_study(**rest: Any) -> gs.Study:
    return study_of(
        "task",
        within("rollout", "task"),
        gs.Facet("judge", role="error"),
        interactions="none",
        **rest,
    )


def test_collected_weights_of_a_ragged_design_are_pooled(oracle: Any) -> None:
    given = oracle("extra")["cases"]["unbalanced_one_mean"]
    fit = fitted(ragged_study(), ragged_rows(oracle), shape=(1, 4))
    structure = basis_of(fit).structure
    sets = structure.spanned(structure.merged)
    weights = collected(fit.design.cells, sets, None)[None]
    found = {structure.name(s): q for s, q in weights.q.items()}
    assert found == pytest.approx(given["pooled"]["q"], abs=1e-15)
    assert weights.noise == pytest.approx(1 / 10)


def test_the_variance_of_a_ragged_mean_equals_numbers_computed_elsewhere(oracle: Any) -> None:
    given = oracle("extra")["cases"]["unbalanced_one_mean"]
    source = logit_source(
        given["logit_sd"],
        given["mu"],
        facets=["task", "rollout", "judge"],
        nested={"rollout": ["task"]},
    )
    frame = gs.variance_components(source, scale="score").summary()["mean"]
    fit = fitted(ragged_study(), ragged_rows(oracle), shape=(1, 4))
    structure = basis_of(fit).structure
    sets = structure.spanned(structure.merged)
    weights = collected(fit.design.cells, sets, None)[None]
    variance = sum(frame[structure.name(s)] * q for s, q in weights.q.items())
    variance += frame["residual"] * weights.noise
    assert variance == pytest.approx(given["pooled"]["variance"], abs=1e-8)
    # The mean of task means is another score.
    assert abs(variance - given["mean_of_task_means"]["variance"]) > 1e-3


def test_a_ragged_budget_equals_the_sum_over_all_ordered_pairs(oracle: Any) -> None:
    rows = ragged_rows(oracle)
    fit = fitted(ragged_study(), rows, shape=(2, 3))
    sds = {name: fit.sd(name) for name in ("task", "task:rollout", "judge")}
    keys = {
        "task": list(rows["task"]),
        "task:rollout": list(zip(rows["task"], rows["rollout"], strict=True)),
        "judge": list(rows["judge"]),
    }
    total = np.sum([sd**2 for sd in sds.values()], axis=0)
    variance = np.zeros(fit.mu.shape)
    for i, j in itertools.product(range(len(rows)), repeat=2):
        if i == j:
            mean = logistic_mean(fit.mu, total)
            variance += mean * (1 - mean)
            continue
        shared = np.sum([sd**2 * (keys[n][i] == keys[n][j]) for n, sd in sds.items()], axis=0)
        variance += logistic_covariance(fit.mu, fit.mu, total, total, shared)
    budget = gs.variance_budget(fit)
    np.testing.assert_allclose(budget.variance.values, variance / len(rows) ** 2, rtol=1e-10)


def test_each_system_has_its_own_trials_and_the_mean_of_them_is_the_average_design() -> None:
    table = grid({"system": "AB", "task": range(6), "rollout": range(2)})
    table = table[~((table["system"] == "B") & (table["task"] > 3))]
    study = study_of("task", within("rollout", "system", "task"), object="system")
    fit = fitted(study, table, shape=(2, 5))
    task = frozenset({"task"})
    found = collected(fit.design.cells, [task, task | {"system"}], "system")
    assert {label: w.q[task] for label, w in found.items()} == pytest.approx(
        {"A": 1 / 6, "B": 1 / 4}
    )
    assert {label: w.noise for label, w in found.items()} == pytest.approx(
        {"A": 1 / 12, "B": 1 / 8}
    )
    average = mean_weights(found.values())
    assert (average.q[task], average.noise) == pytest.approx((5 / 24, 5 / 48))
    basis = basis_of(fit)
    pairs = pairs_of(basis, decompositions(basis, "score", None), None)
    parts = [mean_contributions([pair])[0].sum(axis=0) for pair in pairs]
    np.testing.assert_allclose(
        gs.variance_budget(fit).variance.values, np.mean(parts, axis=0), rtol=1e-12
    )
    assert mean_contributions(pairs[1:])[1] == pytest.approx([4.0, 8.0])
    assert gs.variance_budget(fit, system="new").effective_levels["system"] == 1.0


def test_counts_weigh_as_much_as_their_trials() -> None:
    study = study_of("task", score=None, successes="k", trials="n")
    rows = [{"task": t, "k": 1, "n": n} for t, n in zip("abcd", (5, 2, 2, 1), strict=True)]
    levels = gs.variance_budget(fitted(study, rows, shape=(1, 4))).effective_levels
    assert levels == pytest.approx({"task": 100 / 34, "residual": 10.0})


def test_a_balanced_design_counts_nested_levels_per_parent() -> None:
    structure = basis_of(
        logit_source(
            {"task": 1.0, "task:rollout": 1.0, "judge": 1.0},
            0.0,
            facets=["task", "rollout", "judge"],
            nested={"rollout": ["task"]},
        )
    ).structure
    counts = read_design(structure, {"task": 30, "rollout": 4, "judge": 3})
    weights = balanced(structure, counts, structure.sets())
    assert {structure.name(s): 1 / q for s, q in weights.q.items()} == pytest.approx(
        {
            "task": 30,
            "judge": 3,
            "task:rollout": 120,
            "task:judge": 90,
            "task:rollout:judge": 360,
        }
    )
    assert 1 / weights.noise == pytest.approx(360)
    endless = balanced(structure, {**counts, "task": math.inf}, structure.sets())
    assert endless.q[frozenset({"task"})] == 0.0
    assert endless.noise == 0.0


def test_a_balanced_design_as_collected_gives_the_collected_budget() -> None:
    fit = small_fit()
    design = {"task": 8, "rollout": 3}
    for system in (None, "new"):
        np.testing.assert_allclose(
            gs.variance_budget(fit, design, system=system).draws.values,
            gs.variance_budget(fit, system=system).draws.values,
            rtol=1e-12,
        )


def test_a_facet_inside_the_residual_only_multiplies_trials(oracle: Any) -> None:
    given = oracle("extra")["cases"]["phi_lambda"]
    source = logit_source(
        given["logit_sd"],
        given["mu"],
        facets=["task", "rollout"],
        nested={"rollout": ["system", "task"]},
        object="system",
    )
    one_each, four_each = (gs.variance_budget(source, {"task": 50, "rollout": n}) for n in (1, 4))
    changed = (one_each.draws - four_each.draws).to_series().groupby("component").sum()
    assert list(changed[changed > 1e-15].index) == ["residual"]
    assert four_each.effective_levels["residual"] == pytest.approx(200)


def test_trials_per_cell_are_asked_for_where_no_facet_counts_them() -> None:
    study = study_of("task", score=None, successes="k", trials="n")
    source = gs.assume(study, {"task": 1.0}, mu=0.0, scale="logit")
    assert gs.variance_budget(source, {"task": 9, "trials": 4}).effective_levels[
        "residual"
    ] == pytest.approx(36)
    with pytest.raises(QuantityError, match="Add 'trials': the number of trials per cell"):
        gs.variance_budget(source, {"task": 9})


def test_a_counted_facet_is_the_number_of_trials() -> None:
    study = study_of(
        "task",
        gs.Facet("rollout", role="legitimate", nested_in=["task"], column="n"),
        score=None,
        successes="k",
        trials="n",
    )
    rows = [{"task": t, "k": k, "n": 4} for t, k in zip("abcdef", (0, 1, 4, 2, 3, 4), strict=True)]
    fit = fitted(study, rows, shape=(2, 4))
    np.testing.assert_allclose(
        gs.variance_budget(fit, {"task": 6, "rollout": 4}).draws.values,
        gs.variance_budget(fit).draws.values,
        rtol=1e-12,
    )


@pytest.mark.parametrize(
    ("design", "message"),
    [
        ({"task": 10}, "does not say how many levels of 'rollout' it has"),
        ({"task": 10}, "Allowed: a number for each of task, rollout"),
        ({"task": 10}, "'rollout': it is inside the residual, and sets the number of trials"),
        ({"rollout": 3}, "Add 'task' with its number of levels"),
        ({"taks": 10, "rollout": 3}, "unknown facet 'taks'. Allowed: system, task, rollout. Did"),
        ({"task": 0, "rollout": 3}, "number of levels of 'task' is not usable. Given: 0"),
        ({"task": -4, "rollout": 3}, "Allowed: whole numbers from 1 on"),
        ({"task": 2.5, "rollout": 3}, "Given: 2.5"),
        ({"task": True, "rollout": 3}, "Given: True"),
        ({"task": "many", "rollout": 3}, "Given: 'many'"),
        ({"task": 10, "rollout": 3, "trials": 2}, "unknown facet 'trials'"),
        ({"task": 10, "rollout": 3, "system": 2}, "'system' is measured: a design is of one"),
    ],
)
def test_designs_that_cannot_be_are_refused(design: dict[str, Any], message: str) -> None:
    with pytest.raises(QuantityError, match=re.escape(message)):
        gs.variance_budget(small_fit(), design)
    with pytest.raises(QuantityError, match=re.escape(message)):
        gs.phi(small_fit(), design)


def test_a_design_is_a_mapping_and_assumed_components_need_one() -> None:
    source = logit_source({"task": 1.0}, 0.0, facets=["task"])
    with pytest.raises(QuantityError, match="a design is a mapping of facets to numbers of levels"):
        gs.variance_budget(source, [("task", 3)])
    with pytest.raises(QuantityError, match=r"no design as collected.*each of task"):
        gs.variance_budget(source)
    assert one(gs.variance_budget(source, {"task": np.int64(5)}).variance) > 0


def test_one_level_of_a_facet_cannot_become_several_without_its_variance() -> None:
    table = grid({"task": range(6), "judge": ["gpt"], "mode": ["m"], "again": range(2)})
    counts = table.groupby(["task", "judge", "mode"], as_index=False).agg(
        k=("score", "sum"), n=("score", "size")
    )
    study = study_of(
        "task",
        gs.Facet("judge", role="error"),
        gs.Facet("mode", role="controlled"),
        score=None,
        successes="k",
        trials="n",
    )
    fit = fitted(study, counts, shape=(1, 4))
    same = gs.variance_budget(fit, {"task": 6, "trials": 2, "judge": 1, "mode": 1})
    np.testing.assert_allclose(same.draws.values, gs.variance_budget(fit).draws.values, rtol=1e-12)
    with pytest.raises(QuantityError, match=r"3 levels of 'judge'.*'judge' was not sampled"):
        gs.variance_budget(fit, {"task": 6, "trials": 2, "judge": 3})
    with pytest.raises(QuantityError, match="'mode' is controlled: it is pinned at one level"):
        gs.variance_budget(fit, {"task": 6, "trials": 2, "mode": 2})


def test_one_facet_of_a_merged_component_cannot_change_alone() -> None:
    # One rollout per task, each scored by two judges: task and rollout are one component.
    study = study_of(
        "task", within("rollout", "task"), gs.Facet("judge", role="error"), interactions="none"
    )
    table = grid({"task": range(6), "rollout": [0], "judge": range(2)})
    fit = fitted(study, table, shape=(2, 4))
    assert "task + task:rollout" in fit.components
    np.testing.assert_allclose(
        gs.variance_budget(fit, {"task": 6, "rollout": 1, "judge": 2}).draws.values,
        gs.variance_budget(fit).draws.values,
        rtol=1e-12,
    )
    assert gs.variance_budget(fit, {"task": 60, "rollout": 1, "judge": 2}).effective_levels[
        "task + task:rollout"
    ] == pytest.approx(60)
    with pytest.raises(QuantityError, match=r"'task \+ task:rollout' is one component.*alone"):
        gs.variance_budget(fit, {"task": 6, "rollout": 2, "judge": 2})


def test_merged_crossed_facets_go_together() -> None:
    study = study_of(
        "task", "prompt", gs.Facet("judge", role="error"), interactions="none", score=None,
        successes="k", trials="n",
    )  # fmt: skip
    table = grid({"task": range(8), "judge": range(4), "again": range(2)})
    table["prompt"] = table["judge"].astype(str) + "p"
    counts = table.groupby(["task", "prompt", "judge"], as_index=False).agg(
        k=("score", "sum"), n=("score", "size")
    )
    fit = fitted(study, counts, shape=(2, 4))
    design = {"task": 8, "prompt": 4, "judge": 4, "trials": 2}
    np.testing.assert_allclose(
        gs.variance_budget(fit, design).draws.values,
        gs.variance_budget(fit).draws.values,
        rtol=1e-12,
    )
    with pytest.raises(QuantityError, match=r"Given: \{'prompt': 4, 'judge': 8\}"):
        gs.variance_budget(fit, {**design, "judge": 8})
