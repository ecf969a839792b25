"""The headline: a system's score, the naive interval, and the one that covers the claim."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from gstudy._words import listed, plural
from gstudy.display import Shown, Table, number
from gstudy.errors import QuantityError, did_you_mean, explain
from gstudy.fits.fitted import Fit
from gstudy.fits.gates import stamp
from gstudy.fits.substitutes import advice_on
from gstudy.questions.banks import bank_mean, new_level_mean
from gstudy.questions.finite_banks import bank_levels, bank_text
from gstudy.questions.observed import (
    UNNAMED,
    naive_bounds,
    naive_interval,
    observed_scores,
    spread_unevenly,
)
from gstudy.questions.unlike import unlike_levels
from gstudy.variance.basis import basis_of, latent_of
from gstudy.variance.draws import Array, proportion
from gstudy.variance.latent import BINARY
from gstudy.variance.remembered import remembered

if TYPE_CHECKING:
    import xarray as xr

    from gstudy.variance.latent import Latent

__all__ = [
    "SHARED_SDS",
    "UNNAMED",
    "Score",
    "average_text",
    "kind_of_score",
    "listed",
    "naive_interval",
    "plural",
    "posterior_scores",
    "score",
    "score_estimand",
    "spans",
]

SHARED_SDS = (
    "The systems share one set of sds here. For a system's own variances, fit its trials alone"
    " (gs.fit_by), or declare what varies by them."
)

NO_EFFECTS = (
    "The systems have no effects of their own in this model (their component is merged with "
    "another or left out), so that there is one row for all of them."
)


UNEVEN = (
    "The trials are spread unevenly: the observed score weights a task, or other level, by its "
    "trials, the pass rate over new levels weights all alike. The two may differ by more than "
    "the interval."
)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Score(Shown):
    """Observed pass rate, naive interval and full interval, one row per system.

    Parameters
    ----------
    draws : xarray.DataArray (chain, draw, system)
        Posterior of the estimand, score scale.
    observed : pandas.DataFrame
        Index: systems; columns `n_trials`, `rate`, `sd` and, per facet that the model knows,
        `n_<facet>`, the number of its levels.
    estimand : str
        What the full interval is an interval of, in words.
    notes : tuple of str
        What a reader must know beside it.
    average : str
        How the observed score weights its trials, in words.
    family : {"binary", "gaussian"}
        Of graded scores everything is in score units, not in percent.
    bank : bool
        Whether the full interval is of a finite bank.
    """

    draws: xr.DataArray
    observed: pd.DataFrame
    estimand: str
    notes: tuple[str, ...] = ()
    average: str = "mean over trials"
    family: str = BINARY
    bank: bool = False

    @property
    def scale(self) -> str:
        """Always the score scale."""
        return "score"

    @property
    def name(self) -> str:
        """What the draws are of."""
        return f"the {kind_of_score(self.family)}"

    def summary(self, level: float = 0.95) -> pd.DataFrame:
        """The table, one row per system.

        Parameters
        ----------
        level : float
            Of both intervals, in (0, 1).

        Returns
        -------
        pandas.DataFrame
            Index: systems; columns `n_trials`, `n_<facet>`, `rate` (observed, averaged as the
            study declares), `naive_lower`, `naive_upper` (Wilson; of graded scores mean +- z s /
            sqrt(n)), `mean`, `median`, `lower`, `upper` (equal-tailed, of the estimand) and
            `ratio`, the full width over the naive one. Score scale.

        Raises
        ------
        QuantityError
            For a level outside (0, 1).
        """
        level = proportion(level, "level")
        low, high = naive_bounds(self.observed, self.family, level)
        values = self.draws.transpose("system", ...).to_numpy().reshape(len(low), -1)
        tails = np.quantile(values, [(1 - level) / 2, 0.5, (1 + level) / 2], axis=1)
        width = high - low
        table = self.observed.drop(columns=["rate", "sd"]).assign(
            rate=self.observed["rate"],
            naive_lower=low,
            naive_upper=high,
            mean=values.mean(axis=1),
            median=tails[1],
            lower=tails[0],
            upper=tails[2],
            ratio=np.divide(
                tails[2] - tails[0], width, out=np.full(len(low), np.nan), where=width > 0
            ),
        )
        table.attrs.update(
            scale="score", estimand=self.estimand, interval="equal-tailed", level=level
        )
        return table

    def table(self, level: float = 0.95) -> Table:
        """The summary as a table that can be printed."""
        summary, covered = self.summary(level), "this bank" if self.bank else "new levels"
        digits = "percent1" if self.family == BINARY else "number3"
        frame = pd.DataFrame(
            {
                "trials": summary["n_trials"],
                "score": summary["rate"],
                "naive interval": spans(
                    summary["naive_lower"], summary["naive_upper"], self.family
                ),
                covered: summary["mean"],
                "full interval": spans(summary["lower"], summary["upper"], self.family),
                "ratio": summary["ratio"],
            }
        )
        naive = "Wilson" if self.family == BINARY else "mean +- z s / sqrt(n)"
        return Table(
            frame=frame,
            title=f"Score: observed {kind_of_score(self.family)} ({self.average}), interval of the "
            f"{self.estimand}",
            scale="score",
            level=level,
            notes=(
                f"naive: {naive}, as if every trial were independent of the others",
                f"{covered}, full interval: {self.estimand}",
                "ratio: how many times as wide as the naive interval the full one is",
                *self.notes,
            ),
            formats={
                "trials": "int",
                **dict.fromkeys(("score", covered), digits),
                **dict.fromkeys(("naive interval", "full interval"), "span"),
                "ratio": "decimal1",
            },
        )


def score(fit: Fit, *, system: str | None = None) -> Score:
    """The observed pass rate beside its naive interval and the posterior of what it estimates.

    The estimand is the pass rate over new levels of every random facet,
    ``E[expit(mu + u_o + e)]`` with ``e ~ Normal(0, S)``, u_o the system's own effect and S the sum
    of all other variances, computed per draw. Where the study declares a `universe` it is the mean
    over that bank: fitted effects of the levels that were run, new draws for the others. The naive
    interval is Wilson's (1927) over the trials; the observed score is averaged as declared.

    Parameters
    ----------
    fit : Fit
    system : str, optional
        One system; every system by default.

    Returns
    -------
    Score

    Raises
    ------
    QuantityError
        For a system that is not in the data, and for what is no fit.

    Examples
    --------
    >>> import gstudy as gs
    >>> gs.score(gs.load("run.nc")).summary()  # doctest: +SKIP
    """
    import xarray as xr

    if not isinstance(fit, Fit):
        raise QuantityError(
            explain(
                "a score is of a fit: it needs the trials beside the draws",
                given=type(fit).__name__,
                allowed="what gs.fit and gs.load return",
                do=advice_on(fit),
            )
        )
    basis, latent = basis_of(fit), latent_of(fit)
    rates, observed, unable = posterior_scores(fit, latent)
    names = list(observed.index) if system is None else [_known(system, list(observed.index))]
    draws = xr.DataArray(
        np.stack([rates[name] for name in names], axis=-1),
        dims=("chain", "draw", "system"),
        coords={"system": np.array(names, dtype=object)},
        name="score",
    )
    uneven = UNEVEN if fit.study.averaged_over is None and spread_unevenly(fit) else None
    shared = SHARED_SDS if len(rates) > 1 and not latent.own else None
    return Score(
        draws=draws,
        observed=observed.loc[names],
        estimand=score_estimand(fit, latent),
        notes=tuple(
            text
            for text in (
                stamp(draws, fit.diagnostics),
                uneven,
                shared,
                _failed_as_zero(fit),
                *unable,
                *(unlike_levels(dict.fromkeys(names, fit)) if latent.object else ()),
                *basis.prior_only_notes,
                *basis.notes,
            )
            if text
        ),
        average=average_text(fit),
        family=fit.study.family,
        bank=bank_levels(fit, latent, None) is not None,
    )


def posterior_scores(
    fit: Fit, latent: Latent
) -> tuple[dict[str, Array], pd.DataFrame, tuple[str, ...]]:
    """Draws of every system's declared estimand, with what was observed of it.

    Parameters
    ----------
    fit : Fit
    latent : Latent
        Of the same fit.

    Returns
    -------
    rates : dict of str to array (chain, draw)
        Score scale.
    observed : pandas.DataFrame
        As `observed_scores`, with the same labels.
    notes : tuple of str
    """
    # A report and a card ask for each system's in turn.
    return remembered(fit, "scores", lambda own: _posterior_scores(own, latent))


def _posterior_scores(
    fit: Fit, latent: Latent
) -> tuple[dict[str, Array], pd.DataFrame, tuple[str, ...]]:
    observed = observed_scores(fit)
    given = {} if latent.object is None else {name: name for name in latent.object_effects}
    if set(given) == set(observed.index):
        return {name: _estimate(fit, latent, name) for name in observed.index}, observed, ()
    unable: tuple[str, ...] = ()
    if len(observed) > 1:
        observed, unable = observed_scores(fit, apart=False), (NO_EFFECTS,)
    return {observed.index[0]: _estimate(fit, latent, None)}, observed, unable


def score_estimand(fit: Fit, latent: Latent) -> str:
    """The claim in words: the bank, and what is drawn anew."""
    gone = {*fit.design.not_sampled, *fit.design.pinned, fit.study.object}
    gone |= {facet for component in fit.design.fixed for facet in component.facets}
    bank = []
    if bank_levels(fit, latent, None) is not None:
        text, inside = bank_text(fit)
        bank, gone = [text], gone | inside
    drawn = [f"new {plural(f.name)}" for f in fit.study.facets if f.name not in gone]
    return f"{kind_of_score(fit.study.family)} over {listed([*bank, *drawn]) or 'new trials'}"


def _failed_as_zero(fit: Fit) -> str | None:
    """That failed runs are scores of 0 among graded ones, which need not be the lowest."""
    policy = fit.study.on_failed_run
    counted = policy == "incorrect" or (
        not isinstance(policy, str) and "incorrect" in policy.values()
    )
    n_failed = fit.design.failed_runs.get("n_failed") or 0
    if fit.study.family == BINARY or not counted or not n_failed:
        return None
    which = "They count" if policy == "incorrect" else "Those of some reasons count"
    return (
        f"Of the trials {n_failed:,.0f} failed. {which} as a score of 0 (on_failed_run), whatever "
        "the scale of the others: gs.check has the mean score under both policies."
    )


def kind_of_score(family: str) -> str:
    """What a mean of scores is called."""
    return "pass rate" if family == BINARY else "mean score"


def average_text(fit: Fit) -> str:
    """How the reported score weights its trials, in words."""
    over = fit.study.averaged_over
    return "mean over trials" if over is None else f"mean of the {over} means"


def spans(lower: pd.Series[float], upper: pd.Series[float], family: str) -> list[str]:
    """Intervals as text, in percent; of graded scores in their unit."""
    if family == BINARY:
        return [f"{100 * a:.1f}% to {100 * b:.1f}%" for a, b in zip(lower, upper, strict=True)]
    return [f"{number(a)} to {number(b)}" for a, b in zip(lower, upper, strict=True)]


def _estimate(fit: Fit, latent: Latent, label: str | None) -> Array:
    """Draws (chain, draw) of the declared estimand of one system."""
    levels = bank_levels(fit, latent, label)
    if levels is not None:
        # One seed: the same fit gives the same numbers.
        return bank_mean(fit, label, levels, seed=0)
    return new_level_mean(latent if label is None else latent.given(label))


def _known(system: object, systems: list[str]) -> str:
    if isinstance(system, str) and system in systems:
        return system
    raise QuantityError(
        explain(
            f"no system is named {system!r}",
            allowed=systems,
            do=did_you_mean(system, systems),
        )
    )
