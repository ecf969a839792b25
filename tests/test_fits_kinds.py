"""Fits of every kind: own sds, correlations, fixed effects, graded scores; shown and saved."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from designs import study_of, within
from handmade import fit_by_hand, small_fit
from test_fits_files import same_design

import gstudy as gs
from gstudy.errors import QuantityError
from gstudy.fits.fitted import Fit
from gstudy.fits.stored import _decoded, _encoded
from gstudy.study.estimable import assess
from gstudy.study.priors import Prior


def own(name: str, *parents: str) -> gs.Facet:
    return gs.Facet(name, role="legitimate", nested_in=parents, varies="system")


@pytest.fixture(scope="module")
def varying() -> Fit:
    """Own sds of tasks and rollouts, a controlled place, judges."""
    study = study_of(
        gs.Facet("place", role="controlled"),
        own("task"),
        own("run", "system", "task", "place"),
        gs.Facet("judge", role="error"),
        object="system",
        interactions=["task:place"],
        average={"macro": "place"},
        priors={"sd(judge)": {"dist": "HalfStudentT", "nu": 4.0, "sigma": 0.5}},
    )
    sizes = {"system": 2, "place": 2, "task": 6, "run": 2, "judge": 2}
    sds = {"task": {"A:1": 1.0, "B": 2.0}, "run": 0.5}
    fixed = {"place": {"here": 0.5, "there": -0.5}}
    return fit_by_hand(assess(study, gs.simulate(study, sizes, sd=sds, fixed=fixed, seed=1)))


def graded_fit(**rest: Any) -> Fit:
    study = study_of(
        "task", within("run", "system", "task"), object="system", family="gaussian", **rest
    )
    sizes = {"system": 2, "task": 6, "run": 3}
    table = gs.simulate(study, sizes, sd={"task": 2.0}, mu=30.0, residual=1.5, seed=2)
    return fit_by_hand(assess(study, table))


def test_own_sds_have_a_system_each(varying: Fit) -> None:
    assert varying.sd("task").shape == (4, 250, 2)
    assert varying.sd("judge").shape == (4, 250)
    assert varying.own_labels("task") == ["A:1", "B"]
    np.testing.assert_array_equal(varying.own_sd("task", "B"), varying.sd("task")[..., 1])
    np.testing.assert_array_equal(varying.own_sd("run", "A:1"), varying.sd("run")[..., 0])
    # One sd of all is that of each.
    np.testing.assert_array_equal(varying.own_sd("judge", "B"), varying.sd("judge"))
    with pytest.raises(QuantityError, match=r"no system is named 'C'\. Allowed: A:1, B"):
        varying.own_sd("task", "C")
    with pytest.raises(QuantityError, match="no system is named 'C'"):
        varying.own_sd("judge", "C")


def test_effects_and_correlations_of_own_sds(varying: Fit) -> None:
    assert varying.effects("task").dims == ("chain", "draw", "task", "by(task)")
    correlation = varying.correlation("task")
    assert correlation.dims == ("chain", "draw", "by(task)", "by_2(task)")
    assert correlation.sel({"by(task)": "B", "by_2(task)": "B"}).values == pytest.approx(1.0)
    for name in ("run", "judge"):
        with pytest.raises(QuantityError, match=r"no correlations.*Allowed: task.*varies = \"sys"):
            varying.correlation(name)


def test_fixed_effects_by_their_level(varying: Fit) -> None:
    effects = varying.fixed("place")
    assert effects.dims == ("chain", "draw", "place")
    assert effects.coords["place"].values.tolist() == ["here", "there"]
    assert np.abs(effects.sum("place").values).max() < 1e-12
    with pytest.raises(QuantityError, match=r"no controlled facet.*named 'plce'.*Did you mean 'pl"):
        varying.fixed("plce")
    with pytest.raises(QuantityError, match="'place' is controlled"):
        varying.sd("place")


def test_residual_sd_is_of_graded_scores_with_unknown_errors(varying: Fit) -> None:
    fit = graded_fit()
    np.testing.assert_array_equal(
        fit.sd("residual"), fit.posterior["posterior"]["sd(residual)"].values
    )
    for other in (varying, graded_fit(standard_error="se")):
        with pytest.raises(QuantityError, match="there is no residual sd"):
            other.sd("residual")


def test_the_table_has_a_row_per_sd(varying: Fit) -> None:
    table = varying.table()
    assert set(table.frame["component"]) == {
        "system",
        *("task of A:1", "task of B"),
        "judge",
        "task:place" if "task:place" in varying.components else "place:task",
        *(f"{varying.design.component('run').name} of {s}" for s in ("A:1", "B")),
    }
    assert table.scale == "logit"
    place, correlation = table.notes[1:3]
    assert place.startswith("place (fixed effects): here ")
    assert correlation.startswith("correlation of task effects between levels of system: 0.")
    lines = repr(varying).splitlines()
    assert len(lines) <= 15
    assert max(map(len, lines)) <= 80
    assert any("place (fixed effects)" in line for line in lines)


def test_a_graded_fit_says_its_family_and_unit() -> None:
    fit = graded_fit()
    text = repr(fit)
    assert text.startswith("<gstudy fit, gaussian score: 36 trials in 12 cells, mu ")
    assert "sd of each component (score scale)" in text
    assert any(line.strip().endswith("36 trials") for line in text.splitlines())
    residual = fit.table().frame.set_index("component").loc["residual"]
    assert residual["levels"] == 36
    assert residual["sd"] == pytest.approx(np.median(fit.sd("residual")))
    assert fit.table().scale == "score"
    known = graded_fit(standard_error="se")
    assert "residual" not in known.table().frame["component"].tolist()


def test_many_levels_and_systems_are_told_in_short() -> None:
    study = study_of(
        gs.Facet("place", role="controlled"), own("task"), within("run", "task"), object="system"
    )
    sizes = {"system": 4, "place": 6, "task": 5, "run": 2}
    fit = fit_by_hand(assess(study, gs.simulate(study, sizes, sd={}, seed=1)))
    place, correlation = fit.table().notes[1:3]
    assert place.endswith("and 2 more")
    assert "medians from 0." in correlation


@pytest.mark.parametrize("kind", ["varying", "graded", "known errors"])
def test_every_kind_comes_back_from_its_file(kind: str, varying: Fit, tmp_path: Path) -> None:
    made = {
        "varying": lambda: varying,
        "graded": graded_fit,
        "known errors": lambda: graded_fit(standard_error="se"),
    }[kind]()
    made.save(tmp_path / "run.nc")
    found = gs.load(tmp_path / "run.nc")
    same_design(found, made)
    for name in ("fixed", "score_mean", "score_scale", "failed_runs", "mu_prior", "residual_prior"):
        assert getattr(found.design, name) == getattr(made.design, name), name
    assert found.study == made.study
    assert found.posterior.identical(made.posterior)
    assert repr(found) == repr(made)
    assert str(found.design) == str(made.design)
    graded, other = found.design.cells.graded, made.design.cells.graded
    assert (graded is None) == (other is None) == (kind == "varying")
    if graded is not None and other is not None:
        assert graded.log_errors == other.log_errors
        for name in ("mean", "squares", "precision"):
            np.testing.assert_array_equal(getattr(graded, name), getattr(other, name))
        assert found.design.cells.successes.dtype == float


def test_failed_runs_come_back() -> None:
    stored = {"n_failed": 3, "share": 0.1, "incorrect": 0.5, "drop": None}
    assert _decoded(_encoded(stored)) == stored


PRIORS = [
    Prior("HalfCauchy", {"beta": 2.0}),
    Prior("Gamma", {"alpha": 2.0, "beta": 1e-20}),
    Prior("LogNormal", {"mu": 30.0, "sigma": 1.0}),
    Prior("StudentT", {"nu": 4.0, "mu": 1e6, "sigma": 1e5}),
    Prior("ZeroSumNormal", {"sigma": 2.5}),
]


@pytest.mark.parametrize("prior", PRIORS, ids=lambda prior: prior.dist)
def test_priors_of_every_family_come_back(prior: Prior) -> None:
    assert _decoded(_encoded(prior)) == prior


def test_a_file_without_the_new_fields_still_loads(tmp_path: Path) -> None:
    made = small_fit()
    made.save(tmp_path / "run.nc")
    from gstudy.fits import stored

    record = stored.record_of(made)
    new = ("fixed", "score_mean", "score_scale", "failed_runs")
    for name in new:
        del record["design"][name]
    for kind in ("components",):
        for component in record["design"][kind]["tuple"]:
            for name in ("varies", "fixed"):
                del component["object"][1][name]
    found = stored.fit_of(record, made.posterior)
    same_design(found, made)
    assert found.design.fixed == ()
    assert found.design.failed_runs == {}


def test_own_sds_and_fixed_effects_answer_alike_from_a_file(varying: Fit, tmp_path: Path) -> None:
    varying.save(tmp_path / "run.nc")
    found = gs.load(tmp_path / "run.nc")
    for name, array in varying.posterior["posterior"].to_dataset().variables.items():
        other = found.posterior["posterior"][name].variable
        assert array.dtype == other.dtype
        if array.dtype.kind == "f":
            assert array.values.tobytes() == other.values.tobytes()
    for ask in (
        gs.score,
        lambda fit: gs.compare_systems(fit, "A:1", "B", seed=1),
        lambda fit: gs.variance_budget(fit, system="B"),
        lambda fit: gs.icc(fit, "task", system="A:1"),
        lambda fit: gs.rerun_noise(fit, system="B"),
    ):
        assert ask(found).draws.values.tobytes() == ask(varying).draws.values.tobytes()
        assert str(ask(found)) == str(ask(varying))


@pytest.mark.parametrize("levels", [2, 3, 4, 7])
def test_fixed_effects_are_shown_whole(levels: int) -> None:
    names = [f"a-long-name-of-a-prompt-{k}-that-ends-alike" for k in range(levels)]
    study = study_of(gs.Facet("prompt", role="controlled"), "task", within("run", "task", "prompt"))
    sizes = {"prompt": levels, "task": 6, "run": 3}
    table = gs.simulate(study, sizes, sd={}, seed=1)
    table["prompt"] = table["prompt"].map(dict(zip(table["prompt"].unique(), names, strict=True)))
    text = repr(fit_by_hand(assess(study, table)))
    lines = text.splitlines()
    assert len(lines) <= 15
    assert max(map(len, lines)) <= 80
    told = re.findall(r"(\S+)\s+[+-]\d\.\d\d\s+\[[+-]\d\.\d\d,\s+[+-]\d\.\d\d\]", text)
    assert len(set(told)) == len(told) == min(levels, 4)
