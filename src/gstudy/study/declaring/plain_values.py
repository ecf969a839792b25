"""Plain values of a declaration: score columns, family, average, what is pinned, the data file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from gstudy.errors import DeclarationError, did_you_mean, explain

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "FAMILIES",
    "Scalar",
    "check_score_columns",
    "read_average",
    "read_data_path",
    "read_family",
    "read_pinned",
    "read_rollout",
]

Scalar = str | int | float | bool

FAMILIES = ("binary", "gaussian")


def check_score_columns(
    score: object, successes: object, trials: object, standard_error: object = None
) -> None:
    """Either a score, or successes and trials, each the name of a column.

    Raises
    ------
    DeclarationError
        For neither, both, half of a pair, one column twice, or what is no column's name.
    """
    columns = {"score": score, "successes": successes, "trials": trials}
    for key, value in {**columns, "standard_error": standard_error}.items():
        if value is not None and (not isinstance(value, str) or not value or "\x00" in value):
            raise DeclarationError(
                explain(f"{key} is not a column's name", given=value, allowed="text without NUL")
            )
    allowed = 'score = "passed", or successes = "k" and trials = "n"'
    counts = {"successes": successes, "trials": trials}
    missing = [key for key, value in counts.items() if value is None]
    if score is None and len(missing) == 2:
        raise DeclarationError(
            explain(
                "the study names no score",
                allowed=allowed,
                do="Name the column with 0/1 or true/false.",
            )
        )
    if score is not None and len(missing) < 2:
        raise DeclarationError(
            explain(
                "the study names a score and counts",
                given={"score": score} | counts,
                allowed=allowed,
                do="Keep the score if a row is one trial, the counts if a row is several.",
            )
        )
    if score is None and missing:
        raise DeclarationError(
            explain(f"the study names no {missing[0]}", given=counts, allowed=allowed)
        )
    if standard_error is not None and standard_error == score:
        raise DeclarationError(
            explain(
                "score and standard_error are one column",
                given=score,
                allowed='score = "mean", standard_error = "se"',
            )
        )
    if successes is not None and successes == trials:
        raise DeclarationError(
            explain("successes and trials are one column", given=successes, allowed=allowed)
        )


def read_family(family: object, score: object, standard_error: object) -> str:
    """The family of the score: "binary", or "gaussian" for graded scores.

    Raises
    ------
    DeclarationError
        For an unknown family, graded counts, and known errors of a binary score.
    """
    if not isinstance(family, str) or family not in FAMILIES:
        raise DeclarationError(
            explain(
                "unknown family",
                given=family,
                allowed=FAMILIES,
                do=did_you_mean(str(family), FAMILIES)
                or 'A score of 0/1 is "binary", a graded one is "gaussian".',
            )
        )
    if family == "gaussian" and score is None:
        raise DeclarationError(
            explain(
                'family = "gaussian" needs a score in each row, not counts',
                allowed='score = "column"',
                do="Passes of trials are binary: take family out, or name the column of scores.",
            )
        )
    if standard_error is not None and family != "gaussian":
        raise DeclarationError(
            explain(
                "standard_error is of graded scores only",
                given=standard_error,
                allowed='family = "gaussian"',
                do="The noise of a 0/1 score follows from its rate: take it out.",
            )
        )
    return family


def read_average(
    value: object, facets: Sequence[str], measured: str | None, counted: str | None
) -> str | Mapping[str, str]:
    """The reported score: "trials", a facet, or ``{"macro": facet}``.

    Raises
    ------
    DeclarationError
        For an unknown facet, the object, and a facet whose levels are merely counted.
    """
    if value == "trials":
        return "trials"
    macro = isinstance(value, Mapping) and list(value) == ["macro"]
    facet = value["macro"] if isinstance(value, Mapping) and macro else value
    if isinstance(facet, str) and facet in (measured, counted):
        why = (
            "every level of the object has a score of its own"
            if facet == measured
            else "its levels are only counted"
        )
        raise DeclarationError(
            explain(
                f"average names {facet!r}: {why}",
                given=value,
                allowed=_averages(facets, measured, counted),
                do='Write average = "trials" for the mean over all trials.',
            )
        )
    if not isinstance(facet, str) or facet not in facets:
        raise DeclarationError(
            explain(
                "unknown average",
                given=value,
                allowed=_averages(facets, measured, counted),
                do=did_you_mean(str(facet), ("trials", *facets)),
            )
        )
    return MappingProxyType({"macro": facet}) if macro else facet


def _averages(facets: Sequence[str], measured: str | None, counted: str | None) -> str:
    free = [f'"{facet}"' for facet in facets if facet not in (measured, counted)]
    return ", ".join(['"trials"', *free, '{ macro = "<facet>" }'])


def read_pinned(value: object, facets: Sequence[str]) -> Mapping[str, Scalar]:
    """What is pinned and recorded, without a column.

    Raises
    ------
    DeclarationError
        For what is no table, a facet's name, or a value that is no text, number or truth value.
    """
    if not isinstance(value, Mapping):
        raise DeclarationError(
            explain(
                "controlled is not a table",
                given=value,
                allowed='[controlled] with judge_prompt = "v3"',
            )
        )
    for name, pinned in value.items():
        if name in facets:
            raise DeclarationError(
                explain(
                    f"controlled.{name} is a facet too",
                    given=pinned,
                    do=f"Take it out, or take [facets.{name}] out and keep it pinned here.",
                )
            )
        finite = not isinstance(pinned, float) or math.isfinite(pinned)
        if not isinstance(name, str) or not isinstance(pinned, Scalar) or not finite:
            raise DeclarationError(
                explain(
                    f"controlled.{name} cannot be recorded",
                    given=pinned,
                    allowed="text, a number, true or false",
                    do="Write it as text, in quotes.",
                )
            )
    return MappingProxyType(dict(value))


def read_data_path(value: object) -> Path | None:
    """The file of the trials.

    Raises
    ------
    DeclarationError
        When it is no path.
    """
    if value is None or (isinstance(value, str | Path) and str(value).strip()):
        return None if value is None else Path(value)
    raise DeclarationError(
        explain("data is not a path", given=value, allowed='such as data = "trials.csv"')
    )


def read_rollout(value: object, facets: Sequence[str]) -> str | None:
    """The facet of which a re-run draws new levels, one of `facets`; "none" may stand there.

    Raises
    ------
    DeclarationError
        When it is none of them.
    """
    if value is None or (isinstance(value, str) and value in facets):
        return value
    raise DeclarationError(
        explain(
            "rollout names no facet that a re-run could draw anew",
            given=value,
            allowed=facets,
            do=did_you_mean(str(value), facets),
        )
    )
