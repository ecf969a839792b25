"""Coefficients of reliability: ratios of variances, formed within each draw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING

import numpy as np

from gstudy.display import Shown, Table
from gstudy.errors import QuantityError, explain
from gstudy.variance.basis import Basis, basis_of
from gstudy.variance.components import component_notes, estimand_of
from gstudy.variance.decomposition import SCORE, decompositions
from gstudy.variance.designs import design_text
from gstudy.variance.draws import Array, labelled, stated, summarise
from gstudy.variance.error_variance import Population, population_of
from gstudy.variance.latent import GAUSSIAN
from gstudy.variance.normality import normality_notes
from gstudy.variance.systems import refuse_shared

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from gstudy.fits.fitted import Fit
    from gstudy.study.index_sets import IndexSet
    from gstudy.variance.components import VarianceComponents

__all__ = ["Coefficient", "checked_cut", "generalizability", "icc", "phi", "sem"]

# Below this lower end an interval reaches the boundary for all a reader can see.
_BOUNDARY = 0.01


_READINGS = {
    "ICC(": "Correlation of two trials that share this and nothing else.",
    "Phi": "Share of true differences in the variance of a score that is read by itself.",
    "Phi(": "As Phi, for telling whether a score is above or below the cut.",
    "E rho^2": "Share of true differences in the variance of scores compared on one design.",
    "SEM": "Standard error of a score that is read by itself, in units of the score.",
    "relative SEM": "Standard error of scores that are compared on one design, units of the score.",
}
_IN_POINTS = ("SEM", "relative SEM")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Coefficient(Shown):
    """A ratio of variances with its draws, each in [0, 1]; or a standard error of measurement.

    Parameters
    ----------
    draws : xarray.DataArray (chain, draw)
    name : str
        Such as "ICC(task)", "Phi", "Phi(0.7)", "E rho^2", "SEM" or "relative SEM".
    scale : {"score", "logit"}
        Scale of the variances in the ratio.
    estimand : str
        What it is the reliability of, and under which design.
    notes : tuple of str
    assumed : bool
        Whether the components were assumed, not estimated.
    family : {"binary", "gaussian"}
        Of the scores: standard errors of rates are shown in points.
    """

    draws: xr.DataArray
    name: str
    scale: str
    estimand: str
    notes: tuple[str, ...]
    assumed: bool
    family: str = "binary"

    def summary(self, level: float = 0.95) -> pd.DataFrame:
        """One row.

        Parameters
        ----------
        level : float
            Posterior level of the equal-tailed interval.

        Returns
        -------
        pandas.DataFrame
            Index `coefficient`; columns `mean`, `median`, `sd`, `lower`, `upper`. `attrs` name
            scale, estimand, interval and level.

        Raises
        ------
        QuantityError
            For a level outside (0, 1).
        """
        import pandas as pd

        index = pd.Index([self.name], name="coefficient")
        frame = pd.DataFrame(summarise(self.draws.values[None], level), index=index)
        frame.attrs.update(stated(self, self.estimand, level))
        return frame

    def table(self, level: float = 0.95) -> Table:
        """The table that is printed."""
        frame = self.summary(level)
        return Table(
            frame=frame[["mean"] if self.assumed else ["mean", "lower", "upper"]],
            title=f"{self.name} {self.estimand}",
            scale=self.scale,
            level=None if self.assumed else level,
            notes=(*self.notes, self._reading()),
            formats=dict.fromkeys(frame.columns, self._form()),
        )

    def _form(self) -> str:
        """How its numbers are written."""
        if self.name not in _IN_POINTS:
            return "decimal3"
        rate = self.scale == SCORE and self.family != GAUSSIAN
        return "points1" if rate else "number3"

    def _reading(self) -> str:
        """What the ratio says, in words; a name may have an argument in brackets."""
        kind, bracket, _ = self.name.partition("(")
        return _READINGS[kind + bracket]


def icc(
    source: Fit | VarianceComponents,
    component: str,
    *,
    scale: str = "score",
    system: str | None = None,
) -> Coefficient:
    """Intraclass correlation of a component: of two trials that share it and nothing else.

    Parameters
    ----------
    source : Fit or VarianceComponents
    component : str
        Facets joined by ":", parents may be left out: "task", "rollout", "system:task".
    scale : {"score", "logit"}
        The two differ, and neither is an approximation of the other.
    system : str, optional
        A fitted level of the object, "new" for the population of systems (of which the object's
        own variance is a part), by default every fitted one, then their mean per draw.

    Returns
    -------
    Coefficient

    Raises
    ------
    QuantityError
        For a component, system or scale that the source does not have.

    Notes
    -----
    ``ICC(A) = V(A) / (m(1-m))`` on the score scale, where V(A) is the covariance of two scores
    that share A, its parents included; ``S_A / (S + pi^2/3)`` on the logit scale. For one system
    with tasks and rollouts, ICC(task) on the score scale is the population value of the one-way
    ANOVA ICC(1,1) of the 0/1 scores. With several controlled levels it is that within a level,
    averaged: ``sum_l w_l V_ll(A) / sum_l w_l m_l (1 - m_l)``, w_l the weights of the levels.

    Of 0/1 scores it is the ICC of effects that are normal on the logit scale. In a fit of one
    facet alone a note says when the ICC of the very levels fitted lies outside 99% of the draws:
    then their effects are not normal, and more rollouts bring the two no closer.
    `gs.posterior_check` looks at fits of several facets too.

    Examples
    --------
    >>> import gstudy as gs
    >>> study = gs.Study(score="passed", facets=[gs.Facet("task", role="legitimate")])
    >>> vc = gs.assume(study, {"task": 4.0}, mu=0.0, scale="logit")
    >>> for scale in ("score", "logit"):
    ...     print(scale, float(gs.icc(vc, "task", scale=scale).draws.mean().round(3)))
    score 0.394
    logit 0.549
    """
    basis = basis_of(source)
    refuse_shared(basis, system, "ICC")
    parts = decompositions(basis, scale, system)
    ratios = []
    for part in parts.values():
        index_set = part.structure.find(component)
        ratios.append(_ratio(part.within(index_set), part.total))
    first = next(iter(parts.values()))
    index_set = first.structure.find(component)
    name = first.structure.name(index_set)
    held = first.controlled
    within = "" if held is None else f", within a level of {', '.join(held.facets)}, averaged"
    draws = labelled(np.mean(ratios, axis=0))
    return Coefficient(
        draws=draws,
        name=f"ICC({name})",
        scale=scale,
        estimand=f"of {estimand_of(basis, parts)}{within}{basis.remark}",
        notes=(
            *basis.stamp(draws),
            *_boundary_notes(draws.values, basis),
            *_shape_notes(source, basis, index_set, draws.values, scale),
            *component_notes(basis, parts),
        ),
        assumed=basis.assumed,
    )


def phi(
    source: Fit | VarianceComponents,
    design: Mapping[str, int] | None = None,
    *,
    cut: float | None = None,
    scale: str = "score",
    object: str | None = None,
    pin: Sequence[str] | None = None,
    finite: bool = False,
) -> Coefficient:
    """Dependability Phi: how far a score places its system absolutely.

    Parameters
    ----------
    source : Fit or VarianceComponents
    design : mapping of str to int, optional
        Levels of each facet within one level of the object, of a nested facet per combination of
        its parents. A `Design` may also pin facets and say who judges what. By default the design
        as collected: each level of the object with its own trials, averaged over levels.
    cut : float, optional
        Score scale only: Phi(cut), the dependability of decisions at this score.
    scale : {"score", "logit"}
    object : str, optional
        Facet that is measured, by default the study's own.
    pin : list of str, optional
        Facets whose levels stay: the score is claimed for these levels only.
    finite : bool
        Take the variance among the fitted systems (divisor K - 1 of their K expected scores), not
        that of the population which they are a sample of.

    Returns
    -------
    Coefficient

    Raises
    ------
    QuantityError
        Without a sampled object; for a design or pin that is not usable (see `variance_budget`),
        a cut that is no score or belongs to the other scale, a fit in which each system has
        its own sds, and `finite` without fitted systems.

    Notes
    -----
    ``Phi = v_o / (v_o + v_Delta)``, v_o the variance between levels of the object, v_Delta the sum
    of ``v(A) q_A`` over the sets with a facet besides the object, plus the noise of one trial over
    the number of trials. ``Phi(cut)`` adds ``(m - cut)^2`` to v_o. (Brennan, Generalizability
    Theory, 2001; here with score-scale components.) Where all facets of A besides the object have
    a finite universe or are pinned, ``v(A) sum_g W_g^2`` (1/N for a bank of N equal levels) leaves
    v_Delta, and joins v_o if A holds the object.

    Examples
    --------
    >>> import gstudy as gs
    >>> task = gs.Facet("task", role="legitimate")
    >>> study = gs.Study(score="passed", object="system", facets=[task])
    >>> vc = gs.assume(study, {"system": 0.02, "task": 0.1, "residual": 0.12}, mean=0.6)
    >>> float(gs.phi(vc, {"task": 50}).draws.mean().round(3))
    0.82
    """
    basis = basis_of(source)
    found = population_of(basis, design, scale=scale, chosen=object, pin=pin, finite=finite)
    between, error = found.between, found.error(relative=False)
    name = "Phi"
    if cut is not None:
        between = between + (found.part.mean - checked_cut(cut, scale, basis)) ** 2
        name = f"Phi({cut:g})"
    return _coefficient(basis, found, name, design, _ratio(between, between + error))


def generalizability(
    source: Fit | VarianceComponents,
    design: Mapping[str, int] | None = None,
    *,
    scale: str = "score",
    object: str | None = None,
    pin: Sequence[str] | None = None,
    finite: bool = False,
) -> Coefficient:
    """Generalizability E rho^2: how far a score ranks its system among others.

    Parameters
    ----------
    source, design, scale, object, pin, finite
        As for `phi`.

    Returns
    -------
    Coefficient

    Raises
    ------
    QuantityError
        As `phi`.

    Notes
    -----
    ``E rho^2 = v_o / (v_o + v_delta)``; v_delta leaves out of v_Delta the sets without the object,
    which move every level of it alike.

    Examples
    --------
    >>> import gstudy as gs
    >>> task = gs.Facet("task", role="legitimate")
    >>> study = gs.Study(score="passed", object="system", facets=[task])
    >>> vc = gs.assume(study, {"system": 0.02, "task": 0.1, "residual": 0.12}, mean=0.6)
    >>> float(gs.generalizability(vc, {"task": 50}).draws.mean().round(3))
    0.893
    """
    basis = basis_of(source)
    found = population_of(basis, design, scale=scale, chosen=object, pin=pin, finite=finite)
    between, error = found.between, found.error(relative=True)
    return _coefficient(basis, found, "E rho^2", design, _ratio(between, between + error))


def sem(
    source: Fit | VarianceComponents,
    design: Mapping[str, int] | None = None,
    *,
    relative: bool = False,
    scale: str = "score",
    object: str | None = None,
    pin: Sequence[str] | None = None,
) -> Coefficient:
    """Standard error of measurement of a score, absolute or relative.

    Parameters
    ----------
    source, design, scale, object, pin
        As for `phi`.
    relative : bool
        Of scores that are compared on one design: what moves all systems alike is left out.

    Returns
    -------
    Coefficient
        In units of the scale: 0.03 is 3 points of a pass rate.

    Raises
    ------
    QuantityError
        As `phi`.

    Notes
    -----
    ``sqrt(v_Delta)``, or ``sqrt(v_delta)`` when relative, of `phi` and `generalizability`.

    Examples
    --------
    >>> import gstudy as gs
    >>> task = gs.Facet("task", role="legitimate")
    >>> study = gs.Study(score="passed", object="system", facets=[task])
    >>> vc = gs.assume(study, {"system": 0.02, "task": 0.1, "residual": 0.12}, mean=0.6)
    >>> float(gs.sem(vc, {"task": 50}).draws.mean().round(4))
    0.0663
    """
    basis = basis_of(source)
    found = population_of(basis, design, scale=scale, chosen=object, pin=pin)
    name = "relative SEM" if relative else "SEM"
    return _coefficient(basis, found, name, design, np.sqrt(found.error(relative=relative)))


def _coefficient(
    basis: Basis,
    found: Population,
    name: str,
    design: Mapping[str, int] | None,
    values: Array,
) -> Coefficient:
    part, measured = found.part, found.object
    draws = labelled(values)
    claim = found.claim.words(part.structure, collected=design is None, controlled=part.controlled)
    among = ", among the fitted ones" if found.finite else ""
    return Coefficient(
        draws=draws,
        name=name,
        scale=part.scale,
        estimand=f"of {measured} scores {design_text(design)}{claim}{among}{basis.remark}",
        notes=(
            *basis.stamp(draws),
            *_merged_notes(found),
            *component_notes(basis, {None: part}),
        ),
        assumed=basis.assumed,
        family=basis.study.family,
    )


def _merged_notes(found: Population) -> Sequence[str]:
    structure = found.part.structure
    own = structure.object_set
    if own == {found.object}:
        return ()
    return (f"{structure.name(own)} is one component: {found.object} cannot be told apart.",)


def checked_cut(cut: object, scale: str, basis: Basis) -> float:
    """A cut, checked: a score, on the score scale.

    Raises
    ------
    QuantityError
        For anything else.
    """
    if scale != SCORE:
        raise QuantityError(
            explain(
                "a cut is a score, and this is the logit scale",
                given={"cut": cut, "scale": scale},
                do="Leave cut out, or use scale='score'.",
            )
        )
    graded = basis.study.family == GAUSSIAN
    low, high = (-np.inf, np.inf) if graded else (0.0, 1.0)
    if isinstance(cut, bool) or not isinstance(cut, Real) or not low <= float(cut) <= high:
        allowed = "numbers" if graded else "numbers from 0 to 1"
        raise QuantityError(explain("the cut is not a score", given=cut, allowed=allowed))
    return float(cut)


def _shape_notes(
    source: Fit | VarianceComponents, basis: Basis, index_set: IndexSet, draws: Array, scale: str
) -> Sequence[str]:
    """What the effects of the fitted levels say against a normal distribution."""
    from gstudy.fits.fitted import Fit

    if scale != SCORE or not isinstance(source, Fit):
        return ()
    return normality_notes(source, basis, index_set, draws)


def _boundary_notes(draws: Array, basis: Basis) -> Sequence[str]:
    if basis.assumed or basis.prior or np.quantile(draws, 0.025) >= _BOUNDARY:
        return ()
    return ("At the boundary: the data do not tell this ICC from zero.",)


def _ratio(part: Array, whole: Array) -> Array:
    """The ratio per draw; where there is no variance at all nothing is shared, and it is 0."""
    ratio = np.divide(part, whole, out=np.zeros_like(whole), where=whole > 0)
    return np.minimum(ratio, 1.0)
