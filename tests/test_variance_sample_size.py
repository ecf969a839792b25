"""Bonett's standard error and sample size of an ICC."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import gstudy as gs
from gstudy.errors import QuantityError
from gstudy.variance.classical.intraclass import one_way

BONETT = (
    "bonett2002_rho0.85_k4_w0.2",
    "bonett2002_rho0.7_k3_w0.2",
    "bonett2002_rho0.7_k2_w0.2",
    "bonett2002_rho0.8_k3_w0.2",
    "bonett2002_rho0.6_k2_w0.2",
)


@pytest.mark.reference
@pytest.mark.parametrize("name", BONETT)
def test_printed_sample_sizes(oracle: Any, name: str) -> None:
    given = {row["id"]: row for row in oracle("references")["references"]}[name]
    inputs, expected = given["input"], given["expected"]
    found = gs.icc_sample_size(inputs["rho"], inputs["k"], inputs["width"], level=inputs["conf"])
    assert found.raw == pytest.approx(expected["n_raw"], abs=given["tolerance"]["exact"])
    assert found.n == expected["n_ceil"]
    row = found.summary().loc["Bonett 2002"]
    # The rounded number is just precise enough; Bonett's addition is beyond that.
    assert row["width"] <= inputs["width"]
    assert found.summary().attrs["level"] == 0.95


def test_the_size_gives_the_width_that_was_asked_for() -> None:
    found = gs.icc_sample_size(0.5, raters=4, width=0.15)
    error = gs.icc_standard_error(0.5, found.n, raters=4)
    assert error.standard_error == found.standard_error
    assert 0.149 < error.summary()["width"].item() <= 0.15
    fewer = gs.icc_standard_error(0.5, found.n - 1, raters=4)
    assert fewer.summary()["width"].item() > 0.15


def test_the_standard_error_is_that_of_simulated_studies() -> None:
    rng, n, k, icc = np.random.default_rng(7), 100, 4, 0.4
    found = []
    for _ in range(2000):
        scores = rng.normal(0, math.sqrt(icc), (n, 1)) + rng.normal(0, math.sqrt(1 - icc), (n, k))
        deviations = ((scores - scores.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
        found.append(one_way(scores.sum(axis=1), np.full(n, k), deviations).icc)
    spread = np.std(found, ddof=1)
    # The Monte Carlo error of an sd is 1/sqrt(2 x 2000) of it; the formula is a large sample's.
    expected = gs.icc_standard_error(icc, n, k).standard_error
    assert spread == pytest.approx(expected, rel=4 / math.sqrt(4000))


def test_the_tables() -> None:
    text = str(gs.icc_sample_size(0.6, 2, 0.2))
    assert "Sample size for an interval 0.2 wide" in text
    assert "Bonett 2002" in text
    other = gs.icc_standard_error(0.6, 50, 2, level=0.9)
    assert "Standard error of an ICC" in str(other)
    assert "normal 90% interval" in str(other)
    assert other.width is None
    assert "Bonett 2002" in other._repr_html_()


def test_what_is_out_of_range_is_refused() -> None:
    for icc in (1.0, -0.5, math.nan, True, "high"):
        with pytest.raises(QuantityError, match="no intraclass correlation of so many raters"):
            gs.icc_sample_size(icc, 3, 0.2)
    with pytest.raises(QuantityError, match=r"raters is not a number of them.*from 2"):
        gs.icc_sample_size(0.5, 1, 0.2)
    with pytest.raises(QuantityError, match="raters is not a number of them"):
        gs.icc_sample_size(0.5, 2.5, 0.2)
    with pytest.raises(QuantityError, match="n is not a number of them"):
        gs.icc_standard_error(0.5, 1, 3)
    with pytest.raises(QuantityError, match="width is not a proportion"):
        gs.icc_sample_size(0.5, 3, 0)
    with pytest.raises(QuantityError, match="level is not a proportion"):
        gs.icc_sample_size(0.5, 3, 0.2, level=95)
    # A negative planned value is one that an ICC can have.
    assert gs.icc_sample_size(-0.2, 3, 0.2).n > 2


@pytest.mark.parametrize("width", [1e-9, 1e-200])
def test_a_width_that_nobody_can_reach_is_refused(width: float) -> None:
    with pytest.raises(QuantityError, match=r"more subjects than anybody has.*wider interval"):
        gs.icc_sample_size(0.5, 2, width)


def test_very_many_subjects_are_remarked_on_and_shown_in_full() -> None:
    found = gs.icc_sample_size(0.5, 2, 1e-4)
    text = found.table().text()
    assert found.n > 10**8
    assert "More than a million subjects" in text
    assert "0.0001" in text
    assert "0.0000 " not in text
    assert "million" not in gs.icc_sample_size(0.5, 2, 0.1).table().text()
