"""R in a process of its own: cells in as CSV, numbers back as CSV."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.fixed_effects import covariates
from benchmarks.libraries.bench_bambi import cell_frame, group

if TYPE_CHECKING:
    import pandas as pd

    from gstudy.study.estimable import Assessment

__all__ = ["RAnswer", "absent", "ask", "formula"]

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class RAnswer:
    """Numbers (one row per draw or estimate), and facts: seconds, version, remarks."""

    numbers: pd.DataFrame
    facts: Mapping[str, str]


@cache
def absent(package: str) -> str:
    """Why an R package cannot be used here, "" when it can."""
    program = shutil.which("Rscript")
    if program is None:
        return "R is not installed"
    test = f'quit(status = !requireNamespace("{package}", quietly = TRUE))'
    done = subprocess.run([program, "-e", test], capture_output=True, check=False)
    return f"the R package {package} is not installed" if done.returncode else ""


def formula(design: Assessment) -> str:
    """In lme4's notation, with the columns of `cell_frame`."""
    columns = [f"x{i}" for i in range(len(covariates(design)))]
    groups = [f"(1 | {group(c)})" for c in range(len(design.components))]
    return " + ".join(["cbind(passes, trials - passes) ~ 1", *columns, *groups])


def ask(script: str, design: Assessment, settings: Mapping[str, object]) -> RAnswer:
    """Run a script of this folder with a folder of its own.

    It reads `cells.csv` and `settings.csv` (one row), and writes `numbers.csv` and `facts.csv`.

    Raises
    ------
    RuntimeError
        With what R wrote, when it fails.
    """
    import pandas as pd

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cell_frame(design).to_csv(folder / "cells.csv", index=False)
        row = {"formula": formula(design), **settings}
        with (folder / "settings.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, fieldnames=list(row))
            writer.writeheader()
            writer.writerow(row)
        done = subprocess.run(
            ["Rscript", "--vanilla", str(HERE / script), name],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{script}: {json.dumps(done.stderr[-2000:])}")
        facts = pd.read_csv(folder / "facts.csv", dtype=str, keep_default_na=False).iloc[0]
        numbers = pd.read_csv(folder / "numbers.csv")
    return RAnswer(numbers, {str(key): str(value) for key, value in facts.items()})
