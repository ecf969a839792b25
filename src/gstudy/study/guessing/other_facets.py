"""Conditions, rollouts and judges, and what tells repeated rows apart."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

from gstudy.errors import DataError, explain
from gstudy.study.guessing import column_words as words
from gstudy.study.guessing.guessed_facets import GuessedFacet, facet_name
from gstudy.study.guessing.label_columns import determines, n_levels, per_level
from gstudy.study.guessing.main_facets import SYSTEM, TASK, condition, group_reason

if TYPE_CHECKING:
    from gstudy.study.guessing.guessed_facets import Draft
    from gstudy.study.guessing.label_columns import LabelColumn

__all__ = ["add_conditions", "add_judges", "add_pinned", "add_rollouts", "tell_rows_apart"]

ROLLOUT, JUDGE = "rollout", "judge"

_CONDITIONS = (*words.OBJECTS, *words.NAMED, *words.EXCHANGEABLE, *words.SAME_RESPONSE)
# Numbers of runs by their names, whatever they tell apart.
_CERTAIN = words.ROLLOUTS[: words.ROLLOUTS.index("run")]
_MOST_CONDITIONS = 50
# From so many levels on a variance of them can be estimated.
_ENOUGH = 5
_LISTED = 20
_TRIED = 8


def add_conditions(draft: Draft) -> None:
    """What trials were made under, where it differs within a system's trials of one task."""
    known = (*words.NAMED, *words.EXCHANGEABLE, *words.SAME_RESPONSE)
    for name in words.best(draft.free, known):
        column = draft.columns[name]
        if not column.complete or not 2 <= column.n_levels <= _MOST_CONDITIONS:
            continue
        # What lies inside a task, a system or both is told apart by them.
        if not determines(draft.codes(), column) and not _is_numbering(column):
            draft.add(_condition(draft, name, column))


def _condition(draft: Draft, name: str, column: LabelColumn) -> GuessedFacet:
    facet = facet_name(words.normal_name(name) or name, [one.name for one in draft.facets])
    n = column.n_levels
    if words.place(name, words.SAME_RESPONSE) is not None:
        one = {name: str(column.values[column.codes[0]])}
        draft.doubts.append(
            f"{name} scores the same responses {n} times, which is no replication: the intervals "
            "are too narrow. The score is the mean over them; to have the trials of one of them, "
            f'in Python: gs.read_logs(path, keep={one}).to_csv("one.csv", index=False)'
        )
        return GuessedFacet(facet, name, "controlled", n, group_reason(n))
    named = words.place(name, words.NAMED) is not None
    return condition(facet, name, n, few=named and n < _ENOUGH)


def _is_numbering(column: LabelColumn) -> bool:
    return column.numeric and column.fractional


def add_rollouts(draft: Draft, counted: str | None) -> None:
    """The repeated runs of a task: drawn anew for every combination of what they serve."""
    parents = rollout_parents(draft)
    if counted is not None:
        if parents:
            reason = "counted: how many, not which; a re-run draws new ones"
            draft.add(GuessedFacet(ROLLOUT, counted, "legitimate", 0, reason, parents))
        return
    names = [name for name in words.best(draft.free, words.ROLLOUTS) if _can_tell(draft, name)]
    if not names or not parents:
        return
    # What tells no rows apart is a number of runs as well, by its name: each task has one.
    telling = [name for name in names if not determines(draft.codes(), draft.columns[name])]
    certain = [name for name in names if words.place(name, _CERTAIN) is not None]
    if not telling and not certain:
        return
    name = (telling or certain)[0]
    column = draft.columns[name]
    same = [f.name for f in draft.facets if f.n_levels > 1 and _is_one(draft, f, column)]
    if same and column.n_levels > 1:
        draft.doubts.append(
            f"{name} tells the same rows apart as {same[0]}: if {same[0]} only numbers the runs, "
            f"take [facets.{same[0]}] out"
        )
    draft.add(_rollout(draft, name))


def _is_one(draft: Draft, facet: GuessedFacet, column: LabelColumn) -> bool:
    """Whether a facet's column and another one split the rows alike."""
    own = draft.columns[facet.column]
    return own.n_levels == column.n_levels and determines(own.codes, column)


def _rollout(draft: Draft, name: str) -> GuessedFacet:
    n = draft.columns[name].n_levels
    reason = "a re-run draws new ones"
    return GuessedFacet(ROLLOUT, name, "legitimate", n, reason, rollout_parents(draft))


def rollout_parents(draft: Draft) -> tuple[str, ...]:
    """What rollouts are drawn for: all but judges, and what scores one response several times."""
    served = [facet for facet in draft.facets if facet.name != ROLLOUT and facet.role != "error"]
    above = {parent for facet in served for parent in facet.nested_in}
    return tuple(
        facet.name
        for facet in served
        if facet.name not in above
        and words.place(facet.column, words.SAME_RESPONSE) is None
        and (facet.n_levels > 1 or facet.name in (SYSTEM, TASK))
    )


def add_judges(draft: Draft) -> None:
    """Who or what scored: measurement error, if several scored what one could have."""
    for name in words.best(draft.free, words.JUDGES):
        column = draft.columns[name]
        if column.n_levels < 2:
            continue
        if not column.complete:
            draft.left_out[name] = column.fault() or f"no value in {column.n_missing:,} rows"
            draft.doubts.append(f"{name} is no facet: {draft.left_out[name]}")
            continue
        groups = [facet.name for facet in draft.facets if facet.n_levels > 1]
        inside = next((one for one in groups if determines(draft.codes([one]), column)), None)
        if inside is not None:
            draft.left_out[name] = f"each level of {inside} has one"
            draft.doubts.append(
                f"each level of {inside} was scored by one {name}: how much {name} matters "
                "cannot be told"
            )
            continue
        draft.add(_judge(draft, name, column))
        return


def _judge(draft: Draft, name: str, column: LabelColumn) -> GuessedFacet:
    facet = facet_name(JUDGE, [one.name for one in draft.facets])
    inside = tuple(
        parent.name
        for parent in draft.facets
        if parent.name != ROLLOUT
        and 1 < parent.n_levels < column.n_levels
        and determines(column.codes, draft.columns[parent.column])
    )
    reason = "another one could have scored: how strict it is, is measurement error"
    if not inside and draft.named(ROLLOUT) is not None:
        reason += "; the same ones score every rollout"
    return GuessedFacet(facet, name, "error", column.n_levels, reason, _lowest(draft, inside))


def _lowest(draft: Draft, names: tuple[str, ...]) -> tuple[str, ...]:
    """Without what others of them are nested in."""
    above = {parent for one in draft.facets if one.name in names for parent in one.nested_in}
    return tuple(name for name in names if name not in above)


def add_pinned(draft: Draft) -> None:
    """Environments, benchmarks and judges of which there is one: recorded, the claim is of it."""
    for words_of in (words.GROUPS, words.JUDGES):
        for name in words.best(draft.free, words_of):
            column = draft.columns[name]
            if column.complete and column.n_levels == 1:
                facet = facet_name(
                    words.normal_name(name) or name, [one.name for one in draft.facets]
                )
                reason = "one level: the claim is about it and says nothing of others"
                draft.add(GuessedFacet(facet, name, "controlled", 1, reason))


def tell_rows_apart(draft: Draft, name: str) -> None:
    """See that no two rows are one trial, by further columns if need be.

    Raises
    ------
    DataError
        When no column tells them apart.
    """
    if n_levels(draft.codes()) == draft.n_rows and _has_main(draft):
        return
    candidates = [one for one in _telling(draft) if _can_tell(draft, one)]
    for number in (1, 2):
        for chosen in combinations(candidates[: _LISTED if number == 1 else _TRIED], number):
            if _tells(draft, chosen):
                for one in chosen:
                    _add_telling(draft, one)
                return
    if _has_main(draft):
        raise DataError(_refusal(draft, name))


def _has_main(draft: Draft) -> bool:
    """Whether something besides the object and conditions varies."""
    return any(facet.name == TASK or facet.role == "error" for facet in draft.facets)


def _tells(draft: Draft, chosen: tuple[str, ...]) -> bool:
    codes = draft.codes()
    for one in chosen:
        column = draft.columns[one]
        codes = codes * (column.n_levels + 1) + column.codes
        if len(chosen) > 1:
            import pandas as pd

            codes = pd.factorize(codes)[0].astype("int64")
    return n_levels(codes) == draft.n_rows


def _telling(draft: Draft) -> list[str]:
    """Columns in the order in which they are likely to tell trials apart."""
    free = draft.free
    lists = (
        words.ROLLOUTS,
        (*words.OBJECTS, *words.JUDGES),
        (*words.NAMED, *words.EXCHANGEABLE, *words.SAME_RESPONSE),
        ("file", "log"),
    )
    ordered = dict.fromkeys(name for words_of in lists for name in words.best(free, words_of))
    rest = sorted((name for name in free if name not in ordered), key=lambda n: free[n].n_levels)
    return [*ordered, *rest]


def _can_tell(draft: Draft, name: str) -> bool:
    column = draft.columns[name]
    known = words.place(name, (*words.ROLLOUTS, *words.NAMED)) is not None
    measure = not known and words.holds_word(name, words.MEASURES)
    return (
        column.complete
        and not measure
        and not column.fractional
        and not column.long
        and not column.dates
    )


def _add_telling(draft: Draft, name: str) -> None:
    """A facet of a column that tells rows apart which all others leave alike."""
    if draft.named(TASK) is None and words.place(name, words.ROLLOUTS) is None:
        n = draft.columns[name].n_levels
        draft.doubts.append(f"no column has the name of a task: {name} is taken for it")
        reason = "the claim covers other tasks like these"
        parents = (SYSTEM,) if _in_system(draft, name) else ()
        rollout = draft.named(ROLLOUT)
        # Before the rollouts, which then lie in the tasks.
        draft.add(GuessedFacet(TASK, name, "legitimate", n, reason, parents), before=ROLLOUT)
        if rollout is not None:
            draft.replace(replace(rollout, nested_in=rollout_parents(draft)))
    elif words.place(name, words.JUDGES) is not None:
        draft.add(_judge(draft, name, draft.columns[name]))
    elif draft.named(ROLLOUT) is None and words.place(name, _CONDITIONS) is None:
        draft.doubts.append(
            f"several rows have the same {_listed(draft)}: {name} tells them apart, and is taken "
            f"for repeated runs{_or_object(draft)}"
        )
        draft.add(_rollout(draft, name))
    else:
        _add_condition_of_runs(draft, name)


def _in_system(draft: Draft, name: str) -> bool:
    system = draft.column(SYSTEM)
    own = draft.columns[name]
    return (
        system is not None
        and 1 < system.n_levels < own.n_levels
        and determines(own.codes, system)
        and per_level(system.codes, own) >= 2
    )


def _add_condition_of_runs(draft: Draft, name: str) -> None:
    """What several runs of the same trials differ in, inside the facets of which each has one."""
    taken = [one.name for one in draft.facets]
    is_file = name == "file" and "run" not in taken
    facet = "run" if is_file else facet_name(name, taken)
    column = draft.columns[name]
    draft.doubts.append(
        f"several rows have the same {_listed(draft)}: {name} tells them apart, and is taken for "
        f"{'different runs' if is_file else 'a facet'}{_or_object(draft)}"
    )
    inside = tuple(
        one.name
        for one in draft.facets
        if one.n_levels > 1 and determines(column.codes, draft.columns[one.column])
    )
    found = condition(facet, name, column.n_levels, few=False)
    # Runs within runs are drawn for the same trials.
    runs = not is_file and words.place(name, words.ROLLOUTS) is not None
    parents = rollout_parents(draft) if runs else _lowest(draft, inside)
    draft.add(replace(found, nested_in=parents), before=ROLLOUT)
    rollout = draft.named(ROLLOUT)
    if rollout is not None:
        draft.replace(replace(rollout, nested_in=rollout_parents(draft)))


def _or_object(draft: Draft) -> str:
    """What else it could be, where nothing is measured yet."""
    if draft.named(SYSTEM) is not None:
        return ""
    return '; if it is what is measured, give it role = "object"'


def _listed(draft: Draft) -> str:
    return ", ".join(facet.name for facet in draft.facets if facet.n_levels > 1)


def _refusal(draft: Draft, name: str) -> str:
    key = [facet.column for facet in draft.facets if facet.n_levels > 0]
    repeats = draft.n_rows - n_levels(draft.codes())
    own = "repeat" if draft.named(ROLLOUT) is not None else "rollout"
    return explain(
        f"{name}: {repeats:,} of {draft.n_rows:,} rows repeat an earlier one on "
        f"{', '.join(key)}, and no further column tells them apart",
        given=list(draft.columns)[:_LISTED],
        allowed="one row per trial",
        do="If a retry or a second export left them behind, drop them. If they are repeated runs, "
        f"number them, such as in pandas df[{own!r}] = df.groupby({key!r}).cumcount().",
    )
