"""The kernel against numbers computed elsewhere and against plain two-dimensional quadrature."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit

from gstudy.errors import QuantityError
from gstudy.variance.kernel import (
    logistic_covariance,
    logistic_mean,
    logistic_moments,
    logistic_variance,
)


def simpson(n: int, half_range: float = 10.0) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of a standard normal expectation by Simpson's rule."""
    nodes = np.linspace(-half_range, half_range, 2 * n + 1)
    weights = np.ones(nodes.size)
    weights[1:-1:2], weights[2:-1:2] = 4, 2
    weights *= np.exp(-0.5 * nodes**2)
    return nodes, weights / weights.sum()


def covariance_by_conditioning(
    m_1: float, m_2: float, v_1: float, v_2: float, shared: float
) -> float:
    """Cov of the conditional means given the part that both logits share."""
    nodes, weights = simpson(1500)
    rho = shared / np.sqrt(v_1 * v_2)

    def given(mean: float, var: float, sign: float) -> np.ndarray:
        inner = np.sqrt(var * (1 - abs(rho))) * nodes
        outer = mean + sign * np.sqrt(var * abs(rho)) * nodes
        return np.asarray(expit(outer[:, None] + inner) @ weights)

    one, two = given(m_1, v_1, 1.0), given(m_2, v_2, float(np.sign(rho)))
    return float(((one - one @ weights) * (two - two @ weights)) @ weights)


def half_squared_difference(mean: float, var: float, shared: float) -> float:
    """Var(p) - Cov(p_1, p_2) = E[(p_1 - p_2)^2] / 2, over half sum and difference of the logits."""
    nodes, weights = simpson(2000)
    middle = np.abs(mean + np.sqrt((var + shared) / 2) * nodes)
    total = 0.0
    for half, weight in zip(np.abs(np.sqrt((var - shared) / 2) * nodes), weights, strict=True):
        # sinh(d) / (cosh(M) + cosh(d)), without overflow.
        top = np.maximum(middle, half)
        high, low = np.exp(half - top), np.exp(-half - top)
        below = np.exp(middle - top) + np.exp(-middle - top) + high + low
        total += weight * float((((high - low) / below) ** 2) @ weights)
    return total / 2


def test_kernel_equals_numbers_computed_elsewhere(oracle: Any) -> None:
    found = oracle("kernel")
    for row in found["rows"]:
        margins = [row[k] for k in ("mean_logit_1", "mean_logit_2", "var_1", "var_2")]
        wide = max(row["var_1"], row["var_2"]) > 36
        cov = float(logistic_covariance(*margins, row["var_shared"]))
        assert cov == pytest.approx(row["cov"], rel=1e-6, abs=1e-8 if wide else 1e-13)
        assert float(logistic_mean(margins[0], margins[2])) == pytest.approx(
            row["mean_1"], abs=1e-13
        )
        assert float(logistic_mean(margins[1], margins[3])) == pytest.approx(
            row["mean_2"], abs=1e-13
        )


@pytest.mark.parametrize(
    ("m_1", "m_2", "v_1", "v_2", "shared"),
    [
        (0.3, 0.3, 4.0, 4.0, 1.5),
        (2.0, -1.5, 9.0, 2.0, 3.0),
        (-2.5, -0.5, 0.5, 16.0, 2.0),
        (1.0, 1.0, 36.0, 36.0, 35.0),
        (0.5, -0.4, 36.0, 30.0, 32.0),
        (0.7, 1.1, 3.0, 5.0, -2.0),
        (-6.0, -5.0, 2.0, 2.0, 1.0),
    ],
)
def test_kernel_equals_conditioning_on_what_is_shared(
    m_1: float, m_2: float, v_1: float, v_2: float, shared: float
) -> None:
    expected = covariance_by_conditioning(m_1, m_2, v_1, v_2, shared)
    assert float(logistic_covariance(m_1, m_2, v_1, v_2, shared)) == pytest.approx(
        expected, abs=1e-10
    )


@pytest.mark.parametrize(
    ("sd", "rho", "error"),
    [
        (3.0, 0.999, 1e-10),
        (6.0, 0.99, 1e-10),
        (6.0, 0.99999, 1e-10),
        (12.0, 0.9999, 1e-8),
        (20.0, 0.99, 1e-8),
        (20.0, 0.9995, 1e-8),
        (33.0, 0.999, 1e-6),
        (100.0, 0.999, 1e-3),
    ],
)
def test_kernel_holds_its_error_where_almost_everything_is_shared(
    sd: float, rho: float, error: float
) -> None:
    var = sd**2
    expected = float(logistic_variance(-0.7, var)) - half_squared_difference(-0.7, var, rho * var)
    assert float(logistic_covariance(-0.7, -0.7, var, var, rho * var)) == pytest.approx(
        expected, abs=error
    )


@pytest.mark.parametrize(("mean", "var"), [(0.0, 1.0), (-2.3, 6.0), (4.0, 30.0), (1.0, 400.0)])
def test_mean_and_variance_equal_adaptive_quadrature(mean: float, var: float) -> None:
    def expectation(power: int) -> float:
        def value(z: float) -> float:
            density = np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)
            return float(expit(mean + np.sqrt(var) * z) ** power * density)

        middle = -mean / np.sqrt(var)
        return float(quad(value, -12, 12, points=[middle], epsabs=1e-13, limit=400)[0])

    first = expectation(1)
    assert float(logistic_mean(mean, var)) == pytest.approx(first, abs=1e-12)
    assert float(logistic_variance(mean, var)) == pytest.approx(
        expectation(2) - first**2, abs=1e-12
    )


def test_kernel_keeps_relative_digits_of_rates_near_zero_and_one() -> None:
    # The mean of a lognormal and its covariance, where expit is an exponential.
    low = np.exp(-30 + 0.5)
    assert float(logistic_mean(-30, 1.0)) == pytest.approx(low, rel=1e-9)
    assert float(logistic_covariance(-30, -30, 1.0, 1.0, 0.5)) == pytest.approx(
        low**2 * np.expm1(0.5), rel=1e-9
    )
    assert float(logistic_covariance(30, 30, 1.0, 1.0, 0.5)) == pytest.approx(
        low**2 * np.expm1(0.5), rel=1e-9
    )
    assert float(logistic_covariance(-30, 30, 1.0, 1.0, 0.5)) == pytest.approx(
        -(low**2) * np.expm1(-0.5), rel=1e-9
    )


def test_nothing_shared_is_zero_everything_shared_is_the_variance() -> None:
    mean, var = np.array([-1.0, 0.0, 2.5]), np.array([0.0, 4.0, 90.0])
    assert np.array_equal(logistic_covariance(mean, mean, var, var, 0.0), np.zeros(3))
    np.testing.assert_allclose(
        logistic_covariance(mean, mean, var, var, var), logistic_variance(mean, var), rtol=1e-14
    )


def test_covariance_grows_with_what_is_shared_and_is_symmetric() -> None:
    shared = np.linspace(0, 7, 60)
    cov = logistic_covariance(1.2, 1.2, 7.0, 7.0, shared)
    assert np.all(np.diff(cov) > 0)
    np.testing.assert_allclose(cov, logistic_covariance(-1.2, -1.2, 7.0, 7.0, shared), rtol=1e-13)
    one = logistic_covariance(0.5, -1.0, 8.0, 9.0, shared)
    np.testing.assert_allclose(one, logistic_covariance(-1.0, 0.5, 9.0, 8.0, shared), rtol=1e-13)
    np.testing.assert_allclose(one, -logistic_covariance(0.5, 1.0, 8.0, 9.0, -shared), rtol=1e-10)


def test_covariance_broadcasts_sets_before_between_and_after_draws() -> None:
    rng = np.random.default_rng(3)
    mean, var = rng.normal(size=(4, 5)), rng.uniform(0.5, 8, size=(4, 5))
    share = np.array([0.1, 0.6, 0.95])
    wanted = np.array(
        [
            [
                logistic_covariance(m, m, v, v, s * v)
                for m, v in zip(mean.flat, var.flat, strict=True)
            ]
            for s in share
        ]
    ).reshape(3, 4, 5)
    front = logistic_covariance(mean, mean, var, var, share[:, None, None] * var)
    np.testing.assert_allclose(front, wanted, rtol=1e-11)
    back = logistic_covariance(
        mean[..., None], mean[..., None], var[..., None], var[..., None], var[..., None] * share
    )
    np.testing.assert_allclose(np.moveaxis(back, -1, 0), wanted, rtol=1e-11)
    between = logistic_covariance(
        mean[:, None], mean[:, None], var[:, None], var[:, None], share[:, None] * var[:, None]
    )
    np.testing.assert_allclose(np.moveaxis(between, 1, 0), wanted, rtol=1e-11)


def test_moments_add_up_to_the_variance_of_a_score() -> None:
    rng = np.random.default_rng(1)
    mean, var = rng.normal(0, 3, 200), rng.uniform(0, 60, 200)
    moments = logistic_moments(mean, var, var[None])
    np.testing.assert_allclose(
        moments.mean * (1 - moments.mean), moments.shared[0] + moments.noise, rtol=1e-12
    )


def test_thirty_one_sets_of_four_thousand_draws_take_tenths_of_a_second() -> None:
    rng = np.random.default_rng(2)
    parts = rng.uniform(1, 4, size=(5, 4000)) ** 2
    member = np.array([[code >> i & 1 for i in range(5)] for code in range(1, 32)], dtype=float)
    mean, shared = rng.normal(size=4000), member @ parts
    start = time.perf_counter()
    moments = logistic_moments(mean, parts.sum(axis=0), shared)
    # About 0.2 s on one core; the limit allows for a busy machine.
    assert time.perf_counter() - start < 3
    assert moments.shared.shape == (31, 4000)


@pytest.mark.parametrize("var", [-0.1, np.nan, np.inf])
def test_a_variance_that_is_none_is_refused(var: float) -> None:
    with pytest.raises(QuantityError, match="finite numbers that are not negative"):
        logistic_mean(0.0, var)
    with pytest.raises(QuantityError, match="a variance on the logit scale is not usable"):
        logistic_covariance(0.0, 0.0, 1.0, var, 0.5)


def test_more_shared_than_there_is_is_refused() -> None:
    with pytest.raises(QuantityError, match=r"\|var_shared\| <= sqrt\(var_1 \* var_2\)"):
        logistic_covariance(0.0, 0.0, 1.0, 4.0, 2.1)
