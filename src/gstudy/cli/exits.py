"""How a command ends: exit codes, errors as plain messages, warnings as plain lines."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import TextIO

import typer

from gstudy.cli.shell_words import in_shell

__all__ = ["DATA_WRONG", "NOT_CONVERGED", "ending_plainly", "guarded", "unconverged", "usage_error"]

DATA_WRONG = 1
USAGE = 2
NOT_CONVERGED = 3

# What a shell reports of a program that a signal ended: 128 + SIGINT, 128 + SIGPIPE.
INTERRUPTED = 130
PIPE_CLOSED = 141


def guarded[**Arguments](command: Callable[Arguments, None]) -> Callable[Arguments, None]:
    """The command, ending with an exit code and a message where it would raise."""

    @functools.wraps(command)
    def inner(*args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
        from gstudy.errors import GstudyError

        with ending_plainly():
            try:
                with _plain_warnings():
                    command(*args, **kwargs)
            except GstudyError as error:
                _say(f"error: {in_shell(str(error))}")
                raise typer.Exit(DATA_WRONG) from None

    return inner


@contextlib.contextmanager
def ending_plainly() -> Iterator[None]:
    """Ctrl-C, a closed pipe and a full disk as exit codes, without a traceback."""
    try:
        yield
        # A shell that closed it (>&-) leaves none.
        if sys.stdout is not None:
            sys.stdout.flush()
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        _silence_stdout()
        raise typer.Exit(PIPE_CLOSED) from None
    except OSError as error:
        if error.errno is None:
            raise
        _silence_stdout()
        _say(f"error: the output cannot be written: {error.strerror or error}")
        raise typer.Exit(DATA_WRONG) from None


def unconverged(reason: str) -> typer.Exit:
    """Say that numbers are withheld, and why; raise what it returns."""
    _say(f"error: {in_shell(reason)}")
    _say("Numbers are withheld; --allow-unconverged prints them with this note.")
    return typer.Exit(NOT_CONVERGED)


def usage_error(message: str) -> typer.Exit:
    """Say what is wrong with the command line; raise what it returns."""
    _say(f"error: {message}")
    return typer.Exit(USAGE)


@contextlib.contextmanager
def _plain_warnings() -> Iterator[None]:
    """Our warnings as one plain line each on standard error, without code lines."""
    from gstudy.errors import ConvergenceWarning, EstimabilityWarning

    with warnings.catch_warnings():
        library = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if issubclass(category, ConvergenceWarning | EstimabilityWarning):
                _say(f"warning: {in_shell(str(message))}")
            else:
                library(message, category, filename, lineno, file, line)

        warnings.simplefilter("always", ConvergenceWarning)
        warnings.simplefilter("always", EstimabilityWarning)
        warnings.showwarning = show
        yield


def _say(text: str) -> None:
    from gstudy.display import printable

    encoding = getattr(sys.stderr, "encoding", None)
    with contextlib.suppress(BrokenPipeError):
        print(printable(text, encoding), file=sys.stderr)


def _silence_stdout() -> None:
    """What is still in the buffer would be an error again at exit."""
    if sys.stdout is None:
        return
    devnull = os.open(os.devnull, os.O_WRONLY)
    with contextlib.suppress(OSError, ValueError):
        os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)
