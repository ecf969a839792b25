"""pass^k under a design: enumeration of passes, integrals of scipy, simulated studies, refusals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from designs import grid, study_of, within
from scipy.integrate import quad
from scipy.special import comb, expit
from scipy.stats import binom, norm
from sources import fitted, logit_source

import gstudy as gs
from gstudy.errors import QuantityError
from gstudy.planning.pass_k import PassRates, pass_variance, power_means
from gstudy.variance.draws import normal_quantile

Z = normal_quantile(0.95)
TASKS = {"facets": ["task", "rollout"], "nested": {"rollout": ["task"]}}


def enumerated(p: float, k: int, n_rollouts: int) -> float:
    """Variance of C(c, k) / C(T, k) at a pass rate, over every number of passes."""
    c = np.arange(n_rollouts + 1)
    estimate = comb(c, k) / comb(n_rollouts, k)
    chance = binom.pmf(c, n_rollouts, p)
    return float(chance @ estimate**2 - (chance @ estimate) ** 2)


def rates(mean: float, task: float, rollout: float = 0.0) -> PassRates:
    return PassRates("task", *(np.array([x]) for x in (mean, task, rollout)))


def half_width(source: Any, design: Any, k: int, **how: Any) -> float:
    found = gs.compare_designs(source, design, pass_k=k, **how)
    return float(found.draws.sel(quantity="pass_k").values.item())


@pytest.mark.parametrize(("k", "n_rollouts"), [(1, 1), (1, 4), (2, 2), (2, 5), (3, 8), (5, 6)])
@pytest.mark.parametrize("p", [0.0001, 0.3, 0.85])
def test_tasks_alike_equal_an_enumeration(k: int, n_rollouts: int, p: float) -> None:
    alike = rates(math.log(p / (1 - p)), 0.0)
    found = pass_variance(alike, k, n_rollouts, 1.0, 1.0).item()
    assert found == pytest.approx(enumerated(p, k, n_rollouts), rel=1e-9)


@pytest.mark.parametrize(("k", "n_rollouts"), [(1, 2), (2, 4), (4, 8)])
@pytest.mark.parametrize("sd", [0.7, 3.0, 9.0])
def test_tasks_that_differ_equal_an_integral(k: int, n_rollouts: int, sd: float) -> None:
    def over_tasks(value: Any) -> float:
        def density(z: float) -> float:
            return value(expit(0.4 + sd * z)) * norm.pdf(z)

        middle = -0.4 / sd
        ends = [(-12, middle), (middle, 12)]
        return sum(quad(density, *end, limit=400, epsabs=1e-12)[0] for end in ends)

    between = over_tasks(lambda p: p ** (2 * k)) - over_tasks(lambda p: p**k) ** 2
    within_ = over_tasks(lambda p: enumerated(p, k, n_rollouts))
    found = pass_variance(rates(0.4, sd**2), k, n_rollouts, 0.03, 0.05).item()
    assert found == pytest.approx(0.03 * between + 0.05 * within_, abs=1e-10)


def test_pass_one_is_the_pass_rate() -> None:
    vc = logit_source({"task": 1.5}, 0.3, **TASKS)
    design = {"task": 60, "rollout": 5}
    width = gs.variance_budget(vc, design).half_width().values.item()
    assert half_width(vc, design, 1) == pytest.approx(width, rel=1e-10)
    # Rollouts with a component of their own: one call each.
    called = logit_source(
        {"task": 1.5, "rollout": 0.8},
        0.3,
        facets=["task", "rollout", "call"],
        nested={"rollout": ["task"], "call": ["task", "rollout"]},
        rollout="rollout",
    )
    design = {"task": 60, "rollout": 5, "call": 1}
    width = gs.variance_budget(called, design).half_width().values.item()
    assert half_width(called, design, 1) == pytest.approx(width, rel=1e-8)


@pytest.mark.parametrize("k", [2, 3])
def test_predictions_equal_simulated_studies(k: int) -> None:
    rng, n, n_tasks, n_rollouts = np.random.default_rng(k), 20_000, 30, 6
    p = expit(0.8 + 1.4 * rng.normal(size=(n, n_tasks)))
    passes = rng.binomial(n_rollouts, p)
    estimates = (comb(passes, k) / comb(n_rollouts, k)).mean(axis=1)
    vc = logit_source({"task": 1.4}, 0.8, **TASKS)
    width = half_width(vc, {"task": n_tasks, "rollout": n_rollouts}, k)
    variance = estimates.var()
    # Standard error of a variance from the fourth moment.
    error = math.sqrt((((estimates - estimates.mean()) ** 2).var()) / n)
    assert abs((width / Z) ** 2 - variance) < 4 * error
    assert estimates.mean() == pytest.approx(
        power_means(rates(0.8, 1.4**2), [k])[k].item(), abs=4 * math.sqrt(variance / n)
    )


def test_a_finite_bank_and_pinned_tasks() -> None:
    design = {"task": 40, "rollout": 4}
    width = {}
    for universe in (None, 40, 80):
        study = study_of(
            gs.Facet("task", role="legitimate", universe=universe), within("rollout", "task")
        )
        vc = gs.assume(study, {"task": 2.25}, mu=0.3, scale="logit")
        width[universe] = (half_width(vc, design, 2) / Z) ** 2
        pinned = (half_width(vc, gs.Design(design, pin=["task"]), 2) / Z) ** 2
        assert pinned == pytest.approx(
            pass_variance(rates(0.3, 2.25), 2, 4, 0.0, 1 / 40).item(), rel=1e-10
        )
    assert width[40] == pytest.approx(pinned, rel=1e-10)
    assert width[80] == pytest.approx((width[40] + width[None]) / 2, rel=1e-10)


def test_each_fitted_system_then_their_mean() -> None:
    study = study_of("task", within("rollout", "system", "task"), object="system")
    fit = fitted(study, grid({"system": "ABC", "task": range(8), "rollout": range(3)}))
    design = {"task": 50, "rollout": 4}
    found = gs.compare_designs(fit, design, pass_k=2)
    means = [power_means(_of(fit, label), [2, 3, 4]) for label in ("A", "B", "C")]
    # T = 4, k = 2: the two samples share none, one or both of two.
    variance = [(m[4] / 6 + 4 * m[3] / 6 + m[2] / 6 - m[2] ** 2) / 50 for m in means]
    expected = Z * np.sqrt(np.mean(variance, axis=0))
    assert found.draws.sel(quantity="pass_k").values.ravel() == pytest.approx(expected, rel=1e-9)


def _of(fit: Any, label: str) -> PassRates:
    effects = fit.effects("system").sel({"system": label}).values
    sd = fit.posterior["posterior"]["sd(task)"].values
    own = (
        fit.posterior["posterior"]["sd(system:task)"].values
        if "sd(system:task)" in (fit.posterior["posterior"])
        else np.zeros_like(sd)
    )
    mean = (fit.mu + effects).ravel()
    return PassRates("task", mean, (sd**2 + own**2).ravel(), np.zeros(mean.shape))


JUDGED = logit_source(
    {"task": 1.0, "judge": 0.5},
    0.0,
    facets=["task", "rollout", "judge"],
    nested={"rollout": ["task"]},
    roles={"judge": "error"},
)
CALLED = logit_source(
    {"task": 1.0, "rollout": 0.5},
    0.0,
    facets=["task", "rollout", "call"],
    nested={"rollout": ["task"], "call": ["task", "rollout"]},
    rollout="rollout",
)
SCORED = gs.assume(study_of("task", within("rollout", "task")), {"task": 0.1}, mean=0.5)
NEW = logit_source(
    {"system": 0.5, "task": 1.0},
    0.0,
    facets=["task", "rollout"],
    nested={"rollout": ["system", "task"]},
    object="system",
)
PLAIN = logit_source({"task": 1.0}, 0.0, **TASKS)


@pytest.mark.parametrize(
    ("source", "design", "reason"),
    [
        (JUDGED, {"task": 9, "rollout": 3, "judge": 1}, "needs tasks alone beside rollouts"),
        (CALLED, {"task": 9, "rollout": 3, "call": 2}, "a rollout has several trials"),
        (SCORED, {"task": 9, "rollout": 3}, "do not tell how pass rates spread"),
        (NEW, {"task": 9, "rollout": 3}, "it is of a given system"),
        (PLAIN, {"task": 9, "rollout": 1}, "needs at least 2 rollouts of a task"),
    ],
)
def test_what_has_no_pass_k_says_why(source: Any, design: Any, reason: str) -> None:
    found = gs.compare_designs(source, design, pass_k=2)
    assert "pass_k" not in found.draws.coords["quantity"].values
    assert any(note.startswith("Left out") and reason in note for note in found.notes)


@pytest.mark.parametrize("k", [0, -1, 2.0, True, "2"])
def test_no_number_of_rollouts_is_refused(k: Any) -> None:
    with pytest.raises(QuantityError, match="pass_k is no number of rollouts"):
        gs.compare_designs(PLAIN, {"task": 9, "rollout": 3}, pass_k=k)
