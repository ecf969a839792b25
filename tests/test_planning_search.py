"""The search against trying every design."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from designs import checked, grid, study_of, within
from enumerated import Tried, counted_cost, every_design, goal_draws, score_of
from handmade import fit_by_hand

import gstudy as gs
from gstudy.errors import QuantityError
from gstudy.planning.found import FoundDesigns
from gstudy.planning.terms import error_terms, score_terms
from gstudy.variance.basis import basis_of

CLOSE = 1e-9
RISE = ("phi", "generalizability")


def random_study(rng: np.random.Generator) -> gs.Study:
    """Tasks, and some of environments, rollouts, judges, calls nested in them, and systems."""
    kinds = rng.random(4) < [0.4, 0.8, 0.7, 0.3]
    facets = [gs.Facet("task", role="legitimate", universe=_universe(rng))]
    if kinds[0]:
        facets.append(gs.Facet("site", role="legitimate", universe=_universe(rng)))
    if kinds[1]:
        facets.append(within("rollout", *(f.name for f in facets)))
    if kinds[2]:
        facets.append(gs.Facet("judge", role="error", universe=_universe(rng)))
    if kinds[3] and kinds[2]:
        facets.append(within("call", "judge", role="error"))
    return study_of(*facets, **({"object": "system"} if rng.random() < 0.6 else {}))


def _universe(rng: np.random.Generator) -> int | None:
    return int(rng.integers(3, 6)) if rng.random() < 0.3 else None


def random_source(study: gs.Study, rng: np.random.Generator) -> Any:
    """Assumed components of both scales, or some draws of a fit made by hand; zeros among them."""
    names = [name for name in study.facet_names if name != study.object]
    whole = [study.object] if study.object else []
    pairs = [":".join(pair) for pair in itertools.combinations([*whole, *names], 2)]
    crossed = [p for p in pairs if study.closure(p.split(":")[1]) == {p.split(":")[1]}]
    known = [*whole, *names, *(p for p in crossed if rng.random() < 0.5)]
    variances = {n: float(rng.choice([0.0, rng.random()], p=[0.15, 0.85])) for n in known}
    if rng.random() < 0.5:
        return gs.assume(study, variances, mu=float(rng.normal()), scale="logit")
    shares = {name: 0.05 * v for name, v in variances.items()} | {"residual": rng.random() / 20}
    return gs.assume(study, shares, mean=0.5)


def fitted_source(study: gs.Study, rng: np.random.Generator) -> Any:
    n_levels = int(rng.integers(2, 4))
    rows = grid({facet: range(n_levels) for facet in study.facet_names}, seed=3)
    return fit_by_hand(checked(study, rows), shape=(1, 9), seed=5)


def random_space(
    study: gs.Study, rng: np.random.Generator
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Bounds and multiples of a search, and the values that they stand for."""
    values, bounds, multiples = {}, {}, {}
    for facet in study.facets:
        if facet.role == "object":
            continue
        low = int(rng.integers(1, 3))
        steps = [0, 1, 2, 5] if facet.name in ("task", "judge") else [0, 1]
        high = min(low + int(rng.choice(steps)), facet.universe or 9)
        found = list(range(low, high + 1))
        kind = rng.random()
        if kind < 0.2:
            found = sorted(rng.choice(found, size=max(1, len(found) - 1), replace=False).tolist())
            bounds[facet.name] = found if len(found) > 1 else found[0]
        else:
            bounds[facet.name] = (found[0], found[-1])
        if kind > 0.8 and any(n % 2 == 0 for n in found):
            multiples[facet.name] = 2
            found = [n for n in found if n % 2 == 0]
        values[facet.name] = found
    return values, {"bounds": bounds, "multiples": multiples}


def random_cost(study: gs.Study, rng: np.random.Generator) -> dict[str, float] | None:
    if rng.random() < 0.2:
        return None
    names = [f.name for f in study.facets if f.role != "object" and f.name != "call"]
    prices = {name: float(rng.integers(0, 4)) for name in names if rng.random() < 0.7}
    return {**prices, "trials": 0.5} if rng.random() < 0.3 or not any(prices.values()) else prices


def tried(source: Any, study: gs.Study, values: Any, cost: Any, how: Any, goal: str) -> list[Tried]:
    """Every design of the space with its cost and draws; those that are refused are none."""
    systems = 2 if goal in ("difference", "mdd") else 1
    found = []
    for design in every_design(values, how["judges"], how["pin"]):
        price = counted_cost(study, cost or {"trials": 1.0}, design, systems)
        try:
            values = score_of(source, design, goal)
        except QuantityError as error:
            if "universe" not in str(error) and "one component" not in str(error):
                raise
            continue
        sign = -1 if goal in RISE else 1
        found.append(Tried(design, price, goal_draws(values, goal), sign * values.mean()))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("fitted", [False, True])
@pytest.mark.parametrize("seed", range(20, 300))
def test_the_search_is_exhaustive_in_many_spaces(seed: int, fitted: bool) -> None:
    test_the_search_is_exhaustive(seed, fitted)


@pytest.mark.parametrize("fitted", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_the_search_is_exhaustive(seed: int, fitted: bool) -> None:
    rng = np.random.default_rng(seed)
    study = random_study(rng)
    source = fitted_source(study, rng) if fitted else random_source(study, rng)
    goals = ["half_width"]
    if study.object is not None:
        goals += ["difference", "mdd", "phi", "generalizability"]
    goal = str(rng.choice(goals))
    named = [f.name for f in study.facets if f.role != "object"]
    judges = ["all"]
    if "judge" in named:
        judges = [str(p) for p in rng.permutation(["all", "one", "round robin", "fresh"])]
        judges = judges[: rng.integers(1, 5)]
    pin = [str(rng.choice(named))] if rng.random() < 0.25 else []
    sampled = basis_of(source).structure.facets
    pin = [facet for facet in pin if facet in sampled]
    how = {"judges": judges, "pin": pin}
    values, limits = random_space(study, rng)
    cost = random_cost(study, rng)
    designs = tried(source, study, values, cost, how, goal)
    if not designs:
        with pytest.raises(QuantityError, match="leave no design"):
            gs.best_design(source, budget=1e6, goal=goal, cost=cost, **how, **limits)
        return
    _check_best(source, designs, rng, goal=goal, cost=cost, **how, **limits)
    _check_cheapest(source, designs, rng, goal=goal, cost=cost, **how, **limits)
    _check_frontier(source, designs, goal=goal, cost=cost, **how, **limits)


def _check_best(source: Any, designs: list[Tried], rng: Any, **how: Any) -> None:
    costs = np.array([t.cost for t in designs])
    budget = float(rng.choice(costs)) if len(costs) else 1.0
    if budget == 0:
        budget = float(costs.max()) or 1.0
    within_it = [t for t in designs if t.cost <= budget * (1 + 1e-12)]
    found = gs.best_design(source, budget=budget, **how)
    scores = np.array([t.score for t in within_it])
    best = scores.min()
    slack = CLOSE * abs(best) + 1e-15
    place = next(i for i, t in enumerate(within_it) if t.design == found.design)
    assert scores[place] <= best + slack
    assert found.cost == pytest.approx(within_it[place].cost, rel=1e-12)
    same = [t for t, s in zip(within_it, scores, strict=True) if s <= best + slack / 1e4]
    assert found.cost <= min(t.cost for t in same) * (1 + 1e-9)
    assert found.draws.values.ravel() == pytest.approx(within_it[place].draws, rel=1e-9, abs=1e-12)


def _check_cheapest(source: Any, designs: list[Tried], rng: Any, **how: Any) -> None:
    rises = how["goal"] in RISE
    probability = float(rng.choice([0.5, 0.8]))
    middle = np.array(
        [np.quantile(t.draws, 1 - probability if rises else probability) for t in designs]
    )
    target = float(rng.choice(middle)) * (1 - 1e-7 if rises else 1 + 1e-7)
    if not 0 < target < 1:
        return
    met = [
        t
        for t in designs
        if ((t.draws >= target) if rises else (t.draws <= target)).mean() >= probability - 1e-12
    ]
    if not met:
        with pytest.raises(QuantityError, match="no design meets"):
            gs.cheapest_design(source, target=target, probability=probability, **how)
        return
    found = gs.cheapest_design(source, target=target, probability=probability, **how)
    assert found.cost == pytest.approx(min(t.cost for t in met), rel=1e-12)
    assert found.design in [t.design for t in met]
    same = [t for t in met if t.cost <= found.cost * (1 + 1e-12)]
    scores = np.array([t.score for t in same])
    place = [t.design for t in same].index(found.design)
    assert scores[place] <= scores.min() + CLOSE * abs(scores.min()) + 1e-12


def _check_frontier(source: Any, designs: list[Tried], **how: Any) -> None:
    found = gs.design_frontier(source, **how)
    kept: list[tuple[float, float]] = []
    for t in sorted(designs, key=lambda t: (round(t.cost, 9), t.score)):
        if not kept or t.score < kept[-1][1] - CLOSE * abs(kept[-1][1]) - 1e-12:
            kept.append((t.cost, t.score))
    assert found.costs == pytest.approx([cost for cost, _ in kept], rel=1e-9)
    known = {(t.design, round(t.cost, 9)): t.score for t in designs}
    scores = [known[d, round(c, 9)] for d, c in zip(found.designs, found.costs, strict=True)]
    assert scores == pytest.approx([score for _, score in kept], rel=1e-8, abs=1e-11)


@pytest.mark.parametrize("goal", ["half_width", "phi"])
def test_without_bounds_the_cheapest_is_that_of_a_wide_table(goal: str) -> None:
    study = study_of("task", within("rollout", "system", "task"), object="system")
    fit = fit_by_hand(
        checked(study, grid({"system": range(3), "task": range(4), "rollout": range(3)})),
        shape=(1, 50),
    )
    n, m = (x.ravel() for x in np.meshgrid(np.arange(1, 1500), np.arange(1, 30), indexing="ij"))
    terms = score_terms(fit) if goal == "half_width" else error_terms(fit)
    variance = terms.variance(terms.factors({"task": n, "rollout": m}))
    draws = 1.959963984540054 * np.sqrt(variance)
    target = 0.045
    met = draws <= target
    if goal == "phi":
        between = terms.between({"task": n, "rollout": m})
        target = 0.93
        met = between / (between + variance) >= target
    cost = 3.0 * n + 0.7 * n * m
    kept = met.mean(axis=1) >= 0.8
    found = gs.cheapest_design(
        fit, target=target, goal=goal, cost={"task": 3.0, "rollout": 0.7}, probability=0.8
    )
    assert found.cost == pytest.approx(cost[kept].min(), rel=1e-12)
    best = int(np.flatnonzero(kept)[cost[kept].argmin()])
    assert dict(found.design) == {"task": n[best], "rollout": m[best]}


def test_a_rotation_is_best_at_its_last_whole_turn_or_after_it() -> None:
    """What lets one facet be solved: a whole turn is as good as anything smaller, in every draw."""
    study = study_of("task", within("rollout", "task"), gs.Facet("judge", role="error"))
    names = {"judge": 0.04, "task:judge": 0.01, "task": 0.001, "rollout": 0.001}
    vc = gs.assume(study, names, mean=0.6)
    for n_judges, n_rollouts in itertools.product((2, 3, 4, 5), (1, 2, 3)):
        design = gs.Design(
            {"task": 1, "rollout": n_rollouts, "judge": n_judges}, judges="round robin"
        )
        variances = np.array(
            [
                float(gs.variance_budget(vc, design.with_levels(task=n)).variance.item())
                for n in range(1, 4 * n_judges + 1)
            ]
        )
        for turn in range(n_judges, 4 * n_judges + 1, n_judges):
            assert (variances[turn - 1] <= variances[:turn] * (1 + 1e-12)).all()
        # It does not simply fall: otherwise the largest alone would do.
        if n_rollouts == 1:
            assert (np.diff(variances) > 0).any()


def test_published_sample_sizes(oracle: Any) -> None:
    """Miller's n: the variance of the difference of two systems on one question is omega^2."""
    given = oracle("published")["miller"]["n_for_3_points"]
    study = study_of("task", object="system")
    interaction = given["omega2"] / 2
    vc = gs.assume(study, {"system": 0.02, "system:task": interaction}, mean=0.6)
    found = gs.cheapest_design(vc, target=given["delta"], goal="mdd", systems=1)
    assert found.design["task"] == given["n"]


def simple() -> gs.VarianceComponents:
    study = study_of(
        gs.Facet("task", role="legitimate", universe=30),
        "version",
        within("rollout", "task", "version"),
        gs.Facet("judge", role="error"),
    )
    names = {"task": 0.05, "version": 0.01, "rollout": 0.03, "judge": 0.01}
    return gs.assume(study, names, mean=0.6)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"bounds": {"taks": 3}}, "unknown facet 'taks'.*Did you mean 'task'"),
        ({"bounds": {"task": 0}}, "whole numbers from 1 on"),
        ({"bounds": {"task": (1, 2.5)}}, "whole numbers from 1 on"),
        ({"bounds": {"task": (5, 2)}}, "wrong way round"),
        ({"bounds": {"task": (1, 31)}}, "beyond its universe.*at most 30"),
        ({"bounds": [3]}, "bounds is a mapping"),
        ({"bounds": {"task": (4, 5)}, "multiples": {"task": 3}}, "multiple of 3"),
        ({"multiples": {"task": 0}}, "whole numbers from 1 on"),
        ({"judges": "robin"}, "unknown way of judging"),
        ({"judges": []}, "no list of judge patterns"),
        ({"cost": {"task": -1}}, "numbers from 0 on"),
        ({"cost": {"taks": 1}}, "unknown facet 'taks'"),
        ({"cost": {"task": 1}}, r"nothing limits.*bounds=\{'version': \(1, most\)\}"),
        ({"budget": 0}, "budget is not usable"),
        ({"budget": 3, "bounds": {"version": 4}}, r"below any design.*at least 4, .*'version': 4"),
        ({"goal": "width"}, "unknown goal.*Did you mean"),
        ({"goal": "phi"}, "object"),
        ({"systems": 0}, "number of systems"),
        ({"budget": 10**12}, r"too many.*bounds="),
    ],
)
def test_bad_searches_are_refused(how: dict[str, Any], message: str) -> None:
    with pytest.raises(QuantityError, match=message):
        gs.best_design(simple(), **{"budget": 100, **how})


def test_a_target_below_the_floor_names_the_floor() -> None:
    vc = simple()
    wide = gs.Design({"task": 30, "version": 10**9, "rollout": 10**6, "judge": 4})
    floor = 100 * float(gs.variance_budget(vc, wide).half_width().item())
    with pytest.raises(QuantityError, match=rf"not below {floor:.1f} points, the floor"):
        gs.cheapest_design(vc, target=0.05, bounds={"judge": (1, 4)})
    with pytest.raises(QuantityError, match="target is not usable"):
        gs.cheapest_design(vc, target=-1)
    with pytest.raises(QuantityError, match="probability is not a proportion"):
        gs.cheapest_design(vc, target=0.1, probability=2)


def test_what_a_search_returns_is_shown() -> None:
    vc = simple()
    found = gs.best_design(vc, budget=200, judges=["all", "round robin"], bounds={"judge": (1, 5)})
    rows = found.summary()
    assert rows.attrs["interval"] == "equal-tailed"
    assert list(rows["cost"]) == [found.cost]
    assert found.draws.dims == ("chain", "draw", "design")
    assert "Best design for 200 trials" in str(found)
    many = gs.design_frontier(vc, budget=100, bounds={"judge": (1, 3)})
    assert len(many.designs) == len(many.summary()) > 1
    assert list(many.costs) == sorted(many.costs)
    assert (np.diff(many.summary()["mean"]) < 0).all()
    with pytest.raises(QuantityError, match="several designs"):
        _ = many.design


def nested_study(task: str, rollout: str) -> gs.Study:
    return gs.Study(
        score="passed",
        facets=[
            gs.Facet(task, role="legitimate"),
            gs.Facet(rollout, role="legitimate", nested_in=[task]),
        ],
    )


@pytest.mark.parametrize("pin", [["task"], ["rollout"], ["task", "rollout"]])
def test_a_search_under_a_smaller_claim_says_so(pin: list[str]) -> None:
    vc = gs.assume(nested_study("task", "rollout"), {"task": 0.1, "rollout": 0.14}, mean=0.6)
    claimed = " and ".join(f"{facet}s" for facet in pin)
    for found in (
        gs.best_design(vc, budget=100, pin=pin),
        gs.cheapest_design(vc, target=0.2, pin=pin),
        gs.design_frontier(vc, budget=10, pin=pin),
    ):
        assert f"A smaller claim, these {claimed} (pinned): of others" in " ".join(found.notes)
    assert "smaller claim" not in str(gs.best_design(vc, budget=100))


OWN = ["design", "judges", "cost", "mean", "median", "sd", "lower", "upper", "half-width", "step"]


@pytest.mark.parametrize("name", OWN)
def test_a_facet_may_be_called_like_a_column(name: str) -> None:
    def found(task: str) -> FoundDesigns:
        vc = gs.assume(nested_study(task, "run"), {task: 0.1, "run": 0.14}, mean=0.6)
        return gs.design_frontier(vc, budget=60, cost={task: 5, "run": 1})

    odd, plain = found(name), found("task")
    taken = name != "step"
    column = f"{name} (levels)" if taken else name
    expected = plain.summary().rename(columns={"task": column})
    assert odd.summary().columns.tolist() == expected.columns.tolist()
    assert (odd.summary() == expected).all(axis=None)
    assert odd.table().frame.columns.is_unique


@pytest.mark.parametrize("goal", ["difference", "mdd", "phi", "generalizability"])
def test_a_goal_of_several_systems_needs_an_object(goal: str) -> None:
    vc = gs.assume(nested_study("task", "rollout"), {"task": 0.1, "rollout": 0.14}, mean=0.6)
    with pytest.raises(QuantityError, match=f"the goal '{goal}' needs an object.*Declare object"):
        gs.best_design(vc, budget=100, goal=goal)


def test_a_coverage_next_to_one_has_an_interval() -> None:
    vc = gs.assume(nested_study("task", "rollout"), {"task": 0.1, "rollout": 0.14}, mean=0.6)
    widths = [
        float(gs.best_design(vc, budget=9000, coverage=c).draws.max())
        for c in (0.95, 0.999999, 1 - 2**-53)
    ]
    # The last normal quantile is that of 2**-54, 8.292.
    root = (0.1 / 9000 + 0.14 / 9000) ** 0.5
    assert widths == sorted(widths)
    np.testing.assert_allclose(widths[-1], 8.2924 * root, rtol=1e-4)


def population() -> gs.VarianceComponents:
    rollout = gs.Facet("rollout", role="legitimate", nested_in=["system", "task"])
    study = gs.Study(
        score="passed", object="system", facets=[gs.Facet("task", role="legitimate"), rollout]
    )
    parts = {"system": 0.02, "task": 0.1, "system:task": 0.02, "rollout": 0.1}
    return gs.assume(study, parts, mean=0.6)


def test_a_given_system_is_known_without_how_systems_differ() -> None:
    vc, design = population(), {"task": 50, "rollout": 2}
    means = gs.compare_designs(vc, [design]).summary()["mean"].droplevel("design")
    z, error = 1.959963984540054, 0.1 / 50 + 0.02 / 50 + 0.1 / 100
    assert means["given_half_width"] == pytest.approx(z * error**0.5)
    assert means["half_width"] == pytest.approx(z * (0.02 + error) ** 0.5)
    found = gs.best_design(vc, budget=100, bounds={"rollout": 2}, goal="given_half_width")
    assert dict(found.design) == design
    assert float(found.draws.mean()) == pytest.approx(z * error**0.5)
    cheapest = gs.cheapest_design(vc, target=0.12, bounds={"rollout": 2}, goal="given_half_width")
    # 0.17 a task: the smallest number with z sqrt(0.17 / n) <= 0.12.
    assert cheapest.design["task"] == int(np.ceil(0.17 * (z / 0.12) ** 2))
    # Of one system alone there is nothing to tell apart.
    alone = gs.assume(nested_study("task", "rollout"), {"task": 0.1, "rollout": 0.1}, mean=0.6)
    assert "given_half_width" not in gs.compare_designs(alone, [design]).draws["quantity"]


@pytest.mark.parametrize("goal", ["given_half_width", "difference", "mdd", "phi"])
def test_goals_of_several_systems_refuse_a_source_of_one(goal: str) -> None:
    rollout = gs.Facet("rollout", role="legitimate", nested_in=["system", "task"])
    task = gs.Facet("task", role="legitimate")
    study = gs.Study(score="score", object="system", facets=[task, rollout])
    rows = [
        {"system": "A", "task": t, "rollout": r, "score": (t + r) % 2}
        for t in range(6)
        for r in range(3)
    ]
    fit = fit_by_hand(checked(study, pd.DataFrame(rows)), shape=(1, 10))
    with pytest.raises(QuantityError) as refused:
        gs.best_design(fit, budget=100, goal=goal)
    assert "Fit several systems together, or take goal='half_width'" in str(refused.value)
    assert "object=" not in str(refused.value)
    assert gs.best_design(fit, budget=100, goal="half_width").cost <= 100


def test_the_rows_of_a_frontier_are_spread_over_its_costs() -> None:
    found = gs.design_frontier(simple(), budget=400)
    shown = found.table().frame
    costs = shown["cost"].to_numpy()
    assert len(costs) < len(found.costs)
    assert costs[[0, -1]].tolist() == [min(found.costs), max(found.costs)]
    steps = np.linspace(0, np.log(costs[-1] / costs[0]), 20)
    nearest = [min(found.costs, key=lambda c: abs(np.log(c / costs[0]) - s)) for s in steps]
    assert costs.tolist() == sorted(set(nearest))
