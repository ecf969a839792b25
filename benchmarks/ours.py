"""gstudy's two samplers, as `gstudy.fit` runs them by default."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Literal

import gstudy as gs
from benchmarks.methods import CHAINS, CORES, TARGET_ACCEPT, Method, Plan, Sampled

if TYPE_CHECKING:
    from gstudy.study.estimable import Assessment

__all__ = ["METHODS"]


def sample(design: Assessment, plan: Plan, *, sampler: Literal["pymc", "direct"]) -> Sampled:
    """Fit, recover mu and the effects, measure the gates; refit if one fails."""
    fit = gs.fit(
        design.study,
        design,
        seed=plan.seed,
        draws=plan.draws,
        tune=plan.tune,
        chains=CHAINS,
        cores=CORES,
        sampler=sampler,
        target_accept=TARGET_ACCEPT,
        progress=False,
    )
    sds = {f"sd({name})": fit.sd(name) for name in fit.components}
    found = fit.diagnostics
    return Sampled({"mu": fit.mu} | sds, found.divergences, len(found.refits))


def _method(sampler: Literal["pymc", "direct"]) -> Method:
    module = {"direct": "gstudy.model.direct", "pymc": "gstudy.model.graph"}[sampler]
    return Method(
        name=sampler,
        sample=partial(sample, sampler=sampler),
        imports=("pymc", "nutpie", "arviz_stats", "gstudy.model.sampling", module),
        target_accept=TARGET_ACCEPT,
        tune=1000,
        draws=1000,
    )


METHODS = (_method("direct"), _method("pymc"))
