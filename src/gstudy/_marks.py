"""How a number, a share and a label are written, in terminal cells."""

from __future__ import annotations

import math
import sys
import unicodedata
from collections.abc import Mapping, Sequence

from rich.cells import cell_len, split_graphemes

__all__ = [
    "bar",
    "bare_points",
    "least_width",
    "number",
    "percent",
    "points",
    "printable",
    "shorten",
    "shortened",
    "visible",
    "wrapped",
]

MISSING = "-"

EIGHTHS = " ▏▎▍▌▋▊▉█"

# What stands in for our own marks where the output's encoding lacks them; as wide, for a table's.
_ASCII: dict[str | int, str | int | None] = {
    "…": "~",
    "─": "-",
    "±": "+/-",
    "–": "-",
    "×": "x",
    **dict.fromkeys(EIGHTHS[1:4], " "),
    **dict.fromkeys(EIGHTHS[4:], "#"),
}

# Rates that differ by less are equal: sums of them in another order.
_NOTHING = 1e-14

# Cells by which a column of labels is widened at a time.
_WIDER = 4

# They reorder or break a line: a label must not be able to redraw the table around it.
_LINE_BREAKERS = frozenset(
    "\u2028\u2029\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)


def percent(x: float, digits: int = 1) -> str:
    """A share as a percentage.

    >>> percent(0.1234)
    '12.3%'
    """
    return fixed(100 * x, digits, "%")


def points(x: float, digits: int = 1) -> str:
    """A difference of two rates in percentage points.

    >>> points(0.102), points(0.00012)
    ('10.2 points', '0.01 points')
    """
    text = bare_points(x, digits)
    return text if text == MISSING else f"{text} points"


def bare_points(x: float, digits: int = 1) -> str:
    """The same without its unit; what would round to 0 keeps one digit, and only 0 is "0.0".

    >>> bare_points(0.00012), bare_points(0.0)
    ('0.01', '0.0')
    """
    text = fixed(100 * x, digits, "")
    if not math.isfinite(x) or float(text) != 0 or abs(x) < _NOTHING:
        return text
    return number(100 * x, 1)


def number(x: float, digits: int = 3) -> str:
    """A number with so many significant digits; whole digits are never dropped.

    >>> number(0.0123456), number(12.3456), number(12345.6)
    ('0.0123', '12.3', '12346')
    """
    if not math.isfinite(x):
        return fixed(x, 0, "")
    if x == 0:
        return "0"
    if abs(x) < 1e-4 or abs(x) >= 1e9:
        return f"{x:.{digits - 1}e}"
    # The exponent after rounding: 0.9996 has the digits of 1.00.
    exponent = int(f"{x:.{digits - 1}e}".partition("e")[2])
    return f"{x:.{max(digits - 1 - exponent, 0)}f}"


def fixed(x: float, digits: int, unit: str) -> str:
    """A number with so many digits after the point, then its unit; "-" if it is missing."""
    if math.isnan(x):
        return MISSING
    if math.isinf(x):
        return "inf" if x > 0 else "-inf"
    # Adding 0.0 turns a rounded -0.0 into 0.0.
    return f"{round(x, digits) + 0.0:.{digits}f}{unit}"


def bar(share: float, width: int) -> str:
    """A bar of block characters, `width` cells when full, padded with spaces.

    A share below 0, above 1 or missing is drawn as 0, 1 and 0; a positive one is never invisible.

    >>> bar(0.5, 4)
    '██  '
    """
    part = 0.0 if math.isnan(share) else min(max(share, 0.0), 1.0)
    eighths = round(8 * width * part)
    if part > 0:
        eighths = max(eighths, 1)
    full, rest = divmod(eighths, 8)
    text = "█" * full + (EIGHTHS[rest] if rest else "")
    return text.ljust(width)


def printable(text: str, encoding: str | None = None) -> str:
    """The text as an output with this encoding (standard output's by default) can show it.

    Our own marks become ASCII ones; any other character that it lacks becomes a backslash escape.

    >>> printable("±10 ██", "ascii")
    '+/-10 ##'
    """
    encoding = encoding or getattr(sys.stdout, "encoding", None) or "utf-8"
    if _encodes(text, encoding):
        return text
    text = text.translate(str.maketrans(_ASCII))
    return text.encode(encoding, errors="backslashreplace").decode(encoding)


def _encodes(text: str, encoding: str) -> bool:
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def shorten(text: str, width: int) -> str:
    """The text in at most `width` terminal cells, an ellipsis for what its middle loses.

    >>> shorten("gpt-4o-2024-05-13", 9)
    'gpt-…5-13'
    """
    return _cut(text, width, width // 2)


def _cut(text: str, width: int, at: int) -> str:
    """The text in at most `width` cells, the ellipsis after `at` of them."""
    if cell_len(text) <= width:
        return text
    head = _crop(text, at)
    tail = _crop(text, max(width - 1 - cell_len(head), 0), from_end=True)
    return (head + "…" + tail) if width > 0 else ""


def shortened(texts: Sequence[str], width: int) -> list[str]:
    """Each text in at most `width` terminal cells, different texts differently.

    Texts that would lose what tells them apart are cut elsewhere; where no cut keeps it they are
    numbered.

    >>> shortened(["model-a-2024-05", "model-b-2024-05"], 9)
    ['mo…a-2…05', 'mo…b-2…05']
    """
    forms = {text: shorten(text, width) for text in texts}
    for group in _alike(forms):
        forms |= _told_apart(group, forms, width) or _numbered(group, forms, width)
    return [forms[text] for text in texts]


def least_width(texts: Sequence[str], floor: int) -> int:
    """The narrowest width, from `floor` up, at which different texts can be cut differently."""
    longest = max(map(cell_len, texts), default=0)
    for width in range(floor, longest, _WIDER):
        forms = {text: shorten(text, width) for text in texts}
        groups = _alike(forms)
        apart = [_told_apart(group, forms, width) for group in groups]
        for found in apart:
            forms |= found or {}
        if all(apart) and not _alike(forms):
            return width
    return longest


def _alike(forms: Mapping[str, str]) -> list[list[str]]:
    """Groups of texts that have one form."""
    groups: dict[str, list[str]] = {}
    for text, form in forms.items():
        groups.setdefault(form, []).append(text)
    return [group for group in groups.values() if len(group) > 1]


def _told_apart(group: Sequence[str], forms: Mapping[str, str], width: int) -> dict[str, str]:
    """Forms of a group cut where they differ; empty when no cut tells them apart."""
    members = set(group)
    others = {form for text, form in forms.items() if text not in members}
    pairs = zip(min(group), max(group), strict=False)
    common = next((i for i, (a, b) in enumerate(pairs) if a != b), len(min(group)))
    for at in (None, width - 1, 0, width // 4, 3 * width // 4):
        cut = {
            text: _opened(text, width, common) if at is None else _cut(text, width, at)
            for text in group
        }
        if len(set(cut.values())) == len(group) and others.isdisjoint(cut.values()):
            return cut
    return {}


def _opened(text: str, width: int, start: int) -> str:
    """The text with its beginning, what follows `start`, and its end."""
    if cell_len(text) <= width:
        return text
    head = _crop(text[:start], width // 4)
    return f"{head}…{_cut(text[start:], width - 1 - cell_len(head), width // 3)}"


def _numbered(group: Sequence[str], forms: Mapping[str, str], width: int) -> dict[str, str]:
    """Forms of a group with a number at their end that no other form has."""
    used = set(forms.values())
    found: dict[str, str] = {}
    count = 0
    for text in group:
        form = forms[text]
        while form in used:
            count += 1
            tag = f"#{count}"
            form = shorten(text, max(width - len(tag), 0)) + tag
        used.add(form)
        found[text] = form
    return found


def _crop(text: str, width: int, *, from_end: bool = False) -> str:
    spans, _ = split_graphemes(text)
    kept: list[str] = []
    for start, end, size in reversed(spans) if from_end else spans:
        if size > width:
            break
        width -= size
        kept.append(text[start:end])
    return "".join(reversed(kept) if from_end else kept)


def wrapped(text: str, width: int = 80, *, indent: str = "") -> list[str]:
    """Lines of at most `width` terminal cells; lines after the first begin with `indent`.

    >>> wrapped("a note of some words", 12, indent="  ")
    ['a note of', '  some words']
    """
    lines: list[str] = []
    line = ""
    for word in text.split():
        if line.strip() and cell_len(line) + 1 + cell_len(word) > width:
            lines.append(line)
            line = indent
        line = f"{line} {word}" if line.strip() else line + word
        while cell_len(line) > width and (head := _crop(line, width)).strip():
            lines.append(head)
            line = indent + line[len(head) :]
    return [*lines, line] if line.strip() else lines


def visible(text: str) -> str:
    """The text with what would break or reorder its line written as escapes."""
    if text.isprintable():
        return text
    return "".join(_escaped(mark) for mark in text)


def _escaped(mark: str) -> str:
    if mark in _LINE_BREAKERS or unicodedata.category(mark) in ("Cc", "Cs"):
        return mark.encode("unicode_escape", errors="surrogatepass").decode("ascii")
    return mark
