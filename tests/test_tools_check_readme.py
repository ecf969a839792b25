"""tools/check_readme.py runs what a Markdown file shows and fails when a block does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import gstudy as gs

SCRIPT = Path(__file__).parent.parent / "tools" / "check_readme.py"


def check(tmp_path: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    file = tmp_path / "README.md"
    file.write_text(text, encoding="utf-8")
    return subprocess.run(
        [sys.executable, str(SCRIPT), "README.md", *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )


def test_python_blocks_share_a_namespace_and_a_folder_of_their_own(tmp_path: Path) -> None:
    text = (
        "```python\nx = 41\nopen('left', 'w').close()\n```\n\n```python\nassert x + 1 == 42\n```\n"
    )
    done = check(tmp_path, text)
    assert (done.returncode, done.stdout) == (0, "README.md: 2 blocks and commands ran\n")
    assert not (tmp_path / "left").exists()


def test_a_block_that_fails_is_named_by_its_line(tmp_path: Path) -> None:
    done = check(tmp_path, "# Title\n\n```python\nx = 1\nassert x == 2\n```\n")
    assert done.returncode == 1
    assert 'File "README.md", line 5' in done.stderr
    assert done.stderr.endswith("README.md:4: this block fails\n")


def test_gstudy_commands_of_console_blocks_are_run(tmp_path: Path) -> None:
    text = "```console\n$ make demo\n$ gstudy \\\n    --help\nUsage: whatever\n```\n"
    done = check(tmp_path, text)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "README.md: 1 blocks and commands ran\n"


def test_a_gstudy_command_that_fails_is_shown(tmp_path: Path) -> None:
    done = check(tmp_path, "```console\n$ gstudy --no-such-option\n```\n")
    assert done.returncode == 1
    assert "gstudy --no-such-option: exit 2" in done.stderr


def test_other_blocks_are_left_alone(tmp_path: Path) -> None:
    done = check(tmp_path, "```toml\nnot = python\n```\n")
    assert done.returncode == 1
    assert "README.md has no block to run: nothing was checked" in done.stderr


def test_an_open_block_is_refused(tmp_path: Path) -> None:
    done = check(tmp_path, "```python\nx = 1\n")
    assert done.returncode == 1
    assert "the block that begins at line 1 is not closed" in done.stderr


def test_write_puts_what_is_printed_in_its_places(tmp_path: Path) -> None:
    text = (
        "```python\nprint('one')\n```\n\n```text\nold\nlines\n```\n\n```python\nx = 1\n```\n"
        "\n```console\n$ gstudy \\\n    --version\nold\n```\n\n"
        "```console\n$ make demo\n$ gstudy --version\nstays\n```\n"
    )
    done = check(tmp_path, text, "--write")
    assert done.returncode == 0, done.stderr
    written = (tmp_path / "README.md").read_text(encoding="utf-8")
    new = text.replace("old\nlines\n", "one\n").replace("old\n", f"gstudy {gs.__version__}\n")
    assert written == new


def test_only_runs_one_language(tmp_path: Path) -> None:
    text = "```python\nx = 1\n```\n\n```console\n$ gstudy nonsense\n```\n"
    assert check(tmp_path, text, "--only", "python").stdout.endswith("1 blocks and commands ran\n")
    assert check(tmp_path, text, "--only", "console").returncode == 1


def test_a_block_that_ends_in_dots_shows_the_beginning(tmp_path: Path) -> None:
    whole = check(tmp_path, "```console\n$ gstudy --help\nx\n```\n", "--write")
    assert whole.returncode == 0, whole.stderr
    lines = (tmp_path / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) > 8
    check(tmp_path, "```console\n$ gstudy --help\na\nb\nc\n...\n```\n", "--write")
    shown = (tmp_path / "README.md").read_text(encoding="utf-8").splitlines()
    assert shown == [*lines[:5], "...", "```"]
