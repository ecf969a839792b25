"""Logit-scale draws of a source: means, variances of components, effects of given systems."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from gstudy.errors import QuantityError, did_you_mean, explain
from gstudy.study.index_sets import IndexSet, Rule
from gstudy.variance.controlled import Controlled
from gstudy.variance.draws import Array
from gstudy.variance.remembered import remembered
from gstudy.variance.structure import Structure

__all__ = ["BINARY", "GAUSSIAN", "Latent", "Own", "find_level", "widest"]

BINARY = "binary"
GAUSSIAN = "gaussian"


def widest(family: str) -> float:
    """The largest distance between two scores: a normal interval of pass rates may be wider.

    >>> widest("binary"), widest("gaussian")
    (1.0, inf)
    """
    return float("inf") if family == GAUSSIAN else 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Own:
    """A component of which each level of the object has its own sd.

    Parameters
    ----------
    index_set : frozenset of str
        Without the object and without controlled facets.
    labels : tuple of str
        Levels of the object.
    sds : array (n_labels, chain, draw)
        Scale of the linear predictor.
    correlation : array (n_labels, n_labels, chain, draw), or None
        Between the effects of two levels of the object; None where each effect belongs to one.
    held : frozenset of str
        Controlled facets in its set: effects at levels that differ in one of them are different.
    """

    index_set: IndexSet
    labels: tuple[str, ...]
    sds: Array
    correlation: Array | None = None
    held: IndexSet = frozenset()

    def variance(self, label: str) -> Array:
        """The variance of one level of the object, (chain, draw)."""
        return np.asarray(self.sds[self.labels.index(label)] ** 2)


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Latent:
    """Draws of ``eta = mu + b_l + sum_c u_c``, ``u_c ~ Normal(0, variance_c)``.

    eta is the logit of the pass probability, or the expected graded score.

    Parameters
    ----------
    structure : Structure
    mu : array (chain, draw)
        Scale of the linear predictor, as all that follows.
    sets : tuple of frozenset of str
        Index set of each component, without controlled facets; two components may have equal
        sets and hold other controlled facets.
    variances : array (n_components, chain, draw)
    object_effects : mapping of str to array (chain, draw)
        Label of each fitted level of the object to its effect.
    family : {"binary", "gaussian"}
    noise : array (chain, draw), or None
        Of graded scores the variance of one trial given everything else.
    held : tuple of frozenset of str
        Of each component the controlled facets in its set: its effects at two combinations of
        controlled levels are the same where these agree on them. By default none.
    controlled : Controlled or None
        Levels of controlled facets with their fixed effects b_l; None with one level.
    level_effects : mapping of str to array (n_levels, chain, draw)
        Label of each fitted level of the object to its own effects on the controlled levels.
    level_weights : mapping of str to array (n_levels,)
        Label of each fitted level of the object to the weights of the controlled levels in its own
        reported score.
    own : tuple of Own
        Components of which each level of the object has its own sd; not among `sets`.
    """

    structure: Structure
    mu: Array
    sets: tuple[IndexSet, ...]
    variances: Array
    object_effects: Mapping[str, Array] = field(default_factory=dict)
    family: str = BINARY
    noise: Array | None = None
    held: tuple[IndexSet, ...] = ()
    controlled: Controlled | None = None
    level_effects: Mapping[str, Array] = field(default_factory=dict)
    level_weights: Mapping[str, Array] = field(default_factory=dict)
    own: tuple[Own, ...] = ()

    def __post_init__(self) -> None:
        if not self.held:
            object.__setattr__(self, "held", (frozenset(),) * len(self.sets))

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

    @property
    def total(self) -> Array:
        """Sum of all variances, S; (chain, draw)."""
        return np.asarray(self.variances.sum(axis=0))

    def inside(self, index_set: IndexSet, agreeing: IndexSet | None = None) -> Array:
        """Sum of the variances of the components inside a set, S_A; (chain, draw).

        Parameters
        ----------
        index_set : frozenset of str
        agreeing : frozenset of str, optional
            Controlled facets on which the combinations of two trials agree: components that hold
            another one are not shared. By default they agree on all.
        """
        shared = [
            component <= index_set and (agreeing is None or held <= agreeing)
            for component, held in zip(self.sets, self.held, strict=True)
        ]
        return np.asarray(np.tensordot(np.array(shared, dtype=float), self.variances, axes=1))

    def given(self, level: str, *, own_weights: bool = True) -> Latent:
        """The latent draws of one given level of the object.

        Its effects enter the means, its own sds become variances. Every index set loses the
        object, and the variances of sets that become equal add: of a given system the task
        variance is task + system:task.

        Parameters
        ----------
        level : str
        own_weights : bool
            Whether its controlled levels weigh as in its own score, or as in the average one's,
            which makes two systems comparable.

        Raises
        ------
        QuantityError
            For a level that was not fitted.
        """
        label = find_level(level, self.object_effects, self.object)
        key = ("given", label, own_weights)
        return remembered(self, key, lambda latent: latent._given(label, own_weights))

    def _given(self, label: str, own_weights: bool) -> Latent:
        summed = self._given_variances(label)
        controlled = self.controlled
        if controlled is not None:
            weights = self.level_weights.get(label) if own_weights else None
            controlled = replace(
                controlled,
                offsets=controlled.offsets + self.level_effects.get(label, 0.0),
                weights=controlled.weights if weights is None else weights,
            )
        return replace(
            self,
            structure=self.structure.without_object(),
            mu=self.mu + self.object_effects[label],
            sets=tuple(index_set for index_set, _ in summed),
            variances=np.stack(list(summed.values())) if summed else self.variances[:0],
            object_effects={},
            held=tuple(held for _, held in summed),
            controlled=controlled,
            level_effects={},
            level_weights={},
            own=(),
        )

    def _given_variances(self, label: str) -> dict[tuple[IndexSet, IndexSet], Array]:
        """Variances of one level of the object, by set and the controlled facets held."""
        gone = self.structure.object_set
        parts = [
            # The object's own component is its known effect: no variance is left of it.
            (index_set - gone, held, variance)
            for index_set, held, variance in zip(self.sets, self.held, self.variances, strict=True)
            if index_set != gone
        ]
        parts += [(own.index_set, own.held, own.variance(label)) for own in self.own]
        summed: dict[tuple[IndexSet, IndexSet], Array] = {}
        for index_set, held, variance in parts:
            key = (index_set, held)
            summed[key] = summed[key] + variance if key in summed else variance
        return summed


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
