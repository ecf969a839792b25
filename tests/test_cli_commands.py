"""The command line on saved runs and study files: what it prints, and how it ends."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import ended
from handmade import fit_by_hand, small_study

import gstudy as gs
from gstudy.fits.fitted import Fit
from gstudy.fits.gates import assess as assess_draws
from gstudy.study.estimable import assess
from gstudy.study.examples.catalogue import study_file


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]):
    """Run `gstudy ...`: exit code, standard output, standard error."""
    return partial(ended, capsys)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trials, study files and saved runs."""
    folder = tmp_path_factory.mktemp("runs")
    for name in ("airline", "panel"):
        study, trials = gs.example(name)
        fit_by_hand(assess(study, trials)).save(folder / f"{name}.nc")
    study, frame = small_study()
    frame.to_csv(folder / "small.csv", index=False)
    (folder / "study.toml").write_text(
        'data = "small.csv"\nscore = "passed"\nobject = "system"\n\n'
        '[facets.task]\nrole = "legitimate"\n\n'
        '[facets.rollout]\nrole = "legitimate"\nnested_in = ["system", "task"]\n'
    )
    small = fit_by_hand(assess(study, frame))
    small.save(folder / "small.nc")
    diverging = np.zeros(small.mu.shape, dtype=bool)
    diverging[0, :2] = True
    bad = assess_draws({"mu": small.mu}, {"diverging": diverging})
    Fit(small.posterior, small.study, small.design, bad, small.settings).save(folder / "bad.nc")
    return folder


def console(*arguments: object, **options: object) -> subprocess.Popen[str]:
    """The installed script's code in a process of its own."""
    code = "from gstudy.cli.main import run; run()"
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONIOENCODING": "utf-8", "COLUMNS": "80"},
        **options,
    )


# ------------------------------------------------------------------------------ the program


def test_help_names_the_commands(command) -> None:
    code, out, _ = command("--help")
    assert code == 0
    for name in ("init", "check", "fit", "budget", "report", "demo", "--version"):
        assert name in out
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize("name", ["init", "check", "fit", "budget", "report", "demo"])
def test_every_command_has_help(command, name: str) -> None:
    code, out, _ = command(name, "--help")
    assert code == 0
    assert out.startswith(f"Usage: gstudy {name} ")
    assert "--json" in out


def test_version(command) -> None:
    assert command("--version") == (0, f"gstudy {gs.__version__}\n", "")


@pytest.mark.parametrize("name", ["init", "check", "fit", "budget", "report", "demo"])
@pytest.mark.parametrize("option", ["--json", "--seed", "--quiet"])
def test_every_command_takes_the_common_options(command, name: str, option: str) -> None:
    assert option in command(name, "--help")[1]


def test_help_and_version_import_nothing_heavy() -> None:
    code = (
        "import sys, contextlib\n"
        "from gstudy.cli.main import app\n"
        "with contextlib.suppress(SystemExit):\n"
        "    app([sys.argv[1]])\n"
        "heavy = {'numpy', 'pandas', 'xarray', 'rich', 'arviz', 'pymc', 'matplotlib'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    for option in ("--help", "--version"):
        done = subprocess.run(
            [sys.executable, "-c", code, option], capture_output=True, text=True, check=True
        )
        assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    "arguments",
    [
        ("budget",),
        ("nonsense",),
        ("fit", "study.toml", "--smapler", "direct"),
        ("fit", "study.toml", "--draws", "0"),
        ("fit", "study.toml", "--draws", "many"),
        ("fit", "study.toml", "--sampler", "direkt"),
        ("budget", "run.nc", "--study", "study.toml"),
        ("budget", "study.toml", "--study", "study.toml"),
        ("budget", "run.nc", "--design", "task"),
        ("budget", "run.nc", "--design", "task=-3"),
        ("budget", "run.nc", "--design", "task=1.5"),
        ("budget", "run.nc", "--design", "task=1,task=2"),
    ],
)
def test_wrong_usage_ends_with_2(command, arguments: tuple[str, ...]) -> None:
    code, out, err = command(*arguments)
    assert code == 2
    assert out == ""
    assert "rror" in err or "Usage" in err
    assert "Traceback" not in err


def test_usage_errors_say_what_is_wrong(command) -> None:
    assert "Did you mean 'direct'?" in command("fit", "s.toml", "--sampler", "direkt")[2]
    err = command("budget", "run.nc", "--design", "task=x")[2]
    assert err == (
        "error: --design 'task=x': 'task=x' is not FACET=NUMBER. Such as task=100,rollout=4.\n"
    )
    assert "names 'task' twice" in command("budget", "r.nc", "--design", "task=1,task=2")[2]


# ------------------------------------------------------------------------------ check


def test_check_prints_the_report_of_80_columns(command, folder: Path) -> None:
    code, out, err = command("check", folder / "study.toml")
    assert code == 0
    study, frame = small_study()
    expected = str(assess(study, frame)).replace("DataFrame", str(folder / "small.csv"))
    assert out.splitlines()[-5:] == expected.splitlines()[-5:]
    assert max(map(len, out.splitlines()[2:])) <= 80
    # One plain line, without the code that raised it.
    [line] = err.splitlines()
    assert line.startswith("warning: left out of the model: system:task:rollout, inside residual")


def test_check_as_json_is_json_alone(command, folder: Path) -> None:
    code, out, _ = command("check", folder / "study.toml", folder / "small.csv", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["schema"] == 1
    assert found["gstudy"] == gs.__version__
    assert set(found) == {"schema", "gstudy", "tables"}
    components = found["tables"]["components"]
    assert set(components) == {"scale", "level", "columns", "rows"}
    names = [row[components["columns"].index("component")] for row in components["rows"]]
    assert names == ["system", "task", "system:task", "system:task:rollout"]


def test_check_takes_a_seed_and_quiet_and_does_the_same(command, folder: Path) -> None:
    plain = command("check", folder / "study.toml")
    assert command("check", folder / "study.toml", "--seed", 3, "--quiet") == plain
    assert "nothing is" in command("check", "--help")[1]


def test_a_study_without_data_says_where_to_put_it(command, tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text('score = "passed"\n[facets.task]\nrole = "legitimate"\n')
    code, out, err = command("check", path)
    assert (code, out) == (1, "")
    assert "names no data" in err
    assert 'data = "trials.csv"' in err


def test_a_wrong_declaration_ends_with_1_and_the_mend(command, tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text('score = "passed"\n[facets.task]\nrole = "legitimat"\n')
    code, out, err = command("check", path, "trials.csv")
    assert (code, out) == (1, "")
    assert err.startswith(f"error: {path}: ")
    assert "Did you mean 'legitimate'?" in err
    assert len(err.splitlines()) == 1


def test_wrong_data_end_with_1(command, folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "trials.csv"
    path.write_text("system,task,rollout,passed\nA,t,1,0.5\n")
    code, _, err = command("check", folder / "study.toml", path)
    assert code == 1
    assert "0.5" in err
    assert "passed" in err
    assert "Traceback" not in err


# ------------------------------------------------------------------------------ budget


def test_budget_of_one_system_answers_in_words(command, folder: Path) -> None:
    code, out, err = command("budget", folder / "airline.nc")
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    assert len(out.splitlines()) <= 30
    assert out.startswith("airline.csv: 200 trials, 50 tasks x 4 rollouts\n")
    assert "Score: 42.0% of 200 trials passed" in out
    assert "naive 95% interval  35.4% to 48.9%" in out
    assert "times as wide as the naive one" in out
    assert "The full interval is of the pass rate over new tasks and new rollouts." in out
    assert "Where it comes from: " in out
    assert "In a new study of this design 95% of scores lie within" in re.sub(r"\s+", " ", out)
    assert "residual includes rollout" in out
    assert "residual: the chance" not in out
    assert "Re-run: a re-run of the same tasks (new rollouts) moves" in out
    assert "system: gpt-4o (tool-calling) (pinned)" in out
    assert "Fit: 4 chains x 250 draws, seed 3, sampler direct" in out
    assert "gates passed: R-hat <= " in out
    assert f"gstudy budget {folder / 'airline.nc'} --design task=" in err


def test_the_words_carry_the_numbers_of_the_library(command, folder: Path) -> None:
    from gstudy.questions.scores import score

    fit = gs.load(folder / "airline.nc")
    _, out, _ = command("budget", folder / "airline.nc")
    row = score(fit).summary().iloc[0]
    assert f"{100 * row['lower']:.1f}% to {100 * row['upper']:.1f}%" in out
    assert f"{row['ratio']:.1f} times as wide" in out
    budget = gs.variance_budget(fit)
    assert f"{100 * float(budget.half_width().mean()):.1f} points" in out.replace("\n  ", " ")
    for name, share in budget.summary()["share"].items():
        [line] = [text for text in out.splitlines() if text.startswith(f"  {name} ")][:1]
        assert f"{100 * share:.1f}%" in line
        assert "█" in line
    noise = float(gs.rerun_noise(fit).difference().mean())
    assert f"up to {100 * noise:.1f} points" in out.replace("\n  ", " ")


def test_budget_of_several_systems_has_a_row_for_each(command, folder: Path) -> None:
    code, out, _ = command("budget", folder / "panel.nc")
    assert code == 0
    for system in ("atlas", "birch", "cobalt", "delta", "ember", "fjord"):
        assert any(line.startswith(f"{system} ") for line in out.splitlines())
    assert "share one set of sds" in out
    assert "fit its trials alone (gstudy budget STUDY_OR_DATA --system NAME)" in " ".join(
        out.split()
    )
    assert "mean over the 6 fitted" in out
    assert "smaller sources" in out
    assert "source                        share of variance  95% interval    role" in out
    assert "residual: the chance in a single trial" in out
    assert "the naive one is Wilson's" in out
    assert "same tasks, snapshots and judges (new rollouts)" in out.replace("\n  ", " ")
    assert max(map(len, out.splitlines())) <= 80


def test_one_of_several_systems_needs_own_variances(command, folder: Path) -> None:
    code, out, err = command("budget", folder / "panel.nc", "--system", "cobalt")
    assert (code, out) == (1, "")
    said = " ".join(err.split())
    assert "share their sds" in said
    assert "gstudy budget STUDY_OR_DATA --system cobalt fits it alone" in said
    assert "gs." not in said
    code, _, err = command("budget", folder / "panel.nc", "--system", "cobolt")
    assert code == 1
    assert "Did you mean 'cobalt'?" in err


def test_budget_of_a_new_system(command, folder: Path) -> None:
    code, out, err = command("budget", folder / "panel.nc", "--system", "new")
    assert code == 0, err
    assert "Score: none, as a new system was not run." in out
    assert "of trials passed" not in out
    assert "the score of a new system, as collected" in out.replace("\n  ", " ")
    assert "Re-run: " in out
    assert max(map(len, out.splitlines())) <= 80
    width = gs.variance_budget(gs.load(folder / "panel.nc"), system="new").half_width().mean()
    assert f"{100 * float(width):.1f} points" in out.replace("\n  ", " ")
    found = json.loads(command("budget", folder / "panel.nc", "--system", "new", "--json")[1])
    assert "score" not in found["tables"]
    assert "system" in [row[0] for row in found["tables"]["budget"]["rows"]]


def test_a_new_system_next_to_a_single_one_is_refused(command, folder: Path) -> None:
    code, out, err = command("budget", folder / "airline.nc", "--system", "new")
    assert (code, out) == (1, "")
    assert "no population of systems" in err


def test_a_new_system_leaves_files_too(command, folder: Path, tmp_path: Path) -> None:
    arguments = ("budget", folder / "panel.nc", "--system", "new", "--out", tmp_path)
    assert command(*arguments)[0] == 0
    text = (tmp_path / "budget.md").read_text(encoding="utf-8")
    assert "a new system" in text
    assert "observed pass rate" not in text


def test_budget_of_an_empty_file_says_so(command, tmp_path: Path) -> None:
    path = tmp_path / "empty.csv"
    path.write_text("")
    code, out, err = command("budget", path)
    assert (code, out) == (1, "")
    assert err.startswith(f"error: {path} is empty.")


def test_budget_of_another_design(command, folder: Path) -> None:
    _, collected, _ = command("budget", folder / "airline.nc")
    code, out, _ = command("budget", folder / "airline.nc", "--design", "task=500, rollout=4")
    assert code == 0
    assert "task = 500, rollout = 4" in out.replace("\n  ", " ")
    assert "Score: 42.0%" in out
    assert out != collected
    code, _, err = command("budget", folder / "airline.nc", "--design", "tsak=5,rollout=4")
    assert code == 1
    assert "unknown facet 'tsak'" in err
    assert "Did you mean 'task'?" in err


def test_the_next_commands_work(command, folder: Path, tmp_path: Path) -> None:
    copied = tmp_path / "my run.nc"
    shutil.copy(folder / "panel.nc", copied)
    _, _, err = command("budget", copied)
    import shlex

    lines = [line.split("   ")[0] for line in err.splitlines() if "gstudy budget" in line]
    assert len(lines) == 2
    for line in lines[:1]:
        program, *arguments = shlex.split(line)
        assert program == "gstudy"
        assert command(*arguments)[0] == 0


def test_quiet_prints_no_hints(command, folder: Path) -> None:
    code, out, err = command("budget", folder / "airline.nc", "--quiet")
    assert (code, err) == (0, "")
    assert "Score: " in out


def test_budget_as_json_is_json_alone(command, folder: Path) -> None:
    code, out, err = command("budget", folder / "panel.nc", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert list(found["tables"]) == [
        "score",
        "budget",
        "half_width",
        "rerun_noise",
        "components",
        "not_covered",
        "universe",
        "gates",
    ]
    budget = found["tables"]["budget"]
    assert (budget["scale"], budget["level"]) == ("score", 0.95)
    rows = pd.DataFrame(budget["rows"], columns=budget["columns"]).set_index("component")
    measured = gs.variance_budget(gs.load(folder / "panel.nc"))
    expected = measured.summary()
    width = found["tables"]["half_width"]
    (row,) = width["rows"]
    told = dict(zip(width["columns"], row, strict=True))
    assert told["estimand"] == measured.estimand
    assert told["mean"] == pytest.approx(float(measured.half_width().mean()))
    assert told["lower"] < told["mean"] < told["upper"]
    assert list(rows.index) == list(expected.index)
    np.testing.assert_array_equal(rows["share"], expected["share"])
    assert len(found["tables"]["score"]["rows"]) == 6


def test_out_leaves_tables_and_plot(command, folder: Path, tmp_path: Path) -> None:
    code, _out, _err = command("budget", folder / "airline.nc", "--out", tmp_path / "new" / "dir")
    assert code == 0
    left = tmp_path / "new" / "dir"
    assert sorted(path.name for path in left.iterdir()) == [
        "budget.csv",
        "budget.json",
        "budget.md",
        "budget.png",
    ]
    assert (left / "budget.png").read_bytes().startswith(b"\x89PNG")
    assert "| task |" in (left / "budget.md").read_text(encoding="utf-8")
    table = pd.read_csv(left / "budget.csv", index_col="component")
    expected = gs.variance_budget(gs.load(folder / "airline.nc")).summary()
    np.testing.assert_allclose(table["share"], expected["share"])
    assert json.loads((left / "budget.json").read_text(encoding="utf-8"))["schema"] == 1


def test_out_that_is_a_file_ends_with_1(command, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    code, out, err = command("budget", folder / "airline.nc", "--out", tmp_path / "taken")
    assert (code, out) == (1, "")
    assert "cannot be made" in err


def test_a_run_that_is_none_ends_with_1(command, folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.nc"
    path.write_bytes((folder / "airline.nc").read_bytes()[:-9])
    code, out, err = command("budget", path)
    assert (code, out) == (1, "")
    assert "truncated" in err


# ------------------------------------------------------------------------------ not converged


def test_numbers_that_fail_a_gate_are_withheld(command, folder: Path, tmp_path: Path) -> None:
    for extra in ((), ("--json",), ("--out", tmp_path / "out")):
        code, out, err = command("budget", folder / "bad.nc", *extra)
        assert (code, out) == (3, "")
        assert "NOT CONVERGED: 2 divergences (limit 0)" in err
        assert "--allow-unconverged" in err
    assert list((tmp_path / "out").iterdir()) == []


def test_allowed_numbers_are_stamped_everywhere(command, folder: Path, tmp_path: Path) -> None:
    arguments = ("budget", folder / "bad.nc", "--allow-unconverged", "--out", tmp_path)
    code, out, _ = command(*arguments)
    assert code == 0
    assert out.startswith("NOT CONVERGED: 2 divergences (limit 0). Do not publish.")
    assert "NOT CONVERGED" in (tmp_path / "budget.md").read_text(encoding="utf-8")
    assert "NOT CONVERGED" in (tmp_path / "budget.csv").read_text(encoding="utf-8")
    assert "NOT CONVERGED" in (tmp_path / "budget.json").read_text(encoding="utf-8")
    found = json.loads(command(*arguments, "--json")[1])
    assert found["tables"]["not_converged"]["rows"][0][0].startswith("NOT CONVERGED")


# ------------------------------------------------------------------------------ how it ends


def test_a_closed_pipe_ends_quietly(folder: Path) -> None:
    process = console("budget", folder / "airline.nc")
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    with process.stderr as stderr:
        err = stderr.read()
    assert process.wait() == 141
    assert "Traceback" not in err
    assert "BrokenPipe" not in err


def test_ctrl_c_ends_quietly(tmp_path: Path) -> None:
    # Reading the trials blocks on this pipe until the signal comes.
    fifo = tmp_path / "trials.csv"
    os.mkfifo(fifo)
    import signal

    process = console("budget", fifo, start_new_session=True)
    # Opens once the other end does.
    with fifo.open("w"):
        process.send_signal(signal.SIGINT)
        process.wait(timeout=30)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert out == ""
    assert "Traceback" not in err


def test_output_that_cannot_hold_bars_gets_plain_ones(folder: Path) -> None:
    code = "from gstudy.cli.main import run; run()"
    done = subprocess.run(
        [sys.executable, "-c", code, "budget", str(folder / "airline.nc")],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        check=True,
    )
    assert b"####" in done.stdout


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["fit", "--help"]])
def test_help_into_a_closed_pipe_ends_quietly(arguments: list[str]) -> None:
    process = console(*arguments)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    with process.stderr as stderr:
        assert stderr.read() == ""
    assert process.wait() == 141


# No file may have a byte: as a disk that is full, without its message.
RUN_WITHOUT_ROOM = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
from gstudy.cli.main import run
run()
"""


@pytest.mark.parametrize(
    "arguments",
    [["check", str(study_file("airline"))], ["--version"], ["--help"], ["fit", "--help"]],
)
def test_output_that_cannot_be_written_is_told(arguments: list[str], tmp_path: Path) -> None:
    with (tmp_path / "out").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", RUN_WITHOUT_ROOM, *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert "error: the output cannot be written: File too large" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_seed_out_of_range_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = ended(capsys, "fit", "study.toml", "--seed", -1)
    assert code == 2
    assert "--seed" in err


def test_a_fit_where_a_study_is_expected_is_named(command, tmp_path: Path) -> None:
    path = tmp_path / "run.nc"
    path.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(64))
    code, out, err = command("check", path)
    assert (code, out) == (1, "")
    assert "This is a fit by its name, not a study: give the study file (TOML)" in err
