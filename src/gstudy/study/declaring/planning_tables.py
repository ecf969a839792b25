"""What a study says for planning: named designs, prices, and components that are assumed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from gstudy.errors import DeclarationError, QuantityError, did_you_mean, explain
from gstudy.study.assumed import Assumed
from gstudy.study.costs import Cost
from gstudy.study.designs import TRIALS, Design

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gstudy.study.facets import Facet

__all__ = ["read_assumed", "read_cost", "read_designs"]

_OPTIONS = ("pin", "judges")
_ASSUMED_KEYS = ("scale", "mean", "mu", "components")
_RESIDUAL = "residual"


def read_designs(value: object, facets: Sequence[Facet]) -> Mapping[str, Design]:
    """`designs`: named designs, as a list of them or by name.

    Raises
    ------
    DeclarationError
        For a design without a name or of a name that is taken, one of an unknown facet or with
        more levels than the universe of a facet, and a table that is no design.
    """
    if value is None:
        return MappingProxyType({})
    designs = {name: _design(name, one) for name, one in _named(value)}
    for name, design in designs.items():
        _check_names(f"design.{name}", [*design, *design.pin], facets)
        for facet in facets:
            n = design.get(facet.name, 1)
            if facet.universe is not None and n > facet.universe:
                raise DeclarationError(
                    explain(
                        f"design.{name}.{facet.name} has more levels than the universe",
                        given=n,
                        allowed=f"at most {facet.universe}, facets.{facet.name}.universe",
                    )
                )
    return MappingProxyType(designs)


def read_cost(value: object, facets: Sequence[Facet]) -> Cost | None:
    """`cost`: the price of a unit of some facets.

    Raises
    ------
    DeclarationError
        For an unknown facet, and a price that is no number from 0 on.
    """
    if value is None:
        return None
    prices = value if isinstance(value, Cost) else _table(value, "cost", "facet = price of a unit")
    cost = _made(lambda: Cost.read(prices), "cost")
    _check_names("cost", cost, facets)
    return cost


def read_assumed(value: object, facets: Sequence[Facet]) -> Assumed | None:
    """`assumed`: components with their mean.

    Raises
    ------
    DeclarationError
        For an unknown key or component, a mean of the other scale, and a variance that is no
        number from 0 on.
    """
    if value is None:
        return None
    if isinstance(value, Assumed):
        assumed = value
    else:
        table = _table(value, "assumed", "scale, mean or mu, and components")
        _check_keys(table)
        assumed = _made(lambda: Assumed(**{"components": {}, **table}), "assumed")
    parts = [
        part.strip() for name in assumed.components if name != _RESIDUAL for part in name.split(":")
    ]
    _check_names("assumed.components", parts, facets, more=_RESIDUAL)
    return assumed


def _check_keys(table: Mapping[str, Any]) -> None:
    for key in table:
        if key not in _ASSUMED_KEYS:
            raise DeclarationError(
                explain(
                    f"unknown key assumed.{key}",
                    given=key,
                    allowed=_ASSUMED_KEYS,
                    do=did_you_mean(str(key), _ASSUMED_KEYS),
                )
            )


def _named(value: object) -> list[tuple[str, object]]:
    """Names and designs, or tables of designs."""
    if isinstance(value, Mapping) and not isinstance(value, Design):
        return [(str(name), one) for name, one in value.items()]
    if not isinstance(value, list | tuple) or not all(isinstance(one, Design) for one in value):
        raise DeclarationError(
            explain(
                "designs are no designs",
                given=value,
                allowed='tables [design.NAME], or a list such as [gs.Design({"task": 200}, '
                'name="bigger")]',
            )
        )
    names = [one.name for one in value]
    for name in names:
        if not name or names.count(name) > 1:
            raise DeclarationError(
                explain(
                    "each design of a study needs a name of its own",
                    given=names,
                    do='Write gs.Design(..., name="bigger").',
                )
            )
    return list(zip(names, value, strict=True))


def _design(name: str, value: object) -> Design:
    if isinstance(value, Design):
        return value.replace(name=name)
    table = _table(value, f"design.{name}", "facet = number of levels, and pin or judges")
    # A facet may be called as an option is: its value is a number.
    options: dict[str, Any] = {
        key: one
        for key, one in table.items()
        if key in _OPTIONS and isinstance(one, str | list | tuple)
    }
    levels = {key: one for key, one in table.items() if key not in options}
    return _made(lambda: Design(levels, name=name, **options), f"design.{name}")


def _made[Value](make: Callable[[], Value], where: str) -> Value:
    """A value, with errors that say where in the file it stands."""
    try:
        return make()
    except QuantityError as error:
        raise DeclarationError(f"{where}: {error}") from None


def _table(value: object, key: str, allowed: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise DeclarationError(
            explain(f"{key} is not a table", given=value, allowed=f"a table: [{key}] {allowed}")
        )
    return value


def _check_names(
    where: str, names: Iterable[str], facets: Sequence[Facet], more: str = TRIALS
) -> None:
    allowed = [*(facet.name for facet in facets), more]
    for name in names:
        if name not in allowed:
            raise DeclarationError(
                explain(
                    f"{where} names an unknown facet {name!r}",
                    allowed=allowed,
                    do=did_you_mean(name, allowed),
                )
            )
