"""The trailer of a run file: format version, length and SHA-256 of what stands before it.

A netCDF file with one flipped byte often loads, silently wrong; HDF5 ignores bytes behind its
end. So the digest goes there, and is checked before anything is read.
"""

from __future__ import annotations

import hashlib
import struct
from typing import IO, TYPE_CHECKING

from gstudy.errors import RunFileError, explain

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["FORMAT_VERSION", "append_trailer", "verify_trailer"]

FORMAT_VERSION = 1
"""Raised when an older gstudy could not read, or would misread, what this one writes."""

MARKER = "gstudy_run"
"""Name of the JSON attribute: bytes by which a run file is known when its trailer is gone."""

# Magic, version and length, then the digest of the body and of these three.
_HEAD = struct.Struct(">16sIQ")
_MAGIC = b"\x89gstudy-run\r\n\x1a\n\x00"
_SIZE = _HEAD.size + hashlib.sha256().digest_size
_HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_CHUNK = 1 << 20


def append_trailer(stream: IO[bytes], version: int = FORMAT_VERSION) -> None:
    """Write the trailer at the end of an open, readable and writable file."""
    stream.seek(0)
    digest = hashlib.sha256()
    length = 0
    while chunk := stream.read(_CHUNK):
        digest.update(chunk)
        length += len(chunk)
    head = _HEAD.pack(_MAGIC, version, length)
    digest.update(head)
    stream.write(head + digest.digest())


def verify_trailer(path: Path) -> None:
    """Raise unless the file is a whole, unaltered run file of a format that is known here.

    Raises
    ------
    RunFileError
        Empty, foreign, truncated, altered, or written by a newer gstudy.
    """
    with path.open("rb") as stream:
        size = stream.seek(0, 2)
        if size == 0:
            raise _refusal(path, "the file is empty", _AGAIN)
        stream.seek(max(size - _SIZE, 0))
        trailer = stream.read()
        magic, version, length = _unpacked(trailer)
        if magic != _MAGIC:
            raise _unsealed(path, stream)
        if length != size - _SIZE:
            raise _refusal(
                path, f"{length + _SIZE:,} bytes were written, {size:,} are there", _AGAIN
            )
        if _digest(stream, length, trailer) != trailer[_HEAD.size :]:
            raise _refusal(
                path, "the file was altered after it was written (its digest differs)", _AGAIN
            )
    if version > FORMAT_VERSION:
        raise _refusal(
            path,
            f"it has format version {version}, written by a newer gstudy; this one reads up to "
            f"version {FORMAT_VERSION}",
            "Upgrade gstudy.",
        )


_AGAIN = "Copy it again from where it was saved, or fit again."


def _unpacked(trailer: bytes) -> tuple[bytes, int, int]:
    if len(trailer) < _SIZE:
        return b"", 0, 0
    magic, version, length = _HEAD.unpack(trailer[: _HEAD.size])
    return bytes(magic), int(version), int(length)


def _digest(stream: IO[bytes], length: int, trailer: bytes) -> bytes:
    """SHA-256 of the first `length` bytes and the head of the trailer."""
    stream.seek(0)
    digest = hashlib.sha256()
    left = length
    while left and (chunk := stream.read(min(_CHUNK, left))):
        digest.update(chunk)
        left -= len(chunk)
    digest.update(trailer[: _HEAD.size])
    return digest.digest()


def _unsealed(path: Path, stream: IO[bytes]) -> RunFileError:
    """Why a file without our trailer is not a run: foreign, or ours and cut."""
    if _contains(stream, MARKER.encode()):
        return _refusal(path, "the end of the run is missing or altered (truncated file)", _AGAIN)
    stream.seek(0)
    kind = "an HDF5 or netCDF file" if stream.read(8) == _HDF5_SIGNATURE else "a file"
    return _refusal(
        path,
        f"it is {kind} that gstudy did not write, or only a part of a run",
        "Give a file that fit.save or `gstudy fit --out` wrote.",
    )


def _contains(stream: IO[bytes], needle: bytes) -> bool:
    stream.seek(0)
    tail = b""
    while chunk := stream.read(_CHUNK):
        if needle in tail + chunk:
            return True
        tail = chunk[-len(needle) :]
    return False


def _refusal(path: Path, reason: str, do: str) -> RunFileError:
    return RunFileError(explain(f"{path} cannot be read as a run: {reason}", do=do))
