"""gs.extend: more draws of the same posterior, from memory or from a file; gates over all draws."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from designs import checked, study_of, within
from models import crossed, random_trials
from onefacet import counted, exact, same_posterior

import gstudy as gs
from gstudy.fits.gates import assess
from gstudy.model import recovered
from gstudy.model.extension import run_of
from gstudy.model.rounds import joined, round_settings
from gstudy.model.settings import make_settings

if TYPE_CHECKING:
    from pathlib import Path

    from gstudy.fits.fitted import Fit

# Short runs, of which a gate may say so; below 200 draws of 4 chains none is made again for it.
pytestmark = pytest.mark.filterwarnings("ignore::gstudy.errors.ConvergenceWarning")

QUICK: dict[str, Any] = {"sampler": "direct", "progress": False, "seed": 4}

PASSES, TRIALS = [1, 3, 4, 0, 2, 5], [5] * 6


@cache
def small() -> Fit:
    study, table = counted(PASSES, TRIALS)
    return gs.fit(study, table, draws=150, tune=400, **QUICK)


@cache
def longer() -> Fit:
    return gs.extend(small(), draws=1200, progress=False)


@cache
def systems() -> Fit:
    found = crossed()
    return gs.fit(found.study, found, draws=150, tune=300, **QUICK)


@cache
def judged() -> Fit:
    """Graded scores with a controlled facet: a residual sd and fixed effects."""
    table = random_trials({"system": 3, "task": 8, "judge": 2}, seed=3)
    rng = np.random.default_rng(5)
    shift = rng.normal(0, 1, 8)[table["task"].astype(int)]
    table["score"] = 2.0 + shift + 0.4 * table["judge"].astype(int) + rng.normal(0, 0.7, len(table))
    study = study_of(
        "task",
        gs.Facet("judge", role="controlled"),
        object="system",
        family="gaussian",
        interactions="none",
    )
    return gs.fit(study, checked(study, table), draws=150, tune=300, **QUICK)


def variables(fit: Fit) -> dict[str, np.ndarray]:
    group = fit.posterior["posterior"].to_dataset()
    return {str(name): group[name].to_numpy() for name in group.variables}


def assert_same(one: Fit, other: Fit) -> None:
    """The same bits: draws, labels, statistics, gates and record."""
    mine, theirs = variables(one), variables(other)
    assert list(mine) == list(theirs)
    for name, values in mine.items():
        np.testing.assert_array_equal(values, theirs[name], err_msg=name)
    stats = [fit.posterior["sample_stats"].to_dataset() for fit in (one, other)]
    for name in ("energy", "n_steps", "diverging"):
        np.testing.assert_array_equal(stats[0][name], stats[1][name])
    pd.testing.assert_frame_equal(one.diagnostics.frame, other.diagnostics.frame, check_exact=True)
    assert one.diagnostics.to_dict() == other.diagnostics.to_dict()
    assert one.settings == other.settings


def test_the_new_draws_have_the_exact_posterior() -> None:
    of, fit = exact(PASSES, TRIALS), longer()
    assert fit.mu.shape == (4, 1350)
    same_posterior(fit.mu[:, 150:], of, of.mu)
    same_posterior(fit.sd("group")[:, 150:], of, of.sigma)
    same_posterior(fit.sd("group"), of, of.sigma)
    assert fit.diagnostics.passed, str(fit.diagnostics)


def test_the_old_draws_stay_in_front_and_the_fit_as_it_was() -> None:
    fit = longer()
    np.testing.assert_array_equal(fit.mu[:, :150], small().mu)
    np.testing.assert_array_equal(
        fit.effects("group").values[:, :150], small().effects("group").values
    )
    assert small().mu.shape == (4, 150)
    assert (fit.settings["rounds"], fit.settings["draws"]) == ([150, 1200], 1350)
    assert (small().settings["rounds"], small().settings["draws"]) == ([150], 150)
    group = fit.posterior["posterior"].to_dataset()
    assert list(group["draw"].values) == list(range(1350))
    assert fit.posterior["sample_stats"].to_dataset()["energy"].shape == (4, 1350)
    # Every row of another stream: none is made twice.
    assert len(np.unique(fit.mu)) == fit.mu.size


def test_the_gates_are_those_of_all_draws() -> None:
    fit = longer()
    stats = fit.posterior["sample_stats"].to_dataset()
    found = assess({"mu": fit.mu, "sd(group)": fit.sd("group")}, stats)
    columns = ["rhat", "ess_bulk", "ess_tail"]
    pd.testing.assert_frame_equal(
        fit.diagnostics.frame[columns], found.frame[columns], check_exact=True
    )
    assert fit.diagnostics.draws == 1350


@pytest.mark.parametrize("make", [small, systems, judged])
def test_a_file_goes_on_as_the_fit_in_memory_does(make: Any, tmp_path: Path) -> None:
    fit = make()
    fit.save(tmp_path / "run.nc")
    once = gs.extend(fit, draws=60, progress=False, cores=2)
    loaded = gs.extend(gs.load(tmp_path / "run.nc"), draws=60, progress=False, cores=1)
    assert_same(once, loaded)
    loaded.save(tmp_path / "more.nc")
    assert_same(once, gs.load(tmp_path / "more.nc"))
    twice = [gs.extend(f, progress=False) for f in (once, gs.load(tmp_path / "more.nc"))]
    assert_same(*twice)
    n = fit.mu.shape[1]
    assert twice[0].settings["rounds"] == [n, 60, n + 60]


@pytest.mark.parametrize("make", [small, systems, judged])
def test_what_the_gates_measured_is_found_again(make: Any) -> None:
    fit = make()
    again = assess(run_of(fit).quantities, fit.posterior["sample_stats"].to_dataset())
    pd.testing.assert_frame_equal(again.frame, fit.diagnostics.frame, check_exact=True)
    if make is judged:
        names = set(again.frame.index)
        assert {"sd(residual)", "fixed(judge)[0]", "mu + u(2)"} <= names


def test_own_sds_and_correlations_go_on(tmp_path: Path) -> None:
    task = gs.Facet("task", role="legitimate", varies="system")
    study = study_of(task, within("rollout", "system", "task"), object="system")
    found = checked(study, random_trials({"system": 3, "task": 6, "rollout": 3}, seed=4))
    fit = gs.fit(study, found, draws=150, tune=300, **QUICK)
    names = set(fit.diagnostics.frame.index)
    assert {"sd(task)[1]", "corr(task)[0, 1]", "mu + u(0)"} <= names
    again = assess(run_of(fit).quantities, fit.posterior["sample_stats"].to_dataset())
    pd.testing.assert_frame_equal(again.frame, fit.diagnostics.frame, check_exact=True)
    fit.save(tmp_path / "run.nc")
    once = gs.extend(fit, draws=100, progress=False)
    assert_same(once, gs.extend(gs.load(tmp_path / "run.nc"), draws=100, progress=False))
    assert once.correlation("task").shape == (4, 250, 3, 3)


@pytest.mark.slow
def test_the_pymc_sampler_goes_on_too() -> None:
    """One compilation serves all rounds of a fit, another those of its extension."""
    of = exact(PASSES, TRIALS)
    study, table = counted(PASSES, TRIALS)
    how: dict[str, Any] = {"draws": 150, "tune": 500, "seed": 5, "progress": False}
    fit = gs.extend(gs.fit(study, table, **how), until=1500, progress=False)
    same_posterior(fit.sd("group")[:, 150:], of, of.sigma)
    assert_same(fit, gs.fit(study, table, until=1500, **how))


def test_mean_and_sd_of_effects_are_pooled(monkeypatch: pytest.MonkeyPatch) -> None:
    every = gs.extend(systems(), draws=150, progress=False).effects("system:task")
    monkeypatch.setattr(recovered, "LARGEST_STORED", 10)
    found = crossed()
    few = gs.fit(found.study, found, draws=150, tune=300, **QUICK)
    group = gs.extend(few, draws=150, progress=False).posterior["posterior"].to_dataset()
    assert "u(system:task)" not in group
    np.testing.assert_allclose(group["u_mean(system:task)"], every.mean(("chain", "draw")))
    np.testing.assert_allclose(group["u_sd(system:task)"], every.std(("chain", "draw")))


def test_all_effects_are_kept_on_where_all_were(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovered, "LARGEST_STORED", 10)
    found = crossed()
    fit = gs.fit(found.study, found, draws=150, tune=300, store_effects=True, **QUICK)
    assert gs.extend(fit, draws=50, progress=False).effects("system:task").shape == (4, 200, 36)


def test_a_fit_without_the_draws_of_its_gates_does_not_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recovered, "LARGEST_STORED", 2)
    found = crossed()
    fit = gs.fit(found.study, found, draws=150, tune=300, **QUICK)
    with pytest.raises(gs.QuantityError, match=r"not kept.*mu \+ u\(0\).*store_effects=True"):
        gs.extend(fit, draws=50, progress=False)


def test_divergences_add_up_and_the_worst_energy_shows() -> None:
    run = run_of(small())
    other = replace(
        run, diagnostics=replace(run.diagnostics, divergences=3, ebfmi=(0.2, 2.0, 2.0, np.nan))
    )
    both = joined(replace(run, diagnostics=replace(run.diagnostics, divergences=2)), other)
    assert both.diagnostics.divergences == 5
    ebfmi = run.diagnostics.ebfmi
    np.testing.assert_array_equal(both.diagnostics.ebfmi, (0.2, *ebfmi[1:3], np.nan))
    assert both.rounds == (150, 150)
    np.testing.assert_array_equal(both.variables["mu"][1], np.hstack([small().mu, small().mu]))


def test_a_round_with_divergences_is_made_again_with_shorter_steps() -> None:
    careless = replace(small(), settings={**small().settings, "target_accept": 0.01})
    fit = gs.extend(careless, draws=300, progress=False)
    [text] = fit.diagnostics.refits
    assert text.startswith("300 more draws made again at target_accept 0.99: ")
    assert text.endswith("divergences")
    assert fit.diagnostics.divergences == 0
    assert fit.settings["target_accept"] == 0.99
    again = gs.extend(fit, draws=100, progress=False)
    assert again.diagnostics.refits == (text,)


def test_thinned_draws_go_on_thinned() -> None:
    """What a fit that was made 4 times as long says of itself."""
    fit = replace(small(), settings={**small().settings, "keep_every": 4})
    more = gs.extend(fit, draws=100, progress=False)
    plain = gs.extend(small(), draws=400, progress=False)
    assert more.settings["keep_every"] == 4
    np.testing.assert_array_equal(more.sd("group")[:, 150:], plain.sd("group")[:, 153::4])


def test_each_round_has_its_own_seed() -> None:
    settings = make_settings(
        seed=4, draws=10, tune=10, chains=4, cores=None, sampler="direct", target_accept=0.9,
        progress=False, store_effects=None,
    )  # fmt: skip
    made = [round_settings(settings, place, 7) for place in range(5)]
    assert made[0].seed == 4
    assert len({one.seed for one in made}) == 5
    assert {one.draws for one in made} == {7}
    other = round_settings(replace(settings, seed=5), 1, 7)
    assert other.seed not in {one.seed for one in made}


def test_settings_out_of_range_are_told() -> None:
    for wrong in ({"draws": 0}, {"draws": 2.5}, {"until": 399}, {"cores": 0}):
        [name] = wrong
        with pytest.raises(gs.DeclarationError, match=f"{name} is not a whole number in range"):
            gs.extend(small(), progress=False, **wrong)
    forgetful = replace(small(), settings={"seed": 3, "sampler": "direct"})
    message = "does not say how it was sampled: tune, chains, target_accept is not recorded"
    with pytest.raises(gs.QuantityError, match=message):
        gs.extend(forgetful)
