"""One log-posterior, written three ways: value and gradient to 1e-9 (1 + |log p|)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from models import DESIGNS, agree, crossed, nested, shape_of, slopes_agree, tolerance
from pytensor.configdefaults import config

from gstudy.model.direct import direct_posterior, spread
from gstudy.model.fused import FusedBinomial
from gstudy.model.graph import model_of
from gstudy.model.likelihood import binomial_pass
from gstudy.model.parameterisation import parameterise

POINTS = 100
SWEEPS = {"all": None, "none": [], "some": ["task", "subtest", "system:task"]}


@pytest.mark.parametrize("design", DESIGNS)
def test_direct_is_the_pymc_model(design: str) -> None:
    agree(shape_of(DESIGNS[design]()), POINTS)


@pytest.mark.parametrize(
    "design",
    ["crossed", *(pytest.param(d, marks=pytest.mark.slow) for d in DESIGNS if d != "crossed")],
)
def test_so_it_is_when_compiled_as_for_sampling(design: str) -> None:
    agree(shape_of(DESIGNS[design]()), POINTS, numba=True)


@pytest.mark.slow
@pytest.mark.parametrize("standardise", [True, False])
@pytest.mark.parametrize("sweep", SWEEPS)
@pytest.mark.parametrize("design", DESIGNS)
def test_direct_is_the_pymc_model_however_swept(design: str, sweep: str, standardise: bool) -> None:
    agree(shape_of(DESIGNS[design]()), POINTS, sweep=SWEEPS[sweep], standardise=standardise)


@pytest.mark.parametrize("sweep", SWEEPS)
@pytest.mark.parametrize("design", DESIGNS)
def test_the_direct_gradient_is_that_of_the_value(design: str, sweep: str) -> None:
    found = DESIGNS[design]()
    direct = direct_posterior(parameterise(found.cells, found.mu_prior, sweep=SWEEPS[sweep]))
    slopes_agree(direct, np.random.default_rng(8).normal(size=direct.n_free))


def logits(mean: Any, effects: Any, index: np.ndarray) -> Any:
    return mean + effects[index].sum(axis=-1)


def test_the_op_is_pymcs_binomial() -> None:
    import pymc as pm

    found = crossed()
    p = parameterise(found.cells, found.mu_prior)
    mean, effects = pt.dscalar("mean"), pt.dvector("effects")
    ours = FusedBinomial()(mean, effects, p.index, p.successes, p.trials)[0] + p.log_coefficients
    binomial = pm.Binomial.dist(p.trials.astype(int), logit_p=logits(mean, effects, p.index))
    theirs = pm.logp(binomial, p.successes.astype(int)).sum()
    both = [[value, *pytensor.grad(value, [mean, effects])] for value in (ours, theirs)]
    with config.change_flags(numba__fastmath=False):
        compiled = pytensor.function([mean, effects], [*both[0], *both[1]])
    rng = np.random.default_rng(6)
    for _ in range(POINTS):
        values = compiled(rng.normal(), 1.5 * rng.normal(size=len(p.weights)))
        for mine, other in zip(values[:3], values[3:], strict=True):
            np.testing.assert_allclose(mine, other, rtol=0, atol=tolerance(float(values[0])))


@pytest.mark.parametrize("design", [crossed, nested])
def test_cells_are_their_rows(design: Any) -> None:
    """The likelihood of counts is that of single trials, apart from the binomial coefficients."""
    found = design()
    p = parameterise(found.cells, found.mu_prior)
    rows = np.repeat(np.arange(len(p.trials)), p.trials.astype(int))
    scores = np.concatenate(
        [np.arange(n) < k for k, n in zip(p.successes, p.trials.astype(int), strict=True)]
    ).astype(float)
    assert len(rows) == found.n_trials
    rng = np.random.default_rng(4)
    for _ in range(POINTS):
        mean, effects = rng.normal(), rng.normal(size=len(p.weights))
        slopes = [np.empty_like(effects), np.empty_like(effects)]
        cells = binomial_pass(mean, effects, p.index, p.successes, p.trials, slopes[0])
        ones = np.ones(len(rows))
        single = binomial_pass(mean, effects, p.index[rows], scores, ones, slopes[1])
        np.testing.assert_allclose(cells, single, rtol=0, atol=tolerance(cells[0]))
        np.testing.assert_allclose(*slopes, rtol=0, atol=tolerance(cells[0]))


@pytest.mark.parametrize("mean", [-800.0, -40.0, 0.0, 40.0, 800.0])
def test_the_likelihood_stays_finite_far_out(mean: float) -> None:
    slope = np.empty(1)
    index = np.zeros((2, 1), dtype=np.int32)
    value, d_mean = binomial_pass(
        mean, np.zeros(1), index, np.array([0.0, 3.0]), np.array([5.0, 3.0]), slope
    )
    # log p = -5 softplus(mean) - 3 softplus(-mean), its slope -5 expit(mean) + 3 expit(-mean).
    assert value == pytest.approx(-5 * np.logaddexp(0, mean) - 3 * np.logaddexp(0, -mean))
    expit = np.exp(-np.logaddexp(0, -mean))
    assert d_mean == pytest.approx(-5 * expit + 3 * (1 - expit))
    assert slope[0] == d_mean


def test_spread_is_an_isometry_onto_vectors_that_sum_to_zero() -> None:
    free = np.random.default_rng(3).normal(size=(7, 5))
    full = spread(free)
    np.testing.assert_allclose(full.sum(axis=-1), 0.0, atol=1e-14)
    np.testing.assert_allclose(full @ full.T, free @ free.T, atol=1e-13)


def test_every_free_variable_reaches_the_likelihood_and_the_prior_can_be_drawn() -> None:
    import pymc as pm
    from pytensor.graph.traversal import ancestors

    found = crossed()
    model = model_of(parameterise(found.cells, found.mu_prior), found.cells)
    (observed,) = model.observed_RVs
    reached = set(ancestors([observed]))
    assert all(variable in reached for variable in model.free_RVs)
    with model:
        prior = pm.sample_prior_predictive(
            draws=50, random_seed=1, compile_kwargs={"mode": "FAST_COMPILE"}
        )
    drawn = prior["prior_predictive"]["successes"].to_numpy()
    assert drawn.shape == (1, 50, len(found.cells.trials))
    assert ((drawn >= 0) & (drawn <= found.cells.trials)).all()
    assert len(np.unique(drawn)) > 2
