"""The design of a classical G study: which sets of facets are components, and are they balanced."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from gstudy.errors import QuantityError, explain
from gstudy.study.index_sets import IndexSet, closed_sets, set_name
from gstudy.variance.structure import RESIDUAL

if TYPE_CHECKING:
    from gstudy.study.declaration import Study
    from gstudy.study.partition import Partition
    from gstudy.variance.classical.score_rows import ScoreRows

__all__ = ["AnovaDesign", "anova_design"]

# So many names are listed before "and 7 more".
_LISTED = 5


@dataclass(frozen=True, slots=True, eq=False)
class AnovaDesign:
    """Components of a classical G study, the residual apart.

    Parameters
    ----------
    rows : ScoreRows
    sets : dict of str to frozenset of str
        Facets of each component, small sets first; facets with one level are left out.
    includes : dict of str to tuple of str
        What each component stands for beside itself; `residual` has an entry too.
    notes : tuple of str
    """

    rows: ScoreRows
    sets: dict[str, IndexSet]
    includes: dict[str, tuple[str, ...]]
    notes: tuple[str, ...]
    _found: dict[IndexSet, Partition] = field(default_factory=dict)

    def joint(self, facets: IndexSet) -> Partition:
        """The rows by the levels of a set of facets; one level for the empty set."""
        if facets not in self._found:
            self._found[facets] = self.rows.by([f for f in self.rows.facets if f in facets])
        return self._found[facets]

    @property
    def partitions(self) -> dict[str, Partition]:
        """The rows by the levels of each component."""
        return {name: self.joint(facets) for name, facets in self.sets.items()}

    @property
    def balanced(self) -> bool:
        """Whether every level of a component has as many trials as the others, and every two
        components are fully crossed but for the facets that they share."""
        return all(map(self._even, self.sets.values())) and all(
            self._crossed(a, b) for a, b in itertools.combinations(self.sets.values(), 2)
        )

    def below(self) -> list[list[int]]:
        """Per component the places of those inside it."""
        sets = list(self.sets.values())
        return [[i for i, inner in enumerate(sets) if inner < outer] for outer in sets]

    def _even(self, facets: IndexSet) -> bool:
        sizes = np.bincount(self.joint(facets).index, weights=self.rows.counts)
        return bool((sizes == sizes[0]).all())

    def _crossed(self, a: IndexSet, b: IndexSet) -> bool:
        one, two, both, shared = (self.joint(s).n_levels for s in (a, b, a | b, a & b))
        return both * shared == one * two


def anova_design(
    rows: ScoreRows, study: Study, interactions: str | Sequence[str] = "all"
) -> AnovaDesign:
    """The components that rows of this study have.

    Parameters
    ----------
    rows : ScoreRows
    study : Study
    interactions : "all", "none" or list of str

    Returns
    -------
    AnovaDesign

    Raises
    ------
    QuantityError
        When no facet has two levels, no component has two trials on a level, or an interaction
        is none.
    """
    single = [f for f in rows.facets if rows.by(rows.level_facets(f)).n_levels == 1]
    kept = [f for f in rows.facets if f not in single]
    if not kept:
        raise QuantityError(
            explain(
                "there is nothing to compare: every facet has one level",
                given=dict(list({f: rows.labels[f][0] for f in single}.items())[:5]),
                do="Collect a second level of a facet that the claim covers.",
            )
        )
    design = AnovaDesign(rows, {}, {RESIDUAL: ()}, ())
    wanted = _wanted(kept, study, interactions)
    members = _merged(design, wanted)
    names = {name: facets for name, (facets, _) in members.items() if name != RESIDUAL}
    if not names:
        raise QuantityError(
            explain(
                "every level of every component holds one trial: there is no residual to compare "
                "it with",
                given=f"{rows.n_trials:,} trials",
                do="Collect a second trial per level.",
            )
        )
    includes = {name: inside for name, (_, inside) in members.items()}
    if study.counted is not None:
        counted = study.name_of(study.closure(study.counted))
        includes[RESIDUAL] = (*includes.get(RESIDUAL, ()), counted)
    notes = (*_notes(rows, study, single), *_left_out(kept, wanted, study))
    return AnovaDesign(rows, names, {RESIDUAL: (), **includes}, notes, design._found)


def _wanted(
    kept: Sequence[str], study: Study, interactions: str | Sequence[str]
) -> dict[IndexSet, str]:
    """Sampled facets of each wanted set, and its declared name; small sets first."""
    order = study.facet_names
    if interactions == "all":
        sets = closed_sets(_labelled(study), study.rules)
    else:
        sets = [study.closure(facet) for facet in kept]
        sets += [study.closure(name.split(":")) for name in _listed(interactions)]
        sets.sort(key=len)
    found: dict[IndexSet, str] = {}
    for declared in sets:
        sampled = declared.intersection(kept)
        if sampled:
            found.setdefault(sampled, set_name(declared, order))
    return dict(sorted(found.items(), key=lambda item: len(item[0])))


def _left_out(kept: Sequence[str], wanted: Collection[IndexSet], study: Study) -> list[str]:
    """A note on the interactions that the facets make and the user did not want."""
    every = _wanted(kept, study, "all")
    left = [name for facets, name in every.items() if facets not in wanted]
    if not left:
        return []
    more = f" and {len(left) - _LISTED} more" if len(left) > _LISTED else ""
    return [f"Left out, and in the residual: {', '.join(left[:_LISTED])}{more}."]


def _labelled(study: Study) -> list[str]:
    return [facet.name for facet in study.labelled]


def _listed(interactions: str | Sequence[str]) -> list[str]:
    if interactions == "none":
        return []
    if isinstance(interactions, str) or not all(isinstance(name, str) for name in interactions):
        raise QuantityError(
            explain(
                "interactions is neither a word nor a list of components",
                given=interactions,
                allowed='"all", "none", or a list such as ["system:task"]',
            )
        )
    return list(interactions)


def _merged(
    design: AnovaDesign, wanted: dict[IndexSet, str]
) -> dict[str, tuple[IndexSet, tuple[str, ...]]]:
    """Components by name: sets that split the rows identically are one, and those whose levels
    hold one trial each are the residual."""
    groups: list[list[IndexSet]] = []
    single: list[IndexSet] = []
    for facets in wanted:
        part = design.joint(facets)
        if part.n_levels == design.rows.n_trials:
            single.append(facets)
            continue
        same = next((g for g in groups if part.equals(design.joint(g[0]))), None)
        if same is None:
            groups.append([facets])
        elif frozenset[str]().union(*(s for s in same if s < facets)) != facets:
            same.append(facets)
    found: dict[str, tuple[IndexSet, tuple[str, ...]]] = {}
    for group in groups:
        names = [wanted[facets] for facets in group]
        whole = frozenset[str]().union(*group)
        found[" + ".join(names)] = (whole, tuple(names) if len(names) > 1 else ())
    found[RESIDUAL] = (frozenset(), tuple(wanted[facets] for facets in single))
    return found


def _notes(rows: ScoreRows, study: Study, single: Sequence[str]) -> list[str]:
    texts = []
    if single:
        levels = ", ".join(f"{f} ({rows.labels[f][0]!r})" for f in single)
        texts.append(f"Not sampled, one level only: {levels}.")
    fixed = [f.name for f in study.facets if f.role == "controlled" and f.name not in single]
    if fixed:
        texts.append(f"Treated as random here, although controlled: {', '.join(fixed)}.")
    return texts
