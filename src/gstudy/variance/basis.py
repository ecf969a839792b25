"""What a measuring function is given: a fit, or components, brought to one form."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gstudy.errors import QuantityError, explain
from gstudy.fits.substitutes import advice_on
from gstudy.study.index_sets import IndexSet, close
from gstudy.variance.decomposition import Decomposition
from gstudy.variance.fitted_latent import latent_of_fit
from gstudy.variance.latent import Latent
from gstudy.variance.remembered import remembered
from gstudy.variance.structure import Structure, without_facets

if TYPE_CHECKING:
    import xarray as xr

    from gstudy.fits.fitted import Fit
    from gstudy.fits.gates import Diagnostics
    from gstudy.study.assessment import Assessment
    from gstudy.study.cells import Cells
    from gstudy.study.declaration import Study
    from gstudy.variance.components import VarianceComponents

__all__ = [
    "PRIOR_ONLY",
    "Basis",
    "basis_of",
    "latent_of",
    "structure_of_design",
    "structure_of_study",
]


PRIOR_ONLY = "prior only, the data do not inform it."


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Basis:
    """Everything that derived quantities are computed from.

    Parameters
    ----------
    study : Study
    structure : Structure
    latent : Latent or None
        Logit-scale draws; None when score-scale components were assumed.
    score : Decomposition or None
        Assumed score-scale components.
    cells : Cells or None
        The design as collected; None for assumed components.
    system : str or None
        The level of the object that the source was restricted to, or "new".
    prior_only : tuple of str
        Components that were kept although the data do not inform them.
    notes : tuple of str
        What every table from this source must say.
    diagnostics : Diagnostics or None
        The sampler's gates, of a fit.
    replaced : tuple of frozenset of str
        Index sets whose variances were assumed beside estimated ones; the residual is a set of
        that name.
    prior : bool
        Whether the draws are those of the priors alone.
    """

    study: Study
    structure: Structure
    latent: Latent | None
    score: Decomposition | None
    cells: Cells | None
    system: str | None = None
    prior_only: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    diagnostics: Diagnostics | None = None
    replaced: tuple[IndexSet, ...] = ()
    prior: bool = False

    @property
    def assumed(self) -> bool:
        """Whether all components were assumed, not estimated."""
        return self.cells is None and self.diagnostics is None and not self.prior

    @property
    def remark(self) -> str:
        """Stands behind an estimand: where components come from that no trial informs."""
        if self.assumed:
            return " (assumed components)"
        partly = "partly assumed" if self.replaced else ""
        words = [*(["priors alone"] if self.prior else []), *([partly] if partly else [])]
        return f" ({', '.join(words)})" if words else ""

    @property
    def origin(self) -> str:
        """Where variances come from that were not assumed."""
        return "prior" if self.prior else "estimated"

    def source(self, index_set: IndexSet, structure: Structure) -> str:
        """Whether the row of a set is "assumed", "partly assumed", "estimated" or "prior"."""
        parts = structure.contents(index_set)
        known = {close(part, structure.nesting) for part in parts}
        assumed = known & set(self.replaced)
        return self.origin if not assumed else "assumed" if assumed == known else "partly assumed"

    @property
    def prior_only_notes(self) -> tuple[str, ...]:
        """A sentence per component that was kept although the data do not inform it."""
        return tuple(f"{name}: {PRIOR_ONLY}" for name in self.prior_only)

    def stamp(self, draws: xr.DataArray) -> tuple[str, ...]:
        """The note that these draws must carry when they or their fit fail a gate, else none."""
        if self.diagnostics is None:
            return ()
        from gstudy.fits.gates import stamp

        note = stamp(draws, self.diagnostics)
        return () if note is None else (note,)


def basis_of(source: Fit | VarianceComponents) -> Basis:
    """The basis of a fit or of components.

    Raises
    ------
    QuantityError
        For anything else.
    """
    from gstudy.fits.fitted import Fit

    known = getattr(source, "basis", None)
    if isinstance(known, Basis):
        return known
    if isinstance(source, Fit):
        return remembered(source, "basis", _basis_of_fit)
    raise QuantityError(
        explain(
            "a fit or variance components are needed",
            given=type(source).__name__,
            allowed="what gs.fit, gs.load, gs.variance_components and gs.assume return",
            do=advice_on(source),
        )
    )


def latent_of(source: Fit | VarianceComponents) -> Latent:
    """The logit-scale draws of a source.

    Raises
    ------
    QuantityError
        For components that were assumed on the score scale: they have none.
    """
    latent = basis_of(source).latent
    if latent is None:
        raise QuantityError(
            explain(
                "components assumed on the score scale have no logit scale",
                do="Assume variances on the logit scale: gs.assume(..., mu=, scale='logit').",
            )
        )
    return latent


def structure_of_study(
    study: Study,
    components: Iterable[IndexSet],
    *,
    effects: bool = False,
    held: IndexSet = frozenset(),
) -> Structure:
    """The structure of assumed components: facets crossed and nested as declared, none merged.

    Parameters
    ----------
    study : Study
    components : iterable of frozenset of str
        With their controlled facets.
    effects : bool
        Whether effects of levels of the object are given, so that it counts as sampled.
    held : frozenset of str
        Controlled facets with fixed effects.

    Returns
    -------
    Structure
    """
    sets = tuple(components)
    roles = {facet.name: facet.role for facet in study.facets}
    pinned = frozenset(facet for facet, role in roles.items() if role == "controlled")
    used = frozenset[str]().union(*sets) - pinned
    merged: dict[IndexSet, tuple[IndexSet, ...]] = {}
    for index_set in sets:
        own = index_set - pinned
        merged[own] = (*merged.get(own, ()), index_set - (pinned - held))
    return Structure(
        order=study.facet_names,
        facets=tuple(facet for facet in study.facet_names if facet in used),
        nesting=tuple(study.rules),
        rules=without_facets([rule for rule in study.rules if rule[0] <= used], pinned),
        object=study.object if study.object in used or effects else None,
        given=frozenset(),
        roles=roles,
        merged=merged,
        absorbed=tuple(
            facet
            for facet, role in roles.items()
            if role not in ("object", "controlled") and facet not in used
        ),
        not_sampled={},
        redrawn=study.redrawn_on_rerun(),
        counts_trials=study.trials is not None and study.counted is None,
        controlled=held,
    )


def structure_of_design(study: Study, design: Assessment) -> Structure:
    """The structure of what was collected, which a fit of it will have.

    Parameters
    ----------
    study : Study
    design : Assessment
        What `check` found in the trials of that study.

    Returns
    -------
    Structure
    """
    held = frozenset[str]().union(*(component.facets for component in design.fixed))
    sampled = tuple(facet for facet in design.sampled if facet not in held)
    not_sampled = {f: label for f, label in design.not_sampled.items() if f not in sampled}
    merged: dict[IndexSet, tuple[IndexSet, ...]] = {}
    for component in design.components:
        own = component.facets - held
        merged[own] = (*merged.get(own, ()), *component.merged)
    return Structure(
        order=study.facet_names,
        facets=sampled,
        nesting=tuple(study.rules),
        rules=without_facets(design.rules, held),
        object=study.object if study.object in sampled else None,
        given=frozenset(),
        roles={facet.name: facet.role for facet in study.facets},
        merged=merged,
        absorbed=tuple(
            facet.name
            for facet in study.facets
            if facet.role not in ("object", "controlled")
            and facet.name not in (*sampled, *not_sampled)
        ),
        not_sampled=not_sampled,
        redrawn=study.redrawn_on_rerun(),
        counts_trials=study.trials is not None and study.counted is None,
        controlled=held,
    )


def _basis_of_fit(fit: Fit) -> Basis:
    study, design = fit.study, fit.design
    structure = structure_of_design(study, design)
    return Basis(
        study=study,
        structure=structure,
        latent=latent_of_fit(fit, structure),
        score=None,
        cells=design.cells,
        prior_only=tuple(c.name for c in design.components if c.prior_only),
        notes=_coverage_notes(structure),
        diagnostics=fit.diagnostics,
    )


def _coverage_notes(structure: Structure) -> tuple[str, ...]:
    """What was not sampled, and is therefore not covered."""
    return tuple(
        f"Not covered: {facet} was not sampled (one level, {label!r}); its variance is unknown."
        for facet, label in structure.not_sampled.items()
        if structure.roles[facet] != "object"
    )
