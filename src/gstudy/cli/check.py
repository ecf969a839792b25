"""`gstudy check`: what the trials can tell, before any sampling."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gstudy.cli.exits import guarded
from gstudy.cli.options import Data, Json, Quiet, StudyFile, UnusedSeed

if TYPE_CHECKING:
    from pathlib import Path

    from gstudy.study.declaration import Study

__all__ = ["check_command", "read_study", "trials_path"]


@guarded
def check_command(
    study: StudyFile,
    data: Data = None,
    seed: UnusedSeed = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Say what can be estimated from the trials, and what to collect."""
    # Every command has them; a check samples nothing and prints no hints.
    del seed, quiet

    from gstudy.cli.output import print_json, show
    from gstudy.study.estimable import check

    declared = read_study(study)
    assessment = check(declared, trials_path(declared, data, study))
    if as_json:
        print_json(assessment.tables())
    else:
        show(str(assessment))


def read_study(path: Path) -> Study:
    """The declaration in a study file."""
    from gstudy.study.declaration import Study

    return Study.from_toml(path)


def trials_path(study: Study, data: Path | None, where: Path) -> Path:
    """The file of the trials: the one given, or the study's own.

    Raises
    ------
    DeclarationError
        When there is neither.
    """
    from gstudy.errors import DeclarationError, explain

    if data is not None:
        return data
    if study.data is None:
        raise DeclarationError(
            explain(
                f"{where} names no data, and none was given",
                do=f"Name the trials on the command line: {where} trials.csv, or write "
                'data = "trials.csv" in the study file.',
            )
        )
    return study.data
