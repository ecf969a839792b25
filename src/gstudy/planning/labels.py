"""Labels of levels that are still to be made: numbering goes on, what must be written says so."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

__all__ = ["Numbering", "continued", "numbering_of", "written"]

_NUMBERED = re.compile(r"(.*?)([0-9]+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Numbering:
    """Labels that are a prefix and a number: "3", "run 3", "007".

    Parameters
    ----------
    prefix : str
    first, last : int
        Smallest and largest number that occurs.
    width : int
        Digits that numbers are filled up to with zeros; 0 for none.
    """

    prefix: str
    first: int
    last: int
    width: int

    def label(self, number: int) -> str:
        """The label with this number."""
        return f"{self.prefix}{number:0{self.width}d}" if self.width else f"{self.prefix}{number}"


def numbering_of(labels: Collection[str]) -> Numbering | None:
    """The numbering that labels follow, or None: they are one prefix with different numbers.

    >>> numbering_of(["run 08", "run 09"])
    Numbering(prefix='run ', first=8, last=9, width=2)
    >>> numbering_of(["a1", "b2"]) is None
    True
    """
    found = [_NUMBERED.fullmatch(label) for label in labels]
    parts = [match.groups() for match in found if match is not None]
    if not parts or len(parts) < len(found) or len({prefix for prefix, _ in parts}) > 1:
        return None
    # A hash or a date is no number that anybody counts on from.
    if max(len(digits) for _, digits in parts) > _LONGEST:
        return None
    numbers = [int(digits) for _, digits in parts]
    padded = [len(digits) for _, digits in parts if digits.startswith("0") and len(digits) > 1]
    return Numbering(parts[0][0], min(numbers), max(numbers), max(padded, default=0))


_LONGEST = 9


def continued(facet: str, own: Sequence[str], every: Numbering | None, n: int) -> list[str]:
    """So many labels more of a group whose levels are counted, such as the rollouts of a task.

    Parameters
    ----------
    facet : str
    own : sequence of str
        Labels that the group has.
    every : Numbering or None
        What all labels of the facet follow: an empty group starts as the others do.
    n : int

    Returns
    -------
    list of str

    Examples
    --------
    >>> continued("rollout", ["1", "2", "4"], None, 2)
    ['5', '6']
    >>> continued("rollout", [], numbering_of(["0", "1"]), 2)
    ['0', '1']
    """
    known = numbering_of(own) if own else every
    if known is None:
        return written(facet, own, n)
    start = known.last + 1 if own else known.first
    return [known.label(start + i) for i in range(n)]


def written(facet: str, taken: Collection[str], n: int) -> list[str]:
    """So many labels of levels that somebody must write or find.

    >>> written("task", ["t1", "new task 3"], 2)
    ['new task 4', 'new task 5']
    """
    start = f"new {facet} "
    numbers = [label.removeprefix(start) for label in taken if label.startswith(start)]
    last = max((int(text) for text in numbers if text.isascii() and text.isdigit()), default=0)
    return [f"{start}{last + i}" for i in range(1, n + 1)]
