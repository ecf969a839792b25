"""The sections of a report: each made of what the fit can answer, or left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from gstudy._words import plural
from gstudy.display import Table
from gstudy.errors import QuantityError
from gstudy.fits.gates import STAMP
from gstudy.planning.next_steps import next_steps
from gstudy.questions.banks import task_facet
from gstudy.questions.claims import universe_table
from gstudy.questions.leaderboard import scores
from gstudy.questions.posterior_checks import posterior_check
from gstudy.questions.prior_predictions import prior_predictive
from gstudy.questions.sensitivity import prior_sensitivity
from gstudy.questions.tasks import task_table
from gstudy.report.answer import answer_lines
from gstudy.report.check_plot import plot_posterior_check
from gstudy.report.icc_plot import plot_accuracy_icc, plot_icc
from gstudy.report.next_steps_plot import plot_next_steps
from gstudy.report.pictures import Picture
from gstudy.report.plots import plot_budget
from gstudy.report.prior_plot import plot_priors
from gstudy.report.stack_plot import plot_budget_whole
from gstudy.report.task_plot import plot_tasks
from gstudy.study.check_report import collect_table, component_table
from gstudy.study.components import NOT_SAMPLED
from gstudy.variance.budgets import variance_budget
from gstudy.variance.coefficients import icc
from gstudy.variance.components import variance_components
from gstudy.variance.remembered import remembered
from gstudy.variance.rerun import rerun_noise

if TYPE_CHECKING:
    from gstudy.fits.fitted import Fit
    from gstudy.fits.many import Fits
    from gstudy.questions.ranking import Leaderboard
    from gstudy.variance.coefficients import Coefficient

__all__ = [
    "LEVEL",
    "SECTIONS",
    "Material",
    "Section",
    "icc_picture",
    "scores_section",
    "section_of",
    "without_stamps",
]

LEVEL = 0.95
_SEED = 0


@dataclass(frozen=True, slots=True)
class Section:
    """One part of a report.

    Parameters
    ----------
    key : str
        Its anchor, and the beginning of its files' names.
    title : str
    lines : tuple of str
        Sentences before everything else.
    pictures : tuple of Picture
    tables : mapping of str to Table
    """

    key: str
    title: str
    lines: tuple[str, ...] = ()
    pictures: tuple[Picture, ...] = ()
    tables: Mapping[str, Table] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Material:
    """What a report is made of.

    Parameters
    ----------
    fit : Fit
    fits : Fits or None
        One fit per system, for what needs variances of its own.
    """

    fit: Fit
    fits: Fits | None = None

    def board(self) -> Leaderboard:
        """The scores of the systems, with ICCs where they have variances of their own."""
        return remembered(self, "board", Material._board)

    def _board(self) -> Leaderboard:
        if self.fits is None:
            return scores(self.fit)
        several = len(self.fit.design.cells.labels.get(self.fit.study.object or "", ())) > 1
        return scores(self.fits, self.fit if several else None)


def _answer(given: Material) -> Section:
    return Section("answer", "The answer", lines=answer_lines(given.fit))


def _claim(given: Material) -> Section:
    return Section(
        "claim",
        "What the claim covers",
        lines=("The claim covers other levels of what is sampled, and no others.",),
        tables={"universe": universe_table(given.fit)},
    )


def scores_section(given: Material) -> Section:
    """The scores of the systems; raises a QuantityError where they cannot be compared."""
    board = given.board()
    pictures = []
    if board.icc is not None and board.family == "binary":
        caption = (
            f"Score against ICC({board.task}), score scale: posterior means, and the region with "
            f"{100 * LEVEL:g}% of the joint draws of each system."
        )
        pictures.append(
            Picture("scores-icc", caption, lambda: plot_accuracy_icc(board, level=LEVEL))
        )
    return Section(
        "scores", "Scores", pictures=tuple(pictures), tables={"scores": board.table(LEVEL)}
    )


def _budget(given: Material) -> Section:
    budget = variance_budget(given.fit)
    bars = (
        f"Share of each source in the variance of the reported score, score scale: posterior means "
        f"with {100 * LEVEL:g}% equal-tailed intervals."
    )
    whole = "The same as one whole, score scale: posterior means, without intervals."
    return Section(
        "budget",
        "Where the uncertainty comes from",
        pictures=(
            Picture("budget-bars", bars, lambda: plot_budget(budget, level=LEVEL)),
            Picture("budget-whole", whole, lambda: plot_budget_whole(budget, level=LEVEL)),
        ),
        tables={
            "budget": budget.table(LEVEL),
            "rerun_noise": rerun_noise(given.fit).table(LEVEL),
        },
    )


def _next_steps(given: Material) -> Section | None:
    steps = next_steps(given.fit)
    if len(steps.steps) == 1:
        return None
    caption = (
        f"Half-width of the score's 95% interval after each single change of the design, score "
        f"scale: posterior means with {100 * LEVEL:g}% equal-tailed intervals."
    )
    return Section(
        "next-steps",
        "What to run next",
        pictures=(Picture("next-steps", caption, lambda: plot_next_steps(steps, level=LEVEL)),),
        tables={"next_steps": steps.table(LEVEL)},
    )


def _components(given: Material) -> Section:
    scales = ("score",) if given.fit.study.family == "gaussian" else ("score", "logit")
    tables = {
        f"components_{scale}": variance_components(given.fit, scale=scale).table(LEVEL)
        for scale in scales
    }
    lines = () if len(scales) == 1 else (_SCALES,)
    return Section("components", "Variance components of one trial", lines=lines, tables=tables)


_SCALES = (
    "The score scale is that of the pass rate; the logit scale that of the model's linear "
    "predictor, residual pi^2/3. Shares on the two differ, and neither approximates the other."
)


def _icc(given: Material) -> Section | None:
    task = task_facet(given.fit)
    if task is None:
        return None
    board = _or_none(given.board)
    source = board if board is not None and board.icc is not None else icc(given.fit, task)
    return Section(
        "icc",
        "How alike trials are",
        pictures=(icc_picture(source, task),),
        tables={"icc": _icc_table(given.fit)},
    )


def icc_picture(source: Leaderboard | Coefficient, task: str) -> Picture:
    """The densities of an ICC, with what they are."""
    caption = (
        f"Posterior density of ICC({task}), score scale: points are means, lines "
        f"{100 * LEVEL:g}% equal-tailed intervals."
    )
    return Picture("icc", caption, lambda: plot_icc(source, level=LEVEL))


def _icc_table(fit: Fit) -> Table:
    """ICC of each component on the scales that there are."""
    import pandas as pd

    scales = ("score",) if fit.study.family == "gaussian" else ("score", "logit")
    found = {
        (c.name, s): _or_none(_coefficient(fit, c.name, s))
        for c in fit.design.components
        for s in scales
    }
    rows = [
        {
            "component": name,
            "scale": scale,
            **value.summary(LEVEL)[["mean", "lower", "upper"]].iloc[0].to_dict(),
        }
        for (name, scale), value in found.items()
        if value is not None
    ]
    first = next(value for value in found.values() if value is not None)
    return Table(
        frame=pd.DataFrame(rows),
        title=f"ICC of each component, {first.estimand}",
        level=LEVEL,
        notes=("ICC: correlation of two trials that share this and nothing else.",),
        formats=dict.fromkeys(("mean", "lower", "upper"), "decimal3"),
    )


def _coefficient(fit: Fit, name: str, scale: str) -> Callable[[], Coefficient]:
    return lambda: icc(fit, name, scale=scale)


def _tasks(given: Material) -> Section:
    found = task_table(given.fit)
    caption = (
        f"{plural(found.facet).capitalize()} sorted by their expected score, score scale: "
        f"posterior means with {100 * LEVEL:g}% equal-tailed intervals."
    )
    return Section(
        "tasks",
        plural(found.facet).capitalize(),
        pictures=(Picture("tasks", caption, lambda: plot_tasks(found, level=LEVEL)),),
        tables={"tasks": found.table(LEVEL)},
    )


def _checks(given: Material) -> Section:
    check = posterior_check(given.fit, seed=_SEED)
    caption = (
        f"Observed statistics against {100 * LEVEL:g}% of replicates drawn from the fit, score "
        "scale, in sds of the replicates."
    )
    return Section(
        "checks",
        "Does the model fit?",
        pictures=(Picture("checks", caption, lambda: plot_posterior_check(check, level=LEVEL)),),
        tables={"posterior_check": check.table(LEVEL)},
    )


def _priors(given: Material) -> Section:
    scale = "score" if given.fit.study.family == "gaussian" else "logit"
    caption = (
        f"Prior and posterior of the mean and the standard deviations, {scale} scale, with "
        f"{100 * LEVEL:g}% equal-tailed intervals."
    )
    tables = {"sensitivity": prior_sensitivity(given.fit).table()}
    before = _or_none(lambda: prior_predictive(given.fit.study, given.fit.design, seed=_SEED))
    if before is not None:
        tables["prior_predictive"] = before.table(LEVEL)
    return Section(
        "priors",
        "What the priors do",
        pictures=(Picture("priors", caption, lambda: plot_priors(given.fit, level=LEVEL)),),
        tables=tables,
    )


def _sampler(given: Material) -> Section:
    parameters = given.fit.table()
    # What to call next is advice for a session, not for a reader.
    notes = tuple(note for note in parameters.notes if not note.startswith("next:"))
    tables = {
        "gates": given.fit.diagnostics.table(),
        "parameters": replace(parameters, notes=notes),
        "settings": _settings_table(given.fit),
    }
    if given.fits is not None:
        tables["fits"] = given.fits.table()
    return Section("sampler", "Sampler", tables=tables)


def _settings_table(fit: Fit) -> Table:
    """Seed, draws, sampler and versions, one a row."""
    import pandas as pd

    rows = []
    for name, value in fit.settings.items():
        if isinstance(value, Mapping):
            rows += [(f"{name}: {key}", str(own)) for key, own in value.items()]
        else:
            rows.append((name, str(value)))
    return Table(pd.DataFrame(rows, columns=["setting", "value"]), "Settings")


def _not_sampled(given: Material) -> Section | None:
    design = given.fit.design
    missing = collect_table(design.rows)
    single = [f"{name}: {label}" for name, label in design.not_sampled.items()]
    pinned = [f"{name}: {label}" for name, label in design.pinned.items()]
    pinned += [f"{name}: {label}" for name, label in design.study.controlled.items()]
    left = [row for row in design.rows if row.verdict == NOT_SAMPLED]
    if not (len(missing.frame) or single or pinned or left or design.notes):
        return None
    told = [("One level only", single), ("Pinned", pinned)]
    lines = [f"{what}: {'; '.join(each)}." for what, each in told if each]
    tables = {"design": component_table(design)}
    if len(missing.frame):
        tables["collect"] = missing
    return Section(
        "not-sampled",
        "What was not sampled",
        lines=(*lines, *design.notes),
        tables=tables,
    )


def _or_none[Found](made: Callable[[], Found]) -> Found | None:
    """What the fit can answer, else None."""
    try:
        return made()
    except QuantityError:
        return None


def section_of(given: Material, make: Callable[[Material], Section | None]) -> Section | None:
    """A section where the data can answer it, else None."""
    return _or_none(lambda: make(given))


def without_stamps(section: Section) -> Section:
    """The section of a page above which a stamp stands: its tables need not repeat it."""
    kept = {
        name: replace(
            table, notes=tuple(note for note in table.notes if not note.startswith(STAMP))
        )
        for name, table in section.tables.items()
    }
    return replace(section, tables=kept)


SECTIONS: tuple[Callable[[Material], Section | None], ...] = (
    _answer,
    _claim,
    scores_section,
    _budget,
    _next_steps,
    _components,
    _icc,
    _tasks,
    _checks,
    _priors,
    _sampler,
    _not_sampled,
)
"""In the order of the page."""
