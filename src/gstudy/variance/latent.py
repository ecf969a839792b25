"""Logit-scale draws of a source: means, variances of components, effects of given systems."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from gstudy.errors import QuantityError, did_you_mean, explain
from gstudy.study.index_sets import IndexSet, Rule
from gstudy.variance.draws import Array
from gstudy.variance.structure import Structure

if TYPE_CHECKING:
    from gstudy.fits.fitted import Fit

__all__ = ["Latent", "find_level", "latent_of_fit"]


@dataclass(frozen=True, slots=True, eq=False)
class Latent:
    """Draws of ``logit p = mu + sum_c u_c``, ``u_c ~ Normal(0, variance_c)``.

    Parameters
    ----------
    structure : Structure
    mu : array (chain, draw)
        Logit scale.
    sets : tuple of frozenset of str
        Index set of each component.
    variances : array (n_components, chain, draw)
        Logit scale.
    object_effects : mapping of str to array (chain, draw)
        Label of each fitted level of the object to its effect on the logit scale.
    """

    structure: Structure
    mu: Array
    sets: tuple[IndexSet, ...]
    variances: Array
    object_effects: Mapping[str, Array] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the components."""
        return tuple(self.structure.name(index_set) for index_set in self.sets)

    @property
    def facets(self) -> tuple[str, ...]:
        """Sampled facets in declared order."""
        return self.structure.facets

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Nesting and merging between the sampled facets."""
        return self.structure.rules

    @property
    def object(self) -> str | None:
        """The facet that is measured, if it is sampled and none of its levels is given."""
        return self.structure.object

    @property
    def roles(self) -> Mapping[str, str]:
        """Role of each facet."""
        return self.structure.roles

    def inside(self, index_set: IndexSet) -> Array:
        """Sum of the variances of the components inside a set, S_A; (chain, draw)."""
        inside = np.array([component <= index_set for component in self.sets], dtype=float)
        return np.asarray(np.tensordot(inside, self.variances, axes=1))

    def given(self, level: str) -> Latent:
        """The latent draws of one given level of the object.

        Its effect enters the mean. Every index set loses the object, and the variances of sets
        that become equal add: of a given system the task variance is task + system:task.

        Raises
        ------
        QuantityError
            For a level that was not fitted.
        """
        label = find_level(level, self.object_effects, self.object)
        structure = self.structure.without_object()
        gone = self.structure.object_set
        summed: dict[IndexSet, Array] = {}
        for index_set, variance in zip(self.sets, self.variances, strict=True):
            # The object's own component is its known effect: no variance is left of it.
            if index_set != gone:
                own = index_set - gone
                summed[own] = summed[own] + variance if own in summed else variance
        return replace(
            self,
            structure=structure,
            mu=self.mu + self.object_effects[label],
            sets=tuple(summed),
            variances=np.stack(list(summed.values())) if summed else self.variances[:0],
            object_effects={},
        )


def find_level(level: object, known: Mapping[str, object], facet: str | None) -> str:
    """The label of a fitted level.

    Raises
    ------
    QuantityError
        When there is no such level.
    """
    if isinstance(level, str) and level in known:
        return level
    if not known:
        raise QuantityError(
            explain(
                f"no level of an object was fitted, so that {level!r} cannot be given",
                do="Leave system out.",
            )
        )
    labels = list(known)
    more = f" and {len(labels) - 12} more" if len(labels) > 12 else ""
    raise QuantityError(
        explain(
            f"no level of {facet or 'the object'} is called {level!r}",
            allowed=f"'new', {', '.join(labels[:12])}{more}",
            do=did_you_mean(str(level), [*labels, "new"]),
        )
    )


def latent_of_fit(fit: Fit, structure: Structure) -> Latent:
    """The latent draws of a fit.

    Parameters
    ----------
    fit : Fit
    structure : Structure
        Of the same fit.

    Returns
    -------
    Latent
    """
    components = fit.design.components
    shape = fit.mu.shape
    variances = [fit.sd(component.name) ** 2 for component in components]
    return Latent(
        structure=structure,
        mu=fit.mu,
        sets=tuple(component.facets for component in components),
        variances=np.stack(variances) if variances else np.zeros((0, *shape)),
        object_effects=_object_effects(fit, structure.object),
    )


def _object_effects(fit: Fit, object_facet: str | None) -> dict[str, Array]:
    """Effects of the levels of the object; of an object with one level, zero."""
    design = fit.design
    if object_facet is None:
        label = design.not_sampled.get(fit.study.object or "")
        return {} if label is None else {label: np.zeros(fit.mu.shape)}
    own = frozenset({object_facet})
    cells = design.cells
    for i, component in enumerate(design.components):
        if own in component.merged:
            effects = fit.effects(component.name).values
            facets = [facet for facet in cells.facets if facet in component.facets]
            codes = cells.levels[i][:, facets.index(object_facet)]
            labels = cells.labels[object_facet]
            return {labels[code]: effects[..., k] for k, code in enumerate(codes)}
    return {}
