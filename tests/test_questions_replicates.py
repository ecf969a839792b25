"""Replicated trials and the statistics that posterior checks compare, against plain loops."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from designs import checked, study_of, within
from handmade import fit_by_hand, small_fit
from models import random_trials
from scipy.special import expit
from scipy.stats import binom

import gstudy as gs
from gstudy.fits.fitted import Fit
from gstudy.questions.check_statistics import (
    agreement,
    anova_iccs,
    extreme_shares,
    grouped,
    rates,
    slope,
    spread,
)
from gstudy.questions.checked_quantities import fitted_statistics, task_facet, unavailable
from gstudy.questions.posterior_checks import posterior_check
from gstudy.questions.replicates import (
    Scores,
    _new_effects,
    effects_kept,
    log_likelihood,
    observed_scores,
    replicated,
)
from gstudy.questions.sensitivity import prior_sensitivity


@pytest.fixture(scope="module")
def fit() -> Fit:
    return small_fit(interactions=["system:task"])


@pytest.fixture(scope="module")
def judged() -> Fit:
    """Tasks x numbered rollouts that three judges score, one of them twice."""
    study = study_of(
        "task",
        within("rollout", "task"),
        gs.Facet("judge", role="error"),
        within("call", "task", "rollout", "judge", role="error"),
        interactions="none",
    )
    table = random_trials({"task": 9, "rollout": 4, "judge": 3, "call": 1}, 5)
    again = table[table["judge"] == "1"].assign(call="1", score=lambda rows: 1 - rows["score"])
    return fit_by_hand(checked(study, pd.concat([table, again.iloc[::2]])))


def predictor(fit: Fit, chain: int, draw: int) -> np.ndarray:
    """Linear predictor of one draw, cell by cell."""
    cells = fit.design.cells
    eta = np.full(len(cells.trials), fit.mu[chain, draw])
    for i, component in enumerate(cells.components):
        effects = fit.effects(component.name).values[chain, draw]
        for c, level in enumerate(cells.index[i]):
            eta[c] += effects[level]
    return eta


def test_log_likelihood_is_the_binomial_one_up_to_a_constant(fit: Fit) -> None:
    cells, found = fit.design.cells, log_likelihood(fit)
    assert found.shape == fit.mu.shape
    direct = [
        binom.logpmf(cells.successes, cells.trials, expit(predictor(fit, *place))).sum()
        for place in ((0, 0), (1, 17), (3, 249))
    ]
    constants = np.array(direct) - [found[0, 0], found[1, 17], found[3, 249]]
    np.testing.assert_allclose(constants, constants[0], rtol=1e-10)


def test_replicates_with_fitted_effects_have_the_mean_of_each_draw(fit: Fit) -> None:
    picks = np.full(4000, 250 + 17)
    rng = np.random.default_rng(1)
    sums = np.concatenate([scores.sums for scores in replicated(fit, picks, rng)])
    n, p = fit.design.cells.trials, expit(predictor(fit, 1, 17))
    error = np.sqrt(n * p * (1 - p) / len(picks))
    assert np.all(np.abs(sums.mean(axis=0) - n * p) < 4.5 * error)
    assert sums.min() >= 0
    assert np.all(sums.max(axis=0) <= n)


def test_new_effects_follow_their_sd_and_leave_the_others(fit: Fit) -> None:
    rng = np.random.default_rng(2)
    picks = np.full(6000, 5)
    scores = replicated(fit, picks, rng, frozenset({"task"}))
    mean = np.concatenate([batch.sums for batch in scores]).mean(axis=0)
    cells = fit.design.cells
    system = fit.effects("system").values[0, 5][cells.index[0]]
    variance = fit.sd("task")[0, 5] ** 2 + fit.sd("system:task")[0, 5] ** 2
    z = np.random.default_rng(3).normal(size=200_000) * np.sqrt(variance)
    levels = np.array([expit(fit.mu[0, 5] + u + z).mean() for u in system])
    np.testing.assert_allclose(mean, cells.trials * levels, atol=3 * 4.5 / np.sqrt(6000) / 2)


def test_effects_that_were_not_kept_are_drawn_from_mean_and_sd(fit: Fit) -> None:
    posterior = fit.posterior["posterior"].to_dataset()
    effects = posterior["u(task)"]
    posterior["u_mean(task)"] = effects.mean(("chain", "draw"))
    posterior["u_sd(task)"] = effects.std(("chain", "draw"))
    tree = fit.posterior.copy()
    tree["posterior"] = type(fit.posterior)(posterior.drop_vars("u(task)"))
    bare = Fit(tree, fit.study, fit.design, fit.diagnostics, fit.settings)
    assert effects_kept(fit)
    assert not effects_kept(bare)
    rng, picks = np.random.default_rng(1), np.arange(1000)
    both = [np.concatenate([s.sums for s in replicated(f, picks, rng)]).mean() for f in (fit, bare)]
    np.testing.assert_allclose(*both, atol=0.05)


def test_observed_scores_of_passes_are_their_own_squares(fit: Fit) -> None:
    scores = observed_scores(fit.design.cells)
    np.testing.assert_array_equal(scores.sums, fit.design.cells.successes)
    np.testing.assert_array_equal(scores.squares, scores.sums)


def test_rates_spread_and_extremes_are_those_of_the_rows() -> None:
    study = study_of("task", within("rollout", "task"))
    table = random_trials({"task": 12, "rollout": 3}, 4, 0.8)
    found = checked(study, table)
    groups = grouped(found.cells, study, {"task"})
    scores = observed_scores(found.cells)
    by_task = table.groupby("task")["score"].agg(["mean", "size"])
    in_order = by_task.loc[[found.cells.labels["task"][code] for code in groups.codes[:, 0]]]
    np.testing.assert_allclose(rates(groups)(scores), in_order["mean"])
    np.testing.assert_allclose(spread(groups)(scores), [in_order["mean"].std()])
    several = in_order[in_order["size"] > 1]["mean"]
    expected = [(several == 1).mean(), (several == 0).mean()]
    np.testing.assert_allclose(extreme_shares(groups)(scores), expected)


def test_iccs_are_those_of_the_one_way_analysis(fit: Fit) -> None:
    cells = fit.design.cells
    groups = grouped(cells, fit.study, {"system", "task"})
    owner = groups.codes[:, cells.facets.index("system")].astype(np.intp)
    found = anova_iccs(groups, owner)(observed_scores(cells))
    rows = pd.DataFrame(
        {
            "system": cells.codes[:, 0],
            "task": cells.codes[:, 1],
            "successes": cells.successes,
            "trials": cells.trials,
        }
    )
    expected = gs.anova_icc(rows, "task", by="system").frame["icc"]
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_icc_is_undefined_where_no_score_varies() -> None:
    study = study_of("task", within("rollout", "task"))
    table = random_trials({"task": 6, "rollout": 3}, 4).assign(score=1)
    found = checked(study, table)
    groups = grouped(found.cells, study, {"task"})
    values = anova_iccs(groups, np.zeros(6, dtype=np.intp))(observed_scores(found.cells))
    assert np.isnan(values).all()


def test_agreement_is_that_of_all_pairs_of_trials(judged: Fit) -> None:
    cells, study = judged.design.cells, judged.study
    scores = observed_scores(cells)
    whole = grouped(cells, study, {"task", "rollout"})
    parts = grouped(cells, study, {"task", "rollout", "judge"})
    equal, pairs = 0, 0
    place = {facet: cells.facets.index(facet) for facet in cells.facets}
    trials = [
        (tuple(code[[place["task"], place["rollout"]]]), code[place["judge"]], score)
        for code, k, n in zip(cells.codes, cells.successes, cells.trials, strict=True)
        for score in [1] * k + [0] * (n - k)
    ]
    for one, other in itertools.combinations(trials, 2):
        if one[0] == other[0] and one[1] != other[1]:
            pairs += 1
            equal += one[2] == other[2]
    assert agreement(whole, parts)(scores) == pytest.approx(equal / pairs)
    found = {s.names[0]: s for s in fitted_statistics(judged) if s.family == "agreement"}
    assert found["agreement of judges"].of(scores) == pytest.approx(equal / pairs)
    # The judge that was asked twice said the opposite.
    assert found["agreement of calls"].of(scores) == pytest.approx(0.0)
    everyone = sum(
        one[2] == other[2] for one, other in itertools.combinations(trials, 2) if one[0] == other[0]
    )
    same = sum(one[0] == other[0] for one, other in itertools.combinations(trials, 2))
    assert agreement(whole, None)(scores) == pytest.approx(everyone / same)


def test_slope_is_the_regression_within_tasks(judged: Fit) -> None:
    [found] = [s for s in fitted_statistics(judged) if s.family == "drift"]
    assert found.names == ("drift over rollouts",)
    cells = judged.design.cells
    place = {facet: cells.facets.index(facet) for facet in cells.facets}
    rate = np.empty((9, 4))
    for task, rollout in itertools.product(range(9), range(4)):
        own = (cells.codes[:, place["task"]] == task) & (
            cells.codes[:, place["rollout"]] == rollout
        )
        rate[task, rollout] = cells.successes[own].sum() / cells.trials[own].sum()
    x = np.tile(np.arange(4) / 3, 9)
    design = np.column_stack([x, np.repeat(np.eye(9), 4, axis=0)])
    expected = np.linalg.lstsq(design, rate.ravel(), rcond=None)[0][0]
    assert found.of(observed_scores(cells)) == pytest.approx(expected)


def test_slope_is_the_same_for_a_batch(judged: Fit) -> None:
    cells = judged.design.cells
    levels = grouped(cells, judged.study, {"task", "rollout"})
    one = observed_scores(cells)
    two = Scores(np.stack([one.sums, 0 * one.sums]), np.stack([one.squares, 0 * one.squares]))
    weight = np.linspace(-1, 1, len(levels.trials))
    found = slope(levels, weight)(two)
    assert found.shape == (2, 1)
    np.testing.assert_allclose(found[:, 0], [slope(levels, weight)(one)[0], 0.0])


def test_the_task_is_the_legitimate_facet_with_most_levels(fit: Fit, judged: Fit) -> None:
    assert task_facet(fit) == "task"
    assert task_facet(judged) == "task"
    study = study_of("site", within("rollout", "site"))
    few = fit_by_hand(checked(study, random_trials({"site": 4, "rollout": 9}, 1)))
    assert task_facet(few) is None
    # Tasks of a few sites look like rollouts, and are the only levels that there are many of.
    study = study_of("site", within("task", "site"), gs.Facet("judge", role="error"))
    table = random_trials({"site": 3, "task": 9, "judge": 4}, 1)
    assert task_facet(fit_by_hand(checked(study, table))) == "task"


def test_what_the_cells_do_not_hold_is_said(fit: Fit, judged: Fit) -> None:
    assert list(unavailable(judged)) == []
    [drift] = unavailable(fit)
    assert drift.startswith("Drift over rollout order is not checked here")
    study = study_of(
        "task", within("rollout", "task"), gs.Facet("judge", role="error"), interactions="none"
    )
    table = random_trials({"task": 9, "rollout": 6}, 5)
    table["judge"] = [str(i % 2) for i in range(len(table))]
    notes = list(unavailable(fit_by_hand(checked(study, table))))
    assert any("Agreement of judges is not checked" in note for note in notes)


def own_sds(varies: str, n_tasks: int) -> Fit:
    """Two systems with own sds; their labels stand in another order than their codes."""
    task = gs.Facet("task", role="legitimate", varies="system" if varies == "task" else None)
    parents = ["system", "task"]
    own = "system" if varies == "rollout" else None
    rollout = gs.Facet("rollout", role="legitimate", nested_in=parents, varies=own)
    judge = gs.Facet("judge", role="error")
    study = study_of(task, rollout, judge, object="system", interactions="none")
    table = random_trials({"system": 2, "task": n_tasks, "rollout": 2, "judge": 2}, 6)
    fit = fit_by_hand(checked(study, table), shape=(2, 50))
    group = fit.posterior["posterior"].to_dataset()
    turned = {dim: slice(None, None, -1) for dim in group.dims if str(dim).startswith("by")}
    tree = fit.posterior.copy()
    tree["posterior"] = type(tree)(group.isel(turned))
    return Fit(tree, fit.study, fit.design, fit.diagnostics, fit.settings)


@pytest.fixture(scope="module")
def own() -> Fit:
    return own_sds("task", 60)


def test_own_effects_belong_to_their_system(own: Fit) -> None:
    cells, picks = own.design.cells, np.full(2000, 60)
    rng = np.random.default_rng(1)
    sums = np.concatenate([scores.sums for scores in replicated(own, picks, rng)])
    eta = np.empty(len(cells.trials))
    for c, codes in enumerate(cells.codes):
        at = {f: cells.labels[f][code] for f, code in zip(cells.facets, codes, strict=True)}
        task = own.effects("task").sel({"task": at["task"], "by(task)": at["system"]})
        levels = [task, own.effects("system").sel(system=at["system"])]
        levels.append(own.effects("judge").sel(judge=at["judge"]))
        name = ":".join(at[facet] for facet in ("system", "task", "rollout"))
        levels.append(own.effects("rollout").sel({"system:task:rollout": name}))
        eta[c] = own.mu[1, 10] + sum(float(level.values[1, 10]) for level in levels)
    p = expit(eta)
    error = np.sqrt(cells.trials * p * (1 - p) / len(picks))
    assert np.all(np.abs(sums.mean(axis=0) - cells.trials * p) < 5 * error + 1e-9)


def new_effects(fit: Fit, name: str) -> np.ndarray:
    """400 sets of new effects of a component, of the draw at chain 1, draw 10."""
    place = [component.name for component in fit.design.cells.components].index(name)
    return _new_effects(fit, place, np.full(400, 60), np.random.default_rng(1))


def test_new_own_effects_have_their_sds_and_correlation(own: Fit) -> None:
    effects = new_effects(own, "task")
    assert effects.shape == (400, 60, 2)
    flat = effects.reshape(-1, 2)
    labels = own.design.cells.labels["system"]
    sds = [own.own_sd("task", label)[1, 10] for label in labels]
    np.testing.assert_allclose(flat.std(axis=0), sds, rtol=0.02)
    expected = own.correlation("task").values[1, 10, 0, 1]
    assert np.corrcoef(flat.T)[0, 1] == pytest.approx(expected, abs=0.02)


def test_new_effects_within_a_system_have_its_sd() -> None:
    fit = own_sds("rollout", 8)
    name = "system:task:rollout"
    effects, cells = new_effects(fit, name), fit.design.cells
    place = [component.name for component in cells.components].index(name)
    assert effects.shape == (400, 32)
    for code, label in enumerate(cells.labels["system"]):
        mine = cells.levels[place][:, cells.facets.index("system")] == code
        sd = fit.own_sd(name, label)[1, 10]
        assert effects[:, mine].std() == pytest.approx(sd, rel=0.03)


def test_own_sds_are_checked_and_not_recommended_again(own: Fit) -> None:
    check = posterior_check(own, seed=1, draws=200)
    assert sum(name.startswith("new tasks, ICC: ") for name in check.summary().index) == 2
    assert not [note for note in check.notes if "One set of sds" in note]
    rows = prior_sensitivity(own).summary().index
    labels = own.design.cells.labels["system"]
    assert {f"sd(task) of {label}" for label in labels} <= set(rows)
