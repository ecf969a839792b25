"""`gstudy report`: everything that a run can tell, as a page to send on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gstudy.cli.exits import guarded, unconverged, usage_error
from gstudy.cli.fit import RUN_SUFFIX
from gstudy.cli.options import AllowUnconverged, Json, Quiet, UnusedSeed

__all__ = ["report_command"]


@guarded
def report_command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A saved run (.nc).")],
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
    from gstudy.fits.files import load
    from gstudy.report.page import build_report

    del seed
    if run.suffix.lower() != RUN_SUFFIX:
        raise usage_error(
            f"{run} is no saved run ({RUN_SUFFIX}): make one by gstudy fit, then report it."
        )
    fit = load(run)
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
