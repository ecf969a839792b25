"""A study guessed from trials: what columns are taken for, the file it makes, what it refuses."""

from __future__ import annotations

import gzip
import json
import tomllib
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import gstudy as gs
from gstudy.errors import DataError, DeclarationError
from gstudy.study.estimable import assess
from gstudy.study.guessing.column_words import ROLLOUTS, TASKS, best, normal_name, place
from gstudy.study.guessing.seen_columns import _of_large

# What each data set of the folder is guessed to be: facet to role and parents; families.
GRADED = {"classic_brennan_3_2", "classic_insteval", "hibayes_judges", "livebench_2025_01"}
GRADED |= {"pandalm_pairs", "statnlp_annotation_gstudy"}
PANEL = {"system": "object", "task": "legitimate", "rollout": "legitimate in system, task"}
EXPECTED: dict[str, dict[str, str]] = {
    "classic_brennan_3_2": PANEL | {"judge": "error in task", "benchmark": "controlled"},
    "classic_insteval": {
        "system": "object",
        "environment": "controlled",
        "judge": "error",
        "benchmark": "controlled",
    },
    "classic_verbagg": PANEL | {"benchmark": "controlled"},
    "cruxeval_codellama7b": PANEL
    | {"environment": "controlled", "rollout": "legitimate in system, task, environment"}
    | {"benchmark": "controlled"},
    "gpqa_diamond_epochs": PANEL | {"benchmark": "controlled"},
    "hibayes_judges": PANEL
    | {"environment": "controlled", "task": "legitimate in environment", "judge": "error"},
    "highk_aime2024_cot": PANEL,
    "highk_human_eval_plus": PANEL,
    "livebench_2025_01": PANEL,
    "llmbar_judges": PANEL
    | {"environment": "legitimate", "order": "legitimate", "benchmark": "controlled"}
    | {"rollout": "legitimate in system, task, environment, order"},
    "metr_horizon_runs": PANEL,
    "pandalm_pairs": PANEL | {"judge": "error", "benchmark": "controlled"},
    "statnlp_annotation_gstudy": {
        "task": "legitimate",
        "environment": "controlled",
        "rollout": "legitimate in task, environment",
        "judge": "error",
        "benchmark": "controlled",
    },
    "tau2_multijudge": PANEL
    | {"environment": "controlled", "task": "legitimate in environment", "judge": "error"}
    | {"benchmark": "controlled"},
    "tau2_onetrial_systems": PANEL
    | {"environment": "controlled", "rollout": "legitimate in system, task, environment"}
    | {"benchmark": "controlled"},
    "taubench_gpt4o_airline": PANEL | {"environment": "controlled"},
}


def crossed(**levels: Sequence[Any]) -> pd.DataFrame:
    """One row for every combination of labels, with scores that are no function of them."""
    frame = pd.DataFrame(list(product(*levels.values())), columns=list(levels))
    return frame.assign(passed=np.random.default_rng(0).integers(0, 2, len(frame)))


def roles(study: gs.Study) -> dict[str, str]:
    return {
        facet.name: facet.role + (f" in {', '.join(facet.nested_in)}" if facet.nested_in else "")
        for facet in study.facets
    }


def columns(study: gs.Study) -> dict[str, str]:
    return {facet.name: facet.source_column for facet in study.facets}


def reread(frame: pd.DataFrame, folder: Path) -> gs.Study:
    """The study of the written file, whose check must accept the table."""
    guess = gs.guess_study(frame)
    study = gs.Study.from_toml(guess.write(folder / "study.toml"))
    assert study == guess.study
    assess(study, frame)
    return study


# ---------------------------------------------------------------- names


def test_names_are_compared_by_their_words() -> None:
    assert [normal_name(name) for name in ("Task ID", "modelName", "is-correct", "#")] == [
        "task_id",
        "model_name",
        "is_correct",
        "",
    ]
    assert place("Task ID", TASKS) == (0, 1)
    assert place("costume", TASKS) is None
    assert best(["seed", "epoch", "rollout_idx"], ROLLOUTS) == ["rollout_idx", "epoch", "seed"]


def test_facets_get_their_own_names_and_keep_their_columns(tmp_path: Path) -> None:
    frame = crossed(Model=["a", "b"], item_id=range(6), epoch=[1, 2], Grader=["x", "y"])
    study = reread(frame, tmp_path)
    assert roles(study) == PANEL | {"judge": "error"}
    assert columns(study) == {
        "system": "Model",
        "task": "item_id",
        "rollout": "epoch",
        "judge": "Grader",
    }
    assert (study.score, study.family, study.object) == ("passed", "binary", "system")


# ---------------------------------------------------------------- scores


@pytest.mark.parametrize(
    ("values", "family"),
    [
        ([True, False], "binary"),
        (["True", "false"], "binary"),
        ([1.0, None], "binary"),
        ([0, 5], "gaussian"),
        (["0.25", "1"], "gaussian"),
    ],
)
def test_the_family_follows_the_values(values: list[Any], family: str) -> None:
    frame = pd.DataFrame({"task": ["a", "b"], "correct": values})
    assert gs.guess_study(frame).study.family == family


def test_the_likeliest_score_is_taken_and_the_others_are_told() -> None:
    frame = crossed(task=range(4), epoch=[1, 2]).rename(columns={"passed": "score_binary"})
    guess = gs.guess_study(frame.assign(score=np.linspace(1, 5, 8), max_score=5))
    assert (guess.study.score, guess.other_scores) == ("score", ("score_binary",))
    assert guess.doubts == ("the score could also be score_binary",)
    assert '# score = "score_binary"   # another column that could be the score' in guess.toml()


def test_a_score_is_found_by_a_word_of_its_name() -> None:
    frame = crossed(task=range(4), epoch=[1, 2]).rename(columns={"passed": "test_passed"})
    assert gs.guess_study(frame).study.score == "test_passed"


@pytest.mark.parametrize(
    ("successes", "trials"), [("passes", "rollouts"), ("k", "n"), ("n_correct", "total")]
)
def test_counts_are_known(successes: str, trials: str, tmp_path: Path) -> None:
    frame = pd.DataFrame({"model": ["a", "a", "b"], "task": [1, 2, 1], successes: [0, 3, 4]})
    study = reread(frame.assign(**{trials: 4}), tmp_path)
    assert (study.successes, study.trials, study.counted) == (successes, trials, "rollout")
    assert roles(study) == PANEL


def test_what_is_larger_than_its_total_is_no_count() -> None:
    frame = pd.DataFrame({"task": [1, 2, 3], "score": [5, 9, 2], "n": [4, 4, 4]})
    study = gs.guess_study(frame).study
    assert (study.score, study.trials, study.family) == ("score", None, "gaussian")


def test_known_errors_and_means_of_runs_are_told() -> None:
    frame = pd.DataFrame({"task": list("abcd"), "score": [0.25, 0.5, 0.75, 1.0]})
    assert "if they are means over several runs" in gs.guess_study(frame).doubts[0]
    guess = gs.guess_study(frame.assign(stderr=[0.1, 0.2, 0.1, 0.1]))
    assert guess.study.standard_error == "stderr"
    assert "stderr is taken as the known standard error" in guess.doubts[0]
    assert gs.guess_study(frame.assign(stderr=[0.1, 0, 0.1, 0.1])).study.standard_error is None


# ---------------------------------------------------------------- facets


def test_a_panel_without_systems_has_no_object() -> None:
    study = gs.guess_study(crossed(question=range(5), attempt=[1, 2])).study
    assert study.object is None
    assert roles(study) == {"task": "legitimate", "rollout": "legitimate in task"}


def test_attributes_of_tasks_and_systems_are_left_out() -> None:
    frame = crossed(model=["a", "b"], task=range(6), epoch=[1, 2])
    frame = frame.assign(
        domain=frame["task"] % 3,
        difficulty=frame["task"] % 2,
        vendor=frame["model"].map({"a": "X", "b": "Y"}),
        cost=np.linspace(0.1, 2, 24),
        tokens=range(24),
        timestamp=[f"2026-01-{1 + i:02d}T00:00:00" for i in range(24)],
        transcript=[f"{'long ' * 40}{i % 5}" for i in range(24)],
        uuid=[f"u{i}" for i in range(24)],
        release="2026-01",
        notes=None,
    )
    guess = gs.guess_study(frame)
    assert roles(guess.study) == PANEL
    assert guess.left_out == {
        "domain": "an attribute of task: each one has one value",
        "difficulty": "an attribute of task: each one has one value",
        "vendor": "tells the same rows apart as system",
        "cost": "a value of its own in every row",
        "tokens": "a value of its own in every row",
        "timestamp": "dates or times",
        "transcript": "free text",
        "uuid": "a value of its own in every row",
        "release": "one value, '2026-01'",
        "notes": "empty",
    }


def test_tasks_of_one_environment_are_nested_in_it() -> None:
    frame = crossed(system=["a", "b"], task=range(12), rollout=[1, 2])
    frame["environment"] = frame["task"] // 6
    study = gs.guess_study(frame).study
    assert roles(study) == PANEL | {
        "environment": "controlled",
        "task": "legitimate in environment",
    }


def test_labels_that_environments_share_are_one_task_unless_they_count() -> None:
    named = crossed(system=["a", "b"], environment=["x", "y"], task=["t1", "t2", "t3"], epoch=[1])
    assert roles(gs.guess_study(named).study)["task"] == "legitimate"
    counted = gs.guess_study(named.assign(task=named["task"].str[1:]))
    assert roles(counted.study)["task"] == "legitimate in environment"
    assert "tasks have the same labels in several levels of environment" in counted.doubts[0]


def test_benchmarks_in_a_column_of_tasks_hold_the_finer_tasks() -> None:
    frame = crossed(model=["a", "b"], task=["mmlu", "gpqa"], sample_id=range(8), epoch=[1, 2])
    study = gs.guess_study(frame).study
    assert columns(study) == {
        "system": "model",
        "benchmark": "task",
        "task": "sample_id",
        "rollout": "epoch",
    }
    assert study.parents["task"] == ("benchmark",)


def test_conditions_hold_rollouts_and_few_named_ones_are_controlled() -> None:
    frame = crossed(
        system=["a", "b"], task=["p", "q"], snapshot=[1, 2], language=["en", "de"], run=[1, 2]
    )
    found = roles(gs.guess_study(frame).study)
    assert found["snapshot"] == "legitimate"
    assert found["language"] == "controlled"
    assert set(found["rollout"].split(" in ")[1].split(", ")) == {
        *("system", "task", "snapshot", "language")
    }


def test_a_condition_that_each_system_has_one_of_is_no_facet() -> None:
    frame = crossed(system=["a", "b", "c"], task=range(5), rollout=[1, 2])
    frame["harness"] = frame["system"].map({"a": "h1", "b": "h1", "c": "h2"})
    guess = gs.guess_study(frame)
    assert roles(guess.study) == PANEL
    assert guess.left_out["harness"] == "an attribute of system: each one has one value"


def test_tasks_that_no_two_systems_share_are_nested_in_them() -> None:
    frame = crossed(system=["a", "b"], task=range(6), rollout=[1, 2])
    frame["task"] = frame["system"] + frame["task"].astype(str)
    guess = gs.guess_study(frame)
    assert guess.study.parents["task"] == ("system",)
    assert "no task was given to two systems" in guess.doubts[0]


def test_groups_of_systems_are_no_tasks() -> None:
    frame = crossed(system=list("abcdef"), judge=range(4))
    frame["task"] = frame["system"].map(lambda label: "x" if label < "d" else "y")
    guess = gs.guess_study(frame)
    assert roles(guess.study) == {"system": "object", "judge": "error"}
    assert "each system has one task" in guess.doubts[0]


def test_judges_that_rate_one_task_are_nested_in_it() -> None:
    frame = crossed(system=["a", "b", "c"], task=["p", "q"], rater=range(3))
    frame["rater"] = frame["task"] + frame["rater"].astype(str)
    assert roles(gs.guess_study(frame).study)["judge"] == "error in task"


def test_one_judge_for_each_task_cannot_be_told_from_it() -> None:
    frame = crossed(system=["a", "b"], task=range(6), epoch=[1, 2])
    guess = gs.guess_study(frame.assign(judge=frame["task"] % 2))
    assert roles(guess.study) == PANEL
    assert "each level of task was scored by one judge" in guess.doubts[0]


def test_environments_and_judges_of_which_there_is_one_are_recorded() -> None:
    frame = crossed(system=["a", "b"], task=range(4), epoch=[1, 2])
    found = gs.guess_study(frame.assign(dataset="d", judge="gpt"))
    assert roles(found.study) == PANEL | {"dataset": "controlled", "judge": "controlled"}


def test_metrics_of_one_response_are_no_replication() -> None:
    frame = crossed(system=["a", "b"], task=range(4), filter=["strict", "flexible"])
    guess = gs.guess_study(frame)
    assert roles(guess.study)["filter"] == "controlled"
    assert "scores the same responses 2 times, which is no replication" in guess.doubts[0]


def test_columns_with_missing_labels_are_no_facets() -> None:
    frame = crossed(model=["a", "b"], task=range(6), epoch=[1, 2])
    frame["agent"] = [None, *("x" for _ in range(23))]
    frame["judge"] = ["", "j", *["k"] * 22]
    guess = gs.guess_study(frame)
    assert roles(guess.study) == PANEL
    assert guess.left_out["agent"] == guess.left_out["judge"] == "no value in 1 rows"


# ---------------------------------------------------------------- what tells repeated rows apart


def test_an_id_of_its_own_in_every_row_numbers_repeated_runs() -> None:
    frame = pd.concat([crossed(model=["a", "b"], task=range(4))] * 3, ignore_index=True)
    guess = gs.guess_study(frame.assign(uuid=[f"u{i}" for i in range(24)]))
    assert roles(guess.study) == PANEL
    assert columns(guess.study)["rollout"] == "uuid"
    assert "uuid tells them apart, and is taken for repeated runs" in guess.doubts[0]


def test_a_second_thing_that_was_varied_is_a_facet() -> None:
    frame = crossed(model=["a", "b"], agent=["x", "y"], task=range(4), epoch=[1, 2])
    study = gs.guess_study(frame).study
    assert roles(study)["agent"] == "legitimate"
    assert study.parents["rollout"] == ("system", "task", "agent")


def test_runs_within_runs_are_nested() -> None:
    study = gs.guess_study(
        crossed(model=["a", "b"], task=range(4), seed=[7, 8], epoch=[1, 2])
    ).study
    assert study.parents["seed"] == ("system", "task")
    assert study.parents["rollout"] == ("seed",)
    assert study.redrawn_on_rerun() == {"seed", "rollout"}


def test_what_nothing_known_tells_apart_may_be_what_is_measured() -> None:
    guess = gs.guess_study(crossed(thing=["a", "b"], task=range(4)))
    assert columns(guess.study) == {"task": "task", "rollout": "thing"}
    assert guess.doubts[0].endswith('if it is what is measured, give it role = "object"')


def test_prompts_beside_tasks_are_conditions() -> None:
    frame = crossed(model=["a", "b"], task=range(8), prompt=["p", "q"], epoch=[1, 2])
    study = gs.guess_study(frame).study
    assert study.parents["task"] == study.parents["prompt"] == ()
    assert study.parents["rollout"] == ("system", "task", "prompt")
    alone = gs.guess_study(frame[frame["task"] == 0].drop(columns="task")).study
    assert columns(alone) == {"system": "model", "task": "prompt", "rollout": "epoch"}


def test_two_runs_in_two_files_are_told_apart_by_their_file() -> None:
    frame = crossed(system=["a", "b"], file=["one", "two"], task=range(4), rollout=[1, 2])
    frame["file"] = frame["system"] + frame["file"]
    study = gs.guess_study(frame).study
    assert roles(study)["run"] == "legitimate in system"
    assert study.parents["rollout"] == ("task", "run")


def test_a_column_without_a_known_name_may_be_the_task() -> None:
    frame = crossed(model=["a", "b"], thing=list("uvw"), epoch=[1, 2])
    guess = gs.guess_study(frame)
    assert columns(guess.study) == {"system": "model", "task": "thing", "rollout": "epoch"}
    assert guess.study.parents["rollout"] == ("system", "task")
    assert guess.doubts == ("no column has the name of a task: thing is taken for it",)


def test_rows_that_nothing_tells_apart_are_refused() -> None:
    frame = pd.concat([crossed(model=["a", "b"], task=range(4))] * 2)
    with pytest.raises(DataError, match=r"8 of 16 rows repeat an earlier one on model, task.*cumc"):
        gs.guess_study(frame)


# ---------------------------------------------------------------- failed runs and missing scores


def failing(reasons: Mapping[int, str], **scores: Any) -> pd.DataFrame:
    frame = crossed(system=["a"], task=range(10), rollout=[1, 2])
    frame["passed"] = scores.get("passed", [1.0] * 10 + [0.0] * 10)
    frame["outcome"] = ["failed" if i in reasons else "scored" for i in range(20)]
    frame["reason"] = [reasons.get(i, "") for i in range(20)]
    frame.loc[list(reasons), "passed"] = np.nan
    return frame


def test_failed_runs_count_as_incorrect_and_both_scores_are_shown(tmp_path: Path) -> None:
    frame = failing({0: "timeout", 19: "timeout"})
    guess = gs.guess_study(frame)
    assert reread(frame, tmp_path).on_failed_run == "incorrect"
    # 9 of 20 if two failures count as 0, 9 of 18 if they are dropped.
    told = "2 of 20 rows are failed runs: as incorrect the score is 45.0%, dropped 50.0%"
    assert told in guess.policy_reasons["on_failed_run"]
    assert '# on_failed_run = "drop"   # instead' in guess.toml()


def test_failures_from_outside_are_dropped_by_their_reason(tmp_path: Path) -> None:
    study = reread(failing({0: "token limit", 5: "API error", 6: 'odd "reason"\n'}), tmp_path)
    assert dict(study.on_failed_run) == {
        "token limit": "incorrect",
        "API error": "drop",
        'odd "reason"': "incorrect",
    }


def test_failed_runs_of_a_scale_without_0_are_dropped() -> None:
    guess = gs.guess_study(failing({3: ""}, passed=np.linspace(1, 5, 20)))
    assert guess.study.on_failed_run == "drop"
    assert "no score is as low as 0 (the lowest is 1)" in guess.policy_reasons["on_failed_run"]


def test_missing_scores_are_dropped_and_a_status_is_pointed_at(tmp_path: Path) -> None:
    frame = crossed(system=["a", "b"], task=range(5), rollout=[1, 2])
    frame["status"] = ["ok", "crash"] * 10
    frame["passed"] = frame["passed"].where(frame["status"] == "ok")
    guess = gs.guess_study(frame)
    assert reread(frame, tmp_path).on_missing_score == "drop"
    assert "10 of 20 rows have no score" in guess.policy_reasons["on_missing_score"]
    assert guess.doubts[0].startswith("status may say which runs failed.")
    assert "Rows without a score may be such." in guess.doubts[0]


# ---------------------------------------------------------------- the file


HOSTILE = (
    'a "b"',
    "a\nb",
    "facets.x",
    "a:b",
    "a'b",
    "a\\",
    "[facets.task]",
    "# a",
    "ä\u2028b",
    "=",
)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_and_labels_are_written_as_toml(name: str, tmp_path: Path) -> None:
    labels = [f"{name}{i}" for i in range(4)]
    frame = crossed(system=labels[:2], task=labels, rollout=[1, 2])
    frame = pd.concat([frame.assign(**{name: f"{name}1"}), frame.assign(**{name: f"{name}2"})])
    frame = frame.assign(**{f"{name} attribute": frame["task"]})
    study = reread(frame, tmp_path)
    assert name in columns(study).values()


@settings(max_examples=40, deadline=None)
@given(names=st.lists(st.text(max_size=12), min_size=1, max_size=4, unique=True))
@example(names=["", " ", "\x00", "\x7f"])
@example(names=["score", "task ", "residual", "mu"])
def test_any_names_give_a_file_that_means_the_same(names: list[str]) -> None:
    frame = crossed(passed_=[0], task=range(3), rollout=[1, 2]).drop(columns="passed_")
    frame["score"] = frame.pop("passed")
    for i, name in enumerate(names):
        if name not in frame:
            labels = [f"{name}{j % (i + 2)}" for j in range(6)]
            frame[name] = pd.Series(labels, dtype=object)
    guess = gs.guess_study(frame)
    assert gs.Study.from_dict(tomllib.loads(guess.toml())) == guess.study


def test_what_could_stand_instead_is_taken_too(tmp_path: Path) -> None:
    frame = crossed(system=["a", "b"], task=range(9), language=["x", "y"], epoch=[1, 2])
    frame = frame[(frame["task"] != 0) | (frame["epoch"] == 1)].reset_index(drop=True)
    lines = gs.guess_study(frame).toml().splitlines()
    instead = [i for i, line in enumerate(lines) if line.startswith("# ") and " = " in line]
    assert {lines[i].split(" ")[1] for i in instead} == {"average", "universe", "varies", "role"}
    for i in instead:
        key = lines[i].split(" ")[1]
        kept = [line for line in lines[max(i - 2, 0) : i] if not line.startswith(f"{key} = ")]
        text = "\n".join([*lines[: max(i - 2, 0)], *kept, lines[i][2:], *lines[i + 1 :]])
        study = gs.Study.from_dict(tomllib.loads(text))
        assert study != gs.guess_study(frame).study
        assess(study, frame)


def test_the_path_of_the_data_is_seen_from_the_file(tmp_path: Path) -> None:
    data = tmp_path / "data" / "trials.csv"
    data.parent.mkdir()
    crossed(task=range(4), epoch=[1, 2]).to_csv(data, index=False)
    guess = gs.guess_study(data)
    inside = guess.write(tmp_path / "study.toml")
    assert 'data = "data/trials.csv"' in inside.read_text(encoding="utf-8")
    beside = guess.write(tmp_path / "data" / "study.toml")
    assert 'data = "trials.csv"' in beside.read_text(encoding="utf-8")
    (tmp_path / "other").mkdir()
    outside = guess.write(tmp_path / "other" / "study.toml")
    for path in (inside, beside, outside):
        assert gs.Study.from_toml(path) == guess.study
    with pytest.raises(DataError, match=r"is there already\. Give another name"):
        guess.write(outside)
    with pytest.raises(DataError, match=r"cannot be written: No such file"):
        guess.write(tmp_path / "missing" / "study.toml")


def test_a_guess_is_shown_in_few_lines_and_as_a_table() -> None:
    frame = crossed(Model=["a", "b"], task=range(4), epoch=[1, 2]).assign(price=0.5)
    guess = gs.guess_study(frame)
    assert all(len(line) <= 80 for line in guess.lines())
    assert "  system    object, 2 labels (column Model)" in repr(guess)
    table = guess.table()
    assert list(table.frame.index) == ["score", "system", "task", "rollout"]
    assert table.frame.loc["rollout", "nested_in"] == "system, task"
    assert "not used: price (one value, '0.5')" in table.notes
    assert "<script>" not in gs.guess_study(frame.assign(judge="<script>"))._repr_html_()


# ---------------------------------------------------------------- sources


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".jsonl", ".jsonl.gz", ".parquet"])
def test_every_kind_of_file_is_read(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"trials{suffix}"
    frame = crossed(task=["a", "b"], epoch=[1, 2])
    if suffix == ".parquet":
        frame.to_parquet(path)
    else:
        lines = suffix.startswith(".jsonl")
        text = frame.to_json(orient="records", lines=True) if lines else frame.to_csv(index=False)
        data = text.encode("utf-8-sig")
        path.write_bytes(gzip.compress(data) if suffix.endswith(".gz") else data)
    guess = gs.guess_study(path)
    assert guess.study.facet_names == ("task", "rollout")
    assert guess.study.data == path
    assert len(gs.read_trials(guess.trials, guess.study)) == 4


def test_broken_unicode_of_json_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    rows = [{"task": i, "passed": i % 2, "\ud800": 1, "note": "\udcff"} for i in range(4)]
    path.write_text("\n".join(map(json.dumps, rows)))
    guess = gs.guess_study(path)
    assert guess.left_out == {"note": "one value, '\\udcff'", "\ud800": "not looked at"}
    guess.write(tmp_path / "study.toml")
    assert all(line.encode() for line in guess.lines())


def test_of_a_large_file_the_columns_with_known_names_are_looked_at(tmp_path: Path) -> None:
    frame = crossed(model=["a", "b"], task=range(50), epoch=[1, 2]).assign(transcript="long")
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=20)
    frame.to_csv(tmp_path / "t.csv", index=False)
    for name in ("t.parquet", "t.csv"):
        seen = _of_large(tmp_path / name, list(frame))
        assert list(seen.frame) == ["model", "task", "epoch", "passed"]
        assert len(seen.frame) == 200
        assert seen.unseen == ("transcript",)
        assert seen.notes[0].startswith("guessed from 200 rows of a large file")


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        ({"task": [1], "points_": ["x"]}, r"'points_' of DataFrame .* but holds 'x'.*from_frame"),
        ({"task": [1, 2], "correct": ["yes", "no"]}, r"df\['correct'\] == 'yes', the label"),
        # The label of a pass, whichever comes first; none that is a guess.
        ({"task": [1, 2], "correct": ["No", "Yes"]}, r"df\['correct'\] == 'Yes', the label"),
        (
            {"task": [1, 2], "correct": ["nein", "ja"]},
            r"df\['correct'\] == \.\.\., the label",
        ),
        (
            {"task": [1], "thing": ["x"]},
            r"no column of DataFrame has the name of a score\. Given: ",
        ),
        ({"task": [1, 2], "m1": [0, 1], "m2": [1, 0]}, r"only 0 and 1: 'm1', 'm2'\..*df\.melt"),
        ({"task": [1], "score": [None]}, r"no row of DataFrame has a score: 'score' is empty"),
        ({"epoch": [1, 2], "score": [0, 1]}, r"no column of DataFrame is known to be a task"),
    ],
)
def test_what_cannot_be_guessed_is_asked_for(frame: dict[str, Any], message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        gs.guess_study(pd.DataFrame(frame))


@pytest.mark.parametrize("name", ["missing.csv", "broken.csv.gz", "broken.parquet", "broken.jsonl"])
def test_files_that_cannot_be_read_are_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name.startswith("broken"):
        path.write_bytes(b"\xff\xfd not what the suffix says")
    with pytest.raises(DataError, match=r"cannot be read|No such file"):
        gs.guess_study(path)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("trials.csv", "", r"trials\.csv is empty\. Allowed: one row per trial"),
        ("trials.jsonl", "", r"trials\.jsonl is empty\. Allowed: one row per trial"),
        ("trials.csv", "task,passed\n", r"trials\.csv has no rows"),
        ("trials.csv", "task,task,passed\n1,1,1\n", r"column 'task' is there 2 times"),
        ("trials.jsonl", "5\n", r"trials\.jsonl is empty"),
        ("trials.xlsx", "", r"is neither trials, logs, a study nor a run.* Given: '\.xlsx'"),
    ],
)
def test_odd_files_are_refused(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=message):
        gs.guess_study(tmp_path / name)


def test_other_sources_are_refused() -> None:
    with pytest.raises(
        DataError, match=r"a study is guessed from trials\. Given: 'builtins\.dict'"
    ):
        gs.guess_study({"task": [1]})
    twice = pd.DataFrame([[1, 1, 1]], columns=["task", "task", "passed"])
    with pytest.raises(DataError, match=r"column 'task' is there 2 times"):
        gs.guess_study(twice)
    with pytest.raises(DataError, match=r"has no rows"):
        gs.guess_study(pd.DataFrame({"task": [], "passed": []}))


# ---------------------------------------------------------------- real data


@pytest.mark.reference
@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_real_data_are_guessed_and_the_check_accepts_them(
    name: str, shared: Path, tmp_path: Path
) -> None:
    path = shared / "data" / f"{name}.csv.gz"
    guess = gs.guess_study(path)
    assert roles(guess.study) == EXPECTED[name]
    assert guess.study.family == ("gaussian" if name in GRADED else "binary")
    study = gs.Study.from_toml(guess.write(tmp_path / "study.toml"))
    assert study == guess.study
    assert assess(study, path).components


@pytest.mark.reference
def test_a_folder_of_inspect_logs_is_guessed(shared: Path, tmp_path: Path) -> None:
    pytest.importorskip("inspect_ai")
    for path in (shared / "raw").glob("inspect_*.[ej]*"):
        (tmp_path / "logs" / path.name).parent.mkdir(exist_ok=True)
        (tmp_path / "logs" / path.name).write_bytes(path.read_bytes())
    guess = gs.guess_study(tmp_path / "logs")
    assert roles(guess.study) == {
        "system": "object",
        "benchmark": "controlled",
        "task": "legitimate in benchmark",
        "run": "legitimate in system, benchmark",
        "rollout": "legitimate in task, run",
    }
    assert guess.study.on_missing_score == "drop"
    study = gs.Study.from_toml(guess.write(tmp_path / "study.toml"))
    assert study == guess.study
    assert assess(study, guess.trials).n_trials == 630


@pytest.mark.reference
@pytest.mark.parametrize(
    "name",
    [
        "metr_all_runs_excerpt_50.jsonl",
        "tau2_ft-gpt-4.1_airline_1trial.json",
        "taubench_gpt4o_airline_3tasks.json",
    ],
)
def test_every_format_of_logs_is_guessed(name: str, shared: Path) -> None:
    guess = gs.guess_study(shared / "raw" / name)
    assert {key: value for key, value in roles(guess.study).items() if key in PANEL} == PANEL
    assert "file" in guess.left_out
    assess(guess.study, guess.trials)
