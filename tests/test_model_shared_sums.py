"""Sums that cells share: what each cell sees is unchanged, and so is its way back."""

from __future__ import annotations

import numpy as np
import pytest
from models import DESIGNS, crossed

from gstudy.model.direct import direct_posterior
from gstudy.model.parameterisation import parameterise
from gstudy.model.shared_sums import NO_EFFECT, add_back, add_up, shared_sums
from gstudy.model.unrolled import add_effects, add_residuals


def _index(codes: list[np.ndarray], sizes: list[int]) -> np.ndarray:
    """Levels of each component to places in effects laid end to end."""
    begin = np.cumsum([0, *sizes[:-1]])
    return np.ascontiguousarray(np.array(codes).T + begin, dtype=np.int32)


def _nested(n_cells: int = 3000) -> np.ndarray:
    """3 systems x 40 tasks x 4 judges: all main effects and pairs, cells drawn at random."""
    rng = np.random.default_rng(1)
    s, t, j = (rng.integers(k, size=n_cells) for k in (3, 40, 4))
    pairs = [s * 40 + t, s * 4 + j, t * 4 + j]
    return _index([s, t, j, *pairs], [3, 40, 4, 120, 12, 160])


def _random(n_components: int, n_cells: int = 500) -> np.ndarray:
    rng = np.random.default_rng(n_components)
    sizes = rng.integers(2, 60, n_components).tolist()
    return _index([rng.integers(k, size=n_cells) for k in sizes], sizes)


@pytest.mark.parametrize("index", [_nested(), *(_random(k) for k in range(1, 10))])
def test_cells_see_the_same_sums_of_effects(index: np.ndarray) -> None:
    effects = np.random.default_rng(2).normal(size=index.max() + 1)
    found = shared_sums(index)
    eta = np.zeros(len(index))
    add_effects(add_up(effects, found.rows), found.index, eta)
    np.testing.assert_allclose(eta, effects[index].sum(axis=1), rtol=0, atol=1e-13)


@pytest.mark.parametrize("index", [_nested(), *(_random(k) for k in range(1, 10))])
def test_the_way_back_is_the_transpose(index: np.ndarray) -> None:
    n_effects = int(index.max()) + 1
    residuals = np.random.default_rng(3).normal(size=len(index))
    found = shared_sums(index)
    d_sums = np.zeros(len(found.rows) or n_effects)
    add_residuals(residuals, found.index, d_sums)
    expected = np.zeros(n_effects)
    np.add.at(expected, index, residuals[:, None])
    back = add_back(d_sums, found.rows, n_effects)
    np.testing.assert_allclose(back, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("n_cells", "columns"), [(3000, 1), (600, 3)])
def test_what_lies_in_a_level_is_added_up_with_it(n_cells: int, columns: int) -> None:
    """3,000 cells have 480 combinations, each of which is one sum of six effects; of 600 cells the
    main effects and the 12 pairs of system and judge go into the larger pairs."""
    index = _nested(n_cells)
    found = shared_sums(index)
    assert found.index.shape[1] == columns
    additions = int((found.rows != NO_EFFECT).sum()) + found.index.size
    assert additions < (index.size if columns == 1 else 0.65 * index.size)


def test_nothing_is_added_up_where_that_saves_nothing() -> None:
    """Two crossed components, with every combination once."""
    a, b = np.meshgrid(range(30), range(20), indexing="ij")
    index = _index([a.ravel(), b.ravel()], [30, 20])
    found = shared_sums(index)
    assert found.rows.shape == (0, 0)
    assert found.index is index
    effects = np.arange(50.0)
    assert add_up(effects, found.rows) is effects or (add_up(effects, found.rows) == effects).all()


@pytest.mark.parametrize("design", [*DESIGNS])
def test_sums_leave_the_posterior_as_it_is(design: str) -> None:
    """The density from the effects themselves: rows that add up one effect each."""
    found = DESIGNS[design]()
    p = parameterise(found.cells, found.mu_prior)
    posterior = direct_posterior(p)
    plain = list(posterior.arguments)
    at = next(i for i, a in enumerate(plain) if a.dtype == np.int32)  # the index
    plain[at - 1], plain[at] = np.zeros((0, 0), dtype=np.int64), p.index
    from gstudy.model.direct import log_posterior

    rng = np.random.default_rng(4)
    for _ in range(3):
        x = rng.normal(0, 0.5, posterior.n_free)
        value, gradient = posterior(x)
        alone, slope = log_posterior(x, *plain)
        assert value == pytest.approx(alone, rel=1e-12)
        np.testing.assert_allclose(gradient, slope, rtol=1e-9, atol=1e-9)


def test_a_design_of_main_effects_and_one_pair_has_two_columns_at_most() -> None:
    found = crossed()
    p = parameterise(found.cells, found.mu_prior)
    assert shared_sums(p.index).index.shape[1] <= 2
