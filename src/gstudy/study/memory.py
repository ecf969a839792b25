"""How much memory a fit takes at its peak, told before it samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gstudy.display import number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gstudy.study.components import Component

__all__ = ["LARGEST_STORED", "peak_memory", "size_text"]

LARGEST_STORED = 5_000
"""Components with more levels keep the mean and sd of their effects, not the draws."""

_DOUBLE = 8

PROGRAM = {"direct": 380_000_000, "pymc": 490_000_000}
"""What the libraries of each sampler take before anything is sampled."""

IN_TRACE = {"direct": 1, "pymc": 2}
"""Numbers in the trace for each effect: PyMC's is there before and after its transformation."""

WORKING = 50_000_000
"""Blocks of draws that are recovered at a time, where draws are not all kept."""

PER_EFFECT = 600
"""Bytes per effect beside draws: cells, labels, the way the model is written, the sampler."""

COPIES, OWN_COPIES = 3, 4
"""Arrays of all kept draws that are alive together while effects are recovered; with own sds."""


def peak_memory(
    components: Sequence[Component],
    n_objects: int,
    *,
    draws: int,
    tune: int,
    chains: int,
    sampler: str,
    store_effects: bool | None,
    integrated: int | None = None,
    keep_every: int = 1,
) -> int:
    """Bytes of the whole process at its peak, within a quarter.

    With D = 8 bytes x chains x draws and W = 8 bytes x chains x (tune + draws x keep_every), since
    nutpie holds tuning draws too: per effect W and a copy of the kept draws, taken chain by chain,
    ``W + 5/4 D`` (PyMC ``2 W + 5/4 D``), or ``3 D`` afterwards (with own sds 4 D), whichever is
    more. On the direct path effects of components with more than 5,000 levels take W / 4, and
    nothing afterwards; those that are integrated out take nothing while it samples, and D where
    their draws are kept.

    Parameters
    ----------
    components : sequence of Component
        Fixed ones too.
    n_objects : int
        Levels of the object: so many effects has each level of a component with own sds.
    draws, tune, chains : int
    sampler : {"pymc", "direct"}
    store_effects : bool, optional
        As in `gstudy.fit`.
    integrated : int, optional
        Place of the component whose effects the direct path integrates out.
    keep_every : int
        Draws made for each one kept.

    Returns
    -------
    int
    """
    if integrated is not None and sampler == "direct":
        drawn = components[integrated]
        others = [c for place, c in enumerate(components) if place != integrated]
        rest = peak_memory(
            others,
            n_objects,
            draws=draws,
            tune=tune,
            chains=chains,
            sampler=sampler,
            store_effects=store_effects,
            keep_every=keep_every,
        )
        stored = drawn.n_levels <= LARGEST_STORED or bool(store_effects)
        per_level = PER_EFFECT + stored * _DOUBLE * chains * draws
        return rest + WORKING + per_level * drawn.n_levels
    few, many = 10 * len(components), 0
    own = any(component.varies for component in components)
    for c in components:
        crossed = c.varies is not None and c.varies not in c.facets
        effects = c.n_levels * (n_objects if crossed else 1)
        if c.n_levels > LARGEST_STORED and not c.fixed and not store_effects:
            many += effects
        else:
            few += effects
    kept = _DOUBLE * chains * draws
    sampled = _DOUBLE * chains * (tune + draws * keep_every)
    found = PROGRAM[sampler] + PER_EFFECT * (few + many)
    if sampler == "direct" and many and not own:
        return found + WORKING + sampled * (few + many // 4) + kept * few
    traced = IN_TRACE[sampler] * sampled + 5 * kept // 4
    return found + max(traced, (OWN_COPIES if own else COPIES) * kept) * (few + many)


def size_text(n_bytes: int) -> str:
    """A size as people write it: "1.3 GB"."""
    for unit, size in (("GB", 1e9), ("MB", 1e6)):
        if n_bytes >= size:
            return f"{number(n_bytes / size, 2)} {unit}"
    return f"{max(n_bytes // 1000, 1)} kB"
