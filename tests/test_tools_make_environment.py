"""tools/make_environment.sh installs once, again when what decides it changes, and mends .venv.

The Python it finds is a stand-in that makes an "environment" whose python writes down how pip was
called: a true installation takes minutes and a network.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

STAND_IN = f"""#!/bin/sh
here=$(cd "$(dirname "$0")" && pwd)
if [ "$1 $2" = "-m venv" ]; then
    mkdir -p "$3/bin" && cp "$0" "$3/bin/python"
elif [ "$1 $2" = "-m pip" ]; then
    echo "$@" >>"$here/../../pip.log"
elif echo "$2" | grep -q _base_executable; then
    echo "$0"
else
    exec "{sys.executable}" "$@"
fi
"""


@dataclass
class Clone:
    """A folder with the scripts, and a Python on PATH."""

    folder: Path
    programs: Path

    def make(self, extras: str = "test,dev") -> int:
        """Runs the script; the number of times that the package was installed by it."""
        log = self.folder / "pip.log"
        log.unlink(missing_ok=True)
        subprocess.run(
            ["/bin/sh", str(self.folder / "tools/make_environment.sh"), extras],
            env={"PATH": f"{self.programs}:/usr/bin:/bin", "HOME": str(self.folder)},
            check=True,
            capture_output=True,
        )
        calls = log.read_text().splitlines() if log.exists() else []
        return sum("--editable" in call for call in calls)


def write_program(place: Path, text: str) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    place.chmod(0o755)


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    folder = tmp_path / "a clone"
    folder.mkdir()
    shutil.copytree(ROOT / "tools", folder / "tools")
    for name in ("pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, folder / name)
    write_program(tmp_path / "bin" / "python3.13", STAND_IN)
    return Clone(folder, tmp_path / "bin")


def test_it_installs_once_with_the_constraints(clone: Clone) -> None:
    assert clone.make() == 1
    last = (clone.folder / "pip.log").read_text().splitlines()[-1]
    assert "--constraint constraints.txt" in last
    assert last.endswith("--editable .[test,dev]")
    assert clone.make() == 0
    assert clone.make("test") == 0


@pytest.mark.parametrize("name", ["pyproject.toml", "constraints.txt"])
def test_it_installs_again_when_a_file_that_decides_changes(clone: Clone, name: str) -> None:
    clone.make()
    with (clone.folder / name).open("a") as file:
        file.write("# changed\n")
    assert clone.make() == 1
    assert clone.make() == 0


def test_a_further_extra_is_added_to_those_there(clone: Clone) -> None:
    clone.make("test,dev")
    assert clone.make("bench") == 1
    assert clone.make("test,dev,bench") == 0
    assert clone.make("test,dev") == 0


@pytest.mark.parametrize("text", ["#!/bin/sh\nexit 127\n", "#!/nowhere/python\n"])
def test_an_environment_whose_python_does_not_start_is_made_anew(clone: Clone, text: str) -> None:
    clone.make()
    write_program(clone.folder / ".venv/bin/python", text)
    (clone.folder / ".venv/left_over").touch()
    assert clone.make() == 1
    assert not (clone.folder / ".venv/left_over").exists()


def test_an_environment_that_was_moved_is_made_anew(clone: Clone) -> None:
    clone.make()
    (clone.folder / ".venv/left_over").touch()
    moved = clone.folder.rename(clone.folder.with_name("moved"))
    assert Clone(moved, clone.programs).make() == 1
    assert not (moved / ".venv/left_over").exists()


def test_an_installation_that_failed_is_tried_again(clone: Clone) -> None:
    clone.make()
    failing = STAND_IN.replace('echo "$@" >>', "exit 1 #")
    assert failing != STAND_IN
    (clone.folder / "constraints.txt").write_text("numpy==0\n")
    write_program(clone.folder / ".venv/bin/python", failing)
    with pytest.raises(subprocess.CalledProcessError):
        clone.make()
    write_program(clone.folder / ".venv/bin/python", STAND_IN)
    assert clone.make() == 1
