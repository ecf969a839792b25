"""What the README shows is what the code prints.

The numbers of another processor may differ in the last draws, so that they are compared with a
tolerance: sampling moves a share's interval by less than a point.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"

TOLERANCE = 1.0
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
# How well a run mixed is no number of the data.
GATES = re.compile(r"(?<=gates passed: ).*")
BLOCKS = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def regenerated(folder: Path, language: str) -> str:
    """The README with the outputs that blocks of this language have now."""
    copy = folder / "README.md"
    shutil.copy(README, copy)
    script = ROOT / "tools" / "check_readme.py"
    done = subprocess.run(
        [sys.executable, str(script), str(copy), "--only", language, "--write"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return copy.read_text(encoding="utf-8")


def assert_same_but_for_sampling(found: str, shown: str) -> None:
    found, shown = (GATES.sub("", text) for text in (found, shown))
    # A bar's length and a column's width follow the numbers.
    words = [re.sub(r"[\s█▉▊▋▌▍▎▏─]+", " ", NUMBER.sub("#", text)) for text in (found, shown)]
    assert words[0] == words[1]
    numbers = [[float(x.replace(",", "")) for x in NUMBER.findall(text)] for text in (found, shown)]
    assert numbers[0] == pytest.approx(numbers[1], abs=TOLERANCE)


def test_python_blocks_print_what_is_shown(tmp_path: Path) -> None:
    shown = README.read_text(encoding="utf-8")
    assert len(re.findall("^```text$", shown, re.MULTILINE)) == 2
    assert_same_but_for_sampling(regenerated(tmp_path, "python"), shown)


@pytest.mark.slow
def test_the_command_prints_what_is_shown(tmp_path: Path) -> None:
    shown = README.read_text(encoding="utf-8")
    for command in ("demo", "budget gstudy-demo/run.nc"):
        assert f"$ gstudy {command}\nairline.csv: 200 trials" in shown
    assert_same_but_for_sampling(regenerated(tmp_path, "console"), shown)


def first_screen(markdown: str) -> list[str]:
    """The first lines as a page shows them: no fences, no empty lines between paragraphs."""
    lines, inside = list[str](), False
    for line in markdown.splitlines():
        if line.startswith("```"):
            inside = not inside
        elif inside or line:
            lines.append(line)
    return lines[:25]


def test_the_first_screen_answers_shows_and_says_how() -> None:
    shown = README.read_text(encoding="utf-8")
    lines = first_screen(shown)
    assert max(map(len, lines)) <= 100
    text = "\n".join(lines)
    # What people search for, before everything else; the theory comes later.
    for word in ("re-run", "tasks", "judge", "eval", "benchmark", "noise"):
        assert word in "\n".join(lines[:3])
    for word in ("variance component", "G study", "generalizability", "posterior", "Bayes"):
        assert word not in text
    for told in ("make demo", "gstudy budget trials.csv", "gstudy budget logs/"):
        assert told in text
    # Score, budget and re-run stand in it, as `gstudy budget` prints them.
    begin = lines.index("$ gstudy demo") + 1
    part = lines[begin : lines.index("...")]
    whole = shown[shown.index("$ gstudy budget gstudy-demo/run.nc\n") :].splitlines()[1:]
    assert part == whole[: len(part)]
    assert [line for line in part if line.startswith(("Score", "Where", "Re-run"))]
    assert part[-1].endswith("95 times in 100.")


def test_outputs_are_80_columns_wide_at_most() -> None:
    outputs = [
        text
        for language, text in BLOCKS.findall(README.read_text(encoding="utf-8"))
        if language in ("text", "console")
    ]
    assert max(len(line) for text in outputs for line in text.splitlines()) <= 80


def test_a_wrong_number_or_word_is_noticed() -> None:
    text = "task  74.2%  █████ 59.7 to 84.8\n"
    assert_same_but_for_sampling("task 74.9%  ██████  59.0 to 84.1", text.strip())
    for wrong in (text.replace("74.2", "75.9"), text.replace("task", "judge")):
        with pytest.raises(AssertionError):
            assert_same_but_for_sampling(wrong, text)
