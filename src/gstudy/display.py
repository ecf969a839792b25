"""Tables and the small marks of a terminal: one table, four renderings.

A `Table` is a DataFrame with what a reader must know beside it (scale, level of the intervals,
notes) and how each column is written. It holds numbers; rounding happens only when it is rendered.
"""

from __future__ import annotations

import html
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len

from gstudy._marks import (
    bar,
    bare_points,
    fixed,
    least_width,
    number,
    percent,
    points,
    printable,
    shorten,
    shortened,
    visible,
    wrapped,
)

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "Shown",
    "Table",
    "bar",
    "bare_points",
    "markdown_text",
    "number",
    "percent",
    "points",
    "printable",
    "shorten",
    "shortened",
    "wrapped",
]

GAP = "  "

# How far a column of text and a header are squeezed before the table is split into blocks.
MIN_TEXT = 12
MIN_HEADER = 8
# A header breaks between words, and is cut only where a word is longer, as a system's name may be.
MAX_WORD = 20
# A text that is never cut is, beyond this: it would be wider than a terminal.
MAX_SPAN = 60


def _point_cell(x: float, digits: int) -> str:
    return points(x, digits).replace(" points", " pt")


# One writer per kind of number; a format is a kind and its digits, as in "percent1".
_WRITERS: dict[str, Callable[[float, int], str]] = {
    "percent": percent,
    "points": _point_cell,
    "number": number,
    "decimal": lambda x, digits: fixed(x, digits, ""),
    "count": lambda x, digits: fixed(x, digits, ""),
    "int": lambda x, _: fixed(x, 0, ""),
    "bar": bar,
}
_TEXTS = ("text", "span")
_DIGITS = {"percent": 1, "points": 1, "number": 3, "decimal": 3, "int": 0, "bar": 16}


@dataclass(frozen=True, slots=True)
class _Column:
    """One column as it is written: header, cells, whether it is a number's, or of numbers in text,
    which is never cut, and the narrowest it can be made."""

    header: str
    cells: tuple[str, ...]
    numeric: bool
    whole: bool = False
    least: int = 0

    @property
    def natural(self) -> int:
        return max(cell_len(self.header), self.content)

    @property
    def content(self) -> int:
        return max(map(cell_len, self.cells), default=0)

    @property
    def word(self) -> int:
        """Cells of the header's longest word."""
        return max(map(cell_len, self.header.split()), default=0)

    @property
    def breaks(self) -> bool:
        """Whether it can be made narrower by its header alone, which breaks between words."""
        return self.whole and self.word <= MAX_WORD

    def narrowest(self, header: int) -> int:
        """How far it is squeezed: a number is never cut, a text while it can be told apart."""
        long = not self.numeric and self.content > MAX_SPAN
        floor = self.content
        if long or not self.whole:
            floor = least_width(self.cells, MAX_SPAN if self.whole else MIN_TEXT)
        if self.word <= MAX_WORD:
            return max(floor, self.word)
        return max(floor, min(cell_len(self.header), header))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Table:
    """A DataFrame with what its reader must know, rendered as text, Markdown, HTML or JSON.

    Parameters
    ----------
    frame : pandas.DataFrame
        The numbers, unrounded. A named index is printed before the columns.
    title : str
        One line: what the table is of.
    scale : {"score", "logit"}, optional
        Scale of the numbers, printed under the title.
    level : float, optional
        Posterior level of the intervals, in (0, 1), printed under the title.
    notes : tuple of str
        Printed below the rows.
    formats : mapping of str to str
        Column to "percent1", "points1", "decimal3", "number3", "count", "int", "bar16", "text" or
        "span" (an interval or a name as text, not cut up to 60 cells):
        the kind, and the digits after the point (percent, points, decimal), the significant
        digits (number) or the cells of a full bar. A count is a mean number of something: whole
        where all of the column is. A column without a format is written by its type.

    Examples
    --------
    >>> import pandas as pd
    >>> rows = pd.Index(["task", "residual"], name="component")
    >>> frame = pd.DataFrame({"share": [0.62, 0.38]}, index=rows)
    >>> print(Table(frame, "Shares", scale="score", formats={"share": "percent1"}))
    Shares
    score scale
    <BLANKLINE>
    component  share
    ────────────────
    task       62.0%
    residual   38.0%
    """

    frame: pd.DataFrame
    title: str
    scale: str | None = None
    level: float | None = None
    notes: tuple[str, ...] = ()
    formats: Mapping[str, str] = field(default_factory=dict)

    def text(self, width: int = 80) -> str:
        """Plain text; no line is wider than `width` terminal cells.

        Long labels lose their middle, different ones stay different; a table that still does not
        fit is printed as blocks of
        columns under each other, each with the first column. Notes are wrapped.
        """
        lines = [*wrapped(_prose(self.title), width), *wrapped(self._subtitle(), width)]
        columns = self._columns()
        for block in _blocks(columns, width):
            lines += ["", *_block_lines(block, width, [column.header for column in columns])]
        if self.notes:
            lines.append("")
        for note in self.notes:
            lines += wrapped(_prose(note), width, indent="  ")
        while lines and not lines[0]:
            del lines[0]
        return printable("\n".join(line.rstrip() for line in lines))

    def markdown(self) -> str:
        """A GitHub-flavoured Markdown table; labels are escaped."""
        columns = self._columns()
        head = [f"**{_escape_markdown(_prose(self.title))}**"] if self.title else []
        sub = self._subtitle()
        lines = [*head, *([f"*{sub}*"] if sub else [])]
        lines = ["  \n".join(lines), ""] if lines else []
        lines.append(_markdown_row(column.header for column in columns))
        lines.append("|" + "|".join(" ---: " if c.numeric else " --- " for c in columns) + "|")
        lines += [_markdown_row(cells) for cells in zip(*(c.cells for c in columns), strict=True)]
        for note in self.notes:
            lines += ["", _escape_markdown(_prose(note))]
        return "\n".join(lines)

    def html(self) -> str:
        """One small HTML table without scripts or colours of its own; every text is escaped."""
        columns = self._columns()
        # A label with two dollar signs is no formula.
        parts = ['<div class="tex2jax_ignore mathjax_ignore">']
        title = f"<strong>{_escape_html(_prose(self.title))}</strong>" if self.title else ""
        parts += _html_lines([title, _escape_html(self._subtitle())])
        parts.append('<table style="border-collapse:collapse"><thead><tr>')
        parts += [_html_cell("th", column.header, column.numeric) for column in columns]
        parts.append("</tr></thead><tbody>")
        for cells in zip(*(column.cells for column in columns), strict=True):
            row = (_html_cell("td", x, c.numeric) for x, c in zip(cells, columns, strict=True))
            parts.append(f"<tr>{''.join(row)}</tr>")
        parts.append("</tbody></table>")
        parts += _html_lines(f"<small>{_escape_html(_prose(note))}</small>" for note in self.notes)
        return "\n".join([*parts, "</div>"])

    def written(self) -> list[tuple[str, tuple[str, ...], bool]]:
        """Per column its header, its cells as they are written, and whether they are numbers."""
        return [(column.header, column.cells, column.numeric) for column in self._columns()]

    @property
    def subtitle(self) -> str:
        """Scale and level of the intervals, in words."""
        return self._subtitle()

    def json(self) -> dict[str, Any]:
        """``{"scale", "level", "columns", "rows"}``, unrounded; NaN and infinities are None."""
        named = self._named_values()
        rows = [[_plain(x) for x in row] for row in zip(*(v for _, v in named), strict=True)]
        columns = [name for name, _ in named]
        return {"scale": self.scale, "level": self.level, "columns": columns, "rows": rows}

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return self.html()

    def _subtitle(self) -> str:
        scale = f"{self.scale} scale" if self.scale else ""
        level = f"{100 * self.level:g}% equal-tailed intervals" if self.level else ""
        return ", ".join(filter(None, [scale, level]))

    def _named_values(self) -> list[tuple[str, list[object]]]:
        index = self.frame.index
        named = [
            (str(name), list(index.get_level_values(i)))
            for i, name in enumerate(index.names)
            if name is not None
        ]
        if not named and index.dtype.kind not in "iu":
            named = [("", list(index))]
        places = enumerate(self.frame.columns)
        return named + [(str(name), list(self.frame.iloc[:, i])) for i, name in places]

    def _columns(self) -> list[_Column]:
        columns = [
            _column(name, values, self.formats.get(name)) for name, values in self._named_values()
        ]
        floor = least_width([c.header for c in columns if c.word > MAX_WORD], MIN_HEADER)
        return [replace(column, least=column.narrowest(floor)) for column in columns]


def _column(name: str, values: Sequence[object], form: str | None) -> _Column:
    plain = [_plain(value) for value in values]
    kind, digits = _parse_format(name, form) if form else (_guess_kind(values), None)
    if kind in _TEXTS:
        cells = tuple("" if x is None else visible(_text(x)) for x in plain)
        return _Column(visible(name), cells, numeric=False, whole=kind == "span")
    numbers = [_number(x, raw) for x, raw in zip(plain, values, strict=True)]
    if digits is None:
        digits = _count_digits(numbers) if kind == "count" else _DIGITS[kind]
    cells = tuple(_WRITERS[kind](x, digits) for x in numbers)
    return _Column(visible(name), cells, numeric=kind != "bar", whole=True)


def _parse_format(name: str, form: str) -> tuple[str, int | None]:
    kind = form.rstrip("0123456789")
    if kind not in _TEXTS and kind not in _WRITERS:
        raise ValueError(f"format {form!r} of column {name!r} is none of {[*_TEXTS, *_WRITERS]}")
    return kind, int(form[len(kind) :]) if form != kind else None


def _count_digits(numbers: Sequence[float]) -> int:
    # An effective number of levels is a quotient: 60 may come out as 59.99999999.
    return 0 if all(abs(x - round(x)) < 1e-6 for x in numbers if math.isfinite(x)) else 1


def _guess_kind(values: Sequence[object]) -> str:
    """By type: whole numbers, numbers, else text (also when nothing is there to go by)."""
    # A missing number is a float, a missing text is None.
    kinds = {type(x) for x in map(_unwrapped, values) if not _is_missing(x)}
    if kinds == {int}:
        return "int"
    return "number" if kinds and kinds <= {int, float} else "text"


def _number(plain: object, raw: object) -> float:
    if plain is None:
        # Infinity is null in JSON, and "inf" for a reader.
        number_or_none = _unwrapped(raw)
        return number_or_none if isinstance(number_or_none, float) else math.nan
    if isinstance(plain, int | float):
        return float(plain)
    raise TypeError(f"{plain!r} is not a number")


def _plain(value: object) -> bool | int | float | str | None:
    """The value as JSON has it: numpy scalars unwrapped, NaN, NA and infinities None, or text."""
    value = _unwrapped(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, bool | int | str):
        return value
    return None if _is_missing(value) else str(value)


def _unwrapped(value: object) -> object:
    item = getattr(value, "item", None)
    return item() if callable(item) else value


def _is_missing(value: object) -> bool:
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def _text(value: bool | float | str) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return number(value) if isinstance(value, float) else str(value)


def _blocks(columns: Sequence[_Column], width: int) -> list[list[_Column]]:
    """Columns that fit side by side; each later block repeats the first column."""
    blocks: list[list[_Column]] = []
    for column in columns:
        if blocks and _total([*(c.least for c in blocks[-1]), column.least]) <= width:
            blocks[-1].append(column)
        elif blocks:
            blocks.append([columns[0], column])
        else:
            blocks.append([column])
    return blocks


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(GAP) * (len(widths) - 1)


def _fit(columns: Sequence[_Column], width: int) -> list[int]:
    """Widths of the columns: natural ones, the widest that can give squeezed first.

    Headers of numbers break before a name is cut.
    """
    widths = [column.natural for column in columns]
    for headers_only in (True, False):
        while _total(widths) > width:
            slack = [
                w if w > c.least and (c.breaks or not headers_only) else 0
                for w, c in zip(widths, columns, strict=True)
            ]
            if not any(slack):
                break
            widths[slack.index(max(slack))] -= 1
    return widths


def _pad(text: str, width: int, *, right: bool) -> str:
    space = " " * max(width - cell_len(text), 0)
    return space + text if right else text + space


def _block_lines(columns: Sequence[_Column], width: int, headers: Sequence[str]) -> list[str]:
    """One block; `headers` are those of the whole table, which stay different."""
    widths = [min(w, width) for w in _fit(columns, width)]
    heads = [_head_lines(c, w, headers) for c, w in zip(columns, widths, strict=True)]
    most = max(map(len, heads))
    heads = [[""] * (most - len(head)) + head for head in heads]
    bodies = [shortened(c.cells, w) for c, w in zip(columns, widths, strict=True)]
    lines = []
    for row in [*zip(*heads, strict=True), *zip(*bodies, strict=True)]:
        cells = (
            _pad(text, w, right=column.numeric)
            for text, w, column in zip(row, widths, columns, strict=True)
        )
        lines.append(GAP.join(cells))
    return [*lines[:most], "─" * min(_total(widths), width), *lines[most:]]


def _head_lines(column: _Column, width: int, headers: Sequence[str]) -> list[str]:
    """The header, broken between words; cut where a word is longer than the column."""
    if column.word <= width:
        return wrapped(column.header, width) or [""]
    return [dict(zip(headers, shortened(headers, width), strict=True))[column.header]]


def _prose(text: str) -> str:
    return visible(" ".join(text.split()))


def _markdown_row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(_escape_markdown(cell.strip()) for cell in cells) + " |"


def markdown_text(text: str) -> str:
    """A text on one line, with backslashes before what Markdown would read as markup."""
    return _escape_markdown(_prose(text))


def _escape_markdown(text: str) -> str:
    """Backslashes before what Markdown would read as markup; underscores inside a word stay."""
    text = re.sub(r"([\\`*\[\]<>|~]|(?<![^\W_])_|_(?![^\W_]))", r"\\\1", visible(text))
    return text.replace("&", "&amp;")


def _escape_html(text: str) -> str:
    return html.escape(visible(text))


def _html_lines(lines: Iterable[str]) -> list[str]:
    """One paragraph of those lines that are not empty."""
    text = "<br>".join(filter(None, lines))
    return [f"<p>{text}</p>"] if text else []


def _html_cell(tag: str, text: str, numeric: bool) -> str:
    side = "right" if numeric else "left"
    line = ";border-bottom:1px solid currentColor" if tag == "th" else ""
    return f'<{tag} style="text-align:{side};padding:2px 8px{line}">{_escape_html(text)}</{tag}>'


class Shown(ABC):
    """A result that is shown as its table: in the terminal, as its repr and in a notebook."""

    __slots__ = ()

    @abstractmethod
    def table(self) -> Table:
        """The table that is printed."""

    def __str__(self) -> str:
        return self.table().text()

    def __repr__(self) -> str:
        return self.table().text()

    def _repr_html_(self) -> str:
        return self.table().html()
