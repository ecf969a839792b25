"""Index sets of a source: what they are called, what role they have, what they include."""

from __future__ import annotations

import re

import pandas as pd
import pytest
from designs import grid, study_of, within
from sources import fitted, logit_source

import gstudy as gs
from gstudy.errors import QuantityError
from gstudy.fits.fitted import Fit
from gstudy.variance.basis import basis_of
from gstudy.variance.structure import Structure


def roles(source: object) -> dict[str, str]:
    frame = gs.variance_components(source, scale="score", system="new").summary()
    return dict(frame["role"])


def panel_fit(**rest: object) -> Fit:
    study = study_of(
        "task",
        within("rollout", "system", "task"),
        gs.Facet("judge", role="error"),
        object="system",
        **rest,
    )
    table = grid({"system": "AB", "task": range(6), "rollout": range(2), "judge": range(3)})
    return fitted(study, table, shape=(1, 4))


def panel() -> Structure:
    return basis_of(panel_fit()).structure


def test_a_set_is_error_when_any_facet_in_it_is() -> None:
    found = roles(panel_fit(interactions=["system:judge"]))
    assert found == {
        "system": "object",
        "task": "legitimate",
        "judge": "error",
        "system:task": "legitimate",
        "system:judge": "error",
        "task:judge": "error",
        "system:task:rollout": "legitimate",
        "system:task:judge": "error",
        "system:task:rollout:judge": "error",
        # The noise of one judge call.
        "residual": "error",
    }


def test_rollouts_inside_the_residual_give_it_their_role() -> None:
    study = study_of("task", within("rollout", "task"))
    fit = fitted(study, grid({"task": range(6), "rollout": range(3)}), shape=(1, 4))
    frame = gs.variance_components(fit).summary()
    assert frame.loc["residual", ["role", "includes"]].tolist() == [
        "legitimate",
        "task:rollout, trial",
    ]


def test_rollouts_and_judge_calls_in_one_residual_are_not_separable() -> None:
    # One call per rollout by one of three judges: the trial is a rollout and a judge call.
    study = study_of(
        "task", within("rollout", "task"), gs.Facet("judge", role="error"), interactions="none"
    )
    table = grid({"task": range(6), "rollout": range(3)})
    table["judge"] = (table["task"] + table["rollout"]) % 3
    fit = fitted(study, table, shape=(1, 4))
    assert gs.variance_components(fit).summary().loc["residual", "role"] == "not separable"


def test_merged_facets_of_unlike_roles_are_not_separable_and_totalled_both_ways() -> None:
    # Each judge has its own prompt.
    table = grid({"task": range(8), "judge": range(4), "again": range(2)})
    table["prompt"] = table["judge"].astype(str) + "p"
    counts = table.groupby(["task", "prompt", "judge"], as_index=False).agg(
        k=("score", "sum"), n=("score", "size")
    )
    study = study_of(
        "task",
        "prompt",
        gs.Facet("judge", role="error"),
        interactions="none",
        score=None,
        successes="k",
        trials="n",
    )
    fit = fitted(study, counts, shape=(2, 4))
    frame = gs.variance_components(fit).summary()
    assert frame.loc["prompt + judge", ["role", "includes"]].tolist() == [
        "not separable",
        "prompt, judge",
    ]
    # What the link makes of task with the merged component mixes task:prompt and task:judge.
    assert frame.loc["task:prompt:judge", "role"] == "not separable"
    totals = gs.variance_budget(fit).by_role()
    assert list(totals.index) == [
        "legitimate",
        "error",
        "not separable",
        "legitimate + not separable",
        "error + not separable",
    ]
    both = totals.loc["error + not separable", "mean"]
    assert both == pytest.approx(totals.loc["error", "mean"] + totals.loc["not separable", "mean"])
    assert basis_of(fit).structure.find("judge") == frozenset({"prompt", "judge"})


def test_names_may_come_in_any_order_and_without_parents() -> None:
    structure = panel()
    assert structure.find("rollout") == {"system", "task", "rollout"}
    assert structure.find("judge:task") == {"task", "judge"}
    assert structure.name(structure.find("judge:rollout")) == "system:task:rollout:judge"
    assert structure.facet_of(structure.find("rollout")) == "rollout"
    assert structure.facet_of(structure.find("judge:rollout")) == "rollout:judge"


def test_of_a_given_system_names_lose_the_object() -> None:
    given = panel().without_object()
    assert [given.name(s) for s in given.spanned(given.merged)] == [
        "task",
        "judge",
        "task:rollout",
        "task:judge",
        "task:rollout:judge",
    ]
    assert given.includes(given.find("task")) == "task, system:task"
    assert given.find("system:task:rollout") == {"task", "rollout"}
    assert given.without_object() is given


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("taks", "no component is named 'taks'. Allowed: task, judge, task:rollout"),
        ("taks", "Did you mean 'task'"),
        ("system:task", "'system' is measured, and its levels are given here. Pass system='new'"),
        ("system", "Pass system='new' for the population"),
    ],
)
def test_names_that_mean_nothing_are_refused(name: str, message: str) -> None:
    with pytest.raises(QuantityError, match=re.escape(message)):
        panel().without_object().find(name)


def test_facets_without_a_component_say_why() -> None:
    study = study_of(
        "task",
        within("rollout", "task"),
        gs.Facet("judge", role="error"),
        gs.Facet("mode", role="controlled"),
    )
    table = grid({"task": range(6), "rollout": range(3), "judge": ["gpt"], "mode": ["m"]})
    fit = fitted(study, table, shape=(1, 4))
    with pytest.raises(
        QuantityError, match="'rollout' is inside the residual: one trial per level"
    ):
        gs.icc(fit, "rollout")
    with pytest.raises(QuantityError, match="'judge' was not sampled: one level, 'gpt'"):
        gs.icc(fit, "judge")
    with pytest.raises(QuantityError, match="'mode' is controlled"):
        gs.icc(fit, "mode")
    notes = gs.variance_budget(fit).notes
    assert (
        "Not covered: judge was not sampled (one level, 'gpt'); its variance is unknown." in notes
    )


def test_renaming_facets_changes_no_number() -> None:
    table = grid({"system": "AB", "task": range(5), "rollout": range(2), "judge": range(2)})
    names = {"system": "x.*", "task": "a b", "rollout": "task2", "judge": "[z]"}
    found = []
    for own in ({name: name for name in names}, names):
        study = gs.Study(
            score="score",
            object=own["system"],
            facets=[
                gs.Facet(own["task"], role="legitimate"),
                gs.Facet(own["rollout"], role="legitimate", nested_in=[own["system"], own["task"]]),
                gs.Facet(own["judge"], role="error"),
            ],
        )
        fit = fitted(study, table.rename(columns=own), shape=(2, 5))
        found.append(gs.variance_budget(fit).draws.values)
    assert (found[0] == found[1]).all()


def test_a_kept_component_says_that_it_is_its_prior() -> None:
    table = pd.DataFrame(
        {"task": list("aabbccdd"), "judge": "gpt", "score": [0, 1, 1, 1, 0, 0, 1, 0]}
    )
    counts = table.groupby(["task", "judge"], as_index=False).agg(
        k=("score", "sum"), n=("score", "size")
    )
    study = study_of(
        "task",
        gs.Facet("judge", role="error"),
        keep=["judge"],
        score=None,
        successes="k",
        trials="n",
    )
    budget = gs.variance_budget(fitted(study, counts, shape=(2, 4)))
    assert "judge: prior only, the data do not inform it." in budget.notes


def test_an_assumed_study_has_every_set_that_it_is_given() -> None:
    source = logit_source(
        {"rollout": 0.5, "task": 1.0},
        0.0,
        facets=["task", "rollout"],
        nested={"rollout": ["task"]},
    )
    assert list(source.rows) == ["task", "task:rollout", "residual"]
