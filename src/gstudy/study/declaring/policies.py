"""What is done with trials that failed, and with trials that were never scored."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from gstudy.errors import DeclarationError, did_you_mean, explain

__all__ = ["ON_FAILED", "ON_MISSING", "read_failed_policy", "read_missing_policy"]

ON_FAILED = ("raise", "incorrect", "drop")
ON_MISSING = ("raise", "drop")


def read_failed_policy(value: object) -> str | Mapping[str, str]:
    """`on_failed_run`: one policy, or one per reason.

    Raises
    ------
    DeclarationError
        When it is neither.

    Examples
    --------
    >>> dict(read_failed_policy({"timeout": "incorrect", "infrastructure": "drop"}))
    {'timeout': 'incorrect', 'infrastructure': 'drop'}
    """
    key = "model.on_failed_run"
    if not isinstance(value, Mapping):
        return _policy(key, value, ON_FAILED, 'or one per reason: { timeout = "incorrect" }')
    if not value or not all(isinstance(reason, str) for reason in value):
        raise DeclarationError(
            explain(
                f"{key} names no reasons",
                given=dict(value),
                allowed='a policy for each reason in the data: { timeout = "incorrect" }',
            )
        )
    return MappingProxyType(
        {reason: _policy(f"{key}.{reason}", one, ON_FAILED) for reason, one in value.items()}
    )


def read_missing_policy(value: object) -> str:
    """`on_missing_score`: what is done with a trial that was never scored.

    Raises
    ------
    DeclarationError
        When it is no policy; to count a trial as incorrect that nobody scored is none.
    """
    hint = (
        'A trial that ended without a score because the run failed is outcome = "failed": '
        "on_failed_run decides on it."
        if value == "incorrect"
        else None
    )
    return _policy("model.on_missing_score", value, ON_MISSING, do=hint)


def _policy(
    key: str, value: object, allowed: tuple[str, ...], more: str = "", do: str | None = None
) -> str:
    if not isinstance(value, str) or value not in allowed:
        choices = ", ".join(f'"{one}"' for one in allowed) + (f", {more}" if more else "")
        do = do or did_you_mean(str(value), allowed)
        raise DeclarationError(explain(f"{key} is no policy", given=value, allowed=choices, do=do))
    return value
