"""A list of runs as command lines of Inspect AI."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from gstudy.errors import QuantityError, explain
from gstudy.variance.patterns import below

if TYPE_CHECKING:
    import pandas as pd

    from gstudy.study.declaration import Study

__all__ = ["inspect_commands", "sample_pattern"]

_KIND, _RUN = "kind", "run"
_BENCHMARK = "benchmark"
_LOG, _MODEL = "LOG_FILE", "MODEL"
# Characters of the ids in one command: systems allow 128 kB in one argument.
_LONGEST = 100_000


@dataclass(frozen=True, slots=True)
class _Columns:
    """The columns of a list of runs by what Inspect makes of them."""

    model: str | None
    sample: str | None
    benchmark: str | None
    judge: str | None
    rollouts: tuple[str, ...]
    others: tuple[str, ...]
    trials: str | None


def inspect_commands(
    frame: pd.DataFrame,
    study: Study,
    judge: str | None,
    task: str,
    logs: Mapping[str, str],
    *,
    apart: bool = False,
) -> tuple[str, ...]:
    """Command lines of the rows of a list of runs.

    Parameters
    ----------
    frame : pandas.DataFrame
    study : Study
    judge : str or None
        The facet of judges.
    task : str
        Where no facet "benchmark" names Inspect's task.
    logs : mapping of str to str
        System to the log of runs that exist.
    apart : bool
        Whether each run has one judge of its own: runs are then made without scores, a log for
        each judge.

    Returns
    -------
    tuple of str

    Raises
    ------
    QuantityError
        For ids that one option cannot tell apart.
    """
    columns = _columns(study, judge)
    runs = frame[frame[_KIND] == _RUN]
    lines = list(_evaluations(runs, columns, task, apart))
    lines += _scorings(frame[frame[_KIND] != _RUN], columns, logs)
    return tuple(lines)


def sample_pattern(label: str, others: Sequence[str] = ()) -> str:
    """The pattern of `--sample-id` that a label alone matches.

    Inspect splits ids at commas, strips them and matches them as file names are matched: "*", "?"
    and "[" are bracketed, and a comma, or a blank at an end, is any one character.

    Raises
    ------
    QuantityError
        When another label matches too.

    >>> sample_pattern("a[1]"), sample_pattern("1,2")
    ('a[[]1]', '1?2')
    """
    inner = label.strip()
    start = len(label) - len(label.lstrip())
    marks = [
        "?" if mark == "," or not start <= i < start + len(inner) else _BRACKETED.get(mark, mark)
        for i, mark in enumerate(label)
    ]
    pattern = "".join(marks)
    if "," in label or inner != label:
        also = [other for other in others if other != label and fnmatchcase(other, pattern)]
        if also:
            raise QuantityError(
                explain(
                    "an option of Inspect cannot tell two samples apart: it splits ids at commas",
                    given=[label, also[0]],
                    do="Rename one of them, or write the list as a file.",
                )
            )
    return pattern


_BRACKETED = {"*": "[*]", "?": "[?]", "[": "[[]"}


def _columns(study: Study, judge: str | None) -> _Columns:
    names = [facet.name for facet in study.labelled]
    inside = frozenset() if judge is None else below(judge, names, study.rules)
    redrawn = study.redrawn_on_rerun()
    open_ = [n for n in names if n not in inside and n not in redrawn and n != study.object]
    kept = [n for n in open_ if study.facet(n).source_column != _BENCHMARK]
    likely = [n for n in kept if study.facet(n).role == "legitimate"] or kept
    sample = "task" if "task" in kept else next(iter(likely), None)
    source = {facet.name: facet.source_column for facet in study.labelled}
    return _Columns(
        model=None if study.object is None else source[study.object],
        sample=None if sample is None else source[sample],
        benchmark=next((source[n] for n in open_ if source[n] == _BENCHMARK), None),
        judge=None if judge is None else source[judge],
        rollouts=tuple(source[n] for n in names if n in redrawn and n not in inside),
        others=tuple(source[n] for n in kept if n != sample),
        trials=study.trials,
    )


def _evaluations(runs: pd.DataFrame, columns: _Columns, task: str, apart: bool) -> Iterator[str]:
    """One `inspect eval` for the samples that need the same number of epochs."""
    if runs.empty:
        return
    if columns.sample is None:
        raise QuantityError(
            explain("no facet of the study names Inspect's samples", do="Write the list as a file.")
        )
    ids = [str(label) for label in runs[columns.sample].unique()]
    for i, (key, epochs, samples) in enumerate(_groups(runs, columns, apart), start=1):
        model = str(key.get(columns.model or "", _MODEL))
        options = ["--model", model]
        for name in columns.others:
            options += ["-T", f"{name}={key[name]}"]
        patterns = ",".join(sample_pattern(label, ids) for label in samples)
        options += ["--sample-id", patterns, "--epochs", str(epochs)]
        folder = f"runs/{i}"
        options += ["--no-score", "--log-dir", folder] if apart else []
        yield shlex.join(["inspect", "eval", str(key.get(columns.benchmark or "", task)), *options])
        if apart and columns.judge is not None:
            # The shell finds the only log of that folder.
            yield f"inspect score {folder}/*.eval {_scorer(str(key[columns.judge]))}"


def _groups(
    runs: pd.DataFrame, columns: _Columns, apart: bool
) -> Iterator[tuple[dict[str, object], int, list[str]]]:
    """Samples with one number of epochs; those that must be written first come last."""
    named = [columns.model, columns.benchmark, *columns.others]
    named += [columns.judge] if apart else []
    keys = [name for name in named if name is not None]
    sample = str(columns.sample)
    if columns.trials is not None:
        per_judge = runs.drop_duplicates([*keys, sample, columns.trials])
        epochs = per_judge.groupby([*keys, sample], sort=False)[columns.trials].max()
    else:
        each = runs.drop_duplicates([*keys, sample, *columns.rollouts])
        epochs = each.groupby([*keys, sample], sort=False).size()
    table = epochs.rename("epochs/").reset_index()
    table["new/"] = table[sample].astype(str).str.startswith("new ")
    for key, group in table.groupby(["new/", *keys, "epochs/"], sort=False):
        _, *values, n = key
        known = dict(zip(keys, values, strict=True))
        for part in _chunks([str(label) for label in group[sample]]):
            yield known, int(str(n)), part


def _chunks(labels: Sequence[str]) -> Iterator[list[str]]:
    """Labels in parts that a command can hold."""
    part, length = list[str](), 0
    for label in labels:
        if part and length + len(label) > _LONGEST:
            yield part
            part, length = [], 0
        part.append(label)
        length += len(label) + 1
    if part:
        yield part


def _scorings(rows: pd.DataFrame, columns: _Columns, logs: Mapping[str, str]) -> Iterator[str]:
    """One `inspect score` per system and judge, of the whole log."""
    keys = [name for name in (columns.model, columns.judge) if name is not None]
    if not keys:
        return
    for row in rows[keys].drop_duplicates().to_dict(orient="records"):
        system = str(row[columns.model]) if columns.model is not None else "all"
        log = shlex.quote(logs.get(system, _LOG))
        judge = "" if columns.judge is None else f" {_scorer(str(row[columns.judge]))}"
        yield f"inspect score {log}{judge}"


def _scorer(judge: str) -> str:
    """The options of `inspect score` for a judge; "scorer (model)" binds the grader's model."""
    name, bracket, rest = judge.partition(" (")
    options = ["--scorer", name if bracket and rest.endswith(")") else judge]
    if bracket and rest.endswith(")"):
        options += ["--model-role", f"grader={rest.removesuffix(')')}"]
    return shlex.join([*options, "--action", "append", "--overwrite"])
