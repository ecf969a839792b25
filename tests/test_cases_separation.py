"""Reported cases C: separation, all zero, few levels, fractions. Cases 17, 19, 21, 22, 24, 25."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from designs import checked, study_of, within
from onefacet import MU, counted, exact, same_posterior, sampled

import gstudy as gs
from gstudy.questions.sensitivity import weak_components_note

if TYPE_CHECKING:
    from gstudy.fits.fitted import Fit

NOT_COVERED = "Not covered: group was not sampled (one level, 'g0'); its variance is unknown."

# ----------------------------------------------------------------------- case 17: separation


def test_default_priors_do_not_follow_binary_data() -> None:
    """Case 17: no estimate of the data enters them, so that nothing can diverge with it."""
    separated = counted([0, 0, 0, 10, 10, 10], [10] * 6, priors=None)
    plain = counted([4, 5, 6, 5, 4, 6], [10] * 6, priors=None)
    one, other = (checked(*both) for both in (separated, plain))
    assert one.mu_prior == other.mu_prior
    assert [c.prior for c in one.components] == [c.prior for c in other.components]


@pytest.mark.parametrize("passes", [[0, 0, 0, 10, 10, 10], [0] * 8, [10] * 8, [0, 10]], ids=str)
def test_separated_data_pass_every_gate_at_the_defaults(passes: list[int]) -> None:
    """Cases 17 and 19: zero divergences, everything finite.

    Where all levels always pass, about every second seed has one or two divergences in 8,000 draws
    at the first attempt, and none in the recorded refit.
    """
    fit = sampled(*counted(passes, [10] * len(passes), priors=None), draws=2000)
    assert fit.diagnostics.passed, str(fit.diagnostics)
    for found in (gs.icc(fit, "group"), gs.score(fit), gs.variance_budget(fit)):
        assert np.isfinite(found.draws.to_numpy()).all()
        row = found.summary().iloc[0]
        assert row["lower"] < row["upper"]


def test_a_level_with_a_single_trial_is_no_coefficient_of_minus_twelve() -> None:
    """Case 17, lme4's example: 1,000 trials of which one alone has x2."""
    rng = np.random.default_rng(101)
    table = pd.DataFrame({"x2": ["no"] * 1000, "row": range(1000), "score": 0})
    table["score"] = rng.integers(0, 2, 1000)
    table.loc[0, ["x2", "score"]] = ["yes", 0]
    fit = sampled(study_of("x2", within("row", "x2")), table, draws=1500, target_accept=0.97)
    assert fit.diagnostics.passed, str(fit.diagnostics)
    effects = fit.effects("x2")
    gap = (effects.sel(x2="yes") - effects.sel(x2="no")).to_numpy()
    # The prior of two levels' sd is HalfNormal(1): one failure moves the gap by less than its sd.
    assert -1.5 < gap.mean() < 0
    assert gap.std() > 0.5


# -------------------------------------------------------------------- case 19: nothing passes


@pytest.fixture(scope="module")
def eight() -> Fit:
    return sampled(*counted([0] * 8, [10] * 8), draws=2000, target_accept=0.97)


@pytest.mark.reference
def test_all_zero_data_say_how_low_a_new_group_may_be(eight: Fit) -> None:
    """Case 19: exact .0295 [.0058, .0746]; the observed rate 0 and its naive limit stand beside."""
    found = gs.score(eight)
    row = found.summary(0.9).iloc[0]
    assert row["mean"] == pytest.approx(0.0295, abs=2e-3)
    assert row["lower"] == pytest.approx(0.0058, abs=1e-3)
    assert row["upper"] == pytest.approx(0.0746, abs=6e-3)
    assert (row["rate"], row["n_trials"], row["n_group"]) == (0.0, 80, 8)
    assert found.summary().iloc[0]["naive_upper"] == pytest.approx(0.0458, abs=1e-4)
    [line] = [one for one in str(found).splitlines() if one.startswith("all trials")]
    assert line.split()[2:4] == ["80", "0.0%"]
    # The headline is nowhere near the prior's one half.
    assert row["upper"] < 0.1


def test_all_zero_data_have_variances_with_intervals(eight: Fit) -> None:
    """Case 19: the ICC is not told from zero, and said so."""
    assert "At the boundary" in str(gs.icc(eight, "group"))
    summary = gs.variance_components(eight).summary()
    assert (summary["lower"] < summary["upper"]).all()
    study, table = counted([0] * 8, [10] * 8)
    anova = gs.anova_icc(table, "group", study=study)
    assert "not defined: no score varies, all are 0" in str(anova)


def test_one_group_that_never_passed_warns_and_shows_its_rate() -> None:
    """Case 19: the group's variance is unknown, so that the claim is about this group only."""
    study, table = counted([0], [20], priors={"mu": MU})
    with pytest.warns(gs.EstimabilityWarning, match=r"group, not sampled \(one level, 'g0'\)"):
        found = gs.check(study, table)
    fit = sampled(study, found)
    score = gs.score(fit)
    row = score.summary().iloc[0]
    assert (row["rate"], row["n_trials"]) == (0.0, 20)
    assert row["naive_upper"] == pytest.approx(0.161125, abs=1e-6)
    assert score.estimand == "pass rate over new trials"
    assert NOT_COVERED in gs.variance_components(fit).notes
    assert NOT_COVERED in gs.variance_budget(fit).notes


@pytest.mark.reference
def test_one_group_that_never_passed_kept_has_a_wide_interval_and_a_warning() -> None:
    """Case 19: a new group's rate .178 [.021, .488], which is mostly prior."""
    fit = sampled(*counted([0], [20], keep=["group"]), draws=2500, target_accept=0.97)
    score = gs.score(fit)
    row = score.summary(0.9).iloc[0]
    # sd .15 at 3,000 effective draws, times 4.
    assert row["mean"] == pytest.approx(0.178, abs=0.011)
    assert row["lower"] == pytest.approx(0.021, abs=0.006)
    assert row["upper"] == pytest.approx(0.488, abs=0.05)
    assert row["rate"] == 0.0
    said = "group: prior only, the data do not inform it."
    assert said in gs.variance_components(fit).notes


@pytest.mark.filterwarnings("ignore::gstudy.errors.ConvergenceWarning")
@pytest.mark.parametrize(
    ("rest", "said"),
    [
        ({"priors": {"mu": MU}}, NOT_COVERED),
        ({"keep": ["group"]}, "group: prior only, the data do not inform it."),
    ],
)
def test_the_headline_says_that_the_group_is_all_there_was(rest: dict[str, Any], said: str) -> None:
    """Case 19: beside the interval of the score, where a reader looks first."""
    found = gs.score(sampled(*counted([0], [20], **rest), draws=500, target_accept=0.97))
    assert said in found.notes
    assert said in " ".join(str(found).split())


# ----------------------------------------------------------------- case 21: a facet of one level


def one_judge(**rest: Any) -> tuple[gs.Study, pd.DataFrame]:
    """Ten rows, the judge is gpt throughout."""
    study = study_of("task", within("run", "task"), gs.Facet("judge", role="error"), **rest)
    table = pd.DataFrame({"task": np.repeat(list("abcde"), 2), "run": [1, 2] * 5, "judge": "gpt"})
    return study, table.assign(score=[1, 0, 1, 1, 0, 0, 1, 0, 0, 1])


def test_a_judge_of_one_level_is_named_in_every_claim() -> None:
    """Case 21."""
    study, table = one_judge()
    with pytest.warns(gs.EstimabilityWarning, match=r"judge, not sampled \(one level, 'gpt'\)"):
        found = gs.check(study, table)
    fit = sampled(study, found)
    assert "judge" not in fit.components
    assert "judge" not in gs.score(fit).estimand
    said = "Not covered: judge was not sampled (one level, 'gpt'); its variance is unknown."
    assert said in gs.variance_components(fit).notes
    with pytest.raises(gs.QuantityError, match="'judge' was not sampled: one level, 'gpt'"):
        gs.icc(fit, "judge")
    with pytest.raises(gs.DeclarationError, match="judge has one level, 'gpt'"):
        gs.check(*one_judge(interactions=["task:judge"]))


def test_a_judge_of_one_level_that_is_kept_is_its_prior() -> None:
    """Case 21: its sd and its share are the prior's. Mean and 90% point of HalfNormal(1)."""
    fit = sampled(*one_judge(keep=["judge"]), draws=2500, target_accept=0.97)
    sd = fit.sd("judge")
    # Under mu ~ Normal(0, 3) the data barely speak of it; sd .6 at 3,000 effective draws, times 4.
    assert sd.mean() == pytest.approx((2 / np.pi) ** 0.5, abs=0.06)
    assert np.quantile(sd, 0.9) == pytest.approx(1.645, abs=0.12)
    share = sd**2 / (sd**2 + fit.sd("task") ** 2)
    prior = np.abs(np.random.default_rng(1).normal(size=sd.shape))
    of_prior = prior**2 / (prior**2 + fit.sd("task") ** 2)
    assert share.mean() == pytest.approx(of_prior.mean(), abs=0.04)
    assert "judge: prior only, the data do not inform it." in gs.variance_components(fit).notes


# -------------------------------------------------------------------- case 22: two, three groups


@pytest.fixture(scope="module")
def two() -> Fit:
    return sampled(*counted([3, 7], [10, 10]), draws=3000, target_accept=0.97)


@pytest.mark.reference
def test_two_groups_have_an_honest_interval(two: Fit) -> None:
    """Case 22: sigma .821 [.087, 1.839], icc .184 [.002, .507]."""
    of = exact([3, 7], [10, 10])
    assert of.mean(of.sigma) == pytest.approx(0.821, abs=1e-3)
    assert of.mean(of.icc) == pytest.approx(0.184, abs=1e-3)
    assert of.quantile(of.icc, 0.95) == pytest.approx(0.507, abs=2e-3)
    same_posterior(two.sd("group"), of, of.sigma)
    same_posterior(gs.icc(two, "group", scale="logit").draws.to_numpy(), of, of.icc)


@pytest.mark.parametrize("passes", [(3, 7), (2, 5, 9)], ids=str)
def test_few_groups_get_one_note_with_sensitivities(passes: tuple[int, ...], two: Fit) -> None:
    """Case 22: one quiet sentence with numbers, no warning and no error."""
    n = len(passes)
    fit = two if n == 2 else sampled(*counted(passes, [10] * n), draws=1500, target_accept=0.97)
    note = weak_components_note(fit)
    assert note.startswith("Few levels, so that the prior matters (prior sensitivity, above 0.05")
    row = gs.prior_sensitivity(fit).summary().loc["sd(group)"]
    assert f": sd(group) {row['prior']:.2f}. " in note
    assert row["diagnosis"].startswith("prior matters")


def test_many_groups_get_no_such_note() -> None:
    """Case 22: five groups are enough for silence."""
    fit = sampled(*counted([3, 7, 5, 2, 9], [10] * 5), draws=1000, target_accept=0.97)
    assert weak_components_note(fit) == ""


# --------------------------------------------------------- cases 24 and 25: fractions as passes


@pytest.mark.parametrize(
    ("scores", "first"), [([0.37, 0.42], 1), ([0, 0.5, 1, 1, 0.5, 0, 1, 0.25], 2)], ids=str
)
def test_fractions_are_refused_with_their_first_row(scores: list[float], first: int) -> None:
    """Cases 24 and 25: nothing is rounded, and no name of ours stands in the message."""
    table = pd.DataFrame({"id": [f"i{i // 2}" for i in range(len(scores))], "score": scores})
    table["run"] = [i % 2 for i in range(len(scores))]
    place = rf"row {first} \(index {first - 1}\), column 'score'"
    with pytest.raises(gs.DataError, match=place) as told:
        gs.fit(study_of("id", within("run", "id")), table)
    message = str(told.value)
    assert f"Given: {scores[first - 1]}" in message
    assert 'declare family = "gaussian"; or set a threshold of your own' in message
    for name in ("cells", "Overdispersion", "successes", "binomial"):
        assert name not in message


@pytest.mark.parametrize("k", [-1, 5, 1.5])
def test_counts_outside_their_range_are_refused_with_their_row(k: float) -> None:
    """Case 25."""
    study = gs.Study(successes="k", trials="n", facets=[gs.Facet("id", role="legitimate")])
    table = pd.DataFrame({"id": ["a", "b"], "k": [2, k], "n": 4})
    with pytest.raises(gs.DataError, match=r"row 2 \(index 1\), column 'k'"):
        gs.check(study, table)


def test_a_users_own_names_never_meet_ours() -> None:
    """Case 24: columns that are called as something inside."""
    names = ["trials", "successes", "cells", "residual_sd", "mu", "chain", "draw", "Overdispersion"]
    rng = np.random.default_rng(3)
    for name in names:
        table = pd.DataFrame({name: np.repeat(range(6), 4), "run": np.tile(range(4), 6)})
        table["score"] = rng.integers(0, 2, len(table))
        facet = gs.Facet("item", role="legitimate", column=name)
        found = checked(study_of(facet, within("run", "item")), table)
        assert found.component("item").n_levels == 6
