"""A user's own table under the names that a study uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from gstudy.errors import DataError, did_you_mean, explain

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["from_frame"]

_LISTED = 20


def from_frame(df: pd.DataFrame, **names: str) -> pd.DataFrame:
    """A table with its columns called what a study calls them.

    Parameters
    ----------
    df : pandas.DataFrame
        One row per trial.
    **names : str
        The study's name to the table's column: ``task="item", score="ok"``. Facets, `score`,
        `successes`, `trials`, `standard_error`, `outcome`, `reason`.

    Returns
    -------
    pandas.DataFrame
        What `read_trials` takes; rows and values are the same. Other columns keep their names; one
        that has a name which was asked for makes way, as `.attrs["notes"]` says.

    Raises
    ------
    DataError
        When `df` is no DataFrame, and for a column that it does not have.

    Examples
    --------
    >>> import pandas as pd
    >>> import gstudy as gs
    >>> df = pd.DataFrame({"item": ["a", "b"], "ok": [True, False], "note": ["", ""]})
    >>> list(gs.from_frame(df, task="item", score="ok").columns)
    ['task', 'score', 'note']
    """
    if not isinstance(df, pd.DataFrame):
        raise DataError(
            explain(
                "from_frame takes a table",
                given=type(df).__name__,
                allowed="pandas.DataFrame",
                do="A file is read by gs.read_trials, logs by gs.read_logs.",
            )
        )
    columns = list(df.columns)
    for name, column in names.items():
        _check(name, column, columns)
    made = {name: df[column] for name, column in names.items()}
    lost = [c for c in columns if c in names and names[c] != c and c not in names.values()]
    rest = [c for c in columns if c not in names and c not in names.values()]
    frame = pd.concat([pd.DataFrame(made, index=df.index), df[rest]], axis=1)
    frame.attrs = {**df.attrs, "notes": [*df.attrs.get("notes", []), *_notes(lost, names)]}
    return frame


def _check(name: str, column: object, columns: Sequence[object]) -> None:
    there = sum(column == other for other in columns)
    if there == 1:
        return
    texts = [text for text in columns if isinstance(text, str)]
    if there > 1:
        raise DataError(
            explain(
                f"{name}: the table has {there} columns {column!r}",
                allowed="column names that differ",
                do="Rename or remove the others.",
            )
        )
    listed = [str(text) for text in columns[:_LISTED]]
    raise DataError(
        explain(
            f"{name}: the table has no column {column!r}",
            allowed=listed + (["..."] if len(columns) > _LISTED else []),
            do=did_you_mean(column, texts),
        )
    )


def _notes(lost: Sequence[object], names: dict[str, str]) -> list[str]:
    return [
        f"the table's own column {str(name)!r} was left out: {names[str(name)]!r} is called that"
        for name in lost
    ]
