"""Which statistics a posterior check of a fit can compare, and what its cells do not tell."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from gstudy._words import plural
from gstudy.questions.check_statistics import (
    Groups,
    Statistic,
    agreement,
    anova_iccs,
    extreme_shares,
    grouped,
    rates,
    slope,
    spread,
)
from gstudy.variance.basis import structure_of_design

if TYPE_CHECKING:
    import numpy.typing as npt

    from gstudy.fits.fitted import Fit
    from gstudy.questions.replicates import Array, Scores

__all__ = ["fitted_statistics", "new_task_statistics", "task_facet", "unavailable"]

# With fewer levels a spread says little, and its prior much.
_FEWEST_LEVELS = 5


def task_facet(fit: Fit) -> str | None:
    """The facet whose effects are checked for normality: the legitimate one with most levels.

    One that a re-run draws anew only where there is no other; none with under 5 levels.
    """
    found = [f for f in _spread_facets(fit) if fit.study.facet(f).role == "legitimate"]
    kept = [f for f in found if f not in fit.study.redrawn_on_rerun()]
    return max(kept or found, key=lambda f: len(_levels(fit, f).trials), default=None)


def fitted_statistics(fit: Fit) -> list[Statistic]:
    """What replicates with the effects of the fitted levels are compared on."""
    task = task_facet(fit)
    return [
        *(_spread(fit, facet, frozenset()) for facet in _spread_facets(fit)),
        *([] if task is None else _extremes(fit, task, frozenset())),
        *_agreements(fit),
        *_system_rates(fit),
        *(
            Statistic("drift", (f"drift over {plural(facet)}",), slope(levels, place))
            for facet, levels, place in _ordered(fit)
        ),
        *_repeats(fit),
    ]


def new_task_statistics(fit: Fit, task: str) -> list[Statistic]:
    """What replicates with new effects of every task are compared on."""
    anew = frozenset({task})
    found = [_spread(fit, task, anew), *_extremes(fit, task, anew)]
    groups = _unit_groups(fit, task)
    if groups.trials.max() < 2 or len(groups.trials) < 2:
        return found
    systems, owner = _owners(fit, groups)
    iccs = anova_iccs(groups, owner)
    label = f"new {plural(task)}, ICC"
    if len(systems) < 2:
        return [*found, Statistic("icc", (label,), iccs, anew=anew)]
    names = (f"{label}, mean", *(f"{label}: {system}" for system in systems))
    return [*found, Statistic("icc", names, _with_mean(iccs), ("", *systems), anew)]


def unavailable(fit: Fit) -> Iterator[str]:
    """What the cells of this fit do not tell, one sentence each."""
    study, told = fit.study, {facet for facet, _, _ in _ordered(fit)}
    redrawn = [f.name for f in study.labelled if f.name in study.redrawn_on_rerun()]
    seen = [f" It found that {note}" for note in fit.design.notes if " drifts over " in note]
    if redrawn and not told:
        yield (
            f"Drift over {redrawn[0]} order is not checked here: the model's cells hold no ordered "
            f"labels of {redrawn[0]}. gs.check looks for it in the trials.{''.join(seen)}"
        )
    for judge in _judges(fit):
        others = " and ".join(_mixed_up(fit, judge))
        if others:
            yield (
                f"Agreement of {plural(judge)} is not checked: the model's cells do not hold the "
                f"labels of {others}, so that trials cannot be paired."
            )


def _rate(fit: Fit) -> str:
    return "rate" if fit.design.cells.graded is None else "mean"


def _with_mean(values_of: Callable[[Scores], Array]) -> Callable[[Scores], Array]:
    """The mean of the last axis, of what is defined, before the values."""

    def both(scores: Scores) -> Array:
        values = values_of(scores)
        defined = ~np.isnan(values)
        count = defined.sum(axis=-1, keepdims=True)
        total = np.where(defined, values, 0.0).sum(axis=-1, keepdims=True)
        mean = np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)
        return np.concatenate([mean, values], axis=-1)

    return both


def _spread(fit: Fit, facet: str, anew: frozenset[str]) -> Statistic:
    name = f"new {plural(facet)}, sd of {_rate(fit)}s" if anew else f"sd of {facet} {_rate(fit)}s"
    return Statistic("spread", (name,), spread(_levels(fit, facet)), anew=anew)


def _levels(fit: Fit, facet: str) -> Groups:
    return grouped(fit.design.cells, fit.study, fit.study.closure(facet))


def _spread_facets(fit: Fit) -> list[str]:
    known = fit.design.cells.facets
    sampled = [f for f in fit.design.sampled if f in known]
    random = [f for f in sampled if fit.study.facet(f).role != "controlled"]
    return [f for f in random if len(_levels(fit, f).trials) >= _FEWEST_LEVELS]


def _unit_groups(fit: Fit, task: str) -> Groups:
    """The tasks of each system."""
    measured = fit.study.object
    own = frozenset() if measured is None else frozenset({measured})
    return grouped(fit.design.cells, fit.study, fit.study.closure(task) | own)


def _extremes(fit: Fit, task: str, anew: frozenset[str]) -> list[Statistic]:
    groups = _unit_groups(fit, task)
    if fit.design.cells.graded is not None or groups.trials.max() < 2:
        return []
    several = len(_owners(fit, groups)[0]) > 1
    unit = fit.study.name_of({task, fit.study.object or task}) if several else task
    start = f"new {plural(task)}, all" if anew else f"{unit}, all"
    names = f"{start} passed", f"{start} failed"
    return [Statistic("extremes", names, extreme_shares(groups), ("", ""), anew)]


def _owners(fit: Fit, groups: Groups) -> tuple[list[str], npt.NDArray[np.intp]]:
    """Labels of the systems, and of each group the place of its own among them."""
    cells, measured = fit.design.cells, fit.study.object
    if measured is None or measured not in cells.facets:
        return [""], np.zeros(len(groups.trials), dtype=np.intp)
    codes = groups.codes[:, cells.facets.index(measured)]
    present, owner = np.unique(codes, return_inverse=True)
    return [cells.labels[measured][code] for code in present], owner.astype(np.intp)


def _system_rates(fit: Fit) -> list[Statistic]:
    measured = fit.study.object
    if measured is None or measured not in fit.design.cells.facets:
        return []
    groups = _levels(fit, measured)
    systems, _ = _owners(fit, groups)
    names = tuple(f"{_rate(fit)}: {system}" for system in systems)
    return [Statistic("rate", names, rates(groups), tuple(systems))]


def _judges(fit: Fit) -> list[str]:
    """Facets of measurement error whose levels score the same things."""
    if fit.design.cells.graded is not None:
        return []
    gone = {*fit.design.pinned, *fit.design.not_sampled}
    return [f.name for f in fit.study.facets if f.role == "error" and f.name not in gone]


def _mixed_up(fit: Fit, judge: str) -> list[str]:
    """Facets inside the residual, not nested in the judge, whose trials a cell mixes."""
    study = fit.study
    absorbed = structure_of_design(study, fit.design).absorbed
    return [f for f in absorbed if judge not in study.closure(f)]


def _agreements(fit: Fit) -> list[Statistic]:
    cells, study, found = fit.design.cells, fit.study, []
    for judge in _judges(fit):
        own = {f for f in study.facet_names if judge in study.closure(f)}
        shared = frozenset(cells.facets) - own
        whole = grouped(cells, study, shared)
        if _mixed_up(fit, judge) or whole.trials.max() < 2:
            continue
        apart = judge in cells.facets
        parts = grouped(cells, study, shared | study.closure(judge)) if apart else None
        if parts is not None and len(parts.trials) == len(whole.trials):
            continue
        name = f"agreement of {plural(judge)}"
        found.append(Statistic("agreement", (name,), agreement(whole, parts)))
    return found


def _ordered(fit: Fit) -> Iterator[tuple[str, Groups, Array]]:
    """Facets of which a re-run draws new levels and whose labels are numbers, with places."""
    cells, study = fit.design.cells, fit.study
    for facet in cells.facets:
        labels = cells.labels[facet]
        numbered = len(labels) > 1 and all(x.isascii() and x.isdigit() for x in labels)
        if facet not in study.redrawn_on_rerun() or not numbered:
            continue
        levels = _levels(fit, facet)
        whole = study.closure(facet)
        columns = [i for i, f in enumerate(cells.facets) if f in whole - {facet}]
        _, parent = np.unique(levels.codes[:, columns], axis=0, return_inverse=True)
        if len(levels.trials) == len(labels) and parent.max() > 0:
            # Unique numbers under every parent are identifiers, not an order.
            continue
        place = _places(levels.codes[:, cells.facets.index(facet)], parent.ravel())
        if place.any():
            yield facet, levels, place


def _places(codes: npt.NDArray[np.int32], parent: npt.NDArray[np.intp]) -> Array:
    """Place of each level in the order of its parent's, scaled to [0, 1] and centred."""
    order = np.lexsort((codes, parent))
    sizes = np.bincount(parent)
    rank = np.empty(len(codes))
    rank[order] = np.arange(len(codes)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.asarray((rank - (sizes[parent] - 1) / 2) / np.maximum(sizes[parent] - 1, 1))


def _repeats(fit: Fit) -> list[Statistic]:
    """ANOVA ICC of what is repeated with nothing but the chance of a re-run between."""
    cells, study = fit.design.cells, fit.study
    kept = frozenset(cells.facets) - study.redrawn_on_rerun()
    groups = grouped(cells, study, kept)
    if groups.trials.max() < 2 or len(groups.trials) < 2:
        return []
    task = task_facet(fit)
    if task is not None and len(_unit_groups(fit, task).trials) == len(groups.trials):
        # The ICC of tasks says the same.
        return []
    systems, owner = _owners(fit, groups)
    label = "ICC of repeats"
    names = tuple(f"{label}: {system}" if len(systems) > 1 else label for system in systems)
    return [Statistic("repeats", names, anova_iccs(groups, owner), tuple(systems))]
