"""Duplicate trials: two rows that agree on every facet are one trial counted twice."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from gstudy.errors import DataError, explain
from gstudy.study.reading.labels import label_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gstudy.study.declaration import Study
    from gstudy.study.reading.counted_rows import CountedRows
    from gstudy.study.reading.labels import Labels
    from gstudy.study.reading.source_rows import Source

__all__ = ["refuse_counted_duplicates", "refuse_duplicates"]

_LONGEST = 60


def refuse_duplicates(labels: Mapping[str, Labels], study: Study, source: Source) -> None:
    """Refuse rows with the same labels on every facet.

    Parameters
    ----------
    labels : mapping of str to Labels
        Facet to the labels of its column.
    study : Study
    source : Source
        Where they come from, for errors.

    Raises
    ------
    DataError
        Naming the first two such rows.
    """
    codes = pd.DataFrame({name: found.codes for name, found in labels.items()})
    again = codes.duplicated().to_numpy()
    if not again.any():
        return
    second = int(np.argmax(again))
    first = int(np.argmax((codes == codes.iloc[second]).all(axis=1).to_numpy()))
    trial = {name: found.texts[found.codes[second]] for name, found in labels.items()}
    rows = f"{source.row(first)} and {source.row(second)}"
    raise _repeated(source.name, rows, trial, (int(again.sum()), again.size), study)


def refuse_counted_duplicates(
    rows: CountedRows, facets: Sequence[str], last: str, place: Source, study: Study
) -> None:
    """The same for rows that are counted outside of memory.

    Parameters
    ----------
    rows : CountedRows
    facets : sequence of str
        The labelled facets but the last one.
    last : str
        The facet that tells repeated trials apart.
    place : Source
        Of the distinct rows of the other facets.
    study : Study

    Raises
    ------
    DataError
        Naming the first two such rows.
    """
    columns = [study.facet(facet).source_column for facet in facets]
    own = study.facet(last).source_column
    assert place.alike is not None
    if not rows.has_repeats(columns, own, len(place.alike.rows)):
        return
    found = rows.first_repeat([facet.source_column for facet in study.labelled])
    trial = {f.name: label_text(found.values[f.source_column]) for f in study.labelled}
    shown = f"row {found.first + 1} and row {found.second + 1}"
    raise _repeated(place.name, shown, trial, (found.n_repeats, place.n_rows(0)), study)


def _repeated(
    name: str, rows: str, trial: Mapping[str, str], repeats: tuple[int, int], study: Study
) -> DataError:
    told = ", ".join(f"{facet} {_short(label)!r}" for facet, label in trial.items())
    return DataError(
        explain(
            f"{name}: {rows} are the same trial, "
            f"{told} ({repeats[0]:,} of {repeats[1]:,} rows repeat an earlier one)",
            allowed="one row for each combination of labels",
            do=_advice(study),
        )
    )


def _short(label: str) -> str:
    """A label as far as a message shows it: some tasks are labelled with their whole prompt."""
    return label if len(label) <= _LONGEST else label[:_LONGEST] + "..."


def _advice(study: Study) -> str:
    if study.score is None:
        return (
            "Add such rows up if each counts other trials, drop the repeats if they are the same "
            "ones, or declare the facet that tells them apart."
        )
    name = "repeat" if "rollout" in study.facet_names else "rollout"
    parents = [facet.name for facet in study.labelled if facet.role != "error"]
    key = [facet.source_column for facet in study.labelled]
    return "\n".join(
        [
            "If a retry or a second export left them behind, drop the repeats.",
            "If they are repeated runs, declare the facet that tells them apart:",
            f"    [facets.{name}]",
            '    role = "legitimate"',
            f"    nested_in = {_listed(parents)}",
            "If no column tells them apart, number them first, such as in pandas",
            f'    df["{name}"] = df.groupby({_listed(key)}).cumcount()',
            "or add them up to one row of counts, and declare successes and trials, not score.",
        ]
    )


def _listed(names: Sequence[str]) -> str:
    """Names as a list that reads the same in TOML and in Python."""
    return json.dumps(list(names), ensure_ascii=False)
