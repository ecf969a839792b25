"""`gstudy report`: files, exit codes, messages."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from commands import ended
from handmade import fit_by_hand, small_fit, small_study

import gstudy as gs
from gstudy.fits.fitted import Fit
from gstudy.fits.gates import assess
from gstudy.questions.card import STATEMENT
from gstudy.study.estimable import assess as assess_design


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]):
    """Run `gstudy ...`: exit code, standard output, standard error."""
    return partial(ended, capsys)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    fit = small_fit()
    fit.save(folder / "run.nc")
    diverging = np.zeros(fit.mu.shape, dtype=bool)
    diverging[0, :2] = True
    bad = assess({"mu": fit.mu}, {"diverging": diverging})
    Fit(fit.posterior, fit.study, fit.design, bad, fit.settings).save(folder / "bad.nc")
    return folder


def test_it_leaves_a_page_and_its_files(command, runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    code, printed, told = command("report", runs / "run.nc", "--card", "-o", out)
    assert (code, printed) == (0, "")
    assert f"wrote {out / 'report.html'}" in told
    names = {path.name for path in out.iterdir()}
    assert names == {"report.html", "report.md", "report.json", "card.json", "figures", "tables"}
    page = (out / "report.html").read_text("utf-8")
    fit = gs.load(runs / "run.nc")
    assert f"{100 * gs.score(fit).summary()['rate'].iloc[0]:.1f}%" in page
    assert STATEMENT in page


def test_an_unconverged_run_is_withheld(command, runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    code, _, told = command("report", runs / "bad.nc", "-o", out)
    assert code == 3
    assert "2 divergences" in told
    assert "--allow-unconverged" in told
    assert not (out / "report.html").exists()


def test_it_is_stamped_when_asked_for_and_json_is_the_tables_alone(
    command, runs: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    wanted = ("--allow-unconverged", "--json")
    code, printed, told = command("report", runs / "bad.nc", "-o", out, *wanted)
    assert (code, told) == (0, "")
    assert "2 divergences" in (out / "report.html").read_text("utf-8")
    tables = json.loads(printed)["tables"]
    assert {"budget", "scores", "tasks", "gates"} <= set(tables)
    assert "card" not in tables
    assert "2 divergences" in tables["not_converged"]["rows"][0][0]


def test_what_is_no_run_is_named(command, tmp_path: Path) -> None:
    code, _, told = command("report", tmp_path / "trials.csv")
    assert code == 2
    assert "is no saved run" in told
    assert f"gstudy budget {tmp_path / 'trials.csv'} --out DIR" in told
    code, _, told = command("report", tmp_path / "none.nc")
    assert code == 1
    assert "there is no such file" in told


def one_system(folder: Path, system: str, name: str, seed: int = 3, **changes: object) -> Path:
    """A run of one system, made by itself."""
    study, frame = small_study(**changes)
    own = frame[frame["system"] == system]
    path = folder / f"{name}.nc"
    fit_by_hand(assess_design(study, own), seed=seed).save(path)
    return path


def test_several_runs_stand_side_by_side(command, tmp_path: Path) -> None:
    paths = [one_system(tmp_path, label, f"r{i}", i) for i, label in enumerate(("A", "C/2"))]
    out = tmp_path / "out"
    code, printed, told = command("report", *paths, "--card", "-o", out, "--json")
    assert (code, told) == (0, "")
    card = json.loads((out / "card.json").read_text("utf-8"))
    assert [entry["system"] for entry in card["systems"]] == ["A", "C/2"]
    for entry, path in zip(card["systems"], paths, strict=True):
        ratio = gs.icc(gs.load(path), "task").summary().iloc[0]
        assert entry["icc"]["lower"] == pytest.approx(ratio["lower"], rel=1e-12)
    budgets = json.loads(printed)["tables"]["budgets"]
    assert budgets["columns"][:2] == ["system", "task"]
    share = gs.variance_budget(gs.load(paths[1])).summary().loc["task", "share"]
    assert budgets["rows"][1][0] == "C/2"
    assert budgets["rows"][1][1].startswith(f"{100 * share:.0f}% (")
    page = json.loads((out / "report.json").read_text("utf-8"))
    keys = ["card", "claim", "scores", "budget", "icc", "sampler"]
    assert [section["key"] for section in page["sections"]] == keys
    assert page["title"] == "Reliability report: 2 systems side by side"


def test_runs_of_one_system_have_the_names_of_their_files(command, tmp_path: Path) -> None:
    paths = [one_system(tmp_path, "A", name, i) for i, name in enumerate(("monday", "friday"))]
    out = tmp_path / "out"
    assert command("report", *paths, "-o", out, "--json")[0] == 0
    scores = json.loads((out / "report.json").read_text("utf-8"))["sections"][1]["tables"]["scores"]
    assert sorted(row[0] for row in scores["rows"]) == ["friday", "monday"]


def test_runs_that_cannot_stand_side_by_side_are_named(command, runs: Path, tmp_path: Path) -> None:
    one = one_system(tmp_path, "A", "one")
    code, _, told = command("report", one, runs / "run.nc", "-o", tmp_path / "out")
    assert code == 1
    assert "'run' is of 3 systems" in told
    other = one_system(tmp_path, "C/2", "other", interactions="none")
    code, _, told = command("report", one, other, "-o", tmp_path / "out")
    assert code == 1
    assert "'A' and 'C/2' are of unlike studies (model)" in told
    code, _, told = command("report", one, one, "-o", tmp_path / "out")
    assert code == 2
    assert "given twice" in told
    assert not (tmp_path / "out").exists()


def test_one_run_of_several_that_did_not_converge_withholds_the_page(
    command, tmp_path: Path
) -> None:
    one, two = one_system(tmp_path, "A", "one"), one_system(tmp_path, "C/2", "two")
    fit = gs.load(two)
    diverging = np.zeros(fit.mu.shape, dtype=bool)
    diverging[0, :2] = True
    bad = assess({"mu": fit.mu}, {"diverging": diverging})
    Fit(fit.posterior, fit.study, fit.design, bad, fit.settings).save(two)
    code, _, told = command("report", one, two, "-o", tmp_path / "out")
    assert code == 3
    assert "'C/2'" in told
