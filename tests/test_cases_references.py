"""Reference numbers that no other test holds: intervals of a rate, graded forms, eight schools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from designs import study_of
from onefacet import sampled

import gstudy as gs
from gstudy.questions.observed import naive_interval

REFERENCES = {
    row["id"]: row
    for row in json.loads(
        (Path(__file__).parent / "oracles" / "references.json").read_text(encoding="utf-8")
    )["references"]
}


@pytest.mark.reference
@pytest.mark.parametrize("name", [name for name in REFERENCES if name.startswith("wilson")])
def test_naive_intervals(name: str) -> None:
    given = REFERENCES[name]
    k, n, level = (given["input"][key] for key in ("k", "n", "level"))
    tolerance = given["tolerance"]["exact"]
    assert naive_interval(k, n, level) == pytest.approx(given["expected"]["wilson"], abs=tolerance)
    for other in ("clopper_pearson", "jeffreys_equal_tailed"):
        assert naive_interval(k, n, level)[1] != pytest.approx(
            given["expected"][other][1], abs=tolerance
        )


# ------------------------------------------------------------------------- Shrout and Fleiss


def rated() -> pd.DataFrame:
    data = REFERENCES["shrout_fleiss_1979"]["input"]["rows_targets_cols_judges"]
    return pd.DataFrame(
        [(t, j, float(y)) for t, row in enumerate(data) for j, y in enumerate(row)],
        columns=["target", "judge", "score"],
    )


def targets(**rest: Any) -> gs.Study:
    judge = gs.Facet("judge", role="error")
    return study_of(judge, object="target", family="gaussian", interactions="none", **rest)


@pytest.mark.reference
def test_components_of_shrout_and_fleiss_from_mean_squares() -> None:
    given = REFERENCES["shrout_fleiss_1979"]
    found = gs.anova_components(rated(), targets()).frame["variance"]
    for name, value in given["expected"]["ems_variance"].items():
        assert found[name] == pytest.approx(value, abs=given["tolerance"]["exact"])


@pytest.fixture(scope="module")
def rated_fit() -> gs.Fit:
    sds = {f"sd({name})": {"dist": "HalfNormal", "sigma": 3.0} for name in ("target", "judge")}
    priors = {
        "mu": {"dist": "Normal", "mu": 5.0, "sigma": 5.0},
        "sd(residual)": {"dist": "HalfNormal", "sigma": 3.0},
        **sds,
    }
    return sampled(targets(priors=priors), rated(), draws=2500)


def close(draws: Any, expected: dict[str, float]) -> None:
    """Mean to 4 MCSE + 5e-4; quantiles, rounded to a thousandth, to 4 MCSE + 2e-3."""
    from arviz_stats.base import array_stats

    values = draws.transpose("chain", "draw").to_numpy()
    error = float(array_stats.mcse(values, method="mean"))
    assert values.mean() == pytest.approx(expected["mean"], abs=4 * error + 5e-4)
    for key in [key for key in expected if key.startswith("q")]:
        p = float(key[1:]) / 100
        error = float(array_stats.mcse(values, method="quantile", prob=p))
        assert np.quantile(values, p) == pytest.approx(expected[key], abs=4 * error + 2e-3), key


@pytest.mark.reference
def test_coefficients_of_graded_scores_are_the_exact_ones(rated_fit: gs.Fit) -> None:
    """Phi and E rho^2 of one and of four judges are the ICCs of Shrout and Fleiss."""
    expected = REFERENCES["exact_gauss_crossed_shrout_fleiss"]["expected"]["posterior"]
    for k, phi, erho2 in (
        (1, "ICC(2,1)=Phi(1)", "ICC(3,1)=Erho2(1)"),
        (4, "ICC(2,k)=Phi(4)", "ICC(3,k)=Erho2(4)"),
    ):
        close(gs.phi(rated_fit, {"judge": k}).draws, expected[phi])
        close(gs.generalizability(rated_fit, {"judge": k}).draws, expected[erho2])
    close(gs.icc(rated_fit, "target", system="new").draws, expected["ICC(2,1)=Phi(1)"])


@pytest.mark.reference
def test_shares_of_graded_scores_are_the_exact_ones(rated_fit: gs.Fit) -> None:
    expected = REFERENCES["exact_gauss_crossed_shrout_fleiss"]["expected"]["posterior"]
    shares = gs.variance_components(rated_fit, system="new").shares
    for name, theirs in (("target", "target"), ("judge", "judge"), ("residual", "resid")):
        draws = shares.sel(component=name)
        close(draws, expected[f"share_{theirs}"])
        assert float(draws.std()) == pytest.approx(expected[f"share_{theirs}"]["sd"], abs=0.01)


# ----------------------------------------------------------------------------- eight schools


@pytest.mark.reference
def test_spread_and_quantiles_of_eight_schools() -> None:
    """Of mu and tau; the reference has 10,000 draws, so that its own error counts as ours does."""
    from arviz_stats.base import array_stats

    given = REFERENCES["posteriordb_eight_schools_noncentered"]
    table = pd.DataFrame(
        {"school": range(8), "score": given["input"]["y"], "se": given["input"]["se"]}
    )
    study = study_of(
        "school",
        family="gaussian",
        standard_error="se",
        priors={
            "mu": {"dist": "Normal", "mu": 0.0, "sigma": 5.0},
            "sd(school)": {"dist": "HalfCauchy", "beta": 5.0},
        },
    )
    fit = sampled(study, table, draws=2500)
    for name, draws in (("mu", fit.mu), ("tau", fit.sd("school"))):
        error = float(array_stats.mcse(draws, method="sd"))
        sd = given["expected"]["sd"][name]
        assert draws.std() == pytest.approx(sd, abs=4 * 2**0.5 * error + 1e-3)
        for p, value in zip((0.05, 0.5, 0.95), given["expected"]["q5_q50_q95"][name], strict=True):
            error = float(array_stats.mcse(draws, method="quantile", prob=p))
            assert np.quantile(draws, p) == pytest.approx(value, abs=4 * 2**0.5 * error + 1e-3)
