"""Scored rows: labels and sums of scores, as every classical estimator reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from gstudy.errors import QuantityError, did_you_mean, explain
from gstudy.study.partition import Codes, Partition, split

if TYPE_CHECKING:
    import pandas as pd

    from gstudy.study.declaration import Study
    from gstudy.study.trials import Trials

__all__ = ["ScoreRows", "check_frame", "declared", "label_of", "object_column", "score_rows"]

FAMILIES = ("binary", "gaussian")

# Columns of a long table that hold no labels.
_OWN = ("score", "successes", "trials", "outcome", "reason")

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class ScoreRows:
    """Scores of rows, with the labels of the rows.

    Parameters
    ----------
    labels : dict of str to tuple of str
        Own labels of each facet in natural order; a code is a place in it.
    codes : int32 array (n_rows, n_facets)
        One column per facet, in the order of `labels`.
    totals, squares : array (n_rows,)
        Sum of the scores of a row, and of their squares.
    counts : array (n_rows,)
        Trials of a row, 1 or more.
    graded : bool
        Whether scores may be other than 0 and 1.
    study : Study or None
    """

    labels: dict[str, tuple[str, ...]]
    codes: Codes
    totals: Array
    squares: Array
    counts: Array
    graded: bool
    study: Study | None

    @property
    def facets(self) -> tuple[str, ...]:
        """Names of the facets."""
        return tuple(self.labels)

    @property
    def n_trials(self) -> int:
        """Number of trials."""
        return round(float(self.counts.sum()))

    def has(self, facet: str) -> None:
        """Refuse a name that is no facet of these rows.

        Raises
        ------
        QuantityError
        """
        if facet not in self.labels:
            raise QuantityError(
                explain(
                    f"no facet is named {facet!r}",
                    allowed=self.facets,
                    do=did_you_mean(str(facet), self.facets),
                )
            )

    def level_facets(self, facet: str) -> tuple[str, ...]:
        """The facets whose labels make a level: itself and, where the study is known, its
        parents."""
        self.has(facet)
        if self.study is None:
            return (facet,)
        closure = self.study.closure(facet)
        return tuple(name for name in self.facets if name in closure)

    def by(self, facets: Sequence[str]) -> Partition:
        """The rows by their tuples of labels of these facets."""
        return split(self.codes, [self.facets.index(name) for name in facets])

    def level_names(self, partition: Partition, facets: Sequence[str]) -> list[str]:
        """Labels of each level of a partition by these facets, joined by ":"."""
        columns = [(self.labels[name], self.facets.index(name)) for name in facets]
        return [
            ":".join(labels[self.codes[row, column]] for labels, column in columns)
            for row in partition.first_rows()
        ]

    def sums(self, partition: Partition) -> tuple[Array, Array, Array]:
        """Sum of the scores, number of trials and sum of squared deviations from the level's
        mean, of each level (n_levels,)."""
        index, size = partition.index, partition.n_levels
        totals = np.bincount(index, weights=self.totals, minlength=size)
        counts = np.bincount(index, weights=self.counts, minlength=size)
        means = self.totals / self.counts
        # Of one score that is 0 exactly.
        inside = np.where(self.counts > 1, self.squares - self.totals * means, 0.0)
        apart = self.counts * (means - (totals / counts)[index]) ** 2
        return totals, counts, np.bincount(index, weights=inside + apart, minlength=size)

    def take(self, rows: npt.NDArray[np.bool_]) -> ScoreRows:
        """Some of the rows."""
        return replace(
            self,
            codes=self.codes[rows],
            totals=self.totals[rows],
            squares=self.squares[rows],
            counts=self.counts[rows],
        )

    def groups(self, facet: str | None) -> dict[str, ScoreRows]:
        """The rows per level of a facet, in natural order; all of them as "all" without one."""
        if facet is None:
            return {"all": self}
        facets = self.level_facets(facet)
        partition = self.by(facets)
        names = self.level_names(partition, facets)
        return {name: self.take(partition.index == i) for i, name in enumerate(names)}


def score_rows(
    trials: Trials | pd.DataFrame,
    study: Study | None = None,
    family: str | None = None,
    facets: Sequence[str] | None = None,
) -> ScoreRows:
    """Read the rows that count of trials, or of a plain table.

    Parameters
    ----------
    trials : Trials or pandas.DataFrame
        A DataFrame is read by the study where there is one; else it is a long table with a column
        per facet and `score`, or `successes` and `trials`.
    study : Study, optional
    family : {"binary", "gaussian"}, optional
        What scores are; the study's family by default, else binary.
    facets : sequence of str, optional
        The columns of labels that are needed; all of them by default.

    Returns
    -------
    ScoreRows

    Raises
    ------
    QuantityError
        For an unknown family or one that is not the study's, no scores, an unknown facet, a
        missing label, scores that the family has not, an empty table, and failed or unscored
        trials without a study.
    DataError
        As `gstudy.read_trials`, and for labels that collide.
    """
    import pandas as pd

    study = declared(trials, study)
    graded = _graded(family, study)
    table = _long_table(trials, study, graded)
    if not len(table):
        raise QuantityError(explain("the table has no rows", allowed="one row per trial or count"))
    totals, squares, counts = _numbers(table, graded)
    used = counts > 0
    # The study's table may hold more beside its facets, such as known standard errors.
    found = _facets_of(table) if study is None else [facet.name for facet in study.labelled]
    labels = {name: table[name] for name in _wanted(found, facets)}
    coded = {name: _coded(name, pd.Series(column)[used]) for name, column in labels.items()}
    columns = [codes for _, codes in coded.values()]
    codes = np.column_stack(columns) if columns else np.zeros((int(used.sum()), 0))
    return ScoreRows(
        labels={name: texts for name, (texts, _) in coded.items()},
        codes=codes.astype(np.int32),
        totals=totals[used],
        squares=squares[used],
        counts=counts[used],
        graded=graded,
        study=study,
    )


def declared(trials: Trials | pd.DataFrame, study: Study | None) -> Study | None:
    """The study that was given, else the one that the trials were read with.

    It knows the nesting: a task label that is used again in every domain is a task of its own.
    """
    return study if study is not None else getattr(trials, "study", None)


def _long_table(trials: Trials | pd.DataFrame, study: Study | None, graded: bool) -> pd.DataFrame:
    """The rows that count, with a column per facet and scores or counts."""
    from gstudy.study.trials import Trials, read_trials

    if study is None:
        table = trials.rows("this estimate") if isinstance(trials, Trials) else trials
        check_frame(table)
        _check_outcomes(table)
        return table
    if not isinstance(trials, Trials):
        check_frame(trials)
        trials = read_trials(trials, study)
    trials.rows("this estimate")
    table = trials.usable(study)
    return table.rename(columns={"successes": "score"}) if graded else table


def object_column(
    trials: Trials | pd.DataFrame, study: Study | None, facet: str | None, *, needed: bool
) -> str | None:
    """The facet whose levels are systems: the one named, else the study's object, else without a
    study the column "system" where there is one.

    Raises
    ------
    QuantityError
        When one is needed and there is none.
    """
    name, study = facet, declared(trials, study)
    if name is None and study is not None:
        name = study.object
    elif name is None and "system" in getattr(getattr(trials, "table", trials), "columns", ()):
        name = "system"
    if name is None and needed:
        raise QuantityError(
            explain(
                "it is not known which facet's levels are the systems",
                do='Name it, such as "model", or declare it as the object of the study.',
            )
        )
    return name


def label_of(value: object) -> str:
    """The label that a value means, as labels of a column are read."""
    from gstudy.study.reading.labels import label_text

    try:
        return label_text(value)
    except TypeError:
        return str(value)


def _missing_label(name: str, missing: npt.NDArray[np.bool_]) -> QuantityError:
    """The error for rows without a label: they would fall out of every group without a word."""
    return QuantityError(
        explain(
            f"column {name!r}: the label is missing in {missing.sum():,} of "
            f"{missing.size:,} rows, the first row {int(missing.argmax()) + 1}",
            do="Fill it in, or take these rows out; a missing label is never a level.",
        )
    )


def _graded(family: str | None, study: Study | None) -> bool:
    if family is not None and family not in FAMILIES:
        raise QuantityError(
            explain(
                "unknown family of scores",
                given=family,
                allowed=FAMILIES,
                do=did_you_mean(family, FAMILIES),
            )
        )
    if study is not None and family not in (None, study.family):
        raise QuantityError(
            explain(
                f"the study declares {study.family} scores",
                given=family,
                do="Leave family out, or declare it in the study.",
            )
        )
    return (family or (study.family if study is not None else "binary")) == "gaussian"


def check_frame(table: object) -> None:
    """Refuse what is no table.

    Raises
    ------
    QuantityError
    """
    columns = getattr(table, "columns", None)
    if columns is None:
        raise QuantityError(
            explain(
                "the scores are not found",
                given=type(table).__name__,
                allowed="trials as gs.read_trials returns them, or a DataFrame with columns "
                "'score', or 'successes' and 'trials'",
            )
        )


def _check_outcomes(table: pd.DataFrame) -> None:
    if "outcome" not in table:
        return
    left = int((table["outcome"] != "scored").sum())
    if left:
        raise QuantityError(
            explain(
                f"{left} trials failed or were never scored, and count by the study's policies",
                do="Pass study=.",
            )
        )


def _facets_of(table: pd.DataFrame) -> list[str]:
    return [str(column) for column in table.columns if column not in _OWN]


def _wanted(found: list[str], wanted: Sequence[str] | None) -> list[str]:
    for name in wanted or ():
        if name not in found:
            raise QuantityError(
                explain(
                    f"no facet is named {name!r}", allowed=found, do=did_you_mean(str(name), found)
                )
            )
    return found if wanted is None else [name for name in found if name in wanted]


def _numbers(table: pd.DataFrame, graded: bool) -> tuple[Array, Array, Array]:
    """Sum, sum of squares and number of the scores of each row."""
    if "score" in table:
        scores = _scores(table["score"], graded)
        # Trials that were read graded are one a row.
        return scores, scores**2, np.ones(len(scores))
    if not {"successes", "trials"} <= set(table.columns):
        raise QuantityError(
            explain(
                "the scores are not found",
                given=[str(column) for column in table.columns],
                allowed="trials as gs.read_trials returns them, or a DataFrame with columns "
                "'score', or 'successes' and 'trials'",
            )
        )
    successes, counts = _floats(table["successes"]), _floats(table["trials"])
    whole = (successes == np.rint(successes)) & (counts == np.rint(counts))
    good = whole & (successes >= 0) & (successes <= counts)
    if not good.all():
        row = int(np.argmin(good))
        raise QuantityError(
            explain(
                f"successes are not between 0 and trials, in row {table.index[row]}"
                if whole[row]
                else f"successes or trials are no whole number, in row {table.index[row]}",
                given=f"{table['successes'].tolist()[row]} of {table['trials'].tolist()[row]}",
                allowed="whole numbers, successes between 0 and trials",
            )
        )
    return successes, successes, counts


def _scores(column: pd.Series, graded: bool) -> Array:
    values = _floats(column)
    good = np.isfinite(values) if graded else np.isin(values, [0.0, 1.0])
    if not good.all():
        row = int(np.argmin(good))
        raise QuantityError(
            explain(
                f"a score is {'no finite number' if graded else 'neither 0 nor 1'}, in row "
                f"{column.index[row]}",
                given=column.tolist()[row],
                allowed="finite numbers" if graded else "0/1 scores, or counts",
                do=None if graded else 'For graded scores say family="gaussian".',
            )
        )
    return values


def _floats(column: pd.Series) -> Array:
    """The numbers of a column; what is none of them becomes NaN, for the check to name."""
    import pandas as pd

    if column.dtype.kind == "O":
        column = column.where(~column.map(lambda value: isinstance(value, str)))
    return pd.to_numeric(column, errors="coerce").to_numpy(dtype=float, na_value=np.nan)


def _coded(name: str, column: pd.Series) -> tuple[tuple[str, ...], npt.NDArray[np.int64]]:
    """Labels in natural order and the place of each row's label among them."""
    from gstudy.study.reading.labels import read_labels
    from gstudy.study.reading.source_rows import Source
    from gstudy.study.records import natural_order

    missing = column.isna().to_numpy()
    if missing.any():
        raise _missing_label(name, missing)
    found = read_labels(column, name, Source("DataFrame"))
    texts = natural_order(found.texts)
    place = {text: i for i, text in enumerate(texts)}
    rank = np.array([place[text] for text in found.texts], dtype=np.int64)
    return tuple(texts), rank[found.codes]
