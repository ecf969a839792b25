"""pass^k under a design: how precisely the chance that k rollouts of a task all pass is estimated.

With c passes in the T rollouts of a task, ``C(c, k) / C(T, k)`` is unbiased for p^k, p the task's
pass rate. Its mean over n tasks has the variance

    Var(p^k) (1/n - 1/N) + E[Var(C(c, k) / C(T, k) | p)] / n,

N the tasks of a finite bank, if it is one. Both parts need moments of p alone: two samples of k of
the T rollouts share j of them with the hypergeometric probability h_j, and then all pass with
probability p^(2k - j), so that ``E[(C(c, k) / C(T, k))^2 | p] = sum_j h_j p^(2k - j)``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from gstudy.errors import QuantityError, explain
from gstudy.study.index_sets import close
from gstudy.variance.basis import Basis
from gstudy.variance.draws import Array
from gstudy.variance.kernel import logistic_mean
from gstudy.variance.latent import GAUSSIAN, Latent
from gstudy.variance.quadrature import chunk_size, levels_of, rule_of
from gstudy.variance.rerun import inseparable
from gstudy.variance.structure import Structure

__all__ = ["PassRates", "pass_rates", "pass_variance", "power_means"]


@dataclass(frozen=True, slots=True, eq=False)
class PassRates:
    """Pass rates of one system's tasks: ``p = E[expit(mean + sqrt(task) z + u)]``, z normal over
    tasks, u what each rollout draws anew, with variance `rollout`.

    Parameters
    ----------
    facet : str
        The tasks.
    mean, task, rollout : array (n_draws,)
        Logit scale.
    """

    facet: str
    mean: Array
    task: Array
    rollout: Array


def pass_variance(
    rates: PassRates, k: int, n_rollouts: int, per_task: float, per_trial: float
) -> Array:
    """Variance of the estimate of pass^k.

    Parameters
    ----------
    rates : PassRates
    k : int
        1 or more.
    n_rollouts : int
        Rollouts of a task, T; k or more.
    per_task : float
        What the variance of p^k over tasks counts with: 1/n of n tasks, 1/n - 1/N of a bank of N.
    per_trial : float
        1/n.

    Returns
    -------
    array (n_draws,)
        Squared score units. For k = 1 that of the pass rate.

    Examples
    --------
    >>> one = np.ones(1)
    >>> rates = PassRates("task", 0 * one, 0 * one, 0 * one)
    >>> pass_variance(rates, 2, 2, 0.01, 0.01).round(6).tolist()  # (1/4 - 1/16) / 100
    [0.001875]
    """
    shares = [
        math.comb(k, j) * math.comb(n_rollouts - k, k - j) / math.comb(n_rollouts, k)
        for j in range(k + 1)
    ]
    used = [j for j, share in enumerate(shares) if share]
    means = power_means(rates, {k, 2 * k, *(2 * k - j for j in used)})
    square = sum(shares[j] * means[2 * k - j] for j in used)
    between = np.maximum(means[2 * k] - means[k] ** 2, 0.0)
    within = np.maximum(square - means[2 * k], 0.0)
    return np.asarray(per_task * between + per_trial * within)


def power_means(rates: PassRates, powers: Iterable[int]) -> dict[int, Array]:
    """E[p^i] over tasks, of each power i; arrays (n_draws,)."""
    wanted = sorted(powers)
    found = {i: np.empty(rates.mean.shape) for i in wanted}
    levels = levels_of(rates.task + rates.rollout)
    for level in np.unique(levels):
        rule, rows = rule_of(int(level)), np.flatnonzero(levels == level)
        for start in range(0, len(rows), chunk_size(int(level))):
            here = rows[start : start + chunk_size(int(level))]
            logits = rates.mean[here, None] + np.sqrt(rates.task[here, None]) * rule.nodes
            p = logistic_mean(logits, rates.rollout[here, None])
            for i in wanted:
                found[i][here] = p**i @ rule.weights
    return found


def pass_rates(basis: Basis, latent: Latent) -> PassRates:
    """The pass rates of the tasks of one given system.

    Parameters
    ----------
    basis : Basis
    latent : Latent
        Of the system: no object is left in it.

    Returns
    -------
    PassRates

    Raises
    ------
    QuantityError
        When the trials of a system differ by more than tasks and rollouts, or these cannot be told
        apart.
    """
    structure = latent.structure
    if latent.family == GAUSSIAN:
        _refuse("graded scores neither pass nor fail")
    if structure.object is not None:
        _refuse("it is of a given system")
    if latent.controlled is not None:
        _refuse(f"rates differ between levels of {', '.join(latent.controlled.facets)}")
    kept = [facet for facet in structure.facets if facet not in structure.redrawn]
    if len(kept) != 1:
        _refuse(f"it needs tasks alone beside rollouts, and there are {', '.join(kept) or 'none'}")
    bound = inseparable(basis, structure)
    if bound:
        _refuse(f"the data cannot tell {', '.join(bound)} from what a re-run draws anew")
    task, total = frozenset(kept), latent.total
    apart = [index_set for index_set in latent.sets if not task <= index_set]
    if apart:
        _refuse(f"tasks share {', '.join(structure.name(index_set) for index_set in apart)}")
    own = latent.inside(task)
    return PassRates(kept[0], latent.mu.ravel(), own.ravel(), (total - own).clip(min=0.0).ravel())


def rollouts_of(structure: Structure, counts: Mapping[str, float], n_trials: float) -> int:
    """Rollouts of a task that a design makes, each with one trial.

    Parameters
    ----------
    structure : Structure
    counts : mapping of str to float
    n_trials : float
        Trials of one task.

    Raises
    ------
    QuantityError
        When rollouts have several trials each, such as several judge calls.
    """
    moving = [facet for facet in structure.order if facet in structure.redrawn]
    inner = [f for f in moving if close({f}, structure.nesting) & set(moving) - {f}]
    several = [f for f in inner if counts.get(f, 1) > 1]
    if moving and counts.get("trials", 1) > 1:
        several.append("trials")
    if several:
        _refuse(f"a rollout has several trials ({several[0]} = {counts[several[0]]:g})")
    return round(n_trials)


def _refuse(why: str) -> None:
    raise QuantityError(explain(f"pass^k cannot be predicted: {why}"))
