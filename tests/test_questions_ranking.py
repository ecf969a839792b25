"""The leaderboard: one row per system, ranks, tiers, and what each column needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from designs import checked, grid, study_of, within
from handmade import fit_by_hand, small_fit
from scipy.special import expit
from sources import fitted

import gstudy as gs
from gstudy.errors import QuantityError
from gstudy.fits.fitted import Fit
from gstudy.fits.gates import assess
from gstudy.fits.many import Fits
from gstudy.questions.leaderboard import NO_JOINT, SHARED, scores
from gstudy.questions.observed import naive_interval
from gstudy.questions.ranking import Leaderboard, rank_draws, rank_interval, tiers_of
from gstudy.study.parts import split_by

LABELS = ["alpha", "beta", "gamma", "delta"]
COMMON = study_of(
    "task", within("rollout", "system", "task"), object="system", interactions=["system:task"]
)
OWN = study_of(
    gs.Facet("task", role="legitimate", varies="system"),
    within("rollout", "system", "task"),
    object="system",
)


def hand_fits(table: pd.DataFrame, study: gs.Study = COMMON) -> Fits:
    """Separate fits of each system with draws made by hand."""
    _, parts = split_by(study, table, "system")
    fits = {
        part.label: fit_by_hand(checked(part.study, part.trials), shape=(2, 200), seed=i)
        for i, part in enumerate(parts)
    }
    return Fits(fits, study, "system")


def told(found: Leaderboard) -> list[str]:
    """Notes but that draws made by hand are too few."""
    return [note for note in found.notes if not note.startswith("NOT CONVERGED")]


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return grid({"system": LABELS, "task": [f"t{i}" for i in range(6)], "rollout": range(3)})


@pytest.fixture(scope="module")
def fits(table: pd.DataFrame) -> Fits:
    return hand_fits(table)


@pytest.fixture(scope="module")
def joint(table: pd.DataFrame) -> Fit:
    return fitted(COMMON, table, shape=(2, 200))


def test_each_row_is_what_the_systems_own_fit_says(fits: Fits, table: pd.DataFrame) -> None:
    frame = scores(fits).summary()
    assert frame.index.name == "system"
    for label, fit in fits.items():
        row, alone = frame.loc[label], gs.score(fit).summary().iloc[0]
        for column in ("n_trials", "n_task", "rate", "naive_lower", "naive_upper"):
            assert row[column] == alone[column]
        for column in ("mean", "lower", "upper"):
            assert row[column] == pytest.approx(alone[column], rel=1e-12)
        icc = gs.icc(fit, "task").summary().iloc[0]
        assert row["icc"] == pytest.approx(icc["mean"])
        assert row["icc_upper"] == pytest.approx(icc["upper"])
        rerun = gs.rerun_noise(fit).summary().loc["difference"]
        assert row["rerun"] == pytest.approx(rerun["mean"])
        assert row["rerun_lower"] == pytest.approx(rerun["lower"])
    rates = table.groupby("system")["score"].mean()
    np.testing.assert_allclose(frame["rate"], rates.loc[frame.index])
    assert frame["rate"].is_monotonic_decreasing
    low, _ = naive_interval(rates["beta"] * 18, 18)
    assert frame.loc["beta", "naive_lower"] == pytest.approx(float(low))


def test_ranks_are_ranks_of_the_means_over_these_tasks(fits: Fits) -> None:
    found = scores(fits)
    means = np.stack(
        [
            expit(fit.mu[..., None] + fit.effects("task").values).mean(axis=-1)
            for fit in fits.values()
        ]
    )
    np.testing.assert_allclose(found.these_tasks.transpose("system", "chain", "draw"), means)
    ranks = (-means).argsort(axis=0).argsort(axis=0) + 1
    frame = found.summary()
    for place, label in enumerate(fits):
        low, high = frame.loc[label, ["rank_lower", "rank_upper"]]
        assert (ranks[place] < low).mean() <= 0.025
        assert (ranks[place] > high).mean() <= 0.025
        assert frame.loc[label, "p_best"] == pytest.approx((ranks[place] == 1).mean())
    assert frame["p_best"].sum() == pytest.approx(1)


def test_ranks_over_new_tasks_come_from_the_joint_fit(fits: Fits, joint: Fit) -> None:
    assert NO_JOINT in scores(fits).notes
    assert "new_rank_lower" not in scores(fits).summary()
    found = scores(fits, joint=joint)
    assert NO_JOINT not in found.notes
    assert found.new_tasks is not None
    np.testing.assert_allclose(
        found.new_tasks.sel(system="gamma"), gs.score(joint).draws.sel(system="gamma")
    )
    frame = found.summary()
    assert frame["p_best_new"].sum() == pytest.approx(1)
    assert (frame["new_rank_lower"] <= frame["new_rank_upper"]).all()


def test_a_fit_with_shared_sds_leaves_out_what_needs_own_ones(joint: Fit) -> None:
    found = scores(joint)
    assert found.icc is None
    assert found.rerun is None
    assert SHARED in found.notes
    frame = found.summary()
    assert not {"icc", "rerun"} & set(frame.columns)
    assert {"rank_lower", "new_rank_lower", "tier", "p_best_new"} <= set(frame.columns)
    assert frame.loc["beta", "mean"] == pytest.approx(
        gs.score(joint).summary().loc["beta", "mean"], rel=1e-12
    )


def test_a_fit_with_own_sds_has_every_column(table: pd.DataFrame) -> None:
    fit = fitted(OWN, table, shape=(2, 200))
    found = scores(fit)
    assert told(found) == []
    frame = found.summary()
    assert {"icc", "rerun", "rank_lower", "new_rank_lower", "tier"} <= set(frame.columns)
    own = gs.icc(fit, "task", system="beta").summary().iloc[0]
    assert frame.loc["beta", "icc"] == pytest.approx(own["mean"])
    assert frame["icc"].nunique() == 4


def test_tasks_that_a_system_did_not_run_are_new_to_it(table: pd.DataFrame) -> None:
    partly = table[~((table["system"] == "delta") & (table["task"] > "t2"))]
    fits = hand_fits(partly)
    found = scores(fits)
    note = next(note for note in found.notes if note.startswith("Not all ran the same tasks"))
    assert "delta 3 of 6" in note
    fit = fits["delta"]
    known = expit(fit.mu[..., None] + fit.effects("task").values).mean(axis=-1)
    drawn = found.these_tasks.sel(system="delta").values * 6 - known * 3
    assert (np.abs(drawn / 3 - known) > 1e-6).all()
    assert ((drawn > 0) & (drawn < 3)).all()


def test_tiers_hold_what_is_not_resolved_from_their_best() -> None:
    rng = np.random.default_rng(1)
    means = [0.9, 0.88, 0.7, 0.69, 0.68, 0.2]
    draws = np.stack([rng.normal(mean, 0.02, (2, 2000)) for mean in means])
    assert tiers_of(draws) == [1, 1, 2, 2, 2, 3]
    assert tiers_of(draws[::-1]) == [3, 2, 2, 2, 1, 1]
    # A chain of close neighbours: the third is resolved from the first, not from the second.
    chain = np.stack([rng.normal(mean, 0.02, (1, 4000)) for mean in (0.9, 0.86, 0.82)])
    better = (chain[0] > chain[2]).mean()
    assert (chain[0] > chain[1]).mean() < 0.975 < better
    assert tiers_of(chain) == [1, 1, 2]
    assert tiers_of(chain, resolved=0.999) == [1, 1, 1]
    assert tiers_of(draws[:1]) == [1]


def test_rank_intervals_leave_out_at_most_each_tail() -> None:
    rng = np.random.default_rng(2)
    ranks = rank_draws(rng.normal(size=(5, 3, 400)) + np.arange(5)[:, None, None])
    np.testing.assert_array_equal(ranks.sum(axis=0), 15)
    low, high = rank_interval(ranks, 0.9)
    for k in range(5):
        flat = ranks[k].ravel()
        assert (flat < low[k]).mean() <= 0.05 < (flat < low[k] + 1).mean()
        assert (flat > high[k]).mean() <= 0.05 < (flat > high[k] - 1).mean()


def test_one_system_is_one_row() -> None:
    study = study_of("task", within("rollout", "task"))
    fit = fitted(study, grid({"task": "abcdef", "rollout": range(3)}), shape=(2, 50))
    found = scores(fit)
    frame = found.summary()
    assert list(frame.index) == ["all trials"]
    assert frame[["rank_lower", "rank_upper", "tier"]].to_numpy().tolist() == [[1, 1, 1]]
    assert told(found) == []
    assert "icc" in frame


def test_a_system_whose_tasks_tell_no_icc_has_none(table: pd.DataFrame) -> None:
    # One trial of each task: the tasks are inside the residual of gamma's own fit.
    single = table[(table["system"] != "gamma") | (table["rollout"] == 0)]
    found = scores(hand_fits(single))
    frame = found.summary()
    assert np.isnan(frame.loc["gamma", "icc"])
    assert np.isfinite(frame.drop(index="gamma")["icc"]).all()
    assert np.isfinite(frame["rerun"]).all()
    assert "nan" not in str(found)


def test_graded_scores_are_in_their_unit(table: pd.DataFrame) -> None:
    study = study_of(
        "task",
        within("rollout", "system", "task"),
        object="system",
        interactions=["system:task"],
        family="gaussian",
    )
    graded = table.assign(score=np.random.default_rng(3).normal(40, 5, len(table)))
    found = scores(hand_fits(graded, study))
    frame = found.summary()
    np.testing.assert_allclose(
        frame["rate"], graded.groupby("system")["score"].mean().loc[frame.index]
    )
    assert "in score units" in " ".join(str(found).split())
    assert "observed mean score" in str(found)


def test_the_table_of_eleven_systems_fits_a_hundred_cells(table: pd.DataFrame) -> None:
    names = [f"A model with a long name ({i})" for i in range(11)]
    many = grid({"system": names, "task": range(8), "rollout": range(2)})
    found = scores(hand_fits(many), joint=fitted(COMMON, many, shape=(2, 200)))
    lines = str(found).splitlines()
    assert max(map(len, lines)) <= 100
    head = next(line for line in lines if line.startswith("system"))
    assert head.split() == [
        *("system", "trials", "tasks", "score", "naive", "full", "ICC", "re-run"),
        *("rank", "new", "tier", "best"),
    ]
    # Each system is told apart from the others.
    rows = lines[lines.index(head) + 2 :][:11]
    assert len({row.split("  ")[0] for row in rows}) == 11
    assert "score scale, 95% equal-tailed intervals" in lines
    assert "<table" in found._repr_html_()


def test_gates_that_fail_are_told_of_each_fit(fits: Fits) -> None:
    diverging = np.zeros(fits["beta"].mu.shape, dtype=bool)
    diverging[0, 0] = True
    old = fits["beta"]
    gates = assess({"mu": old.mu}, {"diverging": diverging})
    bad = Fit(old.posterior, old.study, old.design, gates)
    found = scores(Fits({**fits.fits, "beta": bad}, fits.study, "system"))
    stamps = [note for note in found.notes if note.startswith("NOT CONVERGED")]
    assert any(note.endswith("(beta)") and "1 divergence" in note for note in stamps)


def test_systems_that_could_not_be_fitted_are_named(fits: Fits) -> None:
    left = {label: fit for label, fit in fits.items() if label != "delta"}
    failed = Fits(left, fits.study, "system", {"delta": gs.DataError("no usable trial")})
    found = scores(failed)
    assert "delta is not ranked, not fitted: no usable trial" in found.notes
    assert set(found.summary().index) == set(left)


def test_labels_are_data() -> None:
    frame = scores(small_fit()).summary()
    assert set(frame.index) == {"A", "B:1", "C/2"}


def test_what_is_no_leaderboard_is_refused(fits: Fits, joint: Fit, table: pd.DataFrame) -> None:
    with pytest.raises(QuantityError, match=r"a leaderboard is of fits.*Given: 'str'"):
        scores("run.nc")
    by_task = Fits(fits.fits, fits.study, "task")
    with pytest.raises(QuantityError, match=r"needs one fit per system.*by=.system"):
        scores(by_task)
    fewer = fitted(COMMON, table[table["system"] != "delta"], shape=(1, 20))
    with pytest.raises(QuantityError, match=r"joint fit does not know 'delta'.*alpha, beta"):
        scores(fits, joint=fewer)
    with pytest.raises(QuantityError, match="level is not a proportion"):
        scores(joint).summary(level=95)
    study = study_of("task", object="system", interactions="none")
    rows = pd.DataFrame({"system": ["a", "b"], "task": ["t1", "t2"], "score": [0, 1]})
    with pytest.raises(QuantityError, match="no effects of their own"):
        scores(fitted(study, rows, shape=(1, 20)))


@pytest.mark.slow
def test_the_metr_runs_are_ranked(shared: Path) -> None:
    rows = pd.read_csv(shared / "data" / "metr_horizon_runs.csv.gz")
    rows = rows[["system", "task", "rollout", "score"]]
    how: dict[str, Any] = {"seed": 1, "progress": False}
    with pytest.warns(gs.EstimabilityWarning):
        fits = gs.fit_by(COMMON, rows, by="system", **how)
    with pytest.warns(gs.EstimabilityWarning):
        joint = gs.fit(COMMON, rows, sampler="direct", **how)
    found = scores(fits, joint=joint)
    assert max(map(len, str(found).splitlines())) <= 100
    frame = found.summary()
    rates = rows.groupby("system")["score"].mean()
    np.testing.assert_allclose(frame["rate"], rates.loc[frame.index])
    assert frame.index[0] == "human"
    assert frame.loc["human", ["rank_lower", "rank_upper", "tier"]].tolist() == [1, 1, 1]
    # ANOVA ICC(1,1) on the same runs, from the data's own page.
    anova = {"Claude 3 Opus": 0.6310, "GPT-4o": 0.7108, "o1": 0.6970, "human": 0.0193}
    for label, value in anova.items():
        assert frame.loc[label, "icc_lower"] - 0.02 < value < frame.loc[label, "icc_upper"] + 0.02
    assert frame["p_best"].sum() == pytest.approx(1)
