"""The settings of a fit, and those of the second attempt when a gate is not passed."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from importlib.metadata import version
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from gstudy.errors import DeclarationError, explain
from gstudy.fits.gates import EBFMI_LIMIT, ESS_LIMIT

if TYPE_CHECKING:
    from gstudy.fits.gates import Diagnostics

__all__ = ["TARGET_ACCEPT", "Settings", "can_show_progress", "make_settings", "second_attempt"]

TARGET_ACCEPT = 0.95
REFIT_TARGET_ACCEPT = 0.99

REFIT_KEEP_EVERY = 4
"""How many times as long a refit samples where only the effective size was too small."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The arguments of `fit`, checked; of `keep_every` draws the last one is kept."""

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

    def recorded(self) -> dict[str, Any]:
        """What a saved run says of how it was made."""
        packages = ("gstudy", "pymc", "nutpie", "numba", "numpy", "arviz")
        return {
            "seed": self.seed,
            "draws": self.draws,
            "tune": self.tune,
            "chains": self.chains,
            "sampler": self.sampler,
            "target_accept": self.target_accept,
            "keep_every": self.keep_every,
            "versions": {name: version(name) for name in packages},
        }


def make_settings(
    *,
    seed: int | None,
    draws: int,
    tune: int,
    chains: int,
    cores: int | None,
    sampler: str,
    target_accept: float,
    progress: bool,
    store_effects: bool | None,
) -> Settings:
    """The settings of a fit from the arguments of `fit`; a seed is drawn when there is none.

    Raises
    ------
    DeclarationError
        For a setting that is out of range.
    """
    return Settings(
        seed=_seed(seed),
        draws=_whole("draws", draws, 1),
        tune=_whole("tune", tune, 1),
        chains=_whole("chains", chains, 1),
        cores=None if cores is None else _whole("cores", cores, 1),
        sampler=sampler,
        target_accept=target_accept,
        progress=progress and can_show_progress(),
        store_effects=store_effects,
    )


def second_attempt(diagnostics: Diagnostics, settings: Settings) -> tuple[Settings, str] | None:
    """What to try once more, and why in words; None when nothing is to be gained.

    Divergences, or energy that mixes badly, ask for shorter steps: target_accept 0.99. Where only
    R-hat or the effective size fails the chains were too short: 4 times as many draws are made,
    and every fourth is kept, so that a fit has the size that was asked for.

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
    stuck = diagnostics.divergences or any(value < EBFMI_LIMIT for value in diagnostics.ebfmi)
    if not stuck:
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
    return _whole("seed", seed, 0, 2**32 - 1)


def _whole(name: str, value: Any, least: int, most: int | None = None) -> int:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if whole and least <= value and (most is None or value <= most):
        return int(value)
    upto = f"{least} or more" if most is None else f"{least} to {most}"
    raise DeclarationError(
        explain(f"{name} is not a whole number in range", given=value, allowed=f"whole, {upto}")
    )
