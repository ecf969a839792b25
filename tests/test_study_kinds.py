"""Kinds of studies before sampling: controlled levels, own sds, banks, averages, judges."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from designs import checked, grid, study_of, verdicts, within

import gstudy as gs
from gstudy.errors import DeclarationError, EstimabilityWarning, QuantityError
from gstudy.study.assessment import Assessment
from gstudy.study.priors import Prior

RUN = within("run", "system", "task")
JUDGE = gs.Facet("judge", role="error")
PLACE = gs.Facet("place", role="controlled")
LEVELS = {"system": list("ABC"), "task": range(8), "run": range(3)}


def own(name: str, *parents: str) -> gs.Facet:
    """A facet that varies by system."""
    return gs.Facet(name, role="legitimate", nested_in=parents, varies="system")


def facets_of(found: Assessment) -> dict[str, set[str]]:
    return {component.name: set(component.facets) for component in found.components}


def row(found: Assessment, name: str) -> Any:
    return next(row for row in found.rows if row.name == name)


# ------------------------------------------------------------------------------ fixed effects


def controlled(**rest: Any) -> Assessment:
    table = grid({"system": list("ABC"), "place": list("xyz"), "task": range(8), "run": [1, 2]})
    return checked(study_of("task", PLACE, RUN, object="system", **rest), table)


def test_controlled_levels_have_fixed_effects_and_no_component() -> None:
    found = controlled()
    [fixed] = found.fixed
    assert (fixed.name, fixed.facets, fixed.n_levels) == ("place", {"place"}, 3)
    assert (fixed.fixed, fixed.verdict, fixed.prior_only) == (True, "fixed effects", False)
    assert fixed.prior == Prior("ZeroSumNormal", {"sigma": 2.5})
    assert "place" not in facets_of(found)
    assert found.pinned == {}
    told = row(found, "place")
    assert (told.verdict, told.component) == ("fixed effects", "place")
    assert "place, " not in str(found.not_sampled)
    assert found.cells.components == (*found.components, fixed)
    assert found.cells.level_labels(len(found.components)) == ["x", "y", "z"]
    assert np.array_equal(
        found.cells.index[-1], found.cells.codes[:, found.cells.facets.index("place")]
    )
    with pytest.raises(QuantityError, match=r"'place' is controlled.*fit\.fixed\('place'\)"):
        found.component("place")


def test_interactions_of_controlled_and_random_facets_are_components() -> None:
    found = controlled()
    assert verdicts(found)["system:place"] == "estimable"
    assert facets_of(found)["task:place"] == {"task", "place"}
    assert [r.name for r in found.rows if r.asked == "auto"] == [
        "system:task",
        "system:place",
        "task:place",
        "system:task:place:run",
    ]
    listed = controlled(interactions=["place:task"])
    assert [c.name for c in listed.components] == [
        "system",
        "task",
        "task:place",
        "system:task:run",
    ]
    assert "Fixed effects, the score is their levels' mean: place (3 levels)." in " ".join(
        str(listed).split()
    )


def test_two_controlled_facets_are_not_tried_together() -> None:
    facets = ["task", PLACE, gs.Facet("lang", role="controlled"), within("run", "task")]
    levels = {"place": "xyz", "lang": "de", "task": range(8), "run": [1, 2]}
    found = checked(study_of(*facets), grid(levels))
    assert [c.name for c in found.fixed] == ["place", "lang"]
    assert "place:lang" not in verdicts(found)
    assert {"task:place", "task:lang"} <= set(verdicts(found))


def test_tasks_in_controlled_domains_keep_them_in_their_set() -> None:
    table = grid({"system": "ABC", "place": "xy", "task": range(8), "run": [1, 2]})
    found = checked(study_of(PLACE, within("task", "place"), RUN, object="system"), table)
    assert facets_of(found) == {
        "system": {"system"},
        "system:place": {"system", "place"},
        "place:task": {"place", "task"},
        "system:place:task": {"system", "place", "task"},
    }
    assert found.component("task").n_levels == 16
    assert (frozenset({"task"}), frozenset({"place", "task"})) in found.rules


def test_the_prior_of_fixed_effects_is_declared_or_follows_the_score() -> None:
    prior = {"dist": "ZeroSumNormal", "sigma": 0.5}
    assert controlled(priors={"fixed(place)": prior}).fixed[0].prior.sigma == 0.5
    table = grid({"place": "xy", "task": range(6), "run": [1, 2]})
    table["score"] = np.arange(len(table), dtype=float)
    graded = study_of(PLACE, "task", within("run", "task"), family="gaussian")
    spread = table["score"].std()
    assert checked(graded, table).fixed[0].prior.sigma == pytest.approx(2.5 * spread)
    with pytest.raises(DeclarationError, match=r'"fixed\(place\)" is of a facet with one level'):
        gs.check(
            study_of(PLACE, "task", priors={"fixed(place)": prior}),
            table[table["place"] == "x"].assign(score=1).drop_duplicates("task"),
        )


def test_a_facet_that_splits_as_the_controlled_one_is_left_out_with_a_warning() -> None:
    table = grid(LEVELS)
    table["place"] = table["system"]
    study = study_of("task", PLACE, RUN, object="system")
    with pytest.warns(EstimabilityWarning, match="system, inside effects of place"):
        found = gs.check(study, table)
    assert "system" not in facets_of(found)
    assert any("share no place" in note for note in found.notes)
    with pytest.raises(DeclarationError, match="'system:place', which is inside effects of place"):
        gs.check(
            study_of("task", PLACE, RUN, object="system", interactions=["system:place"]), table
        )


WRONG_CONTROLLED = [
    (
        [gs.Facet("place", role="controlled", nested_in=["task"]), "task", RUN],
        {},
        r"facets\.place: a controlled facet with several.*'nested_in task, 24 levels'.*take nested",
    ),
    (
        [PLACE, gs.Facet("twin", role="controlled"), "task", RUN],
        {"twin": list("xyz") * 48},
        "the controlled facets 'place' and 'twin' split the trials identically",
    ),
]


@pytest.mark.parametrize(("facets", "more", "message"), WRONG_CONTROLLED)
def test_controlled_facets_that_can_have_no_effects(
    facets: list[Any], more: dict[str, Any], message: str
) -> None:
    table = grid({"system": "ABC", "task": range(8), "run": [1, 2], "place": "xyz"}).assign(**more)
    with pytest.raises(DeclarationError, match=message):
        gs.check(study_of(*facets, object="system"), table)


# ------------------------------------------------------------------------------ own variances


def test_own_sds_of_tasks_and_rollouts() -> None:
    study = study_of(own("task"), own("run", "system", "task"), JUDGE, object="system")
    found = checked(study, grid({**LEVELS, "judge": "pq"}))
    varies = {component.name: component.varies for component in found.components}
    assert varies == {
        "system": None,
        "task": "system",
        "judge": None,
        "system:judge": None,
        "task:judge": None,
        "system:task:run": "system",
    }
    tasks, runs = found.component("task"), found.component("run")
    assert (tasks.facets, tasks.n_levels) == ({"task"}, 8)
    assert (runs.facets, runs.n_levels) == ({"system", "task", "run"}, 72)
    inside = row(found, "system:task")
    assert (inside.verdict, inside.component) == ("inside own sds of task", None)
    assert inside.reason == "each system has its own task effects"
    text = " ".join(str(found).split())
    assert "Each system has its own sd of: task, system:task:run." in text
    assert "in own sds" in text
    # mu, sds of four, 3 + 3 own ones, 9 correlations; 3 + 2 + 6 + 16 + 72 effects, 8 x 3 own ones.
    assert found.memory(draws=1, chains=1) == 8 * (1 + 4 + 6 + 9 + 3 + 2 + 6 + 16 + 72 + 24)


def test_own_sds_of_nested_tasks_hold_their_parents() -> None:
    levels = {"system": "AB", "place": "xyz", "task": range(5), "run": [1, 2]}
    study = study_of("place", own("task", "place"), RUN, object="system")
    found = checked(study, grid(levels))
    assert found.component("task").facets == {"place", "task"}
    assert found.component("task").varies == "system"
    assert verdicts(found)["system:place:task"] == "inside own sds of task"
    assert verdicts(found)["system:place"] == "estimable"


def test_one_system_ignores_varies_with_a_note() -> None:
    table = grid({**LEVELS, "system": ["A"]})
    found = checked(study_of(own("task"), RUN, object="system"), table)
    assert found.component("task").varies is None
    assert "varies of task says nothing here: the trials hold one level of system." in found.notes


def test_more_than_eight_systems_are_sent_to_fit_by() -> None:
    study = study_of(own("task"), RUN, object="system")
    eight = checked(study, grid({**LEVELS, "system": range(8)}))
    assert eight.component("task").varies == "system"
    message = r"2 to 8 levels of system\. Given: '9 levels'.*gs\.fit_by\(study, trials, by='system'"
    with pytest.raises(DeclarationError, match=message):
        gs.check(study, grid({**LEVELS, "system": range(9)}))


def test_own_sds_that_the_data_cannot_tell_are_refused() -> None:
    study = study_of(own("task"), RUN, object="system")
    table = grid(LEVELS)
    with pytest.raises(DeclarationError, match="no system has two trials of one task"):
        gs.check(study, table[table["run"] == 0])
    apart = table.assign(task=table["system"] + table["task"].astype(str))
    message = r'each task occurs with one system only.*nested_in = \["system"\]'
    with pytest.raises(DeclarationError, match=message):
        gs.check(study, apart)
    # One rollout, many judges: the rollout splits the rows as system and task together do.
    judged = study_of(own("task"), RUN, JUDGE, object="system")
    one_run = grid({**LEVELS, "run": [0], "judge": "pqr"})
    message = r"own effects of each system split the rows as 'system:task:run' does.*levels of run"
    with pytest.raises(DeclarationError, match=message):
        gs.check(judged, one_run)


def test_facets_one_to_one_with_a_varying_one_share_its_component() -> None:
    table = grid(LEVELS)
    table["topic"] = table["task"]
    found = checked(study_of(own("task"), "topic", RUN, object="system"), table)
    joint = found.component("topic")
    assert (joint.name, joint.varies) == ("task + topic", "system")
    assert verdicts(found)["system:topic"] == "inside own sds of task"


# ---------------------------------------------------------------------- averages and universes


def test_cells_tell_the_levels_apart_that_the_score_averages() -> None:
    levels = {"system": "AB", "place": "xyz", "task": range(5), "run": [1, 2]}
    facets = ["place", "task", within("run", "system", "task", "place")]
    plain = study_of(*facets, object="system", interactions="none")
    means = study_of(*facets, object="system", interactions="none", average={"macro": "run"})
    assert checked(plain, grid(levels)).cells.facets == ("system", "place", "task")
    found = checked(means, grid(levels))
    assert found.cells.facets == ("system", "place", "task", "run")
    assert "The score is the mean of the means of each run." in str(found)


def test_a_universe_holds_the_levels_that_were_found() -> None:
    table = grid({"place": "xy", "task": range(5), "run": [1, 2]})
    table = table[(table["place"] == "x") | (table["task"] < 3)]
    bank = gs.Facet("task", role="legitimate", nested_in=["place"], universe=5)
    study = study_of("place", bank, within("run", "task"))
    assert checked(study, table).component("task").n_levels == 8
    small = gs.Facet("task", role="legitimate", nested_in=["place"], universe=4)
    message = r"universe is less than the levels.*universe = 4, and 5 levels within one place"
    with pytest.raises(DeclarationError, match=message):
        gs.check(study_of("place", small, within("run", "task")), table)
    crossed = gs.Facet("task", role="legitimate", universe=4)
    with pytest.raises(DeclarationError, match=r"universe = 4, and 5 levels'\. Allowed: 5 or more"):
        gs.check(study_of("place", crossed, within("run", "place", "task")), table)


def claimed() -> tuple[gs.Study, pd.DataFrame]:
    facets = [
        gs.Facet("task", role="legitimate", universe=6, reason="the team's own bank"),
        gs.Facet("page", role="legitimate", universe=9, nested_in=["task"]),
        within("run", "system", "task", "page"),
        JUDGE,
        PLACE,
        gs.Facet("lang", role="controlled"),
    ]
    levels = {"system": "AB", "task": range(6), "page": [1, 2], "run": [1], "place": "xy"}
    table = grid({**levels, "lang": ["de"], "judge": ["gpt"]})
    table["outcome"] = "scored"
    table.loc[[0, 1, 2], "outcome"] = "failed"
    rest = {"controlled": {"prompt": "v3"}, "on_failed_run": "drop", "average": "task"}
    return study_of(*facets, object="system", **rest), table


def test_the_universe_table_says_what_the_claim_covers() -> None:
    study, table = claimed()
    found = checked(study, table)
    shown = found.universe_table()
    rows = [tuple(r) for r in shown.frame.astype(object).where(shown.frame.notna(), None).values]
    assert rows == [
        ("system", "object", "", 2, "infinite", "yes"),
        ("task", "legitimate", "the team's own bank", 6, "6", "the whole bank"),
        ("page", "legitimate", "", 2, "9 in each", "yes"),
        ("run", "legitimate", "", 1, "infinite", "yes"),
        ("judge", "error", "", 1, "infinite", "one level"),
        ("place", "controlled", "", 2, "2", "controlled, 2 levels"),
        ("lang", "controlled", "", 1, "1", "pinned at de"),
        ("prompt", "controlled", "", None, "1", "pinned at v3"),
    ]
    kept = table["score"][3:].sum()
    policy, mean = shown.notes
    assert policy == (
        f"Failed runs: 3, 6.2% of the trials (on_failed_run: drop). Mean score over all trials: "
        f"{kept / 48:.1%} if they count as 0, {kept / 45:.1%} if they are left out."
    )
    assert mean == "The reported score is the mean of the means of each task."


def test_the_universe_is_printed_when_it_says_something_new() -> None:
    study, table = claimed()
    text = str(checked(study, table))
    assert "Universe of the claim" in text
    assert max(map(len, text.splitlines())) <= 80
    assert "universe" in checked(study, table).tables()
    plain = checked(
        study_of("task", within("run", "task")), grid({"task": range(6), "run": [1, 2]})
    )
    assert "Universe" not in str(plain)
    assert plain.universe_table().notes == ("Failed runs: none (on_failed_run: raise).",)
    assert plain.universe_table().frame["sampled"].tolist() == ["yes", "inside residual"]


def test_counted_rollouts_are_told_as_counted() -> None:
    study, trials = gs.example("airline")
    frame = checked(study, trials).universe_table().frame
    assert frame["sampled"].tolist()[:2] == ["yes", "counted, inside residual"]
    assert frame["levels"].tolist()[:2] == [50, 4]
    assert frame["facet"].tolist()[2:] == list(study.controlled)


def test_failed_counts_weigh_their_trials() -> None:
    table = pd.DataFrame(
        {"task": list("abc"), "k": [3, 2, None], "n": [4, 4, 2], "outcome": ["", "", "failed"]}
    )
    facets = [gs.Facet("task", role="legitimate")]
    study = gs.Study(successes="k", trials="n", facets=facets, on_failed_run="incorrect")
    assert checked(study, table).failed_runs == {
        "n_failed": 2,
        "share": 0.2,
        "incorrect": 0.5,
        "drop": 0.625,
    }


# ----------------------------------------------------------------------------- panels of judges


def test_judges_crossed_with_rollouts() -> None:
    found = checked(study_of("task", RUN, JUDGE, object="system"), grid({**LEVELS, "judge": "pqr"}))
    assert list(facets_of(found)) == [
        *("system", "task", "judge", "system:task", "system:judge", "task:judge"),
        "system:task:run",
    ]
    assert verdicts(found)["system:task:run:judge"] == "too few trials per cell"
    assert found.layout.balanced


def test_the_same_judge_asked_twice() -> None:
    call = within("call", "system", "task", "run", "judge", role="error")
    study = study_of("task", RUN, JUDGE, call, object="system")
    found = checked(study, grid({**LEVELS, "judge": "pq", "call": [1, 2]}))
    assert found.component("system:task:run:judge").n_levels == 144
    told = row(found, "system:task:run:judge:call")
    assert (told.verdict, told.reason) == ("inside residual", "one trial per level")
    # Another judge gives no second answer of this one.
    assert told.advice == "two or more trials in some levels of call"
    # Without the facet the second answer is the same trial again.
    with pytest.raises(gs.DataError, match="are the same trial"):
        gs.check(
            study_of("task", RUN, JUDGE, object="system"),
            grid({**LEVELS, "judge": "pq", "call": [1, 2]}),
        )


def test_judge_calls_nested_in_rollouts() -> None:
    call = within("call", "run", role="error")
    found = checked(
        study_of("task", RUN, call, object="system"), grid({**LEVELS, "call": [1, 2, 3]})
    )
    assert verdicts(found)["system:task:run"] == "estimable"
    assert verdicts(found)["system:task:run:call"] == "inside residual"
    assert found.cells.trials.tolist() == [3] * 72
    # A second call of one rollout only: the component is fitted, for all of them.
    levels = {**LEVELS, "call": [1]}
    single = grid(levels)
    assert (
        verdicts(checked(study_of("task", RUN, call, object="system"), single))["system:task:run"]
        == "inside residual"
    )
    twice = pd.concat([single, single[:1].assign(call=2)])
    assert (
        verdicts(checked(study_of("task", RUN, call, object="system"), twice))["system:task:run"]
        == "estimable"
    )


def test_incomplete_panels_of_judges() -> None:
    table = grid({**LEVELS, "judge": "pqrst"})
    place = np.arange(len(table))
    first = (place // 5) % 5
    two = table[(place % 5 == first) | (place % 5 == (first + 1) % 5)]
    found = checked(study_of("task", RUN, JUDGE, object="system"), two)
    assert verdicts(found)["judge"] == "estimable"
    assert verdicts(found)["system:task:run"] == "estimable"
    assert found.component("run").trials_per_level == 2
    assert not found.layout.balanced
    [pair] = [p for p in found.layout.pairings if (p.facet, p.others) == ("run", ("judge",))]
    assert (pair.how, pair.filled, pair.possible) == ("partly crossed", 144, 360)
    # One judge for each system: no comparison of judges.
    alone = table[table["judge"].map(dict(zip("pqr", "ABC", strict=True))) == table["system"]]
    merged = checked(study_of("task", RUN, JUDGE, object="system"), alone)
    assert verdicts(merged)["system"].startswith("merged with judge")
    sampled = dict(merged.universe_table().frame[["facet", "sampled"]].itertuples(index=False))
    assert sampled["judge"] == "yes, merged with system"


def test_several_levels_of_nesting() -> None:
    facets = ["domain", within("family", "domain"), within("task", "family"), within("run", "task")]
    levels = {"domain": "xyz", "family": [1, 2], "task": [1, 2, 3], "run": [1, 2]}
    found = checked(study_of(*facets), grid(levels))
    assert facets_of(found) == {
        "domain": {"domain"},
        "domain:family": {"domain", "family"},
        "domain:family:task": {"domain", "family", "task"},
    }
    assert found.facet_levels == levels_of(levels)
    with warnings.catch_warnings():
        warnings.simplefilter("error", EstimabilityWarning)
        with pytest.raises(EstimabilityWarning, match="domain:family:task:run, inside residual"):
            gs.check(study_of(*facets), grid(levels))


def levels_of(levels: dict[str, Any]) -> dict[str, int]:
    return {facet: len(labels) for facet, labels in levels.items()}


def test_listed_interactions_of_any_order() -> None:
    listed = ["system:task:judge", "task:judge"]
    study = study_of("task", RUN, JUDGE, object="system", interactions=listed)
    found = checked(study, grid({**LEVELS, "judge": "pqr"}))
    assert found.component("judge:task:system").n_levels == 72
    assert found.component("system:task:judge").facets == {"system", "task", "judge"}


def test_undeclared_nesting_is_told_with_two_examples() -> None:
    table = grid({"batch": "xyz", "cask": "abc", "sample": [1, 2]})
    table["cask"] = table["batch"] + table["cask"]
    found = checked(study_of("batch", "cask", within("sample", "batch", "cask")), table)
    [note] = [note for note in found.notes if note.startswith("each cask")]
    assert re.search(r"only \('xa' under 'x', 'ya' under 'y'\)", note)
    assert note.endswith('[facets.cask] nested_in = ["batch"].')
