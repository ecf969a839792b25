"""One component: effects integrated out, and drawn afterwards; the posterior stays what it is."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest
from integrals import by_quadrature
from scipy import stats
from scipy.special import comb, gammaln, log_expit

import gstudy as gs
from gstudy.model import integrated as integrated_drawings
from gstudy.model import large, recovered, sampling
from gstudy.model.conditional_effects import level_effects_drawn
from gstudy.model.level_marginals import REACH, effect_grid
from gstudy.model.one_way import OneWay, one_way
from gstudy.model.parameterisation import parameterise
from gstudy.study.estimable import assess
from gstudy.study.integrable import integrable_component

if TYPE_CHECKING:
    from gstudy.study.assessment import Assessment

PRIORS = [
    ({"dist": "HalfNormal", "sigma": 5.0}, {"dist": "Normal", "mu": 0.0, "sigma": 3.0}),
    ({"dist": "HalfStudentT", "nu": 4.0, "sigma": 2.0}, {"dist": "Normal", "mu": 1, "sigma": 1}),
    ({"dist": "HalfCauchy", "beta": 2.0}, {"dist": "StudentT", "nu": 4, "mu": 0.5, "sigma": 2}),
    ({"dist": "Exponential", "lam": 0.5}, {"dist": "Normal", "mu": 0.0, "sigma": 3.0}),
    ({"dist": "Gamma", "alpha": 2.0, "beta": 0.8}, {"dist": "Normal", "mu": 0.0, "sigma": 3.0}),
    ({"dist": "LogNormal", "mu": 0.2, "sigma": 0.9}, {"dist": "Normal", "mu": 0.0, "sigma": 3.0}),
]


def design(passes: list[int], trials: list[int], **study: object) -> Assessment:
    rows = [
        (f"t{task}", rollout, int(rollout < passed))
        for task, (passed, n) in enumerate(zip(passes, trials, strict=True))
        for rollout in range(n)
    ]
    frame = pd.DataFrame(rows, columns=["task", "rollout", "score"])
    facets = [
        gs.Facet("task", role="legitimate"),
        gs.Facet("rollout", role="legitimate", nested_in=["task"]),
    ]
    with pytest.warns(gs.EstimabilityWarning):
        return gs.check(gs.Study(score="score", facets=facets, **study), frame)


def integrated(found: Assessment) -> OneWay | None:
    if integrable_component(found.cells) is None:
        return None
    return one_way(parameterise(found.cells, found.mu_prior))


def of_classes(classes: list[tuple[int, int, int]]) -> OneWay:
    """Passes, trials and number of levels, with the default priors."""
    return OneWay(
        classes=np.array(classes, dtype=float).reshape(-1, 3),
        of_level=np.zeros(1, dtype=np.int64),
        prior=of(integrated(design([0, 1, 2, 2] * 3, [2] * 12))).prior,
        mu_mean=0.0,
        mu_sd=3.0,
        mu_nu=0.0,
        constant=0.0,
        start=np.zeros(2),
        start_width=np.ones(2),
    )


def of(value: OneWay | None) -> OneWay:
    assert value is not None
    return value


@pytest.mark.parametrize(("sd_prior", "mu_prior"), PRIORS)
def test_the_density_is_the_joint_one_integrated(sd_prior: dict, mu_prior: dict) -> None:
    passes = [0, 0, 3, 1, 4, 4, 4, 2, 2, 0, 1, 4, 3, 2, 0]
    found = of(integrated(design(passes, [4] * 15, priors={"mu": mu_prior, "sd(task)": sd_prior})))
    rng = np.random.default_rng(1)
    for _ in range(4):
        sd, mu = float(np.exp(rng.normal(0, 1))), float(rng.normal(0, 2))
        x = np.array([np.log(sd), mu])
        family = {
            "HalfNormal": lambda: stats.halfnorm(scale=sd_prior["sigma"]),
            "HalfCauchy": lambda: stats.halfcauchy(scale=sd_prior["beta"]),
            "Exponential": lambda: stats.expon(scale=1 / sd_prior["lam"]),
            "Gamma": lambda: stats.gamma(sd_prior["alpha"], scale=1 / sd_prior["beta"]),
            "LogNormal": lambda: stats.lognorm(sd_prior["sigma"], scale=np.exp(sd_prior["mu"])),
        }
        if sd_prior["dist"] == "HalfStudentT":
            log_sd = np.log(2) + stats.t(sd_prior["nu"], scale=sd_prior["sigma"]).logpdf(sd)
        else:
            log_sd = family[sd_prior["dist"]]().logpdf(sd)
        expected = log_sd + np.log(sd) + sum(by_quadrature(k, 4, mu, sd) for k in passes)
        scale = mu_prior["sigma"]
        if mu_prior["dist"] == "StudentT":
            log_scale = float(rng.normal())
            x = np.array([np.log(sd), log_scale, mu])
            half = mu_prior["nu"] / 2
            expected += stats.invgamma(half, scale=half).logpdf(np.exp(log_scale)) + log_scale
            scale *= np.exp(log_scale / 2)
        expected += stats.norm(mu_prior["mu"], scale).logpdf(mu)
        value, gradient = found(x)
        assert value == pytest.approx(expected, rel=1e-9)
        for i in range(len(x)):
            step = np.zeros(len(x))
            step[i] = 1e-5
            slope = (found(x + step)[0] - found(x - step)[0]) / 2e-5
            assert gradient[i] == pytest.approx(slope, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("sd", [0.03, 0.5, 3.0, 20.0, 300.0])
@pytest.mark.parametrize(
    ("k", "n"),
    [
        (0, 1),
        (1, 1),
        (0, 8),
        (5, 8),
        (11, 32),
        (32, 32),
        (128, 128),
        (0, 500),
        (499, 500),
        (1207, 3000),
    ],
)
@pytest.mark.parametrize("mu", [-6.0, 0.4, 5.0])
def test_integrals_of_extreme_data_are_right(k: int, n: int, mu: float, sd: float) -> None:
    found = of_classes([(k, n, 1)])
    value, _ = found(np.array([np.log(sd), mu]))
    prior = np.log(sd) - 0.5 * (sd / 5) ** 2 + stats.norm(0, 3).logpdf(mu)
    binomial = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    # Steps are wider where an sd of 300 logits would take too many of them.
    exact = 1e-6 if sd > 100 else 1e-9
    expected = by_quadrature(k, n, mu, sd) - binomial + prior
    assert value == pytest.approx(expected, rel=exact, abs=exact)


@pytest.mark.parametrize("sd", [0.1, 1.0, 1.9, 2.4, 14.0, 18.0, 90.0])
def test_levels_on_the_grid_and_about_their_modes_add_up(sd: float) -> None:
    classes = [(0, 3, 4), (2, 3, 5), (7, 8, 2), (0, 8, 1), (5, 20, 3), (30, 32, 1), (20, 40, 2),
               (90, 500, 1)]  # fmt: skip
    together = of_classes(classes)
    x = np.array([np.log(sd), 0.4])
    nothing = of_classes([])(x)[0]
    expected = sum(
        count * (by_quadrature(k, n, 0.4, sd) - np.log(comb(n, k))) for k, n, count in classes
    )
    value, gradient = together(x)
    assert value - nothing == pytest.approx(expected, rel=1e-9)
    for i in range(2):
        step = np.eye(2)[i] * 1e-4
        slope = (together(x + step)[0] - together(x - step)[0]) / 2e-4
        assert gradient[i] == pytest.approx(slope, rel=1e-6, abs=1e-5)


@pytest.mark.parametrize("sd", [0.05, 2.0, 18.0])
def test_the_grid_holds_what_it_says(sd: float) -> None:
    squares, density, odds, z = effect_grid(sd, 8)
    assert [z[0], z[-1]] == pytest.approx([-REACH, REACH])
    assert squares == pytest.approx(z**2)
    assert density == pytest.approx(stats.norm.pdf(z) * (z[1] - z[0]), rel=1e-11)
    assert odds == pytest.approx(np.exp(-sd * z), rel=1e-11)


@pytest.mark.parametrize(
    ("k", "n", "mu", "sd"),
    [
        (0, 4, 2.0, 6.0),
        (4, 4, 0.0, 1.0),
        (3, 8, -1.0, 2.0),
        (300, 1000, -2.0, 40.0),
        (1, 1, 0, 0.1),
    ],
)
def test_effects_are_drawn_from_their_conditional(k: int, n: int, mu: float, sd: float) -> None:
    base = of(integrated(design([0, 1, 2, 2] * 3, [2] * 12)))
    found = OneWay(
        np.array([[k, n, 10.0]]), np.zeros(10, dtype=np.int64), base.prior, 0.0, 3.0, 0.0, 0.0,
        base.start, base.start_width,
    )  # fmt: skip
    given = (np.full(2000, float(mu)), np.full(2000, float(sd)))
    u = level_effects_drawn(found, *given, np.random.default_rng(5))
    grid = np.linspace(-12 * sd, 12 * sd, 200_001)
    log_p = k * log_expit(mu + grid) + (n - k) * log_expit(-mu - grid) - 0.5 * (grid / sd) ** 2
    p = np.exp(log_p - log_p.max())
    below = (np.cumsum(p) - p / 2) / p.sum()
    assert stats.kstest(u.ravel(), lambda y: np.interp(y, grid, below)).pvalue > 0.001


@pytest.mark.parametrize(
    ("passes", "trials"),
    [
        ([0, 1, 3, 4, 4, 4, 2, 1, 0, 0, 3, 4] * 4, [4] * 48),
        ([8] * 20, [8] * 20),
        ([0] * 11 + [1], [3] * 12),
        ([1, 0, 1, 1, 0, 0, 1, 1, 1, 2, 2, 0] * 3, [1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2] * 3),
    ],
)
def test_the_posterior_is_that_of_sampled_effects(
    passes: list[int], trials: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = design(passes, trials)
    settings = {"seed": 3, "sampler": "direct", "progress": False, "target_accept": 0.98}
    new = gs.fit(found.study, found, **settings)
    monkeypatch.setattr(sampling, "integrable_component", lambda _: None)
    old = gs.fit(found.study, found, **settings)
    assert new.diagnostics.passed
    assert new.diagnostics.divergences == 0
    for what in ("mu", "sd(task)", "icc", "first", "last", "rate"):
        one, other = (_quantity(fit, what) for fit in (new, old))
        error = np.hypot(*(x.std() / np.sqrt(_size(x)) for x in (one, other)))
        assert abs(one.mean() - other.mean()) < 4 * error, what
        squares = [(x - x.mean()) ** 2 for x in (one, other)]
        error = np.hypot(*(x.std() / np.sqrt(_size(x)) for x in squares))
        assert abs(squares[0].mean() - squares[1].mean()) < 4 * error, what


def test_effects_that_are_not_stored_are_summed_block_by_block(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = design([0, 1, 2, 2, 1, 0] * 5, [2] * 30)
    how = {"seed": 2, "draws": 150, "tune": 300, "sampler": "direct", "progress": False}
    for module in (large, recovered):
        monkeypatch.setattr(module, "LARGEST_STORED", 20)
    monkeypatch.setattr(integrated_drawings, "BLOCK", 4_000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        few = gs.fit(found.study, found, **how).posterior["posterior"]
        every = gs.fit(found.study, found, store_effects=True, **how).posterior["posterior"]
    assert "u(task)" not in few
    np.testing.assert_array_equal(few["sd(task)"], every["sd(task)"])
    draws = every["u(task)"].to_numpy()
    np.testing.assert_allclose(few["u_mean(task)"], draws.mean(axis=(0, 1)), atol=1e-12)
    np.testing.assert_allclose(few["u_sd(task)"], draws.std(axis=(0, 1)), rtol=1e-12)


def _quantity(fit: gs.Fit, what: str) -> np.ndarray:
    if what == "icc":
        return gs.icc(fit, "task").draws.to_numpy()
    posterior = fit.posterior["posterior"]
    u = posterior["u(task)"].to_numpy()
    if what in ("first", "last"):
        return u[..., 0 if what == "first" else -1]
    if what == "rate":
        return (1 / (1 + np.exp(-fit.mu[..., None] - u))).mean(axis=-1)
    return posterior[what].to_numpy()


def _size(x: np.ndarray) -> float:
    from arviz import ess

    return float(ess(x))


def test_where_the_integrals_do_not_win() -> None:
    assert integrated(design([0, 1, 2, 3, 4, 5], [5] * 6)) is None  # as many classes as levels
    rows = [
        (a, b, r, int(r < (i * j) % 3))
        for i, a in enumerate("abcdefgh")
        for j, b in enumerate("xyzuvw")
        for r in range(2)
    ]
    frame = pd.DataFrame(rows, columns=["task", "version", "rollout", "score"])
    crossed = gs.Study(
        score="score",
        facets=[
            gs.Facet("task", role="legitimate"),
            gs.Facet("version", role="legitimate"),
            gs.Facet("rollout", role="legitimate", nested_in=["task", "version"]),
        ],
        interactions="none",
    )
    found = assess(crossed, frame)
    assert integrable_component(found.cells) is None
    graded = gs.Study(
        score="score", facets=[gs.Facet("task", role="legitimate")], family="gaussian"
    )
    frame = pd.DataFrame({"task": list("abcdefghi"), "score": np.arange(9.0)})
    found = assess(graded, frame)
    assert integrable_component(found.cells) is None
