"""Posterior checks: quiet where the model is true, and heard where it is not."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from designs import checked, study_of, within
from handmade import fit_by_hand, small_fit
from models import random_trials

import gstudy as gs
from gstudy.errors import ConvergenceWarning, EstimabilityWarning, QuantityError
from gstudy.fits.fitted import Fit
from gstudy.questions.posterior_checks import (
    PosteriorCheck,
    _mid_p,
    _unlike,
    posterior_check,
)

HOW = {"sampler": "direct", "progress": False, "draws": 300, "tune": 300, "chains": 4, "cores": 2}

ONE = study_of("task", within("rollout", "task"), score="passed")
SEVERAL = study_of("task", within("rollout", "system", "task"), score="passed", object="system")


def sampled(study: gs.Study, table: pd.DataFrame, **how: object) -> Fit:
    # These checks need draws that are about right, not ones that can be published.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", EstimabilityWarning)
        return gs.fit(study, table, seed=1, **{**HOW, **how})


def shared_sds(seed: int) -> pd.DataFrame:
    sd = {"system": 0.6, "task": 1.5, "system:task": 0.6}
    return gs.simulate(SEVERAL, {"system": 4, "task": 40, "rollout": 4}, sd=sd, mu=0.2, seed=seed)


def of_probabilities(p: np.ndarray, rollouts: int, seed: int) -> pd.DataFrame:
    """Trials of tasks with known pass probabilities."""
    rng = np.random.default_rng(seed)
    rows = [(f"t{i}", r, int(rng.random() < x)) for i, x in enumerate(p) for r in range(rollouts)]
    return pd.DataFrame(rows, columns=["task", "rollout", "passed"])


@pytest.fixture(scope="module")
def shared_fit() -> Fit:
    return sampled(SEVERAL, shared_sds(3))


@pytest.fixture(scope="module")
def check(shared_fit: Fit) -> PosteriorCheck:
    return posterior_check(shared_fit, seed=1)


def test_a_true_model_fits(check: PosteriorCheck) -> None:
    assert check.failed == ()
    assert not [note for note in check.notes if "does not fit" in note]
    frame = check.summary()
    assert (frame["verdict"] == "fits").mean() > 0.7
    assert frame["p"].between(0, 1).all()
    assert (frame["lower"] <= frame["median"]).all()
    assert (frame["median"] <= frame["upper"]).all()


def test_rows_and_attributes(check: PosteriorCheck) -> None:
    frame = check.summary(0.9)
    assert frame.attrs["level"] == 0.9
    assert frame.attrs["scale"] == "score"
    names = list(frame.index)
    assert names[0] == "sd of task rates"
    assert {"system:task, all passed", "new tasks, all failed", "new tasks, ICC, mean"} <= set(
        names
    )
    assert sum(name.startswith("rate: ") for name in names) == 4
    assert sum(name.startswith("new tasks, ICC: ") for name in names) == 4
    assert set(frame["effects"]) == {"fitted", "new task"}
    assert check.draws.dims == ("replicate", "statistic")
    assert check.draws.shape == (500, len(frame))
    assert "95% equal-tailed" in check.table().text()
    assert "two-sided mid-p" in check.table().text()


def test_observed_values_are_those_of_the_trials(check: PosteriorCheck) -> None:
    table = shared_sds(3)
    observed = check.summary()["observed"]
    by_task = table.groupby("task")["passed"].mean()
    cells = table.groupby(["system", "task"])["passed"].mean()
    anova = gs.anova_icc(table.rename(columns={"passed": "score"}), "task", by="system").frame
    assert observed["sd of task rates"] == pytest.approx(by_task.std())
    assert observed["system:task, all passed"] == pytest.approx((cells == 1).mean())
    assert observed["new tasks, all failed"] == pytest.approx((cells == 0).mean())
    assert observed["new tasks, ICC, mean"] == pytest.approx(anova["icc"].mean())
    for label, icc in anova["icc"].items():
        assert observed[f"new tasks, ICC: {label}"] == pytest.approx(icc)
        mean = table.loc[table["system"] == label, "passed"].mean()
        assert observed[f"rate: {label}"] == pytest.approx(mean)


def test_one_seed_gives_one_check(shared_fit: Fit, check: PosteriorCheck) -> None:
    again = posterior_check(shared_fit, seed=1)
    np.testing.assert_array_equal(again.draws.values, check.draws.values)
    other = posterior_check(shared_fit, seed=2, draws=200)
    assert other.draws.sizes["replicate"] == 200


def test_p_values_of_true_models_spread_over_the_unit_interval() -> None:
    found = []
    for seed in range(12):
        design = {"task": 40, "rollout": 5}
        table = gs.simulate(ONE, design, sd={"task": 1.5}, mu=0.5, seed=seed)
        one = posterior_check(sampled(ONE, table, draws=150, tune=200), seed=seed, draws=200)
        found.append(one.summary()["p"].to_numpy())
    p = np.concatenate(found)
    # Of 72 dependent values; posterior predictive p-values lean to the middle, that is to 1 here.
    assert (p < 0.05).mean() <= 0.08
    assert 0.3 < p.mean() < 0.9
    assert (p < 0.5).any()


def test_different_sds_recommend_own_variances() -> None:
    tables = []
    for i, sd in enumerate((0.3, 4.0, 4.0)):
        design = {"task": 60, "rollout": 6}
        table = gs.simulate(ONE, design, sd={"task": sd}, mu=0.3, seed=10 + i)
        tables.append(table.assign(system=f"s{i}"))
    fit = sampled(SEVERAL, pd.concat(tables))
    check = posterior_check(fit, seed=1)
    assert "new tasks, ICC: s0" in check.failed
    [advice] = [note for note in check.notes if 'varies = "system"' in note]
    assert advice.startswith("One set of sds for all levels of system does not fit the ICC of 's0'")
    assert 'gs.fit_by(study, trials, by="system")' in advice


def test_own_variances_are_advised_by_the_smallest_p_times_the_systems() -> None:
    systems = [f"s{i}" for i in range(5)]
    observed = pd.DataFrame(
        {"family": "icc", "subject": systems, "observed": 0.0, "effects": "new task"},
        index=[f"new tasks, ICC: {name}" for name in systems],
    )
    replicates = np.tile(np.linspace(-1, 1, 1000)[:, None], 5)
    # Two-sided mid-p of the first is 0.008, then 0.012: times 5 below and above 0.05.
    for place, subjects in ((996, ["s0"]), (994, [])):
        observed.loc[observed.index[0], "observed"] = replicates[place, 0] - 1e-6
        assert _mid_p(replicates, observed["observed"].to_numpy())[0] == pytest.approx(
            2 * (1000 - place) / 1000
        )
        assert list(_unlike(observed, replicates)["subject"]) == subjects
    # Beyond all replicates, and too few of them to tell: far out in the tail or nothing.
    observed.loc[observed.index[0], "observed"] = 1.001
    assert list(_unlike(observed, replicates)["subject"]) == ["s0"]
    assert not len(_unlike(observed, replicates[::20]))


@pytest.fixture(scope="module")
def lumpy() -> PosteriorCheck:
    """Most tasks at one half, some that never fail: no normal distribution of logits."""
    p = np.r_[np.full(105, 0.5), np.full(45, 1.0)]
    return posterior_check(sampled(ONE, of_probabilities(p, 30, 1)), seed=1)


def test_a_task_effect_that_is_not_normal_is_told_with_the_anova_icc(lumpy: PosteriorCheck) -> None:
    frame = lumpy.summary()
    assert frame.loc["new tasks, all passed", "verdict"] == "too high"
    [note] = [
        text for text in lumpy.notes if text.startswith("The normal task effect does not fit")
    ]
    anova = frame.loc["new tasks, ICC", "observed"]
    assert f"{anova:.3f} by one-way ANOVA" in note
    assert "new tasks, all passed (0.300)" in note


def test_replicates_with_fitted_effects_alone_would_not_tell(lumpy: PosteriorCheck) -> None:
    frame = lumpy.summary()
    far = (frame["observed"] - frame["median"]).abs() / frame["sd"]
    assert far["new tasks, all passed"] > 3
    assert far["sd of task rates"] < 2


def test_repeats_that_alternate_are_below_zero_in_words() -> None:
    rows = [(f"t{t}", r, r % 2) for t in range(60) for r in range(2)]
    table = pd.DataFrame(rows, columns=["task", "rollout", "passed"])
    check = posterior_check(sampled(ONE, table), seed=1)
    assert check.summary().loc["new tasks, ICC", "observed"] == pytest.approx(-1.0)
    [note] = [text for text in check.notes if "A variance cannot be negative" in text]
    assert "-1.000, below zero" in note
    assert "further than chance can bring it" in note
    assert not [text for text in check.notes if "normal task effect" in text]


def test_drift_over_rollouts_is_seen_where_the_cells_hold_them() -> None:
    study = study_of(
        "task", within("rollout", "task"), gs.Facet("judge", role="error"), score="passed",
        interactions="none",
    )  # fmt: skip
    rng = np.random.default_rng(2)
    rows = [
        (f"t{t}", r, j, int(rng.random() < 0.2 + 0.1 * r))
        for t in range(40)
        for r in range(6)
        for j in range(3)
    ]
    table = pd.DataFrame(rows, columns=["task", "rollout", "judge", "passed"])
    check = posterior_check(fit_by_hand(checked(study, table)), seed=1)
    frame = check.summary()
    assert frame.loc["drift over rollouts", "observed"] == pytest.approx(0.5, abs=0.1)
    assert frame.loc["drift over rollouts", "verdict"] == "too high"
    assert [note for note in check.notes if note.startswith("The score moves over the rollouts")]
    assert "agreement of judges" in frame.index


def test_an_unconverged_fit_is_stamped(shared_fit: Fit) -> None:
    from gstudy.fits.gates import assess

    bad = assess(
        {"mu": np.random.default_rng(1).normal(size=(2, 20))}, {"diverging": np.ones((2, 20))}
    )
    fit = Fit(shared_fit.posterior, shared_fit.study, shared_fit.design, bad, {})
    assert posterior_check(fit, seed=1, draws=100).notes[0].startswith("NOT CONVERGED")


def test_many_systems_are_cut_in_the_table_only() -> None:
    study = study_of("task", within("rollout", "system", "task"), object="system")
    table = random_trials({"system": 12, "task": 8, "rollout": 3}, 1)
    check = posterior_check(fit_by_hand(checked(study, table)), seed=1, draws=100)
    assert sum(name.startswith("rate: ") for name in check.summary().index) == 12
    assert sum(name.startswith("rate: ") for name in check.table().frame.index) == 8
    assert "Not shown: 8 rows of single systems" in check.table().text()


def test_a_spread_below_chance_is_no_question_of_normality() -> None:
    study = study_of("task", object="system", interactions="none")
    rows = [(s, f"t{j}", (i + j) % 2) for i, s in enumerate("ab") for j in range(30)]
    table = pd.DataFrame(rows, columns=["system", "task", "score"])
    check = posterior_check(sampled(study, table), seed=1, draws=200)
    notes = " ".join(check.notes)
    assert "The rates of tasks differ less than chance alone would make them" in notes
    assert "normal task effect" not in notes


def test_what_is_not_defined_for_a_design_is_said_and_left_out() -> None:
    # One task only: repeats of it cannot be told from the system's own rate.
    table = random_trials({"system": 6, "task": 1, "rollout": 8}, 1).rename(
        columns={"score": "passed"}
    )
    check = posterior_check(fit_by_hand(checked(SEVERAL, table)), seed=1, draws=100)
    frame = check.summary()
    assert not frame["median"].isna().any()
    assert not any(name.startswith("ICC of repeats") for name in frame.index)
    assert "nan" not in check.table().text()
    assert any(
        note.startswith("Not checked: ICC of repeats: 0, ICC of repeats: 1, ICC of repeats: 2 and")
        for note in check.notes
    )
    # One system of one task beside others of several: only its own is left out.
    rest = random_trials({"system": 3, "task": 6, "rollout": 4}, 1).rename(
        columns={"score": "passed"}
    )
    rest = rest[(rest["system"] != "0") | (rest["task"] == "0")]
    check = posterior_check(fit_by_hand(checked(SEVERAL, rest)), seed=1, draws=100)
    assert "new tasks, ICC: 1" in check.summary().index
    assert "new tasks, ICC: 0" not in check.summary().index
    assert any("Not checked: new tasks, ICC: 0. Of trials" in note for note in check.notes)
    assert "nan" not in check.table().text()


def test_a_fit_without_anything_to_compare_is_refused() -> None:
    table = pd.DataFrame({"task": "t", "rollout": range(8), "passed": [0, 1] * 4})
    with pytest.raises(QuantityError, match="there is nothing to check"):
        posterior_check(fit_by_hand(checked(ONE, table)))


@pytest.mark.parametrize(
    ("source", "draws", "message"),
    [
        ("run.nc", 200, "a posterior check is of a fit"),
        (None, 20, "draws is no number of replicates"),
        (None, 150.5, "draws is no number of replicates"),
        (None, 10**9, "Allowed: whole numbers from 100 to 100,000. 500 tell a tail of 1 in 100"),
    ],
)
def test_bad_arguments_are_named(source: object, draws: object, message: str) -> None:
    with pytest.raises(QuantityError, match=message):
        posterior_check(small_fit() if source is None else source, draws=draws)


@pytest.mark.slow
def test_gpqa_fits_with_shared_sds(shared: Path) -> None:
    table = pd.read_csv(shared / "data" / "gpqa_diamond_epochs.csv.gz", dtype=str)
    study = study_of("task", within("rollout", "system", "task"), object="system")
    check = posterior_check(sampled(study, table.assign(score=table["score"].astype(int))), seed=1)
    observed = check.summary()["observed"].filter(like="new tasks, ICC: ")
    np.testing.assert_allclose(observed, [0.6072, 0.6656], atol=5e-5)
    assert check.failed == ()
    assert not [note for note in check.notes if "does not fit" in note]


@pytest.mark.slow
def test_llmbar_judges_need_own_variances_and_falcon_is_below_zero(shared: Path) -> None:
    table = pd.read_csv(shared / "data" / "llmbar_judges.csv.gz", dtype=str)
    table = table[table["environment"] == "Vanilla"].assign(score=lambda t: t["score"].astype(int))
    study = study_of("task", within("rollout", "system", "task"), object="system")
    check = posterior_check(sampled(study, table), seed=1, draws=200)
    notes = " ".join(check.notes)
    assert check.summary().loc["new tasks, ICC: Falcon", "observed"] == pytest.approx(
        -0.1636, abs=5e-5
    )
    assert 'varies = "system"' in notes
    assert "new tasks, ICC: Falcon is -0.164, below zero" in notes


@pytest.mark.slow
def test_a_real_task_effect_that_is_not_normal(shared: Path) -> None:
    table = pd.read_csv(shared / "data" / "highk_human_eval_plus.csv.gz", dtype={"task": str})
    table = table[table["system"] == "deepseek_r1_distill_llama_70b"]
    study = gs.Study(
        successes="successes", trials="trials", facets=[gs.Facet("task", role="legitimate")]
    )
    check = posterior_check(sampled(study, table), seed=1)
    anova = gs.anova_icc(table[["task", "successes", "trials"]]).value
    [note] = [text for text in check.notes if text.startswith("The normal task effect does not")]
    assert f"{anova:.3f} by one-way ANOVA" in note
    assert {"new tasks, ICC", "new tasks, all failed"} <= set(check.failed)
