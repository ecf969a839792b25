"""Many fits: one independent fit per level, in parallel, by the direct path."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from gstudy.errors import (
    ConvergenceWarning,
    DataError,
    DeclarationError,
    EstimabilityWarning,
    GstudyError,
    explain,
)
from gstudy.fits.many import Fits, grouped_failures, listed_labels
from gstudy.model.sampling import fit_assessed
from gstudy.model.settings import TARGET_ACCEPT, Settings, can_show_progress, make_settings
from gstudy.study.estimable import assess
from gstudy.study.parts import split_by

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from gstudy.fits.fitted import Fit
    from gstudy.study.assessment import Assessment
    from gstudy.study.declaration import Study
    from gstudy.study.parts import Part
    from gstudy.study.trials import Trials

__all__ = ["fit_by", "level_seed", "sampled", "with_components"]

_ON_ERROR = ("raise", "skip")


def fit_by(
    study: Study,
    trials: Trials | pd.DataFrame | str | Path,
    *,
    by: str,
    seed: int | None = None,
    n_jobs: int | None = None,
    sampler: Literal["pymc", "direct"] = "direct",
    on_error: Literal["raise", "skip"] = "raise",
    draws: int = 1000,
    tune: int = 1000,
    chains: int = 4,
    cores: int | None = None,
    target_accept: float = TARGET_ACCEPT,
    progress: bool = True,
    store_effects: bool | None = None,
    until: int | None = None,
) -> Fits:
    """One independent fit per level: each system, or domain, with its own mean and variances.

    Parameters
    ----------
    study : Study
        The declaration of all levels. Within a level, what has one level only is no component:
        its interactions, priors and own sds are left out there.
    trials : Trials, DataFrame or path
        Not `Trials` where `by` is no facet: they hold the facets only.
    by : str
        The object ("system"), any other facet, or a column of the trials such as a task's
        domain. The level of such a column is recorded in each fit's `study.controlled`.
    seed : int, optional
        Each level has its own seed, made from this one and its label: neither their order, nor
        their number, nor `n_jobs` changes the draws of a level. Drawn and recorded when absent.
    n_jobs : int, optional
        Fits at the same time, as joblib counts: -1 is all processors; by default one, or what
        `joblib.parallel_config` says, whose backend (loky, dask, ray) is used too.
    sampler : {"direct", "pymc"}
        As for `gstudy.fit`; "direct" needs no compilation.
    on_error : {"raise", "skip"}
        "skip": levels that cannot be fitted are kept in `Fits.failures`.
    draws, tune, chains, target_accept, store_effects, until
        As for `gstudy.fit`; with `until` each level stops when it has its effective sizes.
    cores : int, optional
        Chains of one fit sampled at the same time; by default all processors for fits one after
        the other, and 1 for several at the same time.
    progress : bool
        Show on a terminal or in Jupyter how many levels are done.

    Returns
    -------
    Fits
        A mapping from label to Fit.

    Raises
    ------
    DeclarationError, DataError
        When the declaration or the trials are wrong, or a setting is out of range; naming the
        level where one cannot be fitted.

    Warns
    -----
    EstimabilityWarning
        Once: the components that are left out, and at which levels; and the levels that are
        skipped, by reason.
    ConvergenceWarning
        Once: the levels whose fit fails a gate; and those where `until` was not reached.

    Notes
    -----
    Systems differ in their variances also where their scores agree, so that ICCs, budgets and
    re-run noise of systems are compared between such fits, by `gstudy.contrasts`. Nothing is
    pooled: the posteriors of two levels are independent.

    Examples
    --------
    >>> import gstudy as gs
    >>> study, trials = gs.example("panel")
    >>> fits = gs.fit_by(study, trials, by="system", seed=1)  # doctest: +SKIP
    >>> gs.contrasts(fits, lambda fit: gs.icc(fit, "task"))  # doctest: +SKIP
    """
    _check_on_error(on_error)
    jobs = _jobs(n_jobs)
    settings = make_settings(
        seed=seed,
        draws=draws,
        tune=tune,
        chains=chains,
        cores=1 if cores is None and jobs > 1 else cores,
        sampler=sampler,
        target_accept=target_accept,
        progress=False,
        store_effects=store_effects,
        until=until,
    )
    by, parts = split_by(study, trials, by)
    designs, failures = _assessed(parts, by, on_error)
    _warn_of_left_out(designs, by, stacklevel=3)
    shown = progress and can_show_progress()
    outcomes = sampled(designs, settings, n_jobs, shown)
    fits = {label: found for label, found in outcomes.items() if not isinstance(found, GstudyError)}
    refused = {label: found for label, found in outcomes.items() if isinstance(found, GstudyError)}
    if on_error == "raise":
        _raise_first(refused, by)
    _warn_of_skipped(failures | refused, len(parts), by)
    found = Fits(fits, study, by, failures | refused, settings.seed)
    _warn_of_failed_gates(found, stacklevel=3)
    _warn_of_missed(found, stacklevel=3)
    return found


def level_seed(seed: int, label: str) -> int:
    """The seed of one level: the same whatever other levels there are.

    Parameters
    ----------
    seed : int
    label : str

    Returns
    -------
    int
        From 0 to 2^32 - 1.
    """
    words = np.frombuffer(hashlib.sha256(label.encode()).digest(), dtype="<u4")
    return int(np.random.SeedSequence([seed, *words.tolist()]).generate_state(1)[0])


def _check_on_error(on_error: object) -> None:
    if on_error not in _ON_ERROR:
        raise DeclarationError(explain("unknown on_error", given=on_error, allowed=_ON_ERROR))


def _jobs(n_jobs: object) -> int:
    """How many fits run at the same time."""
    from joblib import effective_n_jobs

    whole = isinstance(n_jobs, int) and not isinstance(n_jobs, bool) and n_jobs != 0
    if n_jobs is not None and not whole:
        raise DeclarationError(
            explain(
                "n_jobs is no number of jobs",
                given=n_jobs,
                allowed="a whole number; -1 for all processors",
            )
        )
    return int(effective_n_jobs(n_jobs))


def _assessed(
    parts: Sequence[Part], by: str, on_error: str
) -> tuple[dict[str, Assessment], dict[str, GstudyError]]:
    """The design of each level, before anything is sampled."""
    designs: dict[str, Assessment] = {}
    failures: dict[str, GstudyError] = {}
    for part in parts:
        try:
            designs[part.label] = with_components(assess(part.study, part.trials))
        except GstudyError as error:
            failures[part.label] = error
    if on_error == "raise":
        _raise_first(failures, by)
    return designs, failures


def with_components(design: Assessment) -> Assessment:
    """The design, in which something can vary.

    Raises
    ------
    DataError
        When no component is left.
    """
    if design.components:
        return design
    told = "; ".join(f"{row.name}: {row.verdict}" for row in design.rows)
    raise DataError(
        explain(
            f"nothing can vary here: no component is left ({told})",
            do='Collect more levels, or leave this level out (on_error="skip").',
        )
    )


def _raise_first(failures: Mapping[str, GstudyError], by: str) -> None:
    """The first failure, with all levels that fail for its reason, and the others."""
    for error in failures.values():
        same = [label for label, other in failures.items() if str(other) == str(error)]
        more = "".join(
            f" Nor can {text}"
            for text in grouped_failures({k: v for k, v in failures.items() if k not in same})
        )
        raise type(error)(f"{by} {listed_labels(same)} cannot be fitted: {error}{more}") from error


def _warn_of_skipped(failures: Mapping[str, GstudyError], total: int, by: str) -> None:
    """One EstimabilityWarning for the levels that are skipped, by reason."""
    if failures:
        verb = "is" if len(failures) == 1 else "are"
        text = (
            f"{len(failures):,} of {total:,} levels of {by} cannot be fitted and {verb} skipped: "
            f"{'; '.join(grouped_failures(failures))} (fits.failures)"
        )
        warnings.warn(text, EstimabilityWarning, stacklevel=3)


def sampled(
    designs: Mapping[str, Assessment], settings: Settings, n_jobs: int | None, shown: bool
) -> dict[str, Fit | GstudyError]:
    """A fit of each design, or why there is none; several at the same time.

    Parameters
    ----------
    designs : mapping of str to Assessment
        By label: each has its own seed, made from that of the settings and its label.
    settings : Settings
    n_jobs : int or None
        As in `fit_by`.
    shown : bool
        Whether a bar counts what is done.
    """
    from dataclasses import replace

    from joblib import Parallel, delayed

    with _told_progress(Parallel, len(designs), shown) as parallel_class:
        parallel = parallel_class(n_jobs=n_jobs, prefer="threads")
        found = parallel(
            delayed(_fit_one)(design, replace(settings, seed=level_seed(settings.seed, label)))
            for label, design in designs.items()
        )
    return dict(zip(designs, found, strict=True))


def _fit_one(design: Assessment, settings: Settings) -> Fit | GstudyError:
    """One job: a module's function, so that other processes can run it."""
    try:
        return fit_assessed(design, settings)
    except GstudyError as error:
        return error


@contextmanager
def _told_progress(parallel: Any, n_levels: int, shown: bool) -> Iterator[Any]:
    """The class of parallel runs, with a bar that counts what is done."""
    if not shown:
        yield parallel
        return
    from rich.progress import Progress

    with Progress(transient=True) as bar:
        task = bar.add_task("fits", total=n_levels)

        class Told(parallel):
            def print_progress(self) -> None:
                bar.update(task, completed=self.n_completed_tasks)

        yield Told


def _warn_of_left_out(designs: Mapping[str, Assessment], by: str, *, stacklevel: int) -> None:
    """One EstimabilityWarning for all levels; that `by` has one level in each is meant."""
    left_out: dict[tuple[str, str], list[str]] = {}
    for label, design in designs.items():
        study = design.study
        meant = study.closure(by) if by in study.facet_names else frozenset()
        for row in design.rows:
            if row.left_out and row.asked == "facet" and not row.facets <= meant:
                left_out.setdefault((row.name, row.verdict), []).append(label)
    if left_out:
        told = "; ".join(
            f"{name}, {verdict}: {_at(labels, designs)}"
            for (name, verdict), labels in left_out.items()
        )
        text = f"left out of the models by {by}: {told}. The check of each says what to collect."
        warnings.warn(text, EstimabilityWarning, stacklevel=stacklevel)


def _at(labels: Sequence[str], designs: Mapping[str, Assessment]) -> str:
    if len(labels) == len(designs):
        return f"at each of {len(labels):,} levels" if len(labels) > 1 else f"at {labels[0]!r}"
    return f"at {listed_labels(labels)}"


def _warn_of_failed_gates(fits: Fits, *, stacklevel: int) -> None:
    failed = fits.unconverged()
    if failed:
        shown = "; ".join(f"{label!r} ({failed[label][0]})" for label in list(failed)[:3])
        more = f"; and {len(failed) - 3:,} more" if len(failed) > 3 else ""
        text = (
            f"{len(failed):,} of {len(fits):,} fits by {fits.by} "
            f"{'has' if len(failed) == 1 else 'have'} not converged: "
            f"{shown}{more}. Each fit's diagnostics say what failed; sample longer (draws, tune), "
            "or raise target_accept where there are divergences."
        )
        warnings.warn(text, ConvergenceWarning, stacklevel=stacklevel)


def _warn_of_missed(fits: Fits, *, stacklevel: int) -> None:
    """One ConvergenceWarning for the levels where `until` was not reached."""
    missed = {label: fit.settings.get("until_missed") for label, fit in fits.items()}
    missed = {label: text for label, text in missed.items() if text is not None}
    if missed:
        [first, *_] = missed
        text = (
            f"until was not reached by {len(missed):,} of {len(fits):,} fits by {fits.by}, such as "
            f"{first!r} ({missed[first]}). gs.extend of a fit goes on."
        )
        warnings.warn(text, ConvergenceWarning, stacklevel=stacklevel)
