"""Arithmetic of the planning benchmarks: truths against simulation; little sampling."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from benchmarks import convergence, pilots, planning_truth


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


def test_the_chance_of_so_many_misses_is_that_of_independent_right_intervals() -> None:
    found = planning_truth.chance_of_misses(2, 3)
    assert found == pytest.approx(3 * 0.05**2 * 0.95 + 0.05**3)
    assert planning_truth.chance_of_misses(0, 144) == pytest.approx(1.0)


def test_predicted_counts_keep_the_pilot_and_draw_the_rest() -> None:
    rng = np.random.default_rng(3)
    passed, taken, trials = np.array([4.0, 0.0]), np.array([4.0, 4.0]), np.array([104.0, 204.0])
    rates = np.broadcast_to([0.25, 0.5], (20_000, 2))
    found = planning_truth.predicted_counts((passed, taken), trials, rates, rng)
    assert found.min(axis=0).tolist() > [4, 0]
    assert found.mean(axis=0) == pytest.approx([4 + 25, 100], rel=0.01)
    assert found.var(axis=0) == pytest.approx([100 * 0.1875, 200 * 0.25], rel=0.05)


def test_predictive_intervals_of_the_variances_hold_95_percent() -> None:
    """Rates and pilot from one model, whose posterior is known: Beta prior, binomial trials."""
    rng = np.random.default_rng(4)
    n_tasks, total, pilot, held = 40, 60, 4, np.zeros(2)
    for _ in range(400):
        rates = rng.beta(0.8, 0.8, n_tasks)
        passed = rng.binomial(pilot, rates)
        counts = passed + rng.binomial(total - pilot, rates)
        trials, drawn = np.full(n_tasks, float(total)), (passed, np.full(n_tasks, float(pilot)))
        draws = rng.beta(0.8 + passed, 0.8 + pilot - passed, (500, n_tasks))
        again = planning_truth.predicted_counts(drawn, trials, draws, rng)
        pairs = zip(
            planning_truth.true_variances(again, trials, 4),
            planning_truth.true_variances(counts.astype(float), trials, 4),
            strict=True,
        )
        held += [planning_truth.holds(own, float(truth))[0] for own, truth in pairs]
    assert np.abs(held / 400 - 0.95).max() < 3.5 * (0.95 * 0.05 / 400) ** 0.5


@pytest.mark.parametrize(("least_p", "blamed"), [(0.04, []), (0.3, ["B"])])
def test_a_system_missed_again_and_again_needs_a_low_p_of_its_check(
    least_p: float, blamed: list[str]
) -> None:
    """Of 20 systems A misses once of ten, as chance may have it, and B always."""
    rows = pd.DataFrame(
        [
            {"system": s, "rollouts": t, "resample": r, "check_p": least_p if s == "B" else 0.5}
            | {f"{e}_holds": True for e in planning_truth.ESTIMANDS}
            | {"rerun_holds": s != "B" and (s, r) != ("A", 3)}
            for s in "ABCDEFGHIJKLMNOPQRST"
            for t in planning_truth.PREDICTED
            for r in range(10)
        ]
    )
    again = planning_truth.repeated_misses(rows)
    assert again["system"].tolist() == ["B"] * 3
    assert again["chance"].to_numpy() == pytest.approx(20 * 0.05**10)
    assert {text.split(":")[0] for text in planning_truth.missed(rows) if "check" in text} == set(
        blamed
    )
    first, rest = planning_truth.explained(rows)
    assert first.startswith("B: re-run noise missed 10 of 10")
    assert rest.startswith("all others: 1 of 190, 0.5%")
