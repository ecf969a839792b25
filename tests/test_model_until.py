"""Rounds until every quantity has its effective size: ladder, cap, what is printed, chains."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from onefacet import counted
from test_model_extension import assert_same

import gstudy as gs
from gstudy.fits.gates import Diagnostics, assess
from gstudy.model.chains import processors
from gstudy.model.rounds import Run
from gstudy.model.settings import Settings, make_settings, second_attempt
from gstudy.model.until import LADDER, lengthened

if TYPE_CHECKING:
    from collections.abc import Callable

    from gstudy.fits.fitted import Fit
    from gstudy.study.assessment import Assessment

QUICK: dict[str, Any] = {"sampler": "direct", "progress": False, "seed": 4}

STUDY, TABLE = counted([1, 3, 4, 0, 2, 5], [5] * 6)


@cache
def design() -> Assessment:
    return gs.check(STUDY, TABLE)


def settings_of(**changes: Any) -> Settings:
    usual = {
        "seed": 1,
        "draws": 100,
        "tune": 100,
        "chains": 4,
        "cores": None,
        "sampler": "direct",
        "target_accept": 0.95,
        "progress": False,
        "store_effects": None,
    }
    return make_settings(**{**usual, **changes})


def walking(phi: float, *, diverging_from: int = 99) -> Callable[[Settings], Run]:
    """Rounds of an autoregression: of n draws (1 - phi) / (1 + phi) n are effective."""
    made: list[int] = []

    def sample(settings: Settings) -> Run:
        shape = (settings.chains, settings.draws)
        noise = np.random.default_rng(settings.seed).normal(size=(*shape[::-1], 2))
        walk = np.empty_like(noise)
        walk[0] = noise[0]
        for i in range(1, shape[1]):
            walk[i] = phi * walk[i - 1] + np.sqrt(1 - phi**2) * noise[i]
        mu, sd = walk[..., 0].T, np.exp(walk[..., 1].T)
        diverging = np.zeros(shape, dtype=bool)
        made.append(settings.draws)
        diverging[0, 0] = len(made) >= diverging_from
        stats = xr.Dataset({"diverging": (("chain", "draw"), diverging)})
        quantities = {"mu": mu, "sd(group)": sd}
        variables = {name: (("chain", "draw"), values) for name, values in quantities.items()}
        coords: dict[str, Any] = {}
        stats = stats.assign_coords(chain=np.arange(shape[0]), draw=np.arange(shape[1]))
        return Run(
            quantities, variables, coords, stats, assess(quantities, stats), (settings.draws,)
        )

    return sample


def grown(phi: float, until: int, **how: Any) -> Run:
    sample = walking(phi, **how)
    settings = settings_of(until=until)
    return lengthened(sample(settings), sample, design(), settings)


def sizes(run: Run) -> np.ndarray:
    return run.diagnostics.frame[["ess_bulk", "ess_tail"]].to_numpy()


@pytest.mark.parametrize(("phi", "until"), [(0.0, 1500), (0.5, 800), (0.7, 700)])
def test_rounds_are_added_until_all_have_their_size(phi: float, until: int) -> None:
    run = grown(phi, until)
    assert sizes(run).min() >= until
    assert run.missed is None
    assert run.draws in {round(100 * rung) for rung in LADDER}
    # Not far beyond what an autoregression needs; tails are known worse than the middle.
    needed = until / 4 * (1 + phi) / (1 - phi)
    assert needed / 1.3 <= run.draws <= 3 * needed
    np.testing.assert_array_equal(run.quantities["mu"], run.variables["mu"][1])


def test_a_run_with_enough_is_left_as_it_is() -> None:
    sample, settings = walking(-0.3), settings_of(until=400, draws=500)
    run = sample(settings)
    assert sizes(run).min() > 400
    assert lengthened(run, sample, design(), settings) is run


def test_the_last_rung_is_the_cap() -> None:
    run = grown(0.9, 100_000)
    assert run.draws == 2000
    # 100, then by at most a factor of 4 a round.
    assert run.rounds == (100, 300, 1200, 400)
    measure = "bulk|tail"
    assert run.missed is not None
    assert pd.Series([run.missed]).str.fullmatch(rf"({measure}) ESS of (mu|sd\(group\)) is \d+")[0]


def test_after_divergences_no_round_is_added() -> None:
    """One has them at its start, another in its second round; each ends there, and says so."""
    assert grown(0.5, 5000, diverging_from=1).rounds == (100,)
    later = grown(0.5, 5000, diverging_from=2)
    assert len(later.rounds) == 2
    assert later.diagnostics.divergences == 1
    assert later.missed is not None


def test_one_call_is_as_good_as_two_at_any_number_of_cores() -> None:
    how = {"draws": 150, "tune": 400, **QUICK}
    once = gs.fit(STUDY, TABLE, until=1200, cores=1, **how)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gs.ConvergenceWarning)
        first = gs.fit(STUDY, TABLE, cores=2, **how)
    twice = gs.extend(first, until=1200, progress=False)
    assert len(once.settings["rounds"]) > 1
    assert_same(once, twice)
    assert once.diagnostics.frame[["ess_bulk", "ess_tail"]].to_numpy().min() >= 1200
    assert once.settings["until"] == 1200
    assert once.settings["until_missed"] is None


def sluggish(fit: Fit) -> xr.DataArray:
    """A running mean of mu over 30 draws: far fewer of it are effective."""
    total = np.cumsum(np.pad(fit.mu, ((0, 0), (30, 0))), axis=1)
    return xr.DataArray((total[:, 30:] - total[:, :-30]) / 30, dims=("chain", "draw"))


def test_what_is_printed_needs_its_size_too() -> None:
    how = {"draws": 300, "tune": 300, "until": 500, **QUICK}
    plain = gs.fit(STUDY, TABLE, **how)
    fit = gs.fit(STUDY, TABLE, printed=[gs.variance_budget, sluggish], **how)
    assert fit.diagnostics.draws > plain.diagnostics.draws
    nothing = {"diverging": np.zeros(1, dtype=bool)}
    found = assess({}, nothing, derived={"slow": sluggish(fit).to_numpy()}).frame
    assert found[["ess_bulk", "ess_tail"]].to_numpy().min() >= 500
    # The draws that both have are the same.
    n = plain.diagnostics.draws
    np.testing.assert_array_equal(fit.mu[:, : min(n, 300)], plain.mu[:, : min(n, 300)])


def test_what_prints_no_draws_is_told() -> None:
    with pytest.raises(gs.DeclarationError, match=r"nothing with draws.*Given: 'str'.*budget"):
        gs.fit(STUDY, TABLE, draws=300, until=400, printed=[repr], **QUICK)


def test_until_that_is_not_reached_is_told_and_recorded() -> None:
    message = (
        r"until=50000 was not reached with 1,000 draws of each of 4 chains: (bulk|tail) ESS of .* "
        r"is [\d,]+\. gs\.extend\(fit, until=\.\.\.\) goes on"
    )
    with pytest.warns(gs.ConvergenceWarning, match=message):
        fit = gs.fit(STUDY, TABLE, draws=50, tune=300, until=50_000, **QUICK)
    assert sum(fit.settings["rounds"]) == 1000
    assert "ESS of" in fit.settings["until_missed"]


def test_each_level_of_many_fits_stops_by_itself() -> None:
    table = pd.DataFrame(
        [(s, f"t{t}", k, 9) for s, ks in (("A", (4, 5, 4, 6, 5, 4)), ("B", (0, 9, 2, 9, 7, 1)))
         for t, k in enumerate(ks)], columns=["system", "task", "k", "n"]
    )  # fmt: skip
    study = gs.Study(
        successes="k",
        trials="n",
        object="system",
        facets=[gs.Facet("task", role="legitimate")],
        interactions="none",
    )
    fits = gs.fit_by(study, table, by="system", draws=300, tune=300, until=1000, **QUICK)
    for fit in fits.values():
        assert fit.diagnostics.frame[["ess_bulk", "ess_tail"]].to_numpy().min() >= 1000
    with pytest.warns(gs.ConvergenceWarning, match=r"until was not reached by 2 of 2 fits by syst"):
        gs.fit_by(study, table, by="system", draws=50, tune=300, until=90_000, **QUICK)


def test_until_below_the_gate_is_refused() -> None:
    with pytest.raises(gs.DeclarationError, match=r"until is not a whole number .*400 or more"):
        settings_of(until=399)
    assert settings_of(until=400).until == 400


def test_chains_are_sized_to_the_machine() -> None:
    settings = settings_of(chains=None, draws=999)
    assert settings.chains == min(max(processors(), 2), 8)
    assert 4 * 999 <= settings.chains * settings.draws < 4 * 999 + settings.chains
    assert settings.recorded()["chains_sized"] is True
    assert "chains_sized" not in settings_of().recorded()


def test_no_thinned_refit_where_until_has_added_draws() -> None:
    short = Diagnostics(
        frame=pd.DataFrame(
            {"rhat": 1.02, "ess_bulk": 300.0, "ess_tail": 300.0, "kind": "parameter",
             "state": "varies"}, index=["mu"]
        ),
        divergences=0, ebfmi=(1.0,) * 4, chains=4, draws=1000,
    )  # fmt: skip
    settings = settings_of(draws=1000)
    again = second_attempt(short, settings)
    assert again is not None
    assert again[0].keep_every == 4
    assert second_attempt(short, replace(settings, until=1000)) is None
    stuck = replace(short, divergences=2)
    strict = second_attempt(stuck, replace(settings, until=1000))
    assert strict is not None
    assert (strict[0].target_accept, strict[0].until) == (0.99, 1000)
