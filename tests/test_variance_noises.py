"""Re-run, data and total noise."""

from __future__ import annotations

import re

import numpy as np
import pytest
from designs import study_of, within
from handmade import small_fit
from sources import logit_source, one

import gstudy as gs
from gstudy.errors import QuantityError


def panel() -> gs.VarianceComponents:
    """Tasks, rollouts in them, environments and judges crossed with both."""
    return logit_source(
        {"task": 1.4, "env": 0.5, "judge": 0.4, "task:env": 0.6, "task:env:rollout": 0.9},
        0.3,
        facets=["task", "env", "rollout", "judge"],
        nested={"rollout": ["task", "env"]},
        roles={"judge": "error"},
    )


DESIGN = {"task": 30, "env": 3, "rollout": 2, "judge": 2}


def test_the_three_noises_are_parts_of_the_budget() -> None:
    source = panel()
    found = gs.noises(source, DESIGN)
    draws = gs.variance_budget(source, DESIGN).draws
    parts = dict(zip(draws.component.values, draws.values[0, 0], strict=True))
    rerun = sum(v for name, v in parts.items() if "rollout" in name or name == "residual")
    total = rerun + sum(
        v for name, v in parts.items() if "task" in name.split(":") and "rollout" not in name
    )
    values = {kind: one(found.draws.sel(noise=kind)) for kind in ("re-run", "data", "total")}
    assert values == pytest.approx({"re-run": rerun, "data": total - rerun, "total": total})
    assert values["re-run"] == pytest.approx(one(gs.rerun_noise(source, DESIGN).draws))
    assert total < one(gs.variance_budget(source, DESIGN).variance)
    assert found.tasks == "task"
    assert found.redrawn == ("rollout",)


def test_the_tasks_may_be_another_facet() -> None:
    source = panel()
    env = gs.noises(source, DESIGN, tasks="env")
    assert env.tasks == "env"
    assert one(env.draws.sel(noise="data")) != one(
        gs.noises(source, DESIGN).draws.sel(noise="data")
    )
    assert gs.noises(source, {**DESIGN, "env": 40}).tasks == "env"
    judge = gs.noises(source, DESIGN, tasks="judge")
    assert "data: what new judges add." in str(judge)
    for tasks in ("rollout", "taks"):
        with pytest.raises(QuantityError, match=f"data noise cannot be of new levels of '{tasks}'"):
            gs.noises(source, DESIGN, tasks=tasks)


def test_what_two_scores_differ_by_is_said() -> None:
    source = panel()
    found = gs.noises(source, DESIGN)
    text = " ".join(str(found).split())
    for kind in ("re-run", "total"):
        size = 100 * 1.959964 * np.sqrt(2 * one(found.draws.sel(noise=kind)))
        assert f"Two such scores differ by up to {size:.1f} points (95%)" in text
    assert "re-run: rollouts drawn anew, the same tasks." in text
    assert text.startswith("Three noises of the score of the study, with task = 30")


def test_the_summary_has_all_three_in_score_units() -> None:
    found = gs.noises(small_fit())
    frame = found.summary(0.9)
    assert frame.index.names == ["noise", "quantity"]
    assert list(frame.columns) == ["mean", "median", "sd", "lower", "upper"]
    assert frame.attrs["scale"] == found.scale == "score"
    assert frame.attrs["level"] == 0.9
    both = frame.loc["re-run", "mean"]["variance"] + frame.loc["data", "mean"]["variance"]
    assert frame.loc["total", "mean"]["variance"] == pytest.approx(both)
    assert max(map(len, str(found).splitlines())) <= 80
    with pytest.raises(QuantityError, match="coverage is not a proportion"):
        found.difference(95)


def test_new_tasks_of_a_finite_bank_make_less_data_noise() -> None:
    def source(universe: int | None) -> gs.VarianceComponents:
        study = study_of(
            gs.Facet("task", role="legitimate", universe=universe), within("rollout", "task")
        )
        variances = {"task": 1.0, "rollout": 0.4}
        return gs.assume(study, variances, mu=0.2, scale="logit")

    design = {"task": 30, "rollout": 2}
    free, bank, all_of_it = (gs.noises(source(n), design).draws for n in (None, 40, 30))
    data = [one(draws.sel(noise="data")) for draws in (free, bank, all_of_it)]
    assert data[1] == pytest.approx(data[0] / 4)
    assert data[2] == pytest.approx(0, abs=1e-18)
    reruns = [one(draws.sel(noise="re-run")) for draws in (free, bank, all_of_it)]
    assert reruns == pytest.approx([reruns[0]] * 3)


def test_without_tasks_there_is_no_data_noise() -> None:
    study = study_of(gs.Facet("judge", role="error"))
    source = gs.assume(study, {"judge": 0.5}, mu=0.0, scale="logit")
    with pytest.raises(QuantityError, match=re.escape("tasks=<facet> of another role")):
        gs.noises(source, {"judge": 3})
    assert gs.noises(source, {"judge": 3}, tasks="judge").tasks == "judge"
