"""Fixed effects: controlled facets with several levels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gstudy.errors import DeclarationError, explain
from gstudy.study.checking.candidates import tops
from gstudy.study.components import FIXED, Component, Verdict
from gstudy.study.priors import default_fixed_prior

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gstudy.study.checking.splits import Splits
    from gstudy.study.declaration import Study

__all__ = ["fixed_components", "fixed_verdict"]


def fixed_components(
    study: Study, splits: Splits, score_scale: float | None
) -> tuple[Component, ...]:
    """One per controlled facet with at least two levels, in declared order.

    Parameters
    ----------
    study : Study
    splits : Splits
    score_scale : float or None
        Standard deviation of graded scores, for the default prior.

    Returns
    -------
    tuple of Component

    Raises
    ------
    DeclarationError
        For a controlled facet that is nested in a sampled one, two that split the rows
        identically, a pinned one that `keep` names, and the prior of one that is pinned.
    """
    several = [
        facet
        for facet in study.facet_names
        if facet in study.fixed_facets and splits.is_sampled(facet)
    ]
    _refuse_pinned(study, several)
    found: list[Component] = []
    for facet in several:
        _refuse_nested(facet, study, splits)
        _refuse_twin(facet, found, splits)
        own = frozenset({facet})
        key = f"fixed({facet})"
        found.append(
            Component(
                name=facet,
                facets=own,
                merged=(own,),
                n_levels=splits.of(own).n_levels,
                trials_per_level=splits.trials_per_level(own),
                verdict=FIXED,
                prior=study.priors.get(key) or default_fixed_prior(score_scale),
                prior_only=False,
                fixed=True,
            )
        )
    return tuple(found)


def fixed_verdict(component: Component) -> Verdict:
    """The row of a controlled facet."""
    return Verdict(
        name=component.name,
        facets=component.facets,
        asked="facet",
        n_levels=component.n_levels,
        trials_per_level=component.trials_per_level,
        verdict=FIXED,
        reason="controlled: each level has an effect, and they sum to zero",
        advice="",
        component=component.name,
        prior=component.prior,
    )


def _refuse_pinned(study: Study, several: Sequence[str]) -> None:
    """What is pinned at one level has neither a variance nor effects."""
    pinned = study.fixed_facets.difference(several)
    for name in study.keep:
        facet = next((top for top in tops(name.split(":"), study) if top in pinned), None)
        if facet is not None:
            raise DeclarationError(
                explain(
                    f"keep names the controlled facet {facet!r}",
                    given=name,
                    do="It is pinned at one level and has no variance: take it out of keep.",
                )
            )
    for facet in study.facet_names:
        if facet in pinned and f"fixed({facet})" in study.priors:
            raise DeclarationError(
                explain(
                    f'priors."fixed({facet})" is of a facet with one level, which has no effects',
                    do="Take it out: the facet is pinned.",
                )
            )


def _refuse_nested(facet: str, study: Study, splits: Splits) -> None:
    parents = [name for name in study.facet_names if name in splits.reduced(study.closure(facet))]
    parents.remove(facet)
    if parents:
        several = f"{splits.of(study.closure(facet)).n_levels} levels"
        raise DeclarationError(
            explain(
                f"facets.{facet}: a controlled facet with several levels cannot be nested",
                given=f"nested_in {', '.join(parents)}, {several}",
                do="If its levels mean the same within every parent, take nested_in out. If not, "
                f'give {facet} the role "legitimate" or "error".',
            )
        )


def _refuse_twin(facet: str, found: Sequence[Component], splits: Splits) -> None:
    own = splits.of({facet})
    for other in found:
        if own.equals(splits.of(other.facets)):
            raise DeclarationError(
                explain(
                    f"the controlled facets {other.name!r} and {facet!r} split the trials "
                    "identically: their effects cannot be told apart",
                    do="Keep one of them, or collect levels of one with several of the other.",
                )
            )
