"""Notes: designs that do not hang together, undeclared nesting, drift over rollout order."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from designs import checked, grid, study_of, within

import gstudy as gs


def systems_and_tasks(**rest: object) -> gs.Study:
    return study_of("task", within("run", "system", "task"), object="system", **rest)


def runs(systems: str, tasks: range, n: int = 2) -> pd.DataFrame:
    return grid({"system": list(systems), "task": tasks, "run": range(n)})


# ----------------------------------------------------------------------------- disconnection


def test_systems_that_share_no_task_are_named() -> None:
    table = pd.concat([runs("AB", range(4)), runs("CD", range(4, 9))])
    [note] = checked(systems_and_tasks(), table).notes
    assert note.startswith("2 groups of system share no task: 'A', 'B' against 'C', 'D'.")
    assert note.endswith("run some task levels with all of them.")


def test_a_chain_of_shared_tasks_connects_all() -> None:
    # A-B, B-C, C-D, ...: no two ends share a task, and all hang together.
    table = pd.concat([runs(pair, range(i, i + 2)) for i, pair in enumerate("ABCDEFGH")])
    assert checked(systems_and_tasks(), table).notes == ()


def test_many_groups_are_counted_and_two_named() -> None:
    table = pd.concat([runs(name, range(10 * i, 10 * i + 2)) for i, name in enumerate("ABCDE")])
    notes = checked(systems_and_tasks(), table).notes
    assert notes[0].startswith("5 groups of system share no task: for example 'A' against 'B'.")


def test_long_groups_are_cut() -> None:
    table = pd.concat([runs("ABCDEFG", range(2)), runs("X", range(2, 4))])
    [note] = checked(systems_and_tasks(), table).notes
    assert "'A', 'B', 'C', 4 more against 'X'" in note


# -------------------------------------------------------------------------- undeclared nesting


def casks() -> pd.DataFrame:
    """Casks with ids of their own in every batch, two samples of each."""
    table = grid({"batch": ["b1", "b2", "b3"], "cask": ["a", "b", "c"], "sample": [1, 2]})
    return table.assign(cask=table["batch"] + table["cask"])


def test_undeclared_nesting_is_noted_with_two_examples() -> None:
    study = study_of("batch", "cask", within("sample", "batch", "cask"))
    [note] = checked(study, casks()).notes
    assert note == (
        "each cask occurs under one batch only ('b1a' under 'b1', 'b2a' under 'b2'), but they "
        "are declared crossed. If cask levels belong to batch levels, declare it: "
        '[facets.cask] nested_in = ["batch"].'
    )


def test_declared_nesting_and_true_crossing_are_no_news() -> None:
    declared = study_of("batch", within("cask", "batch"), within("sample", "cask"))
    assert checked(declared, casks()).notes == ()
    crossed = grid({"batch": range(3), "cask": range(3), "sample": range(2)})
    study = study_of("batch", "cask", within("sample", "batch", "cask"))
    assert checked(study, crossed).notes == ()


def test_a_missing_parent_of_a_nested_facet_is_noted_with_the_ones_it_has() -> None:
    table = grid({"place": "xyz", "task": range(4), "run": range(2), "judge": "pq"})
    table["run"] = table["place"] + table["run"].astype(str)
    study = study_of("place", "task", within("run", "task"), "judge")
    [note] = checked(study, table).notes
    assert "each run occurs under one place only ('0:x0' under 'x', '0:y0' under 'y')" in note
    assert note.endswith('[facets.run] nested_in = ["task", "place"].')


def test_single_trials_lie_in_one_level_of_everything_and_nobody_is_told() -> None:
    table = grid({"task": range(6), "run": range(3)})
    table["judge"] = (table["task"] + table["run"]) % 3
    study = study_of("task", within("run", "task"), "judge")
    assert checked(study, table).notes == ()


# -------------------------------------------------------------------------- runs declared crossed


@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize("ragged", [False, True])
def test_numbered_runs_declared_crossed_are_noted(start: int, ragged: bool) -> None:
    table = grid({"system": "AB", "task": range(12), "rollout": range(start, start + 4)})
    if ragged:
        table = table[table["rollout"] - start < 2 + table["task"] % 3]
    [note] = checked(study_of("task", "rollout", object="system"), table).notes
    assert note == (
        f"rollout is declared crossed: its level '{start}' is the same in every system and task. "
        "If rollout only numbers the runs within each of them, declare it: [facets.rollout] "
        'nested_in = ["system", "task"].'
    )


def test_other_numbered_or_named_facets_are_no_runs() -> None:
    tasks = grid({"system": "AB", "task": range(12), "snapshot": ["may", "june"]})
    assert checked(study_of("task", "snapshot", object="system"), tasks).notes == ()
    once = tasks.drop_duplicates(["system", "task"])
    assert checked(study_of("task", object="system"), once).notes == ()
    seeds = grid({"task": range(12), "seed": [7, 21, 42]})
    assert checked(study_of("task", "seed"), seeds).notes == ()
    judged = grid({"task": range(12), "judge": range(2)})
    judge = gs.Facet("judge", role="error")
    assert checked(study_of("task", judge), judged).notes == ()
    numbered = grid({"task": range(12), "seed": range(3)})
    assert checked(study_of("task", "seed", rollout="seed"), numbered).notes == ()
    gaps = numbered[(numbered["task"] + numbered["seed"]) % 3 > 0]
    assert checked(study_of("task", "seed"), gaps).notes == ()


# --------------------------------------------------------------------------------------- drift


def drifting(n_tasks: int, n_runs: int, slope: float, seed: int = 1) -> pd.DataFrame:
    table = grid({"task": range(n_tasks), "run": range(1, n_runs + 1)})
    rng = np.random.default_rng(seed)
    logit = rng.normal(0, 1.5, n_tasks)[table["task"]] + slope * (table["run"] / n_runs - 0.5)
    return table.assign(score=(rng.random(len(table)) < 1 / (1 + np.exp(-logit))).astype(int))


def test_drift_over_rollout_order_is_named() -> None:
    [note] = checked(study_of("task", within("run", "task")), drifting(60, 10, -2.0)).notes
    assert note.startswith("the pass rate drifts over run order: 58.9% in the first third, 37.2%")
    assert "in the last (z = -" in note
    assert "declare what changed as a facet" in note


def test_the_order_is_that_of_numbers_not_of_texts() -> None:
    # As texts 10, 11, 12 stand between 1 and 2: with a cliff at run 10 the order tells.
    table = grid({"task": range(50), "run": range(1, 13)})
    table["score"] = ((table["run"] >= 10) ^ (table["task"] % 7 == 0)).astype(int)
    [note] = checked(study_of("task", within("run", "task")), table).notes
    assert "z = +" in note


@pytest.mark.parametrize("seed", range(5))
def test_no_drift_is_no_note(seed: int) -> None:
    study = study_of("task", within("run", "task"))
    assert checked(study, drifting(60, 10, 0.0, seed)).notes == ()


def test_easy_tasks_with_more_rollouts_are_no_drift() -> None:
    # Across tasks late rollouts are easy ones; within each task nothing moves.
    rng = np.random.default_rng(5)
    easy = grid({"task": range(30), "run": range(1, 21)}).assign(score=1)
    hard = grid({"task": range(30, 60), "run": range(1, 6)}).assign(score=0)
    table = pd.concat([easy, hard])
    noise = rng.random(len(table)) < 0.1
    table["score"] = table["score"] ^ noise
    assert checked(study_of("task", within("run", "task")), table).notes == ()


def test_labels_that_are_no_order_are_not_tested() -> None:
    table = drifting(60, 10, -3.0)
    study = study_of("task", within("run", "task"))
    assert checked(study, table.assign(run="r" + table["run"].astype(str))).notes == ()
    identifiers = table.assign(run=range(len(table)))
    assert checked(study, identifiers).notes == ()


def test_several_judges_of_one_rollout_count_as_one() -> None:
    # The same scores from six judges are no more evidence than from one.
    table = drifting(10, 6, -1.2, seed=4)
    study = study_of("task", within("run", "task"), gs.Facet("judge", role="error"))
    six = pd.concat([table.assign(judge=judge) for judge in "abcdef"])
    assert checked(study, table.assign(judge="a")).notes == ()
    assert checked(study, six).notes == ()
