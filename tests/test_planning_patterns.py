"""Judge patterns: q_A against every assignment written down, and against published numbers."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from assigned import assigned, q_of
from designs import study_of, within
from sources import logit_source, one

import gstudy as gs
from gstudy.errors import QuantityError
from gstudy.study.designs import JUDGES
from gstudy.variance.basis import basis_of
from gstudy.variance.designs import read_design
from gstudy.variance.pairs import pair_of
from gstudy.variance.patterns import Spread, coincidence, find_judge, unit_facets
from gstudy.variance.weights import balanced

JUDGE = gs.Facet("judge", role="error")

# Facets, what is nested in the judge, and the counts of each to try.
CASES: dict[str, tuple[list[Any], tuple[str, ...], dict[str, list[int]]]] = {
    "crossed": (
        ["task", "env", JUDGE],
        (),
        {"task": [1, 2, 3, 5, 6], "env": [1, 2, 4], "judge": [1, 2, 3, 5, 7]},
    ),
    "rollouts": (
        ["task", within("rollout", "task"), JUDGE],
        (),
        {"task": [1, 3, 4], "rollout": [1, 2, 3, 5], "judge": [1, 2, 3, 4, 6]},
    ),
    "two nested": (
        ["task", "env", within("rollout", "task", "env"), JUDGE],
        (),
        {"task": [2, 3], "env": [1, 3], "rollout": [1, 2, 5], "judge": [2, 3, 4]},
    ),
    "prompts of a judge": (
        ["task", within("rollout", "task"), JUDGE, within("wording", "judge", role="error")],
        ("wording",),
        {"task": [2, 3], "rollout": [1, 4], "judge": [2, 3], "wording": [1, 3]},
    ),
    "calls": (
        ["task", within("rollout", "task"), JUDGE, within("call", "rollout", "judge")],
        ("call",),
        {"task": [2, 5], "rollout": [1, 3], "judge": [2, 3], "call": [1, 2]},
    ),
    "judges of a task": (
        ["task", within("rollout", "task"), within("judge", "task", role="error")],
        (),
        {"task": [1, 3], "rollout": [1, 2, 5], "judge": [1, 2, 3]},
    ),
}


def designs_of(counts: dict[str, list[int]]) -> list[dict[str, int]]:
    return [dict(zip(counts, n, strict=True)) for n in itertools.product(*counts.values())]


def source_of(facets: list[Any], **rest: Any) -> gs.VarianceComponents:
    study = study_of(*facets, **rest)
    return gs.assume(study, dict.fromkeys(study.facet_names, 1.0), mu=0.0, scale="logit")


@pytest.mark.parametrize("judges", JUDGES)
@pytest.mark.parametrize("case", CASES)
def test_every_set_weighs_as_when_all_trials_are_written_down(case: str, judges: str) -> None:
    facets, inside, tried = CASES[case]
    structure = basis_of(source_of(facets)).structure
    sets = structure.sets()
    for design in designs_of(tried):
        rows = assigned(design, judges, inside=inside)
        asked = dict(design)
        if judges in ("one", "fresh"):
            del asked["judge"]
        counts = read_design(structure, gs.Design(asked, judges=judges))
        weights = balanced(structure, counts, sets, judges=judges)
        for index_set in sets:
            assert weights.q[index_set] == pytest.approx(q_of(rows, index_set), rel=1e-12), (
                design,
                sorted(index_set),
            )
        assert weights.noise == pytest.approx(1 / len(rows), rel=1e-14)


@pytest.mark.parametrize("judges", ["all", "round robin", "fresh", "one"])
def test_many_designs_at_a_time_are_each_of_them(judges: str) -> None:
    facets, _, tried = CASES["two nested"]
    structure = basis_of(source_of(facets)).structure
    sets = structure.sets()
    designs = designs_of(tried)
    if judges in ("one", "fresh"):
        designs = [{**design, "judge": 1} for design in designs]
    together = balanced(
        structure,
        {facet: np.array([float(d[facet]) for d in designs]) for facet in tried},
        sets,
        judges=judges,
    )
    for place, design in enumerate(designs):
        alone = balanced(structure, {f: float(n) for f, n in design.items()}, sets, judges=judges)
        for index_set in sets:
            found = np.broadcast_to(together.q[index_set], len(designs))[place]
            assert found == pytest.approx(alone.q[index_set], rel=1e-14)


def test_a_rotation_by_fourier_is_the_convolution_of_boxes() -> None:
    rng = np.random.default_rng(4)
    for _ in range(60):
        n_judges, free = int(rng.integers(1, 12)), rng.integers(1, 15, rng.integers(0, 4))
        hist = np.zeros(n_judges)
        for digits in itertools.product(*(range(n) for n in free)):
            hist[sum(digits) % n_judges] += 1
        expected = float((hist**2).sum() / hist.sum() ** 2)
        assert coincidence(n_judges, free.tolist()) == pytest.approx(expected, rel=1e-12)


def test_limits_of_a_rotation() -> None:
    large, endless = 10**7, np.inf
    assert coincidence(3, [endless, 2]) == pytest.approx(1 / 3, rel=1e-15)
    assert coincidence(3, [large + 1, 1]) == pytest.approx(1 / 3, rel=1e-6)
    # With more judges than sums of digits, units share one only where their sums agree.
    assert coincidence(endless, [4, 3]) == pytest.approx(coincidence(1000, [4, 3]), rel=1e-12)
    assert coincidence(endless, [4, 3]) == pytest.approx((1 + 4 + 9 + 9 + 4 + 1) / 144 * 1.0)
    assert coincidence(endless, [endless]) == 0.0
    assert coincidence(5, [5, 7]) == pytest.approx(1 / 5, rel=1e-15)
    spread = Spread({"task": endless, "judge": 3.0}, "round robin", "judge", frozenset({"judge"}))
    assert spread.levels(frozenset({"judge"})) == pytest.approx(3)
    assert spread.levels(frozenset({"task", "judge"})) == endless


def test_the_four_patterns_of_a_logistic_study(oracle: Any) -> None:
    case = oracle("extra")["cases"]["judge_patterns"]
    source = logit_source(
        case["logit_sd"],
        case["mu"],
        facets=["task", "rollout", "judge"],
        nested={"rollout": ["task"]},
        roles={"judge": "error"},
    )
    design = {"task": case["tasks"], "rollout": case["rollouts"]}
    panel = {**design, "judge": case["judges"]}
    found = {
        "all_judges": gs.Design(panel),
        "one_judge": gs.Design(design, judges="one"),
        "round_robin": gs.Design(panel, judges="round robin"),
        "fresh_judge_each_rollout": gs.Design(design, judges="fresh"),
    }
    for key, asked in found.items():
        variance = one(gs.variance_budget(source, asked).variance)
        assert variance == pytest.approx(case[key], abs=1e-8), key


def cyclic(oracle: Any) -> tuple[gs.VarianceComponents, dict[str, Any]]:
    given = oracle("published")["cyclic_judge"]
    study = study_of("scenario", within("generation", "scenario"), JUDGE, family="gaussian")
    return gs.assume(study, given["components"], mean=0.0), given


def test_cyclic_judge(oracle: Any) -> None:
    vc, given = cyclic(oracle)
    units = {"scenario": given["n_scenario"], "generation": 1}
    panel = {**units, "judge": given["n_judge"]}
    found = {
        "one judge": gs.Design(units, judges="one"),
        "all judges": gs.Design(panel),
        "round robin": gs.Design(panel, judges="round robin"),
    }
    for claim, pin in {"random_panel": [], "fixed_panel": ["judge"]}.items():
        for key, expected in given[claim].items():
            variance = one(gs.variance_budget(vc, found[key].replace(pin=pin)).variance)
            assert variance == pytest.approx(expected, abs=1e-12), (claim, key)
            both = gs.variance_budget(vc, found[key], pin=pin)
            assert one(both.variance) == variance


def test_a_rotation_that_does_not_come_out_even_costs_a_little() -> None:
    study = study_of("task", JUDGE, family="gaussian")
    vc = gs.assume(study, {"task": 0.0, "judge": 1.0, "task:judge": 0.0}, mean=0.0)
    even, odd = (
        one(
            gs.variance_budget(
                vc, gs.Design({"task": n, "judge": 3}, judges="round robin")
            ).variance
        )
        for n in (6, 7)
    )
    assert even == pytest.approx(1 / 3, rel=1e-14)
    assert odd == pytest.approx((9 + 4 + 4) / 49, rel=1e-14)


def test_fresh_judges_are_not_shared_by_two_systems() -> None:
    source = logit_source(
        {"system": 0.8, "task": 1.5, "judge": 0.7},
        0.3,
        facets=["system", "task", "judge"],
        roles={"system": "object", "judge": "error"},
        object="system",
        effects={"A": 0.5, "B": -0.4},
    )
    fresh = gs.Design({"task": 20}, judges="fresh")
    pair = pair_of(source, "A", "B", fresh)
    shared = {
        tuple(sorted(s)): float(v.sum()) for s, v in zip(pair.sets, pair.crossed, strict=True)
    }
    assert shared[("task",)] > 0
    assert shared[("judge",)] == shared[("judge", "task")] == 0.0
    # One judge for all is the same judge for both.
    lone = pair_of(source, "A", "B", gs.Design({"task": 20}, judges="one"))
    assert float(lone.crossed[lone.sets.index(frozenset({"judge"}))].sum()) > 0


def test_fresh_judges_are_in_the_relative_error() -> None:
    study = study_of("task", JUDGE, object="system", family="gaussian")
    parts = {"system": 1.0, "task": 0.5, "judge": 0.4, "task:judge": 0.3, "residual": 0.7}
    vc = gs.assume(study, parts, mean=0.0)
    n = 10
    found = {
        judges: one(gs.sem(vc, design, relative=True).draws) ** 2
        for judges, design in {
            "all": gs.Design({"task": n, "judge": 2}),
            "fresh": gs.Design({"task": n}, judges="fresh"),
        }.items()
    }
    assert found["all"] == pytest.approx(0.7 / (2 * n), rel=1e-14)
    assert found["fresh"] == pytest.approx((0.4 + 0.3 + 0.7) / n, rel=1e-14)


def test_a_finite_bank_of_judges_in_rotation() -> None:
    study = study_of("task", gs.Facet("judge", role="error", universe=3), family="gaussian")
    vc = gs.assume(study, {"task": 0.0, "judge": 1.0}, mean=0.0)
    found = gs.variance_budget(vc, gs.Design({"task": 7, "judge": 3}, judges="round robin"))
    # All three of three judges: what is left is that one of them has a task more.
    assert one(found.variance) == pytest.approx(17 / 49 - 1 / 3, rel=1e-12)
    with pytest.raises(QuantityError, match="'judge' has more levels than its universe"):
        gs.variance_budget(vc, gs.Design({"task": 7}, judges="fresh"))


def test_which_facet_is_the_judge() -> None:
    def judge(*facets: Any) -> str | None:
        study = study_of(*facets)
        return find_judge({f.name: f.role for f in study.facets}, study.rules)

    assert judge("task", JUDGE, gs.Facet("rater", role="error")) == "judge"
    assert judge("task", gs.Facet("rater", role="error")) == "rater"
    assert judge("task", gs.Facet("rater", role="error"), within("call", "rater")) == "rater"
    assert judge("task", within("call", "task", role="error")) is None
    assert judge("task", gs.Facet("x", role="error"), gs.Facet("y", role="error")) is None
    assert judge("task", gs.Facet("judge", role="controlled")) is None
    study = study_of("task", within("rollout", "task"), JUDGE, within("call", "judge"), object="s")
    roles = {f.name: f.role for f in study.facets}
    assert unit_facets(roles, study.rules, study.object) == ("task", "rollout")


def test_patterns_that_cannot_be() -> None:
    without = gs.assume(study_of("task"), {"task": 0.1}, mean=0.5)
    for judges in ("one", "round robin", "fresh"):
        with pytest.raises(QuantityError, match="no facet of the study is known as one"):
            gs.variance_budget(without, gs.Design({"task": 5}, judges=judges))
    vc = gs.assume(study_of("task", JUDGE), {"task": 0.1, "judge": 0.02}, mean=0.5)
    with pytest.raises(QuantityError, match="says how many levels of 'judge'"):
        gs.variance_budget(vc, gs.Design({"task": 5, "judge": 2}, judges="fresh"))
    with pytest.raises(QuantityError, match="how many levels of 'judge'"):
        gs.variance_budget(vc, gs.Design({"task": 5}, judges="round robin"))
    with pytest.raises(QuantityError, match="Did you mean 'round robin'"):
        gs.Design({"task": 5}, judges="round-robin")
    found = gs.variance_budget(vc, gs.Design({"task": 5}, judges="fresh"))
    assert "with task = 5, a fresh judge for each unit" in found.estimand


@pytest.mark.parametrize("judges", ["all", "one", "round robin", "fresh"])
def test_two_systems_differ_as_in_simulated_studies(judges: str) -> None:
    """Tasks and judges, crossed; a trial per call. Fresh judges are not those of the other."""
    n_studies, n_tasks, n_judges = 40_000, 7, 3
    task, judge, pair, mu, own = 1.3, 1.0, 0.8, 0.2, (0.4, -0.5)
    source = logit_source(
        {"system": 1.0, "task": task, "judge": judge, "task:judge": pair},
        mu,
        facets=["system", "task", "judge"],
        roles={"system": "object", "judge": "error"},
        object="system",
        effects={"A": own[0], "B": own[1]},
    )
    design = gs.Design({"task": n_tasks, "judge": n_judges}, judges=judges)
    if judges in ("one", "fresh"):
        design = design.replace(levels={"task": n_tasks})
    rows = assigned({"task": n_tasks, "judge": n_judges}, judges)
    rng = np.random.default_rng(11)
    tasks = task * rng.standard_normal((n_studies, n_tasks))
    panels = 1 + (judges == "fresh")
    graded = judge * rng.standard_normal((panels, n_studies, int(rows["judge"].max()) + 1))
    both = pair * rng.standard_normal((panels, n_studies, n_tasks, graded.shape[-1]))
    t, j = rows["task"].to_numpy(), rows["judge"].to_numpy()
    scores = []
    for place, effect in enumerate(own):
        panel = place if judges == "fresh" else 0
        eta = mu + effect + tasks[:, t] + graded[panel][:, j] + both[panel][:, t, j]
        scores.append((rng.random(eta.shape) < 1 / (1 + np.exp(-eta))).mean(axis=1))
    found = float(np.var(scores[1] - scores[0], ddof=1))
    expected = float(pair_of(source, "A", "B", design).difference.item())
    # The relative Monte Carlo error of a variance is about sqrt(2 / n).
    assert found == pytest.approx(expected, rel=4 * np.sqrt(2 / n_studies))
    for score, label in zip(scores, "AB", strict=True):
        alone = one(gs.variance_budget(source, design, system=label).variance)
        assert np.var(score, ddof=1) == pytest.approx(alone, rel=4 * np.sqrt(2 / n_studies))


def test_patterns_are_not_simulated_as_if_all_judged_all() -> None:
    study = study_of("task", JUDGE)
    with pytest.raises(QuantityError, match="every judge scores each unit"):
        gs.simulate(study, gs.Design({"task": 3, "judge": 2}, judges="round robin"), sd={"task": 1})
    frame = gs.simulate(study, gs.Design({"task": 3, "judge": 2}), sd={"task": 1}, seed=1)
    assert len(frame) == 6
