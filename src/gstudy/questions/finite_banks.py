"""Finite banks that a study declares: their levels, seen and unseen, and the bank in words.

A bank's mean is ``(sum over seen levels + sum over the N unseen ones) / bank``. Up to 1,000 unseen
levels are drawn one by one, as long as the bank has no more than 8,192 combinations of levels. Of
more only n are drawn, and their mean m_n is moved towards the exact
mean over new levels, E:

    mean over N levels  ~  E + sqrt(n / N) (m_n - E),

which has the exact mean and variance, and the exact covariance with whatever shares those levels
(another system, another controlled level), as ``Var(m_n) = Var / n``; its shape is normal by the
central limit theorem. It is linear in the scores: n levels and an integrated one, with weights
``sqrt(n / N) / n`` and ``1 - sqrt(n / N)``. Of two facets, crossed or nested, the steps are done in
turn, which gives every main effect and interaction its own exact variance.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gstudy._words import plural
from gstudy.questions.banks import INTEGRATED, Levels, single_levels
from gstudy.study.partition import split
from gstudy.study.records import parents_first
from gstudy.variance.latent import GAUSSIAN

if TYPE_CHECKING:
    from gstudy.fits.fitted import Fit
    from gstudy.variance.latent import Latent

__all__ = ["bank_levels", "bank_text", "finite_facets"]

ENUMERATED = 1_000
"""Unseen levels, within one combination of their parents, that are drawn one by one."""

# Fewer where each needs an integral over what is left; halved while the bank has too many
# combinations.
_DRAWN_INTEGRATED = 250
_FEWEST = 32
_MOST_ROWS = 2**13


def bank_levels(fit: Fit, latent: Latent, label: str | None) -> Levels | None:
    """The levels of the finite bank that the study declares, or None without one.

    Parameters
    ----------
    fit : Fit
    latent : Latent
        Of the same fit.
    label : str or None
        The system, which matters for what is nested in it.

    Returns
    -------
    Levels
        Combinations of the levels of the facets with a universe, and of the controlled levels:
        all of them, of many unseen ones some and the mean over the rest (see the module).
    """
    finite = finite_facets(fit)
    controlled = latent.controlled
    held = controlled.facets if controlled is not None else ()
    if not _inform(fit, {*finite, *held}, finite):
        return None
    facets: list[str] = list(held)
    rows: list[tuple[Hashable, ...]] = list(controlled.levels) if controlled is not None else [()]
    weights = np.ones(1)
    if controlled is not None:
        weights = latent.level_weights.get(label or "", controlled.weights)
    cap = _drawn(fit, {*finite, *held}, finite, len(rows))
    for facet in finite:
        grown, shares = [], []
        for row, weight in zip(rows, weights.tolist(), strict=True):
            inside = _bank_labels(fit, facet, dict(zip(facets, row, strict=True)), label, cap)
            grown += [(*row, own) for own in inside]
            shares += [weight * share for share in inside.values()]
        facets, rows, weights = [*facets, facet], grown, np.array(shares)
    order = [facets.index(f) for f in fit.study.facet_names if f in facets]
    return Levels(
        tuple(facets[i] for i in order),
        tuple(tuple(row[i] for i in order) for row in rows),
        weights,
    )


def bank_text(fit: Fit) -> tuple[str, frozenset[str]]:
    """The declared bank in words, such as "this bank of 50 tasks", and its facets."""
    finite = finite_facets(fit)
    texts = []
    for facet in finite:
        above = fit.study.closure(facet) - {facet}
        held = [name for name in fit.study.facet_names if name in above & _fixed_facets(fit)]
        nested = frozenset(finite) & above
        count = max(fit.study.facet(facet).universe or 0, 1)
        name = plural(facet) if count != 1 else facet
        per = f" per {' and '.join(held)}" if held else " each" if nested else ""
        texts.append(f"{count:,} {name}{per}")
    return f"this bank of {' x '.join(texts)}", frozenset(finite)


def _fixed_facets(fit: Fit) -> frozenset[str]:
    """Controlled facets with several levels."""
    return frozenset[str]().union(*(component.facets for component in fit.design.fixed))


def finite_facets(fit: Fit) -> list[str]:
    """Sampled facets with a universe, parents first, that are nested in nothing without one."""
    study = fit.study
    held = frozenset[str]().union(*(component.facets for component in fit.design.fixed))
    found: list[str] = []
    for facet in parents_first(fit.design.cells.facets, study):
        parents = study.closure(facet) - {facet, study.object} - held - {*single_levels(fit)}
        if study.facet(facet).universe is not None and parents <= {*found}:
            found.append(facet)
    return found


def _inform(fit: Fit, known: set[str], finite: Sequence[str]) -> bool:
    """Whether any component has levels in the bank."""
    measured = {fit.study.object}
    return any(
        component.facets - measured <= known and component.facets & {*finite}
        for component in fit.design.components
    )


def _drawn(fit: Fit, known: set[str], finite: Sequence[str], n_combinations: int) -> int:
    """How many unseen levels of a facet are drawn at most, for every system alike."""
    banks = [(fit.study.facet(facet).universe or 0, _most_seen(fit, facet)) for facet in finite]
    inside = {*known, fit.study.object}
    integrals = fit.study.family != GAUSSIAN and any(
        not component.facets <= inside for component in fit.design.components
    )
    many = any(universe - seen > ENUMERATED for universe, seen in banks)
    cap = _DRAWN_INTEGRATED if integrals and many else ENUMERATED

    def n_rows() -> int:
        return n_combinations * math.prod(min(universe, seen + cap) for universe, seen in banks)

    while cap > _FEWEST and n_rows() > _MOST_ROWS:
        cap = max(cap // 2, _FEWEST)
    return cap


def _most_seen(fit: Fit, facet: str) -> int:
    """The most levels of a facet that were run within one combination of its parents."""
    cells, whole = fit.design.cells, fit.study.closure(facet)
    columns = [i for i, name in enumerate(cells.facets) if name in whole]
    own = split(cells.codes, columns)
    parents = split(cells.codes, [i for i in columns if cells.facets[i] != facet])
    return int(np.bincount(parents.index[own.first_rows()]).max())


def _bank_labels(
    fit: Fit, facet: str, inside: Mapping[str, Hashable], label: str | None, cap: int
) -> dict[Hashable, float]:
    """Levels of a facet in the bank, within one combination of its parents, and their shares."""
    study, cells = fit.study, fit.design.cells
    parents = study.closure(facet) - {facet}
    given: dict[str, Hashable] = {f: own for f, own in inside.items() if f in parents}
    if INTEGRATED in given.values():
        return {INTEGRATED: 1.0}
    if study.object in parents and study.object in cells.facets:
        given[study.object] = label
    rows = np.ones(len(cells.trials), dtype=bool)
    for parent, own in given.items():
        labels = cells.labels[parent]
        code = labels.index(own) if isinstance(own, str) else -1
        rows &= cells.codes[:, cells.facets.index(parent)] == code
    codes = np.unique(cells.codes[rows, cells.facets.index(facet)]).tolist()
    seen: list[Hashable] = [cells.labels[facet][code] for code in codes]
    missing = max((study.facet(facet).universe or 0) - len(seen), 0)
    return _shares(seen, missing, cap)


def _shares(seen: Sequence[Hashable], missing: int, cap: int) -> dict[Hashable, float]:
    """Seen levels, and the unseen ones as drawn levels and an integrated one; shares sum to 1."""
    whole = len(seen) + missing
    shares = dict.fromkeys(seen, 1 / whole)
    if missing <= cap:
        return shares | dict.fromkeys(range(missing), 1 / whole)
    moved = math.sqrt(cap / missing)
    unseen = missing / whole
    return {
        **shares,
        **dict.fromkeys(range(cap), unseen * moved / cap),
        INTEGRATED: unseen * (1 - moved),
    }
