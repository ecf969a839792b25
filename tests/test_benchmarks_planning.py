"""Arithmetic of the planning benchmarks: truths against simulation; little sampling."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

planning_truth = pytest.importorskip("benchmarks.planning_truth", reason="no benchmarks/ here")
pilots = pytest.importorskip("benchmarks.pilots")
convergence = pytest.importorskip("benchmarks.convergence")


def test_products_of_a_finite_number_of_rollouts_are_unbiased() -> None:
    n, p = 7, 0.3
    k = np.arange(n + 1.0)
    weights = np.array([np.prod([(n - i) / (i + 1) for i in range(int(m))]) for m in k])
    weights *= p**k * (1 - p) ** (n - k)
    found = planning_truth.unbiased_products(k, np.full(n + 1, float(n)))
    assert found @ weights == pytest.approx(p * (1 - p))


def test_true_variances_are_those_of_simulated_scores() -> None:
    rng = np.random.default_rng(1)
    rates = rng.beta(1, 1, 40)
    trials = np.full(40, 10_000_000.0)
    rerun, total = planning_truth.true_variances(rates * trials, trials, 3)
    scores = rng.binomial(3, rates, (100_000, 40)).mean(axis=1) / 3
    assert rerun == pytest.approx(scores.var(), rel=0.02)
    # New tasks: drawn with replacement from these, of which S^2 has divisor n - 1.
    drawn = rng.choice(rates, (100_000, 40))
    again = rng.binomial(3, drawn).mean(axis=1) / 3
    between = np.var(rates, ddof=1) / 40 / 40
    assert total - between == pytest.approx(again.var(), rel=0.02)


@pytest.mark.parametrize("name", ["one system", "four systems"])
def test_the_true_variance_of_a_pilot_is_that_of_simulated_scores(name: str) -> None:
    pilot = pilots.PILOTS[name]
    rng = np.random.default_rng(2)
    frame, means = pilots.simulated(pilot, rng)
    assert len(frame) == pilot.systems * pilot.tasks
    tasks, rollouts = pilot.predicted
    spread = np.hypot(pilot.sd["task"], pilot.sd.get("system:task", 0.0))
    variances = []
    for mean in means:
        p = 1 / (1 + np.exp(-(mean + spread * rng.standard_normal((20_000, tasks)))))
        variances.append(rng.binomial(rollouts, p).mean(axis=1).var() / rollouts**2)
    assert pilots.true_variance(pilot, means) == pytest.approx(np.mean(variances), rel=0.02)


def test_a_point_estimate_has_settled_where_it_stays_near() -> None:
    rows = [
        {"group": g, "rollouts": n, "icc": v}
        for g, values in {"A": (0.5, 0.41, 0.5, 0.4, 0.4), "B": (0.4, 0.4, 0.4, 0.4, 0.5)}.items()
        for n, v in zip((2, 4, 8, 16, 32), values, strict=True)
    ]
    found = convergence.settled(pd.DataFrame(rows), pd.Series({"A": 0.4, "B": 0.4}))
    assert found["A"] == 16
    assert np.isnan(found["B"])
