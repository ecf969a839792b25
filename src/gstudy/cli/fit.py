"""`gstudy fit`: sample the posterior and keep it as a file."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from gstudy.cli.check import read_study, trials_path
from gstudy.cli.exits import guarded, unconverged, usage_error
from gstudy.cli.options import (
    AllowUnconverged,
    Chains,
    Cores,
    Data,
    Draws,
    Json,
    Quiet,
    Sampler,
    Seed,
    StudyFile,
    Tune,
)

if TYPE_CHECKING:
    from gstudy.display import Table
    from gstudy.fits.fitted import Fit

__all__ = ["converged_or_exit", "fit_command", "fit_tables", "known_sampler"]

SamplerName = Literal["pymc", "direct"]
SAMPLERS: tuple[SamplerName, ...] = ("pymc", "direct")


@guarded
def fit_command(
    study: StudyFile,
    data: Data = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="RUN", help="The run file to write.")
    ] = Path("run.nc"),
    seed: Seed = None,
    draws: Draws = 1000,
    tune: Tune = 1000,
    chains: Chains = 4,
    cores: Cores = None,
    sampler: Sampler = "pymc",
    allow_unconverged: AllowUnconverged = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Fit the study and save the run."""
    from gstudy.cli.output import hint, print_json, show
    from gstudy.fits.files import writable_target
    from gstudy.study.trials import read_trials

    chosen = known_sampler(sampler)
    # Before minutes of sampling, not after.
    target = writable_target(out)
    declared = read_study(study)
    trials = read_trials(trials_path(declared, data, study), declared)

    from gstudy.model.sampling import fit as sample

    result = sample(
        declared,
        trials,
        draws=draws,
        tune=tune,
        chains=chains,
        seed=seed,
        cores=cores,
        sampler=chosen,
        progress=not quiet and not as_json,
    )
    result.save(target)
    hint(f"wrote {out}", quiet=quiet)
    converged_or_exit(result, allow=allow_unconverged)
    if as_json:
        print_json(fit_tables(result))
    else:
        show(repr(result))
        hint(f"next: gstudy budget {shlex.quote(str(out))}", quiet=quiet)


def known_sampler(name: str) -> SamplerName:
    """The sampler of that name; a usage error ends the command when there is none."""
    for known in SAMPLERS:
        if name == known:
            return known
    from gstudy.errors import did_you_mean

    wrong = f"--sampler is pymc or direct, not {name!r}."
    near = did_you_mean(name, SAMPLERS)
    raise usage_error(f"{wrong} {near}" if near else wrong)


def converged_or_exit(fit: Fit, *, allow: bool) -> None:
    """End with exit code 3 unless every gate is passed or `allow` is set."""
    if not allow and not fit.diagnostics.passed:
        raise unconverged(str(fit.diagnostics))


def fit_tables(fit: Fit) -> dict[str, Table]:
    """`components`, `gates` and `settings` of a fit."""
    import pandas as pd

    from gstudy.display import Table

    settings = pd.DataFrame(
        {"setting": list(fit.settings), "value": [str(value) for value in fit.settings.values()]}
    )
    failed = not fit.diagnostics.passed
    note = pd.DataFrame({"note": [str(fit.diagnostics)]})
    return ({"not_converged": Table(note, "Not converged")} if failed else {}) | {
        "components": fit.table(),
        "gates": fit.diagnostics.table(),
        "settings": Table(settings, "Settings"),
    }
