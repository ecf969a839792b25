"""`gstudy report`: files, exit codes, messages."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from commands import ended
from handmade import small_fit

import gstudy as gs
from gstudy.fits.fitted import Fit
from gstudy.fits.gates import assess
from gstudy.questions.card import STATEMENT


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
    assert "gstudy fit" in told
    code, _, told = command("report", tmp_path / "none.nc")
    assert code == 1
    assert "there is no such file" in told
