"""gstudy's two samplers, as `gstudy.fit` runs them by default."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import gstudy as gs
from benchmarks.methods import CHAINS, CORES, Method, Plan, Sampled

if TYPE_CHECKING:
    from gstudy.study.estimable import Assessment

__all__ = ["METHODS"]


def sample(design: Assessment, plan: Plan, *, sampler: Literal["pymc", "direct"]) -> Sampled:
    """Fit, recover mu and the effects, measure the gates; refit if one fails."""
    with compile_clock() as compile_seconds:
        fit = gs.fit(
            design.study,
            design,
            seed=plan.seed,
            draws=plan.draws,
            tune=plan.tune,
            chains=CHAINS,
            cores=CORES,
            sampler=sampler,
            progress=False,
        )
    found = fit.diagnostics
    return Sampled(
        {"mu": fit.mu} | {f"sd({name})": fit.sd(name) for name in fit.components},
        compile_seconds(),
        found.divergences,
        failures=tuple(found.failures()),
        remark="; ".join(found.refits),
    )


@contextmanager
def compile_clock() -> Iterator[Callable[[], float]]:
    """Seconds inside nutpie's compilation of a PyMC model; the direct path never calls it."""
    nutpie: Any = importlib.import_module("nutpie")
    spent, compiling = [0.0], nutpie.compile_pymc_model

    def timed(*arguments: Any, **options: Any) -> Any:
        start = time.perf_counter()
        try:
            return compiling(*arguments, **options)
        finally:
            spent[0] += time.perf_counter() - start

    nutpie.compile_pymc_model = timed
    try:
        yield lambda: spent[0]
    finally:
        nutpie.compile_pymc_model = compiling


def _method(sampler: Literal["pymc", "direct"]) -> Method:
    module = {"direct": "gstudy.model.direct", "pymc": "gstudy.model.graph"}[sampler]
    return Method(
        name=sampler,
        sample=partial(sample, sampler=sampler),
        imports=("nutpie", "arviz_stats", "gstudy.model.sampling", module),
        packages=("gstudy", "pymc", "nutpie", "numba", "numpy"),
        is_ours=True,
        warms=True,
    )


METHODS = (_method("direct"), _method("pymc"))
