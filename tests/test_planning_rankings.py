"""Probabilities of the right ranking and winner: closed forms, orthants of scipy, simulation."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from gstudy.planning.rankings import exchangeable, of_systems, right_of_two

# What of_systems and exchangeable may be off by themselves.
INTEGRATION = 0.003


def covariances(n: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    mixed = rng.normal(size=(n, n)) * 0.03
    return mixed @ mixed.T / n + 0.0004 * np.eye(n)


def scipy_orthants(means: np.ndarray, errors: np.ndarray) -> tuple[float, float]:
    order = np.argsort(-means)
    found = []
    for pairs in (
        list(itertools.pairwise(order)),
        [(order[0], other) for other in order[1:]],
    ):
        contrast = np.array([np.eye(len(means))[i] - np.eye(len(means))[j] for i, j in pairs])
        normal = multivariate_normal(np.zeros(len(pairs)), contrast @ errors @ contrast.T)
        found.append(float(normal.cdf(contrast @ means)))
    return found[0], found[1]


@pytest.mark.parametrize("seed", range(5))
def test_two_systems_equal_orthants_of_a_bivariate_normal(seed: int) -> None:
    rng = np.random.default_rng(seed)
    d, tau, sigma = rng.normal(0, 0.1), rng.uniform(0.01, 0.2), rng.uniform(0.01, 0.2)
    covariance = np.array([[tau**2, tau**2], [tau**2, tau**2 + sigma**2]])
    both = [multivariate_normal([0, 0], covariance).cdf([s * d, s * d]) for s in (1, -1)]
    found = right_of_two(np.array([d]), np.array([tau**2]), np.array([sigma**2]))
    assert found.item() == pytest.approx(sum(both), abs=1e-7)


def test_two_systems_at_the_ends() -> None:
    d = np.array([0.1, 0.0, 0.0, 0.1, 0.0])
    between = np.array([0.0, 0.3, 0.3, 0.0, 0.0])
    error = np.array([0.04, 0.0, 0.1, 0.0, 0.0])
    found = right_of_two(d, between, error)
    normal = 0.5 * (1 + math.erf(0.5 / math.sqrt(2)))
    expected = [normal, 1.0, 0.5 + math.asin(math.sqrt(0.75)) / math.pi, 1.0, 0.5]
    assert found == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("n", "seed"), [(3, 0), (3, 1), (4, 2), (5, 3), (6, 4)])
def test_several_systems_equal_orthants_of_scipy(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    means, errors = rng.normal(0.5, 0.05, n), covariances(n, seed)
    found = of_systems(means[:, None], errors[..., None])
    ranking, winner = scipy_orthants(means, errors)
    assert found.ranking.item() == pytest.approx(ranking, abs=INTEGRATION)
    assert found.winner.item() == pytest.approx(winner, abs=INTEGRATION)


def test_the_order_of_the_systems_is_of_no_matter() -> None:
    rng = np.random.default_rng(3)
    means, errors = rng.normal(0.5, 0.05, 5), covariances(5, 3)
    first = of_systems(means[:, None], errors[..., None])
    for _ in range(5):
        order = rng.permutation(5)
        again = of_systems(means[order][:, None], errors[np.ix_(order, order)][..., None])
        assert again.ranking == pytest.approx(first.ranking, abs=1e-12)
        assert again.winner == pytest.approx(first.winner, abs=1e-12)


def test_what_all_systems_share_moves_no_order() -> None:
    means, errors = np.array([0.5, 0.53, 0.6])[:, None], covariances(3, 1)[..., None]
    alone, shared = of_systems(means, errors), of_systems(means, errors + 0.5)
    assert shared.ranking == pytest.approx(alone.ranking, abs=1e-9)
    nothing = of_systems(means, np.full((3, 3, 1), 0.5))
    assert (nothing.ranking.item(), nothing.winner.item()) == (1.0, 1.0)


def test_equal_systems_are_ordered_by_chance() -> None:
    found = of_systems(np.full((4, 1), 0.5), 0.01 * np.eye(4)[..., None])
    assert found.ranking.item() == pytest.approx(1 / 24, abs=INTEGRATION)
    assert found.winner.item() == pytest.approx(1 / 4, abs=INTEGRATION)


def test_moving_universe_scores_equal_a_simulation() -> None:
    rng = np.random.default_rng(11)
    means, errors, universe = np.array([0.5, 0.55, 0.6]), covariances(3, 5), covariances(3, 6)
    n = 200_000
    truth = means + rng.multivariate_normal(np.zeros(3), universe, n)
    reported = truth + rng.multivariate_normal(np.zeros(3), errors, n)
    same = (np.argsort(truth, axis=1) == np.argsort(reported, axis=1)).all(axis=1)
    top = truth.argmax(axis=1) == reported.argmax(axis=1)
    found = of_systems(means[:, None], errors[..., None], universe[..., None])
    # 2,048 simulated studies, spread evenly.
    for value, simulated in ((found.ranking, same), (found.winner, top)):
        noise = math.hypot(simulated.std() / math.sqrt(n), simulated.std() / math.sqrt(2048))
        assert abs(value.item() - simulated.mean()) < 3 * noise
    # Two systems: the closed form.
    pair = of_systems(means[:2, None], errors[:2, :2, None], universe[:2, :2, None])
    right = (truth[:, 0] > truth[:, 1]) == (reported[:, 0] > reported[:, 1])
    assert abs(pair.ranking.item() - right.mean()) < 4 * right.std() / math.sqrt(n)


@pytest.mark.parametrize("n_systems", [3, 5, 10])
def test_new_systems_equal_a_simulation(n_systems: int) -> None:
    rng, n = np.random.default_rng(n_systems), 100_000
    truth, noise = rng.normal(size=(2, n, n_systems))
    order = np.argsort(truth, axis=1)
    for reliability in (0.3, 0.8, 0.97):
        reported = math.sqrt(reliability) * truth + math.sqrt(1 - reliability) * noise
        same = (np.argsort(reported, axis=1) == order).all(axis=1)
        top = reported.argmax(axis=1) == order[:, -1]
        found = exchangeable(np.array([reliability]), n_systems)
        for value, simulated in ((found.ranking, same), (found.winner, top)):
            tolerance = 4 * simulated.std() / math.sqrt(n) + INTEGRATION
            assert abs(value.item() - simulated.mean()) < tolerance


def test_new_systems_at_the_ends_and_two_of_them() -> None:
    reliability = np.array([0.0, 0.5, 1.0])
    two, four = exchangeable(reliability, 2), exchangeable(reliability, 4)
    assert two.ranking == pytest.approx([0.5, 0.75, 1.0], abs=1e-12)
    assert (two.ranking == two.winner).all()
    assert four.ranking[[0, 2]] == pytest.approx([1 / 24, 1.0], abs=1e-12)
    assert four.winner[[0, 2]] == pytest.approx([0.25, 1.0], abs=1e-12)
    assert (np.diff(four.winner) > 0).all()
