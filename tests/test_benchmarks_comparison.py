"""The benchmark's own arithmetic: agreement, ratios, limits, the table; nothing is sampled."""

from __future__ import annotations

import math
from typing import Any

import pytest

attempts = pytest.importorskip("benchmarks.attempts", reason="benchmarks/ is not installed")
comparison = pytest.importorskip("benchmarks.comparison")
problems = pytest.importorskip("benchmarks.problems")
run = pytest.importorskip("benchmarks.run")


def an_attempt(
    method: str, seed: int, *, seconds: float, ess: float, mu: float, mcse: float
) -> Any:
    return attempts.Attempt(
        workload="metr",
        method=method,
        seed=seed,
        tune=500,
        draws=1000,
        seconds=seconds,
        cpu_seconds=2 * seconds,
        total_seconds=3 * seconds,
        ess=ess,
        slowest="mu",
        divergences=1,
        refits=0,
        peak_mb=300.4,
        means={"mu": mu},
        mcse={"mu": mcse},
    )


@pytest.fixture
def runs() -> list[Any]:
    return [
        an_attempt("direct", 1, seconds=10, ess=1000, mu=0.40, mcse=0.02),
        an_attempt("direct", 2, seconds=10, ess=1200, mu=0.44, mcse=0.02),
        an_attempt("direct", 3, seconds=100, ess=900, mu=0.42, mcse=0.02),
        an_attempt("bambi-0.95", 1, seconds=20, ess=100, mu=0.50, mcse=0.06),
        an_attempt("bambi-0.95", 2, seconds=10, ess=100, mu=0.62, mcse=0.06),
        an_attempt("bambi-0.95", 3, seconds=25, ess=200, mu=0.56, mcse=0.06),
    ]


def test_ratios_are_of_medians_over_seeds(runs: list[Any]) -> None:
    # Speeds: 100, 120, 9 against 5, 10, 8.
    assert comparison.ratios(runs, "metr", "bambi-0.95") == {"direct": 100 / 8, "bambi-0.95": 1.0}
    assert comparison.ratios(runs, "metr", "bambi-0.8") == {}


def test_seeds_are_taken_together_before_means_are_compared(runs: list[Any]) -> None:
    (found,) = comparison.differences(runs, "metr")
    assert (found.methods, found.quantity) == (("direct", "bambi-0.95"), "mu")
    assert found.means == pytest.approx((0.42, 0.56))
    assert found.mcse == pytest.approx(math.hypot(0.02, 0.06) / math.sqrt(3))


@pytest.mark.parametrize(("other", "agrees"), [(0.524, True), (0.526, False), (math.nan, False)])
def test_means_agree_within_4_mcse_and_a_little(other: float, agrees: bool) -> None:
    # 4 x 0.03 + 0.005 from 0.4.
    found = comparison.Difference("metr", ("direct", "bambi-0.95"), "mu", (0.4, other), 0.03)
    assert found.agrees is agrees


def test_a_limit_is_missed_from_below_only() -> None:
    metr = problems.PROBLEMS["metr"]
    assert comparison.missed_limits(metr, {"direct": 15.0, "pymc": 4.2}, "bambi-0.95") == []
    assert comparison.missed_limits(metr, {"bambi-0.95": 1.0}, "bambi-0.95") == []
    assert comparison.missed_limits(metr, {"direct": 14.9, "pymc": 4.2}, "bambi-0.95") == [
        "metr: direct is 14.9 times bambi-0.95, not 15"
    ]
    assert (
        len(comparison.missed_limits(metr, {"direct": math.nan, "pymc": math.nan}, "bambi-0.95"))
        == 2
    )


def test_the_table_fits_80_columns_and_shows_medians(runs: list[Any]) -> None:
    text = run.table(problems.PROBLEMS["metr"], runs).text()
    assert max(map(len, text.splitlines())) <= 80
    (row,) = (line.split() for line in text.splitlines() if line.startswith("direct"))
    assert row == ["direct", "1000", "10.0", "1000", "100", "50.0", "3", "300", "12.5"]


def test_the_results_have_a_row_per_run_and_one_for_the_start(runs: list[Any]) -> None:
    frame = run.results(runs, 0.25)
    assert len(frame) == len(runs) + 1
    assert frame["median_ratio_to_bambi-0.95"].tolist()[:3] == [12.5] * 3
    assert frame.iloc[-1][["workload", "seconds"]].tolist() == ["startup", 0.25]
    assert frame["draws"].dtype == "Int64"
