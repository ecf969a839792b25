"""Commands where libraries that nothing needs are absent: not installed, or kept from importing.

`sys.modules[name] = None` is how Python says that a module cannot be imported. SciPy looks array
libraries up there and asks what it finds for their classes, so that those may be missing, never
None: a command that kept jax out so ended in a traceback.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ARRAY_LIBRARIES = ("jax", "torch", "cupy", "sparse", "ndonnx")
NOT_NEEDED = (*ARRAY_LIBRARIES, "dask", "distributed", "numpyro", "blackjax", "bambi")

BLOCKED = f"""
import sys
for name in {NOT_NEEDED[len(ARRAY_LIBRARIES) :]!r}:
    sys.modules[name] = None
"""
# As where they are not installed: nothing finds them.
ABSENT = f"""
import sys
class Without:
    def __init__(self, finder):
        self.finder = finder
    def __getattr__(self, name):
        return getattr(self.finder, name)
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in {NOT_NEEDED!r}:
            return self.finder.find_spec(name, path, target)
sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]
"""
RUN = """
import sys
from gstudy.cli.main import run
for arguments in {commands!r}:
    sys.argv[1:] = arguments
    try:
        run()
    except SystemExit as end:
        if end.code:
            raise
assert not [name for name in {libraries!r} if sys.modules.get(name, sys) is None]
"""
FEW = ["--sampler", "direct", "--seed", "5", "--draws", "800", "--tune", "500", "--cores", "2"]


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of Inspect logs: two systems, six tasks, three epochs."""
    pytest.importorskip("inspect_ai")
    from inspect_files import sample, write_log

    folder = tmp_path_factory.mktemp("inspect")
    for system, every in (("openai/one", 2), ("openai/two", 3)):
        samples = [
            sample(task, {"match": "C" if (task + epoch) % every else "I"}, epoch=epoch)
            for task in range(6)
            for epoch in (1, 2, 3)
        ]
        write_log(folder / f"{system[-3:]}.eval", samples, model=system)
    return folder


@pytest.mark.parametrize(
    "preamble",
    [
        pytest.param(BLOCKED, id="blocked"),
        pytest.param(ABSENT, id="absent", marks=pytest.mark.slow),
    ],
)
def test_inspect_logs_become_a_budget_and_a_page(preamble: str, logs: Path, tmp_path: Path) -> None:
    study, run, out = (str(tmp_path / name) for name in ("study.toml", "run.nc", "out"))
    commands = [
        ["init", str(logs), "-o", study],
        ["fit", study, "--out", run, "--allow-unconverged", *FEW],
        ["budget", run, "--allow-unconverged"],
        ["report", run, "--card", "-o", out, "--allow-unconverged"],
    ]
    done = subprocess.run(
        [sys.executable, "-c", preamble + RUN.format(commands=commands, libraries=ARRAY_LIBRARIES)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert "2 systems x 6 tasks" in done.stdout
    page = Path(out, "report.html").read_text("utf-8")
    assert "openai/one" in page
    assert 'id="tasks"' in page
