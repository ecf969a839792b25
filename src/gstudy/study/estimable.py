"""The check before any sampling: what the data can say about the study's components."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from gstudy.errors import EstimabilityWarning
from gstudy.study.assessment import Assessment
from gstudy.study.cells import make_cells
from gstudy.study.checking.banks import check_banks
from gstudy.study.checking.findings import findings
from gstudy.study.checking.layout import find_layout
from gstudy.study.checking.splits import Splits
from gstudy.study.checking.verdicts import judged
from gstudy.study.components import Component, Verdict
from gstudy.study.graded import score_spread
from gstudy.study.records import encode
from gstudy.study.trials import read_trials

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from gstudy.study.declaration import Study
    from gstudy.study.records import Records
    from gstudy.study.trials import Trials

__all__ = ["Assessment", "Component", "Verdict", "assess", "check", "warn_if_left_out"]


def check(study: Study, trials: Trials | pd.DataFrame | str | Path) -> Assessment:
    """Say what the data can tell about a study, without sampling.

    A component is *estimable*; *weak* under 5 levels, where its prior matters; *merged* with
    another that splits the rows identically; *not sampled* with one level; or *inside residual*
    with one trial per level. The last two are left out of the model unless `keep` asks for them.

    Parameters
    ----------
    study : Study
    trials : Trials, DataFrame or path

    Returns
    -------
    Assessment
        Verdicts with default priors and what to collect, the design as found, cells, notes,
        memory estimate. Printed, it is a report of 80 columns.

    Raises
    ------
    DeclarationError
        For a listed interaction that the data cannot inform, a controlled facet with several
        levels that is nested, own sds of more than 8 systems or of what the data cannot tell, a
        universe with fewer levels than there are, a prior of a component that is not in the model.
    DataError
        For trials that cannot be read, and when none is usable.

    Warns
    -----
    EstimabilityWarning
        Names the components that are left out.

    Examples
    --------
    >>> import gstudy as gs
    >>> study, trials = gs.example("panel")
    >>> found = gs.check(study, trials)
    >>> found.component("rollout").n_levels
    2160
    """
    assessment = assess(study, trials)
    warn_if_left_out(assessment, stacklevel=3)
    return assessment


def warn_if_left_out(assessment: Assessment, *, stacklevel: int = 2) -> None:
    """One EstimabilityWarning that names the declared components that are left out, if any."""
    left_out = [row for row in assessment.rows if row.left_out and row.asked == "facet"]
    if left_out:
        warnings.warn(_warning(left_out), EstimabilityWarning, stacklevel=stacklevel)


def assess(study: Study, trials: Trials | pd.DataFrame | str | Path) -> Assessment:
    """`check` without its warning."""
    read = read_trials(trials, study)
    records = encode(read, study)
    splits = Splits(records, study)
    check_banks(study, splits)
    mean, scale = (
        (None, None) if records.graded is None else score_spread(records.graded, records.trials)
    )
    found = judged(study, splits, scale)
    everything = (*found.components, *found.fixed)
    one_level = {
        facet: label for facet, label in splits.one_level.items() if facet in splits.dropped
    }
    pinned = study.fixed_facets
    return Assessment(
        study=study,
        rows=found.rows,
        components=found.components,
        cells=make_cells(records, everything, _active(everything, study, records), study),
        rules=found.rules,
        layout=find_layout(study, splits),
        notes=(*read.notes, *findings(study, splits)),
        not_sampled={f: label for f, label in one_level.items() if f not in pinned},
        pinned={f: label for f, label in one_level.items() if f in pinned},
        counts=read.counts,
        n_trials=records.n_trials,
        source=read.source,
        fixed=found.fixed,
        score_mean=mean,
        score_scale=scale,
        failed_runs=dict(read.failed_runs),
    )


def _active(components: Sequence[Component], study: Study, records: Records) -> frozenset[str]:
    """The facets that cells are told apart by: of components, the object, the average."""
    active = frozenset[str]().union(*(component.facets for component in components))
    if study.object in records.facets:
        active |= {study.object}
    if study.averaged_over is not None:
        active |= study.closure(study.averaged_over)
    return active


def _warning(left_out: Sequence[Verdict]) -> str:
    told = "; ".join(f"{row.name}, {row.verdict} ({row.reason})" for row in left_out)
    return f"left out of the model: {told}. The check says what to collect."
