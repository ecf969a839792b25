"""`gstudy budget`: the score, how far it moves, and where that comes from."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gstudy.cli.check import read_study, trials_path
from gstudy.cli.exits import guarded, unconverged, usage_error
from gstudy.cli.facet_lists import levels_of
from gstudy.cli.fit import (
    CHAINS,
    DRAWS,
    RUN_SUFFIX,
    SAMPLER,
    TUNE,
    as_it_was_made,
    known_sampler,
    longer_run,
)
from gstudy.cli.options import (
    AllowUnconverged,
    Chains,
    Cores,
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
    from gstudy.cli.first_screen import FirstScreen
    from gstudy.fits.fitted import Fit
    from gstudy.fits.many import Fits
    from gstudy.study.assessment import Assessment
    from gstudy.study.declaration import Study
    from gstudy.study.guessing.guesses import Guess
    from gstudy.study.trials import Trials

__all__ = ["budget_command", "leave_files", "screen_or_exit"]

NEW = "new"
STUDY_SUFFIX = ".toml"


@guarded
def budget_command(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="DATA|LOGS|STUDY|RUN",
            help="Trials, logs or a folder of them, a study file (TOML), or a saved run (.nc).",
        ),
    ],
    study: Annotated[
        Path | None, typer.Option("--study", metavar="FILE", help="Study file of the trials.")
    ] = None,
    system: Annotated[
        str | None,
        typer.Option(
            "--system", metavar="NAME", help="One system instead of all; new: one not yet run."
        ),
    ] = None,
    design: Annotated[
        str | None,
        typer.Option("--design", metavar="task=100,rollout=4", help="Budget of another design."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Leave run, tables and plot there."),
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
    """Print where a score's uncertainty comes from. Fits when it must."""
    from gstudy.cli.output import hint, make_directory, print_json, show
    from gstudy.study.estimable import assess, warn_if_left_out

    chosen = known_sampler(sampler)
    counts = None if design is None else levels_of(design)
    is_run = source.suffix.lower() == RUN_SUFFIX
    if is_run and study is not None:
        raise usage_error(f"{source} is a run and holds its study: leave --study out.")
    if is_run and draws is not None:
        raise usage_error(
            f"{source} is a run and has its draws: gstudy fit {shlex.quote(str(source))} --draws "
            f"{draws} adds so many a chain; budget takes --until."
        )
    if is_run:
        as_it_was_made(source, tune=tune, chains=chains, sampler=sampler)
    directory = None if out is None else make_directory(out)
    sampling = {
        "draws": draws or DRAWS,
        "tune": tune,
        "chains": chains_of(chains),
        "seed": seed,
        "cores": cores,
        "sampler": chosen,
        "until": until,
        "progress": not quiet and not as_json,
    }
    printed = [lambda fit: _printed(fit, system, counts)]
    policies, guess = None, None
    if is_run and system is not None:
        _check_own(_loaded(source), system)
    if is_run and until is not None:
        more = {name: sampling[name] for name in ("until", "cores", "progress")}
        fit = longer_run(source, printed=printed, **more)
    elif is_run:
        fit = _loaded(source)
    else:
        declared, trials, guess = _declared_trials(source, study, silent=as_json)
        assessment = assess(declared, trials)
        _check_questions(assessment, trials, system, counts)
        assessment = _of_one_system(assessment, trials, system)
        warn_if_left_out(assessment)
        fit = _sampled(assessment.study, assessment, {**sampling, "printed": printed})
        policies = _both_policies(assessment, trials, system, sampling)
    if directory is not None and (until is not None or not is_run):
        fit.save(directory / "run.nc")
    screen = screen_or_exit(
        fit, system=system, design=counts, allow=allow_unconverged, policies=policies
    )
    if as_json:
        print_json(({} if guess is None else {"declaration": guess.table()}) | screen.tables())
    else:
        show(screen.text())
    if directory is not None:
        leave_files(screen, directory)
        hint(f"\nwrote the budget as tables and plot to {directory}", quiet=quiet or as_json)
    hint(f"\n{_next_steps(screen, source, directory)}", quiet=quiet or as_json)
    if guess is not None and not as_json:
        show(f"\nTo change what was assumed: gstudy init {shlex.quote(str(source))}")


def screen_or_exit(
    fit: Fit,
    *,
    system: str | None,
    design: dict[str, int] | None,
    allow: bool,
    policies: Fits | None = None,
) -> FirstScreen:
    """The first screen, or exit code 3 when a printed number fails a gate."""
    from gstudy.cli.first_screen import first_screen

    screen = first_screen(fit, system=system, design=design, policies=policies)
    if screen.failure and not allow:
        raise unconverged(screen.failure)
    return screen


def leave_files(screen: FirstScreen, directory: Path) -> None:
    """`budget.md`, `budget.csv`, `budget.json` and `budget.png` in a directory."""
    import json

    from gstudy.cli.first_screen import LEVEL
    from gstudy.cli.output import payload, write_text

    write_text(directory / "budget.md", screen.markdown())
    rows = screen.budget.summary(LEVEL)
    if screen.failure:
        rows["note"] = screen.failure
    write_text(directory / "budget.csv", rows.to_csv())
    tables = json.dumps(payload(screen.tables()), indent=1, ensure_ascii=False, allow_nan=False)
    write_text(directory / "budget.json", tables + "\n")
    _write_plot(screen, directory / "budget.png")


def _write_plot(screen: FirstScreen, path: Path) -> None:
    import matplotlib as mpl

    # No window is opened, whatever display there is.
    mpl.use("agg")
    import matplotlib.pyplot as plt

    from gstudy.report.plots import plot_budget

    figure, _ = plot_budget(screen.budget)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _printed(fit: Fit, system: str | None, design: dict[str, int] | None) -> list[Any]:
    """Draws of everything that the first screen prints."""
    from gstudy.cli.first_screen import first_screen

    return first_screen(fit, system=system, design=design).draws()


def _loaded(path: Path) -> Fit:
    from gstudy.fits.files import load

    return load(path)


def _sampled(study: Study, assessment: Assessment, sampling: dict[str, Any]) -> Fit:
    from gstudy.model.sampling import fit

    postpone("arviz")
    return fit(study, assessment, **sampling)


def _check_own(fit: Fit, system: str) -> None:
    """An error that names the command which fits one system alone, where a run cannot tell."""
    from gstudy.errors import QuantityError, explain
    from gstudy.variance.basis import basis_of
    from gstudy.variance.systems import refuse_shared

    try:
        refuse_shared(basis_of(fit), system, "budget")
    except QuantityError:
        measured = fit.study.object
        raise QuantityError(
            explain(
                f"the budget of {system!r} alone cannot come from a run in which all levels of "
                f"{measured} share their sds: they would not be variances of its own",
                allowed="no --system (the mean over the fitted ones), or --system new",
                do=f"gstudy budget STUDY_OR_DATA --system {shlex.quote(system)} fits it alone, "
                "from the study file or the trials.",
            )
        ) from None


def _both_policies(
    assessment: Assessment, trials: Trials, system: str | None, sampling: dict[str, Any]
) -> Fits | None:
    """The fits under both policies where over 1% of the runs failed, by the direct path."""
    from gstudy.questions.claims import FAILED_SHARE

    share = assessment.failed_runs.get("share") or 0.0
    if share <= FAILED_SHARE or system is not None or assessment.study.varying:
        return None

    from gstudy.model.policies import fit_policies

    postpone("arviz")
    return fit_policies(assessment.study, trials, **{**sampling, "sampler": "direct"})


def _declared_trials(
    source: Path, study: Path | None, *, silent: bool
) -> tuple[Study, Trials, Guess | None]:
    """The trials with the declaration that was given, or the one that is guessed and told."""
    from gstudy.study.trials import read_trials

    if source.suffix.lower() == STUDY_SUFFIX:
        if study is not None:
            raise usage_error(f"{source} is a study itself: give the trials, or leave --study out.")
        declared = read_study(source)
        return declared, read_trials(trials_path(declared, None, source), declared), None
    if study is not None:
        declared = read_study(study)
        return declared, read_trials(source, declared), None

    from gstudy.cli.output import show
    from gstudy.study.guessing.guesses import guess_study

    guess = guess_study(source)
    if not silent:
        show(_assumed_text(guess))
    return guess.study, read_trials(guess.trials, guess.study), guess


def _check_questions(
    assessment: Assessment, trials: Trials, system: str | None, design: dict[str, int] | None
) -> None:
    """What would fail after minutes of sampling, before them."""
    from gstudy.variance.basis import structure_of_design
    from gstudy.variance.designs import read_design

    study = assessment.study
    structure = structure_of_design(study, assessment)
    labels = [] if study.object is None else list(trials.table[study.object].unique())
    if system is not None:
        _check_system(system, labels, study.object, sampled=structure.object is not None)
    if design is not None:
        own = frozenset({study.object})
        effects = any(own in component.merged for component in assessment.components)
        read_design(structure.without_object() if effects and system != NEW else structure, design)


def _of_one_system(assessment: Assessment, trials: Trials, system: str | None) -> Assessment:
    """The trials of one system alone where its variances would otherwise be those of all."""
    from gstudy.study.estimable import assess
    from gstudy.study.parts import split_by

    study = assessment.study
    if system in (None, NEW) or study.object is None or study.object in study.varying.values():
        return assessment
    _, parts = split_by(study, trials, study.object)
    if len(parts) == 1:
        return assessment
    part = next(part for part in parts if part.label == system)
    return assess(part.study, part.trials)


def _check_system(system: str, labels: list[str], measured: str | None, *, sampled: bool) -> None:
    from gstudy.errors import QuantityError, did_you_mean, explain

    if system == NEW and sampled:
        if NEW in labels:
            raise QuantityError(
                explain(
                    f"--system new means a new {measured}, and a level is called 'new' too",
                    do="Rename that level in the trials, so that it is clear which one is meant.",
                )
            )
        return
    if measured is None:
        raise QuantityError(
            explain(
                f"the study measures no object, so that {system!r} cannot be given",
                do="Leave --system out.",
            )
        )
    if system not in labels:
        raise QuantityError(
            explain(
                f"no {measured} is named {system!r}",
                allowed=labels,
                do=did_you_mean(system, labels),
            )
        )


def _assumed_text(guess: Guess) -> str:
    lines = [f"No study was given. From the columns of {guess.source} this one is assumed:"]
    return "\n".join([*lines, *(f"  {line}" for line in guess.lines()), ""])


def _next_steps(screen: FirstScreen, source: Path, directory: Path | None) -> str:
    """Commands that lead on."""
    is_run = source.suffix.lower() == RUN_SUFFIX
    lines = ["Next:"]
    if is_run:
        saved = shlex.quote(str(source))
    elif directory is not None:
        saved = shlex.quote(str(directory / "run.nc"))
    else:
        lines.append("  the same with --out DIR             keeps the run, tables and plot")
        saved = "DIR/run.nc"
    lines.append(f"  gstudy budget {saved} --design {shlex.quote(_larger_design(screen))}")
    if screen.score is not None and len(screen.score.observed) > 1:
        lines += _system_hint(screen, source, saved)
    if is_run and directory is None:
        lines.append(f"  gstudy budget {saved} --out DIR   leaves tables and plot as files")
    lines.append(f"  gstudy designs {saved} --target 3pt   what to run next, and when to stop")
    lines.append(f"  gstudy report {saved} --card   makes a page to send on")
    return "\n".join(lines)


def _system_hint(screen: FirstScreen, source: Path, saved: str) -> list[str]:
    """How to see one system with its own variances."""
    name = shlex.quote(str(screen.score.observed.index[0])) if screen.score else ""
    if screen.fit.study.varying:
        return [f"  gstudy budget {saved} --system {name}"]
    if source.suffix.lower() == RUN_SUFFIX:
        return []
    return [f"  the same with --system {name}   that system alone, with its own variances"]


def _larger_design(screen: FirstScreen) -> str:
    """The design as found with twice as many levels of the largest source."""
    fit = screen.fit
    levels = {
        facet: max(round(n), 1)
        for facet, n in fit.design.facet_levels.items()
        if facet != fit.study.object and facet not in fit.design.pinned
    }
    if fit.study.trials is not None and fit.study.counted is None:
        levels["trials"] = max(round(fit.design.n_trials / len(fit.design.cells.trials)), 1)
    share = screen.budget.summary()["share"].sort_values(ascending=False)
    for name in share.index:
        facets = [facet for facet in levels if facet in str(name).split(":")]
        if facets and facets[-1] not in fit.design.not_sampled:
            levels[facets[-1]] *= 2
            break
    return ",".join(f"{facet}={n}" for facet, n in levels.items())
