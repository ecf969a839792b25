"""The next-step table, against what is published and against the changed designs themselves."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from designs import checked, grid, study_of, within
from handmade import fit_by_hand, small_fit
from sources import fitted

import gstudy as gs
from gstudy.errors import QuantityError
from gstudy.variance.basis import basis_of
from gstudy.variance.draws import normal_quantile


def handbook(oracle: Any) -> tuple[gs.VarianceComponents, dict[str, Any]]:
    given = oracle("published")["handbook_docs_agent"]
    study = study_of(
        "query",
        "version",
        within("rollout", "query", "version"),
        within("judge_call", "query", "version", "rollout", role="error"),
    )
    return gs.assume(study, given["score_scale_components"], mean=given["mean"]), given


def variance_of(found: Any, step: str) -> np.ndarray:
    return np.asarray(found.draws.sel(step=step, quantity="variance").values.ravel())


def test_the_handbooks_table(oracle: Any) -> None:
    vc, given = handbook(oracle)
    rows = gs.next_steps(vc, given["design"], to={"judge_call": 3}).summary()
    rows["points"] = (100 * rows["mean"]).round(1)
    for published in given["next_steps"]:
        change = published["change"]
        if change == "none":
            row = rows.loc["now"]
        elif isinstance(change, str):
            row = rows[(rows["kind"] == "pin it, smaller claim") & (rows["facet"] == "version")]
            row = row.iloc[0]
        else:
            ((facet, n),) = change.items()
            row = rows.loc[f"{facet}: 1 to {n}" if facet != "query" else "query: 200 to 400"]
            assert row["after"] == n
        assert row["points"] == published["half_width_points"], change
        added = published.get("added_trials", published.get("added_judge_calls", 0))
        assert row["added_trials"] == added, change
    floor = rows[(rows["kind"] == "floor") & (rows["facet"] == "query")]["points"].item()
    assert floor == given["expected"]["unlimited_queries_half_width_points"]


def test_the_published_what_ifs(oracle: Any) -> None:
    given = oracle("published")["tee_mmlu"]
    study = study_of(
        "item", "sut", "variant", "temperature",
        within("replicate", "item", "variant", "sut", "temperature"),
        interactions=["item:sut", "item:variant", "variant:sut", "item:variant:sut:temperature"],
    )  # fmt: skip
    vc = gs.assume(study, given["components"], mean=0.7)
    found = gs.next_steps(vc, given["design"])
    rows, expected = found.summary(), given["expected"]["reduction_percent"]
    steps = {
        "double items": "item: 200 to 400",
        "double variants": "variant: 4 to 8",
        "one sut (n=1, still random)": "sut: 1 level",
        "one temperature": "temperature: 1 level",
        "double replications": "replicate: 8 to 16",
    }
    for name, step in steps.items():
        assert round(100 * rows.loc[step, "reduction"], 1) == expected[name], name
    single = gs.next_steps(vc, {**given["design"], "temperature": 1})
    both = variance_of(single, "sut: 1 level") / variance_of(found, "now")
    assert round(100 * (1 - both.item()), 1) == expected["one sut and one temperature"]
    # The same number of systems, another claim: the one widens, the other narrows.
    assert rows.loc["sut: pinned", "change"] < 0 < rows.loc["sut: 1 level", "change"]


def test_each_step_is_the_budget_of_its_design() -> None:
    fit = small_fit()
    design = {"task": 10, "rollout": 4}
    found = gs.next_steps(fit, design, to={"rollout": 7})
    changed = {
        "now": {},
        "task: 10 to 20": {"task": 20},
        "rollout: 4 to 7": {"rollout": 7},
        "task: 1 level": {"task": 1},
        "rollout: 1 level": {"rollout": 1},
        "task: no end": {"task": 10**13},
    }
    for step, change in changed.items():
        wanted = gs.variance_budget(fit, {**design, **change}).variance.values.ravel()
        assert variance_of(found, step) == pytest.approx(wanted, rel=1e-9, abs=1e-12), step
    pinned = gs.variance_budget(fit, design, pin=["task"]).variance.values.ravel()
    assert variance_of(found, "task: pinned") == pytest.approx(pinned, rel=1e-12)
    summary = found.summary()
    assert summary.attrs["interval"] == "equal-tailed"
    assert (summary["lower"] <= summary["mean"]).all()
    # Ratios are formed in each draw, and summarised last.
    width = found.draws.sel(quantity="half_width").values
    gain = (width[..., 0] - width[..., 1]) / 40
    assert summary["gain"].iloc[1] == pytest.approx(gain.mean())


@pytest.mark.parametrize("judges", ["one", "round robin", "fresh"])
def test_judge_patterns(judges: str) -> None:
    study = study_of("task", within("rollout", "task"), gs.Facet("judge", role="error"))
    names = {"task": 0.05, "rollout": 0.03, "judge": 0.01, "task:judge": 0.02, "residual": 0.04}
    vc = gs.assume(study, names, mean=0.6)
    levels = {"task": 7, "rollout": 2} | ({"judge": 3} if judges == "round robin" else {})
    found = gs.next_steps(vc, gs.Design(levels, judges=judges), cost={"judge": 1.0})
    for facet, n in levels.items():
        changed = gs.Design({**levels, facet: 2 * n}, judges=judges)
        step = f"{facet}: {n} to {2 * n}"
        wanted = gs.variance_budget(vc, changed).variance.values.ravel()
        assert variance_of(found, step) == pytest.approx(wanted, rel=1e-12)
    rows = found.summary()
    assert rows.loc["task: 7 to 14", "added_cost"] == 14
    if judges == "round robin":
        assert rows.loc["judge: 3 to 6", "added_cost"] == 0
    else:
        assert "judge" not in set(rows["facet"])


def uneven(seed: int = 4) -> pd.DataFrame:
    """Systems that ran other tasks, and tasks other numbers of rollouts."""
    rng = np.random.default_rng(seed)
    table = grid({"system": "AB", "task": range(9), "rollout": range(6)})
    return table[rng.random(len(table)) < 0.6].reset_index(drop=True)


def test_uneven_trials_are_scaled_exactly() -> None:
    """Twice the tasks is every trial again under new tasks; so are twice the rollouts."""
    study = study_of("task", within("rollout", "system", "task"), object="system")
    table = uneven()
    fit = fitted(study, table, shape=(2, 10))
    found = gs.next_steps(fit)
    trials = len(table) / 2
    for facet, start in (("task", 100), ("rollout", 100)):
        again = table.assign(**{facet: table[facet] + start})
        cells = checked(study, pd.concat([table, again])).cells
        vc = gs.variance_components(fit)
        twice = dataclasses.replace(vc, basis=dataclasses.replace(basis_of(fit), cells=cells))
        wanted = gs.variance_budget(twice).variance.values.ravel()
        (step,) = [s for s in found.steps if s.kind == "more levels" and s.facet == facet]
        assert variance_of(found, step.name) == pytest.approx(wanted, rel=1e-12), facet
        assert step.trials == pytest.approx(trials)
    now = gs.variance_budget(fit).variance.values.ravel()
    assert variance_of(found, "now") == pytest.approx(now, rel=1e-12)


def test_a_merged_component_has_both_ends() -> None:
    """Each task ran in an environment of its own: whose variance it is decides what more help."""
    study = study_of("task", "environment", within("rollout", "task", "environment"))
    rows = [
        {"task": t, "environment": t, "rollout": r, "score": (t + r) % 2}
        for t, r in itertools.product(range(6), range(4))
    ]
    fit = fitted(study, rows, shape=(1, 20))
    vc = gs.variance_components(fit)
    (component,) = [name for name in vc.rows if name != "residual"]
    own = vc.draws.sel(component=component).values.ravel()
    noise = vc.draws.sel(component="residual").values.ravel()
    found = gs.next_steps(fit)
    step = "task: 6 to 12"
    assert variance_of(found, f"{step} (at best)") == pytest.approx(own / 12 + noise / 48)
    assert variance_of(found, f"{step} (at worst)") == pytest.approx(own / 6 + noise / 48)
    bounds = found.summary()["bound"]
    assert {"at best", "at worst"} <= set(bounds)
    assert "cannot tell" in str(found)


def test_an_exhausted_bank_has_no_more_levels() -> None:
    study = study_of(gs.Facet("task", role="legitimate", universe=6), within("rollout", "task"))
    rows = [
        {"task": t, "rollout": r, "score": (t + r) % 2}
        for t, r in itertools.product(range(6), range(4))
    ]
    found = gs.next_steps(fitted(study, rows, shape=(1, 20)))
    more = {s.facet for s in found.steps if s.kind in ("more levels", "floor")}
    assert more == {"rollout"}
    assert "Exhausted: all 6 tasks" in str(found)
    half = gs.next_steps(gs.assume(study, {"task": 0.1}, mean=0.5), {"task": 4, "rollout": 1})
    rows = half.summary()
    assert rows.loc["task: 4 to 6", "mean"] == pytest.approx(0, abs=1e-9)
    z = normal_quantile(0.95)
    assert rows.loc["now", "mean"] == pytest.approx(z * (0.1 / 4 - 0.1 / 6) ** 0.5)


def test_bad_steps_are_refused(oracle: Any) -> None:
    vc, given = handbook(oracle)
    design = given["design"]
    for to, message in (
        ({"qeury": 3}, r"'qeury' cannot change: it is no facet.*Did you mean 'query'"),
        ({"query": 0}, "whole numbers from 1 on"),
        ({"query": 2.5}, "whole numbers from 1 on"),
    ):
        with pytest.raises(QuantityError, match=message):
            gs.next_steps(vc, design, to=to)
    with pytest.raises(QuantityError, match="numbers from 0 on"):
        gs.next_steps(vc, design, cost={"query": -1})
    with pytest.raises(QuantityError, match="unknown facet 'qeury'"):
        gs.next_steps(vc, design, cost={"qeury": 1})
    with pytest.raises(QuantityError, match="no design as collected"):
        gs.next_steps(vc)
    with pytest.raises(QuantityError, match="cannot change: it is pinned"):
        gs.next_steps(vc, gs.Design(design, pin=["version"]), to={"version": 2})


def test_more_calls_of_rollouts_that_ran_once_have_both_ends() -> None:
    """Rollouts and their one call are inside the residual: more calls repeat the rollout or not."""
    study = study_of("task", within("rollout", "task"), within("call", "task", "rollout"))
    rows = grid({"task": range(8), "rollout": range(3)}).assign(call=0)
    fit = fit_by_hand(checked(study, rows), shape=(1, 10))
    found = gs.next_steps(fit)
    now, worst = (variance_of(found, s) for s in ("now", "call: 1 to 2 (at worst)"))
    assert worst == pytest.approx(now)
    assert (variance_of(found, "call: 1 to 2 (at best)") < now).all()
    assert (variance_of(found, "rollout: 3 to 6") < now).all()


def test_both_ends_are_those_of_the_bounded_design() -> None:
    """Steps scale what stands, comparisons predict anew: one component of tasks and rollouts."""
    study = study_of("task", within("rollout", "task"), gs.Facet("judge", role="error"))
    rows = [
        {"task": t, "rollout": 0, "judge": j, "score": (t + j) % 2}
        for t in range(8)
        for j in range(3)
    ]
    fit = fitted(study, rows, shape=(1, 20))
    steps = gs.next_steps(fit)
    compared = gs.compare_designs(fit, {"x": {"task": 8, "rollout": 2, "judge": 3}}, bounds=True)
    for end, name in (("at best", "at least"), ("at worst", "at most")):
        expected = compared.draws.sel(design=f"x ({name})", quantity="variance").values.ravel()
        found = variance_of(steps, f"rollout: 1 to 2 ({end})")
        assert found == pytest.approx(expected, rel=1e-9), end


def test_what_is_added_is_paid_for_so_many_systems() -> None:
    study = study_of("task", within("rollout", "system", "task"), object="system")
    vc = gs.assume(study, {"system": 0.02, "task": 0.1, "rollout": 0.1}, mean=0.6)
    cost = {"task": 10, "rollout": 1}
    for design in ({"task": 20, "rollout": 2}, gs.Design({"task": 20, "rollout": 2})):
        found = gs.next_steps(vc, design, cost=cost, systems=3)
        row = found.summary().loc["task: 20 to 40"]
        # Tasks are shared, and trials are of each system.
        assert (row["added_trials"], row["added_cost"]) == (3 * 40, 10 * 20 + 3 * 40)
        assert "Added trials and costs are of 3 systems." in found.notes
        compared = gs.compare_designs(
            vc, [design, {"task": 40, "rollout": 2}], cost=cost, systems=3
        )
        first, second = compared.costs.values()
        assert row["added_cost"] == pytest.approx(second - first)
    for wrong in (0, 1.5, True, "3"):
        with pytest.raises(QuantityError, match="number of systems is not usable"):
            gs.next_steps(vc, {"task": 20, "rollout": 2}, systems=wrong)


def test_levels_that_are_means_are_explained() -> None:
    study = study_of("task", within("rollout", "system", "task"), object="system")
    found = gs.next_steps(fitted(study, uneven(), shape=(1, 10)))
    (note,) = [text for text in found.notes if text.startswith("Means as collected")]
    levels = {s.facet: s.before for s in found.steps if s.kind == "more levels"}
    assert f"rollout {levels['rollout']:.4g}" in note
    assert "multiplies all of them alike" in note
    even = [{"task": t, "rollout": r, "score": t % 2} for t in range(6) for r in range(2)]
    fit = fitted(study_of("task", within("rollout", "task")), even, shape=(1, 10))
    assert not [text for text in gs.next_steps(fit).notes if "Means" in text]
