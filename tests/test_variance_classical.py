"""The one-way ANOVA ICC: point values, and reasons where there is none."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from designs import study_of, within

import gstudy as gs
from gstudy.errors import QuantityError
from gstudy.variance.classical import one_way


def airline(oracle: Any) -> dict[str, Any]:
    found = {row["id"]: row for row in oracle("references")["references"]}
    return dict(found["tau_bench_airline_gpt4o"])


def rows_of(passes: list[int], n: int) -> pd.DataFrame:
    """One 0/1 row per trial."""
    return pd.DataFrame(
        [
            {"task": str(i), "rollout": j, "score": int(j < k)}
            for i, k in enumerate(passes)
            for j in range(n)
        ]
    )


def test_the_airline_icc_from_counts_and_from_rows(oracle: Any) -> None:
    given = airline(oracle)
    passes, n = given["input"]["passes_out_of_4_by_task"], given["input"]["n"]
    counts = pd.DataFrame(
        {"task": np.arange(len(passes)).astype(str), "successes": passes, "trials": n}
    )
    for table in (counts, rows_of(passes, n)):
        found = gs.anova_icc(table, "task")
        assert found.value == pytest.approx(given["expected"]["anova_ICC(1)"], abs=1e-11)
        row = found.frame.loc["all"]
        assert row["ms_between"] == pytest.approx(given["expected"]["MSB"], abs=1e-9)
        assert row["ms_within"] == pytest.approx(given["expected"]["MSW"], abs=1e-9)
        assert (row["n_levels"], row["n_trials"], row["n0"]) == (50, 200, 4.0)


def test_the_bundled_airline_example(oracle: Any) -> None:
    _, trials = gs.example("airline")
    assert gs.anova_icc(trials).value == pytest.approx(0.404584368959, abs=1e-11)


def test_unbalanced_groups_have_donners_size() -> None:
    successes, trials = np.array([5, 0, 2, 3, 1]), np.array([6, 3, 2, 5, 1])
    found = one_way(successes, trials)
    scores = [np.repeat([1.0, 0.0], [k, n - k]) for k, n in zip(successes, trials, strict=True)]
    grand = np.concatenate(scores)
    between = sum(len(s) * (s.mean() - grand.mean()) ** 2 for s in scores) / 4
    within_ = sum(((s - s.mean()) ** 2).sum() for s in scores) / (17 - 5)
    n0 = (17 - (36 + 9 + 4 + 25 + 1) / 17) / 4
    assert found.n0 == pytest.approx(n0)
    assert found.icc == pytest.approx((between - within_) / (between + (n0 - 1) * within_))


def test_a_negative_icc_stays_negative() -> None:
    found = gs.anova_icc(rows_of([2, 2, 2, 2], 4))
    assert found.value == pytest.approx(-1 / 3)
    assert "negative: levels differ less than chance alone would make them" in str(found)


@pytest.mark.parametrize(
    ("passes", "n", "reason"),
    [
        ([0, 0, 0], 4, "not defined: no score varies, all are 0"),
        ([4, 4, 4], 4, "not defined: no score varies, all are 1"),
        ([1, 0, 1], 1, "not defined: one trial per level"),
        ([2], 4, "not defined: one level"),
    ],
)
def test_what_is_not_defined_is_nan_with_its_reason(passes: list[int], n: int, reason: str) -> None:
    found = gs.anova_icc(rows_of(passes, n))
    assert math.isnan(found.value)
    assert found.frame.loc["all", "note"] == reason
    assert reason in str(found)


def test_one_icc_per_system() -> None:
    table = pd.concat(
        [rows_of([0, 4, 4, 0], 4).assign(system="A"), rows_of([2, 2, 1, 3], 4).assign(system="B")]
    )
    found = gs.anova_icc(table, facet="task", by="system")
    assert found.frame.index.tolist() == ["A", "B"]
    assert found.frame.index.name == "system"
    assert found.frame.loc["A", "icc"] == pytest.approx(1.0)
    assert found.frame.loc["B", "icc"] < 0
    with pytest.raises(QuantityError, match=r"one ICC per group.*Use .frame\['icc'\]"):
        found.value  # noqa: B018
    assert found.summary().attrs == {
        "scale": "score",
        "estimand": "ICC(1,1) of task",
        "interval": None,
        "level": None,
    }
    assert "score scale" in found._repr_html_()


def test_failed_trials_count_as_the_study_says() -> None:
    study = study_of("task", within("rollout", "task"), on_failed_run="incorrect")
    table = rows_of([4, 4, 1], 4).assign(outcome="scored", reason="")
    table.loc[0, ["outcome", "score"]] = ["failed", np.nan]
    trials = gs.read_trials(table, study)
    with pytest.raises(QuantityError, match=r"1 trials failed or were never scored.*Pass study="):
        gs.anova_icc(trials)
    found = gs.anova_icc(trials, study=study)
    assert found.value == pytest.approx(gs.anova_icc(rows_of([3, 4, 1], 4)).value)


def test_levels_of_a_nested_facet_are_tuples_where_the_study_is_known() -> None:
    study = study_of("domain", within("task", "domain"), within("rollout", "task"))
    table = pd.concat(
        [rows_of([0, 4], 4).assign(domain="x"), rows_of([4, 0], 4).assign(domain="y")]
    )
    trials = gs.read_trials(table, study)
    assert gs.anova_icc(trials, study=study).frame.loc["all", "n_levels"] == 4
    assert gs.anova_icc(trials).frame.loc["all", "n_levels"] == 2


def test_what_cannot_be_analysed_is_refused() -> None:
    table = rows_of([1, 2], 4)
    with pytest.raises(QuantityError, match=r"no facet is named 'taks'.*Did you mean 'task'"):
        gs.anova_icc(table, "taks")
    with pytest.raises(QuantityError, match="no facet is named 'system'"):
        gs.anova_icc(table, by="system")
    with pytest.raises(QuantityError, match=r"unknown kind of ANOVA ICC.*ICC\(1,1\)"):
        gs.anova_icc(table, kind="ICC(2,1)")
    with pytest.raises(QuantityError, match="the scores are not found"):
        gs.anova_icc(table.drop(columns="score"))
    with pytest.raises(QuantityError, match=r"neither 0 nor 1, in row 3. Given: 0.5"):
        gs.anova_icc(table.assign(score=table["score"].astype(float).mask(table.index == 3, 0.5)))
    counts = pd.DataFrame({"task": ["a", "b"], "successes": [1, 5], "trials": [4, 4]})
    with pytest.raises(QuantityError, match="successes are not between 0 and trials, in row 1"):
        gs.anova_icc(counts)


def test_rows_without_a_label_do_not_fall_out() -> None:
    table = pd.DataFrame({"task": ["a", None, "b"], "run": [1, 2, 3], "score": [1, 0, 1]})
    with pytest.raises(QuantityError, match=r"'task': the label is missing in 1 of 3 rows"):
        gs.anova_icc(table, facet="task")
    with pytest.raises(QuantityError, match=r"'task': the label is missing"):
        gs.anova_icc(table, facet="run", by="task")


def test_an_empty_table_has_no_icc() -> None:
    with pytest.raises(QuantityError, match="the table has no rows"):
        gs.anova_icc(pd.DataFrame({"task": [], "score": []}), facet="task")


def test_a_facet_is_not_compared_within_itself() -> None:
    table = pd.DataFrame({"task": ["a", "b"], "score": [1, 0]})
    with pytest.raises(QuantityError, match="within one level of 'task'"):
        gs.anova_icc(table, facet="task", by="task")
