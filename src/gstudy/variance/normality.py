"""Whether normal effects fit: the ICC of a population beside that of the very levels fitted.

The ICC of a model is that of levels whose effects are normal with the fitted mean and sd. The ICC
of the fitted levels follows from their own rates, whatever their distribution, and is what the
ANOVA ICC of ever more trials of them becomes. Few trials of each leave both uncertain, and the
normal distribution fills in; many tell the second one, and then the two part where it is wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gstudy._words import plural
from gstudy.errors import QuantityError
from gstudy.variance.latent import BINARY

if TYPE_CHECKING:
    from gstudy.fits.fitted import Fit
    from gstudy.study.index_sets import IndexSet
    from gstudy.variance.basis import Basis
    from gstudy.variance.draws import Array

__all__ = ["bank_icc", "fitted_rates", "normality_notes"]

# As in a posterior check: what lies outside does not fit.
_SHARE = 0.99


def bank_icc(rates: Array) -> Array:
    """ICC of a bank of levels: of two trials of one level, drawn at random from these.

    Parameters
    ----------
    rates : array (..., n_levels)
        Pass rates.

    Returns
    -------
    array (...)
        ``(mean p^2 - m^2) / (m (1 - m))``, m the mean rate; 0 where all rates are 0, or all 1.

    Examples
    --------
    >>> float(bank_icc(np.array([0.0, 0.5, 0.5, 1.0])))
    0.5
    """
    mean = rates.mean(axis=-1)
    between, total = rates.var(axis=-1), mean * (1 - mean)
    return np.divide(between, total, out=np.zeros_like(mean), where=total > 0)


def fitted_rates(fit: Fit, basis: Basis, index_set: IndexSet) -> Array | None:
    """Pass rates of the fitted levels of the only facet of a fit, (chain, draw, level).

    Returns
    -------
    array or None
        None where other facets vary besides, of graded scores, and where the draws of the effects
        were not kept.
    """
    structure = basis.structure
    if {*structure.facets} != index_set or structure.controlled or basis.study.family != BINARY:
        return None
    try:
        effects = fit.effects(structure.name(index_set)).values
    except QuantityError:
        return None
    return np.asarray(np.exp(-np.logaddexp(0, -(fit.mu[..., None] + effects))))


def normality_notes(fit: Fit, basis: Basis, index_set: IndexSet, draws: Array) -> tuple[str, ...]:
    """A sentence where the ICC of the fitted levels lies outside 99% of that of levels like them.

    Parameters
    ----------
    fit : Fit
    basis : Basis
        Of the fit.
    index_set : frozenset of str
        Whose ICC it is.
    draws : array (chain, draw)
        Of the ICC, score scale.
    """
    rates = fitted_rates(fit, basis, index_set)
    if rates is None:
        return ()
    these = float(bank_icc(rates).mean())
    low, high = np.quantile(draws, [(1 - _SHARE) / 2, (1 + _SHARE) / 2])
    if low <= these <= high:
        return ()
    many = plural(basis.structure.name(index_set))
    text = (
        f"Effects of {many} are not normal on the logit scale: the ICC of these {many} is "
        f"{these:.3f}, outside 99% of the draws of that of {many} like these. Read that of these "
        f"{many}, as gs.anova_icc gives it; gs.posterior_check(fit) says more, and "
        "gs.convergence(study, trials) shows both as rollouts grow."
    )
    return (text,)
