"""What may be asked of a list of runs: the facets, judges and numbers of levels of a design."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gstudy.errors import QuantityError, did_you_mean, explain
from gstudy.planning.grids import Grid
from gstudy.study.designs import TRIALS
from gstudy.variance.basis import structure_of_study
from gstudy.variance.patterns import JUDGE, find_judge, judge_of

if TYPE_CHECKING:
    import pandas as pd

    from gstudy.study.declaration import Study
    from gstudy.study.designs import Design

__all__ = [
    "check_facets",
    "check_judges",
    "check_levels",
    "counted_key",
    "judge_facet",
    "roles_of",
    "scoring_judge",
    "wanted_levels",
]


def roles_of(study: Study) -> dict[str, str]:
    """Role of each facet."""
    return {facet.name: facet.role for facet in study.facets}


def counted_key(study: Study) -> str | None:
    """The key of a design for the trials of a cell, where they are counted."""
    return None if study.score is not None else study.counted or TRIALS


def check_facets(study: Study, asked: Design) -> None:
    """Whether all facets of a design are there, and may have more levels or fewer.

    Raises
    ------
    QuantityError
        For an unknown facet, and one that is measured or controlled.
    """
    counted = counted_key(study)
    open_ = [f.name for f in study.labelled if f.role not in ("object", "controlled")]
    allowed = [*open_, *([counted] if counted else [])]
    for facet, n in asked.items():
        if facet in allowed or (facet == study.object and n == 1):
            continue
        role = roles_of(study).get(facet)
        why = {
            "object": f"{facet!r} is measured: each of its levels gets the design",
            "controlled": f"{facet!r} is controlled: each of its levels gets the design",
        }.get(role or "", f"the design names an unknown facet {facet!r}")
        raise QuantityError(
            explain(why, given={facet: n}, allowed=allowed, do=did_you_mean(facet, allowed))
        )
    for facet in asked.pin:
        if facet not in study.facet_names:
            raise QuantityError(
                explain(
                    f"pin names an unknown facet {facet!r}",
                    allowed=study.facet_names,
                    do=did_you_mean(facet, study.facet_names),
                )
            )


def scoring_judge(study: Study) -> str | None:
    """The facet of judges that score runs: no run is nested in it.

    What is only the one crossed facet of role error, such as an environment, is a judge where
    rollouts are there that each of its levels has; "judge" is one by its name.
    """
    judge = find_judge(roles_of(study), study.rules)
    if judge is None:
        return None
    redrawn = study.redrawn_on_rerun() - {judge}
    inside = any(judge in study.closure(facet) for facet in redrawn)
    return None if inside or not (redrawn or judge == JUDGE) else judge


def judge_facet(study: Study, asked: Design) -> str | None:
    """The facet of judges, where the pattern or the study has one."""
    if asked.judges == "all":
        return scoring_judge(study)
    if study.score is None:
        raise QuantityError(
            explain(
                "counted trials have no names, so that judges cannot be given to each",
                given=f"judges={asked.judges!r}",
                allowed="judges='all'",
                do="Record a row per trial, with its rollout and its judge.",
            )
        )
    sets = study.declared_sets().values()
    judge = judge_of(structure_of_study(study, sets), asked.judges)
    if asked.judges in ("one", "fresh") and asked.get(judge, 1) != 1:
        raise QuantityError(
            explain(
                f"judges={asked.judges!r} says how many levels of {judge!r} there are",
                given={judge: asked[judge]},
                do=f"Leave {judge!r} out, or use judges='all' or 'round robin'.",
            )
        )
    return judge


def wanted_levels(study: Study, asked: Design, judge: str | None) -> dict[str, int]:
    """Levels per parent of the facets that the design names."""
    gone = {study.object} | ({judge} if asked.judges in ("one", "fresh") else set())
    return {facet: n for facet, n in asked.items() if facet not in gone}


def check_levels(grid: Grid, asked: Design) -> None:
    """More levels than a bank has, or than a claim about pinned levels allows."""
    for facet in grid.study.facets:
        n = grid.wanted.get(facet.name, 0)
        if facet.universe is not None and n > facet.universe:
            raise QuantityError(
                explain(
                    f"{facet.name!r} has more levels than its universe",
                    given=n,
                    allowed=f"at most {facet.universe}, the declared universe of {facet.name}",
                    do="Take fewer levels, or correct the universe in the study.",
                )
            )
        if facet.name in asked.pin and facet.name in grid.used:
            there = Grid(grid.study, grid.used, grid.taken, {}).wanted_levels(facet.name)
            if n > there:
                raise QuantityError(
                    explain(
                        f"{facet.name!r} is pinned: the claim is about the levels that exist",
                        given=n,
                        allowed=f"at most {there}",
                        do="Take it out of pin, or ask for fewer levels.",
                    )
                )


def check_judges(study: Study, judge: str | None, target: pd.DataFrame) -> None:
    """Fresh judges are as many as there are units."""
    if judge is None or judge not in target:
        return
    size, n = study.facet(judge).universe, target[judge].nunique()
    if size is not None and n > size:
        raise QuantityError(
            explain(
                f"{judge!r} has more levels than its universe",
                given=n,
                allowed=f"at most {size}, the declared universe of {judge}",
                do="Take fewer units, or another pattern of judges.",
            )
        )
