"""`gstudy designs`: predictions, searches, plans and lists of runs from the command line."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from commands import ended
from handmade import fit_by_hand, small_study

import gstudy as gs
from gstudy.cli.assumed_study import implied_mean, implied_study
from gstudy.fits.fitted import Fit
from gstudy.fits.gates import assess as assess_draws
from gstudy.study.estimable import assess

PLAN = """
score = "passed"

[facets.task]
role = "legitimate"
[facets.rollout]
role = "legitimate"
nested_in = ["task"]
[facets.judge]
role = "error"

[design.pilot]
task = 50
rollout = 2
judge = 3
[design.rotated]
task = 200
rollout = 1
judge = 3
judges = "round robin"

[cost]
task = 25
rollout = 0.4
judge = 0.01
"""
ASSUMED = """
[assumed]
mean = 0.6
[assumed.components]
task = 0.08
judge = 0.003
rollout = 0.1
"""


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]):
    """Run `gstudy designs ...`: exit code, standard output, standard error."""
    return partial(ended, capsys, "designs")


@pytest.fixture
def asked(command):
    """Run it with --json: the tables as lists of rows by column."""

    def run(*arguments: object) -> dict[str, list[dict[str, Any]]]:
        code, out, err = command(*arguments, "--json")
        assert (code, err) == (0, "")
        payload = json.loads(out)
        assert payload["schema"] == 1
        return {
            name: [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
            for name, table in payload["tables"].items()
        }

    return run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Saved runs, trials and study files."""
    folder = tmp_path_factory.mktemp("designs")
    for name in ("airline", "panel"):
        study, trials = gs.example(name)
        fit_by_hand(assess(study, trials)).save(folder / f"{name}.nc")
    study, frame = small_study()
    frame.to_csv(folder / "small.csv", index=False)
    small = fit_by_hand(assess(study, frame))
    small.save(folder / "small.nc")
    diverging = np.zeros(small.mu.shape, dtype=bool)
    diverging[0, :2] = True
    bad = assess_draws({"mu": small.mu}, {"diverging": diverging})
    Fit(small.posterior, small.study, small.design, bad, small.settings).save(folder / "bad.nc")
    (folder / "plan.toml").write_text(PLAN + ASSUMED, encoding="utf-8")
    (folder / "prior.toml").write_text(PLAN, encoding="utf-8")
    return folder


# ---------------------------------------------------------------- answers are those of planning


def test_a_run_alone_gets_its_next_steps(asked, command, folder: Path) -> None:
    run = folder / "airline.nc"
    rows = asked(run)["next_steps"]
    expected = gs.next_steps(gs.load(run)).summary()
    assert [row["step"] for row in rows] == list(expected.index)
    assert [row["mean"] for row in rows] == pytest.approx(list(expected["mean"]))
    code, out, err = command(run)
    assert code == 0
    assert "task: 50 to 100" in out
    assert "95% equal-tailed intervals" in out
    assert "--target 3pt" in err
    assert command(run, "--quiet")[2] == ""


def test_a_target_says_stop_or_what_to_add_with_its_probability(asked, folder: Path) -> None:
    run = folder / "airline.nc"
    prices = {"rollout": 0.4, "task": 25.0}
    tables = asked(run, "--target", "3pt", "--cost", "rollout=0.4,task=25", "--probability", ".9")
    plan = gs.plan_next(gs.load(run), target=0.03, cost=prices, probability=0.9)
    (decision,) = tables["decision"]
    assert decision["decision"] == plan.decision == "add"
    assert decision["added_cost"] == pytest.approx(plan.added_cost)
    assert {row["facet"]: row["after"] for row in tables["levels"]} == dict(plan.after)
    assert tables["plan"][1]["p_target"] >= 0.9
    (decision,) = asked(run, "--target", "0.2")["decision"]
    assert (decision["decision"], decision["added_trials"]) == ("stop", 0)


def test_a_budget_counts_trials_without_prices(asked, folder: Path) -> None:
    (best,) = asked("--assume", "task=.10,rollout=.14", "--budget", 500)["best"]
    # One rollout of each task: (0.10 + 0.14 / r) / n is least at r = 1 where n r = 500.
    assert (best["task"], best["rollout"], best["cost"]) == (500, 1, 500)
    assert best["mean"] == pytest.approx(1.959964 * (0.24 / 500) ** 0.5, rel=1e-6)


def test_bounds_are_least_most_and_multiple(asked, folder: Path) -> None:
    tables = asked(
        *("--assume", "task=.10,rollout=.14", "--budget", 500, "--frontier"),
        *("--bounds", "task=10:45:20,rollout=2:4"),
    )
    assert {row["task"] for row in tables["frontier"]} == {20, 40}
    assert {row["rollout"] for row in tables["frontier"]} <= {2, 3, 4}
    (best,) = tables["best"]
    assert (best["task"], best["rollout"]) == (40, 4)


def test_designs_of_the_options_and_of_the_file_are_compared(asked, folder: Path) -> None:
    rows = asked(folder / "plan.toml")["designs"]
    found = {row["design"]: row["mean"] for row in rows if row["quantity"] == "variance"}
    assert found["pilot"] == pytest.approx(0.08 / 50 + 0.1 / 100 + 0.003 / 3)
    assert set(found) == {"pilot", "rotated"}
    costs = {row["design"]: row["cost"] for row in asked(folder / "plan.toml")["design_costs"]}
    assert costs["pilot"] == pytest.approx(50 * 25 + 100 * 0.4 + 300 * 0.01)
    rows = asked("--study", folder / "plan.toml", "--design", "task=10,rollout=1,judge=2")
    assert {row["design"] for row in rows["designs"]} == {"task=10,rollout=1,judge=2"}
    assert rows["next_steps"][0]["step"] == "now"
    tables = asked(
        folder / "airline.nc", "--design", "task=100,rollout=4", "--design", "task=50,rollout=8"
    )
    names = {row["design"] for row in tables["designs"]}
    assert names == {"as collected", "task=100,rollout=4", "task=50,rollout=8"}
    assert "next_steps" not in tables


def test_next_steps_of_the_handbook(asked, oracle) -> None:
    handbook = oracle("published")["handbook_docs_agent"]
    components = ",".join(f"{k}={v}" for k, v in handbook["score_scale_components"].items())
    design = ",".join(f"{k}={v}" for k, v in handbook["design"].items())
    rows = asked("--assume", components, "--mean", 0.7, "--design", design, "--to", "judge_call=3")[
        "next_steps"
    ]
    points = {row["step"]: round(100 * row["mean"], 1) for row in rows}
    for step in handbook["next_steps"]:
        change = step["change"]
        if isinstance(change, str):
            name = {"none": "now"}.get(change, "version: pinned")
        else:
            ((facet, n),) = change.items()
            name = f"{facet}: {handbook['design'][facet]} to {n}"
        assert points[name] == step["half_width_points"]
    assert points["query: no end"] == 7.8


def test_the_logit_scale_and_the_priors_alone(asked, command, folder: Path) -> None:
    tables = asked(
        *("--assume", "task=2,rollout=1", "--mu", 0, "--scale", "logit"),
        *("--design", "task=50,rollout=2"),
    )
    study = implied_study(["task", "rollout"])
    known = gs.assume(study, {"task": 2, "rollout": 1}, mu=0.0, scale="logit")
    expected = float(gs.variance_budget(known, {"task": 50, "rollout": 2}).variance.mean())
    found = {row["quantity"]: row["mean"] for row in tables["designs"]}
    assert found["variance"] == pytest.approx(expected)
    code, out, _ = command(folder / "prior.toml", "--seed", 3)
    assert code == 0
    assert "priors alone" in out
    assert out == command(folder / "prior.toml", "--seed", 3)[1]
    assert asked(folder / "prior.toml", "--budget", 900)["best"][0]["cost"] <= 900


def test_patterns_of_judges(asked, command, folder: Path) -> None:
    tables = asked(
        *(folder / "plan.toml", "--budget", 3000, "--bounds", "judge=1:9"),
        *("--judges", "all,round robin,fresh"),
    )
    assert tables["best"][0]["judges"] in ("all", "round robin", "fresh")
    steps = asked(
        *(folder / "panel.nc", "--judges", "round robin"),
        *("--design", "task=100,snapshot=2,rollout=1,judge=2"),
    )["next_steps"]
    # A facet of which only the system tells two components apart can change alone.
    assert "task: 100 to 200" in {row["step"] for row in steps}
    code, out, _ = command(
        folder / "plan.toml", "--target", "5pt", "--judges", "round robin", "--bounds", "judge=1:9"
    )
    assert code == 0
    assert "Judges: round robin." in out


# ---------------------------------------------------------------- what is assumed


def test_names_imply_a_declaration_that_is_printed(command) -> None:
    components = "query=.12,version=.0016,rollout=.06,judge_call=.03"
    code, out, _ = command("--assume", components, "--budget", 100, "--bounds", "version=1:2")
    assert code == 0
    assert "rollout     variance 0.06; legitimate, new in each query and version" in out
    assert "error, new in each query, version and rollout" in out
    assert "--study FILE" in out
    study = implied_study(["system", "task", "judge", "epoch"])
    assert study.object == "system"
    assert study.facet("epoch").nested_in == ("system", "task")
    assert study.facet("judge").nested_in == ()


def test_without_a_mean_it_is_that_of_the_sum() -> None:
    mean = implied_mean({"task": 0.1, "rollout": 0.11})
    assert mean * (1 - mean) == pytest.approx(0.21)
    assert implied_mean({"task": 0.25}) == 0.5


# ---------------------------------------------------------------- lists of runs


def test_the_runs_of_a_plan_are_written(asked, command, folder: Path, tmp_path: Path) -> None:
    run, path = folder / "airline.nc", tmp_path / "runs.csv"
    tables = asked(run, "--target", "7pt", "--run-list", path)
    (decision,) = tables["decision"]
    assert pd.read_csv(path)["rollouts"].sum() == decision["added_trials"]
    assert tables["run_list"][0]["runs"] == decision["added_trials"]
    code, out, _ = command(run, "--target", "20pt", "--run-list", tmp_path / "none.csv")
    assert code == 0
    assert "No list of runs" in out
    assert not (tmp_path / "none.csv").exists()


def test_the_runs_of_a_design_as_commands_of_inspect(command, folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "runs.sh"
    code, out, _ = command(
        *(folder / "small.nc", "--design", "task=8,rollout=5", "--run-list", path),
        *("--as", "inspect", "--data", folder / "small.csv"),
    )
    assert code == 0
    assert f"Wrote {path}" in out
    lines = path.read_text("utf-8").splitlines()
    assert lines
    assert all(line.startswith("inspect eval TASK --model ") for line in lines)
    assert all(line.endswith("--epochs 2") for line in lines)


def test_new_judges_of_runs_that_exist_are_told_apart_by_system(
    command, folder: Path, tmp_path: Path
) -> None:
    path = tmp_path / "scores.sh"
    design = "task=60,snapshot=2,rollout=3,judge=3"
    code, out, _ = command(
        *(folder / "panel.nc", "--design", design, "--run-list", path, "--as", "inspect")
    )
    assert code == 0
    assert "your logs in place of LOG_" in out
    lines = path.read_text("utf-8").splitlines()
    assert len(set(lines)) == len(lines) == 6
    assert lines[0].startswith("inspect score LOG_atlas --scorer 'new judge 1'")


# ---------------------------------------------------------------- how it ends


def test_an_unconverged_run_is_withheld(command, asked, folder: Path) -> None:
    code, out, err = command(folder / "bad.nc")
    assert (code, out) == (3, "")
    assert "--allow-unconverged" in err
    code, out, _ = command(folder / "bad.nc", "--allow-unconverged")
    assert code == 0
    assert "NOT CONVERGED" in out
    assert (
        "2 divergences"
        in asked(folder / "bad.nc", "--allow-unconverged")["not_converged"][0]["note"]
    )


USAGE = [
    ((), "nothing to predict from"),
    (("trials.csv",), "neither a saved run"),
    (("airline.nc", "--assume", "task=.1"), "has its components"),
    (("plan.toml", "--study", "plan.toml"), "is a study itself"),
    (("airline.nc", "--budget", 10, "--target", "3pt"), "give one"),
    (("airline.nc", "--frontier", "--target", "3pt"), "give one"),
    (("airline.nc", "--budget", 10, "--design", "task=1,rollout=1"), "leave one out"),
    (("airline.nc", "--bounds", "task=1:3"), "--bounds belongs to a search"),
    (("airline.nc", "--judges", "fresh"), "--judges belongs to --design"),
    (("airline.nc", "--probability", 0.9), "--probability belongs to --target"),
    (("airline.nc", "--mean", 0.7), "--mean belongs to --assume"),
    (("airline.nc", "--target", 3), "3pt is 3 points"),
    (("airline.nc", "--target", "wide"), "is no number"),
    (("airline.nc", "--target", "3pt", "--to", "task=3"), "--to belongs to next steps"),
    (("airline.nc", "--design", "task=2.5,rollout=1"), "is not FACET=NUMBER"),
    (("airline.nc", "--design", "task=2", "--design", "task=2"), "given twice"),
    (("airline.nc", "--budget", 9, "--bounds", "task=a:b"), "is not FACET=LEAST:MOST"),
    (("airline.nc", "--budget", 9, "--cost", "task"), "is not FACET=NUMBER"),
    (("airline.nc", "--as", "inspect"), "--as belongs to --run-list"),
    (("airline.nc", "--run-list", "runs.csv"), "takes one design"),
    (("--assume", "task=.1"), "no design of their own"),
    (("--assume", "task=.1", "--mean", 0.5, "--mu", 0), "give one"),
    (("--assume", "task=.1", "--scale", "logit"), "needs --mu"),
    (("--assume", "task=.1", "--budget", 9, "--run-list", "runs.csv"), "--study FILE declares"),
]


@pytest.mark.parametrize(("arguments", "message"), USAGE)
def test_contradictions_are_usage_errors(
    command,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[object, ...],
    message: str,
) -> None:
    monkeypatch.chdir(folder)
    code, _, err = command(*arguments)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1


WRONG = [
    (("--design", "tsk=100,rollout=2"), "unknown facet 'tsk'", "Did you mean 'task'?"),
    (("--design", "task=0,rollout=2"), "Given: 0", "whole numbers from 1 on"),
    (("--budget", -1), "budget is not usable", "numbers above 0"),
    (("--budget", 10, "--cost", "task=-25"), "price of 'task'", "numbers from 0 on"),
    (("--budget", 10, "--cost", "taks=25"), "taks", "Did you mean 'task'?"),
    (
        ("--budget", 10, "--cost", "task=25", "--bounds", "task=5:9,rollout=1:4"),
        "at least 125",
        "--design task=5,rollout=1.",
    ),
    (("--budget", 10, "--cost", "task=1"), "limits", "--bounds rollout=1:MOST"),
    (("--budget", 10, "--judges", "frsh"), "unknown way of judging", "Did you mean 'fresh'?"),
    (("--target", "3pt", "--probability", 2), "probability", "Allowed"),
]


@pytest.mark.parametrize(("arguments", "what", "mend"), WRONG)
def test_bad_input_ends_in_one_paragraph(
    command, folder: Path, arguments: tuple[object, ...], what: str, mend: str
) -> None:
    code, _, err = command(folder / "airline.nc", *arguments)
    assert code == 1
    assert what in err
    assert mend in err
    assert err.startswith("error: ")
    assert err.count("\n") == 1


def test_more_than_a_universe_and_a_part_of_a_merged_component(
    command, folder: Path, tmp_path: Path
) -> None:
    study = gs.Study(
        score="passed",
        facets=[
            gs.Facet("task", role="legitimate", universe=8),
            gs.Facet("version", role="legitimate"),
            gs.Facet("rollout", role="legitimate", nested_in=["task", "version"]),
        ],
    )
    # Each task ran on a version of its own: the rows cannot tell them apart.
    rows = [
        {"task": t, "version": t, "rollout": r, "passed": (t + r) % 2}
        for t in range(6)
        for r in range(4)
    ]
    fit_by_hand(assess(study, pd.DataFrame(rows)), shape=(4, 250)).save(tmp_path / "run.nc")
    code, _, err = command(tmp_path / "run.nc", "--design", "task=9,version=9,rollout=1")
    assert code == 1
    assert "at most 8" in err
    code, _, err = command(tmp_path / "run.nc", "--design", "task=6,version=2,rollout=4")
    assert code == 1
    assert "is one component" in err
    assert "lies between" in err
    assert "--bound-merged gives both" in err
    assert err.count("\n") == 1
    parted = (tmp_path / "run.nc", "--design", "task=6,version=2,rollout=4")
    code, out, _ = command(*parted, "--bound-merged", "--json")
    assert code == 0
    tables = json.loads(out)["tables"]
    shown = {row[0] for row in tables["designs"]["rows"]}
    name = "task=6,version=2,rollout=4"
    assert {f"{name} (at least)", f"{name} (at most)"} <= shown
    # From bounds no step can be told.
    assert "next_steps" not in tables
    code, _, err = command(tmp_path / "run.nc", "--bound-merged")
    assert code == 2
    assert "--bound-merged belongs to --design" in err


@pytest.mark.parametrize("columns", [80, 120])
def test_no_line_is_wider_than_the_terminal(
    command, folder: Path, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    for arguments in (
        (folder / "panel.nc", "--cost", "task=25,rollout=.4"),
        (folder / "panel.nc", "--design", "task=100,snapshot=2,rollout=4,judge=2"),
        (folder / "plan.toml",),
    ):
        code, out, _ = command(*arguments)
        assert code == 0
        assert max(map(len, out.splitlines())) <= columns
        assert "…" not in out
