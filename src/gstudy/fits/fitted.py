"""A fit: posterior draws with the study, the design and the diagnostics that they belong to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from gstudy.errors import QuantityError, explain

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import numpy.typing as npt
    import xarray as xr

    from gstudy.display import Table
    from gstudy.fits.gates import Diagnostics
    from gstudy.study.assessment import Assessment
    from gstudy.study.declaration import Study

__all__ = ["Fit", "cell_groups"]

# House interval: equal-tailed, which is invariant from sd to variance to share.
_LEVEL = 0.95
_SHOWN_COMPONENTS = 6
_WIDTH = 80
_SDS = "sd of each component (logit scale): median [95% equal-tailed interval]"
_NEXT = "next: gs.score(fit), gs.variance_budget(fit), gs.rerun_noise(fit)"


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Fit:
    """Posterior draws of one study's model.

    Parameters
    ----------
    posterior : xarray.DataTree
        ArviZ groups: `posterior` (`mu`, `sd(<component>)`, `u(<component>)`, logit scale, dims
        chain, draw and, of effects, the component with its level labels), `sample_stats`,
        `observed_data` (successes per cell) and `constant_data` (trials per cell, codes, labels).
    study : Study
        The declaration.
    design : Assessment
        The design as found, with its components and cells.
    diagnostics : Diagnostics
        The sampler's gates.
    settings : mapping
        Seed, draws, tune, chains, sampler, target_accept, versions: JSON-able.

    Examples
    --------
    >>> import gstudy as gs
    >>> study, trials = gs.example("airline")
    >>> fit = gs.fit(study, trials, seed=1, sampler="direct", progress=False)  # doctest: +SKIP
    >>> fit.sd("task").shape  # doctest: +SKIP
    (4, 1000)
    """

    posterior: xr.DataTree
    study: Study
    design: Assessment
    diagnostics: Diagnostics
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def components(self) -> tuple[str, ...]:
        """Names of the fitted components, in declared order."""
        return tuple(component.name for component in self.design.components)

    @property
    def mu(self) -> npt.NDArray[np.float64]:
        """Grand mean on the logit scale, array (chain, draw)."""
        return self._values("mu")

    def sd(self, component: str) -> npt.NDArray[np.float64]:
        """Standard deviation of a component on the logit scale.

        Parameters
        ----------
        component : str
            Its name, or its last facet alone where that is unique.

        Returns
        -------
        array (chain, draw)

        Raises
        ------
        QuantityError
            When no fitted component has that name.
        """
        return self._values(f"sd({self._component(component)})")

    def effects(self, component: str) -> xr.DataArray:
        """Level effects of a component on the logit scale.

        Parameters
        ----------
        component : str
            Its name, or its last facet alone where that is unique.

        Returns
        -------
        xarray.DataArray (chain, draw, <component>)
            Labels of the levels are its coordinates.

        Raises
        ------
        QuantityError
            When no fitted component has that name, or only the mean and sd of its effects were
            kept.
        """
        name = self._component(component)
        group = self.posterior["posterior"]
        if f"u({name})" not in group:
            raise QuantityError(
                explain(
                    f"the draws of the {name} effects were not kept, only their mean and sd",
                    do=f"They are in fit.posterior['posterior'] as u_mean({name}) and "
                    f"u_sd({name}); for the draws fit again with store_effects=True.",
                )
            )
        effects = group.to_dataset()[f"u({name})"]
        return effects.transpose("chain", "draw", ...)

    def save(self, path: str | Path) -> None:
        """Write the fit as one netCDF file, whole or not at all.

        Parameters
        ----------
        path : str or Path

        Raises
        ------
        RunFileError
            When the file cannot be written.
        """
        from gstudy.fits.files import save

        save(self, path)

    def _component(self, name: str) -> str:
        return self.design.component(name).name

    def _values(self, variable: str) -> npt.NDArray[np.float64]:
        draws = self.posterior["posterior"].to_dataset()[variable].transpose("chain", "draw")
        return np.asarray(draws.values, dtype=float)

    def table(self) -> Table:
        """Sds of the components with intervals, the most variable first."""
        import pandas as pd

        from gstudy.display import Table

        rows = [
            (component.name, component.n_levels, *_interval(self.sd(component.name)))
            for component in self.design.components
        ]
        rows.sort(key=lambda row: -row[2])
        columns = ["component", "levels", "sd", "lower", "upper"]
        return Table(
            frame=pd.DataFrame(rows, columns=columns),
            title=_heading(self),
            scale="logit",
            level=_LEVEL,
            notes=("sd: posterior median", *_endnotes(self)),
            formats=dict.fromkeys(("sd", "lower", "upper"), "decimal2"),
        )

    def __repr__(self) -> str:
        """At most 15 lines: what was fitted, the sds, the gates, what to call next."""
        from gstudy.display import shorten

        table = self.table()
        shown = table.frame.head(_SHOWN_COMPONENTS)
        width = min(max((len(name) for name in shown["component"]), default=0), 30)
        lines = [_SDS] if len(shown) else []
        for row in shown.itertuples():
            name = shorten(str(row.component), width)
            sd = f"{row.sd:.2f} [{row.lower:.2f}, {row.upper:.2f}]"
            lines.append(f"{name:<{width}}  {sd}  {row.levels} levels")
        more = len(table.frame) - len(shown)
        lines += [f"and {more} more: fit.table()"] if more else []
        lines += _endnotes(self)
        return "\n".join([f"<{table.title}>", *(f"  {shorten(x, _WIDTH - 2)}" for x in lines)])

    def _repr_html_(self) -> str:
        return self.table().html()


def cell_groups(assessment: Assessment) -> dict[str, xr.Dataset]:
    """The data groups of a fit's DataTree, from its design.

    Parameters
    ----------
    assessment : Assessment

    Returns
    -------
    dict of str to xarray.Dataset
        `observed_data`: `successes` (cell). `constant_data`: `trials` (cell); per facet
        `code(<facet>)` (cell) and the labels that the codes point at, as coordinate
        `labels(<facet>)`; per component `index(<component>)` (cell), the level of each cell, and
        `levels(<component>)` (<component>, facets), the codes of each level.
    """
    import xarray as xr

    cells = assessment.cells
    variables: dict[str, Any] = {"trials": ("cell", cells.trials)}
    coords: dict[str, Any] = {}
    for i, facet in enumerate(cells.facets):
        coords[f"labels({facet})"] = np.array(cells.labels[facet], dtype=str)
        variables[f"code({facet})"] = ("cell", cells.codes[:, i])
    for i, component in enumerate(cells.components):
        name = component.name
        coords[name] = np.array(cells.level_labels(i), dtype=str)
        variables[f"index({name})"] = ("cell", cells.index[i])
        variables[f"levels({name})"] = ((name, f"facets({name})"), cells.levels[i])
        inside = [facet for facet in cells.facets if facet in component.facets]
        coords[f"facets({name})"] = np.array(inside, dtype=str)
    return {
        "observed_data": xr.Dataset({"successes": ("cell", cells.successes)}),
        "constant_data": xr.Dataset(variables, coords=coords),
    }


def _interval(values: npt.NDArray[np.float64]) -> tuple[float, float, float]:
    """Median and equal-tailed interval over all draws."""
    tail = (1 - _LEVEL) / 2
    low, middle, high = np.quantile(values, [tail, 0.5, 1 - tail])
    return float(middle), float(low), float(high)


def _heading(fit: Fit) -> str:
    cells = fit.design.cells
    middle, low, high = _interval(fit.mu)
    return (
        f"gstudy fit, {fit.study.family} score: {int(cells.trials.sum()):,} trials in "
        f"{len(cells.trials):,} cells, mu {middle:.2f} [{low:.2f}, {high:.2f}]"
    )


def _endnotes(fit: Fit) -> tuple[str, ...]:
    """Gates, settings, and what to call next."""
    return str(fit.diagnostics), _settings_text(fit), _NEXT


def _settings_text(fit: Fit) -> str:
    known = fit.settings
    parts = [f"{fit.diagnostics.chains} chains x {fit.diagnostics.draws:,} draws"]
    parts += [f"{key} {known[key]}" for key in ("seed", "sampler") if known.get(key) is not None]
    return ", ".join(parts)
