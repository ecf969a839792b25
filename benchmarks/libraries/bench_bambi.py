"""Bambi with the workload's priors: as its users run it, and given what makes it fastest.

`bambi-rows` is a table with one row per trial and Bambi's own sampler (PyMC's NUTS); `bambi-cells`
has our cells as binomial counts, and nutpie. Both have their samplers' own target_accept, 0.8.
Group-level effects are non-centred, which is Bambi's default. Its priors are given, so that it
rescales none; the columns of fixed effects are not centred, so that the intercept is mu.
"""

from __future__ import annotations

import importlib
import importlib.util
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from benchmarks.fixed_effects import covariates
from benchmarks.methods import CHAINS, CORES, Method, Plan, Sampled

if TYPE_CHECKING:
    import pandas as pd

    from gstudy.study.estimable import Assessment

__all__ = ["METHODS", "Form", "cell_frame", "formula", "group", "model", "priors", "trial_frame"]

Form = Literal["rows", "cells"]

_RESPONSES = {"rows": ("passed", "bernoulli"), "cells": ("p(passes, trials)", "binomial")}
_SAMPLERS = {"rows": "pymc", "cells": "nutpie"}


def group(component: int) -> str:
    """The column of a component's levels; names of components are data, a formula reads names."""
    return f"group{component}"


def cell_frame(design: Assessment) -> pd.DataFrame:
    """One row per binomial cell: passes, trials, levels of each component, fixed columns."""
    import pandas as pd

    cells = design.cells
    groups = {
        group(c): pd.Categorical(index)
        for c, index in enumerate(cells.index[: len(design.components)])
    }
    columns = {f"x{i}": x.values for i, x in enumerate(covariates(design))}
    return pd.DataFrame({"passes": cells.successes, "trials": cells.trials, **groups, **columns})


def trial_frame(design: Assessment) -> pd.DataFrame:
    """One row per trial: passed (0 or 1), and the columns of its cell."""
    cells = cell_frame(design)
    trials = cells["trials"].to_numpy()
    place = np.arange(trials.sum()) - np.repeat(trials.cumsum() - trials, trials)
    rows = cells.loc[cells.index.repeat(trials)].reset_index(drop=True)
    passed = (place < rows["passes"].to_numpy()).astype(int)
    return rows.drop(columns=["passes", "trials"]).assign(passed=passed)


def formula(design: Assessment, form: Form) -> str:
    """The model formula: an intercept, fixed columns, one group-level effect per component."""
    columns = [f"x{i}" for i in range(len(covariates(design)))]
    groups = [f"(1|{group(c)})" for c in range(len(design.components))]
    return " + ".join([f"{_RESPONSES[form][0]} ~ 1", *columns, *groups])


def priors(design: Assessment) -> dict[str, Any]:
    """Bambi's priors from those that `gstudy.check` prints."""
    bambi: Any = importlib.import_module("bambi")
    mu = design.mu_prior
    found = {"Intercept": bambi.Prior("Normal", mu=mu.mu, sigma=mu.sigma)}
    for i, x in enumerate(covariates(design)):
        found[f"x{i}"] = bambi.Prior("Normal", mu=0, sigma=x.sigma)
    for c, component in enumerate(design.components):
        sd = bambi.Prior("HalfNormal", sigma=component.prior.sigma)
        found[f"1|{group(c)}"] = bambi.Prior("Normal", mu=0, sigma=sd)
    return found


def model(design: Assessment, form: Form) -> Any:
    """The Bambi model of a design."""
    bambi: Any = importlib.import_module("bambi")
    return bambi.Model(
        formula(design, form),
        trial_frame(design) if form == "rows" else cell_frame(design),
        family=_RESPONSES[form][1],
        priors=priors(design),
        auto_scale=False,
        center_predictors=False,
    )


def sample(design: Assessment, plan: Plan, *, form: Form) -> Sampled:
    """Build, compile and sample."""
    start = time.perf_counter()
    trace = model(design, form).fit(
        draws=plan.draws,
        tune=plan.tune,
        chains=CHAINS,
        cores=CORES,
        random_seed=plan.seed,
        inference_method=_SAMPLERS[form],
        progressbar=False,
        compute_convergence_checks=False,
    )
    seconds = time.perf_counter() - start
    posterior = trace["posterior"]
    quantities = {"mu": posterior["Intercept"]} | {
        f"sd({component.name})": posterior[f"1|{group(c)}_sigma"]
        for c, component in enumerate(design.components)
    }
    return Sampled(
        {name: np.asarray(draws, dtype=float) for name, draws in quantities.items()},
        seconds - _sampling_seconds(trace),
        int(np.sum(np.asarray(trace["sample_stats"]["diverging"]))),
    )


def _sampling_seconds(trace: Any) -> float:
    """Tuning and drawing, by PyMC's own clock; the rest is model, compilation, tidying."""
    for name in ("sample_stats", "posterior"):
        if "sampling_time" in trace[name].attrs:
            return float(trace[name].attrs["sampling_time"])
    raise KeyError("sampling_time")


def _missing() -> str:
    return "" if importlib.util.find_spec("bambi") else "bambi is not installed (extra `bench`)"


def _method(form: Form) -> Method:
    return Method(
        name=f"bambi-{form}",
        sample=partial(sample, form=form),
        imports=("bambi", "nutpie", "arviz_stats"),
        missing=_missing,
        packages=("bambi", "pymc", "nutpie", "numba", "numpy"),
        warms=True,
    )


METHODS = (_method("cells"), _method("rows"))
