"""Threads for work on arrays, during which numpy leaves Python to others."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

__all__ = ["each"]

# More than this would wait for each other: between two operations only one thread runs.
_MOST_THREADS = 4


def each[Part](work: Callable[[Part], None], parts: Iterable[Part]) -> None:
    """Do the work on every part, some at the same time.

    Parameters
    ----------
    work : callable
        Writes where no other part's work does, so that the order does not matter.
    parts : iterable

    Examples
    --------
    >>> found = [0, 0, 0]
    >>> each(lambda i: found.__setitem__(i, i * i), range(3))
    >>> found
    [0, 1, 4]
    """
    listed = list(parts)
    n_threads = min(_processors(), _MOST_THREADS, len(listed))
    if n_threads < 2:
        for part in listed:
            work(part)
        return
    with ThreadPoolExecutor(n_threads) as pool:
        for _ in pool.map(work, listed):
            pass


def _processors() -> int:
    counted = getattr(os, "process_cpu_count", os.cpu_count)()
    return int(counted or 1)
