"""Reported cases E: scripts without a guard, our own intervals, size. Cases 38, 39, 40, 42, 44."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from designs import checked, grid, study_of, within
from onefacet import counted, sampled
from scipy.special import log_expit

import gstudy as gs
from gstudy.model.direct import direct_posterior
from gstudy.model.likelihood import binomial_pass
from gstudy.model.parameterisation import parameterise

if TYPE_CHECKING:
    from pathlib import Path

# ------------------------------------------------------------- cases 38 and 39: how it is started

# Short runs on purpose: what is tested is that they start, end and agree.
FIT = """
import hashlib, warnings
warnings.simplefilter("ignore")
import gstudy as gs
study, trials = gs.example("airline")
how = dict(seed=4, draws=60, tune=60, progress=False)
fit = gs.fit(study, trials, sampler={sampler!r}, cores={cores}, **how)
print(hashlib.sha256(fit.mu.tobytes() + fit.sd("task").tobytes()).hexdigest())
"""
MANY = """
import warnings
warnings.simplefilter("ignore")
import gstudy as gs
study, trials = gs.example("panel")
fits = gs.fit_by(study, trials, by="system", seed=4, n_jobs=2, draws=30, tune=30, chains=2)
print(len(fits), [round(float(fit.mu.mean()), 12) for fit in fits.values()])
"""


def printed(*how: str, stdin: str | None = None) -> list[str]:
    """The lines that a Python process prints; it ends by itself and complains of nothing."""
    done = subprocess.run(
        [sys.executable, *how],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for trouble in ("BrokenPipe", "bootstrapping phase", "Traceback", "fork()"):
        assert trouble not in done.stderr, done.stderr
    return done.stdout.splitlines()


def script(tmp_path: Path, text: str) -> str:
    path = tmp_path / "five_lines.py"
    path.write_text(text)
    return str(path)


def test_a_script_without_a_main_guard_runs_once_and_any_cores_agree(tmp_path: Path) -> None:
    """Case 38: one line of output, so that no child ran the script again; one seed, one set of
    draws with 1 and 4 cores. Case 39: the same typed into an interpreter that has no file."""
    one, four = (FIT.format(sampler="direct", cores=cores) for cores in (1, 4))
    found = [printed(script(tmp_path, one)), printed("-", stdin=four)]
    assert [len(lines) for lines in found] == [1, 1]
    assert found[0] == found[1]


@pytest.mark.slow
def test_fits_in_parallel_processes_need_no_main_guard(tmp_path: Path) -> None:
    """Cases 38 and 39: joblib's workers do not run the script again."""
    [from_file] = printed(script(tmp_path, MANY))
    [from_nowhere] = printed("-", stdin=MANY)
    assert from_file == from_nowhere
    assert from_file.startswith("6 [")


def mean_of_a_fit(seed: int) -> float:
    """For child processes."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        study, table = counted([3, 7, 5, 2, 9], [10] * 5)
        fit = gs.fit(
            study, table, seed=seed, draws=60, tune=60, sampler="direct", cores=2, progress=False
        )
    return float(fit.mu.mean())


@pytest.mark.slow
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_fit_in_a_child_process_is_the_fit_here(method: str) -> None:
    """Case 38: however the child is started."""
    with multiprocessing.get_context(method).Pool(2) as pool:
        found = pool.map(mean_of_a_fit, [3, 4])
    assert found == [mean_of_a_fit(3), mean_of_a_fit(4)]


@pytest.mark.slow
def test_a_script_with_the_pymc_sampler_needs_no_main_guard(tmp_path: Path) -> None:
    """Case 38: the default sampler."""
    texts = [FIT.format(sampler="pymc", cores=cores) for cores in (1, 4)]
    found = [printed(script(tmp_path, text)) for text in texts]
    found.append(printed("-", stdin=texts[1]))
    assert [len(lines) for lines in found] == [1, 1, 1]
    assert len({lines[0] for lines in found}) == 1


# ------------------------------------------------------------------ case 40: intervals are ours


def test_intervals_do_not_follow_the_settings_of_arviz(tmp_path: Path) -> None:
    """Case 40: 95% equal-tailed, whatever ArviZ's default is; in the result, its print and file."""
    import arviz as az

    fit = sampled(*counted([3, 7, 5, 2, 9], [10] * 5))
    path = tmp_path / "run.nc"
    fit.save(path)
    results = {
        "components": gs.variance_components,
        "budget": gs.variance_budget,
        "score": gs.score,
        "icc": lambda source: gs.icc(source, "group"),
        "re-run": gs.rerun_noise,
    }
    before = {name: ask(fit) for name, ask in results.items()}
    printed_before = {name: str(one) for name, one in before.items()}
    shown = repr(fit)
    with az.rc_context({"stats.ci_prob": 0.5, "stats.ci_kind": "hdi"}):
        loaded = gs.load(path)
        assert repr(fit) == shown
        assert "median [95% equal-tailed interval]" in repr(loaded)
        for name, ask in results.items():
            after = ask(loaded)
            pd.testing.assert_frame_equal(after.summary(), before[name].summary())
            assert str(after) == printed_before[name]
            attributes = after.summary().attrs
            assert (attributes["level"], attributes["interval"]) == (0.95, "equal-tailed")
            assert "95% equal-tailed intervals" in str(after)
    draws = before["icc"].draws.to_numpy()
    row = before["icc"].summary().iloc[0]
    np.testing.assert_allclose(
        row[["lower", "upper"]].astype(float), np.quantile(draws, [0.025, 0.975])
    )


# ----------------------------------------------------------------------------- case 42: size


@pytest.fixture(scope="module")
def large() -> tuple[gs.Study, pd.DataFrame]:
    """50,000 0/1 rows: 2,000 tasks x 5 systems x 5 runs."""
    study = study_of("task", within("run", "system", "task"), object="system")
    sizes = {"system": 5, "task": 2000, "run": 5}
    table = gs.simulate(study, sizes, sd={"task": 1.0, "system": 0.5}, seed=4)
    return study, table


def test_rows_become_cells_with_the_same_likelihood(large: tuple[gs.Study, pd.DataFrame]) -> None:
    """Case 42: 10,000 binomial cells against 50,000 Bernoulli rows, differences within 1e-8."""
    study, table = large
    cells = checked(study, table).cells
    assert (len(table), len(cells.trials)) == (50_000, 10_000)
    p = parameterise(cells, checked(study, table).mu_prior)
    sizes = [block.size for block in p.blocks]
    # No row-sized matrix: an index per cell and component is all.
    assert p.index.shape == (10_000, len(sizes))
    assert sum(sizes) == 5 + 2000 + 10_000
    codes = [
        table[f].astype(str).map({x: i for i, x in enumerate(cells.labels[f])})
        for f in ("system", "task")
    ]
    cell_of_row = codes[0].to_numpy() * 2000 + codes[1].to_numpy()
    score = table["score"].to_numpy(dtype=float)
    rng = np.random.default_rng(5)
    found = []
    for _ in range(5):
        mean, effects = rng.normal(), rng.normal(size=sum(sizes))
        slope = np.empty_like(effects)
        ours, _ = binomial_pass(mean, effects, p.index, p.successes, p.trials, slope)
        eta = (mean + effects[p.index].sum(axis=1))[cell_of_row]
        rows = np.sum(score * log_expit(eta) + (1 - score) * log_expit(-eta))
        found.append(ours - rows)
    # Up to a constant; sums of 50,000 terms of some -1e5 in all.
    np.testing.assert_allclose(found, found[0], rtol=0, atol=1e-8)


def test_memory_is_told_before_sampling(large: tuple[gs.Study, pd.DataFrame]) -> None:
    """Case 42: draws x chains x levels x 8 bytes, of what is kept; large components as mean and
    sd of their effects."""
    found = checked(*large)
    kept = 4 * 1000 * 8 * (1 + 3 + 5 + 2000)
    assert found.memory(draws=1000, chains=4) == kept + 2 * 10_000 * 8
    text = " ".join(str(found).split())
    assert "10,000 binomial cells; 4 x 1,000 draws take 64 MB." in text
    free = direct_posterior(parameterise(found.cells, found.mu_prior)).n_free
    assert free < 1 + 3 + 5 + 2000 + 10_000 + 1


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::gstudy.errors.ConvergenceWarning")
def test_no_quantity_per_row_is_stored(large: tuple[gs.Study, pd.DataFrame]) -> None:
    """Case 42: neither log-likelihoods nor predictions; the tree is as large as it was said."""
    study, table = large
    found = checked(study, table)
    fit = sampled(study, found, draws=20, tune=60, chains=2)
    assert "log_likelihood" not in fit.posterior.children
    group = fit.posterior["posterior"].to_dataset()
    numbers = sum(v.nbytes for v in group.data_vars.values())
    assert numbers == found.memory(draws=20, chains=2)


# ------------------------------------------------------------- case 44: levels that are not there


def test_unused_categories_and_plain_texts_have_one_posterior() -> None:
    """Case 44: two levels of three categories, the same draws."""
    table = grid({"task": list("ab"), "run": range(4)}, seed=2)
    kinds = pd.Categorical(table["task"], categories=["a", "c", "b"])
    study = study_of("task", within("run", "task"))
    found = checked(study, table.assign(task=kinds))
    assert found.component("task").n_levels == 2
    assert found.cells.labels["task"] == ("a", "b")
    how: dict[str, Any] = {"draws": 1000, "tune": 600, "target_accept": 0.97}
    one, other = (sampled(study, t, **how) for t in (table, table.assign(task=kinds)))
    np.testing.assert_array_equal(one.sd("task"), other.sd("task"))
    np.testing.assert_array_equal(one.effects("task"), other.effects("task"))


@pytest.mark.parametrize("kind", [object, "category", "string", "float"])
def test_a_missing_label_is_never_dropped_and_never_a_level(kind: Any) -> None:
    """Case 44: with the number of rows that it is missing in."""
    labels = [1.0, np.nan, 2.0, np.nan, 1.0, 2.0]
    table = pd.DataFrame({"task": pd.Series(labels).astype(kind), "run": range(6), "score": 1})
    study = study_of("task", within("run", "task"))
    message = r"row 2 .*column 'task': the label is missing \(2 of 6 rows have none\)"
    for call in (gs.check, gs.fit):
        with pytest.raises(gs.DataError, match=message):
            call(study, table)
    with pytest.raises(gs.GstudyError, match=r"missing.*2 of 6 rows"):
        gs.anova_icc(table)
