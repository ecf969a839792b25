"""Predictions for one design at a time: what a source can answer, and why it cannot the rest."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gstudy.errors import QuantityError
from gstudy.planning.efficiency import independent_variance, trial_count, trial_variance
from gstudy.planning.pass_k import pass_rates, pass_variance, rollouts_of
from gstudy.variance.budgets import variance_budget
from gstudy.variance.claims import claim_of
from gstudy.variance.coefficients import generalizability, phi, sem
from gstudy.variance.decomposition import SCORE, Decomposition, decompositions
from gstudy.variance.designs import checked_counts
from gstudy.variance.draws import Array, normal_quantile
from gstudy.variance.latent import widest
from gstudy.variance.rerun import variance_drawing

if TYPE_CHECKING:
    from gstudy.planning.merged import Bounds
    from gstudy.planning.systems import Systems
    from gstudy.study.designs import Design
    from gstudy.variance.basis import Basis

__all__ = ["QUANTITIES", "Answers", "Predictions", "bounded_variances"]

QUANTITIES = (
    "variance",
    "half_width",
    "given_half_width",
    "rerun",
    "phi",
    "phi_cut",
    "generalizability",
    "difference",
    "separate",
    "mdd",
    "p_ranking",
    "p_winner",
    "p_target",
    "design_effect",
    "effective_n",
    "pass_k",
)
_CONTEST = "differences and rankings"
_ROUNDING = 1e-12

Answers = dict[str, Array]
"""Quantity to its draws, (n_draws,)."""


@dataclass(frozen=True, slots=True, eq=False)
class Predictions:
    """What is asked of every design, checked; and what could not be answered.

    Parameters
    ----------
    basis : Basis
    system : str or None
    coverage : float
    factor : float
        The minimal detectable difference in standard errors.
    systems : Systems or QuantityError
        Those that are compared, or why none can be.
    target, cut : float or None
    k : int or None
        Of pass^k.
    seed : int
    left_out : dict
        Reason to what was left out, to the names of the designs; filled on the way.
    """

    basis: Basis
    system: str | None
    coverage: float
    factor: float
    systems: Systems | QuantityError
    target: float | None = None
    cut: float | None = None
    k: int | None = None
    seed: int = 0
    left_out: dict[str, dict[str, list[str]]] = field(default_factory=dict)

    @property
    def parts(self) -> Mapping[str | None, Decomposition]:
        """The decomposition of each system that is meant."""
        return decompositions(self.basis, SCORE, self.system)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of chains and of draws of each."""
        chains, draws = next(iter(self.parts.values())).mean.shape
        return chains, draws

    def answers(self, source: Any, design: Design | None, name: str) -> Answers:
        """Every quantity of a design that the source can answer, (n_draws,) each."""
        # First, so that a design that is not usable is refused before anything is left out.
        variance = variance_budget(source, design, system=self.system).variance.values
        found = self._of_score(variance.ravel(), design)
        if not variance.any():
            self._leave("design effect and effective n", "no score of it varies", name)
        found |= self._try("re-runs", name, lambda: {"rerun": self._rerun(design)})
        found |= self._try("Phi, E rho^2", name, lambda: self._coefficients(source, design))
        found |= self._try(_CONTEST, name, lambda: self._contest(design))
        if (k := self.k) is not None:
            found |= self._try(f"pass^{k}", name, lambda: self._pass(design, k))
        return found

    def bounds(self, held: Bounds, design: Design, name: str) -> dict[str, Answers]:
        """The least and the most of what a score's variance makes."""
        low, high = bounded_variances(held, design, self.system)
        reason = f"{' and '.join(map(repr, held.names))} is one component, which leaves bounds"
        for what in ("re-runs", "Phi, E rho^2", _CONTEST):
            self._leave(what, reason, name)
        # Of the source in which nothing is merged that the design separates.
        apart = replace(self, basis=held.least.basis)
        ends = {"at least": low, "at most": high}
        return {end: apart._of_score(variance, design) for end, variance in ends.items()}

    def notes(self, names: Collection[str]) -> list[str]:
        """What was left out, of which of these designs, and why."""
        told = []
        for reason, parts in self.left_out.items():
            for of in {tuple(names) for names in parts.values()}:
                what = ", ".join(w for w, own in parts.items() if tuple(own) == of)
                where = "" if len(of) == len(names) else f" of {', '.join(of)}"
                told.append(f"Left out{where}: {what}. {reason[0].upper()}{reason[1:]}.")
        unanswered = [len(own.get(_CONTEST, ())) for own in self.left_out.values()]
        if not isinstance(self.systems, QuantityError) and sum(unanswered) < len(names):
            told.append(f"Differences and rankings: {self.systems.words}.")
        return told

    def _of_score(self, variance: Array, design: Design | None) -> Answers:
        """What follows from the variance of a score alone."""
        z, most = normal_quantile(self.coverage), widest(self.basis.study.family)
        width = np.minimum(z * np.sqrt(variance), most)
        claim = claim_of(self.basis.study, next(iter(self.parts.values())).structure)
        naive = independent_variance(self.basis, self.parts, design, claim).ravel()
        single = np.mean([trial_variance(self.basis, p) for p in self.parts.values()], axis=0)
        found = {
            "variance": variance,
            "half_width": width,
            # A score that never varies is worth no number of trials.
            "design_effect": _ratio(variance, naive),
            "effective_n": _ratio(single.ravel(), variance),
        }
        if self.target is not None:
            found["p_target"] = (width <= self.target * (1 + _ROUNDING)).astype(float)
        return found

    def _rerun(self, design: Design | None) -> Array:
        redrawn = next(iter(self.parts.values())).structure.redrawn
        return variance_drawing(self.basis, self.parts, design, redrawn).ravel()

    def _coefficients(self, source: Any, design: Design | None) -> Answers:
        found = {
            "phi": phi(source, design).draws.values.ravel(),
            "generalizability": generalizability(source, design).draws.values.ravel(),
        }
        if next(iter(self.parts.values())).structure.object is not None:
            # The score is that of a new system: one that runs is known without how systems differ.
            error = normal_quantile(self.coverage) * sem(source, design).draws.values.ravel()
            found["given_half_width"] = np.minimum(error, widest(self.basis.study.family))
        if self.cut is not None:
            found["phi_cut"] = phi(source, design, cut=self.cut).draws.values.ravel()
        return found

    def _contest(self, design: Design | None) -> Answers:
        if isinstance(self.systems, QuantityError):
            raise self.systems
        found = self.systems.contest(design, self.seed)
        most = widest(self.basis.study.family)
        return {
            "difference": found.shared,
            "separate": found.separate,
            "mdd": np.minimum(self.factor * np.sqrt(np.maximum(found.shared, 0.0)), most),
            "p_ranking": found.right.ranking,
            "p_winner": found.right.winner,
        }

    def _pass(self, design: Design | None, k: int) -> Answers:
        if design is None:
            raise QuantityError("pass^k needs a design with its number of rollouts")
        each = [self._pass_of(label, design, k) for label in self.parts]
        width = normal_quantile(self.coverage) * np.sqrt(np.mean(each, axis=0))
        return {"pass_k": np.minimum(width, 1.0)}

    def _pass_of(self, label: str | None, design: Design, k: int) -> Array:
        """Variance of the estimate of one system's pass^k."""
        part, latent = self.parts[label], self.basis.latent
        if latent is None:
            raise QuantityError("score-scale components do not tell how pass rates spread")
        own = latent if label is None or latent.object is None else latent.given(label)
        rates, structure = pass_rates(self.basis, own), part.structure
        claim = claim_of(self.basis.study, structure, design=design)
        counts = checked_counts(structure, design, claim.finite)
        n = counts[rates.facet]
        trials = trial_count(self.basis, part, design, claim) / n
        rollouts = rollouts_of(structure, counts, trials)
        if rollouts < k:
            raise QuantityError(f"pass^{k} needs at least {k} rollouts of a task")
        bank = n if rates.facet in claim.pinned else claim.finite.get(rates.facet, np.inf)
        return pass_variance(rates, k, rollouts, 1 / n - 1 / bank, 1 / n)

    def _try(self, what: str, name: str, make: Callable[[], Answers]) -> Answers:
        """The answers, or none and a reason kept."""
        try:
            return make()
        except QuantityError as error:
            self._leave(what, _reason(error), name)
            return {}

    def _leave(self, what: str, reason: str, name: str) -> None:
        self.left_out.setdefault(reason, {}).setdefault(what, []).append(name)


def _ratio(part: Array, whole: Array) -> Array:
    """A ratio, NaN where the whole is nothing."""
    return np.asarray(np.divide(part, whole, out=np.full(whole.shape, np.nan), where=whole > 0))


def bounded_variances(held: Bounds, design: Design, system: str | None) -> tuple[Array, Array]:
    """Bounds of the variance of a score, (n_draws,) each."""
    low, *high = (
        variance_budget(vc, design, system=system).variance.values.ravel()
        for vc in (held.least, *held.most)
    )
    return low, np.max(high, axis=0)


def _reason(error: QuantityError) -> str:
    """What is wrong, without what to do."""
    return re.split(r"\. (?:Given:|Allowed:|[A-Z])", str(error))[0].rstrip(".")
