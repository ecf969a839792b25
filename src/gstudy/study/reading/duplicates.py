"""Duplicate trials: two rows that agree on every facet are one trial counted twice."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from gstudy.errors import DataError, explain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gstudy.study.declaration import Study
    from gstudy.study.reading.labels import Labels
    from gstudy.study.reading.source_rows import Source

__all__ = ["refuse_duplicates"]

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
    trial = ", ".join(
        f"{name} {_short(found.texts[found.codes[second]])!r}" for name, found in labels.items()
    )
    raise DataError(
        explain(
            f"{source.name}: {source.row(first)} and {source.row(second)} are the same trial, "
            f"{trial} ({again.sum():,} of {again.size:,} rows repeat an earlier one)",
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
