"""The variance budget of a reported score under one design: which source contributes what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gstudy._marks import bare_points
from gstudy.display import Shown, Table, number, percent, points
from gstudy.study.designs import Design
from gstudy.variance.basis import basis_of
from gstudy.variance.claims import Claim, claim_of
from gstudy.variance.components import (
    SOURCE,
    component_notes,
    describe_rows,
    estimand_of,
    row_facts,
)
from gstudy.variance.contributions import mean_contributions, pairs_of
from gstudy.variance.decomposition import SCORE, Decomposition, average, decompositions
from gstudy.variance.designs import design_text
from gstudy.variance.draws import labelled, normal_quantile, stated, summarise
from gstudy.variance.latent import GAUSSIAN, widest
from gstudy.variance.structure import NOT_SEPARABLE
from gstudy.variance.systems import refuse_shared

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from gstudy.fits.fitted import Fit
    from gstudy.variance.basis import Basis
    from gstudy.variance.components import VarianceComponents

__all__ = ["VarianceBudget", "reported_score", "variance_budget"]

_ROLES = ("object", "legitimate", "error", NOT_SEPARABLE)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class VarianceBudget(Shown):
    """Variance of one reported mean score, by source.

    Parameters
    ----------
    draws : xarray.DataArray (chain, draw, component)
        What each component contributes, v(A) q_A, squared units of the scale; `residual` last.
    scale : {"score", "logit"}
    estimand : str
        Whose score it is, and under which design.
    design : mapping of str to int, or None
        Levels of each facet; None for the design as collected.
    effective_levels : mapping of str to float
        Per component 1/q_A, the number of levels of a balanced design that would weigh alike.
    rows : mapping of str to mapping
        Per component its `facet`, `role` and `includes`.
    notes : tuple of str
    assumed : bool
        Whether the components were assumed, not estimated.
    family : {"binary", "gaussian"}
        Of the scores: those of rates are shown in points.
    """

    draws: xr.DataArray
    scale: str
    estimand: str
    design: Mapping[str, int] | None
    effective_levels: Mapping[str, float]
    rows: Mapping[str, Mapping[str, str]]
    notes: tuple[str, ...]
    assumed: bool
    family: str = "binary"

    @property
    def variance(self) -> xr.DataArray:
        """Variance of the reported score, (chain, draw)."""
        return self.draws.sum("component")

    @property
    def shares(self) -> xr.DataArray:
        """Share of each component, (chain, draw, component); they add up to 1 in each draw."""
        total = self.variance
        return (self.draws / total.where(total > 0)).fillna(0.0)

    def half_width(self, coverage: float = 0.95) -> xr.DataArray:
        """Half-width of an interval of the score that would be reported.

        Parameters
        ----------
        coverage : float
            Nominal coverage of that interval, in (0, 1).

        Returns
        -------
        xarray.DataArray (chain, draw)
            ``z sqrt(variance)`` in units of the scale: 0.102 is 10.2 points. Of pass rates at
            most 1.

        Raises
        ------
        QuantityError
            For a coverage outside (0, 1).
        """
        width = normal_quantile(coverage) * self.variance**0.5
        most = widest(self.family if self.scale == SCORE else GAUSSIAN)
        named = width.clip(max=most).rename("the half-width of the score")
        return named.assign_attrs(scale=self.scale)

    def summary(self, level: float = 0.95) -> pd.DataFrame:
        """One row per component.

        Parameters
        ----------
        level : float
            Posterior level of the equal-tailed intervals.

        Returns
        -------
        pandas.DataFrame
            Index `component`; columns `facet`, `mean`, `median`, `sd`, `lower`, `upper` (variance
            contributed), `share`, `share_lower`, `share_upper`, `n_effective`, `role`,
            `includes`. `attrs` name scale, estimand, interval and level.

        Raises
        ------
        QuantityError
            For a level outside (0, 1).
        """
        attributes = stated(self, f"variance of {self.estimand}", level)
        frame = describe_rows(self.draws, self.rows, level, attributes)
        frame.insert(
            list(frame.columns).index("role"),
            "n_effective",
            [self.effective_levels[name] for name in self.rows],
        )
        return frame

    def by_role(self, level: float = 0.95) -> pd.DataFrame:
        """Totals of the rows of each role: object, legitimate, error and not separable.

        Parameters
        ----------
        level : float

        Returns
        -------
        pandas.DataFrame
            Index `role`: those that occur; where some rows are not separable, also each total
            with them. Columns as in `summary`, without those of single rows.

        Raises
        ------
        QuantityError
            For a level outside (0, 1).
        """
        import pandas as pd

        totals = self._role_totals()
        stacked = np.stack([part.values for part in totals.values()])
        whole = self.variance.values
        share = summarise(stacked / np.where(whole > 0, whole, 1.0), level)
        renamed = {f"share_{key}": share[key] for key in ("lower", "upper")}
        frame = pd.DataFrame(
            {**summarise(stacked, level), "share": share["mean"], **renamed},
            index=pd.Index(list(totals), name="role"),
        )
        frame.attrs.update(stated(self, f"variance of {self.estimand}, by role", level))
        return frame

    def table(self, level: float = 0.95) -> Table:
        """The table that is printed."""
        frame = self.summary(level)
        bounds = [] if self.assumed else ["share_lower", "share_upper"]
        mixed = [SOURCE] if SOURCE in frame else []
        shown = frame[["share", *bounds, "n_effective", "role", *mixed]].rename(
            columns={"share_lower": "lower", "share_upper": "upper", "n_effective": "levels"}
        )
        return Table(
            frame=shown,
            title=f"Variance budget of {self.estimand}",
            scale=self.scale,
            level=None if self.assumed else level,
            notes=(self._width_note(level), self._role_note(), *self.notes),
            formats={
                **dict.fromkeys(("share", "lower", "upper"), "percent1"),
                "levels": "count",
                **dict.fromkeys(("role", *mixed), "text"),
            },
        )

    def _role_totals(self) -> dict[str, xr.DataArray]:
        roles = {name: facts["role"] for name, facts in self.rows.items()}
        found = sorted(set(roles.values()), key=_ROLES.index)
        totals = {
            role: self.draws.sel(component=[n for n in roles if roles[n] == role]).sum("component")
            for role in found
        }
        if NOT_SEPARABLE in totals and len(totals) > 1:
            mixed = totals[NOT_SEPARABLE]
            separable = [role for role in totals if role != NOT_SEPARABLE]
            totals |= {f"{role} + {NOT_SEPARABLE}": totals[role] + mixed for role in separable}
        return totals

    def _width_note(self, level: float) -> str:
        width = self.half_width(0.95).values[None]
        found = {key: float(value[0]) for key, value in summarise(width, level).items()}
        on_score = self.scale == SCORE and self.family != GAUSSIAN
        mean, upper = (
            points(x) if on_score else number(x) for x in (found["mean"], found["upper"])
        )
        text = f"Half-width of a 95% interval of the score: {mean}"
        if self.assumed:
            return f"{text}."
        lower = bare_points(found["lower"]) if on_score else number(found["lower"])
        return f"{text} ({100 * level:g}% posterior interval: {lower} to {upper})."

    def _role_note(self) -> str:
        shares = self.by_role()["share"]
        return "By role: " + ", ".join(f"{role} {percent(x)}" for role, x in shares.items()) + "."


def variance_budget(
    source: Fit | VarianceComponents,
    design: Mapping[str, int] | None = None,
    *,
    system: str | None = None,
    scale: str = "score",
    pin: Sequence[str] | None = None,
) -> VarianceBudget:
    """The variance of a reported mean score, split by source.

    Parameters
    ----------
    source : Fit or VarianceComponents
    design : mapping of str to int, optional
        Levels of each facet of a balanced design, within one level of the object; of a nested
        facet per combination of its parents. A `Design` may also pin facets and say who judges
        what. By default the design as collected, each trial with the weight that `average` of the
        study gives it.
    system : str, optional
        A fitted level of the object; "new" for the score of a new one under the average design;
        by default every fitted one with its own trials, then their mean per draw.
    scale : {"score", "logit"}
    pin : list of str, optional
        Facets whose levels stay: the score is claimed for these levels only, and a set of which
        every facet besides the object is pinned contributes nothing.

    Returns
    -------
    VarianceBudget

    Raises
    ------
    QuantityError
        For an unknown system or scale; a design that names an unknown facet, lacks one that
        matters, has a number of levels that is no whole number from 1 on or more than the universe
        of the facet, or asks for what the source does not cover; no design for assumed components;
        a facet that cannot be pinned; and one system of a fit in which all share their sds.

    Notes
    -----
    ``Var = sum_A v(A) q_A + E[p(1-p)] sum_i w_i^2`` with trial weights w_i that sum to 1 and
    ``q_A = sum over the levels g of A of (sum of w_i in g)^2``; balanced, ``q_A = 1/prod n_f``.
    It equals the sum of the covariances of all ordered pairs of trials. Where all facets of A
    besides the object have a finite universe or are pinned, q_A becomes ``q_A - sum_g W_g^2``, W
    the weights of the claim: 1/N for a bank of N levels that weigh alike.

    Examples
    --------
    >>> import gstudy as gs
    >>> study = gs.Study(
    ...     score="passed",
    ...     facets=[
    ...         gs.Facet("query", role="legitimate"),
    ...         gs.Facet("version", role="legitimate"),
    ...         gs.Facet("rollout", role="legitimate", nested_in=["query", "version"]),
    ...     ],
    ... )
    >>> vc = gs.assume(study, {"query": 0.12, "version": 0.0016, "rollout": 0.1}, mean=0.7)
    >>> budget = gs.variance_budget(vc, {"query": 200, "version": 1, "rollout": 1})
    >>> round(100 * float(budget.half_width().mean()), 1)
    10.2
    """
    basis = basis_of(source)
    refuse_shared(basis, system, "variance budget")
    parts = decompositions(basis, scale, system)
    whole = average(parts)
    claim = claim_of(basis.study, whole.structure, pin, design)
    pairs = pairs_of(basis, parts, design, claim)
    draws, levels = mean_contributions(pairs)
    rows = row_facts(whole, basis)
    printed = labelled(np.concatenate([draws, draws.sum(axis=0)[None]]), [*rows, "variance"])
    return VarianceBudget(
        draws=labelled(draws, list(rows)),
        scale=scale,
        estimand=reported_score(basis, parts, design, claim),
        design=design if design is None or isinstance(design, Design) else dict(design),
        effective_levels=dict(zip(rows, levels, strict=True)),
        rows=rows,
        notes=(*basis.stamp(printed), *component_notes(basis, parts)),
        assumed=basis.assumed,
        family=basis.study.family,
    )


def reported_score(
    basis: Basis,
    parts: Mapping[str | None, Decomposition],
    design: Mapping[str, Any] | None,
    claim: Claim,
) -> str:
    """Whose score is reported, under which design, and what it claims; in words."""
    first = next(iter(parts.values()))
    claimed = claim.words(first.structure, collected=design is None, controlled=first.controlled)
    whose = estimand_of(basis, parts)
    return f"the score of {whose}, {design_text(design)}{claimed}{basis.remark}"
