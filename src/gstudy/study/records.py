"""Usable trials as integer codes: one row per distinct combination of labels."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gstudy.study.graded import Graded, combine, graded_trials
from gstudy.study.partition import Codes, split

if TYPE_CHECKING:
    import pandas as pd

    from gstudy.study.declaration import Study
    from gstudy.study.trials import Trials

__all__ = ["Records", "encode", "natural_order", "parents_first"]

_DIGITS = re.compile(r"([0-9]+)")


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """Usable trials as integer codes, rows sorted by their codes, parents before children.

    Parameters
    ----------
    facets : tuple of str
        Labelled facets in declared order.
    labels : dict of str to tuple of str
        Own labels of each facet in natural order ("2" before "10"); a code is a place in it.
    codes : int32 array (n_rows, n_facets)
    successes, trials : int64 array (n_rows,)
        Passes and trials of the row; of graded scores (float64) the sum of the scores.
    graded : Graded or None
        Of graded scores.
    counted : str or None
        The facet whose levels are counted, one trial each, and have no codes: that of counts, or
        the rollouts of a file that was counted outside of memory.
    is_file_counted : bool
        Whether the levels had labels, a row of the file each.
    """

    facets: tuple[str, ...]
    labels: dict[str, tuple[str, ...]]
    codes: Codes
    successes: npt.NDArray[Any]
    trials: npt.NDArray[np.int64]
    graded: Graded | None = None
    counted: str | None = None
    is_file_counted: bool = False

    @property
    def n_trials(self) -> int:
        """Number of usable trials."""
        return int(self.trials.sum())

    @property
    def n_rows(self) -> npt.NDArray[np.int64]:
        """Rows of the long table behind each row of codes."""
        return self.trials if self.is_file_counted else np.ones_like(self.trials)


def encode(trials: Trials, study: Study) -> Records:
    """Usable trials as integer codes.

    Parameters
    ----------
    trials : Trials
    study : Study
        Its policies say which failed and unscored trials are used.

    Returns
    -------
    Records

    Raises
    ------
    DataError
        When no trial is usable.

    Examples
    --------
    >>> import gstudy as gs
    >>> study, trials = gs.example("airline")
    >>> encode(trials, study).codes.shape
    (50, 1)
    """
    usable = trials.usable(study)
    counted = trials.counted or study.counted
    facets = tuple(facet for facet in study.facet_names if facet != counted)
    coded = [_coded(usable[facet]) for facet in facets]
    codes = np.empty((len(usable), len(facets)), dtype=np.int32)
    for i, (column, _) in enumerate(coded):
        codes[:, i] = column
    rows = split(codes, [facets.index(facet) for facet in parents_first(facets, study)])
    successes, n = usable["successes"].to_numpy(), usable["trials"].to_numpy()
    graded = None
    if study.family == "gaussian":
        known = study.standard_error is not None
        errors = usable["standard_error"].to_numpy() if known else None
        squares = usable["squares"].to_numpy() if "squares" in usable else None
        graded = combine(graded_trials(successes, errors, squares), n, rows)
        successes = successes * n
    return Records(
        facets=facets,
        labels={facet: labels for facet, (_, labels) in zip(facets, coded, strict=True)},
        codes=codes[rows.first_rows()],
        successes=rows.totals(successes) if graded is None else rows.sums(successes),
        trials=rows.totals(n),
        graded=graded,
        counted=counted,
        is_file_counted=trials.counted is not None,
    )


def parents_first(facets: Iterable[str], study: Study) -> list[str]:
    """Facets in declared order, but none before a facet that it is nested in.

    The order of levels then follows the labels within parents, so that child labels used again
    under every parent and unique ones give the same arrays.
    """
    waiting, ordered = list(facets), list[str]()
    while waiting:
        ready = next(f for f in waiting if not (study.closure(f) - {f}).intersection(waiting))
        waiting.remove(ready)
        ordered.append(ready)
    return ordered


def natural_order(labels: Iterable[str]) -> list[str]:
    """Labels sorted as people count: runs of digits by their value, the rest as text.

    >>> natural_order(["10", "2", "b", "a10", "a2"])
    ['2', '10', 'a2', 'a10', 'b']
    """
    return sorted(labels, key=_natural_key)


def _natural_key(label: str) -> tuple[tuple[object, ...], str]:
    # Text stands at even places and digits at odd ones, so that keys always compare. Digits are
    # compared by length, then as text: their number has no limit. The label breaks ties.
    parts: list[object] = list(_DIGITS.split(label))
    for i in range(1, len(parts), 2):
        digits = str(parts[i]).lstrip("0")
        parts[i] = (len(digits), digits)
    return tuple(parts), label


def _coded(column: pd.Series) -> tuple[npt.NDArray[np.intp], tuple[str, ...]]:
    """Codes of a column of labels, and the labels that occur in natural order."""
    import pandas as pd

    codes, found = pd.factorize(column)
    texts = [str(label) for label in found]
    ordered = natural_order(texts)
    place = {label: i for i, label in enumerate(ordered)}
    ranks = np.fromiter((place[label] for label in texts), dtype=np.intp, count=len(texts))
    return ranks[codes], tuple(ordered)
