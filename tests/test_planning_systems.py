"""Several systems under one design: against pairs, simulated studies, and changes of no matter."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from designs import grid, study_of, within
from handmade import small_fit
from scipy.special import expit
from sources import fitted, logit_source

import gstudy as gs
from gstudy.errors import QuantityError
from gstudy.planning.systems import GivenSystems, NewSystems
from gstudy.variance.basis import basis_of
from gstudy.variance.pairs import pair_of

ROLLOUT = within("rollout", "system", "task", "env")


def study(**rest: Any) -> gs.Study:
    known = {"object": "system", "interactions": ["system:task", "system:env", "task:env"]}
    return study_of("task", gs.Facet("env", role="error"), ROLLOUT, **{**known, **rest})


def fit_of(own: gs.Study) -> Any:
    rows = grid({"system": "ABC", "task": range(7), "env": range(2), "rollout": range(2)})
    place = rows["task"].astype(int)
    keep = (rows["system"] == "C") | np.where(rows["system"] == "A", place < 4, place > 1)
    return fitted(own, rows[keep], shape=(2, 25))


PLAIN = study()
BANK = study_of(
    gs.Facet("task", role="legitimate", universe=20),
    gs.Facet("env", role="error"),
    ROLLOUT,
    object="system",
    interactions=["system:task", "system:env", "task:env"],
)
HELD = study_of(
    "task",
    gs.Facet("env", role="controlled"),
    ROLLOUT,
    object="system",
    interactions=["system:task", "task:env"],
)
OWN = study_of(
    gs.Facet("task", role="legitimate", varies="system"), "env", ROLLOUT, object="system"
)
GRADED = study(family="gaussian", interactions=["system:task"])
CASES = {"plain": PLAIN, "bank": BANK, "held": HELD, "own": OWN, "graded": GRADED}


def designs(own: gs.Study) -> list[Any]:
    held = own is HELD
    levels = {"task": 12, "rollout": 3} if held else {"task": 12, "env": 2, "rollout": 3}
    return [None, levels, gs.Design(levels, pin=["task"])]


@pytest.mark.parametrize("case", CASES)
def test_each_pair_is_that_of_two_systems(case: str) -> None:
    fit = fit_of(CASES[case])
    systems = GivenSystems(basis_of(fit), "ABC")
    for design in designs(CASES[case]):
        joint = systems.joint(design)
        for i, j in itertools.combinations(range(3), 2):
            pair = pair_of(fit, "ABC"[i], "ABC"[j], design)
            assert joint.errors[i, j] == pytest.approx(pair.covariance.ravel(), rel=1e-11)
            found = joint.difference(i, j)
            assert found == pytest.approx(pair.difference.ravel(), rel=1e-11)
        shared = systems.contest(design).shared
        pairs = [pair_of(fit, a, b, design).difference for a, b in ("AB", "AC", "BC")]
        assert shared == pytest.approx(np.mean(pairs, axis=0).ravel(), rel=1e-11)


@pytest.mark.parametrize("design", [None, {"task": 12, "env": 2, "rollout": 3}])
def test_errors_and_universe_scores_of_a_bank_are_what_new_tasks_would_move(design: Any) -> None:
    found = {}
    for own in (PLAIN, BANK):
        found[own is BANK] = GivenSystems(basis_of(fit_of(own)), "ABC").joint(design)
    assert found[False].universe == pytest.approx(0.0)
    assert (found[True].universe[0, 0] > 0).all()
    whole = found[True].errors + found[True].universe
    assert whole == pytest.approx(found[False].errors, rel=1e-10)


def test_fresh_judges_are_not_shared() -> None:
    vc = logit_source(
        {"task": 1.0, "judge": 0.8},
        0.2,
        facets=["task", "judge"],
        roles={"judge": "error"},
        object="system",
        effects={"A": 0.3, "B": -0.3},
    )
    design = gs.Design({"task": 20}, judges="fresh")
    joint = GivenSystems(basis_of(vc), "AB").joint(design)
    none = logit_source(
        {"task": 1.0, "judge": 0.0},
        0.2,
        facets=["task", "judge"],
        roles={"judge": "error"},
        object="system",
        effects={"A": 0.3, "B": -0.3},
    )
    assert 0 < joint.errors[0, 1].item() < joint.errors[0, 0].item()
    # All judges alike: what is shared are tasks, of smaller spread on the score scale.
    alike = GivenSystems(basis_of(none), "AB").joint(design)
    assert joint.errors[0, 1].item() < alike.errors[0, 1].item()


# ---------------------------------------------------------------- simulated studies

EFFECTS = {"A": -0.45, "B": -0.15, "C": 0.0, "D": 0.5}
SDS = {"task": 1.5, "env": 0.4, "system:task": 0.7, "task:env": 0.5}
MODEL = {"facets": ["task", "env", "rollout"], "nested": {"rollout": ["system", "task", "env"]}}
LEVELS = {"task": 60, "env": 3, "rollout": 2}


def simulated(n: int, seed: int) -> np.ndarray:
    """Scores of the four systems in n studies, (n, 4)."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(n // 1000):
        shape = (1000, 1, LEVELS["task"], LEVELS["env"])
        eta = 0.3 + np.array(list(EFFECTS.values()))[:, None, None]
        eta = eta + SDS["task"] * rng.normal(size=(*shape[:3], 1))
        eta = eta + SDS["env"] * rng.normal(size=(1000, 1, 1, LEVELS["env"]))
        eta = eta + SDS["task:env"] * rng.normal(size=shape)
        eta = eta + SDS["system:task"] * rng.normal(size=(1000, 4, LEVELS["task"], 1))
        found.append(rng.binomial(LEVELS["rollout"], expit(eta)).mean((2, 3)) / LEVELS["rollout"])
    return np.concatenate(found)


def test_rankings_of_given_systems_equal_simulated_studies() -> None:
    n = 20_000
    scores = simulated(n, 5)
    # Equal scores are in either order.
    scores = scores + 1e-9 * np.random.default_rng(6).normal(size=scores.shape)
    vc = logit_source(SDS, 0.3, object="system", effects=EFFECTS, **MODEL)
    found = gs.compare_designs(vc, LEVELS)
    value = found.summary()["mean"].loc[next(iter(found.designs))]
    ranking = (np.diff(scores, axis=1) > 0).all(axis=1)
    winner = scores.argmax(axis=1) == 3
    for name, seen in (("p_ranking", ranking), ("p_winner", winner)):
        assert abs(value[name] - seen.mean()) < 4 * seen.std() / math.sqrt(n)
    joint = GivenSystems(basis_of(vc), list(EFFECTS)).joint(LEVELS)
    covariance = np.cov(scores.T)
    spread = np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)) / n)
    assert (abs(joint.errors[..., 0] - covariance) < 5 * 1.5 * spread).all()
    gaps = [(scores[:, j] - scores[:, i]).var() for i, j in itertools.combinations(range(4), 2)]
    assert value["difference"] == pytest.approx(np.mean(gaps), rel=5 * math.sqrt(2 / n))


def test_two_new_systems_equal_simulated_studies() -> None:
    rng, n, n_tasks = np.random.default_rng(8), 40_000, 40
    u = 0.8 * rng.normal(size=(n, 2, 1))
    eta = 0.2 + u + 1.2 * rng.normal(size=(n, 1, n_tasks)) + 0.6 * rng.normal(size=(n, 2, n_tasks))
    scores = rng.binomial(3, expit(eta)).mean(axis=2) / 3
    vc = logit_source(
        {"system": 0.8, "task": 1.2, "system:task": 0.6},
        0.2,
        facets=["task", "rollout"],
        nested={"rollout": ["system", "task"]},
        object="system",
    )
    found = gs.compare_designs(vc, {"task": n_tasks, "rollout": 3})
    value = found.summary()["mean"].loc[next(iter(found.designs))]
    truth = np.sign(u[:, 0, 0] - u[:, 1, 0])
    apart = np.sign(scores[:, 0] - scores[:, 1])
    right = np.where(apart == 0, 0.5, truth == apart)
    # Universe scores are logistic of normal ones here, not normal: 1 in 1,000.
    assert abs(value["p_ranking"] - right.mean()) < 4 * right.std() / math.sqrt(n) + 0.001
    # Var(difference | systems) = 2 v_delta: what is left of the difference by the universe scores.
    size = np.var(scores[:, 0] - scores[:, 1])
    between = 2 * gs.variance_components(vc).draws.sel(component="system").values.item()
    assert value["difference"] + between == pytest.approx(size, rel=5 * math.sqrt(2 / n))


# ---------------------------------------------------------------- changes of no matter


@pytest.mark.parametrize("seed", range(4))
def test_the_order_of_systems_and_an_irrelevant_facet_change_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sds = {"task": rng.uniform(0.5, 2), "system:task": rng.uniform(0.1, 1)}
    effects = dict(zip("ABCD", rng.normal(0, 0.5, 4).round(3).tolist(), strict=True))
    nested = {"rollout": ["system", "task"]}
    design = {"task": int(rng.integers(10, 80)), "rollout": int(rng.integers(1, 5))}
    how: dict[str, Any] = {"object": "system", "nested": nested}
    first = logit_source(sds, 0.2, facets=["task", "rollout"], effects=effects, **how)
    shuffled = dict(sorted(effects.items(), key=lambda pair: -pair[1]))
    again = logit_source(sds, 0.2, facets=["task", "rollout"], effects=shuffled, **how)
    more = logit_source(
        {**sds, "room": 0.0},
        0.2,
        facets=["task", "rollout", "room"],
        effects=effects,
        roles={"room": "error"},
        **how,
    )
    values = [
        gs.compare_designs(source, own, target=0.05).summary()["mean"].to_numpy()
        for source, own in ((first, design), (again, design), (more, {**design, "room": 1}))
    ]
    assert values[1] == pytest.approx(values[0], rel=1e-9, nan_ok=True)
    assert values[2] == pytest.approx(values[0], rel=1e-9, nan_ok=True)


def test_compared_names_the_pair_and_systems_the_ranking() -> None:
    fit = small_fit()
    design = {"task": 30, "rollout": 2}
    found = gs.compare_designs(fit, design, compared=("A", "C/2"), systems=["A", "B:1"])
    draws = found.draws.isel(design=0)
    words = "difference of systems A and C/2, ranking of systems A and B:1."
    assert f"Differences and rankings: {words}" in found.notes
    pair = pair_of(fit, "A", "C/2", design)
    assert draws.sel(quantity="difference").values == pytest.approx(pair.difference, rel=1e-11)
    two = gs.compare_designs(fit, design, systems=["A", "B:1"]).draws.isel(design=0)
    ranked = two.sel(quantity="p_ranking").values
    assert draws.sel(quantity="p_ranking").values == pytest.approx(ranked, rel=1e-12)
    assert (two.sel(quantity="p_winner").values == ranked).all()
    # A number of systems is of the population.
    new = gs.compare_designs(fit, design, systems=4).draws.isel(design=0)
    reliability = gs.generalizability(fit, design).draws.values
    twice = NewSystems(basis_of(fit), 2).contest(design).right.ranking
    assert twice == pytest.approx(0.5 + np.arcsin(np.sqrt(reliability)).ravel() / math.pi)
    assert (new.sel(quantity="p_ranking") < new.sel(quantity="p_winner")).all()


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"systems": 1}, "systems to compare are not usable"),
        ({"systems": "AB"}, "systems to compare are not usable"),
        ({"systems": ["A", "A"]}, "systems to compare are not usable"),
        ({"systems": 3, "compared": ("A", "C/2")}, "leave one of the two out"),
        ({"systems": ["A", "Q"]}, "no system is called 'Q'"),
        ({"systems": ["A", "B:1", "Q"]}, "no system is called 'Q'"),
        ({"compared": ("A", "A")}, "compared with itself"),
        ({"compared": "AB"}, "compared is no pair"),
        ({"compared": ("A", "B:1", "C/2")}, "compared is no pair"),
    ],
)
def test_systems_that_are_not_there_are_refused(how: dict[str, Any], message: str) -> None:
    with pytest.raises(QuantityError, match=message):
        gs.compare_designs(small_fit(), {"task": 30, "rollout": 2}, **how)


def test_too_many_systems_are_left_out_with_what_to_do() -> None:
    effects = {f"s{i}": 0.01 * i for i in range(41)}
    vc = logit_source({"task": 1.0}, 0.0, facets=["task"], object="system", effects=effects)
    found = gs.compare_designs(vc, {"task": 30})
    assert "p_ranking" not in pd.Index(found.draws.coords["quantity"].values)
    assert any("41 systems are too many" in note for note in found.notes)
    with pytest.raises(QuantityError, match="Name those that matter"):
        gs.compare_designs(vc, {"task": 30}, systems=list(effects))
