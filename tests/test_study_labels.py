"""Labels: one text per value, whatever type the table gives it, and what is no label."""

from __future__ import annotations

import datetime
import decimal
import uuid
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from gstudy.errors import DataError
from gstudy.study.reading.labels import label_text, read_labels
from gstudy.study.reading.source_rows import Source
from gstudy.study.reading.unique_values import unique_values

FILE = Source("trials.csv")


def texts(column: pd.Series) -> list[str]:
    return list(read_labels(column, "task", FILE).array())


def objects(*values: Any) -> pd.Series:
    return pd.Series(list(values), dtype=object)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("007", "007"),
        ("None", "None"),
        ("nan", "nan"),
        (" a ", " a "),
        ("a:b/c", "a:b/c"),
        (7, "7"),
        (7.0, "7"),
        (-0.0, "0"),
        (0.5, "0.5"),
        (2**70, "1180591620717411303424"),
        (True, "True"),
        (decimal.Decimal("7.00"), "7"),
        (decimal.Decimal("0.50"), "0.50"),
        (datetime.date(2026, 1, 31), "2026-01-31"),
        (pd.Timestamp("2026-01-31 10:00"), "2026-01-31 10:00:00"),
        (uuid.UUID(int=7), "00000000-0000-0000-0000-000000000007"),
    ],
)
def test_label_text(value: Any, text: str) -> None:
    assert label_text(value) == text


INTEGERS: list[pd.Series] = [
    pd.Series([10, 2, 10]),
    pd.Series([10, 2, 10], dtype="int8"),
    pd.Series([10, 2, 10], dtype="Int64"),
    pd.Series([10, 2, 10], dtype="uint64[pyarrow]"),
    pd.Series([10.0, 2.0, 10.0]),
    pd.Series([10.0, 2.0, 10.0], dtype="Float64"),
    pd.Series([10.0, 2.0, 10.0], dtype="double[pyarrow]"),
    pd.Series([10, 2, 10], dtype="category"),
    pd.Series(["10", "2", "10"], dtype="str"),
    pd.Series(["10", "2", "10"], dtype=object),
    pd.Series(["10", "2", "10"], dtype="string"),
    pd.Series(["10", "2", "10"], dtype="category"),
    pd.Series(["10", "2", "10"], dtype=pd.ArrowDtype(pa.large_string())),
    pd.Series(["10", "2", "10"], dtype=pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string()))),
    pd.Series([decimal.Decimal(10), decimal.Decimal(2), decimal.Decimal(10)]),
    objects(10, 2.0, np.int8(10)),
]


@pytest.mark.parametrize("column", INTEGERS, ids=lambda column: str(column.dtype))
def test_every_type_gives_the_same_labels(column: pd.Series) -> None:
    assert texts(column) == ["10", "2", "10"]


TRUTHS = [
    pd.Series([True, False]),
    pd.Series([True, False], dtype="boolean"),
    pd.Series([True, False], dtype="bool[pyarrow]"),
    pd.Series([True, False], dtype="category"),
    objects(True, np.False_),
    pd.Series(["True", "False"]),
]


@pytest.mark.parametrize("column", TRUTHS, ids=lambda column: str(column.dtype))
def test_truth_values_are_labels(column: pd.Series) -> None:
    assert texts(column) == ["True", "False"]


def test_texts_that_mean_missing_elsewhere_are_labels() -> None:
    words = ["None", "NA", "nan", "null", "NaN", "<NA>", "-"]
    assert texts(pd.Series(words)) == words
    assert texts(pd.Series(words, dtype="category")) == words


def test_truth_and_number_are_two_labels() -> None:
    assert texts(objects(True, 1, 1.0, False, 0)) == ["True", "1", "1", "False", "0"]


def test_unused_categories_are_no_levels() -> None:
    column = pd.Series(pd.Categorical(["b", "a", "b"], categories=["a", "z", "b"]))
    labels = read_labels(column, "task", FILE)
    assert sorted(labels.texts) == ["a", "b"]
    assert list(labels.array()) == ["b", "a", "b"]
    arrow = pa.DictionaryArray.from_arrays(pa.array([1, 0]), pa.array(["a", "b", "z"]))
    table = pa.table({"task": arrow}).to_pandas(types_mapper=pd.ArrowDtype)
    assert sorted(read_labels(table["task"], "task", FILE).texts) == ["a", "b"]


MISSING = [
    objects("a", None, "b", None),
    objects("a", np.nan, "b", pd.NA),
    objects("a", "", "b", None),
    pd.Series(["a", None, "b", ""]),
    pd.Series(["a", "", "b", ""], dtype="category"),
    pd.Series(["a", None, "b", None], dtype="category"),
    pd.Series([1, pd.NA, 2, pd.NA], dtype="Int64"),
    pd.Series([1.0, np.nan, 2.0, np.nan]),
    pd.Series([True, pd.NA, False, pd.NA], dtype="boolean"),
    pd.Series([1, None, 2, None], dtype="int64[pyarrow]"),
    pd.Series(["a", None, "b", ""], dtype=pd.ArrowDtype(pa.large_string())),
    pd.Series(pd.to_datetime(["2026-01-01", None, "2026-01-02", None])),
]


@pytest.mark.parametrize("column", MISSING, ids=lambda column: str(column.dtype))
def test_missing_label_is_refused(column: pd.Series) -> None:
    message = r"trials\.csv, row 2, column 'task': the label is missing \(2 of 4 rows have none\)"
    with pytest.raises(DataError, match=message):
        texts(column)


COLLISIONS = [
    (objects(1, "1"), r"one label, '1': 1 in row 1 and '1' in row 2"),
    (objects("a", "1", 1.0), r"'1' in row 2 and 1\.0 in row 3"),
    (objects(True, "True"), r"True in row 1 and 'True' in row 2"),
    (objects(datetime.date(2026, 1, 1), "2026-01-01"), "one label, '2026-01-01'"),
    (pd.Series(pd.Categorical(["1", 1], categories=[1, "1"])), "one label, '1'"),
    (objects(np.int64(7), "7"), "7 in row 1 and '7' in row 2"),
]


@pytest.mark.parametrize(("column", "message"), COLLISIONS)
def test_colliding_labels_are_refused(column: pd.Series, message: str) -> None:
    with pytest.raises(DataError, match=rf"trials\.csv, column 'task': .*{message}"):
        texts(column)


def test_categories_that_collide_but_are_not_used_do_no_harm() -> None:
    assert texts(pd.Series(pd.Categorical(["1"], categories=[1, "1"]))) == ["1"]


WRONG = [
    (objects("a", "b\x00"), r"row 2, column 'task': the label holds NUL\. Given: 'b\\x00'"),
    (objects("a", "b\ud800"), "row 2, column 'task': the label holds broken Unicode"),
    (objects("a", ["b"]), r"row 2, column 'task': a list is no label\. Given: \['b'\]"),
    (objects({"a": 1}), "a dict is no label"),
    (objects(b"a"), "a bytes is no label"),
    (pd.Series([1 + 2j]), "a complex is no label"),
    (pd.Series([[1], [2]], dtype=pd.ArrowDtype(pa.list_(pa.int64()))), "is no label"),
    (pd.Series([b"a"], dtype=pd.ArrowDtype(pa.binary())), "a bytes is no label"),
    (pd.Series(pd.cut([1, 2], 2)), "a Interval is no label"),
]


@pytest.mark.parametrize(("column", "message"), WRONG)
def test_what_is_no_label_is_refused(column: pd.Series, message: str) -> None:
    with pytest.raises(DataError, match=message):
        texts(column)


def test_rows_are_named_with_the_index_of_a_frame() -> None:
    assert Source("DataFrame", pd.RangeIndex(3)).row(1) == "row 2 (index 1)"
    assert Source("DataFrame", pd.RangeIndex(1, 4)).row(1) == "row 2"
    assert Source("DataFrame", pd.Index(["x", "y"])).row(1) == "row 2 (index 'y')"
    pairs = pd.MultiIndex.from_tuples([("x", 1), ("y", 2)])
    assert Source("DataFrame", pairs).row(1) == "row 2 (index ('y', 2))"
    assert Source("DataFrame", pd.Index([1, pd.NA], dtype="Int64")).row(1) == "row 2 (index <NA>)"
    assert Source("trials.csv").row(1) == "row 2"


def test_unique_values_tell_types_apart() -> None:
    unique = unique_values(objects(True, 1, "1", None, 1.0, 1))
    assert [(type(value), value) for value in unique.values] == [
        (bool, True),
        (int, 1),
        (str, "1"),
        (float, 1.0),
    ]
    assert unique.codes.tolist() == [0, 1, 2, -1, 3, 1]
    assert unique.row_of(1) == 1


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        (("t1", "t1 "), r"'t1' in row 1 and 't1 ' in row 2"),
        (("caf\u00e9", "cafe\u0301"), r"'caf\\xe9' in row 1 and 'cafe\\u0301' in row 2"),
    ],
)
def test_labels_that_print_alike_are_refused(values: tuple[str, str], shown: str) -> None:
    with pytest.raises(DataError, match=rf"two labels look alike: {shown}.*Write them alike"):
        texts(pd.Series(values))


def test_a_blank_label_is_missing() -> None:
    with pytest.raises(DataError, match=r"row 2, column 'task': the label is missing"):
        texts(pd.Series(["a", " "]))
