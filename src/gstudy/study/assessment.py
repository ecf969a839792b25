"""What a check finds: verdicts, components, cells, the design, notes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gstudy.display import Table, printable
from gstudy.errors import DeclarationError, QuantityError, did_you_mean, explain
from gstudy.study.check_report import (
    WIDTH,
    auto_text,
    collect_table,
    collect_text,
    component_table,
    crossed_table,
    heading,
    listed,
    nested_table,
)
from gstudy.study.checking.layout import NESTED
from gstudy.study.components import FIXED, Component, Verdict
from gstudy.study.integrable import integrable_component
from gstudy.study.memory import LARGEST_STORED, peak_memory
from gstudy.study.priors import Prior, default_mu_prior, default_residual_prior
from gstudy.study.universe import claim_table, is_told

if TYPE_CHECKING:
    import pandas as pd

    from gstudy.study.cells import Cells
    from gstudy.study.checking.layout import Layout
    from gstudy.study.declaration import Study
    from gstudy.study.index_sets import Rule

__all__ = ["LARGEST_STORED", "Assessment"]

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
    score_mean, score_scale : float or None
        Of graded scores the mean and the standard deviation of all usable ones, which default
        priors are made of.
    failed_runs : dict
        What failed runs do to the score, as `Trials.failed_runs`.
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
    score_mean: float | None = None
    score_scale: float | None = None
    failed_runs: dict[str, float | None] = field(default_factory=dict)

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
        """The prior of the mean, on the logit scale or in the unit of graded scores."""
        return self.study.priors.get("mu") or default_mu_prior(
            self.score_mean or 0.0, self.score_scale
        )

    @property
    def residual_prior(self) -> Prior | None:
        """The prior of the residual sd of graded scores; None where there is none to estimate."""
        if self.study.family != "gaussian" or self.study.standard_error is not None:
            return None
        return self.study.priors.get("sd(residual)") or default_residual_prior(
            self.score_scale or 1.0
        )

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
            if row is not None and row.verdict == FIXED:
                raise QuantityError(_is_fixed(row, self.components))
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
        """Bytes that the draws of a fit take: 8 per draw of every sd, correlation, mu and effect.

        Parameters
        ----------
        draws, chains : int

        Returns
        -------
        int
        """
        systems = len(self.cells.labels.get(self.study.object or "", ()))
        per_draw, summed = 1 + (self.residual_prior is not None), 0
        for c in self.cells.components:
            own = systems if c.varies else 1
            crossed = c.varies is not None and c.varies not in c.facets
            # sds and correlations, of fixed effects none; then the effects.
            per_draw += 0 if c.fixed else own + (own**2 if crossed else 0)
            effects = c.n_levels * (own if crossed else 1)
            if c.n_levels <= LARGEST_STORED:
                per_draw += effects
            else:
                summed += 2 * effects
        return _BYTES * (draws * chains * per_draw + summed)

    def peak_memory(
        self,
        draws: int = 1000,
        chains: int = 4,
        *,
        tune: int = 1000,
        sampler: str = "pymc",
        store_effects: bool | None = None,
        keep_every: int = 1,
    ) -> int:
        """Bytes that a fit takes at its peak, libraries and all: within a quarter.

        Parameters
        ----------
        draws, chains, tune, sampler, store_effects
            As in `gstudy.fit`.
        keep_every : int
            Draws made for each one kept: 4 in a refit after a gate failed without divergences.

        Returns
        -------
        int
        """
        return peak_memory(
            self.cells.components,
            len(self.cells.labels.get(self.study.object or "", ())),
            draws=draws,
            tune=tune,
            chains=chains,
            sampler=sampler,
            store_effects=store_effects,
            integrated=integrable_component(self.cells),
            keep_every=keep_every,
        )

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

    def universe_table(self) -> Table:
        """What the claim covers: one row per facet, and per pinned entry of the declaration.

        Returns
        -------
        Table
            Columns facet, role, reason, levels found, universe (a number or "infinite"), sampled;
            its notes tell the policy on failed runs, and the score under each.
        """
        return claim_table(self)

    def tables(self) -> dict[str, Table]:
        """The tables that are shown, those that have rows.

        Returns
        -------
        dict of str to Table
            `components`, `universe` (when it says what is not said elsewhere), `nested`,
            `crossed`, `collect`.
        """
        nested = [p for p in self.layout.pairings if p.how == NESTED]
        crossed = [p for p in self.layout.pairings if p.how != NESTED]
        tables = {
            "components": component_table(self),
            **({"universe": self.universe_table()} if is_told(self) else {}),
            "nested": nested_table(nested),
            "crossed": crossed_table(crossed),
            "collect": collect_table(self.rows),
        }
        return {name: table for name, table in tables.items() if len(table.frame)}

    def __str__(self) -> str:
        tables = self.tables()
        shown = [tables[name].text(WIDTH) for name in tables if name != "collect"]
        lists = [auto_text(self.rows), listed("Notes", self.notes), collect_text(self.rows)]
        blocks = [printable(heading(self)), *shown, *map(printable, lists)]
        return "\n\n".join(block for block in blocks if block)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        import html

        first = html.escape(heading(self)).replace("\n", "<br>")
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in self.notes)
        parts = [
            # A label with two dollar signs is no formula.
            '<div class="tex2jax_ignore mathjax_ignore">',
            f"<p>{first}</p>",
            *(table.html() for table in self.tables().values()),
            f"<ul>{notes}</ul>" if notes else "",
            "</div>",
        ]
        return "\n".join(parts)


def _is_fixed(row: Verdict, components: tuple[Component, ...]) -> str:
    return explain(
        f"{row.name!r} is controlled: its levels have fixed effects, and no variance",
        allowed=[component.name for component in components],
        do=f"Its effects are fit.fixed({row.name!r}).",
    )


def _not_fitted(row: Verdict, components: tuple[Component, ...]) -> str:
    return explain(
        f"{row.name!r} is not in the model: {row.verdict}, {row.reason}",
        allowed=[component.name for component in components],
        do=f"To estimate it, collect {row.advice}." if row.advice else None,
    )
