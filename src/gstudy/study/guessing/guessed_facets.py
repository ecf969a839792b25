"""A facet as it is guessed, and the draft that a guess fills."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gstudy.errors import DeclarationError
from gstudy.study.facets import FORBIDDEN_MARKS, Facet
from gstudy.study.guessing.label_columns import LabelColumn, joint

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gstudy.study.guessing.label_columns import Codes

__all__ = ["Draft", "GuessedFacet", "facet_name"]


@dataclass(frozen=True, slots=True)
class GuessedFacet:
    """A facet that a column was taken for.

    Parameters
    ----------
    name, column, role : str
    n_levels : int
        Distinct labels in the column; of counted rollouts 0.
    reason : str
        Why this role, or this nesting.
    nested_in : tuple of str
    instead : tuple of str
        Lines that could stand in its table instead, with a remark.
    """

    name: str
    column: str
    role: str
    n_levels: int
    reason: str
    nested_in: tuple[str, ...] = ()
    instead: tuple[str, ...] = ()

    def facet(self) -> Facet:
        """The facet of the study."""
        column = None if self.column == self.name else self.column
        return Facet(self.name, role=self.role, column=column, nested_in=self.nested_in)


@dataclass(slots=True)
class Draft:
    """What is known so far.

    Parameters
    ----------
    columns : mapping of str to LabelColumn
        That a facet may be made of.
    n_rows : int
    facets : list of GuessedFacet
    left_out : dict of str to str
        Column to why it is no facet.
    doubts : list of str
    """

    columns: Mapping[str, LabelColumn]
    n_rows: int
    facets: list[GuessedFacet] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    doubts: list[str] = field(default_factory=list)

    @property
    def free(self) -> dict[str, LabelColumn]:
        """The columns that nothing is made of yet."""
        used = {facet.column for facet in self.facets}
        return {name: c for name, c in self.columns.items() if name not in (*used, *self.left_out)}

    def named(self, name: str) -> GuessedFacet | None:
        """The facet of that name."""
        return next((facet for facet in self.facets if facet.name == name), None)

    def column(self, facet: str) -> LabelColumn | None:
        """The column of a facet, if there is that facet and its levels are named."""
        found = self.named(facet)
        return None if found is None else self.columns.get(found.column)

    def codes(self, facets: Iterable[str] | None = None) -> Codes:
        """One code per combination of the labels of some facets, of all by default."""
        names = [facet.name for facet in self.facets] if facets is None else facets
        columns = [column for name in names if (column := self.column(name)) is not None]
        return joint(columns, self.n_rows)

    def add(self, facet: GuessedFacet, *, before: str | None = None) -> None:
        """Put a facet at the end, or before another."""
        names = [one.name for one in self.facets]
        self.facets.insert(names.index(before) if before in names else len(names), facet)

    def replace(self, facet: GuessedFacet) -> None:
        """Put a facet in the place of the one with its name."""
        self.facets = [facet if one.name == facet.name else one for one in self.facets]


def facet_name(column: str, taken: Iterable[str]) -> str:
    """A name that a facet may have, as near to a column's as can be.

    >>> facet_name("user: simulator", ["task"])
    'user_ simulator'
    """
    name = "".join(mark if mark.isprintable() else "_" for mark in column)
    for mark in FORBIDDEN_MARKS:
        name = name.replace(mark, "_")
    name, used = name.strip(), set(taken)
    tries = (name, f"facet {name}".strip(), *(f"{name} {i}" for i in range(2, len(used) + 3)))
    return next(one for one in tries if one not in used and _is_allowed(one))


def _is_allowed(name: str) -> bool:
    try:
        Facet(name, role="error")
    except DeclarationError:
        return False
    return True
