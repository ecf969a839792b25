"""The plain non-centred model written by hand in NumPyro, on our cells.

NumPyro's own settings: NUTS, target_accept_prob 0.8, single precision, one device per chain.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.fixed_effects import covariates
from benchmarks.methods import CHAINS, Method, Plan, Sampled

if TYPE_CHECKING:
    from gstudy.study.estimable import Assessment

__all__ = ["METHODS", "model"]

_COMPILING = "/jax/core/compile/"


def model(design: Assessment) -> Callable[[], None]:
    """The model: sites `mu`, `sd<c>` and `z<c>` of each component, `b<i>` of fixed columns."""
    numpyro: Any = importlib.import_module("numpyro")
    dist: Any = importlib.import_module("numpyro.distributions")
    jnp: Any = importlib.import_module("jax.numpy")
    cells = design.cells
    index = [jnp.asarray(i) for i in cells.index[: len(design.components)]]
    columns = [(jnp.asarray(x.values), x.sigma) for x in covariates(design)]
    trials, passes = jnp.asarray(cells.trials), jnp.asarray(cells.successes)
    mean = design.mu_prior

    def program() -> None:
        eta = numpyro.sample("mu", dist.Normal(mean.mu, mean.sigma))
        for i, (values, sigma) in enumerate(columns):
            eta = eta + values * numpyro.sample(f"b{i}", dist.Normal(0.0, sigma))
        for c, component in enumerate(design.components):
            sd = numpyro.sample(f"sd{c}", dist.HalfNormal(component.prior.sigma))
            standard = dist.Normal(0.0, 1.0).expand([component.n_levels]).to_event(1)
            eta = eta + sd * numpyro.sample(f"z{c}", standard)[index[c]]
        likelihood = dist.Binomial(total_count=trials, logits=eta).to_event(1)
        numpyro.sample("passes", likelihood, obs=passes)

    return program


def sample(design: Assessment, plan: Plan) -> Sampled:
    """Write, compile and run; effects are not kept."""
    numpyro: Any = importlib.import_module("numpyro")
    numpyro.set_host_device_count(CHAINS)
    infer: Any = importlib.import_module("numpyro.infer")
    random: Any = importlib.import_module("jax.random")
    chains = infer.MCMC(
        infer.NUTS(model(design)),
        num_warmup=plan.tune,
        num_samples=plan.draws,
        num_chains=CHAINS,
        chain_method="parallel",
        progress_bar=False,
    )
    with compile_clock() as compile_seconds:
        chains.run(random.PRNGKey(plan.seed), extra_fields=("diverging",))
        draws = chains.get_samples(group_by_chain=True)
        found = {"mu": _numbers(draws["mu"])} | {
            f"sd({component.name})": _numbers(draws[f"sd{c}"])
            for c, component in enumerate(design.components)
        }
        diverging = chains.get_extra_fields(group_by_chain=True)["diverging"]
        divergences = int(np.sum(np.asarray(diverging)))
    return Sampled(found, compile_seconds(), divergences)


@contextmanager
def compile_clock() -> Iterator[Callable[[], float]]:
    """Seconds that JAX says it traced, lowered and compiled."""
    monitoring: Any = importlib.import_module("jax.monitoring")
    spent = [0.0]

    def listen(event: str, seconds: float, **_: Any) -> None:
        if event.startswith(_COMPILING):
            spent[0] += seconds

    monitoring.register_event_duration_secs_listener(listen)
    # A process runs one method once: nothing to take the listener away for.
    yield lambda: spent[0]


def _numbers(draws: Any) -> Any:
    return np.asarray(draws, dtype=float)


def _missing() -> str:
    return "" if importlib.util.find_spec("numpyro") else "numpyro is not installed (extra `bench`)"


METHODS = (
    Method(
        name="numpyro",
        sample=sample,
        imports=("numpyro", "arviz_stats"),
        missing=_missing,
        packages=("numpyro", "jax", "numpy"),
    ),
)
