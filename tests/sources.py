"""Sources of variance quantities that tests of the variance room start from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd
from designs import checked, study_of
from handmade import fit_by_hand

import gstudy as gs

if TYPE_CHECKING:
    from gstudy.fits.fitted import Fit
    from gstudy.variance.components import VarianceComponents


def logit_source(
    sds: Mapping[str, float],
    mu: float,
    *,
    facets: Sequence[str],
    nested: Mapping[str, Sequence[str]] | None = None,
    roles: Mapping[str, str] | None = None,
    effects: Mapping[str, float] | None = None,
    **rest: Any,
) -> VarianceComponents:
    """Assumed logit-scale components from standard deviations."""
    nested, roles = nested or {}, roles or {}
    declared = [
        gs.Facet(name, role=roles.get(name, "legitimate"), nested_in=nested.get(name, ()))
        for name in facets
    ]
    study = study_of(*declared, **rest)
    variances = {name: sd**2 for name, sd in sds.items()}
    return gs.assume(study, variances, mu=mu, scale="logit", effects=effects)


def fitted(study: gs.Study, rows: Sequence[Mapping[str, Any]] | pd.DataFrame, **how: Any) -> Fit:
    """A fit of these rows with draws made by hand."""
    return fit_by_hand(checked(study, pd.DataFrame(rows)), **how)


def one(draws: Any) -> float:
    """The value of a single draw."""
    return float(draws.values.item())
