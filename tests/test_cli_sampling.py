"""Commands that sample: fit, budget of trials, demo; with the direct sampler and few draws."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
from commands import ended
from handmade import small_study

import gstudy as gs

FEW = ("--sampler", "direct", "--seed", "5", "--tune", "400", "--cores", "2")
STUDY = """
data = "small.csv"
score = "passed"
object = "system"
[facets.task]
role = "legitimate"
[facets.rollout]
role = "legitimate"
nested_in = ["system", "task"]
"""


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]):
    return partial(ended, capsys)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    _, frame = small_study()
    frame.to_csv(tmp_path / "small.csv", index=False)
    (tmp_path / "study.toml").write_text(STUDY)
    return tmp_path


def test_fit_saves_the_run_and_says_what_it_found(command, folder: Path) -> None:
    run = folder / "run.nc"
    code, out, err = command("fit", folder / "study.toml", "--out", run, *FEW, "--quiet")
    assert code == 0, err
    fit = gs.load(run)
    assert out == f"{fit!r}\n"
    assert fit.settings["seed"] == 5
    assert fit.design.source == str(folder / "small.csv")
    # Nothing but the warning on what the model leaves out.
    assert all(line.startswith("warning: left out of the model") for line in err.splitlines())
    assert len(err.splitlines()) == 1


def test_one_seed_gives_one_run(command, folder: Path) -> None:
    for name in ("one.nc", "two.nc"):
        assert command("fit", folder / "study.toml", "--out", folder / name, *FEW)[0] == 0
    one, two = gs.load(folder / "one.nc"), gs.load(folder / "two.nc")
    assert one.mu.tobytes() == two.mu.tobytes()
    assert one.effects("task").values.tobytes() == two.effects("task").values.tobytes()


def test_fit_as_json_names_components_gates_and_settings(command, folder: Path) -> None:
    arguments = ("fit", folder / "study.toml", "--out", folder / "run.nc", *FEW, "--json")
    code, out, _ = command(*arguments)
    assert code == 0
    found = json.loads(out)["tables"]
    assert list(found) == ["components", "gates", "settings"]
    assert found["components"]["scale"] == "logit"
    assert ["seed", "5"] in found["settings"]["rows"]


def test_fit_checks_the_target_before_sampling(command, folder: Path) -> None:
    code, out, err = command("fit", folder / "study.toml", "--out", folder / "none" / "run.nc")
    assert (code, out) == (1, "")
    assert "there is no directory" in err


def test_few_draws_are_withheld_and_the_run_is_kept(command, folder: Path) -> None:
    arguments = ("fit", folder / "study.toml", "--out", folder / "run.nc", *FEW, "--draws", "20")
    code, out, err = command(*arguments)
    assert (code, out) == (3, "")
    assert "Numbers are withheld; --allow-unconverged" in err
    assert not gs.load(folder / "run.nc").diagnostics.passed
    assert command("budget", folder / "run.nc")[0] == 3
    code, out, _ = command(*arguments, "--allow-unconverged")
    assert code == 0
    assert "NOT CONVERGED" in out
    found = json.loads(command(*arguments, "--allow-unconverged", "--json")[1])
    assert found["tables"]["not_converged"]["rows"][0][0].startswith("NOT CONVERGED")


def test_budget_of_a_study_file_fits_and_keeps_the_run(command, folder: Path) -> None:
    out_dir = folder / "out"
    code, out, err = command("budget", folder / "study.toml", "--out", out_dir, *FEW)
    assert code == 0, err
    assert "small.csv: 72 trials, 3 systems x 8 tasks x 3 rollouts" in out
    assert (out_dir / "run.nc").is_file()
    assert command("budget", out_dir / "run.nc")[1] == out


def test_budget_of_trials_tells_what_it_assumed(command, folder: Path) -> None:
    code, out, err = command("budget", folder / "small.csv", *FEW)
    assert code == 0, err
    assert "No study was given. From the columns of small.csv this one is assumed:" in out
    assert "  rollout  legitimate, 3 labels in each system x task\n" in out
    code, with_study, _ = command(
        "budget", folder / "small.csv", "--study", folder / "study.toml", *FEW
    )
    assert code == 0
    assert with_study in out


def test_questions_that_cannot_be_answered_fail_before_sampling(command, folder: Path) -> None:
    code, _, err = command("budget", folder / "study.toml", "--system", "D")
    assert code == 1
    assert "no system is named 'D'" in err
    code, _, err = command("budget", folder / "study.toml", "--design", "judge=2")
    assert code == 1
    assert "the design names an unknown facet 'judge'" in err


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--design", "task=3", "does not say how many levels of 'rollout'"),
        ("--design", "task=0,rollout=1", "the number of levels of 'task' is not usable"),
        ("--design", "task=3,rollout=1,system=2", "'system' is measured"),
        ("--system", "D", "no system is named 'D'"),
    ],
)
def test_nothing_is_sampled_for_them(
    command, folder: Path, monkeypatch: pytest.MonkeyPatch, option: str, value: str, message: str
) -> None:
    def sampled(*_: object, **__: object) -> None:
        raise AssertionError("sampled")

    monkeypatch.setattr("gstudy.model.sampling.fit", sampled)
    code, out, err = command("budget", folder / "study.toml", option, value, "--quiet")
    assert (code, out) == (1, "")
    assert message in err


def test_a_system_called_new_is_refused_before_sampling(command, folder: Path) -> None:
    trials = (folder / "small.csv").read_text(encoding="utf-8").replace("C/2,", "new,")
    (folder / "small.csv").write_text(trials, encoding="utf-8")
    code, out, err = command("budget", folder / "study.toml", "--system", "new")
    assert (code, out) == (1, "")
    assert "a level is called 'new' too" in err


def test_demo_leaves_everything_and_says_where(command, tmp_path: Path) -> None:
    directory = tmp_path / "demo"
    code, out, err = command("demo", "-o", directory, "--sampler", "direct", "--quiet")
    assert code == 0, err
    assert "airline.csv: 200 trials, 50 tasks x 4 rollouts" in out
    assert "Score: 42.0% of 200 trials passed" in out
    left = sorted(path.name for path in directory.iterdir())
    assert left == ["budget.csv", "budget.json", "budget.md", "budget.png", "run.nc"]
    fit = gs.load(directory / "run.nc")
    icc = gs.icc(fit, "task").summary()
    assert icc["lower"].iloc[0] < 0.4046 < icc["upper"].iloc[0]


def test_demo_goes_to_its_own_directory_by_default(
    command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = command("demo", "--sampler", "direct")
    assert code == 0
    assert (tmp_path / "gstudy-demo" / "budget.png").is_file()
    assert "In gstudy-demo: budget.csv, budget.json, budget.md, budget.png, run.nc" in err
    assert "gstudy budget gstudy-demo/run.nc --design task=100,rollout=4" in err


def test_lost_rows_and_findings_are_told(command, folder: Path) -> None:
    study = (folder / "study.toml").read_text()
    policy = '[model]\non_failed_run = { timeout = "incorrect" }\non_missing_score = "drop"\n'
    (folder / "study.toml").write_text(study + policy)
    _, frame = small_study()
    frame["outcome"] = "scored"
    frame["reason"] = ""
    frame["passed"] = frame["passed"].astype("Int64")
    # Ends of the table: one run that failed, two trials that were never scored.
    frame.loc[0, ["passed", "outcome", "reason"]] = [None, "failed", "timeout"]
    frame.loc[[70, 71], "passed"] = None
    frame.loc[[70, 71], "outcome"] = "unscored"
    # Systems with tasks of their own cannot be compared on tasks.
    frame["task"] = frame["system"] + frame["task"]
    frame.to_csv(folder / "small.csv", index=False)
    code, out, err = command("budget", folder / "study.toml", *FEW)
    assert code == 0, err
    told = "Of 72 rows 1 failed (policy: timeout incorrect) and 2 unscored (policy: drop)."
    assert told in out
    assert "Look at\n  - " in out
    assert "share no task" in out
    assert max(map(len, out.splitlines())) <= 80


def test_one_system_of_several_is_fitted_alone(command, folder: Path) -> None:
    code, out, err = command("budget", folder / "study.toml", "--system", "A", *FEW)
    assert code == 0, err
    assert "small.csv: 24 trials, 1 system x 8 tasks x 3 rollouts" in out
    assert "Score of A: " in out
    assert "share one set of sds" not in out


def test_over_one_percent_failed_runs_are_shown_under_both_policies(
    command, folder: Path, tmp_path: Path
) -> None:
    rows = [line.split(",") for line in (folder / "small.csv").read_text().splitlines()]
    header = [*rows[0], "outcome", "reason"]
    place = rows[0].index("passed")
    lines = []
    for number, row in enumerate(rows[1:]):
        failed = number in (3, 40)
        cells = ["" if failed and i == place else cell for i, cell in enumerate(row)]
        lines.append([*cells, "failed" if failed else "scored", "timeout" if failed else ""])
    (tmp_path / "small.csv").write_text("\n".join(",".join(line) for line in [header, *lines]))
    text = (folder / "study.toml").read_text()
    (tmp_path / "study.toml").write_text(f'{text}\n[model]\non_failed_run = "drop"\n')
    code, out, err = command("budget", tmp_path / "study.toml", *FEW)
    assert code == 0, err
    said = " ".join(out.split())
    assert "Failed runs: 2, 2.8% of the trials (on_failed_run: drop)." in said
    assert "With failed runs as score 0: " in said
    assert "With failed runs left out: " in said
