"""What a check finds: verdicts, components, cells, the design, notes; and how it is shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

from gstudy.display import Table, number, printable, wrapped
from gstudy.errors import DeclarationError, QuantityError, did_you_mean, explain
from gstudy.study.checking.layout import NESTED
from gstudy.study.components import MERGED, TOO_FEW_TRIALS, Component, Verdict
from gstudy.study.priors import MU_DEFAULT, Prior

if TYPE_CHECKING:
    import pandas as pd

    from gstudy.study.cells import Cells
    from gstudy.study.checking.layout import Layout, Pairing
    from gstudy.study.declaration import Study
    from gstudy.study.index_sets import Rule

__all__ = ["LARGEST_STORED", "Assessment"]

# Components with more levels keep the mean and sd of their effects, not the draws.
LARGEST_STORED = 5_000

_COLLECT = "What to collect"
_WIDTH = 80
_BYTES = 8


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Assessment:
    """What the data can say about a study, found without sampling.

    Parameters
    ----------
    study : Study
    rows : tuple of Verdict
        One per index set that was considered.
    components : tuple of Component
        The components of the model.
    cells : Cells
        Binomial cells, with the level of each component.
    rules : tuple of Rule
        What index sets obey: children bring parents, merged sets bring each other.
    layout : Layout
        The design as found.
    notes : tuple of str
        How failed and unscored trials counted, and what to look at before fitting.
    not_sampled : dict of str to str
        Facets with one level, and its label: the claim covers that level only.
    pinned : dict of str to str
        Controlled facets with a column, and their one level.
    counts : pandas.DataFrame
        Rows read, used, failed and unscored, per object level.
    n_trials : int
        Usable trials.
    source : str
        Where the trials came from.
    fixed : tuple of Component
        Fixed effects of controlled facets with several levels, one per facet.
    """

    study: Study
    rows: tuple[Verdict, ...]
    components: tuple[Component, ...]
    cells: Cells
    rules: tuple[Rule, ...]
    layout: Layout
    notes: tuple[str, ...]
    not_sampled: dict[str, str]
    pinned: dict[str, str]
    counts: pd.DataFrame
    n_trials: int
    source: str
    fixed: tuple[Component, ...] = ()

    @property
    def facet_levels(self) -> dict[str, float]:
        """Levels found of each facet, as a balanced design calls them: of a nested facet the
        mean number within one combination of its parents, of a counted one of trials."""
        return dict(self.layout.facet_levels)

    @property
    def sampled(self) -> tuple[str, ...]:
        """The facets that index sets are made of, in declared order."""
        members = frozenset[str]().union(*(component.facets for component in self.components))
        return tuple(facet for facet in self.study.facet_names if facet in members)

    @property
    def mu_prior(self) -> Prior:
        """The prior of the mean, on the logit scale."""
        return self.study.priors.get("mu", MU_DEFAULT)

    def of(self, study: Study) -> Assessment:
        """This assessment, when it is of that study.

        Raises
        ------
        DeclarationError
            When it was made for another one: its components would not be those declared.
        """
        if study == self.study:
            return self
        raise DeclarationError(
            explain(
                "the check is of another study than the one given",
                given=type(study).__name__,
                allowed="the study that the check was made with",
                do="Pass that study, or the trials instead of the check.",
            )
        )

    def component(self, name: str) -> Component:
        """The fitted component that a name means.

        Parameters
        ----------
        name : str
            Its own name, the name of a merged set in it, or facets joined by ":" in any order,
            parents left out or not.

        Returns
        -------
        Component

        Raises
        ------
        QuantityError
            When no fitted component has that name, with the verdict where there is one.
        """
        for component in self.components:
            if name == component.name:
                return component
        parts = frozenset(str(name).split(":"))
        if parts <= frozenset(self.study.facet_names):
            whole = self.study.closure(parts)
            row = next((row for row in self.rows if row.facets == whole), None)
            if row is not None and row.fitted:
                return next(c for c in self.components if c.name == row.component)
            if row is not None:
                raise QuantityError(_not_fitted(row, self.components))
        raise QuantityError(
            explain(
                f"no component is named {name!r}",
                allowed=[component.name for component in self.components],
                do=did_you_mean(name, [component.name for component in self.components]),
            )
        )

    def memory(self, draws: int = 1000, chains: int = 4) -> int:
        """Bytes that the draws of a fit take: 8 per draw of every sd, mu and stored effect.

        Parameters
        ----------
        draws, chains : int

        Returns
        -------
        int
        """
        stored = [c.n_levels for c in self.components if c.n_levels <= LARGEST_STORED]
        summed = [2 * c.n_levels for c in self.components if c.n_levels > LARGEST_STORED]
        per_draw = sum(stored) + len(self.components) + 1
        return _BYTES * (draws * chains * per_draw + sum(summed))

    def summary(self) -> pd.DataFrame:
        """One row per index set that was considered.

        Returns
        -------
        pandas.DataFrame
            Index `component`; columns `levels`, `trials_per_level`, `verdict`, `reason`,
            `fitted_as`, `prior` (logit scale) and `collect`.
        """
        import pandas as pd

        return pd.DataFrame(
            {
                "levels": [row.n_levels for row in self.rows],
                "trials_per_level": [row.trials_per_level for row in self.rows],
                "verdict": [row.verdict for row in self.rows],
                "reason": [row.reason for row in self.rows],
                "fitted_as": [row.component for row in self.rows],
                "prior": [None if row.prior is None else str(row.prior) for row in self.rows],
                "collect": [row.advice for row in self.rows],
            },
            index=pd.Index([row.name for row in self.rows], name="component"),
        )

    def tables(self) -> dict[str, Table]:
        """The tables that are shown, those that have rows.

        Returns
        -------
        dict of str to Table
            `components`, `nested`, `crossed`, `collect`.
        """
        nested = [p for p in self.layout.pairings if p.how == NESTED]
        crossed = [p for p in self.layout.pairings if p.how != NESTED]
        tables = {
            "components": _component_table(self),
            "nested": _nested_table(nested),
            "crossed": _crossed_table(crossed),
            "collect": _collect_table(self.rows),
        }
        return {name: table for name, table in tables.items() if len(table.frame)}

    def __str__(self) -> str:
        tables = self.tables()
        shown = [tables[name].text(_WIDTH) for name in tables if name != "collect"]
        lists = [_auto_text(self.rows), _listed("Notes", self.notes), _collect_text(self.rows)]
        blocks = [printable(_heading(self)), *shown, *map(printable, lists)]
        return "\n\n".join(block for block in blocks if block)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        import html

        heading = html.escape(_heading(self)).replace("\n", "<br>")
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in self.notes)
        parts = [
            # A label with two dollar signs is no formula.
            '<div class="tex2jax_ignore mathjax_ignore">',
            f"<p>{heading}</p>",
            *(table.html() for table in self.tables().values()),
            f"<ul>{notes}</ul>" if notes else "",
            "</div>",
        ]
        return "\n".join(parts)


def _not_fitted(row: Verdict, components: tuple[Component, ...]) -> str:
    return explain(
        f"{row.name!r} is not in the model: {row.verdict}, {row.reason}",
        allowed=[component.name for component in components],
        do=f"To estimate it, collect {row.advice}." if row.advice else None,
    )


def _heading(assessment: Assessment) -> str:
    balance = "balanced" if assessment.layout.balanced else "unbalanced"
    source = PurePath(assessment.source).name
    n_trials = _plural(assessment.n_trials, "usable trial")
    lines = [f"{source}: {n_trials}, {balance}.", _model_line(assessment)]
    levels = (
        f"{facet} {n:,}" if isinstance(n, int) else f"{facet} {number(n)} on average"
        for facet, n in assessment.facet_levels.items()
    )
    lines.append(f"Levels: {', '.join(levels)}.")
    if assessment.not_sampled:
        facets = ", ".join(f"{f} ({label!r})" for f, label in assessment.not_sampled.items())
        lines.append(f"One level only, so that the claim covers no other: {facets}.")
    lines.append(_rerun_line(assessment.study))
    fixed: Mapping[str, object] = {**assessment.pinned, **assessment.study.controlled}
    if fixed:
        pairs = ", ".join(f"{name} = {value}" for name, value in fixed.items())
        lines.append(f"Pinned: {pairs}.")
    return "\n".join(line for text in lines for line in wrapped(text, _WIDTH, indent="  "))


def _rerun_line(study: Study) -> str:
    """What a re-run draws anew, and how to say so when only the nesting did."""
    redrawn = study.redrawn_on_rerun()
    drawn = [name for name in study.facet_names if name in redrawn]
    kept = [
        facet.name
        for facet in study.facets
        if facet.name not in redrawn and facet.role not in ("object", "controlled")
    ]
    line = f"A re-run draws anew: {', '.join(drawn) or 'only the chance of each trial'}"
    line += f"; it keeps {', '.join(kept)}." if kept else "."
    if study.rollout is not None or study.trials is not None or not drawn:
        return line
    if study.object in study.closure(drawn):
        return line
    # A task nested in its environment has the same structure as a rollout nested in its task.
    return f'{line} If not so, declare rollout = "<facet>" or "none" above the facets.'


def _model_line(assessment: Assessment) -> str:
    n_components, n_cells = len(assessment.components), len(assessment.cells.trials)
    return (
        f"Model: {_plural(n_components, 'component')}, {_plural(n_cells, 'binomial cell')}; "
        f"4 x 1,000 draws take {_size(assessment.memory())}."
    )


def _plural(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def _size(n_bytes: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6)):
        if n_bytes >= size:
            return f"{number(n_bytes / size, 2)} {unit}"
    return f"{max(n_bytes // 1000, 1)} kB"


def _component_table(assessment: Assessment) -> Table:
    import pandas as pd

    rows = assessment.rows
    frame = pd.DataFrame(
        {
            "component": [row.name for row in rows],
            "levels": [row.n_levels for row in rows],
            "trials each": [row.trials_per_level for row in rows],
            "verdict": [_short_verdict(row) for row in rows],
            "sd prior": [_short_prior(row.prior) for row in rows],
        }
    )
    return Table(
        frame=frame,
        title="Components",
        notes=(f"Priors are on the logit scale; mu ~ {_short_prior(assessment.mu_prior)}.",),
        formats={"trials each": "count"},
    )


def _short_verdict(row: Verdict) -> str:
    if row.verdict.startswith(MERGED):
        return "merged"
    return "too few trials" if row.verdict == TOO_FEW_TRIALS else row.verdict


def _short_prior(prior: Prior | None) -> str:
    if prior is None:
        return ""
    return f"{prior.dist}({', '.join(f'{value:g}' for _, value in prior.parameters)})"


def _nested_table(pairings: Sequence[Pairing]) -> Table:
    return _spread_table(
        pairings,
        "Nested facets: levels per combination of parents",
        {
            "facet": [pairing.facet for pairing in pairings],
            "nested in": [", ".join(pairing.others) for pairing in pairings],
            "levels": [pairing.filled for pairing in pairings],
            "parents": [pairing.possible for pairing in pairings],
        },
    )


def _crossed_table(pairings: Sequence[Pairing]) -> Table:
    return _spread_table(
        pairings,
        "Pairs of facets: trials per filled cell",
        {
            "facets": [f"{pairing.facet} x {pairing.others[0]}" for pairing in pairings],
            "design": [pairing.how for pairing in pairings],
            "cells": [pairing.filled for pairing in pairings],
            "possible": [pairing.possible for pairing in pairings],
        },
    )


def _spread_table(
    pairings: Sequence[Pairing], title: str, columns: Mapping[str, Sequence[object]]
) -> Table:
    import pandas as pd

    spread = {
        "least": [pairing.least for pairing in pairings],
        "median": [pairing.median for pairing in pairings],
        "most": [pairing.most for pairing in pairings],
    }
    formats = {"least": "int", "median": "count", "most": "int"}
    return Table(frame=pd.DataFrame({**columns, **spread}), title=title, formats=formats)


def _collect_table(rows: Sequence[Verdict]) -> Table:
    import pandas as pd

    told = [row for row in rows if row.advice]
    frame = pd.DataFrame(
        {
            "component": [row.name for row in told],
            "verdict": [row.verdict for row in told],
            "reason": [row.reason for row in told],
            "collect": [row.advice for row in told],
        }
    )
    return Table(frame=frame, title=_COLLECT)


def _collect_text(rows: Sequence[Verdict]) -> str:
    """What to collect, as sentences; merged sets once, interactions that auto tried elsewhere."""
    told: dict[str, str] = {}
    for row in rows:
        if row.advice and (row.fitted or row.asked != "auto"):
            merged = row.component if row.verdict.startswith(MERGED) else None
            state = "merged: they split the rows identically" if merged else _state(row)
            told.setdefault(merged or row.name, f"{state}. Collect {row.advice}.")
    return _listed(_COLLECT, [f"{name}: {text}" for name, text in told.items()])


def _auto_text(rows: Sequence[Verdict]) -> str:
    """The interactions that auto tried and did not take, and why."""
    left = [f"{row.name}: {_state(row)}" for row in rows if row.asked == "auto" and not row.fitted]
    return _listed("Interactions that auto does not take", left)


def _state(row: Verdict) -> str:
    return f"{row.verdict} ({row.reason})"


def _listed(title: str, texts: Sequence[str]) -> str:
    """A title and its points; "" when there are none."""
    if not texts:
        return ""
    lines = [line for text in texts for line in wrapped(f"- {text}", _WIDTH, indent="  ")]
    return "\n".join([title, *lines])
