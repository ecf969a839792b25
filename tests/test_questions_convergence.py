"""Convergence curves: parts of the trials, ICC of a bank, where widths stay; refits (slow)."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import gstudy as gs
from gstudy.questions.convergence_curves import LIKE_THESE, THESE, Convergence
from gstudy.study.thinned import fewest_rollouts, thinned
from gstudy.variance.normality import bank_icc

TASK = gs.Facet("task", role="legitimate")
COUNTS = gs.Study(successes="k", trials="n", facets=[TASK])


def judged() -> tuple[gs.Study, pd.DataFrame]:
    """Ragged rollouts, each scored by two judges."""
    study = gs.Study(
        score="passed",
        facets=[
            gs.Facet("task", column="item", role="legitimate"),
            gs.Facet("rollout", role="legitimate", nested_in=["task"]),
            gs.Facet("judge", role="error"),
        ],
    )
    rows = [
        {"item": t, "rollout": r, "judge": j, "passed": int((r + len(t)) % 2)}
        for t, n in (("a", 3), ("bb", 5), ("ccc", 4))
        for r, j in itertools.product(range(n), "xy")
    ]
    return study, pd.DataFrame(rows)


def test_parts_keep_every_score_of_so_many_rollouts_of_each_task() -> None:
    study, frame = judged()
    usable = gs.read_trials(frame, study).usable(study)
    assert fewest_rollouts(usable, study) == 3
    found = []
    for seed in range(300):
        part = thinned(usable, study, 2, np.random.default_rng(seed))
        assert list(part) == ["item", "rollout", "judge", "passed"]
        found.append(part.assign(seed=seed))
    parts = pd.concat(found)
    assert not parts.duplicated(["seed", "item", "rollout", "judge"]).any()
    runs = parts[["seed", "item", "rollout"]].drop_duplicates()
    assert (parts.groupby(["seed", "item", "rollout"]).size() == 2).all()
    assert (runs.groupby(["seed", "item"]).size() == 2).all()
    joined = parts.merge(frame.astype({"rollout": str}), on=["item", "rollout", "judge"])
    assert len(joined) == len(parts)
    assert (joined["passed_x"] == joined["passed_y"]).all()
    drawn = Counter(zip(runs["item"], runs["rollout"], strict=True))
    # Each rollout of a task is as likely as any other: 2 of its n.
    for (task, _), count in drawn.items():
        share = 2 / {"a": 3, "bb": 5, "ccc": 4}[task]
        assert count == pytest.approx(300 * share, abs=5 * math.sqrt(300 * share * (1 - share)))


def test_parts_of_counts_are_hypergeometric() -> None:
    frame = pd.DataFrame({"task": ["a", "b"], "k": [3, 0], "n": [5, 9]})
    usable = gs.read_trials(frame, COUNTS).usable(COUNTS)
    assert fewest_rollouts(usable, COUNTS) == 5
    found = [thinned(usable, COUNTS, 2, np.random.default_rng(s)) for s in range(2000)]
    passed = np.array([part["k"].to_numpy() for part in found])
    assert (found[0]["n"] == 2).all()
    assert not passed[:, 1].any()
    shares = np.bincount(passed[:, 0], minlength=3) / 2000
    np.testing.assert_allclose(shares, [0.1, 0.6, 0.3], atol=0.04)


def test_the_icc_of_a_bank_is_the_correlation_of_two_trials_of_a_task() -> None:
    rates = np.array([0.05, 0.4, 0.9, 1.0])
    mean = rates.mean()
    # Two trials of a task drawn at random: E[xy] = mean p^2, each a coin of the mean rate.
    expected = ((rates**2).mean() - mean**2) / (mean * (1 - mean))
    assert float(bank_icc(rates)) == pytest.approx(expected)
    assert bank_icc(np.array([[0.0, 0.0], [0.3, 0.3], [0.0, 1.0]])).tolist() == [0.0, 0.0, 1.0]


def by_hand(
    widths: dict[str, dict[str, list[float]]], means: tuple[float, float] = (0.5, 0.5)
) -> Convergence:
    """Draws that spread uniformly, so that their 95% intervals have these widths."""
    levels = [2, 4, 8, 16]
    groups = list(widths[LIKE_THESE])
    base = np.linspace(-0.5, 0.5, 2001) / 0.95
    values = np.array(
        [
            [[mean + w * base for w in widths[e][g]] for g in groups]
            for e, mean in zip((LIKE_THESE, THESE), means, strict=True)
        ]
    )[:, :, :, None, None, :]
    coords: dict[str, Any] = {
        "estimand": [LIKE_THESE, THESE],
        "group": groups,
        "rollouts": levels,
        "resample": [0],
        "chain": [0],
        "draw": np.arange(2001),
    }
    rows = [{"group": g, "rollouts": n, "resample": 0, "icc": 0.4} for g in groups for n in levels]
    draws = xr.DataArray(values, coords, tuple(coords))
    return Convergence(draws, pd.DataFrame(rows), "task", "system", dict.fromkeys(groups, 20))


def test_a_width_that_is_exceeded_again_has_not_stayed() -> None:
    nan = float("nan")
    curve = by_hand(
        {
            LIKE_THESE: {"A": [0.3, 0.09, 0.12, 0.08], "B": [0.3, 0.2, 0.15, 0.11]},
            THESE: {"A": [0.2, 0.09, 0.04, 0.03], "B": [0.2, 0.06, nan, nan]},
        }
    )
    found = curve.stays_below()
    assert found.loc["A", (LIKE_THESE, 0.1)] == 16
    assert np.isnan(found.loc["B", (LIKE_THESE, 0.1)])
    assert found.loc["A", (THESE, 0.1)] == 4
    assert found.loc["A", (THESE, 0.05)] == 8
    summary = curve.summary()
    np.testing.assert_allclose(summary.loc[("A", 8), ["width", "these_width"]], [0.12, 0.04])
    assert summary.loc[("A", 8), "anova"] == 0.4
    assert summary.attrs["level"] == 0.95
    text = " ".join(str(curve).split())
    assert "Interval narrower than 0.1, tasks like these: from 16 rollouts on (in 1 of 2)" in text
    assert "narrower than 0.05, tasks like these: not reached" in text


def test_an_interval_that_leaves_out_its_own_tasks_is_told() -> None:
    widths = {LIKE_THESE: {"A": [0.9, 0.8, 0.7, 0.1]}, THESE: {"A": [0.2, 0.1, 0.1, 0.1]}}
    text = " ".join(str(by_hand(widths, (0.5, 0.3))).split())
    assert "at 16 rollouts the interval for tasks like these, 0.450 to 0.550, leaves out" in text
    assert "leaves out" not in str(by_hand(widths, (0.5, 0.46)))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"levels": [1, 2]}, "levels are no numbers of rollouts"),
        ({"levels": "24"}, "levels are no numbers of rollouts"),
        ({"levels": [2, 4.0]}, "levels are no numbers of rollouts"),
        ({"levels": []}, "levels are no numbers of rollouts"),
        ({"levels": [8]}, "no group has so many rollouts of each task.*from 2 to 4"),
        ({"resamples": 0}, "resamples is no number of parts"),
        ({"seed": -1}, "the seed is not usable"),
    ],
)
def test_what_is_no_curve_is_refused(given: dict[str, Any], message: str) -> None:
    frame = pd.DataFrame({"task": ["a", "b"], "k": [3, 0], "n": [4, 4]})
    with pytest.raises(gs.QuantityError, match=message):
        gs.convergence(COUNTS, frame, **given)


def test_settings_of_the_fits_are_checked() -> None:
    frame = pd.DataFrame({"task": ["a", "b"], "k": [3, 0], "n": [4, 4]})
    with pytest.raises(gs.DeclarationError, match="chains is not a whole number in range"):
        gs.convergence(COUNTS, frame, chains=0)


def test_trials_without_rollouts_are_refused() -> None:
    single = pd.DataFrame({"task": ["a", "b"], "k": [1, 0], "n": [1, 4]})
    with pytest.raises(gs.QuantityError, match="two rollouts or more of each task"):
        gs.convergence(COUNTS, single)
    study = gs.Study(score="passed", facets=[TASK])
    with pytest.raises(gs.QuantityError, match="no rollouts to draw from"):
        gs.convergence(study, pd.DataFrame({"task": ["a", "b"], "passed": [0, 1]}))


@pytest.mark.slow
def test_curves_of_simulated_systems_close_in_on_the_truth() -> None:
    study = gs.Study(successes="k", trials="n", object="system", facets=[TASK], interactions="none")
    rng = np.random.default_rng(1)
    rates = {
        s: 1 / (1 + np.exp(-(0.4 + sd * rng.standard_normal(80))))
        for s, sd in (("A", 1.0), ("B", 3.0))
    }
    rows = [
        {"system": s, "task": f"t{t}", "k": int(rng.binomial(n, p)), "n": n}
        for s, n in (("A", 128), ("B", 20))
        for t, p in enumerate(rates[s])
    ]
    curve = gs.convergence(
        study, pd.DataFrame(rows), levels=[4, 16, 128], seed=3, draws=500, progress=False
    )
    summary = curve.summary()
    assert list(summary.index) == [("A", 4), ("A", 16), ("A", 128), ("B", 4), ("B", 16)]
    for system in ("A", "B"):
        own = summary.loc[system]
        assert (np.diff(own["these_width"]) < 0).all()
        truth = bank_icc(rates[system])
        last = own.iloc[-1]
        assert last["these_lower"] < truth < last["these_upper"]
        assert last["mean"] == pytest.approx(last["anova"], abs=0.03)
    again = gs.convergence(study, pd.DataFrame(rows), levels=[4], seed=3, draws=500, progress=False)
    # A number of rollouts has its own parts and seeds, whatever others there are.
    np.testing.assert_array_equal(
        again.draws.sel(rollouts=4).to_numpy(), curve.draws.sel(rollouts=4).to_numpy()
    )
