"""Rows split by index sets: levels in order, the same split recognised, no key too large."""

from __future__ import annotations

import numpy as np
import pytest

from gstudy.study.partition import split


def codes(rows: list[list[int]]) -> np.ndarray:
    return np.array(rows, dtype=np.int32)


def test_levels_are_ordered_as_their_tuples() -> None:
    rows = codes([[1, 0], [0, 2], [0, 1], [1, 0]])
    partition = split(rows, [0, 1])
    assert partition.n_levels == 3
    assert partition.index.tolist() == [2, 1, 0, 2]
    assert partition.first_rows().tolist() == [2, 1, 0]


def test_columns_decide_which_code_counts_most() -> None:
    rows = codes([[0, 1], [1, 0]])
    assert split(rows, [0, 1]).index.tolist() == [0, 1]
    assert split(rows, [1, 0]).index.tolist() == [1, 0]


def test_no_column_is_one_level() -> None:
    partition = split(codes([[0], [1]]), [])
    assert partition.n_levels == 1
    assert partition.index.tolist() == [0, 0]


def test_totals_are_whole_numbers_per_level() -> None:
    partition = split(codes([[0], [1], [0]]), [0])
    assert partition.totals(np.array([3, 4, 5])).tolist() == [8, 4]


def test_refines_and_equals() -> None:
    rows = codes([[0, 5, 0], [1, 4, 0], [2, 4, 1]])
    fine, twin, coarse = (split(rows, [column]) for column in range(3))
    assert fine.refines(coarse)
    assert not coarse.refines(fine)
    assert not twin.refines(coarse)
    assert fine.equals(split(rows, [0, 1]))
    assert not fine.equals(twin)


@pytest.mark.parametrize("n_columns", [3, 7])
def test_many_large_codes_agree_with_numpy(n_columns: int) -> None:
    # Seven columns of 2,000 codes make keys beyond 64 bits.
    rng = np.random.default_rng(1)
    rows = rng.integers(0, 2000, size=(500, n_columns)).astype(np.int32)
    rows = np.concatenate([rows, rows[:100]])
    partition = split(rows, range(n_columns))
    distinct, inverse = np.unique(rows, axis=0, return_inverse=True)
    assert partition.n_levels == len(distinct)
    assert np.array_equal(partition.index, inverse)
