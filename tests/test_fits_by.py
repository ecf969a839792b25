"""Fits by level: the mapping, its table, contrasts between levels and the level summary."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from designs import checked, grid
from handmade import fit_by_hand
from scipy import stats

import gstudy as gs
from gstudy.display import number
from gstudy.errors import explain
from gstudy.study.estimable import assess


def study() -> gs.Study:
    return gs.Study(
        successes="k",
        trials="n",
        object="system",
        facets=[gs.Facet("task", role="legitimate")],
    )


def one_fit(system: str, seed: int, shape: tuple[int, int] = (4, 250)) -> gs.Fit:
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"task": range(9), "k": rng.integers(0, 5, 9), "n": 4, "system": system})
    return fit_by_hand(assess(study(), table), seed=seed, shape=shape)


@pytest.fixture(scope="module")
def fits() -> gs.Fits:
    return gs.Fits({x: one_fit(x, i) for i, x in enumerate("ABC")}, study(), "system")


def known(value: float) -> xr.DataArray:
    """Draws of a normal quantity with this mean and sd 1."""
    rng = np.random.default_rng(int(1000 * value))
    return xr.DataArray(value + rng.normal(size=(4, 1000)), dims=("chain", "draw"))


def test_a_mapping_by_label(fits: gs.Fits) -> None:
    assert fits.labels == ("A", "B", "C")
    assert len(fits) == 3
    assert "B" in fits
    assert "D" not in fits
    assert fits.get("D") is None
    assert dict(fits)["A"] is fits["A"]
    with pytest.raises(gs.QuantityError, match=r"no level of system is called 'b'.*'A', 'B', 'C'"):
        fits["b"]


def test_the_summary_has_trials_score_and_gates(fits: gs.Fits) -> None:
    summary = fits.summary()
    cells = fits["B"].design.cells
    assert summary.loc["B", "n_trials"] == 36
    assert summary.loc["B", "score"] == cells.successes.sum() / 36
    worst = fits["B"].diagnostics.worst
    assert summary.loc["B", "rhat"] == worst["rhat"].value
    assert summary.loc["B", "ess"] == min(worst["ess_bulk"].value, worst["ess_tail"].value)
    assert summary["passed"].all()
    assert "3 independent fits, one per level of system" in repr(fits)
    assert fits.stamp() == ()


def test_a_fit_that_failed_is_named_in_every_table(fits: gs.Fits) -> None:
    failed = replace(fits["B"], diagnostics=replace(fits["B"].diagnostics, divergences=3))
    some = gs.Fits({"A": fits["A"], "B": failed}, study(), "system")
    assert list(some.unconverged()) == ["B"]
    for shown in (some, gs.contrasts(some, lambda f: f.mu), gs.level_summary(some)):
        assert "NOT CONVERGED: system 'B' ('B': 3 divergences (limit 0)). Do not" in " ".join(
            repr(shown).split()
        )


def test_contrasts_are_differences_of_independent_draws(fits: gs.Fits) -> None:
    means = dict(zip(fits.values(), (0.0, 0.5, 2.0), strict=True))
    found = gs.contrasts(fits, lambda fit: known(means[fit]), name="it")
    summary = found.summary()
    assert list(summary.index) == [("B", "A"), ("C", "A"), ("C", "B")]
    assert found.draws.dims == ("chain", "draw", "contrast")
    assert list(found.draws.coords["contrast"].values) == ["B - A", "C - A", "C - B"]
    # Differences of two independent normal quantities: mean difference, sd sqrt(2).
    for (level, base), row in summary.iterrows():
        gap = means[fits[level]] - means[fits[base]]
        error = 5 * 2**0.5 / 4000**0.5
        assert row["mean"] == pytest.approx(gap, abs=error)
        assert row["sd"] == pytest.approx(2**0.5, abs=error)
        assert row["p_positive"] == pytest.approx(stats.norm.cdf(gap / 2**0.5), abs=0.04)
        assert row["lower"] == pytest.approx(gap - 1.96 * 2**0.5, abs=0.25)
    narrow = found.summary(0.5)
    assert narrow.attrs["level"] == 0.5
    assert (narrow["lower"] > summary["lower"]).all()
    assert "Differences of it by system: level minus reference" in repr(found)


def test_contrasts_with_a_reference(fits: gs.Fits) -> None:
    found = gs.contrasts(fits, lambda fit: gs.icc(fit, "task"), reference="B")
    assert list(found.summary().index) == [("A", "B"), ("C", "B")]
    assert found.scale == "score"
    assert found.name == "ICC(task)"
    ratio = {x: gs.icc(fit, "task").draws.values for x, fit in fits.items()}
    np.testing.assert_array_equal(found.draws.values[..., 1], ratio["C"] - ratio["B"])
    np.testing.assert_array_equal(found.values.sel(level="A").values, ratio["A"])
    with pytest.raises(gs.QuantityError, match="no level is called 'b'"):
        gs.contrasts(fits, lambda fit: fit.mu, reference="b")


def test_quantities_of_several_kinds(fits: gs.Fits) -> None:
    array = gs.contrasts(fits, lambda fit: fit.sd("task"))
    assert array.name == "the quantity"
    assert array.scale is None
    rows = gs.contrasts(fits, lambda fit: gs.variance_components(fit).draws.sel(component=["task"]))
    assert rows.draws.shape == (4, 250, 3)
    plain = gs.contrasts({"x": fits["A"], "y": fits["C"]}, lambda fit: fit.mu)
    assert list(plain.summary().index) == [("y", "x")]


@pytest.mark.parametrize(
    ("given", "quantity", "message"),
    [
        ("fit", lambda fit: fit.mu, "contrasts are between several fits, .* one set of sds"),
        ("one", lambda fit: fit.mu, "a contrast needs two fits"),
        ("all", lambda _: 0.5, "the quantity is not one number per draw"),
        ("all", gs.variance_components, "not one number per draw"),
        ("ragged", lambda fit: fit.mu, "different numbers of chains or draws"),
    ],
)
def test_what_has_no_contrast(fits: gs.Fits, given: str, quantity: Any, message: str) -> None:
    short = one_fit("Z", 9, (4, 100))
    source: Any = {
        "fit": fits["A"],
        "one": {"A": fits["A"]},
        "all": fits,
        "ragged": {"A": fits["A"], "Z": short},
    }[given]
    with pytest.raises(gs.QuantityError, match=message):
        gs.contrasts(source, quantity)


def test_the_level_summary_is_what_each_fit_says(fits: gs.Fits) -> None:
    summary = gs.level_summary(fits).summary()
    for label, fit in fits.items():
        icc = gs.icc(fit, "task").summary().iloc[0]
        noise = gs.rerun_noise(fit).summary().loc["sd"]
        row = summary.loc[label]
        assert row["icc"] == pytest.approx(icc["mean"])
        assert row["icc_lower"] == pytest.approx(icc["lower"])
        assert row["rerun_sd"] == pytest.approx(noise["mean"])
        assert row["rerun_sd_upper"] == pytest.approx(noise["upper"])
    assert "ICC(task)" in repr(gs.level_summary(fits))


def test_a_level_without_the_component_has_no_icc(fits: gs.Fits) -> None:
    table = pd.DataFrame({"task": "t0", "k": [2], "n": 4, "system": "D"})
    bare = fit_by_hand(assess(study(), table))
    some = gs.Fits({**fits, "D": bare}, study(), "system")
    found = gs.level_summary(some)
    assert np.isnan(found.summary().loc["D", "icc"])
    assert found.summary().loc["D", "rerun_sd"] > 0
    assert "No component 'task' at 'D'." in repr(found)
    only = gs.Fits({"D": bare}, study(), "system")
    with pytest.raises(gs.QuantityError, match="no level has a legitimate facet"):
        gs.level_summary(only)
    with pytest.raises(gs.QuantityError, match="fits by level are needed"):
        gs.level_summary(bare)


def test_contrasts_say_the_name_and_scale_of_what_they_are_of(fits: gs.Fits) -> None:
    named = {
        "the re-run variance of the score": gs.rerun_noise,
        "how far two re-runs differ": lambda fit: gs.rerun_noise(fit).difference(),
        "the half-width of the score": lambda fit: gs.variance_budget(fit).half_width(),
        "the pass rate": gs.score,
        "ICC(task)": lambda fit: gs.icc(fit, "task"),
    }
    for name, quantity in named.items():
        found = gs.contrasts(fits, quantity)
        assert found.scale == "score"
        text = found.table().text()
        assert f"Differences of {name} by system: level minus reference" in text
        assert "score scale" in text
    variances = gs.contrasts(fits, gs.rerun_noise)
    # Variances of a mean of 36 trials: thousandths, of which three decimals show next to nothing.
    first = variances.summary().iloc[0]
    assert number(first["upper"]) in variances.table().text()


def test_systems_of_one_fit_with_own_sds_are_contrasted_draw_by_draw() -> None:
    own = gs.Study(
        score="score",
        object="system",
        facets=[
            gs.Facet("task", role="legitimate", varies="system"),
            gs.Facet("rollout", role="legitimate", nested_in=["system", "task"]),
        ],
    )
    fit = fit_by_hand(checked(own, grid({"system": "ABC", "task": "abcdef", "rollout": "123"})))
    found = gs.contrasts(fit, lambda source: gs.icc(source, "task"))
    parts = {s: gs.icc(fit, "task", system=s).draws.values for s in "ABC"}
    assert list(found.draws.coords["level"].values) == ["B", "C", "C"]
    np.testing.assert_allclose(found.draws.values[..., 1], parts["C"] - parts["A"], rtol=1e-12)
    assert (found.name, found.by, found.scale) == ("ICC(task)", "system", "score")
    assert "both of a difference are from the same draws" in " ".join(str(found).split())
    noise = gs.contrasts(fit, gs.rerun_noise, reference="A")
    assert noise.draws.shape == (4, 250, 2)
    message = "computed from the components of each system, and that of 'A' cannot be"
    for wants_a_fit in (gs.score, lambda source: source.mu):
        with pytest.raises(gs.QuantityError, match=message):
            gs.contrasts(fit, wants_a_fit)


def test_no_message_has_an_address(fits: gs.Fits) -> None:
    with pytest.raises(gs.QuantityError, match=r"named by a text\. Given: a function\..*contrasts"):
        gs.level_summary(fits, lambda fit: fit.mu)
    with pytest.raises(gs.QuantityError, match=r"Given: the function icc\."):
        gs.level_summary(fits, gs.icc)
    assert explain("no", given=object()) == "no. Given: <object object>."
    assert explain("no", given="at 0x12") == "no. Given: 'at 0x12'."


def test_what_is_given_in_place_of_a_fit_is_told_how_to_become_one(
    fits: gs.Fits, tmp_path: Path
) -> None:
    measures: list[Callable[[Any], object]] = [
        lambda x: gs.extend(x, until=2000),
        lambda x: gs.icc(x, "task"),
        gs.rerun_noise,
        gs.score,
        gs.scores,
        gs.posterior_check,
        gs.task_table,
        gs.universe_table,
        gs.prior_sensitivity,
        gs.evaluation_card,
        gs.build_report,
        lambda x: gs.compare_systems(x, "A", "B"),
        lambda x: gs.contrasts(x, gs.rerun_noise),
    ]
    for measure in measures:
        for path in ("run.nc", tmp_path / "run.nc"):
            with pytest.raises(gs.QuantityError, match=r"Load it first with gs\.load\(path\)"):
                measure(path)
    for measure in measures[:4]:
        if measure is not gs.score:
            with pytest.raises(gs.QuantityError, match=r"such as fits\['A'\], or gs.level_summary"):
                measure(fits)
