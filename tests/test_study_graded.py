"""Graded scores: what is read, how cells hold them, their priors, and known errors."""

from __future__ import annotations

import decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from designs import checked, grid, study_of, verdicts, within

import gstudy as gs
from gstudy.errors import DataError
from gstudy.study.graded import Graded, combine, graded_trials, score_spread
from gstudy.study.partition import Partition
from gstudy.study.priors import Prior
from gstudy.study.reading.graded_scores import read_errors, read_graded
from gstudy.study.reading.source_rows import Source

FILE = Source("trials.csv")


def graded(values: Any, ignore: Any = False) -> list[float]:
    column = values if isinstance(values, pd.Series) else pd.Series(values, dtype=object)
    read = read_graded(column, "grade", FILE, ignore=np.broadcast_to(ignore, len(column)))
    return [-999.0 if np.isnan(score) else float(score) for score in read]


def errors(values: Any, scored: Any = True, ignore: Any = False) -> list[float]:
    column = pd.Series(values, dtype=object)
    flags = (np.broadcast_to(flag, len(column)) for flag in (scored, ignore))
    names = dict(zip(("scored", "ignore"), flags, strict=True))
    return [-1.0 if np.isnan(x) else float(x) for x in read_errors(column, "se", FILE, **names)]


def graded_study(*facets: gs.Facet | str, **rest: Any) -> gs.Study:
    return study_of(*facets, family="gaussian", **rest)


def with_scores(table: pd.DataFrame, seed: int = 3, *, mean: float = 0.0) -> pd.DataFrame:
    return table.assign(score=mean + np.random.default_rng(seed).normal(size=len(table)))


# ---------------------------------------------------------------------------------- reading


@pytest.mark.parametrize(
    "column",
    [
        pd.Series([0.25, -3.0, np.nan]),
        pd.Series([0.25, -3, None], dtype=object),
        pd.Series(["0.25", " -3 ", ""]),
        pd.Series(["2.5e-1", "-3.0", "N/A"]),
        pd.Series([decimal.Decimal("0.25"), -3, None], dtype=object),
        pd.Series([0.25, -3, None], dtype="category"),
        pd.Series([0.25, -3, None], dtype="Float64"),
    ],
    ids=lambda column: str(column.dtype),
)
def test_every_type_gives_the_same_grades(column: pd.Series) -> None:
    assert graded(column) == [0.25, -3.0, -999.0]


def test_truth_values_throughout_are_one_and_zero() -> None:
    assert graded([True, False, None]) == [1.0, 0.0, -999.0]
    assert graded(["true", "FALSE"]) == [1.0, 0.0]


WRONG = [
    ([0.5, float("inf")], r"row 2, column 'grade': this is no graded score \(1 of 2 rows.*: inf"),
    (["-inf"], "no graded score.*Given: '-inf'. Allowed: a finite number"),
    (["B+"], r"Given: 'B\+'.*outcome = \"failed\""),
    (["1,5"], "Given: '1,5'"),
    (["40%"], "Given: '40%'"),
    ([10**400], "no graded score.*Given: 1000"),
    ([1e95], r"no graded score.*Given: 1e\+95"),
    ([[0.5]], r"Given: \[0\.5\]"),
    ([0.5, True], r"row 2, column 'grade': this is a truth value among numbers \(1 of 2"),
    (["false", "0.5"], r"row 1.*a truth value among numbers.*Given: 'false'"),
]


@pytest.mark.parametrize(("values", "message"), WRONG)
def test_what_is_no_grade_is_refused(values: Any, message: str) -> None:
    with pytest.raises(DataError, match=rf"(?s)trials\.csv, .*{message}"):
        graded(values)


def test_the_score_of_a_failed_run_is_not_read() -> None:
    assert graded([0.5, "Error", True], ignore=[False, True, True]) == [0.5, -999.0, -999.0]


WRONG_ERRORS = [
    ([1.0, 0], r"row 2, column 'se': this is no standard error.*leave standard_error out"),
    ([-1.0], r"no standard error.*Given: -1\.0\. Allowed: a finite number above 0"),
    ([float("inf")], "no standard error.*Given: inf"),
    ([True], "no standard error.*Given: True"),
    (["x"], "no standard error.*Given: 'x'"),
    ([2.0, None], r"row 2, column 'se': the score has no standard error \(1 such rows\)"),
]


@pytest.mark.parametrize(("values", "message"), WRONG_ERRORS)
def test_what_is_no_standard_error_is_refused(values: Any, message: str) -> None:
    with pytest.raises(DataError, match=rf"(?s)trials\.csv, .*{message}"):
        errors(values)


def test_rows_without_a_score_need_no_error() -> None:
    assert errors([None, "2"], scored=[False, True]) == [-1.0, 2.0]
    assert errors(["broken", 2], scored=[False, True], ignore=[True, False]) == [-1.0, 2.0]


def test_fractions_under_the_binary_family_name_the_family_and_a_threshold() -> None:
    table = pd.DataFrame({"id": ["a", "a", "b"], "score": [0.37, 0.42, 1.0]})
    study = study_of("id", within("run", "id"))
    with pytest.raises(DataError, match=r'declare family = "gaussian"; or set a threshold') as told:
        gs.read_trials(table.assign(run=[1, 2, 1]), study)
    assert "row 1" in str(told.value)
    assert "Overdispersion" not in str(told.value)
    halves = pd.DataFrame({"group": list("aabbccdd"), "score": [0, 0.5, 1, 1, 0.5, 0, 1, 0.25]})
    with pytest.raises(DataError, match=r"row 2 .*3 of 8 rows"):
        gs.read_trials(halves.assign(run=[1, 2] * 4), study_of("group", within("run", "group")))


def test_trials_of_a_graded_study_go_under_a_binary_one_only_as_0_and_1() -> None:
    table = with_scores(grid({"task": [1, 2], "run": [1, 2]}))
    facets = ["task", within("run", "task")]
    read = gs.read_trials(table, graded_study(*facets))
    with pytest.raises(DataError, match="this is no score"):
        gs.read_trials(read, study_of(*facets))
    whole = gs.read_trials(grid({"task": [1, 2], "run": [1, 2]}), graded_study(*facets))
    assert (
        gs.read_trials(whole, study_of(*facets)).usable(study_of(*facets))["successes"].dtype == int
    )


def test_trials_without_errors_cannot_serve_a_study_with_them() -> None:
    table = with_scores(grid({"task": [1, 2]}))
    read = gs.read_trials(table, graded_study("task"))
    with pytest.raises(DataError, match="were read without 'standard_error'"):
        gs.read_trials(read, graded_study("task", standard_error="se"))


# --------------------------------------------------------------------------------- outcomes


def failed_table() -> pd.DataFrame:
    table = with_scores(grid({"task": range(4), "run": [1, 2]}), mean=2.0)
    table["outcome"] = "scored"
    table.loc[[0, 5], ["score", "outcome"]] = [np.nan, "failed"]
    return table


def test_failed_runs_count_as_score_zero_and_say_so() -> None:
    table = failed_table()
    study = graded_study("task", within("run", "task"), on_failed_run="incorrect")
    trials = gs.read_trials(table, study)
    assert "2 failed runs counted as score 0" in trials.notes
    total = table["score"].sum()
    assert trials.usable(study)["successes"].sum() == pytest.approx(total, rel=1e-14)
    assert trials.failed_runs == {
        "n_failed": 2,
        "share": 0.25,
        "incorrect": pytest.approx(total / 8),
        "drop": pytest.approx(total / 6),
    }
    with pytest.raises(DataError, match=rf"score 0: mean {total / 8:.4g}.*\(mean {total / 6:.4g}"):
        gs.read_trials(table, graded_study("task", within("run", "task")))


def test_a_failed_run_that_counts_as_zero_needs_its_error() -> None:
    table = failed_table().assign(se=0.5)
    rest = {"standard_error": "se", "on_failed_run": "incorrect"}
    study = graded_study("task", within("run", "task"), **rest)
    assert len(gs.read_trials(table, study).usable(study)) == 8
    with pytest.raises(DataError, match=r"counts as score 0, but has no standard error \(1 such"):
        gs.read_trials(table.assign(se=[np.nan, *[0.5] * 7]), study)


def test_nan_is_never_scored_and_never_zero() -> None:
    table = with_scores(grid({"task": range(4), "run": [1, 2]}))
    table.loc[3, "score"] = np.nan
    facets = ["task", within("run", "task")]
    with pytest.raises(DataError, match="1 of 8 rows were never scored, the first row 4"):
        gs.read_trials(table, graded_study(*facets))
    study = graded_study(*facets, on_missing_score="drop")
    assert len(gs.read_trials(table, study).usable(study)) == 7


# ------------------------------------------------------------------------------------ cells


@pytest.mark.parametrize("mean", [0.0, 1e8])
def test_cells_hold_mean_and_squares_of_their_trials(mean: float) -> None:
    table = with_scores(grid({"system": "AB", "task": range(5), "run": range(4)}), mean=mean)
    study = graded_study("task", within("run", "system", "task"), object="system")
    cells = checked(study, table).cells
    for cell, (_, rows) in enumerate(table.groupby(["system", "task"])):
        assert cells.graded is not None
        assert cells.graded.mean[cell] == pytest.approx(rows["score"].mean(), rel=1e-15)
        squares = ((rows["score"] - rows["score"].mean()) ** 2).sum()
        # A naive sum of squares would lose all digits at 1e8.
        assert cells.graded.squares[cell] == pytest.approx(squares, rel=1e-6)
    assert cells.successes.dtype == float
    assert cells.successes.sum() == pytest.approx(table["score"].sum(), rel=1e-14)
    assert cells.graded.precision is None
    assert cells.trials.tolist() == [4] * 10


def test_combining_is_the_likelihood_of_the_trials() -> None:
    rng = np.random.default_rng(5)
    y, se = rng.normal(3.0, 2.0, 30), rng.uniform(0.5, 2.0, 30)
    index = np.sort(rng.integers(0, 4, 30)).astype(np.int32)
    groups = Partition(index, 4)
    single = graded_trials(y, se)
    whole = combine(single, np.ones(30, dtype=np.int64), groups)
    theta = rng.normal(size=4)
    direct = (-0.5 * ((y - theta[index]) / se) ** 2 - np.log(se)).sum()
    assert whole.precision is not None
    kernel = whole.squares + whole.precision * (whole.mean - theta) ** 2
    assert -0.5 * kernel.sum() - whole.log_errors == pytest.approx(direct, rel=1e-12)
    # In two steps as in one.
    fine = Partition(np.arange(30, dtype=np.int32) // 2, 15)
    halves = combine(single, np.ones(30, dtype=np.int64), fine)
    everything = Partition(np.zeros(30, dtype=np.int32), 1)
    pairs = Partition(np.zeros(15, dtype=np.int32), 1)
    once = combine(single, np.ones(30, dtype=np.int64), everything)
    twice = combine(halves, fine.totals(np.ones(30, dtype=np.int64)), pairs)
    for field in ("mean", "squares", "precision"):
        np.testing.assert_allclose(getattr(once, field), getattr(twice, field), rtol=1e-12)


def test_the_digest_knows_grades_and_errors() -> None:
    table = with_scores(grid({"task": range(5), "run": range(3)})).assign(se=1.0)
    facets = ["task", within("run", "task")]
    first = checked(graded_study(*facets), table).cells
    moved = table.sample(frac=1, random_state=1)
    assert checked(graded_study(*facets), moved).cells.digest() == first.digest()
    other = table.assign(score=table["score"] + np.r_[1e-9, np.zeros(14)])
    assert checked(graded_study(*facets), other).cells.digest() != first.digest()
    known = graded_study(*facets, standard_error="se")
    one, two = (checked(known, table.assign(se=se)).cells.digest() for se in (1.0, 2.0))
    assert one != two


def test_within_trial_shifts_leave_the_mean_but_not_the_squares() -> None:
    g = combine(
        Graded(np.array([1.0, 2.0]), np.array([0.5, 0.0])),
        np.array([2, 2]),
        Partition(np.zeros(2, dtype=np.int32), 1),
    )
    assert (g.mean.tolist(), g.squares.tolist()) == ([1.5], [0.5 + 2 * 0.25 + 2 * 0.25])


# ----------------------------------------------------------------------- verdicts and priors


def test_defaults_follow_the_spread_of_all_scores() -> None:
    table = with_scores(grid({"task": range(6), "run": range(3)}), mean=40.0)
    found = checked(graded_study("task", within("run", "task")), table)
    spread = table["score"].std()
    assert found.score_scale == pytest.approx(spread, rel=1e-12)
    assert found.mu_prior.mu == pytest.approx(table["score"].mean(), rel=1e-12)
    assert found.mu_prior.sigma == pytest.approx(2.5 * spread, rel=1e-12)
    assert found.components[0].prior.sigma == pytest.approx(2 * spread, rel=1e-12)
    assert found.residual_prior is not None
    assert found.residual_prior.sigma == pytest.approx(2 * spread, rel=1e-12)
    text = " ".join(str(found).split())
    assert "Priors are in the unit of the score; mu ~ Normal(" in text
    assert "6 graded cells" in text
    own = {"dist": "Exponential", "lam": 3.0}
    declared = graded_study("task", within("run", "task"), priors={"sd(residual)": own})
    assert checked(declared, table).residual_prior == Prior("Exponential", {"lam": 3.0})


def spread(scores: list[float]) -> tuple[float, float]:
    graded = graded_trials(np.array(scores), None)
    return score_spread(graded, np.ones(len(scores), dtype=np.int64))


def test_scores_that_are_all_the_same_have_a_spread_of_one() -> None:
    assert spread([0.1] * 5) == (pytest.approx(0.1), 1.0)
    assert spread([3.0]) == (3.0, 1.0)
    assert spread([1.0, 3.0]) == (2.0, pytest.approx(np.sqrt(2)))


def test_spread_of_groups_is_that_of_their_scores() -> None:
    scores = np.random.default_rng(1).normal(1e3, 2.0, 30)
    groups = Partition(np.repeat(np.arange(5, dtype=np.int32), [1, 2, 7, 9, 11]), 5)
    single = graded_trials(scores, None)
    ones = np.ones(30, dtype=np.int64)
    found = score_spread(combine(single, ones, groups), groups.totals(ones))
    assert found == pytest.approx((scores.mean(), scores.std(ddof=1)), rel=1e-10)


def test_binary_scores_have_no_residual_and_no_spread() -> None:
    found = checked(
        study_of("task", within("run", "task")), grid({"task": range(5), "run": [1, 2]})
    )
    assert (found.residual_prior, found.score_scale, found.score_mean) == (None, None, None)
    assert found.cells.graded is None


def test_one_graded_trial_per_level_is_inside_the_residual() -> None:
    table = with_scores(grid({"task": range(6), "run": range(3)}))
    found = checked(graded_study("task", within("run", "task")), table)
    assert verdicts(found) == {"task": "estimable", "task:run": "inside residual"}


def eight_schools() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "school": list("ABCDEFGH"),
            "score": [28, 8, -3, 7, -1, 1, 18, 12],
            "se": [15, 10, 16, 11, 9, 11, 10, 18],
        }
    )


def test_one_trial_with_a_known_error_informs_its_level() -> None:
    found = checked(graded_study("school", standard_error="se"), eight_schools())
    assert verdicts(found) == {"school": "estimable"}
    assert not found.components[0].prior_only
    assert found.residual_prior is None
    cells = found.cells
    assert cells.graded is not None
    assert cells.graded.precision is not None
    np.testing.assert_allclose(cells.graded.precision, eight_schools()["se"] ** -2.0, rtol=1e-15)
    assert cells.graded.log_errors == pytest.approx(np.log(eight_schools()["se"]).sum())
    assert "errors are known" in str(found)
    crossed = eight_schools().merge(pd.DataFrame({"year": [1, 2, 3, 4, 5]}), how="cross")
    both = checked(graded_study("school", "year", standard_error="se"), crossed)
    assert verdicts(both)["school:year"] == "estimable"


def test_grades_that_are_all_0_or_1_are_noticed() -> None:
    table = grid({"task": range(6), "run": range(3)})
    [note] = checked(graded_study("task", within("run", "task")), table).notes
    assert note.startswith("every score is 0 or 1")


def test_a_drift_of_grades_is_told_in_their_unit() -> None:
    table = grid({"task": range(20), "run": range(9)})
    table["score"] = 50.0 + 3 * table["run"] + np.random.default_rng(1).normal(size=len(table))
    [note] = checked(graded_study("task", within("run", "task")), table).notes
    assert note.startswith("the mean score drifts over run order: 5")


def test_cells_of_real_judges_hold_their_published_means(shared: Path) -> None:
    table = pd.read_csv(shared / "data" / "hibayes_judges.csv.gz")
    study = graded_study(
        gs.Facet("judge", role="error"), within("rollout", "system", "judge"), object="system"
    )
    cells = checked(study, table[table["environment"] == "q3"]).cells
    assert cells.facets == ("system", "judge")
    assert cells.graded is not None
    labels = [
        [cells.labels[f][c] for f, c in zip(cells.facets, row, strict=True)] for row in cells.codes
    ]
    found = dict(zip(map(tuple, labels), cells.graded.mean.round(4).tolist(), strict=True))
    assert found["LLM A", "Autograder A"] == 4.8795
    assert found["LLM B", "Autograder C"] == 3.5581
    assert cells.trials.sum() == 1048
    sds = np.sqrt(cells.graded.squares / (cells.trials - 1))
    assert round(float(sds[labels.index(["LLM A", "Human X"])]), 4) == 0.8245


UNITS = np.random.default_rng(3).normal(size=(8, 4)) + np.arange(8.0)[:, None]


def in_unit(factor: float, origin: float = 0.0) -> pd.DataFrame:
    table = grid({"task": range(8), "run": range(4)})
    return table.assign(score=(UNITS * factor + origin).ravel())


@pytest.mark.parametrize("power", [20, 80, -20, -80, -200])
def test_scores_in_a_unit_far_from_one_are_refused_with_the_factor(power: int) -> None:
    study = graded_study("task", within("run", "task"))
    with pytest.raises(DataError, match=f"in a unit that no sampler.*by 1e{-power}") as told:
        checked(study, in_unit(10.0**power))
    assert "standard deviations from 1e-08 to 1e+10" in str(told.value)
    found = checked(study, in_unit(10.0**power * 10.0**-power))
    assert found.score_scale == pytest.approx(UNITS.std(ddof=1), rel=1e-9)


def test_scores_that_differ_by_too_little_for_their_size_are_refused() -> None:
    study = graded_study("task", within("run", "task"))
    with pytest.raises(
        DataError, match=r"differ by too little for their size.*Subtract 1e\+12 from"
    ):
        checked(study, in_unit(1.0, 1e12))
    assert checked(study, in_unit(1.0, 1e8)).score_scale == pytest.approx(UNITS.std(ddof=1))
    # All alike but for the rounding of a sum is all alike.
    same = in_unit(0.0, 0.1 + 0.2)
    same.loc[0, "score"] = 0.3
    assert checked(study, same).score_scale == 1.0
