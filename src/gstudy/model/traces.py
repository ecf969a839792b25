"""nutpie's raw trace as arrays: to label it takes longer than to sample a small study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["taken"]

SAMPLE = ("chain", "draw")

TRANSFORMED = "__"
"""How PyMC ends the names of variables on the unconstrained scale."""


def taken(trace: Any) -> tuple[dict[str, NDArray[np.float64]], xr.Dataset]:
    """Draws and sampler statistics after tuning, of a trace of `return_raw_trace=True`.

    Parameters
    ----------
    trace
        It can be taken once.

    Returns
    -------
    draws : dict of str to array (chain, draw, ...)
        Without PyMC's transformed variables, which say nothing more and take as much memory.
    stats : xarray.Dataset
        Those with one value per draw; dims chain and draw.
    """
    from pyarrow import record_batch

    draws, stats = (list(map(record_batch, batches)) for batches in trace.get_arrow_trace())
    kept = [~np.asarray(_filled(batch.column("tuning")), dtype=bool) for batch in stats]
    names = [name for name in draws[0].schema.names if not name.endswith(TRANSFORMED)]
    return {name: _kept_draws(draws, kept, name) for name in names}, _labelled(stats, kept)


def _kept_draws(
    batches: Sequence[Any], kept: Sequence[NDArray[np.bool_]], name: str
) -> NDArray[np.float64]:
    """One variable of all chains, filled in chain by chain: the trace is there meanwhile."""
    shape = _shape(batches[0].schema.field(name).metadata or {})
    found = np.empty((len(batches), int(kept[0].sum()), *shape))
    for chain, (batch, of_chain) in enumerate(zip(batches, kept, strict=True)):
        found[chain] = _variable(batch, name)[of_chain]
    return found


def _labelled(batches: Sequence[Any], kept: Sequence[NDArray[np.bool_]]) -> xr.Dataset:
    import xarray as xr
    from pyarrow.types import is_nested

    variables = {}
    for field in batches[0].schema:
        if field.name in SAMPLE or is_nested(field.type):
            continue
        columns = [batch.column(field.name) for batch in batches]
        values = [_filled(column)[k] for column, k in zip(columns, kept, strict=True)]
        variables[field.name] = (SAMPLE, np.stack(values))
    coords = {"chain": np.arange(len(kept)), "draw": np.arange(int(kept[0].sum()))}
    return xr.Dataset(variables, coords=coords)


def _variable(batch: Any, name: str) -> NDArray[np.float64]:
    """One variable of one chain, (draw, ...)."""
    column = batch.column(name)
    values = column.flatten() if hasattr(column, "flatten") else column
    shape = _shape(batch.schema.field(name).metadata or {})
    return np.asarray(values.to_numpy(zero_copy_only=False)).reshape(batch.num_rows, *shape)


def _shape(metadata: Mapping[bytes, bytes]) -> Sequence[int]:
    text = metadata.get(b"shape", b"").decode()
    return [int(size) for size in text.split(",")] if text else []


def _filled(column: Any) -> NDArray[Any]:
    """Values of one chain: what is not there is NaN, 0, or None of a text."""
    values = column.to_numpy(zero_copy_only=False)
    if column.null_count and not str(column.type).startswith(("double", "float", "string")):
        filled = np.zeros(len(column), dtype=column.type.to_pandas_dtype())
        there = np.asarray(column.is_valid().to_numpy(zero_copy_only=False), dtype=bool)
        filled[there] = values[there]
        return filled
    return np.asarray(values)
