"""Runs the code blocks of a Markdown file, so that what it shows keeps working.

Blocks marked `python` are executed in order in one namespace; in blocks marked `console` each line
that begins with `$ gstudy` is run and must exit with 0. Both happen in one temporary folder. Other
blocks and commands are left alone. With `--write` the file gets what was printed: below a `python`
block in the `text` block that follows it, in a `console` block of one command below the command. A
`console` block that ends in a line `...` shows the beginning, as many lines as it has.

    python tools/check_readme.py README.md [--only python] [--write]
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import shlex
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

PROMPT = "$ "
LANGUAGES = ("python", "console")
CUT = "...\n"


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


def is_one_command(block: Block) -> bool:
    """Whether nothing but one command and what it prints is in a console block."""
    return block.text.startswith(PROMPT) and f"\n{PROMPT}" not in block.text


def command_lines(block: Block) -> str:
    """The command of a console block as it is written, with its continued lines."""
    lines = block.text.splitlines(keepends=True)
    ends = next(i for i, line in enumerate(lines) if not line.endswith("\\\n"))
    return "".join(lines[: ends + 1])


def as_much(block: Block, output: str) -> str:
    """What a console block shows of an output: all, or the beginning and `...`."""
    shown = block.text.removeprefix(command_lines(block)).splitlines()
    if not block.text.endswith("\n" + CUT):
        return output
    return "".join(output.splitlines(keepends=True)[: len(shown) - 1]) + CUT


def run_command(command: str) -> str:
    """What a command of the console script beside this interpreter prints; raises if it fails."""
    _, *arguments = shlex.split(command)
    program = Path(sys.executable).with_name("gstudy")
    done = subprocess.run(
        [program, *arguments], capture_output=True, text=True, encoding="utf-8", check=False
    )
    if done.returncode:
        raise RuntimeError(f"{command}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def run_python(block: Block, name: str, namespace: dict[str, object]) -> str:
    """What a python block prints."""
    # Empty lines before it, so that a traceback has the lines of the file.
    code = compile("\n" * (block.line - 1) + block.text, name, "exec")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(code, namespace)
    return printed.getvalue()


def run(path: Path, languages: Collection[str] = LANGUAGES) -> dict[int, list[str]]:
    """Runs the blocks of the file: what each printed, by the line of the block."""
    namespace: dict[str, object] = {"__name__": "__readme__"}
    printed: dict[int, list[str]] = {}
    found = blocks(path.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for block in (block for block in found if block.language in languages):
            try:
                if block.language == "python":
                    printed[block.line] = [run_python(block, path.name, namespace)]
                else:
                    printed[block.line] = [run_command(command) for command in commands(block)]
            except Exception:
                traceback.print_exc()
                raise SystemExit(f"{path.name}:{block.line}: this block fails") from None
    return printed


def with_outputs(markdown: str, printed: Mapping[int, list[str]]) -> str:
    """The text with what was printed in its places."""
    lines = markdown.splitlines(keepends=True)
    found = blocks(markdown)
    # From the end, so that the lines before keep their numbers.
    for block, after in reversed(list(zip(found, [*found[1:], None], strict=True))):
        output = "".join(printed.get(block.line, []))
        if output and block.language == "console" and is_one_command(block):
            target, text = block, command_lines(block) + as_much(block, output)
        elif output and block.language == "python" and after and after.language == "text":
            target, text = after, output
        else:
            continue
        first = target.line - 1
        lines[first : first + len(target.text.splitlines())] = [text.rstrip("\n") + "\n"]
    return "".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Runs the code blocks of a Markdown file.")
    parser.add_argument("file", type=Path)
    parser.add_argument("--only", choices=LANGUAGES, help="only the blocks of this language")
    parser.add_argument("--write", action="store_true", help="write what was printed to the file")
    given = parser.parse_args()
    path = given.file.resolve()
    printed = run(path, LANGUAGES if given.only is None else (given.only,))
    count = sum(map(len, printed.values()))
    if not count:
        raise SystemExit(f"{given.file} has no block to run: nothing was checked")
    if given.write:
        markdown = path.read_text(encoding="utf-8")
        path.write_text(with_outputs(markdown, printed), encoding="utf-8")
    print(f"{given.file}: {count} blocks and commands ran")


if __name__ == "__main__":
    os.environ.setdefault("MPLBACKEND", "agg")
    main()
