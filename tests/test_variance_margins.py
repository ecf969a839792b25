"""The kept expansions behind the score scale: the same numbers in any order and company."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest

from gstudy.variance.kernel import logistic_covariance, margin_covariances
from gstudy.variance.margins import Margin, covariances
from gstudy.variance.quadrature import BLOCK, hermite_halves, levels_of, rule_of
from gstudy.variance.remembered import MOST_KEPT, remembered
from gstudy.variance.threads import each

N = 400


@pytest.fixture
def logits() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    # Every level of the trapezoid, one sd of nothing.
    sds = np.exp(rng.uniform(np.log(0.05), np.log(30), N))
    sds[0] = 0.0
    return rng.normal(0, 2, N), sds**2


def rhos(n_sets: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-0.97, 0.97, (n_sets, N))


def test_coefficients_are_kept_and_later_questions_change_nothing(logits) -> None:
    once = Margin(*logits)
    mild, steep = rhos(3) * 0.3, rhos(5)
    before = covariances(once, once, mild)
    covariances(once, once, steep)
    assert (once.counts >= 1).all()
    assert once.counts.max() > 1
    # After the steep question more terms are known; the mild one needs as few as before.
    np.testing.assert_array_equal(covariances(once, once, mild), before)
    np.testing.assert_array_equal(
        covariances(Margin(*logits), Margin(*logits), steep),
        covariances(once, Margin(*logits), steep),
    )


def test_sets_in_any_order_and_company_have_the_same_covariance(logits) -> None:
    margin, rho = Margin(*logits), rhos(7) * np.array([1, 0.9, 0.6, 0.3, 0.1, 0.01, 0])[:, None]
    whole = covariances(margin, margin, rho)
    np.testing.assert_array_equal(covariances(margin, margin, rho[::-1])[::-1], whole)
    for row, expected in zip(rho, whole, strict=True):
        # Alone a set may need fewer blocks; what they leave out is below the remainder allowed.
        alone = covariances(margin, margin, row[None])[0]
        assert np.abs(alone - expected).max() <= 1e-9
    assert not whole[-1].any()


def test_coefficients_sum_to_the_spread_and_to_the_covariance_by_hand() -> None:
    mean, var = np.array([0.7, -1.2]), np.array([1.5, 4.0])
    margin = Margin(mean, var)
    while (margin.counts < margin.most).all():
        margin.extend(np.arange(2))
    terms = np.concatenate([margin.block(i, np.arange(2)) for i in range(margin.most[0])], axis=1)
    np.testing.assert_allclose((terms**2).sum(axis=1), margin.spread, rtol=1e-12)
    powers = 0.6 ** np.arange(1, terms.shape[1] + 1)
    [found] = covariances(margin, margin, np.full((1, 2), 0.6))
    np.testing.assert_allclose(found, (terms**2) @ powers, rtol=1e-11)
    # c_1 = sqrt(S) E[p(1-p)], by Stein's lemma.
    np.testing.assert_allclose(terms[:, 0], np.sqrt(var) * margin.noise, rtol=1e-12)


def test_moments_alone_are_those_of_an_expanded_margin(logits) -> None:
    one, other = Margin(*logits), Margin(*logits, moments_alone=True)
    for name in ("expected", "noise", "spread"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert not other.counts.any()
    # And it can be expanded after all.
    np.testing.assert_array_equal(
        covariances(other, other, rhos(2)), covariances(one, one, rhos(2))
    )
    np.testing.assert_allclose(
        one.expected * (1 - one.expected), one.noise + one.spread, atol=1e-12
    )


def test_a_margin_with_itself_is_two_equal_margins(logits) -> None:
    mean, var = logits
    shared = np.abs(rhos(4)) * var
    one, two = Margin(mean, var), Margin(mean, var)
    # Not bit for bit: of one margin what is left is added at its bound.
    by_two = margin_covariances(one, two, shared)
    np.testing.assert_allclose(margin_covariances(one, one, shared), by_two, atol=1e-8)
    np.testing.assert_allclose(logistic_covariance(mean, mean, var, var, shared), by_two, atol=1e-8)


class Interrupted(Margin):
    """A margin whose first extension is interrupted half way."""

    calls = 0

    def _fill(self, count, draws, values) -> None:
        if count:
            self.calls += 1
            if self.calls == 2:
                raise KeyboardInterrupt
        super()._fill(count, draws, values)


def test_an_interrupted_extension_is_made_again(logits) -> None:
    margin, other = Interrupted(*logits), Margin(*logits)
    with pytest.raises(KeyboardInterrupt):
        covariances(margin, other, rhos(3))
    expected = covariances(Margin(*logits), Margin(*logits), rhos(3))
    np.testing.assert_array_equal(covariances(margin, other, rhos(3)), expected)


def test_threads_that_ask_at_once_get_what_one_would(logits) -> None:
    margin, asked = Margin(*logits), [rhos(3, seed) for seed in range(6)]
    found: dict[int, np.ndarray] = {}

    def ask(i: int) -> None:
        found[i] = covariances(margin, margin, asked[i])

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(asked))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i, rho in enumerate(asked):
        alone = Margin(*logits)
        np.testing.assert_array_equal(found[i], covariances(alone, alone, rho))


def test_hermite_functions_are_orthonormal_at_every_level() -> None:
    for level in range(6):
        rule = rule_of(level)
        odd, even = hermite_halves(level, 0)
        middle = rule.nodes.size // 2
        weights = rule.weights[middle:]
        # h_k w at the nodes above 0, w taken out once: the other factor of the product.
        plain = odd[:20, :6] / weights[1:21, None]
        assert np.isfinite(plain).all()
        np.testing.assert_allclose(plain[:, 0], rule.nodes[middle + 1 : middle + 21], rtol=1e-9)
        assert odd.shape[1] + even.shape[1] == BLOCK
        assert rule.weights.sum() == pytest.approx(1, abs=1e-13)
    assert levels_of(np.array([0.0, 9.0, 9.01, 1e4, 1e6])).tolist() == [0, 0, 1, 5, 5]


class Owner:
    """What something is remembered of."""


def test_a_result_is_made_once_for_each_owner_and_key() -> None:
    made: list[tuple[int, str]] = []
    one, two = Owner(), Owner()

    def make(owner: Owner, key: str) -> list[str]:
        made.append((id(owner), key))
        return [key]

    for _ in range(3):
        for owner in (one, two):
            for key in ("a", "b"):
                assert remembered(owner, key, lambda o, k=key: make(o, k)) == [key]
    assert len(made) == len(set(made)) == 4


def test_the_result_longest_not_asked_for_goes_first() -> None:
    owner, made = Owner(), []
    for key in range(MOST_KEPT):
        remembered(owner, key, made.append)
    remembered(owner, 0, made.append)
    remembered(owner, MOST_KEPT, made.append)
    assert len(made) == MOST_KEPT + 1
    remembered(owner, 0, made.append)
    assert len(made) == MOST_KEPT + 1
    remembered(owner, 1, made.append)
    assert len(made) == MOST_KEPT + 2


def test_what_is_remembered_goes_with_its_owner() -> None:
    owner = Owner()
    gone = weakref.ref(remembered(owner, "it", lambda _: Owner()))
    gc.collect()
    assert gone() is not None
    del owner
    gc.collect()
    assert gone() is None


def test_each_does_every_part_and_raises_what_a_part_raises() -> None:
    found = np.zeros(50)
    each(lambda i: found.__setitem__(i, i), range(50))
    assert found.tolist() == list(range(50))
    each(found.__setitem__, [])

    def fail(part: int) -> None:
        if part == 7:
            raise ValueError("part 7")

    with pytest.raises(ValueError, match="part 7"):
        each(fail, range(20))
