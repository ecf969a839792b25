"""ANOVA ICCs: point values and F intervals of each form, and reasons where there is none."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from designs import study_of, within
from scipy.stats import f

import gstudy as gs
from gstudy.errors import QuantityError
from gstudy.variance.classical.intraclass import one_way, two_way


def airline(oracle: Any) -> dict[str, Any]:
    found = {row["id"]: row for row in oracle("references")["references"]}
    return dict(found["tau_bench_airline_gpt4o"])


def rows_of(passes: list[int], n: int) -> pd.DataFrame:
    """One 0/1 row per trial."""
    return pd.DataFrame(
        [
            {"task": str(i), "rollout": j, "score": int(j < k)}
            for i, k in enumerate(passes)
            for j in range(n)
        ]
    )


def test_the_airline_icc_from_counts_and_from_rows(oracle: Any) -> None:
    given = airline(oracle)
    passes, n = given["input"]["passes_out_of_4_by_task"], given["input"]["n"]
    counts = pd.DataFrame(
        {"task": np.arange(len(passes)).astype(str), "successes": passes, "trials": n}
    )
    for table in (counts, rows_of(passes, n)):
        found = gs.anova_icc(table, "task")
        assert found.value == pytest.approx(given["expected"]["anova_ICC(1)"], abs=1e-11)
        row = found.frame.loc["all"]
        assert row["ms_between"] == pytest.approx(given["expected"]["MSB"], abs=1e-9)
        assert row["ms_within"] == pytest.approx(given["expected"]["MSW"], abs=1e-9)
        assert (row["n_levels"], row["n_trials"], row["n0"]) == (50, 200, 4.0)


def test_the_bundled_airline_example(oracle: Any) -> None:
    _, trials = gs.example("airline")
    assert gs.anova_icc(trials).value == pytest.approx(0.404584368959, abs=1e-11)


def test_unbalanced_groups_have_donners_size() -> None:
    successes, trials = np.array([5, 0, 2, 3, 1]), np.array([6, 3, 2, 5, 1])
    found = one_way(successes, trials)
    scores = [np.repeat([1.0, 0.0], [k, n - k]) for k, n in zip(successes, trials, strict=True)]
    grand = np.concatenate(scores)
    between = sum(len(s) * (s.mean() - grand.mean()) ** 2 for s in scores) / 4
    within_ = sum(((s - s.mean()) ** 2).sum() for s in scores) / (17 - 5)
    n0 = (17 - (36 + 9 + 4 + 25 + 1) / 17) / 4
    assert found.n0 == pytest.approx(n0)
    assert found.icc == pytest.approx((between - within_) / (between + (n0 - 1) * within_))


def test_a_negative_icc_stays_negative() -> None:
    found = gs.anova_icc(rows_of([2, 2, 2, 2], 4))
    assert found.value == pytest.approx(-1 / 3)
    assert "negative: levels differ less than chance alone would make them" in str(found)


@pytest.mark.parametrize(
    ("passes", "n", "reason"),
    [
        ([0, 0, 0], 4, "not defined: no score varies, all are 0"),
        ([4, 4, 4], 4, "not defined: no score varies, all are 1"),
        ([1, 0, 1], 1, "not defined: one trial per level"),
        ([2], 4, "not defined: one level"),
    ],
)
def test_what_is_not_defined_is_nan_with_its_reason(passes: list[int], n: int, reason: str) -> None:
    found = gs.anova_icc(rows_of(passes, n))
    assert math.isnan(found.value)
    assert found.frame.loc["all", "note"] == reason
    assert reason in str(found)


def test_one_icc_per_system() -> None:
    table = pd.concat(
        [rows_of([0, 4, 4, 0], 4).assign(system="A"), rows_of([2, 2, 1, 3], 4).assign(system="B")]
    )
    found = gs.anova_icc(table, facet="task", by="system")
    assert found.frame.index.tolist() == ["A", "B"]
    assert found.frame.index.name == "system"
    assert found.frame.loc["A", "icc"] == pytest.approx(1.0)
    assert found.frame.loc["B", "icc"] < 0
    with pytest.raises(QuantityError, match=r"one ICC per group.*Use .frame\['icc'\]"):
        _ = found.value
    assert found.summary().attrs == {
        "scale": "score",
        "estimand": "ICC(1,1) of task",
        "interval": "equal-tailed F",
        "level": 0.95,
    }
    assert "score scale" in found._repr_html_()


def test_failed_trials_count_as_the_study_says() -> None:
    study = study_of("task", within("rollout", "task"), on_failed_run="incorrect")
    table = rows_of([4, 4, 1], 4).assign(outcome="scored", reason="")
    table.loc[0, ["outcome", "score"]] = ["failed", np.nan]
    trials = gs.read_trials(table, study)
    with pytest.raises(QuantityError, match=r"1 trials failed or were never scored.*Pass study="):
        gs.anova_icc(trials.table)
    for found in (gs.anova_icc(trials), gs.anova_icc(trials, study=study)):
        assert found.value == pytest.approx(gs.anova_icc(rows_of([3, 4, 1], 4)).value)


def test_levels_of_a_nested_facet_are_tuples_where_the_study_is_known() -> None:
    study = study_of("domain", within("task", "domain"), within("rollout", "task"))
    table = pd.concat(
        [rows_of([0, 4], 4).assign(domain="x"), rows_of([4, 0], 4).assign(domain="y")]
    )
    trials = gs.read_trials(table, study)
    assert gs.anova_icc(trials, study=study).frame.loc["all", "n_levels"] == 4
    # Trials know what they were read with; a plain table does not.
    assert gs.anova_icc(trials).frame.loc["all", "n_levels"] == 4
    assert gs.anova_icc(table).frame.loc["all", "n_levels"] == 2


def test_what_cannot_be_analysed_is_refused() -> None:
    table = rows_of([1, 2], 4)
    with pytest.raises(QuantityError, match=r"no facet is named 'taks'.*Did you mean 'task'"):
        gs.anova_icc(table, "taks")
    with pytest.raises(QuantityError, match="no facet is named 'system'"):
        gs.anova_icc(table, by="system")
    with pytest.raises(QuantityError, match=r"unknown kind of ANOVA ICC.*ICC\(3,k\)"):
        gs.anova_icc(table, kind="ICC(4,1)")
    with pytest.raises(QuantityError, match=r"unknown family of scores.*Did you mean 'gaussian'"):
        gs.anova_icc(table, family="gausian")
    with pytest.raises(QuantityError, match="the scores are not found"):
        gs.anova_icc(table.drop(columns="score"))
    with pytest.raises(QuantityError, match=r"the scores are not found. Given: 'list'"):
        gs.anova_icc([1, 0])
    with pytest.raises(QuantityError, match=r"neither 0 nor 1, in row 3. Given: 0.5.*gaussian"):
        gs.anova_icc(table.assign(score=table["score"].astype(float).mask(table.index == 3, 0.5)))
    counts = pd.DataFrame({"task": ["a", "b"], "successes": [1, 5], "trials": [4, 4]})
    with pytest.raises(QuantityError, match="successes are not between 0 and trials, in row 1"):
        gs.anova_icc(counts)
    halves = counts.assign(successes=[0.5, 2.0])
    with pytest.raises(QuantityError, match="no whole number, in row 0"):
        gs.anova_icc(halves)
    graded = table.assign(score=table["score"].astype(float).mask(table.index == 2))
    with pytest.raises(QuantityError, match=r"a score is no finite number, in row 2. Given: nan"):
        gs.anova_icc(graded, family="gaussian")
    with pytest.raises(QuantityError, match="the study declares binary scores"):
        gs.anova_icc(table, study=study_of("task", within("rollout", "task")), family="gaussian")


def test_rows_without_a_label_do_not_fall_out() -> None:
    table = pd.DataFrame({"task": ["a", None, "b"], "run": [1, 2, 3], "score": [1, 0, 1]})
    with pytest.raises(QuantityError, match=r"'task': the label is missing in 1 of 3 rows"):
        gs.anova_icc(table, facet="task")
    with pytest.raises(QuantityError, match=r"'task': the label is missing"):
        gs.anova_icc(table, facet="run", by="task")


def test_an_empty_table_has_no_icc() -> None:
    with pytest.raises(QuantityError, match="the table has no rows"):
        gs.anova_icc(pd.DataFrame({"task": [], "score": []}), facet="task")


def test_a_facet_is_not_compared_within_itself() -> None:
    table = pd.DataFrame({"task": ["a", "b"], "score": [1, 0]})
    with pytest.raises(QuantityError, match="within one level of 'task'"):
        gs.anova_icc(table, facet="task", by="task")


# ------------------------------------------------------------------------------- every form


def reference(oracle: Any, name: str) -> dict[str, Any]:
    return {row["id"]: row for row in oracle("references")["references"]}[name]


def rated(scores: Any) -> pd.DataFrame:
    """A long table of levels by raters."""
    return pd.DataFrame(
        [
            {"task": f"t{i}", "judge": f"j{j}", "score": float(score)}
            for i, row in enumerate(scores)
            for j, score in enumerate(row)
        ]
    )


@pytest.mark.reference
@pytest.mark.parametrize("form", [1, 2, 3])
@pytest.mark.parametrize("of", ["1", "k"])
def test_shrout_and_fleiss(oracle: Any, form: int, of: str) -> None:
    given = reference(oracle, "shrout_fleiss_1979")
    raters = None if form == 1 else "judge"
    table = rated(given["input"]["rows_targets_cols_judges"])
    found = gs.anova_icc(table, kind=f"ICC({form},{of})", raters=raters, family="gaussian")
    name = f"ICC({form},{4 if of == 'k' else 1})"
    assert found.value == pytest.approx(given["expected"][name], abs=1e-10)
    limits = found.summary().loc["all", ["lower", "upper"]].tolist()
    assert limits == pytest.approx(given["expected"]["F_CI95"][name], abs=0.0051)
    row = found.frame.loc["all"]
    assert row["ms_between"] == pytest.approx(given["expected"]["BMS"], abs=1e-10)
    if form > 1:
        assert row["ms_raters"] == pytest.approx(given["expected"]["JMS"], abs=1e-10)
        assert row["ms_residual"] == pytest.approx(given["expected"]["EMS"], abs=1e-10)
    assert f"ICC({form},{of})" in str(found)
    assert "95% equal-tailed intervals" in str(found)


@pytest.mark.reference
@pytest.mark.parametrize("name", ["dyestuff", "dyestuff2"])
def test_graded_scores_and_a_negative_icc(oracle: Any, name: str) -> None:
    given = reference(oracle, name)
    rows = [
        {"batch": i, "score": y}
        for i, batch in enumerate(given["input"]["y_by_batch"])
        for y in batch
    ]
    found = gs.anova_icc(pd.DataFrame(rows), "batch", family="gaussian")
    assert found.value == pytest.approx(given["expected"]["ems_icc"], abs=1e-10)
    assert found.frame.loc["all", "ms_between"] == pytest.approx(given["expected"]["MSB"], abs=1e-8)
    assert found.frame.loc["all", "ms_within"] == pytest.approx(given["expected"]["MSW"], abs=1e-8)
    assert ("negative" in str(found)) == (name == "dyestuff2")
    assert "exact for normal scores only.\n" in str(found) + "\n"


@pytest.mark.reference
def test_the_mean_of_four_trials_on_airline(oracle: Any) -> None:
    given = airline(oracle)
    _, trials = gs.example("airline")
    found = gs.anova_icc(trials, kind="ICC(1,k)")
    assert found.value == pytest.approx(given["expected"]["anova_ICC(1,4)"], abs=1e-11)
    one = gs.anova_icc(trials).summary().loc["all"]
    both = found.summary().loc["all"]
    for limit in ("lower", "upper"):
        stepped = 4 * one[limit] / (1 + 3 * one[limit])
        assert both[limit] == pytest.approx(stepped)
    assert (
        found.table()
        .notes[-1]
        .endswith("of 0/1 scores they are rough, too narrow at pass rates near 0 or 1.")
    )


def test_the_limits_are_where_the_f_ratio_is_a_quantile() -> None:
    rng = np.random.default_rng(4)
    scores = rng.normal(size=(12, 5)) + rng.normal(size=(12, 1))
    found = gs.anova_icc(rated(scores), family="gaussian")
    row = found.summary(level=0.9).loc["all"]
    ratio = row["ms_between"] / row["ms_within"]
    for limit, tail in ((row["lower"], 0.95), (row["upper"], 0.05)):
        inflated = 1 + 5 * limit / (1 - limit)
        assert f.cdf(ratio / inflated, 11, 48) == pytest.approx(tail, abs=1e-10)
    assert found.summary(level=0.9).attrs["level"] == 0.9
    with pytest.raises(QuantityError, match="level is not a proportion"):
        found.summary(level=95)


@pytest.mark.parametrize(
    ("kind", "truth"), [("ICC(1,1)", 0.4 / 1.2), ("ICC(2,1)", 0.4 / 1.2), ("ICC(3,1)", 0.4 / 0.9)]
)
def test_intervals_cover_as_they_say(kind: str, truth: float) -> None:
    """Levels .4, raters .3 and residual .5 (one-way: what is not levels is noise)."""
    rng, n, k, hits = np.random.default_rng(11), 15, 6, 0
    repeats = 1500
    for _ in range(repeats):
        levels = rng.normal(0, math.sqrt(0.4), (n, 1))
        if kind == "ICC(1,1)":
            scores = levels + rng.normal(0, math.sqrt(0.8), (n, k))
            deviations = ((scores - scores.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
            low, high = one_way(scores.sum(axis=1), np.full(n, k), deviations).interval(kind, 0.9)
        else:
            judges = rng.normal(0, math.sqrt(0.3), (1, k))
            scores = levels + judges + rng.normal(0, math.sqrt(0.5), (n, k))
            low, high = two_way(scores).interval(kind, 0.9)
        hits += low <= truth <= high
    error = math.sqrt(0.9 * 0.1 / repeats)
    # Satterthwaite's is approximate: two points more.
    slack = 0.02 if kind == "ICC(2,1)" else 0.0
    assert hits / repeats == pytest.approx(0.9, abs=3.5 * error + slack)


@pytest.mark.parametrize(("mu", "low", "high"), [(0.0, 0.91, 0.97), (-3.0, 0.70, 0.83)])
def test_intervals_of_binary_scores_are_rough(mu: float, low: float, high: float) -> None:
    """What the docstring says: near 95% at a pass rate of one half, far from it at one in ten."""
    rng, n, k, repeats = np.random.default_rng(2), 50, 4, 1000
    rates = 1 / (1 + np.exp(-(mu + 2 * rng.normal(size=400_000))))
    truth = np.var(rates) / (rates.mean() * (1 - rates.mean()))
    hits = 0
    for _ in range(repeats):
        passes = rng.binomial(k, rng.choice(rates, n))
        lower, upper = one_way(passes, np.full(n, k)).interval("ICC(1,1)", 0.95)
        hits += lower <= truth <= upper
    assert low < hits / repeats < high


def test_forms_equal_phi_and_generalizability() -> None:
    """ICC(2,k) is Phi and ICC(3,k) is E rho^2 of the components from mean squares."""
    rng = np.random.default_rng(3)
    scores = rng.normal(size=(8, 4)) + rng.normal(size=(8, 1)) + rng.normal(size=(1, 4))
    table = rated(scores)
    study = study_of("task", "judge", family="gaussian")
    parts = gs.anova_components(table, study).frame["variance"]
    absolute = parts["task"] / (parts["task"] + (parts["judge"] + parts["residual"]) / 4)
    relative = parts["task"] / (parts["task"] + parts["residual"] / 4)
    for kind, value in (("ICC(2,k)", absolute), ("ICC(3,k)", relative)):
        found = gs.anova_icc(table, kind=kind, raters="judge", study=study)
        assert found.value == pytest.approx(value, abs=1e-12)


def test_two_way_forms_of_each_system() -> None:
    rng = np.random.default_rng(5)
    tables = {name: rated(rng.integers(0, 2, (9, 3))) for name in ("A", "B")}
    table = pd.concat([one.assign(system=name) for name, one in tables.items()])
    found = gs.anova_icc(table, by="system", kind="ICC(2,1)", raters="judge")
    for name, one in tables.items():
        alone = gs.anova_icc(one, kind="ICC(2,1)", raters="judge")
        assert found.frame.loc[name, "icc"] == alone.value
    assert "Two-way ANOVA ICC(2,1) of task by judge" in str(found)


def test_two_way_forms_need_one_score_in_each_cell() -> None:
    table = rated([[1, 0], [1, 1], [0, 0]])
    two: Any = {"kind": "ICC(2,1)", "raters": "judge"}
    missing = r"task 't1', judge 'j0' has none \(1 of 6 cells are not one\)"
    with pytest.raises(QuantityError, match=missing):
        gs.anova_icc(table.drop(index=2), **two)
    twice = pd.concat([table, table.iloc[[3]]], ignore_index=True)
    with pytest.raises(QuantityError, match=r"task 't1', judge 'j1' has 2.*Average them first"):
        gs.anova_icc(twice, **two)
    with pytest.raises(QuantityError, match="needs the facet of raters"):
        gs.anova_icc(table, kind="ICC(3,k)")
    with pytest.raises(QuantityError, match="is a one-way form"):
        gs.anova_icc(table, raters="judge")
    with pytest.raises(QuantityError, match="raters are the facet 'task' itself"):
        gs.anova_icc(table, kind="ICC(3,k)", raters="task")
    with pytest.raises(QuantityError, match=r"no facet is named 'jugde'.*Did you mean 'judge'"):
        gs.anova_icc(table, kind="ICC(3,k)", raters="jugde")
    nested = study_of("task", within("judge", "task", role="error"))
    with pytest.raises(QuantityError, match="'judge' is nested in 'task'"):
        gs.anova_icc(table, study=nested, **two)


def test_judges_of_rollouts_are_raters_of_the_rollout() -> None:
    study = study_of("task", within("rollout", "task"), gs.Facet("judge", role="error"))
    rng = np.random.default_rng(8)
    table = pd.DataFrame(
        [
            {"task": t, "rollout": r, "judge": j, "score": int(rng.integers(0, 2))}
            for t in "abc"
            for r in (1, 2)
            for j in ("x", "y", "z")
        ]
    )
    with pytest.raises(QuantityError, match="task 'a', judge 'x' has 2"):
        gs.anova_icc(table, kind="ICC(2,1)", raters="judge", study=study)
    found = gs.anova_icc(table, "rollout", kind="ICC(2,1)", raters="judge", study=study)
    assert found.frame.loc["all", "n_levels"] == 6
    cells = table.pivot_table(index=["task", "rollout"], columns="judge", values="score")
    assert found.value == pytest.approx(two_way(cells.to_numpy(dtype=float)).value("ICC(2,1)"))


@pytest.mark.parametrize(
    ("scores", "note"),
    [
        ([[1, 0, 1]], "not defined: one level"),
        ([[1], [0]], "not defined: one rater"),
        ([[1, 1], [1, 1]], "not defined: no score varies, all are 1"),
        ([[1, 1], [0, 0]], "no interval: raters differ by a constant only"),
        ([[1, 0], [0, 1], [1, 0]], "negative: levels differ less than chance"),
    ],
)
def test_two_way_notes(scores: Any, note: str) -> None:
    found = gs.anova_icc(rated(scores), kind="ICC(3,1)", raters="judge")
    assert found.frame.loc["all", "note"].startswith(note)
    assert math.isnan(found.value) == note.startswith("not defined")
    lower = found.summary().loc["all", "lower"]
    assert math.isnan(lower) == (not note.startswith("negative"))
    assert note in str(found)


def test_no_interval_without_width() -> None:
    """Every task passes always or never: an interval from 1 to 1 would claim certainty."""
    found = gs.anova_icc(rows_of([0, 4, 4, 0], 4))
    row = found.summary().loc["all"]
    assert row["icc"] == 1
    assert math.isnan(row["lower"])
    assert "no interval: no score varies within a level" in str(found)


def test_a_form_that_divides_by_nothing_says_so() -> None:
    found = gs.anova_icc(rows_of([2, 2, 2, 2], 4), kind="ICC(1,k)")
    assert math.isnan(found.value)
    assert "levels differ so little" in str(found)


def test_constant_graded_scores_do_not_vary() -> None:
    table = rated(np.full((4, 3), 0.1))
    found = gs.anova_icc(table, family="gaussian")
    assert found.frame.loc["all", "note"] == "not defined: no score varies, all are 0.1"


def test_unequal_groups_say_what_stands_in() -> None:
    table = pd.DataFrame({"task": list("aaabbbcc"), "score": [1, 1, 0, 0, 0, 1, 1, 1]})
    assert "Groups are unequal: their average size n0 stands in" in str(gs.anova_icc(table))


def test_unused_categories_and_kinds_of_labels_make_no_levels() -> None:
    """Cases 13 and 44: 1 and 1.0 are one label, unused categories none, 1 and "1" collide."""
    scores = {"score": [1, 0, 1, 1]}
    kinds = pd.Categorical(["a", "a", "b", "b"], categories=["a", "b", "c"])
    assert gs.anova_icc(pd.DataFrame({"task": kinds, **scores})).frame.loc["all", "n_levels"] == 2
    whole = pd.DataFrame({"task": [1, 1, 2, 2], **scores})
    real = whole.assign(task=whole["task"].astype(float))
    assert gs.anova_icc(whole).value == gs.anova_icc(real).value
    mixed = pd.DataFrame({"task": [1, "1", 2, 2], **scores})
    with pytest.raises(gs.DataError, match="'task'"):
        gs.anova_icc(mixed)


def test_a_table_is_read_by_the_study_where_there_is_one() -> None:
    study = gs.Study(
        score="passed",
        facets=[gs.Facet("task", role="legitimate", column="item id"), within("rollout", "task")],
    )
    table = rows_of([1, 3, 4], 4).rename(columns={"task": "item id", "score": "passed"})
    assert gs.anova_icc(table, study=study).value == gs.anova_icc(rows_of([1, 3, 4], 4)).value


def test_task_labels_that_are_used_again_in_each_domain_are_tasks_of_their_own() -> None:
    """Trials know the nesting that they were read with, also without study=."""
    rng = np.random.default_rng(2)
    rows = [
        (s, d, t, r, int(rng.random() < p))
        for s in ("X", "Y")
        for d in "abc"
        for t, p in enumerate(rng.beta(0.4, 0.4, 8))
        for r in range(4)
    ]
    table = pd.DataFrame(rows, columns=["system", "domain", "task", "rollout", "passed"])
    study = gs.Study(
        score="passed",
        object="system",
        facets=[
            gs.Facet("domain", role="controlled"),
            gs.Facet("task", role="legitimate", nested_in=["domain"]),
            gs.Facet("rollout", role="legitimate", nested_in=["system", "task"]),
        ],
    )
    read = gs.read_trials(table, study)
    unique = gs.read_trials(table.assign(task=table["domain"] + table["task"].astype(str)), study)
    for ask in (
        lambda t: gs.anova_icc(t, "task", by="system").frame[["icc", "n_levels"]],
        lambda t: gs.clustered_se(t).summary()[["mean", "naive", "cr0", "cr1"]],
        lambda t: pd.Series([gs.paired_noise(t, "X", "Y").difference.total]),
    ):
        np.testing.assert_array_equal(ask(read), ask(unique))
    assert (gs.anova_icc(read, "task", by="system").frame["n_levels"] == 24).all()
