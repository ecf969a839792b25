"""Relations that any right log-posterior keeps: mirrored scores, other coordinates, other names."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from designs import checked, grid, study_of, within
from models import DESIGNS, Shape, agree, crossed, fixed_effects, graded, shape_of, tolerance

import gstudy as gs
from gstudy.model.direct import direct_posterior, scale_names
from gstudy.model.graph import model_of
from gstudy.model.parameterisation import LOCATION, MU_SCALE, RESIDUAL
from gstudy.study.priors import Prior

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gstudy.model.direct import DirectPosterior

ZERO_MEAN = Prior("Normal", {"mu": 0.0, "sigma": 3.0})
STUDENT = Prior("StudentT", {"nu": 4.0, "mu": 0.0, "sigma": 2.0})
FAMILIES = {
    "system": Prior("HalfStudentT", {"nu": 3.0, "sigma": 1.3}),
    "task": Prior("Gamma", {"alpha": 2.5, "beta": 1.4}),
    "system__task": Prior("LogNormal", {"mu": -0.4, "sigma": 0.9}),
}
RESIDUAL_PRIOR = Prior("Exponential", {"lam": 0.5})


def families(mu: Prior = STUDENT) -> Shape:
    return shape_of(crossed(), mu=mu, **FAMILIES)


def scored(residual: Prior | None = RESIDUAL_PRIOR) -> Shape:
    shape = families()
    n = int(shape.cells.trials.sum())
    return graded(shape, np.random.default_rng(2).normal(0.5, 1.5, n), residual)


SHAPES = {
    "binary": families,
    "fixed": lambda: fixed_effects(families(ZERO_MEAN), "task"),
    "graded": scored,
    "known errors": lambda: scored(None),
    "graded and fixed": lambda: fixed_effects(scored(), "system"),
}


# ---------------------------------------------------------------- mirrored scores


def mirrored(shape: Shape) -> Shape:
    """Passes for fails, or scores with the other sign."""
    cells = shape.cells
    if cells.graded is None:
        return replace(shape, cells=replace(cells, successes=cells.trials - cells.successes))
    other = replace(cells.graded, mean=-cells.graded.mean)
    return replace(shape, cells=replace(cells, successes=-cells.successes, graded=other))


@pytest.mark.parametrize("sweep", [None, []])
@pytest.mark.parametrize("name", SHAPES)
def test_mirrored_scores_have_the_mirrored_density(name: str, sweep: Sequence[str] | None) -> None:
    """mu to -mu and every effect to its negative; sds stay."""
    shape = SHAPES[name]()
    one, other = (direct_posterior(s.parameterised(sweep=sweep)) for s in (shape, mirrored(shape)))
    sign = np.where(np.arange(one.n_free) < one.parameterisation.n_scales, 1.0, -1.0)
    rng = np.random.default_rng(3)
    for _ in range(20):
        x = rng.normal(size=one.n_free)
        value, slope = one(x)
        mirror, mirror_slope = other(sign * x)
        assert mirror == pytest.approx(value, abs=tolerance(value))
        np.testing.assert_allclose(sign * mirror_slope, slope, atol=tolerance(value))


# ---------------------------------------------------------------- other coordinates


def textbook(shape: Shape, values: dict[str, Any], mu: float, effects: list[np.ndarray]) -> float:
    """The joint density as a textbook writes it, of (mu, sds, effects, residual sd), by scipy."""
    from scipy.stats import binom, invgamma, norm

    cells = shape.cells
    of = dict(shape.mu_prior.parameters)
    mu_sd, log_p = of["sigma"], 0.0
    if "nu" in of:
        scale = values[MU_SCALE]
        log_p += invgamma.logpdf(scale, of["nu"] / 2, scale=of["nu"] / 2)
        mu_sd *= scale**0.5
    log_p += norm.logpdf(mu, of["mu"], mu_sd)
    eta = np.full(len(cells.trials), mu)
    for component, index, u in zip(cells.components, cells.index, effects, strict=True):
        eta += u[index]
        if component.fixed:
            log_p += float(component.prior.logpdf(u))
        else:
            sd = values[f"sd({component.name})"]
            log_p += float(component.prior.logpdf(sd)) + norm.logpdf(u, 0.0, sd).sum()
    if cells.graded is None:
        rate = 1.0 / (1.0 + np.exp(-eta))
        return float(log_p + binom.logpmf(cells.successes, cells.trials, rate).sum())
    g, n = cells.graded, cells.trials
    if shape.residual_prior is None:
        assert g.precision is not None
        squares = g.squares + g.precision * (g.mean - eta) ** 2
        return float(log_p - g.log_errors - 0.5 * (n.sum() * np.log(2 * np.pi) + squares.sum()))
    sd = values[RESIDUAL]
    log_p += float(shape.residual_prior.logpdf(sd))
    # A cell's mean is Normal(eta, sd / root n), and squares / sd^2 chi-squared with n - 1 degrees.
    log_p += norm.logpdf(g.mean, eta, sd / np.sqrt(n)).sum()
    rest = (n - 1) * np.log(2 * np.pi * sd**2) + np.log(n) + g.squares / sd**2
    return float(log_p - 0.5 * rest.sum())


def coordinates(posterior: DirectPosterior, x: np.ndarray) -> np.ndarray:
    """Log scales, orthonormal coordinates of each effect variable, and the location."""
    p, values = posterior.parameterisation, posterior.unpack(x)
    parts = [np.log(values[name]) for name in scale_names(p)]
    for block in p.blocks:
        effects = values[block.variable]
        parts += list(basis(block.size).T @ effects if block.zero_sum else effects)
    return np.array([*parts, values[LOCATION]])


def basis(size: int) -> np.ndarray:
    """An orthonormal basis (K, K - 1) of the vectors that sum to zero."""
    return np.linalg.qr(np.eye(size) - 1.0 / size)[0][:, : size - 1]


def log_jacobian(posterior: DirectPosterior, x: np.ndarray) -> float:
    step = 1e-5
    columns = [
        (coordinates(posterior, x + step * e) - coordinates(posterior, x - step * e)) / (2 * step)
        for e in np.eye(len(x))
    ]
    return float(np.linalg.slogdet(np.array(columns).T)[1])


@pytest.mark.parametrize(
    "how",
    [{"sweep": [], "standardise": False}, {"sweep": []}, {"sweep": ["task"]}, {}],
    ids=["plain", "standardised", "partly swept", "swept"],
)
@pytest.mark.parametrize("name", SHAPES)
def test_every_way_of_writing_is_the_textbook_density(name: str, how: dict[str, Any]) -> None:
    """By the Jacobian of the coordinates, measured, and for swept means by the conditional that
    recovery draws from: density of (location, means) = density of location x conditional."""
    shape = SHAPES[name]()
    posterior = direct_posterior(shape.parameterised(**how))
    p, rng = posterior.parameterisation, np.random.default_rng(7)
    x = p.start + 0.7 * rng.normal(size=posterior.n_free)
    values = {key: np.asarray(value) for key, value in posterior.unpack(x).items()}
    swept = [c for c, block in enumerate(p.blocks) if block.swept]
    sds = np.array([float(values[f"sd({p.blocks[c].name})"]) for c in swept])
    means = rng.normal(size=len(swept)) * sds
    effects = [values[block.variable].copy() for block in p.blocks]
    shift = sum(float(e @ p.weights[part]) for e, part in zip(effects, p.slices(), strict=True))
    for c, mean in zip(swept, means, strict=True):
        effects[c] += mean
    mu = float(values[LOCATION]) - shift - means.sum()
    log_scales = sum(float(np.log(values[name])) for name in scale_names(p))
    # A mean is one of K orthonormal coordinates over root K.
    volume = 0.5 * sum(np.log(p.blocks[c].size) for c in swept)
    expected = textbook(shape, values, mu, effects) + log_scales + volume
    found = posterior(x)[0] - log_jacobian(posterior, x)
    found += conditional(p, values, float(values[LOCATION]) - shift, swept, means)
    # Central differences: 1e-10 relative in each of some 50 coordinates.
    assert found == pytest.approx(expected, abs=1e-6)


def conditional(p: Any, values: Any, location: float, swept: list[int], means: np.ndarray) -> float:
    """Log density of the mean effects given mu plus all of them."""
    from scipy.stats import multivariate_normal

    if not swept:
        return 0.0
    mu_variance = p.mu_sd**2 * float(values.get(MU_SCALE, 1.0))
    variances = np.array(
        [float(values[f"sd({p.blocks[c].name})"]) ** 2 / p.blocks[c].size for c in swept]
    )
    total = mu_variance + variances.sum()
    centre = variances / total * (location - p.mu_mean)
    covariance = np.diag(variances) - np.outer(variances, variances) / total
    return float(multivariate_normal.logpdf(means, centre, covariance))


# ---------------------------------------------------------------- other names

PLAIN = ("model", "item", "judge", "style")
ODD = ("a", "a|b", "Aufgabe ü*", "σ[0] <b>x")
LABELS = {
    "model": ["p:q", "p", "p:q:r"],
    "item": ["1|2", "1", "*", "(.*)", "[0]", "β"],
    "judge": ["<script>", "&amp;"],
    "style": ["a\\b", '"quoted"', "sd(a)"],
}


def named(names: Sequence[str], labels: dict[str, list[str]]) -> Any:
    """Items x judges x styles of some models; the styles are controlled."""
    obj, item, judge, style = names
    study = study_of(
        item,
        gs.Facet(judge, role="error"),
        gs.Facet(style, role="controlled"),
        within("rollout", obj, item, style),
        object=obj,
        interactions=[f"{item}:{style}"],
    )
    table = grid({**labels, "rollout": [0, 1]}, seed=4)
    return checked(study, table.rename(columns=dict(zip(PLAIN, names, strict=True))))


def test_names_and_labels_are_data() -> None:
    """Names within names, labels with signs of every kind: the same arrays and densities."""
    odd = named(ODD, LABELS)
    # Each number is the place of its label in the order that the study keeps labels in.
    places = {name: odd.cells.labels[other] for name, other in zip(PLAIN, ODD, strict=True)}
    numbers = {name: [f"{places[name].index(x)}" for x in own] for name, own in LABELS.items()}
    plain = named(PLAIN, numbers)
    for one, other in zip(plain.cells.index, odd.cells.index, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(plain.cells.successes, odd.cells.successes)
    shapes = [shape_of(found) for found in (plain, odd)]
    assert [c.fixed for c in shapes[1].cells.components].count(True) == 1
    posteriors = [direct_posterior(shape.parameterised()) for shape in shapes]
    x = np.random.default_rng(5).normal(size=(10, posteriors[0].n_free))
    for point in x:
        (value, slope), (other, other_slope) = (one(point) for one in posteriors)
        assert value == other
        np.testing.assert_array_equal(slope, other_slope)
    agree(shapes[1], 5)


# ---------------------------------------------------------------- nothing hangs loose


@pytest.mark.parametrize("name", [*SHAPES, *DESIGNS])
def test_every_free_variable_is_an_ancestor_of_the_likelihood(name: str) -> None:
    from pytensor.graph.traversal import ancestors

    shape = SHAPES[name]() if name in SHAPES else shape_of(DESIGNS[name]())
    model = model_of(shape.parameterised(), shape.cells)
    (observed,) = model.observed_RVs
    reached = set(ancestors([observed]))
    loose = [variable.name for variable in model.free_RVs if variable not in reached]
    assert loose == []
    random = [c for c in shape.cells.components if not c.fixed]
    assert len([v for v in model.free_RVs if v.name.startswith("sd(")]) == len(random) + (
        shape.residual_prior is not None
    )
