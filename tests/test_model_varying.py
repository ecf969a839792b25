"""Own sds of each system: density, recovery and posterior against independent calculations."""

from __future__ import annotations

from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from designs import checked, study_of, within
from models import INTERPRETED, interpreted, random_trials
from pytensor.configdefaults import config
from scipy import stats

import gstudy as gs
from gstudy.model.factors import cholesky_draws, partial_shapes
from gstudy.model.levels import recover_levels
from gstudy.model.own_graph import own_model
from gstudy.model.parameterisation import LOCATION, MU_SCALE
from gstudy.model.varying import vary

if TYPE_CHECKING:
    from pathlib import Path

    from gstudy.model.varying import Varying
    from gstudy.study.estimable import Assessment

# Of about 30 quantities per comparison none is beyond this many combined standard errors.
LIMIT = 5.0


@cache
def judged(mu: str = "Normal") -> Assessment:
    """Ragged: own sds of tasks and of rollouts, which judges that all share have scored."""
    priors = {"mu": {"dist": "Normal", "mu": 0.3, "sigma": 1.5}}
    if mu == "StudentT":
        priors["mu"] |= {"dist": "StudentT", "nu": 4.0}
    study = study_of(
        gs.Facet("task", role="legitimate", varies="system"),
        gs.Facet("rollout", role="legitimate", nested_in=["system", "task"], varies="system"),
        gs.Facet("judge", role="error"),
        object="system",
        interactions=["system:judge"],
        priors=priors,
    )
    levels = {"system": 3, "task": 4, "rollout": 2, "judge": 3}
    table = random_trials(levels, seed=4, share=0.8)
    # One system lacks a task.
    return checked(study, table[(table["system"] != "1") | (table["task"] != "2")])


@cache
def placed() -> Assessment:
    """Own sds of tasks, at three levels of a controlled place, which tasks interact with."""
    study = study_of(
        gs.Facet("task", role="legitimate", varies="system"),
        gs.Facet("place", role="controlled"),
        within("rollout", "system", "task", "place"),
        object="system",
        interactions=["task:place"],
        priors={"mu": {"dist": "Normal", "mu": 0.3, "sigma": 1.5}},
    )
    table = random_trials({"system": 3, "task": 4, "place": 3, "rollout": 3}, seed=5, share=0.8)
    found = checked(study, table)
    assert [component.name for component in found.fixed] == ["place"]
    return found


@cache
def compared() -> Assessment:
    """2 systems x 3 tasks x 5 trials with tight priors."""
    study = gs.Study(
        successes="k",
        trials="n",
        object="system",
        facets=[gs.Facet("task", role="legitimate", varies="system")],
        priors={
            "mu": {"dist": "Normal", "mu": 0.0, "sigma": 1.5},
            "sd(system)": {"dist": "HalfNormal", "sigma": 1.0},
            "sd(task)": {"dist": "HalfNormal", "sigma": 1.5},
        },
    )
    rows = [(s, t, k, 5) for s, row in (("a", (0, 2, 5)), ("b", (1, 3, 3))) for t, k in
            enumerate(row)]  # fmt: skip
    return checked(study, pd.DataFrame(rows, columns=["system", "task", "k", "n"]))


class Unpacked:
    """A vector as a point of the model and back to all that it stands for."""

    def __init__(self, found: Assessment) -> None:
        self.found, self.varying = found, vary(found)
        with config.change_flags(numba__fastmath=False):
            self.model = own_model(self.varying)
            values = self.model.unobserved_value_vars
            self.values = self.model.compile_fn(values, mode=INTERPRETED)
            start = self.model.initial_point()
        self.value_names = [v.name for v in values]
        self.names = [v.name for v in self.model.value_vars]
        self.shapes = [np.shape(start[name]) for name in self.names]
        self.sizes = [int(np.prod(shape)) for shape in self.shapes]

    @cached_property
    def density(self) -> Any:
        """The log density by terms with its gradient, as a function of a point."""
        with config.change_flags(numba__fastmath=False):
            return interpreted(self.model)

    def constrained(self, point: dict[str, Any]) -> dict[str, Any]:
        """The variables at a point."""
        found = zip(self.value_names, self.values(point), strict=True)
        return {name: value for name, value in found if not name.endswith("__")}

    def point(self, x: np.ndarray) -> dict[str, Any]:
        pieces = np.split(x, np.cumsum(self.sizes)[:-1])
        return {
            name: piece.reshape(shape)
            for name, piece, shape in zip(self.names, pieces, self.shapes, strict=True)
        }

    def natural(self, x: np.ndarray) -> dict[str, np.ndarray]:
        """Log sds, correlations, effects less their means and levels, in the model's order."""
        values = self.constrained(self.point(x))
        z21, z31, z32 = 2 * values["partial(task)"] - 1
        r32 = z21 * z31 + z32 * np.sqrt((1 - z21**2) * (1 - z31**2))
        correlation = np.array([[1, z21, z31], [z21, 1, r32], [z31, r32, 1]])
        sd = values["sd(task)"]
        covariance = correlation * np.outer(sd, sd)
        task = np.linalg.cholesky(covariance) @ values["z(task)"]
        v = self.varying
        out = {"task": task, "covariance": covariance, "correlation": correlation}
        total = np.zeros((3, 3)) + self._mu_variance(values)
        total += covariance / task.shape[1] + values["sd(system)"] ** 2 * np.eye(3)
        for block in v.blocks:
            if block.name == "task" or block.name == "system":
                continue
            segments = block.segments
            own = self._sd(block, values)
            out[block.name] = values[f"z({block.name})"] * (own @ segments.member)
            # The mean of fixed effects is none: it is mu.
            means = 0.0 * own if block.component.fixed else own**2 / segments.sizes
            total += np.diag(means) if block.n_segments == 3 else means[0]
        out["total"] = total
        out["levels"] = v.base.mu_mean + (np.linalg.cholesky(total) @ values[LOCATION])[:, 0]
        return out | {name: values[name] for name in values if name.startswith(("sd(", "scale"))}

    @staticmethod
    def _sd(block: Any, values: dict[str, Any]) -> np.ndarray:
        """Sd of each segment; of fixed effects that of their prior."""
        component = block.component
        sd = component.prior.sigma if component.fixed else values[f"sd({block.name})"]
        return sd * np.ones(block.n_segments)

    def _mu_variance(self, values: dict[str, Any]) -> Any:
        return self.varying.base.mu_sd**2 * values.get(MU_SCALE, 1.0)

    def coordinates(self, x: np.ndarray) -> np.ndarray:
        """The natural values as one vector of as many numbers as x: the last of what sums to
        zero is left out, which a constant factor per sum makes up for."""
        found = self.natural(x)
        pieces = [found["correlation"][np.tril_indices(3, -1)], found["task"][:, :-1].ravel()]
        pieces += [found[n].ravel() for n in found if n.startswith(("sd(", "scale"))]
        for block in self.varying.blocks:
            if block.name not in ("task", "system"):
                pieces.append(found[block.name][: block.segments.n_free])
        return np.concatenate([*pieces, found["levels"]])

    def log_prior_and_likelihood(self, x: np.ndarray) -> float:
        """The same density in the natural values, from scipy."""
        v, found = self.varying, self.natural(x)
        log_p = log_lkj(found["correlation"])
        for component in self.found.components:
            log_p += component.prior.logpdf(found[f"sd({component.name})"]).sum()
        if MU_SCALE in found:
            half = v.base.mu_nu / 2
            log_p += stats.invgamma.logpdf(found[MU_SCALE], half, scale=half)
        log_p += zero_sum(found["task"], found["covariance"])
        eta = found["levels"][v.base.index[:, -1] - len(v.weights[0])]
        for c, (block, part) in enumerate(zip(v.blocks, v.slices(), strict=True)):
            if block.name == "system":
                continue
            effects = found[block.name].ravel()
            eta = eta + effects[v.base.index[:, c] - part.start]
            if block.name != "task":
                own = self._sd(block, found)
                for row, sd in zip(block.segments.member, own, strict=True):
                    log_p += zero_sum(effects[row == 1][None], sd[None, None] ** 2)
        law = stats.multivariate_normal(np.full(3, v.base.mu_mean), found["total"])
        log_p += law.logpdf(found["levels"])
        cells = self.found.cells
        rate = 1 / (1 + np.exp(-eta))
        return float(log_p + stats.binom.logpmf(cells.successes, cells.trials, rate).sum())


@cache
def unpacked(kind: str) -> Unpacked:
    return Unpacked(placed() if kind == "fixed effects" else judged(kind))


def log_lkj(correlation: np.ndarray) -> float:
    """LKJ(2), normalised (Lewandowski, Kurowicka and Joe 2009, equation 16), of 3 systems."""
    size, shape = len(correlation), 2.0
    log_norm = 0.0
    for k in range(1, size):
        b = shape + (size - k - 1) / 2
        log_norm += (2 * shape - 2 + size - k) * (size - k) * np.log(2)
        log_norm += (size - k) * (2 * _log_gamma(b) - _log_gamma(2 * b))
    return float((shape - 1) * np.linalg.slogdet(correlation)[1] - log_norm)


def _log_gamma(x: float) -> float:
    from math import lgamma

    return lgamma(x)


def zero_sum(effects: np.ndarray, covariance: np.ndarray) -> float:
    """Log density of effects (S, T) that sum to zero over T, in an orthonormal basis."""
    size = effects.shape[1]
    squares = np.trace(np.linalg.solve(covariance, effects @ effects.T))
    log_det = np.linalg.slogdet(2 * np.pi * covariance)[1]
    return float(-0.5 * (squares + (size - 1) * log_det))


@pytest.mark.parametrize("kind", ["Normal", "StudentT", "fixed effects"])
def test_the_density_is_that_of_the_declared_model(kind: str) -> None:
    """Through a numerical Jacobian, from the sampler's coordinates to sds, correlations, effects
    and levels; constants too."""
    model = unpacked(kind)
    rng = np.random.default_rng(3)
    # Of n numbers that sum to zero the first n - 1 are an orthonormal basis but for sqrt(n).
    zero_sums = [len(model.varying.labels) * [4]] + [
        b.segments.sizes for b in model.varying.blocks if b.name not in ("task", "system")
    ]
    log_bases = 0.5 * np.log(np.concatenate(zero_sums)).sum()
    for _ in range(2):
        x = rng.normal(size=sum(model.sizes))
        step = 1e-5
        jacobian = np.array(
            [
                (model.coordinates(x + step * row) - model.coordinates(x - step * row)) / (2 * step)
                for row in np.eye(len(x))
            ]
        )
        expected = model.log_prior_and_likelihood(x) + np.linalg.slogdet(jacobian)[1] + log_bases
        *terms, _ = model.density(model.point(x))
        # Central differences of 50 coordinates to 1e-8 each.
        assert float(sum(terms)) == pytest.approx(expected, abs=1e-5)


def test_the_gradient_is_that_of_the_value() -> None:
    model, rng = unpacked("Normal"), np.random.default_rng(5)
    x = rng.normal(size=sum(model.sizes))
    *_, gradient = model.density(model.point(x))
    step = 1e-6
    for _ in range(12):
        way = rng.normal(size=len(x))
        ahead, behind = (
            float(sum(model.density(model.point(x + sign * step * way))[:-1])) for sign in (1, -1)
        )
        # Rounding of the value over the step, and the step squared.
        assert gradient @ way == pytest.approx((ahead - behind) / (2 * step), rel=1e-6, abs=1e-5)


def test_partial_correlations_make_lkj() -> None:
    """Off-diagonal elements of LKJ(eta) are 2 Beta(b, b) - 1, b = eta + (S - 2) / 2."""
    rng, n = np.random.default_rng(6), 40_000
    for size in (2, 3, 5):
        shape = partial_shapes(size)
        root = cholesky_draws(rng.beta(shape, shape, size=(n, len(shape))), size)
        r = root @ np.swapaxes(root, -1, -2)
        np.testing.assert_allclose(r[:, range(size), range(size)], 1.0, atol=1e-12)
        b = 2.0 + (size - 2) / 2
        law = stats.beta(b, b, loc=-1, scale=2)
        for i, j in zip(*np.tril_indices(size, -1), strict=True):
            # Kolmogorov's distance at a level of 1e-6.
            assert stats.kstest(r[:, i, j], law.cdf).statistic < 2.7 / n**0.5


def free_values(varying: Varying, rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
    """Prior draws of the standard effects at sds of 1.3 and correlations of .4."""
    systems = varying.n_systems
    # Partial correlations of the matrix with .4 everywhere, given k others: .4 / (1 + .4 k).
    column = np.tril_indices(systems, -1)[1]
    values = {"partial(task)": np.tile((1 + 0.4 / (1 + 0.4 * column)) / 2, (n, 1))}
    for block in varying.blocks:
        own = (systems,) if block.component.varies else ()
        values[f"sd({block.name})"] = np.full((n, *own), 1.3)
        if block.segments is None:
            z = rng.normal(size=(n, systems, block.size // systems))
            values[block.variable] = z - z.mean(axis=-1, keepdims=True)
        elif block.segments.n_free:
            member, z = block.segments.member, rng.normal(size=(n, block.size))
            values[block.variable] = z - (z @ member.T / block.segments.sizes) @ member
    values[LOCATION] = rng.normal(size=(n, systems, 1))
    return values


def test_recovered_draws_of_the_prior_have_the_law_of_the_declaration() -> None:
    """Means, effects and levels put together again are independent normals with their own sds;
    of tasks with variance 1.3^2 and covariance .4 x 1.3^2, as a shared sd of tasks with
    .4 x 1.3^2 and one of system:task with .6 x 1.3^2 would give."""
    n = 60_000
    varying, rng = vary(judged()), np.random.default_rng(8)
    draws = recover_levels(varying, free_values(varying, rng, n), rng)
    columns = [draws.mu[:, None] - 0.3] + [e.reshape(n, -1) for e in draws.effects]
    expected = [np.array([[1.5**2]])]
    for block in varying.blocks:
        size = block.size
        if block.segments is None:
            shared, own = 0.4 * 1.3**2, 0.6 * 1.3**2
            covariance = np.kron(np.eye(size // 3), shared * np.ones((3, 3)) + own * np.eye(3))
        else:
            covariance = 1.3**2 * np.eye(size)
        expected.append(covariance)
    from scipy.linalg import block_diag

    together = np.concatenate(columns, axis=1)
    found, wanted = np.cov(together, rowvar=False), block_diag(*expected)
    diagonal = np.diag(wanted)
    # Of about 1,500 covariances none is beyond 5.5 standard errors.
    error = np.sqrt((wanted**2 + np.outer(diagonal, diagonal)) / n)
    assert (np.abs(found - wanted) / error).max() < 5.5
    assert (np.abs(together.mean(axis=0)) / np.sqrt(diagonal / n)).max() < 5.0


def test_recovered_draws_keep_what_the_likelihood_sees() -> None:
    found = judged()
    varying, rng = vary(found), np.random.default_rng(9)
    values = free_values(varying, rng, 5)
    draws = recover_levels(varying, values, rng)
    cells, system = found.cells, judged().cells.codes[:, judged().cells.facets.index("system")]
    eta = np.repeat(draws.mu[:, None], len(system), axis=1)
    for c, block in enumerate(varying.blocks):
        if block.segments is None:
            eta = eta + draws.effects[c][:, cells.index[c], system]
        else:
            eta = eta + draws.effects[c][:, cells.index[c]]
    # The same from the model: its effects less their means, and its levels.
    model_eta = model_linear_predictor(varying, values)
    np.testing.assert_allclose(eta, model_eta, atol=1e-10)
    for c, block in enumerate(varying.blocks):
        own = (5, 3) if block.component.varies else (5,)
        assert draws.sds[c].shape == own
    np.testing.assert_allclose(
        draws.correlations[[b.name for b in varying.blocks].index("task")],
        np.broadcast_to(0.4 + 0.6 * np.eye(3), (5, 3, 3)),
        atol=1e-12,
    )


def model_linear_predictor(varying: Varying, values: dict[str, np.ndarray]) -> np.ndarray:
    """The logit of each cell as the PyMC model computes it."""
    from pytensor import function

    model = own_model(varying)
    mean, effects = model["successes"].owner.inputs[2:4]
    compute = function(model.free_RVs, mean + effects, mode=INTERPRETED)
    rows = []
    for i in range(len(values[LOCATION])):
        row = compute(*(values[v.name][i] for v in model.free_RVs))
        rows.append(row[varying.base.index].sum(axis=1))
    return np.array(rows)


@pytest.fixture(scope="module", params=["direct", pytest.param("pymc", marks=pytest.mark.slow)])
def small_fit(request: pytest.FixtureRequest) -> gs.Fit:
    found = compared()
    return gs.fit(found.study, found, seed=2, draws=2000, sampler=request.param, progress=False)


def exact(found: Assessment) -> dict[str, tuple[float, float]]:
    """Posterior means and their standard errors: draws of the prior of mu, levels, sds and the
    correlation, weighted by the likelihood, the task effects integrated by quadrature."""
    rng, n = np.random.default_rng(7), 16_000
    mu, sd_system = rng.normal(0, 1.5, n), np.abs(rng.normal(0, 1, n))
    level = mu[:, None] + sd_system[:, None] * rng.normal(size=(n, 2))
    sd, rho = np.abs(rng.normal(0, 1.5, (n, 2))), 2 * rng.beta(2, 2, n) - 1
    nodes, weights = np.polynomial.hermite_e.hermegauss(21)
    one, two = (x.ravel() for x in np.meshgrid(nodes, nodes))
    both = np.outer(weights, weights).ravel() / (2 * np.pi)
    u_a = sd[:, :1] * one
    u_b = sd[:, 1:] * (rho[:, None] * one + np.sqrt(1 - rho[:, None] ** 2) * two)
    passes = found.cells.successes.reshape(2, 3)
    weight, effects = np.ones(n), {}
    for t in range(3):
        like = both * binomial(level[:, :1] + u_a, passes[0, t])
        like *= binomial(level[:, 1:] + u_b, passes[1, t])
        whole = like.sum(axis=1)
        effects[f"u[{t}, a]"] = (like * u_a).sum(axis=1) / whole
        effects[f"u[{t}, b]"] = (like * u_b).sum(axis=1) / whole
        weight *= whole
    weight /= weight.sum()
    means = {
        "mu": mu,
        "sd(system)": sd_system,
        "sd(task)[a]": sd[:, 0],
        "sd(task)[b]": sd[:, 1],
        "corr": rho,
        "corr^2": rho**2,
        "sd(task)[a]^2": sd[:, 0] ** 2,
        "level a": level[:, 0],
        "level b": level[:, 1],
        "level difference^2": (level[:, 0] - level[:, 1]) ** 2,
        **effects,
    }
    found_means = {}
    for name, values in means.items():
        mean = weight @ values
        found_means[name] = (float(mean), float(np.sqrt(weight**2 @ (values - mean) ** 2)))
    return found_means


def binomial(eta: np.ndarray, k: int) -> np.ndarray:
    """k passes of 5, without the binomial coefficient."""
    return np.exp(k * eta - 5 * np.logaddexp(0, eta))


def test_the_posterior_is_the_exact_one(small_fit: gs.Fit) -> None:
    from arviz_stats.base import array_stats

    assert small_fit.diagnostics.divergences == 0
    levels = small_fit.mu[..., None] + small_fit.effects("system").to_numpy()
    task = small_fit.effects("task").to_numpy()
    rho = small_fit.correlation("task").to_numpy()[..., 0, 1]
    sd = small_fit.sd("task")
    measured = {
        "mu": small_fit.mu,
        "sd(system)": small_fit.sd("system"),
        "sd(task)[a]": sd[..., 0],
        "sd(task)[b]": sd[..., 1],
        "corr": rho,
        "corr^2": rho**2,
        "sd(task)[a]^2": sd[..., 0] ** 2,
        "level a": levels[..., 0],
        "level b": levels[..., 1],
        "level difference^2": (levels[..., 0] - levels[..., 1]) ** 2,
    }
    for t in range(3):
        measured |= {f"u[{t}, {x}]": task[..., t, s] for s, x in enumerate("ab")}
    for name, (mean, own) in exact(compared()).items():
        draws = measured[name]
        error = float(np.hypot(array_stats.mcse(draws, method="mean"), own))
        assert draws.mean() == pytest.approx(mean, abs=LIMIT * error), name
        # An error that hides a mistake is no test.
        assert error < 0.06 * max(float(draws.std()), 1.0), name


def test_the_posterior_has_labels_and_every_printed_number_a_gate(small_fit: gs.Fit) -> None:
    group = small_fit.posterior["posterior"].to_dataset()
    assert group["sd(task)"].dims == ("chain", "draw", "by(task)")
    assert group["corr(task)"].dims == ("chain", "draw", "by(task)", "by_2(task)")
    assert group["u(task)"].dims == ("chain", "draw", "task", "by(task)")
    assert group["u(system)"].dims == ("chain", "draw", "system")
    assert list(group["by(task)"].values) == list(group["by_2(task)"].values) == ["a", "b"]
    assert set(small_fit.diagnostics.frame.index) == {
        "mu",
        "sd(system)",
        "sd(task)[a]",
        "sd(task)[b]",
        "corr(task)[a, b]",
        "mu + u(a)",
        "mu + u(b)",
    }
    np.testing.assert_array_equal(small_fit.own_sd("task", "b"), group["sd(task)"].values[..., 1])


def own_draws(found: Assessment, **how: Any) -> dict[str, np.ndarray]:
    """Posterior draws of sds, correlations, levels and effects."""
    import pymc as pm

    varying = vary(found, **how)
    with config.change_flags(numba__fastmath=False), own_model(varying):
        trace = sampled(pm)
    values = {name: trace[name].to_numpy() for name in trace.data_vars}
    draws = recover_levels(varying, values, np.random.default_rng(3))
    places = {block.name: c for c, block in enumerate(varying.blocks)}
    named = {"mu": draws.mu}
    for name, c in places.items():
        named[f"sd({name})"] = draws.sds[c]
        named[f"u({name})"] = draws.effects[c]
    below = np.tril_indices(varying.n_systems, -1)
    named["corr"] = draws.correlations[places["task"]][(..., *below)]
    return named


def sampled(pm: Any) -> Any:
    return pm.sample(
        draws=4000,
        tune=1500,
        chains=4,
        random_seed=12,
        nuts_sampler="nutpie",
        nuts={"target_accept": 0.98},
        progressbar=False,
        compute_convergence_checks=False,
        quiet=True,
    )["posterior"].to_dataset()


def plain_draws(found: Assessment) -> dict[str, np.ndarray]:
    """The model of 3 systems as a textbook has it: every effect non-centred, nothing swept."""
    import pymc as pm
    import pytensor.tensor as pt

    cells = found.cells
    place = {c.name: i for i, c in enumerate(cells.components)}
    system = cells.codes[:, cells.facets.index("system")]
    with config.change_flags(numba__fastmath=False), pm.Model():
        mu = pm.Normal("mu", found.mu_prior.mu, found.mu_prior.sigma)
        eta, names = mu, []
        for name, c in place.items():
            component, index = cells.components[c], cells.index[c]
            own = (3,) if component.varies else ()
            sigma = component.prior.sigma
            sd = pm.HalfNormal(f"sd({name})", sigma, shape=own)
            if name == "task":
                factor, r, _ = pm.LKJCholeskyCov(
                    "lkj", n=3, eta=2.0, sd_dist=pm.HalfNormal.dist(1.0, shape=3), compute_corr=True
                )
                # Rows of the factor of R alone: the sds that come with it are let go.
                root = factor / pt.sqrt(pt.sum(factor**2, axis=1, keepdims=True))
                z = pm.Normal("z(task)", shape=(component.n_levels, 3))
                u = pm.Deterministic("u(task)", pt.dot(z, root.T) * sd)
                pm.Deterministic("corr", r[np.tril_indices(3, -1)])
                eta = eta + u[index, system]
                continue
            z = pm.Normal(f"z({name})", shape=component.n_levels)
            scale = sd
            if component.varies:
                inside = [f for f in cells.facets if f in component.facets]
                scale = sd[cells.levels[c][:, inside.index("system")]]
            u = pm.Deterministic(f"u({name})", z * scale)
            eta = eta + u[index]
            names.append(name)
        pm.Binomial("y", cells.trials, logit_p=eta, observed=cells.successes)
        trace = sampled(pm)
    wanted = [n for n in trace.data_vars if n == "mu" or n.startswith(("sd(", "u(", "corr"))]
    return {name: trace[name].to_numpy() for name in wanted}


def assert_same(one: dict[str, np.ndarray], other: dict[str, np.ndarray], limit: float) -> None:
    from test_model_sweep import differ

    assert set(one) == set(other)
    for name, values in one.items():
        assert values.shape == other[name].shape, name
        first, second = (x.reshape(*x.shape[:2], -1) for x in (values, other[name]))
        for i in range(first.shape[-1]):
            assert max(differ(first[..., i], second[..., i])) < limit, (name, i)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")
def test_the_posterior_is_that_of_the_plain_model() -> None:
    assert_same(own_draws(judged()), plain_draws(judged()), LIMIT)


@pytest.mark.slow
def test_no_choice_of_coordinates_changes_the_posterior() -> None:
    simple = own_draws(judged(), standardise=False, weighted=False)
    assert_same(own_draws(judged()), simple, LIMIT)


@pytest.mark.slow
def test_two_systems_of_gpqa_pass_every_gate_with_sds_of_their_own(shared: Path) -> None:
    """One sd per system, their correlation and ICC as known for these data; the ANOVA ICC of
    0.607 and 0.666 is held by each interval."""
    study = study_of(
        gs.Facet("task", role="legitimate", varies="system"),
        within("rollout", "system", "task"),
        object="system",
    )
    with pytest.warns(gs.EstimabilityWarning):
        fit = gs.fit(study, shared / "data" / "gpqa_diamond_epochs.csv.gz", seed=1, progress=False)
    assert fit.diagnostics.passed, str(fit.diagnostics)
    assert fit.diagnostics.refits == ()
    nano, mini = fit.own_labels("task")
    # Posterior means to .2, .03 and .015: several Monte Carlo errors, and the printed digits.
    assert fit.own_sd("task", nano).mean() == pytest.approx(4.0, abs=0.2)
    assert fit.own_sd("task", mini).mean() == pytest.approx(4.7, abs=0.2)
    correlation = fit.correlation("task").to_numpy()[..., 0, 1]
    assert correlation.mean() == pytest.approx(0.68, abs=0.03)
    for system, icc, anova in ((nano, 0.62, 0.6072), (mini, 0.67, 0.6656)):
        found = gs.icc(fit, "task", system=system)
        assert float(found.draws.mean()) == pytest.approx(icc, abs=0.015)
        (row,) = found.summary(0.95).to_dict("records")
        assert row["lower"] < anova < row["upper"]


@pytest.mark.slow
@pytest.mark.parametrize("case", ["copies", "never"])
def test_copies_and_a_system_that_never_passes(case: str, shared: Path) -> None:
    """A correlation near 1, and a system whose trials say almost nothing of its tasks."""
    table = pd.read_csv(shared / "data" / "gpqa_diamond_epochs.csv.gz", dtype=str)
    first = table["system"].iloc[0]
    if case == "copies":
        one = table[table["system"] == first]
        table = pd.concat([one, one.assign(system="copy")])
    else:
        table.loc[table["system"] == first, "score"] = "0"
    study = study_of(
        gs.Facet("task", role="legitimate", varies="system"),
        within("rollout", "system", "task"),
        object="system",
    )
    found = checked(study, table[["system", "task", "rollout", "score"]])
    fit = gs.fit(study, found, seed=1, progress=False)
    assert fit.diagnostics.passed, str(fit.diagnostics)
    correlation = fit.correlation("task").to_numpy()[..., 0, 1]
    if case == "copies":
        assert np.quantile(correlation, 0.025) > 0.9
        one, other = (fit.own_sd("task", x).mean() for x in fit.own_labels("task"))
        assert one == pytest.approx(other, rel=0.1)
    else:
        # Nothing is learned: LKJ(2) of two systems has mean 0 and sd 1 / sqrt(5).
        assert correlation.std() == pytest.approx(5**-0.5, abs=0.1)


def test_build_model_is_the_own_model_and_its_prior_can_be_drawn() -> None:
    import pymc as pm

    found = judged()
    model = gs.build_model(found.study, found)
    names = {v.name for v in model.free_RVs}
    assert {"sd(task)", "partial(task)", "z(task)", "z(judge)", "mu(swept)"} <= names
    assert model.named_vars_to_dims["sd(task)"] == ("by(task)",)
    with model:
        prior = pm.sample_prior_predictive(
            draws=20, random_seed=1, compile_kwargs={"mode": "FAST_COMPILE"}
        )
    drawn = prior["prior_predictive"]["successes"].to_numpy()
    assert drawn.shape == (1, 20, len(found.cells.trials))
    assert len(np.unique(drawn)) > 1
    z = prior["prior"]["z(task)"].to_numpy()
    np.testing.assert_allclose(z.sum(axis=-1), 0.0, atol=1e-12)


def test_systems_are_known_by_their_parents_where_labels_repeat() -> None:
    study = study_of(
        gs.Facet("vendor", role="legitimate"),
        gs.Facet("system", role="object", nested_in=["vendor"]),
        gs.Facet("task", role="legitimate", varies="system"),
        within("rollout", "vendor", "system", "task"),
        interactions="none",
    )
    table = random_trials({"vendor": 2, "system": 2, "task": 5, "rollout": 3}, seed=5)
    varying = vary(checked(study, table))
    assert varying.labels == ("0:0", "0:1", "1:0", "1:1")
    assert sorted(varying.order) == [0, 1, 2, 3]
