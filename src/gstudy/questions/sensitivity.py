"""How far the posterior follows the prior: power-scaling sensitivity of printed quantities."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gstudy._words import listed
from gstudy.display import Shown, Table
from gstudy.errors import QuantityError, explain
from gstudy.fits.fitted import Fit
from gstudy.fits.gates import STAMP
from gstudy.fits.substitutes import advice_on
from gstudy.questions.replicates import effects_kept, log_likelihood
from gstudy.study.components import WEAK
from gstudy.variance.basis import basis_of
from gstudy.variance.budgets import variance_budget
from gstudy.variance.decomposition import SCORE, decompositions
from gstudy.variance.draws import Array

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

__all__ = ["THRESHOLD", "PriorSensitivity", "prior_sensitivity", "weak_components_note"]

THRESHOLD = 0.05
"""ArviZ's: above it a 1% change of the log prior (or likelihood) is felt in the posterior."""

_CONSTANT = 1e-12

_MATTERS = "prior matters"
_ALONE = "prior matters, data hardly felt"
_LITTLE = "prior hardly matters"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PriorSensitivity(Shown):
    """Sensitivity of each quantity to its prior and to the data.

    Parameters
    ----------
    draws : xarray.Dataset (chain, draw)
        The quantities, and `log_prior` and `log_likelihood`.
    frame : pandas.DataFrame
        Index `quantity`; columns `prior`, `likelihood`, `diagnosis`.
    estimand : str
    notes : tuple of str
    """

    draws: xr.Dataset
    frame: pd.DataFrame
    estimand: str
    notes: tuple[str, ...]

    def summary(self) -> pd.DataFrame:
        """One row per quantity, without intervals.

        Returns
        -------
        pandas.DataFrame
            Index `quantity`; columns `prior` and `likelihood` (sensitivities, from 0 up; NaN where
            the draws of the effects were not kept) and `diagnosis`.
        """
        frame = self.frame.copy()
        frame.attrs.update(scale=None, estimand=self.estimand, interval=None, level=None)
        return frame

    def table(self) -> Table:
        """The table that is printed."""
        return Table(
            frame=self.summary(),
            title=f"Prior sensitivity: {self.estimand}",
            notes=self.notes,
            formats={"prior": "decimal2", "likelihood": "decimal2", "diagnosis": "text"},
        )


def prior_sensitivity(fit: Fit) -> PriorSensitivity:
    """How far every printed quantity would move if the priors were a little stronger or weaker.

    Power-scaling (Kallioinen, Paananen, Bürkner and Vehtari 2024, doi:10.1007/s11222-023-10366-5)
    by importance weights, without a refit: the prior ``p(mu) prod p(sd)`` of the recovered draws
    (with the priors of fixed effects and of a residual sd) or the likelihood of the cells given
    the effects is raised to the power alpha near 1, and the distance that the posterior of a
    quantity moves per doubling of alpha is its sensitivity.

    Parameters
    ----------
    fit : Fit

    Returns
    -------
    PriorSensitivity
        Rows: `mu` and every sd (logit scale, or score units of graded scores), the expected score,
        the ICC of each component and the budget shares (score scale).

    Raises
    ------
    QuantityError
        For what is no fit.

    Notes
    -----
    Sensitivities are those of `arviz_stats.psense`. Above 0.05 for the prior: "prior matters", with
    "data hardly felt" where the likelihood's is not above it; both above it can also mean that
    prior and data disagree. The LKJ prior of correlations is not scaled.

    Examples
    --------
    >>> import gstudy as gs
    >>> gs.prior_sensitivity(gs.load("run.nc"))  # doctest: +SKIP
    """
    import pandas as pd

    fit = _checked(fit)
    found = {**dict(_parameters(fit)), **dict(_printed(fit))}
    # What is the same in every draw, such as the only share there is, cannot move.
    quantities = {name: values for name, values in found.items() if np.ptp(values) > _CONSTANT}
    kept = effects_kept(fit)
    prior = _sensitivities(quantities, log_prior(fit), "prior")
    likelihood = np.full(len(prior), np.nan)
    logs = {"log_prior": log_prior(fit)}
    if kept:
        logs["log_likelihood"] = log_likelihood(fit)
        likelihood = _sensitivities(quantities, logs["log_likelihood"], "likelihood")
    frame = pd.DataFrame(
        {
            "prior": prior,
            "likelihood": likelihood,
            "diagnosis": [_diagnosis(*pair) for pair in zip(prior, likelihood, strict=True)],
        },
        index=pd.Index(list(quantities), name="quantity"),
    )
    return PriorSensitivity(
        draws=_dataset({**quantities, **logs}),
        frame=frame,
        estimand="how far the posterior follows prior and data",
        notes=_notes(fit, kept=kept),
    )


def weak_components_note(fit: Fit) -> str:
    """One sentence on the prior of the components under 5 levels; "" where there is none.

    Parameters
    ----------
    fit : Fit

    Returns
    -------
    str
        Names each weak component with the prior sensitivity of its sd.
    """
    fit = _checked(fit)
    weak = [component.name for component in fit.design.components if component.verdict == WEAK]
    own = {f"sd({name})" for name in weak}
    quantities = {
        name: values
        for name, values in _parameters(fit)
        if name in own or name.partition(") of ")[0] + ")" in own
    }
    if not quantities:
        return ""
    found = _sensitivities(quantities, log_prior(fit), "prior")
    shown = listed([f"{name} {value:.2f}" for name, value in zip(quantities, found, strict=True)])
    matters = "the prior matters" if (found > THRESHOLD).any() else "the prior hardly matters"
    return (
        f"Few levels, so that {matters} (prior sensitivity, above {THRESHOLD:.2f} felt): {shown}. "
        "gs.prior_sensitivity(fit) has the other quantities."
    )


def log_prior(fit: Fit) -> Array:
    """Log density of the priors of mean, sds and fixed effects at the draws, (chain, draw)."""
    total = fit.design.mu_prior.logpdf(fit.mu)
    for component in fit.design.components:
        density = component.prior.logpdf(fit.sd(component.name))
        total = total + density.reshape(*fit.mu.shape, -1).sum(axis=-1)
    for component in fit.design.fixed:
        total = total + component.prior.logpdf(fit.fixed(component.name).values)
    if fit.design.residual_prior is not None:
        total = total + fit.design.residual_prior.logpdf(fit.sd("residual"))
    return np.asarray(total)


def _checked(fit: object) -> Fit:
    if isinstance(fit, Fit):
        return fit
    raise QuantityError(
        explain(
            "the sensitivity to the prior is of a fit",
            given=type(fit).__name__,
            allowed="what gs.fit and gs.load return",
            do=advice_on(fit),
        )
    )


def _parameters(fit: Fit) -> Iterator[tuple[str, Array]]:
    """mu, every sd (of own sds one per system), the residual sd; scale of the linear predictor."""
    yield "mu", fit.mu
    for component in fit.design.components:
        name = f"sd({component.name})"
        if component.varies is None:
            yield name, fit.sd(component.name)
        else:
            for label in fit.own_labels(component.name):
                yield f"{name} of {label}", fit.own_sd(component.name, label)
    if fit.design.residual_prior is not None:
        yield "sd(residual)", fit.sd("residual")


def _printed(fit: Fit) -> Iterator[tuple[str, Array]]:
    """Expected score, ICCs and budget shares: mean over the fitted systems, score scale."""
    parts = list(decompositions(basis_of(fit), SCORE, None).values())
    yield "score", np.mean([part.mean for part in parts], axis=0)
    structure = parts[0].structure
    for index_set in parts[0].sets:
        if index_set in structure.merged:
            ratios = [part.within(index_set) / part.total for part in parts]
            yield f"ICC({structure.name(index_set)})", np.mean(ratios, axis=0)
    shares = variance_budget(fit).shares.transpose("component", "chain", "draw")
    for name, values in zip(shares.coords["component"].values, shares.values, strict=True):
        yield f"share of {name}", values


def _sensitivities(quantities: Mapping[str, Array], log: Array, group: str) -> Array:
    """`arviz_stats.psense` of each quantity to one group, (n_quantities,)."""
    import arviz_stats
    import xarray as xr

    # Names of components are data: the library reads its own meaning into some.
    names = [f"q{i}" for i in range(len(quantities))]
    tree = xr.DataTree.from_dict(
        {
            "posterior": _dataset(dict(zip(names, quantities.values(), strict=True))),
            f"log_{group}": _dataset({"total": log}),
        }
    )
    found = vars(arviz_stats)["psense"](tree, group=group)
    return np.array([float(found[name]) for name in names])


def _dataset(values: Mapping[str, Array]) -> xr.Dataset:
    import xarray as xr

    n_chains, n_draws = next(iter(values.values())).shape
    coords = {"chain": np.arange(n_chains), "draw": np.arange(n_draws)}
    return xr.Dataset({name: (("chain", "draw"), x) for name, x in values.items()}, coords)


def _diagnosis(prior: float, likelihood: float) -> str:
    """What the two sensitivities say together."""
    if not prior > THRESHOLD:
        return _LITTLE
    return _ALONE if likelihood <= THRESHOLD else _MATTERS


def _notes(fit: Fit, *, kept: bool) -> tuple[str, ...]:
    reading = (
        f"Above {THRESHOLD:.2f} a slightly stronger or weaker prior (or likelihood) is felt in the "
        "posterior of the quantity. mu and sds: linear scale; score, ICCs and shares: score scale."
    )
    notes = [reading]
    if not fit.diagnostics.passed:
        failed = "; ".join(fit.diagnostics.failures()[:3])
        notes.insert(0, f"{STAMP}: {failed}. Do not publish.")
    weak = [component.name for component in fit.design.components if component.verdict == WEAK]
    if weak:
        notes.append(f"Under 5 levels: {listed(weak)}. More levels make the data decide.")
    if not kept:
        notes.append(
            "The likelihood is not scaled: the draws of some effects were not kept. Fit again with "
            "store_effects=True."
        )
    return tuple(notes)
