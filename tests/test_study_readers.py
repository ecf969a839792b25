"""Readers: files and frames give the same raw columns, and damage is named with its place."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gstudy.errors import DataError
from gstudy.study.reading.readers import read_columns
from gstudy.study.reading.wanted_columns import WantedColumns

WANTED = WantedColumns({"task": "facets.task", "ok": "score"}, ("outcome",))


def read(source: Any, wanted: WantedColumns = WANTED) -> list[tuple[Any, ...]]:
    frame, _ = read_columns(source, wanted)
    return [tuple(row) for row in frame.itertuples(index=False)]


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def write(name: str, content: bytes | str) -> Path:
        path = tmp_path / name
        raw = content.encode() if isinstance(content, str) else content
        path.write_bytes(gzip.compress(raw) if name.lower().endswith(".gz") else raw)
        return path

    return write


# ---------------------------------------------------------------- CSV


@pytest.mark.parametrize("name", ["t.csv", "T.CSV", "t.csv.gz", "T.CSV.GZ"])
def test_csv_values_stay_the_text_they_are(write: Any, name: str) -> None:
    text = 'task,note,ok\nNone,x,1\n007,,NA\n"a,b",x,""\nnan,"q ""x""",True\n" c ",,0\n'
    rows = [("None", "1"), ("007", "NA"), ("a,b", ""), ("nan", "True"), (" c ", "0")]
    assert read(write(name, text)) == rows


def test_csv_layouts_of_other_tools(write: Any) -> None:
    rows = [("a", "1"), ("b", "0")]
    assert read(write("bom.csv", b"\xef\xbb\xbftask,ok\na,1\nb,0\n")) == rows
    assert read(write("crlf.csv", "task,ok\r\na,1\r\n\r\nb,0\r\n")) == rows
    assert read(write("mac.csv", "task,ok\ra,1\rb,0\r")) == rows
    assert read(write("no_end.csv", "\ntask,ok\na,1\nb,0")) == rows
    assert read(write("index.csv", ",ok,task,\n0,1,a,\n1,0,b,\n")) == rows
    assert read(write("lines.csv", 'task,ok\n"a\nb",1\n')) == [("a\nb", "1")]


def test_csv_column_that_is_not_named_may_hold_anything(write: Any) -> None:
    long = "x" * 3_000_000
    assert read(write("t.csv", f'junk,task,ok\n"{long}",a,1\n5" disk,b,0\n')) == [
        ("a", "1"),
        ("b", "0"),
    ]
    assert read(write("t.csv", b"junk,task,ok\n\xff\xfe,a,1\n")) == [("a", "1")]


CSV = [
    ("", "is empty"),
    ("\n\n", "is empty"),
    ("task,ok\n", "has no rows. Allowed: one row per trial"),
    ("task,ok\na,1\nb\n", "row 2 has 1 values where the header names 2 columns. Given: 'b'"),
    ("task,ok\na,1\n\nb,1\nc,1,2\n", "row 3 has 3 values where the header names 2 columns"),
    ("task,task,ok\na,b,1\n", "column 'task' is there 2 times"),
    ("task,ok,x,x\na,1,2,3\n", "column 'x' is there 2 times"),
    (
        "item,ok\na,1\n",
        r"no column 'task', which facets\.task asks for\. Allowed: its columns item, ok\. Name",
    ),
    ("item,ok\na,1\n", r'Name the right column: \[facets\.task\] column = "\.\.\."'),
    ("Task,ok\na,1\n", "no column 'task'.*Did you mean 'Task'"),
    ("task,passed\na,1\n", r'no column .ok., which score asks for.*right column: score = "\.\.\."'),
    ("task;ok\na;1\n", "separated by semicolons: save the file with commas"),
    ("task\tok\na\t1\n", "separated by tabs"),
    ('task,ok\na,1\nb,"1\nc,1\n', "row 2: a double quote is not closed"),
    ('"task,ok\na,1\n', "the header: a double quote is not closed|no column"),
]


@pytest.mark.parametrize(("text", "message"), CSV)
@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_wrong_csv_is_refused(write: Any, name: str, text: str, message: str) -> None:
    with pytest.raises(DataError, match=f"{name}.*({message})"):
        read(write(name, text))


def test_csv_that_is_not_utf8_is_named_with_its_place(write: Any) -> None:
    with pytest.raises(
        DataError, match=r"t\.csv, row 2, column 'task' is not UTF-8.*Save the file"
    ):
        read(write("t.csv", "task,ok\na,1\nü,1\n".encode("latin-1")))
    with pytest.raises(DataError, match=r"t\.csv: the header is not UTF-8 text"):
        read(write("t.csv", "täsk,ok\na,1\n".encode("latin-1")))


BINARY = {
    "a netCDF file": b"\x89HDF\r\n\x1a\n" + bytes(90),
    "a Parquet file, .*Name it .parquet": b"PAR1" + bytes(90),
    "a gzipped file, .*Name it .csv.gz": gzip.compress(b"task,ok\na,1\n"),
    "a zip archive or a workbook .*Save the sheet": b"PK\x03\x04" + bytes(90),
    "UTF-16 text, .*Save the file as UTF-8": "task,ok\na,1\n".encode("utf-16"),
    "a binary file, no text of trials": bytes(range(200)),
}


@pytest.mark.parametrize("kind", BINARY)
@pytest.mark.parametrize("name", ["t.csv", "t.jsonl"])
def test_what_is_no_text_is_named_by_its_kind(write: Any, name: str, kind: str) -> None:
    with pytest.raises(DataError, match=f"is {kind}"):
        read(write(name, BINARY[kind]))


def test_a_fit_is_no_file_of_trials(write: Any) -> None:
    with pytest.raises(DataError, match=r"run\.nc is a fit by its name, not trials.*gs\.load"):
        read(write("run.nc", b"CDF"))


@pytest.mark.parametrize("name", ["t.csv.gz", "t.jsonl.gz"])
def test_damaged_gzip_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    lines = "".join(f'{{"task": "{i}", "ok": 1}}\n' for i in range(9999))
    text = "task,ok\n" + "a,1\n" * 9999 if "csv" in name else lines
    whole = gzip.compress(text.encode())
    for damaged in (whole[:-20], text.encode(), whole[:40] + b"xxxx" + whole[44:], b""):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=rf"{name}.*(cannot be read|is empty)"):
            read(path)


def test_wide_table_lists_some_columns(write: Any) -> None:
    header = ",".join(f"c{i}" for i in range(300))
    with pytest.raises(DataError, match="c18, c19 and 280 more"):
        read(write("t.csv", f"{header}\n{header}\n"))


# ---------------------------------------------------------------- JSON lines


@pytest.mark.parametrize("name", ["t.jsonl", "t.jsonl.gz"])
def test_json_lines_keep_their_types(write: Any, name: str) -> None:
    lines = [
        {"task": "007", "ok": 1, "junk": {"a": [1]}},
        {"ok": None, "task": 7},
        {"task": True, "ok": float("nan")},
        {"task": None},
    ]
    text = "\n\n".join(json.dumps(line) for line in lines) + "\n"
    rows = read(write(name, text))
    assert rows[:2] == [("007", 1), (7, None)]
    assert rows[2][0] is True
    assert rows[2][1] != rows[2][1]
    assert rows[3] == (None, None)


def test_json_lines_with_a_byte_order_mark(write: Any) -> None:
    assert read(write("t.jsonl", b'\xef\xbb\xbf{"task": "a", "ok": 1}\r\n')) == [("a", 1)]


def test_optional_key_may_be_in_some_lines(write: Any) -> None:
    lines = '{"task": "a", "ok": 1}\n{"task": "b", "outcome": "failed"}\n'
    assert read(write("t.jsonl", lines)) == [("a", 1, None), ("b", None, "failed")]


JSON = [
    ("", "is empty"),
    ("\n \n", "is empty"),
    ('{"task": 1, "ok": 1}\n\n{"task": 1,\n', "line 3 is not JSON: .* at character"),
    ('{"task": 1} {"task": 2}\n', "line 1 is not JSON: the line does not end after its value"),
    ("[\n{}\n]", r"line 1 is not JSON.*one JSON document: write each trial on a line of its own"),
    ('{"task": 1, "ok": 1}\n[1]\n', r"line 2 is not a JSON object\. Given: '\[1\]'"),
    ("3\n", "line 1 is not a JSON object"),
    ('{"task": 1, "task": 2, "ok": 1}\n', "line 1: key 'task' is there twice"),
    ('{"item": 1, "ok": 1}\n', r"no column 'task', which facets\.task asks for"),
    ("[" * 100_000 + "\n", "line 1 is not JSON"),
    ('{"task": ' + "9" * 5000 + "}\n", "line 1 is not JSON"),
]


@pytest.mark.parametrize(("text", "message"), JSON)
def test_wrong_json_lines_are_refused(write: Any, text: str, message: str) -> None:
    with pytest.raises(DataError, match=rf"t\.jsonl.*({message})"):
        read(write("t.jsonl", text))


def test_json_line_that_is_not_utf8_is_named(write: Any) -> None:
    with pytest.raises(DataError, match=r"t\.jsonl, line 2 is not UTF-8 text"):
        read(write("t.jsonl", b'{"task": "a", "ok": 1}\n{"task": "\xff", "ok": 1}\n'))


def test_key_twice_in_what_is_not_read_does_no_harm(write: Any) -> None:
    assert read(write("t.jsonl", '{"task": "a", "ok": 1, "x": {"b": 1, "b": 2}}\n')) == [("a", 1)]


# ---------------------------------------------------------------- Parquet and frames


def test_parquet_keeps_its_types(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {"task": pd.Series([1, None], dtype="Int64"), "ok": [True, False], "x.y": [[1], [2]]}
    )
    frame.to_parquet(tmp_path / "t.parquet")
    rows = read(tmp_path / "t.parquet")
    assert rows[0] == (1, True)
    assert rows[1][0] is pd.NA


def test_parquet_index_is_a_column(tmp_path: Path) -> None:
    frame = pd.DataFrame({"task": ["a", "b"], "ok": [1, 0]}).set_index("task")
    frame.to_parquet(tmp_path / "t.parquet")
    assert read(tmp_path / "t.parquet") == [("a", 1), ("b", 0)]


def test_parquet_column_may_have_a_dot(tmp_path: Path) -> None:
    table = pa.table({"a.b": ["t"], "a": [{"b": 3}], "ok": [1]})
    pq.write_table(table, tmp_path / "t.parquet")
    wanted = WantedColumns({"a.b": "facets.task", "ok": "score"})
    assert read(tmp_path / "t.parquet", wanted) == [("t", 1)]


def test_wrong_parquet_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table([["a"], ["b"], [1]], names=["task", "task", "ok"]), path)
    with pytest.raises(DataError, match=r"t\.parquet: column 'task' is there 2 times"):
        read(path)
    pq.write_table(pa.table({"item": ["a"], "ok": [1]}), path)
    with pytest.raises(DataError, match=r"t\.parquet has no column 'task'"):
        read(path)
    pq.write_table(
        pa.table({"task": pa.array([], pa.string()), "ok": pa.array([], pa.int8())}), path
    )
    with pytest.raises(DataError, match=r"t\.parquet has no rows"):
        read(path)
    for damaged in (b"task,ok\na,1\n", b""):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=r"t\.parquet cannot be read as Parquet"):
            read(path)


def test_frame_is_read_whatever_its_index(tmp_path: Path) -> None:
    frame = pd.DataFrame({"task": ["a", "b"], "ok": [1, 0]}, index=[9, 9])
    before = frame.copy()
    assert read(frame) == [("a", 1), ("b", 0)]
    pd.testing.assert_frame_equal(frame, before)


def test_wrong_frame_is_refused() -> None:
    frame = pd.DataFrame({"task": ["a"], "ok": [1]})
    with pytest.raises(DataError, match=r"'task' is in the index: use df\.reset_index\(\)"):
        read(frame.set_index("task"))
    with pytest.raises(DataError, match="DataFrame: column 'ok' is there 2 times"):
        read(pd.concat([frame, frame[["ok"]]], axis=1))
    with pytest.raises(DataError, match="DataFrame has no column 'ok'"):
        read(frame[["task"]])
    with pytest.raises(DataError, match="DataFrame has no rows"):
        read(frame.iloc[:0])


# ---------------------------------------------------------------- sources that are none


def test_source_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"from a file or a DataFrame\. Given: 'builtins\.dict'"):
        read({"task": ["a"]})
    with pytest.raises(DataError, match=r"no file .*nowhere\.csv"):
        read(tmp_path / "nowhere.csv")
    with pytest.raises(DataError, match=r"is a folder\. Allowed: one file: \.csv"):
        read(tmp_path)
    with pytest.raises(
        DataError, match=r"t\.xlsx has no suffix.*Given: '\.xlsx'.*\.csv, \.csv\.gz"
    ):
        read(tmp_path / "t.xlsx")


def test_columns_in_two_levels_are_told() -> None:
    frame = pd.DataFrame({("a", "task"): ["t"], ("a", "passed"): [1]})
    with pytest.raises(DataError, match="The columns are a MultiIndex"):
        read_columns(frame, WantedColumns({"task": "facets.task"}))


def test_a_name_that_no_system_takes_cannot_be_read() -> None:
    with pytest.raises(DataError, match="cannot be read"):
        read_columns("x" * 4000 + ".csv", WantedColumns({"task": "facets.task"}))
