"""Fits in which each system has its own sds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from designs import grid, study_of, within
from sources import fitted

import gstudy as gs
from gstudy.errors import QuantityError
from gstudy.variance.basis import latent_of
from gstudy.variance.kernel import logistic_covariance, logistic_mean


@pytest.fixture(scope="module")
def own() -> Any:
    """Three systems, own task and rollout sds, shared judge sds."""
    table = grid({"system": "ABC", "task": range(8), "rollout": range(3), "judge": "xy"})
    study = study_of(
        gs.Facet("task", role="legitimate", varies="system"),
        gs.Facet("rollout", role="legitimate", nested_in=["system", "task"], varies="system"),
        gs.Facet("judge", role="error"),
        object="system",
        interactions="none",
    )
    return fitted(study, table, shape=(2, 20))


def test_own_sds_become_the_variances_of_a_given_system(own: Any) -> None:
    latent = latent_of(own)
    assert [o.index_set for o in latent.own] == [
        frozenset({"task"}),
        frozenset({"task", "rollout"}),
    ]
    assert latent.own[0].correlation is not None
    assert latent.own[0].correlation.shape == (3, 3, 2, 20)
    assert latent.own[1].correlation is None
    given = latent.given("B")
    assert given.own == ()
    assert given.names == ("judge", "task", "task:rollout")
    variances = dict(zip(given.names, given.variances, strict=True))
    np.testing.assert_array_equal(variances["task"], own.own_sd("task", "B") ** 2)
    rollout = own.own_sd("rollout", "B") ** 2
    np.testing.assert_array_equal(variances["task:rollout"], rollout)


def test_the_numbers_of_one_system_come_from_its_own_variances(own: Any) -> None:
    mean = own.mu + own.effects("system").sel(system="B").values
    task, rollout = (own.own_sd(name, "B") ** 2 for name in ("task", "rollout"))
    total = task + rollout + own.sd("judge") ** 2
    expected = logistic_mean(mean, total)
    shared = logistic_covariance(mean, mean, total, total, task)
    icc = gs.icc(own, "task", system="B")
    np.testing.assert_allclose(icc.draws.values, shared / (expected * (1 - expected)), rtol=1e-8)
    assert "judge: the sd is shared by all levels of system." in icc.notes
    for function in (gs.variance_components, gs.variance_budget, gs.rerun_noise, gs.noises):
        assert "system B" in function(own, system="B").estimand
    parts = [gs.variance_budget(own, system=label).variance.values for label in "ABC"]
    np.testing.assert_allclose(
        gs.variance_budget(own).variance.values, np.mean(parts, axis=0), rtol=1e-12
    )
    iccs = [gs.icc(own, "task", system=label).draws.values for label in "ABC"]
    np.testing.assert_allclose(gs.icc(own, "task").draws.values, np.mean(iccs, axis=0), rtol=1e-12)


def test_a_new_system_needs_shared_sds(own: Any) -> None:
    said = "each system has its own sd of task, system:task:rollout here"
    for call in (
        lambda: gs.variance_components(own, system="new"),
        lambda: gs.variance_budget(own, {"task": 9, "rollout": 2, "judge": 2}, system="new"),
        lambda: gs.phi(own),
        lambda: gs.generalizability(own),
        lambda: gs.sem(own),
    ):
        with pytest.raises(QuantityError, match=said) as refused:
            call()
        assert "Fit the study without varies = 'system'" in str(refused.value)


def test_own_sds_of_tasks_nested_in_controlled_levels() -> None:
    table = grid({"domain": "ab", "system": "AB", "task": range(5), "rollout": range(3)})
    study = study_of(
        gs.Facet("domain", role="controlled"),
        gs.Facet("task", role="legitimate", nested_in=["domain"], varies="system"),
        within("rollout", "system", "task"),
        object="system",
    )
    fit = fitted(study, table, shape=(2, 10))
    latent = latent_of(fit)
    assert latent.own[0].index_set == frozenset({"task"})
    assert latent.own[0].held == frozenset({"domain"})
    assert latent.given("A").held[-1] == frozenset({"domain"})
    budget = gs.variance_budget(fit, system="A")
    assert list(budget.rows) == ["domain:task", "residual"]
    assert (budget.variance.values > 0).all()
