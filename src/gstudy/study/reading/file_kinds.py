"""What a file is by its first bytes, whatever its name says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gstudy.errors import DataError, explain

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["kind_of_bytes", "refuse_binary"]

_HEAD = 4096

_STARTS = (
    (b"\x89HDF", "a netCDF file, such as a fit that was saved"),
    (b"CDF", "a netCDF file, such as a fit that was saved"),
    (b"PAR1", "a Parquet file"),
    (b"\x1f\x8b", "a gzipped file"),
    (b"PK\x03\x04", "a zip archive or a workbook (.xlsx)"),
    (b"\xd0\xcf\x11\xe0", "a workbook (.xls)"),
    (b"SQLite format 3", "a SQLite database"),
    (b"\xff\xfe", "UTF-16 text"),
    (b"\xfe\xff", "UTF-16 text"),
)

_MENDS = {
    "a netCDF file, such as a fit that was saved": "A fit is read by gs.load; give the trials.",
    "a Parquet file": "Name it .parquet.",
    "a gzipped file": "Name it .csv.gz or .jsonl.gz.",
    "a zip archive or a workbook (.xlsx)": "Save the sheet as CSV (UTF-8), or unpack it.",
    "a workbook (.xls)": "Save the sheet as CSV (UTF-8).",
    "UTF-16 text": "Save the file as UTF-8.",
}


def kind_of_bytes(head: bytes) -> str | None:
    """What a file that begins so is, in words; None for what may be text.

    >>> kind_of_bytes(b"PAR1...")
    'a Parquet file'
    """
    known = next((kind for start, kind in _STARTS if head.startswith(start)), None)
    return known or ("a binary file" if b"\x00" in head else None)


def refuse_binary(path: Path) -> None:
    """Refuse a file that is named as text and is none.

    Raises
    ------
    DataError
        Naming what it is.
    """
    with path.open("rb") as stream:
        kind = kind_of_bytes(stream.read(_HEAD))
    if kind is not None:
        raise DataError(
            explain(
                f"{path} is {kind}, no text of trials",
                allowed=".csv, .jsonl (UTF-8 text, or gzipped and named .gz), .parquet",
                do=_MENDS.get(kind, "Is it the right file?"),
            )
        )
