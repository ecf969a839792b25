"""A guess as a study file: TOML with the reasons, and what could stand there instead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tomlkit

from gstudy._marks import visible
from gstudy.display import shorten, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gstudy.study.guessing.guesses import Guess

__all__ = ["study_file"]

_WIDTH = 96
_LABEL = 60
_MOST_OTHERS = 3


def study_file(guess: Guess, data: str | None) -> str:
    """The text of a study file.

    Parameters
    ----------
    guess : Guess
    data : str or None
        Path of the trials as the file names it.

    Returns
    -------
    str
        TOML; every name and value is quoted by a TOML library, and comments hold no line breaks.
    """
    parts = [
        _heading(guess),
        [*_score_lines(guess, data)],
        *(_facet_lines(guess, i) for i in range(len(guess.facets))),
        _model_lines(guess),
        _left_lines(guess),
    ]
    return "\n\n".join("\n".join(lines) for lines in parts if lines) + "\n"


def _heading(guess: Guess) -> list[str]:
    lines = _comment(
        f"A study guessed from {guess.source}: {guess.n_rows:,} rows. The claim decides the "
        "roles, not the data: read each role, and change what is wrong. legitimate: the claim "
        "covers other levels like these. error: measurement error. controlled: the claim is about "
        "these levels only. object: what is measured."
    )
    if guess.doubts:
        lines += ["#", "# To look at:"]
        lines += [line for doubt in guess.doubts for line in _comment(f"- {doubt}", "  ")]
    return lines


def _score_lines(guess: Guess, data: str | None) -> list[str]:
    study = guess.study
    lines = [] if data is None else [_pair("data", data)]
    lines += _comment(guess.score_reason)
    for key in ("score", "successes", "trials", "standard_error"):
        value = getattr(study, key)
        lines += [] if value is None else [_pair(key, value)]
    lines += [_pair("family", study.family)] if study.family != "binary" else []
    lines += [
        f"# {_pair('score', visible(name))}   # another column that could be the score"
        for name in guess.other_scores[:_MOST_OTHERS]
    ]
    lines += [] if study.object is None else [_pair("object", study.object)]
    if guess.unbalanced and "task" in study.facet_names:
        lines.append('# average = "task"   # the mean of the tasks\' means; else of all trials')
    return lines


def _facet_lines(guess: Guess, place: int) -> list[str]:
    facet = guess.facets[place]
    many = "1 label" if facet.n_levels == 1 else f"{facet.n_levels:,} labels"
    levels = f"{many}: {_labels(guess, place)}. " if facet.n_levels else ""
    return [
        *_comment(f"{levels}{facet.reason[:1].upper()}{facet.reason[1:]}."),
        f"[facets.{_key(facet.name)}]",
        *([_pair("column", facet.column)] if facet.column != facet.name else []),
        _pair("role", facet.role),
        *([_pair("nested_in", list(facet.nested_in))] if facet.nested_in else []),
        *(f"# {line}" for line in facet.instead),
    ]


def _labels(guess: Guess, place: int) -> str:
    shown = ", ".join(shorten(visible(label), _LABEL) for label in guess.labels[place])
    more = guess.facets[place].n_levels - len(guess.labels[place])
    return shown + (f" and {more:,} more" if more > 0 else "")


def _model_lines(guess: Guess) -> list[str]:
    lines = ["[model]"]
    failed = guess.study.on_failed_run
    if "on_failed_run" in guess.policy_reasons:
        lines += _comment(guess.policy_reasons["on_failed_run"] + ".")
        value = failed if isinstance(failed, str) else dict(failed)
        lines.append(_pair("on_failed_run", value))
        others = [one for one in ("incorrect", "drop") if one != value]
        lines += [f'# on_failed_run = "{one}"   # instead' for one in others]
    if "on_missing_score" in guess.policy_reasons:
        lines += _comment(guess.policy_reasons["on_missing_score"] + ".")
        lines.append(_pair("on_missing_score", guess.study.on_missing_score))
    return lines if len(lines) > 1 else []


def _left_lines(guess: Guess) -> list[str]:
    if not guess.left_out:
        return []
    lines = ["# Columns that are not used, and why:"]
    for name, why in guess.left_out.items():
        lines += _comment(f"- {shorten(visible(name), _LABEL)}: {why}", "  ")
    return lines


def _comment(text: str, indent: str = "") -> list[str]:
    return [f"# {line}" for line in wrapped(visible(text), _WIDTH, indent=indent)]


def _pair(key: str, value: Any) -> str:
    return f"{key} = {_value(value)}"


def _value(value: Any) -> str:
    if isinstance(value, dict):
        inside = (f"{_key(key)} = {_value(one)}" for key, one in value.items())
        return f"{{ {', '.join(inside)} }}"
    if isinstance(value, list):
        return f"[{_joined(map(_value, value))}]"
    text: str = tomlkit.item(value).as_string()
    return text


def _joined(texts: Iterable[str]) -> str:
    return ", ".join(texts)


def _key(name: str) -> str:
    return tomlkit.key(name).as_string()
