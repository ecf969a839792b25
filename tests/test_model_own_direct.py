"""The direct path of own sds: the PyMC model's density, its values by name, and one posterior."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from designs import checked, study_of, within
from models import random_trials, tolerance
from test_model_varying import LIMIT, Unpacked, assert_same, compared, exact, judged

import gstudy as gs
from gstudy.model.factors import cholesky_factor, cholesky_factor_back
from gstudy.model.own_compiled import compile_own_direct
from gstudy.model.own_layout import own_direct_posterior
from gstudy.study.priors import Prior

if TYPE_CHECKING:
    from pathlib import Path

    from gstudy.model.own_layout import OwnDirectPosterior
    from gstudy.study.estimable import Assessment

POINTS = 100

FAMILIES = [
    Prior("HalfStudentT", {"nu": 3.0, "sigma": 2.0}),
    Prior("HalfCauchy", {"beta": 1.5}),
    Prior("Exponential", {"lam": 0.7}),
    Prior("Gamma", {"alpha": 2.0, "beta": 1.5}),
    Prior("LogNormal", {"mu": 0.2, "sigma": 0.8}),
    Prior("HalfNormal", {"sigma": 3.0}),
]


def several(n_systems: int) -> Assessment:
    """Many systems, ragged, with one sd of rollouts that all share."""
    study = study_of(
        gs.Facet("task", role="legitimate", varies="system"),
        within("rollout", "system", "task"),
        gs.Facet("judge", role="error"),
        object="system",
        interactions="none",
    )
    levels = {"system": n_systems, "task": 5, "rollout": 2, "judge": 2}
    return checked(study, random_trials(levels, seed=n_systems, share=0.9))


def controlled() -> Assessment:
    """Fixed effects of a controlled facet, and own sds of two facets."""
    study = study_of(
        gs.Facet("task", role="legitimate", varies="system"),
        gs.Facet("prompt", role="legitimate", varies="system"),
        gs.Facet("effort", role="controlled"),
        object="system",
        interactions=["system:effort"],
    )
    levels = {"system": 3, "task": 4, "prompt": 3, "effort": 3}
    return checked(study, random_trials(levels, seed=7, share=0.8))


def vendors() -> Assessment:
    """Systems of the same labels in two vendors."""
    study = study_of(
        gs.Facet("vendor", role="legitimate"),
        gs.Facet("system", role="object", nested_in=["vendor"]),
        gs.Facet("task", role="legitimate", varies="system"),
        within("rollout", "vendor", "system", "task"),
        interactions="none",
    )
    return checked(study, random_trials({"vendor": 2, "system": 2, "task": 5, "rollout": 3}, 5))


def of_each_family() -> Assessment:
    """Another family of prior for each component's sd."""
    found = judged("StudentT")
    components = [
        replace(c, prior=prior)
        for c, prior in zip(found.cells.components, FAMILIES[: len(found.components)], strict=True)
    ]
    return replace(found, cells=replace(found.cells, components=tuple(components)))


DESIGNS = {
    "two": compared,
    "judged": judged,
    "StudentT": lambda: judged("StudentT"),
    "families": of_each_family,
    "five": lambda: several(5),
    "eight": lambda: several(8),
    "controlled": controlled,
    "vendors": vendors,
}

QUICK = ("two", "families", "controlled")
ALL = [d if d in QUICK else pytest.param(d, marks=pytest.mark.slow) for d in DESIGNS]
"""The interpreted PyMC model takes seconds to write down: three designs hold every case."""


@cache
def both(design: str) -> tuple[Unpacked, OwnDirectPosterior]:
    model = Unpacked(DESIGNS[design]())
    return model, own_direct_posterior(model.varying)


@pytest.mark.parametrize("design", ALL)
def test_direct_is_the_pymc_model(design: str) -> None:
    """Value and gradient on the unconstrained scale, coordinates in one order."""
    model, direct = both(design)
    assert sum(model.sizes) == direct.n_free
    rng = np.random.default_rng(11)
    for _ in range(POINTS):
        x = rng.normal(size=direct.n_free) * rng.choice([0.5, 1.0, 2.0])
        value, slope = direct(x)
        *terms, gradient = model.density(model.point(x))
        assert float(sum(terms)) == pytest.approx(value, abs=tolerance(value))
        np.testing.assert_allclose(slope, gradient, rtol=0, atol=tolerance(value))


@pytest.mark.parametrize("design", ALL)
def test_draws_have_the_names_shapes_and_values_of_the_pymc_model(design: str) -> None:
    model, direct = both(design)
    x = np.random.default_rng(12).normal(size=(2, 3, direct.n_free))
    found = direct.unpack(x)
    assert len(found) == len(model.names)
    for i, j in np.ndindex(2, 3):
        expected = model.constrained(model.point(x[i, j]))
        for name, values in found.items():
            assert values.shape == (2, 3, *expected[name].shape), name
            np.testing.assert_allclose(values[i, j], expected[name], rtol=1e-12, atol=1e-12)


def test_vectors_are_unpacked_alone_too() -> None:
    _, direct = both("families")
    x = np.random.default_rng(13).normal(size=(4, direct.n_free))
    whole = direct.unpack(x)
    for name, values in direct.unpack(x[2]).items():
        np.testing.assert_array_equal(values, whole[name][2])


@pytest.mark.parametrize("design", ["families", "controlled"])
def test_the_direct_gradient_is_that_of_the_value(design: str) -> None:
    from models import slopes_agree

    _, direct = both(design)
    slopes_agree(direct, np.random.default_rng(8).normal(size=direct.n_free))


def test_the_gradient_through_a_cholesky_factor_is_that_of_numpys() -> None:
    rng, step = np.random.default_rng(9), 1e-6
    for n in (2, 5, 8):
        root = rng.normal(size=(n, n + 2))
        covariance, d_factor = root @ root.T, np.tril(rng.normal(size=(n, n)))
        factor = np.empty((n, n))
        cholesky_factor(covariance, factor)
        np.testing.assert_allclose(factor, np.linalg.cholesky(covariance), atol=1e-12)
        found = cholesky_factor_back(factor, d_factor)
        np.testing.assert_allclose(found, found.T, atol=1e-12)
        way = rng.normal(size=(n, n))
        way += way.T
        ahead, behind = (np.linalg.cholesky(covariance + s * step * way) for s in (1, -1))
        slope = (d_factor * (ahead - behind)).sum() / (2 * step)
        # Rounding over the step, and the step squared.
        assert (found * way).sum() == pytest.approx(slope, rel=1e-6, abs=1e-6)


def test_a_covariance_that_is_none_ends_a_trajectory() -> None:
    factor = np.empty((2, 2))
    cholesky_factor(np.array([[1.0, 2.0], [2.0, 1.0]]), factor)
    assert np.isnan(factor[1, 1])
    _, direct = both("two")
    # All sds overflow.
    value, _ = direct(np.full(direct.n_free, 800.0))
    assert not np.isfinite(value)


@pytest.mark.parametrize("design", ["families", "controlled"])
def test_the_c_function_is_the_same_density(design: str) -> None:
    """nutpie calls it by address, with all arguments in one buffer."""
    import ctypes

    _, direct = both(design)
    compiled = compile_own_direct(direct)
    call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_uint64, *[ctypes.c_void_p] * 4)(
        compiled.compiled_logp_func.address
    )
    buffer, x = compiled.user_data, np.random.default_rng(14).normal(size=direct.n_free)
    gradient, value = np.empty(direct.n_free), np.empty(1)
    arrays = (x, gradient, value, buffer)
    assert call(direct.n_free, *(a.ctypes.data for a in arrays)) == 0
    expected, slope = direct(x)
    # Compiled with other neighbours: sums round in another order.
    assert value[0] == pytest.approx(expected, abs=1e-3 * tolerance(expected))
    np.testing.assert_allclose(gradient, slope, rtol=0, atol=1e-3 * tolerance(expected))
    x[:] = 800.0
    assert call(direct.n_free, *(a.ctypes.data for a in arrays)) in (3, 4)


def digest(fit: gs.Fit) -> str:
    group, known = fit.posterior["posterior"].to_dataset(), hashlib.sha256()
    for name in sorted(group.data_vars):
        known.update(group[name].to_numpy().tobytes())
    return known.hexdigest()


@pytest.mark.filterwarnings("ignore::gstudy.errors.ConvergenceWarning")
def test_one_seed_is_one_set_of_draws_at_any_number_of_cores() -> None:
    found = judged()
    how: dict[str, Any] = {"draws": 60, "tune": 60, "sampler": "direct", "progress": False}
    one, two, other = (
        gs.fit(found.study, found, seed=seed, cores=cores, **how)
        for seed, cores in ((4, 1), (4, 2), (5, 2))
    )
    assert one.settings["sampler"] == "direct"
    assert digest(one) == digest(two)
    assert digest(one) != digest(other)


@pytest.fixture(scope="module")
def small_fit() -> gs.Fit:
    found = compared()
    return gs.fit(found.study, found, seed=2, draws=2000, sampler="direct", progress=False)


def test_the_posterior_is_the_exact_one(small_fit: gs.Fit) -> None:
    """Against draws of the prior, weighted by a likelihood integrated by quadrature."""
    from arviz_stats.base import array_stats

    assert small_fit.diagnostics.divergences == 0
    assert small_fit.diagnostics.passed
    levels = small_fit.mu[..., None] + small_fit.effects("system").to_numpy()
    task, sd = small_fit.effects("task").to_numpy(), small_fit.sd("task")
    measured = {
        "mu": small_fit.mu,
        "sd(system)": small_fit.sd("system"),
        "corr": small_fit.correlation("task").to_numpy()[..., 0, 1],
        "level difference^2": (levels[..., 0] - levels[..., 1]) ** 2,
    }
    for s, x in enumerate("ab"):
        measured |= {f"sd(task)[{x}]": sd[..., s], f"level {x}": levels[..., s]}
        measured |= {f"u[{t}, {x}]": task[..., t, s] for t in range(3)}
    wanted = exact(compared())
    for name, draws in measured.items():
        mean, own = wanted[name]
        error = float(np.hypot(array_stats.mcse(draws, method="mean"), own))
        assert draws.mean() == pytest.approx(mean, abs=LIMIT * error), name


def draws_of(fit: gs.Fit) -> dict[str, np.ndarray]:
    group = fit.posterior["posterior"].to_dataset()
    found = {str(name): group[name].to_numpy() for name in group.data_vars}
    # A correlation with itself has no error.
    below = np.tril_indices(len(group["by(task)"]), -1)
    return found | {"corr(task)": found["corr(task)"][(..., *below)]}


@pytest.mark.slow
@pytest.mark.parametrize("design", ["judged", "controlled"])
def test_both_samplers_have_one_posterior(design: str) -> None:
    found = DESIGNS[design]()
    how: dict[str, Any] = {"draws": 3000, "seed": 6, "target_accept": 0.98, "progress": False}
    one, other = (gs.fit(found.study, found, sampler=s, **how) for s in ("pymc", "direct"))
    assert_same(*({n: x for n, x in draws_of(f).items() if not n.startswith("corr(prompt")}
                  for f in (one, other)), LIMIT)  # fmt: skip


@pytest.mark.slow
def test_gpqa_has_one_posterior_and_no_divergence_by_both(shared: Path) -> None:
    study = study_of(
        gs.Facet("task", role="legitimate", varies="system"),
        within("rollout", "system", "task"),
        object="system",
    )
    rows = pd.read_csv(shared / "data" / "gpqa_diamond_epochs.csv.gz", dtype=str)
    found = checked(study, rows[["system", "task", "rollout", "score"]])
    fits = [gs.fit(study, found, seed=1, sampler=s, progress=False) for s in ("pymc", "direct")]
    for fit in fits:
        assert fit.diagnostics.divergences == 0
        assert fit.diagnostics.passed, str(fit.diagnostics)
        assert fit.diagnostics.refits == ()
    small = [{n: x for n, x in draws_of(f).items() if not n.startswith("u(task")} for f in fits]
    assert_same(*small, LIMIT)
