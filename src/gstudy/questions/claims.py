"""The universe of a claim: what a fit's numbers cover, and what failed runs do to them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gstudy.display import percent
from gstudy.errors import QuantityError, explain
from gstudy.fits.fitted import Fit
from gstudy.fits.substitutes import advice_on
from gstudy.variance.components import variance_components

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gstudy.display import Table

__all__ = ["FAILED_SHARE", "universe_table"]

FAILED_SHARE = 0.01
"""From this share of failed runs on, the two largest components are shown under both policies."""

_LARGEST = 2
_HOW = {"incorrect": "failed runs as score 0", "drop": "failed runs left out"}


def universe_table(fit: Fit, policies: Mapping[str, Fit] | None = None) -> Table:
    """What a claim covers: each facet with role, reason, levels, bank, and whether it was sampled.

    Parameters
    ----------
    fit : Fit
    policies : mapping of str to Fit, optional
        From `gstudy.fit_policies`: adds the two largest components under both policies on failed
        runs. Over 1% failed, the table asks for it.

    Returns
    -------
    Table
        One row per facet and per pinned entry. Notes: how failed runs counted and the score under
        each policy; variance components (score scale, posterior mean with 95% equal-tailed
        interval) under each policy.

    Raises
    ------
    QuantityError
        For what is no fit, and policies that are not `fit_policies`' own.

    Examples
    --------
    >>> import gstudy as gs
    >>> gs.universe_table(gs.load("run.nc"))  # doctest: +SKIP
    """
    if not isinstance(fit, Fit):
        raise QuantityError(
            explain(
                "the universe of a claim is read from a fit",
                given=type(fit).__name__,
                allowed="what gs.fit and gs.load return",
                do=advice_on(fit) or "Of a check: gs.check(study, trials).universe_table().",
            )
        )
    table = fit.design.universe_table()
    return replace(table, notes=(*table.notes, *_policy_notes(fit, policies)))


def _policy_notes(fit: Fit, policies: Mapping[str, Fit] | None) -> tuple[str, ...]:
    if policies is not None:
        _check_policies(policies)
        return tuple(f"With {_HOW[name]}: {_largest(policies[name])}." for name in _HOW)
    share = fit.design.failed_runs.get("share") or 0.0
    if share <= FAILED_SHARE:
        return ()
    text = (
        f"Over {percent(FAILED_SHARE)} of the runs failed: whether the components hang on the "
        "policy is shown by gs.universe_table(fit, gs.fit_policies(study, trials))."
    )
    return (text,)


def _check_policies(policies: Mapping[str, Fit]) -> None:
    if set(policies) != set(_HOW):
        raise QuantityError(
            explain(
                "these are not the fits under both policies",
                given=list(policies),
                allowed=list(_HOW),
                do="Pass what gs.fit_policies(study, trials) returns.",
            )
        )


def _largest(fit: Fit) -> str:
    """The two largest components of one trial, with their intervals."""
    rows = variance_components(fit).summary().sort_values("mean", ascending=False)
    return "; ".join(
        f"{name} {row['mean']:.4f} ({row['lower']:.4f} to {row['upper']:.4f}), "
        f"{percent(row['share'])} of one trial's variance"
        for name, row in rows.head(_LARGEST).iterrows()
    )
