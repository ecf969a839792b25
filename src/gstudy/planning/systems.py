"""Several systems under one design: how their scores vary together, fitted ones or new ones."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from gstudy._words import plural
from gstudy.errors import QuantityError, did_you_mean, explain
from gstudy.planning.rankings import Right, exchangeable, of_systems
from gstudy.variance.decomposition import SCORE, decompose
from gstudy.variance.error_variance import population_of
from gstudy.variance.pairs import comparable, cross_components, shared_factors, system_weights

if TYPE_CHECKING:
    from gstudy.study.index_sets import IndexSet
    from gstudy.variance.basis import Basis
    from gstudy.variance.decomposition import Decomposition
    from gstudy.variance.draws import Array
    from gstudy.variance.latent import Latent
    from gstudy.variance.weights import Factor, Weights

__all__ = ["Contest", "GivenSystems", "JointScores", "NewSystems", "Systems", "systems_of"]

# All pairs of more take minutes and gigabytes.
_MOST_GIVEN = 40


@dataclass(frozen=True, slots=True, eq=False)
class JointScores:
    """Reported scores of several systems under one design, over its draws.

    Parameters
    ----------
    means : array (n_systems, n_draws)
        Expected scores.
    errors : array (n_systems, n_systems, n_draws)
        Covariances of what the reported scores are off by.
    universe : array (n_systems, n_systems, n_draws)
        Covariances of the universe scores: what a finite or pinned bank moves them by, of new
        systems their own variance too.
    """

    means: Array
    errors: Array
    universe: Array

    def difference(self, one: int, two: int, *, shared: bool = True) -> Array:
        """Variance of the error of a difference, (n_draws,).

        Parameters
        ----------
        one, two : int
        shared : bool
            On the same tasks; otherwise each system has levels of its own.
        """
        own = self.errors[one, one] + self.errors[two, two]
        return np.asarray(own - 2 * self.errors[one, two] if shared else own)


@dataclass(frozen=True, slots=True, eq=False)
class Contest:
    """What a design tells about differences and the order of systems.

    Parameters
    ----------
    shared, separate : array (n_draws,)
        Variance of a difference of two on shared levels, and on levels of their own.
    right : Right
    """

    shared: Array
    separate: Array
    right: Right


class Systems(Protocol):
    """Systems whose scores are compared."""

    @property
    def words(self) -> str:
        """Which ones, in words."""

    def contest(self, design: Mapping[str, Any] | None, seed: int = 0) -> Contest:
        """How they compare under a design, or as collected."""


class GivenSystems:
    """Fitted systems, by label.

    Parameters
    ----------
    basis : Basis
    labels : sequence of str
        Two or more.
    compared : tuple of str, optional
        The two of the difference; by default the mean over all pairs.

    Raises
    ------
    QuantityError
        For labels that were not fitted or are the same, and for more systems than can be compared
        pair by pair.
    """

    def __init__(
        self, basis: Basis, labels: Sequence[str], compared: tuple[str, str] | None = None
    ) -> None:
        if len(labels) > _MOST_GIVEN:
            raise QuantityError(
                explain(
                    f"{len(labels)} systems are too many to compare pair by pair",
                    allowed=f"up to {_MOST_GIVEN}",
                    do="Name those that matter: systems=['A', 'B', 'C'].",
                )
            )
        self.basis, self.compared = basis, compared
        self.labels = [*dict.fromkeys([*labels, *(compared or ())])]
        self._ranked = len(dict.fromkeys(labels))
        self.latent = _comparable(basis, self.labels)
        if compared is not None:
            comparable(basis, *compared)
        self._parts = [decompose(self.latent.given(label), SCORE) for label in self.labels]
        # They depend on no design.
        self._crossed = {
            pair: cross_components(self.latent, *(self.labels[i] for i in pair))
            for pair in itertools.combinations(range(len(self.labels)), 2)
        }

    @property
    def words(self) -> str:
        """Which systems, in words."""
        name = plural(self.latent.object or "system")
        ranked = self.labels[: self._ranked]
        many = f"the {len(ranked)} {name}" if len(ranked) > 2 else f"{name} {' and '.join(ranked)}"
        if self.compared is None or set(self.compared) == set(ranked):
            return many if len(ranked) == 2 else f"{many}, all pairs"
        return f"difference of {name} {' and '.join(self.compared)}, ranking of {many}"

    def joint(self, design: Mapping[str, Any] | None) -> JointScores:
        """The scores under a design, or as collected."""
        weights = system_weights(self.basis, self._parts[0], self.labels, design)
        means = np.stack([part.mean.ravel() for part in self._parts])
        errors, universe = np.zeros((2, len(means), *means.shape))
        for i, (part, own) in enumerate(zip(self._parts, weights, strict=True)):
            errors[i, i], universe[i, i] = _own_variances(part, own)
        for (i, j), (sets, values) in self._crossed.items():
            factors = self._factors((i, j), sets, weights[i], design)
            for (error, bank), value in zip(factors, values, strict=True):
                errors[i, j] += _times(error, value)
                universe[i, j] += _times(bank, value)
            errors[j, i], universe[j, i] = errors[i, j], universe[i, j]
        return JointScores(means, errors, universe)

    def contest(self, design: Mapping[str, Any] | None, seed: int = 0) -> Contest:
        """The difference of the two that are compared, or the mean over all pairs; the order of
        those that were named for the ranking."""
        joint, n = self.joint(design), self._ranked
        pairs = list(itertools.combinations(range(n), 2))
        if self.compared is not None:
            one, two = (self.labels.index(label) for label in self.compared)
            pairs = [(one, two)]
        shared, separate = (
            np.mean([joint.difference(i, j, shared=on) for i, j in pairs], axis=0)
            for on in (True, False)
        )
        right = of_systems(joint.means[:n], joint.errors[:n, :n], joint.universe[:n, :n], seed)
        return Contest(shared, separate, right)

    def _factors(
        self,
        pair: tuple[int, int],
        sets: Sequence[IndexSet],
        weights: Weights,
        design: Mapping[str, Any] | None,
    ) -> list[tuple[Factor, Factor]]:
        """Of each set what v12 counts with in the errors, and in the universe scores."""
        if design is None:
            labels = (self.labels[pair[0]], self.labels[pair[1]])
            return list(shared_factors(self.basis, self.latent, labels, sets))
        # Of fresh judges the two share none, but the bank that they come from.
        return [(weights.crossed(s), weights.claimed(s, None)) for s in sets]


class NewSystems:
    """Systems drawn from the population that the source is of.

    Parameters
    ----------
    basis : Basis
    number : int
        2 or more.

    Raises
    ------
    QuantityError
        Where there is no population of systems.
    """

    def __init__(self, basis: Basis, number: int) -> None:
        self.basis, self.number = basis, number

    @property
    def words(self) -> str:
        """Which systems, in words."""
        name = plural(self.basis.study.object or "system")
        return f"{self.number} new {name} of the population"

    def contest(self, design: Mapping[str, Any] | None, seed: int = 0) -> Contest:
        """Twice the relative and the absolute error variance; the order from E rho^2 alone."""
        found = population_of(self.basis, design, scale=SCORE, chosen=None, pin=None)
        relative, absolute = (found.error(relative=kind).ravel() for kind in (True, False))
        between = found.between.ravel()
        whole = between + relative
        # Without any variance all systems are tied.
        reliability = np.divide(between, whole, out=np.zeros_like(whole), where=whole > 0)
        return Contest(2 * relative, 2 * absolute, exchangeable(reliability, self.number, seed))


def systems_of(basis: Basis, systems: object, compared: object) -> GivenSystems | NewSystems:
    """The systems that are compared.

    Parameters
    ----------
    basis : Basis
    systems : int, sequence of str, or None
        So many of the population; labels of fitted ones; None: all fitted ones, or where fewer
        than two were, two of the population.
    compared : tuple of str, or None
        The two fitted ones whose difference is meant.

    Returns
    -------
    GivenSystems or NewSystems

    Raises
    ------
    QuantityError
        For systems that are not usable or not there.
    """
    pair = _pair(compared)
    known = [] if basis.latent is None else list(basis.latent.object_effects)
    if systems is None:
        if pair is None and len(known) < 2:
            return NewSystems(basis, 2)
        return GivenSystems(basis, known if len(known) > 1 else list(pair or ()), pair)
    if isinstance(systems, int | np.integer) and not isinstance(systems, bool):
        if pair is not None or systems < 2:
            _refuse(systems, "compared names fitted systems" if pair else None)
        return NewSystems(basis, int(cast("int", systems)))
    if isinstance(systems, str) or not isinstance(systems, Sequence) or len(set(systems)) < 2:
        _refuse(systems)
    labels = list(cast("Sequence[str]", systems))
    return GivenSystems(basis, labels, pair)


def _refuse(systems: object, why: str | None = None) -> None:
    raise QuantityError(
        explain(
            "the systems to compare are not usable",
            given=systems,
            allowed="a whole number from 2 on (of the population), or labels of fitted ones",
            do=f"{why[0].upper()}{why[1:]}: leave one of the two out." if why else None,
        )
    )


def _pair(compared: object) -> tuple[str, str] | None:
    if compared is None:
        return None
    usable = isinstance(compared, Sequence) and not isinstance(compared, str)
    if not usable or len(cast("Sequence[str]", compared)) != 2:
        raise QuantityError(
            explain("compared is no pair of systems", given=compared, allowed="such as ('A', 'B')")
        )
    one, two = cast("Sequence[str]", compared)
    return one, two


def _comparable(basis: Basis, labels: Sequence[str]) -> Latent:
    """The latent draws of fitted systems, each of them known and no two the same."""
    if basis.system is not None:
        raise QuantityError(
            explain(
                f"this source is of {basis.system!r} alone, and two systems are compared",
                do="Pass the fit, or components of all systems.",
            )
        )
    first = comparable(basis, labels[0], labels[1])
    for label in labels[2:]:
        if label not in first.object_effects:
            known = list(first.object_effects)
            raise QuantityError(
                explain(
                    f"no {first.object} is called {label!r}",
                    allowed=known,
                    do=did_you_mean(str(label), known),
                )
            )
    return first


def _own_variances(part: Decomposition, weights: Weights) -> tuple[Array, Array]:
    """Variance of one system's error, and of its universe score; (n_draws,) each."""
    if part.levels is None:
        values, noise = part.unique[:, None, None], part.noise * weights.noise
    else:
        values, noise = part.levels.unique, np.tensordot(weights.noise, part.levels.noise, axes=1)
    error, universe = noise.ravel(), np.zeros(noise.size)
    for index_set, value in zip(part.sets, values, strict=True):
        bank = weights.claimed(index_set, None)
        error = error + _times(weights.of(index_set, None) - bank, value)
        universe = universe + _times(bank, value)
    return error, universe


def _times(factor: Factor, values: Array) -> Array:
    """A factor by controlled levels times values (n_levels, n_levels, chain, draw), summed."""
    matrix = np.broadcast_to(np.atleast_2d(factor), values.shape[:2])
    return np.asarray(np.tensordot(matrix, values, axes=2)).ravel()
