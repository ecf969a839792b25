"""Prior families of the sds and of mu: PyMC's densities in both paths, and exact posteriors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from models import agree, counts, crossed, shape_of, slopes_agree

from gstudy.model.direct import direct_posterior
from gstudy.model.sd_priors import encode, log_density, typical_sd
from gstudy.study.priors import Prior

FAMILIES = [
    Prior("HalfNormal", {"sigma": 1.7}),
    Prior("HalfStudentT", {"nu": 3.0, "sigma": 1.3}),
    Prior("HalfCauchy", {"beta": 0.8}),
    Prior("Exponential", {"lam": 0.6}),
    Prior("Gamma", {"alpha": 2.5, "beta": 1.4}),
    Prior("LogNormal", {"mu": -0.4, "sigma": 0.9}),
]
STUDENT = Prior("StudentT", {"nu": 3.0, "mu": 0.4, "sigma": 1.5})
LOG_SDS = np.linspace(-12.0, 5.0, 60)


@pytest.mark.parametrize("prior", FAMILIES, ids=str)
def test_the_compiled_density_is_pymcs_and_the_declared_one(prior: Prior) -> None:
    """With the Jacobian of sd = exp(x): log p(x) = log p(sd) + x."""
    import pymc as pm

    ours = encode(prior)
    found = [log_density(ours.kind, ours.a, ours.b, x)[0] + ours.constant for x in LOG_SDS]
    parameters = {name: np.asarray(value) for name, value in prior.parameters}
    # On the interpreter: six small graphs are not worth a compilation.
    theirs = pm.logp(getattr(pm, prior.dist).dist(**parameters), np.exp(LOG_SDS))
    np.testing.assert_allclose(found, theirs.eval(mode="FAST_COMPILE") + LOG_SDS, atol=1e-11)
    np.testing.assert_allclose(found, prior.logpdf(np.exp(LOG_SDS)) + LOG_SDS, atol=1e-11)


@pytest.mark.parametrize("prior", FAMILIES, ids=str)
def test_the_compiled_slope_is_that_of_the_density(prior: Prior) -> None:
    ours, step = encode(prior), 1e-6
    for x in LOG_SDS:
        ends = [log_density(ours.kind, ours.a, ours.b, x + d)[0] for d in (step, -step)]
        slope = log_density(ours.kind, ours.a, ours.b, x)[1]
        assert slope == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("prior", FAMILIES, ids=str)
def test_the_density_integrates_to_one(prior: Prior) -> None:
    ours = encode(prior)
    # Trapezoid rule on a range that holds all but 1e-9 (the Cauchy's tail: 1 / sd).
    x = np.linspace(-40.0, 25.0, 20_001)
    density = np.exp([log_density(ours.kind, ours.a, ours.b, one)[0] + ours.constant for one in x])
    assert np.trapezoid(density, x) == pytest.approx(1.0, abs=1e-7)


@pytest.mark.parametrize("prior", FAMILIES, ids=str)
def test_a_typical_sd_is_inside_the_prior(prior: Prior) -> None:
    from scipy.integrate import quad

    below, _ = quad(lambda sd: float(np.exp(prior.logpdf(sd))), 0.0, typical_sd(prior))
    assert 0.3 < below < 0.7


def test_both_paths_agree_for_all_families_at_once() -> None:
    """Three families a model, and in one StudentT for mu."""
    names = ("system", "task", "system__task")
    for families, mu in ((FAMILIES[:3], None), (FAMILIES[3:], STUDENT)):
        priors: dict[str, Any] = dict(zip(names, families, strict=True))
        agree(shape_of(crossed(), mu=mu, **priors))


@pytest.mark.parametrize("sweep", [None, []])
def test_the_gradient_is_that_of_the_value(sweep: list[str] | None) -> None:
    for families, mu in ((FAMILIES[:3], None), (FAMILIES[3:], STUDENT)):
        priors = dict(zip(("system", "task", "system__task"), families, strict=True))
        p = shape_of(crossed(), mu=mu, **priors).parameterised(sweep=sweep)
        posterior = direct_posterior(p)
        slopes_agree(posterior, np.random.default_rng(8).normal(size=posterior.n_free))


def exact_one_facet(
    passes: np.ndarray, trials: np.ndarray, mu: Prior, sd: Prior
) -> dict[str, float]:
    """Posterior means by quadrature: mu and log sd on grids, effects by Gauss-Hermite."""
    from scipy.special import log_expit, logsumexp

    z, weight = np.polynomial.hermite_e.hermegauss(60)
    x, m = np.linspace(-9.0, 3.0, 241), np.linspace(-14.0, 14.0, 561)
    log_p = (sd.logpdf(np.exp(x)) + x)[:, None] + mu.logpdf(m)
    for i, one in enumerate(np.exp(x)):
        eta = m[:, None] + one * z
        for k, n in zip(passes, trials, strict=True):
            likelihood = k * log_expit(eta) + (n - k) * log_expit(-eta)
            log_p[i] += logsumexp(likelihood + np.log(weight), axis=-1)
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    of_mu, of_sd = p.sum(axis=0), p.sum(axis=1)
    mean = float(of_mu @ m)
    return {
        "mu": mean,
        "mu sd": float((of_mu @ (m - mean) ** 2) ** 0.5),
        "sd": float(of_sd @ np.exp(x)),
        "log sd": float(of_sd @ x),
    }


@pytest.mark.parametrize(
    ("mu", "sd"),
    [
        (Prior("StudentT", {"nu": 3.0, "mu": 0.0, "sigma": 1.5}), FAMILIES[0]),
        (Prior("Normal", {"mu": 0.0, "sigma": 1.5}), FAMILIES[4]),
        (STUDENT, FAMILIES[5]),
    ],
    ids=str,
)
def test_posteriors_are_exact(mu: Prior, sd: Prior) -> None:
    """All passes: the prior of mu matters, and its tail is where StudentT differs from Normal."""
    from arviz_stats.base import array_stats

    import gstudy as gs

    passes, trials = np.array([6, 5, 6, 6, 4]), np.full(5, 6)
    exact = exact_one_facet(passes, trials, mu, sd)
    found = counts(passes.tolist(), trials.tolist(), priors={"mu": mu, "sd(task)": sd})
    fit = gs.fit(
        found.study, found, seed=3, draws=2500, sampler="direct", progress=False, target_accept=0.97
    )
    assert fit.diagnostics.divergences == 0
    draws = {"mu": fit.mu, "sd": fit.sd("task"), "log sd": np.log(fit.sd("task"))}
    for name, values in draws.items():
        error = float(array_stats.mcse(values, method="mean"))
        assert values.mean() == pytest.approx(exact[name], abs=4 * error + 5e-4), name
    error = float(array_stats.mcse(fit.mu, method="sd"))
    assert fit.mu.std() == pytest.approx(exact["mu sd"], abs=4 * error + 5e-4)
