"""`gstudy demo`: the bundled real data, from fit to files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gstudy.cli.budget import leave_files, screen_or_exit
from gstudy.cli.exits import guarded
from gstudy.cli.fit import known_sampler
from gstudy.cli.options import Cores, Json, Quiet, Sampler, Seed
from gstudy.cli.postponed import postpone

__all__ = ["demo_command"]

EXAMPLE = "airline"


@guarded
def demo_command(
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="DIR", help="Where the files go.")
    ] = Path("gstudy-demo"),
    seed: Seed = 1,
    cores: Cores = None,
    sampler: Sampler = "pymc",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Fit the bundled airline data, print the budget, leave it as files."""
    from gstudy.cli.output import hint, make_directory, print_json, show
    from gstudy.model.sampling import fit as sample
    from gstudy.study.examples.catalogue import example

    postpone("arviz")
    chosen = known_sampler(sampler)
    directory = make_directory(out)
    study, trials = example(EXAMPLE)
    silent = quiet or as_json
    hint("Real trials: 50 tasks of tau-bench airline, 4 rollouts each, one agent.", quiet=silent)
    fit = sample(study, trials, seed=seed, cores=cores, sampler=chosen, progress=not silent)
    fit.save(directory / "run.nc")
    screen = screen_or_exit(fit, system=None, design=None, allow=False)
    leave_files(screen, directory)
    if as_json:
        print_json(screen.tables())
        return
    show(screen.text())
    names = ", ".join(sorted(path.name for path in directory.iterdir() if path.is_file()))
    hint(f"\nIn {directory}: {names}", quiet=quiet)
    run = directory / "run.nc"
    hint(f"Next: gstudy budget {run} --design task=100,rollout=4", quiet=quiet)
    hint(f"  or: gstudy report {run} --card   makes a page to send on", quiet=quiet)
