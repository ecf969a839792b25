"""Options that list something for each facet: levels, prices, bounds, variances, and a target."""

from __future__ import annotations

import math
import re

from gstudy.cli.exits import usage_error

__all__ = ["bounds_of", "levels_of", "names_of", "numbers_of", "target_of"]

_TARGET = re.compile(r"(?P<number>[^%a-z]+?)\s*(?P<unit>pt|pts|points?|pp|%)?", re.IGNORECASE)


def levels_of(text: str, option: str = "--design") -> dict[str, int]:
    """`task=100,rollout=4` as a mapping.

    Raises
    ------
    typer.Exit
        A usage error, when it is not that.
    """
    example = "task=100,rollout=4"
    pairs = _pairs(option, text, "NUMBER", example)
    for facet, number in pairs.items():
        if not number.isascii() or not number.isdigit():
            raise _no_pair(option, text, f"{facet}={number}", "NUMBER", example)
    return {facet: int(number) for facet, number in pairs.items()}


def numbers_of(option: str, text: str, example: str) -> dict[str, float]:
    """`task=25,judge=0.01` as a mapping.

    Raises
    ------
    typer.Exit
        A usage error, when it is not that.
    """
    pairs = _pairs(option, text, "NUMBER", example)
    found = {facet: _number(number) for facet, number in pairs.items()}
    for facet, number in found.items():
        if math.isnan(number):
            raise _no_pair(option, text, f"{facet}={pairs[facet]}", "NUMBER", example)
    return found


def bounds_of(text: str) -> tuple[dict[str, tuple[int, int | None]], dict[str, int]]:
    """`task=10:300:10,rollout=4` as the bounds of a search, and what levels are multiples of.

    Raises
    ------
    typer.Exit
        A usage error, when it is not that.
    """
    example, bounds, multiples = "task=10:300,rollout=1:8", {}, dict[str, int]()
    for facet, span in _pairs("--bounds", text, "LEAST:MOST", example).items():
        parts = [part.strip() for part in span.split(":")]
        digits = all(part == "" or (part.isascii() and part.isdigit()) for part in parts)
        if len(parts) > 3 or not digits or not any(parts):
            raise _no_pair("--bounds", text, f"{facet}={span}", "LEAST:MOST", example)
        least, most, step = [*(int(part) if part else None for part in parts), None, None][:3]
        bounds[facet] = (1 if least is None else least, least if len(parts) == 1 else most)
        if step is not None:
            multiples[facet] = step
    return bounds, multiples


def names_of(text: str | None) -> list[str]:
    """`all, round robin` as a list."""
    return [] if text is None else [part.strip() for part in text.split(",") if part.strip()]


def target_of(text: str, *, rate: bool) -> float:
    """`3pt` as 0.03; a bare number is in units of the score.

    Parameters
    ----------
    text : str
    rate : bool
        Whether it is a distance of pass rates, which points are of.

    Raises
    ------
    typer.Exit
        A usage error, when it is neither.
    """
    match = _TARGET.fullmatch(text.strip())
    value = math.nan if match is None else _number(match["number"])
    if match is None or math.isnan(value):
        raise usage_error(f"--target {text!r} is no number. Such as 3pt, which is 0.03.")
    if match["unit"] and not rate:
        raise usage_error(f"--target {text!r}: points are of a pass rate; give a bare number.")
    if rate and not match["unit"] and value >= 1:
        raise usage_error(
            f"--target {text!r} is wider than any score: {text}pt is {text} points, 0.03 is 3."
        )
    return value / 100 if match["unit"] else value


def _pairs(option: str, text: str, what: str, example: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in text.split(","):
        name, sign, value = (piece.strip() for piece in part.rpartition("="))
        if not sign or not name or not value:
            raise _no_pair(option, text, part, what, example)
        if name in found:
            raise usage_error(f"{option} {text!r} names {name!r} twice.")
        found[name] = value
    return found


def _no_pair(option: str, text: str, part: str, what: str, example: str) -> Exception:
    return usage_error(f"{option} {text!r}: {part!r} is not FACET={what}. Such as {example}.")


def _number(text: str) -> float:
    """A finite number, or NaN."""
    try:
        value = float(text)
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan
