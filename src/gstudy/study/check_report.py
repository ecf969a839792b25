"""How a check is printed: its heading, its tables, and its lists of sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

from gstudy.display import Table, number, wrapped
from gstudy.study.components import INSIDE_FIXED, INSIDE_OWN, MERGED, TOO_FEW_TRIALS, Verdict
from gstudy.study.memory import size_text

if TYPE_CHECKING:
    from gstudy.study.assessment import Assessment
    from gstudy.study.checking.layout import Pairing
    from gstudy.study.declaration import Study
    from gstudy.study.priors import Prior

__all__ = [
    "WIDTH",
    "auto_text",
    "collect_table",
    "collect_text",
    "component_table",
    "crossed_table",
    "heading",
    "listed",
    "nested_table",
]

WIDTH = 80

_COLLECT = "What to collect"

# Bytes from which on the memory of a fit is told.
_MUCH = 1_500_000_000

# Verdicts that name a facet, as a column shows them; the reason names it in full.
_SHORT = {MERGED: "merged", INSIDE_OWN: "in own sds", INSIDE_FIXED: "in fixed effects"}


def heading(assessment: Assessment) -> str:
    balance = "balanced" if assessment.layout.balanced else "unbalanced"
    source = PurePath(assessment.source).name
    n_trials = _plural(assessment.n_trials, "usable trial")
    lines = [f"{source}: {n_trials}, {balance}.", _model_line(assessment)]
    levels = (
        f"{facet} {n:,}" if isinstance(n, int) else f"{facet} {number(n)} on average"
        for facet, n in assessment.facet_levels.items()
    )
    lines.append(f"Levels: {', '.join(levels)}.")
    if assessment.not_sampled:
        facets = ", ".join(f"{f} ({label!r})" for f, label in assessment.not_sampled.items())
        lines.append(f"One level only, so that the claim covers no other: {facets}.")
    lines.append(_rerun_line(assessment.study))
    fixed: Mapping[str, object] = {**assessment.pinned, **assessment.study.controlled}
    if fixed:
        pairs = ", ".join(f"{name} = {value}" for name, value in fixed.items())
        lines.append(f"Pinned: {pairs}.")
    lines += _kind_lines(assessment)
    return "\n".join(line for text in lines for line in wrapped(text, WIDTH, indent="  "))


def _kind_lines(assessment: Assessment) -> list[str]:
    """Fixed effects, own sds, and what the score is the mean of, where the study has them."""
    lines = []
    if assessment.fixed:
        names = ", ".join(f"{c.name} ({c.n_levels} levels)" for c in assessment.fixed)
        lines.append(f"Fixed effects, the score is their levels' mean: {names}.")
    own = [c.name for c in assessment.components if c.varies is not None]
    if own:
        lines.append(f"Each {assessment.study.object} has its own sd of: {', '.join(own)}.")
    if assessment.study.averaged_over is not None:
        lines.append(
            f"The score is the mean of the means of each {assessment.study.averaged_over}."
        )
    return lines


def _rerun_line(study: Study) -> str:
    """What a re-run draws anew, and how to say so when only the nesting did."""
    redrawn = study.redrawn_on_rerun()
    drawn = [name for name in study.facet_names if name in redrawn]
    kept = [
        facet.name
        for facet in study.facets
        if facet.name not in redrawn and facet.role not in ("object", "controlled")
    ]
    line = f"A re-run draws anew: {', '.join(drawn) or 'only the chance of each trial'}"
    line += f"; it keeps {', '.join(kept)}." if kept else "."
    if study.rollout is not None or study.trials is not None or not drawn:
        return line
    if study.object in study.closure(drawn):
        return line
    # A task nested in its environment has the same structure as a rollout nested in its task.
    return f'{line} If not so, declare rollout = "<facet>" or "none" above the facets.'


def _model_line(assessment: Assessment) -> str:
    n_components, n_cells = len(assessment.components), len(assessment.cells.trials)
    kind = "binomial" if assessment.cells.graded is None else "graded"
    return (
        f"Model: {_plural(n_components, 'component')}, {_plural(n_cells, kind + ' cell')}; "
        f"4 x 1,000 draws take {size_text(assessment.memory())}.{_large_fit(assessment)}"
    )


def _large_fit(assessment: Assessment) -> str:
    """What fits take at their peak, where that is much."""
    peaks = [assessment.peak_memory(sampler=sampler) for sampler in ("direct", "pymc")]
    if max(peaks) < _MUCH:
        return ""
    direct, pymc = map(size_text, peaks)
    return f"\nA fit takes about {pymc} of memory at its peak, {direct} by the direct sampler."


def _plural(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def component_table(assessment: Assessment) -> Table:
    import pandas as pd

    rows = assessment.rows
    frame = pd.DataFrame(
        {
            "component": [row.name for row in rows],
            "levels": [row.n_levels for row in rows],
            "trials each": [row.trials_per_level for row in rows],
            "verdict": [_short_verdict(row) for row in rows],
            "sd prior": [_short_prior(row.prior) for row in rows],
        }
    )
    return Table(
        frame=frame,
        title="Components",
        notes=(_prior_note(assessment),),
        formats={"trials each": "count"},
    )


def _prior_note(assessment: Assessment) -> str:
    graded = assessment.study.family == "gaussian"
    unit = "in the unit of the score" if graded else "on the logit scale"
    rest = f"mu ~ {_short_prior(assessment.mu_prior)}"
    if graded:
        residual = assessment.residual_prior
        rest += f"; residual sd ~ {_short_prior(residual)}" if residual else "; errors are known"
    return f"Priors are {unit}; {rest}."


def _short_verdict(row: Verdict) -> str:
    for start, short in _SHORT.items():
        if row.verdict.startswith(start):
            return short
    return "too few trials" if row.verdict == TOO_FEW_TRIALS else row.verdict


def _short_prior(prior: Prior | None) -> str:
    if prior is None:
        return ""
    return f"{prior.dist}({', '.join(f'{value:.4g}' for _, value in prior.parameters)})"


def nested_table(pairings: Sequence[Pairing]) -> Table:
    return _spread_table(
        pairings,
        "Nested facets: levels per combination of parents",
        {
            "facet": [pairing.facet for pairing in pairings],
            "nested in": [", ".join(pairing.others) for pairing in pairings],
            "levels": [pairing.filled for pairing in pairings],
            "parents": [pairing.possible for pairing in pairings],
        },
    )


def crossed_table(pairings: Sequence[Pairing]) -> Table:
    return _spread_table(
        pairings,
        "Pairs of facets: trials per filled cell",
        {
            "facets": [f"{pairing.facet} x {pairing.others[0]}" for pairing in pairings],
            "design": [pairing.how for pairing in pairings],
            "cells": [pairing.filled for pairing in pairings],
            "possible": [pairing.possible for pairing in pairings],
        },
    )


def _spread_table(
    pairings: Sequence[Pairing], title: str, columns: Mapping[str, Sequence[object]]
) -> Table:
    import pandas as pd

    spread = {
        "least": [pairing.least for pairing in pairings],
        "median": [pairing.median for pairing in pairings],
        "most": [pairing.most for pairing in pairings],
    }
    formats = {"least": "int", "median": "count", "most": "int"}
    return Table(frame=pd.DataFrame({**columns, **spread}), title=title, formats=formats)


def collect_table(rows: Sequence[Verdict]) -> Table:
    import pandas as pd

    told = [row for row in rows if row.advice]
    frame = pd.DataFrame(
        {
            "component": [row.name for row in told],
            "verdict": [row.verdict for row in told],
            "reason": [row.reason for row in told],
            "collect": [row.advice for row in told],
        }
    )
    return Table(frame=frame, title=_COLLECT)


def collect_text(rows: Sequence[Verdict]) -> str:
    """What to collect, as sentences; merged sets once, interactions that auto tried elsewhere."""
    told: dict[str, str] = {}
    for row in rows:
        if row.advice and (row.fitted or row.asked != "auto"):
            merged = row.component if row.verdict.startswith(MERGED) else None
            state = "merged: they split the rows identically" if merged else _state(row)
            told.setdefault(merged or row.name, f"{state}. Collect {row.advice}.")
    return listed(_COLLECT, [f"{name}: {text}" for name, text in told.items()])


def auto_text(rows: Sequence[Verdict]) -> str:
    """The interactions that auto tried and did not take, and why."""
    left = [f"{row.name}: {_state(row)}" for row in rows if row.asked == "auto" and not row.fitted]
    return listed("Interactions that auto does not take", left)


def _state(row: Verdict) -> str:
    return f"{row.verdict} ({row.reason})"


def listed(title: str, texts: Sequence[str]) -> str:
    """A title and its points; "" when there are none."""
    if not texts:
        return ""
    lines = [line for text in texts for line in wrapped(f"- {text}", WIDTH, indent="  ")]
    return "\n".join([title, *lines])
