"""What clustering costs: the variance of a score against that of as many independent trials."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from gstudy.study.designs import TRIALS, Design
from gstudy.variance.designs import checked_counts, following
from gstudy.variance.latent import GAUSSIAN
from gstudy.variance.patterns import Spread
from gstudy.variance.trial_weights import object_rows

if TYPE_CHECKING:
    from gstudy.variance.basis import Basis
    from gstudy.variance.claims import Claim
    from gstudy.variance.decomposition import Decomposition
    from gstudy.variance.draws import Array

__all__ = ["independent_variance", "trial_count", "trial_variance"]


def trial_variance(basis: Basis, part: Decomposition) -> Array:
    """Variance of a single trial drawn afresh: m (1 - m) of a pass rate m; (chain, draw)."""
    if basis.study.family == GAUSSIAN:
        return part.total
    if basis.latent is None:
        return np.asarray(part.mean * (1 - part.mean))
    # The same from its parts, which keep their digits where m is next to 1.
    return part.total + _between_levels(part)


def _between_levels(part: Decomposition) -> Array:
    """Variance of the means of the controlled levels, (chain, draw)."""
    if part.levels is None or part.controlled is None:
        return np.zeros(part.mean.shape)
    apart = (part.levels.means - part.mean) ** 2
    return np.asarray(np.tensordot(part.controlled.weights, apart, axes=1))


def trial_count(
    basis: Basis,
    part: Decomposition,
    design: Mapping[str, Any] | None,
    claim: Claim,
    label: str | None = None,
) -> float:
    """Trials behind one score: of a design, or as collected of one level of the object.

    Parameters
    ----------
    basis : Basis
    part : Decomposition
        Of that score.
    design : mapping or None
    claim : Claim
    label : str, optional
        As collected: a level of the object; by default the mean over them.

    Returns
    -------
    float
    """
    if design is None:
        assert basis.cells is not None
        rows = object_rows(basis.cells, basis.study.object)
        counts = {key: float(basis.cells.trials[own].sum()) for key, own in rows.items()}
        return counts[label] if label in counts else float(np.mean(list(counts.values())))
    structure = part.structure
    known = checked_counts(structure, design, claim.finite)
    spread = Spread.of(structure, known, following(structure), Design.read(design).judges)
    n_levels = 1 if part.controlled is None else len(part.controlled.levels)
    return float(spread.trials * known.get(TRIALS, 1) * n_levels)


def independent_variance(
    basis: Basis,
    parts: Mapping[str | None, Decomposition],
    design: Mapping[str, Any] | None,
    claim: Claim,
) -> Array:
    """Variance of a score if its trials were independent, m (1 - m) / N; (chain, draw).

    The mean over the systems. The design effect is the variance of the score over this one, and
    N divided by it the effective number of trials.
    """
    each = [
        trial_variance(basis, part) / trial_count(basis, part, design, claim, label)
        for label, part in parts.items()
    ]
    return np.asarray(np.mean(each, axis=0))
