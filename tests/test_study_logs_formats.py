"""The formats besides Inspect: files found in the wild, and files built from public schemas."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import gstudy as gs
from gstudy.errors import DataError
from gstudy.study.logs import json_streams


def rows(table: pd.DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in table[list(columns)].itertuples(index=False)]


def lines(path: Path, records: list[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def document(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


# ---------------------------------------------------------------- tau-bench


@pytest.mark.reference
def test_tau_bench_excerpt(shared: Path) -> None:
    found = gs.read_logs(shared / "raw" / "taubench_gpt4o_airline_3tasks.json")
    table = pd.read_csv(shared / "data" / "taubench_gpt4o_airline.csv.gz", dtype=str)
    table = table[table["task"].isin(["airline_0", "airline_1", "airline_2"])]
    right = sorted(zip(table["task"].str[8:], table["rollout"], table["score"], strict=True))
    assert [
        (t, r, f"{s:g}") for t, r, s in sorted(rows(found, "task", "rollout", "score"))
    ] == right
    assert set(found["system"]) == {"taubench_gpt4o_airline_3tasks"}
    assert "`system` is the name of the file" in found.notes[0]


def test_tau_bench_rewards_and_errors(tmp_path: Path) -> None:
    def run(task: int, reward: Any, **info: Any) -> dict[str, Any]:
        return {"task_id": task, "reward": reward, "info": info, "traj": [], "trial": 2}

    runs = [
        run(0, 1.0, reward_info={}),
        run(1, 1 - 1e-9, reward_info={}),
        run(2, 0.5, reward_info={}),
        run(3, 0.0, error="Timeout('x')", traceback="..."),
        run(4, None, reward_info={}),
    ]
    found = gs.read_logs(document(tmp_path / "gpt-4o.json", runs))
    assert found["score"].tolist()[:4] == [1.0, 1.0, 0.5, 0.0]
    assert rows(found, "rollout", "outcome", "reason") == [
        *[("2", "scored", "")] * 3,
        ("2", "failed", "error"),
        ("2", "unscored", ""),
    ]
    assert found["detail"][3] == "Timeout('x')"
    study = gs.Study(score="score", facets=[gs.Facet("task", role="legitimate")])
    with pytest.raises(DataError, match=r"no score.*Given: 0\.5"):
        gs.read_trials(found.iloc[:3], study)


# ---------------------------------------------------------------- tau2-bench


@pytest.mark.reference
def test_tau2_bench_file(shared: Path) -> None:
    found = gs.read_logs(shared / "raw" / "tau2_ft-gpt-4.1_airline_1trial.json")
    table = pd.read_csv(shared / "data" / "tau2_onetrial_systems.csv.gz", dtype=str)
    right = table[
        (table["environment"] == "airline") & (table["system"] == "llm_agent+gpt-4.1-SFT")
    ]
    assert len(found) == len(right) == 20
    got = sorted((int(task), f"{score:g}") for task, score in rows(found, "task", "score"))
    tasks = right["task"].str.rpartition("_")[2].astype(int)
    assert got == sorted(zip(tasks, right["score"], strict=True))
    assert rows(found, "system", "agent", "environment", "user_simulator", "rollout")[0] == (
        "ft:gpt-4.1-2025-04-14:sierra:tau2-full-sft:BzrYdMNm",
        "llm_agent",
        "airline",
        "gpt-4.1",
        "0",
    )


@pytest.mark.reference
def test_tau2_bench_without_a_trial_number_and_without_simulations(shared: Path) -> None:
    found = gs.read_logs(shared / "raw" / "tau2_telecom_one_sim.json")
    assert rows(found, "task", "rollout", "score", "ended") == [
        ("[mobile_data_issue]user_abroad_roaming_enabled_off[PERSONA:None]", "0", 1.0, "user_stop")
    ]
    with pytest.raises(DataError, match=r"tau2_HEAD_results_format\.json .*no simulations in it"):
        gs.read_logs(shared / "raw" / "tau2_HEAD_results_format.json")


def simulation(
    name: str, task: str, trial: int, reward: float | None, ended: str
) -> dict[str, Any]:
    """A SimulationRun as tau2-bench's data model dumps it (src/tau2/data_model/simulation.py)."""
    basis = {"db_check": None, "env_assertions": None, "action_checks": None, "nl_assertions": None}
    told = {"reward": reward, **basis, "reward_basis": ["DB"], "reward_breakdown": {"DB": reward}}
    return {
        "id": name,
        "task_id": task,
        "timestamp": "2026-01-02T03:04:05",
        "start_time": "2026-01-02T03:04:05",
        "end_time": "2026-01-02T03:05:05",
        "duration": 60.0,
        "termination_reason": ended,
        "agent_cost": 0.1,
        "user_cost": 0.1,
        "reward_info": None if reward is None else told,
        "messages": [{"role": "assistant", "content": "Hi"}],
        "ticks": None,
        "trial": trial,
        "seed": 300,
        "mode": "half_duplex",
        "info": None,
    }


def in_a_folder(folder: Path, runs: list[dict[str, Any]], name: str = "results.json") -> Path:
    """What Results.save writes in the format "dir": metadata with an index, a file for each run."""
    info = {
        "git_commit": "c",
        "num_trials": 5,
        "max_steps": 200,
        "max_errors": 10,
        "user_info": {"implementation": "user_simulator", "llm": "u", "llm_args": {}},
        "agent_info": {"implementation": "llm_agent", "llm": "m", "llm_args": {}},
        "environment_info": {"domain_name": "retail", "policy": "p", "tool_defs": None},
        "seed": 300,
    }
    index = [
        {
            "id": run["id"],
            "task_id": run["task_id"],
            "trial": run["trial"],
            "reward": run["reward_info"] and run["reward_info"]["reward"],
            "termination_reason": run["termination_reason"],
            "agent_cost": 0.1,
            "duration": 60.0,
        }
        for run in runs
    ]
    tasks = [{"id": task} for task in sorted({run["task_id"] for run in runs})]
    whole = {"timestamp": "x", "info": info, "tasks": tasks, "simulation_index": index}
    for run in runs:
        document(folder / "simulations" / f"{run['id']}.json", run)
    return document(folder / name, whole)


def test_tau2_bench_simulations_in_files_of_their_own(tmp_path: Path) -> None:
    runs = [
        ("a", 0, 1.0, "user_stop"),
        ("a", 1, 0.0, "max_steps"),
        ("b", 0, None, "infrastructure_error"),
        ("b", 1, None, "user_stop"),
        ("b", 2, 0.0, "agent_error"),
        ("b", 3, None, "timeout"),
        ("b", 4, 0.0, "user_error"),
        ("b", 5, 0.0, "context_window_exceeded"),
    ]
    in_a_folder(tmp_path, [simulation(str(i), *run) for i, run in enumerate(runs)])
    found = gs.read_logs(tmp_path)
    assert rows(found, "environment", "task", "rollout", "outcome", "reason") == [
        ("retail", "a", "0", "scored", ""),
        ("retail", "a", "1", "scored", ""),
        ("retail", "b", "0", "failed", "infrastructure_error"),
        ("retail", "b", "1", "unscored", ""),
        ("retail", "b", "2", "scored", ""),
        ("retail", "b", "3", "failed", "timeout"),
        ("retail", "b", "4", "failed", "user_error"),
        ("retail", "b", "5", "failed", "context_window_exceeded"),
    ]
    assert rows(found, "system", "agent", "user_simulator")[0] == ("m", "llm_agent", "u")
    assert set(found.skipped["why"]) == {"it is read with results.json, one folder up"}
    assert not found.notes


def test_tau2_bench_index_tells_of_files_that_are_missing(tmp_path: Path) -> None:
    runs = [simulation(name, "a", i, 1.0, "user_stop") for i, name in enumerate("xyz")]
    # The file of the metadata may have any name.
    in_a_folder(tmp_path, runs, "my-run.json")
    (tmp_path / "simulations" / "y.json").rename(tmp_path / "simulations" / "w.json")
    found = gs.read_logs(tmp_path)
    assert len(found) == 3
    assert "1 of the 3 simulations in its index have no file" in "\n".join(found.notes)
    assert "1 simulations beside it are not in its index; they are read too" in found.notes[-1]
    assert set(found.skipped["why"]) == {"it is read with my-run.json, one folder up"}


def test_tau2_bench_a_simulation_in_another_folder_is_read(tmp_path: Path) -> None:
    in_a_folder(tmp_path, [simulation("x", "a", 0, 1.0, "user_stop")])
    document(tmp_path / "more" / "y.json", simulation("y", "b", 0, 0.0, "agent_stop"))
    assert rows(gs.read_logs(tmp_path), "file", "task") == [
        ("more/y.json", "b"),
        ("results.json", "a"),
    ]


# ---------------------------------------------------------------- METR


@pytest.mark.reference
def test_metr_excerpt(shared: Path) -> None:
    found = gs.read_logs(shared / "raw" / "metr_all_runs_excerpt_50.jsonl")
    raw = [
        json.loads(line)
        for line in (shared / "raw" / "metr_all_runs_excerpt_50.jsonl").read_text().splitlines()
    ]
    assert len(found) == len(raw) == 53
    assert found["score"].tolist() == [run["score_binarized"] for run in raw]
    assert found["system"].tolist() == [run["alias"] for run in raw]
    assert found["score_raw"].tolist() == [run["score"] for run in raw]
    assert set(found["outcome"]) == {"scored"}
    assert (found["stopped_by"] == "usageLimits").sum() == 33
    assert "33 runs were stopped" in found.notes[0]
    assert (
        found.groupby(["system", "task"])["rollout"]
        .apply(lambda own: sorted(map(int, own)) == list(range(1, len(own) + 1)))
        .all()
    )


def test_metr_rollouts_follow_the_clock_and_a_run_without_a_score_failed(tmp_path: Path) -> None:
    def run(name: str, began: int, **more: Any) -> dict[str, Any]:
        own = {"run_id": name, "task_id": "t", "alias": "A", "started_at": began}
        return {**own, "score": 0.4, "score_binarized": 0, "fatal_error_from": None, **more}

    path = lines(
        tmp_path / "runs.jsonl",
        [
            run("late", 30),
            run("early", 10, score_binarized=1),
            run("mid", 20, score=None, score_binarized=None, fatal_error_from="server"),
            run("mute", 40, score=None, score_binarized=None),
        ],
    )
    assert rows(gs.read_logs(path), "run_id", "rollout", "outcome", "reason") == [
        ("late", "3", "scored", ""),
        ("early", "1", "scored", ""),
        ("mid", "2", "failed", "server"),
        ("mute", "4", "unscored", ""),
    ]


# ---------------------------------------------------------------- lm-evaluation-harness


def harness(doc: int, filter_: str, scores: dict[str, Any], resps: Any = None) -> dict[str, Any]:
    """A line as `--log_samples` writes it."""
    return {
        "doc_id": doc,
        "doc": {"question": "q", "doc_id": 99},
        "target": "42",
        "arguments": {"gen_args_0": {"arg_0": "q", "arg_1": {"until": ["\n"]}}},
        "resps": [["42"]] if resps is None else resps,
        "filtered_resps": ["42"],
        "filter": filter_,
        "metrics": list(scores),
        "doc_hash": "d",
        "prompt_hash": "p",
        "target_hash": "t",
        **scores,
    }


STAMP = "2026-01-02T03-04-05.678901"


def test_lm_eval_filters_and_responses_are_no_replications(tmp_path: Path) -> None:
    folder = tmp_path / "org__model"
    samples = [
        harness(doc, name, {"exact_match": float(doc % 2)}, [["a", "b", "c"]])
        for name in ("strict-match", "flexible-extract")
        for doc in range(3)
    ]
    lines(folder / f"samples_gsm8k_cot_{STAMP}.jsonl", samples)
    document(
        folder / f"results_{STAMP}.json",
        {"results": {}, "configs": {}, "versions": {}, "model_name": "org/model"},
    )
    found = gs.read_logs(tmp_path)
    assert rows(found, "benchmark", "system", "task", "filter", "metric", "score")[2:4] == [
        ("gsm8k_cot", "org/model", "2", "strict-match", "exact_match", 0.0),
        ("gsm8k_cot", "org/model", "0", "flexible-extract", "exact_match", 0.0),
    ]
    assert "rollout" not in found
    told = "\n".join(found.notes)
    assert "`system` is model_name of the results beside it" in told
    assert "2 filters score the same responses (strict-match, flexible-extract)" in told
    assert "resps holds up to 3 responses per document" in told
    assert "run with --log_samples" in found.skipped["why"][0]
    study = gs.Study(score="score", object="system", facets=[gs.Facet("task", role="legitimate")])
    with pytest.raises(
        DataError,
        match=r"filter \(strict-match, flexible-extract\).*keep=\{'filter': 'strict-match'\}",
    ):
        gs.read_trials(tmp_path, study)
    one = gs.read_logs(tmp_path, keep={"filter": "strict-match"})
    assert len(gs.read_trials(one, study)) == 3


def test_lm_eval_results_may_have_a_name_of_their_own(tmp_path: Path) -> None:
    lines(tmp_path / f"samples_arc_{STAMP}.jsonl", [harness(0, "none", {"acc": 1.0})])
    # What --output_path mine.json leaves.
    document(tmp_path / f"mine_{STAMP}.json", {"results": {}, "versions": {}, "model_name": "o/m"})
    found = gs.read_logs(tmp_path)
    assert set(found["system"]) == {"o/m"}
    assert "`system` is model_name of the results beside it" in found.notes[0]


def test_lm_eval_metrics_and_what_is_no_number(tmp_path: Path) -> None:
    samples = [
        harness(0, "none", {"acc": 1.0, "acc_norm": 0.0, "bleu": ["a", "b"]}),
        harness(1, "none", {"acc": True, "acc_norm": None, "bleu": ["a", "b"]}),
    ]
    found = gs.read_logs(lines(tmp_path / "model-x" / f"samples_arc_{STAMP}.jsonl", samples))
    assert rows(found, "task", "metric", "outcome") == [
        ("0", "acc", "scored"),
        ("0", "acc_norm", "scored"),
        ("1", "acc", "scored"),
        ("1", "acc_norm", "unscored"),
    ]
    assert set(found["system"]) == {"model-x"}
    told = "\n".join(found.notes)
    assert "`system` is the name of its folder" in told
    assert "2 metrics score the same responses (acc, acc_norm)" in told
    assert "no number per document, and left out: 'bleu'" in told


def test_lm_eval_samples_of_older_releases_do_not_list_their_metrics(tmp_path: Path) -> None:
    old = harness(0, "none", {"acc": 1.0})
    del old["metrics"], old["filter"]
    found = gs.read_logs(lines(tmp_path / f"samples_arc_{STAMP}.jsonl", [old]))
    assert rows(found, "metric", "score") == [("acc", 1.0)]


def test_lm_eval_two_dates_are_two_runs(tmp_path: Path) -> None:
    for stamp in ("2026-01-01", "2026-01-02"):
        lines(tmp_path / "m" / f"samples_arc_{stamp}.jsonl", [harness(0, "none", {"acc": 1})])
    study = gs.Study(score="score", object="system", facets=[gs.Facet("task", role="legitimate")])
    with pytest.raises(DataError, match=r"arc_2026-01-01\.jsonl and m/samples_arc_2026-01-02"):
        gs.read_trials(tmp_path, study)


# ---------------------------------------------------------------- Every Eval Ever


def instance(sample: str, score: Any, **more: Any) -> dict[str, Any]:
    """A line of the schema instance_level_eval 0.2 and 0.3."""
    return {
        "schema_version": "0.3.0",
        "evaluation_id": "gsm8k/org/model/1707000000",
        "model_id": "org/model",
        "evaluation_name": "GSM8K",
        "sample_id": sample,
        "sample_hash": "h",
        "interaction_type": "single_turn",
        "input": {"raw": "q", "reference": ["4"]},
        "output": {"raw": ["4"]},
        "messages": None,
        "answer_attribution": [],
        "evaluation": {"score": score, "is_correct": bool(score)},
        "error": None,
        "metadata": None,
        **more,
    }


def test_every_eval_ever(tmp_path: Path) -> None:
    path = lines(
        tmp_path / "a.jsonl",
        [
            instance("s1", 1.0, metadata={"epoch": "1"}),
            instance("s1", 0.0, metadata={"epoch": "2"}),
            instance("s2", 0.5),
            instance("s2", 1),
            instance("s3", 0, error="timeout"),
            instance("s4", 0, error="", evaluation={"is_correct": True}),
        ],
    )
    found = gs.read_logs(path)
    assert rows(found, "benchmark", "system")[0] == ("GSM8K", "org/model")
    assert rows(found, "task", "rollout", "score", "is_correct", "outcome", "reason") == [
        ("s1", "1", 1.0, 1.0, "scored", ""),
        ("s1", "2", 0.0, 0.0, "scored", ""),
        ("s2", "1", 0.5, 1.0, "scored", ""),
        ("s2", "2", 1.0, 1.0, "scored", ""),
        ("s3", "1", 0.0, 0.0, "failed", "error"),
        ("s4", "1", 1.0, 1.0, "scored", ""),
    ]
    assert found["detail"][4] == "timeout"
    assert "metric" not in found
    assert "1 lines repeat a sample of one evaluation" in found.notes[0]


def test_every_eval_ever_keeps_the_filters_of_lm_eval_apart(tmp_path: Path) -> None:
    # As its converter writes them: the filter in the evaluation's name, and in the metadata.
    names = ("strict-match", "flexible-extract")
    path = lines(
        tmp_path / "a.jsonl",
        [
            instance(str(i), 1.0, evaluation_name=f"gsm8k/{name}", metadata={"filter": name})
            for name in names
            for i in range(2)
        ],
    )
    found = gs.read_logs(path)
    assert rows(found, "filter", "task", "rollout")[1:3] == [
        ("strict-match", "1", "1"),
        ("flexible-extract", "0", "1"),
    ]
    assert "2 filters score the same responses (strict-match, flexible-extract)" in found.notes[0]


def test_every_eval_ever_results_are_metrics_and_the_aggregate_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    lines(path, [instance("s", 1, evaluation_result_id=name) for name in ("r1", "r2")])
    document(tmp_path / "a.json", {"schema_version": "0.3.0", "evaluation_results": []})
    found = gs.read_logs(tmp_path)
    assert rows(found, "metric", "rollout") == [("r1", "1"), ("r2", "1")]
    assert found.skipped["why"].tolist() == [
        "it holds Every Eval Ever's aggregate; the trials are in its .jsonl"
    ]


# ---------------------------------------------------------------- JSON


def test_gzip_byte_order_marks_and_blank_lines(tmp_path: Path) -> None:
    text = "\n\n".join(json.dumps(instance(f"s{i}", 1)) for i in range(3))
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b"\xef\xbb\xbf" + text.encode()))
    assert len(gs.read_logs(tmp_path)) == 3


def test_numbers_that_a_stream_cannot_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [
        {"task_id": 10**40, "reward": float("nan"), "info": {}, "traj": [], "trial": 0},
        {"task_id": 1, "reward": 1.0, "info": {"n": 10**40}, "traj": [], "trial": 0},
    ]
    path = document(tmp_path / "a.json", runs)
    found = gs.read_logs(path)
    assert rows(found, "task", "outcome") == [(str(10**40), "unscored"), ("1", "scored")]
    monkeypatch.setattr(json_streams, "WHOLE", 10)
    with pytest.raises(DataError, match="too large to be read at once"):
        gs.read_logs(path)


def test_a_stream_that_breaks_off_late_repeats_no_row(tmp_path: Path) -> None:
    runs = [{"task_id": i, "reward": 1.0, "trial": 0, "traj": []} for i in range(2000)]
    runs.append({"task_id": 2000, "reward": float("nan"), "trial": 0, "traj": []})
    found = gs.read_logs(document(tmp_path / "a.json", runs))
    assert found["task"].tolist() == [str(i) for i in range(2001)]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (json.dumps(instance("s", 1)) + "\n{", "line 2 is not JSON"),
        (json.dumps(instance("s", 1)) + "\n[1]\n", "line 2 is not a JSON object"),
        (json.dumps(instance("s", 1))[:-30], "line 1 is not JSON"),
        (json.dumps(instance(["s"], 1)), "sample_id: a list is no label"),
        ('[{"task_id": 1, "reward": 1, "traj": []}, 3]', "entry 2 of the list is no run"),
        ('[{"task_id": 1, "reward": 1, "traj": []}', "it is not JSON"),
        ("[" * 5000, "it is no"),
        ("{}", "it is no log"),
        ("[]", "it is no log"),
        ("3", "it is no log"),
        ("", "it is empty"),
        ("\x00\x00", "it is no log"),
    ],
)
def test_damage_is_told(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=why):
        gs.read_logs(path)
