"""Reported cases A: scale, range and zero variance of the ICC. Cases 1, 2, 4, 5, 6."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from designs import checked, verdicts, within
from onefacet import MU, SD, counted, sampled

import gstudy as gs

if TYPE_CHECKING:
    from pathlib import Path

    from gstudy.fits.fitted import Fit

BOUNDARY = "At the boundary: the data do not tell this ICC from zero."


@pytest.fixture(scope="module")
def even() -> Fit:
    """Ten groups, each 5 of 10."""
    return sampled(*counted([5] * 10, [10] * 10), draws=1500, target_accept=0.97)


def reference(oracle: Any, name: str) -> dict[str, Any]:
    return dict({row["id"]: row for row in oracle("references")["references"]}[name])


def finite(result: Any) -> None:
    """Draws and summary hold no NaN, and the print names neither NaN nor None."""
    assert np.isfinite(result.draws.to_numpy()).all()
    assert np.isfinite(result.summary().select_dtypes("number").to_numpy()).all()
    words = str(result).lower().replace("|", " ").split()
    assert not {"nan", "none", "na", "inf"} & set(words)


@pytest.mark.reference
@pytest.mark.parametrize(
    ("scale", "lower", "upper"), [("logit", 0.0001, 0.0699), ("score", 0.0, 0.0545)]
)
def test_no_variance_between_groups_is_a_small_icc_with_an_interval(
    even: Fit, scale: str, lower: float, upper: float
) -> None:
    """Case 1. Exact 90% limits by quadrature."""
    found = gs.icc(even, "group", scale=scale)
    finite(found)
    row = found.summary(0.9).loc["ICC(group)"]
    assert row["lower"] == pytest.approx(lower, abs=2e-4)
    assert row["upper"] == pytest.approx(upper, abs=8e-3)
    assert 0 < row["lower"] < row["mean"] < row["upper"]
    assert BOUNDARY in found.notes
    assert BOUNDARY in str(found)


@pytest.mark.reference
def test_a_negative_estimate_of_mean_squares_is_a_small_posterior_icc(oracle: Any) -> None:
    """Case 1, Dyestuff2: the estimator from mean squares is negative; REML would be 0."""
    given = reference(oracle, "dyestuff2")
    batches = given["input"]["y_by_batch"]
    table = pd.DataFrame(
        [(b, i, y) for b, row in enumerate(batches) for i, y in enumerate(row)],
        columns=["batch", "run", "score"],
    )
    study = gs.Study(
        score="score",
        family="gaussian",
        facets=[gs.Facet("batch", role="legitimate"), within("run", "batch")],
        priors={
            "mu": {"dist": "Normal", "mu": 5.0, "sigma": 5.0},
            "sd(batch)": {"dist": "HalfNormal", "sigma": 5.0},
            "sd(residual)": {"dist": "HalfNormal", "sigma": 5.0},
        },
    )
    fit = sampled(study, table, draws=2000)
    found = gs.icc(fit, "batch")
    finite(found)
    row, exact = found.summary(0.9).loc["ICC(batch)"], given["expected"]["exact_posterior"]["icc"]
    # sd .124 at some 2,000 effective draws, times 4.
    assert row["mean"] == pytest.approx(exact["mean"], abs=0.011)
    assert row["lower"] == pytest.approx(exact["q5"], abs=4e-4)
    assert row["upper"] == pytest.approx(exact["q95"], abs=0.03)
    assert BOUNDARY in found.notes
    finite(gs.variance_components(fit))
    classical = gs.anova_components(table, study)
    assert classical.frame.loc["batch", "variance"] == pytest.approx(-1.3219, abs=1e-4)
    assert any(note.startswith("Negative: batch.") for note in classical.notes)


def test_ratios_come_from_one_draw_and_stay_between_zero_and_one(even: Fit) -> None:
    """Case 4: numerator and denominator of each draw hold the same variances."""
    logit = gs.icc(even, "group", scale="logit").draws.to_numpy()
    variance = even.sd("group") ** 2
    np.testing.assert_allclose(logit, variance / (variance + np.pi**2 / 3), rtol=1e-12)
    score = gs.icc(even, "group").draws.to_numpy()
    assert ((score >= 0) & (score <= 1)).all()
    for scale in ("score", "logit"):
        shares = gs.variance_components(even, scale=scale).shares.transpose("component", ...)
        assert ((shares >= 0) & (shares <= 1)).all()
        np.testing.assert_allclose(shares.sum("component"), 1.0, atol=1e-12)
    np.testing.assert_allclose(
        gs.variance_components(even).shares.sel(component="group").to_numpy(), score, atol=1e-12
    )


# ------------------------------------------------------------------------- case 2: the scale


def herds(oracle: Any, *, period: bool) -> tuple[gs.Study, pd.DataFrame]:
    given = reference(oracle, "cbpp")["input"]
    facets = [
        gs.Facet("herd", role="legitimate"),
        gs.Facet("period", role="controlled" if period else "legitimate"),
    ]
    table = pd.DataFrame({key: given[key] for key in ("herd", "period", "incidence", "size")})
    if not period:
        facets = facets[:1]
        table = table.groupby("herd", as_index=False)[["incidence", "size"]].sum()
    study = gs.Study(
        successes="incidence",
        trials="size",
        facets=facets,
        interactions="none",
        priors={"mu": MU, "sd(herd)": SD},
    )
    return study, table


@pytest.fixture(scope="module")
def periods(oracle: Any) -> Fit:
    return sampled(*herds(oracle, period=True))


@pytest.mark.reference
def test_the_icc_of_counts_with_a_fixed_effect_is_on_the_right_scale(
    periods: Fit, oracle: Any
) -> None:
    """Case 2: .111 by glmer on the logit scale, never the .008 of a mix of two scales."""
    expected = reference(oracle, "cbpp")["expected"]
    logit = gs.icc(periods, "herd", scale="logit")
    row = logit.summary(0.9).loc["ICC(herd)"]
    assert row["lower"] > 0.008
    assert row["lower"] < expected["icc_latent_period_Laplace"] < row["upper"]
    # Our posterior median against the mode of the likelihood: a prior and a skewed posterior apart.
    assert row["median"] == pytest.approx(expected["icc_latent_period_Laplace"], abs=0.05)
    variance = expected["glmer_period_AGQ25"]["herd"]
    draws = periods.sd("herd") ** 2
    assert np.quantile(draws, 0.05) < variance < np.quantile(draws, 0.95)


@pytest.mark.reference
def test_fixed_effects_agree_with_glmer(periods: Fit, oracle: Any) -> None:
    """Case 2: contrasts to the first period, within half a posterior sd of the likelihood's."""
    expected = reference(oracle, "cbpp")["expected"]["glmer_period_AGQ25"]
    effects = periods.fixed("period")
    for period in (2, 3, 4):
        contrast = (effects.sel(period=str(period)) - effects.sel(period="1")).to_numpy()
        assert contrast.mean() == pytest.approx(
            expected[f"period{period}"], abs=0.5 * contrast.std()
        )


def test_every_icc_names_its_scale(periods: Fit) -> None:
    """Case 2: the two numbers differ, and no print leaves out which one it is."""
    found = {scale: gs.icc(periods, "herd", scale=scale) for scale in ("logit", "score")}
    for scale, one in found.items():
        assert one.scale == scale
        assert one.summary().attrs["scale"] == scale
        assert f"{scale} scale, 95% equal-tailed intervals" in str(one)
        assert f"{scale} scale" in one._repr_html_()
        other = "score" if scale == "logit" else "logit"
        assert f"{other} scale" not in str(one)
    assert found["logit"].draws.mean() > 1.3 * found["score"].draws.mean()


# ------------------------------------------------------------- case 5: what has no such formula


@pytest.mark.parametrize("family", ["beta", "Beta", "quasibinomial", "ordbeta", "poisson"])
def test_an_unsupported_family_is_refused_by_name(family: str, tmp_path: Path) -> None:
    """Case 5: before anything is read or sampled, in Python and in a file."""
    message = f"unknown family. Given: '{family}'. Allowed: binary, gaussian"
    facet = gs.Facet("id", role="legitimate")
    with pytest.raises(gs.DeclarationError, match=message):
        gs.Study(score="score", family=family, facets=[facet])
    path = tmp_path / "study.toml"
    path.write_text(f'score = "score"\nfamily = "{family}"\n[facets.id]\nrole = "legitimate"\n')
    with pytest.raises(gs.DeclarationError, match=message):
        gs.Study.from_toml(path)


@pytest.fixture(scope="module")
def proportions() -> tuple[pd.DataFrame, Fit]:
    """Scores in (0, 1), near both ends, by id."""
    rng = np.random.default_rng(4)
    table = pd.DataFrame({"id": np.repeat(np.arange(12), 5), "run": np.tile(np.arange(5), 12)})
    table["score"] = rng.beta(0.3, 0.3, len(table)).clip(0.001, 0.999)
    study = gs.Study(
        score="score",
        family="gaussian",
        facets=[gs.Facet("id", role="legitimate"), within("run", "id")],
    )
    return table, sampled(study, table)


def test_scores_between_zero_and_one_have_the_gaussian_residual(
    proportions: tuple[pd.DataFrame, Fit],
) -> None:
    """Case 5: the residual variance is that of a trial, estimated, and never negative."""
    table, fit = proportions
    found = gs.icc(fit, "id").draws.to_numpy()
    between, rest = fit.sd("id") ** 2, fit.sd("residual") ** 2
    np.testing.assert_allclose(found, between / (between + rest), rtol=1e-12)
    assert ((found >= 0) & (found <= 1)).all()
    pooled = table.groupby("id")["score"].var().mean()
    low, high = np.quantile(rest, [0.005, 0.995])
    assert low < pooled < high
    with pytest.raises(gs.DataError, match=r'this is no score.*declare family = "gaussian"'):
        gs.read_trials(table, gs.Study(score="score", facets=fit.study.facets))


# ------------------------------------------------------------ case 6: one rating per system


ONE_EACH = pd.DataFrame({"system": range(10), "score": [1, 0, 1, 1, 0, 1, 0, 1, 1, 1]})


def test_one_score_per_system_is_left_out_with_its_reason() -> None:
    """Case 6."""
    study = gs.Study(score="score", object="system")
    with pytest.warns(gs.EstimabilityWarning, match=r"system, inside residual \(one trial per lev"):
        found = gs.check(study, ONE_EACH)
    assert verdicts(found) == {"system": "inside residual"}


def test_the_icc_of_what_is_left_out_is_refused_with_that_reason() -> None:
    """Case 6: it is neither pinned nor of one level."""
    fit = sampled(gs.Study(score="score", object="system"), ONE_EACH)
    with pytest.raises(gs.QuantityError, match="no population of systems") as told:
        gs.icc(fit, "system", system="new")
    assert "one level of system was sampled" not in str(told.value)
    with pytest.raises(gs.QuantityError, match="'system' is inside the residual: one trial per l"):
        gs.icc(fit, "system")


@pytest.mark.reference
def test_kept_it_is_said_to_be_its_prior(oracle: Any) -> None:
    """Case 6: sigma .836 where its prior's mean is .798, and every print says whose it is."""
    given = reference(oracle, "exact_logit_1facet__bernoulli_single_obs_per_level")
    priors = {"mu": MU, "sd(system)": SD}
    study = gs.Study(score="score", object="system", keep=["system"], priors=priors)
    assert verdicts(checked(study, ONE_EACH)) == {"system": "kept, prior only"}
    fit = sampled(study, ONE_EACH, draws=2000, target_accept=0.97)
    exact = given["expected"]["posterior"]["sigma"]
    # sd .62 at 2,000 effective draws, times 4.
    assert fit.sd("system").mean() == pytest.approx(exact["mean"], abs=0.06)
    said = "system: prior only, the data do not inform it."
    for found in (
        gs.variance_components(fit, system="new"),
        gs.icc(fit, "system", scale="logit", system="new"),
    ):
        assert said in found.notes
        assert said in str(found)
