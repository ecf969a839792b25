"""The PyMC model: the definition of what is sampled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gstudy.model.ancestors import NONE
from gstudy.model.fused import FusedBinomial, FusedGaussian
from gstudy.model.parameterisation import (
    LOCATION,
    MU_SCALE,
    RESIDUAL,
    Block,
    Parameterisation,
    parameterise,
)
from gstudy.model.sd_priors import pymc_prior
from gstudy.model.transforms import Compensated, Standardised, SweptStandardised
from gstudy.study.cells import Cells
from gstudy.study.declaration import Study
from gstudy.study.estimable import Assessment, check

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pymc as pm

__all__ = ["build_model", "model_of", "observe", "prior_variance_of_mu"]

Floats = NDArray[np.float64]


def build_model(study: Study, trials: Any) -> pm.Model:
    """The hierarchical model of a study as a ``pm.Model``.

    ``eta = mu + sum_f b_f[level] + sum_c u_c[level]``, ``u_c ~ Normal(0, sd_c^2)``, one component
    per index set, and ``b_f ~ ZeroSumNormal`` for each controlled facet with several levels. A
    binary score has ``logit P(y = 1) = eta``, rows that share all levels are one binomial cell; a
    graded one is ``Normal(eta, sd(residual))``, or has its known error, through the mean and the
    squares of each cell. The means of the effects u are swept into one location ``mu(swept)``,
    whose prior variance is ``s0^2 + sum_c sd_c^2 / K_c``; mu and all level effects are recovered
    exactly from its draws by `gstudy.fit`. A StudentT prior of mu is a scale mixture: s0^2 is
    multiplied by ``scale(mu) ~ InverseGamma(nu / 2, nu / 2)``.

    A facet with `varies` has own sds of each system, ``u[t, s] = sd_s z[t, s]``, correlated between
    systems where it is crossed with them, ``corr(z) ~ LKJ(2)``; free are then standard effects
    ``z(<component>)``, ``partial(<component>)`` and the levels of the systems, standardised.

    Parameters
    ----------
    study : Study
    trials : Trials, DataFrame or path

    Returns
    -------
    pm.Model
        Free variables ``sd(<component>)`` and ``effect(<component>)`` (without their mean) per
        component, ``fixed(<facet>)``, ``sd(residual)``, ``scale(mu)`` where there are such, and
        ``mu(swept)``, on the logit scale or in units of a graded score; observed ``successes``,
        or the mean ``scores``, per cell.

    Examples
    --------
    >>> import gstudy as gs
    >>> study, trials = gs.example("panel")
    >>> sorted(v.name for v in gs.build_model(study, trials).free_RVs)[:2]
    ['effect(judge)', 'effect(snapshot)']
    """
    known = isinstance(trials, Assessment)
    assessment = trials.of(study) if known else check(study, trials)
    if any(component.varies for component in assessment.components):
        from gstudy.model.own_graph import own_model
        from gstudy.model.varying import vary

        return own_model(vary(assessment))
    cells = assessment.cells
    p = parameterise(cells, assessment.mu_prior, assessment.residual_prior)
    return model_of(p, cells)


def model_of(parameterisation: Parameterisation, cells: Cells) -> pm.Model:
    """Write a parameterisation down in PyMC."""
    import pymc as pm
    import pytensor.tensor as pt

    p = parameterisation
    with pm.Model(coords=_coords(cells, p)) as model:
        sds = [pymc_prior(f"sd({b.name})", b.prior) for b in p.random]
        residual = None if p.residual_prior is None else pymc_prior(RESIDUAL, p.residual_prior)
        variance = prior_variance_of_mu(p) + sum(
            sd**2 / b.size for b, sd in zip(p.random, sds, strict=True) if b.swept
        )
        known = [np.asarray(b.prior.sigma) for b in p.blocks if b.fixed]
        effects = _all_effects(p, [*sds, *known])
        shift = pt.dot(p.weights, effects)
        location = pm.Normal(LOCATION, mu=p.mu_mean + shift, sigma=pt.sqrt(variance))
        observe(p, location - shift, effects, residual)
    return model


def prior_variance_of_mu(p: Parameterisation) -> Any:
    """Variance of mu before the data; of a StudentT prior given ``scale(mu)``, made here."""
    import pymc as pm

    # Arrays, not Python floats: PyTensor would take those in single precision.
    variance = np.asarray(p.mu_sd) ** 2
    if p.mu_nu == 0.0:
        return variance
    half = np.asarray(p.mu_nu / 2.0)
    return variance * pm.InverseGamma(MU_SCALE, alpha=half, beta=half)


def observe(p: Parameterisation, mean: Any, effects: Any, residual: Any) -> None:
    """Add the likelihood: `mean` plus the effects of a cell is its linear predictor.

    `residual` is the residual sd of graded scores, None where errors are known.
    """
    import pymc as pm
    import pytensor.tensor as pt

    if p.graded is None:
        pm.CustomDist(
            "successes",
            mean,
            effects,
            p.index,
            p.trials,
            np.asarray(p.log_coefficients),
            logp=_log_likelihood,
            random=_random_successes,
            signature="(),(m),(n,c),(n),()->(n)",
            observed=p.successes,
            dims="cell",
        )
        return
    pm.CustomDist(
        "scores",
        mean,
        effects,
        np.asarray(0.0) if residual is None else pt.log(residual),
        p.index,
        p.graded.precision,
        np.array([p.graded.squares, p.graded.n_trials, p.graded.constant]),
        logp=_log_likelihood_of_scores,
        random=_random_means,
        signature="(),(m),(),(n,c),(n),(k)->(n)",
        observed=p.graded.means,
        dims="cell",
    )


def _coords(cells: Cells, p: Parameterisation) -> dict[str, Any]:
    coords: dict[str, Any] = {b.name: cells.level_labels(c) for c, b in enumerate(p.blocks)}
    return coords | {"cell": np.arange(len(p.trials))}


def _all_effects(p: Parameterisation, sds: Sequence[Any]) -> Any:
    """Effects of all components laid end to end: those above before those below."""
    import pytensor.tensor as pt

    found: list[Any] = [None] * len(p.blocks)
    for c in p.order:
        part = p.slices()[c]
        above = _sum_above(p, p.above[part], found)
        known = p.information[part], p.scores[part]
        found[c] = _effects(p.blocks[c], sds[c], *known, above)
    return pt.concatenate(found) if found else pt.zeros(0)


def _sum_above(p: Parameterisation, above: NDArray[np.int32], found: Sequence[Any]) -> Any:
    """Sum of the effects above each effect of a component, None where there are none."""
    total = None
    for places in above.T[above[0] != NONE] if len(above) else ():
        block = next(c for c, part in enumerate(p.slices()) if part.start <= places[0] < part.stop)
        term = found[block][places - p.slices()[block].start]
        total = term if total is None else total + term
    return total


def _effects(block: Block, sd: Any, information: Floats, scores: Floats, above: Any) -> Any:
    """Effects of one component: normal, summing to zero where swept or fixed."""
    import pymc as pm
    import pytensor.tensor as pt

    if block.n_free == 0:
        return pt.zeros(block.size)
    if above is not None:
        return _effects_below(block, sd, information, scores, above)
    if block.zero_sum:
        transform = SweptStandardised(information, scores)
        return pm.ZeroSumNormal(
            block.variable, sigma=sd, dims=block.name, default_transform=transform
        )
    return pm.Normal(
        block.variable,
        0.0,
        sd,
        dims=block.name,
        default_transform=Standardised(information, scores),
    )


def _effects_below(block: Block, sd: Any, information: Floats, scores: Floats, above: Any) -> Any:
    """The same where effects lie above: they have no part in the density, only in the sampler's
    coordinates (see `Compensated`)."""
    import pymc as pm
    import pytensor.tensor as pt

    constant = np.asarray(0.5 * np.log(2.0 * np.pi))

    def log_density(value: Any, sigma: Any, _: Any) -> Any:
        return -0.5 * pt.sum((value / sigma) ** 2) - block.n_free * (constant + pt.log(sigma))

    def draw(sigma: Any, above: Any, rng: Any = None, size: Any = None) -> Floats:
        drawn = sigma * rng.standard_normal((*(size or ()), above.shape[-1]))
        return np.asarray(drawn - block.zero_sum * drawn.mean(axis=-1, keepdims=True))

    return pm.CustomDist(
        block.variable,
        sd,
        above,
        logp=log_density,
        random=draw,
        support_point=lambda rv, size, sigma, above: pt.zeros_like(above),
        signature="(),(k)->(k)",
        dims=block.name,
        default_transform=Compensated(information, scores, zero_sum=block.zero_sum),
    )


def _log_likelihood(
    value: Any, mean: Any, effects: Any, index: Any, trials: Any, log_coefficients: Any
) -> Any:
    outputs: Any = FusedBinomial()(mean, effects, index, value, trials)
    return outputs[0] + log_coefficients


def _random_successes(
    mean: Any,
    effects: Any,
    index: NDArray[np.int32],
    trials: Any,
    log_coefficients: Any,
    rng: np.random.Generator | None = None,
    size: Any = None,
) -> NDArray[np.float64]:
    eta = np.expand_dims(mean, -1) + effects[..., index].sum(axis=-1)
    rate = 1.0 / (1.0 + np.exp(-eta))
    generator = rng if rng is not None else np.random.default_rng()
    return np.asarray(generator.binomial(trials.astype(np.int64), rate), dtype=np.float64)


def _log_likelihood_of_scores(
    value: Any, mean: Any, effects: Any, log_sd: Any, index: Any, precision: Any, totals: Any
) -> Any:
    outputs: Any = FusedGaussian()(
        mean, effects, log_sd, index, value, precision, totals[0], totals[1]
    )
    return outputs[0] + totals[2]


def _random_means(
    mean: Any,
    effects: Any,
    log_sd: Any,
    index: NDArray[np.int32],
    precision: Any,
    totals: Any,
    rng: np.random.Generator | None = None,
    size: Any = None,
) -> NDArray[np.float64]:
    eta = np.expand_dims(mean, -1) + effects[..., index].sum(axis=-1)
    sd = np.exp(np.expand_dims(log_sd, -1)) / np.sqrt(precision)
    generator = rng if rng is not None else np.random.default_rng()
    return np.asarray(generator.normal(eta, sd), dtype=np.float64)
