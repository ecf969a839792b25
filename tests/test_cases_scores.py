"""Reported cases D: failed and missing scores, fractions, one sample, bounds. Cases 27 to 36."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from designs import checked, study_of, verdicts, within
from onefacet import sampled

import gstudy as gs
from gstudy.questions.scores import naive_interval

if TYPE_CHECKING:
    from gstudy.fits.fitted import Fit

TASKS = ("task", within("epoch", "task"))


def rows(scores: list[Any], **columns: Any) -> pd.DataFrame:
    table = pd.DataFrame({"task": range(len(scores)), "epoch": 1, **columns})
    return table.assign(score=pd.Series(scores, dtype=object))


# ------------------------------------------------------- case 27: runs that failed stay counted


@pytest.mark.parametrize(
    ("n", "failed", "passed", "incorrect", "drop"),
    [(100, 10, 80, 0.80, 80 / 90), (8, 2, 2, 0.25, 2 / 6)],
)
def test_both_denominators_of_failed_runs(
    n: int, failed: int, passed: int, incorrect: float, drop: float
) -> None:
    """Case 27: nothing leaves the denominator silently, and both answers follow a declaration."""
    scores = [None] * failed + [1] * passed + [0] * (n - failed - passed)
    table = rows(scores, outcome=["failed"] * failed + ["scored"] * (n - failed))
    with pytest.raises(gs.DataError, match=rf"{failed} of {n} rows are failed runs"):
        gs.read_trials(table, study_of(*TASKS))
    for policy, expected, used in (("incorrect", incorrect, n), ("drop", drop, n - failed)):
        study = study_of(*TASKS, on_failed_run=policy)
        trials = gs.read_trials(table, study)
        usable = trials.usable(study)
        assert usable["successes"].sum() / usable["trials"].sum() == pytest.approx(expected)
        assert trials.counts.loc["all"].to_dict() == {
            "n_rows": n,
            "n_used": used,
            "n_failed": failed,
            "n_unscored": 0,
        }
        shown = checked(study, trials).universe_table().notes[0]
        assert f"{incorrect:.1%} if they count as 0, {drop:.1%} if they are left out" in shown


# ----------------------------------------------------------- case 28: what is not a score at all


def test_each_kind_of_bad_score_has_its_own_end() -> None:
    """Case 28: [1, 0, NaN, None, inf, "C"]: two are no scores, two were never given, two count."""
    mixed = [1, 0, float("nan"), None, float("inf"), "C"]
    with pytest.raises(gs.DataError, match=r"row 5 .*\(2 of 6 rows.*Given: inf"):
        gs.read_trials(rows(mixed), study_of(*TASKS))
    with pytest.raises(gs.DataError, match=r"row 5 .*\(1 of 5 rows.*Given: 'C'"):
        gs.read_trials(rows([*mixed[:4], "C"]), study_of(*TASKS))
    with pytest.raises(gs.DataError, match=r"2 of 4 rows were never scored, the first row 3"):
        gs.read_trials(rows(mixed[:4]), study_of(*TASKS))
    study = study_of(*TASKS, on_missing_score="drop")
    trials = gs.read_trials(rows(mixed[:4]), study)
    assert trials.counts.loc["all"].to_dict() == {
        "n_rows": 4,
        "n_used": 2,
        "n_failed": 0,
        "n_unscored": 2,
    }
    assert trials.usable(study)["successes"].tolist() == [1, 0]
    assert "2 task levels have no trial left: 2, 3" in trials.notes


def test_failed_and_unscored_are_told_apart() -> None:
    """Case 28: the same empty score, by what the row says of it."""
    table = rows([1, 0, None, None], outcome=["scored", "scored", "failed", "unscored"])
    study = study_of(*TASKS, on_missing_score="drop", on_failed_run="incorrect")
    trials = gs.read_trials(table, study)
    assert trials.usable(study)["successes"].tolist() == [1, 0, 0]
    assert trials.counts.loc["all", ["n_failed", "n_unscored"]].tolist() == [1, 1]


# ------------------------------------------------- cases 30 and 33: sums and means of epochs


def test_two_halves_are_no_pass() -> None:
    """Case 30: nothing sums rewards; a threshold is the user's, and leaves no pass here."""
    table = pd.DataFrame({"task": ["a", "a"], "epoch": [1, 2], "reward": [0.5, 0.5]})
    study = study_of(*TASKS, score="reward")
    with pytest.raises(
        gs.DataError, match=r"Given: 0\.5.*\(2 of 2 rows|\(2 of 2 rows.*Given: 0\.5"
    ):
        gs.read_trials(table, study)
    passed = table.assign(reward=((table["reward"] - 1).abs() <= 1e-6).astype(int))
    assert gs.read_trials(passed, study).usable(study)["successes"].tolist() == [0, 0]
    # Nor is what is nearly 1 taken for 1.
    with pytest.raises(gs.DataError, match=r"Given: 0\.9999999"):
        gs.read_trials(table.assign(reward=[1, 0.9999999]), study)


@pytest.mark.parametrize("total", [0.5, 1.5, 2.7])
def test_a_sum_of_rewards_is_no_count(total: float) -> None:
    """Case 30."""
    study = gs.Study(successes="k", trials="n", facets=[gs.Facet("task", role="legitimate")])
    table = pd.DataFrame({"task": ["a", "b"], "k": [1.0, total], "n": 3})
    with pytest.raises(gs.DataError, match="not a rate or a sum of graded scores"):
        gs.read_trials(table, study)


def test_epochs_are_read_unreduced() -> None:
    """Case 33: ten epochs, four correct; their mean is refused, their rows are ten trials."""
    epochs = pd.DataFrame({"task": "a", "epoch": range(10), "score": [1] * 4 + [0] * 6})
    study = study_of(*TASKS)
    usable = gs.read_trials(epochs, study).usable(study)
    assert (usable["successes"].sum(), usable["trials"].sum()) == (4, 10)
    mean = epochs.groupby("task", as_index=False)["score"].mean()
    with pytest.raises(gs.DataError, match=r"Given: 0\.4.*one row per run \(unreduced epochs\)"):
        gs.read_trials(mean, study_of("task"))
    counts = gs.Study(successes="k", trials="n", facets=[gs.Facet("task", role="legitimate")])
    counted = pd.DataFrame({"task": ["a"], "k": [4], "n": [10]})
    assert gs.read_trials(counted, counts).usable(counts)["successes"].tolist() == [4]


def test_within_task_variance_needs_the_rollouts() -> None:
    """Case 33: airline's ICC is there because its rollouts are; of reduced rows there is none."""
    study, trials = gs.example("airline")
    assert gs.anova_icc(trials, study=study).value == pytest.approx(0.404584368959, abs=1e-11)
    mode = pd.DataFrame({"task": range(6), "score": [0, 1, 0, 1, 1, 0]})
    assert verdicts(checked(study_of("task"), mode)) == {"task": "inside residual"}
    assert "one trial per level" in str(gs.anova_icc(mode))


# ----------------------------------------------------------------- case 34: a single sample


@pytest.fixture(scope="module")
def single() -> Fit:
    """One row: one system, one task, one run."""
    study = study_of("task", within("run", "system", "task"), object="system")
    return sampled(study, pd.DataFrame({"system": ["a"], "task": "t", "run": 1, "score": 1}))


RESULTS = {
    "score": gs.score,
    "components": gs.variance_components,
    "budget": gs.variance_budget,
    "re-run": gs.rerun_noise,
}


@pytest.mark.parametrize("name", RESULTS)
def test_one_row_has_reasons_and_no_zero_and_no_nan(single: Fit, name: str) -> None:
    """Case 34: what one row cannot say is named; no interval is of width 0."""
    found = RESULTS[name](single)
    summary = found.summary()
    assert np.isfinite(summary.select_dtypes("number").to_numpy()).all()
    assert not re.search(r"\b(nan|inf|None)\b", str(found), re.IGNORECASE)
    if name != "score":
        assert "Not covered: task was not sampled (one level, 't')" in str(found)
    if name in ("score", "re-run"):
        assert (summary["upper"] > summary["lower"]).all()
        assert (summary["mean"] > 0).all()


def test_one_row_refuses_its_icc_with_the_reason(single: Fit) -> None:
    """Case 34."""
    with pytest.raises(gs.QuantityError, match="'task' was not sampled: one level, 't'"):
        gs.icc(single, "task")
    assert "not defined: one level" in str(
        gs.anova_icc(pd.DataFrame({"task": ["t"], "score": [1]}))
    )


# ----------------------------------------------------------------- case 35: rates of 0 and 1


@pytest.mark.parametrize(
    ("passed", "n", "low", "high"), [(0, 307, 0.0, 0.012358), (123, 123, 0.969714, 1.0)]
)
def test_rates_of_zero_and_one_have_intervals(passed: int, n: int, low: float, high: float) -> None:
    """Case 35: Wilson beside ours, neither of width 0."""
    np.testing.assert_allclose(naive_interval(passed, n), (low, high), atol=1e-6)
    table = pd.DataFrame({"task": range(n), "score": int(passed > 0)})
    fit = sampled(study_of("task"), table)
    row = gs.score(fit).summary().iloc[0]
    assert row["rate"] == passed / n
    np.testing.assert_allclose(
        row[["naive_lower", "naive_upper"]].astype(float), (low, high), atol=1e-6
    )
    assert row["lower"] < row["upper"]
    # Near Jeffreys' .0081 in its width: mu ~ Normal(0, 3) is as vague.
    assert 0.004 < row["upper"] - row["lower"] < 0.035
    assert gs.variance_budget(fit).half_width().to_numpy().min() > 0
    assert gs.rerun_noise(fit).summary()["mean"].min() > 0


# --------------------------------------------------------- case 36: three ICCs of one data set


@pytest.mark.reference
def test_three_iccs_of_airline_name_estimator_and_scale(oracle: Any) -> None:
    """Case 36: ANOVA .4046, exact posterior .506 on the logit scale and .362 on the score scale."""
    rows_ = {row["id"]: row for row in oracle("references")["references"]}
    given = rows_["tau_bench_airline_gpt4o"]
    exact = rows_["exact_logit_1facet__tau_airline_gpt4o_50x4"]["expected"]["posterior"]
    passes = given["input"]["passes_out_of_4_by_task"]
    study = gs.Study(
        successes="k",
        trials="n",
        facets=[gs.Facet("task", role="legitimate")],
        priors={
            "mu": {"dist": "Normal", "mu": 0.0, "sigma": 1.5},
            "sd(task)": {"dist": "HalfNormal", "sigma": 1.0},
        },
    )
    table = pd.DataFrame({"task": range(50), "k": passes, "n": 4})
    fit = sampled(study, table, draws=1500)
    assert gs.score(fit).summary().iloc[0]["rate"] == pytest.approx(given["expected"]["mean"])
    anova = gs.anova_icc(table, study=study)
    assert anova.value == pytest.approx(given["expected"]["anova_ICC(1)"], abs=1e-9)
    assert "ANOVA ICC(1,1)" in str(anova)
    for scale, name in (("logit", "icc_latent"), ("score", "icc_observed")):
        found = gs.icc(fit, "task", scale=scale)
        row = found.summary(0.9).iloc[0]
        # sd .1 at 1,500 effective draws, times 4; quantiles have twice the error.
        assert row["mean"] == pytest.approx(exact[name]["mean"], abs=0.011)
        assert row["lower"] == pytest.approx(exact[name]["q5"], abs=0.025)
        assert row["upper"] == pytest.approx(exact[name]["q95"], abs=0.025)
        assert f"{scale} scale" in str(found)
        assert "ANOVA" not in str(found)
    low, high = gs.icc(fit, "task").summary(0.95).iloc[0][["lower", "upper"]]
    assert low < anova.value < high
