"""The README's table of speeds is the tracked CSV's, and the tool writes it."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "tools" / "speed_table.py"

CSV = """workload,method,status,ess_per_second
panel,direct,measured,36.44
panel,numpyro,measured,4.05
panel,bambi-cells,measured,1.62
panel,bambi-rows,over limit,0.1667
panel,lme4,point estimate,
metr,direct,measured,1308
metr,bambi-cells,over limit,0.5
"""
TABLE = """<!-- speed: begin -->

| workload | gstudy, direct | NumPyro by hand | Bambi, our cells, nutpie | Bambi, trial rows | \
direct over Bambi on cells |
| --- | ---: | ---: | ---: | ---: | ---: |
| `panel` | 36 | 4.0 | 1.6 | ≤ 0.17 | 22 |
| `metr` | 1,300 | – | ≤ 0.50 | – | ≥ 2,600 |

<!-- speed: end -->"""


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "results.csv").write_text(CSV, encoding="utf-8")
    command = [sys.executable, str(SCRIPT), "README.md", "--results", "results.csv", *options]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def readme(folder: Path, table: str) -> Path:
    file = folder / "README.md"
    file.write_text(f"# Title\n\n{table}\n\nEnd.\n", encoding="utf-8")
    return file


def test_the_table_is_written_between_the_marks(tmp_path: Path) -> None:
    file = readme(tmp_path, "<!-- speed: begin -->\nold\n<!-- speed: end -->")
    assert run(tmp_path, "--write").returncode == 0
    assert file.read_text(encoding="utf-8") == f"# Title\n\n{TABLE}\n\nEnd.\n"


def test_another_number_is_noticed(tmp_path: Path) -> None:
    readme(tmp_path, TABLE)
    assert run(tmp_path).returncode == 0
    file = readme(tmp_path, TABLE.replace("1,300", "1,400"))
    done = run(tmp_path)
    assert (done.returncode, "1,400" in file.read_text(encoding="utf-8")) == (1, True)
    assert done.stderr == "README.md does not show results.csv: run with --write\n"


def test_a_file_without_the_marks_is_refused(tmp_path: Path) -> None:
    readme(tmp_path, "no table")
    done = run(tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("the file needs one line <!-- speed: begin -->")


def test_the_readme_shows_the_tracked_numbers() -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.fixture(scope="module")
def tool() -> Any:
    spec = importlib.util.spec_from_file_location("speed_table", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0123, "0.012"), (0.95, "0.95"), (0.999, "1.0"), (9.96, "10"), (99.6, "100")],
)
def test_numbers_have_two_digits_and_no_exponent(tool: Any, value: float, text: str) -> None:
    assert tool.number(value) == text
