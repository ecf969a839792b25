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
    (r"gs\.fit_by\(study, trials, by='[^']*'\)", "gstudy budget STUDY --system NAME --out DIR"),
    (r"Give bounds=\{'([^']+)': \(1, most\)\}", r"Give --bounds \1=1:MOST"),
    (r"multiples=\{'([^']+)': (\d+)\}", r"--bounds \1=LEAST:MOST:\2"),
    (r"(?<=of cost; )summary\(\) has them all", "--json has them all"),
    (r"(?<=lies between )(\S+ and \S+): bounds=True gives both", r"\1: --bound-merged gives both"),
    (r"(?<=or take )goal='half_width'", "--goal half-width"),
    (r"judges='([a-z ]+)'", r"--judges '\1'"),
    (r"(?<=Allowed: )None \(the mean over the fitted ones\) and 'new'", "no --system, or new"),
    (
        r"Assume scale='logit' to give mu and effects, also fixed ones",
        "On the logit scale give --mu",
    ),
)

_DESIGN = re.compile(r"Design\(\{(?P<levels>[^{}]*)\}(?P<more>[^()]*)\)")
_LEVEL = re.compile(r"'([^']+)': (\d+)")
_PATTERN = re.compile(r"--judges '([a-z ]+)'")


def in_shell(text: str) -> str:
    """The message with what can be done from a shell.

    >>> in_shell("20 draws in all are few: use draws=1000, chains=4.")
    '20 draws in all are few: use --draws 1000 --chains 4.'
    >>> in_shell("at least 125, the price of Design({'task': 5, 'rollout': 1}).")
    'at least 125, the price of --design task=5,rollout=1.'
    """
    for said, words in _SAID:
        text = re.sub(said, words, text)
    return _DESIGN.sub(_as_option, text)


def _as_option(design: re.Match[str]) -> str:
    """The design as the option that gives it."""
    levels = ",".join(f"{facet}={n}" for facet, n in _LEVEL.findall(design["levels"]))
    pattern = _PATTERN.search(design["more"])
    judged = f" --judges '{pattern[1]}'" if pattern and pattern[1] != "all" else ""
    return f"--design {levels}{judged}"
