"""Priors: defaults, text, and every way to write one wrongly."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from gstudy.errors import DeclarationError
from gstudy.study.priors import (
    MU_DEFAULT,
    Prior,
    default_fixed_prior,
    default_mu_prior,
    default_residual_prior,
    default_sd_prior,
)


@pytest.mark.parametrize(
    ("n_levels", "is_object", "sigma"),
    [(8, False, 5), (8, True, 5), (1000, False, 5), (7, True, 2), (7, False, 1), (2, False, 1)],
)
def test_default_sd_prior_follows_levels_and_object(
    n_levels: int, is_object: bool, sigma: float
) -> None:
    assert default_sd_prior(n_levels, is_object=is_object) == Prior("HalfNormal", {"sigma": sigma})


def test_default_of_mu() -> None:
    assert (MU_DEFAULT.dist, MU_DEFAULT.mu, MU_DEFAULT.sigma) == ("Normal", 0.0, 3.0)


def test_prior_prints_and_comes_back() -> None:
    prior = Prior.from_value("mu", {"sigma": 1.5, "dist": "Normal", "mu": -1})
    assert str(prior) == "Normal(mu=-1, sigma=1.5)"
    assert Prior.from_value("mu", prior.to_dict()) == prior
    assert Prior.from_value("mu", prior) == prior
    assert pickle.loads(pickle.dumps(prior)) == prior
    assert hash(prior) == hash(Prior("Normal", {"mu": -1.0, "sigma": 1.5}))


def test_defaults_of_graded_scores_follow_their_spread() -> None:
    assert default_mu_prior(7.0, 2.0) == Prior("Normal", {"mu": 7.0, "sigma": 5.0})
    assert default_mu_prior(7.0, None) == MU_DEFAULT
    assert default_residual_prior(2.0) == Prior("HalfNormal", {"sigma": 4.0})
    assert default_sd_prior(3, is_object=True, score_scale=2.0).sigma == 4.0
    assert default_fixed_prior().sigma == 2.5
    assert default_fixed_prior(2.0).sigma == 5.0


SOME = [
    Prior("Normal", {"mu": -1.0, "sigma": 2.0}),
    Prior("StudentT", {"nu": 4.0, "mu": 1.0, "sigma": 0.5}),
    Prior("HalfNormal", {"sigma": 3.0}),
    Prior("HalfStudentT", {"nu": 5.0, "sigma": 1.5}),
    Prior("HalfCauchy", {"beta": 0.7}),
    Prior("Exponential", {"lam": 2.0}),
    Prior("Gamma", {"alpha": 2.5, "beta": 0.5}),
    Prior("LogNormal", {"mu": 0.3, "sigma": 0.6}),
]
DISTS = [prior.dist for prior in SOME]


@pytest.mark.parametrize("prior", SOME, ids=DISTS)
def test_density_integrates_to_one_and_draws_follow_it(prior: Prior) -> None:
    draws = prior.draw(np.random.default_rng(4), 20_000)
    low = -np.inf if prior.dist in ("Normal", "StudentT") else 0.0

    def density(v: float) -> float:
        return float(np.exp(prior.logpdf(v)))

    def below(x: float) -> float:
        parts = ((low, min(x, 1.0)), (min(x, 1.0), x))
        return sum(integrate.quad(density, *part, limit=200)[0] for part in parts)

    total = below(1.0) + integrate.quad(density, 1.0, np.inf)[0]
    assert total == pytest.approx(1.0, abs=1e-7)
    # 20,000 draws: the share below a quantile has sd sqrt(p (1 - p) / n), 0.0035 at most.
    for share in (0.1, 0.5, 0.9):
        edge = float(np.quantile(draws, share))
        assert below(edge) == pytest.approx(share, abs=5 * 0.0035)
    if low == 0.0:
        assert prior.logpdf(-1.0) == -np.inf
        assert draws.min() >= 0


@pytest.mark.parametrize("prior", SOME, ids=DISTS)
def test_density_is_that_of_pymc(prior: Prior) -> None:
    import pymc as pm

    x = np.array([0.05, 0.4, 1.3, 7.0])
    made = getattr(pm, prior.dist).dist(**{k: np.asarray(v) for k, v in prior.parameters})
    # Some of PyMC's constants are in single precision.
    np.testing.assert_allclose(prior.logpdf(x), pm.logp(made, x).eval(), rtol=1e-6)


def test_zero_sum_effects() -> None:
    prior = Prior("ZeroSumNormal", {"sigma": 1.5})
    draws = prior.draw(np.random.default_rng(2), (5000, 4))
    np.testing.assert_allclose(draws.sum(axis=-1), 0.0, atol=1e-12)
    # Var of an effect is sigma^2 (1 - 1/K).
    assert draws.var() == pytest.approx(1.5**2 * 3 / 4, rel=5 * np.sqrt(2 / 15_000))
    # In an orthonormal basis of the free directions they are independent normals.
    basis = np.linalg.svd(np.ones((1, 4)))[2][1:]
    expected = stats.norm.logpdf(draws[:3] @ basis.T, scale=1.5).sum(axis=-1)
    np.testing.assert_allclose(prior.logpdf(draws[:3]), expected, rtol=1e-12)


def test_one_draw_is_a_number() -> None:
    rng = np.random.default_rng(1)
    assert all(prior.draw(rng).shape == () for prior in SOME)


WRONG = [
    ("sd(task)", 5.0, r'priors\."sd\(task\)" is not a prior\. Given: 5\.0\. Allowed: such as'),
    ("sd(task)", {"sigma": 5.0}, "is not a prior"),
    ("sd(task)", {"dist": "HalfNorml", "sigma": 1}, r"Did you mean 'HalfNormal'\?"),
    ("sd(task)", {"dist": "HalfStudentT", "sigma": 1}, "HalfStudentT needs 'nu'"),
    ("sd(task)", {"dist": "Normal", "mu": 0, "sigma": 1}, r"Allowed: HalfNormal\(sigma\), Half"),
    ("sd(task)", {"dist": "InverseGamma"}, r"cannot have this dist.*Write { dist = \"HalfNormal"),
    ("sd(residual)", {"dist": "StudentT"}, r'priors\."sd\(residual\)" cannot have this dist'),
    ("fixed(c)", {"dist": "HalfNormal", "sigma": 1}, r"Allowed: ZeroSumNormal\(sigma\)"),
    ("sd(a)", {"dist": "HalfStudentT", "nu": 0.5, "sigma": 1}, r"nu is out of range.*from 1 to"),
    ("sd(a)", {"dist": "HalfCauchy", "beta": -1}, "beta is not positive. Given: -1"),
    ("sd(a)", {"dist": "Exponential", "lam": 0}, "lam is not positive. Given: 0"),
    ("sd(a)", {"dist": "Exponential", "lam": 1e9}, r"lam is out of range.*0\.001 to 10000, on the"),
    ("sd(a)", {"dist": "Gamma", "alpha": 0.01, "beta": 1}, r"alpha is out of range.*from 0\.1"),
    ("sd(a)", {"dist": "LogNormal", "mu": 9, "sigma": 1}, r"mu is out of range.*-9\.2 to 6\.9"),
    ("sd(a)", {"dist": "LogNormal", "mu": 0, "sigma": 50}, r"sigma is out of range.*to 10\."),
    ("mu", {"dist": "StudentT", "nu": 3, "sigma": 1}, "StudentT needs 'mu'. Write { dist ="),
    ("sd(task)", {"dist": ["HalfNormal"], "sigma": 1}, "cannot have this dist"),
    ("mu", {"dist": "HalfNormal", "sigma": 1}, r"priors\.mu cannot.*: Normal\(mu, sigma\), Stud"),
    ("mu", {"dist": "Normal", "mu": 0}, "Normal needs 'sigma'. Write { dist = "),
    ("mu", {"dist": "Normal", "sigma": 1}, "Normal needs 'mu'"),
    ("sd(task)", {"dist": "HalfNormal"}, "HalfNormal needs 'sigma'"),
    ("sd(task)", {"dist": "HalfNormal", "sigm": 1}, r"no parameter 'sigm'.*Did you mean 'sigma'\?"),
    ("sd(task)", {"dist": "HalfNormal", "sigma": 1, "mu": 0}, "HalfNormal has no parameter 'mu'"),
    ("sd(task)", {"dist": "HalfNormal", "sigma": 0}, "sigma is not positive. Given: 0"),
    ("sd(task)", {"dist": "HalfNormal", "sigma": -2.5}, "sigma is not positive. Given: -2.5"),
    ("sd(task)", {"dist": "HalfNormal", "sigma": "5"}, "sigma is no number. Given: '5'"),
    ("sd(task)", {"dist": "HalfNormal", "sigma": True}, "sigma is no number. Given: True"),
    ("sd(task)", {"dist": "HalfNormal", "sigma": float("inf")}, "sigma is no number"),
    ("mu", {"dist": "Normal", "mu": float("nan"), "sigma": 1}, "mu is no number. Given: nan"),
]


@pytest.mark.parametrize(("key", "value", "message"), WRONG)
def test_wrong_prior_is_refused(key: str, value: Any, message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        Prior.from_value(key, value)


def test_prior_of_an_unknown_family_is_refused() -> None:
    with pytest.raises(DeclarationError, match=r"unknown dist\. Given: 'Cauchy'\. Allowed: Normal"):
        Prior("Cauchy", {"sigma": 1.0})


@pytest.mark.parametrize("sigma", [1e-300, 1e300])
def test_a_scale_that_nothing_can_show_is_out_of_range(sigma: float) -> None:
    wide = {"dist": "HalfNormal", "sigma": sigma}
    with pytest.raises(DeclarationError, match=r"sigma is out of range.*from 0.0001 to 1000"):
        Prior.from_value("sd(task)", wide)
    with pytest.raises(DeclarationError, match=r"sigma is out of range.*from 1e-100 to 1e\+100"):
        Prior.from_value("sd(task)", wide, "gaussian")


def test_a_mean_beyond_every_pass_rate_is_out_of_range() -> None:
    far = {"dist": "Normal", "mu": 1e5, "sigma": 1.0}
    with pytest.raises(DeclarationError, match=r"mu is out of range.*from -100 to 100"):
        Prior.from_value("mu", far)
    # A graded score has its own unit.
    assert Prior.from_value("mu", far, "gaussian").mu == 1e5


def test_a_number_that_no_float_holds_is_no_number() -> None:
    with pytest.raises(DeclarationError, match="sigma is no number"):
        Prior("HalfNormal", {"sigma": 10**400})
