"""--until, runs that go on, and chains sized to the machine, from the command line."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest
from commands import ended
from designs import checked, grid, study_of, within
from handmade import fit_by_hand, small_fit

import gstudy as gs
from gstudy.cli.first_screen import first_screen
from gstudy.cli.shell_words import in_shell
from gstudy.fits.gates import assess
from gstudy.model.until import until_advice

if TYPE_CHECKING:
    from pathlib import Path

STUDY = """
data = "small.csv"
successes = "k"
trials = "n"
[facets.task]
role = "legitimate"
"""
TRIALS = "task,k,n\na,1,5\nb,3,5\nc,4,5\nd,1,5\ne,2,5\nf,4,5\n"
FEW = ("--sampler", "direct", "--seed", "5", "--tune", "400", "--draws", "150", "--quiet")


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]):
    return partial(ended, capsys)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "small.csv").write_text(TRIALS)
    (tmp_path / "study.toml").write_text(STUDY)
    return tmp_path


def least(fit: gs.Fit) -> float:
    return float(fit.diagnostics.frame[["ess_bulk", "ess_tail"]].to_numpy().min())


def test_a_run_goes_on_where_it_is_or_elsewhere(command, folder: Path) -> None:
    run, more = folder / "run.nc", folder / "more.nc"
    code, _, err = command("fit", folder / "study.toml", "--out", run, "--until", 500, *FEW)
    assert code == 0, err
    first = gs.load(run)
    assert least(first) >= 500
    n = first.diagnostics.draws
    code, out, err = command("fit", run, "--draws", 60, "--out", more, "--quiet")
    assert (code, err) == (0, "")
    assert gs.load(more).settings["rounds"] == [*first.settings["rounds"], 60]
    assert f"4 chains x {n + 60:,} draws" in out
    assert gs.load(run).diagnostics.draws == n
    code, _, err = command("fit", run, "--until", 1500)
    assert code == 0
    assert f"wrote {run}" in err
    longer = gs.load(run)
    assert least(longer) >= 1500
    assert longer.settings["until"] == 1500


def test_every_number_on_the_first_screen_has_its_size(command, folder: Path) -> None:
    out = folder / "out"
    code, _, err = command("budget", folder / "study.toml", "--until", 1000, "--out", out, *FEW)
    assert code == 0, err
    fit = gs.load(out / "run.nc")
    for draws in first_screen(fit).draws():
        flat = draws.to_numpy().reshape(*draws.shape[:2], -1)
        quantities = {str(i): flat[..., i] for i in range(flat.shape[-1])}
        frame = assess({}, {"diverging": [False]}, derived=quantities).frame
        assert not (frame[["ess_bulk", "ess_tail"]] < 1000).to_numpy().any(), draws.name
    code, text, err = command("budget", out / "run.nc", "--until", 4000)
    assert code == 0, err
    [draws] = re.findall(r"Fit: 4 chains x ([\d,]+) draws", text)
    assert int(draws.replace(",", "")) > fit.diagnostics.draws
    assert gs.load(out / "run.nc").diagnostics.draws == fit.diagnostics.draws


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (("--seed", 3), "run.nc goes on as it was made: leave --seed out."),
        (("--chains", 8), "run.nc goes on as it was made: leave --chains out."),
        (("trials.csv",), "run.nc is a run and holds its trials: leave trials.csv out."),
    ],
)
def test_what_a_run_decided_is_not_asked_again(
    command, folder: Path, wrong: tuple[object, ...], message: str
) -> None:
    code, out, err = command("fit", folder / "run.nc", *wrong)
    assert (code, out) == (2, "")
    assert message in err


@pytest.mark.parametrize("more", [(), ("--until", 1000)])
@pytest.mark.parametrize("option", ["--draws", "--chains", "--tune", "--sampler"])
def test_a_run_s_budget_ignores_no_option_of_sampling(
    command, folder: Path, option: str, more: tuple[object, ...]
) -> None:
    value = "direct" if option == "--sampler" else 2000
    code, out, err = command("budget", folder / "run.nc", option, value, *more)
    assert (code, out) == (2, "")
    assert "run.nc" in err
    assert option in err


@pytest.mark.parametrize("text", ["0", "-1", "many", "4.0", "²"])
def test_chains_that_are_no_number_are_a_usage_error(command, folder: Path, text: str) -> None:
    code, _, err = command("fit", folder / "study.toml", f"--chains={text}")
    assert code == 2
    assert "--chains is a number, 1 or more, or auto, not" in err


def test_chains_can_be_sized_to_the_machine(command, folder: Path) -> None:
    run = folder / "run.nc"
    arguments = ("fit", folder / "study.toml", "--out", run, "--chains", "auto", *FEW)
    command(*arguments, "--allow-unconverged")
    fit = gs.load(run)
    assert fit.settings["chains_sized"] is True
    assert 600 <= fit.mu.size < 600 + fit.settings["chains"]


def test_until_below_the_gates_is_told(command, folder: Path) -> None:
    code, _, err = command("fit", folder / "study.toml", "--until", "399", *FEW)
    assert code == 1
    assert "until is not a whole number in range. Given: 399. Allowed: whole, 400 or more" in err


def test_advice_of_the_shell_names_its_own_commands(command, folder: Path) -> None:
    few = ("--sampler", "direct", "--seed", "5", "--tune", "100", "--draws", "20", "--quiet")
    code, _, err = command("fit", folder / "study.toml", "--out", folder / "run.nc", *few)
    assert code == 3
    assert "use --draws 1000 --chains 4" in err
    assert "draws=" not in err
    said = "until=4000 was not reached: x. gs.extend(fit, until=...) goes on; a weak component"
    assert "x. gstudy fit RUN --until N goes on; a weak" in in_shell(said)
    said = "Sample longer: draws=2000, tune=2000."
    assert in_shell(said) == (
        "Sample longer: gstudy fit RUN --until 1000 goes on; or anew, --draws 2000 --tune 2000."
    )
    assert in_shell("task 'draws=3, tune=4'") == "task 'draws=3, tune=4'"
    _, out, _ = command("fit", "--help")
    assert "`fit RUN` adds so many" in " ".join(out.split())


def test_what_python_says_is_what_the_shell_replaces() -> None:
    missed = {"until": 4000, "until_missed": "mu has 900"}
    fit = replace(small_fit(), settings=small_fit().settings | missed)
    advice = until_advice(fit)
    assert advice is not None
    assert "gs.extend" in advice
    assert "gs." not in in_shell(advice)


def test_a_screen_has_long_names_whole_and_the_caveat_of_single_trials() -> None:
    study = study_of(
        "environment", within("long_name_of_task", "environment"), object="system", rollout="none"
    )
    levels = {"system": "ABC", "environment": "xyz", "long_name_of_task": "abcdefgh"}
    screen = first_screen(fit_by_hand(checked(study, grid(levels)))).text()
    lines = screen.splitlines()
    assert max(map(len, lines)) <= 80
    assert "…" not in screen
    assert any(line.strip() == "environment:long_name_of_task" for line in lines)
    told = "the data cannot tell system:environment:long_name_of_task from what a re-run draws anew"
    assert f"An upper bound: {told}" in " ".join(screen.split())
