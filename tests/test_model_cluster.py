"""Fits by level on worker processes of a real local dask cluster: the bits of the serial run."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import joblib
import numpy as np
import pandas as pd
import pytest
from benchmarks import truth

import gstudy as gs

if TYPE_CHECKING:
    from gstudy.fits.many import Fits

pytestmark = pytest.mark.slow

N_SYSTEMS = 8
SECONDS = 60


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two worker processes of one thread each, and a client."""
    from distributed import Client, LocalCluster

    workers = {"n_workers": 2, "threads_per_worker": 1, "processes": True}
    quiet = {"dashboard_address": None, "silence_logs": 50}
    with LocalCluster(**workers, **quiet) as found, Client(found) as client:
        yield client


@pytest.fixture(scope="module")
def frame() -> tuple[gs.Study, pd.DataFrame]:
    """Counts of 4 rollouts of 20 tasks by each system."""
    task = gs.Facet("task", role="legitimate")
    study = gs.Study(successes="k", trials="n", object="system", facets=[task])
    rng = np.random.default_rng(4)
    logits = rng.normal(0.3, 0.5, (N_SYSTEMS, 1)) + rng.normal(0.0, 1.5, 20)
    passed = rng.binomial(4, 1 / (1 + np.exp(-logits)))
    rows = [(f"s{i}", f"t{j}", k, 4) for (i, j), k in np.ndenumerate(passed)]
    return study, pd.DataFrame(rows, columns=["system", "task", "k", "n"])


def fits_of(frame: tuple[gs.Study, pd.DataFrame]) -> Fits:
    """Long enough that a worker can be killed in the middle."""
    study, trials = frame
    return gs.fit_by(study, trials, by="system", seed=7, draws=2000, chains=2, progress=False)


def assert_same_bits(here: Fits, there: Fits) -> None:
    assert list(here) == list(there)
    assert len(here) == N_SYSTEMS
    for label, fit in here.items():
        other = there[label]
        for name in fit.posterior.data_vars:
            np.testing.assert_array_equal(fit.posterior[name], other.posterior[name])
        assert fit.diagnostics.to_dict() == other.diagnostics.to_dict()


@pytest.fixture(scope="module")
def serial(frame: tuple[gs.Study, pd.DataFrame]) -> Fits:
    return fits_of(frame)


def test_workers_give_the_bits_of_the_serial_run(
    frame: tuple[gs.Study, pd.DataFrame], serial: Fits, cluster: Any
) -> None:
    assert len(set(cluster.run(os.getpid).values()) | {os.getpid()}) == 3
    with joblib.parallel_config(backend="dask"):
        there = fits_of(frame)
    assert_same_bits(serial, there)


def test_a_killed_workers_fits_are_made_again(
    frame: tuple[gs.Study, pd.DataFrame], serial: Fits, cluster: Any
) -> None:
    found: list[Any] = []

    def run() -> None:
        with joblib.parallel_config(backend="dask"):
            found.append(fits_of(frame))

    pids = cluster.run(os.getpid)
    thread = threading.Thread(target=run)
    thread.start()
    victim = _busy(cluster)
    os.kill(pids[victim], signal.SIGKILL)
    thread.join(timeout=10 * SECONDS)
    assert_same_bits(serial, found[0])
    assert pids[victim] not in cluster.run(os.getpid).values()


def _busy(cluster: Any) -> str:
    """The address of a worker that is at work."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        for address, tasks in cluster.processing().items():
            if tasks:
                return str(address)
        time.sleep(0.01)
    raise AssertionError("no worker was seen at work")


def test_the_truth_study_runs_on_the_cluster(cluster: Any, tmp_path: Path, shared: Path) -> None:
    options = ["--resamples", "1", "--draws", "50", "--without-shared", "--output"]
    here, there = tmp_path / "here.csv", tmp_path / "there.csv"
    truth.main([*options, str(here)])
    truth.main([*options, str(there), "--scheduler", cluster.scheduler.address])
    assert here.read_bytes() == there.read_bytes()
    assert len(here.read_text().splitlines()) == 1 + 2 * 48
