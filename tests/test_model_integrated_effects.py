"""Effects integrated out by tables and on a grid, drawn afterwards; the posterior stays."""

from __future__ import annotations

import warnings
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
from gstudy.model.cell_marginals import marginal_pass
from gstudy.model.conditional_effects import own_effects_drawn
from gstudy.model.direct import direct_posterior
from gstudy.model.integrable_effects import without_effects
from gstudy.model.level_marginals import grid_pass
from gstudy.model.one_way_integrals import level_integrals
from gstudy.model.parameterisation import Parameterisation, parameterise
from gstudy.study import integrable
from gstudy.study.integrable import integrable_component, patterns_of

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


def panel(seed: int, ragged: bool = False) -> Any:
    """3 systems x 8 tasks x 2 rollouts x 3 judges: a rollout has a cell of each judge; ragged, some
    calls are missing."""
    rng = np.random.default_rng(seed)
    task, judge = rng.normal(0, 1.5, 8), rng.normal(0, 0.7, 3)
    rows = []
    for i, j, r in np.ndindex(3, 8, 2):
        eta = 0.3 * i + task[j] + rng.normal(0, 1.0)
        for call in range(3):
            if not ragged or rng.random() < 0.7:
                p = 1 / (1 + np.exp(-eta - judge[call]))
                rows.append((f"s{i}", f"t{j}", f"r{r}", f"j{call}", int(rng.random() < p)))
    frame = pd.DataFrame(rows, columns=["system", "task", "rollout", "judge", "score"])
    facets = [TASK, ROLLOUT, gs.Facet("judge", role="error")]
    return gs.Study(score="score", object="system", facets=facets), frame


def domains(seed: int) -> Any:
    """40 tasks in 2 controlled domains x 4 judges: a task has a cell of each judge."""
    rng = np.random.default_rng(seed)
    judge, own = rng.normal(0, 0.7, 4), rng.normal(0, 0.5, (2, 4))
    rows = []
    for j in range(40):
        task = rng.normal(0.5 * (j % 2), 1.5)
        for call in range(4):
            p = 1 / (1 + np.exp(-task - judge[call] - own[j % 2, call]))
            rows.append((f"d{j % 2}", f"t{j}", f"j{call}", int(rng.random() < p)))
    frame = pd.DataFrame(rows, columns=["domain", "task", "judge", "score"])
    facets = [
        gs.Facet("domain", role="controlled"),
        gs.Facet("task", role="legitimate", nested_in=["domain"]),
        gs.Facet("judge", role="error"),
    ]
    return gs.Study(score="score", facets=facets), frame


MU_T = {"mu": {"dist": "StudentT", "nu": 4, "mu": 0.2, "sigma": 2.0}}
DESIGNS = {
    "crossed": lambda: crossed(4, 30, 1, facets=[TASK, ROLLOUT]),
    "ragged, StudentT": lambda: crossed(3, 40, 2, True, facets=[TASK, ROLLOUT], priors=MU_T),
    "controlled": lambda: crossed(
        4, 30, 3, facets=[MODE, replace(TASK, nested_in=("mode",)), ROLLOUT]
    ),
    "judge calls": lambda: judged(60, 4),
    "panel": lambda: panel(5),
    "ragged panel": lambda: panel(6, ragged=True),
    "domains": lambda: domains(7),
}
BY_TABLES = ["crossed", "ragged, StudentT", "controlled", "judge calls"]
WAYS = [(name, "tables") for name in BY_TABLES] + [(name, "grid") for name in DESIGNS]


def assessed(name: str) -> Assessment:
    study, frame = DESIGNS[name]()
    with warnings.catch_warnings():
        # Where calls or rollouts are the residual.
        warnings.simplefilter("ignore", gs.EstimabilityWarning)
        return gs.check(study, frame)


def both(found: Assessment) -> tuple[Parameterisation, Parameterisation]:
    whole = parameterise(found.cells, found.mu_prior)
    place = integrable_component(found.cells)
    assert place is not None
    return whole, without_effects(whole, found.cells, place)


def set_way(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """Integrate also where it does not pay, single cells by tables or never."""
    monkeypatch.setattr(integrable, "CELLS_A_CLASS", 0 if way == "tables" else 10**9)
    monkeypatch.setattr(integrable, "CELLS_A_PLACE", 0)


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


@pytest.mark.parametrize("sd", [0.02, 0.4, 2.0, 15.0])
@pytest.mark.parametrize("places", [1, 2, 3])
def test_the_grid_gives_the_integrals(places: int, sd: float) -> None:
    rng = np.random.default_rng(places)
    trials = rng.integers(1, 3, places).astype(float)
    eta = rng.normal(0, 1.5, places)
    passes = np.unique(rng.integers(0, trials + 1, (4, places)), axis=0)
    n_levels = rng.integers(1, 4, len(passes))
    heads = np.array([[0, places, count, trials.sum()] for count in n_levels])
    rows = np.hstack([heads, passes]).astype(float)
    index, slopes = np.arange(places, dtype=np.int32)[:, None], np.empty(places)
    together = (n_levels @ passes).astype(float)
    arguments = (index, together, trials, rows, np.log(sd), slopes)
    value, d_mu, d_log_sd = grid_pass(0.2, eta, *arguments)
    gradient = slopes.copy()
    binomial = (gammaln(trials + 1) - gammaln(passes + 1) - gammaln(trials - passes + 1)).sum(1)

    def whole(shift: Any, s: float) -> float:
        levels = [by_quadrature(k, trials, eta + shift, s) for k in passes]
        return float(n_levels @ (np.array(levels) - binomial))

    assert value == pytest.approx(whole(0.2, sd), abs=1e-9 * n_levels.sum())
    h = 1e-4
    for j in range(places):
        step = 0.2 + h * np.eye(places)[j], 0.2 - h * np.eye(places)[j]
        slope = (whole(step[0], sd) - whole(step[1], sd)) / (2 * h)
        assert gradient[j] == pytest.approx(slope, rel=1e-5, abs=1e-6)
    assert d_mu == pytest.approx(gradient.sum(), rel=1e-12)
    slope = (whole(0.2, sd * np.exp(h)) - whole(0.2, sd * np.exp(-h))) / (2 * h)
    assert d_log_sd == pytest.approx(slope, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("sd", [0.3, 2.5, 9.0])
@pytest.mark.parametrize("eta", [-60.0, -17.0, -9.0, 13.0, 40.0])
def test_unlikely_trials_have_their_integral_too(eta: float, sd: float) -> None:
    """A chain that starts far away must find its way back: value and slope are right there too."""
    passes, trials = (4.0, 5.0) if eta < 0 else (1.0, 5.0)
    binomial = gammaln(trials + 1) - gammaln(passes + 1) - gammaln(trials - passes + 1)
    index, slopes = np.zeros((1, 1), dtype=np.int32), np.empty(1)
    tables = (index, np.zeros(1), np.array([[passes, trials]]), np.log(sd), slopes)
    rows = np.array([[0.0, 1.0, 1.0, trials, passes]])
    grid = (index, np.array([passes]), np.array([trials]), rows, np.log(sd), slopes)
    h = 1e-4
    points = [(eta, sd), (eta + h, sd), (eta - h, sd)]
    points += [(eta, sd * np.exp(h)), (eta, sd * np.exp(-h))]
    known = [by_quadrature(passes, trials, *point) - binomial for point in points]
    for value, d_mu, d_log_sd in (
        marginal_pass(0.0, np.array([eta]), *tables),
        grid_pass(0.0, np.array([eta]), *grid),
    ):
        assert value == pytest.approx(known[0], abs=3e-7)
        assert d_mu == pytest.approx((known[1] - known[2]) / (2 * h), rel=1e-5, abs=1e-5)
        assert d_log_sd == pytest.approx((known[3] - known[4]) / (2 * h), rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("sd", [0.3, 2.0, 5.0])
@pytest.mark.parametrize("eta", [-5000.0, -1100.0, -700.0, 700.0, 1100.0, 5000.0])
def test_far_out_value_and_slopes_are_still_of_one_function(eta: float, sd: float) -> None:
    """There a pass has the odds ``exp(eta + u)``, whose integrals are those of a log-normal:
    ``k eta + k^2 sd^2 / 2``. Where the slopes are of something else a chain stands still."""
    k, n = np.arange(6.0), 5.0
    likely = k if eta < 0 else n - k  # what is unlikely there: passes on the left, else failures
    classes = np.column_stack([k, np.full(6, n)])
    index, slopes = np.zeros((6, 1), dtype=np.int32), np.empty(1)
    tables = (index, k, classes, np.log(sd), slopes)
    value, d_mu, d_log_sd = marginal_pass(0.0, np.array([eta]), *tables)
    known = (likely * -abs(eta) + 0.5 * likely**2 * sd**2).sum()
    assert value == pytest.approx(known, rel=1e-9)
    assert d_mu == pytest.approx(-np.sign(eta) * likely.sum(), rel=1e-6)
    assert d_log_sd == pytest.approx((likely**2).sum() * sd**2, rel=1e-5)
    found = level_integrals(eta, np.log(sd), np.column_stack([classes, np.ones(6)]))
    assert found == pytest.approx((value, d_mu, d_log_sd), rel=1e-5)


def test_levels_that_see_the_same_share_a_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    set_way(monkeypatch, "grid")
    found = assessed("panel")
    place = integrable_component(found.cells)
    assert place is not None
    assert found.cells.components[place].n_levels == 48
    patterns = patterns_of(found.cells, place)
    assert len(patterns.cells) == 3 * 24  # three judges of 24 pairs of system and task
    assert patterns.rows[:, 2].sum() == 48
    assert patterns.passes.sum() == found.cells.successes.sum()
    assert (patterns.rows[:, 2] @ patterns.rows[:, 4:]).sum() == found.cells.successes.sum()


def test_far_trajectories_end() -> None:
    classes = np.array([[1.0, 2.0]])
    arguments = (np.array([[0], [1]], dtype=np.int32), np.zeros(2), classes, 0.0, np.empty(2))
    value, _, _ = marginal_pass(0.0, np.array([-1e6, 1e6]), *arguments)
    assert value == -np.inf
    value, _, _ = marginal_pass(0.0, np.array([np.nan, 0.0]), *arguments)
    assert not np.isfinite(value)
    rows = np.array([[0.0, 2.0, 1.0, 4.0, 1.0, 1.0]])
    index, two = np.array([[0], [1]], dtype=np.int32), np.full(2, 2.0)
    for effects in ([-1e6, 1e6], [np.nan, 0.0], [np.inf, 0.0], [599.0, 599.0]):
        value, _, _ = grid_pass(0.0, np.array(effects), index, two, two, rows, 0.0, np.empty(2))
        assert not np.isfinite(value)


@pytest.mark.parametrize(("name", "way"), WAYS)
def test_the_density_is_the_joint_one_integrated(
    name: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_way(monkeypatch, way)
    found = assessed(name)
    _, reduced = both(found)
    assert reduced.integrated is not None
    assert reduced.integrated.by_tables == (way == "tables")
    posterior = direct_posterior(reduced)
    level = found.cells.index[reduced.integrated.place]
    # The same without any effects of cells: one sd less.
    place = len(reduced.random)
    plain = replace(
        reduced,
        integrated=None,
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
        parts = [level == one for one in np.unique(level)]
        own = sum(by_quadrature(k[part], n[part], eta[part], sd) for part in parts)
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
    assert reduced.integrated is not None
    prior = reduced.integrated.prior
    assert prior.dist == "HalfNormal"
    return dict(prior.parameters)["sigma"]


def _predictor(p: Parameterisation, x: np.ndarray) -> np.ndarray:
    values = direct_posterior(p).unpack(x[None])
    location = float(values["mu(swept)"][0])
    effects = [values[b.variable][0] for b in p.blocks]
    location -= sum(e @ p.weights[s] for e, s in zip(effects, p.slices(), strict=True))
    return location + np.concatenate(effects)[p.index].sum(axis=1)


@pytest.mark.parametrize(("k", "n", "eta", "sd"), [(0, 4, 2, 6), (3, 8, -1, 2), (1, 1, 0, 0.1)])
def test_effects_are_drawn_from_their_conditional(k: int, n: int, eta: float, sd: float) -> None:
    rng = np.random.default_rng(5)
    begins = 2 * np.arange(6)  # five levels of two cells, the second with another eta
    eta2, k2 = np.array([eta, eta - 1.5]), np.array([k, max(k - 1, 0)], dtype=float)
    drawn = own_effects_drawn(
        np.tile(eta2, (2000, 5)),
        np.full(2000, float(sd)),
        np.tile(k2, 5),
        np.full(10, float(n)),
        begins,
        rng,
    )
    grid = np.linspace(-12 * sd, 12 * sd, 200_001)
    log_p = -0.5 * (grid / sd) ** 2
    for a, b in zip(eta2, k2, strict=True):
        log_p += b * log_expit(a + grid) + (n - b) * log_expit(-a - grid)
    p = np.exp(log_p - log_p.max())
    below = (np.cumsum(p) - p / 2) / p.sum()
    assert stats.kstest(drawn.ravel(), lambda y: np.interp(y, grid, below)).pvalue > 0.001


@pytest.mark.slow
@pytest.mark.parametrize(("name", "way"), WAYS)
def test_the_posterior_is_that_of_sampled_effects(
    name: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from arviz import ess

    set_way(monkeypatch, way)
    found = assessed(name)
    settings = {"sampler": "direct", "progress": False, "target_accept": 0.98, "draws": 2000}
    new = gs.fit(found.study, found, seed=3, **settings)
    monkeypatch.setattr(sampling, "integrable_component", lambda _: None)
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


@pytest.mark.parametrize(("name", "own"), [("crossed", "system:task"), ("panel", "rollout")])
def test_cores_change_no_draw_and_moments_stand_for_many(
    name: str, own: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gstudy.model import large

    set_way(monkeypatch, "tables")
    found = assessed(name)
    settings = {"sampler": "direct", "progress": False, "seed": 2, "draws": 150, "tune": 300}
    with pytest.warns(gs.ConvergenceWarning):
        fits = [gs.fit(found.study, found, cores=cores, **settings) for cores in (1, 2)]
    one, two = (fit.posterior["posterior"].to_dataset() for fit in fits)
    assert one.identical(two)
    monkeypatch.setattr(large, "LARGEST_STORED", 40)
    monkeypatch.setattr("gstudy.model.recovered.LARGEST_STORED", 40)
    with pytest.warns(gs.ConvergenceWarning):
        few = gs.fit(found.study, found, **settings).posterior["posterior"]
    [own] = [c.name for c in found.cells.components if c.name.endswith(own)]
    u = one[f"u({own})"]
    assert np.allclose(few[f"u_mean({own})"], u.mean(("chain", "draw")), atol=1e-12)
    assert np.allclose(few[f"u_sd({own})"], u.std(("chain", "draw")), atol=1e-12)
    assert np.array_equal(few[f"sd({own})"], one[f"sd({own})"])


def test_where_effects_are_integrated_out() -> None:
    for name, component in (
        ("crossed", "system:task"),
        ("judge calls", "task:rollout"),
        ("panel", None),  # two cells a place
        ("domains", "domain:task"),
    ):
        cells = assessed(name).cells
        place = integrable_component(cells)
        assert (None if place is None else cells.components[place].name) == component
    study, frame = crossed(20, 60, 1, facets=[TASK, ROLLOUT])
    others = [replace(study, interactions="none"), replace(study, family="gaussian")]
    with pytest.warns(gs.EstimabilityWarning):
        whole = gs.check(study, frame)
    assert integrable_component(whole.cells) == 2
    for other in others:  # tasks have 80 trials each; graded scores
        with pytest.warns(gs.EstimabilityWarning):
            found = gs.check(other, frame)
        assert integrable_component(found.cells) is None


@pytest.mark.parametrize(("cells_a_pair", "place"), [(36, None), (60, 2)])
def test_many_trials_a_cell_need_more_cells_a_pair(cells_a_pair: int, place: int | None) -> None:
    cell = np.arange(11 * cells_a_pair)
    frame = pd.DataFrame({"system": cell % 4, "task": cell // 4, "k": cell % 11, "n": 10})
    study = gs.Study(
        successes="k", trials="n", object="system", facets=[TASK], interactions=["system:task"]
    )
    assert integrable_component(gs.check(study, frame).cells) == place
