"""The quickstart: its script runs, quietly and in time, and the notebook beside it is in step."""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.notebook

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "notebooks" / "quickstart.py"
NOTEBOOK = SCRIPT.with_suffix(".ipynb")

# 3 minutes of two cores that are busy three quarters of the time: unlike the clock, the same
# whatever else the machine does.
CPU_SECONDS = 2 * 180 * 0.75
LARGEST_BYTES = 500_000


def cells_of(notebook: Any) -> list[tuple[str, str]]:
    return [(cell["cell_type"], "".join(cell["source"])) for cell in notebook["cells"]]


def outputs_of(notebook: Any) -> list[dict[str, Any]]:
    return [output for cell in notebook["cells"] for output in cell.get("outputs", [])]


def texts_of(notebook: Any) -> str:
    """Everything that is printed or shown, as plain text."""
    found = [o.get("text") or o.get("data", {}).get("text/plain", "") for o in outputs_of(notebook)]
    return "\n".join("".join(text) for text in found)


def words_of(notebook: Any) -> list[str]:
    """The words that are shown: unlike the last digits, and rows that are sorted by them, they do
    not depend on the processor."""
    return sorted(
        word
        for word in re.findall(r"[^\W\d]+", texts_of(notebook))
        if word not in ("True", "False")
    )


def committed() -> Any:
    return json.loads(NOTEBOOK.read_text(encoding="utf-8"))


def assert_sound(notebook: Any) -> None:
    """Every result is shown; nothing is printed beside them, such as a warning."""
    assert {output["output_type"] for output in outputs_of(notebook)} == {
        "execute_result",
        "display_data",
    }
    text = texts_of(notebook)
    assert "Warning" not in text
    assert "NOT CONVERGED" not in text
    assert "gates passed: R-hat <= 1.00" in text
    assert "0 divergences" in text
    assert len([o for o in outputs_of(notebook) if "image/png" in o.get("data", {})]) == 1
    # Of eight 95% intervals the truth is in all, or in all but one.
    held = re.findall(r" (True|False)$", text[text.index("interval holds truth") :], re.MULTILINE)
    assert len(held) == 8
    assert held.count("True") >= 7


def test_script_and_notebook_are_in_step() -> None:
    import jupytext

    assert cells_of(jupytext.read(SCRIPT)) == cells_of(committed())


def test_the_committed_notebook_is_small_and_knows_no_machine() -> None:
    assert NOTEBOOK.stat().st_size < LARGEST_BYTES
    text = NOTEBOOK.read_text(encoding="utf-8")
    assert not re.search(r"/(?:home|root|tmp|work|Users)/", text)
    assert_sound(committed())


@pytest.mark.slow
def test_the_script_runs_in_time_and_shows_what_is_committed(tmp_path: Path) -> None:
    target = tmp_path / "quickstart.ipynb"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "run_notebook.py", SCRIPT, "--to", target],
        capture_output=True,
        text=True,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert 1 < used < CPU_SECONDS
    fresh = json.loads(target.read_text(encoding="utf-8"))
    assert_sound(fresh)
    assert words_of(fresh) == words_of(committed())
