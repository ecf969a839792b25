"""rstanarm's stan_glmer on our cells, with its own sampler settings.

Its sds can have gamma priors only. Theirs here is the exponential with the mean of the workload's
half-normal; draws are weighted by the ratio of the densities before posterior means are compared
(the weights are below 2.2 for each sd), and ESS is of the draws as they are.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from benchmarks.fixed_effects import covariates
from benchmarks.libraries.bench_bambi import group
from benchmarks.libraries.r_scripts import absent, ask
from benchmarks.methods import CHAINS, CORES, Method, Plan, Sampled

if TYPE_CHECKING:
    import pandas as pd

    from gstudy.study.estimable import Assessment

__all__ = ["METHODS", "log_weights", "sd_scales"]

REMARK = "sds have exponential priors of the same mean; means are weighted to the workload's"


def sd_scales(design: Assessment) -> list[float]:
    """Mean of each component's half-normal prior: the scale of the exponential."""
    return [c.prior.sigma * math.sqrt(2 / math.pi) for c in design.components]


def log_weights(design: Assessment, numbers: pd.DataFrame) -> NDArray[np.float64]:
    """Log density of the workload's priors over rstanarm's, per draw, up to a constant.

    rstanarm's prior of the intercept is of that at the mean of the fixed columns.
    """
    found = np.zeros(len(numbers))
    for c, (component, scale) in enumerate(zip(design.components, sd_scales(design), strict=True)):
        sd = numbers[group(c)].to_numpy()
        found += sd / scale - (sd / component.prior.sigma) ** 2 / 2
    mean, mu = design.mu_prior, numbers["mu"].to_numpy()
    centred = mu + sum(
        x.values.mean() * numbers[f"x{i}"].to_numpy() for i, x in enumerate(covariates(design))
    )
    return found + ((centred - mean.mu) ** 2 - (mu - mean.mu) ** 2) / (2 * mean.sigma**2)


def sample(design: Assessment, plan: Plan) -> Sampled:
    """Run stan_glmer; it is compiled when rstanarm is installed."""
    settings = {
        "mu": design.mu_prior.mu,
        "sigma": design.mu_prior.sigma,
        "sd_scales": " ".join(map(repr, sd_scales(design))),
        "sigmas": " ".join(repr(float(x.sigma)) for x in covariates(design)),
        "chains": CHAINS,
        "cores": CORES,
        "tune": plan.tune,
        "draws": plan.draws,
        "seed": plan.seed,
    }
    answer = ask("rstanarm.R", design, settings)
    weights = np.exp(log_weights(design, answer.numbers))
    columns = {"mu": "mu"} | {
        f"sd({component.name})": group(c) for c, component in enumerate(design.components)
    }
    return Sampled(
        {name: _by_chain(answer.numbers[column]) for name, column in columns.items()},
        0.0,
        int(answer.facts["divergences"]),
        seconds=float(answer.facts["seconds"]),
        weights=_by_chain(weights),
        remark=f"rstanarm {answer.facts['version']}; {REMARK}",
    )


def _by_chain(draws: object) -> NDArray[np.float64]:
    return np.asarray(draws, dtype=float).reshape(CHAINS, -1)


METHODS = (Method(name="rstanarm", sample=sample, missing=lambda: absent("rstanarm")),)
