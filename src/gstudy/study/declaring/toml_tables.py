"""The tables of a study file: which keys they take, and the study's arguments from them."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gstudy.errors import DeclarationError, did_you_mean, explain
from gstudy.study.facets import Facet

__all__ = ["read_arguments", "read_toml"]

_FACET_KEYS = ("role", "column", "nested_in", "reason", "universe", "varies")
_MODEL_KEYS = ("interactions", "keep", "on_failed_run", "on_missing_score")
_TABLES = ("facets", "controlled", "model", "priors", "design", "cost", "assumed")
_AS_THEY_ARE = ("controlled", "priors", "cost", "assumed")
_PLAIN_KEYS = (
    "data",
    "score",
    "successes",
    "trials",
    "family",
    "standard_error",
    "object",
    "average",
    "rollout",
)
_PLACES = {
    **dict.fromkeys(_FACET_KEYS, "belongs in a facet's table, [facets.<name>]"),
    **dict.fromkeys(_MODEL_KEYS, "belongs in [model]"),
    **{key: f"is a table of its own: [{key}]" for key in _TABLES},
    **dict.fromkeys(_PLAIN_KEYS, "belongs at the top of the file, above the first [table]"),
}


def read_toml(path: str | Path) -> dict[str, Any]:
    """The tables of a TOML file.

    Raises
    ------
    DeclarationError
        When the file is missing, cannot be read, or is not TOML (with line and column).
    """
    path = _path(path)
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except FileNotFoundError:
        raise DeclarationError(
            explain(f"no study file {str(path)!r}", do="Check the path, or write one.")
        ) from None
    except UnicodeDecodeError as error:
        raise DeclarationError(
            explain(
                f"{path} is not UTF-8 text",
                given=f"byte {error.start}",
                do="A study file is a TOML text: save it as UTF-8."
                if path.suffix.lower() not in (".nc", ".netcdf")
                else "This is a fit by its name, not a study: give the study file (TOML); `gstudy "
                "budget` takes a fit.",
            )
        ) from None
    except tomllib.TOMLDecodeError as error:
        raise DeclarationError(
            explain(f"{path} is not TOML: {error}", do=_toml_mend(path))
        ) from None
    except OSError as error:
        raise DeclarationError(
            explain(
                f"{path} cannot be read as a study file: {error.strerror}",
                do="Give the path of a TOML file.",
            )
        ) from None


def _path(path: object) -> Path:
    if isinstance(path, str | os.PathLike) and "\x00" not in str(path):
        return Path(path)
    raise DeclarationError(
        explain(
            "a study file is named by its path",
            given=path,
            allowed='text or a Path, such as "study.toml"',
            do="A declaration that is a mapping already is read by Study.from_dict."
            if isinstance(path, Mapping)
            else None,
        )
    )


def _toml_mend(path: Path) -> str:
    if path.suffix.lower() == ".toml":
        return "Mend that line; texts stand in quotes."
    return "Is it a study file? Trials are given after it, or named in it: data = ..."


def read_arguments(tables: object, base: Path | None) -> dict[str, Any]:
    """The keyword arguments of `Study` that a declaration's tables stand for.

    Parameters
    ----------
    tables : mapping
        As a TOML file holds them.
    base : Path or None
        Folder that a relative `data` path starts from.

    Raises
    ------
    DeclarationError
        For an unknown key, with where it belongs, and for a value that is no table.
    """
    table = _table(tables, "the declaration")
    _check_keys(table, (*_PLAIN_KEYS, *_TABLES), "")
    model = _table(table.get("model", {}), "model")
    _check_keys(model, _MODEL_KEYS, "model.")
    arguments = {key: table[key] for key in _PLAIN_KEYS if key in table} | dict(model)
    arguments |= {key: table[key] for key in _AS_THEY_ARE if key in table}
    if "design" in table:
        arguments["designs"] = _table(table["design"], "design")
    arguments["facets"] = [
        _facet(name, value, is_object=name == table.get("object"))
        for name, value in _table(table.get("facets", {}), "facets").items()
    ]
    data = table.get("data")
    if base is not None and isinstance(data, str):
        arguments["data"] = base / data
    return arguments


def _facet(name: str, value: object, *, is_object: bool) -> Facet:
    table = dict(_table(value, f"facets.{name}"))
    _check_keys(table, _FACET_KEYS, f"facets.{name}.")
    if is_object:
        table.setdefault("role", "object")
    return Facet(name, **table)


def _table(value: object, key: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise DeclarationError(
            explain(
                f"{key} is not a table",
                given=value,
                allowed=f"a table: [{key}]" if "." in key or key in _TABLES else "a mapping",
            )
        )
    return value


def _check_keys(table: Mapping[str, Any], allowed: tuple[str, ...], where: str) -> None:
    for key in table:
        if key in allowed:
            continue
        hint = f"{key!r} {_PLACES[key]}." if key in _PLACES else did_you_mean(str(key), allowed)
        raise DeclarationError(
            explain(
                f"unknown key {where}{key}",
                given=key,
                allowed=allowed,
                do=hint,
            )
        )
