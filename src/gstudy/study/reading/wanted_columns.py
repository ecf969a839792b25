"""The columns that a study names, and whether a table has them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gstudy.errors import DataError, did_you_mean, explain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["WantedColumns"]

# So many columns are listed before "and 7 more".
_LISTED = 20


@dataclass(frozen=True, slots=True)
class WantedColumns:
    """What to read of a table; its other columns are never looked at.

    Parameters
    ----------
    needed : mapping
        Column to the key of the declaration that names it, such as "facets.task".
    optional : tuple of str
        Columns that are read if they are there.
    """

    needed: Mapping[str, str]
    optional: tuple[str, ...] = ()

    def among(self, header: Sequence[object], source: str, hint: str | None = None) -> list[str]:
        """The columns to read of a table with that header.

        Parameters
        ----------
        header : sequence
            Every column of the table.
        source : str
            File, for errors.
        hint : str, optional
            The mend if a column is missing and none has a similar name.

        Raises
        ------
        DataError
            For a column that is there twice, or is missing.
        """
        for name, times in Counter(header).items():
            # Spreadsheets leave nameless columns behind, which no study can name.
            if times > 1 and name != "":
                raise DataError(
                    explain(
                        f"{source}: column {name!r} is there {times} times",
                        allowed="column names that differ",
                        do="Rename or remove the others, so that it is clear which one counts.",
                    )
                )
        for column, key in self.needed.items():
            if column not in header:
                names = [name for name in header if isinstance(name, str)]
                raise DataError(
                    explain(
                        f"{source} has no column {column!r}, which {key} asks for",
                        allowed=f"its columns {_listed(header)}",
                        do=hint
                        or did_you_mean(column, names)
                        or f'Name the right column: {_mend(key)} = "...".',
                    )
                )
        return [*self.needed, *(name for name in self.optional if name in header)]


def _listed(header: Sequence[object]) -> str:
    names = ", ".join(str(name) for name in header[:_LISTED]) or "(none)"
    return names + (f" and {len(header) - _LISTED:,} more" if len(header) > _LISTED else "")


def _mend(key: str) -> str:
    """Where the declaration says which column it is."""
    table, _, facet = key.partition(".")
    return f"[facets.{facet}] column" if table == "facets" else key
