"""Systems that were run at different levels of a controlled facet."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import gstudy as gs
from gstudy.variance.basis import latent_of
from gstudy.variance.kernel import logistic_mean

RATES = {"a": 0.9, "b": 0.1, "c": 0.1}
STUDY = gs.Study(
    score="passed",
    object="system",
    facets=[
        gs.Facet("domain", role="controlled"),
        gs.Facet("task", role="legitimate", nested_in=["domain"]),
        gs.Facet("rollout", role="legitimate", nested_in=["system", "task"]),
    ],
)
QUICK = {"seed": 1, "sampler": "direct", "progress": False, "draws": 500, "tune": 500}


def trials(levels: dict[str, str], tasks: dict[str, int] | None = None) -> pd.DataFrame:
    """Systems that are equal at each level, run at these levels, 4 rollouts a task."""
    rng = np.random.default_rng(3)
    rows = [
        (s, d, f"{d}{t}", r, int(rng.random() < RATES[d]))
        for s, run in levels.items()
        for d in run
        for t in range((tasks or {}).get(s + d, 12))
        for r in range(4)
    ]
    return pd.DataFrame(rows, columns=["system", "domain", "task", "rollout", "passed"])


@pytest.fixture(scope="module")
def partly() -> gs.Fit:
    with pytest.warns(gs.EstimabilityWarning):
        return gs.fit(STUDY, trials({"X": "abc", "Y": "a"}), **QUICK)


def test_a_system_has_the_score_of_the_levels_it_was_run_at(partly: gs.Fit) -> None:
    found = gs.score(partly)
    rows = found.summary()
    # Equal at level a, and Y was run at nothing else.
    for label in ("X", "Y"):
        assert rows.loc[label, "lower"] < rows.loc[label, "rate"] < rows.loc[label, "upper"]
    assert rows.loc["Y", "mean"] - rows.loc["X", "mean"] > 0.4
    assert any("Y at a only" in note for note in found.notes)
    latent = latent_of(partly)
    given = latent.given("Y")
    level = latent.controlled.levels.index(("a",))
    expected = logistic_mean(given.mu + given.controlled.offsets[level], given.total)
    np.testing.assert_allclose(found.draws.sel(system="Y").values, expected, rtol=1e-12)


def test_a_joint_comparison_takes_both_at_the_same_levels(partly: gs.Fit) -> None:
    found = gs.compare_systems(partly, "X", "Y")
    row = found.summary().loc["new tasks"]
    assert row["lower"] < 0 < row["upper"]
    assert abs(row["mean"]) < 0.1
    assert any("Y at a only" in note for note in found.notes)
    assert any("never run at is a new draw from their sd" in note for note in found.notes)


def test_separate_fits_of_unlike_levels_are_refused() -> None:
    with pytest.warns(gs.EstimabilityWarning):
        fits = gs.fit_by(STUDY, trials({"X": "abc", "Y": "a"}), by="system", **QUICK)
    for ask in (lambda: gs.compare_systems(fits, "X", "Y"), lambda: gs.scores(fits)):
        with pytest.raises(gs.QuantityError, match="not run at the same levels of domain"):
            ask()


def test_other_shares_of_the_same_levels_are_told() -> None:
    table = trials({"X": "ab", "Y": "ab"}, {"Xa": 12, "Xb": 4, "Ya": 4, "Yb": 12})
    with pytest.warns(gs.EstimabilityWarning):
        fit = gs.fit(STUDY, table, **QUICK)
    found = gs.score(fit)
    assert any("weigh the levels of domain differently" in note for note in found.notes)
    rows = found.summary()
    assert ((rows["lower"] < rows["rate"]) & (rows["rate"] < rows["upper"])).all()
    row = gs.compare_systems(fit, "X", "Y").summary().loc["new tasks"]
    assert row["lower"] < 0 < row["upper"]


def test_like_systems_have_no_note() -> None:
    with pytest.warns(gs.EstimabilityWarning):
        fit = gs.fit(STUDY, trials({"X": "ab", "Y": "ab"}), **QUICK)
    assert not any("levels of domain" in note for note in gs.score(fit).notes)


def test_a_bank_within_controlled_levels_is_one_per_level() -> None:
    study = gs.Study(
        score="passed",
        facets=[
            gs.Facet("domain", role="controlled"),
            gs.Facet("task", role="legitimate", nested_in=["domain"], universe=12),
            gs.Facet("rollout", role="legitimate", nested_in=["task"]),
        ],
    )
    table = trials({"X": "abc"}).drop(columns="system")
    with pytest.warns(gs.EstimabilityWarning):
        fit = gs.fit(study, table, **QUICK)
    assert "this bank of 12 tasks per domain" in gs.score(fit).estimand


def test_the_joint_fit_of_a_leaderboard_is_of_the_same_trials() -> None:
    table, other = trials({"X": "ab", "Y": "ab"}), trials({"X": "ab", "Y": "ab"}, {"Xa": 5})
    with pytest.warns(gs.EstimabilityWarning):
        fits = gs.fit_by(STUDY, table, by="system", **QUICK)
    with pytest.warns(gs.EstimabilityWarning):
        joint = gs.fit(STUDY, other, **QUICK)
    with pytest.raises(gs.QuantityError, match=r"other trials: .X. has 68 in it"):
        gs.scores(fits, joint=joint)


@pytest.mark.parametrize("seed", [-1, 1.5, "a", True])
def test_a_seed_is_a_whole_number(partly: gs.Fit, seed: object) -> None:
    asks = (
        lambda: gs.posterior_check(partly, seed=seed),
        lambda: gs.compare_systems(partly, "X", "Y", seed=seed),
        lambda: gs.scores(partly, seed=seed),
        lambda: gs.prior_predictive(partly.study, partly.design, seed=seed),
    )
    for ask in asks:
        with pytest.raises(gs.QuantityError, match="the seed is not usable"):
            ask()


def test_other_bad_input_is_refused_with_advice(partly: gs.Fit) -> None:
    fits = {"one": partly, "two": partly}
    with pytest.raises(gs.QuantityError, match="the quantity is no function of a fit"):
        gs.contrasts(fits, "icc")
    with pytest.raises(gs.QuantityError, match="'two' is no fit"):
        gs.contrasts({"one": partly, "two": gs.variance_components(partly)}, gs.score)
    with pytest.raises(gs.QuantityError, match="pin is no list of facets"):
        gs.variance_budget(partly, pin=3)
