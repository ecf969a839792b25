"""Saved runs: back bit for bit, or refused with the reason."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from handmade import LABELS, fit_by_hand, small_fit, small_study

import gstudy as gs
from gstudy.errors import QuantityError, RunFileError
from gstudy.fits import trailer
from gstudy.fits.files import writable_target
from gstudy.fits.fitted import Fit
from gstudy.study.estimable import assess


@pytest.fixture(scope="module")
def fit() -> Fit:
    return small_fit()


@pytest.fixture(scope="module")
def run(fit: Fit, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("run") / "run.nc"
    fit.save(path)
    return path


def same_design(found: gs.Fit, made: gs.Fit) -> None:
    """Every field of the assessment is equal, arrays with their types."""
    for name in ("rows", "components", "rules", "layout", "notes", "not_sampled", "pinned"):
        assert getattr(found.design, name) == getattr(made.design, name), name
    assert found.design.n_trials == made.design.n_trials
    assert found.design.source == made.design.source
    pd.testing.assert_frame_equal(found.design.counts, made.design.counts, check_exact=True)
    cells, other = found.design.cells, made.design.cells
    assert (cells.facets, cells.labels, cells.components) == (
        other.facets,
        other.labels,
        other.components,
    )
    arrays = [
        (found.codes, found.successes, found.trials, *found.index, *found.levels)
        for found in (cells, other)
    ]
    for left, right in zip(*arrays, strict=True):
        assert left.dtype == right.dtype
        assert left.tobytes() == right.tobytes()
    assert cells.digest() == other.digest()


def test_everything_comes_back_as_it_was(fit: Fit, run: Path) -> None:
    found = gs.load(run)
    assert found.posterior.identical(fit.posterior)
    for group in fit.posterior.children.values():
        for name, variable in group.variables.items():
            read = found.posterior[group.path].variables[name]
            assert read.dtype == variable.dtype, name
            if variable.dtype.kind != "O":
                assert read.values.tobytes() == variable.values.tobytes(), name
    assert found.study == fit.study
    assert found.settings == fit.settings
    same_design(found, fit)
    assert str(found.design) == str(fit.design)
    assert repr(found) == repr(fit)
    pd.testing.assert_frame_equal(found.diagnostics.frame, fit.diagnostics.frame, check_exact=True)


def test_labels_of_every_kind_come_back(run: Path) -> None:
    found = gs.load(run)
    assert set(found.design.cells.labels["task"]) == set(LABELS)
    assert set(found.effects("task").coords["task"].values) == set(LABELS)
    assert "B\\:1:a\\:b" in found.effects("system:task").coords["system:task"].values


def test_a_study_with_everything_declared_comes_back(tmp_path: Path) -> None:
    made = small_fit(
        priors={"mu": {"dist": "Normal", "mu": 0.5, "sigma": 1.0}},
        keep=["rollout"],
        controlled={"judge_prompt": "v3", "temperature": 0.7, "cached": True},
        on_failed_run={"timeout": "incorrect"},
        data=tmp_path / "trials.csv",
    )
    made.save(tmp_path / "run.nc")
    found = gs.load(tmp_path / "run.nc")
    assert found.study == made.study
    same_design(found, made)


@pytest.mark.parametrize(
    "name", ["-task", "(task)", "tâche", "ta\u0302che", "*", "<b>", "name_0", ".", "x" * 300, "a b"]
)
def test_facets_may_have_names_that_netcdf_refuses(name: str, tmp_path: Path) -> None:
    _study, frame = small_study()
    facets = [gs.Facet(name, role="legitimate", column="task")]
    renamed = gs.Study(score="passed", object="system", facets=facets, interactions="none")
    made = fit_by_hand(assess(renamed, frame[frame["rollout"] == 0]))
    made.save(tmp_path / "run.nc")
    found = gs.load(tmp_path / "run.nc")
    assert found.posterior.identical(made.posterior)
    assert found.study.facet_names == ("system", name)


def test_a_saved_run_opens_in_arviz(run: Path, fit: Fit) -> None:
    with xr.open_datatree(run, engine="netcdf4") as tree:
        assert {"posterior", "sample_stats", "observed_data", "constant_data"} <= set(tree.children)
        np.testing.assert_array_equal(tree["posterior"]["mu"].values, fit.mu)


def test_values_that_are_not_finite_keep_their_bits(tmp_path: Path) -> None:
    made = small_fit()
    draws = made.posterior["posterior"]["mu"]
    draws.values[0, :4] = [np.nan, np.inf, -np.inf, -0.0]
    made.save(tmp_path / "run.nc")
    assert gs.load(tmp_path / "run.nc").mu.tobytes() == made.mu.tobytes()


def test_settings_keep_their_types(tmp_path: Path) -> None:
    fit = small_fit()
    settings = {
        "seed": 2**70,
        "none": None,
        "yes": True,
        "cap": float("inf"),
        "versions": {"numpy": "2.5", "list": [1, 2.5, "x"]},
        "pair": (1, "a"),
        "count": np.int64(7),
    }
    made = Fit(fit.posterior, fit.study, fit.design, fit.diagnostics, settings)
    made.save(tmp_path / "run.nc")
    assert gs.load(tmp_path / "run.nc").settings == {**settings, "count": 7}


def test_attributes_that_netcdf_refuses_are_kept_as_text(tmp_path: Path) -> None:
    made = small_fit()
    made.posterior["posterior"].attrs.update(a=None, b=True, c={"x": 1}, d="text", e=2)
    made.save(tmp_path / "run.nc")
    attrs = gs.load(tmp_path / "run.nc").posterior["posterior"].attrs
    assert attrs == {"a": "null", "b": "true", "c": '{"x": 1}', "d": "text", "e": 2}


def test_saving_leaves_the_fit_as_it_was(fit: Fit, run: Path) -> None:
    assert fit.posterior.attrs == {}
    assert run.stat().st_size > 0


def test_a_sampled_fit_comes_back(tmp_path: Path) -> None:
    study, trials = gs.example("airline")
    with pytest.warns(gs.EstimabilityWarning):
        made = gs.fit(study, trials, seed=2, draws=300, sampler="direct", progress=False)
    made.save(tmp_path / "run.nc")
    found = gs.load(tmp_path / "run.nc")
    assert found.posterior.identical(made.posterior)
    assert found.mu.tobytes() == made.mu.tobytes()
    assert found.effects("task").values.tobytes() == made.effects("task").values.tobytes()
    assert found.settings == made.settings
    same_design(found, made)
    for measure in (gs.variance_components, gs.variance_budget, gs.rerun_noise):
        pd.testing.assert_frame_equal(
            measure(found).summary(), measure(made).summary(), check_exact=True
        )


# ------------------------------------------------------------------------------ refusals


def test_every_truncation_is_refused(run: Path, tmp_path: Path) -> None:
    whole = run.read_bytes()
    cut = tmp_path / "cut.nc"
    for keep in (0, 1, 7, 8, 100, 2048, len(whole) // 2, len(whole) - 61, len(whole) - 1):
        cut.write_bytes(whole[:keep])
        with pytest.raises(RunFileError) as caught:
            gs.load(cut)
        text = str(caught.value)
        assert f"{cut} cannot be read as a run: " in text
        if keep == 0:
            assert "the file is empty" in text
        elif keep > 4096:
            assert "truncated" in text


def test_one_flipped_byte_anywhere_is_refused(run: Path, tmp_path: Path) -> None:
    whole = bytearray(run.read_bytes())
    changed = tmp_path / "changed.nc"
    n = len(whole)
    rng = np.random.default_rng(1)
    # All of the trailer, the signature, and places all over the body.
    places = [*range(n - 60, n), *range(8), *rng.integers(0, n, 40).tolist()]
    for place in places:
        altered = bytearray(whole)
        altered[place] ^= 0x10
        changed.write_bytes(altered)
        with pytest.raises(RunFileError, match=r"altered|truncated|bytes were written"):
            gs.load(changed)


def test_bytes_behind_the_end_are_refused(run: Path, tmp_path: Path) -> None:
    longer = tmp_path / "longer.nc"
    longer.write_bytes(run.read_bytes() + b"\n")
    with pytest.raises(RunFileError, match="the end of the run is missing or altered"):
        gs.load(longer)


def test_bytes_cut_from_the_middle_are_refused(run: Path, tmp_path: Path) -> None:
    whole = run.read_bytes()
    shorter = tmp_path / "shorter.nc"
    shorter.write_bytes(whole[:5000] + whole[5100:])
    with pytest.raises(RunFileError, match=r"bytes were written, .* are there"):
        gs.load(shorter)


def test_foreign_files_are_refused(tmp_path: Path) -> None:
    text = tmp_path / "trials.csv"
    text.write_text("task,passed\na,1\n")
    with pytest.raises(RunFileError, match="it is a file that gstudy did not write"):
        gs.load(text)
    other = tmp_path / "other.nc"
    xr.Dataset({"x": ("t", np.arange(3.0))}).to_netcdf(other, engine="netcdf4")
    with pytest.raises(RunFileError, match="an HDF5 or netCDF file that gstudy did not write"):
        gs.load(other)


def test_a_run_rewritten_by_another_program_is_refused(run: Path, tmp_path: Path) -> None:
    with xr.open_datatree(run, engine="netcdf4") as tree:
        tree.load().to_netcdf(tmp_path / "copy.nc", engine="netcdf4")
    with pytest.raises(RunFileError, match="the end of the run is missing or altered"):
        gs.load(tmp_path / "copy.nc")


def test_a_newer_format_is_refused_with_the_way_out(run: Path, tmp_path: Path) -> None:
    newer = tmp_path / "newer.nc"
    shutil.copy(run, newer)
    with newer.open("r+b") as stream:
        stream.truncate(newer.stat().st_size - 60)
        trailer.append_trailer(stream, version=trailer.FORMAT_VERSION + 1)
    with pytest.raises(RunFileError, match=r"format version 2, .* Upgrade gstudy\."):
        gs.load(newer)


def test_a_missing_file_names_its_neighbour(run: Path) -> None:
    with pytest.raises(RunFileError, match=r"there is no such file\. .* Did you mean 'run\.nc'\?"):
        gs.load(run.with_name("rum.nc"))
    with pytest.raises(RunFileError, match="there is no such file"):
        gs.load(run.parent / "nowhere" / "run.nc")


def test_a_directory_is_no_run(run: Path) -> None:
    with pytest.raises(RunFileError, match=r"this is a directory\. .* Give .*run\.nc\."):
        gs.load(run.parent)


# ------------------------------------------------------------------------------ writing


def test_targets_that_cannot_be_written_are_refused(fit: Fit, tmp_path: Path) -> None:
    with pytest.raises(RunFileError, match=r"there is no directory .*missing"):
        fit.save(tmp_path / "missing" / "run.nc")
    with pytest.raises(RunFileError, match="a run is saved as a file, and this is a directory"):
        fit.save(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_takes_no_files_is_refused(fit: Fit, tmp_path: Path) -> None:
    # Root may write everywhere but to /proc.
    closed = tmp_path if os.geteuid() else Path("/proc/self")
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(RunFileError, match="cannot be written"):
            fit.save(closed / "run.nc")
    finally:
        tmp_path.chmod(0o700)


SAVE_WITHOUT_ROOM = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
from handmade import small_fit
fit = small_fit()
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
try:
    fit.save(sys.argv[1])
except Exception as error:
    print(type(error).__name__, error)
"""


def test_no_room_leaves_the_old_run_and_no_rest(run: Path, tmp_path: Path) -> None:
    target = tmp_path / "run.nc"
    shutil.copy(run, target)
    before = target.read_bytes()
    done = subprocess.run(
        [sys.executable, "-c", SAVE_WITHOUT_ROOM, str(target)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parent,
        check=False,
    )
    assert done.stdout.startswith("RunFileError the run cannot be written to "), done.stderr
    assert "Nothing was left behind." in done.stdout
    assert target.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["run.nc"]


def test_an_older_run_is_replaced_and_keeps_its_permissions(fit: Fit, tmp_path: Path) -> None:
    target = tmp_path / "run.nc"
    fit.save(target)
    target.chmod(0o640)
    fit.save(target)
    assert gs.load(target).mu.tobytes() == fit.mu.tobytes()
    assert target.stat().st_mode & 0o777 == 0o640


def test_a_new_run_gets_the_usual_permissions(fit: Fit, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.touch()
    fit.save(tmp_path / "run.nc")
    assert (tmp_path / "run.nc").stat().st_mode == plain.stat().st_mode


def test_a_link_stays_a_link(fit: Fit, tmp_path: Path) -> None:
    link = tmp_path / "latest.nc"
    link.symlink_to(tmp_path / "run.nc")
    fit.save(link)
    assert link.is_symlink()
    assert gs.load(tmp_path / "run.nc").mu.tobytes() == fit.mu.tobytes()


# ------------------------------------------------------------------------------ the fit itself


def test_effects_that_were_not_kept_say_so(fit: Fit) -> None:
    posterior = fit.posterior.copy()
    posterior["posterior"] = posterior["posterior"].to_dataset().drop_vars("u(task)")
    bare = Fit(posterior, fit.study, fit.design, fit.diagnostics)
    assert bare.effects("system").dims == ("chain", "draw", "system")
    with pytest.raises(QuantityError, match=r"task effects were not kept.* store_effects=True"):
        bare.effects("task")


def test_components_are_found_by_short_names(fit: Fit) -> None:
    assert fit.sd("task:system").tobytes() == fit.sd("system:task").tobytes()
    with pytest.raises(QuantityError, match="no component is named 'judge'"):
        fit.sd("judge")
    with pytest.raises(QuantityError, match="is not in the model: inside residual"):
        fit.sd("rollout")


def test_repr_is_short_and_says_what_to_call(fit: Fit) -> None:
    lines = repr(fit).splitlines()
    assert len(lines) <= 15
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith("<gstudy fit, binary score: 72 trials in 24 cells, mu ")
    assert "system:task" in repr(fit)
    assert "24 levels" in repr(fit)
    assert lines[-1].strip().startswith("next: gs.score(fit)")
    assert "gates passed" in repr(fit)


def test_html_is_one_escaped_table(fit: Fit) -> None:
    html = fit._repr_html_()
    assert html.count("<table") == 1
    assert "<script" not in html


def test_loading_and_measuring_import_no_pymc(run: Path) -> None:
    code = (
        "import sys, gstudy as gs\n"
        "from gstudy.questions.scores import score\n"
        "fit = gs.load(sys.argv[1])\n"
        "gs.variance_budget(gs.variance_components(fit)).summary()\n"
        "score(fit).summary()\n"
        "print([name for name in ('pymc', 'pytensor', 'nutpie') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(run)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", ["trials.csv", "study.toml"])
def test_a_file_that_is_no_run_is_not_destroyed(fit: Fit, tmp_path: Path, name: str) -> None:
    target = tmp_path / name
    target.write_text("task,passed\n")
    with pytest.raises(RunFileError, match=r"this file is no run, and saving would destroy it"):
        fit.save(target)
    assert target.read_text() == "task,passed\n"


def test_a_device_is_not_replaced() -> None:
    with pytest.raises(RunFileError, match="this file is no run"):
        writable_target(os.devnull)


@pytest.mark.parametrize("path", [None, 1, "", "a\0.nc", "x" * 4000])
def test_what_is_no_path_names_no_run(fit: Fit, path: object) -> None:
    for call in (fit.save, gs.load):
        with pytest.raises(RunFileError, match="a run file is named by its path"):
            call(path)
