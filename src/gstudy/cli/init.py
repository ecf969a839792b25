"""`gstudy init`: a first study file, guessed from the trials."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gstudy.cli.exits import guarded, usage_error
from gstudy.cli.options import Json, Quiet, UnusedSeed

if TYPE_CHECKING:
    from gstudy.study.assessment import Assessment
    from gstudy.study.guessing.guesses import Guess

__all__ = ["init_command"]

_NO_TRIALS = {".toml": "a study file already", ".nc": "a run, which holds its study"}


@guarded
def init_command(
    source: Annotated[
        Path,
        typer.Argument(metavar="DATA|LOGS", help="Trials, a log, or a folder of logs."),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="The study file to write.")
    ] = Path("study.toml"),
    seed: UnusedSeed = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Guess a study from trials or logs, and write it with the reasons."""
    del seed

    from gstudy.cli.output import hint, print_json, show
    from gstudy.study.estimable import assess
    from gstudy.study.guessing.guesses import guess_study

    what = _NO_TRIALS.get(source.suffix.lower())
    if what is not None:
        raise usage_error(f"{source} is {what}: init takes trials or logs.")
    if out.suffix.lower() != ".toml":
        raise usage_error(f"--out names a study file, such as study.toml, not {str(out)!r}.")
    _refuse_existing(out)
    guess = guess_study(source)
    # A file that `check` would refuse is not written.
    assessment = assess(guess.study, guess.trials)
    guess.write(out)
    if as_json:
        print_json({"declaration": guess.table()} | assessment.tables())
    else:
        show("\n".join([f"Wrote {out}, guessed from {guess.source}:", *_indented(guess)]))
        show(f"\n{_can_tell(assessment)}")
    hint(f"\n{_next(out)}", quiet=quiet or as_json)


def _refuse_existing(path: Path) -> None:
    from gstudy.errors import DataError, explain

    if path.exists():
        raise DataError(
            explain(
                f"{path} is there already",
                do="Give another name with --out, or take that file away: it may hold your "
                "changes.",
            )
        )


def _indented(guess: Guess) -> list[str]:
    return [f"  {line}" for line in guess.lines()]


def _can_tell(assessment: Assessment) -> str:
    """Which components a fit would have, in one line."""
    from gstudy.display import wrapped

    names = [component.name for component in assessment.components]
    left = [row.name for row in assessment.rows if row.left_out and row.asked == "facet"]
    told = f"A fit estimates {', '.join(names) or 'the mean only'}."
    rest = f" Not in the model: {', '.join(left)}; `gstudy check` says why." if left else ""
    return "\n".join(wrapped(told + rest, 80, indent="  "))


def _next(out: Path) -> str:
    path = shlex.quote(str(out))
    return "\n".join(
        [
            f"Next: read the roles in {path}, and change what your claim does not cover.",
            f"  gstudy check {path}    what can be estimated, and what to collect",
            f"  gstudy budget {path}   the score, how far it moves, and why",
        ]
    )
