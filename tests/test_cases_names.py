"""Reported cases B: nesting, labels, duplicates, new levels, priors. Cases 9, 11, 13, 14, 16."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from designs import checked, study_of, within
from onefacet import MU, SD, counted, exact, same_posterior, sampled
from scipy.special import expit, logit

import gstudy as gs
from gstudy.model.direct import direct_posterior
from gstudy.model.parameterisation import parameterise

if TYPE_CHECKING:
    from gstudy.fits.fitted import Fit
    from gstudy.study.assessment import Assessment

# --------------------------------------------------------- case 9: child labels used again


def pastes(oracle: Any) -> pd.DataFrame:
    rows = {row["id"]: row for row in oracle("references")["references"]}["pastes_nested"]["input"]
    table = pd.DataFrame({key: rows[key] for key in ("batch", "cask")})
    table["score"] = rows["strength"]
    return table.assign(test=table.groupby(["batch", "cask"]).cumcount())


def batches(*, nested: bool = True) -> gs.Study:
    cask = within("cask", "batch") if nested else "cask"
    test = within("test", "batch", "cask")
    rest = {} if nested else {"interactions": "none"}
    return study_of("batch", cask, test, family="gaussian", **rest)


def log_posterior(found: Assessment) -> Any:
    return direct_posterior(parameterise(found.cells, found.mu_prior, found.residual_prior))


def test_declared_nesting_is_one_model_whether_ids_are_used_again_or_not(oracle: Any) -> None:
    """Case 9: the same log-posterior, bit for bit; read as crossed it is another."""
    again = pastes(oracle)
    unique = again.assign(cask=again["batch"] + "-" + again["cask"])
    one, other = (log_posterior(checked(batches(), table)) for table in (again, unique))
    assert one.n_free == other.n_free
    for point in np.random.default_rng(3).normal(size=(20, one.n_free)):
        (value, slope), (same, same_slope) = one(point), other(point)
        assert value == same
        np.testing.assert_array_equal(slope, same_slope)
    assert log_posterior(checked(batches(nested=False), again)).n_free < one.n_free


@pytest.mark.reference
@pytest.mark.parametrize("nested", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_nested_casks_leave_the_small_residual(nested: bool, oracle: Any) -> None:
    """Case 9: REML .678 with the nesting, 7.3 without; each posterior holds its own only."""
    fit = sampled(batches(nested=nested), pastes(oracle), draws=4000)
    low, high = np.quantile(fit.sd("residual") ** 2, [0.005, 0.995])
    if not nested:
        assert 2 < low < 7.306 < high
        return
    assert low < 0.678 < high < 2
    cask = fit.sd("batch:cask") ** 2
    assert np.quantile(cask, 0.05) < 8.43 < np.quantile(cask, 0.95)


def test_unique_ids_without_a_declared_nesting_are_noted_with_two_examples(oracle: Any) -> None:
    """Case 9."""
    table = pastes(oracle)
    unique = table.assign(cask=table["batch"] + table["cask"])
    [note] = [n for n in checked(batches(nested=False), unique).notes if "cask" in n]
    assert note.startswith("each cask occurs under one batch only ('Aa' under 'A', ")
    assert note.count(" under '") == 2
    assert 'nested_in = ["batch"]' in note
    assert not any("occurs under one" in n for n in checked(batches(nested=False), table).notes)


# ---------------------------------------------------------------- case 11: every row twice


def groups(passes: tuple[int, ...] = (2, 5, 9), n: int = 10) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {"group": f"g{g}", "epoch": i, "score": int(i < k)}
            for g, k in enumerate(passes)
            for i in range(n)
        ]
    )


def test_rows_read_twice_are_refused_with_both_named() -> None:
    """Case 11."""
    study = study_of("group", within("epoch", "group"))
    assert len(gs.read_trials(groups(), study)) == 30
    message = (
        r"row 1 \(index 0\) and row 31 \(index 30\) are the same trial, group 'g0', epoch '0' "
        r"\(30 of 60 rows"
    )
    with pytest.raises(gs.DataError, match=message):
        gs.read_trials(pd.concat([groups()] * 2, ignore_index=True), study)


@pytest.mark.reference
@pytest.mark.parametrize(
    ("times", "sigma", "low", "high", "icc"),
    [(1, 1.182, 0.362, 2.149, 0.293), (2, 1.360, 0.681, 2.242, 0.349)],
)
def test_doubled_rows_would_have_another_posterior(
    times: int, sigma: float, low: float, high: float, icc: float
) -> None:
    """Case 11: that is why they are refused. Also the three groups of case 22."""
    passes = [times * k for k in (2, 5, 9)]
    fit = sampled(*counted(passes, [10 * times] * 3), draws=2500, target_accept=0.97)
    of = exact(passes, [10 * times] * 3)
    assert of.mean(of.sigma) == pytest.approx(sigma, abs=2e-3)
    assert of.quantile(of.sigma, 0.05) == pytest.approx(low, abs=5e-3)
    assert of.quantile(of.sigma, 0.95) == pytest.approx(high, abs=2e-2)
    assert of.mean(of.icc) == pytest.approx(icc, abs=1e-3)
    same_posterior(fit.sd("group"), of, of.sigma)
    same_posterior(gs.icc(fit, "group", scale="logit").draws.to_numpy(), of, of.icc)


# ------------------------------------------------------- case 13: whole numbers and their texts


@pytest.fixture(scope="module")
def states() -> tuple[pd.DataFrame, Fit, Fit]:
    """Fifty states, k of 8 that rises with the number; ids as whole numbers and as texts."""
    table = pd.DataFrame({"state": range(1, 51), "n": 8})
    table["k"] = (table["state"] * 8 // 51).astype(int)
    shuffled = table.sample(frac=1, random_state=2).astype({"state": str})
    study = gs.Study(successes="k", trials="n", object="state")
    one, other = (sampled(study, rows, draws=100, tune=300) for rows in (table, shuffled))
    return table, one, other


@pytest.mark.filterwarnings("ignore::gstudy.errors.ConvergenceWarning")
def test_whole_numbers_and_texts_are_the_same_levels(
    states: tuple[pd.DataFrame, Fit, Fit],
) -> None:
    """Case 13: one set of draws, and each label has its own level's."""
    table, one, other = states
    np.testing.assert_array_equal(one.mu, other.mu)
    np.testing.assert_array_equal(one.effects("state"), other.effects("state"))
    labels = list(one.effects("state").coords["state"].to_numpy())
    assert labels == [str(i) for i in range(1, 51)]
    for asked in ("2", "10", "30"):
        found = gs.score(one, system=asked).summary()
        row = table[table["state"] == int(asked)].iloc[0]
        assert found.loc[asked, "rate"] == row["k"] / 8
        np.testing.assert_array_equal(
            gs.score(other, system=asked).draws.to_numpy(), gs.score(one, system=asked).draws
        )
    # The pass rates rise with the number, not with the text: "10" is above "2".
    scores = [float(gs.score(one, system=asked).draws.mean()) for asked in ("2", "10", "30")]
    assert scores == sorted(scores)


@pytest.mark.filterwarnings("ignore::gstudy.errors.ConvergenceWarning")
def test_a_level_is_asked_for_by_its_label(states: tuple[pd.DataFrame, Fit, Fit]) -> None:
    """Case 13: no position, and no other spelling."""
    for asked in ("51", "0", "02", "2.0"):
        with pytest.raises(gs.QuantityError, match=f"no system is named '{asked}'"):
            gs.score(states[1], system=asked)


def test_labels_that_collide_are_refused() -> None:
    """Case 13."""
    table = pd.DataFrame({"state": [1, "1", 2], "k": [1, 2, 3], "n": 8})
    with pytest.raises(gs.DataError, match="two different values are one label, '1'"):
        gs.check(gs.Study(successes="k", trials="n", object="state"), table)


# ------------------------------------------------------------------- case 14: a level not seen


def known_groups(**facet: Any) -> Fit:
    """A to D, each some of 10; the claim may be about a fifth."""
    study = gs.Study(
        successes="k",
        trials="n",
        facets=[gs.Facet("group", role="legitimate", **facet)],
        priors={"mu": MU, "sd(group)": SD},
    )
    table = pd.DataFrame({"group": list("ABCD"), "k": [1, 6, 9, 3], "n": 10})
    return sampled(study, table, draws=2500, target_accept=0.97)


def test_a_new_level_is_drawn_from_the_population_per_draw() -> None:
    """Case 14: a bank of five of which four were run leaves the fifth's pass rate; the variance of
    its logit is Var(mu) + E[sigma^2], not that of a fitted level."""
    from arviz_stats.base import array_stats

    fit = known_groups(universe=5)
    fitted = expit(fit.mu[..., None] + fit.effects("group").to_numpy())
    fifth = logit(5 * gs.score(fit).draws.isel(system=0).to_numpy() - fitted.sum(axis=-1))
    squares = (fifth - fifth.mean()) ** 2
    expected = fit.mu.var() + (fit.sd("group") ** 2).mean()
    error = 4 * float(array_stats.mcse(squares, method="mean"))
    assert squares.mean() == pytest.approx(expected, abs=error)
    borrowed = logit(fitted).var()
    assert abs(borrowed - expected) > 0.1
    # Per draw it knows nothing of the fitted effects beyond mu and sigma.
    noise = ((fifth - fit.mu) / fit.sd("group")).ravel()
    assert noise.mean() == pytest.approx(0.0, abs=4 / len(noise) ** 0.5)
    assert noise.std() == pytest.approx(1.0, abs=4 / (2 * len(noise)) ** 0.5)
    effects = fit.effects("group").to_numpy().reshape(len(noise), -1)
    for effect in effects.T:
        assert abs(np.corrcoef(noise, effect)[0, 1]) < 4 / len(noise) ** 0.5


def test_an_unknown_level_is_refused_and_a_new_one_is_asked_for() -> None:
    """Case 14: no old group is borrowed, and the choice is the user's."""
    study = gs.Study(successes="k", trials="n", object="group", priors={"mu": MU, "sd(group)": SD})
    table = pd.DataFrame({"group": list("ABCD"), "k": [1, 6, 9, 3], "n": 10})
    fit = sampled(study, table, draws=1500, target_accept=0.97)
    for call in (gs.score, gs.variance_components, gs.variance_budget):
        with pytest.raises(gs.QuantityError, match=r"(named|called) 'E'.*A, B, C, D"):
            call(fit, system="E")
    new = gs.variance_components(fit, scale="logit", system="new")
    np.testing.assert_allclose(
        new.draws.sel(component="group").transpose("chain", "draw"), fit.sd("group") ** 2
    )
    assert "new" in str(new)
    for label, row in ((None, 3), (np.nan, 3)):
        holed = table.assign(group=["A", "B", label, "D"])
        with pytest.raises(gs.DataError, match=rf"row {row}.*'group': the label is missing \(1 of"):
            gs.check(study, holed)


# --------------------------------------------------------- case 16: priors that are honoured


def six_rows(**priors: Any) -> tuple[gs.Study, pd.DataFrame]:
    """Six trials of groups a, b and c."""
    return counted([0, 1, 0], [2, 2, 2], priors=priors)


def test_a_prior_mean_is_not_dropped() -> None:
    """Case 16: mu ~ Normal(2, .25) pulls the posterior away from data that say otherwise."""
    prior = {"mu": {"dist": "Normal", "mu": 2.0, "sigma": 0.25}, "sd(group)": SD}
    fit = sampled(*six_rows(**prior), draws=2500, target_accept=0.97)
    of = exact([0, 1, 0], [2, 2, 2], (2.0, 0.25))
    same_posterior(fit.mu, of, of.mu)
    same_posterior(fit.sd("group"), of, of.sigma)
    assert fit.mu.mean() > 1.6


@pytest.mark.parametrize(
    ("key", "prior", "message"),
    [
        ("sd(group)", {"dist": "Normal", "mu": 2.0, "sigma": 0.25}, "Normal.*Allowed: HalfNormal"),
        ("sd(group)", {"dist": "HalfNormal", "sigma": 1.0, "mu": 2.0}, "mu"),
        ("u(group)", {"dist": "Normal", "mu": 2.0, "sigma": 0.25}, r"u\(group\)"),
        ("group", {"dist": "Normal", "mu": 2.0, "sigma": 0.25}, "group"),
        ("mu", {"dist": "HalfNormal", "sigma": 1.0}, "HalfNormal.*Allowed: Normal"),
    ],
)
def test_a_prior_that_the_model_cannot_honour_is_refused(
    key: str, prior: dict[str, Any], message: str
) -> None:
    """Case 16."""
    with pytest.raises(gs.DeclarationError, match=message):
        gs.check(*six_rows(**{key: prior}))
