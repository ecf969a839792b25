"""The one-way analysis-of-variance ICC of 0/1 scores: a point value, beside the model's."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from gstudy.display import Shown, Table
from gstudy.errors import QuantityError, did_you_mean, explain

if TYPE_CHECKING:
    import pandas as pd

    from gstudy.study.declaration import Study
    from gstudy.study.trials import Trials

__all__ = ["AnovaIcc", "OneWay", "anova_icc", "one_way"]

KIND = "ICC(1,1)"


@dataclass(frozen=True, slots=True)
class OneWay:
    """One-way analysis of variance of 0/1 scores.

    Parameters
    ----------
    icc : float
        NaN where it is not defined; `note` says why.
    n_levels, n_trials : int
    n0 : float
        Donner's average group size, ``(N - sum n_j^2 / N) / (k - 1)``; n when balanced.
    ms_between, ms_within : float
        Mean squares.
    note : str
        "" when there is nothing to say.
    """

    icc: float
    n_levels: int
    n_trials: int
    n0: float
    ms_between: float
    ms_within: float
    note: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AnovaIcc(Shown):
    """One-way ANOVA ICCs, score scale; point values without intervals.

    Parameters
    ----------
    frame : pandas.DataFrame
        Indexed by the levels of `by` ("all" without one); columns `icc`, `n_levels`, `n_trials`,
        `n0`, `ms_between`, `ms_within`, `note`.
    facet : str
    kind : str
        The estimator, "ICC(1,1)".
    """

    frame: pd.DataFrame
    facet: str
    kind: str = KIND

    @property
    def value(self) -> float:
        """The ICC, where there is one group only.

        Raises
        ------
        QuantityError
            When there are several.
        """
        if len(self.frame) != 1:
            raise QuantityError(
                explain(
                    "there is one ICC per group, not one",
                    given=list(self.frame.index[:5]),
                    do="Use .frame['icc'].",
                )
            )
        return float(self.frame["icc"].iloc[0])

    @property
    def scale(self) -> str:
        """Always the score scale."""
        return "score"

    def summary(self) -> pd.DataFrame:
        """The frame, with scale and estimator in its `attrs`."""
        frame = self.frame.copy()
        frame.attrs.update(
            scale=self.scale, estimand=f"{self.kind} of {self.facet}", interval=None, level=None
        )
        return frame

    def table(self) -> Table:
        """The table that is printed."""
        columns = {"n_levels": "levels", "n_trials": "trials", "n0": "trials each"}
        frame = self.frame[["icc", *columns]].rename(columns=columns)
        notes = [f"{name}: {note}." for name, note in self.frame["note"].items() if note]
        return Table(
            frame=frame,
            title=f"One-way ANOVA {self.kind} of {self.facet}, point values",
            scale=self.scale,
            notes=tuple(notes),
            formats={"icc": "decimal3", "trials each": "count", "levels": "int", "trials": "int"},
        )


def anova_icc(
    trials: Trials | pd.DataFrame,
    facet: str = "task",
    by: str | None = None,
    *,
    kind: str = KIND,
    study: Study | None = None,
) -> AnovaIcc:
    """Intraclass correlation ICC(1,1) of 0/1 scores from a one-way analysis of variance.

    Parameters
    ----------
    trials : Trials or pandas.DataFrame
        A long table with a column per facet and `score`, or `successes` and `trials`.
    facet : str
        The groups; every other row of a group is a replicate.
    by : str, optional
        One ICC per level of this facet, such as "system".
    kind : {"ICC(1,1)"}
    study : Study, optional
        Its policies count failed and unscored trials, and its nesting makes the levels of
        `facet`; without it such trials are refused and levels are labels.

    Returns
    -------
    AnovaIcc

    Raises
    ------
    QuantityError
        For another kind, an unknown facet, `by` the same facet, a missing label, an empty
        table, and failed or unscored trials without a study.

    Notes
    -----
    ``ICC = (MSB - MSW) / (MSB + (n0 - 1) MSW)``, n0 Donner's average group size (Shrout and
    Fleiss 1979; Donner 1986). It can be negative, and is left so; where no score varies, or no
    group has two trials, it is NaN and the note says why.

    Examples
    --------
    >>> import pandas as pd
    >>> import gstudy as gs
    >>> counts = pd.DataFrame({"task": ["a", "b"], "successes": [1, 3], "trials": [4, 4]})
    >>> round(gs.anova_icc(counts).value, 3)
    0.2
    """
    if kind != KIND:
        raise QuantityError(
            explain("unknown kind of ANOVA ICC", given=kind, allowed=[KIND], do="Leave kind out.")
        )
    table = _counts(trials, study)
    for name in (facet, *([by] if by is not None else [])):
        _check_facet(name, table)
    if by == facet:
        raise QuantityError(
            explain(
                f"within one level of {by!r} there is only that level",
                given=by,
                allowed="by: another facet, or none",
            )
        )
    groups = _level_columns(facet, table, study)
    _check_labels([*groups, *([by] if by is not None else [])], table)
    parts = [("all", table)]
    if by is not None:
        parts = [(str(label), rows) for label, rows in table.groupby(by, sort=False, observed=True)]
    found = {label: one_way(*_sums(rows, groups)) for label, rows in parts}
    return AnovaIcc(_frame(found, by), facet)


def one_way(successes: npt.NDArray[np.int64], trials: npt.NDArray[np.int64]) -> OneWay:
    """One-way analysis of variance of 0/1 scores in groups.

    Parameters
    ----------
    successes, trials : int array (n_levels,)
        Per group; groups without trials are left out.

    Returns
    -------
    OneWay
    """
    k, n = successes[trials > 0].astype(float), trials[trials > 0].astype(float)
    n_levels, total = n.size, float(n.sum())
    rate = k.sum() / total
    between = float(np.sum(n * (k / n - rate) ** 2))
    within = float(np.sum(k * (n - k) / n))
    ms_between = between / (n_levels - 1) if n_levels > 1 else math.nan
    ms_within = within / (total - n_levels) if total > n_levels else math.nan
    n0 = (total - float(np.sum(n**2)) / total) / (n_levels - 1) if n_levels > 1 else math.nan
    below = ms_between + (n0 - 1) * ms_within
    icc = (ms_between - ms_within) / below if below > 0 else math.nan
    return OneWay(
        icc=icc,
        n_levels=n_levels,
        n_trials=int(total),
        n0=n0,
        ms_between=ms_between,
        ms_within=ms_within,
        note=_note(icc, n_levels, total, float(rate)),
    )


def _note(icc: float, n_levels: int, n_trials: float, rate: float) -> str:
    if n_levels < 2:
        return "not defined: one level"
    if n_trials == n_levels:
        return "not defined: one trial per level"
    if rate in (0.0, 1.0):
        return f"not defined: no score varies, all are {rate:.0f}"
    if icc < 0:
        return "negative: levels differ less than chance alone would make them"
    return ""


def _counts(trials: Trials | pd.DataFrame, study: Study | None) -> pd.DataFrame:
    """Rows with facets, `successes` and `trials`."""
    from gstudy.study.trials import Trials

    if isinstance(trials, Trials) and study is not None:
        return trials.usable(study)
    table = trials.table if isinstance(trials, Trials) else trials
    _check_table(table)
    if "score" in table:
        return table.assign(successes=table["score"].astype(int), trials=1)
    return table


def _check_table(table: pd.DataFrame) -> None:
    has_score = "score" in getattr(table, "columns", ())
    if not has_score and not {"successes", "trials"} <= set(getattr(table, "columns", ())):
        raise QuantityError(
            explain(
                "the scores are not found",
                given=type(table).__name__,
                allowed="trials as gs.read_trials returns them, or a DataFrame with columns "
                "'score', or 'successes' and 'trials'",
            )
        )
    if "outcome" in table:
        left = int((table["outcome"] != "scored").sum())
        if left:
            raise QuantityError(
                explain(
                    f"{left} trials failed or were never scored, and count by the study's policies",
                    do="Pass study=.",
                )
            )
    if has_score:
        odd = table.loc[~table["score"].isin([0, 1]), "score"]
        if len(odd):
            raise QuantityError(
                explain(
                    f"a score is neither 0 nor 1, in row {odd.index[0]}",
                    given=odd.tolist()[0],
                    allowed="0/1 scores, or counts",
                )
            )
        return
    odd_rows = table[(table["successes"] > table["trials"]) | (table["successes"] < 0)]
    if len(odd_rows):
        raise QuantityError(
            explain(f"successes are not between 0 and trials, in row {odd_rows.index[0]}")
        )


def _check_facet(name: str, table: pd.DataFrame) -> None:
    own = ("score", "successes", "trials", "outcome", "reason")
    facets = [str(column) for column in table.columns if column not in own]
    if name not in facets:
        raise QuantityError(
            explain(
                f"no facet is named {name!r}", allowed=facets, do=did_you_mean(str(name), facets)
            )
        )


def _check_labels(names: list[str], table: pd.DataFrame) -> None:
    """Rows without a label would fall out of every group without a word."""
    if not len(table):
        raise QuantityError(explain("the table has no rows", allowed="one row per trial or count"))
    for name in names:
        missing = table[name].isna().to_numpy()
        if missing.any():
            raise QuantityError(
                explain(
                    f"column {name!r}: the label is missing in {missing.sum():,} of "
                    f"{missing.size:,} rows, the first row {int(missing.argmax()) + 1}",
                    do="Fill it in, or take these rows out; a missing label is never a level.",
                )
            )


def _level_columns(facet: str, table: pd.DataFrame, study: Study | None) -> list[str]:
    """Columns that make a level: of a nested facet its parents too, where the study is known."""
    if study is None:
        return [facet]
    return [column for column in study.facet_names if column in study.closure(facet) & set(table)]


def _sums(
    rows: pd.DataFrame, groups: list[str]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    sums = rows.groupby(groups, sort=False, observed=True)[["successes", "trials"]].sum()
    return sums["successes"].to_numpy(np.int64), sums["trials"].to_numpy(np.int64)


def _frame(found: dict[str, OneWay], by: str | None) -> pd.DataFrame:
    import dataclasses

    import pandas as pd

    rows = [dataclasses.asdict(one) for one in found.values()]
    return pd.DataFrame(rows, index=pd.Index(list(found), name=by or "group"))
