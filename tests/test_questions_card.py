"""The evaluation card: its numbers are those of the functions they come from."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.resources import files
from typing import Any

import numpy as np
import pandas as pd
import pytest
from handmade import fit_by_hand, small_fit, small_study
from jsonschema import Draft202012Validator

import gstudy as gs
from gstudy.fits.many import Fits
from gstudy.questions.card import STATEMENT, EvaluationCard, evaluation_card
from gstudy.questions.card_cells import band
from gstudy.study.estimable import assess as assess_design
from gstudy.study.parts import split_by


def validate(value: dict[str, Any]) -> None:
    schema = json.loads((files("gstudy") / "schemas" / "card.schema.json").read_text("utf-8"))
    Draft202012Validator.check_schema(schema)
    # As a reader of the file sees it.
    Draft202012Validator(schema).validate(json.loads(json.dumps(value, allow_nan=False)))


@pytest.fixture(scope="module")
def joint() -> gs.Fit:
    return small_fit()


@pytest.fixture(scope="module")
def fits() -> Fits:
    study, frame = small_study()
    trials = gs.read_trials(frame, study)
    _, parts = split_by(study, trials, "system")
    found = {
        part.label: fit_by_hand(assess_design(part.study, part.trials), seed=i)
        for i, part in enumerate(parts)
    }
    return Fits(found, study, "system")


@pytest.fixture(scope="module")
def card(fits: Fits) -> EvaluationCard:
    return evaluation_card(fits)


def test_numbers_are_those_of_their_functions(card: EvaluationCard, fits: Fits) -> None:
    table = card.summary(0.9)
    for label, fit in fits.items():
        row = table.loc[label]
        score = gs.score(fit).summary(0.9).iloc[0]
        for key in ("rate", "naive_lower", "naive_upper", "n_trials"):
            assert row[key] == score[key]
        assert row["score_lower"] == pytest.approx(score["lower"], rel=1e-12)
        assert row["score_upper"] == pytest.approx(score["upper"], rel=1e-12)
        ratio = gs.icc(fit, "task").summary(0.9).iloc[0]
        for mine, theirs in (("icc", "mean"), ("icc_lower", "lower"), ("icc_upper", "upper")):
            assert row[mine] == pytest.approx(ratio[theirs], rel=1e-12)
        components = gs.variance_components(fit).summary(0.9)
        # One facet besides the system: the task component is all that is between tasks.
        assert row["between"] == pytest.approx(components.loc["task", "mean"], rel=1e-10)
        assert row["within"] == pytest.approx(components.loc["residual", "mean"], rel=1e-10)
        again = gs.rerun_noise(fit).summary(0.9).loc["difference"]
        assert row["repeatability"] == pytest.approx(again["mean"], rel=1e-12)
        budget = gs.variance_budget(fit).summary()
        assert row["dominant"] == budget["share"].idxmax()
        assert row["dominant_share"] == pytest.approx(budget["share"].max(), rel=1e-12)
        assert (row["n_tasks"], row["trials_per_task"], row["n_failed"]) == (8, 3.0, 0)


def test_between_and_within_make_the_whole_trial(card: EvaluationCard, fits: Fits) -> None:
    whole = card.draws.sel(quantity=["between", "within"]).sum("quantity")
    for label, fit in fits.items():
        mean = gs.variance_components(fit).mean.values
        np.testing.assert_allclose(whole.sel(system=label).values, mean * (1 - mean), rtol=1e-9)


def test_a_joint_fit_with_shared_sds_says_whose_the_variances_are(joint: gs.Fit) -> None:
    card = evaluation_card(joint)
    assert card.summary()["icc"].isna().all()
    plain = card.json()
    validate(plain)
    assert all(entry["icc"] is None for entry in plain["systems"])
    found = gs.icc(joint, "task").summary().iloc[0]
    assert plain["all_systems"]["icc"]["mean"] == pytest.approx(found["mean"], rel=1e-12)
    assert "The systems share one set of sds" in str(card)


def test_the_next_step_gains_most_per_trial(card: EvaluationCard, fits: Fits) -> None:
    told = {entry["system"]: entry["next_step"] for entry in card.json(0.9)["systems"]}
    for label, fit in fits.items():
        rows = gs.next_steps(fit).summary(0.9)
        more = rows[rows["kind"] == "more levels"]
        best = more.loc[more["gain"].idxmax()]
        entry = told[label]
        assert entry["step"] == best.name
        assert (entry["facet"], entry["before"], entry["after"]) == ("task", 8.0, 16.0)
        assert entry["added_trials"] == best["added_trials"] == 24
        assert entry["half_width"] == pytest.approx(best[["mean", "lower", "upper"]].to_dict())
        assert entry["gain_per_trial"]["upper"] == pytest.approx(best["gain_upper"])
        # Trials are as many either way, and twice the tasks halve all that twice the rollouts do.
        assert entry["probability"] == 1.0
        text = f"task: 8 to 16 (to \N{PLUS-MINUS SIGN}{100 * best['mean']:.1f} points)"
        assert card.table().frame.loc["next step", label] == text
    assert "Next step: the single enlargement" in str(card)


def test_a_joint_fit_has_one_next_step_for_all(joint: gs.Fit) -> None:
    plain = evaluation_card(joint).json()
    assert [entry["next_step"] for entry in plain["systems"]] == [None] * 3
    rows = gs.next_steps(joint).summary()
    step = plain["all_systems"]["next_step"]
    assert step["half_width"]["mean"] == pytest.approx(rows.loc[step["step"], "mean"], rel=1e-12)


def test_no_next_step_is_named_that_the_data_leave_open() -> None:
    """Each task ran in an environment of its own: more of one alone may help, or not at all."""
    rows = pd.DataFrame(
        [
            {"task": t, "environment": t, "rollout": r, "passed": (t + r) % 2}
            for t in range(6)
            for r in range(4)
        ]
    )
    facets = [
        gs.Facet("task", role="legitimate"),
        gs.Facet("environment", role="legitimate"),
        gs.Facet("rollout", role="legitimate", nested_in=["task", "environment"]),
    ]
    fit = fit_by_hand(assess_design(gs.Study(score="passed", facets=facets), rows))
    card = evaluation_card(fit)
    validate(card.json())
    assert card.json()["systems"][0]["next_step"] is None
    assert "Next step" not in str(card)
    # One rollout of each task: whose variance the residual is changes nothing for tasks.
    facets = [facets[0], gs.Facet("rollout", role="legitimate", nested_in=["task"])]
    one = rows[rows["rollout"] == 0].assign(passed=[0, 1] * 3)
    single = fit_by_hand(assess_design(gs.Study(score="passed", facets=facets), one))
    entry = evaluation_card(single).json()["systems"][0]["next_step"]
    assert entry["facet"] == "task"
    assert entry["half_width"]["mean"] == pytest.approx(
        gs.next_steps(single).summary().loc["task: 6 to 12", "mean"]
    )


def test_json_follows_its_schema(card: EvaluationCard) -> None:
    plain = card.json(0.9)
    validate(plain)
    assert plain["level"] == 0.9
    assert [entry["system"] for entry in plain["systems"]] == ["A", "B:1", "C/2"]
    assert plain["statement"] == STATEMENT
    assert plain["all_systems"] is None
    entry, row = plain["systems"][1], card.summary(0.9).loc["B:1"]
    assert entry["icc"]["upper"] == row["icc_upper"]
    assert entry["icc"]["bands"]["upper"] == band(row["icc_upper"])
    assert entry["accuracy"]["full"]["lower"] == row["score_lower"]
    assert entry["failed_runs"] == {"n": 0, "policy": "raise"}


def test_a_card_without_tasks_or_object_follows_it_too() -> None:
    frame = pd.DataFrame({"task": list("abcdefgh"), "k": [0, 1, 2, 3] * 2, "n": 3})
    task = gs.Facet("task", role="legitimate")
    study = gs.Study(successes="k", trials="n", facets=[task])
    validate(evaluation_card(fit_by_hand(assess_design(study, frame))).json())
    lone = gs.Study(
        score="passed",
        object="system",
        facets=[gs.Facet("rollout", role="legitimate", nested_in=["system"])],
        interactions="none",
    )
    _, rows = small_study()
    rows["rollout"] = rows.groupby("system").cumcount()
    card = evaluation_card(fit_by_hand(assess_design(lone, rows)))
    validate(card.json())
    assert "ICC(" not in str(card).partition("\n\n")[2].partition("This is")[0]


def test_failed_runs_and_their_policy_are_told() -> None:
    study, frame = small_study(on_failed_run="incorrect")
    frame["outcome"] = "scored"
    frame.loc[frame.index[:2], "outcome"] = "failed"
    card = evaluation_card(fit_by_hand(assess_design(study, frame)))
    assert card.facts["n_failed"].to_dict() == {"A": 2, "B:1": 0, "C/2": 0}
    assert card.json()["systems"][0]["failed_runs"] == {"n": 2, "policy": "incorrect"}


def test_bands_are_those_published_and_stand_beside_the_interval(
    card: EvaluationCard, oracle: Callable[[str], Any]
) -> None:
    published = oracle("published")["paper_icc_bands"]
    names = ("poor", "moderate", "good", "excellent")
    starts = [0.0, 0.5, 0.75, 0.9]
    for name, start in zip(names, starts, strict=True):
        assert f"{start:.2f}" in published[name] or start == 0.0
        assert band(start) == name
    # An end belongs to the band above it.
    assert [band(start - 1e-9) for start in starts[1:]] == list(names[:3])
    text = card.table().text(120)
    low, high = (card.summary().loc["A", f"icc_{end}"] for end in ("lower", "upper"))
    expected = band(low) if band(low) == band(high) else f"{band(low)} to {band(high)}"
    assert expected in text


def test_the_fixed_sentence_and_systems_side_by_side(card: EvaluationCard) -> None:
    text = " ".join(card.table().text(120).split())
    assert "reliability, not validity" in text
    assert "a low task ICC is not a bad benchmark" in text
    assert list(card.table().frame.columns) == ["A", "B:1", "C/2"]


def test_what_has_no_card_is_named(fits: Fits) -> None:
    with pytest.raises(gs.QuantityError, match="an evaluation card is of a fit"):
        evaluation_card("run.nc")
    with pytest.raises(gs.QuantityError, match="an evaluation card is of a fit"):
        evaluation_card(Fits(dict(fits), fits.study, "task"))


def test_separate_runs_side_by_side_are_the_fits_of_each_system(
    card: EvaluationCard, fits: Fits
) -> None:
    beside = evaluation_card(Fits.of(dict(fits.items())))
    pd.testing.assert_frame_equal(beside.summary(), card.summary())
    assert not any("sampled otherwise" in note for note in beside.notes)


def test_runs_of_a_study_without_an_object_are_named_by_their_keys() -> None:
    _, frame = small_study()
    task = gs.Facet("task", role="legitimate")
    rollout = gs.Facet("rollout", role="legitimate", nested_in=["task"])
    study = gs.Study(score="passed", facets=[task, rollout])
    runs = {
        name: fit_by_hand(assess_design(study, part.drop(columns="system")))
        for name, part in frame.groupby("system")
    }
    card = evaluation_card(Fits.of(runs))
    assert list(card.summary().index) == ["A", "B:1", "C/2"]
    rates = frame.groupby("system")["passed"].mean()
    assert card.summary()["rate"].to_dict() == pytest.approx(rates.to_dict())
    # One of them ran a single task: its universe is another.
    alone = frame[(frame["system"] == "A") & (frame["task"] == "007")].drop(columns="system")
    few = fit_by_hand(assess_design(study, alone))
    told = evaluation_card(Fits.of({"all": runs["A"], "one": few})).notes
    assert "The replication universe is that of all; one sampled otherwise." in told


def test_many_systems_stand_one_below_the_other(fits: Fits) -> None:
    one = next(iter(fits.values()))
    many = evaluation_card(Fits(dict.fromkeys("abcdef", one), fits.study, "system")).table().frame
    few = evaluation_card(Fits(dict.fromkeys("abcd", one), fits.study, "system")).table().frame
    assert (few.index.name, many.index.name) == ("card", "system")
    # One fit under several names has the sds of all of them.
    assert list(many.index) == ["all systems", *"abcdef"]
    assert many.loc["c"].to_dict() == few["c"].to_dict()


def test_the_universe_says_what_was_sampled_once(card: EvaluationCard) -> None:
    text = " ".join(str(card).split())
    assert "task (legitimate, sampled)" in text
    assert "yes" not in text
