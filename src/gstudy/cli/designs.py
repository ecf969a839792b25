"""`gstudy designs`: what to run next, what designs would tell, and the list of runs."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gstudy.cli.design_questions import DesignOptions, check_together, questions_of
from gstudy.cli.exits import guarded, unconverged
from gstudy.cli.options import AllowUnconverged, Json, Quiet

if TYPE_CHECKING:
    from gstudy.cli.design_answers import Answer
    from gstudy.cli.design_questions import Questions
    from gstudy.cli.design_sources import DesignSource
    from gstudy.display import Table

__all__ = ["designs_command"]

_NARROW, _WIDE = 80, 120


@guarded
def designs_command(
    source: Annotated[
        Path | None,
        typer.Argument(metavar="RUN|STUDY", help="A saved run (.nc), or a study file (TOML)."),
    ] = None,
    study: Annotated[
        Path | None,
        typer.Option(
            "--study", metavar="FILE", help="Study file: facets of --assume; designs and prices."
        ),
    ] = None,
    design: Annotated[
        list[str] | None,
        typer.Option("--design", metavar="task=200,rollout=4", help="Compare it; may be repeated."),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option("--target", metavar="3pt", help="Half-width to reach: stop, or what to add."),
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option("--budget", metavar="500", help="Best design for it; trials without --cost."),
    ] = None,
    frontier: Annotated[
        bool, typer.Option("--frontier", help="Every design that none beats at its cost.")
    ] = False,
    cost: Annotated[
        str | None,
        typer.Option(
            "--cost", metavar="rollout=0.4,task=25", help="Price of a unit of each facet."
        ),
    ] = None,
    bounds: Annotated[
        str | None,
        typer.Option(
            "--bounds", metavar="task=10:300:10,rollout=4", help="Least, most, multiple; or fixed."
        ),
    ] = None,
    judges: Annotated[
        str | None,
        typer.Option("--judges", metavar="PATTERN", help="all, one, round robin, fresh."),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="judge=3", help="Levels of next steps; others double."),
    ] = None,
    pin: Annotated[
        str | None,
        typer.Option("--pin", metavar="FACET,...", help="Claim these levels only."),
    ] = None,
    goal: Annotated[
        str | None,
        typer.Option(
            "--goal",
            metavar="GOAL",
            help="half-width, given-half-width, difference, mdd, phi, generalizability.",
        ),
    ] = None,
    probability: Annotated[
        float | None,
        typer.Option("--probability", metavar="0.8", help="With which the target is met."),
    ] = None,
    system: Annotated[
        str | None,
        typer.Option("--system", metavar="NAME", help="One system instead of all; new: another."),
    ] = None,
    assume: Annotated[
        str | None,
        typer.Option(
            "--assume", metavar="task=.10,rollout=.14", help="Variances to take as given."
        ),
    ] = None,
    mean: Annotated[
        float | None, typer.Option("--mean", metavar="0.7", help="Expected score assumed.")
    ] = None,
    mu: Annotated[
        float | None, typer.Option("--mu", metavar="0", help="Mean logit, with --scale logit.")
    ] = None,
    scale: Annotated[
        str | None, typer.Option("--scale", metavar="score|logit", help="Of --assume.")
    ] = None,
    run_list: Annotated[
        Path | None,
        typer.Option("--run-list", metavar="FILE", help="Write the missing trials of the design."),
    ] = None,
    as_: Annotated[
        str | None, typer.Option("--as", metavar="table|inspect", help="Form of the run list.")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="TRIALS", help="Trials that exist, for the run list."),
    ] = None,
    seed: Annotated[
        int,
        typer.Option("--seed", min=0, max=2**32 - 1, help="Of prior draws and of rankings."),
    ] = 0,
    bound_merged: Annotated[
        bool,
        typer.Option(
            "--bound-merged",
            help="Two bounds of a --design that changes one of several facets that went together.",
        ),
    ] = False,
    allow_unconverged: AllowUnconverged = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Predict, price and search designs; say what to run next."""
    from gstudy.cli.design_answers import answers_of, failure_of
    from gstudy.cli.design_sources import Assumption, checked_files, source_of
    from gstudy.cli.output import hint, print_json

    given = Assumption(assume, mean, mu, scale)
    typed = DesignOptions(
        designs=design or (),
        target=target,
        budget=budget,
        frontier=frontier,
        cost=cost,
        bounds=bounds,
        judges=judges,
        pin=pin,
        goal=goal,
        probability=probability,
        run_list=run_list,
        as_=as_,
        data=data,
        to=to,
        bound_merged=bound_merged,
    )
    checked_files(source, study, given)
    check_together(typed)
    known = source_of(source, study, given)
    asked = questions_of(typed, rate=known.rate)
    known = _with_components(known, asked, seed)
    if not as_json:
        _show(known.words(), known.remark)
    answers = answers_of(known, asked, {"system": system, "seed": seed})
    failure = failure_of(answers)
    if failure and not allow_unconverged:
        raise unconverged(failure)
    tables = _tables(known, answers, failure)
    if not as_json:
        _show(*(answer.text(_width()) for answer in answers))
    if run_list is not None:
        from gstudy.cli.run_lists import written_runs

        listed, told = written_runs(known, answers, run_list, as_, data)
        tables |= {} if listed is None else {"run_list": listed}
        if not as_json:
            _show(told)
    if as_json:
        print_json(tables)
    hint(_next(known, asked, answers), quiet=quiet or as_json or run_list is not None)


def _tables(known: DesignSource, answers: list[Answer], failure: str | None) -> dict[str, Table]:
    """Everything, for programs."""
    from gstudy.cli.first_screen import stamp_table

    stamped = {"not_converged": stamp_table(failure)} if failure else {}
    assumed = known.table()
    given = {} if assumed is None else {"assumed": assumed}
    answered = {key: table for answer in answers for key, table in answer.tables().items()}
    return {**stamped, **given, **answered}


def _with_components(known: DesignSource, asked: Questions, seed: int) -> DesignSource:
    """Where nothing is known, the components that the priors leave open."""
    from dataclasses import replace

    from gstudy.cli.design_sources import prior_source

    if known.components is not None:
        return known
    designs = (asked.designs or ({} if asked.searches else known.designs)).values()
    most = {facet: most for facet, (_, most) in asked.bounds.items()}
    return replace(known, components=prior_source(known, designs, most, seed))


def _show(*texts: str) -> None:
    """Paragraphs, each with an empty line after it."""
    from gstudy.cli.output import show
    from gstudy.display import wrapped

    for text in filter(None, texts):
        lines = [text] if "\n" in text else wrapped(text, _width(), indent="  ")
        show("\n".join([*lines, ""]))


def _width() -> int:
    """As wide as the terminal is, between 80 and 120 columns."""
    columns = shutil.get_terminal_size((_NARROW, 24)).columns
    return min(max(columns, _NARROW), _WIDE)


def _next(known: DesignSource, asked: Questions, answers: list[Answer]) -> str:
    """Commands that lead on."""
    leads = [
        *([] if asked.target is not None else ["--target 3pt   stop, or what to add"]),
        *([] if asked.budget is not None else ["--budget 500   the best design for it"]),
    ]
    lines = [f"  the same with {lead}" for lead in leads if not asked.designs]
    if asked.designs:
        lines.append("  the same without --design, with --budget 500   the best design for it")
    if asked.cost is None and known.cost is None:
        lines.append("  ... and --cost rollout=0.4,task=25   prices instead of trials")
    if known.fit is not None and any(answer.design is not None for answer in answers):
        lines.append("  ... and --run-list runs.csv   the trials that are missing")
    return "\n".join(["Next:", *lines])
