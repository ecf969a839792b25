"""Predicted widths of an ICC's interval: information, mean squares, Bonett; refits (slow)."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats
from scipy.special import expit

import gstudy as gs
from gstudy.planning.icc_information import (
    icc_and_slopes,
    logit_icc_sd,
    prior_information,
    task_information,
)
from gstudy.planning.icc_mean_squares import degrees_of_freedom, icc_error
from gstudy.study.priors import Prior

TASK = gs.Facet("task", role="legitimate")
COUNTS = gs.Study(successes="k", trials="n", facets=[TASK])


def assumed(sd: float, mu: float) -> Any:
    return gs.assume(COUNTS, {"task": sd**2}, mu=mu, scale="logit")


def passes(theta: np.ndarray, rollouts: int) -> np.ndarray:
    """P(k passes) by adaptive quadrature."""
    mu, sd = theta[0], math.exp(theta[1])

    def density(z: float, k: int) -> float:
        return float(stats.binom.pmf(k, rollouts, expit(mu + sd * z)) * stats.norm.pdf(z))

    return np.array(
        [integrate.quad(density, -9, 9, args=(k,), epsabs=1e-12)[0] for k in range(rollouts + 1)]
    )


@pytest.mark.parametrize(("mu", "sd", "rollouts"), [(0.4, 2.0, 3), (-1.5, 0.7, 5)])
def test_the_information_is_minus_the_expected_curvature(
    mu: float, sd: float, rollouts: int
) -> None:
    theta, step = np.array([mu, math.log(sd)]), 1e-3
    truth = passes(theta, rollouts)
    slopes = [
        (passes(theta + step * e, rollouts) - passes(theta - step * e, rollouts)) / (2 * step)
        for e in np.eye(2)
    ]
    expected = np.array([[np.sum(a * b / truth) for b in slopes] for a in slopes])
    np.testing.assert_allclose(task_information(mu, sd, rollouts), expected, rtol=1e-4)


def test_the_icc_and_its_slopes_are_those_of_the_kernel() -> None:
    for mu, sd in ((0.0, 2.0), (2.0, 1.0), (-1.0, 5.0)):
        found, slopes = icc_and_slopes(mu, sd)
        value = float(gs.icc(assumed(sd, mu), "task").draws.item())
        assert found == pytest.approx(value, abs=1e-9)
        steps = [(1e-5, 0.0), (0.0, 1e-5)]
        for slope, (a, b) in zip(slopes, steps, strict=True):
            up = icc_and_slopes(mu + a, sd * math.exp(b))[0]
            down = icc_and_slopes(mu - a, sd * math.exp(-b))[0]
            assert slope == pytest.approx((up - down) / 2e-5, rel=1e-4, abs=1e-8)


def test_priors_add_their_curvature() -> None:
    added = prior_information(
        Prior("Normal", {"mu": 0, "sigma": 3}), Prior("HalfNormal", {"sigma": 5}), 0.5, 2.0
    )
    # log p(log sd) = -sd^2 / 50 + log sd: minus its second derivative in log sd is 4 sd^2 / 50.
    np.testing.assert_allclose(np.diag(added), [1 / 9, 2 * 2.0**2 / 25], rtol=1e-4)


def test_many_tasks_forget_the_prior() -> None:
    own, none = task_information(0.5, 2.0, 4), np.zeros((2, 2))
    prior = np.diag([1 / 9, 0.3])
    few = [logit_icc_sd(0.5, 2.0, [20], own, p)[1][0] for p in (prior, none)]
    many = [logit_icc_sd(0.5, 2.0, [20_000], own, p)[1][0] for p in (prior, none)]
    assert few[0] < 0.995 * few[1]
    assert many[0] == pytest.approx(many[1], rel=1e-3)


def test_mean_squares_of_one_facet_are_the_closed_form() -> None:
    """``SE = k F / (F + k - 1)^2 sqrt(2 / (n - 1) + 2 / (n (k - 1)))``; Bonett's but for df."""
    task = frozenset({"task"})
    n, k, between, noise = 40, 5, np.array([0.1]), np.array([0.14])
    icc, error = icc_error([task], between[None], noise, {task: n}, n * k, task)
    f = 1 + k * 0.1 / 0.14
    exact = k * f / (f + k - 1) ** 2 * math.sqrt(2 / (n - 1) + 2 / (n * (k - 1)))
    assert icc[0] == pytest.approx(0.1 / 0.24)
    assert error[0] == pytest.approx(exact, rel=1e-12)
    bonett = gs.icc_standard_error(0.1 / 0.24, n, k).standard_error
    assert error[0] == pytest.approx(bonett, rel=0.01)


@pytest.mark.parametrize("rollouts", [1, 3])
def test_mean_squares_of_two_facets_agree_with_simulated_studies(rollouts: int) -> None:
    """ANOVA ICCs of 20,000 normal studies, tasks by environments, by hand."""
    rng = np.random.default_rng(5)
    n, e, runs = 25, 6, 20_000
    sds = {"task": 1.0, "environment": 0.6, "both": 0.8, "noise": 1.2}
    y = sds["task"] * rng.standard_normal((runs, n, 1))
    y = y + sds["environment"] * rng.standard_normal((runs, 1, e))
    # Cell means, and the mean square within cells, which is independent of them.
    y = y + sds["both"] * rng.standard_normal((runs, n, e))
    y = y + sds["noise"] / math.sqrt(rollouts) * rng.standard_normal((runs, n, e))
    df = n * e * (rollouts - 1)
    within = sds["noise"] ** 2 * (rng.chisquare(df, runs) / df if df else 0.0)
    rows, columns = y.mean(axis=2), y.mean(axis=1)
    grand = y.mean(axis=(1, 2))
    ms_task = rollouts * e * rows.var(axis=1, ddof=1)
    ms_environment = rollouts * n * columns.var(axis=1, ddof=1)
    left = y - rows[:, :, None] - columns[:, None, :] + grand[:, None, None]
    ms_both = rollouts * (left**2).sum(axis=(1, 2)) / ((n - 1) * (e - 1))
    v_task = (ms_task - ms_both) / (rollouts * e)
    v_environment = (ms_environment - ms_both) / (rollouts * n)
    rest = ms_both if rollouts == 1 else (ms_both - within) / rollouts + within
    found = v_task / (v_task + v_environment + rest)
    task, environment = frozenset({"task"}), frozenset({"environment"})
    sets = [task, environment, task | environment]
    levels = {task: n, environment: e, task | environment: n * e}
    unique = np.array([[sds[name] ** 2] for name in ("task", "environment", "both")])
    noise = np.array([sds["noise"] ** 2])
    icc, error = icc_error(sets, unique, noise, levels, n * e * rollouts, task)
    assert icc[0] == pytest.approx(1 / (1 + 0.36 + 0.64 + 1.44))
    assert error[0] == pytest.approx(found.std(), rel=0.05)


def test_degrees_of_freedom_of_nested_levels() -> None:
    task, call = frozenset({"task"}), frozenset({"task", "call"})
    assert degrees_of_freedom([task, call], {task: 5, call: 20}) == {task: 4, call: 15}


def test_widths_shrink_with_tasks_and_rollouts_and_stand_beside_bonett() -> None:
    found = gs.icc_width(assumed(2.0, 0.5), tasks=[25, 100, 400], rollouts=[2, 8, 64])
    widths = found.draws.to_numpy()[..., 0, 0]
    assert (np.diff(widths, axis=0) < 0).all()
    assert (np.diff(widths, axis=1) < 0).all()
    # Four times as many tasks halve a narrow interval.
    assert widths[1, 2] / widths[2, 2] == pytest.approx(2, rel=0.03)
    icc = float(gs.icc(assumed(2.0, 0.5), "task").draws.item())
    bonett = 2 * 1.959964 * gs.icc_standard_error(icc, 100, 8).standard_error
    assert found.bonett is not None
    assert float(found.bonett.sel(levels=100, rollouts=8).item()) == pytest.approx(bonett, rel=1e-5)
    assert found.summary().shape == (9, 6)
    assert "Bonett" in str(found)


def test_score_scale_and_graded_components_use_mean_squares() -> None:
    score = gs.assume(COUNTS, {"task": 0.1, "residual": 0.14}, mean=0.6)
    graded = gs.Study(score="s", family="gaussian", facets=[TASK])
    other = gs.assume(graded, {"task": 0.1, "residual": 0.14}, mean=0.6)
    first = gs.icc_width(score, tasks=[40], rollouts=[5])
    second = gs.icc_width(other, tasks=[40], rollouts=[5])
    assert first.method == second.method == "mean squares of normal scores"
    rho = 0.1 / 0.24
    f = 1 + 5 * 0.1 / 0.14
    se = 5 * f / (f + 4) ** 2 * math.sqrt(2 / 39 + 2 / 160) / (rho * (1 - rho))
    ends = expit(math.log(rho / (1 - rho)) + 1.959964 * se * np.array([-1, 1]))
    rollout = gs.Facet("rollout", role="legitimate", nested_in=["task"])
    named = gs.Study(score="passed", facets=[TASK, rollout])
    third = gs.icc_width(
        gs.assume(named, {"task": 0.1, "residual": 0.14}, mean=0.6), tasks=[40], rollouts=[5]
    )
    for found in (first, second, third):
        assert float(found.draws.item()) == pytest.approx(float(np.diff(ends)[0]), rel=1e-5)


def test_other_facets_need_their_numbers() -> None:
    study = gs.Study(
        score="passed",
        facets=[TASK, gs.Facet("environment", role="legitimate")],
        interactions=["task:environment"],
    )
    parts = {"task": 0.08, "environment": 0.01, "task:environment": 0.03, "residual": 0.1}
    vc = gs.assume(study, parts, mean=0.6)
    with pytest.raises(gs.QuantityError, match="single level of 'environment'"):
        gs.icc_width(vc, tasks=[40], rollouts=[3], design={"environment": 1})
    with pytest.raises(gs.QuantityError, match="a number for each of environment"):
        gs.icc_width(vc, tasks=[40], rollouts=[3])
    with pytest.raises(gs.QuantityError, match="unknown facet 'enviroment'"):
        gs.icc_width(vc, tasks=[40], rollouts=[3], design={"environment": 5, "enviroment": 5})
    found = gs.icc_width(vc, tasks=[40, 80], rollouts=[3, 9], design={"environment": 5})
    widths = found.draws.to_numpy()[..., 0, 0]
    assert found.bonett is None
    assert (np.diff(widths, axis=0) < 0).all()
    assert (np.diff(widths, axis=1) < 0).all()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"tasks": [1], "rollouts": [2]}, "tasks are no numbers of them"),
        ({"tasks": [5], "rollouts": 4}, "rollouts are no numbers of them"),
        ({"tasks": [5], "rollouts": [2.5]}, "rollouts are no numbers of them"),
        ({"tasks": range(2, 300), "rollouts": range(2, 300)}, "so many designs at once"),
        ({"tasks": [5], "rollouts": [2], "facet": "taks"}, "no component is named 'taks'"),
        ({"tasks": [5], "rollouts": [2], "coverage": 95}, "coverage is not a proportion"),
        ({"tasks": [5], "rollouts": [2], "design": 5}, "a design is a mapping"),
        ({"tasks": [5], "rollouts": [2], "design": "task"}, "a design is a mapping"),
    ],
)
def test_what_is_no_design_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(gs.QuantityError, match=message):
        gs.icc_width(assumed(1.0, 0.0), **given)


def test_a_population_of_systems_is_refused() -> None:
    study = gs.Study(score="passed", object="system", facets=[TASK])
    vc = gs.assume(study, {"system": 0.02, "task": 0.1, "residual": 0.12}, mean=0.6)
    with pytest.raises(gs.QuantityError, match="an ICC of one system is predicted"):
        gs.icc_width(vc, tasks=[50], rollouts=[4])


def refit_widths(mu: float, sd: float, tasks: int, rollouts: int, runs: int) -> np.ndarray:
    """Widths of the ICC's 95% interval, of studies that are simulated and fitted."""
    widths = []
    for run in range(runs):
        rng = np.random.default_rng([run, tasks, rollouts])
        p = expit(mu + sd * rng.standard_normal(tasks))
        labels = [f"t{i}" for i in range(tasks)]
        frame = pd.DataFrame({"task": labels, "k": rng.binomial(rollouts, p), "n": rollouts})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", gs.ConvergenceWarning)
            fit = gs.fit(COUNTS, frame, seed=run, sampler="direct", draws=500, progress=False)
        widths.append(np.subtract(*np.quantile(gs.icc(fit, "task").draws, [0.975, 0.025])))
    return np.array(widths)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mu", "sd", "tasks", "rollouts"),
    [(0.5, 2.0, 50, 4), (0.5, 2.0, 200, 4), (0.5, 2.0, 50, 16), (2.5, 1.5, 50, 4)],
)
def test_refits_of_simulated_studies_are_as_wide_as_predicted(
    mu: float, sd: float, tasks: int, rollouts: int
) -> None:
    widths = refit_widths(mu, sd, tasks, rollouts, runs=24)
    found = gs.icc_width(assumed(sd, mu), tasks=[tasks], rollouts=[rollouts]).draws.item()
    error = widths.std(ddof=1) / math.sqrt(len(widths))
    assert found == pytest.approx(widths.mean(), abs=0.05 * widths.mean() + 3 * error)


def test_an_icc_that_can_hardly_be_told_from_zero_has_a_width() -> None:
    """Its logit has no useful sd: the width of a normal interval of the ICC itself stands in."""
    for sd in (0.0, 1e-3, 0.05, 0.1, 0.2):
        table = gs.icc_width(assumed(sd, 0.3), tasks=[50], rollouts=[4]).summary()
        assert table["mean"].item() == pytest.approx(table["bonett"].item(), rel=1e-6)
    # One of several facets: 2 z SE.
    study = gs.Study(score="passed", facets=[TASK, gs.Facet("judge", role="error")])
    vc = gs.assume(study, {"task": 0.0, "judge": 0.01, "residual": 0.2}, mean=0.6)
    found = gs.icc_width(vc, tasks=[50], rollouts=[4], design={"judge": 4}, facet="task")
    assert 0 < found.summary()["mean"].item() < 0.2


def test_an_icc_needs_scores_that_vary() -> None:
    study = gs.Study(score="passed", facets=[TASK])
    nothing = gs.assume(study, {"task": 0.0}, mean=0.5)
    with pytest.raises(gs.QuantityError, match="no score varies: every variance is 0"):
        gs.icc_width(nothing, tasks=[10], rollouts=[4])
    for mu in (1000.0, -1000.0):
        with pytest.raises(gs.QuantityError, match="no score varies"):
            gs.icc_width(assumed(2.0, mu), tasks=[10], rollouts=[4])


def test_passes_and_failures_are_alike_far_from_even() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for mu in (3.0, 40.0, 300.0):
            (up, slopes), (down, other) = icc_and_slopes(mu, 1.5), icc_and_slopes(-mu, 1.5)
            assert up == pytest.approx(down, rel=1e-12)
            assert slopes == pytest.approx(other * [-1, 1], rel=1e-12)
        for mu in (1000.0, -1000.0, 40.0, -40.0):
            vc = gs.assume(COUNTS, {"task": 2.0}, mu=mu, scale="logit")
            found = gs.compare_designs(vc, [{"task": 10, "trials": 4}])
            table = found.summary()["mean"].droplevel("design")
            if abs(mu) > 100:
                assert table["half_width"] == 0
                assert any("no score of it varies" in note.lower() for note in found.notes)
            else:
                # Independent trials of rare passes: the design effect is 1 + (k - 1) ICC.
                icc = float(gs.icc(vc, "task").draws.item())
                assert table["design_effect"] == pytest.approx(1 + 3 * icc, rel=1e-6)
