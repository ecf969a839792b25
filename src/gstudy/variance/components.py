"""Variance components of one trial's score, on the score or the logit scale."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from gstudy.display import Shown, Table
from gstudy.variance.basis import Basis, basis_of
from gstudy.variance.claims import Claim
from gstudy.variance.decomposition import Decomposition, average, decompositions
from gstudy.variance.draws import Array, labelled, stated, summarise, unlabelled
from gstudy.variance.latent import GAUSSIAN
from gstudy.variance.structure import RESIDUAL
from gstudy.variance.systems import refuse_shared

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from gstudy.fits.fitted import Fit

__all__ = [
    "SOURCE",
    "VarianceComponents",
    "component_notes",
    "components_of",
    "describe_rows",
    "estimand_of",
    "row_facts",
    "variance_components",
]


SOURCE = "source"
"""Column of a table in which some components are assumed: which ones."""

_DIGITS = {"score": "decimal4", "logit": "decimal2"}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class VarianceComponents(Shown):
    """Variance components with their draws; a source for everything that is derived from them.

    Parameters
    ----------
    draws : xarray.DataArray (chain, draw, component)
        Variance of each component, squared units of the scale; `residual` last.
    mean : xarray.DataArray (chain, draw)
        Expected score (score scale) or expected logit (logit scale).
    scale : {"score", "logit"}
    estimand : str
        Whose trial the variances are of.
    rows : mapping of str to mapping
        Per component its `facet`, `role` and `includes`.
    notes : tuple of str
    basis : Basis
        What it was computed from, so that budgets and coefficients can be.

    Examples
    --------
    >>> import gstudy as gs
    >>> study = gs.Study(score="passed", facets=[gs.Facet("task", role="legitimate")])
    >>> vc = gs.assume(study, {"task": 1.0}, mu=0.0, scale="logit")
    >>> gs.variance_components(vc).summary()["mean"].round(4).to_dict()
    {'task': 0.0434, 'residual': 0.2066}
    """

    draws: xr.DataArray
    mean: xr.DataArray
    scale: str
    estimand: str
    rows: Mapping[str, Mapping[str, str]]
    notes: tuple[str, ...]
    basis: Basis

    @property
    def assumed(self) -> bool:
        """Whether the components were assumed, not estimated."""
        return self.basis.assumed

    @property
    def shares(self) -> xr.DataArray:
        """Each component's share of the variance of one trial, (chain, draw, component)."""
        return self.draws / self.draws.sum("component")

    def summary(self, level: float = 0.95) -> pd.DataFrame:
        """One row per component.

        Parameters
        ----------
        level : float
            Posterior level of the equal-tailed intervals.

        Returns
        -------
        pandas.DataFrame
            Index `component`; columns `facet`, `mean`, `median`, `sd`, `lower`, `upper` (variance,
            squared units of the scale), `share`, `share_lower`, `share_upper`, `role`,
            `includes`, and `source` where some are assumed. `attrs` name scale, estimand, interval
            and level.

        Raises
        ------
        QuantityError
            For a level outside (0, 1).
        """
        attributes = stated(self, f"variance components of {self.estimand}", level)
        return describe_rows(self.draws, self.rows, level, attributes)

    def table(self, level: float = 0.95) -> Table:
        """The table that is printed."""
        frame = self.summary(level)
        columns = ["mean", "lower", "upper", "share", "role"]
        if self.assumed:
            columns = ["mean", "share", "role"]
        columns += [SOURCE] if SOURCE in frame else []
        # Assumed variances as they were given; estimated ones to what sampling can tell.
        graded = self.basis.study.family == GAUSSIAN
        digits = "number3" if self.assumed or graded else _DIGITS[self.scale]
        return Table(
            frame=frame[columns].rename(columns={"mean": "variance"}),
            title=f"{self._kind()} components of {self.estimand}",
            scale=self.scale,
            level=None if self.assumed else level,
            notes=self.notes,
            formats={
                **dict.fromkeys(("variance", "lower", "upper"), digits),
                "share": "percent1",
                **dict.fromkeys(("role", SOURCE), "text"),
            },
        )

    def _kind(self) -> str:
        return (
            "Assumed variance"
            if self.assumed
            else "Prior variance"
            if self.basis.prior
            else "Variance"
        )


def variance_components(
    source: Fit | VarianceComponents, *, scale: str = "score", system: str | None = None
) -> VarianceComponents:
    """Variance components of one trial.

    Parameters
    ----------
    source : Fit or VarianceComponents
    scale : {"score", "logit"}
        Score: the Hoeffding components of the pass probability, exact for the logistic-normal
        model. Logit: the variances of the linear predictor, residual pi^2/3.
    system : str, optional
        A fitted level of the object; "new" for a new one, whose own variance is then a
        component; by default every fitted one by itself, then their mean per draw.

    Returns
    -------
    VarianceComponents
        Rows: every index set that the components span, also those that only the logit link
        makes, and `residual`, the noise of one trial (E[p(1-p)] on the score scale).

    Raises
    ------
    QuantityError
        For an unknown scale or system, a scale that the source does not have, and one system of
        a fit in which all share their sds.

    Notes
    -----
    ``V(A) = Cov(expit eta_1, expit eta_2)`` for logits that share the components inside A, and
    ``v(A) = V(A) - sum of v(B), B a proper subset`` (functional ANOVA). Of a given system every
    set loses the object and variances of equal sets add, so its task variance is that of task
    plus that of system:task.

    Examples
    --------
    >>> import gstudy as gs
    >>> study = gs.Study(
    ...     score="passed",
    ...     facets=[gs.Facet("task", role="legitimate"), gs.Facet("judge", role="error")],
    ... )
    >>> assumed = gs.assume(study, {"task": 3.24, "judge": 0.49}, mu=-0.4, scale="logit")
    >>> list(gs.variance_components(assumed).rows)
    ['task', 'judge', 'task:judge', 'residual']
    """
    basis = basis_of(source)
    refuse_shared(basis, system, "variance components")
    return components_of(basis, scale, system)


def components_of(basis: Basis, scale: str, system: str | None = None) -> VarianceComponents:
    """`variance_components` of a basis."""
    parts = decompositions(basis, scale, system)
    whole = average(parts)
    rows = row_facts(whole, basis)
    noise = [whole.noise[None]] if whole.has_noise else []
    draws = labelled(np.concatenate([whole.unique, *noise]), list(rows))
    return VarianceComponents(
        draws=draws,
        mean=labelled(whole.mean),
        scale=scale,
        estimand=f"one trial of {estimand_of(basis, parts)}{averaged_over(whole)}",
        rows=rows,
        notes=(*basis.stamp(draws), *component_notes(basis, parts)),
        basis=basis if system is None else replace(basis, system=system),
    )


def row_facts(whole: Decomposition, basis: Basis) -> dict[str, dict[str, str]]:
    """Per row its facet, its role and what it includes; `residual` last.

    Where some components are assumed and others estimated, also which.
    """
    structure = whole.structure
    rows = {
        structure.name(index_set): {
            "facet": structure.facet_of(index_set),
            "role": structure.role(index_set),
            "includes": structure.includes(index_set),
        }
        for index_set in whole.sets
    }
    sources = [basis.source(index_set, structure) for index_set in whole.sets]
    if whole.has_noise:
        rows[RESIDUAL] = {
            "facet": RESIDUAL,
            "role": structure.residual_role(),
            "includes": structure.residual_includes(),
        }
        given = frozenset({RESIDUAL}) in basis.replaced
        sources.append("assumed" if given else basis.origin)
    if basis.replaced:
        for facts, source in zip(rows.values(), sources, strict=True):
            facts[SOURCE] = source
    return rows


def describe_rows(
    draws: xr.DataArray,
    rows: Mapping[str, Mapping[str, str]],
    level: float,
    attributes: Mapping[str, object],
) -> pd.DataFrame:
    """Summary of variances with their shares, indexed by component."""
    import pandas as pd

    values = unlabelled(draws)
    share = summarise(_shares(values), level)
    frame = pd.DataFrame(
        {
            "facet": [facts["facet"] for facts in rows.values()],
            **summarise(values, level),
            "share": share["mean"],
            "share_lower": share["lower"],
            "share_upper": share["upper"],
            "role": [facts["role"] for facts in rows.values()],
            "includes": [facts["includes"] for facts in rows.values()],
        },
        index=pd.Index(list(rows), name="component"),
    )
    if any(SOURCE in facts for facts in rows.values()):
        frame[SOURCE] = [facts[SOURCE] for facts in rows.values()]
    frame.attrs.update(attributes)
    return frame


def estimand_of(basis: Basis, parts: Mapping[str | None, Decomposition]) -> str:
    """Whose score it is, in words."""
    labels = list(parts)
    name = basis.study.object
    if len(labels) > 1:
        return f"one {name}, mean over the {len(labels)} fitted"
    if labels[0] is not None:
        return f"{name} {labels[0]}"
    whole = parts[None]
    if whole.structure.object is not None:
        return f"a new {name}"
    single = whole.structure.not_sampled.get(name or "")
    return f"{name} {single}" if single is not None else "the study"


def averaged_over(whole: Decomposition) -> str:
    """Over which controlled levels a trial is averaged, in words."""
    if whole.controlled is None:
        return ""
    return Claim().words(whole.structure, collected=False, controlled=whole.controlled)


def component_notes(basis: Basis, parts: Mapping[str | None, Decomposition]) -> tuple[str, ...]:
    """What every table of these decompositions must say."""
    notes = []
    if basis.assumed:
        notes.append("Assumed components, not estimated from data.")
    if len(parts) == 1 and None not in parts:
        notes += _shared_notes(basis)
    structure = next(iter(parts.values())).structure
    if structure.absorbed:
        absorbed = ", ".join(structure.absorbed)
        notes.append(
            f"residual includes {absorbed}: with one trial per level they cannot be told apart."
        )
    banks = [f.name for f in basis.study.facets if f.universe and f.name in structure.absorbed]
    notes += [f"The universe of {name} has no effect: it is inside the residual." for name in banks]
    known = {structure.name(index_set) for index_set in structure.merged}
    told = zip(basis.prior_only, basis.prior_only_notes, strict=True)
    notes += [note for name, note in told if name in known]
    return (*notes, *basis.notes)


def _shared_notes(basis: Basis) -> list[str]:
    """Which variances of one system are not its own."""
    latent = basis.latent
    if latent is None or len(latent.object_effects) < 2:
        return []
    if not latent.own:
        note = (
            f"The sds are shared by all levels of {basis.study.object} in this source: ICC, "
            "budget and re-run noise follow this one's own mean, not its own variances."
        )
        return [note]
    gone = latent.structure.object_set
    left = dict.fromkeys(latent.structure.name(s) for s in latent.sets if s != gone)
    if not left:
        return []
    return [f"{', '.join(left)}: the sd is shared by all levels of {basis.study.object}."]


def _shares(values: Array) -> Array:
    """Per draw, so that they stay in [0, 1]; nothing has no shares and is zero."""
    total = values.sum(axis=0)
    return np.divide(values, total, out=np.zeros_like(values), where=total > 0)
