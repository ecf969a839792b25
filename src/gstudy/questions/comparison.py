"""Two systems: their difference under three named estimands, and what it is made of."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from gstudy._words import listed, plural
from gstudy.errors import QuantityError, did_you_mean, explain
from gstudy.fits.fitted import Fit
from gstudy.fits.many import Fits
from gstudy.fits.substitutes import advice_on
from gstudy.questions.banks import bank_mean, kept_facets, new_level_mean, task_facet
from gstudy.questions.differences import A_DESIGN, NEW_TASKS, THESE_TASKS, Comparison
from gstudy.questions.discordance import Discordance, aligned, discordance_of
from gstudy.questions.finite_banks import bank_levels
from gstudy.questions.unlike import refuse_unlike, unlike_levels
from gstudy.study.designs import Design
from gstudy.variance.basis import basis_of, latent_of
from gstudy.variance.designs import design_text
from gstudy.variance.draws import Array, checked_seed
from gstudy.variance.latent import BINARY
from gstudy.variance.pairs import Pair, comparable, pair_of

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["compare_systems"]

CONFOUNDED = (
    "The systems share no {tasks}: their difference cannot be told from that of their {tasks}."
)
SHARED = (
    "The sds are shared by all systems of this fit: the split into data and re-run noise follows "
    "each system's own mean, not its own variances. To compare the noise or the ICC of these two, "
    "give them variances of their own (varies, or gs.fit_by)."
)
SEPARATE = (
    "Separate fits: over new tasks the covariance on tasks that both ran is not counted, so that "
    "its interval is too wide, and P(better) too near to one half, where the same tasks are hard "
    "for both. A joint fit of the two, "
    "with own sds by varies, counts it and adds the row 'a design' and the split of the noise."
)


def compare_systems(
    fit: Fit | Fits,
    baseline: str,
    other: str,
    *,
    margin: float = 0.0,
    design: Mapping[str, int] | None = None,
    tasks: str | None = None,
    seed: int = 0,
) -> Comparison:
    """The difference B - A of two systems, A the baseline, under three named estimands.

    Parameters
    ----------
    fit : Fit or Fits
        A joint fit of two or more systems, best with own sds (`varies`); or the separate fits of
        `gs.fit_by` by the object, which tell the first two estimands only.
    baseline, other : str
        A and B.
    margin : float
        B is worse when it is below A by more than this; 0.02 is 2 points.
    design : mapping of str to int, optional
        Design of the last estimand, alike for both systems; by default as collected.
    tasks : str, optional
        The facet whose levels are compared one by one; by default the legitimate facet with most
        levels that a re-run keeps.
    seed : int
        Of the predictive draws, and of effects on levels that one of the systems did not run.

    Returns
    -------
    Comparison

    Raises
    ------
    QuantityError
        For systems that were not fitted or are the same, a margin that is negative (or, of pass
        rates, 1 or more), a facet that is no kept one, a design that is not usable, and one with
        separate fits.

    Notes
    -----
    "new tasks": ``E expit`` over new levels of every random facet, B's less A's, per draw of the
    joint posterior. "these tasks": the mean over the levels in the data of each system's
    probability given their fitted effects; a level has the mean of its weights in the two
    reported scores, and what a re-run draws anew is integrated over. "a design": a normal draw
    around the first (around the declared bank, if there is one) with ``Var(B - A) = Var_A + Var_B
    - 2 Cov``, see `gstudy.variance.pairs`. Data noise comes from new tasks, re-run noise from
    what a re-run draws anew.

    Examples
    --------
    >>> import gstudy as gs
    >>> fit = gs.load("run.nc")  # doctest: +SKIP
    >>> gs.compare_systems(fit, "A", "B", margin=0.02).summary()  # doctest: +SKIP
    """
    seed = checked_seed(seed)
    if isinstance(fit, Fits):
        return _of_separate(fit, baseline, other, margin, design, tasks, seed)
    if not isinstance(fit, Fit):
        raise QuantityError(
            explain(
                "two systems are compared by a fit",
                given=type(fit).__name__,
                allowed="what gs.fit, gs.load and gs.fit_by return",
                do=advice_on(fit),
            )
        )
    basis = basis_of(fit)
    latent = comparable(basis, baseline, other)
    margin = _margin(margin, fit.study.family)
    pair = pair_of(fit, baseline, other, design)
    task = _task(fit, tasks)
    found = discordance_of({baseline: fit, other: fit}, (baseline, other), task, seed)
    first, second = (
        new_level_mean(latent.given(label, own_weights=False)) for label in (baseline, other)
    )
    new = second - first
    centre = new if design is not None else pair.means[1] - pair.means[0]
    if bank_levels(fit, latent, baseline) is not None:
        scores = [_bank_score(fit, label, seed) for label in (baseline, other)]
        centre = scores[1] - scores[0]
    rng = np.random.default_rng([seed, 1])
    reported = centre + np.sqrt(pair.difference) * rng.standard_normal(new.shape)
    draws = _labelled(
        {NEW_TASKS: new, THESE_TASKS: found.difference, A_DESIGN: reported}, "estimand"
    )
    return Comparison(
        draws=draws,
        baseline=baseline,
        other=other,
        margin=margin,
        design=_design_words(design),
        noise=_labelled(_split(fit, pair, task), "part"),
        discordance=found,
        family=fit.study.family,
        notes=(
            *basis.stamp(draws),
            *_confounded(found, task),
            *(() if latent.own else (SHARED,)),
            *unlike_levels(dict.fromkeys((baseline, other), fit)),
            *_bounds(pair),
        ),
    )


def _of_separate(
    fits: Fits,
    baseline: str,
    other: str,
    margin: float,
    design: Mapping[str, int] | None,
    tasks: str | None,
    seed: int,
) -> Comparison:
    """The comparison of two separate fits, whose posteriors are independent."""
    if design is not None:
        raise QuantityError(
            explain(
                "separate fits do not tell how two scores of one design covary",
                given=design,
                do="Leave design out, or fit both systems together: gs.fit, with varies.",
            )
        )
    if fits.by != fits.study.object:
        raise QuantityError(
            explain(
                "two systems are compared by fits of each system",
                given=f"fits by {fits.by!r}",
                allowed=f"gs.fit_by(..., by={fits.study.object!r})",
            )
        )
    parts = {label: fits[label] for label in (baseline, other)}
    if len(parts) == 1:
        raise QuantityError(
            explain("a system is compared with itself", given=baseline, allowed="two labels")
        )
    refuse_unlike(parts)
    family = fits.study.family
    margin = _margin(margin, family)
    task = _task(parts[baseline], tasks)
    found = discordance_of(parts, (baseline, other), task, seed)
    scores = [_new_level_score(part) for part in parts.values()]
    first, second = aligned(scores)
    new = second - first
    draws = _labelled({NEW_TASKS: new, THESE_TASKS: found.difference}, "estimand")
    return Comparison(
        draws=draws,
        baseline=baseline,
        other=other,
        margin=margin,
        design="",
        noise=None,
        discordance=found,
        family=family,
        notes=(
            *_stamps(draws, parts),
            *_confounded(found, task),
            *unlike_levels(parts),
            SEPARATE,
        ),
    )


def _split(fit: Fit, pair: Pair, task: str | None) -> dict[str, Array]:
    """Var(B - A) by what draws it: new tasks, new levels of other kept facets, a re-run."""
    study = fit.study
    of_tasks = frozenset(
        facet for facet in pair.structure.facets if task is None or task in study.closure(facet)
    )
    parts = {"data": pair.kept_of(of_tasks)}
    others = [s for s in pair.sets if not s & of_tasks]
    if not all(pair.structure.redrawn_sets(others)):
        parts["other levels"] = pair.data - parts["data"]
    return {**parts, "re-run": pair.rerun, "total": pair.difference}


def _new_level_score(fit: Fit) -> Array:
    """Expected score over new levels of the one system of a fit."""
    latent = latent_of(fit)
    label = next(iter(latent.object_effects), None)
    return new_level_mean(latent.given(label) if latent.object and label else latent)


def _bank_score(fit: Fit, label: str, seed: int) -> Array:
    """Expected score over the declared bank."""
    levels = bank_levels(fit, latent_of(fit), label)
    assert levels is not None
    return bank_mean(fit, label, levels, seed)


def _margin(margin: object, family: str) -> float:
    """The margin, checked."""
    number_given = isinstance(margin, Real) and not isinstance(margin, bool)
    value = float(margin) if number_given and isinstance(margin, Real) else np.nan
    if not 0 <= value < (1.0 if family == BINARY else np.inf):
        raise QuantityError(
            explain(
                "the margin is not usable",
                given=margin,
                allowed="numbers from 0 on, below 1 of pass rates",
                do="Write margin=0.02 for 2 points.",
            )
        )
    return value


def _task(fit: Fit, tasks: str | None) -> str | None:
    """The facet whose levels are compared one by one."""
    if tasks is None:
        return task_facet(fit)
    known = kept_facets([fit])
    if tasks not in known:
        raise QuantityError(
            explain(
                f"the levels of {tasks!r} cannot be compared one by one",
                given=tasks,
                allowed=f"facets that a re-run keeps: {', '.join(known) or 'none here'}",
                do=did_you_mean(str(tasks), known),
            )
        )
    return tasks


def _design_words(design: Mapping[str, Any] | None) -> str:
    if design is None:
        return "with the design as collected"
    pinned = listed([plural(facet) for facet in Design.read(design).pin])
    return design_text(design) + (f", these {pinned} (pinned)" if pinned else "")


def _confounded(found: Discordance, task: str | None) -> tuple[str, ...]:
    if len(found.tasks):
        return ()
    return (CONFOUNDED.format(tasks=plural(task or "task")),)


def _bounds(pair: Pair) -> tuple[str, ...]:
    """What counts as re-run noise only because the data cannot tell it apart."""
    bound = pair.structure.bound_to_redrawn()
    if not bound:
        return ()
    told = ", ".join(bound)
    note = f"The data cannot tell {told} from what a re-run draws anew: it counts as re-run noise."
    return (note,)


def _stamps(draws: xr.DataArray, fits: Mapping[str, Fit]) -> tuple[str, ...]:
    """The stamp of each fit whose gates fail."""
    from gstudy.fits.gates import stamp

    notes = {label: stamp(draws, fit.diagnostics) for label, fit in fits.items()}
    return tuple(f"{note} ({label})" for label, note in notes.items() if note)


def _labelled(values: Mapping[str, Array], dim: str) -> xr.DataArray:
    """Draws (chain, draw, dim)."""
    import xarray as xr

    stacked = np.stack(list(values.values()), axis=-1)
    return xr.DataArray(
        stacked,
        dims=("chain", "draw", dim),
        coords={
            "chain": np.arange(stacked.shape[0]),
            "draw": np.arange(stacked.shape[1]),
            dim: np.array(list(values), dtype=object),
        },
    )
