"""lme4's glmer on our cells: the point estimate that is everybody's first try, for context."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from benchmarks.libraries.bench_bambi import group
from benchmarks.libraries.r_scripts import absent, ask
from benchmarks.methods import Method, Plan, Sampled

if TYPE_CHECKING:
    from gstudy.study.estimable import Assessment

__all__ = ["METHODS"]


def estimate(design: Assessment, plan: Plan) -> Sampled:
    """Maximum likelihood by the Laplace approximation; no priors, no seed, no draws."""
    del plan
    answer = ask("lme4.R", design, {})
    found = {"mu": "mu"} | {
        f"sd({component.name})": group(c) for c, component in enumerate(design.components)
    }
    notes = (f"lme4 {answer.facts['version']}", answer.facts["remark"])
    return Sampled(
        {name: np.array([[answer.numbers[column][0]]]) for name, column in found.items()},
        0.0,
        0,
        seconds=float(answer.facts["seconds"]),
        remark="; ".join(note for note in notes if note),
    )


METHODS = (Method(name="lme4", sample=estimate, missing=lambda: absent("lme4"), is_point=True),)
