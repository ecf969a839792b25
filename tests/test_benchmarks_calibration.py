"""Arithmetic of the truth and calibration benchmarks: ranks, bands, resampling; little sampling."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest
from benchmarks import calibration, ranks, truth
from scipy import stats

import gstudy as gs

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any


def test_a_rank_counts_smaller_draws_and_breaks_ties_evenly() -> None:
    rng = np.random.default_rng(1)
    draws = np.array([[1.0, 2.0, 3.0], [0.0, 0.0, 0.0], [1.0, 1.0, 5.0]])
    values = np.array([2.5, 0.0, 1.0])
    found = np.array([ranks.rank_of(values, draws, rng) for _ in range(4000)])
    assert (found[:, 0] == 2).all()
    counts = np.bincount(found[:, 1], minlength=4)
    assert stats.chisquare(counts).pvalue > 1e-4
    assert set(found[:, 2]) == {0, 1, 2}


def test_coverage_of_uniform_ranks_is_the_level() -> None:
    rng = np.random.default_rng(2)
    uniform = rng.integers(0, 8, 20_000)
    for level in (0.5, 0.9):
        held = ranks.coverage(uniform, 7, level, rng)
        assert held / 20_000 == pytest.approx(level, abs=0.015)


def test_coverage_limits_are_the_binomial_ones(oracle: Callable[[str], Any]) -> None:
    rows = {row["id"]: row for row in oracle("references")["references"]}
    for size, levels in rows["sbc_coverage_limits"]["expected"].items():
        n = int(size.removeprefix("N=").removesuffix("_at_99.9pct"))
        error = 0.001 if size.endswith("_at_99.9pct") else 0.01
        for level, limits in levels.items():
            found = ranks.coverage_limits(n, float(level), error)
            assert [count / n for count in found] == pytest.approx(limits, abs=1e-9)


def test_the_band_is_left_as_often_as_the_recursion_says() -> None:
    """Paths of uniform ranks, simulated."""
    rng = np.random.default_rng(3)
    n, n_draws, tail, runs = 60, 15, 0.01, 3000
    z = np.arange(1, n_draws + 1) / (n_draws + 1)
    inside = 0
    for _ in range(runs):
        sample = rng.integers(0, n_draws + 1, n)
        counts = np.bincount(sample, minlength=n_draws + 1).cumsum()[:-1]
        low, high = stats.binom.cdf(counts, n, z), stats.binom.sf(counts - 1, n, z)
        inside += bool((np.minimum(low, high) >= tail).all())
    expected = ranks.staying_probability(tail, n, n_draws)
    assert inside / runs == pytest.approx(expected, abs=4 * (0.25 / runs) ** 0.5)


def test_p_values_tell_uniform_ranks_from_others() -> None:
    rng = np.random.default_rng(4)
    uniform = [ranks.path_p_value(rng.integers(0, 21, 200), 20) for _ in range(150)]
    # Discrete, so that they are at least uniform: never more often below a level than it says.
    for level in (0.05, 0.2, 0.5):
        assert np.mean(np.array(uniform) <= level) < level + 4 * (level / 150) ** 0.5
    narrow = np.clip(np.rint(rng.normal(10, 3, 200)), 0, 20).astype(int)
    assert ranks.path_p_value(narrow, 20) < 1e-4
    assert ranks.path_p_value(rng.integers(0, 16, 200), 20) < 1e-4


def test_resampling_is_without_replacement() -> None:
    counts = pd.DataFrame(
        {"system": ["A"] * 3, "task": list("abc"), "successes": [0, 30, 100], "trials": 100}
    )
    rng = np.random.default_rng(5)
    found = np.array([truth.resampled(counts, 10, rng)["successes"] for _ in range(4000)])
    assert (found[:, 0] == 0).all()
    assert (found[:, 2] == 10).all()
    # Hypergeometric: variance T p (1 - p) (N - T) / (N - 1).
    assert found[:, 1].mean() == pytest.approx(3.0, abs=0.1)
    assert found[:, 1].var() == pytest.approx(10 * 0.3 * 0.7 * 90 / 99, abs=0.15)
    all_drawn = truth.resampled(counts, 100, rng)
    assert (all_drawn["successes"] == counts["successes"]).all()


def test_the_icc_of_counts_is_the_one_of_the_rows() -> None:
    counts = pd.DataFrame({"task": range(5), "k": [0, 3, 2, 6, 1], "n": [4, 6, 5, 6, 4]})
    found = truth.anova_icc_of_counts(counts["k"].to_numpy(float), counts["n"].to_numpy(float))
    rows = [
        {"task": t, "score": int(i < k)}
        for t, k, n in counts.itertuples(index=False)
        for i in range(n)
    ]
    groups = [g["score"].to_numpy() for _, g in pd.DataFrame(rows).groupby("task")]
    anova = stats.f_oneway(*groups)
    sizes = np.array([len(g) for g in groups])
    n0 = (sizes.sum() - (sizes**2).sum() / sizes.sum()) / (len(sizes) - 1)
    # ICC = (F - 1) / (F - 1 + n0).
    assert found == pytest.approx((anova.statistic - 1) / (anova.statistic - 1 + n0), rel=1e-12)


def test_limits_of_truth_are_told() -> None:
    index = pd.Index(["A", "B", "C"], name="system")
    result = pd.DataFrame(
        {
            "icc_holds": [1.0, 0.4, 0.3],
            "bank_holds": [1.0, 0.9, 1.0],
            "new_holds": 1.0,
            "resamples": 10,
        },
        index=index,
    )
    assert truth.missed(result, 4) == [
        "4 rollouts, ICC(task): held in 56.7%, not 95.0%",
        "4 rollouts, ICC(task): under 50% for B, C",
    ]


@pytest.mark.parametrize("name", ["systems", "judges"])
def test_truths_come_from_the_priors_and_are_ranked_among_the_draws(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibration, "DRAWS", 100)
    monkeypatch.setattr(calibration, "TUNE", 100)
    design = calibration.DESIGNS[name]()
    found = calibration.assessed(design)
    rng = np.random.default_rng(6)
    sds = [calibration.truth_of(found, rng)[0]["sd(task)"] for _ in range(2000)]
    assert stats.kstest(sds, stats.halfnorm(scale=5).cdf).pvalue > 1e-3
    row = calibration.replication(name, design, found, 0, 1)
    names = calibration._quantity_names(pd.DataFrame([row]))
    assert {"mu", "sd(task)", "v(residual)", "share(task)", "ICC(task)", "Phi"} <= set(names)
    assert all(0 <= row[quantity] <= calibration.RANKED for quantity in names)
    again = calibration.replication(name, design, found, 0, 1)
    assert row == again


def test_a_truth_has_the_quantities_of_the_draws() -> None:
    """Where every draw is the truth, every quantity of the one is that of the other."""
    design = calibration.DESIGNS["systems"]()
    from handmade import fit_by_hand

    fit = fit_by_hand(calibration.assessed(design), shape=(4, 1000))
    draws = fit.posterior["posterior"].to_dataset().isel(chain=1, draw=17)
    values = {name: draws[name].values for name in draws.data_vars}
    one = calibration.quantities(calibration._known(fit, values), design)
    whole = calibration.quantities(fit, design)
    for name, value in one.items():
        assert value.shape == (1,)
        assert value[0] == pytest.approx(whole[name][1 * 1000 + 17], rel=1e-9), name
    assert calibration.quantities(calibration._thinned(fit), design)["mu"].shape == (
        calibration.RANKED,
    )


def test_the_table_counts_quantities_and_fails_what_is_outside() -> None:
    rng = np.random.default_rng(7)
    table = pd.DataFrame(
        {
            "number": range(300),
            "passed": True,
            "divergences": 0,
            "refits": 0,
            "mu": rng.integers(0, calibration.RANKED + 1, 300),
            "Phi": np.clip(rng.integers(0, calibration.RANKED + 1, 300), 60, 140),
        }
    )
    summary = calibration.summarised({"systems": table}, 1).set_index("quantity")
    assert summary.loc["mu", ["coverage_passed", "ecdf_passed"]].all()
    assert not summary.loc["Phi", "ecdf_passed"]
    assert summary.loc["Phi", "coverage_90"] == 1.0
    (shown,) = calibration.report(calibration.summarised({"systems": table}, 1), {"systems": table})
    assert "0.01 over all 2 quantities, 0.005 each" in " ".join(shown.text().split())


def test_chunks_cover_every_replication_once_and_are_resumed(tmp_path: Path) -> None:
    assert [n for own in calibration.chunks(45) for n in own] == list(range(45))
    calibration._prepare(tmp_path, 1, resume=False)
    with pytest.raises(SystemExit, match="is not empty: give --resume"):
        calibration._prepare(tmp_path, 1, resume=False)
    calibration._prepare(tmp_path, 1, resume=True)
    with pytest.raises(SystemExit, match="other settings"):
        calibration._prepare(tmp_path, 2, resume=True)
    pd.DataFrame({"number": [0], "mu": [3]}).to_csv(tmp_path / "systems-00000-00001.csv")
    assert calibration.simulated("systems", 1, 1, tmp_path, 1)["mu"].tolist() == [3]


def test_the_rate_of_the_bank_is_the_mean_of_its_tasks() -> None:
    from handmade import fit_by_hand

    from gstudy.study.estimable import assess

    table = pd.DataFrame({"task": range(4), "successes": 1, "trials": 4, "system": "A"})
    fit = fit_by_hand(assess(truth.study(), table))
    logit = fit.mu[..., None] + fit.effects("task").values
    assert truth.bank_rate(fit) == pytest.approx((1 / (1 + np.exp(-logit))).mean(-1), rel=1e-12)
    assert isinstance(fit, gs.Fit)
