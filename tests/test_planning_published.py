"""Design studies that others have printed, from assumed components to their last digit."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from designs import grid, study_of, within
from sources import fitted, logit_source, one

import gstudy as gs
from gstudy.planning.prices import price
from gstudy.planning.terms import Terms, error_terms, score_terms

pytestmark = pytest.mark.reference


def variance(terms: Terms, design: Any) -> float:
    return float(terms.variance(terms.factors(terms.counts(design)))[0, 0])


def coefficients(terms: Terms, design: Any) -> dict[str, float]:
    """E rho^2 and Phi with their error variances."""
    counts = terms.counts(design)
    between = float(terms.between(counts)[0, 0])
    relative, absolute = (
        float(terms.variance(terms.factors(counts, relative=kind))[0, 0]) for kind in (True, False)
    )
    return {
        "rel_err_var": relative,
        "abs_err_var": absolute,
        "Erho2": between / (between + relative),
        "Phi": between / (between + absolute),
    }


def reference(oracle: Any, name: str) -> dict[str, Any]:
    found: dict[str, Any] = {row["id"]: row for row in oracle("references")["references"]}
    return found[name]["expected"]


# ---------------------------------------------------------------- the handbook


def handbook(oracle: Any) -> tuple[gs.VarianceComponents, dict[str, Any]]:
    given = oracle("published")["handbook_docs_agent"]
    study = study_of(
        "query",
        "version",
        within("rollout", "query", "version"),
        within("judge_call", "query", "version", "rollout", role="error"),
    )
    return gs.assume(study, given["score_scale_components"], mean=given["mean"]), given


def half_width_points(value: float) -> float:
    return round(100 * NormalDist().inv_cdf(0.975) * math.sqrt(value), 1)


def test_the_handbooks_whole_table(oracle: Any) -> None:
    vc, given = handbook(oracle)
    terms, pinned = score_terms(vc), score_terms(vc, pin=["version"])
    design = gs.Design(given["design"])
    seen = 0
    for step in given["next_steps"]:
        change = step["change"] if isinstance(step["change"], dict) else {}
        own = pinned if "pin" in str(step["change"]) else terms
        larger = design.with_levels(change)
        assert half_width_points(variance(own, larger)) == step["half_width_points"], step
        for key, unit in {"added_trials": "rollout", "added_judge_calls": "judge_call"}.items():
            if key in step:
                before, after = (price(vc.basis.study, {unit: 1}, d) for d in (design, larger))
                assert after - before == step[key], step
                seen += 1
    assert seen == 5
    assert terms.means == pytest.approx([given["mean"]])


def test_the_handbooks_floor_and_shares(oracle: Any) -> None:
    vc, given = handbook(oracle)
    terms, expected = score_terms(vc), given["expected"]
    floor = terms.factors({**given["design"], "query": np.inf})
    points = half_width_points(float(terms.variance(floor)[0, 0]))
    assert points == expected["unlimited_queries_half_width_points"]
    factors = terms.factors(terms.counts(given["design"]))
    parts = factors[0] * terms.values[:, 0]
    assert parts.sum() == pytest.approx(expected["variance"], abs=1e-15)
    shares = [round(100 * x, 1) for x in parts / parts.sum()]
    assert shares == [*expected["shares_percent"].values(), 0.0]


# ---------------------------------------------------------------- the paper, TEE, Miller


def test_the_papers_allocation(oracle: Any) -> None:
    given = oracle("published")["paper_allocation"]
    study = study_of("task", within("trial", "task"))
    terms = score_terms(gs.assume(study, {"task": 0.1, "trial": 0.02}, mean=0.5))
    designs = [{"task": d["n"], "trial": d["T"]} for d in given["designs"]]
    assert {price(study, None, design) for design in designs} == {400}
    wide, narrow = (math.sqrt(variance(terms, design)) for design in designs)
    expected = given["expected"]["standard_error_reduction_percent"]
    assert round(100 * (1 - wide / narrow)) == expected


def test_tees_what_ifs(oracle: Any) -> None:
    given = oracle("published")["tee_mmlu"]
    parts = dict(given["components"])
    cell = ("item", "variant", "sut", "temperature")
    study = study_of(*cell, within("replicate", *cell), family="gaussian")
    terms = score_terms(gs.assume(study, parts, mean=0.0))
    design, expected = gs.Design(given["design"]), given["expected"]
    now = variance(terms, design)
    assert now == pytest.approx(expected["variance"], rel=1e-12)
    changes = {
        "double items": {"item": 400},
        "double variants": {"variant": 8},
        "one sut (n=1, still random)": {"sut": 1},
        "one temperature": {"temperature": 1},
        "one sut and one temperature": {"sut": 1, "temperature": 1},
        "double replications": {"replicate": 16},
    }
    assert set(changes) == set(expected["reduction_percent"])
    for name, change in changes.items():
        reduction = 100 * (1 - variance(terms, design.with_levels(change)) / now)
        assert round(reduction, 1) == expected["reduction_percent"][name], name
    names = [terms.structure.name(s) for s in terms.sets]
    share = dict(zip(names, terms.factors(design)[0] * terms.values[:, 0] / now, strict=False))
    printed = expected["shares_percent"]
    items = printed["within-category item"] + printed["between-category"]
    assert round(100 * share["item"], 2) == pytest.approx(items)
    for printed_as, own in {
        "item:sut": "item:sut",
        "sut": "sut",
        "variant:sut": "variant:sut",
        "item:variant": "item:variant",
        "variant": "variant",
    }.items():
        assert round(100 * share[own], 2) == printed[printed_as], own


def test_millers_reductions_and_number_of_questions(oracle: Any) -> None:
    given = oracle("published")["miller"]
    reductions = given["variance_reduction_uniform_tasks"]
    study = study_of("task", within("rollout", "task"))
    terms = score_terms(gs.assume(study, reductions["components"], mean=0.5))
    once = variance(terms, {"task": 100, "rollout": 1})
    for k in (2, 4, 6):
        found = 1 - variance(terms, {"task": 100, "rollout": k}) / once
        assert found == pytest.approx(reductions[f"K={k}"], abs=1e-12)
    floor = terms.variance(terms.factors({"task": 100, "rollout": np.inf}))[0, 0]
    assert 1 - floor / once == pytest.approx(reductions["limit"], abs=1e-12)

    asked = given["n_for_3_points"]
    paired = study_of("question", family="gaussian")
    terms = score_terms(gs.assume(paired, {"question": asked["omega2"]}, mean=0.0))
    n = np.arange(1.0, 2000.0)
    normal = NormalDist()
    z = normal.inv_cdf(1 - asked["alpha"] / 2) + normal.inv_cdf(asked["power"])
    detectable = z * np.sqrt(terms.variance(terms.factors({"question": n}))[:, 0])
    assert n[detectable <= asked["delta"]][0] == asked["n"]


# ---------------------------------------------------------------- Brennan 2001


def test_brennans_first_set(oracle: Any) -> None:
    expected = reference(oracle, "brennan2001_set1_pxi")
    study = study_of("i", object="p", family="gaussian")
    var = expected["var"]
    vc = gs.assume(study, {"p": var["p"], "i": var["i"], "residual": var["pi"]}, mean=0.0)
    terms = error_terms(vc)
    for name in ("Erho2", "Phi"):
        for key, value in expected[name].items():
            found = coefficients(terms, {"i": int(key.removeprefix("n_i="))})
            assert found[name] == pytest.approx(value, abs=1e-8), (name, key)


def test_brennans_second_set_is_nested(oracle: Any) -> None:
    expected = reference(oracle, "brennan2001_set2_i_nested_p")
    study = study_of(within("i", "p"), object="p", family="gaussian")
    terms = error_terms(
        gs.assume(study, {"p": expected["var"]["p"], "i": expected["var"]["i:p"]}, mean=0.0)
    )
    found = coefficients(terms, {"i": 8})
    assert found["Erho2"] == found["Phi"]
    assert found["Phi"] == pytest.approx(expected["Erho2=Phi(8)"], abs=1e-8)


def fourth_set(expected: dict[str, Any], **task: Any) -> gs.VarianceComponents:
    var = expected["var"]
    facets = [gs.Facet("t", role="legitimate", **task), within("r", "t", role="error")]
    study = study_of(*facets, object="p", family="gaussian")
    parts = {
        "p": var["p"],
        "t": var["t"],
        "r": var["r:t"],
        "p:t": var["pt"],
        "residual": var["pr:t"],
    }
    return gs.assume(study, parts, mean=0.0)


def test_brennans_fourth_set_with_tasks_random_and_fixed(oracle: Any) -> None:
    expected = reference(oracle, "brennan2001_set4_px(r:t)")
    design = {"t": 3, "r": 4}
    vc = fourth_set(expected)
    found = coefficients(error_terms(vc), design)
    for key, value in expected["Dstudy_n_t=3_n_r=4"].items():
        assert found[key] == pytest.approx(value, abs=1e-8), key
    fixed = expected["Dstudy_t_fixed"]
    pinned = coefficients(error_terms(vc, pin=["t"]), gs.Design(design, pin=["t"]))
    # The universe of three tasks is the same claim.
    bank = coefficients(error_terms(fourth_set(expected, universe=3)), design)
    for key, value in fixed.items():
        assert pinned[key] == pytest.approx(value, abs=1e-8), key
        assert bank[key] == pytest.approx(value, abs=1e-8), key


def test_brennans_unbalanced_set_as_collected(oracle: Any) -> None:
    given = {row["id"]: row for row in oracle("references")["references"]}
    row = given["brennan2001_unbalanced_px(i:h)"]
    expected, var = row["expected"], row["expected"]["var_henderson1"]
    study = gs.Study(
        score="score",
        object="p",
        family="gaussian",
        facets=[gs.Facet("h", role="legitimate"), within("i", "h")],
        interactions=["p:h"],
    )
    table = grid({"p": range(8), "h": range(3), "i": range(4)})
    kept = np.array(row["input"]["n_i_per_h"])[table["h"]]
    fit = fitted(study, table[table["i"] < kept])
    parts = {"p": var["p"], "h": var["h"], "i": var["i:h"], "p:h": var["ph"]}
    vc = gs.assume(study, {**parts, "residual": var["p(i:h)"]}, base=fit)
    for key, coefficient in {"Erho2": gs.generalizability, "Phi": gs.phi}.items():
        draws = coefficient(vc).draws.values
        np.testing.assert_allclose(draws, expected[key], atol=1e-8)


# ---------------------------------------------------------------- finite universes


def test_finite_universes_of_nested_facets(oracle: Any) -> None:
    case = oracle("extra")["cases"]["finite_universe_nested"]
    for key, expected in case["variance"].items():
        sizes = dict(part.split("=") for part in key.split(","))
        bank = {f: None if n == "inf" else int(n) for f, n in sizes.items()}
        facets = [
            gs.Facet("h", role="legitimate", universe=bank["h"]),
            gs.Facet("i", role="legitimate", nested_in=["h"], universe=bank["i"]),
            gs.Facet("e", role="legitimate", universe=bank["e"]),
            within("rollout", "h", "i", "e"),
        ]
        study = study_of(*facets)
        variances = {name: sd**2 for name, sd in case["logit_sd"].items()}
        vc = gs.assume(study, variances, mu=case["mu"], scale="logit")
        assert variance(score_terms(vc), case["design"]) == pytest.approx(expected, abs=1e-8), key


def test_a_finite_facet_in_phi(oracle: Any) -> None:
    case = oracle("extra")["cases"]["phi_finite_facet"]
    facets = [
        "task",
        gs.Facet("env", role="legitimate", universe=case["universe"]["env"]),
        within("rollout", "system", "task", "env"),
    ]
    study = study_of(*facets, object="system")
    variances = {name: sd**2 for name, sd in case["logit_sd"].items()}
    terms = error_terms(gs.assume(study, variances, mu=case["mu"], scale="logit"))
    found = coefficients(terms, case["design"])
    between = terms.between(terms.counts(case["design"]))[0, 0]
    assert between == pytest.approx(case["v_object_universe"], abs=1e-8)
    assert found["abs_err_var"] == pytest.approx(case["var_absolute"], abs=1e-8)
    assert found["rel_err_var"] == pytest.approx(case["var_relative"], abs=1e-8)
    assert found["Phi"] == pytest.approx(case["Phi"], abs=1e-8)
    assert found["Erho2"] == pytest.approx(case["Erho2"], abs=1e-8)
    assert abs(found["Phi"] - case["WRONG_literal_rule_Phi"]) > 0.1


def test_phi_of_crossed_judges(oracle: Any) -> None:
    case = oracle("extra")["cases"]["phi_erho2_crossed"]
    source = logit_source(
        case["logit_sd"],
        case["mu"],
        facets=["system", "task", "judge"],
        roles={"system": "object", "judge": "error"},
        object="system",
    )
    found = coefficients(error_terms(source), case["design"])
    assert found["Phi"] == pytest.approx(case["Phi"], abs=1e-8)
    assert found["Erho2"] == pytest.approx(case["Erho2"], abs=1e-8)
    assert one(gs.phi(source, case["design"]).draws) == pytest.approx(found["Phi"], abs=1e-14)
