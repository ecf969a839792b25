"""Extension: more draws of a fit's posterior, also of one from a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gstudy.errors import QuantityError, explain
from gstudy.fits.fitted import Fit
from gstudy.fits.substitutes import advice_on
from gstudy.model.recovered import SAMPLE
from gstudy.model.rounds import Run, fit_of_run, joined, round_settings, sampled_round
from gstudy.model.sampling import drawing, warn_of_gates
from gstudy.model.settings import (
    REFIT_TARGET_ACCEPT,
    Settings,
    can_show_progress,
    is_stuck,
    read_until,
    whole,
)
from gstudy.model.until import lengthened

if TYPE_CHECKING:
    import xarray as xr

    from gstudy.model.rounds import Draw
    from gstudy.model.until import Printed

__all__ = ["extend", "run_of"]

Floats = NDArray[np.float64]

_NEEDED = ("seed", "tune", "chains", "sampler", "target_accept")


def extend(
    fit: Fit,
    *,
    draws: int | None = None,
    until: int | None = None,
    printed: Sequence[Printed] = (),
    cores: int | None = None,
    progress: bool = True,
) -> Fit:
    """More draws of a fit's posterior, appended to each of its chains.

    Chains start anew from another stream of the fit's seed and warm up again, with the sampler,
    `tune` and target_accept of the fit: the fit needs nothing but what its file holds. The gates
    are measured over all draws. A round with divergences, or with energy that mixes badly, is made
    once more at target_accept 0.99, as are those after it, and that is recorded.

    Parameters
    ----------
    fit : Fit
        Of `gstudy.fit`, `gstudy.fit_by` or `gstudy.load`; it stays as it is.
    draws : int, optional
        Draws to add to each chain; as many as there are when `until` is not given either.
    until : int, optional
        Add rounds until every quantity has this bulk and tail ESS, as in `gstudy.fit`; at most 20
        times the draws there were (with `draws`, were after these).
    printed : sequence of callable
        Functions of the fit whose results need their ESS too.
    cores : int, optional
        Chains sampled at the same time; all processors by default.
    progress : bool
        Show progress on a terminal or in Jupyter.

    Returns
    -------
    Fit
        Its `settings["rounds"]` are the draws of each chain, round by round. The same calls give
        the same draws, whether the fit was saved and loaded between them or not.

    Raises
    ------
    DeclarationError
        When `draws` or `until` is out of range.
    QuantityError
        For what is no fit; when the fit does not say how it was sampled, or draws that the gates
        need were not kept.

    Warns
    -----
    ConvergenceWarning
        When a gate fails, or `until` was not reached. Divergences that the fit had remain.

    Examples
    --------
    >>> import gstudy as gs
    >>> fit = gs.load("run.nc")  # doctest: +SKIP
    >>> longer = gs.extend(fit, until=1000, printed=[gs.variance_budget])  # doctest: +SKIP
    """
    _check_fit(fit)
    settings = _settings_of(fit, until, cores, progress)
    run = run_of(fit)
    if draws is None and until is None:
        draws = run.draws
    elif draws is not None:
        draws = whole("draws", draws, 1)
    draw, accept = drawing(fit.design, settings.sampler), settings.target_accept

    def sample(asked: Settings) -> Run:
        nonlocal accept
        found, accept = _mended_round(draw, replace(asked, target_accept=accept))
        return found

    if draws is not None:
        run = joined(run, sample(round_settings(settings, len(run.rounds), draws)))
    if until is not None:
        run = lengthened(run, sample, fit.design, settings, printed)
    longer = fit_of_run(run, fit.design, replace(settings, target_accept=accept))
    warn_of_gates(longer, stacklevel=3)
    return longer


def run_of(fit: Fit) -> Run:
    """The run that a fit was made of, from what its file holds.

    Raises
    ------
    QuantityError
        When draws that its gates measured were not kept.
    """
    tree = fit.posterior
    data = tree["posterior"].to_dataset()
    variables: dict[str, tuple[tuple[str, ...], Floats]] = {}
    for key, array in data.data_vars.items():
        ordered = array.transpose(*SAMPLE, ...) if "draw" in array.dims else array
        variables[str(key)] = (tuple(map(str, ordered.dims)), ordered.to_numpy())
    found = dict(_quantities(fit, data))
    names = [str(name) for name in fit.diagnostics.frame.index]
    lost = [name for name in names if name not in found]
    if lost:
        raise QuantityError(
            explain(
                "draws that the gates measure were not kept, so that this fit cannot go on",
                given=lost[0],
                do="Fit again with more draws, or with store_effects=True.",
            )
        )
    coords = {str(name): x.to_numpy() for name, x in data.coords.items() if name not in SAMPLE}
    n_draws = int(data.sizes["draw"])
    return Run(
        quantities={name: found[name] for name in names},
        variables=variables,
        coords=coords,
        stats=tree["sample_stats"].to_dataset(),
        diagnostics=fit.diagnostics,
        rounds=tuple(fit.settings.get("rounds", (n_draws,))),
    )


def _check_fit(fit: object) -> None:
    if not isinstance(fit, Fit):
        raise QuantityError(
            explain(
                "more draws are of a fit",
                given=type(fit).__name__,
                allowed="what gs.fit and gs.load return",
                do=advice_on(fit),
            )
        )


def _settings_of(fit: Fit, until: int | None, cores: int | None, progress: bool) -> Settings:
    """How the fit was sampled, and how long it is to go on."""
    known: Mapping[str, Any] = fit.settings
    missing = [name for name in _NEEDED if name not in known]
    if missing:
        raise QuantityError(
            explain(
                f"the fit does not say how it was sampled: {', '.join(missing)} is not recorded",
                do="Fit the study again with gs.fit.",
            )
        )
    large = [name for name in fit.components if f"u_mean({name})" in fit.posterior["posterior"]]
    return Settings(
        **{name: known[name] for name in _NEEDED},
        draws=int(known.get("draws", fit.diagnostics.draws)),
        cores=None if cores is None else whole("cores", cores, 1),
        progress=progress and can_show_progress(),
        store_effects=None if large else True,
        keep_every=int(known.get("keep_every", 1)),
        until=read_until(until),
        sized=bool(known.get("chains_sized", False)),
    )


def _mended_round(draw: Draw, settings: Settings) -> tuple[Run, float]:
    """A round, made once more with shorter steps when more draws could not mend it; beside it the
    target_accept that later rounds start with."""
    run = sampled_round(draw, settings)
    strict = settings.target_accept >= REFIT_TARGET_ACCEPT
    if strict or not is_stuck(run.diagnostics):
        return run, settings.target_accept
    again = sampled_round(draw, replace(settings, target_accept=REFIT_TARGET_ACCEPT))
    found = run.diagnostics.divergences
    why = f"{found} divergence{'' if found == 1 else 's'}" if found else "a low E-BFMI"
    text = f"{settings.draws:,} more draws made again at target_accept {REFIT_TARGET_ACCEPT}: {why}"
    mended = replace(again.diagnostics, refits=(text,))
    return replace(again, diagnostics=mended), REFIT_TARGET_ACCEPT


def _quantities(fit: Fit, data: xr.Dataset) -> Iterator[tuple[str, Floats]]:
    """What the gates measure of a fit, by name, as far as its draws were kept."""
    for name in ("mu", "sd(residual)"):
        if name in data:
            yield name, _draws(data[name])
    cells = fit.design.cells
    for place, component in enumerate(cells.components):
        name, labels = component.name, cells.level_labels(place)
        if component.fixed:
            yield from _each(f"fixed({name})", data[f"fixed({name})"], labels)
            continue
        own = [str(x) for x in data[f"by({name})"].to_numpy()] if f"by({name})" in data else []
        sds = data[f"sd({name})"]
        yield from _each(f"sd({name})", sds, own) if own else [(f"sd({name})", _draws(sds))]
        if f"corr({name})" in data:
            values = _draws(data[f"corr({name})"])
            for a, b in combinations(range(len(own)), 2):
                yield f"corr({name})[{own[a]}, {own[b]}]", values[..., a, b]
        if component.facets == frozenset({fit.study.object}) and f"u({name})" in data:
            levels = _draws(data["mu"])[..., None] + _draws(data[f"u({name})"])
            for i, label in enumerate(labels):
                yield f"mu + u({label})", levels[..., i]


def _each(name: str, array: xr.DataArray, labels: Sequence[str]) -> Iterator[tuple[str, Floats]]:
    values = _draws(array)
    for i, label in enumerate(labels):
        yield f"{name}[{label}]", values[..., i]


def _draws(array: xr.DataArray) -> Floats:
    return np.asarray(array.transpose(*SAMPLE, ...).to_numpy(), dtype=float)
