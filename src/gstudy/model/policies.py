"""The same study under both policies on failed runs: does the answer hang on it?"""

from __future__ import annotations

import inspect
import warnings
from typing import TYPE_CHECKING, Any

from gstudy.errors import DeclarationError, EstimabilityWarning, did_you_mean, explain
from gstudy.fits.many import Fits
from gstudy.model.sampling import fit
from gstudy.study.declaration import Study, checked_study
from gstudy.study.estimable import assess

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from gstudy.study.trials import Trials

__all__ = ["POLICIES", "fit_policies"]

POLICIES = ("incorrect", "drop")
"""A failed run counts as score 0, or is left out."""


def fit_policies(
    study: Study,
    trials: Trials | pd.DataFrame | str | Path,
    *,
    seed: int | None = None,
    **settings: Any,
) -> Fits:
    """Fit a study with failed runs counted as 0, and with failed runs left out.

    Parameters
    ----------
    study : Study
        Its own `on_failed_run` is set aside.
    trials : Trials, DataFrame or path
    seed : int, optional
        Of both fits.
    **settings
        As for `gstudy.fit`; the sampler is "direct" unless given.

    Returns
    -------
    Fits
        Labels "incorrect" and "drop", by "on_failed_run".

    Raises
    ------
    DeclarationError
        When no run failed: both fits would be one.
    DeclarationError, DataError
        As `gstudy.fit`.

    Examples
    --------
    >>> import gstudy as gs
    >>> both = gs.fit_policies(study, trials, seed=1)  # doctest: +SKIP
    >>> gs.universe_table(fit, both)  # doctest: +SKIP
    """
    studies = {policy: _under(checked_study(study), policy) for policy in POLICIES}
    designs = {policy: assess(declared, trials) for policy, declared in studies.items()}
    if not designs["drop"].failed_runs:
        raise DeclarationError(
            explain(
                "no run failed in these trials, so that there is one answer, not two",
                do="Use gs.fit(study, trials).",
            )
        )
    given = {"sampler": "direct", **_known(settings)}
    with warnings.catch_warnings():
        # Both leave out what the study's own fit leaves out and says so.
        warnings.simplefilter("ignore", EstimabilityWarning)
        fits = {
            policy: fit(studies[policy], design, seed=seed, **given)
            for policy, design in designs.items()
        }
    return Fits(fits, study, "on_failed_run", {}, seed)


def _known(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings, when `gstudy.fit` has them all."""
    names = [name for name in inspect.signature(fit).parameters if name not in ("study", "trials")]
    for name in settings:
        if name not in names:
            raise DeclarationError(
                explain(f"fit has no setting {name!r}", allowed=names, do=did_you_mean(name, names))
            )
    return settings


def _under(study: Study, policy: str) -> Study:
    tables = study.to_dict()
    return Study.from_dict({**tables, "model": {**tables["model"], "on_failed_run": policy}})
