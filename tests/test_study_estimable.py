"""Verdicts before sampling: what is estimable, weak, merged, not sampled, inside the residual."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from designs import checked, grid, study_of, verdicts, within

import gstudy as gs
from gstudy.errors import DeclarationError, EstimabilityWarning, QuantityError
from gstudy.study.assessment import Assessment
from gstudy.study.priors import Prior

LEGITIMATE = {"role": "legitimate"}


def sets(*names: str) -> frozenset[str]:
    return frozenset(names)


def crossed(**levels: int) -> pd.DataFrame:
    return grid({name: range(1, n + 1) for name, n in levels.items()})


# ------------------------------------------------------------------------- verdicts on facets


def test_a_facet_is_weak_under_five_levels_and_estimable_from_five_on() -> None:
    found = checked(study_of("task", "judge"), crossed(task=5, judge=4))
    assert verdicts(found)["task"] == "estimable"
    assert verdicts(found)["judge"] == "weak"
    weak = found.component("judge")
    assert (weak.verdict, weak.n_levels, weak.trials_per_level) == ("weak", 4, 5.0)
    [row] = [row for row in found.rows if row.name == "judge"]
    assert row.reason == "4 levels, under 5: the prior matters"
    assert row.advice == "1 more level of judge"


@pytest.mark.parametrize(("passes", "total"), [((3, 7), 10), ((2, 5, 9), 10)])
def test_two_or_three_groups_are_weak_and_no_error(passes: tuple[int, ...], total: int) -> None:
    study = gs.Study(successes="k", trials="n", facets=[gs.Facet("group", **LEGITIMATE)])
    labels = [f"g{i}" for i in range(len(passes))]
    found = gs.check(study, pd.DataFrame({"group": labels, "k": passes, "n": total}))
    assert verdicts(found) == {"group": "weak"}
    assert found.components[0].prior == Prior("HalfNormal", {"sigma": 1.0})


def test_one_level_is_not_sampled_and_named() -> None:
    table = crossed(task=5, run=2).assign(judge="gpt")
    study = study_of("task", within("run", "task"), gs.Facet("judge", role="error"))
    with pytest.warns(EstimabilityWarning, match=r"judge, not sampled \(one level, 'gpt'\)"):
        found = gs.check(study, table)
    assert verdicts(found)["judge"] == "not sampled"
    assert found.not_sampled == {"judge": "gpt"}
    assert found.cells.facets == ("task",)
    assert "the claim covers no other: judge ('gpt')" in " ".join(str(found).split())
    [row] = [row for row in found.rows if row.name == "judge"]
    assert row.advice == "4 more levels of judge"


def test_an_interaction_with_a_one_level_facet_is_refused() -> None:
    table = crossed(task=5, run=2).assign(judge="gpt")
    study = study_of("task", within("run", "task"), "judge", interactions=["task:judge"])
    message = "'task:judge', which is not sampled: judge has one level, 'gpt'.*levels of judge"
    with pytest.raises(DeclarationError, match=message):
        gs.check(study, table)


def test_keep_fits_a_one_level_facet_from_its_prior_alone() -> None:
    table = crossed(task=5, run=2).assign(judge="gpt")
    study = study_of("task", within("run", "task"), "judge", keep=["judge"])
    found = checked(study, table)
    assert verdicts(found)["judge"] == "kept, prior only"
    kept = found.component("judge")
    assert kept.prior_only
    assert (kept.n_levels, kept.facets) == (1, sets("judge"))
    assert found.sampled == ("task", "judge")
    assert found.not_sampled == {}
    assert found.cells.level_labels(1) == ["gpt"]


def test_two_kept_one_level_facets_stay_apart() -> None:
    table = crossed(task=5).assign(judge="gpt", place="here")
    study = study_of("task", "judge", "place", keep=["judge", "place", "task"])
    found = checked(study, table)
    assert [c.name for c in found.components] == ["task", "judge", "place"]


def test_one_trial_per_level_is_inside_the_residual() -> None:
    # Ten systems with one score each, nothing else.
    table = pd.DataFrame({"system": range(10), "score": [1, 0, 1, 1, 0, 1, 0, 1, 1, 1]})
    study = gs.Study(score="score", object="system")
    with pytest.warns(EstimabilityWarning, match=r"system, inside residual \(one trial per level"):
        found = gs.check(study, table)
    assert verdicts(found) == {"system": "inside residual"}
    assert found.components == ()
    assert found.sampled == ()
    # The object is told apart all the same: every system has its own rate.
    assert found.cells.facets == ("system",)
    kept = checked(gs.Study(score="score", object="system", keep=["system"]), table)
    [component] = kept.components
    assert (component.name, component.prior_only, component.n_levels) == ("system", True, 10)
    assert verdicts(kept) == {"system": "kept, prior only"}


def test_one_level_with_two_trials_is_enough_to_fit_a_facet() -> None:
    table = crossed(task=6, run=3, judge=1)
    second = table.query("task == 1 and run == 1").assign(judge=2)
    study = study_of("task", within("run", "task"), "judge")
    found = checked(study, pd.concat([table, second]))
    assert verdicts(found)["task:run"] == "estimable"
    assert found.component("run").n_levels == 18


def test_trials_count_not_rows() -> None:
    study = gs.Study(successes="k", trials="n", facets=[gs.Facet("task", **LEGITIMATE)])
    table = pd.DataFrame({"task": list("abcde"), "k": 1, "n": [1, 1, 1, 1, 2]})
    assert verdicts(gs.check(study, table)) == {"task": "estimable"}
    with pytest.warns(EstimabilityWarning):
        found = gs.check(study, table.assign(n=1))
    assert verdicts(found) == {"task": "inside residual"}


def test_a_single_row_has_a_reason_for_everything() -> None:
    table = pd.DataFrame({"system": ["a"], "task": ["t"], "run": [1], "score": [1]})
    study = study_of("task", within("run", "system", "task"), object="system")
    found = checked(study, table)
    assert set(verdicts(found).values()) == {"not sampled"}
    assert found.not_sampled == {"system": "a", "task": "t", "run": "1"}
    assert found.layout.balanced
    assert "Model: 0 components, 1 binomial cell;" in str(found)


def test_a_counted_facet_is_inside_the_residual() -> None:
    found = checked(*gs.example("airline"))
    assert verdicts(found) == {"task": "estimable", "task:rollout": "inside residual"}
    [row] = [row for row in found.rows if row.name == "task:rollout"]
    assert (row.n_levels, row.trials_per_level) == (200, 1.0)
    assert found.facet_levels == {"task": 50, "rollout": 4}
    assert row.advice == "one row per level of rollout, with two or more trials in some of them"


# --------------------------------------------------------------------------- what is one level


def test_a_one_level_facet_leaves_sets_but_not_names() -> None:
    table = crossed(task=6, run=3, judge=2).assign(system="only")
    study = study_of("task", within("run", "system", "task"), "judge", object="system")
    found = checked(study, table)
    rollout = found.component("run")
    assert rollout.name == "system:task:run"
    assert rollout.facets == sets("task", "run")
    assert found.sampled == ("task", "run", "judge")
    assert found.rules == ((sets("run"), sets("task", "run")),)
    assert found.not_sampled == {"system": "only"}
    # The object keeps its column: a rate per system is always known.
    assert found.cells.facets == ("system", "task", "run", "judge")


def test_a_nested_facet_in_a_one_level_parent_is_like_a_crossed_one() -> None:
    table = crossed(page=6, run=2).assign(snapshot="v3")
    study = study_of("snapshot", within("page", "snapshot"), within("run", "page"))
    found = checked(study, table)
    assert verdicts(found) == {
        "snapshot": "not sampled",
        "snapshot:page": "estimable",
        "snapshot:page:run": "inside residual",
    }
    assert found.component("page").facets == sets("page")
    assert found.rules == ()
    assert found.facet_levels["page"] == 6


def test_parents_of_a_kept_component_are_not_kept_with_it() -> None:
    table = crossed(page=6).assign(snapshot="v3")
    study = study_of("snapshot", within("page", "snapshot"), keep=["page"])
    found = checked(study, table)
    assert found.component("page").facets == sets("page")
    assert found.component("page").prior_only
    assert found.not_sampled == {"snapshot": "v3"}


def test_a_kept_interaction_with_a_one_level_facet_is_merged_with_what_it_splits_like() -> None:
    table = crossed(task=6, run=3).assign(judge="gpt")
    study = study_of(
        "task", within("run", "task"), "judge", interactions=["task:judge"], keep=["task:judge"]
    )
    found = checked(study, table)
    assert verdicts(found)["task"] == "merged with task:judge"
    [component] = found.components
    assert component.name == "task + task:judge"
    assert component.facets == sets("task", "judge")
    assert not component.prior_only


# ------------------------------------------------------------------------------------- merging


def test_rollouts_without_repeats_are_merged_with_their_tasks() -> None:
    # One rollout a task, each scored by five judges: the rows split by task as by rollout.
    table = crossed(task=8, judge=5).assign(rollout=0)
    study = study_of("task", within("rollout", "task"), gs.Facet("judge", role="error"))
    found = checked(study, table)
    assert verdicts(found)["task"] == "merged with task:rollout"
    assert verdicts(found)["task:rollout"] == "merged with task"
    joint = found.component("task")
    assert joint is found.component("rollout")
    assert joint.name == "task + task:rollout"
    assert joint.merged == (sets("task"), sets("task", "rollout"))
    assert joint.facets == sets("task", "rollout")
    assert (sets("task"), sets("task", "rollout")) in found.rules
    assert (sets("rollout"), sets("task", "rollout")) in found.rules
    [first, *_] = [row for row in found.rows if row.component == joint.name]
    assert first.advice == "two or more levels of rollout within a level of task"
    assert found.not_sampled == {}


def test_facets_that_are_one_to_one_are_merged() -> None:
    table = crossed(task=5, system=6)
    table["harness"] = table["system"] + 100
    study = study_of("task", "harness", object="system")
    found = checked(study, table)
    assert verdicts(found)["system"] == "merged with harness"
    joint = found.component("harness")
    assert joint.name == "system + harness"
    assert set(found.rules) == {
        (sets("system"), sets("system", "harness")),
        (sets("harness"), sets("system", "harness")),
    }
    # It holds the object's variance, so it has the object's prior.
    assert joint.prior == Prior("HalfNormal", {"sigma": 2.0})
    [row, _] = [row for row in found.rows if row.component == joint.name]
    assert row.advice == "some levels of system with more than one level of harness"


def test_what_cannot_be_told_apart_in_one_set_can_be_in_none() -> None:
    table = crossed(task=6, judge=4, repeat=3).assign(rollout=0)
    study = study_of(
        "task",
        within("rollout", "task"),
        "judge",
        within("repeat", "rollout", "judge"),
        interactions=["task:judge"],
    )
    found = checked(study, table)
    assert found.component("task:judge").name == "task:judge"
    # Every set with a task holds its rollout; also where "auto" did not say so.
    assert found.component("task:judge").facets == sets("task", "rollout", "judge")


def test_interactions_that_split_alike_are_merged() -> None:
    table = crossed(task=6, judge=5, repeat=3).assign(rollout=0)
    study = study_of(
        "task", within("rollout", "task"), "judge", within("repeat", "rollout", "judge")
    )
    found = checked(study, table)
    assert verdicts(found)["task:judge"] == "merged with task:rollout:judge"
    assert found.component("task:judge").merged == (
        sets("task", "judge"),
        sets("task", "rollout", "judge"),
    )


def test_a_listed_interaction_that_is_not_crossed_is_merged() -> None:
    table = crossed(system=6, run=4)
    table["place"] = table["system"] % 2
    study = study_of("system", "place", within("run", "system"), interactions=["system:place"])
    found = checked(study, table)
    assert verdicts(found)["system"] == "merged with system:place"
    assert found.component("place").facets == sets("place")
    assert found.component("system").facets == sets("system", "place")


# -------------------------------------------------------------------------------- interactions


def panel_with_auto() -> Assessment:
    study, trials = gs.example("panel")
    tables = study.to_dict()
    tables["model"]["interactions"] = "auto"
    return checked(gs.Study.from_dict(tables), trials)


def test_auto_takes_pairs_with_cells_and_trials_enough() -> None:
    found = panel_with_auto()
    interactions = {row.name: row.verdict for row in found.rows if row.asked == "auto"}
    assert interactions == {
        "system:task": "estimable",
        "system:snapshot": "estimable",
        "system:judge": "estimable",
        "task:snapshot": "estimable",
        "task:judge": "estimable",
        "snapshot:judge": "too few cells",
        "system:task:snapshot:rollout:judge": "too few trials per cell",
    }
    reasons = {row.name: row.reason for row in found.rows}
    assert reasons["snapshot:judge"] == "4 cells, under 5"
    assert reasons["system:task:snapshot:rollout:judge"] == "1.0 trials per cell, under 2"


@pytest.mark.parametrize(
    ("n_judges", "n_runs", "verdict"),
    [(2, 4, "too few cells"), (3, 2, "estimable"), (3, 1, "too few trials per cell")],
)
def test_the_edges_of_auto(n_judges: int, n_runs: int, verdict: str) -> None:
    table = crossed(task=2, judge=n_judges, run=n_runs)
    study = study_of("task", "judge", within("run", "task", "judge"))
    assert verdicts(checked(study, table))["task:judge"] == verdict


def test_auto_does_not_take_what_is_not_crossed() -> None:
    table = crossed(system=6, run=4)
    table["place"] = table["system"] % 2
    found = checked(study_of("system", "place", within("run", "system")), table)
    [row] = [row for row in found.rows if row.name == "system:place"]
    assert row.verdict == "not crossed"
    assert row.reason == "each level of system has one level of place"
    assert row.advice == "levels of system with more than one level of place"
    assert row.component is None
    assert [c.name for c in found.components] == ["system", "place"]


def test_no_interactions_and_listed_ones() -> None:
    _, trials = gs.example("panel")
    facets = gs.example("panel")[0].facets
    none = gs.Study(score="passed", object="system", facets=facets, interactions="none")
    assert [row.name for row in checked(none, trials).rows] == [
        "system",
        "task",
        "snapshot",
        "judge",
        "system:task:snapshot:rollout",
    ]
    listed = gs.Study(
        score="passed", object="system", facets=facets, interactions=["judge:snapshot"]
    )
    found = checked(listed, trials)
    # A listed one is fitted, however few its cells.
    assert found.component("snapshot:judge").verdict == "weak"
    assert "system:task" not in verdicts(found)


def test_a_listed_interaction_inside_the_residual_is_refused_and_kept_on_request() -> None:
    table = crossed(task=6, judge=5)
    study = study_of("task", "judge", interactions=["task:judge"])
    with pytest.raises(DeclarationError, match="task:judge', which is inside residual: one trial"):
        gs.check(study, table)
    kept = study_of("task", "judge", interactions=["task:judge"], keep=["task:judge"])
    found = checked(kept, table)
    assert found.component("task:judge").prior_only
    assert verdicts(found)["task:judge"] == "kept, prior only"


def test_keep_takes_an_interaction_that_auto_leaves_out() -> None:
    table = crossed(task=2, judge=2, run=3)
    facets = ("task", "judge", within("run", "task", "judge"))
    assert verdicts(checked(study_of(*facets), table))["task:judge"] == "too few cells"
    kept = checked(study_of(*facets, keep=["task:judge"]), table)
    assert verdicts(kept)["task:judge"] == "weak"
    assert not kept.component("task:judge").prior_only


# --------------------------------------------------------------------- priors and declarations


def test_default_priors_follow_levels_and_the_object() -> None:
    found = checked(*gs.example("panel"))
    sigma = {component.name: component.prior.sigma for component in found.components}
    assert sigma["system"] == 2.0
    assert sigma["task"] == 5.0
    assert sigma["judge"] == sigma["snapshot"] == 1.0
    assert sigma["system:task:snapshot:rollout"] == 5.0


def test_own_priors_replace_the_defaults_and_are_shown() -> None:
    priors = {
        "mu": {"dist": "Normal", "mu": 1, "sigma": 2},
        "sd(task)": {"dist": "HalfNormal", "sigma": 0.5},
    }
    found = checked(study_of("task", within("run", "task"), priors=priors), crossed(task=9, run=2))
    assert found.components[0].prior.sigma == 0.5
    assert "HalfNormal(0.5)" in str(found)
    assert "mu ~ Normal(1, 2)" in str(found)


def test_a_prior_without_its_component_is_refused() -> None:
    priors = {"sd(run)": {"dist": "HalfNormal", "sigma": 1}}
    study = study_of("task", within("run", "task"), priors=priors)
    with pytest.raises(DeclarationError, match=r"sd\(task:run\)' is the prior of a component that"):
        gs.check(study, crossed(task=9, run=2))


def test_a_prior_of_one_merged_set_is_that_of_the_whole_and_two_must_agree() -> None:
    table = crossed(task=8, judge=5).assign(rollout=0)
    one = {"sd(task)": {"dist": "HalfNormal", "sigma": 0.7}}
    facets = ("task", within("rollout", "task"), "judge")
    assert checked(study_of(*facets, priors=one), table).component("task").prior.sigma == 0.7
    two = {**one, "sd(rollout)": {"dist": "HalfNormal", "sigma": 0.8}}
    with pytest.raises(DeclarationError, match="one in the data, and cannot have two priors"):
        gs.check(study_of(*facets, priors=two), table)


def test_a_controlled_facet_with_one_level_is_pinned() -> None:
    table = crossed(task=5, run=2).assign(version="v1")
    controlled = gs.Facet("version", role="controlled")
    found = checked(study_of("task", within("run", "task"), controlled), table)
    assert found.pinned == {"version": "v1"}
    assert found.not_sampled == {}
    assert "version" not in verdicts(found)
    assert "Pinned: version = v1." in str(found)


def test_a_pinned_facet_cannot_be_kept() -> None:
    facets = ["task", gs.Facet("version", role="controlled")]
    table = crossed(task=5).assign(version="v1")
    study = study_of(*facets, interactions=["task:version"], keep=["task:version"])
    with pytest.raises(DeclarationError, match="keep names the controlled facet 'version'"):
        gs.check(study, table)


def test_nothing_left_out_is_no_warning() -> None:
    table = crossed(task=6, judge=5, run=2)
    study = study_of("task", "judge", within("run", "task"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert all(row.fitted for row in gs.check(study, table).rows if row.asked == "facet")


# ------------------------------------------------------------------------- the assessment itself


def test_levels_of_nested_facets_are_counted_within_their_parents() -> None:
    table = crossed(task=4, run=3)
    found = checked(study_of("task", within("run", "task")), table[:-1])
    assert found.facet_levels == {"task": 4, "run": 11 / 4}
    assert not found.layout.balanced


def test_memory_counts_what_is_stored() -> None:
    found = checked(*gs.example("airline"))
    assert found.memory(draws=1000, chains=4) == 8 * 4000 * (50 + 1 + 1)
    table = pd.DataFrame({"task": np.repeat(np.arange(6000), 2), "run": [1, 2] * 6000})
    study = study_of("task", within("run", "task"))
    large = checked(study, table.assign(score=0))
    # Over 5,000 levels only mean and sd of each effect are stored.
    assert large.memory(draws=10, chains=2) == 8 * (20 * 2 + 2 * 6000)


@pytest.mark.parametrize("name", ["rollout", "task:rollout:system:snapshot", "snapshot:rollout"])
def test_a_component_is_found_under_each_of_its_names(name: str) -> None:
    found = checked(*gs.example("panel"))
    assert found.component(name).name == "system:task:snapshot:rollout"


def test_a_component_that_is_not_fitted_says_why() -> None:
    found = panel_with_auto()
    message = "'snapshot:judge' is not in the model: too few cells, 4 cells, under 5.*collect more"
    with pytest.raises(QuantityError, match=message):
        found.component("judge:snapshot")
    with pytest.raises(QuantityError, match=r"no component is named 'taks'.*Did you mean 'task'"):
        found.component("taks")


def test_the_summary_has_a_row_per_set() -> None:
    summary = checked(*gs.example("panel")).summary()
    assert summary.index.name == "component"
    assert list(summary.columns) == [
        "levels",
        "trials_per_level",
        "verdict",
        "reason",
        "fitted_as",
        "prior",
        "collect",
    ]
    assert summary.loc["system", "prior"] == "HalfNormal(sigma=2)"
    assert summary.loc["judge", "collect"] == "3 more levels of judge"


def test_the_report_is_eighty_columns_wide_and_complete() -> None:
    found = panel_with_auto()
    text = str(found)
    assert max(map(len, text.splitlines())) <= 80
    for part in (
        "panel.csv.gz: 4,320 usable trials, balanced.",
        "Model: 10 components, 4,320 binomial cells; 4 x 1,000 draws take 92 MB.",
        "mu ~ Normal(0, 3)",
        "- snapshot:judge: too few cells (4 cells, under 5)",
        "Collect 3 more levels of judge.",
    ):
        assert part in re.sub(r"\n  ", " ", text)
    assert repr(found) == text


def test_tables_go_out_as_json_and_html() -> None:
    table = crossed(task=6, run=2).assign(system="<b>one</b>")
    found = checked(study_of("task", within("run", "task"), object="system"), table)
    assert set(found.tables()) == {"components", "nested", "collect"}
    rows = found.tables()["components"].json()["rows"]
    assert [row[0] for row in rows] == ["system", "task", "task:run"]
    page = found._repr_html_()
    assert "&lt;b&gt;one&lt;/b&gt;" in page
    assert "<b>one" not in page


def test_labels_and_names_that_look_like_something_else_stay_text() -> None:
    odd = ["a|b", "[red]", "{0}", "x\ty", "日本", "%s"]
    table = grid({"ta.sk": odd, "run": [1, 2]}).assign(judge="[bold]{x}")
    found = checked(study_of("ta.sk", within("run", "ta.sk"), "judge"), table)
    assert found.cells.labels["ta.sk"] == tuple(sorted(odd))
    assert "[bold]{x}" in str(found)


# ------------------------------------------------------------------------------------ real data


def rollouts_of(*more: str | gs.Facet, **rest: object) -> gs.Study:
    nested = within("rollout", "system", "task")
    return study_of("task", nested, *more, object="system", **rest)


def test_metr_runs(shared: Path) -> None:
    found = checked(rollouts_of(), shared / "data" / "metr_horizon_runs.csv.gz")
    assert {c.name: c.n_levels for c in found.components} == {
        "system": 11,
        "task": 83,
        "system:task": 838,
    }
    assert (found.n_trials, len(found.cells.trials)) == (7059, 838)
    [pair] = [p for p in found.layout.pairings if p.how == "partly crossed"]
    assert (pair.filled, pair.possible) == (838, 913)
    assert (pair.least, pair.median, pair.most) == (1, 8, 96)


def test_metr_task_families_are_noticed(shared: Path) -> None:
    study = rollouts_of("task_family", interactions="none")
    found = checked(study, shared / "data" / "metr_horizon_runs.csv.gz")
    [note] = found.notes
    assert note.startswith(
        "each task occurs under one task_family only ('ai_rd_fix_embedding/main'"
    )
    assert note.endswith('[facets.task] nested_in = ["task_family"].')


def test_gpqa_epochs(shared: Path) -> None:
    found = checked(rollouts_of(), shared / "data" / "gpqa_diamond_epochs.csv.gz")
    assert found.layout.balanced
    assert found.facet_levels == {"system": 2, "task": 198, "rollout": 5}
    assert verdicts(found) == {
        "system": "weak",
        "task": "estimable",
        "system:task": "estimable",
        "system:task:rollout": "inside residual",
    }


def test_tau2_judges(shared: Path) -> None:
    study = study_of(
        "environment",
        within("task", "environment"),
        within("rollout", "system", "task"),
        gs.Facet("judge", role="error"),
        object="system",
        on_missing_score="drop",
    )
    found = checked(study, shared / "data" / "tau2_multijudge.csv.gz")
    assert [c.name for c in found.components] == [
        "environment",
        "judge",
        "environment:task + system:environment:task:rollout",
        "environment:judge",
    ]
    assert found.not_sampled == {"system": "gpt-4o-2024-11-20 (llm_agent)"}
    assert found.component("rollout").facets == sets("environment", "task", "rollout")
    assert found.notes == ("1 row never scored, dropped (gpt-4o-2024-11-20 (llm_agent): 1)",)


def test_report_says_what_a_rerun_draws_anew() -> None:
    def said(study: gs.Study, **levels: Sequence[object]) -> str:
        return " ".join(str(checked(study, grid(levels))).split())

    levels = {"system": "AB", "task": range(6), "run": range(3), "judge": "pq"}
    judge = gs.Facet("judge", role="error")
    declared = study_of("task", within("run", "system", "task"), judge, object="system")
    text = said(declared, **levels)
    assert "A re-run draws anew: run; it keeps task, judge." in text
    assert "If not so" not in text
    places = {"place": "xyz", "task": range(6)}
    nested = ["place", within("task", "place")]
    assert (
        "A re-run draws anew: task; it keeps place. If not so, declare "
        'rollout = "<facet>" or "none" above the facets.'
    ) in said(study_of(*nested), **places)
    assert (
        "A re-run draws anew: only the chance of each trial; it keeps place, task. Components"
    ) in said(study_of(*nested, rollout="none"), **places)
    assert "A re-run draws anew: place, task. " in said(
        study_of(*nested, rollout="place"), **places
    )
