"""A fit: posterior draws with the study, the design and the diagnostics that they belong to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from gstudy.errors import QuantityError, did_you_mean, explain
from gstudy.fits.rows import RESIDUAL, beside_lines, interval, sd_rows

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import numpy.typing as npt
    import xarray as xr

    from gstudy.display import Table
    from gstudy.fits.gates import Diagnostics
    from gstudy.study.assessment import Assessment
    from gstudy.study.declaration import Study
    from gstudy.study.graded import Graded

__all__ = ["Fit", "cell_groups"]

_LEVEL = 0.95
_SHOWN_COMPONENTS = 6
_WIDTH = 80
_MOST_LINES = 15
_SDS = "sd of each component ({} scale): median [95% equal-tailed interval]"
_NEXT = "next: gs.score(fit), gs.variance_budget(fit), gs.rerun_noise(fit)"


@dataclass(frozen=True, slots=True, repr=False, eq=False, weakref_slot=True)
class Fit:
    """Posterior draws of one study's model.

    Parameters
    ----------
    posterior : xarray.DataTree
        ArviZ groups: `posterior`, `sample_stats`, `observed_data` (successes per cell) and
        `constant_data` (trials per cell, codes, labels). The posterior, on the logit scale (of
        graded scores in their unit) and with dims chain and draw: `mu`, `sd(<component>)`,
        `u(<component>)` (also the component, with its level labels), `fixed(<facet>)` (also the
        facet), `sd(residual)` of graded scores. A component with own sds has the dim
        `by(<component>)`, the systems, and maybe `corr(<component>)`.
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
        """Grand mean on the logit scale, or in the unit of graded scores; array (chain, draw)."""
        return self._values("mu")

    def sd(self, component: str) -> npt.NDArray[np.float64]:
        """Standard deviation of a component on the logit scale, or in the unit of graded scores.

        Parameters
        ----------
        component : str
            Its name, or its last facet alone where that is unique; "residual" of graded scores.

        Returns
        -------
        array (chain, draw), or (chain, draw, system) of own sds

        Raises
        ------
        QuantityError
            When no fitted component has that name, or no residual sd was estimated.
        """
        if component == RESIDUAL:
            self._check_residual()
            return self._values("sd(residual)")
        return self._values(f"sd({self._component(component)})")

    def own_sd(self, component: str, system: str) -> npt.NDArray[np.float64]:
        """Standard deviation of a component within one level of the object.

        Parameters
        ----------
        component : str
            Its name, or its last facet alone where that is unique.
        system : str
            Label of the object's level.

        Returns
        -------
        array (chain, draw)
            Its own where the component varies by the object, else the one that all share.

        Raises
        ------
        QuantityError
            When there is no such component or level.
        """
        name = self._component(component)
        own = self._dataset()[f"sd({name})"]
        dim = f"by({name})"
        labels = self._systems() if dim not in own.dims else own.coords[dim].values.tolist()
        if system not in labels:
            raise QuantityError(
                explain(
                    f"no {self.study.object or 'object'} is named {system!r}",
                    allowed=labels,
                    do=did_you_mean(system, labels),
                )
            )
        if dim in own.dims:
            own = own.isel({dim: labels.index(system)})
        return np.asarray(own.transpose("chain", "draw").values, dtype=float)

    def own_labels(self, component: str) -> list[str]:
        """The systems that a component with own sds has one for, in the order of its sds."""
        name = self._component(component)
        own = self._dataset()[f"sd({name})"]
        return [str(label) for label in own.coords[f"by({name})"].values]

    def correlation(self, component: str) -> xr.DataArray:
        """Correlations of a component's effects between levels of the object, on the logit scale.

        Parameters
        ----------
        component : str
            Of a facet that is crossed with the object and varies by it.

        Returns
        -------
        xarray.DataArray (chain, draw, by(<component>), by_2(<component>))

        Raises
        ------
        QuantityError
            When no fitted component has that name, or its effects are not correlated.
        """
        name = self._component(component)
        group = self._dataset()
        if f"corr({name})" not in group:
            raise QuantityError(
                explain(
                    f"the effects of {name} have no correlations between levels of the object",
                    allowed=[str(key)[5:-1] for key in group if str(key).startswith("corr(")],
                    do="Only a facet that is crossed with the object and varies by it has them: "
                    f'varies = "{self.study.object or "system"}".',
                )
            )
        return group[f"corr({name})"].transpose("chain", "draw", f"by({name})", f"by_2({name})")

    def fixed(self, facet: str) -> xr.DataArray:
        """Effects of the levels of a controlled facet, which sum to zero.

        Parameters
        ----------
        facet : str
            A controlled facet with several levels.

        Returns
        -------
        xarray.DataArray (chain, draw, <facet>)
            On the logit scale, or in the unit of graded scores.

        Raises
        ------
        QuantityError
            When no such facet has fixed effects.
        """
        names = [component.name for component in self.design.fixed]
        if facet not in names:
            raise QuantityError(
                explain(
                    f"no controlled facet with several levels is named {facet!r}",
                    allowed=names,
                    do=did_you_mean(facet, names),
                )
            )
        return self._dataset()[f"fixed({facet})"].transpose("chain", "draw", facet)

    def effects(self, component: str) -> xr.DataArray:
        """Level effects of a component on the logit scale, or in the unit of graded scores.

        Parameters
        ----------
        component : str
            Its name, or its last facet alone where that is unique.

        Returns
        -------
        xarray.DataArray (chain, draw, <component>), of own effects also by(<component>)
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

    def _dataset(self) -> xr.Dataset:
        return self.posterior["posterior"].to_dataset()

    def _values(self, variable: str) -> npt.NDArray[np.float64]:
        draws = self._dataset()[variable].transpose("chain", "draw", ...)
        return np.asarray(draws.values, dtype=float)

    def _systems(self) -> list[str]:
        """Labels of the object's levels."""
        return list(self.design.cells.labels.get(self.study.object or "", ()))

    def _check_residual(self) -> None:
        if self.design.residual_prior is None:
            raise QuantityError(
                explain(
                    "there is no residual sd",
                    allowed=self.components,
                    do="The noise of a 0/1 score follows from its rate, and standard errors that "
                    "the study names are known.",
                )
            )

    def table(self) -> Table:
        """Sds of the components with intervals, the most variable first."""
        import pandas as pd

        from gstudy.display import Table

        columns = ["component", "levels", "sd", "lower", "upper"]
        return Table(
            frame=pd.DataFrame(sd_rows(self), columns=columns),
            title=_heading(self),
            scale="score" if self.study.family == "gaussian" else "logit",
            level=_LEVEL,
            notes=("sd: posterior median", *beside_lines(self), *_endnotes(self)),
            formats=dict.fromkeys(("sd", "lower", "upper"), "decimal2"),
        )

    def __repr__(self) -> str:
        """At most 15 lines: what was fitted, the sds, the gates, what to call next."""
        from gstudy.display import shortened, wrapped

        table = self.table()
        shown = table.frame.head(_SHOWN_COMPONENTS)
        names = shortened([str(name) for name in shown["component"]], 30)
        width = max(map(len, names), default=0)
        lines = [_SDS.format(table.scale)] if len(shown) else []
        for name, row in zip(names, shown.itertuples(), strict=True):
            sd = f"{row.sd:.2f} [{row.lower:.2f}, {row.upper:.2f}]"
            noun = "trials" if row.component == RESIDUAL else "levels"
            lines.append(f"{name:<{width}}  {sd}  {row.levels} {noun}")
        more = len(table.frame) - len(shown)
        lines += [f"and {more} more: fit.table()"] if more else []
        beside = [wrapped(line, _WIDTH - 2, indent="  ") for line in beside_lines(self)]
        end = [x for line in _endnotes(self) for x in wrapped(line, _WIDTH - 2, indent="  ")]
        lines += _fitting(beside, _MOST_LINES - 1 - len(lines) - len(end))
        return "\n".join([f"<{table.title}>", *(f"  {line}" for line in [*lines, *end])])

    def _repr_html_(self) -> str:
        return self.table().html()


def _fitting(blocks: list[list[str]], most: int) -> list[str]:
    """The first blocks that make no more than so many lines, and where the others are."""
    if sum(map(len, blocks)) <= most:
        return [line for block in blocks for line in block]
    lines: list[str] = []
    for i, block in enumerate(blocks):
        if len(lines) + len(block) + 1 > most:
            return [*lines, f"and {len(blocks) - i} more, beside the sds: fit.table()"]
        lines += block
    return lines


def cell_groups(assessment: Assessment) -> dict[str, xr.Dataset]:
    """The data groups of a fit's DataTree, from its design.

    Parameters
    ----------
    assessment : Assessment

    Returns
    -------
    dict of str to xarray.Dataset
        `observed_data`: `successes` (cell; of graded scores their sum). `constant_data`: `trials`
        (cell); of graded scores `graded(<field>)` with the fields of `Graded`; per facet
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
    if cells.graded is not None:
        variables |= _graded_variables(cells.graded)
    return {
        "observed_data": xr.Dataset({"successes": ("cell", cells.successes)}),
        "constant_data": xr.Dataset(variables, coords=coords),
    }


def _graded_variables(graded: Graded) -> dict[str, Any]:
    """The fields of graded scores as variables; the precisions only where errors are known."""
    found: dict[str, Any] = {
        "graded(mean)": ("cell", graded.mean),
        "graded(squares)": ("cell", graded.squares),
        "graded(log_errors)": ((), graded.log_errors),
    }
    if graded.precision is not None:
        found["graded(precision)"] = ("cell", graded.precision)
    return found


def _heading(fit: Fit) -> str:
    cells = fit.design.cells
    middle, low, high = interval(fit.mu)
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
