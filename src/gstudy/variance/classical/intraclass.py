"""Intraclass correlations from mean squares, one-way and two-way, with their F intervals.

Sources: Shrout and Fleiss (1979), Psychological Bulletin 86:420; McGraw and Wong (1996),
Psychological Methods 1:30; Donner (1986), International Statistical Review 54:67 for n0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["KINDS", "OneWay", "TwoWay", "one_way", "two_way"]

KINDS = ("ICC(1,1)", "ICC(1,k)", "ICC(2,1)", "ICC(2,k)", "ICC(3,1)", "ICC(3,k)")

Array = npt.NDArray[np.float64]
Limits = tuple[float, float]

_NONE: Limits = (math.nan, math.nan)


@dataclass(frozen=True, slots=True)
class OneWay:
    """One-way analysis of variance of scores in groups.

    Parameters
    ----------
    icc : float
        ICC(1,1); NaN where it is not defined; `note` says why.
    n_levels, n_trials : int
    n0 : float
        Donner's average group size, ``(N - sum n_j^2 / N) / (k - 1)``; n when balanced.
    ms_between, ms_within : float
        Mean squares, squared score units.
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

    def value(self, kind: str) -> float:
        """ICC(1,1), or ICC(1,k) = ``(MSB - MSW) / MSB`` of the mean of n0 trials."""
        if kind == "ICC(1,1)":
            return self.icc
        return _ratio(self.ms_between - self.ms_within, self.ms_between)

    def interval(self, kind: str, level: float) -> Limits:
        """Equal-tailed F interval; NaN where no score varies within a level.

        ``F_L = F / F_{1-a/2}(k-1, N-k)``, ``F_U = F F_{1-a/2}(N-k, k-1)``, limits
        ``(F - 1) / (F + n0 - 1)``, of the mean ``1 - 1 / F``.
        """
        if math.isnan(self.icc) or not self.ms_within > 0:
            return _NONE
        df = (self.n_levels - 1, self.n_trials - self.n_levels)
        low, high = _f_limits(self.ms_between / self.ms_within, df, level)
        return _from_f(low, kind, self.n0), _from_f(high, kind, self.n0)


@dataclass(frozen=True, slots=True)
class TwoWay:
    """Two-way analysis of variance, levels by raters, one score in each cell.

    Parameters
    ----------
    n_levels, n_raters : int
    ms_between, ms_raters, ms_residual : float
        Mean squares, squared score units.
    note : str
        "" when there is nothing to say.
    """

    n_levels: int
    n_raters: int
    ms_between: float
    ms_raters: float
    ms_residual: float
    note: str

    @property
    def n_trials(self) -> int:
        """Number of scores."""
        return self.n_levels * self.n_raters

    def value(self, kind: str) -> float:
        """ICC(2,.), agreement of random raters, or ICC(3,.), consistency of these raters."""
        n, k = self.n_levels, self.n_raters
        above = self.ms_between - self.ms_residual
        below = self.ms_between
        if kind.startswith("ICC(2"):
            shift = (self.ms_raters - self.ms_residual) / n
            below += shift if kind.endswith("k)") else k * shift
        if kind.endswith("1)"):
            below += (k - 1) * self.ms_residual
        return math.nan if self.note.startswith("not defined") else _ratio(above, below)

    def interval(self, kind: str, level: float) -> Limits:
        """Equal-tailed F interval; of ICC(2,.) by Satterthwaite's degrees of freedom.

        NaN where the residual is zero.
        """
        n, k = self.n_levels, self.n_raters
        if math.isnan(self.value(kind)) or not self.ms_residual > 0:
            return _NONE
        if kind.startswith("ICC(3"):
            df = (n - 1, (n - 1) * (k - 1))
            low, high = _f_limits(self.ms_between / self.ms_residual, df, level)
            return _from_f(low, kind, k), _from_f(high, kind, k)
        limits = self._agreement(level)
        if kind.endswith("1)"):
            return limits
        low, high = (_stepped_up(limit, k) for limit in limits)
        return low, high

    def _agreement(self, level: float) -> Limits:
        """Limits of ICC(2,1), Shrout and Fleiss (1979) and McGraw and Wong (1996), table 7."""
        from scipy.stats import f

        n, k, rho = self.n_levels, self.n_raters, self.value("ICC(2,1)")
        between, raters, residual = self.ms_between, self.ms_raters, self.ms_residual
        one, two = k * rho * raters / residual, n * (1 + (k - 1) * rho) - k * rho
        df = (n - 1) * (k - 1) * (one + two) ** 2 / ((n - 1) * one**2 + two**2)
        tail = (1 + level) / 2
        up, down = float(f.ppf(tail, n - 1, df)), float(f.ppf(tail, df, n - 1))
        rest = k * raters + (k * n - k - n) * residual
        return (
            _ratio(n * (between - up * residual), up * rest + n * between),
            _ratio(n * (down * between - residual), rest + n * down * between),
        )


def one_way(
    totals: npt.ArrayLike, counts: npt.ArrayLike, deviations: npt.ArrayLike | None = None
) -> OneWay:
    """One-way analysis of variance of scores in groups.

    Parameters
    ----------
    totals, counts : array (n_levels,)
        Sum and number of the scores per group, of 0/1 scores successes and trials; groups
        without trials are left out.
    deviations : array (n_levels,), optional
        Sum of squared deviations from the group's mean; by default that of 0/1 scores.

    Returns
    -------
    OneWay
    """
    sums, sizes = np.asarray(totals, dtype=float), np.asarray(counts, dtype=float)
    used = sizes > 0
    y, n = sums[used], sizes[used]
    inside = y * (n - y) / n if deviations is None else np.asarray(deviations, dtype=float)[used]
    n_levels, total = n.size, float(n.sum())
    mean = float(y.sum()) / total
    raw = (float(np.sum(n * (y / n - mean) ** 2)), float(np.sum(inside)))
    between, within = (_unless_rounding(part, total * mean**2 + sum(raw)) for part in raw)
    ms_between = between / (n_levels - 1) if n_levels > 1 else math.nan
    ms_within = within / (total - n_levels) if total > n_levels else math.nan
    n0 = (total - float(np.sum(n**2)) / total) / (n_levels - 1) if n_levels > 1 else math.nan
    icc = _ratio(ms_between - ms_within, ms_between + (n0 - 1) * ms_within)
    flat = mean if between == within == 0 else None
    note = _one_way_note(icc, n_levels, total, flat, ms_within)
    return OneWay(icc, n_levels, int(total), n0, ms_between, ms_within, note)


def two_way(scores: Array) -> TwoWay:
    """Two-way analysis of variance of a complete table.

    Parameters
    ----------
    scores : array (n_levels, n_raters)

    Returns
    -------
    TwoWay
    """
    n, k = scores.shape
    centred = scores - scores.mean()
    levels, raters = centred.mean(axis=1), centred.mean(axis=0)
    left = centred - levels[:, None] - raters[None, :]
    between, across = k * float(levels @ levels), n * float(raters @ raters)
    residual = _unless_rounding(float(np.sum(left**2)), float(np.sum(scores**2)))
    freedom = (n - 1, k - 1, (n - 1) * (k - 1))
    parts = (between, across, residual)
    ms = [part / df if df > 0 else math.nan for part, df in zip(parts, freedom, strict=True)]
    return TwoWay(n, k, ms[0], ms[1], ms[2], _two_way_note(n, k, scores, ms))


def _one_way_note(
    icc: float, n_levels: int, n_trials: float, flat: float | None, ms_within: float
) -> str:
    if n_levels < 2:
        return "not defined: one level"
    if n_trials == n_levels:
        return "not defined: one trial per level"
    if flat is not None:
        return f"not defined: no score varies, all are {flat:g}"
    if ms_within == 0:
        return "no interval: no score varies within a level"
    if icc < 0:
        return "negative: levels differ less than chance alone would make them"
    return ""


def _two_way_note(n: int, k: int, scores: Array, ms: list[float]) -> str:
    if n < 2:
        return "not defined: one level"
    if k < 2:
        return "not defined: one rater"
    if np.ptp(scores) == 0:
        return f"not defined: no score varies, all are {scores.flat[0]:g}"
    if ms[2] == 0:
        return "no interval: raters differ by a constant only"
    if ms[0] < ms[2]:
        return "negative: levels differ less than chance alone would make them"
    return ""


def _unless_rounding(part: float, whole: float) -> float:
    """A sum of squares, 0 where only rounding leaves it."""
    return part if part > 1e-24 * whole else 0.0


def _ratio(above: float, below: float) -> float:
    return above / below if below > 0 else math.nan


def _f_limits(ratio: float, df: tuple[int, int], level: float) -> Limits:
    """The F ratio over and times its quantiles."""
    from scipy.stats import f

    tail = (1 + level) / 2
    low, high = float(f.ppf(tail, *df)), float(f.ppf(tail, *df[::-1]))
    return ratio / low, ratio * high


def _from_f(ratio: float, kind: str, k: float) -> float:
    """The correlation of one score, or of the mean of k, at a ratio of mean squares."""
    if kind.endswith("1)"):
        return (ratio - 1) / (ratio + k - 1)
    return 1 - 1 / ratio if ratio > 0 else -math.inf


def _stepped_up(icc: float, k: int) -> float:
    """Spearman-Brown: the reliability of the mean of k."""
    return _ratio(k * icc, 1 + (k - 1) * icc)
