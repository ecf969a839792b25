"""The sections of a report of runs that were made apart: their systems side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gstudy.display import Table, percent
from gstudy.errors import QuantityError
from gstudy.questions.banks import task_facet
from gstudy.questions.claims import universe_table
from gstudy.report.sections import (
    LEVEL,
    Material,
    Section,
    icc_picture,
    scores_section,
    section_of,
)
from gstudy.variance.budgets import variance_budget

if TYPE_CHECKING:
    import pandas as pd

    from gstudy.fits.many import Fits

__all__ = ["sections_of_several"]

_EACH = (
    "Each run was fitted alone: every number is of that system's own variances. The tasks, checks "
    "and priors of one run are in a report of that run."
)


def sections_of_several(fits: Fits) -> list[Section | None]:
    """What runs of one study tell beside each other; None where they cannot.

    Parameters
    ----------
    fits : Fits
        From `gs.Fits.of` or `gs.fit_by`.

    Returns
    -------
    list of Section or None
    """
    given = Material(next(iter(fits.values())), fits)
    return [
        _claim(fits),
        _scores(given),
        _budgets(fits),
        section_of(given, _icc),
        Section("sampler", "Sampler", tables={"fits": fits.table()}),
    ]


def _claim(fits: Fits) -> Section:
    label, first = next(iter(fits.items()))
    return Section(
        "claim",
        "What the claim covers",
        lines=(_EACH, f"Numbers of levels: those of {label}."),
        tables={"universe": universe_table(first)},
    )


def _scores(given: Material) -> Section:
    try:
        return scores_section(given)
    except QuantityError as error:
        return Section("scores", "Scores", lines=(f"They are not ranked: {error}",))


def _icc(given: Material) -> Section | None:
    task = task_facet(given.fit)
    board = given.board()
    if task is None or board.icc is None:
        return None
    return Section("icc", "How alike trials are", pictures=(icc_picture(board, task),))


def _budgets(fits: Fits) -> Section:
    """The share of each source, a row per system."""
    import pandas as pd

    rows = [_shares(variance_budget(fit).summary(LEVEL)) for fit in fits.values()]
    frame = pd.DataFrame(rows, index=pd.Index(list(fits), name=fits.by, dtype=object)).fillna("")
    unknown = (frame == "").to_numpy().any()
    table = Table(
        frame,
        "Share of each source in the variance of the reported score, as collected",
        scale="score",
        level=LEVEL,
        notes=("Empty: the run cannot tell that source apart.",) if unknown else (),
        formats=dict.fromkeys((fits.by, *frame.columns), "span"),
    )
    return Section("budget", "Where the uncertainty comes from", tables={"budgets": table})


def _shares(summary: pd.DataFrame) -> dict[str, str]:
    ends = ("share", "share_lower", "share_upper")
    found = zip(summary.index, *(summary[end] for end in ends), strict=True)
    return {
        str(name): f"{percent(share, 0)} ({percent(low, 0)} to {percent(high, 0)})"
        for name, share, low, high in found
    }
