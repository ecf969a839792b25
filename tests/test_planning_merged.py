"""Bounds of designs that separate a merged component: every split of it lies between them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from designs import study_of, within
from sources import fitted

import gstudy as gs
from gstudy.errors import QuantityError
from gstudy.planning.merged import bounds_of
from gstudy.variance.basis import basis_of

JUDGE = gs.Facet("judge", role="error")


def nested_fit() -> Any:
    """One rollout per task, scored by several judges: task + task:rollout."""
    study = study_of("task", within("rollout", "task"), JUDGE)
    rows = [
        {"task": t, "rollout": 0, "judge": j, "score": (t + j) % 2}
        for t in range(8)
        for j in range(3)
    ]
    return fitted(study, rows, shape=(1, 20))


def crossed_fit() -> Any:
    """Each task has a grader of its own: task + grader."""
    study = study_of("task", gs.Facet("grader", role="error"), within("rollout", "task", "grader"))
    rows = [
        {"task": t, "grader": t, "rollout": r, "score": (t + r) % 2}
        for t in range(6)
        for r in range(5)
    ]
    return fitted(study, rows, shape=(1, 20))


def split_variance(fit: Any, shares: dict[str, float], merged: str, design: Any) -> np.ndarray:
    """Variance under a design if the merged component were divided so, from assumed components."""
    posterior = fit.posterior["posterior"]
    found = []
    for draw in range(fit.mu.size):
        known = {
            c.name: float(posterior[f"sd({c.name})"].values.ravel()[draw]) ** 2
            for c in fit.design.components
        }
        whole = known.pop(merged)
        parts = {name: share * whole for name, share in shares.items()}
        vc = gs.assume(fit.study, {**known, **parts}, mu=float(fit.mu.ravel()[draw]), scale="logit")
        found.append(gs.variance_budget(vc, design).variance.values.item())
    return np.array(found)


def ends(fit: Any, design: Any) -> tuple[np.ndarray, np.ndarray]:
    found = gs.compare_designs(fit, {"x": design}, bounds=True)
    variance = found.draws.sel(quantity="variance")
    return tuple(
        variance.sel(design=f"x ({end})").values.ravel() for end in ("at least", "at most")
    )


def test_tasks_with_one_rollout_reach_both_bounds() -> None:
    fit, design = nested_fit(), {"task": 20, "rollout": 3, "judge": 2}
    name = "task + task:rollout"
    assert name in [component.name for component in fit.design.components]
    low, high = ends(fit, design)
    for share in (0.0, 0.3, 0.8, 1.0):
        parts = {"task": share, "task:rollout": 1 - share}
        found = split_variance(fit, parts, name, design)
        assert (found >= low * (1 - 1e-9)).all()
        assert (found <= high * (1 + 1e-9)).all()
        if share in (0.0, 1.0):
            assert found == pytest.approx(high if share else low, rel=1e-9)


def test_tasks_with_their_own_graders_lie_between_the_bounds() -> None:
    fit, design = crossed_fit(), {"task": 12, "grader": 4, "rollout": 2}
    low, high = ends(fit, design)
    worst = []
    for share in (0.0, 0.5, 1.0):
        parts = {"task": share, "grader": 1 - share}
        found = split_variance(fit, parts, "task + grader", design)
        assert (found >= low).all()
        assert (found <= high * (1 + 1e-9)).all()
        worst.append(found)
    # All of it in the facet with the fewest levels.
    assert np.max(worst, axis=0) == pytest.approx(high, rel=1e-9)


def test_designs_as_collected_need_no_bounds() -> None:
    fit = crossed_fit()
    assert bounds_of(basis_of(fit), {"task": 9, "grader": 9, "rollout": 2}) is None
    found = gs.compare_designs(fit, {"task": 9, "grader": 9, "rollout": 2}, bounds=True)
    assert list(found.designs) == ["9 task x 9 grader x 2 rollout"]


def test_the_error_says_the_bounds() -> None:
    fit, design = nested_fit(), {"task": 20, "rollout": 3, "judge": 2}
    low, high = (1.959964 * np.sqrt(v).mean() for v in ends(fit, design))
    message = f"half-width of this one lies between {low:.4g} and {high:.4g}: bounds=True"
    with pytest.raises(QuantityError, match=message):
        gs.compare_designs(fit, design)


def test_what_has_no_bounds_is_named() -> None:
    found = gs.compare_designs(
        nested_fit(),
        {"x": {"task": 20, "rollout": 3, "judge": 2}, "y": {"task": 20, "rollout": 1, "judge": 2}},
        bounds=True,
        target=0.1,
    )
    assert list(found.designs) == ["x (at least)", "x (at most)", "y"]
    assert list(found.trials.values()) == [120, 120, 40]
    assert any(
        "Left out of x: re-runs" in note and "'task + task:rollout' is one component" in note
        for note in found.notes
    )


def test_other_merged_components_stay() -> None:
    basis = basis_of(crossed_fit())
    held = bounds_of(basis, {"task": 12, "grader": 4, "rollout": 2})
    assert held is not None
    assert held.names == ("task + grader",)
    names = [set(vc.draws.coords["component"].values) for vc in held.most]
    assert [("task" in n, "grader" in n) for n in names] == [(True, False), (False, True)]
    total = gs.variance_components(crossed_fit()).draws.sum("component").values
    for vc in (held.least, *held.most):
        assert vc.draws.sum("component").values == pytest.approx(total, rel=1e-9)


def test_a_merged_object_has_no_bounds() -> None:
    rollout = within("rollout", "system", "task")
    study = study_of(gs.Facet("harness", role="error"), "task", rollout, object="system")
    rows = [
        {"system": s, "harness": s, "task": t, "rollout": r, "score": (s + t) % 2}
        for s in range(3)
        for t in range(5)
        for r in range(2)
    ]
    fit = fitted(study, rows, shape=(1, 10))
    design = {"harness": 2, "task": 10, "rollout": 2}
    with pytest.raises(QuantityError, match="no bound of a design"):
        gs.compare_designs(fit, design, bounds=True)


@pytest.mark.parametrize("bounds", ["x", {"task": (1, 5)}, 1, None])
def test_bounds_is_true_or_false(bounds: Any) -> None:
    with pytest.raises(QuantityError, match=r"bounds says whether.*True or False"):
        gs.compare_designs(crossed_fit(), {"task": 9, "grader": 9, "rollout": 2}, bounds=bounds)
