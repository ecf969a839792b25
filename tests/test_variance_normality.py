"""Whether effects are normal: the ICC of the very levels fitted, and the note of `gs.icc`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from designs import study_of, within
from scipy.stats import norm
from sources import fitted

import gstudy as gs
from gstudy.fits.fitted import Fit
from gstudy.variance.basis import basis_of
from gstudy.variance.normality import bank_icc, fitted_rates

N_TASKS = 400


def with_effects(effects: np.ndarray, sd: float) -> Fit:
    """A fit of tasks whose effects are known, with little posterior noise."""
    rows = [{"task": t, "rollout": r, "score": (t + r) % 2} for t in range(N_TASKS) for r in (0, 1)]
    fit = fitted(study_of("task", within("rollout", "task")), rows, shape=(2, 100))
    posterior = fit.posterior["posterior"]
    rng = np.random.default_rng(1)
    posterior["mu"][:] = 0.01 * rng.standard_normal((2, 100))
    posterior["sd(task)"][:] = sd * (1 + 0.03 * rng.standard_normal((2, 100)))
    posterior["u(task)"][:] = effects + 0.01 * rng.standard_normal((2, 100, N_TASKS))
    return fit


def said(fit: Any, **how: Any) -> list[str]:
    return [note for note in gs.icc(fit, "task", **how).notes if "not normal" in note]


def test_normal_effects_need_no_note() -> None:
    fit = with_effects(2.0 * norm.ppf((np.arange(N_TASKS) + 0.5) / N_TASKS), 2.0)
    rates = fitted_rates(fit, basis_of(fit), frozenset({"task"}))
    assert rates is not None
    # Quantiles of a normal distribution have the ICC of the kernel.
    model = float(gs.icc(fit, "task").draws.mean())
    assert float(bank_icc(rates).mean()) == pytest.approx(model, abs=0.01)
    assert not said(fit)


def test_two_groups_of_tasks_have_a_note_with_their_icc() -> None:
    # Half of the tasks at 0.27, half at 0.73: Var(p) / (m (1 - m)) = (2 * 0.731 - 1)^2.
    fit = with_effects(np.where(np.arange(N_TASKS) % 2, 1.0, -1.0), 2.0)
    (note,) = said(fit)
    assert f"{np.tanh(0.5) ** 2:.3f}" in note
    assert "gs.posterior_check(fit)" in note
    assert "gs.convergence" in note
    # It is of the score scale, and of a fit.
    assert not said(fit, scale="logit")
    assert not said(gs.variance_components(fit))


def test_where_other_facets_vary_nothing_is_said() -> None:
    study = study_of("task", gs.Facet("judge", role="error"), within("rollout", "task"))
    rows = [
        {"task": t, "judge": j, "rollout": r, "score": (t + j + r) % 2}
        for t in range(6)
        for j in range(3)
        for r in range(2)
    ]
    fit = fitted(study, pd.DataFrame(rows), shape=(1, 20))
    assert fitted_rates(fit, basis_of(fit), frozenset({"task"})) is None
    assert not said(fit)
