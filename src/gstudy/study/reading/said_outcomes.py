"""What a table says of its own trials, in columns `outcome` and `reason`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from gstudy.errors import DataError, explain
from gstudy.study.reading.unique_values import unique_values

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gstudy.study.reading.source_rows import Source

__all__ = ["OUTCOMES", "SaidOutcomes", "read_said_outcomes"]

OUTCOMES = ("scored", "failed", "unscored")

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class SaidOutcomes:
    """What the table says of each row.

    Parameters
    ----------
    outcome : object array (n_rows,)
        One of `OUTCOMES`, or "" where the table does not say.
    reason : object array (n_rows,)
        Why a run failed; "" where the table does not say.
    """

    outcome: npt.NDArray[np.object_]
    reason: npt.NDArray[np.object_]

    @property
    def failed(self) -> Flags:
        """Rows of failed runs, whose score is not read."""
        return np.asarray(self.outcome == "failed", dtype=bool)

    def beside(self, scored: Flags, source: Source) -> dict[str, pd.Series]:
        """The columns `outcome` and `reason` of the long table.

        Parameters
        ----------
        scored : bool array (n_rows,)
            Rows with a score, or with counts.
        source : Source
            Where they come from, for errors.

        Raises
        ------
        DataError
            When a row is said to be scored and has no score, or the other way round.
        """
        for said, wrong, fault in (
            ("scored", ~scored, "but there is no score"),
            ("unscored", scored, "but there is a score"),
        ):
            rows = np.flatnonzero((self.outcome == said) & wrong)
            if rows.size:
                raise DataError(
                    explain(
                        f"{source.at(int(rows[0]), 'outcome')}: the row is said to be {said!r}, "
                        f"{fault} ({source.count(rows):,} such rows)",
                        allowed='"scored" with a score, "unscored" without one, "failed"',
                        do="Mend the outcome or the score.",
                    )
                )
        found = np.where(scored, "scored", "unscored")
        outcome = np.where(self.outcome == "", found, self.outcome)
        return {
            "outcome": pd.Series(outcome, dtype="str"),
            "reason": pd.Series(self.reason, dtype="str"),
        }


def read_said_outcomes(
    columns: Mapping[str, pd.Series], n_rows: int, source: Source
) -> SaidOutcomes:
    """Read the columns `outcome` and `reason`, where a table has them.

    Parameters
    ----------
    columns : mapping of str to pandas.Series (n_rows,)
        None, one or both of "outcome" and "reason".
    n_rows : int
    source : Source
        Where they come from, for errors.

    Raises
    ------
    DataError
        For an outcome that is none of "scored", "failed", "unscored".
    """
    empty = np.full(n_rows, "", dtype=object)
    return SaidOutcomes(
        _outcomes(columns["outcome"], source) if "outcome" in columns else empty,
        _texts(columns["reason"]) if "reason" in columns else empty,
    )


def _outcomes(column: pd.Series, source: Source) -> npt.NDArray[np.object_]:
    unique = unique_values(column)
    texts = [_text(value).lower() for value in unique.values]
    for i, text in enumerate(texts):
        if text and text not in OUTCOMES:
            raise DataError(
                explain(
                    f"{source.at(unique.row_of(i), 'outcome')}: this is no outcome",
                    given=unique.values[i],
                    allowed=OUTCOMES,
                    do="If the column means something else, rename it: gstudy reads it as what "
                    "became of the trial.",
                )
            )
    return np.array([*texts, ""], dtype=object)[unique.codes]


def _texts(column: pd.Series) -> npt.NDArray[np.object_]:
    unique = unique_values(column)
    return np.array([*(_text(value) for value in unique.values), ""], dtype=object)[unique.codes]


def _text(value: Any) -> str:
    # Lone surrogates, which JSON can hold, are no text that a column of text can.
    return str(value).strip().encode(errors="replace").decode()
