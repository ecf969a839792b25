"""Variance components from mean squares: references, and what each sum of squares expects."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from designs import study_of, within

import gstudy as gs
from gstudy.errors import DataError, DeclarationError, QuantityError

if TYPE_CHECKING:
    from pathlib import Path

EMS, HENDERSON = "ANOVA, expected mean squares", "ANOVA, Henderson I"


def reference(oracle: Any, name: str) -> dict[str, Any]:
    return dict({row["id"]: row for row in oracle("references")["references"]}[name])


def by_columns(given: dict[str, Any], parent: str, child: str) -> pd.DataFrame:
    """Persons by columns such as t1_r2: parent t1, child r2."""
    return pd.DataFrame(
        [
            {"p": str(i), parent: name.split("_")[0], child: name.split("_")[1], "score": score}
            for name, column in given["input"]["columns"].items()
            for i, score in enumerate(column)
        ]
    )


def graded(*facets: gs.Facet | str, **rest: Any) -> gs.Study:
    return study_of(*facets, family="gaussian", **rest)


def variances(found: Any) -> dict[str, float]:
    return {str(name): float(value) for name, value in found.frame["variance"].items()}


# ------------------------------------------------------------------------------ references


@pytest.mark.reference
def test_set_1_p_by_i_of_binary_scores(oracle: Any) -> None:
    given = reference(oracle, "brennan2001_set1_pxi")
    rows = given["input"]["rows_persons_cols_items"]
    table = pd.DataFrame(
        [{"p": i, "i": j, "score": y} for i, row in enumerate(rows) for j, y in enumerate(row)]
    )
    found = gs.anova_components(table, study_of("p", "i"))
    names = {"p": "p", "i": "i", "residual": "pi"}
    for name, theirs in names.items():
        row = found.frame.loc[name]
        assert row["ss"] == pytest.approx(given["expected"]["SS"][theirs], abs=1e-8)
        assert row["ms"] == pytest.approx(given["expected"]["MS"][theirs], abs=1e-8)
        assert row["variance"] == pytest.approx(given["expected"]["var"][theirs], abs=1e-8)
    assert found.estimator == EMS
    assert found.balanced
    assert found.frame.loc["residual", "includes"] == "p:i"
    assert EMS in str(found)
    assert "A linear model of 0/1 scores" in str(found)
    assert found.summary().attrs["estimator"] == EMS
    assert found.summary().attrs["scale"] == "score"


@pytest.mark.reference
@pytest.mark.parametrize("reused", [True, False])
def test_set_2_items_nested_in_persons(oracle: Any, reused: bool) -> None:
    given = reference(oracle, "brennan2001_set2_i_nested_p")
    table = by_columns(given, "o", "i")
    table["item"] = table["o"] + table["i"] + ("" if reused else table["p"])
    found = gs.anova_components(table, graded("p", within("item", "p")))
    for name, theirs in {"p": "p", "residual": "i:p"}.items():
        assert found.frame.loc[name, "ms"] == pytest.approx(
            given["expected"]["MS"][theirs], abs=1e-8
        )
        assert variances(found)[name] == pytest.approx(given["expected"]["var"][theirs], abs=1e-8)


@pytest.mark.reference
@pytest.mark.parametrize("reused", [True, False])
def test_set_4_raters_nested_in_tasks(oracle: Any, reused: bool) -> None:
    given = reference(oracle, "brennan2001_set4_px(r:t)")
    table = by_columns(given, "t", "r")
    if reused:
        table["r"] = table.groupby(["p", "t"]).cumcount()
    found = gs.anova_components(table, graded("p", "t", within("r", "t")))
    names = {"p": "p", "t": "t", "t:r": "r:t", "p:t": "pt", "residual": "pr:t"}
    for name, theirs in names.items():
        assert found.frame.loc[name, "ms"] == pytest.approx(
            given["expected"]["MS"][theirs], abs=1e-8
        )
        assert variances(found)[name] == pytest.approx(given["expected"]["var"][theirs], abs=1e-8)
    if reused:
        # Read as crossed, the same table gives other numbers.
        crossed = gs.anova_components(table, graded("p", "t", "r"))
        assert abs(crossed.frame.loc["residual", "variance"] - 2.3802) > 0.1


@pytest.mark.reference
def test_unbalanced_p_by_i_in_h_is_henderson_1(oracle: Any) -> None:
    given = reference(oracle, "brennan2001_unbalanced_px(i:h)")
    table = by_columns(given, "h", "i")
    found = gs.anova_components(table, graded("p", "h", within("i", "h")))
    names = {"p": "p", "h": "h", "h:i": "i:h", "p:h": "ph", "residual": "p(i:h)"}
    expected = given["expected"]
    for name, theirs in names.items():
        assert found.frame.loc[name, "t"] == pytest.approx(expected["T"][theirs], abs=1e-8)
        value = expected["var_henderson1"][theirs]
        assert variances(found)[name] == pytest.approx(value, abs=1e-8)
    assert found.mean_term == pytest.approx(expected["T"]["mean"], abs=1e-8)
    assert 64 / found.coefficients.loc["mean", "h"] == pytest.approx(expected["n_h_tilde"])
    assert found.estimator == HENDERSON
    assert HENDERSON in str(found)
    assert "The design is unbalanced" in str(found)


@pytest.mark.reference
@pytest.mark.parametrize("name", ["dyestuff", "dyestuff2"])
def test_one_way_and_a_negative_estimate(oracle: Any, name: str) -> None:
    given = reference(oracle, name)
    rows = [
        {"batch": i, "run": j, "score": y}
        for i, batch in enumerate(given["input"]["y_by_batch"])
        for j, y in enumerate(batch)
    ]
    found = gs.anova_components(pd.DataFrame(rows), graded("batch", within("run", "batch")))
    value = given["expected"]["ems_var_batch"]
    assert variances(found)["batch"] == pytest.approx(value, abs=1e-8)
    assert variances(found)["residual"] == pytest.approx(given["expected"]["MSW"], abs=1e-8)
    negative = [note for note in found.notes if note.startswith("Negative: batch.")]
    assert len(negative) == (name == "dyestuff2")


@pytest.mark.reference
def test_pastes_nested_and_not_crossed(oracle: Any) -> None:
    """Balanced and positive, REML is the estimator from mean squares."""
    given = reference(oracle, "pastes_nested")
    table = pd.DataFrame({key: given["input"][key] for key in ("batch", "cask")})
    table["score"] = given["input"]["strength"]
    table["test"] = table.groupby(["batch", "cask"]).cumcount()
    nested = graded("batch", within("cask", "batch"), within("test", "batch", "cask"))
    found = gs.anova_components(table, nested)
    assert found.estimator == EMS
    right = given["expected"]["REML_nested(batch/cask)"]
    for name, theirs in {
        "batch": "batch",
        "batch:cask": "cask:batch",
        "residual": "Residual",
    }.items():
        assert variances(found)[name] == pytest.approx(right[theirs], abs=1e-3)
    wrong = given["expected"]["REML_if_cask_read_as_crossed_WRONG"]
    crossed = graded("batch", "cask", within("test", "batch", "cask"))
    other = gs.anova_components(table, crossed, interactions="none")
    for name, theirs in {"batch": "batch", "cask": "cask", "residual": "Residual"}.items():
        assert variances(other)[name] == pytest.approx(wrong[theirs], abs=1e-3)
    assert "Left out, and in the residual: batch:cask." in other.notes


@pytest.mark.reference
def test_annotators_with_negative_components(shared: Path) -> None:
    table = pd.read_csv(shared / "data" / "statnlp_annotation_gstudy.csv.gz")
    study = graded("task", "judge", gs.Facet("occasion", role="error", column="rollout"))
    expected = {
        "Marking": [0.00305, 0.00378, -0.00014, 0.00383, -2e-05, -0.00059, 0.01528],
        "Post Edit": [0.04791, 0.00132, -0.00016, 0.01871, -0.00011, 0.00078, 0.01071],
    }
    names = [
        "task",
        "judge",
        "occasion",
        "task:judge",
        "task:occasion",
        "judge:occasion",
        "residual",
    ]
    for mode, values in expected.items():
        rows = table[table["environment"] == mode]
        found = gs.anova_components(rows, study)
        assert list(variances(found)) == names
        assert list(variances(found).values()) == pytest.approx(values, abs=5.1e-6)
        negative = ", ".join(n for n, v in zip(names, values, strict=True) if v < 0)
        assert f"Negative: {negative}." in " ".join(found.notes)


@pytest.mark.reference
def test_brennan_from_its_file(shared: Path) -> None:
    table = pd.read_csv(shared / "data" / "classic_brennan_3_2.csv.gz")
    study = graded("task", within("judge", "task"), object="system")
    found = variances(gs.anova_components(table, study))
    expected = {"system": 0.4731, "task": 0.3252, "task:judge": 0.6475, "system:task": 0.5596}
    for name, value in {**expected, "residual": 2.3802}.items():
        assert found[name] == pytest.approx(value, abs=5e-5)


@pytest.mark.reference
def test_one_way_is_the_icc_of_airline(oracle: Any) -> None:
    given = reference(oracle, "tau_bench_airline_gpt4o")["expected"]
    study, trials = gs.example("airline")
    found = variances(gs.anova_components(trials, study))
    assert found["task"] / sum(found.values()) == pytest.approx(given["anova_ICC(1)"], abs=1e-10)


# ------------------------------------------------------------- expectations, by other means


def ragged(seed: int = 2) -> pd.DataFrame:
    """System x (item in form) x judge, rows missing, some cells twice."""
    rng = np.random.default_rng(seed)
    cells = [
        (system, form, item, judge)
        for system, form, judge in itertools.product("abc", "xyz", "jkl")
        for item in range({"x": 2, "y": 3, "z": 1}[form])
    ]
    kept = [cell for cell in cells if rng.random() < 0.75]
    rows = [(*cell, run) for cell in kept for run in range(1 + int(rng.random() < 0.3))]
    return pd.DataFrame(rows, columns=["system", "form", "item", "judge", "run"])


def ragged_study() -> gs.Study:
    every = ("system", "form", "item", "judge")
    return graded("system", "form", within("item", "form"), "judge", within("run", *every))


def indicators(table: pd.DataFrame, name: str) -> np.ndarray:
    """One column per level of a component."""
    if name == "residual":
        return np.eye(len(table))
    levels = table[name.split(":")].astype(str).agg("/".join, axis=1)
    return pd.get_dummies(levels).to_numpy(dtype=float)


def test_expectations_are_traces_of_the_quadratic_forms() -> None:
    """E y'Py = mu^2 1'P1 + sum_B variance_B tr(P Z_B Z_B'), P the projection on the levels."""
    table = ragged()
    table["score"] = np.random.default_rng(1).normal(size=len(table))
    found = gs.anova_components(table, ragged_study())
    names = list(found.coefficients.columns)
    assert len(names) == 12
    for row in found.coefficients.index:
        ones = np.ones((len(table), 1))
        z = ones if row == "mean" else indicators(table, row)
        projection = z @ np.linalg.inv(z.T @ z) @ z.T
        y = table["score"].to_numpy()
        t = found.mean_term if row == "mean" else found.frame.loc[row, "t"]
        assert t == pytest.approx(y @ projection @ y, abs=1e-9)
        assert ones.T @ projection @ ones == pytest.approx(len(table))
        for name in names:
            zb = indicators(table, name)
            trace = np.trace(projection @ zb @ zb.T)
            assert found.coefficients.loc[row, name] == pytest.approx(trace, abs=1e-9)


def test_estimates_are_unbiased_on_ragged_data() -> None:
    table, study = ragged(), ragged_study()
    truth = {"system": 1.0, "form": 0.5, "form:item": 0.7, "judge": 0.3, "system:form:item": 0.4}
    truth |= {"residual": 0.8}
    rng = np.random.default_rng(9)
    spots = {name: indicators(table, name) for name in truth}
    estimates = []
    for _ in range(150):
        scores = sum(z @ rng.normal(0, truth[n] ** 0.5, z.shape[1]) for n, z in spots.items())
        found = gs.anova_components(table.assign(score=scores + 3), study)
        estimates.append(found.frame["variance"])
    frame = pd.DataFrame(estimates)
    error = frame.std() / len(frame) ** 0.5
    for name in frame:
        assert abs(frame[name].mean() - truth.get(name, 0.0)) < 4 * error[name]


def test_balanced_three_facets_by_the_textbook_formulas() -> None:
    rng = np.random.default_rng(6)
    shape = (6, 4, 3)
    y = rng.normal(size=shape) + rng.normal(size=(6, 1, 1)) + rng.normal(size=(1, 4, 3))
    table = pd.DataFrame(
        [{"p": i, "i": j, "o": k, "score": y[i, j, k]} for i, j, k in np.ndindex(*shape)]
    )
    found = gs.anova_components(table, graded("p", "i", "o"))
    ms = found.frame["ms"]
    by_hand = {
        "p": (ms["p"] - ms["p:i"] - ms["p:o"] + ms["residual"]) / 12,
        "i": (ms["i"] - ms["p:i"] - ms["i:o"] + ms["residual"]) / 18,
        "o": (ms["o"] - ms["p:o"] - ms["i:o"] + ms["residual"]) / 24,
        "p:i": (ms["p:i"] - ms["residual"]) / 3,
        "p:o": (ms["p:o"] - ms["residual"]) / 4,
        "i:o": (ms["i:o"] - ms["residual"]) / 6,
        "residual": ms["residual"],
    }
    assert variances(found) == pytest.approx(by_hand)
    means = y.mean(axis=(1, 2))
    assert ms["p"] == pytest.approx(12 * np.var(means, ddof=1))
    assert found.frame["df"].tolist() == [5, 3, 2, 15, 10, 6, 30]
    assert found.frame["share"].sum() == pytest.approx(1)


# --------------------------------------------------------------------- what leaves it alone


def test_order_names_and_shift_change_nothing() -> None:
    table, study = ragged(), ragged_study()
    table["score"] = np.random.default_rng(1).normal(size=len(table))
    found = gs.anova_components(table, study)
    mixed = gs.anova_components(table.sample(frac=1, random_state=3), study)
    assert variances(mixed) == pytest.approx(variances(found), abs=1e-12)
    shifted = gs.anova_components(table.assign(score=table["score"] + 1e6), study)
    assert variances(shifted) == pytest.approx(variances(found), abs=1e-8)
    names = {"system": "s|y", "form": "form [x]", "item": "α*", "judge": "<b>", "run": "task"}
    every = [names[f] for f in ("system", "form", "item", "judge")]
    other = graded(
        names["system"],
        names["form"],
        within(names["item"], names["form"]),
        names["judge"],
        within("task", *every),
    )
    renamed = gs.anova_components(table.rename(columns=names), other)
    assert list(variances(renamed).values()) == pytest.approx(list(variances(found).values()))
    assert "&lt;b&gt;" in renamed._repr_html_()


def test_counts_are_their_trials() -> None:
    study = study_of("task", "env", within("rollout", "task", "env"))
    rng = np.random.default_rng(2)
    rows = pd.DataFrame(
        [
            {"task": t, "env": e, "rollout": r, "score": int(rng.random() < 0.5)}
            for t in range(6)
            for e in "xy"
            for r in range(2 + t % 2)
        ]
    )
    counts = rows.groupby(["task", "env"])["score"].agg(successes="sum", trials="count")
    counted = gs.Study(
        successes="successes",
        trials="trials",
        facets=[
            *study.facets[:2],
            gs.Facet("rollout", role="legitimate", column="trials", nested_in=["task", "env"]),
        ],
    )
    found = gs.anova_components(rows, study)
    other = gs.anova_components(counts.reset_index(), counted)
    assert variances(other) == pytest.approx(variances(found))
    assert found.frame.loc["residual", "includes"] == "task:env:rollout"
    assert other.frame.loc["residual", "includes"] == "task:env:rollout"


def test_balance_is_more_than_equal_counts() -> None:
    """Each task has two judges and each judge two tasks, but not every pair."""
    pairs = [("a", "x"), ("a", "y"), ("b", "y"), ("b", "z"), ("c", "z"), ("c", "x")]
    table = pd.DataFrame(pairs, columns=["task", "judge"]).assign(score=[1, 0, 1, 1, 0, 0])
    found = gs.anova_components(table, study_of("task", "judge"))
    assert found.estimator == HENDERSON


def test_facets_that_cannot_be_told_apart_are_one() -> None:
    table = pd.DataFrame(
        {
            "task": list("aabbccdd"),
            "author": list("wwxxyyzz"),
            "tool": "one",
            "run": [0, 1] * 4,
            "score": [1, 1, 0, 1, 0, 0, 1, 1],
        }
    )
    study = study_of("task", "author", "tool", within("run", "task"))
    found = gs.anova_components(table, study)
    assert list(variances(found)) == ["task + author", "residual"]
    assert found.frame.loc["task + author", "includes"] == "task, author"
    assert "Not sampled, one level only: tool ('one')." in found.notes


def test_a_facet_with_one_level_stays_in_the_name_of_what_is_nested_in_it() -> None:
    rows = [("a", t, r, int(r == 0)) for t in "xyz" for r in range(3)]
    table = pd.DataFrame(rows, columns=["system", "task", "rollout", "score"])
    study = study_of("task", within("rollout", "system", "task"), object="system")
    found = gs.anova_components(table, study)
    assert list(variances(found)) == ["task", "residual"]
    assert found.frame.loc["residual", "includes"] == "system:task:rollout"


def test_mean_squares_are_printed_where_they_have_a_meaning() -> None:
    rows = [(t, r, int(t > r)) for t in range(4) for r in range(3)]
    table = pd.DataFrame(rows, columns=["task", "rollout", "score"])
    study = study_of("task", within("rollout", "task"))
    assert "mean square" in str(gs.anova_components(table, study))
    ragged_one = gs.anova_components(table[:-1], study)
    assert "mean square" not in str(ragged_one)
    assert "ms" in ragged_one.summary()


def test_controlled_facets_are_said_to_be_random() -> None:
    rng = np.random.default_rng(4)
    table = pd.DataFrame(itertools.product("abcd", "xyz"), columns=["task", "prompt"])
    table["score"] = rng.normal(size=12)
    study = graded("task", gs.Facet("prompt", role="controlled"))
    found = gs.anova_components(table, study)
    assert "Treated as random here, although controlled: prompt." in found.notes


# --------------------------------------------------------------------------------- refusals


def test_what_cannot_be_estimated_is_refused() -> None:
    study = study_of("task", "judge")
    table = pd.DataFrame(itertools.product("abc", "xy"), columns=["task", "judge"])
    table["score"] = [1, 0, 1, 1, 0, 0]
    with pytest.raises(DeclarationError, match="a study is needed first"):
        gs.anova_components(table, table)
    with pytest.raises(QuantityError, match=r"no facet is named 'jugde'"):
        gs.anova_components(table, study, interactions=["task:jugde"])
    with pytest.raises(QuantityError, match="interactions is neither a word nor a list"):
        gs.anova_components(table, study, interactions="auto")
    one = study_of("task")
    with pytest.raises(QuantityError, match="every level of every component holds one trial"):
        gs.anova_components(table[::2], one)
    with pytest.raises(QuantityError, match="every facet has one level"):
        gs.anova_components(table[:1], study)
    with pytest.raises(QuantityError, match="the scores are not found"):
        gs.anova_components([1, 2], study)
    with pytest.raises(DataError, match="row 2"):
        gs.anova_components(table.assign(task=["a", None, "b", "b", "c", "c"]), study)
    with pytest.raises(DataError, match=r"0\.5"):
        gs.anova_components(table.assign(score=[1, 0.5, 1, 1, 0, 0]), study)


def test_a_design_that_confounds_components_is_refused() -> None:
    """Three facets in a Latin square of order 2: each is the interaction of the others."""
    rows = [("a", "x", "u"), ("a", "y", "v"), ("b", "x", "v"), ("b", "y", "u")] * 2
    table = pd.DataFrame(rows, columns=["p", "q", "r"])
    table["run"], table["score"] = [0] * 4 + [1] * 4, [1, 0, 1, 1, 0, 0, 1, 0]
    study = study_of("p", "q", "r", within("run", "p", "q", "r"))
    told = r"cannot tell apart p, q, r, p:q \+ p:r \+ q:r\..*interactions=\"none\""
    with pytest.raises(QuantityError, match=told):
        gs.anova_components(table, study)
    assert list(variances(gs.anova_components(table, study, interactions="none"))) == [
        "p",
        "q",
        "r",
        "residual",
    ]


def test_the_table_fits_80_columns() -> None:
    table = ragged()
    table["score"] = np.random.default_rng(1).normal(100, 5, size=len(table))
    text = str(gs.anova_components(table, ragged_study()))
    assert max(map(len, text.splitlines())) <= 80
    assert "score scale" in text
