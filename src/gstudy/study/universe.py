"""The universe of a claim: what it covers of each facet, and what the trials hold of that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gstudy.display import Table, percent
from gstudy.study.components import FIXED, MERGED, NOT_SAMPLED

if TYPE_CHECKING:
    from gstudy.study.assessment import Assessment
    from gstudy.study.facets import Facet

__all__ = ["INFINITE", "claim_table", "is_told"]

INFINITE = "infinite"


def claim_table(assessment: Assessment) -> Table:
    """One row per facet and pinned entry: role, reason, levels, universe, whether it is sampled.

    Parameters
    ----------
    assessment : Assessment

    Returns
    -------
    Table
        Columns facet, role, reason, levels (of a nested facet the mean number within its
        parents), universe (levels of the whole bank, or "infinite"), sampled. Notes: the policy on
        failed runs, with the score under each of the two; a universe that changes nothing.
    """
    import pandas as pd

    rows = [_facet_row(facet, assessment) for facet in assessment.study.facets]
    rows += [
        (name, "controlled", "", None, "1", f"pinned at {value}")
        for name, value in assessment.study.controlled.items()
    ]
    columns = ["facet", "role", "reason", "levels", "universe", "sampled"]
    frame = pd.DataFrame(rows, columns=columns)
    frame["levels"] = frame["levels"].astype(float)
    return Table(
        frame=frame,
        title="Universe of the claim",
        notes=(
            *_failed_notes(assessment),
            *_average_note(assessment),
            *_idle_universes(assessment),
        ),
        formats={"levels": "count"},
    )


def is_told(assessment: Assessment) -> bool:
    """Whether the table says what the rest of a check does not."""
    facets = assessment.study.facets
    said = any(facet.reason or facet.universe is not None for facet in facets)
    return said or bool(assessment.failed_runs)


def _facet_row(
    facet: Facet, assessment: Assessment
) -> tuple[str, str, str, float | None, str, str]:
    levels = assessment.facet_levels[facet.name]
    return (
        facet.name,
        facet.role,
        facet.reason or "",
        levels,
        _universe(facet, levels),
        _sampled(facet, levels, assessment),
    )


def _universe(facet: Facet, levels: float) -> str:
    if facet.role == "controlled":
        return f"{levels:,g}"
    if facet.universe is None:
        return INFINITE
    return f"{facet.universe:,}" + (" in each" if facet.nested_in else "")


def _sampled(facet: Facet, levels: float, assessment: Assessment) -> str:
    study = assessment.study
    if facet.name in assessment.pinned:
        return f"pinned at {assessment.pinned[facet.name]}"
    if facet.name == study.counted:
        return "counted, inside residual"
    row = next((row for row in assessment.rows if row.facets == study.closure(facet.name)), None)
    if row is None:
        return "yes"
    if row.verdict == FIXED:
        return f"controlled, {row.n_levels} levels"
    if row.verdict == NOT_SAMPLED:
        return "one level"
    if not row.fitted or row.verdict.startswith("kept"):
        return row.verdict
    if row.verdict.startswith(MERGED):
        return f"yes, {row.verdict}"
    return "the whole bank" if levels == facet.universe else "yes"


def _failed_notes(assessment: Assessment) -> list[str]:
    policy = assessment.study.on_failed_run
    told = policy if isinstance(policy, str) else ", ".join(f"{k}: {v}" for k, v in policy.items())
    known = assessment.failed_runs
    if not known:
        return [f"Failed runs: none (on_failed_run: {told})."]
    n_failed, share = known["n_failed"], known["share"]
    scores = [
        f"{_score(known[key], assessment)} {how}"
        for key, how in (("incorrect", "if they count as 0"), ("drop", "if they are left out"))
    ]
    of_all = "" if share is None else f", {percent(share)} of the trials"
    line = f"Failed runs: {n_failed:,.0f}{of_all} (on_failed_run: {told}). "
    return [f"{line}Mean score over all trials: {', '.join(scores)}."]


def _score(value: float | None, assessment: Assessment) -> str:
    if value is None:
        return "none"
    return f"{value:.4g}" if assessment.study.family == "gaussian" else percent(value)


def _idle_universes(assessment: Assessment) -> list[str]:
    """Banks inside what has no bank: new parents bring new levels, however many each has."""
    study, notes = assessment.study, []
    single = {*assessment.pinned, *assessment.not_sampled}
    for facet in study.facets:
        if facet.universe is None or facet.name in single:
            continue
        above = study.closure(facet.name) - {facet.name, study.object} - single
        endless = [
            parent.name
            for parent in study.facets
            if parent.name in above and parent.role != "controlled" and parent.universe is None
        ]
        if endless:
            inside = " and ".join(endless)
            notes.append(
                f"The universe of {facet.name} changes nothing: it is nested in {inside}, which "
                f"{'has' if len(endless) == 1 else 'have'} none, so that the claim is about new "
                f"levels of {inside} and whatever is in them. Declare a universe of {inside} too, "
                "or leave it out."
            )
    return notes


def _average_note(assessment: Assessment) -> list[str]:
    facet = assessment.study.averaged_over
    return (
        [] if facet is None else [f"The reported score is the mean of the means of each {facet}."]
    )
