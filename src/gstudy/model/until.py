"""When there are draws enough: further rounds until every printed quantity has its ESS.

Rounds end at fixed numbers of draws, and their sizes follow from the draws alone, never from a
clock: one seed gives the same draws at any number of cores and on a machine of any speed. One long
run that is watched and cut would save the rounds' warm-up, but not where there are more chains than
cores: nutpie finishes some chains before it starts the others, so that nothing could be cut.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gstudy.errors import DeclarationError, explain
from gstudy.fits.gates import RHAT_LIMIT, assess
from gstudy.model.rounds import Run, fit_of_run, joined, round_settings
from gstudy.model.settings import is_stuck

if TYPE_CHECKING:
    import pandas as pd

    from gstudy.fits.fitted import Fit
    from gstudy.model.settings import Settings
    from gstudy.study.assessment import Assessment

__all__ = ["LADDER", "Printed", "lacking", "lengthened", "until_advice"]

type Printed = Callable[[Fit], Any]
"""A fit to what is printed of it: a result with `draws`, or draws, or several of either."""

LADDER = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 20.0)
"""Sizes at which a run may end, in units of the draws that were asked for; the last is the cap."""

MARGIN = 1.1
"""By how much a round is larger than the effective sizes so far make it: they are estimates."""

MOST_GROWTH = 4.0
"""A run grows by at most this factor in a round: small effective sizes are known badly."""

_TITLES = {"ess_bulk": "bulk ESS", "ess_tail": "tail ESS"}


class Lack(NamedTuple):
    """The quantity that is furthest from what was asked for."""

    text: str
    ess: float


def lengthened(
    run: Run,
    sample: Callable[[Settings], Run],
    assessment: Assessment,
    settings: Settings,
    printed: Sequence[Printed] = (),
) -> Run:
    """Add rounds until every quantity has the effective size that `settings.until` names.

    Parameters
    ----------
    run : Run
        What there is; its draws are the unit of `LADDER`.
    sample : callable
        Settings of one round to its run.
    assessment : Assessment
    settings : Settings
        Of the fit; seed and size of each round follow from its place.
    printed : sequence of callable
        Functions of the fit whose draws are printed too.

    Returns
    -------
    Run
        Shorter than what was asked for where the cap is reached, or a round has divergences or
        energy that mixes badly: more draws do not mend these. `missed` says then what lacks.
    """
    unit = run.draws
    while lack := lacking(run, assessment, settings, printed):
        more = _next_draws(unit, run.draws, lack.ess, settings.until or 0)
        if more == 0 or is_stuck(run.diagnostics):
            return replace(run, missed=lack.text)
        run = joined(run, sample(round_settings(settings, len(run.rounds), more)))
    return run


def lacking(
    run: Run, assessment: Assessment, settings: Settings, printed: Sequence[Printed] = ()
) -> Lack | None:
    """What has not the effective size that was asked for; None when all have it.

    Bulk and tail ESS of everything that the gates measure count, and its R-hat; what is printed is
    computed when these are right.
    """
    if settings.until is None:
        return None
    lack = _least(run.diagnostics.frame, settings.until)
    if lack is not None or not printed:
        return lack
    fit = fit_of_run(run, assessment, settings)
    return _least(_printed_frame(fit, printed), settings.until)


def until_advice(fit: Fit) -> str | None:
    """What to say of a fit that stopped before all had their effective size; None otherwise."""
    missed = fit.settings.get("until_missed")
    if missed is None:
        return None
    return (
        f"until={fit.settings['until']} was not reached with {fit.diagnostics.draws:,} draws of "
        f"each of {fit.diagnostics.chains} chains: {missed}. gs.extend(fit, until=...) goes on; "
        "a weak component with a tighter prior mixes faster."
    )


def _next_draws(unit: int, total: int, ess: float, until: int) -> int:
    """Draws of the next round, so that the run ends on a rung of the ladder; 0 at the cap."""
    needed = total * MARGIN * until / max(ess, 1.0)
    wanted = min(needed, MOST_GROWTH * total)
    rungs = [size for size in (math.ceil(unit * rung) for rung in LADDER) if size > total]
    enough = [size for size in rungs if size >= wanted]
    return (enough or rungs[-1:] or [total])[0] - total


def _least(frame: pd.DataFrame, until: int) -> Lack | None:
    """The smallest effective size below `until`, else the largest R-hat above its limit.

    What does not move, or is not finite, has no effective size that more draws could raise.
    """
    sizes = frame[list(_TITLES)].to_numpy(dtype=float)
    if np.isfinite(sizes).any() and np.nanmin(sizes) < until:
        row, column = divmod(int(np.nanargmin(sizes)), len(_TITLES))
        least = float(sizes[row, column])
        title = list(_TITLES.values())[column]
        return Lack(f"{title} of {frame.index[row]} is {math.floor(least):,}", least)
    rhat = frame["rhat"].to_numpy(dtype=float)
    if np.isfinite(rhat).any() and np.nanmax(rhat) > RHAT_LIMIT:
        row = int(np.nanargmax(rhat))
        text = f"R-hat of {frame.index[row]} is {rhat[row]:.4f} (limit {RHAT_LIMIT})"
        return Lack(text, float(until))
    return None


def _printed_frame(fit: Fit, printed: Sequence[Printed]) -> pd.DataFrame:
    """R-hat and effective sizes of everything that is printed of a fit."""
    quantities: dict[str, NDArray[np.float64]] = {}
    for measure in printed:
        for name, values in _drawn(measure(fit)):
            quantities[f"{name} ({len(quantities)})" if name in quantities else name] = values
    nothing = {"diverging": np.zeros(1, dtype=bool)}
    return assess({}, nothing, derived=quantities).frame


def _drawn(found: Any) -> Iterator[tuple[str, NDArray[np.float64]]]:
    """Names and draws (chain, draw) of a result."""
    found = getattr(found, "draws", found)
    if isinstance(found, list | tuple):
        for one in found:
            yield from _drawn(one)
        return
    if isinstance(found, Mapping):
        for one in found.values():
            yield from _drawn(one)
        return
    if not {"chain", "draw"} <= set(getattr(found, "dims", ())):
        raise DeclarationError(
            explain(
                "a function in printed gives nothing with draws",
                given=type(found).__name__,
                allowed="a result with .draws, or an xarray of draws with dims chain and draw",
                do="Such as printed=[gs.variance_budget].",
            )
        )
    rest = [dim for dim in found.dims if dim not in ("chain", "draw")]
    values = np.asarray(found.transpose("chain", "draw", *rest).values, dtype=float)
    flat = values.reshape(*values.shape[:2], -1)
    name = str(found.name or "the quantity")
    labels = [str(x) for x in found[rest[0]].values] if len(rest) == 1 else []
    for i in range(flat.shape[-1]):
        label = labels[i] if labels else str(i)
        yield (f"{name} of {label}" if rest else name), flat[..., i]
