"""The settings of a fit, and those of the second attempt when a gate is not passed."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from gstudy.errors import DeclarationError, explain
from gstudy.fits.gates import EBFMI_LIMIT, ESS_LIMIT
from gstudy.model.chains import processors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gstudy.fits.gates import Diagnostics

__all__ = [
    "REFIT_TARGET_ACCEPT",
    "TARGET_ACCEPT",
    "Settings",
    "can_show_progress",
    "is_stuck",
    "make_settings",
    "read_until",
    "second_attempt",
    "whole",
]

TARGET_ACCEPT = 0.9
"""Shorter steps than nutpie's own 0.8, longer than the 0.95 that funnels ask for: coordinates that
count on the trials (see `parameterisation`) leave none. Measured on the direct path at 0.95 and
0.9, smallest bulk ESS of an sd or mu per CPU second: 199 and 376 (`gpqa` of the benchmarks), 219
and 313 (`metr`), 26 and 34 (`panel`), without a divergence; of 120 simulated studies
(`benchmarks.calibration`) 10 and 11 were refitted, in 275 and 226 CPU seconds in all."""

REFIT_TARGET_ACCEPT = 0.99

REFIT_KEEP_EVERY = 4
"""How many times as long a refit samples where only the effective size was too small."""

USUAL_CHAINS = 4

FEWEST_CHAINS, MOST_CHAINS = 2, 8
"""Of chains sized to the machine: R-hat needs two; and every chain warms up for itself. Counted in
gradients on `panel`, for 1,000 effective draws, one chain a processor: 4 chains are done after 0.68
of the time of 2, 8 after 0.78 of that of 4 (for 1.5 times its work), 16 after 0.85 of that of 8
(for 1.7 times its work): the warm-up is all that is left."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The arguments of `fit`, checked; of `keep_every` draws the last one is kept.

    `sized` is set where the number of chains was taken from the machine.
    """

    seed: int
    draws: int
    tune: int
    chains: int
    cores: int | None
    sampler: str
    target_accept: float
    progress: bool
    store_effects: bool | None
    keep_every: int = 1
    until: int | None = None
    sized: bool = False

    def __post_init__(self) -> None:
        if self.sampler not in ("pymc", "direct"):
            raise DeclarationError(
                explain("unknown sampler", given=self.sampler, allowed=["pymc", "direct"])
            )
        number = isinstance(self.target_accept, Real)
        if not number or not 0.0 < self.target_accept < 1.0:
            raise DeclarationError(
                explain(
                    "target_accept is out of range",
                    given=self.target_accept,
                    allowed="a number between 0 and 1, such as 0.95",
                )
            )

    def recorded(self, rounds: Sequence[int] = (), missed: str | None = None) -> dict[str, Any]:
        """What a saved run says of how it was made.

        Parameters
        ----------
        rounds : sequence of int
            Draws of each chain in each round; one round of `draws` when there are none.
        missed : str, optional
            What has not the effective size `until`.

        Returns
        -------
        dict
            `draws` are those of all rounds. `until` and `until_missed` are there where effective
            sizes were asked for, `chains_sized` where the machine gave the number of chains.
        """
        return {
            "seed": self.seed,
            "draws": sum(rounds) or self.draws,
            "rounds": list(rounds) or [self.draws],
            "tune": self.tune,
            "chains": self.chains,
            "sampler": self.sampler,
            "target_accept": self.target_accept,
            "keep_every": self.keep_every,
            **({} if self.until is None else {"until": self.until, "until_missed": missed}),
            **({"chains_sized": True} if self.sized else {}),
            "versions": dict(_versions()),
        }


@cache
def _versions() -> dict[str, str]:
    """Of the packages that make draws: looked up once, since each look-up reads a file."""
    packages = ("gstudy", "pymc", "nutpie", "numba", "numpy", "arviz")
    return {name: version(name) for name in packages}


def make_settings(
    *,
    seed: int | None,
    draws: int,
    tune: int,
    chains: int | None,
    cores: int | None,
    sampler: str,
    target_accept: float,
    progress: bool,
    store_effects: bool | None,
    until: int | None = None,
) -> Settings:
    """The settings of a fit from the arguments of `fit`; a seed is drawn when there is none.

    Raises
    ------
    DeclarationError
        For a setting that is out of range.
    """
    number = _sized_chains() if chains is None else whole("chains", chains, 1)
    each = whole("draws", draws, 1)
    return Settings(
        seed=_seed(seed),
        draws=-(-each * USUAL_CHAINS // number) if chains is None else each,
        tune=whole("tune", tune, 1),
        chains=number,
        cores=None if cores is None else whole("cores", cores, 1),
        sampler=sampler,
        target_accept=target_accept,
        progress=progress and can_show_progress(),
        store_effects=store_effects,
        until=read_until(until),
        sized=chains is None,
    )


def read_until(until: int | None) -> int | None:
    """The effective size that is asked for, checked.

    Raises
    ------
    DeclarationError
        When it is no whole number, or less than the gates ask for: such a fit would stop and then
        fail them.
    """
    return None if until is None else whole("until", until, ESS_LIMIT)


def _sized_chains() -> int:
    return min(max(processors(), FEWEST_CHAINS), MOST_CHAINS)


def is_stuck(diagnostics: Diagnostics) -> bool:
    """Whether there are divergences, or energy that mixes badly: more draws mend neither."""
    low = any(value < EBFMI_LIMIT for value in diagnostics.ebfmi)
    return low or diagnostics.divergences > 0


def second_attempt(diagnostics: Diagnostics, settings: Settings) -> tuple[Settings, str] | None:
    """What to try once more, and why in words; None when nothing is to be gained.

    Divergences, or energy that mixes badly, ask for shorter steps: target_accept 0.99. Where only
    R-hat or the effective size fails the chains were too short: 4 times as many draws are made,
    and every fourth is kept, so that a fit has the size that was asked for. Where `until` names the
    effective size, that has added draws already, and the cap stays the cap.

    Parameters
    ----------
    diagnostics : Diagnostics
        Of the first attempt.
    settings : Settings

    Returns
    -------
    (Settings, str) or None
    """
    enough = settings.chains * settings.draws >= 2 * ESS_LIMIT and settings.chains > 1
    if diagnostics.passed or not enough:
        return None
    why = "; ".join(diagnostics.failures()[:3])
    if not is_stuck(diagnostics):
        if settings.until is not None:
            return None
        longer = replace(settings, keep_every=REFIT_KEEP_EVERY)
        return longer, f"refitted {REFIT_KEEP_EVERY} times as long because: {why}"
    if settings.target_accept >= REFIT_TARGET_ACCEPT:
        return None
    stricter = replace(settings, target_accept=REFIT_TARGET_ACCEPT)
    return stricter, f"refitted at target_accept {REFIT_TARGET_ACCEPT} because: {why}"


def can_show_progress() -> bool:
    """Only where someone watches: a terminal or a notebook."""
    return sys.stderr.isatty() or "ipykernel" in sys.modules


def _seed(seed: int | None) -> int:
    if seed is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    return whole("seed", seed, 0, 2**32 - 1)


def whole(name: str, value: Any, least: int, most: int | None = None) -> int:
    """The value as an int, when it is a whole number from `least` to `most`.

    Raises
    ------
    DeclarationError
        When it is not.
    """
    integer = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if integer and least <= value and (most is None or value <= most):
        return int(value)
    upto = f"{least} or more" if most is None else f"{least} to {most}"
    raise DeclarationError(
        explain(f"{name} is not a whole number in range", given=value, allowed=f"whole, {upto}")
    )
