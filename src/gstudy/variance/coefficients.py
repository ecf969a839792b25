"""Coefficients of reliability: ratios of variances, formed within each draw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import TYPE_CHECKING

import numpy as np

from gstudy.display import Shown, Table
from gstudy.errors import QuantityError, did_you_mean, explain
from gstudy.study.index_sets import close
from gstudy.variance.basis import Basis, basis_of
from gstudy.variance.components import component_notes, estimand_of
from gstudy.variance.decomposition import (
    SCORE,
    Decomposition,
    decompose,
    decompositions,
    scale_of,
)
from gstudy.variance.draws import Array, labelled, stated, summarise
from gstudy.variance.weights import Weights, design_text, weights_within

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from gstudy.fits.fitted import Fit
    from gstudy.variance.components import VarianceComponents

__all__ = ["Coefficient", "generalizability", "icc", "phi"]

# Below this lower end an interval reaches the boundary for all a reader can see.
_BOUNDARY = 0.01


_READINGS = {
    "ICC(": "Correlation of two trials that share this and nothing else.",
    "Phi": "Share of true differences in the variance of a score that is read by itself.",
    "Phi(": "As Phi, for telling whether a score is above or below the cut.",
    "E rho^2": "Share of true differences in the variance of scores compared on one design.",
}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Coefficient(Shown):
    """A ratio of variances with its draws, each in [0, 1].

    Parameters
    ----------
    draws : xarray.DataArray (chain, draw)
    name : str
        Such as "ICC(task)", "Phi", "Phi(0.7)" or "E rho^2".
    scale : {"score", "logit"}
        Scale of the variances in the ratio.
    estimand : str
        What it is the reliability of, and under which design.
    notes : tuple of str
    assumed : bool
        Whether the components were assumed, not estimated.
    """

    draws: xr.DataArray
    name: str
    scale: str
    estimand: str
    notes: tuple[str, ...]
    assumed: bool

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
            formats=dict.fromkeys(frame.columns, "decimal3"),
        )

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
    ANOVA ICC(1,1) of the 0/1 scores.

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
    parts = decompositions(basis, scale, system)
    ratios = []
    for part in parts.values():
        index_set = part.structure.find(component)
        ratios.append(_ratio(part.inside(index_set), part.total))
    structure = next(iter(parts.values())).structure
    name = structure.name(structure.find(component))
    draws = labelled(np.mean(ratios, axis=0))
    return Coefficient(
        draws=draws,
        name=f"ICC({name})",
        scale=scale,
        estimand=f"of {estimand_of(basis, parts)}{basis.remark}",
        notes=(
            *basis.stamp(draws),
            *_boundary_notes(draws.values, basis),
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
    object: str | None = None,  # noqa: A002
) -> Coefficient:
    """Dependability Phi: how far a score places its system absolutely.

    Parameters
    ----------
    source : Fit or VarianceComponents
    design : mapping of str to int, optional
        Levels of each facet within one level of the object, of a nested facet per combination of
        its parents. By default the design as collected: each level of the object with its own
        trials, averaged over levels.
    cut : float, optional
        Score scale only: Phi(cut), the dependability of decisions at this score.
    scale : {"score", "logit"}
    object : str, optional
        Facet that is measured, by default the study's own.

    Returns
    -------
    Coefficient

    Raises
    ------
    QuantityError
        Without a sampled object, for a design that is not usable (see `variance_budget`), and
        for a cut that is no score or belongs to the other scale.

    Notes
    -----
    ``Phi = v_o / (v_o + v_Delta)``, v_o the variance between levels of the object, v_Delta the sum
    of ``v(A) q_A`` over the sets with a facet besides the object, plus the noise of one trial over
    the number of trials. ``Phi(cut)`` adds ``(m - cut)^2`` to v_o. (Brennan, Generalizability
    Theory, 2001; here with score-scale components.)

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
    part, weights = _population(basis, design, scale, object)
    between, error = _error_variance(part, weights, relative=False)
    name = "Phi"
    if cut is not None:
        between = between + (part.mean - _checked_cut(cut, scale)) ** 2
        name = f"Phi({cut:g})"
    return _coefficient(basis, part, name, design, _ratio(between, between + error))


def generalizability(
    source: Fit | VarianceComponents,
    design: Mapping[str, int] | None = None,
    *,
    scale: str = "score",
    object: str | None = None,  # noqa: A002
) -> Coefficient:
    """Generalizability E rho^2: how far a score ranks its system among others.

    Parameters
    ----------
    source, design, scale, object
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
    part, weights = _population(basis, design, scale, object)
    between, error = _error_variance(part, weights, relative=True)
    return _coefficient(basis, part, "E rho^2", design, _ratio(between, between + error))


def _population(
    basis: Basis, design: Mapping[str, int] | None, scale: str, chosen: str | None
) -> tuple[Decomposition, Weights]:
    """The decomposition over the population of the object, with the weights within a level."""
    scale_of(scale)
    if basis.system not in (None, "new"):
        raise QuantityError(
            explain(
                f"this source is of {basis.system!r} alone, and coefficients compare levels",
                do="Pass the fit, or components of all systems.",
            )
        )
    if basis.latent is None:
        part = decompositions(basis, scale, "new")[None]
    else:
        part = decompose(basis.latent, scale)
    measured = _object(basis, chosen)
    part = replace(part, structure=replace(part.structure, object=measured))
    weights = weights_within(part.structure, part.sets, measured, design=design, cells=basis.cells)
    return part, weights[None]


def _object(basis: Basis, chosen: object) -> str:
    """The facet that is measured, checked."""
    structure = basis.structure
    name = basis.study.object if chosen is None else chosen
    if name is None:
        raise QuantityError(
            explain(
                "Phi and E rho^2 need an object of measurement, and the study declares none",
                allowed=structure.facets,
                do="Pass object='<facet>', such as object='task'.",
            )
        )
    if not isinstance(name, str):
        raise QuantityError(
            explain("the object is no facet's name", given=name, allowed=structure.facets)
        )
    if name in structure.not_sampled:
        raise QuantityError(
            explain(
                f"Phi and E rho^2 compare levels of {name!r}, and one was sampled",
                given=structure.not_sampled[name],
                do="Compare several levels, or pass object='<facet>' for another facet.",
            )
        )
    if name not in structure.facets:
        raise QuantityError(
            explain(
                f"{name!r} cannot be the object: it has no component",
                allowed=structure.facets,
                do=did_you_mean(name, structure.facets),
            )
        )
    parents = close({name}, structure.nesting) & frozenset(structure.facets) - {name}
    if parents:
        raise QuantityError(
            explain(
                f"{name!r} cannot be the object: it is nested in {', '.join(sorted(parents))}",
                allowed=[f for f in structure.facets if close({f}, structure.nesting) == {f}],
            )
        )
    return name


def _error_variance(
    part: Decomposition, weights: Weights, *, relative: bool
) -> tuple[Array, Array]:
    """Variance between levels of the object, and absolute or relative error variance."""
    structure = part.structure
    own = structure.object_set
    error = part.noise * weights.noise
    for index_set, unique in zip(part.sets, part.unique, strict=True):
        if not index_set <= own and (own <= index_set or not relative):
            error = error + unique * weights.of(index_set, structure.object)
    return part.inside(own), error


def _coefficient(
    basis: Basis,
    part: Decomposition,
    name: str,
    design: Mapping[str, int] | None,
    values: Array,
) -> Coefficient:
    measured = part.structure.object or ""
    draws = labelled(values)
    return Coefficient(
        draws=draws,
        name=name,
        scale=part.scale,
        estimand=f"of {measured} scores {design_text(design)}{basis.remark}",
        notes=(
            *basis.stamp(draws),
            *_merged_notes(part, measured),
            *component_notes(basis, {None: part}),
        ),
        assumed=basis.assumed,
    )


def _merged_notes(part: Decomposition, measured: str) -> Sequence[str]:
    own = part.structure.object_set
    if own == {measured}:
        return ()
    return (f"{part.structure.name(own)} is one component: {measured} cannot be told apart.",)


def _checked_cut(cut: object, scale: str) -> float:
    if scale != SCORE:
        raise QuantityError(
            explain(
                "a cut is a score, and this is the logit scale",
                given={"cut": cut, "scale": scale},
                do="Leave cut out, or use scale='score'.",
            )
        )
    if isinstance(cut, bool) or not isinstance(cut, Real) or not 0 <= float(cut) <= 1:
        raise QuantityError(
            explain("the cut is not a score", given=cut, allowed="numbers from 0 to 1")
        )
    return float(cut)


def _boundary_notes(draws: Array, basis: Basis) -> Sequence[str]:
    if basis.assumed or np.quantile(draws, 0.025) >= _BOUNDARY:
        return ()
    return ("At the boundary: the data do not tell this ICC from zero.",)


def _ratio(part: Array, whole: Array) -> Array:
    """The ratio per draw; where there is no variance at all nothing is shared, and it is 0."""
    ratio = np.divide(part, whole, out=np.zeros_like(whole), where=whole > 0)
    return np.minimum(ratio, 1.0)
