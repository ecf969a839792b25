"""Minimal detectable differences: published sample sizes, and the power that they attain."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from designs import study_of, within

import gstudy as gs
from gstudy.errors import QuantityError
from gstudy.planning.detectable import detectable_factor, power_of, smallest_count

PAIRED = study_of("task", within("rollout", "system", "task"), object="system")


def predicted(source: Any, design: Any, **how: Any) -> dict[str, float]:
    [name] = (found := gs.compare_designs(source, design, **how)).designs
    return found.summary()["mean"].loc[name].to_dict()


@pytest.mark.reference
def test_miller_needs_969_questions(oracle: Any) -> None:
    given = oracle("published")["miller"]["n_for_3_points"]
    variance = given["omega2"] + given["within"]
    how = {"coverage": 1 - given["alpha"], "power": given["power"]}
    assert smallest_count(variance, given["delta"], **how) == given["n"]
    # Of two systems each interaction with a task counts once.
    vc = gs.assume(PAIRED, {"system": 0.01, "system:task": given["omega2"] / 2}, mean=0.5)
    enough, short = (
        predicted(vc, {"task": n, "rollout": 1}, **how)["mdd"] for n in (given["n"], given["n"] - 1)
    )
    assert enough <= given["delta"] < short


@pytest.mark.reference
def test_wangs_noises_of_a_difference(oracle: Any) -> None:
    given = oracle("published")["wang_gpqa"]
    vc = gs.assume(
        PAIRED,
        {
            "system": 0.01,
            "task": 0.05,
            "system:task": given["var_diff_data"] / 2,
            "residual": given["var_diff_prediction"] / 2,
        },
        mean=0.65,
    )
    points = {}
    for runs in (1, 5):
        found = predicted(vc, {"task": 198, "rollout": runs}, system="new")
        points[runs] = 100 * found["difference"] ** 0.5
        rerun = 100 * (2 * found["rerun"]) ** 0.5
        if runs == 1:
            assert rerun == pytest.approx(given["se_points"]["SE_pred(A-B)"], abs=5e-4)
            data = (found["difference"] - 2 * found["rerun"]) ** 0.5
            assert 100 * data == pytest.approx(given["se_points"]["SE_x(A-B)"], abs=5e-4)
    assert points[1] == pytest.approx(given["se_points"]["SE(A-B), one run each"], abs=5e-4)
    assert points[5] == pytest.approx(given["se_points"]["SE(A-B), 5 runs each"], abs=5e-4)


@pytest.mark.parametrize(("coverage", "power"), [(0.95, 0.8), (0.9, 0.9), (0.99, 0.5)])
def test_the_detectable_difference_has_its_power(coverage: float, power: float) -> None:
    variance = 0.0007
    difference = detectable_factor(coverage, power) * variance**0.5
    assert power_of(np.array(difference), np.array(variance), coverage) == pytest.approx(power)
    rng, n = np.random.default_rng(1), 200_000
    z = detectable_factor(coverage, 0.5)
    found = (difference + variance**0.5 * rng.normal(size=n) > z * variance**0.5).mean()
    assert abs(found - power) < 4 * (power * (1 - power) / n) ** 0.5


def test_the_smallest_count_is_the_smallest() -> None:
    rng = np.random.default_rng(2)
    for variance, difference in rng.uniform(0.01, 0.3, (50, 2)):
        n = smallest_count(variance, difference)
        factor = detectable_factor()
        assert factor * (variance / n) ** 0.5 <= difference * (1 + 1e-9)
        assert n == 1 or factor * (variance / (n - 1)) ** 0.5 > difference
    assert smallest_count(0.0, 0.1) == 1


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"variance": 0.1, "difference": 0.0}, "difference to be found"),
        ({"variance": -0.1, "difference": 0.1}, "difference to be found"),
        ({"variance": 0.1, "difference": True}, "difference to be found"),
        ({"variance": 0.1, "difference": 0.1, "power": 1.0}, "power is not a proportion"),
        ({"variance": 0.1, "difference": 0.1, "coverage": 95}, "coverage is not a proportion"),
        ({"variance": 0.1, "difference": 0.1, "power": 0.01}, "so little power"),
    ],
)
def test_bad_input_is_refused(how: dict[str, Any], message: str) -> None:
    with pytest.raises(QuantityError, match=message):
        smallest_count(how.pop("variance"), how.pop("difference"), **how)
