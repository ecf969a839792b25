"""Variance components, reliability and design studies for evaluations of AI systems.

Every public name is imported when it is first used, so that `import gstudy` stays light.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gstudy.errors import (
        ConvergenceWarning,
        DataError,
        DeclarationError,
        EstimabilityWarning,
        GstudyError,
        QuantityError,
        RunFileError,
    )
    from gstudy.fits.files import load
    from gstudy.fits.fitted import Fit
    from gstudy.model.graph import build_model
    from gstudy.model.sampling import fit
    from gstudy.questions.scores import score
    from gstudy.report.plots import plot_budget
    from gstudy.study.declaration import Study
    from gstudy.study.estimable import check
    from gstudy.study.examples.catalogue import example
    from gstudy.study.facets import Facet
    from gstudy.study.simulated import simulate
    from gstudy.study.trials import Trials, read_trials
    from gstudy.variance.assumed import assume
    from gstudy.variance.budgets import variance_budget
    from gstudy.variance.classical import anova_icc
    from gstudy.variance.coefficients import generalizability, icc, phi
    from gstudy.variance.components import variance_components
    from gstudy.variance.rerun import rerun_noise

    __version__: str

# Where each public name is defined. A type checker needs the imports above and the list below; a
# test holds the three together.
_PUBLIC = {
    "ConvergenceWarning": "gstudy.errors",
    "DataError": "gstudy.errors",
    "DeclarationError": "gstudy.errors",
    "EstimabilityWarning": "gstudy.errors",
    "Facet": "gstudy.study.facets",
    "Fit": "gstudy.fits.fitted",
    "GstudyError": "gstudy.errors",
    "QuantityError": "gstudy.errors",
    "RunFileError": "gstudy.errors",
    "Study": "gstudy.study.declaration",
    "Trials": "gstudy.study.trials",
    "anova_icc": "gstudy.variance.classical",
    "assume": "gstudy.variance.assumed",
    "build_model": "gstudy.model.graph",
    "check": "gstudy.study.estimable",
    "example": "gstudy.study.examples.catalogue",
    "fit": "gstudy.model.sampling",
    "generalizability": "gstudy.variance.coefficients",
    "icc": "gstudy.variance.coefficients",
    "load": "gstudy.fits.files",
    "phi": "gstudy.variance.coefficients",
    "plot_budget": "gstudy.report.plots",
    "read_trials": "gstudy.study.trials",
    "rerun_noise": "gstudy.variance.rerun",
    "score": "gstudy.questions.scores",
    "simulate": "gstudy.study.simulated",
    "variance_budget": "gstudy.variance.budgets",
    "variance_components": "gstudy.variance.components",
}

__all__ = [
    "ConvergenceWarning",
    "DataError",
    "DeclarationError",
    "EstimabilityWarning",
    "Facet",
    "Fit",
    "GstudyError",
    "QuantityError",
    "RunFileError",
    "Study",
    "Trials",
    "anova_icc",
    "assume",
    "build_model",
    "check",
    "example",
    "fit",
    "generalizability",
    "icc",
    "load",
    "phi",
    "plot_budget",
    "read_trials",
    "rerun_noise",
    "score",
    "simulate",
    "variance_budget",
    "variance_components",
]


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        value: object = version("gstudy")
    elif name in _PUBLIC:
        value = getattr(importlib.import_module(_PUBLIC[name]), name)
    else:
        raise AttributeError(f"module 'gstudy' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
