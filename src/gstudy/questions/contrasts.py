"""Contrasts: how far a quantity differs between levels with variances of their own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gstudy.display import Shown, Table
from gstudy.errors import QuantityError, did_you_mean, explain
from gstudy.fits.fitted import Fit
from gstudy.fits.gates import stamp
from gstudy.fits.many import Fits, listed_labels
from gstudy.fits.substitutes import advice_on
from gstudy.variance.basis import latent_of
from gstudy.variance.components import variance_components
from gstudy.variance.draws import INTERVAL_KIND, Array, summarise

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from gstudy.variance.components import VarianceComponents

__all__ = ["Contrasts", "contrasts"]

_SMALL = 0.1


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Contrasts(Shown):
    """Differences of one quantity between levels, each level minus the one it is compared with.

    Parameters
    ----------
    draws : xarray.DataArray (chain, draw, contrast)
        With the labels as coordinates `level` and `reference` of the contrasts.
    values : xarray.DataArray (chain, draw, level)
        The quantity itself.
    name : str
        What the quantity is.
    by : str
        The facet or column that the levels are of.
    scale : str or None
        Scale of the quantity, where it says one.
    notes : tuple of str
    """

    draws: xr.DataArray
    values: xr.DataArray
    name: str
    by: str
    scale: str | None
    notes: tuple[str, ...]

    def summary(self, level: float = 0.95) -> pd.DataFrame:
        """One row per contrast.

        Parameters
        ----------
        level : float
            Posterior level of the equal-tailed interval.

        Returns
        -------
        pandas.DataFrame
            Index `level`, `reference`; columns `mean`, `median`, `sd`, `lower`, `upper` of level
            minus reference, and `p_positive`, the posterior probability that it is above 0.

        Raises
        ------
        QuantityError
            For a level outside (0, 1).
        """
        import pandas as pd

        pairs = {name: self.draws.coords[name].values for name in ("level", "reference")}
        values = np.moveaxis(self.draws.transpose("chain", "draw", "contrast").values, -1, 0)
        frame = pd.DataFrame(
            summarise(values, level) | {"p_positive": (values > 0).mean(axis=(1, 2))},
            index=pd.MultiIndex.from_arrays(list(pairs.values()), names=list(pairs)),
        )
        frame.attrs.update(
            scale=self.scale, estimand=self._estimand(), interval=INTERVAL_KIND, level=level
        )
        return frame

    def table(self, level: float = 0.95) -> Table:
        """The table that is printed."""
        frame = self.summary(level)[["mean", "lower", "upper", "p_positive"]]
        # Variances are small: three decimals of them are zeros.
        small = bool(frame[["lower", "upper"]].abs().to_numpy().max(initial=0.0) < _SMALL)
        return Table(
            frame=frame.rename(columns={"p_positive": "P(>0)"}),
            title=self._estimand(),
            scale=self.scale,
            level=level,
            notes=self.notes,
            formats={
                **dict.fromkeys(("mean", "lower", "upper"), "number3" if small else "decimal3"),
                "P(>0)": "decimal3",
            },
        )

    def _estimand(self) -> str:
        return f"Differences of {self.name} by {self.by}: level minus reference"


def contrasts(
    fits: Fits | Mapping[str, Fit] | Fit,
    quantity: Callable[[Any], Any],
    *,
    reference: str | None = None,
    name: str | None = None,
) -> Contrasts:
    """Differences of a quantity between levels, from fits with their own variances.

    Parameters
    ----------
    fits : Fits, mapping of str to Fit, or Fit
        Independent fits, such as `gstudy.fit_by` makes; or one fit in which the systems have sds
        of their own (`varies`).
    quantity : callable
        Takes a fit (of one fit: the variance components of one system), returns one number per
        draw: a result with `draws` (chain, draw), such as `gstudy.icc` gives, a DataArray or an
        array (chain, draw).
    reference : str, optional
        The level that every other is compared with; by default all pairs, the later one in
        natural order minus the earlier one.
    name : str, optional
        What the quantity is, for the table.

    Returns
    -------
    Contrasts

    Raises
    ------
    QuantityError
        For under two fits, an unknown reference, and a quantity without one number per draw, or
        with other numbers of draws at some level; for one fit in which all systems share their
        sds, and for a quantity of one fit that needs more than a system's components.

    Notes
    -----
    Separate posteriors are independent, so that the difference of the i-th draws is a draw of the
    difference: which draws are paired does not matter. Of one fit the i-th draws are of one joint
    posterior, and the differences keep its correlations.

    Examples
    --------
    >>> import gstudy as gs
    >>> fits = gs.fit_by(study, trials, by="system", seed=1)  # doctest: +SKIP
    >>> gs.contrasts(fits, lambda fit: gs.icc(fit, "task"), reference="A")  # doctest: +SKIP
    """
    known = _systems_of(fits) if isinstance(fits, Fit) else _checked(fits)
    if not callable(quantity):
        raise QuantityError(
            explain(
                "the quantity is no function of a fit",
                given=quantity,
                allowed='such as lambda fit: gs.icc(fit, "task")',
            )
        )
    results = {label: _result(quantity, source, label) for label, source in known.items()}
    values = {label: _draws_of(result, label) for label, result in results.items()}
    _check_shapes(values)
    pairs = _pairs(list(values), reference)
    found = np.stack([values[level] - values[base] for level, base in pairs], axis=-1)
    first = next(iter(results.values()))
    differences = _labelled(found, [level for level, _ in pairs], [base for _, base in pairs])
    return Contrasts(
        draws=differences,
        values=_levels(values),
        name=name or _name_of(first),
        by=_by(fits),
        scale=_scale_of(first),
        notes=_notes(fits, differences),
    )


def _by(fits: Fits | Mapping[str, Fit] | Fit) -> str:
    if isinstance(fits, Fit):
        return fits.study.object or "level"
    return fits.by if isinstance(fits, Fits) else "level"


def _systems_of(fit: Fit) -> dict[str, VarianceComponents]:
    """The components of each system of a fit with own sds, by label."""
    latent = latent_of(fit)
    if not latent.own:
        raise QuantityError(
            explain(
                "contrasts are between several fits, or systems with sds of their own",
                given="one fit with one set of sds",
                allowed="what gs.fit_by returns, a mapping of label to fit, or a fit with varies",
                do="A fit with one set of sds makes ICC a function of accuracy: fit each level.",
            )
        )
    return {label: variance_components(fit, system=label) for label in latent.object_effects}


def _result(quantity: Callable[[Any], Any], source: Any, label: str) -> Any:
    """The quantity of one fit, or of one system's components."""
    if isinstance(source, Fit):
        return quantity(source)
    try:
        return quantity(source)
    except (AttributeError, QuantityError) as error:
        raise QuantityError(
            explain(
                f"of one fit the quantity is computed from the components of each system, and that "
                f"of {label!r} cannot be: {error}",
                allowed='such as lambda fit: gs.icc(fit, "task")',
                do="What needs whole fits: gs.contrasts(gs.fit_by(study, trials, by=...), ...); "
                "scores of one fit: gs.compare_systems.",
            )
        ) from error


def _name_of(result: Any) -> str:
    """What a quantity calls itself."""
    return str(getattr(result, "name", None) or "the quantity")


def _scale_of(result: Any) -> str | None:
    """The scale that a result, or an array's attributes, say."""
    found = getattr(result, "scale", None) or getattr(result, "attrs", {}).get("scale")
    return None if found is None else str(found)


def _checked(fits: object) -> Mapping[str, Fit]:
    if not isinstance(fits, Mapping):
        raise QuantityError(
            explain(
                "contrasts are between several fits",
                given=type(fits).__name__,
                allowed="what gs.fit_by returns, a mapping of label to fit, or a fit with varies",
                do=advice_on(fits),
            )
        )
    if len(fits) < 2:
        raise QuantityError(
            explain("a contrast needs two fits", given=list(fits), allowed="two labels or more")
        )
    for label, fit in fits.items():
        if not isinstance(fit, Fit):
            raise QuantityError(
                explain(
                    f"{label!r} is no fit",
                    given=type(fit).__name__,
                    allowed="what gs.fit_by, gs.fit and gs.load return",
                    do=advice_on(fit) or "Give the fits, and the quantity as a function of one.",
                )
            )
    return fits


def _draws_of(result: Any, label: str) -> Array:
    """One number per draw, (chain, draw); dimensions of length 1 are let go."""
    draws = getattr(result, "draws", result)
    if hasattr(draws, "dims"):
        extra = [dim for dim in draws.dims if dim not in ("chain", "draw")]
        named = {"chain", "draw"} <= set(draws.dims)
        if named and all(draws.sizes[dim] == 1 for dim in extra):
            ordered = draws.squeeze(extra, drop=True).transpose("chain", "draw")
            return np.asarray(ordered.values, dtype=float)
    elif isinstance(draws, np.ndarray) and draws.ndim == 2:
        return np.asarray(draws, dtype=float)
    shape = dict(draws.sizes) if hasattr(draws, "sizes") else getattr(draws, "shape", draws)
    raise QuantityError(
        explain(
            f"the quantity is not one number per draw (at {label!r})",
            given=shape,
            allowed="a result with .draws, a DataArray or an array of dims chain and draw",
            do='Choose one row, such as gs.variance_components(fit).draws.sel(component="task").',
        )
    )


def _check_shapes(values: Mapping[str, Array]) -> None:
    shapes = {label: array.shape for label, array in values.items()}
    if len(set(shapes.values())) > 1:
        raise QuantityError(
            explain(
                "the fits have different numbers of chains or draws",
                given=shapes,
                allowed="one number for all",
                do="Fit them alike: gs.fit_by(study, trials, by=...).",
            )
        )


def _pairs(labels: list[str], reference: str | None) -> list[tuple[str, str]]:
    """Level and reference of each contrast."""
    if reference is None:
        return [(later, earlier) for earlier, later in itertools.combinations(labels, 2)]
    if reference not in labels:
        raise QuantityError(
            explain(
                f"no level is called {reference!r}",
                allowed=listed_labels(labels),
                do=did_you_mean(reference, labels),
            )
        )
    return [(label, reference) for label in labels if label != reference]


def _labelled(values: Array, levels: list[str], references: list[str]) -> xr.DataArray:
    import xarray as xr

    names = [f"{level} - {base}" for level, base in zip(levels, references, strict=True)]
    return xr.DataArray(
        values,
        dims=("chain", "draw", "contrast"),
        coords={
            "chain": np.arange(values.shape[0]),
            "draw": np.arange(values.shape[1]),
            "contrast": np.array(names, dtype=object),
            "level": ("contrast", np.array(levels, dtype=object)),
            "reference": ("contrast", np.array(references, dtype=object)),
        },
        name="contrast",
    )


def _levels(values: Mapping[str, Array]) -> xr.DataArray:
    import xarray as xr

    array = np.stack(list(values.values()), axis=-1)
    coords = {"level": np.array(list(values), dtype=object)}
    return xr.DataArray(array, coords, dims=("chain", "draw", "level"), name="value")


def _notes(fits: Fits | Mapping[str, Fit] | Fit, differences: xr.DataArray) -> tuple[str, ...]:
    """What fails a gate: a fit, or the differences themselves."""
    meaning = "P(>0): posterior probability that level is above reference"
    if isinstance(fits, Fit):
        note = stamp(differences, fits.diagnostics)
        paired = "Of one fit with own sds: both of a difference are from the same draws."
        return (*([] if note is None else [note]), paired, meaning)
    if isinstance(fits, Fits):
        failed = fits.stamp()
    else:
        failed = Fits(dict(fits), next(iter(fits.values())).study, "level").stamp()
    if not failed:
        note = stamp(differences)
        failed = () if note is None else (note,)
    return (*failed, meaning)
