"""The PyMC model: the definition of what is sampled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gstudy.model.likelihood import FusedBinomial
from gstudy.model.parameterisation import LOCATION, Block, Parameterisation, parameterise
from gstudy.model.transforms import Standardised, SweptStandardised
from gstudy.study.cells import Cells
from gstudy.study.declaration import Study
from gstudy.study.estimable import Assessment, check

if TYPE_CHECKING:
    import pymc as pm

__all__ = ["build_model"]

Floats = NDArray[np.float64]


def build_model(study: Study, trials: Any) -> pm.Model:
    """The hierarchical logistic model of a study as a ``pm.Model``.

    ``logit P(y = 1) = mu + sum_c u_c[level]``, ``u_c ~ Normal(0, sd_c^2)``, one component per
    index set; rows that share all levels are one binomial cell. The means of the effects are
    swept into one location ``mu(swept)``, whose prior variance is ``s0^2 + sum_c sd_c^2 / K_c``;
    mu and all level effects are recovered exactly from its draws by `gstudy.fit`.

    Parameters
    ----------
    study : Study
    trials : Trials, DataFrame or path

    Returns
    -------
    pm.Model
        Free variables ``sd(<component>)`` and ``effect(<component>)`` (without their mean) per
        component, and ``mu(swept)``, all logit; observed ``successes`` per cell.

    Examples
    --------
    >>> import gstudy as gs
    >>> study, trials = gs.example("panel")
    >>> sorted(v.name for v in gs.build_model(study, trials).free_RVs)[:2]
    ['effect(judge)', 'effect(snapshot)']
    """
    known = isinstance(trials, Assessment)
    assessment = trials.of(study) if known else check(study, trials)
    return model_of(parameterise(assessment.cells, assessment.mu_prior), assessment.cells)


def model_of(parameterisation: Parameterisation, cells: Cells) -> pm.Model:
    """Write a parameterisation down in PyMC."""
    import pymc as pm
    import pytensor.tensor as pt

    p = parameterisation
    with pm.Model(coords=_coords(cells, p)) as model:
        sds = [pm.HalfNormal(f"sd({b.name})", sigma=np.asarray(b.prior_sd)) for b in p.blocks]
        blocks = [
            _effects(block, sd, p.information[part], p.scores[part])
            for block, sd, part in zip(p.blocks, sds, p.slices(), strict=True)
        ]
        effects = pt.concatenate(blocks) if blocks else pt.zeros(0)
        # Arrays, not Python floats: PyTensor would take those in single precision.
        variance = np.asarray(p.mu_sd) ** 2 + sum(
            sd**2 / b.size for b, sd in zip(p.blocks, sds, strict=True) if b.swept
        )
        shift = pt.dot(p.weights, effects)
        location = pm.Normal(LOCATION, mu=p.mu_mean + shift, sigma=pt.sqrt(variance))
        pm.CustomDist(
            "successes",
            location - shift,
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
    return model


def _coords(cells: Cells, p: Parameterisation) -> dict[str, Any]:
    coords: dict[str, Any] = {b.name: cells.level_labels(c) for c, b in enumerate(p.blocks)}
    return coords | {"cell": np.arange(len(p.trials))}


def _effects(block: Block, sd: Any, information: Floats, scores: Floats) -> Any:
    """Effects of one component (logit): normal, summing to zero where swept."""
    import pymc as pm
    import pytensor.tensor as pt

    if block.n_free == 0:
        return pt.zeros(block.size)
    if block.swept:
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
