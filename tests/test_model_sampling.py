"""gs.fit: the tree it makes, one seed one set of draws, settings, gates and the refit."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from models import counts, crossed

import gstudy as gs
from gstudy.model import recovered

if TYPE_CHECKING:
    from pathlib import Path

QUICK: dict[str, Any] = {"sampler": "direct", "progress": False, "seed": 4}

SCRIPT = """
import hashlib, sys, warnings
warnings.simplefilter("ignore")
import numpy as np, gstudy as gs
study, trials = gs.example("airline")
fit = gs.fit(study, trials, seed=4, draws=100, tune=100, chains=2, sampler=sys.argv[1],
             cores=int(sys.argv[2]), progress=False)
draws = np.concatenate([fit.mu.ravel(), fit.sd("task").ravel(), fit.effects("task").values.ravel()])
print(hashlib.sha256(draws.tobytes()).hexdigest())
"""


def digest(fit: gs.Fit) -> str:
    group = fit.posterior["posterior"].to_dataset()
    known = hashlib.sha256()
    for name in sorted(group.data_vars):
        known.update(group[name].to_numpy().tobytes())
    return known.hexdigest()


def test_the_tree_has_arviz_groups_and_labels() -> None:
    found = crossed()
    fit = gs.fit(found.study, found, draws=1500, tune=1000, **QUICK)
    group = fit.posterior["posterior"].to_dataset()
    assert group["mu"].dims == ("chain", "draw")
    assert group["mu"].shape == (4, 1500)
    assert group["u(system)"].dims == ("chain", "draw", "system")
    assert list(group["system"].values) == ["0", "1", "2", "3"]
    assert list(group["system:task"].values[:2]) == ["0:0", "0:1"]
    assert set(fit.posterior.children) == {
        "posterior",
        "sample_stats",
        "observed_data",
        "constant_data",
    }
    stats = fit.posterior["sample_stats"].to_dataset()
    assert {"diverging", "energy", "n_steps", "step_size"} <= set(stats.data_vars)
    assert fit.settings["seed"] == 4
    assert fit.settings["sampler"] == "direct"
    assert set(fit.settings["versions"]) >= {"pymc", "nutpie", "gstudy"}


def test_arviz_reads_the_tree() -> None:
    import arviz as az

    found = counts([1, 3, 4, 0, 2], [4] * 5)
    fit = gs.fit(found.study, found, draws=1500, tune=1000, **QUICK)
    table = az.summary(fit.posterior, var_names=["mu", "sd(task)"], ci_prob=0.95, ci_kind="eti")
    assert list(table.index) == ["mu", "sd(task)"]
    assert float(table.loc["mu", "mean"]) == pytest.approx(fit.mu.mean(), abs=0.01)


@pytest.mark.filterwarnings("ignore::gstudy.errors.ConvergenceWarning")
def test_one_seed_is_one_set_of_draws_at_any_number_of_cores() -> None:
    found = crossed()
    one, two, other = (
        gs.fit(found.study, found, draws=60, tune=60, cores=cores, **{**QUICK, "seed": seed})
        for cores, seed in ((1, 4), (2, 4), (2, 5))
    )
    assert digest(one) == digest(two)
    assert digest(one) != digest(other)


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["pymc", "direct"])
def test_fresh_processes_and_cold_caches_give_the_same_bits(sampler: str, tmp_path: Path) -> None:
    import os

    found = []
    for cores in ("1", "2"):
        env = os.environ | {
            "NUMBA_CACHE_DIR": str(tmp_path / "numba"),
            "PYTENSOR_FLAGS": f"base_compiledir={tmp_path / 'pytensor'}",
        }
        for extra in (env, dict(os.environ)):
            run = subprocess.run(
                [sys.executable, "-c", SCRIPT, sampler, cores],
                env=extra,
                capture_output=True,
                text=True,
                check=True,
            )
            found.append(run.stdout.strip())
    # Cold, the machine's own, then warm: all one.
    assert len(set(found)) == 1
    assert len(found[0]) == 64


@pytest.mark.slow
def test_both_samplers_have_one_posterior() -> None:
    from test_model_sweep import LIMIT, differ

    found = crossed()
    fits = [
        gs.fit(found.study, found, draws=2500, seed=6, sampler=sampler, progress=False)
        for sampler in ("pymc", "direct")
    ]
    for name in ("system", "task", "system:task"):
        one, other = (fit.sd(name) for fit in fits)
        assert max(differ(one, other)) < LIMIT, name
    assert max(differ(*(fit.mu for fit in fits))) < LIMIT


@pytest.mark.filterwarnings("ignore::gstudy.errors.ConvergenceWarning")
def test_a_seed_is_drawn_and_recorded() -> None:
    found = counts([1, 3, 4, 0, 2], [4] * 5)
    rest = {k: v for k, v in QUICK.items() if k != "seed"}
    fit = gs.fit(found.study, found, draws=1500, tune=1000, **rest)
    again = gs.fit(
        found.study, found, draws=1500, tune=1000, **{**QUICK, "seed": fit.settings["seed"]}
    )
    assert digest(fit) == digest(again)


def test_large_components_keep_mean_and_sd_of_their_effects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recovered, "LARGEST_STORED", 10)
    found = crossed()
    few = gs.fit(found.study, found, draws=1500, tune=1000, **QUICK)
    every = gs.fit(found.study, found, draws=1500, tune=1000, store_effects=True, **QUICK)
    group = few.posterior["posterior"].to_dataset()
    assert "u(system:task)" not in group
    effects = every.effects("system:task")
    np.testing.assert_allclose(group["u_mean(system:task)"], effects.mean(("chain", "draw")))
    np.testing.assert_allclose(group["u_sd(system:task)"], effects.std(("chain", "draw")))
    np.testing.assert_array_equal(few.effects("system"), every.effects("system"))
    with pytest.raises(gs.QuantityError, match="store_effects=True"):
        few.effects("system:task")


def test_a_failed_gate_is_refitted_once_and_recorded() -> None:
    """A short tuning at a coarse step diverges; the refit is at 0.99."""
    found = counts([0, 0, 0, 10, 10, 10], [10] * 6)
    with pytest.warns(gs.ConvergenceWarning, match="has not converged"):
        fit = gs.fit(found.study, found, draws=250, tune=1, chains=4, **QUICK)
    assert fit.settings["target_accept"] == 0.99
    (note,) = fit.diagnostics.refits
    assert note.startswith("refitted at target_accept 0.99 because: ")


def test_chains_that_are_too_short_are_refitted_longer_and_keep_their_size() -> None:
    """Two judges on 12 tasks: the sds move slowly, nothing diverges."""
    cells = crossed()
    fit = gs.fit(cells.study, cells, draws=200, tune=1000, **(QUICK | {"seed": 2}))
    (note,) = fit.diagnostics.refits
    assert note.startswith("refitted 4 times as long because: ")
    assert "ESS" in note
    assert fit.settings["keep_every"] == 4
    assert fit.mu.shape == (4, 200)
    assert fit.posterior["sample_stats"].sizes["draw"] == 200


def test_a_run_too_short_to_pass_is_not_refitted() -> None:
    found = counts([1, 3, 4, 0, 2], [4] * 5)
    with pytest.warns(gs.ConvergenceWarning):
        fit = gs.fit(found.study, found, draws=50, tune=200, **QUICK)
    assert fit.diagnostics.refits == ()
    assert fit.settings["target_accept"] == 0.9


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("draws", 0, "draws is not a whole number in range. Given: 0. Allowed: whole, 1 or more"),
        ("tune", 2.5, "tune is not a whole number"),
        ("chains", True, "chains is not a whole number"),
        ("cores", 0, "cores is not a whole number"),
        ("seed", -1, "seed is not a whole number in range. Given: -1. Allowed: whole, 0 to"),
        ("sampler", "stan", "unknown sampler. Given: 'stan'. Allowed: pymc, direct"),
        ("target_accept", 1.0, "target_accept is out of range. Given: 1.0"),
    ],
)
def test_wrong_settings(setting: str, value: object, message: str) -> None:
    found = counts([1, 3], [4, 4])
    with pytest.raises(gs.DeclarationError, match=message):
        gs.fit(found.study, found, **{setting: value})


def test_left_out_components_are_warned_of_where_fit_was_called() -> None:
    study, trials = gs.example("airline")
    with pytest.warns(gs.EstimabilityWarning, match="task:rollout, inside residual") as caught:
        gs.fit(study, trials, draws=1000, tune=1000, **QUICK)
    assert caught[0].filename == __file__


@pytest.mark.slow
@pytest.mark.parametrize("name", ["metr_horizon_runs", "gpqa_diamond_epochs"])
def test_real_data_pass_every_gate_at_the_defaults(name: str, shared: Path) -> None:
    """One system of the first never passes; both at the first attempt, with the PyMC model."""
    study = gs.Study(
        score="score",
        object="system",
        facets=[
            gs.Facet("task", role="legitimate"),
            gs.Facet("rollout", role="legitimate", nested_in=["system", "task"]),
        ],
    )
    with pytest.warns(gs.EstimabilityWarning):
        fit = gs.fit(study, shared / "data" / f"{name}.csv.gz", seed=1, progress=False)
    assert fit.diagnostics.passed, str(fit.diagnostics)
    assert fit.diagnostics.refits == ()


def test_ctrl_c_ends_the_fit_and_gives_no_shorter_one() -> None:
    """nutpie gives an interrupted trace as if it were whole."""
    text = (
        "import os, signal, threading\n"
        "import gstudy as gs\n"
        "study, trials = gs.example('airline')\n"
        "options = dict(seed=1, chains=2, sampler='direct', progress=False, tune=100)\n"
        "gs.fit(study, trials, draws=50, **options)\n"
        "threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "try:\n"
        "    gs.fit(study, trials, draws=1_000_000, **options)\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted')\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", text],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout == "interrupted\n", done.stderr


def test_a_swallowed_interrupt_is_raised_again() -> None:
    import contextlib
    import signal

    from gstudy.model.interrupts import interruptible

    with pytest.raises(KeyboardInterrupt), interruptible(), contextlib.suppress(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("value", ["0.9", None])
def test_a_target_that_is_no_number(value: Any) -> None:
    study, trials = gs.example("airline")
    with pytest.raises(gs.DeclarationError, match="target_accept is out of range"):
        gs.fit(study, trials, target_accept=value)
