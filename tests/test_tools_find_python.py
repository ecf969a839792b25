"""tools/find_python.sh takes a Python that really starts, in the stated order, or says why not."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / "tools" / "find_python.sh"

WORKS = f'#!/bin/sh\nexec "{sys.executable}" "$@"\n'
# What a version manager puts on PATH for a version that is installed and not chosen.
SHIM = '#!/bin/sh\necho "python: command not found" >&2\nexit 127\n'
# An interpreter that starts and lacks what an environment needs.
NO_SSL = f"""#!/bin/sh
shift
exec "{sys.executable}" -c "import sys; sys.modules['ssl'] = None
$1"
"""
TOO_OLD = f"""#!/bin/sh
shift
exec "{sys.executable}" -c "import sys; sys.version_info = (3, 11, 7)
$1"
"""


@dataclass
class Machine:
    """A folder of programs to be PATH, and a home."""

    path: Path
    home: Path

    def put(self, place: Path, text: str) -> Path:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        place.chmod(0o755)
        return place

    def program(self, name: str, text: str = WORKS) -> Path:
        return self.put(self.path / name, text)

    def pyenv(self, version: str, text: str = WORKS, root: Path | None = None) -> Path:
        root = root or self.home / ".pyenv"
        return self.put(root / "versions" / version / "bin" / "python", text)

    def find(self, **extra: str) -> subprocess.CompletedProcess[str]:
        env = {"PATH": str(self.path), "HOME": str(self.home)} | extra
        return subprocess.run(
            ["/bin/sh", str(SCRIPT)], env=env, capture_output=True, text=True, check=False
        )

    def found(self, **extra: str) -> Path:
        done = self.find(**extra)
        assert (done.returncode, done.stderr) == (0, "")
        return Path(done.stdout.removesuffix("\n"))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    path, home = tmp_path / "a path", tmp_path / "a home"
    path.mkdir()
    home.mkdir()
    return Machine(path, home)


def test_the_order_on_path_is_313_312_314_and_then_python3(machine: Machine) -> None:
    machine.pyenv("3.13.1")
    for name in ("python3", "python3.14", "python3.12", "python3.13"):
        program = machine.program(name)
        assert machine.found() == program


def test_shims_that_fail_are_passed_over(machine: Machine) -> None:
    machine.program("python3.13", SHIM)
    machine.program("python3.12", SHIM)
    program = machine.program("python3")
    assert machine.found() == program


@pytest.mark.parametrize("text", [SHIM, NO_SSL, TOO_OLD], ids=["shim", "no ssl", "too old"])
def test_one_that_cannot_make_an_environment_is_passed_over(machine: Machine, text: str) -> None:
    machine.program("python3.13", text)
    machine.program("python3", text)
    machine.pyenv("3.13.0", text)
    program = machine.pyenv("3.12.1")
    assert machine.found() == program


def test_pyenv_versions_are_looked_into_after_path(machine: Machine) -> None:
    machine.pyenv("3.11.7")
    machine.pyenv("2.7.18")
    assert machine.find().returncode == 1
    for version in ("3.14.0", "3.12.1", "3.13.0"):
        program = machine.pyenv(version)
        assert machine.found() == program
    assert machine.found() == machine.home / ".pyenv/versions/3.13.0/bin/python"


def test_pyenv_root_takes_the_place_of_the_home(machine: Machine, tmp_path: Path) -> None:
    machine.pyenv("3.13.0")
    elsewhere = machine.pyenv("3.12.0", root=tmp_path / "else where")
    assert machine.found(PYENV_ROOT=str(tmp_path / "else where")) == elsewhere


def test_uv_is_asked_last(machine: Machine, tmp_path: Path) -> None:
    hidden = machine.put(tmp_path / "uv pythons" / "python3.13", WORKS)
    machine.program("uv", f'#!/bin/sh\n[ "$1 $2" = "python find" ] && echo "{hidden}"\n')
    assert machine.found() == hidden
    program = machine.pyenv("3.12.1")
    assert machine.found() == program


def test_with_none_there_is_one_clear_line(machine: Machine) -> None:
    machine.program("python3", TOO_OLD)
    machine.program("uv", "#!/bin/sh\nexit 2\n")
    done = machine.find()
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("No Python >= 3.12 with venv, ensurepip, ssl and zlib was found on PATH")
    assert "install one" in line


def test_no_home_is_no_error(machine: Machine) -> None:
    program = machine.program("python3")
    done = subprocess.run(
        ["/bin/sh", str(SCRIPT)],
        env={"PATH": str(machine.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{program}\n"
    assert os.access(program, os.X_OK)
