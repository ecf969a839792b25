"""The bundled examples: figures as published, truth as written, files made again byte for byte."""

from __future__ import annotations

import gzip
import importlib.util
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from designs import checked

import gstudy as gs
from gstudy.errors import QuantityError
from gstudy.study.examples.catalogue import EXAMPLES, study_file

TOOL = Path(__file__).parent.parent / "tools" / "make_panel.py"


@pytest.fixture(scope="module")
def make_panel() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_panel", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_an_unknown_example_is_refused_with_the_ones_there_are() -> None:
    message = "no example is named 'airlines'.*Allowed: airline, panel.*Did you mean 'airline'"
    with pytest.raises(QuantityError, match=message):
        gs.example("airlines")


@pytest.mark.parametrize("name", EXAMPLES)
def test_studies_and_trials_go_together(name: str) -> None:
    study, trials = gs.example(name)
    assert checked(study, trials).layout.balanced
    assert study.data is not None
    assert study.data.parent == study_file(name).parent
    assert all(facet.reason for facet in study.facets if facet.role != "object")


def test_airline_holds_the_published_figures(oracle: Callable[[str], Any]) -> None:
    [published] = [
        entry
        for entry in oracle("references")["references"]
        if entry["id"] == "tau_bench_airline_gpt4o"
    ]
    _, trials = gs.example("airline")
    assert trials.table["successes"].tolist() == published["input"]["passes_out_of_4_by_task"]
    assert trials.table["trials"].tolist() == [published["input"]["n"]] * 50
    rate = trials.table["successes"].sum() / trials.table["trials"].sum()
    assert rate == pytest.approx(published["expected"]["mean"])


def test_airline_names_source_and_licence() -> None:
    text = study_file("airline").read_text(encoding="utf-8")
    assert "github.com/sierra-research/tau-bench" in text
    assert "MIT licence" in text


def test_panel_is_as_large_as_it_says(make_panel: ModuleType) -> None:
    study, trials = gs.example("panel")
    found = checked(study, trials)
    assert found.facet_levels == make_panel.DESIGN
    assert found.n_trials == 6 * 60 * 2 * 3 * 2


def test_the_truth_beside_panel_is_what_it_was_made_from(make_panel: ModuleType) -> None:
    truth = tomllib.loads(study_file("panel").with_name("panel_truth.toml").read_text("utf-8"))
    assert truth["mu"] == make_panel.MU
    assert truth["sd"] == make_panel.SD
    assert truth["design"] == make_panel.DESIGN
    fitted = {component.name for component in checked(*gs.example("panel")).components}
    assert set(truth["sd"]) == fitted


def test_panel_is_made_again_byte_for_byte(make_panel: ModuleType, tmp_path: Path) -> None:
    make_panel.main(tmp_path)
    folder = study_file("panel").parent
    made, kept = ((place / "panel.csv.gz").read_bytes() for place in (tmp_path, folder))
    # The trials themselves: another build of zlib may pack them differently.
    assert gzip.decompress(made) == gzip.decompress(kept)
    truth = (tmp_path / "panel_truth.toml").read_bytes()
    assert truth == (folder / "panel_truth.toml").read_bytes()


def test_making_panel_twice_gives_the_same_file(make_panel: ModuleType, tmp_path: Path) -> None:
    files = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        make_panel.main(tmp_path / name)
        files.append((tmp_path / name / "panel.csv.gz").read_bytes())
    assert files[0] == files[1]
