"""What was computed once of an object, kept as long as the object lives.

Budgets, coefficients and pairs of systems of one fit are made of the same few arrays.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import cast

__all__ = ["MOST_KEPT", "remembered"]

MOST_KEPT = 64
"""Results kept of one object; the one that was longest not asked for goes first."""

_KEPT: weakref.WeakKeyDictionary[object, OrderedDict[Hashable, object]] = (
    weakref.WeakKeyDictionary()
)
_USING = threading.RLock()


def remembered[Owner, Result](
    owner: Owner, key: Hashable, make: Callable[[Owner], Result]
) -> Result:
    """A result of an object, made when it is first asked for.

    Parameters
    ----------
    owner : object
        Never changed once made; compared by identity.
    key : hashable
        What is asked for.
    make : callable
        The owner to the result, which no caller may change.

    Returns
    -------
    object

    Examples
    --------
    >>> class Source:
    ...     pass
    >>> source = Source()
    >>> remembered(source, "list", lambda _: [1]) is remembered(source, "list", lambda _: [2])
    True
    """
    with _USING:
        kept = _KEPT.setdefault(owner, OrderedDict())
        if key in kept:
            kept.move_to_end(key)
            return cast("Result", kept[key])
    found = make(owner)
    with _USING:
        kept[key] = found
        if len(kept) > MOST_KEPT:
            kept.popitem(last=False)
    return found
