"""Options that several commands take, each written once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gstudy.cli.exits import usage_error

__all__ = [
    "AllowUnconverged",
    "Chains",
    "Cores",
    "Data",
    "Draws",
    "Json",
    "Quiet",
    "Sampler",
    "Seed",
    "StudyFile",
    "Tune",
    "Until",
    "UnusedSeed",
    "chains_of",
]

StudyFile = Annotated[Path, typer.Argument(metavar="STUDY", help="Study file (TOML).")]
Data = Annotated[
    Path | None,
    typer.Argument(
        metavar="DATA", help="Trials: CSV, Parquet or JSON lines. Default: `data` of the study."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print tables as JSON, and nothing else.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no hints.")]
Seed = Annotated[
    int | None,
    typer.Option(
        "--seed",
        min=0,
        max=2**32 - 1,
        help="Same seed, same draws. Default: drawn and recorded.",
    ),
]
UnusedSeed = Annotated[
    int | None,
    typer.Option(
        "--seed",
        min=0,
        max=2**32 - 1,
        help="Taken as by the other commands, and not used: nothing is sampled.",
    ),
]
Draws = Annotated[
    int | None,
    typer.Option(
        "--draws", min=1, help="Draws of each chain. Default: 1000. `fit RUN` adds so many."
    ),
]
Tune = Annotated[int, typer.Option("--tune", min=1, help="Tuning steps of each chain.")]
Chains = Annotated[
    str,
    typer.Option("--chains", metavar="N|auto", help="Number of chains; auto: one a processor."),
]
Until = Annotated[
    int | None,
    typer.Option(
        "--until", metavar="ESS", help="Draw more until all printed numbers have this ESS."
    ),
]
Cores = Annotated[int | None, typer.Option("--cores", min=1, help="Chains run at a time.")]
Sampler = Annotated[
    str,
    typer.Option("--sampler", metavar="pymc|direct", help="pymc, or direct: starts at once."),
]
AllowUnconverged = Annotated[
    bool,
    typer.Option("--allow-unconverged", help="Print numbers that fail a sampler gate, stamped."),
]


def chains_of(text: str) -> int | None:
    """The number of chains; None where the machine decides."""
    if text == "auto":
        return None
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise usage_error(f"--chains is a number, 1 or more, or auto, not {text!r}.")
    return int(text)
