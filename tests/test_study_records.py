"""Usable trials as codes: natural order, aggregation, and what must not change them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from designs import grid, study_of, within

import gstudy as gs
from gstudy.errors import DataError
from gstudy.study.records import Records, encode, natural_order, parents_first


def encoded(study: gs.Study, table: pd.DataFrame) -> Records:
    return encode(gs.read_trials(table, study), study)


def test_natural_order_counts_digits_by_value() -> None:
    assert natural_order(["10", "9", "1"]) == ["1", "9", "10"]
    assert natural_order(["v1.10", "v1.9", "v1"]) == ["v1", "v1.9", "v1.10"]


def test_natural_order_is_total_and_bears_odd_labels() -> None:
    labels = ["1", "01", "001", "", "a", "a1", "1a", "²", "٣", "9" * 5000, "-1", "ü"]
    ordered = natural_order(labels)
    assert sorted(ordered) == sorted(labels)
    assert natural_order(reversed(labels)) == ordered
    assert ordered.index("1") < ordered.index("9" * 5000)


def test_codes_point_at_labels_in_natural_order() -> None:
    study = study_of("task", within("run", "task"))
    table = grid({"task": ["t10", "t2"], "run": [1, 2]})
    records = encoded(study, table)
    assert records.labels == {"task": ("t2", "t10"), "run": ("1", "2")}
    assert records.codes.tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert records.codes.dtype == np.int32
    assert records.successes.tolist() == table["score"].tolist()[2:] + table["score"].tolist()[:2]
    assert records.trials.tolist() == [1, 1, 1, 1]


def test_integers_and_their_texts_are_the_same_labels() -> None:
    # A label is found by its value as text, so that 10 never sorts before 2.
    study = study_of("state")
    numbers = grid({"state": range(1, 51)})
    texts = numbers.assign(state=numbers["state"].astype(str))
    first, second = encoded(study, numbers), encoded(study, texts)
    assert first.labels == second.labels
    assert first.labels["state"][1:11] == tuple(str(i) for i in range(2, 12))
    assert np.array_equal(first.successes, second.successes)


def test_counts_keep_their_trials_and_the_counted_facet_has_no_column() -> None:
    study = gs.Study(
        successes="k",
        trials="n",
        facets=[
            gs.Facet("task", role="legitimate"),
            gs.Facet("run", role="legitimate", column="n", nested_in=["task"]),
        ],
    )
    records = encoded(study, pd.DataFrame({"task": ["b", "a"], "k": [1, 3], "n": [4, 3]}))
    assert records.facets == ("task",)
    assert records.successes.tolist() == [3, 1]
    assert records.trials.tolist() == [3, 4]
    assert records.n_trials == 7


def test_unused_categories_are_no_levels() -> None:
    study = study_of("task")
    task = pd.Categorical(["a", "b"], categories=["a", "b", "c"])
    records = encoded(study, pd.DataFrame({"task": task, "score": [0, 1]}))
    assert records.labels["task"] == ("a", "b")


def test_levels_without_a_usable_trial_are_no_levels() -> None:
    study = study_of("task", on_missing_score="drop")
    table = pd.DataFrame({"task": ["a", "b", "c"], "score": [0, 1, None]})
    assert encoded(study, table).labels["task"] == ("a", "b")


def test_counts_of_nothing_are_no_trials_and_give_no_level() -> None:
    study = gs.Study(
        successes="k",
        trials="n",
        facets=[gs.Facet("task", role="legitimate")],
        on_failed_run="incorrect",
        on_missing_score="drop",
    )
    table = pd.DataFrame({"task": ["a", "b"], "k": [0, 1], "n": [0, 2]})
    assert encoded(study, table).labels["task"] == ("b",)
    failed = table.assign(outcome=["failed", "scored"])
    with pytest.raises(DataError, match=r"row 1 .* its number of trials is missing"):
        encoded(study, failed)


def test_rows_and_columns_in_any_order_give_the_same_records() -> None:
    study = study_of("task", within("run", "task"), gs.Facet("judge", role="error"))
    table = grid({"task": ["x", "y", "z"], "run": [1, 2], "judge": ["p", "q"]})
    shuffled = table.sample(frac=1, random_state=3)[["score", "judge", "task", "run"]]
    first, second = encoded(study, table), encoded(study, shuffled)
    assert first.labels == second.labels
    for name in ("codes", "successes", "trials"):
        assert np.array_equal(getattr(first, name), getattr(second, name))


def test_parents_come_first_and_else_nothing_moves() -> None:
    study = study_of(within("run", "system", "task"), "task", "judge", "system")
    assert parents_first(study.facet_names, study) == ["task", "judge", "system", "run"]
    declared = study_of("system", "task", within("run", "system", "task"), "judge")
    assert parents_first(declared.facet_names, declared) == list(declared.facet_names)
