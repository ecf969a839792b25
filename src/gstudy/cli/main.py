"""The command line: `gstudy init | check | fit | budget | designs | report | demo`."""

from __future__ import annotations

import gc
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from gstudy.cli.budget import budget_command
from gstudy.cli.check import check_command
from gstudy.cli.demo import demo_command
from gstudy.cli.designs import designs_command
from gstudy.cli.exits import ending_plainly
from gstudy.cli.fit import fit_command
from gstudy.cli.init import init_command
from gstudy.cli.postponed import leave_out
from gstudy.cli.report import report_command

__all__ = ["app", "run"]

GARBAGE_THRESHOLD = 200_000
"""New objects before a look for cycles among them."""


class _Commands(TyperGroup):
    """The commands; help and version end as plainly as they do when output cannot be written."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        with ending_plainly():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        # Help of a single command is printed in here.
        with ending_plainly():
            return super().invoke(ctx)


app = typer.Typer(
    name="gstudy",
    cls=_Commands,
    help="How far would an evaluation's score move, and where does that come from?",
    epilog="Start with `gstudy demo`.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
)


def run() -> None:
    """The entry point of the `gstudy` script."""
    # Importing and compiling make millions of objects that stay: looking through them for cycles
    # after every few hundred new ones takes a third of a second.
    gc.set_threshold(GARBAGE_THRESHOLD)
    leave_out("dask")
    app(prog_name="gstudy")


def _print_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print(f"gstudy {version('gstudy')}", flush=True)
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    pass


app.command("init")(init_command)
app.command("check")(check_command)
app.command("fit")(fit_command)
app.command("budget")(budget_command)
app.command("designs")(designs_command)
app.command("report")(report_command)
app.command("demo")(demo_command)
