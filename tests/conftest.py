"""Fixtures that every test may use; fits that several tests read are made once, at the end."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# No test opens a window.
os.environ.setdefault("MPLBACKEND", "agg")
# Tests run in as many processes as there are cores, and threads for small matrices wait for each
# other. For the processes that are started from here: xdist's, and those of single tests.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

TESTS = Path(__file__).parent
SHARED = TESTS.parent.parent / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder `shared` beside the clone: data sets that are not part of the project."""
    if SHARED.is_dir():
        return SHARED
    message = f"needs the folder {SHARED.name} beside the clone, which is not there"
    if os.environ.get("CI") == "true":
        pytest.fail(f"{message}, and CI=true", pytrace=False)
    pytest.skip(message)


@pytest.fixture(scope="session")
def oracle() -> Callable[[str], Any]:
    """`oracle("kernel")`: the numbers of tests/oracles/kernel.json, computed elsewhere."""

    def read(name: str) -> Any:
        return json.loads((TESTS / "oracles" / f"{name}.json").read_text(encoding="utf-8"))

    return read


# ---------------------------------------------------------------- fits shared by tests, made once
