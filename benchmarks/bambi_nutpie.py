"""Bambi on the same cells with the same priors, sampled by nutpie through `pm.sample`.

Group-level effects are non-centred, which is Bambi's default. Its priors are given, so that it
rescales none; there are no predictors that it could centre the intercept by. It runs with
gstudy's target_accept (`bambi-0.95`: the same settings of nutpie) and with nutpie's own
(`bambi-0.8`: what its users get; faster, and not free of divergences).
"""

from __future__ import annotations

import importlib
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from benchmarks.methods import CHAINS, CORES, TARGET_ACCEPT, Method, Plan, Sampled

if TYPE_CHECKING:
    from gstudy.study.cells import Cells
    from gstudy.study.estimable import Assessment

__all__ = ["METHODS", "cell_frame", "formula", "model", "priors"]

NUTPIE_TARGET_ACCEPT = 0.8


def cell_frame(cells: Cells) -> pd.DataFrame:
    """One row per binomial cell: passes, trials, and one column of levels per component.

    The columns are numbered: names of components are data, and a formula would read them.
    """
    groups = {_group(c): pd.Categorical(index) for c, index in enumerate(cells.index)}
    return pd.DataFrame({"passes": cells.successes, "trials": cells.trials, **groups})


def formula(cells: Cells) -> str:
    """The model formula: an intercept and one group-level effect per component."""
    groups = (f"(1|{_group(c)})" for c in range(len(cells.components)))
    return " + ".join(["p(passes, trials) ~ 1", *groups])


def priors(design: Assessment) -> dict[str, Any]:
    """Bambi's priors from those that `gstudy.check` prints."""
    bambi: Any = importlib.import_module("bambi")
    mu = design.mu_prior
    found = {"Intercept": bambi.Prior("Normal", mu=mu.mu, sigma=mu.sigma)}
    for c, component in enumerate(design.components):
        sd = bambi.Prior("HalfNormal", sigma=component.prior.sigma)
        found[f"1|{_group(c)}"] = bambi.Prior("Normal", mu=0, sigma=sd)
    return found


def model(design: Assessment) -> Any:
    """The Bambi model of a design."""
    bambi: Any = importlib.import_module("bambi")
    return bambi.Model(
        formula(design.cells),
        cell_frame(design.cells),
        family="binomial",
        priors=priors(design),
        auto_scale=False,
        center_predictors=False,
    )


def sample(design: Assessment, plan: Plan, *, target_accept: float) -> Sampled:
    """Build, compile and sample."""
    trace = model(design).fit(
        draws=plan.draws,
        tune=plan.tune,
        chains=CHAINS,
        cores=CORES,
        random_seed=plan.seed,
        inference_method="nutpie",
        nuts={"target_accept": target_accept},
        progressbar=False,
        compute_convergence_checks=False,
    )
    posterior = trace["posterior"]
    quantities = {"mu": posterior["Intercept"]} | {
        f"sd({component.name})": posterior[f"1|{_group(c)}_sigma"]
        for c, component in enumerate(design.components)
    }
    return Sampled(
        {name: np.asarray(draws, dtype=float) for name, draws in quantities.items()},
        int(np.sum(np.asarray(trace["sample_stats"]["diverging"]))),
    )


def _group(component: int) -> str:
    return f"group{component}"


def _method(target_accept: float) -> Method:
    return Method(
        name=f"bambi-{target_accept:g}",
        sample=partial(sample, target_accept=target_accept),
        imports=("bambi", "nutpie", "arviz_stats"),
        target_accept=target_accept,
        tune=500,
        draws=500,
        least_ess=100.0,
        requires="bambi",
    )


METHODS = (_method(TARGET_ACCEPT), _method(NUTPIE_TARGET_ACCEPT))
