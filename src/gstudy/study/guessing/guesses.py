"""A study guessed from trials: what it is, why, and what stays in doubt."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import numpy as np

from gstudy._marks import visible
from gstudy.display import Table, shorten, wrapped
from gstudy.errors import DataError, DeclarationError, explain
from gstudy.study.declaration import Study
from gstudy.study.guessing import column_words as words
from gstudy.study.guessing.failed_runs import guess_policies, said_failed
from gstudy.study.guessing.guessed_facets import Draft
from gstudy.study.guessing.label_columns import label_column
from gstudy.study.guessing.left_out import why_left_out
from gstudy.study.guessing.main_facets import TASK, add_object, add_tasks
from gstudy.study.guessing.other_facets import (
    add_conditions,
    add_judges,
    add_pinned,
    add_rollouts,
    tell_rows_apart,
)
from gstudy.study.guessing.score_columns import guess_score
from gstudy.study.guessing.seen_columns import see_columns
from gstudy.study.guessing.study_file import study_file

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

    from gstudy.study.guessing.failed_runs import GuessedPolicies
    from gstudy.study.guessing.guessed_facets import GuessedFacet
    from gstudy.study.guessing.label_columns import LabelColumn
    from gstudy.study.guessing.score_columns import GuessedScore
    from gstudy.study.guessing.seen_columns import SeenColumns

__all__ = ["Guess", "guess_study"]

_SAID = ("outcome", "reason", "detail")
_LABELS = 3
_LISTED = 20
_WIDTH = 80
_ROLES = (
    "(object: measured; legitimate: the claim covers others like these; error: measurement error; "
    "controlled: these levels only)"
)
# A task has so many times the trials of another.
_UNBALANCED = 1.5


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Guess:
    """A declaration that was guessed from the columns of trials.

    Parameters
    ----------
    study : Study
        What `check` and `fit` take.
    source : str
        Name of the file or folder, or "DataFrame".
    n_rows : int
        Rows that were looked at.
    facets : tuple of GuessedFacet
        With the reason for each.
    labels : tuple of tuples of str
        The first labels of each facet.
    score_reason : str
    other_scores : tuple of str
        Columns that could be the score too.
    policy_reasons : dict of str to str
        `on_failed_run`, `on_missing_score` to why, where there is such a row.
    left_out : dict of str to str
        Column to why it is not used.
    doubts : tuple of str
        What the data could not decide.
    unbalanced : bool
        Whether tasks differ in their numbers of trials.
    trials : object
        What `read_trials` takes: the table of logs, or the source.
    """

    study: Study
    source: str
    n_rows: int
    facets: tuple[GuessedFacet, ...]
    labels: tuple[tuple[str, ...], ...]
    score_reason: str
    other_scores: tuple[str, ...]
    policy_reasons: dict[str, str]
    left_out: dict[str, str]
    doubts: tuple[str, ...]
    unbalanced: bool
    trials: Any = field(repr=False)

    def toml(self, folder: str | Path | None = None) -> str:
        """The study file: TOML with the reasons as comments.

        Parameters
        ----------
        folder : path, optional
            Where the file will lie: `data` is written relative to it. By default as it was given.

        Returns
        -------
        str
        """
        data = self.study.data
        if data is None or folder is None:
            return study_file(self, None if data is None else str(data))
        return study_file(self, _seen_from(data, Path(folder)))

    def write(self, path: str | Path) -> Path:
        """Write the study file; one that is there is never overwritten.

        Parameters
        ----------
        path : str or Path

        Returns
        -------
        Path

        Raises
        ------
        DataError
            When there is such a file, or it cannot be written.
        """
        path = Path(path)
        try:
            with path.open("x", encoding="utf-8") as stream:
                stream.write(self.toml(path.parent))
        except FileExistsError:
            raise DataError(
                explain(
                    f"{path} is there already",
                    do="Give another name, or take that file away: it may hold your changes.",
                )
            ) from None
        except OSError as error:
            raise DataError(
                explain(f"{path} cannot be written: {error.strerror or error}")
            ) from None
        return path

    def lines(self) -> list[str]:
        """The guess in a few lines of 80 characters."""
        rows = [("score", _score_text(self.study, self.score_reason))]
        rows += [(facet.name, _facet_text(facet)) for facet in self.facets]
        rows += [("", _ROLES)]
        rows += [(key, f"{self._policy(key)}: {why}") for key, why in self.policy_reasons.items()]
        names = ", ".join(shorten(visible(name), _LISTED) for name in list(self.left_out)[:_LISTED])
        more = ", ..." if len(self.left_out) > _LISTED else ""
        rows += [("not used", names + more)] if names else []
        wide = min(max(len(visible(name)) for name, _ in rows), _LISTED)
        told = [f"{shorten(visible(name), wide):<{wide}}  {visible(text)}" for name, text in rows]
        told += [f"To look at: {visible(doubt)}" for doubt in self.doubts]
        return [line for text in told for line in _hanging(text, wide)]

    def table(self) -> Table:
        """The guess as a table: one row for the score and each facet.

        Returns
        -------
        Table
            Index `name`; columns column, role, nested_in, levels, reason; its notes are the doubts,
            the policies and the columns that are not used.
        """
        import pandas as pd

        study = self.study
        score = study.score if study.trials is None else f"{study.successes} of {study.trials}"
        first = ("score", score, study.family, "", None, self.score_reason)
        rows = [
            (f.name, f.column, f.role, ", ".join(f.nested_in), f.n_levels or None, f.reason)
            for f in self.facets
        ]
        names = ["name", "column", "role", "nested_in", "levels", "reason"]
        frame = pd.DataFrame([first, *rows], columns=names).set_index("name")
        left = [f"not used: {name} ({why})" for name, why in self.left_out.items()]
        said = [f"{key} = {self._policy(key)}: {why}" for key, why in self.policy_reasons.items()]
        return Table(
            frame.assign(levels=frame["levels"].astype("float64")),
            f"Declaration assumed for {self.source}",
            notes=(*self.doubts, *said, *left),
            formats={"levels": "count"},
        )

    def _policy(self, key: str) -> str:
        value = getattr(self.study, key)
        return value if isinstance(value, str) else ", ".join(f"{k} {v}" for k, v in value.items())

    def __repr__(self) -> str:
        return "\n".join([f"Guess from {self.source}", *(f"  {line}" for line in self.lines())])

    def _repr_html_(self) -> str:
        return self.table().html()


def guess_study(source: str | Path | pd.DataFrame) -> Guess:
    """Guess the declaration of trials from their columns: facets, nesting, roles, policies.

    Names say what a column may be, the data whether it is and what it lies in. Roles are a guess at
    the claim: read them. Nothing is fitted.

    Parameters
    ----------
    source : str, Path or pandas.DataFrame
        A file of trials, a log, a folder of logs, or a table such as `read_logs` and `from_frame`
        give.

    Returns
    -------
    Guess
        ``.study`` is the declaration, ``.toml()`` the study file with the reasons as comments,
        ``.doubts`` what the data could not decide.

    Raises
    ------
    DataError
        When the source cannot be read, and when rows repeat that no column tells apart.
    DeclarationError
        When no column can be the score, or nothing but the object varies; it lists the columns.

    Examples
    --------
    >>> import pandas as pd
    >>> import gstudy as gs
    >>> df = pd.DataFrame({"model": list("aabb"), "item": [1, 2, 1, 2], "ok": [1, 0, 1, 1]})
    >>> gs.guess_study(df).study
    Study of ok by system
      system  object
      task    legitimate
      interactions: auto
    """
    seen = see_columns(source)
    header: list[object] = list(seen.frame.columns)
    names = [name for name in header if isinstance(name, str) and name]
    columns = {name: label_column(name, seen.frame[name]) for name in _single(seen, names)}
    n_rows = len(seen.frame)
    failed = said_failed(columns, n_rows)
    inside = {name: one for name, one in columns.items() if name not in _SAID}
    score = guess_score(inside, failed, seen.name)
    policies = guess_policies(columns, score, failed)
    taken = (*score.columns, *score.others)
    draft = Draft({name: c for name, c in inside.items() if name not in taken}, n_rows)
    _fill(draft, score.keys.get("trials"), seen.name)
    return _guess(seen, draft, score, policies)


def _single(seen: SeenColumns, names: list[str]) -> list[str]:
    """The names of columns, each of which is there once."""
    for name in names:
        if names.count(name) > 1:
            raise DataError(
                explain(
                    f"{seen.name}: column {name!r} is there {names.count(name)} times",
                    allowed="column names that differ",
                    do="Rename or remove the others.",
                )
            )
    return names


def _fill(draft: Draft, counted: str | None, name: str) -> None:
    """Facets in the order of the study."""
    add_object(draft)
    add_tasks(draft)
    add_conditions(draft)
    add_rollouts(draft, counted)
    add_judges(draft)
    tell_rows_apart(draft, name)
    add_pinned(draft)
    random = [facet for facet in draft.facets if facet.role in ("legitimate", "error")]
    if not any(facet.name == TASK or facet.role == "error" for facet in random):
        raise DeclarationError(
            explain(
                f"no column of {name} is known to be a task",
                given=list(draft.columns)[:_LISTED],
                allowed=f"for a guess, a column called {', '.join(words.TASKS[:8])}",
                do='Name it: gs.from_frame(df, task="...") in Python, or declare the study in a '
                "file and pass it: --study study.toml.",
            )
        )


def _guess(
    seen: SeenColumns, draft: Draft, score: GuessedScore, policies: GuessedPolicies
) -> Guess:
    measured = next((facet.name for facet in draft.facets if facet.role == "object"), None)
    study = Study(
        facets=[facet.facet() for facet in draft.facets],
        **score.keys,
        object=measured,
        on_failed_run=policies.on_failed_run,
        on_missing_score=policies.on_missing_score,
        data=seen.path,
    )
    left = {name: why_left_out(draft, column) for name, column in draft.free.items()}
    left = {**draft.left_out, **left}
    others = dict.fromkeys(score.others, "could be the score too")
    unseen = dict.fromkeys(seen.unseen, "not looked at")
    return Guess(
        study=study,
        source=PurePath(seen.name).name or seen.name,
        n_rows=draft.n_rows,
        facets=tuple(draft.facets),
        labels=tuple(_labels(draft.columns, facet) for facet in draft.facets),
        score_reason=score.reason,
        other_scores=score.others,
        policy_reasons=dict(policies.reasons),
        left_out={**others, **left, **unseen},
        doubts=(*seen.notes, *score.doubts, *policies.doubts, *draft.doubts),
        unbalanced=_is_unbalanced(draft, score),
        trials=seen.source,
    )


def _labels(columns: Mapping[str, LabelColumn], facet: GuessedFacet) -> tuple[str, ...]:
    column = columns.get(facet.column)
    return () if column is None else tuple(str(value) for value in column.values[:_LABELS])


def _is_unbalanced(draft: Draft, score: GuessedScore) -> bool:
    column = draft.column(TASK)
    if column is None:
        return False
    counts = np.bincount(draft.codes([TASK]), weights=score.trials)
    return bool(counts.max() > _UNBALANCED * max(counts.min(), 1))


def _seen_from(data: Path, folder: Path) -> str:
    """The path of the data as a file in that folder names it."""
    try:
        near = Path(os.path.relpath(data, folder))
    except ValueError:
        return str(data.resolve())
    outside = data.is_absolute() and ".." in near.parts
    return str(data) if outside else near.as_posix()


def _score_text(study: Study, reason: str) -> str:
    score = study.score if study.trials is None else f"{study.successes} of {study.trials}"
    return f"{score}: {reason}"


def _facet_text(facet: GuessedFacet) -> str:
    column = "" if facet.column == facet.name else f" (column {facet.column})"
    nested = f" in each {' x '.join(facet.nested_in)}" if facet.nested_in else ""
    many = "1 label" if facet.n_levels == 1 else f"{facet.n_levels:,} labels"
    levels = many if facet.n_levels else "counted"
    return f"{facet.role}, {levels}{nested}{column}"


def _hanging(text: str, wide: int) -> list[str]:
    """Wrapped; what follows begins under the text, and runs of blanks stay as they are."""
    head, rest = text[:wide], text[wide:]
    if text.startswith("To look at: "):
        return wrapped(text, _WIDTH - 2, indent="  ")
    lines = wrapped(rest.strip(), _WIDTH - 4 - wide)
    return [f"{head if i == 0 else '':<{wide}}  {line}" for i, line in enumerate(lines)]
