"""The figure of the tracked table: ESS per second of each method on each workload."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.records import LIMIT, Records

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["PLOT", "draw", "figure"]

PLOT = "speed.png"

# Colours of Okabe and Ito, told apart by every kind of sight; the mark tells them apart in grey.
_LOOKS = {
    "direct": ("#D55E00", "o", "gstudy, direct"),
    "pymc": ("#E69F00", "s", "gstudy, PyMC"),
    "numpyro": ("#009E73", "^", "NumPyro, by hand"),
    "bambi-cells": ("#56B4E9", "D", "Bambi, our cells, nutpie"),
    "bambi-rows": ("#0072B2", "v", "Bambi, trial rows"),
    "rstanarm": ("#000000", "X", "rstanarm"),
}
_PANELS = (
    ("ess_per_second", "ESS per second, compilation included"),
    ("ess_per_sampling_second", "ESS per second of sampling"),
    ("cold_400_seconds", "seconds from a cold start to ESS 400"),
)


def draw(results: Path) -> Path:
    """Write the figure beside the table."""
    path = results.with_name(PLOT)
    figure(Records.read(results).results).savefig(path, dpi=120, metadata={"Software": None})
    return path


def figure(rows: pd.DataFrame) -> Any:
    """Three panels with one line per workload and one mark per method, on log axes.

    A method that did not reach ESS 100 in time has an open mark: it is at most as fast.
    """
    from matplotlib.figure import Figure

    rows = rows[rows["method"].isin(_LOOKS)]
    workloads = list(dict.fromkeys(rows["workload"]))
    made = Figure(figsize=(13, 1.9 + 0.45 * len(workloads)), layout="constrained")
    axes = made.subplots(1, len(_PANELS), sharey=True)
    for axis, (column, title) in zip(axes, _PANELS, strict=True):
        _panel(axis, rows, column, workloads)
        axis.set_xlabel(title)
    axes[0].set_yticks(range(len(workloads)), workloads)
    axes[0].set_ylim(max(len(workloads), 1) - 0.5, -0.5)
    handles, labels = axes[0].get_legend_handles_labels()
    if (rows["status"] == LIMIT).any():
        made.supxlabel("open marks: ESS 100 was not reached in time; at most as fast", fontsize=9)
    made.legend(handles, labels, loc="outside upper center", ncols=len(_LOOKS), frameon=False)
    return made


def _panel(axis: Any, rows: pd.DataFrame, column: str, workloads: list[str]) -> None:
    axis.set_xscale("log")
    axis.grid(axis="x", color="0.85", linewidth=0.6)
    axis.tick_params(length=0)
    axis.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axis.spines[side].set_visible(False)
    for place in range(len(workloads)):
        axis.axhline(place, color="0.92", linewidth=6, zorder=0)
    for method, (colour, mark, label) in _LOOKS.items():
        own = rows[(rows["method"] == method) & rows[column].notna()]
        places = [workloads.index(name) for name in own["workload"]]
        late = (own["status"] == LIMIT).to_numpy()
        faces = ["none" if is_late else colour for is_late in late]
        axis.scatter([], [], color=colour, marker=mark, label=label, s=50)
        for x, y, face in zip(own[column], places, faces, strict=True):
            axis.scatter(
                [x], [y], marker=mark, s=50, facecolors=face, edgecolors=colour, zorder=3, alpha=0.9
            )
