"""Banks: finite universes beside the levels that were found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gstudy.errors import DeclarationError, explain

if TYPE_CHECKING:
    from gstudy.study.checking.splits import Splits
    from gstudy.study.declaration import Study

__all__ = ["check_banks"]


def check_banks(study: Study, splits: Splits) -> None:
    """Every declared universe holds the levels in the data; a nested facet's within each parent.

    Parameters
    ----------
    study : Study
    splits : Splits

    Raises
    ------
    DeclarationError
        With both numbers.
    """
    for facet in study.facets:
        if facet.universe is None:
            continue
        whole = study.closure(facet.name)
        own, parents = splits.of(whole), splits.of(whole - {facet.name})
        most = int(np.bincount(parents.index[own.first_rows()]).max())
        if most > facet.universe:
            within = f" within one {study.name_of(whole - {facet.name})}" if facet.nested_in else ""
            raise DeclarationError(
                explain(
                    f"facets.{facet.name}.universe is less than the levels in the trials",
                    given=f"universe = {facet.universe:,}, and {most:,} levels{within}",
                    allowed=f"{most:,} or more",
                    do="Give the number of levels of the whole bank"
                    + (", within each combination of its parents." if facet.nested_in else "."),
                )
            )
