"""Runs the code blocks of a Markdown file, so that what it shows keeps working.

Blocks marked `python` are executed in order in one namespace; in blocks marked `console` each line
that begins with `$ gstudy` is run and must exit with 0. Both happen in one temporary folder. Other
blocks and commands are left alone.

    python tools/check_readme.py README.md
"""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
import tempfile
import traceback
from dataclasses import dataclass
from pathlib import Path

PROMPT = "$ "


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, the number of its first line, its text."""

    language: str
    line: int
    text: str


def blocks(markdown: str) -> list[Block]:
    """The fenced blocks of a Markdown text, in order.

    >>> blocks("text\\n```python\\nx = 1\\n```\\n")
    [Block(language='python', line=3, text='x = 1\\n')]
    """
    found: list[Block] = []
    fence, start, language = "", 0, ""
    lines = markdown.splitlines(keepends=True)
    for number, line in enumerate(lines):
        mark = line.strip()
        if not fence and mark.startswith("```"):
            language = mark.lstrip("`").strip()
            fence, start = "`" * (len(mark) - len(mark.lstrip("`"))), number + 1
        elif fence and mark == fence:
            found.append(Block(language, start + 1, "".join(lines[start:number])))
            fence = ""
    if fence:
        raise SystemExit(f"the block that begins at line {start} is not closed")
    return found


def commands(block: Block) -> list[str]:
    """The `gstudy` commands of a console block, continued lines joined."""
    lines = block.text.replace("\\\n", " ").splitlines()
    return [line.removeprefix(PROMPT) for line in lines if line.startswith(PROMPT + "gstudy")]


def run_command(command: str) -> None:
    """Runs one command of the console script beside this interpreter; raises when it fails."""
    _, *arguments = shlex.split(command)
    program = Path(sys.executable).with_name("gstudy")
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command}: exit {done.returncode}\n{done.stdout}{done.stderr}")


def check(path: Path) -> int:
    """Runs every block of the file; the number of blocks and commands that were run."""
    text = path.read_text(encoding="utf-8")
    namespace: dict[str, object] = {"__name__": "__readme__"}
    ran = 0
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for block in blocks(text):
            where = f"{path.name}:{block.line}"
            try:
                if block.language == "python":
                    exec(
                        compile("\n" * (block.line - 1) + block.text, path.name, "exec"), namespace
                    )
                    ran += 1
                elif block.language == "console":
                    for command in commands(block):
                        run_command(command)
                        ran += 1
            except Exception:
                traceback.print_exc()
                raise SystemExit(f"{where}: this block fails") from None
    return ran


if __name__ == "__main__":
    os.environ.setdefault("MPLBACKEND", "agg")
    count = check(Path(sys.argv[1]).resolve())
    if not count:
        raise SystemExit(f"{sys.argv[1]} has no block to run: nothing was checked")
    print(f"{sys.argv[1]}: {count} blocks and commands ran")
