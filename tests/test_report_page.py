"""The report: its sections, its escapes, its files, and that it loads nothing."""

from __future__ import annotations

import csv
import io
import json
import re
from base64 import b64decode
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from handmade import fit_by_hand, small_fit, small_study
from jsonschema import Draft202012Validator

import gstudy as gs
from gstudy.display import Table
from gstudy.fits.fitted import Fit
from gstudy.fits.gates import assess as assess_draws
from gstudy.fits.many import Fits
from gstudy.report.answer import answer_lines
from gstudy.report.page import Report, build_report
from gstudy.report.spreadsheets import harmless, table_csv
from gstudy.study.estimable import assess
from gstudy.study.parts import split_by

LONG = "a task whose label has more than sixty characters, to be shortened 1"


@pytest.fixture(autouse=True)
def close_figures() -> Iterator[None]:
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def fit() -> Fit:
    """Labels that HTML, a spreadsheet or a formula would read as its own."""
    study, frame = small_study()
    renamed = {"007": LONG, "a/b": "=HYPERLINK(1)", "back\\slash": "$x_1$"}
    frame["task"] = frame["task"].replace(renamed)
    return fit_by_hand(assess(study, frame))


@pytest.fixture(scope="module")
def report(fit: Fit) -> Report:
    return build_report(fit, card=True)


@pytest.fixture(scope="module")
def page(report: Report) -> str:
    return report.html()


class Read(HTMLParser):
    """Tags with their attributes, and the text between them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def keys(report: Report) -> list[str]:
    return [section.key for section in report.sections]


def test_every_section_that_the_data_can_answer_is_there(report: Report) -> None:
    assert keys(report) == [
        "card",
        "answer",
        "claim",
        "scores",
        "budget",
        "next-steps",
        "components",
        "icc",
        "tasks",
        "checks",
        "priors",
        "sampler",
        "not-sampled",
    ]


def test_sections_vanish_that_it_cannot(fit: Fit) -> None:
    assert "card" not in keys(build_report(fit))
    study = gs.Study(
        score="passed",
        object="system",
        facets=[gs.Facet("rollout", role="legitimate", nested_in=["system"])],
        interactions="none",
    )
    _, frame = small_study()
    frame["rollout"] = frame.groupby("system").cumcount()
    without_tasks = keys(build_report(fit_by_hand(assess(study, frame))))
    assert "tasks" not in without_tasks
    assert "icc" not in without_tasks
    assert "budget" in without_tasks


def test_effects_that_were_not_kept_leave_out_what_needs_them(fit: Fit) -> None:
    tree = fit.posterior.copy()
    group = tree["posterior"].to_dataset()
    # What a fit keeps of many effects.
    effects, name = group["u(system:task)"], "system:task"
    tree["posterior"] = group.drop_vars(f"u({name})").assign(
        {
            f"u_mean({name})": effects.mean(("chain", "draw")),
            f"u_sd({name})": effects.std(("chain", "draw")),
        }
    )
    found = keys(build_report(Fit(tree, fit.study, fit.design, fit.diagnostics, fit.settings)))
    assert "tasks" not in found
    assert "components" in found


def test_graded_scores_have_a_page_without_the_logit_scale() -> None:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            "task": np.repeat(list("abcdefgh"), 4),
            "rollout": np.tile(range(4), 8),
            "score": rng.normal(size=32),
        }
    )
    facets = [
        gs.Facet("task", role="legitimate"),
        gs.Facet("rollout", role="legitimate", nested_in=["task"]),
    ]
    study = gs.Study(score="score", family="gaussian", facets=facets)
    page = build_report(fit_by_hand(assess(study, frame)), card=True).html()
    assert "logit scale" not in page
    assert "percentage point" not in page


def test_labels_are_text(page: str) -> None:
    read = Read(page)
    assert not {"script", "iframe", "object", "link"} & {tag for tag, _ in read.tags}
    assert "<script>alert(1)</script>" in read.text
    assert "<script" not in page
    assert not [name for _, found in read.tags for name in found if name.startswith("on")]


def test_long_labels_are_cut_and_whole_in_a_tooltip(page: str) -> None:
    read = Read(page)
    titles = {found["title"] for _, found in read.tags if "title" in found}
    assert LONG in titles
    assert LONG not in read.text


def test_the_page_loads_nothing(page: str) -> None:
    read = Read(page)
    named = [
        str(value)
        for _, found in read.tags
        for name, value in found.items()
        if name in ("src", "href", "srcset", "action", "data", "poster")
    ]
    assert named
    assert all(value.startswith(("data:image/svg+xml;base64,", "#")) for value in named)
    assert "default-src 'none'" in page
    assert not re.search(r"url\(|@import|https?:", page)


def test_pictures_are_safe_svg(page: str) -> None:
    for source in re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', page):
        root = ElementTree.fromstring(b64decode(source))
        tags = {element.tag.rpartition("}")[2] for element in root.iter()}
        assert root.tag.endswith("svg")
        assert not tags & {"script", "foreignObject", "image", "a"}


def test_captions_name_scale_and_level(report: Report) -> None:
    for section in report.sections:
        for found in section.pictures:
            assert "score scale" in found.caption or "logit scale" in found.caption
            assert "95%" in found.caption or "without intervals" in found.caption
            assert found.png.startswith(b"\x89PNG")


def test_the_answer_has_the_numbers_of_the_library(fit: Fit, page: str) -> None:
    text = " ".join(Read(page).text.split())
    budget = gs.variance_budget(fit)
    width = 100 * float(budget.half_width(0.95).mean())
    assert f"95% of scores lie within {width:.1f} points" in text
    apart = 100 * float(gs.rerun_noise(fit).difference().mean())
    assert f"moves the score by up to {apart:.1f} points" in text
    shares = budget.summary()["share"]
    assert f"The largest source of that is {shares.idxmax()}: {100 * shares.max():.0f}%" in text


def test_the_next_steps_are_those_of_the_library(fit: Fit, report: Report) -> None:
    section = next(s for s in report.json()["sections"] if s["key"] == "next-steps")
    assert section["title"] == "What to run next"
    [figure] = section["figures"]
    assert figure["file"] == "figures/next-steps.png"
    table = section["tables"]["next_steps"]
    summary = gs.next_steps(fit).summary()
    found = {row[0]: dict(zip(table["columns"], row, strict=True)) for row in table["rows"]}
    assert list(found) == list(summary.index)
    for name, row in found.items():
        assert row["half-width"] == pytest.approx(summary.loc[name, "mean"], rel=1e-12)
    assert "## What to run next" in report.markdown()
    assert "(figures/next-steps.png)" in report.markdown()
    study, frame = small_study(cost={"task": 25, "rollout": 0.4})
    priced = build_report(fit_by_hand(assess(study, frame)))
    [tables] = [s.tables for s in priced.sections if s.key == "next-steps"]
    assert "added cost" in tables["next_steps"].frame


def test_what_has_one_level_is_named_as_one() -> None:
    study, frame = small_study()
    facets = [*study.facets, gs.Facet("benchmark", role="controlled")]
    wider = gs.Study(score="passed", facets=facets)
    fit = fit_by_hand(assess(wider, frame.assign(benchmark="quiz")))
    told = " ".join(answer_lines(fit))
    assert "A re-run of the same tasks and benchmark moves the score" in told


def schema(name: str) -> dict[str, Any]:
    return json.loads((files("gstudy") / "schemas" / f"{name}.schema.json").read_text("utf-8"))


def test_json_follows_its_schema(report: Report) -> None:
    plain = json.loads(json.dumps(report.json(), allow_nan=False))
    Draft202012Validator.check_schema(schema("report"))
    Draft202012Validator(schema("report")).validate(plain)
    Draft202012Validator(schema("card")).validate(plain["card"])
    tables = {name: t for part in plain["sections"] for name, t in part["tables"].items()}
    assert tables["components_logit"]["scale"] == "logit"
    assert tables["tasks"]["level"] == 0.95


def test_names_of_files_are_unlike(report: Report) -> None:
    tables = [name for section in report.sections for name in section.tables]
    pictures = [found.name for section in report.sections for found in section.pictures]
    assert len(set(tables)) == len(tables)
    assert len(set(pictures)) == len(pictures)


def test_files_are_left_and_no_cell_is_a_formula(report: Report, tmp_path: Path) -> None:
    page = report.write(tmp_path / "deep" / "report")
    folder = page.parent
    assert page.read_text("utf-8") == report.html()
    told = (folder / "report.md").read_text("utf-8")
    for name in re.findall(r"\]\((figures/[^)]+)\)", told):
        assert (folder / name).read_bytes().startswith(b"\x89PNG")
    assert json.loads((folder / "card.json").read_text("utf-8"))["kind"] == "evaluation card"
    cells = [
        cell
        for path in sorted((folder / "tables").iterdir())
        for row in csv.reader(io.StringIO(path.read_text("utf-8")))
        for cell in row
    ]
    assert "'=HYPERLINK(1)" in cells
    risky = [cell for cell in cells if cell.startswith(("=", "+", "@", "\t"))]
    assert risky == []
    minus = [cell for cell in cells if cell.startswith("-")]
    assert all(isinstance(float(cell), float) for cell in minus)


@pytest.mark.parametrize("text", ["=1+2", "+1", "-cmd", "@SUM(A1)", "\t=1", " =1", "\r=1"])
def test_formulas_get_an_apostrophe(text: str) -> None:
    assert harmless(text) == f"'{text}"
    frame = pd.DataFrame({text: [text, "task"], "x": [-1.0, 2.0]})
    rows = list(csv.reader(io.StringIO(table_csv(Table(frame, "")), newline="")))
    assert rows == [[f"'{text}", "x"], [f"'{text}", "-1.0"], ["task", "2.0"]]


def test_markdown_shows_labels_as_text(report: Report) -> None:
    told = report.markdown()
    assert "<script>" not in told
    assert r"\<script\>" in told
    assert told.startswith("# Reliability report")


def test_a_failed_gate_stands_above_everything(fit: Fit) -> None:
    diverging = np.zeros(fit.mu.shape, dtype=bool)
    diverging[0, :2] = True
    bad = assess_draws({"mu": fit.mu}, {"diverging": diverging})
    report = build_report(Fit(fit.posterior, fit.study, fit.design, bad, fit.settings))
    assert report.alarm is not None
    assert "2 divergences" in report.alarm
    assert report.html().index("2 divergences") < report.html().index("<section")
    assert report.markdown().index("NOT CONVERGED") < report.markdown().index("## ")


def test_fits_of_each_system_bring_their_own_variances(fit: Fit) -> None:
    study, frame = small_study()
    _, parts = split_by(study, gs.read_trials(frame, study), "system")
    own = {p.label: fit_by_hand(assess(p.study, p.trials), seed=i) for i, p in enumerate(parts)}
    fits = Fits(own, study, "system")
    joint = small_fit()
    report = build_report(joint, fits, card=True)
    assert report.card is not None
    assert report.card.summary()["icc"].notna().all()
    pictures = [found.name for section in report.sections for found in section.pictures]
    assert "scores-icc" in pictures
    tables = {name: t for section in report.sections for name, t in section.tables.items()}
    assert list(tables["fits"].frame.index) == ["A", "B:1", "C/2"]


def test_what_has_no_report_is_named(report: Report, tmp_path: Path) -> None:
    with pytest.raises(gs.QuantityError, match="a report is of a fit"):
        build_report("run.nc")
    (tmp_path / "file").write_text("")
    with pytest.raises(gs.DataError, match="the report cannot be written"):
        report.write(tmp_path / "file")
