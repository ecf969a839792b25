"""Large files: which are counted outside of memory, and as what Parquet file."""

from __future__ import annotations

import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from gstudy.errors import DataError, explain
from gstudy.study.reading.counted_rows import CountedRows, counted_rows, has_duckdb
from gstudy.study.reading.file_kinds import refuse_binary

if TYPE_CHECKING:
    from gstudy.study.declaration import Study
    from gstudy.study.reading.wanted_columns import WantedColumns

__all__ = [
    "MANY_BYTES",
    "MANY_ROWS",
    "advice_without_duckdb",
    "is_large",
    "open_counted",
    "repeated_facet",
]

MANY_ROWS = 5_000_000
MANY_BYTES = 200_000_000
"""From this many rows of a Parquet file, or bytes of a CSV, trials are counted by themselves."""

_SUFFIXES = (".parquet", ".csv", ".csv.gz")

_ADVICE = (
    "all trials were held in memory: pip install 'gstudy[large]' counts a file of this size "
    "outside of it"
)

# Signs that duckdb expands in a path.
_PATTERNS = "*?[{"


def repeated_facet(study: Study) -> str | None:
    """The facet whose levels only repeat a trial: nested in all others, and of no part in a model.

    Each of its levels is one row, inside the residual, so that rows may be counted without it.

    Parameters
    ----------
    study : Study

    Returns
    -------
    str or None
        None when the study has no such facet, or no column of single scores.
    """
    if study.score is None or study.standard_error is not None:
        return None
    every = frozenset(facet.name for facet in study.labelled)
    kept = {study.object, study.averaged_over}.union(*(name.split(":") for name in study.keep))
    for facet in study.labelled:
        free = facet.universe is None and facet.varies is None and facet.role != "controlled"
        lowest = bool(facet.nested_in) and study.closure(facet.name) == every
        if lowest and free and facet.name not in kept:
            return facet.name
    return None


def is_large(source: object, study: Study) -> bool:
    """Whether trials are counted without being asked for: a large file, duckdb, a facet to count.

    Parameters
    ----------
    source : object
        What `read_trials` was given.
    study : Study
    """
    return _could_be_counted(source, study) and has_duckdb()


def advice_without_duckdb(source: object, study: Study) -> list[str]:
    """A note on a large file that was read into memory for want of duckdb; else none."""
    if has_duckdb() or not _could_be_counted(source, study):
        return []
    return [_ADVICE]


def _could_be_counted(source: object, study: Study) -> bool:
    if not isinstance(source, str | Path) or repeated_facet(study) is None:
        return False
    path = Path(source)
    if not path.is_file() or not path.name.lower().endswith(_SUFFIXES):
        return False
    return _is_over(path) and _is_countable(path, study)


def _is_over(path: Path) -> bool:
    if path.suffix.lower() != ".parquet":
        return path.stat().st_size >= MANY_BYTES
    import pyarrow as pa
    from pyarrow import parquet

    try:
        return bool(parquet.ParquetFile(path).metadata.num_rows >= MANY_ROWS)
    except (pa.ArrowException, OSError):
        return False


def _is_countable(path: Path, study: Study) -> bool:
    try:
        _refuse_uncountable(path, study)
    except DataError:
        return False
    return True


@contextmanager
def open_counted(path: Path, study: Study, wanted: WantedColumns) -> Iterator[CountedRows]:
    """A file open for counting; a CSV is copied once to a temporary Parquet file.

    Parameters
    ----------
    path : Path
    study : Study
    wanted : WantedColumns

    Raises
    ------
    DataError
        For a file that cannot be read, one without rows, and what only the reader in memory reads.
    """
    if repeated_facet(study) is None:
        raise DataError(
            explain(
                f"{path}: there is no facet that could be counted",
                allowed="a column of scores, and a facet nested in all others that is in no "
                "component, such as rollouts",
                do="Leave counted out: the trials are read into memory.",
            )
        )
    _refuse_uncountable(path, study)
    with tempfile.TemporaryDirectory(prefix="gstudy-") as folder:
        plain = path
        if path.suffix.lower() != ".parquet":
            plain = Path(folder) / "trials.parquet"
            _copy_csv(path, wanted, plain)
        _refuse_wrong_columns(plain, path, wanted)
        with counted_rows(plain, str(path)) as rows:
            yield rows


def _copy_csv(path: Path, wanted: WantedColumns, target: Path) -> None:
    from gstudy.study.reading.csv_files import csv_to_parquet

    try:
        if path.suffix.lower() == ".csv":
            refuse_binary(path)
        csv_to_parquet(path, wanted, target)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(
            explain(
                f"{path} cannot be read: {error}",
                do="Is it damaged, or only partly copied? Write it again.",
            )
        ) from None


def _refuse_uncountable(path: Path, study: Study) -> None:
    """Formats and columns that the reader in memory knows better."""
    suffixes = path.name.lower().endswith(_SUFFIXES)
    if suffixes and not path.exists():
        raise DataError(explain(f"no file {str(path)!r}", do="Check the path."))
    why = None if suffixes else "it is no Parquet or CSV file"
    if suffixes and any(sign in str(path) for sign in _PATTERNS):
        why = f"its path holds one of {_PATTERNS}"
    if why is None and path.suffix.lower() == ".parquet":
        why = _odd_columns(path, study)
    if why is not None:
        raise DataError(
            explain(
                f"{path} cannot be counted outside of memory: {why}",
                do="Leave counted out: the trials are read into memory.",
            )
        )


def _odd_columns(path: Path, study: Study) -> str | None:
    """What of a Parquet file's columns duckdb could read as something else, if anything."""
    import pyarrow as pa
    from pyarrow import parquet, types

    try:
        schema = parquet.ParquetFile(path).schema_arrow
    except (pa.ArrowException, OSError) as error:
        return f"it is no Parquet file ({error})"
    names = [name.lower() for name in [*schema.names, "file_row_number"]]
    if len(set(names)) < len(names):
        return "two columns have one name but for upper and lower case"
    read = {facet.source_column for facet in study.labelled} | {study.score, "outcome", "reason"}
    for name in sorted(read.intersection(schema.names), key=str):
        kind = schema.field(name).type
        kind = kind.value_type if types.is_dictionary(kind) else kind
        plain = types.is_string(kind) or types.is_large_string(kind) or types.is_boolean(kind)
        number = types.is_integer(kind) or types.is_float32(kind) or types.is_float64(kind)
        if not plain and not number and not types.is_date32(kind):
            return f"column {name!r} is {kind}"
    return None


def _refuse_wrong_columns(plain: Path, path: Path, wanted: WantedColumns) -> None:
    from pyarrow import parquet

    with parquet.ParquetFile(plain) as file:
        wanted.among(file.schema_arrow.names, str(path))
        if file.metadata.num_rows == 0:
            raise DataError(
                explain(
                    f"{path} has no rows", allowed="one row per trial", do="Is it the right table?"
                )
            )
