"""Designs side by side: every number against its neighbours, closed forms, units, refusals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from designs import grid, study_of, within
from handmade import small_fit
from sources import fitted, logit_source, one

import gstudy as gs
from gstudy.errors import QuantityError
from gstudy.variance.draws import normal_quantile

JUDGED = study_of(
    "task",
    gs.Facet("judge", role="error"),
    within("rollout", "system", "task"),
    object="system",
    interactions=["system:task"],
)
COST = {"task": 25, "rollout": 1.0, "judge": 0.02}


def judged_fit(**how: Any) -> Any:
    rows = grid({"system": "ABC", "task": range(6), "rollout": range(3), "judge": range(2)})
    return fitted(JUDGED, rows, shape=(2, 50), **how)


def values(found: Any, quantity: str, design: int = 0) -> np.ndarray:
    return np.asarray(found.draws.sel(quantity=quantity).isel(design=design).values)


@pytest.mark.parametrize(
    "design",
    [
        None,
        {"task": 20, "rollout": 2, "judge": 3},
        gs.Design({"task": 20, "rollout": 2, "judge": 3}, judges="round robin"),
        gs.Design({"task": 20, "rollout": 2}, judges="fresh"),
        gs.Design({"task": 20, "rollout": 2}, judges="one"),
        gs.Design({"task": 20, "rollout": 2, "judge": 2}, pin=["judge"]),
    ],
)
def test_every_number_is_its_neighbours(design: Any) -> None:
    fit = judged_fit()
    found = gs.compare_designs(fit, [design], cut=0.6, target=0.12, coverage=0.9)
    budget = gs.variance_budget(fit, design)
    expected = {
        "variance": budget.variance,
        "half_width": budget.half_width(0.9),
        "rerun": gs.rerun_noise(fit, design).draws,
        "phi": gs.phi(fit, design).draws,
        "phi_cut": gs.phi(fit, design, cut=0.6).draws,
        "generalizability": gs.generalizability(fit, design).draws,
        "p_target": (budget.half_width(0.9) <= 0.12).astype(float),
    }
    for quantity, draws in expected.items():
        assert values(found, quantity) == pytest.approx(draws.values, rel=1e-12)
    pairs = [gs.compare_designs(fit, [design], compared=(a, b)) for a, b in ("AB", "AC", "BC")]
    mean = np.mean([values(pair, "difference") for pair in pairs], axis=0)
    assert values(found, "difference") == pytest.approx(mean, rel=1e-12)
    z = normal_quantile(0.9) + normal_quantile(0.6)
    assert values(found, "mdd") == pytest.approx(np.minimum(z * np.sqrt(mean), 1.0))
    assert (values(found, "separate") >= values(found, "difference")).all()


def test_the_design_effect_of_one_facet_has_its_closed_form() -> None:
    study = study_of("task", within("rollout", "task"))
    vc = gs.assume(study, {"task": 2.0}, mu=0.4, scale="logit")
    icc = one(gs.icc(vc, "task").draws)
    for rollouts in (1, 4, 9):
        found = gs.compare_designs(vc, {"task": 30, "rollout": rollouts})
        effect = 1 + (rollouts - 1) * icc
        assert one(values_of(found, "design_effect")) == pytest.approx(effect, rel=1e-10)
        n = 30 * rollouts / effect
        assert one(values_of(found, "effective_n")) == pytest.approx(n, rel=1e-10)
        assert list(found.trials.values()) == [30 * rollouts]


def values_of(found: Any, quantity: str) -> Any:
    return found.draws.sel(quantity=quantity).isel(design=0)


def test_the_design_effect_counts_calls_levels_and_collected_trials() -> None:
    fit = judged_fit()
    rotated = gs.Design({"task": 20, "rollout": 2, "judge": 3}, judges="round robin")
    found = gs.compare_designs(fit, [None, rotated, {"task": 20, "rollout": 2, "judge": 3}])
    assert list(found.trials.values()) == [36, 40, 120]
    product = values(found, "effective_n") * values(found, "design_effect")
    assert product == pytest.approx(36)
    assert values(found, "effective_n", 2) * values(found, "design_effect", 2) == pytest.approx(120)
    graded = fitted(
        study_of("task", within("rollout", "task"), family="gaussian"),
        grid({"task": range(6), "rollout": range(3)}),
        shape=(1, 20),
    )
    found = gs.compare_designs(graded, {"task": 10, "rollout": 3})
    vc = gs.variance_components(graded).draws
    icc = vc.sel(component="task") / vc.sum("component")
    assert values(found, "design_effect") == pytest.approx(1 + 2 * icc.values, rel=1e-10)


def test_costs_are_of_one_system_or_of_those_that_are_named() -> None:
    fit = judged_fit()
    designs = {
        "all": {"task": 20, "rollout": 2, "judge": 3},
        "rotated": gs.Design({"task": 20, "rollout": 2, "judge": 3}, judges="round robin"),
    }
    found = gs.compare_designs(fit, designs, cost=COST)
    assert found.costs == pytest.approx({"all": 500 + 40 + 2.4, "rotated": 500 + 40 + 0.8})
    three = gs.compare_designs(fit, designs, cost=COST, systems=["A", "B", "C"])
    assert three.costs == pytest.approx({"all": 500 + 120 + 7.2, "rotated": 500 + 120 + 2.4})
    assert "cost: of 3 systems." in str(three)
    counted = gs.compare_designs(fit, designs)
    assert counted.costs == counted.trials == {"all": 120, "rotated": 40}
    assert "cost" not in counted.table().frame.columns
    assert math.isnan(gs.compare_designs(fit, None, cost=COST).costs["as collected"])


def test_costs_and_designs_of_the_study() -> None:
    study = study_of(
        "task",
        within("rollout", "task"),
        cost={"task": 2.0, "rollout": 0.5},
        designs={"small": {"task": 10, "rollout": 1}, "large": {"task": 20, "rollout": 3}},
    )
    vc = gs.assume(study, {"task": 1.0}, mu=0.0, scale="logit")
    found = gs.compare_designs(vc, study.designs)
    assert found.costs == {"small": 25.0, "large": 70.0}


# ---------------------------------------------------------------- what is left out


def left_out(found: Any) -> str:
    return " ".join(note for note in found.notes if note.startswith("Left out"))


def test_without_an_object_nothing_is_compared() -> None:
    vc = gs.assume(study_of("task"), {"task": 0.1, "residual": 0.1}, mean=0.5)
    found = gs.compare_designs(vc, {"task": 30})
    kept = {"variance", "half_width", "rerun", "design_effect", "effective_n"}
    assert set(found.draws.coords["quantity"].values) == kept
    expected = "Left out: Phi, E rho^2, differences and rankings. Phi and E rho^2 need an object"
    assert expected in left_out(found)


def test_score_scale_components_know_new_systems_alone() -> None:
    study = study_of("task", object="system")
    vc = gs.assume(study, {"system": 0.02, "task": 0.1, "residual": 0.12}, mean=0.6)
    found = gs.compare_designs(vc, {"task": 50}, pass_k=1)
    assert values(found, "difference").item() == pytest.approx(2 * 0.12 / 50)
    assert values(found, "separate").item() == pytest.approx(2 * 0.22 / 50)
    assert "score-scale components do not tell" in left_out(found).lower()
    with pytest.raises(QuantityError, match="two systems are compared by a fit of both"):
        gs.compare_designs(vc, {"task": 50}, compared=("A", "B"))


def test_one_system_of_a_source_is_compared_with_none() -> None:
    vc = logit_source(
        {"task": 1.0}, 0.0, facets=["task"], object="system", effects={"A": 0.1, "B": 0.2}
    )
    alone = gs.variance_components(vc, system="A")
    found = gs.compare_designs(alone, {"task": 50})
    assert "p_ranking" not in found.draws.coords["quantity"].values
    assert "of 'A' alone" in left_out(found)


def test_own_sds_compare_fitted_systems_and_have_no_phi() -> None:
    study = study_of(
        gs.Facet("task", role="legitimate", varies="system"),
        within("rollout", "system", "task"),
        object="system",
    )
    fit = fitted(study, grid({"system": "AB", "task": range(6), "rollout": range(3)}))
    found = gs.compare_designs(fit, {"task": 50, "rollout": 2}, system="A", pass_k=2)
    quantities = set(found.draws.coords["quantity"].values)
    assert {"p_ranking", "difference", "pass_k"} <= quantities
    assert "phi" not in quantities
    assert "each system has its own sd" in left_out(found).lower()


def test_designs_differ_in_what_they_have() -> None:
    fit = small_fit()
    found = gs.compare_designs(
        fit,
        [
            gs.Design({"task": 30, "rollout": 1}, name="single"),
            gs.Design({"task": 30, "rollout": 3}, pin=["task"], name="pinned"),
        ],
        pass_k=2,
    )
    summary = found.summary()
    assert ("single", "pass_k") not in summary.index
    assert summary.loc[("pinned", "pass_k"), "mean"] > 0
    assert "Left out of single: pass^2. Pass^2 needs at least 2 rollouts" in left_out(found)
    assert "pinned: a smaller claim, these tasks (pinned)." in found.notes
    one_level = fitted(
        study_of("task", gs.Facet("judge", role="error"), within("rollout", "task")),
        grid({"task": range(6), "judge": ["j"], "rollout": range(3)}),
    )
    notes = gs.compare_designs(one_level, {"task": 30, "judge": 1, "rollout": 2}).notes
    assert any(note.startswith("Not covered: judge") for note in notes)


def test_priors_alone_predict_new_systems() -> None:
    study = study_of("task", within("rollout", "system", "task"), object="system")
    design = {"task": 50, "rollout": 4}
    vc = gs.prior_components(study, design, draws=400)
    found = gs.compare_designs(vc, [design, {"task": 200, "rollout": 4}], systems=3, target=0.05)
    assert values(found, "variance") == pytest.approx(
        gs.variance_budget(vc, design).variance.values
    )
    means = found.summary()["mean"].unstack("quantity")
    assert (means["half_width"] > 0).all()
    ranked = means[["p_ranking", "p_winner"]]
    assert ((ranked > 1 / 6) & (ranked <= 1)).all(axis=None)
    assert any("prior" in note for note in found.notes)


# ---------------------------------------------------------------- how it is shown


def test_the_table_has_a_row_per_design_and_its_units() -> None:
    fit = judged_fit()
    designs = {
        "a": {"task": 20, "rollout": 2, "judge": 3},
        "b": {"task": 9, "rollout": 1, "judge": 1},
    }
    found = gs.compare_designs(fit, designs, target=0.1, cut=0.5, cost=COST)
    table = found.table(0.8)
    assert list(table.frame.index) == ["a", "b"]
    assert (table.scale, table.level) == ("score", 0.8)
    assert {"half-width", "lower", "upper", "MDD", "Phi(0.5)", "P(target)"} <= set(table.frame)
    text = str(found)
    assert " pt" in text
    assert "95% equal-tailed intervals" in text
    assert "at most 10 points" in text
    summary = found.summary(0.8)
    assert summary.attrs["scale"] == "score"
    assert (summary.attrs["level"], summary.attrs["coverage"]) == (0.8, 0.95)
    share = (values(found, "half_width") <= 0.1).mean()
    assert summary.loc[("a", "p_target"), "mean"] == pytest.approx(share)
    assert np.isnan(summary.loc[("a", "p_target"), "lower"])
    assert found.draws.dims == ("chain", "draw", "design", "quantity")
    assert found._repr_html_().count("<tr>") == 3


def test_assumed_components_have_no_intervals() -> None:
    vc = gs.assume(study_of("task"), {"task": 0.1, "residual": 0.1}, mean=0.5)
    table = gs.compare_designs(vc, {"task": 30}).table()
    assert table.level is None
    assert "lower" not in table.frame.columns
    assert any("Assumed components" in note for note in table.notes)


def test_a_score_that_never_varies_has_no_effective_number() -> None:
    vc = gs.assume(study_of("task"), {"task": 0.1}, mean=0.5)
    found = gs.compare_designs(vc, gs.Design({"task": 5}, pin=["task"], name="x"))
    summary = found.summary()
    assert ("x", "effective_n") not in summary.index
    assert summary.loc[("x", "design_effect"), "mean"] == 0
    assert "effective n" not in str(found.table().frame.columns)


def test_names_of_designs() -> None:
    vc = gs.assume(study_of("task"), {"task": 0.1, "residual": 0.1}, mean=0.5)
    found = gs.compare_designs(vc, [{"task": 30}, gs.Design({"task": 40}, name="more")])
    assert list(found.designs) == ["30 task", "more"]
    assert list(gs.compare_designs(vc, {"x": {"task": 30}}).designs) == ["x"]


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("designs", "how", "message"),
    [
        ([], {}, "no design to compare"),
        ({}, {}, "no design to compare"),
        (7, {}, "these are no designs"),
        ("task", {}, "these are no designs"),
        ([{"task": 3}, {"task": 3}], {}, "two designs are called '3 task'"),
        ({"taks": 3}, {}, "unknown facet 'taks'"),
        ({"task": 0}, {}, "number of levels of 'task' is not usable"),
        ({"task": 2.5}, {}, "number of levels of 'task' is not usable"),
        ([{"task": 30}, {"task": 90}], {}, "more levels than its universe"),
        ({"task": 3}, {"cost": {"task": -1}}, "price of 'task' is not usable"),
        ({"task": 3}, {"cost": {"taks": 1}}, "unknown facet 'taks'"),
        ({"task": 3}, {"target": 0}, "target is not usable"),
        ({"task": 3}, {"target": "3pt"}, "target is not usable"),
        ({"task": 3}, {"cut": 1.2}, "cut is not a score"),
        ({"task": 3}, {"coverage": 95}, "coverage is not a proportion"),
        ({"task": 3}, {"power": 0}, "power is not a proportion"),
        ({"task": 3}, {"seed": -1}, "seed is not usable"),
        ({"task": 3}, {"system": "Q"}, "no system 'Q'"),
        (None, {}, "no design as collected"),
    ],
)
def test_bad_input_is_refused(designs: Any, how: dict[str, Any], message: str) -> None:
    study = study_of(gs.Facet("task", role="legitimate", universe=50), object="system")
    vc = gs.assume(study, {"system": 0.01, "task": 0.1, "residual": 0.1}, mean=0.5)
    with pytest.raises(QuantityError, match=message):
        gs.compare_designs(vc, designs, **how)


def test_a_source_is_needed() -> None:
    with pytest.raises(QuantityError, match="a fit or variance components are needed"):
        gs.compare_designs({"task": 1.0}, {"task": 3})


def test_names_of_designs_are_not_cut() -> None:
    vc = gs.assume(
        gs.Study(
            score="passed",
            facets=[
                gs.Facet("task", role="legitimate"),
                gs.Facet("rollout", role="legitimate", nested_in=["task"]),
                gs.Facet("judge", role="error"),
            ],
        ),
        {"task": 0.08, "rollout": 0.1, "judge": 0.004},
        mean=0.6,
    )
    levels = {"task": 50, "rollout": 2, "judge": 3}
    designs = [gs.Design(levels), gs.Design(levels, judges="round robin", pin=["task"])]
    found = gs.compare_designs(vc, designs, cost={"task": 5}, target=0.05)
    text = str(found)
    assert "\N{HORIZONTAL ELLIPSIS}" not in text
    assert all(f"\n{name} " in text for name in found.designs)
    assert max(map(len, text.splitlines())) <= 80
