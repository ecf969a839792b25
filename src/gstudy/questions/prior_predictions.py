"""What the priors say before any trial is seen: pass rates, ICCs and shares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gstudy._words import listed
from gstudy.display import Shown, Table
from gstudy.study.assessment import Assessment
from gstudy.variance.basis import structure_of_design
from gstudy.variance.decomposition import SCORE, Decomposition, decompose
from gstudy.variance.draws import (
    INTERVAL_KIND,
    Array,
    checked_seed,
    labelled,
    summarise,
    unlabelled,
)
from gstudy.variance.kernel import logistic_mean
from gstudy.variance.latent import GAUSSIAN, Latent
from gstudy.variance.prior_draws import checked_draws, drawn_variances
from gstudy.variance.structure import LINK, RESIDUAL
from gstudy.variance.trial_weights import known_errors

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd
    import xarray as xr

    from gstudy.study.declaration import Study
    from gstudy.study.index_sets import IndexSet
    from gstudy.study.trials import Trials

__all__ = ["PriorPredictive", "prior_predictive"]

# An interval over so much of what is possible rules hardly anything out, or much of it.
_BROAD = 0.8
_MODERATE = 0.5

# Of graded scores what is possible: so many sds of the observed scores.
_GRADED_RANGE = 4.0

_SENTENCES = {
    "broad": "The prior of the score is broad: it leaves the score to the data.",
    "moderate": "The prior of the score is moderate: a very high or low score is not expected.",
    "narrow": "The prior of the score is narrow: it says much of what the score can be.",
}

_RATE, _ICC, _SHARE = "rate", "icc", "share"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PriorPredictive(Shown):
    """Quantities of the score as the priors alone see them.

    Parameters
    ----------
    draws : xarray.DataArray (chain, draw, component)
        One chain of prior draws; one `component` per quantity, score scale.
    rows : pandas.DataFrame
        Index `quantity`; columns `kind` ("rate", "icc", "share") and `range`, the length of what
        is possible.
    scale : {"score"}
    estimand : str
    notes : tuple of str
    """

    draws: xr.DataArray
    rows: pd.DataFrame
    scale: str
    estimand: str
    notes: tuple[str, ...]

    def summary(self, level: float = 0.95) -> pd.DataFrame:
        """One row per quantity.

        Parameters
        ----------
        level : float
            Of the equal-tailed interval of the prior, in (0, 1).

        Returns
        -------
        pandas.DataFrame
            Index `quantity`; columns `mean`, `median`, `sd`, `lower`, `upper` and `prior`:
            "broad" when a 95% interval is at least 0.8 of what is possible, "moderate" from 0.5,
            else "narrow".

        Raises
        ------
        QuantityError
            For a level outside (0, 1).
        """
        import pandas as pd

        values = unlabelled(self.draws)
        frame = pd.DataFrame(summarise(values, level), index=self.rows.index)
        frame["prior"] = _widths(values, self.rows["range"].to_numpy(dtype=float))
        frame.attrs.update(
            scale=self.scale, estimand=self.estimand, interval=INTERVAL_KIND, level=level
        )
        return frame

    def table(self, level: float = 0.95) -> Table:
        """The table that is printed."""
        frame = self.summary(level)
        numbers = ["median", "lower", "upper"]
        return Table(
            frame=frame[[*numbers, "prior"]],
            title=f"Prior predictive: {self.estimand}",
            scale=self.scale,
            level=level,
            notes=(self._sentence(), *self.notes),
            formats={**dict.fromkeys(numbers, "decimal3"), "prior": "text"},
        )

    def _sentence(self) -> str:
        """Whether the priors leave the answer to the data."""
        found = self.summary()
        first = _SENTENCES[str(found["prior"].iloc[0])]
        small = (self.rows["kind"] == _ICC) & (found["upper"] < _MODERATE)
        if not small.any():
            return first
        priors = "prior of" if small.sum() == 1 else "priors of"
        names = listed([str(name) for name in found.index[small]])
        return (
            f"{first} Small ones are expected by the {priors} {names}: few levels cannot show a "
            "large one, with many the data decide."
        )


def prior_predictive(
    study: Study,
    trials: Assessment | Trials | pd.DataFrame | str | Path,
    *,
    draws: int = 2000,
    seed: int | None = None,
) -> PriorPredictive:
    """What the declared or default priors say of pass rate, ICCs and shares, before sampling.

    Parameters
    ----------
    study : Study
    trials : Assessment, Trials, DataFrame or path
        The trials, or what `gs.check` found in them: they decide on the components and their
        default priors. Their scores are used for the default priors of graded scores only.
    draws : int
        At least 100.
    seed : int, optional

    Returns
    -------
    PriorPredictive
        Score scale: the expected score, that of one new level of each component, the ICC of each
        component and its share in the variance of one trial.

    Raises
    ------
    QuantityError
        For a number of draws below 100 or above 100,000, or that is not whole.
    DeclarationError, DataError
        As `gs.check`.

    Notes
    -----
    mu, every sd and every fixed effect are drawn from their priors; per draw the expected score
    is ``m = E expit(mu + b + N(0, S))``, that of a new level of A is ``E[expit(...) | u_A]`` with
    ``u_A ~ N(0, S_A)``, ``ICC(A) = V(A) / (m(1-m))``, and the share ``v(A) / (m(1-m))``.

    Examples
    --------
    >>> import gstudy as gs
    >>> study, trials = gs.example("airline")
    >>> table = gs.prior_predictive(study, trials, seed=1).summary()
    >>> table.loc["score", "prior"]
    'broad'
    """
    import pandas as pd

    from gstudy.study.estimable import assess

    n_draws = checked_draws(draws)
    found = trials.of(study) if isinstance(trials, Assessment) else assess(study, trials)
    rng = np.random.default_rng(None if seed is None else checked_seed(seed))
    latent = _latent(found, n_draws, rng)
    part = decompose(latent, SCORE)
    spread = _GRADED_RANGE * (found.score_scale or 1.0) if latent.family == GAUSSIAN else 1.0
    rows = _rows(latent, part, rng, spread)
    names = [name for name, _, _, _ in rows]
    facts = pd.DataFrame(
        {"kind": [kind for _, kind, _, _ in rows], "range": [size for _, _, size, _ in rows]},
        index=pd.Index(names, name="quantity"),
    )
    return PriorPredictive(
        draws=labelled(np.stack([values for *_, values in rows]), names),
        rows=facts,
        scale=SCORE,
        estimand="one trial, before any is seen",
        notes=_notes(found),
    )


def _latent(found: Assessment, draws: int, rng: np.random.Generator) -> Latent:
    """Prior draws of mean and variances, (1, draws); of controlled facets at one level."""
    structure = structure_of_design(found.study, found)
    shape = (1, draws)
    mu = found.mu_prior.draw(rng, shape)
    for component in found.fixed:
        mu = mu + component.prior.draw(rng, (*shape, component.n_levels))[..., 0]
    parts = [(c.facets - structure.controlled, c.prior) for c in found.components]
    summed = drawn_variances(parts, found.study.family, shape, rng)
    return Latent(
        structure=structure,
        mu=mu,
        sets=tuple(summed),
        variances=np.stack(list(summed.values())) if summed else np.zeros((0, *shape)),
        family=found.study.family,
        noise=_noise(found, shape, rng),
    )


def _noise(found: Assessment, shape: tuple[int, int], rng: np.random.Generator) -> Array | None:
    """Variance of one graded trial given everything else."""
    if found.study.family != GAUSSIAN:
        return None
    if found.residual_prior is not None:
        return np.asarray(found.residual_prior.draw(rng, shape) ** 2)
    squares = known_errors(found.cells)
    assert squares is not None
    mean = float(squares @ found.cells.trials / found.cells.trials.sum())
    return np.full(shape, mean)


def _rows(
    latent: Latent, part: Decomposition, rng: np.random.Generator, spread: float
) -> list[tuple[str, str, float, Array]]:
    """Name, kind, length of what is possible, and draws (1, draws) of each quantity."""
    structure = latent.structure
    fitted = [index_set for index_set in part.sets if index_set in latent.sets]
    rows = [("score", _RATE, spread, part.mean)]
    for index_set in fitted:
        name = f"score of a new {structure.name(index_set)}"
        rows.append((name, _RATE, spread, _of_new_level(latent, index_set, rng)))
    for index_set in fitted:
        ratio = _share(part.inside(index_set), part.total)
        rows.append((f"ICC({structure.name(index_set)})", _ICC, 1.0, ratio))
    shares = {structure.name(index_set): part.of(index_set) for index_set in fitted}
    if len(fitted) < len(part.sets):
        shares["interactions " + LINK] = part.total - part.noise - sum(shares.values())
    for name, variance in {**shares, RESIDUAL: part.noise}.items():
        rows.append((f"share of {name}", _SHARE, 1.0, _share(variance, part.total)))
    return rows


def _of_new_level(latent: Latent, index_set: IndexSet, rng: np.random.Generator) -> Array:
    """Expected score of one new level, (1, draws)."""
    inside = latent.inside(index_set)
    level = latent.mu + np.sqrt(inside) * rng.standard_normal(inside.shape)
    if latent.family == GAUSSIAN:
        return np.asarray(level)
    return np.asarray(logistic_mean(level, np.maximum(latent.total - inside, 0.0)))


def _share(part: Array, whole: Array) -> Array:
    ratio = np.divide(part, whole, out=np.zeros_like(whole), where=whole > 0)
    return np.clip(ratio, 0.0, 1.0)


def _widths(values: Array, possible: Array) -> list[str]:
    """How much of what is possible a 95% interval of the prior holds, in words."""
    found = summarise(values, 0.95)
    shares = (found["upper"] - found["lower"]) / possible
    return [
        "broad" if share >= _BROAD else "moderate" if share >= _MODERATE else "narrow"
        for share in shares
    ]


def _notes(found: Assessment) -> tuple[str, ...]:
    """The priors themselves, and what the draws leave out."""
    linear = "score units" if found.study.family == GAUSSIAN else "logit scale"
    sds = [f"sd({component.name}) ~ {component.prior}" for component in found.components]
    fixed = [f"fixed({component.name}) ~ {component.prior}" for component in found.fixed]
    notes = [f"Priors, {linear}: " + "; ".join([f"mu ~ {found.mu_prior}", *sds, *fixed]) + "."]
    if found.fixed:
        names = listed([component.name for component in found.fixed])
        notes.append(f"At one level of {names}.")
    varying = [component.name for component in found.components if component.varies]
    if varying:
        notes.append(f"One sd of {listed(varying)}: that of one {found.study.object}.")
    return tuple(notes)
