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

__all__ = ["CHAINS", "CORES", "Method", "Plan", "Sampled", "always_there"]

CHAINS = 4
CORES = min(CHAINS, os.cpu_count() or 1)


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
        "mu" and "sd(<component>)" for every component, logit scale; of a point estimate (1, 1).
    compile_seconds : float
        Of the timed seconds those in which model code was written and compiled.
    divergences : int
        After tuning, over all chains.
    seconds : float, optional
        Where another process keeps the time: of the fit alone, without its start and its files.
    weights : array (chain, draw), optional
        Where the library cannot have the workload's priors: prior densities over those it used.
        Weighted means are comparable with the other methods; ESS is of the draws as they are.
    failures : tuple of str, optional
        Gates not passed, where the method measures more than mu and the sds.
    remark : str
        What a reader of its row must know.
    """

    quantities: Mapping[str, NDArray[np.float64]]
    compile_seconds: float
    divergences: int
    seconds: float | None = None
    weights: NDArray[np.float64] | None = None
    failures: tuple[str, ...] | None = None
    remark: str = ""


def always_there() -> str:
    """Of a method that needs nothing beside gstudy."""
    return ""


@dataclass(frozen=True, slots=True)
class Method:
    """A library with its settings.

    Parameters
    ----------
    name : str
    sample : callable
        From a design and a plan to draws; all of it is timed: model, compilation, sampling.
    imports : tuple of str
        Modules imported before the clock starts; a cold process pays for them.
    missing : callable
        Why it cannot run here, "" when it can.
    packages : tuple of str
        Python packages whose versions are recorded.
    is_ours : bool
        Its gates must pass, and the limits of a workload are for it.
    is_point : bool
        It estimates and does not sample: context, compared with nothing.
    warms : bool
        It keeps compiled code on disk, which an untimed run fills first.
    """

    name: str
    sample: Callable[[Assessment, Plan], Sampled]
    imports: tuple[str, ...] = ()
    missing: Callable[[], str] = always_there
    packages: tuple[str, ...] = ()
    is_ours: bool = False
    is_point: bool = False
    warms: bool = False
