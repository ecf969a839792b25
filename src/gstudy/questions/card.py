"""The evaluation card: what a published score should say of its own reliability."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gstudy._words import listed, plural
from gstudy.display import Shown, Table, bare_points, number, percent
from gstudy.errors import QuantityError, explain
from gstudy.fits.fitted import Fit
from gstudy.fits.gates import stamp
from gstudy.fits.many import Fits
from gstudy.fits.substitutes import advice_on
from gstudy.questions.banks import task_facet
from gstudy.questions.card_cells import (
    band,
    band_text,
    interval_of,
    plain,
    span,
    variance_text,
    whole,
    with_interval,
)
from gstudy.questions.card_steps import NEXT, NEXT_DRAWS, next_entry, next_step, next_text
from gstudy.questions.discordance import aligned
from gstudy.questions.observed import naive_bounds
from gstudy.questions.scores import score
from gstudy.study.universe import claim_table
from gstudy.variance.basis import latent_of
from gstudy.variance.budgets import variance_budget
from gstudy.variance.coefficients import icc
from gstudy.variance.components import variance_components
from gstudy.variance.draws import INTERVAL_KIND, Array, proportion, summarise
from gstudy.variance.latent import BINARY
from gstudy.variance.rerun import rerun_noise

if TYPE_CHECKING:
    import xarray as xr

    from gstudy.questions.scores import Score

__all__ = ["CARD_SCHEMA", "STATEMENT", "EvaluationCard", "evaluation_card"]

CARD_SCHEMA = 1
"""Raised when a key of the card's JSON changes its name or meaning."""

STATEMENT = (
    "This is reliability, not validity: it says how repeatable a score is, not whether it measures "
    "what it should, and a low task ICC is not a bad benchmark."
)
_NAIVE = "as if every trial were independent"
_REPEATABILITY = (
    "Repeatability: two runs of the same evaluation differ by up to this in 95% of cases."
)
_BANDS_NOTE = (
    "Bands: poor under .50, moderate under .75, good under .90, excellent (Koo and Li 2016), of "
    "the ends of the ICC's interval."
)
_NEXT_NOTE = (
    "Next step: the single enlargement that narrows the 95% interval of a score most per trial, "
    "with its half-width then."
)

QUANTITIES = ("score", "icc", "between", "within", "repeatability", *NEXT_DRAWS)
ALL = "all systems"
# More columns do not fit on a page.
_SIDE_BY_SIDE = 5

_SHARED = (
    "The systems share one set of sds in this fit: ICC, variances, repeatability, the dominant "
    "component and the next step are of all of them (mean per draw), not of each. For each its "
    "own: gs.fit_by, or varies."
)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class EvaluationCard(Shown):
    """Score, reliability and variances of one or several systems, with what they cover.

    Parameters
    ----------
    draws : xarray.DataArray (chain, draw, system, quantity)
        Score scale: "score" (declared estimand), "icc" of the tasks, "between" and "within" tasks
        variance of one trial, "repeatability", how far two re-runs differ at most in 95% of cases,
        "next_width", half-width of the score's 95% interval after the next step, "next_gain", by
        how much each trial of it narrows that. NaN where the fit does not tell it of this system.
    facts : pandas.DataFrame
        Index: systems; columns `n_trials`, `n_tasks`, `trials_per_task`, `rate`, `sd`, `n_failed`,
        `dominant`, `dominant_share`, `dominant_probability`, and of the next step, `next_step`,
        `next_facet`, `next_before`, `next_after`, `next_trials`, `next_probability`.
    together : dict of str to object
        With shared sds: draws (chain, draw) by quantity, and the facts of the dominant component
        and of the next step, of all systems; else empty.
    task : str or None
        The facet whose ICC it is.
    policy : str
        How failed runs counted.
    universe : Table
        What the claim covers.
    estimand, average, family : str
    notes : tuple of str
    """

    draws: xr.DataArray
    facts: pd.DataFrame
    together: Mapping[str, Any]
    task: str | None
    policy: str
    universe: Table
    estimand: str
    average: str
    family: str
    notes: tuple[str, ...]

    def summary(self, level: float = 0.95) -> pd.DataFrame:
        """One row per system.

        Parameters
        ----------
        level : float
            Of all intervals, in (0, 1).

        Returns
        -------
        pandas.DataFrame
            Index: systems; the columns of `facts` (without `sd`), `naive_lower`, `naive_upper`, and
            per quantity of `draws` its posterior mean, `<quantity>_lower`, `<quantity>_upper`.
            `attrs` name scale, estimand, interval and level.

        Raises
        ------
        QuantityError
            For a level outside (0, 1).
        """
        level = proportion(level, "level")
        low, high = naive_bounds(self.facts, self.family, level)
        frame = self.facts.drop(columns="sd").assign(naive_lower=low, naive_upper=high)
        for name in QUANTITIES:
            values = self.draws.sel(quantity=name).transpose("system", "chain", "draw").to_numpy()
            found = summarise(values, level)
            frame[name] = found["mean"]
            frame[f"{name}_lower"], frame[f"{name}_upper"] = found["lower"], found["upper"]
        frame.attrs.update(
            scale="score", estimand=self.estimand, interval=INTERVAL_KIND, level=level
        )
        return frame

    def table(self, level: float = 0.95) -> Table:
        """The card that is printed: a few systems side by side, many one below the other."""
        summary = self.summary(level)
        columns = {ALL: self._column(self._together_row(level))} if self.together else {}
        columns |= {str(label): self._column(row) for label, row in summary.iterrows()}
        names = list(next(iter(columns.values())))
        frame = pd.DataFrame(columns, index=pd.Index(names, name="card"))
        if len(columns) > _SIDE_BY_SIDE:
            frame = frame.T.rename_axis("system")
        return Table(
            frame=frame,
            title=f"Evaluation card: {self.estimand}",
            scale="score",
            level=level,
            notes=(STATEMENT, *self._readings(), *self.notes),
            formats=dict.fromkeys((str(frame.index.name), *frame.columns), "span"),
        )

    def json(self, level: float = 0.95) -> dict[str, Any]:
        """The card for programs; `gstudy/schemas/card.schema.json` is its JSON schema.

        Parameters
        ----------
        level : float

        Returns
        -------
        dict
            Unrounded; what the fit does not tell is None.
        """
        from importlib.metadata import version

        summary = self.summary(level)
        return {
            "schema": CARD_SCHEMA,
            "gstudy": version("gstudy"),
            "kind": "evaluation card",
            "scale": "score",
            "level": level,
            "interval": INTERVAL_KIND,
            "statement": STATEMENT,
            "estimand": self.estimand,
            "average": self.average,
            "task_facet": self.task,
            "systems": [self._entry(str(label), row) for label, row in summary.iterrows()],
            "all_systems": self._reliability(self._together_row(level)) if self.together else None,
            "universe": self.universe.json(),
            "notes": list(self.notes),
        }

    def _entry(self, label: str, row: pd.Series[Any]) -> dict[str, Any]:
        return {
            "system": label,
            "accuracy": {
                "observed": float(row["rate"]),
                "naive": {"lower": float(row["naive_lower"]), "upper": float(row["naive_upper"])},
                "full": interval_of(row, "score"),
            },
            **self._reliability(row),
            "n_tasks": whole(row["n_tasks"]),
            "trials_per_task": plain(row["trials_per_task"]),
            "n_trials": int(row["n_trials"]),
            "failed_runs": {"n": int(row["n_failed"]), "policy": self.policy},
        }

    def _reliability(self, row: pd.Series[Any]) -> dict[str, Any]:
        ratio = interval_of(row, "icc")
        ends = {end: None if ratio is None else band(ratio[end]) for end in ("lower", "upper")}
        dominant = row["dominant"]
        return {
            "icc": None if ratio is None else {**ratio, "bands": ends},
            "variance_between_tasks": interval_of(row, "between"),
            "variance_within_tasks": interval_of(row, "within"),
            "repeatability": interval_of(row, "repeatability"),
            "dominant_component": None
            if pd.isna(dominant)
            else {
                "component": str(dominant),
                "share": float(row["dominant_share"]),
                "probability": float(row["dominant_probability"]),
            },
            "next_step": next_entry(row),
        }

    def _together_row(self, level: float) -> pd.Series[Any]:
        row: dict[str, Any] = {key: self.together[key] for key in _FOUND}
        for name in QUANTITIES[1:]:
            found = summarise(self.together[name][None], level)
            row |= {name: found["mean"][0], f"{name}_lower": found["lower"][0]}
            row[f"{name}_upper"] = found["upper"][0]
        return pd.Series(row)

    def _column(self, row: pd.Series[Any]) -> dict[str, str]:
        """The lines of one system as text."""
        binary = self.family == BINARY
        show = percent if binary else number
        apart = bare_points if binary else number
        scored = "rate" in row
        lines = {
            "accuracy" if binary else "mean score": show(row["rate"]) if scored else "",
            "naive interval": span(row, "naive", show) if scored else "",
            "full interval": span(row, "score", show) if scored else "",
            f"ICC({self.task})": with_interval(row, "icc", lambda x: f"{x:.2f}"),
            "bands of its ends": band_text(row),
            "variance between tasks": with_interval(row, "between", variance_text),
            "variance within tasks": with_interval(row, "within", variance_text),
            "tasks": f"{row['n_tasks']:,.0f}" if scored and row["n_tasks"] > 0 else "",
            "trials per task": f"{row['trials_per_task']:,.4g}" if scored else "",
            "failed runs": f"{row['n_failed']:,.0f}" if scored else "",
            "repeatability, points" if binary else "repeatability": with_interval(
                row, "repeatability", apart
            ),
            "dominant component": ""
            if pd.isna(row["dominant"])
            else f"{row['dominant']} ({percent(row['dominant_share'], 0)})",
            "next step": next_text(row, binary=binary),
        }
        if self.task is None:
            for gone in (f"ICC({self.task})", "bands of its ends", "tasks", "trials per task"):
                del lines[gone]
        return lines

    def _knows_next(self) -> bool:
        told = [*self.facts["next_step"], self.together.get("next_step")]
        return bool(pd.notna(pd.Series(told, dtype=object)).any())

    def _readings(self) -> list[str]:
        covered = [
            f"{row.facet} ({row.role}{_how_sampled(str(row.role), str(row.sampled))})"
            for row in self.universe.frame.itertuples()
        ]
        return [
            f"Full interval: {self.estimand}; accuracy: {self.average}; naive: {_NAIVE}.",
            f"{_REPEATABILITY} Failed runs: {self.policy}.",
            _BANDS_NOTE,
            *([_NEXT_NOTE] if self._knows_next() else []),
            f"Replication universe: {'; '.join(covered)}.",
        ]


def _how_sampled(role: str, sampled: str) -> str:
    """What follows the role: of a controlled facet it says the role again."""
    told = {"yes": "sampled"}.get(sampled, sampled.removeprefix(f"{role}, "))
    return f", {told}"


_COVERED = ["facet", "role", "sampled"]
_DOMINANT = ("dominant", "dominant_share", "dominant_probability")
_FOUND = (*_DOMINANT, *NEXT)


def evaluation_card(fit: Fit | Fits) -> EvaluationCard:
    """The card of an evaluation: what to publish beside its score.

    Parameters
    ----------
    fit : Fit or Fits
        One fit, or separate fits of each system, from `gs.fit_by` by the object or from runs by
        `gs.Fits.of`: then every system has an ICC, variances and repeatability of its own. From a
        joint fit with shared sds those are of all systems together.

    Returns
    -------
    EvaluationCard
        `.table()`, `.summary()`, and `.json()` with a published schema.

    Raises
    ------
    QuantityError
        For what is no fit, and fits by something else than the object.

    Notes
    -----
    Score: `gs.score`. ICC: `gs.icc` of the task facet. One trial's variance ``m(1-m)`` (the sum of
    `gs.variance_components`) splits into between tasks, ICC m(1-m), and within them, the rest.
    Repeatability: `gs.rerun_noise`. Dominant component: the largest mean share of
    `gs.variance_budget` as collected, with the probability that it is the largest. Next step: of
    `gs.next_steps`; none where merged components leave open which it is.

    Examples
    --------
    >>> import gstudy as gs
    >>> gs.evaluation_card(gs.load("run.nc"))  # doctest: +SKIP
    """
    fits = _by_system(fit)
    first = next(iter(fits.values()))
    task = task_facet(first)
    known = {id(own): score(own) for own in fits.values()}
    rows, draws, notes = [], [], list[str]()
    for label, own in fits.items():
        facts, quantities, told = _of_system(own, known[id(own)], label, task)
        rows.append(facts)
        draws.append(quantities)
        notes += told
    unlike = _unlike_universes(fits)
    failed = [
        note
        for own in {id(f): f for f in fits.values()}.values()
        if (note := stamp(known[id(own)].draws, own.diagnostics))
    ]
    shared = len(fits) > 1 and len(known) == 1 and not _own(first)
    claim = known[id(first)]
    return EvaluationCard(
        draws=_labelled(draws, list(fits)),
        facts=pd.DataFrame(rows, index=pd.Index(list(fits), name="system", dtype=object)),
        together=_together(first, task) if shared else {},
        task=task,
        policy=_policy(first),
        universe=claim_table(first.design),
        estimand=claim.estimand,
        average=claim.average,
        family=first.study.family,
        notes=tuple(dict.fromkeys([*failed, *([_SHARED] if shared else []), *unlike, *notes])),
    )


def _unlike_universes(fits: Mapping[str, Fit]) -> list[str]:
    """That separate runs did not sample the same facets; the universe shown is the first one's."""
    first, *others = fits
    sampled = {
        id(f): list(map(tuple, claim_table(f.design).frame[_COVERED].to_numpy()))
        for f in fits.values()
    }
    own = sampled[id(fits[first])]
    unlike = [name for name in others if sampled[id(fits[name])] != own]
    if not unlike:
        return []
    return [f"The replication universe is that of {first}; {listed(unlike)} sampled otherwise."]


def _by_system(fit: object) -> dict[str, Fit]:
    # Runs of a study without an object are of one system each.
    if isinstance(fit, Fits) and len(fit) and fit.study.object in (fit.by, None):
        return dict(fit.items())
    if not isinstance(fit, Fit):
        raise QuantityError(
            explain(
                "an evaluation card is of a fit, or of one fit per system",
                given=f"fits by {fit.by!r}" if isinstance(fit, Fits) else type(fit).__name__,
                allowed="what gs.fit and gs.load return, or gs.fit_by by the object",
                do=advice_on(fit),
            )
        )
    return dict.fromkeys(map(str, score(fit).observed.index), fit)


def _own(fit: Fit) -> bool:
    return bool(latent_of(fit).own)


def _of_system(
    fit: Fit, found: Score, label: str, task: str | None
) -> tuple[dict[str, Any], dict[str, Array], list[str]]:
    """Facts, draws and notes of one system."""
    one = len(found.observed) == 1
    name = found.observed.index[0] if one else label
    observed: dict[Any, Any] = found.observed.loc[name].to_dict()
    n_tasks = float(observed.get(f"n_{task}", np.nan))
    facts = {
        "n_trials": observed["n_trials"],
        "n_tasks": n_tasks,
        "trials_per_task": observed["n_trials"] / n_tasks,
        "rate": observed["rate"],
        "sd": observed["sd"],
        "n_failed": _n_failed(fit, name),
    }
    draws = {"score": found.draws.sel(system=name).to_numpy()}
    if not one and not _own(fit):
        missing = np.full(fit.mu.shape, np.nan)
        nothing = dict.fromkeys(_FOUND, np.nan)
        return facts | nothing, draws | dict.fromkeys(QUANTITIES[1:], missing), []
    given = name if name in latent_of(fit).object_effects else None
    more, dominant, notes = _reliability_of(fit, given, task)
    return (
        facts | dominant,
        draws | more,
        [note if one and given is None else f"{label}: {note}" for note in notes],
    )


def _reliability_of(
    fit: Fit, system: str | None, task: str | None
) -> tuple[dict[str, Array], dict[str, Any], list[str]]:
    """ICC, variances, repeatability and the dominant component."""
    draws = dict.fromkeys(QUANTITIES[1:4], np.full(fit.mu.shape, np.nan))
    notes = []
    if task is not None:
        try:
            ratio = icc(fit, task, system=system).draws.to_numpy()
        except QuantityError as error:
            notes.append(f"No ICC of {plural(task)}: {error}")
        else:
            parts = variance_components(fit, system=system).draws
            total = parts.sum("component").to_numpy()
            draws = {"icc": ratio, "between": ratio * total, "within": (1 - ratio) * total}
    noise = rerun_noise(fit, system=system)
    draws["repeatability"] = noise.difference().to_numpy()
    if noise.bound:
        notes.append(f"Repeatability: {noise.bound}")
    shares = variance_budget(fit, system=system).shares
    means = shares.mean(("chain", "draw")).to_numpy()
    largest = int(means.argmax())
    winner = shares.transpose("chain", "draw", "component").to_numpy().argmax(axis=-1)
    dominant = {
        "dominant": str(shares.coords["component"].values[largest]),
        "dominant_share": float(means[largest]),
        "dominant_probability": float((winner == largest).mean()),
    }
    step, after = next_step(fit, system)
    return draws | after, dominant | step, notes


def _together(fit: Fit, task: str | None) -> dict[str, Any]:
    draws, dominant, _ = _reliability_of(fit, None, task)
    return {**draws, **dominant}


def _n_failed(fit: Fit, label: str) -> int:
    counts = fit.design.counts["n_failed"]
    return int(counts.loc[label] if label in counts.index else counts.sum())


def _policy(fit: Fit) -> str:
    policy = fit.study.on_failed_run
    if isinstance(policy, str):
        return policy
    return ", ".join(f"{reason}: {rule}" for reason, rule in policy.items())


def _labelled(draws: list[dict[str, Array]], labels: list[str]) -> xr.DataArray:
    import xarray as xr

    each = [np.stack([own[name] for name in QUANTITIES], axis=-1) for own in draws]
    stacked = np.stack(aligned(each), axis=2)
    return xr.DataArray(
        stacked,
        dims=("chain", "draw", "system", "quantity"),
        coords={
            "chain": np.arange(stacked.shape[0]),
            "draw": np.arange(stacked.shape[1]),
            "system": np.array(labels, dtype=object),
            "quantity": np.array(QUANTITIES, dtype=object),
        },
    )
