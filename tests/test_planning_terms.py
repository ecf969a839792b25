"""Terms times factors: the same variances as budgets and coefficients, for any structure."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from designs import grid, study_of, within
from handmade import small_fit
from sources import fitted, logit_source, one

import gstudy as gs
from gstudy.errors import QuantityError
from gstudy.planning.terms import Terms, error_terms, score_terms
from gstudy.study.designs import JUDGES
from gstudy.variance.basis import basis_of
from gstudy.variance.designs import needed_counts

EXACT = 1e-12


def variance_of(terms: Terms, design: Any) -> np.ndarray[Any, Any]:
    asked = gs.Design.read(design)
    factors = terms.factors(terms.counts(asked), judges=asked.judges)
    found = terms.variance(factors)
    assert found.shape == (1, terms.shape[0] * terms.shape[1])
    assert terms.mean_variance(factors)[0] == pytest.approx(found.mean(), rel=EXACT)
    return found.reshape(terms.shape)


def phi_of(terms: Terms, design: Any, *, relative: bool) -> np.ndarray[Any, Any]:
    asked = gs.Design.read(design)
    counts = terms.counts(asked)
    error = terms.variance(terms.factors(counts, judges=asked.judges, relative=relative))
    between = terms.between(counts, asked.judges)
    return (between / (between + error)).reshape(terms.shape)


def equal_score(source: Any, design: Any, pin: Any = (), system: Any = None) -> None:
    budget = gs.variance_budget(source, design, system=system, pin=pin)
    terms = score_terms(source, system=system, pin=[*pin, *gs.Design.read(design).pin])
    np.testing.assert_allclose(variance_of(terms, design), budget.variance.values, rtol=EXACT)


def equal_population(source: Any, design: Any, pin: Any = (), object: Any = None) -> None:
    terms = error_terms(source, pin=[*pin, *gs.Design.read(design).pin], object=object)
    for relative, coefficient in ((False, gs.phi), (True, gs.generalizability)):
        expected = coefficient(source, design, pin=pin, object=object).draws.values
        np.testing.assert_allclose(
            phi_of(terms, design, relative=relative), expected, rtol=EXACT, atol=EXACT
        )


def designs_of(source: Any, rng: np.random.Generator) -> Iterator[gs.Design]:
    """Random designs of a source, with each judge pattern where there is a judge."""
    structure = basis_of(source).structure
    for judges in JUDGES if "judge" in structure.order else ("all",):
        counts = {facet: int(rng.integers(1, 5)) for facet in needed_counts(structure)}
        if judges in ("one", "fresh"):
            counts.pop("judge", None)
        yield gs.Design(counts, judges=judges)


def random_study(rng: np.random.Generator) -> gs.Study:
    """Crossed and nested facets in random order, some with a bank."""

    def bank(largest: int) -> int | None:
        return int(rng.integers(largest, 3 * largest)) if rng.random() < 0.4 else None

    facets = [gs.Facet("task", role="legitimate", universe=bank(4))]
    if rng.random() < 0.6:
        facets.append(gs.Facet("env", role="error", universe=bank(4)))
    if rng.random() < 0.8:
        facets.append(gs.Facet("judge", role="error", universe=bank(300)))
    rng.shuffle(facets)
    parents = [f.name for f in facets if f.name != "judge" and rng.random() < 0.8] or ["task"]
    measured = ["system"] if rng.random() < 0.6 else []
    if rng.random() < 0.7:
        facets.append(gs.Facet("rollout", role="legitimate", nested_in=[*measured, *parents]))
    return study_of(*facets, **({"object": "system"} if measured else {}))


def random_components(study: gs.Study, rng: np.random.Generator) -> dict[str, float]:
    """Variances of the facets and of a few interactions."""
    crossed = [f.name for f in study.facets if not f.nested_in]
    names = [f for f in study.facet_names if f == study.object or rng.random() < 0.9]
    names += [f"{a}:{b}" for a, b in itertools.combinations(crossed, 2) if rng.random() < 0.5]
    return {name: float(rng.uniform(0.1, 2.0)) for name in names}


@pytest.mark.parametrize("seed", range(30))
def test_random_structures_on_the_logit_scale(seed: int) -> None:
    rng = np.random.default_rng(seed)
    study = random_study(rng)
    source = gs.assume(study, random_components(study, rng), mu=0.4, scale="logit")
    free = [f for f in basis_of(source).structure.facets if f != "system"]
    for design in designs_of(source, rng):
        pin = [facet for facet in free if rng.random() < 0.3]
        equal_score(source, design, pin)
        equal_score(source, design.replace(pin=pin))
        if study.object:
            equal_population(source, design, pin)
    for facet in ("task", "env"):
        if facet in free:
            rest = {f: 2 for f in needed_counts(basis_of(source).structure) if f != facet}
            if study.object:
                rest["system"] = 3
            equal_population(source, rest, object=facet)


@pytest.mark.parametrize("seed", range(10))
def test_random_structures_on_the_score_scale(seed: int) -> None:
    rng = np.random.default_rng(100 + seed)
    study = random_study(rng)
    parts = {name: v / 50 for name, v in random_components(study, rng).items()}
    source = gs.assume(study, {**parts, "residual": 0.1}, mean=0.6)
    for design in designs_of(source, rng):
        equal_score(source, design)
        if study.object:
            equal_population(source, design)


def test_a_fit_its_systems_and_a_new_one() -> None:
    fit = small_fit()
    for design in ({"task": 30, "rollout": 4}, gs.Design({"task": 8, "rollout": 2}, pin=["task"])):
        equal_score(fit, design)
        equal_score(fit, design, system="new")
        equal_population(fit, design)
        equal_population(fit, {"system": 2, "rollout": 3}, object="task")
    terms = score_terms(fit)
    mean = gs.variance_components(fit).mean.values.ravel()
    np.testing.assert_allclose(terms.means, mean, rtol=EXACT)


@pytest.mark.parametrize("nested", [False, True])
def test_controlled_levels(nested: bool) -> None:
    mode = gs.Facet("mode", role="controlled")
    task = gs.Facet("task", role="legitimate", nested_in=["mode"] if nested else [], universe=40)
    study = study_of(mode, task, gs.Facet("judge", role="error"), object="system")
    table = grid({"system": "ABC", "mode": "xyz", "task": range(6), "judge": range(3)}, seed=2)
    # Level z weighs less than the others.
    table = table[(table["mode"] != "z") | (table["task"] < 4)]
    study = gs.Study(
        score="score",
        object="system",
        facets=[f for f in study.facets if f.name != "system"],
        interactions=["system:task", "task:judge", *([] if nested else ["mode:task"])],
    )
    fit = fitted(study, table)
    rng = np.random.default_rng(8)
    for design in designs_of(fit, rng):
        equal_score(fit, design)
        equal_score(fit, design, system="new")
        equal_score(fit, design, pin=["judge"])
        equal_population(fit, design)
        equal_population(fit, design, pin=["task"])


def test_merged_components_change_together() -> None:
    rows = [
        {"task": t, "grader": t % 4, "rollout": r, "score": (t + r) % 2}
        for t in range(4)
        for r in range(6)
    ]
    study = study_of("task", gs.Facet("grader", role="error"), within("rollout", "task", "grader"))
    fit = fitted(study, rows)
    structure = basis_of(fit).structure
    assert any(len(parts) > 1 for parts in structure.merged.values())
    equal_score(fit, {"task": 10, "grader": 10, "rollout": 3})
    with pytest.raises(QuantityError, match="is one component"):
        score_terms(fit).counts({"task": 10, "grader": 5, "rollout": 3})
    with pytest.raises(QuantityError, match="cannot be assigned anew"):
        score_terms(fit).counts(
            gs.Design({"task": 10, "grader": 10, "rollout": 3}, judges="round robin")
        )
    # Ten tasks with their ten graders are ten cells, not a hundred.
    terms = score_terms(fit)
    assert terms.price(None, terms.counts({"task": 10, "grader": 10, "rollout": 3})) == 30


def test_own_sds_of_each_system() -> None:
    study = study_of(
        gs.Facet("task", role="legitimate", varies="system"),
        within("rollout", "system", "task"),
        object="system",
    )
    fit = fitted(study, grid({"system": "AB", "task": range(6), "rollout": range(3)}))
    for system in (None, "A", "B"):
        equal_score(fit, {"task": 12, "rollout": 5}, system=system)
    with pytest.raises(QuantityError, match="has its own sd"):
        error_terms(fit)


def test_many_designs_at_a_time() -> None:
    source = logit_source(
        {"task": 1.5, "rollout": 0.8, "judge": 0.5},
        0.3,
        facets=["task", "rollout", "judge"],
        nested={"rollout": ["task"]},
        roles={"judge": "error"},
    )
    tried = list(itertools.product([5, 20, 80], [1, 4], [1, 2, 3]))
    terms = score_terms(source)
    table = np.array(tried, dtype=float).T
    counts = dict(zip(("task", "rollout", "judge"), table, strict=True))
    for judges in ("all", "round robin"):
        together = terms.variance(terms.factors(counts, judges=judges))
        assert together.shape == (len(tried), 1)
        for (task, rollout, judge), found in zip(tried, together[:, 0], strict=True):
            levels = {"task": task, "rollout": rollout, "judge": judge}
            alone = gs.variance_budget(source, gs.Design(levels, judges=judges))
            assert found == pytest.approx(one(alone.variance), rel=EXACT)
    # One number beside many, and the floor of a facet.
    floor = terms.factors({"task": np.array([10.0, np.inf]), "rollout": 2, "judge": np.inf})
    assert terms.variance(floor)[1, 0] == 0.0
    assert terms.variance(floor)[0, 0] > 0


def test_an_interaction_without_its_object_still_moves_a_new_system() -> None:
    study = study_of(gs.Facet("task", role="legitimate", universe=50), object="system")
    vc = gs.assume(study, {"system:task": 0.1}, mean=0.5)
    # A new system's score on the whole bank varies by v / 50.
    assert one(gs.variance_budget(vc, {"task": 50}).variance) == pytest.approx(0.1 / 50)
    equal_score(vc, {"task": 20})


def test_what_terms_refuse() -> None:
    study = study_of(gs.Facet("task", role="legitimate", universe=50), "env", object="system")
    vc = gs.assume(study, {"system": 0.02, "task": 0.1, "env": 0.01}, mean=0.5)
    score, error = score_terms(vc), error_terms(vc)
    with pytest.raises(QuantityError, match="more levels than its universe"):
        score.counts({"task": 51, "env": 1})
    with pytest.raises(QuantityError, match=r"more levels than its universe.*Given: inf"):
        score.factors({"task": np.array([5, np.inf]), "env": 1})
    with pytest.raises(QuantityError, match="does not say how many levels of 'env'"):
        score.counts({"task": 5})
    with pytest.raises(QuantityError, match="pins facets that these terms do not"):
        score.counts(gs.Design({"task": 5, "env": 2}, pin=["env"]))
    assert score_terms(vc, pin=["env"]).counts(gs.Design({"task": 5, "env": 2}, pin=["env"]))
    with pytest.raises(QuantityError, match="is not relative"):
        score.factors({"task": 5.0}, relative=True)
    with pytest.raises(QuantityError, match="no variance between systems"):
        score.between({"task": 5.0})
    assert error.between({"task": 5.0, "env": 2.0})[0, 0] == pytest.approx(0.02)
