"""The first screen of a budget: what the score is, how far it moves, and why, in words."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len

from gstudy._marks import visible
from gstudy.cli.shell_words import in_shell
from gstudy.cli.units import Units, units_of
from gstudy.display import Table, bar, percent, shorten, wrapped
from gstudy.fits.gates import STAMP, stamp
from gstudy.questions.claims import universe_table
from gstudy.questions.scores import SHARED_SDS, UNNAMED, listed, plural, score
from gstudy.questions.sensitivity import weak_components_note
from gstudy.report.answer import kept_words
from gstudy.variance.basis import PRIOR_ONLY
from gstudy.variance.budgets import variance_budget
from gstudy.variance.components import variance_components
from gstudy.variance.rerun import rerun_noise
from gstudy.variance.structure import RESIDUAL

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd
    import xarray as xr

    from gstudy.fits.fitted import Fit
    from gstudy.questions.scores import Score
    from gstudy.variance.budgets import VarianceBudget
    from gstudy.variance.components import VarianceComponents
    from gstudy.variance.rerun import RerunNoise

__all__ = ["FirstScreen", "first_screen", "stamp_table"]

LEVEL = 0.95
WIDTH = 80

POOLED = "mean over trials"

_ELSEWHERE = (STAMP, "Not covered", SHARED_SDS)

_NAME_WIDTH = 28
_BAR_WIDTH = 10
_SHARE_WIDTH = 6
_INTERVAL_WIDTH = 14
# Smaller sources are summed up in one line, so that the screen stays one.
_LEAST_SHARE = 0.005
_MOST_ROWS = 10


@dataclass(frozen=True, slots=True)
class FirstScreen:
    """Everything that `gstudy budget` tells of one fit.

    Parameters
    ----------
    fit : Fit
    score : Score or None
        None of a new system: nothing of it was observed.
    budget : VarianceBudget
    rerun : RerunNoise
    components : VarianceComponents
    failure : str or None
        Why the numbers must not be published; every table carries it.
    weak : str
        How far the prior is felt in components under 5 levels; "" without such.
    universe : Table or None
        What the claim covers; its notes say what failed runs do to it.
    """

    fit: Fit
    score: Score | None
    budget: VarianceBudget
    rerun: RerunNoise
    components: VarianceComponents
    failure: str | None
    weak: str = ""
    universe: Table | None = None

    def text(self) -> str:
        """The screen, at most 80 columns wide."""
        stamped = wrapped(in_shell(self.failure), WIDTH) if self.failure else []
        parts = [
            stamped,
            _data_lines(self.fit),
            _unobserved_lines(self.fit) if self.score is None else _score_lines(self.score),
            _budget_lines(self.budget),
            _rerun_lines(self.fit, self.rerun),
            _coverage_lines(self.fit),
            _policy_lines(self.universe),
            _notes(self.fit),
            wrapped(self.weak, WIDTH, indent="  ") if self.weak else [],
            _gate_lines(self.fit),
        ]
        return "\n\n".join("\n".join(lines) for lines in parts if lines)

    def draws(self) -> list[xr.DataArray]:
        """Draws of every number that the screen prints."""
        return [
            *([] if self.score is None else [self.score.draws]),
            self.budget.draws,
            self.budget.half_width(0.95),
            self.rerun.draws,
            self.rerun.difference(),
            self.components.draws,
        ]

    def tables(self) -> dict[str, Table]:
        """The same as tables: `score`, `budget`, `half_width`, `rerun_noise`, `components`..."""
        stamped = {"not_converged": stamp_table(self.failure)} if self.failure else {}
        found = self.score
        scored = (
            {}
            if found is None
            else {"score": _full_table(found.summary(LEVEL), found.table(LEVEL))}
        )
        return {
            **stamped,
            **scored,
            "budget": _full_table(self.budget.summary(LEVEL), self.budget.table(LEVEL)),
            "half_width": _half_width_table(self.budget),
            "rerun_noise": _full_table(self.rerun.summary(LEVEL), self.rerun.table(LEVEL)),
            "components": _full_table(self.components.summary(LEVEL), self.components.table(LEVEL)),
            "not_covered": _coverage_table(self.fit),
            **({} if self.universe is None else {"universe": self.universe}),
            "gates": self.fit.diagnostics.table(),
        }

    def markdown(self) -> str:
        """The tables that a report shows, as Markdown."""
        tables = [
            *([] if self.score is None else [self.score.table(LEVEL)]),
            self.budget.table(LEVEL),
            self.rerun.table(LEVEL),
            _coverage_table(self.fit),
            self.fit.diagnostics.table(),
        ]
        return "\n\n".join(table.markdown() for table in tables if len(table.frame)) + "\n"


def first_screen(
    fit: Fit,
    *,
    system: str | None = None,
    design: Mapping[str, int] | None = None,
    policies: Mapping[str, Fit] | None = None,
) -> FirstScreen:
    """Measure everything that the screen tells.

    Parameters
    ----------
    fit : Fit
    system : str, optional
        One system; "new" for one that is not among them; the mean over systems by default.
    design : mapping of str to int, optional
        A balanced design for budget and re-run noise; as collected by default.
    policies : mapping of str to Fit, optional
        The fits under both policies on failed runs.

    Raises
    ------
    QuantityError
        For an unknown system, or a design that this fit cannot answer for.
    """
    # The one system of a study may be called so.
    only = fit.design.not_sampled.get(fit.study.object or "")
    found = None if system == "new" != only else score(fit, system=system)
    budget = variance_budget(fit, design, system=system)
    rerun = rerun_noise(fit, design, system)
    components = variance_components(fit, system=system)
    observed = [] if found is None else [found.draws]
    failure = _failure(fit, [*observed, budget.draws, rerun.draws, components.draws])
    return FirstScreen(
        fit=fit,
        score=None if found is None else _stamped(found, failure),
        budget=_stamped(budget, failure),
        rerun=_stamped(rerun, failure),
        components=_stamped(components, failure),
        failure=failure,
        weak=weak_components_note(fit),
        universe=universe_table(fit, policies),
    )


def _failure(fit: Fit, draws: Sequence[xr.DataArray]) -> str | None:
    """The first gate that is not passed: the fit's, then those of what is printed."""
    if not fit.diagnostics.passed:
        return stamp(draws[0], fit.diagnostics)
    return next((note for note in map(stamp, draws) if note), None)


def _stamped[Result: Score | VarianceBudget | RerunNoise | VarianceComponents](
    result: Result, failure: str | None
) -> Result:
    """The result with the stamp as its first note."""
    if failure is None:
        return result
    rest = tuple(note for note in result.notes if not note.startswith(STAMP))
    return replace(result, notes=(failure, *rest))


def stamp_table(failure: str) -> Table:
    """The table that says why the others must not be published."""
    import pandas as pd

    return Table(pd.DataFrame({"note": [failure]}), "Not converged")


def _said_once(notes: Sequence[str], *kept: str) -> tuple[str, ...]:
    """A score's notes but those that the budget below it, or another part, says too."""
    return tuple(
        note
        for note in notes
        if note.startswith(kept) or not (note.startswith(_ELSEWHERE) or note.endswith(PRIOR_ONLY))
    )


def _told(notes: Sequence[str]) -> list[str]:
    """Notes but those that the screen says elsewhere, indented."""
    own = [note for note in notes if not note.startswith(_ELSEWHERE)]
    return [f"  {line}" for note in own for line in wrapped(note, WIDTH - 2)]


def _data_lines(fit: Fit) -> list[str]:
    levels = [
        f"{_count(n)} {facet if n == 1 else plural(facet)}"
        for facet, n in fit.design.facet_levels.items()
    ]
    source = Path(fit.design.source).name
    text = f"{source}: {fit.design.n_trials:,} trials, {' x '.join(levels)}"
    return [line for told in (text, *_lost(fit)) for line in wrapped(told, WIDTH, indent="  ")]


def _lost(fit: Fit) -> list[str]:
    """Rows that were no scored trials, and what the study says of them."""
    totals = fit.design.counts.sum(numeric_only=True)
    policies = {"failed": fit.study.on_failed_run, "unscored": fit.study.on_missing_score}
    told = [
        f"{int(totals[f'n_{kind}']):,} {kind} (policy: {_policy(policy)})"
        for kind, policy in policies.items()
        if totals[f"n_{kind}"]
    ]
    return [f"Of {int(totals['n_rows']):,} rows {listed(told)}."] if told else []


def _policy(policy: str | Mapping[str, str]) -> str:
    if isinstance(policy, str):
        return policy
    return ", ".join(f"{reason} {rule}" for reason, rule in policy.items())


def _notes(fit: Fit) -> list[str]:
    """What the check found that a reader should look at."""
    notes = [f"- {note}" for note in fit.design.notes]
    lines = [line for note in notes for line in wrapped(note, WIDTH - 2, indent="  ")]
    return ["Look at", *(f"  {line}" for line in lines)] if lines else []


def _score_lines(found: Score) -> list[str]:
    summary = found.summary(LEVEL)
    if len(summary) > 1:
        notes = map(in_shell, _said_once(found.notes, STAMP, SHARED_SDS))
        shown = replace(found, notes=tuple(notes))
        return shown.table(LEVEL).text(WIDTH).splitlines()
    row = summary.iloc[0]
    name = "" if found.observed.index.name == UNNAMED else f" of {summary.index[0]}"
    units = units_of(found.family)
    naive = units.span(row["naive_lower"], row["naive_upper"])
    full = units.span(row["lower"], row["upper"])
    lines = [
        f"Score{name}: {_headline(found, row, units)}",
        f"  naive 95% interval  {naive}  as if every trial were independent",
        f"  full 95% interval   {full}  {row['ratio']:.1f} times as wide as the naive one",
    ]
    # Of one system the budget below says the same of its sds.
    told = _told([f"The full interval is of the {found.estimand}.", *_said_once(found.notes)])
    return [*(shorten(line, WIDTH) for line in lines), *told]


def _headline(found: Score, row: pd.Series, units: Units) -> str:
    """The observed score of one system."""
    trials = f"{row['n_trials']:,.0f} trials"
    if units.graded or found.average != POOLED:
        return f"{units.score(row['rate'])}, {found.average}, {trials}"
    return f"{units.score(row['rate'])} of {trials} passed"


def _unobserved_lines(fit: Fit) -> list[str]:
    """What stands in place of the score of a system that was not run."""
    text = (
        f"Score: none, as a new {fit.study.object} was not run. Below: how far its score would "
        f"move, differences between {plural(str(fit.study.object))} included."
    )
    return wrapped(text, WIDTH, indent="  ")


def _budget_lines(budget: VarianceBudget) -> list[str]:
    frame = budget.summary(LEVEL).sort_values("share", ascending=False, kind="stable")
    width = budget.half_width(0.95).to_numpy()
    low, high = _tails(width)
    units = units_of(budget.family)
    head = (
        f"Where it comes from: {budget.estimand}. In a new study of this design 95% of scores "
        f"lie within {units.distance(float(width.mean()), low, high)} of the {units.mean}."
    )
    shown = frame[frame["share"] >= _LEAST_SHARE].head(_MOST_ROWS)
    lines = [
        *wrapped(head, WIDTH, indent="  "),
        _line("source", "share of variance", "95% interval", "role"),
        *(line for row in shown.itertuples() for line in _source_lines(row)),
    ]
    rest = frame.drop(index=shown.index)
    if len(rest):
        text = f"{len(rest)} smaller source{'s' if len(rest) > 1 else ''}"
        lines.append(_line(text, percent(rest["share"].sum())))
    return [*lines, *_told(budget.notes), *_residual_lines(shown, budget)]


def _half_width_table(budget: VarianceBudget) -> Table:
    """Half-width of the 95% interval of the budget's score, and whose score under which design."""
    import pandas as pd

    width = budget.half_width(0.95).to_numpy()
    low, high = _tails(width)
    row = {"estimand": budget.estimand, "mean": float(width.mean()), "lower": low, "upper": high}
    return Table(
        pd.DataFrame([row]),
        "Half-width of a 95% interval of the score",
        scale="score",
        level=LEVEL,
        formats=dict.fromkeys(
            ("mean", "lower", "upper"),
            "number3" if units_of(budget.family).graded else "points1",
        ),
    )


def _residual_lines(shown: pd.DataFrame, budget: VarianceBudget) -> list[str]:
    """What residual is, unless a note of the budget says it."""
    if RESIDUAL not in shown.index or any(note.startswith(RESIDUAL) for note in budget.notes):
        return []
    return ["  residual: the chance in a single trial, all levels of the facets held fixed."]


def _source_lines(row: Any) -> list[str]:
    """A source with its share; a long name has lines of its own before it."""
    share, low, high = (getattr(row, name) for name in ("share", "share_lower", "share_upper"))
    drawn = f"{bar(share, _BAR_WIDTH)} {percent(share):>{_SHARE_WIDTH}}"
    interval = f"{100 * low:.1f} to {100 * high:.1f}%"
    *before, name = wrapped(visible(str(row.Index)), WIDTH - 2, indent="  ")
    if cell_len(name) > _NAME_WIDTH:
        before, name = [*before, name], ""
    return [*(f"  {text}" for text in before), _line(name, drawn, interval, row.role)]


def _line(name: str, share: str, interval: str = "", role: str = "") -> str:
    """One line below "where it comes from": the header, a source, or the smaller ones."""
    padding = " " * (_NAME_WIDTH - cell_len(name))
    share_width = _BAR_WIDTH + 1 + _SHARE_WIDTH
    middle = f"{share:>{share_width}}  {interval:<{_INTERVAL_WIDTH}}"
    return f"  {name}{padding}  {middle}  {role}".rstrip()


def _rerun_lines(fit: Fit, rerun: RerunNoise) -> list[str]:
    difference = rerun.difference().to_numpy()
    low, high = _tails(difference)
    kept = kept_words(fit, rerun)
    drawn = listed([f"new {plural(facet)}" for facet in rerun.redrawn]) or "new trials"
    size = units_of(rerun.family).distance(float(difference.mean()), low, high)
    text = (
        f"Re-run: a re-run of the same {kept} ({drawn}) moves the score by up to {size}, "
        "95 times in 100."
    )
    return wrapped(f"{text} {rerun.bound}".rstrip(), WIDTH, indent="  ")


def _coverage_lines(fit: Fit) -> list[str]:
    rows = _uncovered(fit)
    if not rows:
        return []
    lines = ["Not covered: the intervals say nothing of other levels of these"]
    for name, level, why in rows:
        lines += [f"  {line}" for line in wrapped(f"{name}: {level} ({why})", WIDTH - 2)]
    return lines


def _policy_lines(universe: Table | None) -> list[str]:
    """What failed runs do to score and components, where some failed."""
    notes = [] if universe is None else [note for note in universe.notes if _is_told(note)]
    return [line for note in notes for line in wrapped(note, WIDTH, indent="  ")]


def _is_told(note: str) -> bool:
    return note.startswith(("Failed runs:", "With failed", "Over ")) and "none (" not in note


def _coverage_table(fit: Fit) -> Table:
    import pandas as pd

    frame = pd.DataFrame(_uncovered(fit), columns=["what", "level", "why"])
    return Table(frame, "Not covered by any interval here")


def _uncovered(fit: Fit) -> list[tuple[str, str, str]]:
    """What was not sampled: name, its one level, why."""
    design = fit.design
    return [
        *((facet, label, "one level only") for facet, label in design.not_sampled.items()),
        *((facet, label, "pinned") for facet, label in design.pinned.items()),
        *((name, str(value), "pinned") for name, value in fit.study.controlled.items()),
    ]


def _gate_lines(fit: Fit) -> list[str]:
    known = fit.settings
    parts = [f"{fit.diagnostics.chains} chains x {fit.diagnostics.draws:,} draws"]
    parts += [f"{key} {known[key]}" for key in ("seed", "sampler") if known.get(key) is not None]
    below = [str(fit.diagnostics), *(f"before: {text}" for text in fit.diagnostics.refits)]
    return [
        *wrapped(units_of(fit.study.family).reading, WIDTH, indent="  "),
        *wrapped(f"Fit: {', '.join(parts)}", WIDTH, indent="  "),
        *(f"  {line}" for text in below for line in wrapped(in_shell(text), WIDTH - 2)),
    ]


def _full_table(summary: pd.DataFrame, printed: Table) -> Table:
    """Every column of a summary, with what is said of the printed table."""
    return Table(
        frame=summary,
        title=printed.title,
        scale=printed.scale,
        level=printed.level,
        notes=printed.notes,
    )


def _tails(values: object) -> tuple[float, float]:
    import numpy as np

    found = np.asarray(values, dtype=float)
    low, high = np.quantile(found, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def _count(n: float) -> str:
    return f"{n:,}" if float(n).is_integer() else f"{n:.3g}"
