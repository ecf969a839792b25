"""Commands run in this process, as the console script runs them."""

from __future__ import annotations

import pytest

from gstudy.cli.main import app

Ended = tuple[int, str, str]


def ended(capsys: pytest.CaptureFixture[str], *arguments: object) -> Ended:
    """Run `gstudy ...`: exit code, standard output, standard error."""
    with pytest.raises(SystemExit) as end:
        app([str(argument) for argument in arguments], prog_name="gstudy")
    out, err = capsys.readouterr()
    return int(end.value.code or 0), out, err
