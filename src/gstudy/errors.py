"""Errors and warnings: what is wrong, what was given, what is allowed, what to do."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

__all__ = [
    "ConvergenceWarning",
    "DataError",
    "DeclarationError",
    "EstimabilityWarning",
    "GstudyError",
    "QuantityError",
    "RunFileError",
    "did_you_mean",
    "explain",
]


_LONGEST = 200


class GstudyError(Exception):
    """Any error that gstudy raises on purpose; its text is written for the user."""


class DeclarationError(GstudyError):
    """The study's declaration is wrong, or asks for what is not there yet."""


class DataError(GstudyError):
    """The trials are wrong, or do not fit the declaration."""


class QuantityError(GstudyError):
    """A quantity, component or design was asked for that this source cannot give."""


class RunFileError(GstudyError):
    """A saved run cannot be read or written."""


class EstimabilityWarning(UserWarning):
    """A declared component is left out of the model because the data cannot inform it."""


class ConvergenceWarning(UserWarning):
    """A printed quantity fails a sampler gate."""


def explain(
    what: str,
    *,
    given: object | None = None,
    allowed: str | Iterable[str] | None = None,
    do: str | None = None,
) -> str:
    """One message from its parts, so that every error reads alike.

    >>> explain("unknown role", given="eror", allowed=["object", "error"], do="Mend it.")
    "unknown role. Given: 'eror'. Allowed: object, error. Mend it."
    """
    parts = [what.rstrip(".") + "."]
    if given is not None:
        parts.append(f"Given: {_short(_shown(given))}.")
    if allowed is not None:
        text = allowed if isinstance(allowed, str) else ", ".join(allowed)
        parts.append(f"Allowed: {text.rstrip('.') or 'nothing'}.")
    if do is not None:
        parts.append(do)
    return " ".join(parts)


def _shown(given: object) -> str:
    """A value as it is written; what has no text of its own by its name, never by an address."""
    if callable(given) and not isinstance(given, type):
        name = getattr(given, "__name__", "<unnamed>")
        return "a function" if name.startswith("<") else f"the function {name}"
    text = repr(given)
    return text if isinstance(given, str) else re.sub(r" at 0x[0-9a-fA-F]+", "", text)


def _short(text: str) -> str:
    """A value as far as a message can show it: a transcript in a score column has pages."""
    return text if len(text) <= _LONGEST else text[:_LONGEST] + " ..."


def did_you_mean(name: object, options: Iterable[str]) -> str | None:
    """``"Did you mean 'task'?"`` for the nearest option, or None.

    >>> did_you_mean("taks", ["task", "judge"])
    "Did you mean 'task'?"
    """
    near = difflib.get_close_matches(str(name), list(options), n=1, cutoff=0.6)
    return f"Did you mean {near[0]!r}?" if near else None
