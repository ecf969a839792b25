"""`gstudy report`: everything that a run can tell, as a page to send on."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gstudy.cli.exits import guarded, unconverged, usage_error
from gstudy.cli.fit import RUN_SUFFIX
from gstudy.cli.options import AllowUnconverged, Json, Quiet, UnusedSeed

if TYPE_CHECKING:
    from gstudy.fits.fitted import Fit
    from gstudy.fits.many import Fits

__all__ = ["report_command"]


@guarded
def report_command(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...",
            help="A saved run (.nc), or several of one study: their systems side by side.",
        ),
    ],
    card: Annotated[
        bool, typer.Option("--card", help="The evaluation card first, and as card.json.")
    ] = False,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="DIR", help="Where the files go.")
    ] = Path("gstudy-report"),
    seed: UnusedSeed = None,
    allow_unconverged: AllowUnconverged = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a report: a page without network, Markdown, figures, tables, JSON."""
    import matplotlib as mpl

    # No window is opened, whatever display there is.
    mpl.use("agg")
    from gstudy.cli.output import hint, make_directory, print_json
    from gstudy.report.page import build_report

    del seed
    for run in runs:
        if run.suffix.lower() != RUN_SUFFIX:
            raise usage_error(
                f"{run} is no saved run ({RUN_SUFFIX}): gstudy budget {shlex.quote(str(run))} "
                "--out DIR leaves one in DIR/run.nc, which can be reported."
            )
    fit = _loaded(runs)
    directory = make_directory(out)
    report = build_report(fit, card=card)
    if report.alarm and not allow_unconverged:
        raise unconverged(report.alarm)
    page = report.write(directory)
    if as_json:
        print_json(report.tables())
    hint(
        f"wrote {page}, and beside it report.md, report.json, figures and tables",
        quiet=quiet or as_json,
    )


def _loaded(runs: list[Path]) -> Fit | Fits:
    """The fit of one run; of several all of them, by the names of their systems."""
    from gstudy.fits.files import load
    from gstudy.fits.many import Fits

    if len(runs) == 1:
        return load(runs[0])
    if len({run.resolve() for run in runs}) < len(runs):
        raise usage_error("the same run is given twice.")
    fits = [load(run) for run in runs]
    return Fits.of(dict(zip(_names(runs, fits), fits, strict=True)))


def _names(runs: list[Path], fits: list[Fit]) -> list[str]:
    """The systems' labels where they tell the runs apart, else the files' names."""
    single = [{**fit.design.not_sampled, **fit.design.pinned} for fit in fits]
    systems = [own.get(fit.study.object or "") for own, fit in zip(single, fits, strict=True)]
    stems = [run.stem for run in runs]
    for names in (systems, stems):
        known = [name for name in names if name is not None]
        if len(set(known)) == len(runs):
            return known
    return [str(run) for run in runs]
