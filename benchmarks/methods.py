"""What a method is: a way to draw from the posterior of a design."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from gstudy.study.estimable import Assessment

__all__ = ["CHAINS", "CORES", "TARGET_ACCEPT", "Method", "Plan", "Sampled"]

CHAINS = 4
CORES = min(CHAINS, os.cpu_count() or 1)
TARGET_ACCEPT = 0.95
"""gstudy's default."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Settings of one run; chains and cores are the same for all."""

    seed: int
    tune: int
    draws: int


@dataclass(frozen=True, slots=True)
class Sampled:
    """What a run gave.

    Parameters
    ----------
    quantities : mapping of str to array (chain, draw)
        "mu" and "sd(<component>)" for every component, logit scale.
    divergences : int
        After tuning, over all chains.
    refits : int
        Runs made before this one because a gate failed; their time counts.
    """

    quantities: Mapping[str, NDArray[np.float64]]
    divergences: int
    refits: int = 0


@dataclass(frozen=True, slots=True)
class Method:
    """A library with its settings.

    Parameters
    ----------
    name : str
    sample : callable
        From a design and a plan to draws; all of it is timed: model, compilation, sampling.
    imports : tuple of str
        Modules imported before the clock starts.
    target_accept : float
    tune, draws : int
        Of each chain, at first.
    least_ess : float
        Draws are doubled, in a fresh run, until the smallest bulk ESS reaches this.
    requires : str
        Package that must be installed beside gstudy, "" for none.
    """

    name: str
    sample: Callable[[Assessment, Plan], Sampled]
    imports: tuple[str, ...]
    target_accept: float
    tune: int
    draws: int
    least_ess: float = 0.0
    requires: str = ""
