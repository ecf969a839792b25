"""Scores and counts: what is read as which number, and what is refused with which advice."""

from __future__ import annotations

import decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gstudy.errors import DataError
from gstudy.study.reading.scores import read_counts, read_scores
from gstudy.study.reading.source_rows import Source

FILE = Source("trials.csv")


def scores(values: Any, *, has_rollouts: bool = True, ignore: Any = False) -> list[float]:
    column = values if isinstance(values, pd.Series) else pd.Series(values, dtype=object)
    rows = np.broadcast_to(ignore, len(column))
    read = read_scores(column, "ok", FILE, ignore=rows, has_rollouts=has_rollouts)
    return [-1 if np.isnan(score) else score for score in read]


def counts(k: Any, n: Any, ignore: Any = False) -> tuple[list[int], list[int], list[bool]]:
    passed, total = pd.Series(k, name="k", dtype=object), pd.Series(n, name="n", dtype=object)
    read = read_counts(passed, total, FILE, ignore=np.broadcast_to(ignore, len(passed)))
    return tuple(array.tolist() for array in read)


ONE_ZERO_NONE = [
    pd.Series([1, 0, pd.NA], dtype="Int64"),
    pd.Series([1.0, 0.0, np.nan]),
    pd.Series([True, False, pd.NA], dtype="boolean"),
    pd.Series([True, False, None], dtype="bool[pyarrow]"),
    pd.Series([1, 0, None], dtype="int64[pyarrow]"),
    pd.Series([1, 0, None], dtype="category"),
    pd.Series(["1", "0", None]),
    pd.Series(["1.0", "0.0", ""], dtype=object),
    pd.Series(["TRUE", " false ", "N/A"]),
    pd.Series([True, 0, None], dtype=object),
    pd.Series([decimal.Decimal(1), decimal.Decimal(0), decimal.Decimal("NaN")]),
]


@pytest.mark.parametrize("column", ONE_ZERO_NONE, ids=lambda column: str(column.dtype))
def test_every_type_gives_the_same_scores(column: pd.Series) -> None:
    assert scores(column) == [1, 0, -1]


def test_plain_truth_values_and_numbers() -> None:
    assert scores(pd.Series([True, False])) == [1, 0]
    assert scores(pd.Series([1, 0], dtype="int8")) == [1, 0]
    assert scores(pd.Series([-0.0])) == [0]
    assert not np.signbit(scores(pd.Series([-0.0]))[0])


@pytest.mark.parametrize("word", ["", " ", "nan", "NaN", "NA", "n/a", "None", "NULL", "<NA>"])
def test_words_that_say_never_scored(word: str) -> None:
    assert scores([word]) == [-1]


WRONG = [
    ([1, 0.37, 0.42], r"column 'ok'.*\(2 of 3 rows hold such a value\)\. Given: 0\.37"),
    ([1, "0.5"], r"2.*Given: '0\.5'.*threshold of your own, such as df\['ok'\] = df\['ok'\]"),
    ([0, 2], r"Given: 2\. .*If scores are graded, declare family = \"gaussian\"; or"),
    ([-1], "Given: -1"),
    ([0.9999999], r"Given: 0\.9999999"),
    ([1, float("inf")], r"2.*Given: inf\. Allowed: 0 or 1, true or false"),
    (["-inf"], "Given: '-inf'"),
    ([10**400], "Given: 1000"),
    (["C"], "Given: 'C'.*Write 1 for a pass and 0 for a fail"),
    (["yes", 1], "1.*Given: 'yes'"),
    (["37%"], "Given: '37%'"),
    (["1_0"], "Given: '1_0'"),
    (["١"], "Given: '١'"),
    ([[1]], r"Given: \[1\]"),
    ([{"value": 1}], "Given: {'value': 1}"),
]


@pytest.mark.parametrize(("values", "message"), WRONG)
def test_what_is_no_score_is_refused(values: Any, message: str) -> None:
    with pytest.raises(DataError, match=rf"(?s)trials\.csv, row (?=.*this is no score).*{message}"):
        scores(values)


def test_fraction_without_rollouts_may_be_a_mean_over_epochs() -> None:
    with pytest.raises(DataError, match=r"one row per run \(unreduced epochs\), or their counts"):
        scores([0.4], has_rollouts=False)
    with pytest.raises(DataError) as graded:
        scores([0.4], has_rollouts=True)
    assert "unreduced" not in str(graded.value)


def test_advice_on_infinity_is_not_to_threshold_it() -> None:
    with pytest.raises(DataError) as infinite:
        scores([float("inf")])
    assert "threshold" not in str(infinite.value)


def test_long_value_is_cut_in_the_message() -> None:
    with pytest.raises(DataError) as long:
        scores(["transcript " * 1000])
    assert len(str(long.value)) < 600


def test_score_of_a_failed_run_is_not_read() -> None:
    assert scores([1, "Error: timeout", 0.5, 1], ignore=[False, True, True, True]) == [
        1,
        -1,
        -1,
        -1,
    ]


def test_counts_are_whole_numbers() -> None:
    assert counts([3, "2", 1.0, 0], ["4", 4.0, 4, 4]) == ([3, 2, 1, 0], [4, 4, 4, 4], [True] * 4)


def test_rows_without_a_score_count_nothing() -> None:
    assert counts([None, "", 0, None], [4, None, 0, float("nan")]) == (
        [0] * 4,
        [0] * 4,
        [False] * 4,
    )


def test_failed_row_keeps_its_number_of_trials() -> None:
    assert counts([None, "err"], [4, 3], ignore=True) == ([0, 0], [4, 3], [False, False])


WRONG_COUNTS = [
    ([1, 5], [4, 4], r"2, column 'k': more successes than trials\. Given: '5 of 4'"),
    ([-1], [4], r"column 'k': this is no count\. Given: -1\. Allowed: a whole number, 0 or more"),
    ([1], [-4], r"column 'n': this is no count\. Given: -4"),
    ([1.5], [4], r"Given: 1\.5.*number of passes, not a rate or a sum of graded scores"),
    ([1], ["4.5"], r"column 'n': this is no count\. Given: '4\.5'"),
    (["many"], [4], "Given: 'many'"),
    ([True], [4], "Given: True"),
    ([float("inf")], [4], "Given: inf"),
    ([2**60], [2**60], "this is no count"),
    ([10**400], [4], "this is no count"),
    ([2], [None], r"column 'n': the number of trials is missing\. Given: '2 successes'"),
    ([1], [0], r"more successes than trials\. Given: '1 of 0'"),
]


@pytest.mark.parametrize(("k", "n", "message"), WRONG_COUNTS)
def test_what_is_no_count_is_refused(k: list[Any], n: list[Any], message: str) -> None:
    with pytest.raises(DataError, match=rf"trials\.csv, row .*{message}"):
        counts(k, n)
