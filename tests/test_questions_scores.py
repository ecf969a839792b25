"""The headline: observed rate, naive interval, and the interval of the claim."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from handmade import fit_by_hand, small_fit, small_study
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import norm

import gstudy as gs
from gstudy.errors import QuantityError
from gstudy.fits.fitted import Fit
from gstudy.fits.gates import assess as assess_draws
from gstudy.questions.scores import SHARED_SDS, listed, naive_interval, plural, score
from gstudy.study.estimable import assess


@pytest.fixture(scope="module")
def fit() -> Fit:
    return small_fit()


def expected_rate(mean: float, variance: float) -> float:
    """E[expit(mean + N(0, variance))] by plain numerical integration."""
    sd = np.sqrt(variance)
    return quad(lambda z: expit(mean + sd * z) * norm.pdf(z), -12, 12, epsabs=1e-12)[0]


def one_system(successes: int, *, tasks: int = 10, rollouts: int = 4) -> Fit:
    """Tasks x rollouts of one system, the first `successes` of all trials passed."""
    study = gs.Study(
        score="passed",
        facets=[
            gs.Facet("task", role="legitimate"),
            gs.Facet("rollout", role="legitimate", nested_in=["task"]),
        ],
    )
    rows = [(f"t{t}", r) for t in range(tasks) for r in range(rollouts)]
    frame = pd.DataFrame(rows, columns=["task", "rollout"])
    frame["passed"] = (np.arange(len(frame)) < successes).astype(int)
    return fit_by_hand(assess(study, frame))


@pytest.mark.parametrize(
    ("passed", "trials", "low", "high"),
    [(0, 307, 0.0, 0.012358), (123, 123, 0.969714, 1.0), (84, 200, 0.3537, 0.4893)],
)
def test_naive_interval_is_wilsons(passed: int, trials: int, low: float, high: float) -> None:
    found = naive_interval(passed, trials)
    np.testing.assert_allclose(found, (low, high), atol=5e-5)
    assert found[0] < found[1]


def test_naive_interval_follows_the_level() -> None:
    wide, narrow = naive_interval(84, 200, 0.99), naive_interval(84, 200, 0.5)
    assert wide[0] < narrow[0] < 0.42 < narrow[1] < wide[1]


def test_draws_are_the_rate_over_new_levels_per_draw() -> None:
    fit = one_system(17)
    found = score(fit).draws
    assert found.dims == ("chain", "draw", "system")
    for chain, draw in [(0, 0), (1, 7), (3, 249)]:
        expected = expected_rate(fit.mu[chain, draw], fit.sd("task")[chain, draw] ** 2)
        assert float(found[chain, draw, 0]) == pytest.approx(expected, abs=1e-9)


def test_each_system_has_its_own_effect_and_the_other_variances(fit: Fit) -> None:
    found = score(fit).draws
    assert list(found.coords["system"].values) == ["A", "B:1", "C/2"]
    effects = fit.effects("system").values
    rest = fit.sd("task") ** 2 + fit.sd("system:task") ** 2
    for k in range(3):
        mean = fit.mu[2, 5] + effects[2, 5, k]
        assert float(found[2, 5, k]) == pytest.approx(expected_rate(mean, rest[2, 5]), abs=1e-9)


def test_summary_counts_rates_and_widths(fit: Fit) -> None:
    _study, frame = small_study()
    table = score(fit).summary()
    rates = frame.groupby("system")["passed"].mean()
    assert table.index.name == "system"
    np.testing.assert_array_equal(table["rate"], rates.to_numpy())
    assert (table["n_trials"] == 24).all()
    assert (table["n_task"] == 8).all()
    assert (table["lower"] < table["median"]).all()
    assert (table["median"] < table["upper"]).all()
    ratio = (table["upper"] - table["lower"]) / (table["naive_upper"] - table["naive_lower"])
    np.testing.assert_allclose(table["ratio"], ratio)
    draws = score(fit).draws.sel(system="A").values
    np.testing.assert_allclose(
        table.loc["A", ["lower", "upper"]].to_numpy(dtype=float), np.quantile(draws, [0.025, 0.975])
    )
    assert table.attrs["scale"] == "score"
    assert table.attrs["level"] == 0.95
    assert table.attrs["estimand"] == "pass rate over new tasks and new rollouts"


def test_level_moves_both_intervals(fit: Fit) -> None:
    wide, narrow = score(fit).summary(0.95), score(fit).summary(0.5)
    for side in ("naive_", ""):
        assert (narrow[f"{side}lower"] > wide[f"{side}lower"]).all()
        assert (narrow[f"{side}upper"] < wide[f"{side}upper"]).all()


def test_one_system_is_the_same_row(fit: Fit) -> None:
    alone = score(fit, system="B:1").summary()
    pd.testing.assert_frame_equal(alone, score(fit).summary().loc[["B:1"]])


def test_unknown_system_is_refused(fit: Fit) -> None:
    with pytest.raises(QuantityError, match=r"no system is named 'B:2'.* Did you mean 'B:1'\?"):
        score(fit, system="B:2")


def test_shared_sds_are_told_with_several_systems_only(fit: Fit) -> None:
    assert SHARED_SDS in score(fit).notes
    assert SHARED_SDS in score(fit, system="A").notes
    assert SHARED_SDS not in score(one_system(17)).notes


@pytest.mark.parametrize("passed", [0, 40])
def test_all_or_nothing_has_wide_intervals_and_the_rate_beside(passed: int) -> None:
    found = score(one_system(passed))
    row = found.summary().iloc[0]
    assert row["rate"] == passed / 40
    assert row["naive_upper"] - row["naive_lower"] > 0.05
    assert row["upper"] - row["lower"] > 0.05
    assert found.table().frame["score"].iloc[0] == passed / 40


def test_one_labelled_system_keeps_its_name() -> None:
    study, frame = small_study()
    fit = fit_by_hand(assess(study, frame[frame["system"] == "B:1"]))
    found = score(fit)
    assert list(found.summary().index) == ["B:1"]
    pd.testing.assert_frame_equal(score(fit, system="B:1").summary(), found.summary())
    expected = expected_rate(fit.mu[0, 0], fit.sd("task")[0, 0] ** 2)
    assert float(found.draws[0, 0, 0]) == pytest.approx(expected, abs=1e-9)


def test_systems_without_an_effect_of_their_own_share_a_row() -> None:
    study = gs.Study(
        score="passed",
        object="system",
        facets=[gs.Facet("task", role="legitimate")],
        interactions="none",
    )
    # One trial of each system, and of each task: nothing can be told apart.
    frame = pd.DataFrame({"system": ["a", "b"], "task": ["t1", "t2"], "passed": [0, 1]})
    fit = fit_by_hand(assess(study, frame))
    assert fit.components == ()
    found = score(fit)
    assert list(found.summary().index) == ["all trials"]
    assert any("no effects of their own" in note for note in found.notes)
    assert float(found.draws[0, 0, 0]) == pytest.approx(expit(fit.mu[0, 0]), abs=1e-12)


def test_facets_that_were_not_sampled_are_not_in_the_claim() -> None:
    study = gs.Study(
        score="passed",
        facets=[
            gs.Facet("task", role="legitimate"),
            gs.Facet("judge", role="error"),
            gs.Facet("prompt", role="controlled"),
        ],
    )
    frame = pd.DataFrame({"task": [f"t{i % 6}" for i in range(6)], "judge": "gpt", "prompt": "v1"})
    frame["passed"] = [0, 1, 1, 0, 1, 1]
    assert score(fit_by_hand(assess(study, frame))).estimand == "pass rate over new tasks"


def test_a_failed_gate_is_a_note_of_the_table(fit: Fit) -> None:
    diverging = np.zeros(fit.mu.shape, dtype=bool)
    diverging[0, 0] = True
    bad = assess_draws({"mu": fit.mu}, {"diverging": diverging})
    found = score(Fit(fit.posterior, fit.study, fit.design, bad))
    assert found.notes[0].startswith("NOT CONVERGED: 1 divergence (limit 0)")
    assert "NOT CONVERGED" in str(found)
    assert "NOT CONVERGED" in found._repr_html_()


def test_the_printed_table_fits_a_terminal(fit: Fit) -> None:
    lines = str(score(fit)).splitlines()
    assert max(map(len, lines)) <= 80
    assert "naive: Wilson, as if every trial were independent of the others" in lines
    assert "new levels, full interval: pass rate over new tasks and new rollouts" in lines


def test_html_escapes_labels() -> None:
    study, frame = small_study()
    frame["system"] = frame["system"].replace("A", "<script>")
    html = score(fit_by_hand(assess(study, frame)))._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html


def test_words() -> None:
    assert [plural(name) for name in ("task", "query", "judge_call", "day", "class", "box")] == [
        "tasks",
        "queries",
        "judge_calls",
        "days",
        "classes",
        "boxes",
    ]
    assert [listed([]), listed(["a"]), listed(["a", "b"])] == ["", "a", "a and b"]


@pytest.mark.parametrize("level", [0, 1, -1, 95, None, "x", float("nan")])
def test_a_level_is_a_proportion(fit: Fit, level: float) -> None:
    with pytest.raises(QuantityError, match="level is not a proportion"):
        score(fit).summary(level)


def test_a_score_is_of_a_fit(fit: Fit) -> None:
    components = gs.variance_components(fit)
    with pytest.raises(QuantityError, match=r"a score is of a fit.*VarianceComponents"):
        score(components)


def test_a_system_that_is_no_text_is_unknown(fit: Fit) -> None:
    with pytest.raises(QuantityError, match="no system is named 1"):
        score(fit, system=1)


def test_failed_runs_that_count_as_zero_are_told_beside_a_graded_score() -> None:
    table = pd.DataFrame(
        [(f"t{i}", j, 50.0 + i + j) for i in range(6) for j in range(3)],
        columns=["task", "rollout", "score"],
    )
    table["outcome"] = "scored"
    table.loc[:1, ["score", "outcome"]] = [None, "failed"]
    facets = [
        gs.Facet("task", role="legitimate"),
        gs.Facet("rollout", role="legitimate", nested_in=["task"]),
    ]

    def notes(policy: str) -> str:
        study = gs.Study(score="score", family="gaussian", facets=facets, on_failed_run=policy)
        return " ".join(score(fit_by_hand(assess(study, table))).notes)

    assert "Of the trials 2 failed. They count as a score of 0 (on_failed_run)" in notes(
        "incorrect"
    )
    assert "failed" not in notes("drop")
