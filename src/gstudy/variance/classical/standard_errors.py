"""Standard errors of a mean score, naive and clustered."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gstudy.display import Shown, Table
from gstudy.errors import QuantityError, did_you_mean, explain
from gstudy.variance.classical.score_rows import (
    Array,
    ScoreRows,
    declared,
    label_of,
    object_column,
    score_rows,
)

if TYPE_CHECKING:
    import pandas as pd

    from gstudy.study.declaration import Study
    from gstudy.study.trials import Trials

__all__ = ["ClusteredSE", "clustered_errors", "clustered_se"]

# Clustered standard errors of fewer clusters than this are noticeably too small.
_FEW = 30


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ClusteredSE(Shown):
    """Mean scores with naive and clustered standard errors, score scale.

    Parameters
    ----------
    frame : pandas.DataFrame
        Indexed by the levels of the object ("all" without one); columns `mean`, `n_trials`,
        `n_clusters`, `naive`, `cr0`, `cr1` (standard errors, score units), `note`.
    cluster : str
        The facet whose levels are the clusters.
    graded : bool
        Whether scores may be other than 0 and 1.
    """

    frame: pd.DataFrame
    cluster: str
    graded: bool

    @property
    def scale(self) -> str:
        """Always the score scale."""
        return "score"

    def summary(self) -> pd.DataFrame:
        """The frame, with scale and estimand in its `attrs`."""
        frame = self.frame.copy()
        frame.attrs.update(
            scale=self.scale,
            estimand="mean score over all trials",
            estimator=f"clustered by {self.cluster}",
            interval=None,
            level=None,
        )
        return frame

    def table(self) -> Table:
        """The table that is printed."""
        headers = {
            "mean": "mean",
            "naive": "SE naive",
            "cr0": "SE CR0",
            "cr1": "SE CR1",
            "n_trials": "trials",
            "n_clusters": "clusters",
        }
        error = "number3" if self.graded else "points2"
        own = tuple(f"{name}: {note}." for name, note in self.frame["note"].items() if note)
        return Table(
            frame=self.frame[list(headers)].rename(columns=headers),
            title=f"Mean score over all trials, standard errors clustered by {self.cluster}",
            scale=self.scale,
            notes=(
                *own,
                "Naive: trials independent. CR0: clusters independent; CR1 is CR0 sqrt(C/(C-1)).",
            ),
            formats={
                "mean": "number4" if self.graded else "percent1",
                **dict.fromkeys(("SE naive", "SE CR0", "SE CR1"), error),
                "trials": "int",
                "clusters": "int",
            },
        )


def clustered_se(
    trials: Trials | pd.DataFrame,
    by: str = "task",
    *,
    system: str | None = None,
    object: str | None = None,
    study: Study | None = None,
    family: str | None = None,
) -> ClusteredSE:
    """Mean score with naive and clustered standard errors.

    Parameters
    ----------
    trials : Trials or pandas.DataFrame
        With `study` anything that the study reads; else a long table with a column per facet and
        `score`, or `successes` and `trials`.
    by : str
        The facet whose levels are the clusters.
    system : str, optional
        One level of the object; by default each level has its row.
    object : str, optional
        The facet with one row per level: by default the study's object, without a study the
        column "system" where there is one, else all trials are one row.
    study : Study, optional
        Its policies count failed and unscored trials, and its nesting makes the clusters.
    family : {"binary", "gaussian"}, optional
        What scores are, without a study: 0/1 by default, "gaussian" for graded ones.

    Returns
    -------
    ClusteredSE

    Raises
    ------
    QuantityError
        For an unknown facet or system, `by` the object itself, a missing label, scores that the
        family has not, an empty table, and failed or unscored trials without a study.
    DataError
        When a table does not fit the study, and for labels that collide.

    Notes
    -----
    N trials, C clusters, m the mean: ``naive = s / sqrt(N)``, s the standard deviation with
    divisor N - 1; ``CR0 = sqrt(sum_c (sum_{i in c} (y_i - m))^2) / N``;
    ``CR1 = CR0 sqrt(C / (C - 1))`` (Liang and Zeger 1986; Miller 2024, arXiv 2411.00640).
    CR0 may be smaller than the naive one: scores of a cluster then agree less than by chance.

    Examples
    --------
    >>> import pandas as pd
    >>> import gstudy as gs
    >>> table = pd.DataFrame({"task": list("aabbcc"), "score": [1, 1, 0, 0, 1, 0]})
    >>> gs.clustered_se(table).summary()[["naive", "cr0", "cr1"]].round(3).loc["all"].tolist()
    [0.224, 0.236, 0.289]
    """
    study = declared(trials, study)
    measured = object_column(trials, study, object, needed=system is not None)
    names = [name for name in (by, measured) if name is not None]
    rows = score_rows(trials, study, family, None if study is not None else names)
    for name in names:
        rows.has(name)
    if by == measured:
        raise QuantityError(
            explain(
                f"within one level of {by!r} there is one cluster only",
                given=by,
                allowed="by: a facet that is sampled for each level of the object, such as 'task'",
            )
        )
    groups = rows.groups(measured)
    if system is not None:
        system = label_of(system)
        groups = {system: _one(groups, system, measured)}
    found = {name: clustered_errors(part, by) for name, part in groups.items()}
    return ClusteredSE(_frame(found, measured), by, rows.graded)


def clustered_errors(rows: ScoreRows, by: str) -> dict[str, float | str]:
    """The mean of rows of scores and its standard errors.

    Parameters
    ----------
    rows : ScoreRows
    by : str
        The facet whose levels are the clusters.

    Returns
    -------
    dict
        The columns of `ClusteredSE.frame`.
    """
    clusters = rows.by(rows.level_facets(by))
    n, c = float(rows.counts.sum()), clusters.n_levels
    mean = float(rows.totals.sum()) / n
    _, _, squares = rows.sums(rows.by(()))
    sums: Array = np.bincount(clusters.index, weights=rows.totals - mean * rows.counts)
    cr0 = math.sqrt(float(sums @ sums)) / n if c > 1 else math.nan
    naive = math.sqrt(float(squares[0]) / (n - 1) / n) if n > 1 else math.nan
    return {
        "mean": mean,
        "n_trials": rows.n_trials,
        "n_clusters": c,
        "naive": naive if naive > 0 else math.nan,
        "cr0": cr0 if naive > 0 else math.nan,
        "cr1": cr0 * math.sqrt(c / (c - 1)) if c > 1 and naive > 0 else math.nan,
        "note": _note(naive, cr0, c, by, mean),
    }


def _note(naive: float, cr0: float, n_clusters: int, by: str, mean: float) -> str:
    if math.isnan(naive):
        return "one trial: no standard error"
    if naive == 0:
        return f"no score varies, all are {mean:g}: no standard error, for 0 would claim certainty"
    if n_clusters < 2:
        return f"one {by}: no clustered standard error"
    texts = []
    if n_clusters < _FEW:
        texts.append(f"only {n_clusters} clusters: the clustered ones tend to be too small")
    if cr0 < naive * (1 - 1e-9):
        texts.append("CR0 is below the naive one: trials of a cluster agree less than by chance")
    return "; ".join(texts)


def _one(groups: Mapping[str, ScoreRows], system: str, measured: str | None) -> ScoreRows:
    if system not in groups:
        raise QuantityError(
            explain(
                f"no {measured} is called {system!r}",
                allowed=list(groups),
                do=did_you_mean(system, groups),
            )
        )
    return groups[system]


def _frame(found: Mapping[str, Mapping[str, float | str]], measured: str | None) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(list(found.values()), index=pd.Index(list(found), name=measured or "group"))
