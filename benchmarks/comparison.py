"""Whether the methods agree, how their speeds compare, and whether the limits hold.

Everything is read from the two tracked tables (`benchmarks.records`), so that rows which were
measured again are compared with those that were not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from math import hypot
from typing import TYPE_CHECKING

from benchmarks.records import LIMIT, MEASURED

if TYPE_CHECKING:
    import pandas as pd

    from benchmarks.problems import Problem

__all__ = ["REFERENCES", "Difference", "differences", "missed_limits", "ratios", "unfinished"]

REFERENCES = ("bambi-rows", "bambi-cells")

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


def differences(rows: pd.DataFrame, posteriors: pd.DataFrame, workload: str) -> list[Difference]:
    """Every quantity of every pair of methods that sampled one workload to ESS 100.

    Point estimates have no posterior mean, and chains below that ESS no error that can be trusted.
    """
    done = rows[(rows["workload"] == workload) & (rows["status"] == MEASURED)]["method"]
    own = posteriors[posteriors["workload"] == workload]
    tables = {name: own[own["method"] == name].set_index("quantity") for name in done}
    return [
        Difference(
            workload,
            (a, b),
            str(quantity),
            (float(x["mean"]), float(tables[b].loc[quantity, "mean"])),
            hypot(float(x["mcse"]), float(tables[b].loc[quantity, "mcse"])),
        )
        for a, b in combinations(tables, 2)
        for quantity, x in tables[a].iterrows()
    ]


def ratios(
    rows: pd.DataFrame, workload: str, reference: str, column: str = "ess_per_second"
) -> dict[str, float]:
    """Speed of each method over the reference's; empty when the reference has no speed.

    Of a reference that was not done in time the speed is at most the one recorded, and the ratios
    are at least these.
    """
    own = rows[rows["workload"] == workload].set_index("method")[column].dropna()
    if reference not in own:
        return {}
    return {str(method): float(speed / own[reference]) for method, speed in own.items()}


def missed_limits(problem: Problem, rows: pd.DataFrame) -> list[str]:
    """One text per limit of the workload that a measured ratio misses."""
    found = []
    for (method, reference), least in problem.least_ratio.items():
        ratio = ratios(rows, problem.name, reference).get(method, math.nan)
        present = set(rows[rows["workload"] == problem.name]["method"])
        if {method, reference} <= present and not ratio >= least:
            found.append(
                f"{problem.name}: {method} is {ratio:.1f} times {reference}, not {least:g}"
            )
    return found


def unfinished(rows: pd.DataFrame, workload: str) -> Mapping[str, str]:
    """The methods that did not reach ESS 100 in time, and what they reached."""
    own = rows[(rows["workload"] == workload) & (rows["status"] == LIMIT)]
    return {str(row.method): str(row.remark) for row in own.itertuples()}
