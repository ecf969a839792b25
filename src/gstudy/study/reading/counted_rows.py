"""Rows of a large file counted outside of memory: alike rows are told once, with their number.

duckdb groups the raw values as they stand in the file, within a limit of memory, and spills to
disk. What values mean is decided afterwards, from the few that occur, by the same functions that
read a small file.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gstudy.errors import DataError, explain
from gstudy.study.reading.source_rows import Alike, Source

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["MEMORY_LIMIT", "SQUARES", "CountedRows", "Repeat", "counted_rows", "has_duckdb"]

MEMORY_LIMIT = "1GB"
"""Of duckdb's buffers; what it needs beyond goes to a temporary folder."""

THREADS = 2

SQUARES = "\x01squares"
"""The column of graded scores that tells the sum of squares within alike rows."""

_ROW = "file_row_number"

# Names that no column of a file has.
_COUNT, _FIRST, _ODD, _VALUE, _MEAN = (
    f"\x01{name}" for name in ("rows", "first", "odd", "value", "mean")
)

_MOST_BITS = 20_000
"""Levels of a facet, and ..."""
_ALL_BITS = 2_000_000_000
"""... levels times groups, up to which one bit per level shows that none is repeated."""


@dataclass(frozen=True, slots=True, eq=False)
class Repeat:
    """Rows that agree on every facet: the first two, how many repeat an earlier one, values."""

    first: int
    second: int
    n_repeats: int
    values: dict[str, Any]


def has_duckdb() -> bool:
    """Whether duckdb is installed."""
    return find_spec("duckdb") is not None


@contextmanager
def counted_rows(path: Path, name: str) -> Iterator[CountedRows]:
    """A Parquet file open for counting.

    Parameters
    ----------
    path : Path
    name : str
        What errors call it.

    Raises
    ------
    DataError
        When duckdb is not installed, and when it cannot read the file.
    """
    try:
        import duckdb
    except ImportError:
        raise DataError(
            explain(
                f"{name}: counting trials outside of memory needs duckdb, which is not installed",
                do="pip install 'gstudy[large]', or read into memory: counted=False.",
            )
        ) from None
    settings: dict[str, Any] = {"memory_limit": MEMORY_LIMIT, "threads": THREADS}
    with tempfile.TemporaryDirectory(prefix="gstudy-") as folder:
        settings |= {"temp_directory": folder, "preserve_insertion_order": False}
        with duckdb.connect(config=settings) as connection:
            try:
                yield CountedRows(connection, path, name)
            except duckdb.Error as error:
                raise DataError(
                    explain(
                        f"{name}: the trials cannot be counted: {str(error).splitlines()[0]}",
                        do="Is the file damaged, or the disk of temporary files full? "
                        "counted=False reads it into memory.",
                    )
                ) from None


class CountedRows:
    """The rows of one Parquet file, grouped by duckdb.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
    path : Path
    name : str
        What errors call the file.
    """

    def __init__(self, connection: Any, path: Path, name: str) -> None:
        self.name = name
        self._connection = connection
        quoted = str(path).replace("'", "''")
        self._table = f"read_parquet('{quoted}', file_row_number = true)"
        # Not by their types: naming a table is free.
        self._names = {
            name[0]
            for name in connection.execute(f"select * from {self._table} limit 0").description
        }

    def alike(self, columns: Sequence[str]) -> tuple[pd.DataFrame, Source]:
        """The distinct rows of some columns, in the order of their first rows.

        Parameters
        ----------
        columns : sequence of str

        Returns
        -------
        pandas.DataFrame
            Arrow-backed.
        Source
            Tells which rows of the file stand behind each.
        """
        keys = ", ".join(map(_quoted, columns))
        return self._grouped(keys)

    def alike_graded(self, columns: Sequence[str], score: str) -> tuple[pd.DataFrame, Source]:
        """The same with graded scores: one row for all proper numbers of a group.

        Parameters
        ----------
        columns : sequence of str
        score : str
            Its column has the mean of the numbers, or the value that is none.

        Returns
        -------
        pandas.DataFrame
            With a column ``squares``: the sum of squared deviations from the mean, 0 of single
            scores.
        Source
        """
        value, number = _quoted(score), self._number(score)
        keys = ", ".join(map(_quoted, columns))
        frame, place = self._grouped(
            f'{keys}, {number} is null as "{_ODD}", '
            f'case when {number} is null then {value} end as "{_VALUE}"',
            f', avg({number}) as "{_MEAN}", count(*) * var_pop({number}) as "{SQUARES}"',
        )
        odd = frame[_ODD].to_numpy(dtype=bool)
        mean = frame[_MEAN].astype(object)
        scores = mean.where(~odd, frame[_VALUE].astype(object))
        squares = np.maximum(frame[SQUARES].fillna(0.0).to_numpy(dtype=float), 0.0)
        kept = frame[list(columns)].assign(**{score: scores})
        return kept.assign(**{SQUARES: np.where(odd, 0.0, squares)}), place

    def has(self, column: str) -> bool:
        """Whether the file has a column of that name, in this case of letters."""
        return column in self._names

    def n_distinct(self, column: str) -> int:
        """About how many distinct values a column has."""
        found = f"select approx_count_distinct({_quoted(column)}) from {self._table}"
        return int(self._connection.execute(found).fetchone()[0])

    def first_values(self, columns: Sequence[str], most: int) -> tuple[pd.DataFrame, Source]:
        """As `alike`, but only the first distinct rows."""
        return self._grouped(", ".join(map(_quoted, columns)), most=most)

    def unsafe(self, column: str) -> tuple[pd.DataFrame, Source]:
        """The values of a column that are no label: missing, blank, or with NUL."""
        text = f"cast({_quoted(column)} as varchar)"
        wrong = f"{text} is null or trim({text}) = '' or contains({text}, chr(0))"
        return self._grouped(_quoted(column), where=f"where {wrong} ")

    def has_repeats(self, columns: Sequence[str], last: str, n_groups: int) -> bool:
        """Whether any two rows agree on all columns and the last: an exact test.

        Where the last column has few values, each group of the others sets one bit per row: as
        many bits as rows say that no two are alike. Else all rows are grouped, on disk if need be.
        """
        code, n_codes = self._codes(last, n_groups)
        keys = ", ".join(map(_quoted, columns))
        if code:
            bits = f"bit_count(bitstring_agg({code}, 0, {n_codes - 1}))"
            groups = f"select {keys} from {self._table} group by all having count(*) <> {bits}"
        else:
            groups = (
                f"select {keys}, {_quoted(last)} from {self._table} group by all "
                "having count(*) > 1"
            )
        return self._connection.execute(f"{groups} limit 1").fetchone() is not None

    def first_repeat(self, columns: Sequence[str]) -> Repeat:
        """The first row that repeats an earlier one on all columns."""
        keys = ", ".join(map(_quoted, columns))
        groups = (
            f'select {keys}, min({_ROW}, 2) as "two rows", count(*) as "{_COUNT}" '
            f"from {self._table} group by all having count(*) > 1"
        )
        found = self._connection.execute(
            f'select *, sum("{_COUNT}" - 1) over () from ({groups}) order by "two rows"[2] limit 1'
        ).fetchone()
        *values, rows, _, n_repeats = found
        return Repeat(rows[0], rows[1], int(n_repeats), dict(zip(columns, values, strict=True)))

    def _codes(self, column: str, n_groups: int) -> tuple[str, int]:
        """An expression that numbers the values of a column from 0, and how many; "" for none."""
        most = min(_MOST_BITS, _ALL_BITS // max(n_groups, 1))
        kind, name = self._type(column), _quoted(column)
        if "INT" in kind:
            least, top = self._connection.execute(
                f"select min({name}), max({name}) from {self._table}"
            ).fetchone()
            n_codes = int(top) - int(least) + 1
            return (f"({name} - {least})::INT", n_codes) if n_codes <= most else ("", 0)
        if kind != "VARCHAR" or self.n_distinct(column) > most // 2:
            return "", 0
        self._connection.execute(
            f"create or replace temp table codes as select distinct {name} as label "
            f"from {self._table}"
        )
        self._connection.execute("create type code as enum (select label from codes)")
        n_codes = self._connection.execute("select count(*) from codes").fetchone()[0]
        return f"enum_code({name}::code)::INT", int(n_codes)

    def _number(self, column: str) -> str:
        """An expression: the value as a proper graded score, else null."""
        name = _quoted(column)
        if self._type(column) == "BOOLEAN":
            return "null::DOUBLE"
        number = f"try_cast({name} as DOUBLE)"
        proper = f"isfinite({number}) and abs({number}) <= 1e90"
        if self._type(column) == "VARCHAR":
            proper = f"regexp_full_match({name}, '{_DECIMAL}') and {proper}"
        return f"case when {proper} then {number} end"

    def _type(self, column: str) -> str:
        found = f"select typeof({_quoted(column)}) from {self._table} limit 1"
        return str(self._connection.execute(found).fetchone()[0])

    def _grouped(
        self, keys: str, more: str = "", where: str = "", most: int = -1
    ) -> tuple[pd.DataFrame, Source]:
        import pandas as pd

        limit = f" limit {most}" if most >= 0 else ""
        table = self._connection.execute(
            f'select {keys}{more}, count(*) as "{_COUNT}", min({_ROW}) as "{_FIRST}" '
            f'from {self._table} {where}group by all order by "{_FIRST}"{limit}'
        ).to_arrow_table()
        first, rows = (table[name].to_numpy() for name in (_FIRST, _COUNT))
        frame: pd.DataFrame = table.drop([_FIRST, _COUNT]).to_pandas(types_mapper=pd.ArrowDtype)
        return frame, Source(self.name, alike=Alike(first.astype(np.int64), rows.astype(np.int64)))


_DECIMAL = r"\s*[-+]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][-+]?[0-9]+)?\s*"


def _quoted(name: str) -> str:
    """A column's name in SQL."""
    return '"' + name.replace('"', '""') + '"'
