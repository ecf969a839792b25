"""The benchmark of simulated designs: its truths and its arithmetic; few studies."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

import numpy as np
import pytest
from benchmarks import designs
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import norm

import gstudy as gs

if TYPE_CHECKING:
    from pathlib import Path


def test_universe_scores_are_integrals() -> None:
    case = designs.CASES["round robin"]()
    sd = case.within() ** 0.5
    expected = quad(lambda z: expit(case.mu + 0.7 + sd * z) * norm.pdf(z), -10, 10)[0]
    assert designs._universe(case, np.array([0.7])).item() == pytest.approx(expected, abs=1e-9)
    assert designs._universe_of(case, np.array([[0.7]])).item() == pytest.approx(expected, abs=1e-6)


def test_a_jackknife_of_means_is_their_standard_error() -> None:
    values = np.random.default_rng(1).normal(size=50)
    mean, error = designs._jackknife(values, np.ones(50))
    assert mean == pytest.approx(values.mean())
    assert error == pytest.approx(values.std(ddof=1) / 50**0.5)


def test_the_ragged_source_weighs_the_trials_as_collected() -> None:
    case = designs.CASES["ragged"]()
    found = gs.compare_designs(designs.source_of(case, case.effects), None)
    per_system = case.rows.groupby("system")["n"].sum()
    assert found.trials["as collected"] == pytest.approx(per_system.mean())


def test_few_studies_agree_and_are_written(tmp_path: Path) -> None:
    output = tmp_path / "designs.csv"
    chosen = ["--design", "finite universe", "--studies", "500", "--output", str(output)]
    assert designs.main(chosen) == 0
    with output.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["quantity"] for row in rows] == ["variance", "phi", "ranking", "winner", "power"]
    assert all(abs(float(row["z"])) <= designs.LIMIT for row in rows)


def test_a_wrong_prediction_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = designs._predicted
    monkeypatch.setattr(
        designs,
        "_predicted",
        lambda case: right(case) | {"variance": 1.6 * right(case)["variance"]},
    )
    chosen = [
        "--design",
        "finite universe",
        "--studies",
        "500",
        "--output",
        str(tmp_path / "x.csv"),
    ]
    assert designs.main(chosen) == 1
