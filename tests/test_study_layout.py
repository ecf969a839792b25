"""The design as found: crossed, nested, filled cells, balance."""

from __future__ import annotations

import pytest
from designs import checked, grid, study_of, within

from gstudy.study.checking.layout import CROSSED, NESTED, PARTLY_CROSSED, UNDECLARED, Pairing


def pairing(found, facet: str, other: str) -> Pairing:
    [hit] = [p for p in found.layout.pairings if p.facet == facet and p.others[0] == other]
    return hit


def test_a_full_crossing() -> None:
    found = checked(study_of("task", "judge"), grid({"task": range(4), "judge": range(3)}))
    assert found.layout.pairings == (Pairing("task", ("judge",), CROSSED, 12, 12, 1, 1, 1),)
    assert found.layout.balanced


def test_an_empty_cell() -> None:
    table = grid({"task": range(4), "judge": range(3)})[1:]
    found = checked(study_of("task", "judge"), table)
    assert pairing(found, "task", "judge").how == PARTLY_CROSSED
    assert pairing(found, "task", "judge").filled == 11
    assert not found.layout.balanced


def test_a_nested_facet_and_its_parents() -> None:
    table = grid({"system": range(2), "task": range(3), "run": range(4)})[:-2]
    study = study_of("system", "task", within("run", "system", "task"))
    hit = pairing(checked(study, table), "run", "system")
    assert hit == Pairing("run", ("system", "task"), NESTED, 22, 6, 2, 4, 4)


def test_facets_nested_in_the_same_parent_meet_within_it() -> None:
    table = grid({"unit": range(3), "item": range(2), "rater": range(2)})
    study = study_of("unit", within("item", "unit"), within("rater", "unit"))
    found = checked(study, table)
    hit = pairing(found, "item", "rater")
    assert (hit.how, hit.filled, hit.possible) == (CROSSED, 12, 12)
    assert found.layout.balanced


def test_undeclared_nesting_is_told_from_a_sparse_crossing() -> None:
    table = grid({"batch": range(3), "cask": range(4), "sample": range(2)})
    table["cask"] += 10 * table["batch"]
    study = study_of("batch", "cask", within("sample", "cask"))
    found = checked(study, table)
    hit = pairing(found, "batch", "cask")
    assert (hit.how, hit.filled, hit.possible) == (UNDECLARED, 12, 36)
    # What holds of casks holds of the samples in them, and is not told again.
    assert {p.facet for p in found.layout.pairings} == {"batch", "sample"}


@pytest.mark.parametrize("rows", [slice(None), slice(None, -1)])
def test_balance_needs_equal_numbers_everywhere(rows: slice) -> None:
    table = grid({"task": range(3), "run": range(3), "judge": range(2)})
    found = checked(study_of("task", within("run", "task"), "judge"), table[rows])
    assert found.layout.balanced == (rows == slice(None))


def test_one_level_facets_are_in_no_pair() -> None:
    table = grid({"task": range(3), "judge": ["gpt"], "run": range(2)})
    found = checked(study_of("task", "judge", within("run", "task")), table)
    assert [p.facet for p in found.layout.pairings] == ["run"]
    assert found.facet_levels == {"task": 3, "judge": 1, "run": 2}
