"""Whether the methods agree, how their speeds compare, and whether the limits hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import hypot
from statistics import fmean, median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.attempts import Attempt
    from benchmarks.problems import Problem

__all__ = ["Difference", "by_method", "differences", "missed_limits", "ratios"]

MCSE_ALLOWED = 4.0
SMALL = 0.005
"""Logit scale; below what any printed digit shows."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Posterior means of one quantity by two methods (logit scale).

    `mcse` is the Monte Carlo standard error of their difference.
    """

    workload: str
    methods: tuple[str, str]
    quantity: str
    means: tuple[float, float]
    mcse: float

    @property
    def share_of_allowed(self) -> float:
        """The difference over the largest that chance explains."""
        first, second = self.means
        return abs(first - second) / (MCSE_ALLOWED * self.mcse + SMALL)

    @property
    def agrees(self) -> bool:
        """Whether chance explains it; a NaN agrees with nothing."""
        return self.share_of_allowed <= 1.0

    def __str__(self) -> str:
        (a, b), (x, y) = self.methods, self.means
        return f"{self.workload}, {self.quantity}: {a} {x:.3f}, {b} {y:.3f} (MCSE {self.mcse:.3f})"


def by_method(attempts: Iterable[Attempt], workload: str) -> dict[str, list[Attempt]]:
    """The runs on one workload: one list of seeds per method."""
    found: dict[str, list[Attempt]] = {}
    for run in attempts:
        if run.workload == workload:
            found.setdefault(run.method, []).append(run)
    return found


def differences(attempts: Iterable[Attempt], workload: str) -> list[Difference]:
    """Every quantity of every pair of methods on one workload, seeds taken together."""
    runs = by_method(attempts, workload)
    return [
        Difference(
            workload,
            (a, b),
            quantity,
            (_mean(runs[a], quantity), _mean(runs[b], quantity)),
            hypot(_mcse(runs[a], quantity), _mcse(runs[b], quantity)),
        )
        for a, b in combinations(runs, 2)
        for quantity in runs[a][0].means
    ]


def _mean(runs: Sequence[Attempt], quantity: str) -> float:
    return fmean(run.means[quantity] for run in runs)


def _mcse(runs: Sequence[Attempt], quantity: str) -> float:
    return hypot(*(run.mcse[quantity] for run in runs)) / len(runs)


def ratios(attempts: Iterable[Attempt], workload: str, reference: str) -> dict[str, float]:
    """Smallest ESS per second of each method over the reference's, medians over seeds.

    Empty when the reference has not run.
    """
    speeds = {
        method: median(run.ess_per_second for run in runs)
        for method, runs in by_method(attempts, workload).items()
    }
    if reference not in speeds:
        return {}
    return {method: speed / speeds[reference] for method, speed in speeds.items()}


def missed_limits(problem: Problem, found: Mapping[str, float], reference: str) -> list[str]:
    """One text per limit of the workload that a measured ratio to the reference misses."""
    return [
        f"{problem.name}: {method} is {found[method]:.1f} times {reference}, not {least:g}"
        for method, least in problem.least_ratio.items()
        if method in found and not found[method] >= least
    ]
