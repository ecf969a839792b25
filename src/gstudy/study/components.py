"""Components of the model, and the verdict on each one that was considered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gstudy.study.index_sets import IndexSet
    from gstudy.study.priors import Prior

__all__ = [
    "ESTIMABLE",
    "FIXED",
    "INSIDE_FIXED",
    "INSIDE_OWN",
    "INSIDE_RESIDUAL",
    "KEPT",
    "MERGED",
    "NOT_CROSSED",
    "NOT_SAMPLED",
    "TOO_FEW_CELLS",
    "TOO_FEW_TRIALS",
    "WEAK",
    "Component",
    "Verdict",
]

ESTIMABLE = "estimable"
WEAK = "weak"
MERGED = "merged with "
NOT_SAMPLED = "not sampled"
INSIDE_RESIDUAL = "inside residual"
INSIDE_OWN = "inside own sds of "
INSIDE_FIXED = "inside effects of "
FIXED = "fixed effects"
KEPT = "kept, prior only"
NOT_CROSSED = "not crossed"
TOO_FEW_CELLS = "too few cells"
TOO_FEW_TRIALS = "too few trials per cell"


@dataclass(frozen=True, slots=True)
class Component:
    """A component of the fitted model: the variance of one index set, on the linear scale.

    Parameters
    ----------
    name : str
        Declared name such as "task:rollout"; names joined by " + " when sets are merged.
    facets : frozenset of str
        Its index set: sampled facets, closed under nesting and merging. A facet with one level
        is left out of the set, not of the name.
    merged : tuple of frozenset of str
        The index sets that it stands for; one when nothing is merged.
    n_levels : int
        Levels in the data.
    trials_per_level : float
        Mean number of trials in one level.
    verdict : {"estimable", "weak", "fixed effects"}
        Weak: under 5 levels, or prior only.
    prior : Prior
        Prior of its standard deviation, on the logit scale (graded scores: in their unit).
    prior_only : bool
        Kept although the data do not inform it: its posterior is its prior.
    varies : str or None
        Object facet each level of which has its own sd of this component. `facets` are then those
        of the declared set: of a facet that is crossed with the object (tasks), each level has one
        effect per level of the object, correlated between them; of one that is nested in it
        (rollouts), each level belongs to one.
    fixed : bool
        Fixed effects of a controlled facet: `prior` is of the effects themselves, which sum to
        zero, and there is no sd to estimate.
    """

    name: str
    facets: IndexSet
    merged: tuple[IndexSet, ...]
    n_levels: int
    trials_per_level: float
    verdict: str
    prior: Prior
    prior_only: bool
    varies: str | None = None
    fixed: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the data can say about one index set that was considered.

    Parameters
    ----------
    name : str
        Declared name, parents included.
    facets : frozenset of str
        The declared index set, one-level facets included.
    asked : {"facet", "listed", "auto", "kept"}
        Why it was considered: a facet's own component, an interaction that the study lists or
        that "auto" tries, or a set that only `keep` names.
    n_levels : int
    trials_per_level : float
    verdict : str
        "estimable", "weak", "merged with <names>", "not sampled", "inside residual",
        "kept, prior only", "fixed effects" of a controlled facet, "inside effects of <facet>"
        (it splits the rows as that controlled facet does), "inside own sds of <facet>" (the
        object with a facet that varies by it); for interactions that "auto" does not take "not
        crossed", "too few cells" or "too few trials per cell".
    reason : str
        The fact behind the verdict, "" when there is nothing to say.
    advice : str
        What to collect to make it estimable, "" when nothing is missing.
    component : str or None
        The fitted component that stands for it; of fixed effects the facet.
    prior : Prior or None
        Prior of that component's standard deviation, or of its fixed effects.
    """

    name: str
    facets: IndexSet
    asked: str
    n_levels: int
    trials_per_level: float
    verdict: str
    reason: str
    advice: str
    component: str | None
    prior: Prior | None

    @property
    def fitted(self) -> bool:
        """Whether the model holds it, alone or merged."""
        return self.component is not None

    @property
    def left_out(self) -> bool:
        """Whether it was declared and the data cannot inform it."""
        inside = self.verdict.startswith(INSIDE_FIXED) and self.asked != "auto"
        return self.verdict in (NOT_SAMPLED, INSIDE_RESIDUAL) or inside
