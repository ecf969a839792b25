"""Fit the real data sets of a folder and write one table of them: docs/real-data.md.

    python tools/real_data.py FOLDER [PAGE] [--only NAME ...]

FOLDER holds <name>.csv.gz as read below; none of them is part of the project, the figures are.
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

import gstudy as gs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gstudy.fits.fitted import Fit

PAGE = Path(__file__).parent.parent / "docs" / "real-data.md"
SEED = 1
MOST_SHOWN = 3

_INTRODUCTION = (
    "Each set is read, checked, fitted (4 chains x 1,000 draws unless said, seed 1, defaults) and "
    "measured by `python tools/real_data.py FOLDER`. Scores and shares are on the score scale, "
    "those of graded sets in units of the score; brackets hold 95% equal-tailed posterior "
    "intervals. `score` is the posterior mean of the expected score over new levels of the random "
    "facets, averaged over systems: not the observed mean, which weights levels by their trials. "
    "The half-width is of a 95% interval of the reported score, averaged over systems. "
    "Seconds are of one run on two shared cores: reading, sampling and gates."
)


@dataclass(frozen=True, slots=True)
class RealData:
    """One data set and the study that it is read as."""

    source: str
    facets: tuple[gs.Facet, ...]
    study: Mapping[str, Any]
    rows: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    remark: str = ""


def facet(name: str, role: str = "legitimate", **more: Any) -> gs.Facet:
    return gs.Facet(name, role=role, **more)


TASK = facet("task")
ROLLOUT = facet("rollout", nested_in=["system", "task"])
SYSTEM = {"score": "score", "object": "system"}

SETS = {
    "tau2_multijudge": RealData(
        "tau2-bench rollouts of one agent under 4 LLM judges and the programmatic reward (MIT)",
        (
            facet("domain", "controlled", column="environment"),
            facet("task", nested_in=["domain"]),
            facet("judge", "error"),
        ),
        {"score": "score", "on_missing_score": "drop", "rollout": "none"},
        remark="5 judges on the same rollouts, one a task; 3 domains as fixed effects",
    ),
    "pandalm_pairs": RealData(
        "PandaLM test set: 3 human and 2 LLM judges of 999 comparisons (Apache-2.0)",
        (TASK, facet("judge", "error")),
        {**SYSTEM, "score": "score_binary", "on_missing_score": "drop"},
        remark="the system is a pair of models; ties left out",
    ),
    "hibayes_judges": RealData(
        "HiBayES LLM-as-judge use case q4, grades 0 to 10 (MIT)",
        (TASK, facet("judge", "error"), facet("rollout", nested_in=["system", "task", "judge"])),
        {**SYSTEM, "family": "gaussian"},
        rows={"environment": "q4"},
        remark="graded scores; 2 systems, 3 judges, 4 tasks: few levels everywhere",
    ),
    "cruxeval_codellama7b": RealData(
        "CRUXEval, codellama-7b at T = 0.2, 10 samples (MIT)",
        (
            TASK,
            facet("direction", "controlled", column="environment"),
            facet("rollout", nested_in=["task", "direction"]),
        ),
        {"score": "score"},
        remark="input and output prediction of the same functions",
    ),
    "metr_horizon_runs": RealData(
        "METR time-horizon runs, 2025-02 (MIT)",
        (TASK, ROLLOUT),
        SYSTEM,
        remark="1 to 96 runs a cell; one system that never passes",
    ),
    "gpqa_diamond_epochs": RealData(
        "GPQA Diamond, 2 models x 198 items x 5 epochs, S. Linds, evalconfidence (Apache-2.0)",
        (facet("task", varies="system"), ROLLOUT),
        SYSTEM,
        settings={"sampler": "pymc"},
        remark="own sd per system, correlated over tasks",
    ),
    "llmbar_judges": RealData(
        "LLMBar: 6 LLM judges x up to 15 prompts x 2 orders x 734 instances (MIT)",
        (TASK, facet("order", "controlled")),
        SYSTEM,
        rows={"environment": "Vanilla"},
        remark="the systems are judges; one prompt (Vanilla), orders as fixed effects",
    ),
    "classic_brennan_3_2": RealData(
        "Brennan (2001), table 3.2, synthetic data set 4",
        (TASK, facet("judge", "error", nested_in=["task"])),
        {**SYSTEM, "family": "gaussian"},
        remark="persons x (raters within tasks)",
    ),
    "statnlp_annotation_gstudy": RealData(
        "Riezler & Hagmann: 5 sentences x 10 raters x 3 occasions x 2 modes (Apache-2.0)",
        (
            facet("mode", "controlled", column="environment"),
            facet("sentence", column="task"),
            facet("rater", "error", column="judge"),
            facet("occasion", "error", column="rollout"),
        ),
        {"score": "score", "family": "gaussian"},
        remark="ANOVA gives negative components for occasions",
    ),
    "classic_verbagg": RealData(
        "Verbal aggression, 316 persons x 24 items (lme4)",
        (TASK,),
        SYSTEM,
        remark="one trial per person and item",
    ),
}


def main() -> None:
    arguments = _arguments()
    names = arguments.only or list(SETS)
    rows = [_row(name, SETS[name], arguments.folder) for name in names]
    if arguments.only:
        print("\n".join(" | ".join(row.values()) for row in rows))
        return
    arguments.page.write_text(_page(names, rows), encoding="utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("page", type=Path, nargs="?", default=PAGE)
    parser.add_argument("--only", nargs="*", choices=list(SETS))
    return parser.parse_args()


def study_of(data: RealData) -> gs.Study:
    """The declaration of one set."""
    return gs.Study(facets=list(data.facets), **data.study)


def rows_of(data: RealData, path: Path) -> pd.DataFrame:
    """Its rows, as text; those of a part only where the set says which."""
    frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    for column, value in data.rows.items():
        frame = frame[frame[column] == value]
    score = data.study["score"]
    return frame.assign(**{score: frame[score].replace({"nan": "", "<NA>": ""})})


def fitted(data: RealData, path: Path) -> tuple[Fit, float]:
    """The fit, and the seconds that it took."""
    settings = {"sampler": "direct", **data.settings}
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gs.EstimabilityWarning)
        fit = gs.fit(study_of(data), rows_of(data, path), seed=SEED, progress=False, **settings)
    return fit, time.perf_counter() - start


def _row(name: str, data: RealData, folder: Path) -> dict[str, str]:
    fit, seconds = fitted(data, folder / f"{name}.csv.gz")
    gates = fit.diagnostics
    components = gs.variance_components(fit)
    summary = components.summary()
    largest = summary["share"].sort_values(ascending=False).index[:MOST_SHOWN]
    shares = ", ".join(_share(component, summary.loc[component]) for component in largest)
    width = gs.variance_budget(fit).half_width().to_numpy()
    low, high = np.quantile(width, [0.025, 0.975])
    graded = fit.study.family == "gaussian"
    factor, unit = (1, "") if graded else (100, " pt")
    print(f"{name}: {seconds:.1f} s, {gates}", flush=True)
    return {
        "data": name,
        "trials": f"{fit.design.n_trials:,}",
        "cells": f"{len(fit.design.cells.trials):,}",
        "score": f"{components.mean.to_numpy().mean():.3f}",
        "largest shares of one trial's variance": shares,
        "half-width of the score": f"{factor * width.mean():.2g} ({factor * low:.2g} to "
        f"{factor * high:.2g}){unit}",
        "divergences": str(gates.divergences),
        "gates": "passed" if gates.passed else "; ".join(gates.failures()[:2]),
        "seconds": f"{seconds:.0f}",
    }


def _share(component: str, row: pd.Series) -> str:
    low, high = 100 * row["share_lower"], 100 * row["share_upper"]
    return f"{component} {100 * row['share']:.0f}% ({low:.0f} to {high:.0f})"


def _page(names: list[str], rows: list[dict[str, str]]) -> str:
    columns = list(rows[0])
    lines = [
        "# Real data, end to end",
        "",
        _INTRODUCTION,
        "",
        f"| {' | '.join(columns)} |",
        f"| {' | '.join('---' for _ in columns)} |",
        *(f"| {' | '.join(row[column].replace('|', '/') for column in columns)} |" for row in rows),
        "",
        "## What they are",
        "",
        "None of these sets is part of the project.",
        "",
        *(f"- **{name}**: {SETS[name].source}. {_remark(SETS[name])}" for name in names),
        "",
    ]
    return "\n".join(lines)


def _remark(data: RealData) -> str:
    text = data.remark[0].upper() + data.remark[1:]
    return f"{text}." if text else ""


if __name__ == "__main__":
    main()
