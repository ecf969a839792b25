"""The universe of a claim, and failed runs under both policies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

import gstudy as gs
from gstudy.study.estimable import assess
from gstudy.study.universe import claim_table

if TYPE_CHECKING:
    from gstudy.fits.fitted import Fit
    from gstudy.fits.many import Fits


def _study(policy: str = "incorrect") -> gs.Study:
    return gs.Study(
        score="passed",
        facets=[
            gs.Facet("task", role="legitimate", reason="what users ask"),
            gs.Facet("rollout", role="legitimate", nested_in=["task"]),
        ],
        controlled={"harness": "v3"},
        on_failed_run=policy,
    )


@pytest.fixture(scope="module")
def failing() -> pd.DataFrame:
    """30 tasks x 4 rollouts; one rollout of each of 10 tasks that mostly pass fails."""
    rng = np.random.default_rng(5)
    p = 1 / (1 + np.exp(-rng.normal(0.5, 1.5, 30)))
    rows = [
        {"task": t, "rollout": r, "passed": str(int(rng.random() < p[t])), "outcome": "scored"}
        for t in range(30)
        for r in range(4)
    ]
    frame = pd.DataFrame(rows)
    lost = [4 * int(t) for t in np.argsort(-p)[:10]]
    frame.loc[lost, ["passed", "outcome"]] = ["", "failed"]
    return frame.assign(reason=np.where(frame["outcome"] == "failed", "timeout", ""))


@pytest.fixture(scope="module")
def both(failing: pd.DataFrame) -> Fits:
    return gs.fit_policies(_study("raise"), failing, seed=1, draws=500, progress=False)


@pytest.fixture(scope="module")
def fit(failing: pd.DataFrame) -> Fit:
    with pytest.warns(gs.EstimabilityWarning):
        return gs.fit(
            _study(), failing, seed=1, sampler="direct", draws=500, tune=500, progress=False
        )


def test_both_policies_are_the_two_data_sets(both: Fits, failing: pd.DataFrame) -> None:
    passes = int((failing["passed"] == "1").sum())
    assert {label: f.design.n_trials for label, f in both.items()} == {
        "incorrect": 120,
        "drop": 110,
    }
    assert {int(f.design.cells.successes.sum()) for f in both.values()} == {passes}


def test_the_table_gives_the_score_under_each_policy(fit: Fit, failing: pd.DataFrame) -> None:
    passes = int((failing["passed"] == "1").sum())
    notes = " ".join(gs.universe_table(fit).notes)
    assert f"{100 * passes / 120:.1f}%" in notes
    assert f"{100 * passes / 110:.1f}%" in notes
    assert "gs.fit_policies" in notes


def test_the_two_largest_components_stand_under_both_policies(fit: Fit, both: Fits) -> None:
    notes = gs.universe_table(fit, both).notes
    for policy, words in (("incorrect", "as score 0"), ("drop", "left out")):
        row = gs.variance_components(both[policy]).summary().loc["task"]
        [told] = [note for note in notes if note.startswith("With") and words in note]
        assert f"task {row['mean']:.4f} ({row['lower']:.4f} to {row['upper']:.4f})" in told
        assert "residual" in told


def test_every_facet_and_pinned_entry_has_a_row(fit: Fit) -> None:
    frame = gs.universe_table(fit).frame.set_index("facet")
    assert list(frame.index) == ["task", "rollout", "harness"]
    assert frame.loc["task", "reason"] == "what users ask"
    assert frame.loc["task", "universe"] == "infinite"
    assert frame.loc["rollout", "sampled"] == "inside residual"
    assert frame.loc["harness", "sampled"] == "pinned at v3"


def test_no_failed_run_no_second_fit(failing: pd.DataFrame) -> None:
    whole = failing[failing["outcome"] == "scored"]
    with pytest.raises(gs.DeclarationError, match="no run failed in these trials"):
        gs.fit_policies(_study(), whole, seed=1)


def test_what_is_refused(fit: Fit) -> None:
    with pytest.raises(gs.QuantityError, match="read from a fit"):
        gs.universe_table("run.nc")
    with pytest.raises(gs.QuantityError, match="not the fits under both policies"):
        gs.universe_table(fit, {"drop": fit})


@pytest.mark.parametrize(
    ("domain", "idle"),
    [({}, True), ({"universe": 40}, False), ({"role": "controlled"}, False)],
    ids=["endless", "bank", "controlled"],
)
def test_a_bank_inside_what_has_none_is_told_to_change_nothing(
    domain: dict[str, Any], idle: bool
) -> None:
    parent = gs.Facet("domain", **({"role": "legitimate"} | domain))
    task = gs.Facet("task", role="legitimate", nested_in=["domain"], universe=20)
    study = gs.Study(score="passed", facets=[parent, task], interactions="none")
    rows = [(f"d{d}", f"t{t}", (d + t + r) % 2) for d in range(4) for t in range(5) for r in (0, 1)]
    frame = pd.DataFrame(rows, columns=["domain", "task", "passed"])
    table = claim_table(assess(study, frame.drop_duplicates(["domain", "task"])))
    told = [note for note in table.notes if "universe of task changes nothing" in note]
    assert len(told) == idle
    assert all("nested in domain" in note for note in told)
