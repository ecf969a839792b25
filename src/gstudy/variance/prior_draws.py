"""Components as the priors alone see them: draws of mean and variances before any trial."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from gstudy.errors import QuantityError, did_you_mean, explain
from gstudy.study.declaration import checked_study
from gstudy.study.designs import TRIALS, Design
from gstudy.study.index_sets import IndexSet
from gstudy.study.priors import Prior, default_mu_prior, default_sd_prior
from gstudy.variance.basis import Basis, structure_of_study
from gstudy.variance.components import VarianceComponents, components_of
from gstudy.variance.decomposition import SCORE
from gstudy.variance.draws import Array, checked_seed
from gstudy.variance.latent import GAUSSIAN, Latent
from gstudy.variance.patterns import Count, Spread, judge_of

if TYPE_CHECKING:
    from gstudy.study.declaration import Study
    from gstudy.variance.structure import Structure

__all__ = ["checked_draws", "drawn_variances", "prior_components"]

_FEWEST_DRAWS = 100
_MOST_DRAWS = 100_000

# Beyond it, on the logit scale, every level is always 0 or always 1; heavy-tailed priors go there.
_LARGEST_SD = 100.0

# Fewer than the 8 from which on the default prior of an sd is wide.
_FEW_OBJECTS = 2

_MU = "mu"
_RESIDUAL = "sd(residual)"


def prior_components(
    study: Study, design: Mapping[str, int], *, draws: int = 4000, seed: int | None = 0
) -> VarianceComponents:
    """Variance components as the declared or default priors see them, without any trial.

    Parameters
    ----------
    study : Study
        Its facets, and those interactions that it lists or, with "auto", each pair of facets, as
        if a study could tell all of them. What one trial per level could never tell is part of
        the noise of a trial.
    design : mapping of str to int
        The design that is meant: the default prior of an sd depends on the number of levels. It
        may name the object, which has 2 levels if not.
    draws : int
        From 100 to 100,000.
    seed : int, optional

    Returns
    -------
    VarianceComponents
        One chain of draws, score scale; a source for every function of components, each table
        marked as coming from the priors alone. Controlled facets are at one level; an sd that
        varies by the object is that of one of its levels.

    Raises
    ------
    QuantityError
        For an unknown facet, a facet without a number of levels, a number of draws out of range,
        and graded scores of which a prior is not declared: their defaults follow from the scores.

    Notes
    -----
    Per draw mu and each sd come from their priors, independently: ``mu ~ Normal(0, 3)``, ``sd ~
    HalfNormal(5)`` from 8 levels on, with fewer HalfNormal(1), of the object HalfNormal(2), unless
    the study declares others.

    Examples
    --------
    >>> import gstudy as gs
    >>> task = gs.Facet("task", role="legitimate")
    >>> rollout = gs.Facet("rollout", role="legitimate", nested_in=["task"])
    >>> study = gs.Study(score="passed", facets=[task, rollout])
    >>> vc = gs.prior_components(study, {"task": 50, "rollout": 4})
    >>> list(vc.rows), vc.draws.shape
    (['task', 'residual'], (1, 4000, 2))
    """
    study = checked_study(study)
    shape = (1, checked_draws(draws))
    rng = np.random.default_rng(None if seed is None else checked_seed(seed))
    sets = _told_sets(study)
    _check_graded(study, sets)
    structure = structure_of_study(study, sets.values())
    priors = _sd_priors(study, sets, _levels(study, structure, design))
    mu = study.priors.get(_MU) or default_mu_prior(0.0, None)
    location = mu.draw(rng, shape)
    parts = [(whole - structure.pinned, priors[name]) for name, whole in sets.items()]
    variances = drawn_variances(parts, study.family, shape, rng)
    graded = study.family == GAUSSIAN
    latent = Latent(
        structure=structure,
        mu=location,
        sets=tuple(variances),
        variances=np.stack(list(variances.values())) if variances else np.zeros((0, *shape)),
        family=study.family,
        noise=study.priors[_RESIDUAL].draw(rng, shape) ** 2 if graded else None,
    )
    notes = _notes(study, {_MU: mu, **{f"sd({name})": one for name, one in priors.items()}})
    basis = Basis(study, structure, latent, score=None, cells=None, notes=notes, prior=True)
    return components_of(basis, SCORE)


def drawn_variances(
    parts: Iterable[tuple[IndexSet, Prior]],
    family: str,
    shape: tuple[int, int],
    rng: np.random.Generator,
) -> dict[IndexSet, Array]:
    """Variances by index set, each sd drawn from its prior; those of equal sets add.

    Parameters
    ----------
    parts : iterable of (frozenset of str, Prior)
        Set of each component, without controlled facets, and the prior of its sd.
    family : {"binary", "gaussian"}
        Of 0/1 scores an sd above 100 on the logit scale counts as 100: no score tells them apart.
    shape : tuple of int
    rng : numpy.random.Generator

    Returns
    -------
    dict of frozenset of str to array
    """
    summed: dict[IndexSet, Array] = {}
    for index_set, prior in parts:
        sd = prior.draw(rng, shape)
        if family != GAUSSIAN:
            sd = np.minimum(sd, _LARGEST_SD)
        summed[index_set] = summed.get(index_set, np.zeros(shape)) + sd**2
    return summed


def checked_draws(draws: Any) -> int:
    """A number of prior draws, checked.

    Raises
    ------
    QuantityError
        When it is no whole number from 100 to 100,000.
    """
    whole = isinstance(draws, int | np.integer) and not isinstance(draws, bool)
    if not whole or not _FEWEST_DRAWS <= draws <= _MOST_DRAWS:
        raise QuantityError(
            explain(
                "draws is no number of prior draws",
                given=draws,
                allowed=f"whole numbers from {_FEWEST_DRAWS} to {_MOST_DRAWS:,}",
            )
        )
    return int(draws)


def _told_sets(study: Study) -> dict[str, IndexSet]:
    """The declared components without those that always have one trial per level."""
    pinned = frozenset(f.name for f in study.facets if f.role == "controlled")
    whole_trial = frozenset(study.facet_names) - pinned
    single = study.trials is None
    return {
        name: whole
        for name, whole in study.declared_sets().items()
        if whole - pinned and (name in study.keep or not (single and whole - pinned == whole_trial))
    }


def _levels(study: Study, structure: Structure, design: Mapping[str, int]) -> dict[str, Count]:
    """Levels per parent of each facet; of fresh judges as many as there are units."""
    asked = Design.read(design)
    _check_facets(study, asked)
    judge = None if asked.judges == "all" else judge_of(structure, asked.judges)
    told = {judge} if asked.judges in ("one", "fresh") else set()
    for facet in structure.facets:
        if facet != study.object and facet not in asked and facet not in told:
            raise QuantityError(
                explain(
                    f"the design does not say how many levels of {facet!r} it has",
                    given=dict(asked),
                    do=f"Add {facet!r}: the default prior of its sd depends on it.",
                )
            )
    measured = {} if study.object is None else {study.object: _FEW_OBJECTS}
    spread = Spread.of(structure, asked, frozenset(), asked.judges)
    return {**measured, **asked, **spread.used()}


def _check_facets(study: Study, asked: Design) -> None:
    allowed = [*study.facet_names, TRIALS]
    for facet in asked:
        if facet not in allowed:
            raise QuantityError(
                explain(
                    f"the design names an unknown facet {facet!r}",
                    allowed=allowed,
                    do=did_you_mean(facet, allowed),
                )
            )


def _sd_priors(
    study: Study, sets: Mapping[str, IndexSet], levels: Mapping[str, Count]
) -> dict[str, Prior]:
    """The prior of the sd of each component: declared, or the default of its number of levels."""
    return {
        name: study.priors.get(f"sd({name})")
        or default_sd_prior(
            int(math.prod(levels.get(facet, 1) for facet in whole)),
            is_object=whole == {study.object},
        )
        for name, whole in sets.items()
    }


def _check_graded(study: Study, sets: Mapping[str, IndexSet]) -> None:
    """Default priors of graded scores follow from the scores, and there are none."""
    if study.family != GAUSSIAN:
        return
    if study.standard_error is not None:
        raise QuantityError(
            explain(
                "the noise of a graded score follows from its known errors, and there are none yet",
                given=f"standard_error={study.standard_error!r}",
                do="Assume the components: gs.assume(..., mean=).",
            )
        )
    needed = [_MU, *(f"sd({name})" for name in sets), _RESIDUAL]
    missing = [key for key in needed if key not in study.priors]
    if missing:
        raise QuantityError(
            explain(
                f"the default prior of {missing[0]} follows from scores, and there are none yet",
                given=f"priors of {', '.join(study.priors) or 'nothing'}",
                allowed=f"priors of {', '.join(needed)}",
                do="Declare them in [priors].",
            )
        )


def _notes(study: Study, priors: Mapping[str, Prior]) -> tuple[str, ...]:
    graded = {_RESIDUAL: study.priors[_RESIDUAL]} if study.family == GAUSSIAN else {}
    listed = "; ".join(f"{key} ~ {prior}" for key, prior in {**priors, **graded}.items())
    unit = "score units" if study.family == GAUSSIAN else "logit scale"
    note = (
        "Prior only: no trial informs these numbers, and intervals are those of the priors. "
        f"Priors, {unit}: {listed}."
    )
    held = [facet.name for facet in study.facets if facet.role == "controlled"]
    return (note, *([f"At one level of {', '.join(held)}."] if held else []))
