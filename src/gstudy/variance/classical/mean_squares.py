"""Variance components from mean squares: the classical G study of a crossed or nested design."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gstudy.display import Shown, Table
from gstudy.errors import QuantityError, explain
from gstudy.study.declaration import checked_study
from gstudy.variance.classical.anova_design import AnovaDesign, anova_design
from gstudy.variance.classical.quadratic_terms import Terms, confounded, mobius, solve, terms_of
from gstudy.variance.classical.score_rows import ScoreRows, score_rows
from gstudy.variance.structure import RESIDUAL

if TYPE_CHECKING:
    import pandas as pd

    from gstudy.study.declaration import Study
    from gstudy.study.partition import Partition
    from gstudy.study.trials import Trials

__all__ = ["AnovaComponents", "anova_components"]

EMS = "ANOVA, expected mean squares"
HENDERSON = "ANOVA, Henderson I"

_FORMATS = {
    "levels": "int",
    "df": "int",
    "T": "number5",
    "mean square": "number4",
    "variance": "number4",
    "share": "percent1",
}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AnovaComponents(Shown):
    """Variance components of one score from mean squares; point values, score scale.

    Parameters
    ----------
    frame : pandas.DataFrame
        Index `component`, `residual` last; columns `levels`, `df`, `t` (the uncorrected sum of
        squares T), `ss`, `ms`, `variance` (squared score units, negative where it comes out so),
        `share` of the sum of all, `includes`.
    coefficients : pandas.DataFrame
        ``k_A(B)`` of ``E T(A) = N mu^2 + sum_B k_A(B) variance_B``: a row for the mean, then one
        per component A; a column per component B.
    estimator : str
        "ANOVA, expected mean squares" of a balanced design, "ANOVA, Henderson I" of another.
    mean : float
        Mean score over all trials.
    n_trials : int
    notes : tuple of str
    """

    frame: pd.DataFrame
    coefficients: pd.DataFrame
    estimator: str
    mean: float
    n_trials: int
    notes: tuple[str, ...]

    @property
    def scale(self) -> str:
        """Always the score scale."""
        return "score"

    @property
    def balanced(self) -> bool:
        """Whether the design is balanced, so that mean squares have their textbook meaning."""
        return self.estimator == EMS

    @property
    def mean_term(self) -> float:
        """``T(mean) = N mean^2``."""
        return self.n_trials * self.mean**2

    def summary(self) -> pd.DataFrame:
        """The frame, with scale and estimator in its `attrs`; there are no intervals."""
        frame = self.frame.copy()
        frame.attrs.update(
            scale=self.scale,
            estimand="variance components of one score",
            estimator=self.estimator,
            interval=None,
            level=None,
        )
        return frame

    def table(self) -> Table:
        """The table that is printed."""
        headers = {"t": "T", "ms": "mean square"}
        columns = ["levels", "df", "t", "ms", "variance", "share"]
        if not self.balanced:
            # The analogues may be negative: nobody could read them.
            columns = ["levels", "t", "variance", "share"]
        return Table(
            frame=self.frame[columns].rename(columns=headers),
            title=f"Variance components of one score: {self.estimator}, point values",
            scale=self.scale,
            notes=self.notes,
            formats=_FORMATS,
        )


def anova_components(
    trials: Trials | pd.DataFrame, study: Study, *, interactions: str | Sequence[str] = "all"
) -> AnovaComponents:
    """Variance components by expected mean squares, or Henderson I where unbalanced.

    The classical G study: a linear model of the score itself, 0/1 or graded, in which every facet
    is random and every component has one variance.

    Parameters
    ----------
    trials : Trials or pandas.DataFrame
        What `gstudy.read_trials` gives, or anything that the study reads.
    study : Study
        Names the facets and their nesting; its policies count failed and unscored trials.
    interactions : "all", "none" or list of str
        Components of two or more crossed facets: all that the facets make, as textbooks do, or
        those listed, such as ``["system:task"]``. What is left out is in the residual.

    Returns
    -------
    AnovaComponents

    Raises
    ------
    DeclarationError
        When `study` is none.
    DataError
        When the trials do not fit the study.
    QuantityError
        When no facet has two levels, every level holds one trial, an interaction is unknown, or
        the design cannot tell components apart.

    Notes
    -----
    With ``T(A)`` the sum over the levels of A of (their total)^2 / (their trials), and
    ``k_A(B) = sum_a (sum_b n_ab^2) / n_a``, the estimates solve

    ``T(A) - T(mean) = sum_B (k_A(B) - k_mean(B)) variance_B`` for every component A,

    the residual's T being the sum of squared scores. Balanced, this is the estimator by expected
    mean squares of Cornfield and Tukey; unbalanced, Henderson's Method I (Brennan 2001,
    Generalizability Theory, chapters 3 and 7; Searle, Casella and McCulloch 1992). Sums of
    squares are T less those of all components inside; unbalanced they are analogues and may be
    negative. Components whose levels split the trials identically are merged; one whose levels
    hold a trial each is the residual. Estimates may be negative and are left so.

    Examples
    --------
    >>> import pandas as pd
    >>> import gstudy as gs
    >>> study = gs.Study(
    ...     score="passed",
    ...     facets=[gs.Facet("task", role="legitimate"), gs.Facet("judge", role="error")],
    ... )
    >>> rows = {"task": list("aabbcc"), "judge": list("xyxyxy"), "passed": [1, 1, 0, 1, 0, 0]}
    >>> found = gs.anova_components(pd.DataFrame(rows), study)
    >>> found.summary()["variance"].round(4).to_dict()
    {'task': 0.1667, 'judge': 0.0, 'residual': 0.1667}
    """
    study = checked_study(study)
    rows = score_rows(trials, study)
    design = anova_design(rows, study, interactions)
    terms = _terms(rows, design)
    together = confounded(terms)
    if together:
        raise QuantityError(
            explain(
                f"the design cannot tell apart {', '.join(together)}",
                allowed="components that no combination of the others reproduces",
                do='Leave an interaction out: interactions="none", or list those to keep.',
            )
        )
    variances = solve(terms)
    frame = _frame(terms, design, variances)
    return AnovaComponents(
        frame=frame,
        coefficients=_coefficients(terms),
        estimator=EMS if design.balanced else HENDERSON,
        mean=terms.mean,
        n_trials=terms.n_trials,
        notes=(*_negative(frame), *design.notes, *_readings(design, rows)),
    )


def _terms(rows: ScoreRows, design: AnovaDesign) -> Terms:
    joints: dict[tuple[str, str], Partition] = {
        (a, b): design.joint(design.sets[a] | design.sets[b])
        for a in design.sets
        for b in design.sets
    }
    _, _, squares = rows.sums(rows.by(()))
    return terms_of(design.partitions, joints, rows.totals, rows.counts, float(squares.sum()))


def _frame(terms: Terms, design: AnovaDesign, variances: np.ndarray) -> pd.DataFrame:
    import pandas as pd

    below = [*design.below(), list(range(len(design.sets)))]
    ss = mobius(list(terms.corrected), below)
    df = np.rint(mobius(list(terms.n_levels - 1.0), below)).astype(np.int64)
    # A sum of squares, or a variance, that only rounding leaves is none.
    ss = np.where(np.abs(ss) <= 1e-12 * terms.corrected[-1], 0.0, ss)
    ms = np.divide(ss, df, out=np.full(len(ss), np.nan), where=df > 0)
    variances = np.where(np.abs(variances) <= 1e-13 * np.abs(variances).max(), 0.0, variances)
    total = variances.sum()
    return pd.DataFrame(
        {
            "levels": terms.n_levels,
            "df": df,
            "t": terms.corrected + terms.mean_term,
            "ss": ss,
            "ms": ms,
            "variance": variances,
            "share": variances / total if total > 0 else np.full(len(variances), np.nan),
            "includes": [", ".join(design.includes[name]) for name in terms.names],
        },
        index=pd.Index(terms.names, name="component"),
    )


def _coefficients(terms: Terms) -> pd.DataFrame:
    import pandas as pd

    index = pd.Index(["mean", *terms.names], name="T of")
    return pd.DataFrame(terms.coefficients, index=index, columns=list(terms.names))


def _negative(frame: pd.DataFrame) -> list[str]:
    names = [str(name) for name, value in frame["variance"].items() if value < 0]
    if not names:
        return []
    text = (
        f"Negative: {', '.join(names)}. A variance cannot be: the estimate is left as it comes "
        "out, and is read as a component that these data do not show."
    )
    return [text]


def _readings(design: AnovaDesign, rows: ScoreRows) -> list[str]:
    """How the numbers are to be read."""
    texts = []
    inside = design.includes[RESIDUAL]
    if inside:
        texts.append(f"The residual includes {', '.join(inside)}.")
    if not design.balanced:
        texts.append(
            "The design is unbalanced: Henderson I equates T, the uncorrected sums of squares, to "
            "what they expect; REML and the model give other numbers."
        )
    if not rows.graded:
        texts.append("A linear model of 0/1 scores, not the logit model of gs.fit.")
    return texts
