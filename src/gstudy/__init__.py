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
    from gstudy.fits.many import Fits
    from gstudy.model.extension import extend
    from gstudy.model.graph import build_model
    from gstudy.model.many import fit_by
    from gstudy.model.policies import fit_policies
    from gstudy.model.sampling import fit
    from gstudy.planning.frontier import design_frontier
    from gstudy.planning.icc_widths import icc_width
    from gstudy.planning.next_plan import plan_next
    from gstudy.planning.next_steps import next_steps
    from gstudy.planning.precision import compare_designs
    from gstudy.planning.runs import run_list
    from gstudy.planning.search import best_design, cheapest_design
    from gstudy.questions.card import evaluation_card
    from gstudy.questions.claims import universe_table
    from gstudy.questions.comparison import compare_systems
    from gstudy.questions.contrasts import contrasts
    from gstudy.questions.convergence import convergence
    from gstudy.questions.leaderboard import scores
    from gstudy.questions.levels import level_summary
    from gstudy.questions.posterior_checks import posterior_check
    from gstudy.questions.prior_predictions import prior_predictive
    from gstudy.questions.scores import score
    from gstudy.questions.sensitivity import prior_sensitivity
    from gstudy.questions.tasks import task_table
    from gstudy.report.check_plot import plot_posterior_check
    from gstudy.report.convergence_plot import plot_convergence
    from gstudy.report.difference_plot import plot_difference
    from gstudy.report.frontier_plot import plot_frontier
    from gstudy.report.grid_plot import plot_design_grid
    from gstudy.report.icc_plot import plot_accuracy_icc, plot_icc
    from gstudy.report.next_steps_plot import plot_next_steps
    from gstudy.report.page import build_report
    from gstudy.report.plots import plot_budget
    from gstudy.report.prior_plot import plot_priors
    from gstudy.report.stack_plot import plot_budget_whole
    from gstudy.report.task_plot import plot_tasks
    from gstudy.study.costs import Cost
    from gstudy.study.declaration import Study
    from gstudy.study.designs import Design
    from gstudy.study.estimable import check
    from gstudy.study.examples.catalogue import example
    from gstudy.study.facets import Facet
    from gstudy.study.guessing.guesses import guess_study
    from gstudy.study.logs.collected import read_logs
    from gstudy.study.logs.frames import from_frame
    from gstudy.study.simulated import simulate
    from gstudy.study.trials import Trials, read_trials
    from gstudy.variance.assumed import assume
    from gstudy.variance.budgets import variance_budget
    from gstudy.variance.classical.anova import anova_icc
    from gstudy.variance.classical.mean_squares import anova_components
    from gstudy.variance.classical.paired import paired_noise
    from gstudy.variance.classical.sample_size import icc_sample_size, icc_standard_error
    from gstudy.variance.classical.standard_errors import clustered_se
    from gstudy.variance.coefficients import generalizability, icc, phi, sem
    from gstudy.variance.components import variance_components
    from gstudy.variance.prior_draws import prior_components
    from gstudy.variance.rerun import rerun_noise
    from gstudy.variance.three_noises import noises

    __version__: str

# Where each public name is defined. A type checker needs the imports above and the list below; a
# test holds the three together.
_PUBLIC = {
    "ConvergenceWarning": "gstudy.errors",
    "Cost": "gstudy.study.costs",
    "DataError": "gstudy.errors",
    "DeclarationError": "gstudy.errors",
    "Design": "gstudy.study.designs",
    "EstimabilityWarning": "gstudy.errors",
    "Facet": "gstudy.study.facets",
    "Fit": "gstudy.fits.fitted",
    "Fits": "gstudy.fits.many",
    "GstudyError": "gstudy.errors",
    "QuantityError": "gstudy.errors",
    "RunFileError": "gstudy.errors",
    "Study": "gstudy.study.declaration",
    "Trials": "gstudy.study.trials",
    "anova_components": "gstudy.variance.classical.mean_squares",
    "anova_icc": "gstudy.variance.classical.anova",
    "assume": "gstudy.variance.assumed",
    "best_design": "gstudy.planning.search",
    "build_model": "gstudy.model.graph",
    "build_report": "gstudy.report.page",
    "cheapest_design": "gstudy.planning.search",
    "check": "gstudy.study.estimable",
    "clustered_se": "gstudy.variance.classical.standard_errors",
    "compare_designs": "gstudy.planning.precision",
    "compare_systems": "gstudy.questions.comparison",
    "contrasts": "gstudy.questions.contrasts",
    "convergence": "gstudy.questions.convergence",
    "design_frontier": "gstudy.planning.frontier",
    "evaluation_card": "gstudy.questions.card",
    "example": "gstudy.study.examples.catalogue",
    "extend": "gstudy.model.extension",
    "fit": "gstudy.model.sampling",
    "fit_by": "gstudy.model.many",
    "fit_policies": "gstudy.model.policies",
    "from_frame": "gstudy.study.logs.frames",
    "generalizability": "gstudy.variance.coefficients",
    "guess_study": "gstudy.study.guessing.guesses",
    "icc": "gstudy.variance.coefficients",
    "icc_sample_size": "gstudy.variance.classical.sample_size",
    "icc_standard_error": "gstudy.variance.classical.sample_size",
    "icc_width": "gstudy.planning.icc_widths",
    "level_summary": "gstudy.questions.levels",
    "load": "gstudy.fits.files",
    "next_steps": "gstudy.planning.next_steps",
    "noises": "gstudy.variance.three_noises",
    "paired_noise": "gstudy.variance.classical.paired",
    "phi": "gstudy.variance.coefficients",
    "plan_next": "gstudy.planning.next_plan",
    "plot_accuracy_icc": "gstudy.report.icc_plot",
    "plot_budget": "gstudy.report.plots",
    "plot_budget_whole": "gstudy.report.stack_plot",
    "plot_convergence": "gstudy.report.convergence_plot",
    "plot_design_grid": "gstudy.report.grid_plot",
    "plot_difference": "gstudy.report.difference_plot",
    "plot_frontier": "gstudy.report.frontier_plot",
    "plot_icc": "gstudy.report.icc_plot",
    "plot_next_steps": "gstudy.report.next_steps_plot",
    "plot_posterior_check": "gstudy.report.check_plot",
    "plot_priors": "gstudy.report.prior_plot",
    "plot_tasks": "gstudy.report.task_plot",
    "posterior_check": "gstudy.questions.posterior_checks",
    "prior_components": "gstudy.variance.prior_draws",
    "prior_predictive": "gstudy.questions.prior_predictions",
    "prior_sensitivity": "gstudy.questions.sensitivity",
    "read_logs": "gstudy.study.logs.collected",
    "read_trials": "gstudy.study.trials",
    "rerun_noise": "gstudy.variance.rerun",
    "run_list": "gstudy.planning.runs",
    "score": "gstudy.questions.scores",
    "scores": "gstudy.questions.leaderboard",
    "sem": "gstudy.variance.coefficients",
    "simulate": "gstudy.study.simulated",
    "task_table": "gstudy.questions.tasks",
    "universe_table": "gstudy.questions.claims",
    "variance_budget": "gstudy.variance.budgets",
    "variance_components": "gstudy.variance.components",
}

__all__ = [
    "ConvergenceWarning",
    "Cost",
    "DataError",
    "DeclarationError",
    "Design",
    "EstimabilityWarning",
    "Facet",
    "Fit",
    "Fits",
    "GstudyError",
    "QuantityError",
    "RunFileError",
    "Study",
    "Trials",
    "anova_components",
    "anova_icc",
    "assume",
    "best_design",
    "build_model",
    "build_report",
    "cheapest_design",
    "check",
    "clustered_se",
    "compare_designs",
    "compare_systems",
    "contrasts",
    "convergence",
    "design_frontier",
    "evaluation_card",
    "example",
    "extend",
    "fit",
    "fit_by",
    "fit_policies",
    "from_frame",
    "generalizability",
    "guess_study",
    "icc",
    "icc_sample_size",
    "icc_standard_error",
    "icc_width",
    "level_summary",
    "load",
    "next_steps",
    "noises",
    "paired_noise",
    "phi",
    "plan_next",
    "plot_accuracy_icc",
    "plot_budget",
    "plot_budget_whole",
    "plot_convergence",
    "plot_design_grid",
    "plot_difference",
    "plot_frontier",
    "plot_icc",
    "plot_next_steps",
    "plot_posterior_check",
    "plot_priors",
    "plot_tasks",
    "posterior_check",
    "prior_components",
    "prior_predictive",
    "prior_sensitivity",
    "read_logs",
    "read_trials",
    "rerun_noise",
    "run_list",
    "score",
    "scores",
    "sem",
    "simulate",
    "task_table",
    "universe_table",
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
