"""Re-run, data and total noise: how far a score moves on a re-run, on new tasks, on both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gstudy._words import listed, plural
from gstudy.display import Shown, Table, number, points
from gstudy.errors import QuantityError, did_you_mean, explain
from gstudy.study.index_sets import close
from gstudy.study.partition import split
from gstudy.variance.basis import Basis, basis_of
from gstudy.variance.budgets import reported_score
from gstudy.variance.claims import claim_of
from gstudy.variance.components import component_notes
from gstudy.variance.decomposition import SCORE, decompositions
from gstudy.variance.designs import read_design
from gstudy.variance.draws import Array, labelled, stated, summarise
from gstudy.variance.latent import GAUSSIAN
from gstudy.variance.rerun import apart, inseparable, variance_drawing
from gstudy.variance.systems import refuse_shared

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from gstudy.fits.fitted import Fit
    from gstudy.variance.components import VarianceComponents
    from gstudy.variance.structure import Structure

__all__ = ["KINDS", "Noises", "noises"]

KINDS = ("re-run", "data", "total")
_QUANTITIES = ("variance", "sd", "difference")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Noises(Shown):
    """Variances of a reported score over re-runs, over new tasks, and over both.

    Parameters
    ----------
    draws : xarray.DataArray (chain, draw, noise)
        Variances, squared score units; `noise` is "re-run", "data", "total", the sum of both.
    estimand : str
        Whose score it is, and under which design.
    tasks : str
        The facet that new data are new levels of.
    redrawn : tuple of str
        Facets of which a re-run draws new levels.
    notes : tuple of str
    assumed : bool
        Whether the components were assumed, not estimated.
    family : {"binary", "gaussian"}
        Of the scores: those of rates are shown in points.
    """

    draws: xr.DataArray
    estimand: str
    tasks: str
    redrawn: tuple[str, ...]
    notes: tuple[str, ...]
    assumed: bool
    family: str = "binary"

    @property
    def scale(self) -> str:
        """Always the score scale."""
        return SCORE

    def difference(self, coverage: float = 0.95) -> xr.DataArray:
        """How far two such scores differ at most, with this probability.

        Parameters
        ----------
        coverage : float
            In (0, 1).

        Returns
        -------
        xarray.DataArray (chain, draw, noise)
            ``z sqrt(2 variance)``; 0.08 is 8 points. Of pass rates at most 1.

        Raises
        ------
        QuantityError
            For a coverage outside (0, 1).
        """
        return apart(self.draws, coverage, self.family, "scores")

    def summary(self, level: float = 0.95) -> pd.DataFrame:
        """Variance, standard deviation and the 95% difference of two scores, per noise.

        Parameters
        ----------
        level : float
            Posterior level of the equal-tailed intervals.

        Returns
        -------
        pandas.DataFrame
            Index `noise` ("re-run", "data", "total") and `quantity` ("variance", "sd",
            "difference"); columns `mean`, `median`, `sd`, `lower`, `upper`. `attrs` name scale,
            estimand, interval and level.

        Raises
        ------
        QuantityError
            For a level outside (0, 1).
        """
        import pandas as pd

        variance, differ = (np.moveaxis(x.values, -1, 0) for x in (self.draws, self.difference()))
        stacked = np.stack([variance, np.sqrt(variance), differ], axis=1)
        index = pd.MultiIndex.from_product([KINDS, _QUANTITIES], names=["noise", "quantity"])
        values = summarise(stacked.reshape(len(index), *variance.shape[1:]), level)
        frame = pd.DataFrame(values, index=index)
        frame.attrs.update(stated(self, f"three noises of {self.estimand}", level))
        return frame

    def table(self, level: float = 0.95) -> Table:
        """The table that is printed."""
        import pandas as pd

        frame = self.summary(level)
        differ = frame.xs("difference", level="quantity")
        shown = pd.DataFrame(
            {
                "sd": frame.xs("sd", level="quantity")["mean"],
                "two differ by": differ["mean"],
                "lower": differ["lower"],
                "upper": differ["upper"],
            }
        )
        if self.assumed:
            shown = shown.drop(columns=["lower", "upper"])
        form = "number3" if self.family == GAUSSIAN else "points1"
        return Table(
            frame=shown,
            title=f"Three noises of {self.estimand}",
            scale=self.scale,
            level=None if self.assumed else level,
            notes=(*self._sentences(), *self.notes),
            formats=dict.fromkeys(shown.columns, form),
        )

    def _sentences(self) -> tuple[str, ...]:
        show = number if self.family == GAUSSIAN else points
        sizes = {k: show(float(self.difference().sel(noise=k).mean())) for k in KINDS}
        drawn = listed([plural(f) for f in self.redrawn]) or "the chance of each trial alone"
        tasks = plural(self.tasks)
        differ = "Two such scores differ by up to"
        rerun = f"re-run: {drawn} drawn anew, the same {tasks}. {differ} {sizes['re-run']} (95%)."
        total = f"total: both, everything else the same. {differ} {sizes['total']} (95%)."
        return rerun, f"data: what new {tasks} add.", total


def noises(
    source: Fit | VarianceComponents,
    design: Mapping[str, int] | None = None,
    system: str | None = None,
    tasks: str | None = None,
) -> Noises:
    """Re-run, data and total noise of a reported score.

    Parameters
    ----------
    source : Fit or VarianceComponents
    design : mapping of str to int, optional
        As for `variance_budget`; by default the design as collected.
    system : str, optional
        As for `variance_budget`.
    tasks : str, optional
        The facet that new data are new levels of, with what is nested in it; by default the
        sampled legitimate facet that a re-run keeps and that has the most levels.

    Returns
    -------
    Noises

    Raises
    ------
    QuantityError
        As `variance_budget`, and for `tasks` that are not sampled or drawn anew by a re-run.

    Notes
    -----
    Re-run noise: every facet but rollouts, and what is nested in them, is pinned. Total noise:
    every facet but tasks and rollouts. Data noise: total minus re-run. "Up to x": ``x = 1.96
    sqrt(2 Var)``. (The decomposition of arXiv 2512.21326, for any design.)

    Examples
    --------
    >>> import gstudy as gs
    >>> study = gs.Study(score="passed", facets=[gs.Facet("task", role="legitimate")])
    >>> vc = gs.assume(study, {"task": 0.1, "residual": 0.14}, mean=0.6)
    >>> found = gs.noises(vc, {"task": 50})
    >>> [round(float(v), 4) for v in found.draws.values.ravel()]
    [0.0028, 0.002, 0.0048]
    """
    basis = basis_of(source)
    refuse_shared(basis, system, "re-run and data noise")
    parts = decompositions(basis, SCORE, system)
    structure = next(iter(parts.values())).structure
    facet = _tasks(basis, structure, design, tasks)
    moving = frozenset(f for f in structure.order if facet in close({f}, structure.nesting))
    rerun = variance_drawing(basis, parts, design, structure.redrawn)
    total = variance_drawing(basis, parts, design, structure.redrawn | moving)
    draws = _labelled(rerun, total)
    return Noises(
        draws=draws,
        estimand=reported_score(
            basis, parts, design, claim_of(basis.study, structure, design=design)
        ),
        tasks=facet,
        redrawn=tuple(f for f in structure.order if f in structure.redrawn),
        notes=(
            *basis.stamp(labelled(total)),
            *_bound_notes(basis, structure),
            *component_notes(basis, parts),
        ),
        assumed=basis.assumed,
        family=basis.study.family,
    )


def _labelled(rerun: Array, total: Array) -> xr.DataArray:
    # Rounding may leave the difference of equal variances below zero.
    values = np.stack([rerun, np.maximum(total - rerun, 0.0), total])
    return labelled(values, list(KINDS)).rename(component="noise")


def _bound_notes(basis: Basis, structure: Structure) -> tuple[str, ...]:
    bound = inseparable(basis, structure)
    if not bound:
        return ()
    note = (
        f"Re-run noise is an upper bound, data noise a lower one: the data cannot tell "
        f"{', '.join(bound)} from what a re-run draws anew."
    )
    return (note,)


def _tasks(
    basis: Basis, structure: Structure, design: Mapping[str, int] | None, asked: str | None
) -> str:
    """The facet that new data are new levels of."""
    free = [f for f in structure.facets if f != structure.object and f not in structure.redrawn]
    if asked is not None:
        if asked not in free:
            raise QuantityError(
                explain(
                    f"data noise cannot be of new levels of {asked!r}",
                    allowed=free,
                    do=did_you_mean(str(asked), free)
                    or "Name a facet that is sampled and that a re-run keeps.",
                )
            )
        return asked
    claimed = [f for f in free if structure.roles[f] == "legitimate"]
    if not claimed:
        raise QuantityError(
            explain(
                "there is no data noise: no legitimate facet was sampled that a re-run keeps",
                allowed="tasks=<facet> of another role" if free else "studies with tasks",
                do="Ask for gs.rerun_noise instead.",
            )
        )
    counts = _n_levels(basis, structure, design)
    return max(claimed, key=lambda facet: counts[facet])


def _n_levels(
    basis: Basis, structure: Structure, design: Mapping[str, int] | None
) -> dict[str, float]:
    """Levels of each sampled facet, parents told apart."""
    counts = {}
    given = {} if design is None else read_design(structure, design)
    for facet in structure.facets:
        known = close({facet}, structure.nesting)
        if design is None and basis.cells is not None:
            columns = [i for i, f in enumerate(basis.cells.facets) if f in known]
            counts[facet] = float(split(basis.cells.codes, columns).n_levels)
        else:
            counts[facet] = float(np.prod([given.get(f, 1) for f in known]))
    return counts
