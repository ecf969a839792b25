"""`gstudy fit`: sample the posterior and keep it as a file."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

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
    Tune,
    Until,
    chains_of,
)
from gstudy.cli.postponed import postpone

if TYPE_CHECKING:
    from gstudy.display import Table
    from gstudy.fits.fitted import Fit
    from gstudy.study.declaration import Study

__all__ = [
    "CHAINS",
    "DRAWS",
    "RUN_SUFFIX",
    "SAMPLER",
    "TUNE",
    "as_it_was_made",
    "converged_or_exit",
    "fit_command",
    "fit_tables",
    "known_sampler",
    "longer_run",
]

SamplerName = Literal["pymc", "direct"]
SAMPLERS: tuple[SamplerName, ...] = ("pymc", "direct")

RUN_SUFFIX = ".nc"
DRAWS, TUNE, CHAINS, SAMPLER = 1000, 1000, "4", "pymc"


@guarded
def fit_command(
    study: Annotated[
        Path,
        typer.Argument(metavar="STUDY|RUN", help="Study file (TOML), or a run to draw more of."),
    ],
    data: Data = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="RUN", help="The run file to write. Default: run.nc, or RUN."
        ),
    ] = None,
    seed: Seed = None,
    draws: Draws = None,
    tune: Tune = TUNE,
    chains: Chains = CHAINS,
    cores: Cores = None,
    sampler: Sampler = SAMPLER,
    until: Until = None,
    allow_unconverged: AllowUnconverged = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Fit the study and save the run; of a run, draw more and save it again."""
    from gstudy.cli.output import hint, print_json, show
    from gstudy.fits.files import writable_target

    chosen = known_sampler(sampler)
    number = chains_of(chains)
    more = {"cores": cores, "until": until, "progress": not quiet and not as_json}
    is_run = study.suffix.lower() == RUN_SUFFIX
    out = out or (study if is_run else Path("run.nc"))
    # Before minutes of sampling, not after.
    target = writable_target(out)
    if is_run:
        if data is not None:
            raise usage_error(f"{study} is a run and holds its trials: leave {data} out.")
        as_it_was_made(study, seed=seed, tune=tune, chains=chains, sampler=sampler)
        result = longer_run(study, draws=draws, **more)
    else:
        declared = read_study(study)
        given = {"draws": draws or DRAWS, "tune": tune, "chains": number, "seed": seed}
        result = _sampled(declared, trials_path(declared, data, study), chosen, given | more)
    result.save(target)
    hint(f"wrote {out}", quiet=quiet)
    converged_or_exit(result, allow=allow_unconverged)
    if as_json:
        print_json(fit_tables(result))
    else:
        show(repr(result))
        hint(f"next: gstudy budget {shlex.quote(str(out))}", quiet=quiet)


def _sampled(study: Study, data: Path, sampler: SamplerName, settings: dict[str, Any]) -> Fit:
    from gstudy.study.trials import read_trials

    trials = read_trials(data, study)

    from gstudy.model.sampling import fit as sample

    postpone("arviz")
    return sample(study, trials, sampler=sampler, **settings)


def longer_run(path: Path, **more: Any) -> Fit:
    """The saved run with more draws."""
    from gstudy.fits.files import load

    loaded = load(path)

    from gstudy.model.extension import extend

    postpone("arviz")
    return extend(loaded, **more)


def as_it_was_made(run: Path, **given: int | str | None) -> None:
    """A usage error where an option contradicts how the run was made."""
    usual = {"seed": None, "tune": TUNE, "chains": CHAINS, "sampler": SAMPLER}
    wrong = [name for name, value in given.items() if value != usual[name]]
    if wrong:
        raise usage_error(f"{run} goes on as it was made: leave --{wrong[0]} out.")


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
