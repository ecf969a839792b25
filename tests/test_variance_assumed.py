"""Assumed components: what may be given, and how it is marked."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
from designs import study_of, within
from sources import one

import gstudy as gs
from gstudy.errors import QuantityError
from gstudy.variance.basis import latent_of


def study(**rest: Any) -> gs.Study:
    return study_of(
        "task",
        within("rollout", "system", "task"),
        gs.Facet("judge", role="error"),
        gs.Facet("mode", role="controlled"),
        object="system",
        **rest,
    )


def test_every_table_says_that_components_are_assumed() -> None:
    vc = gs.assume(study(), {"task": 0.1, "residual": 0.14}, mean=0.6)
    design = {"task": 9, "rollout": 1, "judge": 1}
    for result in (vc, gs.variance_budget(vc, design), gs.icc(vc, "task")):
        assert "assumed" in result.table().title.lower()
        assert "Assumed components, not estimated from data." in result.notes
        assert result.table().level is None
    assert vc.assumed
    assert vc.draws.shape[:2] == (1, 1)
    frame = vc.summary()
    assert (frame["lower"] == frame["upper"]).all()
    assert (frame["sd"] == 0).all()


def test_names_may_leave_parents_out_and_interactions_may_be_given() -> None:
    vc = gs.assume(
        study(), {"rollout": 0.05, "judge:task": 0.01, "system": 0.02, "system:judge": 0.003},
        mean=0.6,
    )  # fmt: skip
    assert list(vc.rows) == ["system", "system:judge", "task:judge", "system:task:rollout"]
    assert [float(x) for x in vc.draws.values.ravel()] == [0.02, 0.003, 0.01, 0.05]


def test_trial_noise_is_what_is_given_as_residual_and_else_nothing() -> None:
    bare = gs.assume(study(), {"task": 0.1}, mean=0.6)
    assert "residual" not in bare.rows
    design = {"task": 10, "rollout": 2, "judge": 3}
    assert one(gs.variance_budget(bare, design).variance) == pytest.approx(0.01)
    noisy = gs.assume(study(), {"task": 0.1, "residual": 0.12}, mean=0.6)
    assert one(gs.variance_budget(noisy, design).variance) == pytest.approx(0.01 + 0.12 / 60)


def test_a_sum_that_is_not_m_times_one_minus_m_is_noted_not_refused() -> None:
    off = gs.assume(study(), {"task": 0.12, "rollout": 0.1016}, mean=0.7)
    assert (
        "The components add up to 0.2216; the variance of a 0/1 score with mean 0.7 is 0.21."
        in (" ".join(off.notes))
    )
    assert not any("add up" in n for n in gs.assume(study(), {"task": 0.21}, mean=0.7).notes)
    assert 0 <= one(gs.icc(off, "rollout").draws) <= 1


def test_logit_components_give_both_scales_and_score_components_one() -> None:
    logit = gs.assume(study(), {"task": 2.0}, mu=0.5, scale="logit")
    assert logit.scale == "logit"
    assert gs.variance_components(logit, scale="score").scale == "score"
    score = gs.assume(study(), {"task": 0.1}, mean=0.6)
    with pytest.raises(QuantityError, match="assumed on the score scale have no logit scale"):
        gs.variance_components(score, scale="logit")
    with pytest.raises(QuantityError, match="assumed on the score scale have no logit scale"):
        latent_of(score)
    with pytest.raises(QuantityError, match="know no system 'A'"):
        gs.variance_budget(score, {"task": 3, "rollout": 1, "judge": 1}, system="A")
    assert gs.variance_components(score, system="new").draws.equals(score.draws)


def test_effects_make_given_systems() -> None:
    vc = gs.assume(
        study(), {"task": 2.0, "system": 0.5}, mu=0.5, scale="logit", effects={"A": -1.0, "B": 1.0}
    )
    low, high, mean = (
        one(gs.variance_components(vc, scale="score", system=s).mean) for s in ("A", "B", None)
    )
    assert low < high
    assert mean == pytest.approx((low + high) / 2)
    alone = gs.assume(study(), {"task": 2.0}, mu=-0.5, scale="logit", effects={"A": 0.0})
    assert one(gs.variance_components(alone, scale="score").mean) == pytest.approx(low)


@pytest.mark.parametrize(
    ("components", "how", "message"),
    [
        ({"taks": 0.1}, {"mean": 0.6}, "'taks' is no facet. Allowed: system, task"),
        ({"taks": 0.1}, {"mean": 0.6}, "Did you mean 'task'?"),
        ({"mode": 0.1}, {"mean": 0.6}, "'mode' is controlled: it is pinned"),
        ({"rollout": 0.1, "task:rollout": 0.1}, {"mean": 0.6}, "two values are given for"),
        ({"task": -0.1}, {"mean": 0.6}, "Give variances, not standard deviations"),
        ({"task": math.nan}, {"mean": 0.6}, "numbers from 0 to 0.25"),
        ({"task": 0.26}, {"mean": 0.6}, "the variance of 'task' is not usable on the score scale"),
        ({"residual": 0.3}, {"mean": 0.6}, "the variance of 'residual' is not usable"),
        ({"task": True}, {"mean": 0.6}, "Given: True"),
        ({"task": 2e4}, {"mu": 0.0, "scale": "logit"}, "numbers from 0 to 10000"),
        ({"task": math.inf}, {"mu": 0.0, "scale": "logit"}, "Given: inf"),
        ({"task": 0.1}, {}, "components on the score scale need mean, and neither mu nor effects"),
        ({"task": 0.1}, {"mean": 1.0}, "between 0 and 1"),
        ({"task": 0.1}, {"mean": 0.6, "mu": 0.0}, "Assume scale='logit' to give mu"),
        ({"task": 0.1}, {"mean": 0.6, "effects": {"A": 1.0}}, "neither mu nor effects"),
        ({"task": 0.1}, {"scale": "logit"}, "components on the logit scale need mu, and no mean"),
        ({"task": 0.1}, {"scale": "logit", "mu": math.nan}, "a finite number"),
        ({"task": 0.1}, {"scale": "logit", "mu": 0.0, "mean": 0.5}, "need mu, and no mean"),
        ({"residual": 3.0}, {"scale": "logit", "mu": 0.0}, "always pi^2/3"),
        ({"task": 1.0}, {"scale": "logit", "mu": 0.0, "effects": {"A": math.nan}}, "effect of 'A'"),
        ({"task": 0.1}, {"scale": "points", "mean": 0.6}, "unknown scale"),
    ],
)
def test_what_cannot_be_assumed_is_refused(
    components: dict[str, float], how: dict[str, Any], message: str
) -> None:
    with pytest.raises(QuantityError, match=re.escape(message)):
        gs.assume(study(), components, **how)


def test_effects_need_an_object() -> None:
    with pytest.raises(QuantityError, match="effects are of levels of the object"):
        gs.assume(study_of("task"), {"task": 1.0}, mu=0.0, scale="logit", effects={"A": 1.0})


@pytest.mark.parametrize("components", [{}, [("task", 0.1)]])
def test_components_are_a_mapping(components: Any) -> None:
    study = gs.Study(score="passed", facets=[gs.Facet("task", role="legitimate")])
    with pytest.raises(QuantityError, match="components is no mapping of names to numbers"):
        gs.assume(study, components, mean=0.5)


def test_effects_are_a_mapping() -> None:
    study = gs.Study(score="s", object="m", facets=[gs.Facet("task", role="legitimate")])
    with pytest.raises(QuantityError, match="effects is no mapping"):
        gs.assume(study, {"task": 1.0}, mu=0.0, scale="logit", effects=["A"])
