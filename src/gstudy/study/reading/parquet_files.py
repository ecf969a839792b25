"""Parquet files: the columns with the types that the file gives them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from gstudy.errors import DataError, explain

if TYPE_CHECKING:
    from pathlib import Path

    from gstudy.study.reading.wanted_columns import WantedColumns

__all__ = ["read_parquet"]


def read_parquet(path: Path, wanted: WantedColumns) -> pd.DataFrame:
    """The wanted columns of a Parquet file.

    Parameters
    ----------
    path : Path
    wanted : WantedColumns

    Returns
    -------
    pandas.DataFrame
        Arrow-backed, so that whole numbers with gaps stay whole; a stored index is a column.

    Raises
    ------
    DataError
        For a damaged file, and for a column missing or there twice.
    """
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            columns = wanted.among(file.schema_arrow.names, str(path))
            table = file.read(columns=columns).select(columns)
    except (pa.ArrowException, OSError) as error:
        raise DataError(
            explain(
                f"{path} cannot be read as Parquet: {error}",
                do="Write it again, or name it by what it is: .csv, .jsonl.",
            )
        ) from None
    frame: pd.DataFrame = table.to_pandas(types_mapper=pd.ArrowDtype, ignore_metadata=True)
    return frame
