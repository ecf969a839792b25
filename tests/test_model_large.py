"""Fits of many effects: half-precision records, moments block by block, memory told before."""

import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest

import gstudy as gs
from gstudy.model import large, recovered
from gstudy.model.halves import Halves, expand_halves, halves_of
from gstudy.model.large import Moments
from gstudy.model.parameterisation import parameterise
from gstudy.model.settings import make_settings
from gstudy.model.sweep import shifting_pairs
from gstudy.study.estimable import assess
from gstudy.study.memory import peak_memory, size_text

STUDY = gs.Study(
    successes="k",
    trials="n",
    object="system",
    facets=[gs.Facet("task", role="legitimate")],
    interactions=["system:task"],
)


def counts(n_systems=6, n_tasks=30, n=8, seed=1):
    rng = np.random.default_rng(seed)
    system, task = np.divmod(np.arange(n_systems * n_tasks), n_tasks)
    eta = 0.3 + rng.normal(0, 0.5, n_systems)[system] + rng.normal(0, 0.7, n_tasks)[task]
    eta += rng.normal(0, 0.7, eta.size)
    passed = rng.binomial(n, 1 / (1 + np.exp(-eta)))
    return pd.DataFrame({"system": system, "task": task, "k": passed, "n": n})


def stored(x, parts):
    """What the C function writes for one vector."""
    halves = Halves(len(x), parts)
    # The buffer of a model tells its own length first; two numbers stand for it here.
    buffer = np.concatenate([[2, 0], halves.numbers()]).astype(np.int64)
    out = np.full(halves.n_stored, np.nan)
    assert not expand_halves.ctypes(
        len(x), len(out), x.ctypes.data, out.ctypes.data, buffer.ctypes.data
    )
    return halves, out


def test_halves_round_as_numpy_does():
    rng = np.random.default_rng(1)
    ties = 1 + (np.arange(64) + 0.5) / 1024
    x = np.concatenate([rng.normal(0, 1, 5_000), 10 ** rng.uniform(-4, 4, 5_000), ties, -ties])
    halves, out = stored(x, ((0, len(x)),))
    np.testing.assert_array_equal(halves.unpacked(out[None])[0], x.astype(np.float16))


def test_halves_of_the_tiny_and_the_huge():
    x = np.array([0.0, -0.0, 1e-8, -1e-6, 1e300, -7e4, 65519.9])
    halves, out = stored(x, ((0, len(x)),))
    np.testing.assert_array_equal(halves.unpacked(out[None])[0], [0, 0, 0, 0, 65504, -65504, 65504])


@pytest.mark.parametrize("parts", [(), ((2, 7),), ((0, 3), (5, 10)), ((0, 1), (1, 4), (9, 11))])
def test_all_else_keeps_double_precision(parts):
    x = np.random.default_rng(2).normal(0, 1, 11)
    halves, out = stored(x, parts)
    packed = np.zeros(11, dtype=bool)
    for start, stop in parts:
        packed[start:stop] = True
    found = halves.unpacked(out[None])[0]
    np.testing.assert_array_equal(found[~packed], x[~packed])
    np.testing.assert_array_equal(found[packed], x[packed].astype(np.float16))
    assert halves.n_stored == 11 - packed.sum() + -(-packed.sum() // 4)


def test_halves_are_of_large_components_alone():
    assessment = assess(STUDY, counts())
    p = parameterise(assessment.cells, assessment.mu_prior)
    halves = halves_of(p, 30)
    [(start, stop)] = halves.parts
    assert stop - start in (179, 180)
    assert halves_of(p, 180).parts == ()


def test_moments_of_blocks_are_those_of_the_whole():
    draws = np.random.default_rng(3).normal(1e6, 1.0, (97, 5))
    moments = Moments(5)
    for block in np.array_split(draws, [1, 3, 50]):
        moments.add(block)
    np.testing.assert_allclose(moments.mean, draws.mean(axis=0), rtol=1e-14)
    np.testing.assert_allclose(moments.sd, draws.std(axis=0), rtol=1e-9)


@pytest.fixture(scope="module")
def both_fits():
    """One seed with the effects of system:task in halves and blocks, and with all stored."""
    assessment = assess(STUDY, counts())
    # Nothing is redrawn but the mean of each component.
    assert not shifting_pairs(assessment.cells)
    how = {"seed": 3, "draws": 300, "tune": 300, "sampler": "direct", "progress": False}
    with pytest.MonkeyPatch.context() as patch:
        for module in (large, recovered):
            patch.setattr(module, "LARGEST_STORED", 100)
        patch.setattr(large, "BLOCK", 10_000)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            few = gs.fit(STUDY, assessment, **how)
            every = gs.fit(STUDY, assessment, store_effects=True, **how)
    return few, every


def test_sds_are_the_same_draws(both_fits):
    few, every = both_fits
    for name in ("system", "task", "system:task"):
        np.testing.assert_array_equal(few.sd(name), every.sd(name))
    assert few.diagnostics.divergences == every.diagnostics.divergences
    assert few.diagnostics.ebfmi == pytest.approx(every.diagnostics.ebfmi)


def test_moments_are_those_of_the_draws(both_fits):
    few, every = (fit.posterior["posterior"].to_dataset() for fit in both_fits)
    assert "u(system:task)" not in few
    draws = every["u(system:task)"].to_numpy()
    mean, sd = few["u_mean(system:task)"].to_numpy(), few["u_sd(system:task)"].to_numpy()
    # The recovery draws the common shift anew, sd / sqrt(180) in each of 1,200 draws; what
    # differs between levels is the rounding of halves: 2^-12 of each draw.
    apart = mean - draws.mean(axis=(0, 1))
    assert abs(apart.mean()) < 5 * np.sqrt(2) * draws.std() / np.sqrt(180 * 1200)
    assert apart.std() < 2**-12 / np.sqrt(1200) * 10
    np.testing.assert_allclose(sd, draws.std(axis=(0, 1)), rtol=0.02)


def test_small_components_are_kept(both_fits):
    few, every = (fit.posterior["posterior"].to_dataset() for fit in both_fits)
    for name in ("u(system)", "u(task)"):
        centred = [x[name] - x[name].mean(dim=name[2:-1]) for x in (few, every)]
        np.testing.assert_allclose(*(c.to_numpy() for c in centred), atol=1e-9)


def test_shifts_are_redrawn_in_blocks():
    # A system that always passes: its level against its interactions is redrawn.
    frame = counts(n_systems=3, n_tasks=40)
    frame.loc[frame["system"] == 2, "k"] = frame["n"]
    assessment = assess(STUDY, frame)
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for module in (large, recovered):
            patch.setattr(module, "LARGEST_STORED", 100)
        patch.setattr(large, "BLOCK", 5_000)
        how = {"seed": 1, "draws": 500, "tune": 500, "sampler": "direct", "progress": False}
        few = gs.fit(STUDY, assessment, **how)
        every = gs.fit(STUDY, assessment, store_effects=True, **how)
    draws = every.effects("system:task")
    found = few.posterior["posterior"]["u_sd(system:task)"].to_numpy()
    np.testing.assert_allclose(found, draws.std(axis=(0, 1)), rtol=0.15)


def test_a_peak_is_what_the_formula_says():
    cells = assess(STUDY, counts(n_systems=60, n_tasks=100)).components
    how = {"draws": 500, "tune": 700, "chains": 3}
    direct = peak_memory(cells, 60, sampler="direct", store_effects=None, **how)
    few = 30 + 160
    sampled = 8 * 3 * 1200 * (few + 1500) + 8 * 3 * 500 * few
    assert direct == 380_000_000 + 600 * (few + 6000) + 50_000_000 + sampled
    every = peak_memory(cells, 60, sampler="pymc", store_effects=None, **how)
    kept = 8 * 3 * 500
    taken = 2 * 8 * 3 * 1200 + 5 * kept // 4
    assert every == 490_000_000 + (600 + taken) * (few + 6000)
    again = peak_memory(cells, 60, sampler="pymc", store_effects=None, keep_every=4, **how)
    taken = 2 * 8 * 3 * (700 + 2000) + 5 * kept // 4
    assert again == 490_000_000 + (600 + taken) * (few + 6000)
    untuned = peak_memory(cells, 60, sampler="direct", store_effects=True, **how | {"tune": 0})
    assert untuned == 380_000_000 + (600 + 3 * kept) * (few + 6000)
    assert [size_text(n) for n in (5, 2_500_000, 1_310_000_000)] == ["1 kB", "2.5 MB", "1.3 GB"]


def test_a_large_fit_tells_its_memory():
    found = assess(STUDY, counts(n_systems=60, n_tasks=200, n=2))
    assert "A fit takes about" in " ".join(str(found).split())
    assert "A fit takes about" not in " ".join(str(assess(STUDY, counts())).split())
    settings = make_settings(
        seed=1,
        draws=1000,
        tune=1000,
        chains=4,
        cores=None,
        sampler="direct",
        target_accept=0.95,
        progress=False,
        store_effects=None,
        until=None,
    )
    told, again = (size_text(found.peak_memory(sampler="direct", keep_every=n)) for n in (1, 4))
    line = (
        f"4 x 1,000 draws of 12,260 effects: about {told} of memory at the peak, {again} in a "
        "longer refit if a gate fails\n"
    )
    assert large.memory_line(found, settings) == line


_FIT = """
import sys, warnings
import numpy as np, pandas as pd, gstudy as gs, nutpie
from gstudy.study.estimable import assess
warnings.simplefilter("ignore")
# Memory does not depend on the length of trajectories.
own = nutpie.sample
nutpie.sample = lambda *given, **how: own(*given, **how, maxdepth=1)
rng = np.random.default_rng(1)
n_cells, draws, tune, what, sampler = [*map(int, sys.argv[1:4]), *sys.argv[4:]]
cell = np.arange(n_cells)
n_tasks = {"system:task": 500, "tasks alone": n_cells, "own sds": n_cells // 4}[what]
frame = pd.DataFrame({"system": cell // n_tasks, "task": cell % n_tasks})
frame["k"] = rng.integers(0, 5, cell.size)
varies = "system" if what == "own sds" else None
study = gs.Study(
    successes="k", trials="n", object=None if what == "tasks alone" else "system",
    facets=[gs.Facet("task", role="legitimate", varies=varies)],
    interactions=["system:task"] if what == "system:task" else "none",
)
found = assess(study, frame.assign(n=4))
how = dict(draws=draws, tune=tune, chains=2, sampler=sampler)
told = found.peak_memory(**how)
# One round: a fit of such short trajectories would be repeated.
from gstudy.model.sampling import drawing
from gstudy.model.settings import make_settings
from gstudy.model.rounds import sampled_round
settings = make_settings(seed=1, cores=2, target_accept=0.9, progress=False, store_effects=None,
                         until=None, **how)
sampled_round(drawing(found, sampler), settings)
# Of this program alone: ru_maxrss begins with the peak of the process that started it.
status = open("/proc/self/status").read().splitlines()
[peak] = [int(line.split()[1]) for line in status if line.startswith("VmHWM")]
print(told, peak * 1024)
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the peak from /proc")
@pytest.mark.parametrize(
    ("n_cells", "draws", "tune", "what", "sampler"),
    [
        (1000, 2000, 2000, "system:task", "direct"),
        (4500, 1000, 1000, "system:task", "direct"),
        (20000, 1500, 1500, "system:task", "direct"),
        (1000, 2000, 2000, "tasks alone", "direct"),
        (20000, 1500, 1500, "tasks alone", "direct"),
        (12000, 2000, 400, "own sds", "direct"),
        (1000, 1000, 1000, "system:task", "pymc"),
        (10000, 2000, 2000, "system:task", "pymc"),
        (10000, 500, 3000, "tasks alone", "pymc"),
        (12000, 2000, 400, "own sds", "pymc"),
    ],
)
def test_the_peak_is_told_within_a_quarter(n_cells, draws, tune, what, sampler):
    given = [*map(str, (n_cells, draws, tune)), what, sampler]
    ran = subprocess.run(
        [sys.executable, "-c", _FIT, *given], check=True, capture_output=True, text=True
    )
    told, measured = map(int, ran.stdout.split())
    assert told == pytest.approx(measured, rel=0.25)
