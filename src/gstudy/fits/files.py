"""Saving and loading a fit: one self-contained netCDF file, whole or not at all."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gstudy.errors import RunFileError, did_you_mean, explain
from gstudy.fits.fitted import Fit
from gstudy.fits.stored import fit_of, record_of
from gstudy.fits.trailer import MARKER, append_trailer, verify_trailer

if TYPE_CHECKING:
    from collections.abc import Iterator

    import xarray as xr

__all__ = ["load", "save", "writable_target"]

# Draws are nearly incompressible: the lightest level gains what there is to gain.
_COMPRESSION = {"zlib": True, "complevel": 1, "shuffle": True}

# Names that netCDF keeps as they are; any other is stored under a number.
_SAFE_MARKS = frozenset("_()+-: .")
_LONGEST_NAME = 200
_NUMBERED = "name_"

# What netCDF4 files, as all HDF5 files, begin with.
_SIGNATURE = b"\x89HDF\r\n\x1a\n"


def save(fit: Fit, path: str | Path) -> None:
    """Write a fit as one netCDF4 file.

    The file is written beside its target under a temporary name, synced and renamed, so that
    the target is always a whole run: the old one or the new one.

    Parameters
    ----------
    fit : Fit
    path : str or Path

    Raises
    ------
    RunFileError
        When the directory is missing, cannot be written or is full, or `path` is a directory.

    Examples
    --------
    >>> fit.save("run.nc")  # doctest: +SKIP
    """
    target = writable_target(path)
    tree, names = _portable(fit.posterior)
    record = json.dumps({**record_of(fit), "names": names}, allow_nan=False)
    tree.attrs[MARKER] = record
    try:
        with _replacing(target) as temporary:
            tree.to_netcdf(temporary, engine="netcdf4", encoding=_encoding(tree))
            with temporary.open("r+b") as stream:
                append_trailer(stream)
                stream.flush()
                os.fsync(stream.fileno())
    # The netCDF library reports a full disk as RuntimeError, a lone surrogate as UnicodeError.
    except (OSError, RuntimeError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise RunFileError(
            explain(
                f"the run cannot be written to {target}: {reason}",
                do="Nothing was left behind. Give a path in a directory with room to write.",
            )
        ) from error


def load(path: str | Path) -> Fit:
    """Read a saved fit: the same draws, labels and declaration, bit for bit.

    Parameters
    ----------
    path : str or Path
        A file that `fit.save` wrote.

    Returns
    -------
    Fit

    Raises
    ------
    RunFileError
        When the file is missing, foreign, truncated, altered or of a newer format.

    Examples
    --------
    >>> import gstudy as gs
    >>> fit = gs.load("run.nc")  # doctest: +SKIP
    """
    import xarray as xr

    source = _source(path)
    try:
        verify_trailer(source)
        with xr.open_datatree(source, engine="netcdf4") as opened:
            tree = opened.load()
    except OSError as error:
        reason = error.strerror or str(error)
        raise RunFileError(
            explain(
                f"{source} cannot be read: {reason}", do="Check that the file may be read by you."
            )
        ) from error
    record = json.loads(tree.attrs.pop(MARKER))
    return fit_of(record, _renamed(tree, record["names"]))


def writable_target(path: str | Path) -> Path:
    """The path that a run can be saved under, with links followed.

    Raises
    ------
    RunFileError
        When it is a directory, lies in none that is there and can be written, or is the name of
        a file that is no run: trials, a study, a device.
    """
    target = _path_of(path)
    if target.is_dir():
        raise RunFileError(
            explain(
                "a run is saved as a file, and this is a directory",
                given=str(path),
                do=f"Give a file name in it, such as {target / 'run.nc'}.",
            )
        )
    if not target.parent.is_dir():
        raise RunFileError(
            explain(
                f"there is no directory {target.parent}",
                given=str(path),
                do="Make the directory first, or save somewhere else.",
            )
        )
    if not os.access(target.parent, os.W_OK):
        raise RunFileError(
            explain(
                f"the directory {target.parent} cannot be written",
                given=str(path),
                do="Save somewhere else, or change its permissions.",
            )
        )
    if target.exists() and not _is_replaceable(target):
        raise RunFileError(
            explain(
                "this file is no run, and saving would destroy it",
                given=str(path),
                allowed="a new file, or a run that is replaced",
                do="Give another name, such as run.nc, or remove the file first.",
            )
        )
    # A link stays a link: the file that it points at is replaced.
    return target.resolve()


def _path_of(path: Any) -> Path:
    """The path, when it can be one at all: text that the system takes as a name."""
    try:
        found = Path(path).expanduser()
        found.exists()
        named = bool(path) and "\x00" not in str(path)
    except (TypeError, ValueError, OSError, RuntimeError):
        named = False
    if not named:
        raise RunFileError(
            explain(
                "a run file is named by its path",
                given=path if isinstance(path, str) else type(path).__name__,
                allowed='text or a Path, such as "run.nc"',
            )
        )
    return found


def _is_replaceable(target: Path) -> bool:
    """Whether nothing but a run, whole or broken, or an empty file is lost with it."""
    if not target.is_file():
        return False
    try:
        with target.open("rb") as stream:
            start = stream.read(len(_SIGNATURE))
    except OSError:
        return False
    return start in (b"", _SIGNATURE)


def _source(path: str | Path) -> Path:
    source = _path_of(path)
    if source.is_file():
        return source
    if source.is_dir():
        what, near = "a run is a file, and this is a directory", list(source.glob("*.nc"))
        do = f"Give {near[0]}." if near else "Give the file that fit.save wrote."
    else:
        beside = source.parent.glob("*.nc") if source.parent.is_dir() else ()
        what = "there is no such file"
        do = did_you_mean(source.name, [other.name for other in beside]) or "Check the path."
    raise RunFileError(explain(what, given=str(path), do=do))


@contextlib.contextmanager
def _replacing(target: Path) -> Iterator[Path]:
    """A temporary file in the target's directory that becomes the target, or goes away."""
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(_mode(target))
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    _sync_directory(target.parent)


def _mode(target: Path) -> int:
    """Permissions of the file that is replaced, or those that a new file gets."""
    if target.exists():
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _sync_directory(directory: Path) -> None:
    """Make the rename last through a power cut, where directories can be synced at all."""
    if os.name != "posix":
        return
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _portable(tree: xr.DataTree) -> tuple[xr.DataTree, dict[str, str]]:
    """A copy that netCDF can hold, and the names that had to be changed for it."""
    every = {str(name) for node in tree.subtree for name in (*node.variables, *node.dims)}
    unsafe = sorted(name for name in every if not _is_safe(name))
    names = {f"{_NUMBERED}{i}": name for i, name in enumerate(unsafe)}
    stored = {name: key for key, name in names.items()}
    copy = _renamed(tree, stored)
    for node in copy.subtree:
        node.attrs = {str(key): _attribute(value) for key, value in node.attrs.items()}
        for variable in node.variables.values():
            variable.attrs = {str(k): _attribute(v) for k, v in variable.attrs.items()}
    return copy, names


def _is_safe(name: str) -> bool:
    # netCDF turns names into their composed form, and refuses odd marks, most of all in front.
    plain = all(mark.isalnum() or mark in _SAFE_MARKS for mark in name)
    composed = unicodedata.is_normalized("NFC", name) and len(name.encode()) <= _LONGEST_NAME
    edges = name[:1].isalnum() and not name.endswith(" ") and not name.startswith(_NUMBERED)
    return plain and composed and edges


def _renamed(tree: xr.DataTree, names: dict[str, str]) -> xr.DataTree:
    """A copy of the tree with some variables and dimensions under another name."""
    import xarray as xr

    groups = {}
    for node in tree.subtree:
        data = node.to_dataset(inherit=False)
        known = {*data.variables, *data.dims}
        groups[node.path] = data.rename({k: v for k, v in names.items() if k in known})
    return xr.DataTree.from_dict(groups)


def _attribute(value: Any) -> Any:
    """The attribute as it is where netCDF has its type, else as JSON text."""
    if isinstance(value, (str, int, float, np.number, np.ndarray)) and not isinstance(value, bool):
        return value
    return json.dumps(value, default=str)


def _encoding(tree: xr.DataTree) -> dict[str, Any]:
    return {
        node.path: {
            str(name): _COMPRESSION if variable.dtype.kind in "fiub" and variable.ndim else {}
            for name, variable in node.variables.items()
        }
        for node in tree.subtree
    }
