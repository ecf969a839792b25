"""The designs that are compared, each with a name of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gstudy.errors import QuantityError, explain
from gstudy.study.designs import Design

__all__ = ["COLLECTED", "design_name", "named_designs"]

COLLECTED = "as collected"


def named_designs(designs: object) -> dict[str, Design | None]:
    """Designs by name, in their order.

    Parameters
    ----------
    designs : Design, mapping, or iterable of them
        One design, several, or a mapping of names to designs; None stands for the design as
        collected.

    Returns
    -------
    dict of str to Design or None

    Raises
    ------
    QuantityError
        For no design, what makes none, and two designs of one name.

    Examples
    --------
    >>> list(named_designs([{"task": 200, "rollout": 4}, Design({"task": 50}, name="small")]))
    ['200 task x 4 rollout', 'small']
    """
    given = list(_listed(designs))
    if not given:
        raise QuantityError(explain("there is no design to compare", do="Pass at least one."))
    found: dict[str, Design | None] = {}
    for name, value in given:
        design = None if value is None else Design.read(value)
        own = name or (COLLECTED if design is None else design.name or design_name(design))
        if own in found:
            raise QuantityError(
                explain(
                    f"two designs are called {own!r}",
                    do="Name them: gs.Design(..., name='bigger').",
                )
            )
        found[own] = design
    return found


def design_name(design: Design) -> str:
    """A name made of what a design is.

    Examples
    --------
    >>> design_name(Design({"task": 50, "judge": 2}, pin=["version"], judges="round robin"))
    '50 task x 2 judge, round robin, pin version'
    """
    levels = " x ".join(f"{n} {facet}" for facet, n in design.items())
    judged = "" if design.judges == "all" else f", {design.judges}"
    pinned = f", pin {' and '.join(design.pin)}" if design.pin else ""
    return f"{levels}{judged}{pinned}"


def _listed(designs: object) -> Iterable[tuple[str, Any]]:
    if designs is None or isinstance(designs, Design):
        return [("", designs)]
    if isinstance(designs, Mapping):
        several = all(value is None or isinstance(value, Mapping) for value in designs.values())
        return [(str(k), v) for k, v in designs.items()] if several else [("", designs)]
    if isinstance(designs, str) or not isinstance(designs, Iterable):
        raise QuantityError(
            explain(
                "these are no designs",
                given=designs,
                allowed="a design, a list of designs, or a mapping of names to designs",
            )
        )
    return [("", design) for design in designs]
