"""The smallest difference that a study finds with a wanted probability, and what it takes."""

from __future__ import annotations

import math
from statistics import NormalDist

from gstudy.errors import QuantityError, explain
from gstudy.variance.assumptions import is_finite
from gstudy.variance.draws import Array, normal_quantile, proportion

__all__ = ["detectable_factor", "power_of", "smallest_count"]


def detectable_factor(coverage: float = 0.95, power: float = 0.8) -> float:
    """The minimal detectable difference in standard errors, ``z_{1-a/2} + z_power``.

    Parameters
    ----------
    coverage : float
        1 - a: of the interval that has to exclude zero, in (0, 1).
    power : float
        Probability that it does, in (0, 1).

    Returns
    -------
    float

    Raises
    ------
    QuantityError
        For a coverage or power outside (0, 1), and for so little power that no difference is
        needed.

    Examples
    --------
    >>> round(detectable_factor(), 4)
    2.8016
    """
    factor = normal_quantile(coverage) + NormalDist().inv_cdf(proportion(power, "power"))
    if factor <= 0:
        raise QuantityError(
            explain(
                "so little power needs no difference at all",
                given={"coverage": coverage, "power": power},
                allowed="a power above (1 - coverage) / 2",
            )
        )
    return factor


def power_of(difference: Array, variance: Array, coverage: float = 0.95) -> Array:
    """Probability that the interval of a difference excludes zero on the right side.

    Parameters
    ----------
    difference, variance : array
        The true difference, and the variance of its estimate; they broadcast.
    coverage : float

    Returns
    -------
    array
    """
    import numpy as np
    from scipy.special import ndtr

    return np.asarray(ndtr(abs(difference) / variance**0.5 - normal_quantile(coverage)))


def smallest_count(
    variance: float, difference: float, *, coverage: float = 0.95, power: float = 0.8
) -> int:
    """Number of independent units, such as tasks, from which on a difference is found.

    Parameters
    ----------
    variance : float
        Of one unit's difference: the variance of the estimate is that over the number of units.
    difference : float
        To be found, above 0.
    coverage, power : float
        As for `detectable_factor`.

    Returns
    -------
    int

    Raises
    ------
    QuantityError
        For a difference or variance that is not usable, and as `detectable_factor`.

    Notes
    -----
    ``n = (z_{1-a/2} + z_power)^2 variance / difference^2``, rounded up (Miller 2024,
    arXiv 2411.00640, equation 9).

    Examples
    --------
    >>> smallest_count(1 / 9, 0.03)
    969
    """
    if not is_finite(difference) or difference <= 0 or not is_finite(variance) or variance < 0:
        raise QuantityError(
            explain(
                "the difference to be found, or the variance, is not usable",
                given={"difference": difference, "variance": variance},
                allowed="a difference above 0 and a variance from 0 on",
            )
        )
    raw = (detectable_factor(coverage, power) / difference) ** 2 * variance
    # What rounding adds to a whole number is no unit more.
    return max(1, math.ceil(raw * (1 - 1e-12)))
