"""Naive and clustered standard errors of a mean score."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from designs import study_of, within

import gstudy as gs
from gstudy.errors import QuantityError


def ragged(seed: int = 3) -> pd.DataFrame:
    """Two systems, tasks with one to four trials."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        [
            {"system": s, "task": t, "rollout": r, "score": int(rng.random() < (t % 5 + 1) / 7)}
            for s in ("new", "old")
            for t in range(40)
            for r in range(1 + t % 4)
        ]
    )


@pytest.mark.reference
def test_the_example(oracle: Any) -> None:
    given = {row["id"]: row for row in oracle("references")["references"]}["clustered_se_example"]
    table = pd.DataFrame(given["input"])
    row = gs.clustered_se(table, by="cluster").frame.loc["all"]
    names = {"mean": "mean", "cr0": "se_CR0", "cr1": "se_inspect_CxC-1", "naive": "se_naive"}
    for ours, theirs in names.items():
        assert row[ours] == pytest.approx(given["expected"][theirs], abs=1e-10)
    assert (row["n_trials"], row["n_clusters"]) == (10, 4)
    assert "only 4 clusters" in row["note"]
    assert "below the naive one" in row["note"]


def test_the_sandwich_of_a_regression_on_a_constant() -> None:
    table = ragged()
    found = gs.clustered_se(table).frame
    for name, rows in table.groupby("system"):
        model = sm.OLS(rows["score"].to_numpy(float), np.ones(len(rows)))
        plain = model.fit()
        sandwich = model.fit(
            cov_type="cluster",
            cov_kwds={"groups": rows["task"].to_numpy(), "use_correction": False},
        )
        assert found.loc[name, "mean"] == pytest.approx(plain.params[0])
        assert found.loc[name, "naive"] == pytest.approx(plain.bse[0])
        assert found.loc[name, "cr0"] == pytest.approx(sandwich.bse[0])
        assert found.loc[name, "cr1"] == pytest.approx(sandwich.bse[0] * math.sqrt(40 / 39))


def test_one_row_per_system_or_one_system() -> None:
    table = ragged()
    found = gs.clustered_se(table)
    assert found.frame.index.tolist() == ["new", "old"]
    assert found.frame.index.name == "system"
    alone = gs.clustered_se(table, system="old")
    pd.testing.assert_frame_equal(alone.frame, found.frame.loc[["old"]])
    model = gs.clustered_se(table.rename(columns={"system": "model"}), object="model")
    assert model.frame["cr1"].tolist() == found.frame["cr1"].tolist()
    together = gs.clustered_se(table.rename(columns={"system": "model"}))
    assert together.frame.index.tolist() == ["all"]
    text = str(found)
    assert "standard errors clustered by task" in text
    assert "CR0: clusters independent; CR1 is CR0 sqrt(C/(C-1))" in text
    assert max(map(len, text.splitlines())) <= 80
    assert found.summary().attrs["estimator"] == "clustered by task"


def test_counts_graded_scores_and_studies() -> None:
    table = ragged()
    counts = table.groupby(["system", "task"])["score"].agg(successes="sum", trials="count")
    found = gs.clustered_se(table).frame.drop(columns="note")
    counted = gs.clustered_se(counts.reset_index()).frame.drop(columns="note")
    pd.testing.assert_frame_equal(counted, found)
    graded = gs.clustered_se(table.assign(score=10 * table["score"] + 0.5), family="gaussian")
    assert graded.frame["cr0"].tolist() == pytest.approx((10 * found["cr0"]).tolist())
    assert "pt" not in str(graded)
    study = study_of("task", within("rollout", "system", "task"), object="system")
    declared = gs.clustered_se(table, study=study)
    assert declared.frame["cr1"].tolist() == pytest.approx(found["cr1"].tolist())


def test_clusters_of_a_nested_facet_bring_their_parents() -> None:
    table = ragged().query("system == 'new'").drop(columns="system")
    table["domain"], table["task"] = table["task"] // 10, table["task"] % 10
    study = study_of("domain", within("task", "domain"), within("rollout", "task"))
    assert gs.clustered_se(table, study=study).frame.loc["all", "n_clusters"] == 40
    assert gs.clustered_se(table).frame.loc["all", "n_clusters"] == 10


@pytest.mark.parametrize(
    ("rows", "note"),
    [
        ({"task": ["a"], "score": [1]}, "one trial: no standard error"),
        ({"task": ["a", "b"], "score": [1, 1]}, "no score varies, all are 1: no standard error"),
        ({"task": ["a", "a"], "score": [1, 0]}, "one task: no clustered standard error"),
    ],
)
def test_what_has_no_standard_error_is_not_zero(rows: dict[str, Any], note: str) -> None:
    """Cases 34 and 35: never 0 from one trial, or from scores that are all alike."""
    found = gs.clustered_se(pd.DataFrame(rows))
    row = found.frame.loc["all"]
    assert row["note"].startswith(note)
    assert math.isnan(row["cr0"])
    assert math.isnan(row["cr1"])
    assert note in str(found)


def test_what_cannot_be_clustered_is_refused() -> None:
    table = ragged()
    with pytest.raises(QuantityError, match=r"no facet is named 'taks'.*Did you mean 'task'"):
        gs.clustered_se(table, by="taks")
    with pytest.raises(QuantityError, match=r"no system is called 'odl'.*Did you mean 'old'"):
        gs.clustered_se(table, system="odl")
    with pytest.raises(QuantityError, match="within one level of 'system' there is one cluster"):
        gs.clustered_se(table, by="system")
    with pytest.raises(QuantityError, match="not known which facet's levels are the systems"):
        gs.clustered_se(table.rename(columns={"system": "model"}), system="old")
    with pytest.raises(QuantityError, match="the label is missing in 1 of 200 rows"):
        gs.clustered_se(table.assign(task=table["task"].mask(table.index == 3)))
    with pytest.raises(QuantityError, match="neither 0 nor 1, in row 5"):
        gs.clustered_se(table.assign(score=table["score"].mask(table.index == 5, 0.5)))
