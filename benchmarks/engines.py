"""Where fits are made: here, or on the workers of a dask cluster that is already running."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["engine"]


@contextmanager
def engine(scheduler: str | None) -> Iterator[None]:
    """Let joblib hand its jobs to a dask scheduler such as tcp://10.0.0.1:8786; None: stay here.

    The workers need the same versions of gstudy and of what it stands on; the draws are the same.
    """
    if scheduler is None:
        yield
        return
    from distributed import Client
    from joblib import parallel_config

    with Client(scheduler), parallel_config(backend="dask"):
        yield
