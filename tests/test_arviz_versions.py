"""Under the oldest ArviZ that the pinned PyMC allows: the same numbers, and files load both ways.

The older packages are installed into a folder that stands before the environment's own.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.metadata import requires, version
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).with_name("arviz_script.py")
PACKAGES = ("arviz", "arviz-base", "arviz-stats", "arviz-plots")

pytestmark = pytest.mark.slow


def oldest_allowed() -> str:
    """The least ArviZ that the installed PyMC asks for."""
    (bound,) = [text for text in requires("pymc") or () if text.split("<")[0].strip() == "arviz"]
    found = re.search(r">=\s*([0-9.]+)", bound)
    assert found is not None, bound
    return found[1]


def run(run_file: Path, other: Path, packages: Path | None) -> dict[str, Any]:
    """What the script prints, with the packages of a folder before those of the environment."""
    path = {"PYTHONPATH": str(packages)} if packages is not None else {}
    command = [sys.executable, "-W", "ignore", str(SCRIPT), str(run_file), str(other)]
    done = subprocess.run(
        command, env={**os.environ, **path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the oldest allowed ArviZ and its own parts of the same minor version."""
    folder, oldest = tmp_path_factory.mktemp("arviz"), oldest_allowed()
    minor = ".".join(oldest.split(".")[:2])
    # ArviZ 1.1 asks for a name that Matplotlib 3.11 took away.
    wanted = [f"{name}=={minor}.*" for name in PACKAGES] + ["matplotlib==3.10.*"]
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
    done = subprocess.run(
        [*command, str(folder), *wanted], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"ArviZ {oldest} could not be installed: {done.stderr}"
    return folder


def test_oldest_and_newest_arviz_give_the_same_numbers(older: Path, tmp_path: Path) -> None:
    old_run, new_run = tmp_path / "old.nc", tmp_path / "new.nc"
    old = run(old_run, new_run, older)
    new = run(new_run, old_run, None)
    again = run(old_run, new_run, older)
    assert old["arviz"].startswith(oldest_allowed()[:3])
    assert new["arviz"] == version("arviz")
    assert old["own"] == new["own"] == new["other"] == again["other"]
    assert old["own"]["interval"] == "equal-tailed"
    assert old["own"]["level"] == 0.95
    assert old["checks"] == new["checks"] > 3
