"""From real trials and logs to a page, by the commands alone: nothing is edited in between.

The guessed roles stand as they are; the gates of each fit must pass, or the commands end with 3.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
from commands import ended

import gstudy as gs

TABLES = (
    *("taubench_gpt4o_airline", "gpqa_diamond_epochs", "statnlp_annotation_gstudy"),
    *("classic_brennan_3_2", "tau2_multijudge", "tau2_onetrial_systems", "livebench_2025_01"),
    *("highk_aime2024_cot", "metr_horizon_runs", "pandalm_pairs"),
)
INSPECT = "inspect"
# In every report: what every study can answer.
ALWAYS = {"card", "answer", "claim", "scores", "budget", "components", "checks", "sampler"}


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]):
    return partial(ended, capsys)


def source_of(name: str, shared: Path, folder: Path) -> Path:
    """The table, or a folder of the Inspect logs alone."""
    if name != INSPECT:
        return shared / "data" / f"{name}.csv.gz"
    pytest.importorskip("inspect_ai")
    logs = folder / "logs"
    logs.mkdir()
    for path in (shared / "raw").glob("inspect_*.[ej]*"):
        (logs / path.name).write_bytes(path.read_bytes())
    return logs


@pytest.mark.slow
@pytest.mark.reference
@pytest.mark.parametrize("name", [INSPECT, *TABLES])
def test_init_fit_and_report_need_no_edit(command, name: str, shared: Path, tmp_path: Path) -> None:
    source = source_of(name, shared, tmp_path)
    study, run, out = (tmp_path / end for end in ("study.toml", "run.nc", "out"))
    code, _, told = command("init", source, "-o", study)
    assert code == 0, told
    code, _, told = command("fit", study, "--out", run, "--seed", 1, "--sampler", "direct", "-q")
    assert code == 0, told
    code, _, told = command("report", run, "--card", "-o", out)
    assert code == 0, told
    fit = gs.load(run)
    assert fit.study == gs.Study.from_toml(study)
    report = json.loads((out / "report.json").read_text("utf-8"))
    assert {section["key"] for section in report["sections"]} >= ALWAYS
    assert f"{fit.design.n_trials:,} trials" in report["title"]
    assert source.name in report["title"]
    card = json.loads((out / "card.json").read_text("utf-8"))
    n_trials = sum(entry["n_trials"] for entry in card["systems"])
    assert n_trials == fit.design.n_trials
    assert "NOT CONVERGED" not in (out / "report.html").read_text("utf-8")
