"""What must be said of a design that stands: who is paid for, what is used up, what is a mean."""

from __future__ import annotations

from collections.abc import Iterator

from gstudy._words import listed, plural
from gstudy.planning.standing import WHOLE, Stands, most_of

__all__ = ["standing_notes"]


def standing_notes(standing: Stands, systems: int = 1) -> tuple[str, ...]:
    """Sentences below a table of steps from a design.

    Parameters
    ----------
    standing : Standing or PatternedStanding
    systems : int
        How many systems what is added is paid for.
    """
    return (*_paid(standing, systems), *_exhausted(standing), *_uneven(standing))


def _paid(standing: Stands, systems: int) -> Iterator[str]:
    """Where several systems may run a design: how many of them are paid for."""
    measured = next((f for f, role in standing.structure.roles.items() if role == "object"), None)
    if measured is not None:
        of = f"one {measured}" if systems == 1 else f"{systems} {plural(measured)}"
        yield f"Added trials and costs are of {of}."


def _exhausted(standing: Stands) -> Iterator[str]:
    """Where the levels of a universe are all sampled."""
    found = [f for f in standing.facets if standing.levels[f] >= most_of(standing, f) - WHOLE]
    if found:
        banks = listed([f"{int(most_of(standing, f))} {plural(f)}" for f in found])
        yield f"Exhausted: all {banks} of the bank are sampled; more of them do not exist."


def _uneven(standing: Stands) -> Iterator[str]:
    """Where numbers of levels as collected are means: what a step does to them."""
    levels = {f: standing.levels[f] for f in standing.facets}
    told = [f"{f} {n:.4g}" for f, n in levels.items() if abs(n - round(n)) > WHOLE]
    if told:
        yield (
            f"Means as collected, where some have more levels than others: {listed(told)}. A step "
            "multiplies all of them alike."
        )
