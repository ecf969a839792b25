"""Chains: a model compiled once, and nutpie run on it as often as draws are asked for."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gstudy.model.traces import taken

if TYPE_CHECKING:
    import pymc as pm
    import xarray as xr

    from gstudy.model.one_way import OneWay
    from gstudy.model.parameterisation import Parameterisation
    from gstudy.model.settings import Settings
    from gstudy.model.varying import Varying

__all__ = [
    "Chains",
    "direct_chains",
    "one_way_chains",
    "own_direct_chains",
    "processors",
    "pymc_chains",
    "run_stored",
    "thinned",
]

Floats = NDArray[np.float64]

type Chains = Callable[[Settings], tuple[Mapping[str, Floats], xr.Dataset]]
"""Settings to draws (chain, draw, ...) of a model's free variables, and sampler statistics."""

_POLL_SECONDS = 0.002
_NUMBERS_AT_ONCE = 2**16

# PyMC hands nutpie the seed of its first chain, drawn below this.
_PYMC_SEEDS = 2**30


def direct_chains(p: Parameterisation) -> Chains:
    """Chains of the log-posterior in numba: nothing is compiled."""
    from gstudy.model.compiled import compile_direct
    from gstudy.model.direct import direct_posterior

    posterior = direct_posterior(p)
    return _unpacked(compile_direct(posterior), posterior.unpack)


def one_way_chains(found: OneWay) -> Chains:
    """Chains of mu and the sd of one component alone: its effects are integrated out."""
    from gstudy.model.one_way_compiled import compile_one_way

    compiled = compile_one_way(found)

    def sample(settings: Settings) -> tuple[Mapping[str, Floats], xr.Dataset]:
        draws, stats = run_chains(compiled, settings, settings.seed)
        x = draws["x"]
        return {"mu": x[..., -1], "sd": np.exp(x[..., 0])}, stats

    return sample


def own_direct_chains(varying: Varying) -> Chains:
    """The same of a model with own sds."""
    from gstudy.model.own_compiled import compile_own_direct
    from gstudy.model.own_layout import own_direct_posterior

    posterior = own_direct_posterior(varying)
    return _unpacked(compile_own_direct(posterior), posterior.unpack)


def _unpacked(compiled: Any, unpack: Callable[[Floats], Mapping[str, Floats]]) -> Chains:
    def sample(settings: Settings) -> tuple[Mapping[str, Floats], xr.Dataset]:
        draws, stats = run_chains(compiled, settings, settings.seed)
        return _in_parts(unpack, draws["x"]), stats

    return sample


def _in_parts(unpack: Callable[[Floats], Mapping[str, Floats]], x: Floats) -> dict[str, Floats]:
    """The variables of vectors (chain, draw, n_free), few at a time: what is made on the way stays
    in the processor's cache, and takes no memory."""
    flat = x.reshape(-1, x.shape[-1])
    size = max(_NUMBERS_AT_ONCE // max(flat.shape[1], 1), 1)
    found: dict[str, Floats] = {}
    for start in range(0, len(flat), size):
        for name, values in unpack(flat[start : start + size]).items():
            if name not in found:
                found[name] = np.empty((len(flat), *values.shape[1:]))
            found[name][start : start + size] = values
    return {name: values.reshape(*x.shape[:2], *values.shape[1:]) for name, values in found.items()}


def pymc_chains(write: Callable[[], pm.Model]) -> Chains:
    """Chains of a PyMC model, compiled when they are first asked for; the draws of `pm.sample`.

    Compiling takes seconds, and a second attempt or a further round needs no other program.
    """
    known: list[Any] = []

    def sample(settings: Settings) -> tuple[Mapping[str, Floats], xr.Dataset]:
        import nutpie
        from pytensor.configdefaults import config

        # Fast-math compiles to other instructions from a cold cache than from a warm one, and one
        # seed then gives two sets of draws.
        with config.change_flags(numba__fastmath=False):
            if not known:
                known.append(nutpie.compile_pymc_model(write()))
            draws, stats = run_chains(known[0], settings, _pymc_seed(settings.seed))
        return draws, stats

    return sample


def _pymc_seed(seed: int) -> int:
    """The seed that `pm.sample` gives nutpie."""
    [first] = np.random.default_rng(seed).spawn(1)
    return int(first.integers(_PYMC_SEEDS))


def run_chains(
    compiled: Any, settings: Settings, seed: int
) -> tuple[dict[str, Floats], xr.Dataset]:
    """Draws and sampler statistics of a compiled model."""
    return taken(_run(compiled, settings, seed))


def run_stored(compiled: Any, settings: Settings, seed: int) -> tuple[list[Floats], xr.Dataset]:
    """The same with the draws (draw, n) of each chain as the sampler stored them: no copies."""
    import pyarrow as pa
    import xarray as xr

    draws, stats = _run(compiled, settings, seed).get_arrow_trace()
    found: list[Floats] = []
    told: dict[str, list[NDArray[Any]]] = {}
    for batch, stat in zip(draws, stats, strict=True):
        kept = ~pa.array(stat.column("tuning")).to_numpy(zero_copy_only=False)
        first = int(np.argmax(kept))
        flat = pa.array(batch.column("x")).flatten().to_numpy()
        found.append(flat.reshape(batch.num_rows, -1)[first:])
        for name in set(stat.column_names) - {"tuning", "chain", "draw"}:
            values = pa.array(stat.column(name))
            if not pa.types.is_nested(values.type) and values.null_count == 0:
                told.setdefault(name, []).append(values.to_numpy(zero_copy_only=False)[first:])
    whole = {name: np.stack(told[name]) for name in sorted(told) if len(told[name]) == len(found)}
    return found, xr.Dataset({name: (("chain", "draw"), x) for name, x in whole.items()})


def _run(compiled: Any, settings: Settings, seed: int) -> Any:
    import nutpie

    running = nutpie.sample(
        compiled,
        draws=settings.draws * settings.keep_every,
        tune=settings.tune,
        chains=settings.chains,
        cores=settings.cores or min(settings.chains, processors()),
        seed=seed,
        target_accept=settings.target_accept,
        save_warmup=False,
        progress_bar=settings.progress,
        blocking=False,
        return_raw_trace=True,
    )
    # Its own waiting holds back Ctrl-C while the chains call Python.
    while not _is_finished(running):
        time.sleep(_POLL_SECONDS)
    return running.wait()


def _is_finished(running: Any) -> bool:
    try:
        return bool(running.is_finished)
    except TimeoutError:
        # It was too busy to answer.
        return False


def thinned(values: Mapping[str, Floats], keep_every: int) -> dict[str, Floats]:
    """The last of every so many draws of each chain."""
    return {name: x[:, keep_every - 1 :: keep_every] for name, x in values.items()}


def processors() -> int:
    """Processors that this process may use."""
    counted = getattr(os, "process_cpu_count", os.cpu_count)()
    return int(counted or 1)
