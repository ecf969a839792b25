"""What is measured and on what: the object and the tasks, with the groups that tasks lie in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gstudy.study.guessing import column_words as words
from gstudy.study.guessing.guessed_facets import GuessedFacet, facet_name
from gstudy.study.guessing.label_columns import determines, per_level

if TYPE_CHECKING:
    from gstudy.study.guessing.guessed_facets import Draft
    from gstudy.study.guessing.label_columns import LabelColumn

__all__ = ["add_object", "add_tasks", "condition", "group_reason"]

SYSTEM, TASK = "system", "task"

# So many groups of tasks are fixed effects at most; more are an attribute.
_MOST_GROUPS = 12
_OWN_SDS = 8


def add_object(draft: Draft) -> None:
    """The column of what is measured, if there is one."""
    found = [name for name in words.best(draft.free, words.OBJECTS) if _usable(draft, name)]
    if not found:
        return
    several = [name for name in found if draft.columns[name].n_levels > 1]
    name = (several or found)[0]
    n = draft.columns[name].n_levels
    reason = "it is measured: each level has a score" if n > 1 else "what is measured: one so far"
    draft.add(GuessedFacet(SYSTEM, name, "object", n, reason))


def add_tasks(draft: Draft) -> None:
    """The column of the tasks, inside groups of them or inside the object if it lies there."""
    name = _task_column(draft)
    if name is None:
        return
    column = draft.columns[name]
    system = draft.column(SYSTEM)
    if system is not None and _groups_systems(system, column):
        draft.left_out[name] = "an attribute of system: each one has one value"
        draft.doubts.append(f"each system has one {name}: it groups the systems, and is no task")
        return
    parents = _groups(draft, column)
    if not parents and _own_tasks(draft, column):
        parents = (SYSTEM,)
        draft.doubts.append(
            "no task was given to two systems: their scores differ by their tasks too"
        )
    instead = [f"universe = {column.n_levels}   # the claim is about these tasks only"]
    if parents:
        instead = []
    if system is not None and 2 <= system.n_levels <= _OWN_SDS and not parents:
        instead.append('varies = "system"   # each system has its own sd of tasks')
    reason = "the claim covers other tasks like these"
    draft.add(GuessedFacet(TASK, name, "legitimate", column.n_levels, reason, parents, (*instead,)))


def _groups_systems(system: LabelColumn, task: LabelColumn) -> bool:
    return 1 < task.n_levels < system.n_levels and determines(system.codes, task)


def _usable(draft: Draft, name: str) -> bool:
    """Whether a column with a telling name can be a facet; it is told if not."""
    column = draft.columns[name]
    if column.complete and column.n_levels:
        return True
    why = column.fault() or f"no value in {column.n_missing:,} rows"
    draft.left_out[name] = why
    draft.doubts.append(f"{name} has the name of a facet, but {why}")
    return False


def _task_column(draft: Draft) -> str | None:
    free = {name: column for name, column in draft.free.items() if not column.fractional}
    names = words.best(free, words.TASKS)
    plain = [name for name in names if words.place(name, words.SURE_TASKS) is not None]
    found = [name for name in plain or names if _usable(draft, name)]
    if not found:
        return None
    name = found[0]
    for other in found[1:]:
        if _is_finer(draft.columns[other], draft.columns[name]):
            name = other
    return name


def _is_finer(fine: LabelColumn, coarse: LabelColumn) -> bool:
    """Whether one column numbers what lies inside the levels of the other."""
    if determines(coarse.codes, fine) or fine.n_levels <= coarse.n_levels:
        return False
    return determines(fine.codes, coarse) or per_level(coarse.codes, fine) >= 2


def _own_tasks(draft: Draft, task: LabelColumn) -> bool:
    system = draft.column(SYSTEM)
    if system is None or system.n_levels < 2 or task.n_levels <= system.n_levels:
        return False
    return determines(task.codes, system)


def _groups(draft: Draft, task: LabelColumn) -> tuple[str, ...]:
    """Facets that hold tasks of their own: environments, benchmarks; added to the draft."""
    coarse = [
        name
        for name in words.best(draft.free, words.SURE_TASKS)
        if name != task.name
        and not draft.columns[name].fractional
        and _is_finer(task, draft.columns[name])
    ]
    for name in [*words.best(draft.free, words.GROUPS), *coarse]:
        column = draft.columns[name]
        if not column.complete or column.n_levels < 2 or _same(draft, column):
            continue
        inside = determines(task.codes, column) and 2 * column.n_levels <= task.n_levels
        few = column.n_levels <= _MOST_GROUPS and words.place(name, ("domain",)) is None
        if (inside and few) or _renumbered(column, task):
            return (_add_group(draft, name, column, inside=inside),)
    return ()


def _add_group(draft: Draft, name: str, column: LabelColumn, *, inside: bool) -> str:
    own = "benchmark" if words.place(name, words.TASKS) else words.normal_name(name)
    facet = facet_name(own, [one.name for one in draft.facets])
    if not inside:
        draft.doubts.append(
            f"tasks have the same labels in several levels of {name}: taken as different tasks "
            f'(nested). If they are the same ones, take nested_in = ["{facet}"] out'
        )
    draft.add(condition(facet, name, column.n_levels, few=column.n_levels <= _MOST_GROUPS))
    return facet


def condition(facet: str, column: str, n: int, *, few: bool) -> GuessedFacet:
    """What trials were made under: few levels are what the claim is about, many stand for more."""
    others = f"the claim covers other levels of {facet} like these"
    if few:
        instead = (f'role = "legitimate"   # {others}',)
        return GuessedFacet(facet, column, "controlled", n, group_reason(n), (), instead)
    instead = ('role = "controlled"   # the claim is about these levels only',)
    return GuessedFacet(facet, column, "legitimate", n, others, (), instead)


def group_reason(n: int) -> str:
    """Why a facet is controlled."""
    return f"the claim is about these {n} levels, each with an effect of its own"


def _renumbered(group: LabelColumn, task: LabelColumn) -> bool:
    """Whether tasks of several groups may bear one label by counting: whole numbers from 0 or 1."""
    if determines(task.codes, group):
        return False
    if words.place(group.name, ("benchmark", "dataset", "suite", "eval")) is not None:
        return True
    if words.place(group.name, words.TASKS) is not None:
        return True
    return task.numeric and not task.fractional


def _same(draft: Draft, column: LabelColumn) -> bool:
    """Whether a facet of the draft tells the same rows apart."""
    for facet in draft.facets:
        other = draft.columns[facet.column]
        if other.n_levels == column.n_levels and determines(other.codes, column):
            return True
    return False
