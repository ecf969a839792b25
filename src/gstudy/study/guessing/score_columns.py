"""Which column is the score, and of which family; or which two are counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gstudy.errors import DeclarationError, explain
from gstudy.study.guessing import column_words as words
from gstudy.study.reading.scores import as_score, numbers_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gstudy.study.guessing.label_columns import LabelColumn

__all__ = ["GuessedScore", "guess_score"]

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

# In a name with other words: "final_score", "test_passed".
_PARTS = ("passed", "score", "correct", "success", "resolved", "solved", "reward", "accuracy")
_NO_SCORE = ("n", "num", "max", "min", "total", "mean", "std", "stderr", "se", "threshold")
_LISTED = 20
_SHOWN = 3
# Means over fewer runs than this are told, as far as they are written.
_MOST_RUNS = 33
_NEAR = 0.02


@dataclass(frozen=True, slots=True, eq=False)
class GuessedScore:
    """The score of every row.

    Parameters
    ----------
    keys : dict of str to str
        What the study declares: `score` or `successes` and `trials`, `family`, `standard_error`.
    numbers : float array (n_rows,)
        Scores or successes, NaN where there is none.
    trials : float array (n_rows,)
        Trials of each row: 1 of a score.
    family : {"binary", "gaussian"}
    reason : str
    others : tuple of str
        Further columns that could be the score.
    doubts : tuple of str
    """

    keys: dict[str, Any]
    numbers: Floats
    trials: Floats
    family: str
    reason: str
    others: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that it takes."""
        return tuple(value for key, value in self.keys.items() if key != "family")


def guess_score(columns: Mapping[str, LabelColumn], failed: Flags, name: str) -> GuessedScore:
    """The score among the columns of a table.

    Parameters
    ----------
    columns : mapping of str to LabelColumn
    failed : bool array (n_rows,)
        Rows of failed runs, whose score says nothing.
    name : str
        Of the table, for errors.

    Returns
    -------
    GuessedScore

    Raises
    ------
    DeclarationError
        When no column looks like one, with the columns that there are.
    """
    counted = _counts(columns, failed)
    if counted is not None:
        return counted
    numbers = {column: _numbers(columns[column]) for column in _likely(columns)}
    usable = [
        column
        for column, (values, wrong) in numbers.items()
        if not (wrong & ~failed).any() and not np.isnan(values[~failed]).all()
    ]
    if not usable:
        raise DeclarationError(_refusal(columns, list(numbers), failed, name))
    return _of(usable[0], numbers[usable[0]][0], usable[1:], columns, failed)


def _likely(columns: Mapping[str, LabelColumn]) -> list[str]:
    """Columns with the name of a score, the likeliest first."""
    first = words.best(columns, words.SCORES)
    parts = [
        column
        for column in columns
        if column not in first
        and words.holds_word(column, _PARTS)
        and not words.holds_word(column, _NO_SCORE)
    ]
    return [*first, *parts]


def _of(
    column: str,
    values: Floats,
    others: Sequence[str],
    columns: Mapping[str, LabelColumn],
    failed: Flags,
) -> GuessedScore:
    told = [f"the score could also be {', '.join(others[:_SHOWN])}"] if others else []
    numbers = np.where(failed, np.nan, values)
    found = numbers[~np.isnan(numbers)]
    ones = np.ones_like(numbers)
    if np.isin(found, (0.0, 1.0)).all():
        why = f"{_mean(found)} of {found.size:,} scored rows are 1"
        return GuessedScore(
            {"score": column}, numbers, ones, "binary", why, tuple(others), (*told,)
        )
    keys = {"score": column, "family": "gaussian"}
    error = _standard_error(columns, numbers)
    doubts = told
    if error is not None:
        keys["standard_error"] = error
        doubts.append(
            f"{error} is taken as the known standard error of each score; take the line out if a "
            "row is one trial"
        )
    elif _could_be_means(found):
        doubts.append(
            f"{column} holds fractions: if they are means over several runs, counts say more "
            "(successes = , trials = )"
        )
    why = f"graded: {np.unique(found).size:,} values from {found.min():g} to {found.max():g}"
    return GuessedScore(keys, numbers, ones, "gaussian", why, tuple(others), tuple(doubts))


def _could_be_means(found: Floats) -> bool:
    """Whether all scores are so many of a small number of runs, 3 or more."""
    if found.min() < 0 or found.max() > 1 or np.isin(found, (0.0, 0.5, 1.0)).all():
        return False
    values = np.unique(found)
    return any(
        np.abs(values * n - np.round(values * n)).max() < _NEAR for n in range(3, _MOST_RUNS)
    )


def _mean(found: Floats) -> str:
    return f"{found.mean():.1%}"


def _standard_error(columns: Mapping[str, LabelColumn], numbers: Floats) -> str | None:
    """A column with a positive number beside every score."""
    for column in words.best(columns, words.ERRORS):
        values, _ = _numbers(columns[column])
        beside = values[~np.isnan(numbers)]
        if (beside > 0).all() and np.isfinite(beside).all():
            return column
    return None


def _counts(columns: Mapping[str, LabelColumn], failed: Flags) -> GuessedScore | None:
    """Two columns of whole numbers, of which one is never the larger."""
    passed, of = words.COUNTS
    exact = {words.normal_name(column): column for column in reversed(list(columns))}
    totals = [exact[word] for word in of if word in exact]
    for successes in (exact[word] for word in passed if word in exact):
        for trials in totals:
            k, n = _numbers(columns[successes])[0], _numbers(columns[trials])[0]
            there = ~np.isnan(k) & ~failed
            if there.any() and _is_count(k[there], n[there]) and _is_whole(n[~np.isnan(n)]):
                keys = {"successes": successes, "trials": trials}
                k, n = np.where(failed, np.nan, k), np.nan_to_num(n)
                total = n[there].sum()
                why = f"{k[there].sum() / total:.1%} of {total:,.0f} trials passed"
                return GuessedScore(keys, k, n, "binary", why)
    return None


def _is_count(k: Floats, n: Floats) -> bool:
    whole = _is_whole(k) and not np.isnan(n).any()
    # 0 and 1 of 1 at most is a score, whatever stands beside it.
    return whole and bool((k <= n).all() and k.max() > 1 and n.max() > 1)


def _is_whole(values: Floats) -> bool:
    return bool((np.isfinite(values) & (values >= 0) & (values == np.floor(values))).all())


def _numbers(column: LabelColumn) -> tuple[Floats, Flags]:
    """A column as numbers, NaN where there is none, and the rows that hold something else."""
    values = numbers_of(column.codes, column.values, as_score)
    wrong = np.isinf(values)
    return np.where(wrong, np.nan, values), wrong


def _refusal(
    columns: Mapping[str, LabelColumn], likely: Sequence[str], failed: Flags, name: str
) -> str:
    texts = {column: _text_of(columns[column], failed) for column in likely}
    named = next((column for column, text in texts.items() if text), None)
    given = [*list(columns)[:_LISTED], *(["..."] if len(columns) > _LISTED else [])]
    if named is not None:
        example = _passing(columns[named], failed)
        return explain(
            f"column {named!r} of {name} has the name of a score, but holds {texts[named]}",
            given=given,
            allowed="0 and 1, true and false, or numbers",
            do=f"Write it as numbers, such as df[{named!r}] = df[{named!r}] == {example}, the "
            'label of a pass; or name another column: gs.from_frame(df, score="..."), or '
            'score = "..." in a study file.',
        )
    if likely:
        return explain(
            f"no row of {name} has a score: {', '.join(map(repr, likely[:_SHOWN]))} is empty",
            given=given,
            do="Were the runs ever scored?",
        )
    truths = [column for column, one in columns.items() if _is_truth(one)]
    hint = (
        f"Columns that hold only 0 and 1: {', '.join(map(repr, truths[:_LISTED]))}. "
        if truths
        else ""
    )
    wide = "With a column per system, make one row per trial first: df.melt. "
    return explain(
        f"no column of {name} has the name of a score",
        given=given,
        allowed=f"for a guess {', '.join(words.SCORES[:8])}, or counts such as passes and trials",
        do=f"{hint}{wide if len(truths) > 1 else ''}"
        'Name it: gs.from_frame(df, score="...") in Python, or declare the study in a file with '
        'score = "..." and pass it: --study study.toml.',
    )


def _text_of(column: LabelColumn, failed: Flags) -> str:
    """Values of a column that are no numbers, as an error shows them; "" if there are none."""
    _, wrong = _numbers(column)
    places = dict.fromkeys(column.codes[wrong & ~failed].tolist())
    shown = [repr(column.values[place])[:40] for place in list(places)[:_SHOWN]]
    return ", ".join(shown)


def _passing(column: LabelColumn, failed: Flags) -> str:
    """The label that means a pass, where it is a common word for it, else dots."""
    _, wrong = _numbers(column)
    labels = [column.values[place] for place in np.unique(column.codes[wrong & ~failed])]
    found = [label for label in labels if str(label).strip().lower() in words.PASSES]
    return repr(found[0]) if len(found) == 1 else "..."


def _is_truth(column: LabelColumn) -> bool:
    values, wrong = _numbers(column)
    found = np.unique(values[~np.isnan(values)])
    return not wrong.any() and found.size == 2 and bool(np.isin(found, (0.0, 1.0)).all())
