"""Workloads: a study and its trials, and the limits that hold for them."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gstudy as gs

if TYPE_CHECKING:
    import pandas as pd

    from gstudy.study.estimable import Assessment

__all__ = ["PROBLEMS", "Bundled", "FromShared", "HighK", "Problem", "Simulated"]

SHARED = Path(__file__).resolve().parents[2] / "shared"

LEAST_RATIOS = {("direct", "bambi-cells"): 10.0}
"""Of every workload."""


@dataclass(frozen=True, slots=True)
class Problem(ABC):
    """One workload.

    Parameters
    ----------
    name : str
    about : str
        What it is, for tables.
    least_ratio : mapping of (str, str) to float
        How many times the second method's smallest bulk ESS per second, compilation included, the
        first must reach.
    """

    name: str
    about: str
    least_ratio: Mapping[tuple[str, str], float] = field(default_factory=lambda: LEAST_RATIOS)

    @abstractmethod
    def read(self) -> tuple[gs.Study, Any]:
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
class Bundled(Problem):
    """An example that comes with gstudy."""

    def read(self) -> tuple[gs.Study, Any]:
        return gs.example(self.name)


@dataclass(frozen=True, slots=True)
class FromShared(Problem):
    """A file of ../shared/data, as text; a missing score may be written "nan" or "<NA>"."""

    file: str = ""
    facets: tuple[gs.Facet, ...] = ()
    study: Mapping[str, Any] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        """Where the file would be."""
        return SHARED / "data" / f"{self.file}.csv.gz"

    @property
    def missing(self) -> str:
        return "" if self.path.is_file() else f"needs {self.path.name} in ../shared/data"

    def read(self) -> tuple[gs.Study, Any]:
        import pandas as pd

        rows = pd.read_csv(self.path, dtype=str, keep_default_na=False)
        score = self.study["score"]
        rows = rows.assign(**{score: rows[score].replace({"nan": "", "<NA>": ""})})
        return gs.Study(facets=list(self.facets), **self.study), rows


@dataclass(frozen=True, slots=True)
class HighK(Problem):
    """So many rollouts a task, drawn from the full counts of 48 systems (`benchmarks.truth`)."""

    rollouts: int = 8
    seed: int = 1

    @property
    def missing(self) -> str:
        from benchmarks.truth import DATA

        return "" if DATA.is_file() else f"needs {DATA.name} in ../shared/data"

    def read(self) -> tuple[gs.Study, Any]:
        import numpy as np

        from benchmarks import truth

        rng = np.random.default_rng(self.seed)
        return truth.study(joint=True), truth.resampled(truth.full_counts(), self.rollouts, rng)


@dataclass(frozen=True, slots=True)
class Simulated(Problem):
    """Trials drawn from the model with known components; mu has the prior Normal(0, 1.5).

    Parameters
    ----------
    facets : tuple of Facet
    sizes : mapping of str to int
        Levels of every facet, the object included.
    sd : mapping of str to float
        True standard deviations, logit scale: the components of the model.
    mu : float
        True mean, logit scale.
    sigma : float
        Every sd has the prior HalfNormal(sigma).
    """

    facets: tuple[gs.Facet, ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)
    sd: Mapping[str, float] = field(default_factory=dict)
    mu: float = 0.0
    sigma: float = 1.0
    seed: int = 1

    def read(self) -> tuple[gs.Study, pd.DataFrame]:
        sd_prior = {"dist": "HalfNormal", "sigma": self.sigma}
        priors = {f"sd({name})": sd_prior for name in self.sd}
        study = gs.Study(
            score="passed",
            object="system",
            facets=list(self.facets),
            interactions=["system:task"],
            priors={"mu": {"dist": "Normal", "mu": 0.0, "sigma": 1.5}, **priors},
        )
        return study, gs.simulate(study, self.sizes, sd=self.sd, mu=self.mu, seed=self.seed)


TASK = gs.Facet("task", role="legitimate")
JUDGE = gs.Facet("judge", role="error")
ROLLOUT = gs.Facet("rollout", role="legitimate", nested_in=["system", "task"])
SYSTEMS = {"score": "score", "object": "system"}

_ALL = (
    Bundled("airline", "50 tasks, 4 rollouts, 1 component"),
    Bundled("panel", "4,320 cells, 8 components, two of them with 2 levels only"),
    FromShared(
        "gpqa",
        "GPQA Diamond, 2 systems x 198 tasks x 5 epochs",
        file="gpqa_diamond_epochs",
        facets=(TASK, ROLLOUT),
        study={**SYSTEMS, "interactions": ["system:task"]},
    ),
    FromShared(
        "metr",
        "METR runs, 11 systems x 83 tasks, 1 to 96 runs a cell; one system never passes",
        file="metr_horizon_runs",
        facets=(TASK, ROLLOUT),
        study={**SYSTEMS, "interactions": ["system:task"]},
    ),
    FromShared(
        "tau2_multijudge",
        "tau2-bench, 278 tasks in 3 controlled domains x 5 judges",
        file="tau2_multijudge",
        facets=(
            gs.Facet("domain", role="controlled", column="environment"),
            gs.Facet("task", role="legitimate", nested_in=["domain"]),
            JUDGE,
        ),
        study={"score": "score", "on_missing_score": "drop"},
    ),
    FromShared(
        "llmbar_judges",
        "LLMBar, 6 judge models x 734 tasks x 15 prompts x 2 controlled orders, 9 components",
        file="llmbar_judges",
        facets=(
            TASK,
            gs.Facet("prompt", role="legitimate", column="environment"),
            gs.Facet("order", role="controlled"),
        ),
        study=SYSTEMS,
    ),
    FromShared(
        "classic_insteval",
        "InstEval (score >= 4), 2,972 students x 1,128 lecturers in 14 departments, 73,421 ratings",
        file="classic_insteval",
        facets=(
            gs.Facet("student", role="error", column="judge"),
            gs.Facet("department", role="legitimate", column="task"),
            gs.Facet("service", role="controlled", column="environment"),
        ),
        study={"score": "score_binary", "object": "system", "interactions": "none"},
    ),
    HighK("highk_human_eval_plus", "HumanEval+, 48 systems x 164 tasks x 8 rollouts"),
    Simulated(
        "sim_20x170x8",
        "simulated, 20 systems x 170 tasks x 8 rollouts",
        {
            **LEAST_RATIOS,
            ("direct", "bambi-rows"): 80.0,
            ("direct", "rstanarm"): 80.0,
            ("direct", "bambi-cells"): 40.0,
            ("direct", "numpyro"): 6.0,
        },
        facets=(TASK, ROLLOUT),
        sizes={"system": 20, "task": 170, "rollout": 8},
        sd={"system": 1.0, "task": 2.0, "system:task": 0.9},
        mu=0.3,
        sigma=2.0,
    ),
    Simulated(
        "sim_6x100x2x5x3",
        "simulated, 6 systems x 100 tasks x 2 environments x 5 rollouts x 3 judges",
        facets=(
            TASK,
            gs.Facet("environment", role="legitimate"),
            gs.Facet("rollout", role="legitimate", nested_in=["system", "task", "environment"]),
            JUDGE,
        ),
        sizes={"system": 6, "task": 100, "environment": 2, "rollout": 5, "judge": 3},
        sd={
            "system": 0.8,
            "task": 1.5,
            "environment": 0.3,
            "judge": 0.4,
            "system:task": 0.7,
            "system:task:environment:rollout": 0.8,
        },
        mu=0.5,
        sigma=1.0,
    ),
)

PROBLEMS: Mapping[str, Problem] = {problem.name: problem for problem in _ALL}
