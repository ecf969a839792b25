"""Effects of single cells, integrated out by tables and drawn afterwards; the posterior stays."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from integrals import by_quadrature
from scipy import stats
from scipy.special import gammaln, log_expit

import gstudy as gs
from gstudy.model import sampling
from gstudy.model.cell_effects import without_cell_effects
from gstudy.model.cell_marginals import marginal_pass
from gstudy.model.conditional_effects import cell_effects_drawn
from gstudy.model.direct import direct_posterior
from gstudy.model.parameterisation import Parameterisation, parameterise
from gstudy.study import integrable
from gstudy.study.integrable import cell_component

if TYPE_CHECKING:
    from gstudy.study.assessment import Assessment

TASK = gs.Facet("task", role="legitimate")
ROLLOUT = gs.Facet("rollout", role="legitimate", nested_in=["system", "task"])
MODE = gs.Facet("mode", role="controlled")
SYSTEMS = {"score": "score", "object": "system", "interactions": ["system:task"]}


def crossed(n_systems: int, n_tasks: int, seed: int, ragged: bool = False, **study: Any) -> Any:
    """Systems x tasks, each cell with an effect of its own; `mode` shifts half of the tasks."""
    rng = np.random.default_rng(seed)
    task, system = rng.normal(0, 1.5, n_tasks), rng.normal(0, 0.8, n_systems)
    own = rng.normal(0, 1.2, (n_systems, n_tasks))
    rows = []
    for i, j in np.ndindex(n_systems, n_tasks):
        p = 1 / (1 + np.exp(-(0.4 + system[i] + task[j] + own[i, j])))
        trials = int(rng.integers(1, 5)) if ragged else 4
        for rollout in range(trials):
            mode = ("a", "b")[j % 2]
            rows.append((f"s{i}", f"t{j}", mode, rollout, int(rng.random() < p)))
    frame = pd.DataFrame(rows, columns=["system", "task", "mode", "rollout", "score"])
    return gs.Study(**(SYSTEMS | study)), frame


def judged(n_tasks: int, seed: int) -> Any:
    """Two rollouts of each task, four calls of one judge of each: task:rollout is a cell's own."""
    rng = np.random.default_rng(seed)
    rows = []
    for j in range(n_tasks):
        task = rng.normal(0, 1.5)
        for rollout in range(2):
            p = 1 / (1 + np.exp(-(0.3 + task + rng.normal(0, 1.0))))
            rows += [(f"t{j}", f"r{rollout}", call, int(rng.random() < p)) for call in range(4)]
    frame = pd.DataFrame(rows, columns=["task", "rollout", "call", "score"])
    rollout = gs.Facet("rollout", role="legitimate", nested_in=["task"])
    call = gs.Facet("call", role="error", nested_in=["task", "rollout"])
    return gs.Study(score="score", facets=[TASK, rollout, call]), frame


MU_T = {"mu": {"dist": "StudentT", "nu": 4, "mu": 0.2, "sigma": 2.0}}
DESIGNS = {
    "crossed": lambda: crossed(4, 30, 1, facets=[TASK, ROLLOUT]),
    "ragged, StudentT": lambda: crossed(3, 40, 2, True, facets=[TASK, ROLLOUT], priors=MU_T),
    "controlled": lambda: crossed(
        4, 30, 3, facets=[MODE, replace(TASK, nested_in=("mode",)), ROLLOUT]
    ),
    "judge calls": lambda: judged(60, 4),
}


def assessed(name: str) -> Assessment:
    study, frame = DESIGNS[name]()
    with pytest.warns(gs.EstimabilityWarning):
        return gs.check(study, frame)


def both(found: Assessment) -> tuple[Parameterisation, Parameterisation]:
    whole = parameterise(found.cells, found.mu_prior)
    place = cell_component(found.cells)
    assert place is not None
    return whole, without_cell_effects(whole, place)


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Integrate also where it does not pay."""
    monkeypatch.setattr(integrable, "CELLS_A_CLASS", 0)


@pytest.mark.parametrize("n", [1, 2, 8, 100])
@pytest.mark.parametrize("sd", [0.02, 0.4, 2.0, 15.0])
def test_the_tables_are_the_integrals(n: int, sd: float) -> None:
    rng = np.random.default_rng(n)
    k = np.concatenate([[0, n], rng.integers(0, n + 1, 18)]).astype(float)
    u = rng.normal(0, 2.5, 20)
    classes, of_class = np.unique(k, return_inverse=True)
    classes = np.column_stack([classes, np.full(len(classes), float(n))])
    index = np.arange(20, dtype=np.int32)[:, None]
    slopes = np.empty(20)
    arguments = (index, of_class.astype(float).ravel(), classes)
    value, d_mu, d_log_sd = marginal_pass(0.3, u, *arguments, np.log(sd), slopes)
    binomial = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)

    def whole(mu: float, s: float) -> float:
        return sum(by_quadrature(a, n, mu + b, s) for a, b in zip(k, u, strict=True))

    # What the interpolation may be off: 2e-8 a trial.
    assert value == pytest.approx(whole(0.3, sd) - binomial.sum(), abs=2e-8 * n * 20)
    h = 1e-4
    slope = (whole(0.3 + h, sd) - whole(0.3 - h, sd)) / (2 * h)
    assert d_mu == pytest.approx(slope, rel=1e-5, abs=1e-5 * n)
    assert slopes.sum() == pytest.approx(d_mu, rel=1e-12)
    slope = (whole(0.3, sd * np.exp(h)) - whole(0.3, sd * np.exp(-h))) / (2 * h)
    assert d_log_sd == pytest.approx(slope, rel=1e-5, abs=1e-5 * n)


def test_far_trajectories_end() -> None:
    classes = np.array([[1.0, 2.0]])
    arguments = (np.array([[0], [1]], dtype=np.int32), np.zeros(2), classes, 0.0, np.empty(2))
    value, _, _ = marginal_pass(0.0, np.array([-1e6, 1e6]), *arguments)
    assert value == -np.inf
    value, _, _ = marginal_pass(0.0, np.array([np.nan, 0.0]), *arguments)
    assert not np.isfinite(value)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("name", DESIGNS)
def test_the_density_is_the_joint_one_integrated(name: str) -> None:
    found = assessed(name)
    _, reduced = both(found)
    posterior = direct_posterior(reduced)
    # The same without any effects of cells: one sd less.
    place = len(reduced.random)
    plain = replace(
        reduced,
        cell_effects=None,
        start=np.delete(reduced.start, place),
        start_width=np.delete(reduced.start_width, place),
    )
    rng = np.random.default_rng(7)
    for _ in range(3):
        x = rng.normal(0, 0.7, reduced.n_free)
        value, gradient = posterior(x)
        other, _ = direct_posterior(plain)(np.delete(x, place))
        eta, sd = _predictor(reduced, x), float(np.exp(x[place]))
        k, n = reduced.successes, reduced.trials
        own = sum(by_quadrature(*cell, sd) for cell in zip(k, n, eta, strict=True))
        binomial = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
        without = (k * log_expit(eta) + (n - k) * log_expit(-eta) + binomial).sum()
        prior = stats.halfnorm(scale=_sigma(reduced)).logpdf(sd) + np.log(sd)
        assert value == pytest.approx(other - without + own + prior, abs=2e-8 * n.sum())
        for i in rng.choice(reduced.n_free, 12, replace=False):
            step = np.zeros(reduced.n_free)
            step[i] = 1e-5
            slope = (posterior(x + step)[0] - posterior(x - step)[0]) / 2e-5
            assert gradient[i] == pytest.approx(slope, rel=1e-4, abs=1e-4)


def _sigma(reduced: Parameterisation) -> float:
    assert reduced.cell_effects is not None
    prior = reduced.cell_effects.prior
    assert prior.dist == "HalfNormal"
    return dict(prior.parameters)["sigma"]


def _predictor(p: Parameterisation, x: np.ndarray) -> np.ndarray:
    values = direct_posterior(p).unpack(x[None])
    location = float(values["mu(swept)"][0])
    effects = [values[b.variable][0] for b in p.blocks]
    location -= sum(e @ p.weights[s] for e, s in zip(effects, p.slices(), strict=True))
    return location + np.concatenate(effects)[p.index].sum(axis=1)


@pytest.mark.parametrize(("k", "n", "eta", "sd"), [(0, 4, 2, 6), (3, 8, -1, 2), (1, 1, 0, 0.1)])
def test_effects_of_cells_are_drawn_from_their_conditional(
    k: int, n: int, eta: float, sd: float
) -> None:
    draws = np.full((2000, 5), float(eta))
    rng = np.random.default_rng(5)
    drawn = cell_effects_drawn(draws, np.full(2000, float(sd)), np.full(5, k), np.full(5, n), rng)
    grid = np.linspace(-12 * sd, 12 * sd, 200_001)
    log_p = k * log_expit(eta + grid) + (n - k) * log_expit(-eta - grid) - 0.5 * (grid / sd) ** 2
    p = np.exp(log_p - log_p.max())
    below = (np.cumsum(p) - p / 2) / p.sum()
    assert stats.kstest(drawn.ravel(), lambda y: np.interp(y, grid, below)).pvalue > 0.001


@pytest.mark.slow
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("name", DESIGNS)
def test_the_posterior_is_that_of_sampled_effects(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from arviz import ess

    found = assessed(name)
    settings = {"sampler": "direct", "progress": False, "target_accept": 0.98, "draws": 2000}
    new = gs.fit(found.study, found, seed=3, **settings)
    monkeypatch.setattr(sampling, "cell_component", lambda _: None)
    old = gs.fit(found.study, found, seed=4, **settings)
    assert new.diagnostics.divergences == 0
    one, other = (fit.posterior["posterior"] for fit in (new, old))
    assert list(one.data_vars) == list(other.data_vars)
    for variable in one.data_vars:
        columns = [np.atleast_3d(x[variable].to_numpy()) for x in (one, other)]
        for level in range(0, columns[0].shape[2], 7):
            values = [x[..., level] for x in columns]
            for power in (1, 2):
                moments = [(x - (power - 1) * values[0].mean()) ** power for x in values]
                error = np.hypot(*(x.std() / np.sqrt(float(ess(x))) for x in moments))
                z = (moments[0].mean() - moments[1].mean()) / error
                assert abs(z) < 4.5, (variable, level, power, z)


@pytest.mark.usefixtures("always")
def test_cores_change_no_draw_and_moments_stand_for_many(monkeypatch: pytest.MonkeyPatch) -> None:
    from gstudy.model import large

    found = assessed("crossed")
    settings = {"sampler": "direct", "progress": False, "seed": 2, "draws": 150, "tune": 300}
    with pytest.warns(gs.ConvergenceWarning):
        fits = [gs.fit(found.study, found, cores=cores, **settings) for cores in (1, 2)]
    one, two = (fit.posterior["posterior"].to_dataset() for fit in fits)
    assert one.identical(two)
    monkeypatch.setattr(large, "LARGEST_STORED", 100)
    monkeypatch.setattr("gstudy.model.recovered.LARGEST_STORED", 100)
    with pytest.warns(gs.ConvergenceWarning):
        few = gs.fit(found.study, found, **settings).posterior["posterior"]
    u = one["u(system:task)"]
    assert np.allclose(few["u_mean(system:task)"], u.mean(("chain", "draw")), atol=1e-12)
    assert np.allclose(few["u_sd(system:task)"], u.std(("chain", "draw")), atol=1e-12)
    assert np.array_equal(few["sd(system:task)"], one["sd(system:task)"])


def test_where_tables_do_not_win() -> None:
    assert cell_component(assessed("crossed").cells) is None  # too few cells
    study, frame = crossed(20, 60, 1, facets=[TASK, ROLLOUT])
    others = [replace(study, interactions="none"), replace(study, family="gaussian")]
    with pytest.warns(gs.EstimabilityWarning):
        whole = gs.check(study, frame)
    assert cell_component(whole.cells) == 2
    for other in others:  # no component of single cells; graded scores
        with pytest.warns(gs.EstimabilityWarning):
            found = gs.check(other, frame)
        assert cell_component(found.cells) is None
