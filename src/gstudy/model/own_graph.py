"""The PyMC model of a study with own sds of each system: the definition of what is sampled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gstudy.model.correlated import cholesky, standard_innovations
from gstudy.model.factors import partial_shapes
from gstudy.model.graph import observe, prior_variance_of_mu
from gstudy.model.parameterisation import LOCATION
from gstudy.model.sd_priors import pymc_prior
from gstudy.model.segment_transform import segment_effects
from gstudy.model.varying import by_system

if TYPE_CHECKING:
    import pymc as pm
    from numpy.typing import NDArray

    from gstudy.model.varying import OwnBlock, Varying

    Floats = NDArray[np.float64]

__all__ = ["own_model"]


def own_model(varying: Varying) -> pm.Model:
    """Write a model with own sds down in PyMC.

    Free variables per component: ``sd(<component>)``, with the systems as dimension
    ``by(<component>)``, the best known first, where they have their own; ``partial(<component>)``,
    the partial correlations on (0, 1) of a facet crossed with the object; ``z(<component>)``, the
    standard effects less their means; and ``mu(swept)``, the standard levels of the systems.
    """
    import pymc as pm
    import pytensor.tensor as pt

    v = varying
    n_systems = v.n_systems
    with pm.Model(coords=_coords(v)) as model:
        common, own, blocks = prior_variance_of_mu(v.base), pt.zeros((n_systems, n_systems)), []
        for block, part in zip(v.blocks, v.slices(), strict=True):
            known = v.information[part], v.scores[part]
            if block.segments is None:
                factor = _factor(block, n_systems)
                shape = (n_systems, block.size // n_systems)
                arrays = [np.reshape(array, shape) for array in known]
                z = standard_innovations(block.variable, factor, *arrays, swept=True)
                blocks.append(pt.dot(factor, z).flatten())
                own += pt.dot(factor, factor.T) / np.asarray(float(shape[1]))
                continue
            sds = _segment_sds(block)
            blocks.append(_swept_effects(block, sds, *known))
            variances = sds**2 / block.segments.sizes
            if block.per_system:
                own += pt.diag(variances)
            elif not block.component.fixed:
                common += variances[0]
        effects = pt.concatenate(blocks)
        factor = pt.linalg.cholesky(common + own, lower=True)
        expected = np.asarray(v.base.mu_mean) + pt.dot(v.weights, effects)
        scores = v.level_scores - v.level_information * expected
        z = standard_innovations(
            LOCATION, factor, v.level_information[:, None], scores[:, None], swept=False
        )
        levels = np.asarray(v.base.mu_mean) + pt.dot(factor, z)[:, 0]
        observe(v.base, np.asarray(0.0), pt.concatenate([effects, levels]), None)
    return model


def _coords(v: Varying) -> dict[str, Any]:
    labels = [v.labels[place] for place in np.argsort(v.order)]
    own = {by_system(b.name): labels for b in v.blocks if b.component.varies}
    return {**own, "cell": np.arange(len(v.base.trials))}


def _factor(block: OwnBlock, n_systems: int) -> Any:
    """Cholesky factor (S, S) of the covariance of the effects between systems."""
    import pymc as pm

    sds = pymc_prior(f"sd({block.name})", block.component.prior, dims=by_system(block.name))
    shapes = partial_shapes(n_systems)
    partial = pm.Beta(f"partial({block.name})", shapes, shapes, shape=shapes.shape)
    return sds[:, None] * cholesky(partial, n_systems)


def _segment_sds(block: OwnBlock) -> Any:
    """Sd of each segment (G,)."""
    import pytensor.tensor as pt

    component, ones = block.component, np.ones(block.n_segments)
    if component.fixed:
        return pt.as_tensor_variable(component.prior.sigma * ones)
    if component.varies is not None:
        return pymc_prior(f"sd({block.name})", component.prior, dims=by_system(block.name))
    return pymc_prior(f"sd({block.name})", component.prior) * ones


def _swept_effects(block: OwnBlock, sds: Any, information: Floats, scores: Floats) -> Any:
    import pytensor.tensor as pt

    assert block.segments is not None
    if block.segments.n_free == 0:
        # All of each effect is its mean.
        return pt.zeros(block.size)
    z = segment_effects(block.variable, sds, block.segments, information, scores)
    return pt.dot(sds, block.segments.member) * z
