"""Banks with many unseen levels: the closed form against enumeration and against the kernel."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from designs import grid, study_of, within
from sources import fitted

import gstudy as gs
from gstudy.fits.fitted import Fit
from gstudy.questions.banks import INTEGRATED, Levels, bank_mean, group_means
from gstudy.questions.finite_banks import ENUMERATED, bank_levels
from gstudy.variance.basis import latent_of
from gstudy.variance.kernel import logistic_covariance, logistic_mean

DRAWS = (2, 700)


def rms(deviation: np.ndarray) -> float:
    return float(np.sqrt(np.mean(deviation**2)))


def task_bank(universe: int, **rest: Any) -> Fit:
    """Two systems x tasks with their interaction."""
    task = gs.Facet("task", role="legitimate", universe=universe, **rest)
    study = study_of(
        task,
        within("rollout", "system", "task"),
        object="system",
        interactions="auto" if rest else ["system:task"],
    )
    rows = grid({"system": "AB", "task": ["t0", "t1", "t2"], "rollout": range(3)})
    return fitted(study, rows, shape=DRAWS)


def closed(fit: Fit, label: str | None) -> Levels:
    levels = bank_levels(fit, latent_of(fit), label)
    assert levels is not None
    return levels


def enumerated(fit: Fit, sizes: dict[str, int], seen: dict[str, list[str]]) -> Levels:
    """Every level of a crossed bank, one by one."""
    labels = [[*seen[f], *range(n - len(seen[f]))] for f, n in sizes.items()]
    rows = tuple(itertools.product(*labels))
    return Levels(tuple(sizes), rows, np.full(len(rows), 1 / len(rows)))


def exact(levels: Levels) -> Levels:
    """The same bank with the mean over new levels in place of every unseen one."""
    weights: dict[tuple[Any, ...], float] = {}
    for row, weight in zip(levels.labels, levels.weights.tolist(), strict=True):
        key = tuple(own if isinstance(own, str) else INTEGRATED for own in row)
        weights[key] = weights.get(key, 0.0) + weight
    return Levels(levels.facets, tuple(weights), np.array(list(weights.values())))


def deviations(fit: Fit, label: str | None, levels: Levels, seed: int) -> np.ndarray:
    """The bank's mean less its expectation given the seen levels, per draw."""
    known = bank_mean(fit, label, exact(levels), 0)
    return np.asarray(bank_mean(fit, label, levels, seed) - known).ravel()


def agree(fit: Fit, label: str | None, every: Levels) -> None:
    """Mean and sd of the closed form are those of enumeration within Monte Carlo error."""
    levels = closed(fit, label)
    assert len(levels.labels) < len(every.labels)
    assert levels.weights.sum() == pytest.approx(1, abs=1e-12)
    np.testing.assert_allclose(
        bank_mean(fit, label, exact(levels), 0),
        bank_mean(fit, label, exact(every), 0),
        atol=1e-12,
    )
    short = np.concatenate([deviations(fit, label, levels, seed) for seed in (1, 2)])
    full = deviations(fit, label, every, 3)
    assert abs(short.mean()) < 4 * rms(short) / short.size**0.5
    # Kurtosis from draws of unlike sds: an error twice that of a normal's sd.
    error = 2 * np.sqrt(1 / (2 * short.size) + 1 / (2 * full.size))
    assert rms(short) / rms(full) == pytest.approx(1, abs=4 * error)


def test_many_unseen_tasks_have_the_mean_and_variance_of_the_kernel() -> None:
    fit = task_bank(10**6)
    own = {x: fit.mu + fit.effects("system").sel(system=x).values for x in "AB"}
    shared = fit.sd("task") ** 2
    total = shared + fit.sd("system:task") ** 2
    unseen = 10**6 - 3
    z = {}
    for label in "AB":
        levels = closed(fit, label)
        # 3 tasks that were run, those that are drawn, and the mean over all others.
        assert len(levels.labels) == 3 + ENUMERATED + 1
        variance = logistic_covariance(own[label], own[label], total, total, total)
        sd = np.sqrt(variance * unseen) / 10**6
        z[label] = deviations(fit, label, levels, 5) / sd.ravel()
        n = z[label].size
        assert abs(z[label].mean()) < 4 / n**0.5
        assert z[label].std() == pytest.approx(1, abs=4 / (2 * n) ** 0.5)
    # The two meet the same new tasks, and each its own interaction with them.
    both = logistic_covariance(own["A"], own["B"], total, total, shared)
    alone = [logistic_covariance(own[x], own[x], total, total, total) for x in "AB"]
    correlation = (both / np.sqrt(alone[0] * alone[1])).mean()
    assert (z["A"] * z["B"]).mean() == pytest.approx(correlation, abs=4 * 1.5 / n**0.5)


def test_the_closed_form_of_one_facet_agrees_with_enumeration() -> None:
    size = ENUMERATED + 500
    fit = task_bank(size)
    agree(fit, "A", enumerated(fit, {"task": size}, {"task": ["t0", "t1", "t2"]}))
    fit = task_bank(size, varies="system")
    agree(fit, "B", enumerated(fit, {"task": size}, {"task": ["t0", "t1", "t2"]}))


def test_up_to_the_threshold_every_level_is_drawn() -> None:
    fit = task_bank(ENUMERATED + 3)
    levels = closed(fit, "A")
    assert len(levels.labels) == ENUMERATED + 3
    np.testing.assert_allclose(levels.weights, 1 / (ENUMERATED + 3))
    beyond = closed(task_bank(ENUMERATED + 4), "A")
    assert beyond.weights[-1] == pytest.approx(1 - (ENUMERATED / (ENUMERATED + 1)) ** 0.5, rel=0.01)


def test_two_crossed_banks_agree_with_enumeration() -> None:
    study = study_of(
        gs.Facet("task", role="legitimate", universe=120),
        gs.Facet("prompt", role="legitimate", universe=90),
        within("rollout", "task", "prompt"),
        interactions=["task:prompt"],
    )
    rows = grid({"task": "ab", "prompt": "pq", "rollout": range(4)})
    fit = fitted(study, rows, shape=(1, 400))
    seen = {"task": ["a", "b"], "prompt": ["p", "q"]}
    agree(fit, None, enumerated(fit, {"task": 120, "prompt": 90}, seen))


def test_a_nested_bank_agrees_with_enumeration() -> None:
    study = study_of(
        gs.Facet("domain", role="legitimate", universe=100),
        gs.Facet("task", role="legitimate", nested_in=["domain"], universe=100),
        within("rollout", "domain", "task"),
    )
    fit = fitted(study, grid({"domain": "xy", "task": "12", "rollout": "ab"}), shape=(1, 400))
    rows: list[tuple[Any, ...]] = []
    for domain in ["x", "y", *range(98)]:
        own = ["1", "2", *range(98)] if isinstance(domain, str) else range(100)
        rows += [(domain, task) for task in own]
    every = Levels(("domain", "task"), tuple(rows), np.full(10_000, 1e-4))
    agree(fit, None, every)
    # A domain that is averaged over has all its tasks averaged over.
    assert (INTEGRATED, INTEGRATED) in closed(fit, None).labels


def test_controlled_levels_share_the_unseen_tasks() -> None:
    study = study_of(
        gs.Facet("task", role="legitimate", universe=2_000),
        gs.Facet("prompt", role="controlled"),
        within("rollout", "task", "prompt"),
        interactions=["task:prompt"],
    )
    rows = grid({"task": "abc", "prompt": "pq", "rollout": "12"})
    fit = fitted(study, rows, shape=(1, 500))
    seen = {"task": ["a", "b", "c"], "prompt": ["p", "q"]}
    agree(fit, None, enumerated(fit, {"task": 2_000, "prompt": 2}, seen))


def test_graded_scores_and_what_is_left_open_have_closed_forms_too() -> None:
    study = study_of(
        gs.Facet("task", role="legitimate", universe=5_000), within("rollout", "task"),
        family="gaussian",
    )  # fmt: skip
    rows = grid({"task": "abcd", "rollout": "12"})
    rows["score"] = np.arange(8.0) % 3
    fit = fitted(study, rows, shape=(2, 700))
    own = fit.sd("task").ravel() * np.sqrt(4_996) / 5_000
    z = deviations(fit, None, closed(fit, None), 1) / own
    assert z.std() == pytest.approx(1, abs=4 / (2 * z.size) ** 0.5)
    study = study_of(
        gs.Facet("task", role="legitimate", universe=10**6), "env", interactions=["task:env"],
        score=None, successes="k", trials="n",
    )  # fmt: skip
    table = grid({"task": "abc", "env": "xy"}).assign(k=1, n=3).drop(columns="score")
    fit = fitted(study, table, shape=(2, 200))
    left = fit.sd("env") ** 2 + fit.sd("task:env") ** 2
    total = left + fit.sd("task") ** 2
    variance = logistic_covariance(fit.mu, fit.mu, total, total, fit.sd("task") ** 2)
    z = deviations(fit, None, closed(fit, None), 1) / np.sqrt(variance / 10**6).ravel()
    assert z.std() == pytest.approx(1, abs=4 / (2 * z.size) ** 0.5)


def test_a_bank_of_any_size_is_scored_and_compared() -> None:
    fit = task_bank(10**12)
    found = gs.score(fit)
    total = fit.sd("task") ** 2 + fit.sd("system:task") ** 2
    for label in "AB":
        new = logistic_mean(fit.mu + fit.effects("system").sel(system=label).values, total)
        np.testing.assert_allclose(found.draws.sel(system=label), new, atol=1e-5)
    assert "this bank of 1,000,000,000,000 tasks" in found.estimand
    difference = gs.compare_systems(fit, "A", "B", seed=1).draws
    assert np.isfinite(difference.values).all()


def test_one_seed_gives_one_bank() -> None:
    fit = task_bank(10**6)
    levels = closed(fit, "A")
    one = group_means(fit, "A", levels, levels.weights[:, None], 3)
    np.testing.assert_array_equal(one, group_means(fit, "A", levels, levels.weights[:, None], 3))
    assert (one != group_means(fit, "A", levels, levels.weights[:, None], 4)).any()
