"""Refits: one fit of each of several sets of trials, by the direct path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from gstudy.errors import GstudyError
from gstudy.model.many import sampled, with_components
from gstudy.model.settings import TARGET_ACCEPT, can_show_progress, make_settings
from gstudy.study.estimable import assess

if TYPE_CHECKING:
    import pandas as pd

    from gstudy.fits.fitted import Fit
    from gstudy.study.declaration import Study

__all__ = ["refitted"]

_AT_ONCE = 32
"""Fits that are held in memory together."""


def refitted(
    tables: Mapping[str, tuple[Study, pd.DataFrame]],
    *,
    seed: int,
    draws: int = 1000,
    tune: int = 1000,
    chains: int = 4,
    n_jobs: int | None = None,
    progress: bool = False,
) -> Iterator[tuple[str, Fit]]:
    """A fit of each study and table, one after the other so that few are held at a time.

    Parameters
    ----------
    tables : mapping of str to (Study, DataFrame)
        By a label that the seed of the fit follows from.
    seed, draws, tune, chains, n_jobs, progress
        As in `gstudy.fit_by`; no gate warns.

    Yields
    ------
    (str, Fit)

    Raises
    ------
    DeclarationError, DataError
        For a setting out of range, and a table that cannot be fitted, naming it.
    """
    settings = make_settings(
        seed=seed,
        draws=draws,
        tune=tune,
        chains=chains,
        cores=None if n_jobs in (None, 1) else 1,
        sampler="direct",
        target_accept=TARGET_ACCEPT,
        progress=False,
        store_effects=None,
    )
    labels, shown = list(tables), progress and can_show_progress()
    for start in range(0, len(labels), _AT_ONCE):
        batch = labels[start : start + _AT_ONCE]
        designs = {label: with_components(assess(*tables[label])) for label in batch}
        for label, found in sampled(designs, settings, n_jobs, shown).items():
            if isinstance(found, GstudyError):
                raise type(found)(f"{label}: {found}") from found
            yield label, found
