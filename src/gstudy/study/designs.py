"""A design: how many levels of each facet a study samples, what stays, and who judges what."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from gstudy.errors import QuantityError, did_you_mean, explain

__all__ = ["JUDGES", "TRIALS", "Design"]

JUDGES = ("all", "one", "round robin", "fresh")
"""Ways of assigning judges: every one scores everything; one scores everything; one scores each
unit, in rotation; each unit has a new one."""

TRIALS = "trials"
"""Key for the number of trials of a cell, where they are counted without a facet."""


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class Design(Mapping[str, int]):
    """How many levels of each facet a study samples, within one level of the object.

    A mapping of facets to numbers of levels, so that a dict is shorthand for it wherever a design
    is asked for.

    Parameters
    ----------
    levels : mapping of str to int
        Facet to its number of levels, of a nested facet per combination of its parents;
        "trials" to the trials of a cell where these are counted without a facet.
    pin : list of str
        Facets whose levels stay: the score is claimed for these levels only.
    judges : {"all", "one", "round robin", "fresh"}
        Who judges what: every judge each unit; the same one all of them; one judge a unit, in
        rotation; a new judge for each unit. With "one" and "fresh" the number of judges is left
        out. A unit is what a judge is shown, such as a rollout: one combination of levels of the
        other facets.
    name : str
        What tables call it.

    Raises
    ------
    QuantityError
        For a number of levels that is no whole number from 1 on, an unknown way of judging, and
        a pin or name that is no text.

    Examples
    --------
    >>> import gstudy as gs
    >>> design = gs.Design({"task": 200, "rollout": 4}, pin=["version"], name="bigger")
    >>> design["task"], design.with_levels(task=400)["task"]
    (200, 400)
    >>> design
    Design({'task': 200, 'rollout': 4}, pin=['version'], name='bigger')
    """

    levels: Mapping[str, int]
    pin: tuple[str, ...]
    judges: str
    name: str

    def __init__(
        self,
        levels: Mapping[str, int],
        *,
        pin: Sequence[str] = (),
        judges: str = "all",
        name: str = "",
    ) -> None:
        _check_mapping(levels)
        counts = {_facet(key): _count(key, value) for key, value in levels.items()}
        object.__setattr__(self, "levels", MappingProxyType(counts))
        object.__setattr__(self, "pin", _pin(pin))
        object.__setattr__(self, "judges", _judges(judges))
        object.__setattr__(self, "name", _name(name))

    @classmethod
    def read(cls, value: Mapping[str, int]) -> Design:
        """The design that a mapping is shorthand for; a design is itself.

        Raises
        ------
        QuantityError
            For what is neither, and for a mapping that makes no design.
        """
        return value if isinstance(value, Design) else cls(value)

    def replace(self, **changes: Any) -> Design:
        """The design with other `levels`, `pin`, `judges` or `name`.

        Raises
        ------
        QuantityError
            For another word, and as for a new design.
        """
        known = {"levels": self.levels, "pin": self.pin, "judges": self.judges, "name": self.name}
        for key in changes:
            if key not in known:
                raise QuantityError(
                    explain(
                        f"a design has no {key!r}",
                        allowed=known,
                        do="Change numbers of levels by with_levels(facet=n).",
                    )
                )
        return Design(**{**known, **changes})

    def with_levels(self, levels: Mapping[str, int] | None = None, /, **counts: int) -> Design:
        """The design with other numbers of levels of some facets.

        Parameters
        ----------
        levels : mapping of str to int, optional
            For facets whose names are no Python words.
        **counts : int
            Facet to its number of levels.
        """
        return self.replace(levels={**self.levels, **(levels or {}), **counts})

    def to_dict(self) -> dict[str, Any]:
        """The table of the design in a study file, without its name and its defaults."""
        pinned = {"pin": list(self.pin)} if self.pin else {}
        judged = {"judges": self.judges} if self.judges != "all" else {}
        return {**self.levels, **pinned, **judged}

    def __getitem__(self, facet: str) -> int:
        return self.levels[facet]

    def __iter__(self) -> Iterator[str]:
        return iter(self.levels)

    def __len__(self) -> int:
        return len(self.levels)

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Design) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        parts = [repr(dict(self.levels))]
        parts += [f"pin={list(self.pin)!r}"] if self.pin else []
        parts += [f"judges={self.judges!r}"] if self.judges != "all" else []
        parts += [f"name={self.name!r}"] if self.name else []
        return f"Design({', '.join(parts)})"

    def __reduce__(self) -> tuple[Any, ...]:
        # Read-only mappings do not pickle.
        return (_rebuilt, (dict(self.levels), self.pin, self.judges, self.name))

    def _key(self) -> tuple[Any, ...]:
        return (frozenset(self.levels.items()), frozenset(self.pin), self.judges, self.name)


def _rebuilt(levels: Mapping[str, int], pin: Sequence[str], judges: str, name: str) -> Design:
    return Design(levels, pin=pin, judges=judges, name=name)


def _check_mapping(levels: object) -> None:
    if not isinstance(levels, Mapping):
        raise QuantityError(
            explain(
                "a design is a mapping of facets to numbers of levels",
                given=type(levels).__name__,
                allowed="such as {'task': 200, 'rollout': 4}",
            )
        )


def _facet(key: object) -> str:
    if not isinstance(key, str):
        raise QuantityError(
            explain("the design names a facet that is no text", given=key, allowed="names")
        )
    return key


def _count(key: str, value: Any) -> int:
    try:
        n = operator.index(value)
    except TypeError:
        n = 0
    if n < 1 or isinstance(value, bool):
        raise QuantityError(
            explain(
                f"the number of levels of {key!r} is not usable",
                given=value,
                allowed="whole numbers from 1 on",
            )
        )
    return n


def _pin(value: object) -> tuple[str, ...]:
    names = [value] if isinstance(value, str) else value
    listed = isinstance(names, Iterable) and not isinstance(names, Mapping)
    found = list(names) if listed and isinstance(names, Iterable) else []
    if not listed or not all(isinstance(name, str) for name in found):
        raise QuantityError(
            explain("pin is no list of facets", given=value, allowed="such as ['version']")
        )
    return tuple(dict.fromkeys(found))


def _judges(value: object) -> str:
    if not isinstance(value, str) or value not in JUDGES:
        raise QuantityError(
            explain(
                "unknown way of judging",
                given=value,
                allowed=JUDGES,
                do=did_you_mean(value, JUDGES),
            )
        )
    return value


def _name(value: object) -> str:
    if not isinstance(value, str):
        raise QuantityError(explain("the name of a design is no text", given=value))
    return value
