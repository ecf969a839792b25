"""Assumed components beside estimated ones: what replaces or joins them, in every draw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from gstudy.errors import QuantityError, explain
from gstudy.study.index_sets import IndexSet, Rule, close
from gstudy.variance.assumptions import assumed_sets
from gstudy.variance.basis import Basis, basis_of, latent_of
from gstudy.variance.decomposition import LOGIT, SCORE, Decomposition, decompositions
from gstudy.variance.structure import RESIDUAL

if TYPE_CHECKING:
    from gstudy.fits.fitted import Fit
    from gstudy.study.declaration import Study
    from gstudy.variance.components import VarianceComponents
    from gstudy.variance.latent import Latent
    from gstudy.variance.structure import Structure

__all__ = ["mixed_basis"]


def mixed_basis(
    study: Study,
    components: Mapping[str, float],
    scale: str,
    base: Fit | VarianceComponents,
) -> Basis:
    """The basis of estimated components, some of them replaced by assumed ones.

    Parameters
    ----------
    study : Study
        That of the base.
    components : mapping of str to float
        Checked variances.
    scale : {"score", "logit"}
    base : Fit or VarianceComponents

    Returns
    -------
    Basis
        Logit scale: latent draws; score scale: one decomposition, of a new system where the base
        knows several.

    Raises
    ------
    QuantityError
        For a base of another study or without that scale, and for a component that the base has
        merged with another or has own sds of.
    """
    basis = basis_of(base)
    if basis.study != study:
        raise QuantityError(
            explain(
                "the base is of another study",
                given=basis.study,
                allowed="components or a fit of the study that is given",
                do="Pass the study of the base: fit.study.",
            )
        )
    sets = assumed_sets(study, components, basis.structure.controlled)
    named = {facet for name in components if name != RESIDUAL for facet in _parts(name)}
    structure = _with_facets(basis.structure, named)
    if scale == LOGIT:
        latent = replace(latent_of(base), structure=structure)
        for whole, value in sets.items():
            latent = _with_variance(latent, whole, value)
        mixed = replace(basis, structure=latent.structure, latent=latent)
    else:
        score = _with_rows(basis, named, sets, components.get(RESIDUAL))
        mixed = replace(basis, structure=score.structure, latent=None, score=score)
    return _marked(mixed, basis, sets, components)


def _marked(
    mixed: Basis, basis: Basis, sets: Mapping[IndexSet, float], components: Mapping[str, float]
) -> Basis:
    """The mixed basis with its notes, and without a design as collected that it cannot have."""
    names = {basis.study.name_of(whole) for whole in sets}
    told_apart = frozenset().union(*sets) & frozenset(basis.structure.absorbed)
    listed = ", ".join(f"{name} {value:g}" for name, value in components.items())
    scale = SCORE if mixed.latent is None else LOGIT
    note = f"Assumed, not estimated: {listed} (variances, {scale} scale)."
    residual = [frozenset({RESIDUAL})] if RESIDUAL in components else []
    return replace(
        mixed,
        # Trials do not show the levels of a facet that was inside the residual.
        cells=None if told_apart else basis.cells,
        prior_only=tuple(name for name in basis.prior_only if name not in names),
        notes=(*basis.notes, *([] if basis.assumed else [note])),
        replaced=() if basis.assumed else (*basis.replaced, *sets, *residual),
    )


def _parts(name: str) -> list[str]:
    return [part.strip() for part in name.split(":")]


def _with_facets(structure: Structure, named: set[str]) -> Structure:
    """The structure with these facets sampled, whatever the base knew of them."""
    known = {*structure.facets, *named} - structure.pinned - structure.given
    facets = tuple(facet for facet in structure.order if facet in known)
    new = frozenset(facets) - frozenset(structure.facets)
    members = frozenset(facets)
    rules: list[Rule] = [
        (trigger, whole & members) for trigger, whole in structure.nesting if trigger & new
    ]
    # The object is measured wherever it has a component.
    measured = [facet for facet in new if structure.roles[facet] == "object"]
    return replace(
        structure,
        facets=facets,
        rules=(*structure.rules, *(rule for rule in rules if not rule[1] <= rule[0])),
        object=measured[0] if measured else structure.object,
        absorbed=tuple(facet for facet in structure.absorbed if facet not in new),
        not_sampled={f: label for f, label in structure.not_sampled.items() if f not in new},
    )


def _own_set(structure: Structure, whole: IndexSet) -> IndexSet:
    """The index set of a component among the sampled facets."""
    return close(whole & frozenset(structure.facets), structure.rules)


def _join(structure: Structure, own: IndexSet, whole: IndexSet, *, known: bool) -> Structure:
    """The structure that knows of a component, refused where it is merged with another."""
    parts = structure.merged.get(own, ())
    held = structure.controlled
    same = [part for part in parts if bool(part & held) == bool(whole & held)]
    if known and len(same) > 1:
        raise QuantityError(
            explain(
                f"{structure.name(own)!r} is one component of the base: its parts cannot be "
                "replaced one by one",
                given=sorted(whole),
                do="Assume all components, or take a base that tells them apart.",
            )
        )
    if known:
        return structure
    stands_for = whole - (structure.pinned - held)
    return replace(structure, merged={**structure.merged, own: (*parts, stands_for)})


def _with_variance(latent: Latent, whole: IndexSet, value: float) -> Latent:
    """The latent draws with the variance of one component set to a value."""
    structure = latent.structure
    own, held = _own_set(structure, whole), whole & structure.controlled
    for varying in latent.own:
        if varying.index_set == own - structure.object_set and varying.held == held:
            raise QuantityError(
                explain(
                    f"{structure.name(own)!r} has an sd of its own for each "
                    f"{structure.object} in the base, and cannot be replaced by one value",
                    given=value,
                    do="Take a base with shared sds.",
                )
            )
    keys = list(zip(latent.sets, latent.held, strict=True))
    known = (own, held) in keys
    structure = _join(structure, own, whole, known=known)
    variance = np.full((1, *latent.mu.shape), float(value))
    if known:
        place = keys.index((own, held))
        variances = latent.variances.copy()
        variances[place] = variance[0]
        return replace(latent, structure=structure, variances=variances)
    return replace(
        latent,
        structure=structure,
        sets=(*latent.sets, own),
        variances=np.concatenate([latent.variances, variance]),
        held=(*latent.held, held),
    )


def _with_rows(
    basis: Basis, named: set[str], sets: Mapping[IndexSet, float], noise: float | None
) -> Decomposition:
    """The score-scale decomposition of the base with some rows set to a value."""
    part = _one_decomposition(basis)
    structure = _with_facets(part.structure, named)
    rows = dict(zip(part.sets, part.unique, strict=True))
    for whole, value in sets.items():
        if whole & structure.given:
            raise QuantityError(
                explain(
                    f"{basis.study.name_of(whole)!r} is no row of one given system: it is part of "
                    f"{structure.name(whole - structure.given)!r}",
                    do="Assume that row, or take a base of all systems.",
                )
            )
        own = _own_set(structure, whole)
        structure = _join(structure, own, whole, known=own in structure.merged)
        rows[own] = np.full(part.mean.shape, float(value))
    place = {facet: i for i, facet in enumerate(structure.order)}
    order = sorted(rows, key=lambda s: (len(s), sorted(place[facet] for facet in s)))
    return replace(
        part,
        structure=structure,
        sets=tuple(order),
        unique=np.stack([rows[s] for s in order]),
        noise=part.noise if noise is None else np.full(part.mean.shape, float(noise)),
    )


def _one_decomposition(basis: Basis) -> Decomposition:
    """The decomposition of the base on the score scale, of a new system where it knows several."""
    new = basis.system is None and basis.structure.object is not None
    part = next(iter(decompositions(basis, SCORE, "new" if new else None).values()))
    if part.levels is not None:
        raise QuantityError(
            explain(
                "score-scale components cannot be replaced where they differ between the levels of "
                "a controlled facet",
                given=part.structure.name(part.sets[0]) if part.sets else None,
                do="Assume variances on the logit scale: scale='logit'.",
            )
        )
    return part
