"""The benchmark's own arithmetic: merging, agreement, limits, table, figure; nothing is sampled."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks import attempts, comparison, plots, problems, records, run, tables

WHEN = "2026-01-01 10:00"


def an_attempt(method: str, **changes: Any) -> Any:
    given: dict[str, Any] = {
        "workload": "metr",
        "method": method,
        "seed": 1,
        "tune": 1000,
        "draws": 1000,
        "seconds": 10.0,
        "cpu_seconds": 15.0,
        "compile_seconds": 2.0,
        "cold_seconds": 14.0,
        "ess": 1000.0,
        "rhat": 1.002,
        "slowest": "mu",
        "divergences": 0,
        "failures": (),
        "peak_mb": 300.4,
        "means": {"mu": 0.40, "sd(task)": 2.0},
        "mcse": {"mu": 0.03, "sd(task)": 0.02},
        **changes,
    }
    return attempts.Attempt(**given)


def merged(*runs: Any, into: Any = None) -> Any:
    found = into or records.Records.read(Path("there is no such file"))
    for one in runs:
        method = attempts.METHODS[one.method]
        row = records.result_row(one, method, limit=600.0, least_ess=attempts.LEAST_ESS, when=WHEN)
        found = found.merged(row, records.posterior_rows(one))
    return found


def too_slow(method: str, workload: str = "metr") -> dict[str, Any]:
    return records.too_slow_row(
        workload,
        attempts.METHODS[method],
        1,
        limit=600.0,
        least_ess=100.0,
        reason="not done",
        when=WHEN,
    )


@pytest.fixture
def found() -> Any:
    """direct 100 ESS/s, bambi-cells 5, bambi-rows not done, lme4 a point."""
    point = {"ess": math.nan, "rhat": math.nan, "slowest": "", "means": {"mu": 9.0}}
    return merged(
        an_attempt("direct"),
        an_attempt("bambi-cells", seconds=25.0, compile_seconds=5.0, ess=125.0),
        an_attempt("lme4", **point, mcse={"mu": math.nan}),
    ).merged(too_slow("bambi-rows"), [])


def test_speeds_with_and_without_compilation() -> None:
    one = an_attempt("pymc")
    assert (one.ess_per_second, one.ess_per_sampling_second) == (100.0, 125.0)


def test_a_row_takes_the_place_of_its_workload_and_method(found: Any) -> None:
    again = merged(an_attempt("bambi-cells", ess=250.0), into=found)
    rows = again.results
    assert rows["method"].tolist() == ["direct", "bambi-cells", "lme4", "bambi-rows"]
    assert rows["smallest_ess"].tolist()[:2] == [1000.0, 250.0]
    assert len(again.posteriors) == 2 + 2 + 1
    other = merged(an_attempt("direct", workload="gpqa"), into=again)
    more = merged(an_attempt("numpyro"), into=other).results
    pairs = list(zip(more["workload"], more["method"], strict=True))
    assert pairs[-2:] == [("metr", "numpyro"), ("gpqa", "direct")]
    assert len(pairs) == 6


def test_a_method_that_is_too_slow_loses_its_old_posterior(found: Any) -> None:
    late = found.merged(too_slow("direct"), [])
    assert "direct" not in set(late.posteriors["method"])
    assert "bambi-cells" in set(late.posteriors["method"])


def test_files_give_back_what_was_written(found: Any, tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    found.write(path)
    first = path.read_text()
    assert (tmp_path / "posteriors.csv").is_file()
    records.Records.read(path).write(path)
    assert path.read_text() == first
    assert "metr,direct,measured,1," in first


def test_ratios_count_a_late_method_at_its_bound(found: Any) -> None:
    rows = found.results
    assert comparison.ratios(rows, "metr", "bambi-cells")["direct"] == 20.0
    assert comparison.ratios(rows, "metr", "bambi-rows")["direct"] == pytest.approx(600, rel=1e-3)
    assert comparison.ratios(rows, "metr", "rstanarm") == {}


def test_only_methods_that_sampled_enough_are_compared(found: Any) -> None:
    every = merged(an_attempt("numpyro", ess=99.9), into=found)
    assert every.results.set_index("method")["status"].to_dict() == {
        "direct": "measured",
        "bambi-cells": "measured",
        "lme4": "point estimate",
        "bambi-rows": "over limit",
        "numpyro": "over limit",
    }
    pairs = comparison.differences(every.results, every.posteriors, "metr")
    assert [(d.methods, d.quantity) for d in pairs] == [
        (("direct", "bambi-cells"), "mu"),
        (("direct", "bambi-cells"), "sd(task)"),
    ]
    assert pairs[0].mcse == pytest.approx(math.hypot(0.03, 0.03))


@pytest.mark.parametrize(("other", "agrees"), [(0.524, True), (0.526, False), (math.nan, False)])
def test_means_agree_within_4_mcse_and_a_little(other: float, agrees: bool) -> None:
    # 4 x 0.03 + 0.005 from 0.4.
    found = comparison.Difference("metr", ("direct", "bambi-cells"), "mu", (0.4, other), 0.03)
    assert found.agrees is agrees


def failures(found: Any) -> list[str]:
    said: list[str] = []
    return [*run.failures_of(problems.PROBLEMS["metr"], found, said.append), *said]


def test_a_fast_wrong_answer_fails_the_run(found: Any) -> None:
    assert failures(found) == []
    wrong = merged(an_attempt("numpyro", means={"mu": 0.60, "sd(task)": 2.0}), into=found)
    assert failures(wrong) == [
        "the methods disagree: metr, mu: direct 0.400, numpyro 0.600 (MCSE 0.042)",
        "the methods disagree: metr, mu: bambi-cells 0.400, numpyro 0.600 (MCSE 0.042)",
    ]


def test_chains_with_divergences_prove_nothing_against_ours(found: Any) -> None:
    changes = {"means": {"mu": 0.60, "sd(task)": 2.0}, "divergences": 9}
    doubtful = merged(an_attempt("numpyro", **changes), into=found)
    assert [text[:15] for text in failures(doubtful)] == ["Differs, but of"] * 2


def test_gates_of_ours_must_pass(found: Any) -> None:
    gates = ("3 divergences",)
    text = failures(merged(an_attempt("pymc", divergences=3, failures=gates), into=found))
    assert text == ["pymc on metr: 3 divergences"]


def test_a_limit_is_missed_from_below_only(found: Any) -> None:
    metr = problems.PROBLEMS["metr"]
    assert metr.least_ratio == {("direct", "bambi-cells"): 10.0}
    exact = merged(an_attempt("direct", ess=500.0), into=found)
    assert comparison.missed_limits(metr, exact.results) == []
    slow = merged(an_attempt("direct", ess=499.0), into=found)
    assert comparison.missed_limits(metr, slow.results) == [
        "metr: direct is 10.0 times bambi-cells, not 10"
    ]


def test_a_run_with_too_little_ess_says_how_fast_its_method_is_at_most(found: Any) -> None:
    """Its own speed, 9.99 a second, is no bound: a longer run would be faster."""
    late = merged(an_attempt("numpyro", ess=99.9), into=found).results
    row = late[late["method"] == "numpyro"].iloc[0]
    assert row["ess_per_second"] == pytest.approx(100 / 600, rel=1e-3)
    assert math.isnan(row["ess_per_sampling_second"])
    assert row["remark"] == (
        "ESS 99.9 after 10 s; 100 would take longer than 600 s; the ESS per second is at most this"
    )
    assert (row["smallest_ess"], row["seconds"]) == (99.9, 10.0)


# Seconds of a run without a draw and for each, and the ESS of each draw: the runs that are made.
PACES = {
    "quick": ((0.0, 0.1, 0.5), [(500, 100), (1000, 1000)], 500.0),
    "short of ESS": ((0.0, 0.1, 0.05), [(500, 100), (1000, 1000), (1000, 2400)], 120.0),
    "too slow for 1,000 draws": ((0.0, 0.5, 0.5), [(500, 100), (500, 240)], 120.0),
    "tried in vain": ((0.0, 0.4, 2.0), [(500, 100), (1000, 1000)], 200.0),
    "not within the limit": ((0.0, 0.25, 0.01), [(500, 100), (1000, 1000)], 10.0),
}


@pytest.mark.parametrize(("pace", "plans", "ess"), PACES.values(), ids=PACES)
def test_runs_are_made_until_one_has_the_ess_or_takes_too_long(
    monkeypatch: pytest.MonkeyPatch, pace: Any, plans: Any, ess: float
) -> None:
    made = []

    def paced(problem: Any, method: Any, plan: Any, *, limit: float) -> Any:
        made.append((plan.tune, plan.draws))
        seconds = pace[0] + pace[1] * (plan.tune + plan.draws)
        if seconds > limit:
            raise attempts.TooSlowError("not done")
        changes = {"tune": plan.tune, "draws": plan.draws, "ess": pace[2] * plan.draws}
        return an_attempt("numpyro", seconds=seconds, compile_seconds=0.0, **changes)

    monkeypatch.setattr(attempts, "attempt_apart", paced)
    last = attempts.until_enough(
        problems.PROBLEMS["metr"], attempts.METHODS["numpyro"], 1, limit=600.0
    )
    assert (made, last.ess) == (plans, pytest.approx(ess))


def test_a_method_whose_trial_is_not_done_is_too_slow() -> None:
    """For real: no process starts within a millisecond."""
    airline, direct = problems.PROBLEMS["airline"], attempts.METHODS["direct"]
    with pytest.raises(attempts.TooSlowError, match=r"direct on airline: 500 \+ 100 draws are"):
        attempts.until_enough(airline, direct, 1, limit=1e-3)


def test_rounds_ask_for_the_draws_that_ess_lacks() -> None:
    assert attempts.draws_for(100.0, an_attempt("numpyro", ess=60.0)) == 2000
    assert attempts.draws_for(100.0, an_attempt("numpyro", ess=0.5)) == 16_000


def test_time_to_ess_400_is_computed_from_tuning_and_draws() -> None:
    # Sampling took 8 s, half of it tuning: at ESS 100 the draws must be four times as many.
    last = an_attempt("numpyro", ess=100.0)
    assert attempts.computed_cold_seconds(last) == pytest.approx(14.0 + 3 * 4.0)
    enough = an_attempt("direct", ess=401.0)
    cold = attempts.cold_seconds(problems.PROBLEMS["metr"], attempts.METHODS["direct"], enough)
    assert (cold.cold_400_seconds, cold.cold_400_is_measured) == (14.0, True)


def test_weighted_means_and_their_errors() -> None:
    from arviz_stats.base import array_stats

    rng = np.random.default_rng(1)
    x = rng.exponential(size=(4, 5000))
    # From Exponential(1) to Gamma(2): weights x, mean 2, and the error of a ratio estimate.
    mean, error = attempts.weighted_mean(x, x, array_stats.mcse)
    exact = math.sqrt(8 / x.size)  # E[x^2 (x - 2)^2] = 24 - 4 x 6 + 4 x 2
    assert error == pytest.approx(exact, rel=0.15)
    assert mean == pytest.approx(2.0, abs=4 * exact)
    same = attempts.weighted_mean(x, np.ones_like(x), array_stats.mcse)
    assert same == pytest.approx(attempts.weighted_mean(x, None, array_stats.mcse))


def test_the_table_fits_80_columns_and_says_what_is_missing(found: Any) -> None:
    skipped = {"rstanarm": "R is not installed"}
    text = tables.table(problems.PROBLEMS["metr"], found.results, skipped).text()
    assert max(map(len, text.splitlines())) <= 80
    (row,) = (line.split() for line in text.splitlines() if line.startswith("direct "))
    assert row[:5] == ["direct", "10.0", "1000", "100", "125"]
    assert row[-2:] == ["600", "20.0"]
    assert "rstanarm is skipped: R is not installed" in text
    assert "bambi-rows: over the limit: not done" in " ".join(text.split())


def test_the_figure_has_a_line_per_workload_and_open_marks_for_late_methods(found: Any) -> None:
    made = plots.figure(found.results)
    first = made.axes[0]
    assert [label.get_text() for label in first.get_yticklabels()] == ["metr"]
    marks = [dots for dots in first.collections if len(dots.get_offsets())]
    assert sorted(float(dots.get_offsets()[0][0]) for dots in marks) == [0.1667, 5.0, 100.0]
    assert [len(dots.get_facecolors()) for dots in marks].count(0) == 1


def test_every_workload_is_named_once_and_says_what_it_is() -> None:
    names = list(problems.PROBLEMS)
    assert len(names) == 10
    assert all(problem.about for problem in problems.PROBLEMS.values())
    simulated = problems.PROBLEMS["sim_20x170x8"]
    assert simulated.least_ratio["direct", "rstanarm"] == 80.0
    assert simulated.missing == ""


def test_the_simulated_workload_has_the_stated_cells_and_priors() -> None:
    design = problems.PROBLEMS["sim_20x170x8"].design()
    assert len(design.cells.trials) == 3400
    assert set(design.cells.trials) == {8}
    assert [c.name for c in design.components] == ["system", "task", "system:task"]
    assert {c.prior.sigma for c in design.components} == {2.0}
    assert (design.mu_prior.mu, design.mu_prior.sigma) == (0.0, 1.5)
