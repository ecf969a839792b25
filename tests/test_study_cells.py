"""Cells: collapsed trials, levels of components, labels, and the digest of the trials."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from designs import checked, grid, study_of, within

import gstudy as gs
from gstudy.study.cells import Cells, joined_labels

ARRAYS = ("codes", "successes", "trials")


def nested_table() -> pd.DataFrame:
    """Three batches of casks a, b, c, two samples of each, two judges."""
    table = grid({"batch": [2, 10, 7], "cask": ["a", "b", "c"], "sample": [1, 2], "judge": "pq"})
    return table.sample(frac=1, random_state=2)


def nested_study(**rest: object) -> gs.Study:
    return study_of(
        "batch",
        within("cask", "batch"),
        within("sample", "cask"),
        gs.Facet("judge", role="error"),
        **rest,
    )


def assert_same_model(first: Cells, second: Cells) -> None:
    """All that the model is made of; labels and codes of labels aside."""
    assert [c.n_levels for c in first.components] == [c.n_levels for c in second.components]
    assert [c.prior for c in first.components] == [c.prior for c in second.components]
    for one, other in zip(first.index, second.index, strict=True):
        assert np.array_equal(one, other)
    for name in ("successes", "trials"):
        assert np.array_equal(getattr(first, name), getattr(second, name))


def test_cells_agree_with_a_group_by() -> None:
    table = nested_table()
    cells = checked(
        study_of("batch", within("cask", "batch"), "sample", "judge", interactions="none"), table
    ).cells
    sums = table.groupby(["batch", "cask", "sample", "judge"])["score"].agg(["sum", "size"])
    assert cells.facets == ("batch", "cask", "sample", "judge")
    assert cells.successes.tolist() == sums["sum"].tolist()
    assert cells.trials.tolist() == sums["size"].tolist()


def test_facets_in_no_component_are_collapsed() -> None:
    table = grid({"system": "AB", "task": range(4), "run": range(5)})
    study = study_of("task", within("run", "system", "task"), object="system")
    cells = checked(study, table).cells
    assert cells.facets == ("system", "task")
    assert cells.trials.tolist() == [5] * 8
    assert cells.successes.sum() == table["score"].sum()


def test_fifty_thousand_rows_become_ten_thousand_cells() -> None:
    study = study_of("task", within("run", "system", "task"), object="system")
    sizes = {"system": 5, "task": 2000, "run": 5}
    table = gs.simulate(study, sizes, sd={"task": 1.0}, seed=4)
    cells = checked(study, table).cells
    assert len(table) == 50_000
    assert len(cells.trials) == 10_000
    assert set(cells.trials.tolist()) == {5}


def test_levels_of_components_point_back_at_the_cells() -> None:
    cells = checked(nested_study(), nested_table()).cells
    for component, index, levels in zip(cells.components, cells.index, cells.levels, strict=True):
        columns = [i for i, facet in enumerate(cells.facets) if facet in component.facets]
        assert levels.shape == (component.n_levels, len(columns))
        assert np.array_equal(cells.codes[:, columns], levels[index])
        assert sorted(set(index.tolist())) == list(range(component.n_levels))
        assert index.dtype == levels.dtype == np.int32


def test_levels_of_a_component_follow_the_labels_of_parents_first() -> None:
    cells = checked(nested_study(), nested_table()).cells
    names = [component.name for component in cells.components]
    assert cells.level_labels(names.index("batch")) == ["2", "7", "10"]
    labels = cells.level_labels(names.index("batch:cask"))
    assert labels[:4] == ["2:a", "2:b", "2:c", "7:a"]


def test_labels_with_colons_and_backslashes_stay_apart() -> None:
    codes = np.array([[0, 0], [1, 1]], dtype=np.int32)
    assert joined_labels([["a:b", "a"], ["c", "b:c"]], codes) == ["a\\:b:c", "a:b\\:c"]
    assert joined_labels([["a\\", "a"], [":c", "c"]], codes) == ["a\\\\:\\:c", "a:c"]
    assert joined_labels([["a:b", "a\\"]], codes[:, :1]) == ["a:b", "a\\"]


def test_rows_and_columns_in_any_order_give_the_same_cells() -> None:
    table = nested_table()
    first = checked(nested_study(), table).cells
    moved = table.sample(frac=1, random_state=9)[["score", "judge", "sample", "cask", "batch"]]
    second = checked(nested_study(), moved.reset_index(drop=True)).cells
    assert first.digest() == second.digest()
    assert first.labels == second.labels
    for name in ARRAYS:
        assert np.array_equal(getattr(first, name), getattr(second, name))
    assert_same_model(first, second)


def test_renaming_facets_and_columns_changes_no_number() -> None:
    table = nested_table()
    first = checked(nested_study(), table)
    # Names that sort otherwise, are parts of each other, and look like a pattern.
    study = study_of(
        "z",
        within("a+", "z"),
        within("a", "a+"),
        gs.Facet("(mu)", role="error", column="judge"),
    )
    renamed = table.rename(columns={"batch": "z", "cask": "a+", "sample": "a"})
    second = checked(study, renamed)
    assert [c.name for c in second.components][:3] == ["z", "(mu)", "z:a+"]
    assert first.cells.digest() == second.cells.digest()
    assert_same_model(first.cells, second.cells)
    for name in ARRAYS:
        assert np.array_equal(getattr(first.cells, name), getattr(second.cells, name))
    assert [row.verdict for row in first.rows] == [row.verdict for row in second.rows]


def test_child_labels_used_again_and_unique_ones_give_the_same_model() -> None:
    table = nested_table()
    unique = table.assign(
        cask=[f"{batch}/{cask}" for batch, cask in zip(table["batch"], table["cask"], strict=True)]
    )
    unique["sample"] = unique["cask"] + "/" + unique["sample"].astype(str)
    # Also where a child is declared before its parents.
    upside_down = study_of(
        gs.Facet("judge", role="error"), within("sample", "cask"), within("cask", "batch"), "batch"
    )
    for study in (nested_study(), upside_down):
        first, second = checked(study, table), checked(study, unique)
        assert_same_model(first.cells, second.cells)
        assert first.components == second.components
        assert first.rows == second.rows
        assert (
            first.facet_levels
            == second.facet_levels
            == {"batch": 3, "cask": 3, "sample": 2, "judge": 2}
        )


def test_unused_categories_give_the_same_cells() -> None:
    table = grid({"task": ["a", "b"], "run": [1, 2, 3]})
    study = study_of("task", within("run", "task"))
    first = checked(study, table).cells
    table["task"] = pd.Categorical(table["task"], categories=["c", "b", "a"], ordered=True)
    second = checked(study, table).cells
    assert first.digest() == second.digest()
    assert second.components[0].n_levels == 2


@pytest.mark.parametrize("change", ["label", "score", "trials"])
def test_the_digest_knows_labels_and_numbers(change: str) -> None:
    table = grid({"task": ["a", "b", "c"], "run": [1, 2]})
    study = study_of("task", within("run", "task"))
    cells = checked(study, table).cells
    if change == "label":
        other = checked(study, table.replace({"task": {"c": "d"}})).cells
    elif change == "score":
        flipped = table.assign(score=[1 - table["score"][0], *table["score"][1:]])
        other = checked(study, flipped).cells
    else:
        other = replace(cells, trials=cells.trials + 1)
    assert len(cells.digest()) == len(hashlib.sha256().hexdigest())
    assert cells.digest() != other.digest()


def test_labels_run_together_do_not_share_a_digest() -> None:
    study = study_of("task")
    first = checked(study, pd.DataFrame({"task": ["ab", "c"], "score": [0, 1]})).cells
    second = checked(study, pd.DataFrame({"task": ["a", "bc"], "score": [0, 1]})).cells
    # Without a component there is no facet either: the labels say nothing.
    assert first.digest() == second.digest()
    kept = study_of("task", keep=["task"])
    first = checked(kept, pd.DataFrame({"task": ["ab", "c"], "score": [0, 1]})).cells
    second = checked(kept, pd.DataFrame({"task": ["a", "bc"], "score": [0, 1]})).cells
    assert first.digest() != second.digest()


def test_without_components_and_object_there_is_one_cell() -> None:
    cells = checked(
        study_of("task"), pd.DataFrame({"task": list("abcd"), "score": [0, 1, 1, 1]})
    ).cells
    assert cells.codes.shape == (1, 0)
    assert cells.trials.tolist() == [4]
    assert cells.successes.tolist() == [3]
    assert cells.components == ()
