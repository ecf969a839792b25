"""Variance between levels of an object of measurement, and error variance of their scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from gstudy.errors import QuantityError, did_you_mean, explain
from gstudy.study.index_sets import close
from gstudy.variance.claims import Claim, claim_of
from gstudy.variance.contributions import total_error, universe_variance
from gstudy.variance.decomposition import Decomposition, decompositions, population, scale_of
from gstudy.variance.draws import Array
from gstudy.variance.weights import Weights, weights_within

if TYPE_CHECKING:
    from gstudy.variance.basis import Basis

__all__ = ["Population", "object_part", "population_of"]


@dataclass(frozen=True, slots=True, eq=False)
class Population:
    """Levels of an object and the design that measures each of them.

    Parameters
    ----------
    part : Decomposition
        Over the population of the object.
    weights : Weights
        Within a level of the object.
    claim : Claim
    between : array (chain, draw)
        Variance of the universe scores of the object's levels.
    finite : bool
        Whether `between` is that of the fitted levels, not of a population.
    """

    part: Decomposition
    weights: Weights
    claim: Claim
    between: Array
    finite: bool = False

    @property
    def object(self) -> str:
        """The facet that is measured."""
        return self.part.structure.object or ""

    def error(self, *, relative: bool) -> Array:
        """Absolute or relative error variance of a score, (chain, draw).

        Parameters
        ----------
        relative : bool
            Leave out the sets without the object, which move all of its levels alike.
        """
        return total_error(self.part, self.weights, relative=relative)


def population_of(
    basis: Basis,
    design: Mapping[str, int] | None,
    *,
    scale: str,
    chosen: str | None,
    pin: Sequence[str] | None,
    finite: bool = False,
) -> Population:
    """The population of the object, with the weights within a level.

    Parameters
    ----------
    basis : Basis
    design : mapping of str to int, or None
    scale : {"score", "logit"}
    chosen : str or None
        Facet that is measured, by default the study's own.
    pin : sequence of str or None
        Facets whose levels stay.
    finite : bool
        Compare the fitted levels of the object with one another, not a population.

    Returns
    -------
    Population

    Raises
    ------
    QuantityError
        For a facet that cannot be the object, and a design or pin that is not usable.
    """
    part = object_part(basis, scale, chosen)
    measured = part.structure.object or ""
    claim = claim_of(basis.study, part.structure, pin, design)
    weights = weights_within(
        part.structure,
        part.sets,
        measured,
        design=design,
        cells=basis.cells,
        claim=claim,
        controlled=part.controlled,
    )[None]
    own = part.inside(part.structure.object_set)
    if finite:
        own = _among_fitted(basis, scale, measured)
    between = own + universe_variance(part, weights)
    return Population(part, weights, claim, between, finite)


def object_part(basis: Basis, scale: str, chosen: str | None) -> Decomposition:
    """The decomposition over the population of the facet that is measured.

    Raises
    ------
    QuantityError
        For a facet that cannot be the object, and components of one system alone.
    """
    scale_of(scale)
    if basis.system not in (None, "new"):
        raise QuantityError(
            explain(
                f"this source is of {basis.system!r} alone, and coefficients compare levels",
                do="Pass the fit, or components of all systems.",
            )
        )
    measured = _object(basis, chosen)
    if basis.latent is None:
        part = decompositions(basis, scale, "new")[None]
    else:
        part = population(basis.latent, scale)
    return replace(part, structure=replace(part.structure, object=measured))


def _among_fitted(basis: Basis, scale: str, measured: str) -> Array:
    """Variance, divisor K - 1, of the means of the K fitted levels of the object."""
    known = {} if basis.latent is None else basis.latent.object_effects
    if measured != basis.study.object or len(known) < 2:
        raise QuantityError(
            explain(
                f"the variance among the fitted levels of {measured!r} needs their own scores",
                given=f"{len(known)} with an effect of their own",
                allowed=f"a fit of at least two levels of the study's object, "
                f"{basis.study.object!r}",
                do="Leave finite out for the variance over a population.",
            )
        )
    means = [part.mean for part in decompositions(basis, scale, None).values()]
    return np.asarray(np.var(means, axis=0, ddof=1))


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
        _refuse_object(name, structure.facets, "it has no component")
    parents = close({name}, structure.nesting) & frozenset(structure.facets) - {name}
    if parents:
        crossed = [f for f in structure.facets if close({f}, structure.nesting) == {f}]
        _refuse_object(name, crossed, f"it is nested in {', '.join(sorted(parents))}")
    return name


def _refuse_object(name: str, allowed: Sequence[str], why: str) -> None:
    raise QuantityError(
        explain(
            f"{name!r} cannot be the object: {why}",
            allowed=allowed,
            do=did_you_mean(name, allowed),
        )
    )
