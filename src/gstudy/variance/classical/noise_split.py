"""Data noise and re-run noise of a mean over tasks, from the scores of each task."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from gstudy.variance.draws import Array

__all__ = ["NoiseSplit", "TaskScores", "p_value", "root", "split_noise"]


@dataclass(frozen=True, slots=True, eq=False)
class TaskScores:
    """Scores of one system on each task.

    Parameters
    ----------
    means : array (n_tasks,)
        Mean score of the task's rollouts.
    within : array (n_tasks,)
        Variance of one rollout, estimated with divisor K - 1.
    rollouts : array (n_tasks,)
        Rollouts of each task, K, 2 or more.
    """

    means: Array
    within: Array
    rollouts: Array


@dataclass(frozen=True, slots=True)
class NoiseSplit:
    """A mean score, or a difference of two, and the variance of one task's rollout of it.

    Parameters
    ----------
    mean : float
        Mean over tasks.
    data : float
        Variance over tasks of the expected score; negative where it comes out so.
    rerun : float
        Mean variance over rollouts of the same task.
    collected : float
        Variance over tasks, divisor n, of the means that were collected.
    n_tasks : int
    """

    mean: float
    data: float
    rerun: float
    collected: float
    n_tasks: int

    @property
    def total(self) -> float:
        """Data and re-run noise."""
        return self.data + self.rerun

    def standard_error(self, rollouts: float | None = None) -> float:
        """Of the mean over the tasks with so many rollouts of each, by default as collected; in
        score units."""
        if rollouts is None:
            return root(self.collected / self.n_tasks)
        return root((self.data + self.rerun / rollouts) / self.n_tasks)


def split_noise(means: Array, noise: Array, sampled: Array) -> NoiseSplit:
    """Data and re-run noise of a score that is a mean over tasks.

    Parameters
    ----------
    means : array (n_tasks,)
        What was collected per task.
    noise : array (n_tasks,)
        Variance of one rollout of each task.
    sampled : array (n_tasks,)
        Variance of each mean over re-runs: `noise` / K.

    Returns
    -------
    NoiseSplit
    """
    collected = float(np.var(means))
    data = collected - float(sampled.mean())
    return NoiseSplit(float(means.mean()), data, float(noise.mean()), collected, len(means))


def p_value(change: float, variance: float) -> float:
    """Two-sided normal p value of a change with this sampling variance; NaN without one."""
    if not variance > 0:
        return math.nan
    return 2 * NormalDist().cdf(-abs(change) / math.sqrt(variance))


def root(variance: float) -> float:
    """Standard deviation; NaN of a negative estimate."""
    return math.sqrt(variance) if variance >= 0 else math.nan
