"""Shell words: advice that a library message gives in Python, as options of a command."""

from __future__ import annotations

import re

__all__ = ["in_shell"]

# Only what the messages themselves say: labels do not look like it.
_SAID = (
    (r"gs\.extend\(fit, until=\.\.\.\) goes on", "gstudy fit RUN --until N goes on"),
    (r"gs\.extend of a fit goes on", "gstudy fit RUN --until N goes on"),
    (r"alone \(gs\.fit_by\)", "alone (gstudy budget STUDY_OR_DATA --system NAME)"),
    (r"use draws=(\d+), chains=(\d+)", r"use --draws \1 --chains \2"),
    (
        r"Sample longer: draws=(\d+), tune=(\d+)",
        r"Sample longer: gstudy fit RUN --until 1000 goes on; or anew, --draws \1 --tune \2",
    ),
    (r"raise target_accept \(", "in Python raise target_accept ("),
)


def in_shell(text: str) -> str:
    """The message with what can be done from a shell.

    >>> in_shell("20 draws in all are few: use draws=1000, chains=4.")
    '20 draws in all are few: use --draws 1000 --chains 4.'
    """
    for said, words in _SAID:
        text = re.sub(said, words, text)
    return text
