"""How precise an ICC of n subjects is, and how many subjects a wanted precision takes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING

from gstudy.display import Shown, Table
from gstudy.errors import QuantityError, explain
from gstudy.variance.draws import normal_quantile, proportion

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["IccPrecision", "icc_sample_size", "icc_standard_error"]

SOURCE = "Bonett 2002"

# With two ratings and a high ICC the formula is too small; Bonett's correction, in units of icc.
_CORRECTION, _HIGH = 5.0, 0.7

# Subjects that are refused as a mistake, and those that are called many; where a square overflows.
_MOST = 10**9
_MANY = 10**6
_WIDEST_HALF = 1e150

# A standard error that four decimals do not show.
_SMALL = 1e-3


@dataclass(frozen=True, slots=True, repr=False)
class IccPrecision(Shown):
    """Precision of an ICC under a design, by Bonett's formula.

    Parameters
    ----------
    icc : float
        The planned value.
    n : int
        Subjects: tasks, say.
    raters : int
        Ratings of each: raters, or trials of a task.
    standard_error : float
        Large-sample standard error of the estimate.
    raw : float
        What the formula for the sample size gives before it is rounded up; n when n was given.
    width : float or None
        The wanted width of the interval, None when n was given.
    level : float
        Confidence level of that interval.
    """

    icc: float
    n: int
    raters: int
    standard_error: float
    raw: float
    width: float | None
    level: float

    @property
    def scale(self) -> str:
        """Always the score scale."""
        return "score"

    def summary(self) -> pd.DataFrame:
        """One row, indexed by the estimator; `attrs` name scale, estimand, interval and level."""
        import pandas as pd

        frame = pd.DataFrame(
            {
                "icc": [self.icc],
                "raters": [self.raters],
                "n": [self.n],
                "raw": [self.raw],
                "standard_error": [self.standard_error],
                "width": [2 * normal_quantile(self.level) * self.standard_error],
            },
            index=pd.Index([SOURCE], name="estimator"),
        )
        frame.attrs.update(
            scale=self.scale, estimand="precision of an ICC", interval="normal", level=self.level
        )
        return frame

    def table(self) -> Table:
        """The table that is printed."""
        frame = self.summary().drop(columns="raw").rename(columns={"standard_error": "std. error"})
        goal = "" if self.width is None else f" for an interval {self.width:g} wide"
        title = "Standard error of an ICC" if self.width is None else f"Sample size{goal}"
        notes = (
            *(["More than a million subjects: is so narrow an interval meant?"] * (self.n > _MANY)),
            f"width: of the normal {100 * self.level:g}% interval at this icc and n.",
            "For large samples of normal scores, ICC(1,1); approximate for other forms and scores.",
        )
        return Table(
            frame=frame,
            title=title,
            scale=self.scale,
            notes=notes,
            formats={
                "icc": "number3",
                "raters": "int",
                "n": "int",
                "std. error": "decimal4" if self.standard_error >= _SMALL else "number3",
                "width": "decimal4" if self.standard_error >= _SMALL else "number3",
            },
        )


def icc_standard_error(icc: float, n: int, raters: int, *, level: float = 0.95) -> IccPrecision:
    """Standard error of an ICC that is estimated from n subjects.

    Parameters
    ----------
    icc : float
        Planned or estimated value, above -1/(raters-1) and below 1.
    n : int
        Subjects, such as tasks; 2 or more.
    raters : int
        Ratings of each subject, such as trials of a task; 2 or more.
    level : float
        Confidence level of the interval whose width is told.

    Returns
    -------
    IccPrecision

    Raises
    ------
    QuantityError
        For a value outside its range.

    Notes
    -----
    ``SE^2 = 2 (1-icc)^2 (1 + (k-1) icc)^2 / (k (k-1) (n-1))``, k the ratings of each subject
    (Bonett 2002, Statistics in Medicine 21:1331).

    Examples
    --------
    >>> import gstudy as gs
    >>> round(gs.icc_standard_error(0.405, n=50, raters=4).standard_error, 3)
    0.077
    """
    icc, raters = _checked(icc, raters)
    n = _whole("n", n)
    error = math.sqrt(_unit_variance(icc, raters) / (n - 1))
    return IccPrecision(icc, n, raters, error, float(n), None, proportion(level, "level"))


def icc_sample_size(icc: float, raters: int, width: float, *, level: float = 0.95) -> IccPrecision:
    """How many subjects give an interval of an ICC that is no wider than wanted.

    Parameters
    ----------
    icc : float
        Planned value, above -1/(raters-1) and below 1.
    raters : int
        Ratings of each subject, such as trials of a task; 2 or more.
    width : float
        Wanted width of the whole interval, in (0, 1): 0.2 is +-0.1.
    level : float
        Confidence level of the interval.

    Returns
    -------
    IccPrecision
        `n` is rounded up, `raw` is not.

    Raises
    ------
    QuantityError
        For a value outside its range, and for a width that takes more than 1e9 subjects.

    Notes
    -----
    ``n = 8 z^2 (1-icc)^2 (1 + (k-1) icc)^2 / (k (k-1) width^2) + 1``, k the ratings of each
    subject; with k = 2 and an icc of 0.7 or more, 5 icc are added (Bonett 2002, Statistics in
    Medicine 21:1331, equation 3).

    Examples
    --------
    >>> import gstudy as gs
    >>> gs.icc_sample_size(0.8, raters=3, width=0.2).n
    36
    """
    icc, raters = _checked(icc, raters)
    width, level = proportion(width, "width"), proportion(level, "level")
    half = normal_quantile(level) / width
    raw = 4 * half**2 * _unit_variance(icc, raters) + 1 if half < _WIDEST_HALF else math.inf
    if raw > _MOST:
        raise QuantityError(
            explain(
                "so narrow an interval takes more subjects than anybody has",
                given=f"width={width:g}, more than {_MOST:,} subjects",
                allowed=f"a width that {_MOST:,} subjects give, or wider",
                do="Ask for a wider interval, such as width=0.1.",
            )
        )
    if raters == 2 and icc >= _HIGH:
        raw += _CORRECTION * icc
    n = max(math.ceil(raw), 2)
    error = math.sqrt(_unit_variance(icc, raters) / (n - 1))
    return IccPrecision(icc, n, raters, error, raw, width, level)


def _unit_variance(icc: float, raters: int) -> float:
    """``(n - 1) SE^2``."""
    spread = (1 - icc) * (1 + (raters - 1) * icc)
    return 2 * spread**2 / (raters * (raters - 1))


def _checked(icc: object, raters: object) -> tuple[float, int]:
    k = _whole("raters", raters)
    least = -1 / (k - 1)
    number = _number(icc)
    if not least < number < 1:
        raise QuantityError(
            explain(
                "icc is no intraclass correlation of so many raters",
                given=icc,
                allowed=f"numbers above {least:.3g} and below 1",
            )
        )
    return number, k


def _whole(name: str, value: object) -> int:
    number = _number(value)
    if not (number >= 2 and number.is_integer()):
        raise QuantityError(
            explain(f"{name} is not a number of them", given=value, allowed="whole numbers from 2")
        )
    return int(number)


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        return math.nan
    return float(value)
