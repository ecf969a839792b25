"""The answers of `gstudy designs`: which functions of planning are asked, and their tables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from gstudy.cli.design_questions import HALF_WIDTH
from gstudy.cli.exits import usage_error
from gstudy.cli.shell_words import in_shell
from gstudy.display import Table
from gstudy.fits.gates import STAMP

if TYPE_CHECKING:
    from gstudy.cli.design_questions import Questions
    from gstudy.cli.design_sources import DesignSource
    from gstudy.planning.comparison import DesignComparison
    from gstudy.planning.found import FoundDesigns
    from gstudy.planning.plans import Plan
    from gstudy.study.designs import Design

__all__ = ["Answer", "answers_of", "failure_of"]

LEVEL = 0.95
_ROUNDING = 1e-6
_NEW_STUDY = "A new study: what the run has is not counted."
_EFFECTIVE = "effective n: so many independent trials tell as much."


@dataclass(frozen=True, slots=True)
class Answer:
    """One result.

    Parameters
    ----------
    name : str
        Of its table for programs.
    result : DesignComparison, FoundDesigns, NextSteps or Plan
    printed : Table
    more : mapping of str to Table
        For programs, beside its summary.
    design : Design or None
        The design that was chosen, for a list of runs.
    """

    name: str
    result: Any
    printed: Table
    more: Mapping[str, Table]
    design: Design | None = None

    def text(self, width: int) -> str:
        """The table of the terminal."""
        notes = tuple(map(in_shell, self.printed.notes))
        return replace(self.printed, notes=notes).text(width)

    def tables(self) -> dict[str, Table]:
        """Every column, for programs."""
        table = self.printed
        summary = self.result.summary(LEVEL)
        whole = Table(summary, table.title, table.scale, table.level, table.notes)
        return {self.name: whole, **self.more}


def answers_of(source: DesignSource, asked: Questions, options: Mapping[str, Any]) -> list[Answer]:
    """Everything that was asked.

    Parameters
    ----------
    source : DesignSource
        With components.
    asked : Questions
    options : mapping
        `system` and `seed`.

    Raises
    ------
    QuantityError
        As the functions of planning.
    """
    prices = source.cost if asked.cost is None else asked.cost
    if asked.searches:
        return list(_searched(source, asked, prices, options["system"]))
    return list(_predicted(source, asked, prices, options))


def failure_of(answers: list[Answer]) -> str | None:
    """The first note of a number that fails a sampler gate."""
    notes = (note for answer in answers for note in answer.printed.notes)
    return next((note for note in notes if note.startswith(STAMP)), None)


def _searched(
    source: DesignSource, asked: Questions, prices: Mapping[str, float] | None, system: str | None
) -> Iterator[Answer]:
    from gstudy.planning.frontier import design_frontier
    from gstudy.planning.next_plan import plan_next
    from gstudy.planning.search import best_design, cheapest_design

    common: dict[str, Any] = {
        "cost": prices,
        "bounds": dict(asked.bounds),
        "multiples": dict(asked.multiples),
        "pin": asked.pin or None,
        "system": system,
    }
    search = {**common, "judges": asked.judges or ("all",), "goal": asked.goal}
    fit: Any = source.fit
    if asked.target is not None and fit is not None and _adds(asked):
        plan = plan_next(fit, target=asked.target, probability=asked.probability, **common)
        yield _of_plan(plan, prices)
        return
    known: Any = source.components
    if asked.target is not None:
        found = cheapest_design(known, target=asked.target, probability=asked.probability, **search)
        yield _of_found("cheapest", found, prices, source)
    if asked.budget is not None:
        yield _of_found("best", best_design(known, budget=asked.budget, **search), prices, source)
    if asked.frontier:
        frontier = design_frontier(known, budget=asked.budget, **search)
        yield _of_found("frontier", frontier, prices, source)


def _adds(asked: Questions) -> bool:
    """Whether a plan that goes on from a run can answer: trials are added as they are spread."""
    return asked.goal == HALF_WIDTH and not asked.judges


def _predicted(
    source: DesignSource,
    asked: Questions,
    prices: Mapping[str, float] | None,
    options: Mapping[str, Any],
) -> Iterator[Answer]:
    from gstudy.planning.next_steps import next_steps
    from gstudy.planning.precision import compare_designs

    designs: dict[str, Design | None] = dict(asked.designs or source.designs)
    if not designs and source.fit is None:
        raise usage_error(
            "these components have no design of their own: give --design, such as --design "
            "task=100,rollout=4, or look for one by --budget or --target."
        )
    known: Any = source.components
    if designs:
        own: dict[str, Design | None] = {} if source.fit is None else {"as collected": None}
        found = compare_designs(
            known,
            {**own, **designs},
            cost=prices,
            system=options["system"],
            target=asked.target,
            bounds=asked.bound_merged,
            seed=options["seed"] or 0,
        )
        yield _of_comparison(found)
        # From a design of which only bounds are known no step can be told.
        designs = {name: design for name, design in designs.items() if name in found.designs}
    single = next(iter(designs.values())) if len(designs) == 1 else None
    collected = source.fit is not None and not asked.designs
    if collected or single is not None:
        start = None if collected else single
        steps = next_steps(known, start, cost=prices, to=asked.to or None, system=options["system"])
        table = steps.table(LEVEL)
        money = {"added cost": _money([step.cost for step in steps.steps])}
        printed = replace(table, formats={**table.formats, **money})
        yield Answer("next_steps", steps, printed, {}, single)


def _of_comparison(found: DesignComparison) -> Answer:
    import pandas as pd

    index = pd.Index(list(found.costs), name="design")
    paid = pd.DataFrame(
        {"cost": list(found.costs.values()), "trials": list(found.trials.values())}, index=index
    )
    table = found.table(LEVEL)
    # They say the same, and a terminal is narrow.
    frame = table.frame.drop(columns="design effect", errors="ignore")
    notes = tuple(_EFFECTIVE if note.startswith("design effect") else note for note in table.notes)
    formats = {**table.formats, "cost": _money(frame.get("cost", []))}
    table = replace(table, frame=frame, notes=notes, formats=formats)
    return Answer("designs", found, table, {"design_costs": Table(paid, "Costs")})


def _of_found(
    name: str, found: FoundDesigns, prices: Mapping[str, float] | None, source: DesignSource
) -> Answer:
    table = found.table(LEVEL)
    unit = "trials" if prices is None else "cost"
    frame = table.frame.rename(columns={"cost": unit})
    told = [] if source.fit is None or name == "frontier" else [_NEW_STUDY]
    if len(found.designs) == 1:
        # One row needs no number, and no column for its pattern.
        frame = frame.rename_axis(None).drop(columns="judges", errors="ignore")
        judges = found.design.judges
        told += [] if judges == "all" else [f"Judges: {judges}."]
    formats = {**table.formats, unit: _money(found.costs)}
    printed = replace(table, frame=frame, formats=formats, notes=(*told, *table.notes))
    return Answer(name, found, printed, {}, found.designs[0] if len(found.designs) == 1 else None)


def _of_plan(plan: Plan, prices: Mapping[str, float] | None) -> Answer:
    import pandas as pd

    table = plan.table(LEVEL)
    formats = {**table.formats, "added cost": _money([plan.added_cost])}
    frame = table.frame.drop(columns="added cost") if prices is None else table.frame
    decision = pd.DataFrame(
        {
            "decision": [plan.decision],
            "sentence": [plan.sentence],
            "target": [plan.target],
            "probability": [plan.probability],
            "added_trials": [plan.added_trials],
            "added_cost": [plan.added_cost],
        }
    )
    levels = pd.DataFrame({"before": plan.before, "after": plan.after}).rename_axis("facet")
    return Answer(
        "plan",
        plan,
        replace(table, frame=frame, formats=formats),
        {"decision": Table(decision, "Decision"), "levels": Table(levels, "Levels")},
        plan.design if plan.decision == "add" else None,
    )


def _money(costs: Any) -> str:
    """How costs are written: whole ones without digits after the point."""
    known = [cost for cost in costs if not math.isnan(cost)]
    return "count" if all(abs(cost - round(cost)) < _ROUNDING for cost in known) else "number4"
