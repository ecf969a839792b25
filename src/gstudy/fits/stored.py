"""What a run file holds beside the draws: one JSON record, and the cells as arrays.

Values keep their types: what JSON has no word for is a one-key object such as ``{"set": [...]}``.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from gstudy.fits.fitted import Fit
from gstudy.fits.gates import Diagnostics
from gstudy.study.assessment import Assessment
from gstudy.study.cells import Cells
from gstudy.study.checking.layout import Layout, Pairing
from gstudy.study.components import Component, Verdict
from gstudy.study.declaration import Study
from gstudy.study.graded import Graded
from gstudy.study.priors import Prior

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

__all__ = ["fit_of", "record_of"]

# The only classes that a file can bring to life, whatever it says.
_CLASSES = {cls.__name__: cls for cls in (Component, Layout, Pairing, Verdict)}

# Fields of an assessment that are stored in another place.
_ELSEWHERE = ("study", "cells")


def record_of(fit: Fit) -> dict[str, Any]:
    """Everything of a fit but its arrays, JSON-able.

    Parameters
    ----------
    fit : Fit

    Returns
    -------
    dict
        `study` (the declaration), `design`, `diagnostics`, `settings`, `digest` (SHA-256 of
        labels and cells) and `gstudy` (the version that wrote it).
    """
    from gstudy import __version__

    fields = (field.name for field in dataclasses.fields(fit.design))
    return {
        "gstudy": __version__,
        "study": fit.study.to_dict(),
        "design": {
            name: _encoded(getattr(fit.design, name)) for name in fields if name not in _ELSEWHERE
        },
        "cell_facets": list(fit.design.cells.facets),
        "digest": fit.design.cells.digest(),
        "diagnostics": fit.diagnostics.to_dict(),
        "settings": _encoded(dict(fit.settings)),
    }


def fit_of(record: dict[str, Any], tree: xr.DataTree) -> Fit:
    """The fit that a record and its arrays were written from.

    Parameters
    ----------
    record : dict
        From :func:`record_of`.
    tree : xarray.DataTree
        With the groups of :func:`gstudy.fits.fitted.cell_groups`.

    Returns
    -------
    Fit
    """
    study = Study.from_dict(record["study"])
    design = {name: _decoded(value) for name, value in record["design"].items()}
    everything = (*design["components"], *design.get("fixed", ()))
    cells = _cells(tree, record["cell_facets"], everything)
    return Fit(
        posterior=tree,
        study=study,
        design=Assessment(study=study, cells=cells, **design),
        diagnostics=Diagnostics.from_dict(record["diagnostics"]),
        settings=_decoded(record["settings"]),
    )


def _cells(tree: xr.DataTree, facets: list[str], components: tuple[Component, ...]) -> Cells:
    data = tree["constant_data"].to_dataset()
    names = [component.name for component in components]
    codes = [data[f"code({facet})"].values for facet in facets]
    trials = data["trials"].values
    return Cells(
        facets=tuple(facets),
        labels={facet: _texts(data[f"labels({facet})"].values) for facet in facets},
        codes=np.ascontiguousarray(
            np.array(codes, dtype=np.int32).reshape(len(facets), len(trials)).T
        ),
        successes=tree["observed_data"].to_dataset()["successes"].values,
        trials=trials,
        components=components,
        index=tuple(data[f"index({name})"].values for name in names),
        levels=tuple(data[f"levels({name})"].values for name in names),
        graded=_graded(data),
    )


def _graded(data: xr.Dataset) -> Graded | None:
    if "graded(mean)" not in data:
        return None
    known = "graded(precision)" in data
    return Graded(
        mean=data["graded(mean)"].values,
        squares=data["graded(squares)"].values,
        precision=data["graded(precision)"].values if known else None,
        log_errors=float(data["graded(log_errors)"].values),
    )


def _texts(labels: Any) -> tuple[str, ...]:
    return tuple(str(label) for label in labels)


def _encoded(value: Any) -> Any:
    """The value as JSON, with a one-key object where JSON has no such type."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(value)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, list):
        return [_encoded(item) for item in value]
    if isinstance(value, tuple):
        return {"tuple": [_encoded(item) for item in value]}
    if isinstance(value, frozenset):
        return {"set": sorted(value)}
    if isinstance(value, Prior):
        return {"prior": value.to_dict()}
    if dataclasses.is_dataclass(value):
        if type(value) not in _CLASSES.values():
            raise TypeError(f"a run file has no place for {type(value).__name__}")
        fields = dataclasses.fields(value)
        inside = {field.name: _encoded(getattr(value, field.name)) for field in fields}
        return {"object": [type(value).__name__, inside]}
    if hasattr(value, "columns"):
        return {"frame": _encoded_frame(value)}
    if hasattr(value, "items"):
        return {"dict": [[_encoded(key), _encoded(item)] for key, item in value.items()]}
    # Paths, dates and versions: nothing that a number is made from.
    return str(value)


def _decoded(stored: Any) -> Any:
    if isinstance(stored, list):
        return [_decoded(item) for item in stored]
    if not isinstance(stored, dict):
        return stored
    [(kind, inside)] = stored.items()
    if kind == "float":
        return float(inside)
    if kind == "tuple":
        return tuple(_decoded(item) for item in inside)
    if kind == "set":
        return frozenset(inside)
    if kind == "prior":
        return Prior(inside.pop("dist"), inside)
    if kind == "object":
        name, fields = inside
        return _CLASSES[name](**{key: _decoded(value) for key, value in fields.items()})
    if kind == "frame":
        return _decoded_frame(inside)
    return {_decoded(key): _decoded(value) for key, value in inside}


def _encoded_frame(frame: pd.DataFrame) -> dict[str, Any]:
    index = frame.index
    return {
        "index": [index.name, str(index.dtype), _encoded(index.tolist())],
        "columns": [
            [str(name), str(frame[name].dtype), _encoded(frame[name].tolist())] for name in frame
        ],
    }


def _decoded_frame(stored: dict[str, Any]) -> pd.DataFrame:
    import pandas as pd

    name, dtype, labels = stored["index"]
    index = pd.Index(_decoded(labels), name=name, dtype=dtype)
    columns = {
        column: pd.Series(_decoded(values), index=index, dtype=kind)
        for column, kind, values in stored["columns"]
    }
    return pd.DataFrame(columns, index=index)
