"""How the first screen writes scores and distances of scores: pass rates, or graded scores."""

from __future__ import annotations

from dataclasses import dataclass

from gstudy.display import bare_points, number, percent, points

__all__ = ["Units", "units_of"]

_GRADED = "gaussian"
_DIGITS = 3


@dataclass(frozen=True, slots=True)
class Units:
    """The words and signs of one family of scores.

    Parameters
    ----------
    graded : bool
        Whether scores are in units of their own; else they are pass rates.
    """

    graded: bool

    @property
    def mean(self) -> str:
        """What an expected score is called."""
        return "mean score" if self.graded else "pass rate"

    @property
    def reading(self) -> str:
        """The line that names scale and intervals."""
        how, naive = (
            ("mean score, in units of the score", "ignores what trials share")
            if self.graded
            else ("pass rate; a point is a percentage point", "is Wilson's")
        )
        return (
            f"Scale: {how}. Intervals, also those in brackets: 95%, equal-tailed, of the "
            f"posterior; the naive one {naive}."
        )

    def score(self, value: float) -> str:
        """A score."""
        return number(value, _DIGITS) if self.graded else percent(value)

    def span(self, low: float, high: float) -> str:
        """An interval of scores."""
        return f"{self.score(low)} to {self.score(high)}"

    def distance(self, value: float, low: float, high: float) -> str:
        """A distance between scores, with its interval."""
        if self.graded:
            shown = [number(x, _DIGITS) for x in (value, low, high)]
            return f"{shown[0]} ({shown[1]} to {shown[2]})"
        return f"{points(value)} ({bare_points(low)} to {bare_points(high)})"


def units_of(family: str) -> Units:
    """The units of a study's family.

    >>> units_of("binary").distance(0.1, 0.08, 0.12)
    '10.0 points (8.0 to 12.0)'
    """
    return Units(graded=family == _GRADED)
