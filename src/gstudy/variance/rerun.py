"""Re-run noise: how far a score moves when the same evaluation is run again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from gstudy.display import Shown, Table, number, points
from gstudy.errors import QuantityError, explain
from gstudy.study.index_sets import close, set_name
from gstudy.study.partition import split
from gstudy.variance.basis import basis_of
from gstudy.variance.budgets import reported_score
from gstudy.variance.claims import claim_of
from gstudy.variance.components import component_notes
from gstudy.variance.contributions import pairs_of, total_error
from gstudy.variance.decomposition import SCORE, Decomposition, decompositions
from gstudy.variance.draws import Array, labelled, normal_quantile, stated, summarise
from gstudy.variance.latent import GAUSSIAN, widest
from gstudy.variance.systems import refuse_shared

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from gstudy.fits.fitted import Fit
    from gstudy.variance.basis import Basis
    from gstudy.variance.components import VarianceComponents
    from gstudy.variance.structure import Structure

__all__ = ["RerunNoise", "apart", "inseparable", "rerun_noise", "told", "variance_drawing"]


_ROWS = {"sd": "sd over re-runs", "difference": "largest difference of two (95%)"}


def apart(variance: xr.DataArray, coverage: float, family: str, what: str) -> xr.DataArray:
    """How far two of something with this variance of the score differ at most."""
    differ = normal_quantile(coverage) * (2 * variance) ** 0.5
    named = differ.clip(max=widest(family)).rename(f"how far two {what} differ")
    return named.assign_attrs(scale=SCORE)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RerunNoise(Shown):
    """Variance of a reported score over re-runs, score scale.

    Parameters
    ----------
    draws : xarray.DataArray (chain, draw)
        Variance over re-runs, squared score units.
    estimand : str
        Whose score it is, and under which design.
    redrawn, pinned : tuple of str
        Facets of which a re-run draws new levels, and those whose levels stay.
    notes : tuple of str
    assumed : bool
        Whether the components were assumed, not estimated.
    inseparable : tuple of str
        What a re-run keeps but the data cannot tell from what it draws anew, such as tasks with
        one rollout each: it counts, so that the variance is an upper bound.
    family : {"binary", "gaussian"}
        Of the scores: those of rates are shown in points.
    """

    draws: xr.DataArray
    estimand: str
    redrawn: tuple[str, ...]
    pinned: tuple[str, ...]
    notes: tuple[str, ...]
    assumed: bool
    inseparable: tuple[str, ...] = ()
    family: str = "binary"

    @property
    def bound(self) -> str:
        """A sentence where the variance is an upper bound, else nothing."""
        if not self.inseparable:
            return ""
        return (
            f"An upper bound: the data cannot tell {', '.join(self.inseparable)} from what a "
            "re-run draws anew, so that it counts too."
        )

    @property
    def scale(self) -> str:
        """Always the score scale."""
        return SCORE

    @property
    def name(self) -> str:
        """What the draws are of."""
        return "the re-run variance of the score"

    def difference(self, coverage: float = 0.95) -> xr.DataArray:
        """How far two such scores differ at most, with this probability.

        Parameters
        ----------
        coverage : float
            In (0, 1).

        Returns
        -------
        xarray.DataArray (chain, draw)
            ``z sqrt(2 variance)``; 0.08 is 8 points. Of pass rates at most 1.

        Raises
        ------
        QuantityError
            For a coverage outside (0, 1).
        """
        return apart(self.draws, coverage, self.family, "re-runs")

    def summary(self, level: float = 0.95) -> pd.DataFrame:
        """Variance, standard deviation and the 95% difference of two re-runs.

        Parameters
        ----------
        level : float
            Posterior level of the equal-tailed intervals.

        Returns
        -------
        pandas.DataFrame
            Index `quantity`: "variance", "sd", "difference"; columns `mean`, `median`, `sd`,
            `lower`, `upper`. `attrs` name scale, estimand, interval and level.

        Raises
        ------
        QuantityError
            For a level outside (0, 1).
        """
        import pandas as pd

        variance = self.draws.values
        stacked = np.stack([variance, np.sqrt(variance), self.difference().values])
        index = pd.Index(["variance", "sd", "difference"], name="quantity")
        frame = pd.DataFrame(summarise(stacked, level), index=index)
        frame.attrs.update(stated(self, f"re-run noise of {self.estimand}", level))
        return frame

    def table(self, level: float = 0.95) -> Table:
        """The table that is printed."""
        frame = self.summary(level).loc[["sd", "difference"]]
        frame = frame[["mean"] if self.assumed else ["mean", "lower", "upper"]]
        frame = frame.rename(index=_ROWS)
        return Table(
            frame=frame,
            title=f"Re-run noise of {self.estimand}",
            scale=self.scale,
            level=None if self.assumed else level,
            notes=tuple(text for text in (self._sentence(), self.bound, *self.notes) if text),
            formats=dict.fromkeys(
                frame.columns, "number3" if self.family == GAUSSIAN else "points1"
            ),
        )

    def _sentence(self) -> str:
        show = number if self.family == GAUSSIAN else points
        size = show(float(self.difference().mean()))
        drawn = ", ".join(self.redrawn) or "only the chance of each trial"
        kept = f"; the same {', '.join(self.pinned)}" if self.pinned else ""
        return f"Two such scores differ by up to {size} (95%). Drawn anew: {drawn}{kept}."


def rerun_noise(
    source: Fit | VarianceComponents,
    design: Mapping[str, int] | None = None,
    system: str | None = None,
) -> RerunNoise:
    """Variance of a reported score over re-runs of the same evaluation.

    Parameters
    ----------
    source : Fit or VarianceComponents
    design : mapping of str to int, optional
        As for `variance_budget`; by default the design as collected.
    system : str, optional
        As for `variance_budget`.

    Returns
    -------
    RerunNoise

    Raises
    ------
    QuantityError
        As `variance_budget`.

    Notes
    -----
    Every facet but rollouts, and what is nested in them, is pinned: a set whose facets are all
    pinned contributes nothing, the others what they contribute to the budget, and each trial its
    noise. The study says which facets are drawn anew. "Up to x": ``x = 1.96 sqrt(2 Var)``. Of a
    component that merges what is drawn anew with what is pinned (one rollout per task) all of it
    counts, and so does an interaction inside the residual (one trial per system and task, whether
    a rollout is declared or not): the variance is then an upper bound, and a note says so.

    Examples
    --------
    >>> import gstudy as gs
    >>> study = gs.Study(score="passed", facets=[gs.Facet("task", role="legitimate")])
    >>> vc = gs.assume(study, {"task": 0.1, "residual": 0.14}, mean=0.6)
    >>> round(100 * float(gs.rerun_noise(vc, {"task": 50}).difference().mean()), 1)
    14.7
    """
    basis = basis_of(source)
    refuse_shared(basis, system, "re-run noise")
    parts = decompositions(basis, SCORE, system)
    part = next(iter(parts.values()))
    redrawn, pinned = told(part.structure)
    draws = labelled(variance_drawing(basis, parts, design, part.structure.redrawn))
    return RerunNoise(
        draws=draws,
        estimand=reported_score(
            basis, parts, design, claim_of(basis.study, part.structure, design=design)
        ),
        redrawn=redrawn,
        pinned=pinned,
        notes=(*basis.stamp(draws), *component_notes(basis, parts)),
        assumed=basis.assumed,
        inseparable=inseparable(basis, part.structure),
        family=basis.study.family,
    )


def variance_drawing(
    basis: Basis,
    parts: Mapping[str | None, Decomposition],
    design: Mapping[str, int] | None,
    drawn: frozenset[str],
) -> Array:
    """Variance of a reported score when these facets are drawn anew and all others are pinned.

    Parameters
    ----------
    basis : Basis
    parts : mapping of str or None to Decomposition
    design : mapping or None
    drawn : frozenset of str
        With all that is nested in them.

    Returns
    -------
    array (chain, draw)
        Averaged over the systems.

    Raises
    ------
    QuantityError
        For a design that pins one of them, or is not usable.
    """
    structure = next(iter(parts.values())).structure
    kept = frozenset(structure.facets) - drawn - structure.object_set
    claim = claim_of(basis.study, structure, design=design)
    _check_drawn(claim.named, drawn)
    claim = replace(claim, pinned=kept)
    pairs = pairs_of(basis, parts, design, claim)
    return np.asarray(np.mean([total_error(part, weights) for part, weights in pairs], axis=0))


def _check_drawn(pinned: Sequence[str], drawn: frozenset[str]) -> None:
    both = [facet for facet in pinned if facet in drawn]
    if both:
        raise QuantityError(
            explain(
                f"{both[0]!r} is drawn anew here, and the design pins it",
                given=f"pin={list(pinned)}",
                do=f"Leave {both[0]!r} out of pin.",
            )
        )


def inseparable(basis: Basis, structure: Structure) -> tuple[str, ...]:
    """Names of what a re-run keeps but the data cannot tell from what it draws anew.

    Parameters
    ----------
    basis : Basis
    structure : Structure
        Of the basis, or of one level of its object.

    Returns
    -------
    tuple of str
        Merged components and facets inside the residual; of one trial per cell, without levels of
        what is drawn anew, also the interaction of all facets. None of assumed components.
    """
    if basis.assumed:
        return ()
    merged, alone = structure.bound_to_redrawn(), _interaction_inside(basis)
    # Facets inside the residual have levels of their own: they are what it holds.
    return merged or alone


def _interaction_inside(basis: Basis) -> tuple[str, ...]:
    """The interaction of all facets that a re-run keeps, where each cell has one trial of it."""
    known, cells = basis.structure, basis.cells
    # Known standard errors are the noise of a trial: an interaction is no part of them.
    if cells is None or basis.study.standard_error is not None:
        return ()
    facets = [f for f in cells.facets if f not in known.absorbed and f not in known.not_sampled]
    own = close(facets, known.nesting)
    parts = {close(part, known.nesting) for parts in known.merged.values() for part in parts}
    if len(facets) < 2 or set(facets) & known.redrawn or own in parts:
        return ()
    found = split(cells.codes, [cells.facets.index(facet) for facet in facets])
    trials = np.bincount(found.index, weights=cells.trials)
    return (set_name(own, known.order),) if trials.max() <= 1 else ()


def told(structure: Structure) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Facets that a re-run draws anew, and those that it keeps, in declared order."""
    measured = [facet for facet, role in structure.roles.items() if role == "object"]
    told = [facet for facet in structure.order if facet not in measured]
    redrawn = tuple(facet for facet in told if facet in structure.redrawn)
    return redrawn, tuple(facet for facet in told if facet not in redrawn)
