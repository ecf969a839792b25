"""Make the bundled example "panel": simulated trials and, beside them, their truth.

    python tools/make_panel.py [FOLDER]

Writes panel.csv.gz and panel_truth.toml to FOLDER, by default where the package has them. Run
again, it writes the same bytes.
"""

from __future__ import annotations

import gzip
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import gstudy as gs
from gstudy.study.examples.catalogue import study_file

if TYPE_CHECKING:
    import pandas as pd

# A seed with visible differences between systems, snapshots and judges.
SEED = 1
DESIGN = {"system": 6, "task": 60, "snapshot": 2, "rollout": 3, "judge": 2}

# Logit scale. Sets that are not named have no variance.
MU = 0.6
SD = {
    "system": 0.8,
    "task": 1.8,
    "snapshot": 0.3,
    "judge": 0.4,
    "system:task": 0.9,
    "task:snapshot": 0.6,
    "task:judge": 0.5,
    "system:task:snapshot:rollout": 1.6,
}
NAMES = {
    "system": ["atlas", "birch", "cobalt", "delta", "ember", "fjord"],
    "snapshot": ["2026-03", "2026-04"],
    "judge": ["judge-a", "judge-b"],
}


def panel() -> pd.DataFrame:
    """The trials, with names for systems, snapshots and judges."""
    study = gs.Study.from_toml(study_file("panel"))
    trials = gs.simulate(study, DESIGN, sd=SD, mu=MU, seed=SEED)
    for facet, names in NAMES.items():
        drawn = trials[facet].unique()
        trials[facet] = trials[facet].map(dict(zip(drawn, names, strict=True)))
    return trials


def truth() -> str:
    """The components that the trials were drawn from, as TOML."""
    lines = [
        "# What panel.csv.gz was drawn from (logit scale): score = 1 with probability",
        "# expit(mu + the effects of the row's levels), effects ~ Normal(0, sd^2).",
        "# Index sets that are not named have sd 0. Made by tools/make_panel.py.",
        "",
        f"seed = {SEED}",
        f"mu = {MU}",
        "",
        "[design]",
        *(f"{facet} = {n}" for facet, n in DESIGN.items()),
        "",
        "[sd]",
        *(f'"{name}" = {value}' for name, value in SD.items()),
    ]
    return "\n".join(lines) + "\n"


def main(folder: Path) -> None:
    """Write both files."""
    text = panel().to_csv(index=False, lineterminator="\n")
    # Without name and time, so that the same trials are the same bytes.
    with (
        (folder / "panel.csv.gz").open("wb") as file,
        gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed,
    ):
        packed.write(text.encode())
    (folder / "panel_truth.toml").write_text(truth(), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else study_file("panel").parent)
