"""Workloads: a study and its trials, and the limits that hold for them."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import gstudy as gs

if TYPE_CHECKING:
    from gstudy.study.estimable import Assessment

__all__ = ["PROBLEMS", "Metr", "Panel", "Problem"]

SHARED = Path(__file__).resolve().parents[2] / "shared"


@dataclass(frozen=True, slots=True)
class Problem(ABC):
    """One workload.

    Parameters
    ----------
    name : str
    least_ratio : mapping of str to float
        For each of our methods, how many times Bambi's smallest bulk ESS per second it must reach.
    """

    name: str
    least_ratio: Mapping[str, float] = field(default_factory=dict)

    @abstractmethod
    def read(self) -> tuple[gs.Study, gs.Trials]:
        """The declaration and the trials."""

    @property
    def missing(self) -> str:
        """Why the workload cannot run here, "" when it can."""
        return ""

    def design(self) -> Assessment:
        """Cells, components and priors: what every method is given."""
        with warnings.catch_warnings():
            # That rollouts lie inside the residual is meant: they make the binomial counts.
            warnings.simplefilter("ignore", gs.EstimabilityWarning)
            return gs.check(*self.read())


@dataclass(frozen=True, slots=True)
class Panel(Problem):
    """The bundled example: 4,320 cells, 8 components, two of them with 2 levels only."""

    name: str = "panel"

    def read(self) -> tuple[gs.Study, gs.Trials]:
        return gs.example("panel")


@dataclass(frozen=True, slots=True)
class Metr(Problem):
    """11 systems on 83 tasks, 1 to 96 runs a cell: ragged, and one system never passes."""

    name: str = "metr"
    least_ratio: Mapping[str, float] = field(default_factory=lambda: {"direct": 15.0, "pymc": 4.0})
    path: Path = SHARED / "data" / "metr_horizon_runs.csv.gz"

    def read(self) -> tuple[gs.Study, gs.Trials]:
        study = gs.Study(
            score="score",
            object="system",
            facets=[
                gs.Facet("task", role="legitimate"),
                gs.Facet("rollout", role="legitimate", nested_in=["system", "task"]),
            ],
            interactions=["system:task"],
        )
        return study, gs.read_trials(self.path, study)

    @property
    def missing(self) -> str:
        return "" if self.path.is_file() else f"needs {self.path.name} in ../shared/data"


PROBLEMS: Mapping[str, Problem] = {problem.name: problem for problem in (Panel(), Metr())}
