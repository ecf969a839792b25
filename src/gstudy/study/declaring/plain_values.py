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

    from gstudy.study.facets import Facet

__all__ = [
    "Scalar",
    "check_facets_today",
    "check_score_columns",
    "read_average",
    "read_data_path",
    "read_family",
    "read_pinned",
    "read_rollout",
]

Scalar = str | int | float | bool


def check_score_columns(score: object, successes: object, trials: object) -> None:
    """Either a score, or successes and trials, each the name of a column.

    Raises
    ------
    DeclarationError
        For neither, both, half of a pair, one column twice, or what is no column's name.
    """
    for key, value in {"score": score, "successes": successes, "trials": trials}.items():
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
    if successes is not None and successes == trials:
        raise DeclarationError(
            explain("successes and trials are one column", given=successes, allowed=allowed)
        )


def read_family(family: object, standard_error: object) -> str:
    """The family of the score: binary.

    Raises
    ------
    DeclarationError
        For graded scores, which are not there yet, and for an unknown family.
    """
    advice = (
        "Scores of 0/1 are there today; threshold graded ones yourself, "
        'such as df["passed"] = df["score"] >= 0.5.'
    )
    if family == "gaussian":
        raise DeclarationError(
            explain('family = "gaussian" is not there yet', allowed='"binary"', do=advice)
        )
    if standard_error is not None:
        raise DeclarationError(
            explain("standard_error is not there yet", given=standard_error, do=advice)
        )
    if family != "binary":
        raise DeclarationError(explain("unknown family", given=family, allowed='"binary"'))
    return "binary"


def check_facets_today(facets: Sequence[Facet]) -> None:
    """No facet asks for what is not there yet.

    Raises
    ------
    DeclarationError
        For `varies` and `universe`.
    """
    for facet in facets:
        if facet.varies is not None:
            raise DeclarationError(
                explain(
                    f"facets.{facet.name}.varies is not there yet",
                    given=facet.varies,
                    do="Take it out, and fit each system alone when its own sds matter.",
                )
            )
        if facet.universe is not None:
            raise DeclarationError(
                explain(
                    f"facets.{facet.name}.universe is not there yet",
                    given=facet.universe,
                    do="Take it out: today the claim is about levels like these, without limit.",
                )
            )


def read_average(value: object, facets: Sequence[str]) -> str:
    """The reported score: "trials", the mean over all trials.

    Raises
    ------
    DeclarationError
        For an unknown facet, and for the other averages, which are not there yet.
    """
    if value == "trials":
        return "trials"
    macro = isinstance(value, Mapping) and list(value) == ["macro"]
    facet = value["macro"] if isinstance(value, Mapping) and macro else value
    known = isinstance(facet, str) and facet in facets
    raise DeclarationError(
        explain(
            "this average is not there yet" if known else "unknown average",
            given=value,
            allowed='"trials"',
            do="Leave average out: the reported score is the mean over all trials."
            if known
            else did_you_mean(str(facet), ("trials", *facets)),
        )
    )


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
