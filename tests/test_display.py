"""Table and the marks of a terminal: nothing is lost, nothing breaks out, nothing is too wide."""

from __future__ import annotations

import io
import json
import math
import sys
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.cells import cell_len

from gstudy._marks import least_width
from gstudy.display import (
    Table,
    bar,
    number,
    percent,
    points,
    printable,
    shorten,
    shortened,
    wrapped,
)

HOSTILE = '<script>alert("x")</script> & a|b *c* [d](e) \x1b[31m\nnew\u202eline'


def budget(**kwargs: object) -> Table:
    frame = pd.DataFrame(
        {
            "facet": ["task", "judge", None],
            "mean": [0.123456, 0.00123456, math.nan],
            "share": [0.62, 0.3799, 0.0001],
            "half": [0.102, 0.0, -0.0001],
            "levels": [165, 2, 1200],
        },
        index=pd.Index(["task", "task:judge", "residual"], name="component"),
    )
    formats = {"share": "percent1", "half": "points1", "mean": "number3", "levels": "int"}
    defaults: dict[str, object] = {"scale": "score", "level": 0.95, "formats": formats}
    return Table(frame, "Budget", **(defaults | kwargs))


def test_text_is_the_table_as_a_reader_expects_it() -> None:
    assert budget(notes=("shares add to 100%",)).text().splitlines() == [
        "Budget",
        "score scale, 95% equal-tailed intervals",
        "",
        "component   facet     mean  share      half  levels",
        "───────────────────────────────────────────────────",
        "task        task     0.123  62.0%   10.2 pt     165",
        "task:judge  judge  0.00123  38.0%    0.0 pt       2",
        "residual                 -   0.0%  -0.01 pt    1200",
        "",
        "shares add to 100%",
    ]


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (0.0, "0"),
        (0.9996, "1.00"),
        (0.99951, "1.00"),
        (-0.0123456, "-0.0123"),
        (99.95, "100"),
        (12345.6, "12346"),
        (0.00001234, "1.23e-05"),
        (2.5e12, "2.50e+12"),
        (math.nan, "-"),
        (math.inf, "inf"),
        (-math.inf, "-inf"),
    ],
)
def test_number_keeps_three_significant_digits(x: float, text: str) -> None:
    assert number(x) == text


def test_percent_and_points() -> None:
    assert (percent(0.4746), percent(1), percent(-1e-9), percent(math.nan)) == (
        "47.5%",
        "100.0%",
        "0.0%",
        "-",
    )
    assert (points(0.0534), points(0.0534, 2), points(math.nan)) == (
        "5.3 points",
        "5.34 points",
        "-",
    )


@pytest.mark.parametrize("width", [1, 7, 20])
def test_bar_fills_its_width_in_proportion(width: int) -> None:
    for share in np.linspace(0, 1, 101):
        text = bar(share, width)
        assert cell_len(text) == width
        eighths = sum(" ▏▎▍▌▋▊▉█".index(mark) for mark in text)
        if eighths > 1:
            assert abs(eighths / 8 / width - share) <= 1 / 16 / width + 1e-12
    assert bar(1, width) == "█" * width
    assert bar(0, width) == bar(math.nan, width) == bar(-0.1, width) == " " * width
    assert bar(7.5, width) == "█" * width
    assert bar(1e-9, width).startswith("▏")


def test_shorten_keeps_both_ends_and_measures_wide_characters() -> None:
    assert shorten("short", 5) == "short"
    assert shorten("claude-3-7-sonnet-20250219", 11) == "claud…50219"
    for width in range(1, 14):
        assert cell_len(shorten("模型甲-2024-版本乙", width)) <= width
    assert shorten("模型甲-2024-版本乙", 10) == "模型…本乙"
    assert shorten("👨‍👩‍👧 of one family", 6) == "👨‍👩‍👧 …ly"
    assert shorten("abc", 0) == ""


def test_wrapped_breaks_between_words_and_inside_only_when_it_must() -> None:
    assert wrapped("one two three", 7) == ["one two", "three"]
    assert wrapped("abcdefghij", 4, indent="  ") == ["abcd", "  ef", "  gh", "  ij"]
    assert wrapped("", 10) == []
    assert all(cell_len(line) <= 9 for line in wrapped("模型甲模型甲模型甲 and more 模型", 9))


def test_no_line_is_wider_than_asked_and_no_number_is_lost() -> None:
    columns = {f"quantity_with_a_long_name_{i}": [i + 0.12345, i * 1000.0] for i in range(12)}
    index = pd.Index(["a very long component name:" * 4, "模型甲" * 20], name="component")
    table = Table(pd.DataFrame(columns, index=index), "Title " * 30, notes=("note " * 40,))
    for width in (30, 40, 80, 200):
        text = table.text(width)
        assert max(map(cell_len, text.splitlines())) <= width
        for i in range(12):
            assert number(i + 0.12345) in text
    assert table.text(30).count("a very … name:") == 12


def test_columns_of_wide_characters_stay_aligned() -> None:
    index = pd.Index(["模型甲", "gpt", "café"], name="system")
    lines = Table(pd.DataFrame({"rate": [0.5, 0.25, 0.125]}, index=index), "").text().splitlines()
    assert {cell_len(line) for line in lines} == {cell_len(lines[0])}


def test_labels_cannot_break_out_of_a_rendering() -> None:
    frame = pd.DataFrame({HOSTILE: [1.0]}, index=pd.Index([HOSTILE], name=HOSTILE))
    table = Table(frame, HOSTILE, notes=(HOSTILE,))
    for rendered in (table.text(400), table.markdown(), table.html()):
        assert "\x1b" not in rendered
        assert "\u202e" not in rendered
    assert table.text(400).count("\\x1b[31m\\nnew\\u202eline") == 3
    assert "<script" not in table.html()
    rows = [
        line
        for line in table.markdown().splitlines()
        if line.startswith("| ") and "---" not in line
    ]
    assert len(rows) == 2
    assert all(r"\<script\>" in row and r"a\|b \*c\* \[d\]" in row for row in rows)


class Cells(HTMLParser):
    """The texts of the cells and the tags used."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_html_holds_the_same_cells_as_the_text() -> None:
    table = budget(notes=("a < b",))
    parser = Cells()
    parser.feed(table.html())
    for text in ("Budget", "score scale, 95% equal-tailed intervals", "task:judge", "10.2 pt"):
        assert text in parser.texts
    assert "a < b" in parser.texts
    assert "script" not in parser.tags
    assert "color" not in table.html().replace("currentColor", "")
    assert table._repr_html_() == table.html()


def test_markdown_aligns_numbers_and_escapes_what_is_markup() -> None:
    frame = pd.DataFrame({"rate": [0.5]}, index=pd.Index(["__init__ my_task"], name="task"))
    assert Table(frame, "Rates", scale="score").markdown().splitlines() == [
        "**Rates**  ",
        "*score scale*",
        "",
        "| task | rate |",
        "| --- | ---: |",
        r"| \_\_init\_\_ my_task | 0.500 |",
    ]


def test_json_is_unrounded_and_strict() -> None:
    frame = pd.DataFrame(
        {
            "mean": [0.1 + 0.2, math.nan, math.inf],
            "n": np.array([1, 2, 3], dtype=np.int32),
            "ok": [True, False, True],
            "note": ["a", None, "b"],
            "count": pd.array([1, pd.NA, 3], dtype="Int64"),
            "day": pd.to_datetime(["2026-01-02", None, "2026-01-03"]),
        },
        index=pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1)], names=["x", "y"]),
    )
    payload = Table(frame, "t", scale="logit", level=0.9).json()
    assert json.loads(json.dumps(payload, allow_nan=False)) == {
        "scale": "logit",
        "level": 0.9,
        "columns": ["x", "y", "mean", "n", "ok", "note", "count", "day"],
        "rows": [
            ["a", 1, 0.1 + 0.2, 1, True, "a", 1, "2026-01-02 00:00:00"],
            ["a", 2, None, 2, False, None, None, None],
            ["b", 1, None, 3, True, "b", 3, "2026-01-03 00:00:00"],
        ],
    }


def test_columns_without_a_format_are_written_by_their_type() -> None:
    frame = pd.DataFrame(
        {
            "n": [1, 20],
            "x": [0.5, math.inf],
            "gone": [math.nan, math.nan],
            "ok": [True, False],
            "text": pd.array(["a", None], dtype="str"),
            "count": pd.array([1, pd.NA], dtype="Int64"),
        }
    )
    assert Table(frame, "").text().splitlines() == [
        " n      x  gone  ok   text  count",
        "─────────────────────────────────",
        " 1  0.500     -  yes  a         1",
        "20    inf     -  no             -",
    ]


def test_decimals_are_fixed_and_counts_are_whole_where_all_are() -> None:
    frame = pd.DataFrame(
        {"v": [0.04021, 1.3e-6, math.nan], "n": [60.00000001, 720, math.inf], "m": [59.3, 2, 720]}
    )
    formats = {"v": "decimal4", "n": "count", "m": "count"}
    assert Table(frame, "", formats=formats).text().splitlines() == [
        "     v    n      m",
        "──────────────────",
        "0.0402   60   59.3",
        "0.0000  720    2.0",
        "     -  inf  720.0",
    ]


def test_an_unnamed_index_of_labels_is_shown_and_a_row_count_is_not() -> None:
    assert Table(pd.DataFrame({"x": [1]}, index=["a"]), "").json()["columns"] == ["", "x"]
    assert Table(pd.DataFrame({"x": [1]}), "").json()["columns"] == ["x"]


def test_a_table_without_rows_still_has_its_header() -> None:
    table = Table(pd.DataFrame({"component": [], "share": []}), "Empty")
    assert table.text().splitlines()[2] == "component  share"
    assert table.json()["rows"] == []
    assert "component" in table.html()
    assert "component" in table.markdown()


def test_a_bar_column_is_drawn() -> None:
    frame = pd.DataFrame({"share": [1.0, 0.5]})
    lines = Table(frame, "", formats={"share": "bar8"}).text().splitlines()
    assert lines[2:] == ["████████", "████"]


def test_an_unknown_format_is_refused() -> None:
    table = Table(pd.DataFrame({"share": [1.0]}), "", formats={"share": "procent1"})
    with pytest.raises(ValueError, match=r"format 'procent1' of column 'share' is none of"):
        table.text()
    with pytest.raises(TypeError, match="'a' is not a number"):
        Table(pd.DataFrame({"share": ["a"]}), "", formats={"share": "int"}).text()


def test_ascii_output_gets_ascii_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    frame = pd.DataFrame({"share": [0.55]}, index=pd.Index(["é" + "x" * 60], name="c"))
    text = Table(frame, "±", formats={"share": "bar10"}).text(30)
    assert text.isascii()
    assert "######" in text
    assert text.startswith("+/-")
    assert "~" in text
    assert "\\xe9" in text


def test_printable_leaves_what_the_output_can_show() -> None:
    assert printable("± █ 模", "utf-8") == "± █ 模"
    assert printable("± █ 模", "latin-1") == "+/- # \\u6a21"


NEAR = [f"organisation/model-{size}-instruct-2026-01-{kind}" for size in "ab" for kind in "xy"]


def test_different_texts_are_never_shortened_to_one() -> None:
    for width in (12, 16, 30):
        forms = shortened(NEAR, width)
        assert len(set(forms)) == len(NEAR)
        assert max(map(cell_len, forms)) <= width
    assert shortened(["model-a-2024-05", "model-b-2024-05"], 9) == ["mo…a-2…05", "mo…b-2…05"]
    # Equal texts stay equal, short ones are left alone.
    assert shortened(["ab", "ab", "c"], 4) == ["ab", "ab", "c"]
    # A label that looks like another's short form.
    taken = ["x" * 20 + "1" + "y" * 20, "x" * 20 + "2" + "y" * 20, "xxxxxx…yy#1"]
    assert len(set(shortened(taken, 11))) == 3
    assert least_width(NEAR, 12) == 12
    # Two places to tell apart, and room for one: the column is widened.
    hard = ["x" * 20 + a + "y" * 20 + b + "z" * 20 for a in "12" for b in "34"]
    assert 12 < least_width(hard, 12) <= 62
    assert len(set(shortened(hard, 12))) == 4


def test_systems_can_be_told_apart_in_a_table_and_intervals_are_whole() -> None:
    spans = ["38.0% to 52.1%", "1.0% to 100.0%", "12.0% to 52.1%", "0.0% to 1.0%"]
    columns: dict[str, Any] = {f"quantity {i}": [0.5] * 4 for i in range(5)}
    frame = pd.DataFrame(
        {"naive interval": spans, "full interval": spans, **columns},
        index=pd.Index(NEAR, name="system"),
    )
    formats = dict.fromkeys(("naive interval", "full interval"), "span")
    for width in (30, 40, 60, 80):
        text = Table(frame, "", formats=formats).text(width)
        blocks = text.split("\n\n")
        for block in blocks:
            rows = [line for line in block.splitlines() if line.startswith("org")]
            assert len({row.split("  ")[0] for row in rows}) == len(rows) == 4
        assert max(map(cell_len, text.splitlines())) <= width
        assert all(text.count(span) == 2 for span in spans)


def test_headers_of_systems_can_be_told_apart() -> None:
    frame = pd.DataFrame({name: [i + 0.5] for i, name in enumerate(NEAR)}, index=["a"])
    for width in (24, 40, 80):
        heads = [
            cell
            for line in Table(frame, "").text(width).splitlines()
            for cell in line.split()
            if "…" in cell or cell in NEAR
        ]
        assert len(set(heads)) == len(heads) == 4


def test_headers_break_between_words_and_names_get_the_room() -> None:
    name = "environment:task:system:task:rollout"
    frame = pd.DataFrame(
        {
            "trials in all": [120, 80],
            "score of the trials": [0.51, 0.62],
            "ICC interval": ["0.21 to 0.43", "0.11 to 0.32"],
            "sd interval": ["0.9 to 1.3", "0.8 to 1.2"],
            "gates": ["passed", "FAILED"],
        },
        index=pd.Index([name, "residual"], name="component"),
    )
    formats = dict.fromkeys(("ICC interval", "sd interval"), "span")
    whole = Table(frame, "", formats=formats).text(90)
    assert name in whole
    assert "…" not in whole
    head = whole.splitlines()
    line = next(i for i, text in enumerate(head) if text.startswith("─"))
    assert line > 1
    assert head[line - 1].startswith("component")
    for width in (26, 30, 60, 80):
        text = Table(frame, "", formats=formats).text(width)
        assert max(map(cell_len, text.splitlines())) <= width
        above = [x for block in text.split("\n\n") for x in block.split("─")[0].splitlines()]
        assert above
        assert not [x for x in above if "…" in x]
        assert set(" ".join([*map(str, frame.columns), "component"]).split()) <= set(
            " ".join(above).split()
        )
