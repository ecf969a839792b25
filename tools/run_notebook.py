"""Executes a notebook's script in an empty folder and writes the notebook, with its outputs.

python tools/run_notebook.py notebooks/quickstart.py [--to FILE]
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient

CELL_SECONDS = 900


def executed(script: Path) -> nbformat.NotebookNode:
    """The notebook of a percent script, run from top to bottom; raises when a cell does."""
    notebook = jupytext.read(script)
    # The same at each run: no random ids, no times.
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number:02d}"
    # With a backend of their own, plots do not show up in the notebook.
    environment = {name: value for name, value in os.environ.items() if name != "MPLBACKEND"}
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook,
            timeout=CELL_SECONDS,
            record_timing=False,
            resources={"metadata": {"path": folder}},
        )
        client.execute(env=environment)
    return notebook


def main() -> None:
    parser = argparse.ArgumentParser(description="Executes a notebook's script.")
    parser.add_argument("script", type=Path)
    parser.add_argument("--to", type=Path, help="default: beside the script, as .ipynb")
    given = parser.parse_args()
    target = given.to or given.script.with_suffix(".ipynb")
    nbformat.write(executed(given.script), target)


if __name__ == "__main__":
    main()
