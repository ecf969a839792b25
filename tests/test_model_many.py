"""gs.fit_by: one independent fit per level, whatever the order, the others and the processes."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from designs import within

import gstudy as gs
from gstudy.model.many import level_seed

if TYPE_CHECKING:
    from pathlib import Path

QUICK: dict[str, Any] = {"progress": False, "seed": 4, "draws": 60, "tune": 60, "chains": 2}
# Such short runs fail their gates; what is tested is which draws they make.
pytestmark = pytest.mark.filterwarnings("ignore::gstudy.errors.ConvergenceWarning")


def counts_table(systems: str = "ABC", tasks: int = 8, seed: int = 1) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    rows = [
        {"system": s, "task": f"t{t}", "k": rng.integers(0, 5), "n": 4, "level": f"L{t % 2}"}
        for s, t in itertools.product(systems, range(tasks))
    ]
    return pd.DataFrame(rows)


def counts_study(**rest: Any) -> gs.Study:
    task = gs.Facet("task", role="legitimate", **rest.pop("task", {}))
    return gs.Study(
        **{"successes": "k", "trials": "n", "object": "system", "facets": [task], **rest}
    )


@pytest.fixture(scope="module")
def by_system() -> gs.Fits:
    return gs.fit_by(counts_study(), counts_table(), by="system", **QUICK)


def same(one: gs.Fit, other: gs.Fit) -> bool:
    return np.array_equal(one.mu, other.mu) and np.array_equal(
        one.effects("task"), other.effects("task")
    )


def test_each_level_has_its_own_mean_and_variances(by_system: gs.Fits) -> None:
    assert list(by_system) == ["A", "B", "C"]
    table = counts_table()
    for label, fit in by_system.items():
        assert fit.components == ("task",)
        assert fit.design.not_sampled == {"system": label}
        own = table[table["system"] == label]
        assert fit.design.cells.successes.sum() == own["k"].sum()


def test_a_level_is_the_fit_of_its_trials_alone(by_system: gs.Fits) -> None:
    table = counts_table()
    own = table[table["system"] == "B"]
    with pytest.warns(gs.EstimabilityWarning):
        alone = gs.fit(
            counts_study(), own, **{**QUICK, "seed": level_seed(4, "B")}, sampler="direct"
        )
    assert same(by_system["B"], alone)
    assert alone.settings["seed"] == by_system["B"].settings["seed"]


def test_order_and_other_levels_change_no_draw(by_system: gs.Fits) -> None:
    table = counts_table()
    fewer = table[table["system"] != "A"].iloc[::-1]
    again = gs.fit_by(counts_study(), fewer, by="system", n_jobs=2, **QUICK)
    assert list(again) == ["B", "C"]
    assert all(same(again[label], by_system[label]) for label in again)
    assert not same(by_system["A"], by_system["B"])


def test_other_processes_give_the_same_bits(by_system: gs.Fits) -> None:
    import joblib

    with joblib.parallel_config(backend="loky", n_jobs=2):
        again = gs.fit_by(counts_study(), counts_table(), by="system", **QUICK)
    assert all(same(again[label], by_system[label]) for label in by_system)
    assert again["A"].study == by_system["A"].study


def test_a_level_seed_follows_from_seed_and_label_alone() -> None:
    assert level_seed(1, "A") == level_seed(1, "A")
    seeds = {level_seed(seed, label) for seed in (0, 1, 2) for label in ("A", "B", "a:b", "ü")}
    assert len(seeds) == 12
    assert all(0 <= seed < 2**32 for seed in seeds)


def test_a_seed_is_drawn_and_recorded() -> None:
    table = counts_table("A")
    first = gs.fit_by(counts_study(), table, by="system", **{**QUICK, "seed": None})
    again = gs.fit_by(counts_study(), table, by="system", **{**QUICK, "seed": first.seed})
    assert same(first["A"], again["A"])


def test_what_has_one_level_in_a_part_is_left_out_there() -> None:
    study = counts_study(
        interactions=["system:task"],
        priors={
            "mu": {"dist": "Normal", "mu": 0.0, "sigma": 2.0},
            "sd(system)": {"dist": "HalfNormal", "sigma": 1.5},
            "sd(task)": {"dist": "HalfNormal", "sigma": 4.0},
            "sd(system:task)": {"dist": "HalfNormal", "sigma": 3.0},
        },
    )
    fits = gs.fit_by(study, counts_table("AB"), by="system", **QUICK)
    assert fits.study == study
    assert fits["A"].components == ("task",)
    assert fits["A"].design.component("task").prior.sigma == 4.0
    assert fits["A"].design.mu_prior.sigma == 2.0
    assert fits["A"].study.interactions == "none"


def test_interactions_lose_the_facet_that_is_split_by() -> None:
    table = pd.DataFrame(
        itertools.product("AB", range(6), ["x", "y"], range(3)),
        columns=["system", "task", "judge", "rollout"],
    ).astype(str)
    table["score"] = np.random.default_rng(1).integers(0, 2, len(table))
    study = gs.Study(
        score="score",
        object="system",
        facets=[
            gs.Facet("task", role="legitimate"),
            within("rollout", "system", "task"),
            gs.Facet("judge", role="error"),
        ],
        interactions=["system:task", "system:task:judge"],
        priors={"sd(system:task:judge)": {"dist": "HalfNormal", "sigma": 0.7}},
    )
    (part, _) = gs.fit_by(study, table, by="system", **QUICK).values()
    assert part.study.interactions == ("task:judge",)
    assert part.design.component("task:judge").prior.sigma == 0.7
    assert set(part.components) == {"task", "system:task:rollout", "judge", "task:judge"}


def test_by_an_attribute_keeps_every_system_and_records_the_level() -> None:
    fits = gs.fit_by(counts_study(), counts_table(), by="level", **QUICK)
    assert list(fits) == ["L0", "L1"]
    assert fits["L0"].study.controlled == {"level": "L0"}
    assert "system" in fits["L0"].components
    assert fits["L0"].design.component("task").n_levels == 4


def test_by_the_attribute_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "trials.csv"
    counts_table().to_csv(path, index=False)
    fits = gs.fit_by(counts_study(), path, by="level", **QUICK)
    frame = gs.fit_by(counts_study(), counts_table(), by="level", **QUICK)
    assert all(same(fits[label], frame[label]) for label in ("L0", "L1"))


def test_by_a_column_of_a_facet_is_by_the_facet() -> None:
    table = counts_table().rename(columns={"system": "model"})
    study = gs.Study(
        successes="k",
        trials="n",
        facets=[
            gs.Facet("system", role="object", column="model"),
            gs.Facet("task", role="legitimate"),
        ],
    )
    assert gs.fit_by(study, table, by="model", **QUICK).by == "system"


def test_levels_of_a_nested_facet_are_told_by_their_parents() -> None:
    table = counts_table("A", 12).assign(bank=lambda t: t["level"], part=["p", "q"] * 6)
    table["part"] = np.where(np.arange(12) % 4 < 2, "p", "q")
    study = gs.Study(
        successes="k",
        trials="n",
        facets=[
            gs.Facet("bank", role="legitimate"),
            gs.Facet("part", role="legitimate", nested_in=["bank"]),
            gs.Facet("task", role="legitimate", nested_in=["bank", "part"]),
        ],
    )
    fits = gs.fit_by(study, table, by="part", **QUICK)
    assert list(fits) == ["L0:p", "L0:q", "L1:p", "L1:q"]


def test_a_bank_that_is_split_needs_all_of_its_tasks() -> None:
    table = counts_table("AB", 8)
    fits = gs.fit_by(counts_study(task={"universe": 8}), table, by="level", **QUICK)
    assert [fit.study.facet("task").universe for fit in fits.values()] == [4, 4]
    # A system is scored on the whole bank.
    fits = gs.fit_by(counts_study(task={"universe": 20}), table, by="system", **QUICK)
    assert [fit.study.facet("task").universe for fit in fits.values()] == [20, 20]
    with pytest.raises(gs.DeclarationError, match="universe is of the whole bank, and by='level'"):
        gs.fit_by(counts_study(task={"universe": 20}), table, by="level", **QUICK)


def test_own_sds_by_system_are_plain_ones_within_a_system() -> None:
    study = counts_study(task={"varies": "system"})
    fits = gs.fit_by(study, counts_table(), by="system", **QUICK)
    assert fits["A"].study.varying == {}
    assert fits["A"].sd("task").shape == (2, 60)


def test_labels_are_data() -> None:
    names = ["a:b", "$x$|*", "[1]", "β<b>", "10", "9"]
    table = pd.concat([counts_table("A", 6, i).assign(system=n) for i, n in enumerate(names)])
    fits = gs.fit_by(counts_study(), table, by="system", **QUICK)
    assert list(fits)[:2] == ["9", "10"]
    assert set(fits) == set(names)
    assert "<b>" not in fits._repr_html_()


@pytest.mark.parametrize(
    ("by", "source", "error", "message"),
    [
        ("level", "trials", gs.DeclarationError, "'level' is no facet, and trials that were read"),
        ("sytem", "trials", gs.DeclarationError, "Did you mean 'system'"),
        ("levle", "frame", gs.DataError, "no column 'levle', which by asks for.*Did you mean"),
        ("k", "frame", gs.DeclarationError, "'k' holds the scores"),
        (3, "frame", gs.DeclarationError, "by is no facet and no column"),
    ],
)
def test_what_cannot_be_split_by(by: Any, source: str, error: type, message: str) -> None:
    study, trials = counts_study(), counts_table()
    given = gs.read_trials(trials, study) if source == "trials" else trials
    with pytest.raises(error, match=message):
        gs.fit_by(study, given, by=by, **QUICK)


def test_a_missing_label_is_refused_with_its_count() -> None:
    table = counts_table()
    table.loc[[2, 5], "level"] = None
    with pytest.raises(gs.DataError, match=r"column 'level': the label is missing \(2 of 24 rows"):
        gs.fit_by(counts_study(), table, by="level", **QUICK)


def test_an_attribute_that_the_declaration_pins() -> None:
    study = counts_study(controlled={"level": "L0"})
    with pytest.raises(gs.DeclarationError, match=r"controlled\.level pins what the fits"):
        gs.fit_by(study, counts_table(), by="level", **QUICK)


def test_a_counted_facet_has_no_levels_to_split_by() -> None:
    rollout = gs.Facet("rollout", role="legitimate", column="n", nested_in=["system", "task"])
    study = counts_study(facets=[gs.Facet("task", role="legitimate"), rollout])
    with pytest.raises(gs.DeclarationError, match="counted, not named"):
        gs.fit_by(study, counts_table(), by="rollout", **QUICK)


def test_a_level_that_cannot_be_fitted_is_named_or_skipped() -> None:
    table = counts_table()
    lone = table[(table["system"] != "B") | (table["task"] == "t0")]
    message = "system 'B' cannot be fitted: nothing can vary here: no component is left"
    with pytest.raises(gs.DataError, match=message):
        gs.fit_by(counts_study(), lone, by="system", **QUICK)
    skipped = r"1 of 3 levels of system cannot be fitted and is skipped: 'B': nothing can vary"
    with pytest.warns(gs.EstimabilityWarning, match=skipped):
        fits = gs.fit_by(counts_study(), lone, by="system", on_error="skip", **QUICK)
    assert list(fits) == ["A", "C"]
    assert list(fits.failures) == ["B"]
    with pytest.raises(gs.QuantityError, match="system 'B' could not be fitted: nothing can vary"):
        fits["B"]


def test_levels_that_fail_for_one_reason_are_told_together() -> None:
    table = counts_table()
    lone = table[(table["system"] == "A") | (table["task"] == "t0")]
    with pytest.raises(gs.DataError, match="system 'B', 'C' cannot be fitted: nothing can vary"):
        gs.fit_by(counts_study(), lone, by="system", **QUICK)
    skipped = r"2 of 3 levels of system cannot be fitted and are skipped: 'B', 'C': nothing can"
    how = {**QUICK, "draws": 1000, "tune": 500}
    with pytest.warns(gs.EstimabilityWarning, match=skipped) as told:
        fits = gs.fit_by(counts_study(), lone, by="system", on_error="skip", **how)
    assert [str(w.message) for w in told][1:] == []
    table_ = fits.table()
    assert table_.title == "1 independent fit, one per level of system"
    assert [note for note in table_.notes if note.startswith("not fitted: 'B', 'C': nothing can")]


def test_a_level_without_a_usable_trial_is_named() -> None:
    table = counts_table()
    table["outcome"] = np.where(table["system"] == "B", "failed", "scored")
    study = counts_study(on_failed_run="drop")
    with pytest.raises(gs.DataError, match="system 'B' cannot be fitted: "):
        gs.fit_by(study, table, by="system", **QUICK)


def test_one_warning_names_what_is_left_out_and_where() -> None:
    table = pd.DataFrame(
        [(s, t, r) for s in "AB" for t in range(6) for r in range(3)],
        columns=["system", "task", "rollout"],
    ).astype(str)
    table["score"] = np.random.default_rng(1).integers(0, 2, len(table))
    table["judge"] = np.where((table["system"] == "A") & (table["rollout"] == "1"), "y", "x")
    study = gs.Study(
        score="score",
        object="system",
        facets=[
            gs.Facet("task", role="legitimate"),
            within("rollout", "system", "task"),
            gs.Facet("judge", role="error"),
        ],
        interactions="none",
    )
    with pytest.warns(gs.EstimabilityWarning) as caught:
        gs.fit_by(study, table, by="system", **QUICK)
    (text,) = [str(w.message) for w in caught if w.category is gs.EstimabilityWarning]
    assert "system:task:rollout, inside residual: at each of 2 levels" in text
    assert "judge, not sampled: at 'B'" in text
    assert "system, not sampled" not in text
    assert caught[0].filename == __file__


def test_one_warning_names_the_fits_that_have_not_converged() -> None:
    with pytest.warns(gs.ConvergenceWarning, match="3 of 3 fits by system have not") as caught:
        fits = gs.fit_by(counts_study(), counts_table(), by="system", **QUICK)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert list(fits.unconverged()) == ["A", "B", "C"]


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("n_jobs", 0, "n_jobs is no number of jobs. Given: 0"),
        ("n_jobs", 1.5, "n_jobs is no number of jobs"),
        ("on_error", "ignore", "unknown on_error. Given: 'ignore'. Allowed: raise, skip"),
        ("draws", 0, "draws is not a whole number in range"),
        ("sampler", "stan", "unknown sampler"),
    ],
)
def test_wrong_settings(setting: str, value: Any, message: str) -> None:
    with pytest.raises(gs.DeclarationError, match=message):
        gs.fit_by(counts_study(), counts_table(), by="system", **{**QUICK, setting: value})


def test_progress_counts_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    from gstudy.model import many

    monkeypatch.setattr(many, "can_show_progress", lambda: True)
    fits = gs.fit_by(counts_study(), counts_table("AB"), by="system", **QUICK | {"progress": True})
    assert len(fits) == 2
