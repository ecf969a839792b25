"""The public names: each resolves, the three lists of them agree, and importing them is light."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import gstudy

HEAVY = ("arviz", "matplotlib", "nutpie", "numba", "numpy", "pandas", "pymc", "scipy", "xarray")


def test_every_public_name_resolves_to_what_its_module_defines() -> None:
    for name in gstudy.__all__:
        value = getattr(gstudy, name)
        assert value.__name__ == name
        assert value.__module__.startswith("gstudy.")
        assert value.__doc__


def test_the_three_lists_of_names_agree() -> None:
    tree = ast.parse(Path(gstudy.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    typed = {
        alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert typed == gstudy._PUBLIC
    assert gstudy.__all__ == sorted(gstudy._PUBLIC)


def test_dir_lists_the_public_names() -> None:
    assert set(dir(gstudy)) == {*gstudy.__all__, "__version__"}


def test_a_misspelt_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'gstudy' has no attribute 'chek'"):
        _ = gstudy.chek


def test_the_version_is_the_installed_one() -> None:
    assert gstudy.__version__.split(".")[0].isdigit()


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import gstudy; dir(gstudy)", HEAVY),
        ("from gstudy import DataError, Facet", HEAVY),
        ("from gstudy import Study, read_trials", ("arviz", "matplotlib", "nutpie", "pymc")),
        (
            "from gstudy import variance_budget, variance_components, icc, phi, load, plot_budget",
            ("nutpie", "pymc", "pytensor"),
        ),
    ],
)
def test_importing_is_light(statement: str, absent: tuple[str, ...]) -> None:
    code = f"import sys\n{statement}\nprint(*sorted(sys.modules.keys() & {set(absent)!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


TRIALS = "\n".join(
    f"{system},{task},{(7 * i + task * (system == 'A') + trial) % 3 // 2}"
    for i, system in enumerate("AB")
    for task in range(8)
    for trial in range(4)
)


def _loaded(code: str, names: tuple[str, ...], *arguments: str) -> list[str]:
    """Which of these modules a new process has loaded after some code."""
    told = f"{code}\nprint(*sorted(sys.modules.keys() & {set(names)!r}))"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", f"import sys\n{told}", *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()[-1].split()


@pytest.fixture(scope="module")
def study_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("light")
    (folder / "trials.csv").write_text(f"system,task,score\n{TRIALS}\n", encoding="utf-8")
    study = folder / "study.toml"
    study.write_text(
        'data = "trials.csv"\nscore = "score"\nobject = "system"\n'
        '[facets.task]\nrole = "legitimate"\n',
        encoding="utf-8",
    )
    return str(study)


def test_checking_loads_nothing_that_samples_or_measures(study_file: str) -> None:
    code = (
        "import contextlib\nfrom gstudy.cli.main import app\n"
        "with contextlib.suppress(SystemExit):\n    app(['check', sys.argv[1]])"
    )
    absent = ("arviz", "matplotlib", "numba", "nutpie", "pymc", "pytensor", "scipy", "xarray")
    assert _loaded(code, absent, study_file) == []


def test_the_direct_path_loads_neither_pymc_nor_plots(study_file: str) -> None:
    code = (
        "import contextlib\nfrom gstudy.cli.main import app\n"
        "short = ['--draws', '20', '--tune', '20', '--allow-unconverged', '--seed', '1']\n"
        "with contextlib.suppress(SystemExit):\n"
        "    app(['budget', sys.argv[1], '--sampler', 'direct', *short])"
    )
    absent = ("arviz_plots", "matplotlib", "pymc", "pytensor")
    assert _loaded(code, absent, study_file) == []


def test_a_command_imports_no_dask_that_is_installed(study_file: str) -> None:
    code = (
        "import contextlib\nfrom gstudy.cli.main import run\n"
        "short = ['--draws', '20', '--tune', '20', '--allow-unconverged', '--seed', '1']\n"
        "sys.argv = ['gstudy', 'budget', sys.argv[1], '--sampler', 'direct', *short]\n"
        "with contextlib.suppress(SystemExit):\n    run()"
    )
    assert set(_loaded(code, ("dask.array",), study_file)) == set()


def test_arviz_is_there_when_something_of_it_is_asked_for() -> None:
    code = "from gstudy.cli.postponed import postpone\npostpone('arviz')\nimport arviz, nutpie"
    assert _loaded(code, ("arviz_plots",)) == []
    assert _loaded(f"{code}\nfrom arviz import summary", ("arviz_plots",)) == ["arviz_plots"]
