"""What `gstudy designs` is asked: options that go together, read once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gstudy.cli.exits import usage_error
from gstudy.cli.facet_lists import bounds_of, levels_of, names_of, numbers_of, target_of

if TYPE_CHECKING:
    from gstudy.study.designs import Design

__all__ = ["HALF_WIDTH", "DesignOptions", "Questions", "check_together", "questions_of"]

HALF_WIDTH = "half_width"
_COEFFICIENTS = ("phi", "generalizability")
_FORMATS = ("table", "inspect")
_SURE = 0.8


@dataclass(frozen=True, slots=True)
class DesignOptions:
    """The options as they were typed."""

    designs: Sequence[str]
    target: str | None
    budget: float | None
    frontier: bool
    cost: str | None
    bounds: str | None
    judges: str | None
    pin: str | None
    goal: str | None
    probability: float | None
    run_list: Path | None
    as_: str | None
    data: Path | None
    to: str | None = None
    bound_merged: bool = False


@dataclass(frozen=True, slots=True)
class Questions:
    """The same, checked and read.

    Parameters
    ----------
    designs : mapping of str to Design
        Those of the command line, called as they were typed.
    target, budget : float or None
    cost : mapping or None
    bounds : mapping
    multiples : mapping
    judges : list of str
        Empty where no pattern was named.
    pin : list of str
    goal : str
    probability : float
    to : mapping of str to int
        Levels that next steps go to.
    bound_merged : bool
        Whether designs that part a merged component have bounds instead of an error.
    """

    designs: Mapping[str, Design]
    target: float | None
    budget: float | None
    frontier: bool
    cost: Mapping[str, float] | None
    bounds: Mapping[str, tuple[int, int | None]]
    multiples: Mapping[str, int]
    judges: list[str]
    pin: list[str]
    goal: str
    probability: float
    to: Mapping[str, int]
    bound_merged: bool = False

    @property
    def searches(self) -> bool:
        """Whether a design is looked for, not given."""
        if self.designs:
            return False
        return self.frontier or self.budget is not None or self.target is not None


def questions_of(options: DesignOptions, *, rate: bool) -> Questions:
    """The questions that the options ask.

    Parameters
    ----------
    options : DesignOptions
    rate : bool
        Whether scores are pass rates.

    Raises
    ------
    typer.Exit
        A usage error, for options that cannot be read; `check_together` comes first.
    """
    goal = (options.goal or HALF_WIDTH).replace("-", "_")
    wanted = options.target
    bounds, multiples = ({}, {}) if options.bounds is None else bounds_of(options.bounds)
    judges, pin = names_of(options.judges), names_of(options.pin)
    return Questions(
        designs=_designs(options.designs, judges, pin),
        target=None
        if wanted is None
        else target_of(wanted, rate=rate and goal not in _COEFFICIENTS),
        budget=options.budget,
        frontier=options.frontier,
        cost=None
        if options.cost is None
        else numbers_of("--cost", options.cost, "rollout=0.4,judge=0.01"),
        bounds=bounds,
        multiples=multiples,
        judges=judges,
        pin=pin,
        goal=goal,
        probability=_SURE if options.probability is None else options.probability,
        to={} if options.to is None else levels_of(options.to, "--to"),
        bound_merged=options.bound_merged,
    )


def _designs(texts: Sequence[str], judges: list[str], pin: list[str]) -> dict[str, Design]:
    from gstudy.study.designs import Design

    found: dict[str, Design] = {}
    for text in texts:
        levels = levels_of(text)
        name = ",".join(f"{facet}={n}" for facet, n in levels.items())
        if name in found:
            raise usage_error(f"--design {name} is given twice.")
        found[name] = Design(levels, pin=pin, judges=judges[0] if judges else "all", name=name)
    return found


def check_together(options: DesignOptions) -> None:
    """Whether the options go together, and each has the one that gives it a sense.

    Raises
    ------
    typer.Exit
        A usage error, when they do not.
    """
    searched = options.budget is not None or options.frontier
    either = options.target is not None or searched
    if options.budget is not None and options.target is not None:
        raise usage_error("--budget asks for the best design, --target for the cheapest: give one.")
    if options.frontier and options.target is not None:
        raise usage_error("--frontier shows every trade-off, --target picks one: give one.")
    if options.designs and searched:
        option = "--budget" if options.budget is not None else "--frontier"
        raise usage_error(f"{option} looks for a design, and --design gives one: leave one out.")
    needs = {
        "--bounds": (options.bounds, either and not options.designs, "a search: --budget, "),
        "--goal": (options.goal, either and not options.designs, "a search: --budget, "),
        "--judges": (options.judges, either or options.designs, "--design, --budget, "),
        "--pin": (options.pin, either or options.designs, "--design, --budget, "),
    }
    for option, (value, together, what) in needs.items():
        if value is not None and not together:
            raise usage_error(f"{option} belongs to {what}--target or --frontier.")
    if options.to is not None and (searched or (either and not options.designs)):
        raise usage_error("--to belongs to next steps: without --budget, --target or --frontier.")
    if options.probability is not None and (options.target is None or options.designs):
        raise usage_error("--probability belongs to --target without --design.")
    if options.bound_merged and not options.designs:
        raise usage_error("--bound-merged belongs to --design.")
    if options.designs and len(names_of(options.judges)) > 1:
        raise usage_error("--judges names several patterns: with --design give one.")
    _check_run_list(options)


def _check_run_list(options: DesignOptions) -> None:
    if options.run_list is None:
        for option, value in (("--as", options.as_), ("--data", options.data)):
            if value is not None:
                raise usage_error(f"{option} belongs to --run-list, which is not given.")
        return
    if options.as_ not in (None, *_FORMATS):
        raise usage_error(f"--as is {' or '.join(_FORMATS)}, not {options.as_!r}.")
    one = options.budget is not None or (options.target is not None and not options.designs)
    if not one and len(options.designs) != 1:
        raise usage_error(
            "--run-list takes one design: give --budget, --target or a single --design."
        )
