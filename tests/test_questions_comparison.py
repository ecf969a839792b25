"""Two systems: three named differences, their noise, and the tasks on which they differ."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from designs import checked, grid, study_of, within
from handmade import fit_by_hand, small_fit
from scipy.special import expit
from sources import fitted

import gstudy as gs
from gstudy.errors import QuantityError
from gstudy.fits.fitted import Fit
from gstudy.fits.many import Fits
from gstudy.questions.comparison import CONFOUNDED, SEPARATE, SHARED, compare_systems
from gstudy.questions.differences import A_DESIGN, NEW_TASKS, THESE_TASKS
from gstudy.study.parts import split_by
from gstudy.variance.kernel import logistic_mean
from gstudy.variance.pairs import pair_of

OWN = study_of(
    gs.Facet("task", role="legitimate", varies="system"),
    within("rollout", "system", "task"),
    object="system",
)
COMMON = study_of(
    "task", within("rollout", "system", "task"), object="system", interactions=["system:task"]
)


def hand_fits(study: gs.Study, table: pd.DataFrame, **how: Any) -> Fits:
    """Separate fits of each system with draws made by hand."""
    _, parts = split_by(study, table, "system")
    fits = {
        part.label: fit_by_hand(checked(part.study, part.trials), seed=i, **how)
        for i, part in enumerate(parts)
    }
    return Fits(fits, study, "system")


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    """Two systems on the same eight tasks, B the better one."""
    rows = grid({"system": "AB", "task": [f"t{i}" for i in range(8)], "rollout": range(4)}, seed=4)
    better = (rows["system"] == "B") & (rows["rollout"] == 0)
    return rows.assign(score=np.where(better, 1, rows["score"]))


@pytest.fixture(scope="module")
def fit(table: pd.DataFrame) -> Fit:
    return fitted(OWN, table, shape=(2, 400))


def test_new_tasks_integrate_over_every_random_component(fit: Fit) -> None:
    found = compare_systems(fit, "A", "B").draws.sel(estimand=NEW_TASKS)
    effects = fit.effects("system").values
    means = [
        logistic_mean(fit.mu + effects[..., k], fit.own_sd("task", label) ** 2)
        for k, label in enumerate("AB")
    ]
    np.testing.assert_allclose(found, means[1] - means[0], atol=1e-12)


def test_these_tasks_keep_their_fitted_effects(fit: Fit) -> None:
    found = compare_systems(fit, "A", "B").draws.sel(estimand=THESE_TASKS)
    own, task = fit.effects("system").values, fit.effects("task").values
    means = [
        expit(fit.mu[..., None] + own[..., k, None] + task[..., k]).mean(axis=-1) for k in (0, 1)
    ]
    np.testing.assert_allclose(found, means[1] - means[0], atol=1e-12)


def test_a_design_is_predictive_around_new_tasks(table: pd.DataFrame) -> None:
    fit = fitted(OWN, table, shape=(2, 2000))
    design = {"task": 100, "rollout": 2}
    found = compare_systems(fit, "A", "B", design=design).draws
    pair = pair_of(fit, "A", "B", design)
    z = (found.sel(estimand=A_DESIGN) - found.sel(estimand=NEW_TASKS)) / np.sqrt(pair.difference)
    n = z.size
    assert abs(float(z.mean())) < 4 / n**0.5
    assert float(z.std()) == pytest.approx(1, abs=4 / (2 * n) ** 0.5)


def test_probabilities_are_shares_of_the_draws(fit: Fit) -> None:
    found = compare_systems(fit, "A", "B", margin=0.05)
    frame = found.summary()
    assert list(frame.index) == [NEW_TASKS, THESE_TASKS, A_DESIGN]
    for name in frame.index:
        draws = found.draws.sel(estimand=name).values
        assert frame.loc[name, "p_better"] == (draws > 0).mean()
        assert frame.loc[name, "p_worse"] == (draws < -0.05).mean()
        np.testing.assert_allclose(
            frame.loc[name, ["lower", "upper"]].to_numpy(float), np.quantile(draws, [0.025, 0.975])
        )
    assert frame.attrs["baseline"] == "A"
    assert frame.attrs["margin"] == 0.05
    assert frame.attrs["scale"] == "score"


def test_the_baseline_is_subtracted(fit: Fit) -> None:
    forth, back = (compare_systems(fit, *labels).draws for labels in ("AB", "BA"))
    for name in (NEW_TASKS, THESE_TASKS):
        np.testing.assert_allclose(
            forth.sel(estimand=name), -back.sel(estimand=name), rtol=0, atol=1e-12
        )


def test_the_noise_of_the_difference_is_split(fit: Fit) -> None:
    found = compare_systems(fit, "A", "B")
    pair = pair_of(fit, "A", "B")
    noise = found.noise
    assert noise is not None
    assert list(noise.coords["part"].values) == ["data", "re-run", "total"]
    np.testing.assert_allclose(noise.sel(part="total"), pair.difference)
    np.testing.assert_allclose(
        noise.sel(part="data") + noise.sel(part="re-run"), noise.sel(part="total"), rtol=1e-10
    )
    np.testing.assert_allclose(found.smallest_gap(), 1.959964 * pair.difference**0.5, rtol=1e-6)
    frame = found.noise_summary()
    assert frame.loc["total", "lower"] < frame.loc["total", "mean"] < frame.loc["total", "upper"]


def test_levels_of_other_kept_facets_are_a_part_of_their_own() -> None:
    study = study_of(
        "task",
        gs.Facet("judge", role="error"),
        within("rollout", "system", "task"),
        object="system",
        interactions=["system:judge", "system:task"],
    )
    rows = grid({"system": "AB", "task": range(6), "judge": "xyz", "rollout": range(2)})
    noise = compare_systems(fitted(study, rows, shape=(2, 50)), "A", "B").noise
    assert noise is not None
    parts = list(noise.coords["part"].values)
    assert parts == ["data", "other levels", "re-run", "total"]
    assert (noise.sel(part="other levels") > 0).all()
    np.testing.assert_allclose(
        noise.sel(part=parts[:3]).sum("part"), noise.sel(part="total"), rtol=1e-10
    )


def test_tasks_are_compared_one_by_one(fit: Fit, table: pd.DataFrame) -> None:
    found = compare_systems(fit, "A", "B")
    tasks = found.tasks
    rates = table.pivot_table(index="task", columns="system", values="score")
    assert tasks.index.name == "task"
    np.testing.assert_allclose(tasks["rate_A"], rates.loc[tasks.index, "A"])
    np.testing.assert_allclose(tasks["rate_B"], rates.loc[tasks.index, "B"])
    assert (tasks[["n_A", "n_B"]] == 4).all(axis=None)
    own, task = fit.effects("system").values, fit.effects("task")
    label = tasks.index[3]
    place = [str(x) for x in task.coords["task"].values].index(label)
    logits = [own[..., k] + task.values[..., place, k] for k in (0, 1)]
    assert tasks.loc[label, "p_better"] == (logits[1] > logits[0]).mean()
    counts = found.discordance.counts
    assert counts["b_ahead"] == (rates["B"] > rates["A"]).sum()
    assert counts["a_ahead"] == (rates["B"] < rates["A"]).sum()
    assert counts["equal"] == (rates["B"] == rates["A"]).sum()
    assert counts["b_better"] == (tasks["p_better"] > 0.95).sum()
    assert found.n_shared == 8
    assert "8 shared tasks: B is ahead on" in str(found)


def test_equal_rates_of_unequal_counts_are_equal() -> None:
    study = study_of("task", object="system", score=None, successes="k", trials="n")
    rows = pd.DataFrame(
        {"system": list("AAABBB"), "task": list("abcabc"), "k": [1, 2, 0, 3, 3, 0]}
    ).assign(n=[3, 7, 4, 9, 6, 2])
    found = compare_systems(fitted(study, rows, shape=(1, 20)), "A", "B").discordance
    assert found.tasks["difference"].tolist() == pytest.approx([0, 3 / 6 - 2 / 7, 0])
    assert found.counts["equal"] == 2


def test_systems_without_a_shared_task_are_confounded(table: pd.DataFrame) -> None:
    first = table["task"].isin([f"t{i}" for i in range(4)])
    apart = table[first == (table["system"] == "A")]
    found = compare_systems(fitted(COMMON, apart, shape=(2, 50)), "A", "B")
    assert found.n_shared == 0
    note = CONFOUNDED.format(tasks="tasks")
    assert note in found.notes
    assert note not in compare_systems(fitted(COMMON, table, shape=(2, 50)), "A", "B").notes


def test_tasks_nested_in_the_system_are_its_own(table: pd.DataFrame) -> None:
    study = study_of(
        within("task", "system"),
        within("rollout", "system", "task"),
        object="system",
        rollout="rollout",
    )
    fit = fitted(study, table, shape=(2, 50))
    found = compare_systems(fit, "A", "B")
    assert found.n_shared == 0
    assert CONFOUNDED.format(tasks="tasks") in found.notes
    effects = fit.effects("system:task")
    labels = [str(x) for x in effects.coords["system:task"].values]
    own = fit.effects("system").values
    means = [
        expit(
            fit.mu[..., None]
            + own[..., k, None]
            + effects.values[..., [i for i, x in enumerate(labels) if x.startswith(system)]]
        ).mean(axis=-1)
        for k, system in enumerate("AB")
    ]
    np.testing.assert_allclose(
        found.draws.sel(estimand=THESE_TASKS), means[1] - means[0], atol=1e-12
    )


def test_shared_sds_are_told_and_own_ones_are_not(fit: Fit, table: pd.DataFrame) -> None:
    assert SHARED not in compare_systems(fit, "A", "B").notes
    assert SHARED in compare_systems(fitted(COMMON, table, shape=(2, 50)), "A", "B").notes


def test_separate_fits_tell_two_estimands(table: pd.DataFrame) -> None:
    fits = hand_fits(OWN, table)
    found = compare_systems(fits, "A", "B")
    assert list(found.summary().index) == [NEW_TASKS, THESE_TASKS]
    assert found.noise is None
    assert len(found.noise_summary()) == 0
    assert SEPARATE in found.notes
    assert found.n_shared == 8
    scores = {}
    for label, fit in fits.items():
        task = fit.effects("task").values
        new = logistic_mean(fit.mu, fit.sd("task") ** 2)
        scores[label] = (new, expit(fit.mu[..., None] + task).mean(axis=-1))
    for place, name in enumerate((NEW_TASKS, THESE_TASKS)):
        np.testing.assert_allclose(
            found.draws.sel(estimand=name), scores["B"][place] - scores["A"][place], atol=1e-12
        )
    with pytest.raises(QuantityError, match="separate fits do not tell the variance"):
        found.smallest_gap()
    with pytest.raises(QuantityError, match=r"do not tell how two scores of one design covary"):
        compare_systems(fits, "A", "B", design={"task": 10, "rollout": 1})
    with pytest.raises(QuantityError, match="a system is compared with itself"):
        compare_systems(fits, "A", "A")
    with pytest.raises(QuantityError, match=r"no level of system is called 'C'"):
        compare_systems(fits, "A", "C")
    other = Fits(fits.fits, fits.study, "task")
    with pytest.raises(QuantityError, match=r"by fits of each system\. Given: .fits by 'task'"):
        compare_systems(other, "A", "B")


def test_a_declared_bank_is_what_another_study_is_of(table: pd.DataFrame) -> None:
    study = study_of(
        gs.Facet("task", role="legitimate", varies="system", universe=8),
        within("rollout", "system", "task"),
        object="system",
    )
    fit = fitted(study, table, shape=(2, 4000))
    found = compare_systems(fit, "A", "B")
    noise = found.noise
    assert noise is not None
    assert float(np.abs(noise.sel(part="data")).max()) < 1e-15
    around = found.draws.sel(estimand=A_DESIGN) - found.draws.sel(estimand=THESE_TASKS)
    z = around / noise.sel(part="re-run") ** 0.5
    assert float(z.std()) == pytest.approx(1, abs=4 / (2 * z.size) ** 0.5)


def test_graded_scores_are_compared_in_their_unit() -> None:
    study = study_of(
        "task",
        within("rollout", "system", "task"),
        object="system",
        interactions=["system:task"],
        family="gaussian",
    )
    rows = grid({"system": "AB", "task": range(6), "rollout": range(3)})
    rows["score"] = np.random.default_rng(2).normal(5, 2, len(rows))
    fit = fitted(study, rows, shape=(2, 50))
    found = compare_systems(fit, "A", "B", margin=3.0)
    own = fit.effects("system").values
    np.testing.assert_allclose(
        found.draws.sel(estimand=NEW_TASKS), own[..., 1] - own[..., 0], atol=1e-12
    )
    # The task effect is common and leaves the difference; the interactions and the residual stay.
    expected = 2 * (fit.sd("system:task") ** 2 / 6 + fit.sd("residual") ** 2 / 18)
    assert found.noise is not None
    np.testing.assert_allclose(found.noise.sel(part="total"), expected, rtol=1e-10)
    assert "points" not in str(found)
    assert "P(worse by > 3.00)" in str(found)


@pytest.mark.parametrize("margin", [-0.1, 1, 2.0, None, "x", float("nan"), True])
def test_a_margin_is_a_size(fit: Fit, margin: Any) -> None:
    with pytest.raises(QuantityError, match=r"margin is not usable.*margin=0\.02 for 2 points"):
        compare_systems(fit, "A", "B", margin=margin)


def test_what_is_not_usable_is_refused(fit: Fit) -> None:
    with pytest.raises(QuantityError, match=r"no system is called 'C'.*Allowed: A, B"):
        compare_systems(fit, "A", "C")
    with pytest.raises(QuantityError, match="a system is compared with itself"):
        compare_systems(fit, "B", "B")
    with pytest.raises(QuantityError, match=r"levels of 'rollout' cannot be compared.*task"):
        compare_systems(fit, "A", "B", tasks="rollout")
    with pytest.raises(QuantityError, match=r"two systems are compared by a fit\. Given: 'str'"):
        compare_systems("run.nc", "A", "B")
    with pytest.raises(QuantityError, match="level is not a proportion"):
        compare_systems(fit, "A", "B").summary(95)


def test_labels_are_data_and_the_table_fits_a_terminal() -> None:
    found = compare_systems(small_fit(), "B:1", "C/2", margin=0.02)
    text = str(found)
    assert max(map(len, text.splitlines())) <= 80
    assert text.splitlines()[0].startswith("Difference of pass rates, C/2 minus B:1")
    assert "P(worse by > 2.0 points)" in text
    assert re.search(r"Smallest difference that such a study resolves at 95%", text)
    assert "<script>" in found.tasks.index[3]
    assert "<table" in found._repr_html_()


def test_the_seed_settles_every_draw(fit: Fit) -> None:
    first, again, other = (compare_systems(fit, "A", "B", seed=s).draws for s in (1, 1, 2))
    assert first.equals(again)
    assert not first.equals(other)


def test_shared_tasks_narrow_the_difference() -> None:
    rng, n = np.random.default_rng(8), 24
    task = rng.normal(0, 2, n)
    rows = grid({"system": "AB", "task": range(n), "rollout": range(4)})
    shift = np.where(rows["system"] == "B", 0.8, 0.0)
    own = rng.normal(0, 0.3, (2, n))[(rows["system"] == "B").astype(int), rows["task"].astype(int)]
    rows["score"] = rng.random(len(rows)) < expit(task[rows["task"].astype(int)] + own + shift)
    rows["score"] = rows["score"].astype(int)
    how: dict[str, Any] = {"seed": 1, "progress": False}
    with pytest.warns(gs.EstimabilityWarning):
        joint = gs.fit(COMMON, rows, sampler="direct", **how)
    with pytest.warns(gs.EstimabilityWarning):
        fits = gs.fit_by(COMMON, rows, by="system", **how)
    widths = []
    for source in (joint, fits):
        frame = compare_systems(source, "A", "B").summary()
        widths.append((frame["upper"] - frame["lower"])[[NEW_TASKS, THESE_TASKS]])
    # New tasks: the covariance counts only in the joint fit; these tasks: both know them.
    assert widths[0][NEW_TASKS] < 0.75 * widths[1][NEW_TASKS]
    assert widths[0][THESE_TASKS] == pytest.approx(widths[1][THESE_TASKS], rel=0.3)
    observed = rows.groupby("system")["score"].mean()
    mean = compare_systems(joint, "A", "B").summary().loc[THESE_TASKS, "mean"]
    assert mean == pytest.approx(observed["B"] - observed["A"], abs=0.03)


@pytest.mark.slow
@pytest.mark.parametrize(("study", "sampler"), [(COMMON, "direct"), (OWN, "pymc")])
def test_the_gpqa_split_holds_the_classical_estimates(
    study: gs.Study, sampler: Any, oracle: Any, shared: Path
) -> None:
    given = oracle("published")["wang_gpqa"]
    rows = pd.read_csv(shared / "data" / "gpqa_diamond_epochs.csv.gz")
    with pytest.warns(gs.EstimabilityWarning):
        fit = gs.fit(
            study,
            rows[["system", "task", "rollout", "score"]],
            seed=1,
            sampler=sampler,
            progress=False,
        )
    assert fit.diagnostics.passed
    baseline, other = sorted(rows["system"].unique())
    found = compare_systems(fit, baseline, other, design={"task": 198, "rollout": 1})
    frame = 198 * found.noise_summary()[["lower", "upper"]]
    for part, name in (("data", "data"), ("re-run", "prediction"), ("total", "total")):
        expected = given[f"var_diff_{name}"]
        assert frame.loc[part, "lower"] < expected < frame.loc[part, "upper"]
    # Five runs each.
    se = compare_systems(fit, baseline, other).smallest_gap() / 1.959964
    low, high = np.quantile(100 * se, [0.025, 0.975])
    assert low < given["se_points"]["SE(A-B), 5 runs each"] < high
