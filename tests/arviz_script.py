"""Run by tests/test_arviz_versions.py under another ArviZ: `python arviz_script.py RUN OTHER`.

Fits, saves to RUN, loads OTHER if it is there, and prints as JSON what users read.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np

import gstudy as gs


def figures(fit: gs.Fit) -> dict[str, object]:
    """Summaries of a fit, and how it describes their intervals."""
    components = gs.variance_components(fit).summary()
    return {
        "mu": [float(x) for x in np.ravel(fit.mu)[:50]],
        "lower": components["lower"].tolist(),
        "upper": components["upper"].tolist(),
        "interval": str(components.attrs["interval"]),
        "level": float(components.attrs["level"]),
        "diagnostics": fit.diagnostics.summary().astype(str).to_numpy().ravel().tolist(),
    }


def main(run: Path, other: Path) -> None:
    study, trials = gs.example("airline")
    fit = gs.fit(study, trials, seed=1, sampler="direct", progress=False)
    fit.save(run)
    found = {"arviz": version("arviz"), "own": figures(fit)}
    if other.exists():
        found["other"] = figures(gs.load(other))
    check = gs.posterior_check(fit, draws=100, seed=1).summary()
    found["checks"] = len(check)
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
