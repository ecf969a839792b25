"""Priors: defaults, text, and every way to write one wrongly."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from gstudy.errors import DeclarationError
from gstudy.study.priors import MU_DEFAULT, Prior, default_sd_prior


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


WRONG = [
    ("sd(task)", 5.0, r'priors\."sd\(task\)" is not a prior\. Given: 5\.0\. Allowed: such as'),
    ("sd(task)", {"sigma": 5.0}, "is not a prior"),
    ("sd(task)", {"dist": "HalfNorml", "sigma": 1}, r"Did you mean 'HalfNormal'\?"),
    ("sd(task)", {"dist": "HalfStudentT", "sigma": 1}, "Other families are not there yet"),
    ("sd(task)", {"dist": "Normal", "mu": 0, "sigma": 1}, r"Allowed: HalfNormal\(sigma\)"),
    ("sd(task)", {"dist": ["HalfNormal"], "sigma": 1}, "cannot have this dist"),
    ("mu", {"dist": "HalfNormal", "sigma": 1}, r"priors\.mu cannot.*Allowed: Normal\(mu, sigma\)"),
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
    with pytest.raises(DeclarationError, match=r"sigma is out of range.*from 0.0001 to 1000"):
        Prior("HalfNormal", {"sigma": sigma})


def test_a_mean_beyond_every_pass_rate_is_out_of_range() -> None:
    with pytest.raises(DeclarationError, match=r"mu is out of range.*from -100 to 100"):
        Prior("Normal", {"mu": 1e5, "sigma": 1.0})


def test_a_number_that_no_float_holds_is_no_number() -> None:
    with pytest.raises(DeclarationError, match="sigma is no number"):
        Prior("HalfNormal", {"sigma": 10**400})
