"""Sweeping is exact: plain, partly and fully swept posteriors agree; shifts change nothing."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from models import counts, crossed, kept, nested

from gstudy.model.compiled import compile_direct
from gstudy.model.direct import direct_posterior
from gstudy.model.parameterisation import LOCATION, parameterise
from gstudy.model.sweep import recover, redraw_shifts, shifting_pairs

if TYPE_CHECKING:
    from gstudy.study.estimable import Assessment

SWEEPS: dict[str, list[str] | None] = {"plain": [], "partly": ["task", "item"], "fully": None}

# Of about 60 quantities per comparison none is beyond this many combined standard errors.
LIMIT = 5.0


def draws_of(found: Assessment, *, sweep: list[str] | None, **rest: Any) -> dict[str, np.ndarray]:
    """Posterior draws of mu, sds and effects under one way of writing the model."""
    import nutpie

    names = {c.name for c in found.components}
    chosen = None if sweep is None else [n for n in names if n.split(":")[-1] in sweep]
    p = parameterise(found.cells, found.mu_prior, sweep=chosen, **rest)
    posterior = direct_posterior(p)
    trace = nutpie.sample(
        compile_direct(posterior),
        draws=1500,
        tune=1000,
        chains=4,
        cores=2,
        seed=11,
        target_accept=0.97,
        save_warmup=False,
        progress_bar=False,
    )
    values = posterior.unpack(trace["posterior"]["x"].to_numpy())
    mu, effects = recover(p, values, np.random.default_rng(12))
    draws = {"mu": mu} | {f"sd({b.name})": values[f"sd({b.name})"] for b in p.blocks}
    for block, effect in zip(p.blocks, effects, strict=True):
        draws |= {f"{block.name}[{i}]": effect[..., i] for i in range(min(block.size, 12))}
    return draws


@cache
def plain_draws(design: Any) -> dict[str, np.ndarray]:
    """Nothing swept, standardised or weighted: the model as it is written in a textbook."""
    return draws_of(design(), sweep=SWEEPS["plain"], standardise=False, weighted=False)


def differ(one: np.ndarray, other: np.ndarray) -> list[float]:
    """Differences of mean and of mean square, in combined Monte Carlo standard errors."""
    from arviz_stats.base import array_stats

    off = []
    for moment in (1, 2):
        a, b = one**moment, other**moment
        error = np.hypot(array_stats.mcse(a, method="mean"), array_stats.mcse(b, method="mean"))
        off.append(float(abs(a.mean() - b.mean()) / error))
    return off


@pytest.mark.parametrize("design", [crossed, nested, kept])
@pytest.mark.parametrize("sweep", ["partly", "fully"])
def test_swept_posteriors_are_the_plain_one(design: Any, sweep: str) -> None:
    found = design()
    plain = plain_draws(design)
    swept = draws_of(found, sweep=SWEEPS[sweep])
    for name, values in plain.items():
        assert max(differ(values, swept[name])) < LIMIT, name


def test_recovered_means_keep_what_the_likelihood_sees() -> None:
    """mu plus the effects of a cell is the swept mean plus its effects: to rounding."""
    found = crossed()
    p = parameterise(found.cells, found.mu_prior)
    direct = direct_posterior(p)
    x = np.random.default_rng(1).normal(size=(3, 7, direct.n_free))
    values = direct.unpack(x)
    mu, effects = recover(p, values, np.random.default_rng(2))
    ends = np.concatenate(effects, axis=-1)
    swept = np.concatenate([values[b.variable] for b in p.blocks], axis=-1)
    eta = mu[..., None] + ends[..., p.index].sum(axis=-1)
    mean = values[LOCATION] - swept @ p.weights
    np.testing.assert_allclose(eta, mean[..., None] + swept[..., p.index].sum(axis=-1), atol=1e-12)


def test_redrawn_shifts_keep_the_likelihood_and_have_the_right_distribution() -> None:
    """From effects drawn from their prior, shifts lead to draws from the same prior."""
    found = crossed()
    cells, n = found.cells, 40_000
    rng = np.random.default_rng(9)
    sds = [np.full(n, sd) for sd in (0.7, 1.3, 0.9)]
    effects = [
        sd[:, None] * rng.normal(size=(n, c.n_levels))
        for sd, c in zip(sds, cells.components, strict=True)
    ]
    before = sum(e[:, i] for e, i in zip(effects, cells.index, strict=True))
    start = [e.copy() for e in effects]
    redraw_shifts(cells, sds, effects, rng, [(0, 2), (1, 2)])
    after = sum(e[:, i] for e, i in zip(effects, cells.index, strict=True))
    np.testing.assert_allclose(before, after, atol=1e-12)
    for sd, one, other in zip(sds, effects, start, strict=True):
        assert not np.array_equal(one, other)
        # Normal(0, sd^2), independent: mean within 5 standard errors, variance likewise.
        assert np.abs(one.mean(axis=0)).max() < 5 * sd[0] / n**0.5
        assert np.abs(one.var(axis=0) / sd[0] ** 2 - 1).max() < 5 * (2 / n) ** 0.5
        correlation = np.corrcoef(one[:, :5], rowvar=False) - np.eye(min(5, one.shape[1]))
        assert np.abs(correlation).max() < 5 / n**0.5


def test_only_outer_levels_that_never_or_always_pass_are_redrawn() -> None:
    assert shifting_pairs(counts([1, 2, 3], [4, 4, 4]).cells) == []
    found = crossed()
    assert found.cells.components[2].name == "system:task"
    successes = found.cells.successes.copy()
    successes[found.cells.index[0] == 0] = 0
    from dataclasses import replace

    pairs = shifting_pairs(replace(found.cells, successes=successes))
    assert (0, 2) in pairs
