"""Ctrl-C during sampling: an interrupt ends the fit, whatever the sampler makes of it."""

from __future__ import annotations

import contextlib
import signal
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

__all__ = ["interruptible"]


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Raise `KeyboardInterrupt` after the block if one was swallowed inside.

    nutpie turns an interrupt into a trace cut short, and a compiler's callback loses it: either
    would be measured and saved as if it were the run that was asked for.

    Raises
    ------
    KeyboardInterrupt
        When the user interrupted the block. Only Python's own handler is watched, and only in the
        main thread, where interrupts arrive.
    """
    watched = threading.current_thread() is threading.main_thread()
    if not watched or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    seen: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        seen.append(number)
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if seen:
        raise KeyboardInterrupt
