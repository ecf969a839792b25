"""How long a user waits for `gstudy --help`: whole processes, from start to exit."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from statistics import median

__all__ = ["LIMIT", "help_seconds"]

LIMIT = 0.5
RUNS = 11


def help_seconds(runs: int = RUNS) -> float:
    """Median wall time of the console script that is installed beside this interpreter."""
    program = Path(sys.executable).with_name("gstudy")
    _seconds(program)  # byte code and the disk's cache are warm afterwards
    return median(_seconds(program) for _ in range(runs))


def _seconds(program: Path) -> float:
    start = time.perf_counter()
    subprocess.run([program, "--help"], check=True, capture_output=True)
    return time.perf_counter() - start
