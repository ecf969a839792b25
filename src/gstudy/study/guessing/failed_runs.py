"""What is done with failed runs and missing scores: the guess, with both scores beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gstudy.study.guessing import column_words as words

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gstudy.study.guessing.label_columns import LabelColumn
    from gstudy.study.guessing.score_columns import GuessedScore

__all__ = ["GuessedPolicies", "guess_policies", "said_failed"]

Flags = npt.NDArray[np.bool_]

# Reasons that are no doing of what is measured.
_OUTSIDE = (
    *("infrastructure", "infra", "api", "network", "connection", "rate", "ratelimit", "server"),
    *("harness", "sandbox", "docker", "quota"),
)
_MOST_REASONS = 20


@dataclass(frozen=True, slots=True)
class GuessedPolicies:
    """The two policies, and why.

    Parameters
    ----------
    on_failed_run : str or dict of str to str
        "raise" where no run failed.
    on_missing_score : str
        "raise" where every score is there.
    reasons : dict of str to str
        Key of `[model]` to why.
    doubts : tuple of str
    """

    on_failed_run: str | dict[str, str]
    on_missing_score: str
    reasons: dict[str, str]
    doubts: tuple[str, ...] = ()


def said_failed(columns: Mapping[str, LabelColumn], n_rows: int) -> Flags:
    """The rows whose `outcome` says that the run failed."""
    return _said(columns.get("outcome"), "failed", n_rows)


def guess_policies(
    columns: Mapping[str, LabelColumn], score: GuessedScore, failed: Flags
) -> GuessedPolicies:
    """What `on_failed_run` and `on_missing_score` could be.

    Parameters
    ----------
    columns : mapping of str to LabelColumn
    score : GuessedScore
    failed : bool array (n_rows,)

    Returns
    -------
    GuessedPolicies
    """
    reasons: dict[str, str] = {}
    policy: str | dict[str, str] = "raise"
    if failed.any():
        policy, why = _failed_policy(columns.get("reason"), score, failed)
        reasons["on_failed_run"] = f"{_told(score, failed)}. {why}"
    missing = (np.isnan(score.numbers) | (score.trials == 0)) & ~failed
    if missing.any():
        reasons["on_missing_score"] = (
            f"{int(missing.sum()):,} of {missing.size:,} rows have no score. If their runs failed, "
            'say so in a column: outcome = "failed"'
        )
    unscored = "drop" if missing.any() else "raise"
    return GuessedPolicies(policy, unscored, reasons, _doubts(columns, missing))


def _failed_policy(
    column: LabelColumn | None, score: GuessedScore, failed: Flags
) -> tuple[str | dict[str, str], str]:
    if "standard_error" in score.keys or (np.any(score.trials[failed] == 0)):
        return "drop", "They are dropped: nothing says how much they weigh"
    found = score.numbers[~np.isnan(score.numbers)]
    if score.family == "gaussian" and found.size and found.min() > 0:
        return "drop", f"They are dropped: no score is as low as 0 (the lowest is {found.min():g})"
    why = "A run that failed did not do the task"
    reasons = _reasons(column, failed)
    outside = [reason for reason in reasons if words.holds_word(reason, _OUTSIDE)]
    if outside and len(reasons) <= _MOST_REASONS:
        shown = ", ".join(outside)
        each = {one: "drop" if one in outside else "incorrect" for one in reasons}
        kept = f"{why}, but for {shown}: not its doing"
        return each, kept if len(outside) < len(reasons) else f"{shown}: not the system's doing"
    return "incorrect", why


def _told(score: GuessedScore, failed: Flags) -> str:
    """How many failed, and the score either way."""
    k, n = np.nan_to_num(score.numbers), score.trials
    there = ~np.isnan(score.numbers) & ~failed
    total, extra = float(n[there].sum()), float(n[failed].sum())
    as_zero = k[there].sum() / (total + extra) if total + extra else np.nan
    dropped = k[there].sum() / total if total else np.nan
    percent = score.family == "binary"
    shown = [f"{rate:.1%}" if percent else f"{rate:.4g}" for rate in (as_zero, dropped)]
    return (
        f"{int(failed.sum()):,} of {failed.size:,} rows are failed runs: as incorrect the score "
        f"is {shown[0]}, dropped {shown[1]}"
    )


def _reasons(column: LabelColumn | None, failed: Flags) -> list[str]:
    if column is None:
        return [""]
    places = dict.fromkeys(column.codes[failed].tolist())
    return ["" if place < 0 else _text(column.values[place]) for place in places]


def _doubts(columns: Mapping[str, LabelColumn], missing: Flags) -> tuple[str, ...]:
    """A column that may tell of failed runs, where none is said to have failed."""
    if "outcome" in columns:
        return ()
    faults = words.best(columns, words.FAULTS)
    found = [name for name in faults if columns[name].n_levels + bool(columns[name].n_missing) > 1]
    if not found:
        return ()
    without = " Rows without a score may be such." if missing.any() else ""
    told = (
        f"{found[0]} may say which runs failed. gstudy reads that from a column outcome "
        f"(scored, failed, unscored), with reason beside it.{without}"
    )
    return (told,)


def _said(column: LabelColumn | None, wanted: str, n_rows: int) -> Flags:
    if column is None:
        return np.zeros(n_rows, dtype=bool)
    places = [i for i, value in enumerate(column.values) if _text(value).lower() == wanted]
    return np.isin(column.codes, places)


def _text(value: Any) -> str:
    return str(value).strip().encode(errors="replace").decode()
