"""Parts: a study and its trials split by the levels of a facet, or of a column that is none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gstudy.errors import DeclarationError, did_you_mean, explain
from gstudy.study.cells import joined_labels
from gstudy.study.checking.candidates import tops
from gstudy.study.declaration import Study, checked_study
from gstudy.study.partition import split
from gstudy.study.reading.labels import read_labels
from gstudy.study.reading.readers import read_columns
from gstudy.study.reading.wanted_columns import WantedColumns
from gstudy.study.records import natural_order, parents_first
from gstudy.study.trials import Trials, read_trials

if TYPE_CHECKING:
    import pandas as pd

    from gstudy.study.partition import Codes

__all__ = ["Part", "split_by"]


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """The trials of one level, with the study as it is within them.

    Parameters
    ----------
    label : str
        The level.
    study : Study
        The declared one, without interactions, own sds and priors of what has one level here.
    trials : Trials
    """

    label: str
    study: Study
    trials: Trials


def split_by(
    study: Study, trials: Trials | pd.DataFrame | str | Path, by: str
) -> tuple[str, list[Part]]:
    """Read trials once and split them.

    Parameters
    ----------
    study : Study
    trials : Trials, DataFrame or path
    by : str
        A facet (of a nested one a level is the labels of its parents and its own), the column of
        one, or any other column of the trials.

    Returns
    -------
    by : str
        The facet, or the column.
    parts : list of Part
        In natural order of their labels.

    Raises
    ------
    DeclarationError
        When `by` is a column and the trials hold facets only, is a score's column, is pinned by
        the declaration, is a counted facet, or splits a finite bank of which a part is unknown.
    DataError
        When the trials cannot be read, have no such column, or no label in some row.
    """
    study = checked_study(study)
    by = _facet_of_column(study, by)
    whole = read_trials(trials, study)
    codes, labels = _levels(study, trials, whole, by)
    split_rows = _Rows(study, whole, by, codes)
    parts = []
    for code, label in sorted(enumerate(labels), key=_place(labels)):
        rows = codes == code
        own = split_rows.study_within(rows, label)
        parts.append(Part(label, own, whole.part(rows, own)))
    return by, parts


def _place(labels: list[str]) -> Any:
    order = {label: i for i, label in enumerate(natural_order(labels))}
    return lambda coded: order[coded[1]]


def _facet_of_column(study: Study, by: object) -> str:
    """The facet whose column `by` is, else `by` itself."""
    if not isinstance(by, str) or not by:
        raise DeclarationError(
            explain(
                "by is no facet and no column of the trials",
                given=by,
                allowed=f"{', '.join(study.facet_names)}, or the name of a column",
            )
        )
    if by in study.facet_names:
        return by
    return next((f.name for f in study.facets if f.source_column == by), by)


def _levels(
    study: Study, source: object, whole: Trials, by: str
) -> tuple[npt.NDArray[np.int64], list[str]]:
    """The level of each row of the long table, and the label of each level."""
    if by not in study.facet_names:
        return _column_levels(study, source, whole, by)
    if by == study.counted:
        raise DeclarationError(
            explain(
                f"the levels of {by!r} are counted, not named: there is nothing to split by",
                given=by,
                allowed=[facet.name for facet in study.labelled],
            )
        )
    if by == whole.counted:
        whole.rows(f"a split by {by!r}")
    facets = parents_first(study.closure(by), study)
    codes, texts = _codes(whole, facets)
    levels = split(codes, range(len(facets)))
    joined = joined_labels([texts[facet] for facet in facets], codes[levels.first_rows()])
    return levels.index.astype(np.int64), joined


def _column_levels(
    study: Study, source: object, whole: Trials, by: str
) -> tuple[npt.NDArray[np.int64], list[str]]:
    """The levels of a column that is no facet, read from the source once more."""
    scores = [study.score, study.successes, study.trials, getattr(study, "standard_error", None)]
    if by in scores:
        raise DeclarationError(
            explain(f"{by!r} holds the scores", given=by, do="Split by a facet or an attribute.")
        )
    if by in study.controlled:
        raise DeclarationError(
            explain(
                f"controlled.{by} pins what the fits are to be split by",
                given=study.controlled[by],
                do=f"Take {by!r} out of [controlled]: each fit records its own level there.",
            )
        )
    if isinstance(source, Trials):
        raise DeclarationError(
            explain(
                f"{by!r} is no facet, and trials that were read hold the facets only",
                given=by,
                allowed=study.facet_names,
                do=did_you_mean(by, study.facet_names)
                or "Pass the DataFrame or the path of the file (study.data) instead.",
            )
        )
    whole.rows(f"a split by {by!r}, which is no facet,")
    frame, place = read_columns(source, WantedColumns({by: "by"}))
    found = read_labels(frame[by], by, place)
    # The same rows were read twice: the long table has one row per row of the source.
    assert len(found.codes) == len(whole)
    return found.codes, found.texts


def _codes(whole: Trials, facets: Iterable[str]) -> tuple[Codes, dict[str, list[str]]]:
    """Codes of each row in some facets' columns, and the texts they point at."""
    import pandas as pd

    columns, texts = [], {}
    for facet in facets:
        codes, found = pd.factorize(whole.table[facet])
        columns.append(codes)
        texts[facet] = [str(label) for label in found]
    return np.stack(columns, axis=1).astype(np.int32), texts


class _Rows:
    """What a subset of the rows says about facets; the study within it."""

    def __init__(self, study: Study, whole: Trials, by: str, levels: npt.NDArray[np.int64]) -> None:
        self.study = study
        self.by = by
        labelled = [facet.name for facet in study.labelled if facet.name != whole.counted]
        self.facets = parents_first(labelled, study)
        self.codes, _ = _codes(whole, self.facets)
        self.levels = levels
        self._known: dict[tuple[frozenset[str], str], Study] = {}

    def study_within(self, rows: npt.NDArray[np.bool_], label: str) -> Study:
        """The study of some rows; the label of a column that is no facet is recorded there."""
        codes = self.codes[rows]
        same = (codes == codes[0]).all(axis=0)
        constant = {facet for facet, one in zip(self.facets, same, strict=True) if one}
        one_level = frozenset(f for f in self.facets if self.study.closure(f) <= constant)
        pinned = "" if self.by in self.study.facet_names else label
        universes = self._universes(rows, one_level)
        key = (one_level, repr((pinned, universes)))
        if key not in self._known:
            tables = _within(self.study, self.by, one_level, universes)
            if self.by not in self.study.facet_names:
                tables["controlled"] = {**tables["controlled"], self.by: label}
            self._known[key] = Study.from_dict(tables)
        return self._known[key]

    def _universes(
        self, rows: npt.NDArray[np.bool_], one_level: frozenset[str]
    ) -> dict[str, int | None]:
        """Universes that are others within these rows than in the whole."""
        found: dict[str, int | None] = {}
        for facet in self.study.facets:
            if facet.universe is None or facet.name == self.study.counted:
                continue
            if facet.name in one_level:
                found[facet.name] = None
            elif self._is_bank_split(facet.name):
                found[facet.name] = self._part_of_bank(facet.name, facet.universe, rows)
        return found

    def _is_bank_split(self, facet: str) -> bool:
        """Whether each level of a facet lies in one level of `by`, as tasks lie in a domain."""
        if self.by in (facet, self.study.object):
            return False
        own = self._columns(facet)
        return self._tells(own) and not self._tells(own[:-1])

    def _tells(self, columns: list[int]) -> bool:
        """Whether a set of facets tells the level of `by`."""
        own = split(self.codes, columns)
        both = np.unique(np.stack([own.index, self.levels]), axis=1)
        return bool(both.shape[1] == own.n_levels)

    def _columns(self, facet: str) -> list[int]:
        """Places of a facet's parents, then its own."""
        parents = self.study.closure(facet) - {facet}
        return [self.facets.index(f) for f in self.facets if f in parents] + [
            self.facets.index(facet)
        ]

    def _part_of_bank(self, facet: str, universe: int, rows: npt.NDArray[np.bool_]) -> int:
        columns = self._columns(facet)
        n_all, n_parents = self._counts(columns, self.codes)
        n_part, n_part_parents = self._counts(columns, self.codes[rows])
        if n_all != universe * n_parents or n_part % n_part_parents:
            raise DeclarationError(
                explain(
                    f"facets.{facet}.universe is of the whole bank, and by={self.by!r} splits it",
                    given=universe,
                    allowed=f"a bank of which all is in the trials; {n_all:,} of "
                    f"{universe * n_parents:,} are",
                    do="Fit each part by itself, with the size of its own bank.",
                )
            )
        return n_part // n_part_parents

    @staticmethod
    def _counts(columns: list[int], codes: Codes) -> tuple[int, int]:
        """Levels of a facet, and of its parents, that occur."""
        return split(codes, columns).n_levels, split(codes, columns[:-1]).n_levels


def _within(
    study: Study, by: str, one_level: frozenset[str], universes: Mapping[str, int | None]
) -> dict[str, Any]:
    """The tables of the study where some facets have one level."""
    tables = study.to_dict()
    for name, universe in universes.items():
        tables["facets"][name]["universe"] = universe
    for table in tables["facets"].values():
        if table.get("varies") in one_level:
            del table["varies"]
    kept = {name for name in study.keep if by not in tops(name.split(":"), study)}
    gone = one_level - {top for name in kept for top in tops(name.split(":"), study)}
    renamed = {name: _reduced(name, gone, study) for name in _listed(study)}
    model = tables["model"]
    if isinstance(model["interactions"], list):
        model["interactions"] = list(dict.fromkeys(filter(None, renamed.values())))
    model["keep"] = [name for name in study.keep if name in kept]
    tables["priors"] = _priors(tables["priors"], gone, renamed, study)
    tables["facets"] = {
        name: {key: value for key, value in table.items() if value is not None}
        for name, table in tables["facets"].items()
    }
    return tables


def _listed(study: Study) -> tuple[str, ...]:
    return () if isinstance(study.interactions, str) else study.interactions


def _reduced(name: str, gone: frozenset[str], study: Study) -> str:
    """An interaction without its one-level facets; "" when it is none any more."""
    members = tops(name.split(":"), study)
    left = [top for top in members if top not in gone]
    if len(left) == len(members):
        return name
    return study.name_of(study.closure(left)) if len(left) > 1 else ""


def _priors(
    tables: Mapping[str, Any],
    gone: frozenset[str],
    renamed: Mapping[str, str],
    study: Study,
) -> dict[str, Any]:
    """The priors of what is in the model still, under the names that it has here."""
    found: dict[str, Any] = {}
    for key, prior in tables.items():
        kind, _, rest = key.partition("(")
        name = rest.removesuffix(")")
        if not rest or not set(name.split(":")) <= set(study.facet_names):
            found[key] = prior
        elif kind == "fixed":
            found |= {} if name in gone else {key: prior}
        elif not gone & set(tops(name.split(":"), study)):
            found[key] = prior
        elif renamed.get(name):
            found.setdefault(f"sd({renamed[name]})", prior)
    return found
