"""Fits: one independent fit per level of a facet or attribute, by label."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from gstudy._words import listed
from gstudy.display import Shown, Table
from gstudy.errors import QuantityError, did_you_mean, explain
from gstudy.fits.gates import STAMP

if TYPE_CHECKING:
    import pandas as pd

    from gstudy.errors import GstudyError
    from gstudy.fits.fitted import Fit
    from gstudy.study.declaration import Study

__all__ = ["Fits", "grouped_failures", "listed_labels"]

_LISTED = 5
_NEXT = "next: gs.level_summary(fits), gs.contrasts(fits, lambda fit: gs.icc(fit, ...))"


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Fits(Shown, Mapping[str, "Fit"]):
    """One fit per level, each with its own mean and its own variances; a mapping by label.

    Parameters
    ----------
    fits : mapping of str to Fit
        In natural order of the labels.
    study : Study
        The declaration, of all levels.
    by : str
        The facet, or the column of the trials, that the levels are of.
    failures : mapping of str to GstudyError
        Levels that could not be fitted, with the reason.
    seed : int
        Each level's own seed follows from this one and its label.

    Examples
    --------
    >>> import gstudy as gs
    >>> study, trials = gs.example("panel")
    >>> fits = gs.fit_by(study, trials, by="system", seed=1)  # doctest: +SKIP
    >>> fits["system1"].sd("task").shape  # doctest: +SKIP
    (4, 1000)
    """

    fits: Mapping[str, Fit]
    study: Study
    by: str
    failures: Mapping[str, GstudyError] = field(default_factory=dict)
    seed: int | None = None

    @classmethod
    def of(cls, runs: Mapping[str, Fit]) -> Fits:
        """Runs of one study that were made apart, each of one system, side by side.

        Parameters
        ----------
        runs : mapping of str to Fit
            By the name that each is to have.

        Returns
        -------
        Fits

        Raises
        ------
        QuantityError
            Without runs, for a run of several systems, and for runs of unlike studies.

        Examples
        --------
        >>> import gstudy as gs
        >>> fits = gs.Fits.of({"A": gs.load("a.nc"), "B": gs.load("b.nc")})  # doctest: +SKIP
        >>> gs.evaluation_card(fits)  # doctest: +SKIP
        """
        if not runs:
            raise QuantityError(explain("there are no runs", do="Give each with its name."))
        study = next(iter(runs.values())).study
        for name, fit in runs.items():
            _check_beside(next(iter(runs)), study, name, fit)
        return cls(dict(runs), study, study.object or "run")

    @property
    def labels(self) -> tuple[str, ...]:
        """The levels that were fitted."""
        return tuple(self.fits)

    def __getitem__(self, label: str) -> Fit:
        """The fit of a level.

        Raises
        ------
        QuantityError
            For a level that is not there, or could not be fitted.
        """
        if label in self.fits:
            return self.fits[label]
        if label in self.failures:
            raise QuantityError(f"{self.by} {label!r} could not be fitted: {self.failures[label]}")
        raise QuantityError(
            explain(
                f"no level of {self.by} is called {label!r}",
                allowed=listed_labels(self.labels),
                do=did_you_mean(label, self.labels),
            )
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self.fits)

    def __len__(self) -> int:
        return len(self.fits)

    def __contains__(self, label: object) -> bool:
        return label in self.fits

    def get(self, label: str, default: Any = None) -> Any:
        """The fit of a level, or the default."""
        return self.fits.get(label, default)

    def unconverged(self) -> dict[str, list[str]]:
        """Label of each fit that fails a gate, and what fails."""
        failed = {label: fit.diagnostics.failures() for label, fit in self.fits.items()}
        return {label: texts for label, texts in failed.items() if texts}

    def stamp(self) -> tuple[str, ...]:
        """The note that numbers made from all fits must carry, none when all gates pass."""
        failed = self.unconverged()
        if not failed:
            return ()
        first = next(iter(failed))
        told = f"{self.by} {listed_labels(failed)} ({first!r}: {failed[first][0]})"
        return (f"{STAMP}: {told}. Do not publish.",)

    def summary(self) -> pd.DataFrame:
        """One row per level: trials, observed score, sampler gates.

        Returns
        -------
        pandas.DataFrame
            Index: the levels; columns `n_trials`, `score` (observed mean over all trials),
            `rhat` (worst), `ess` (smallest), `divergences`, `refits`, `passed`.
        """
        import pandas as pd

        index = pd.Index(list(self.fits), name=self.by, dtype=object)
        rows = [_row(fit) for fit in self.fits.values()]
        columns = ["n_trials", "score", "rhat", "ess", "divergences", "refits", "passed"]
        return pd.DataFrame(rows, index=index, columns=columns)

    def table(self) -> Table:
        """The table that is printed."""
        failed = [f"not fitted: {text}" for text in grouped_failures(self.failures)]
        binary = self.study.family == "binary"
        return Table(
            frame=self.summary(),
            title=f"{len(self.fits)} independent fit{'' if len(self.fits) == 1 else 's'}, one per "
            f"level of {self.by}",
            scale="score",
            notes=(
                *self.stamp(),
                *failed,
                "score: observed mean over all trials; rhat, ess: the worst of mu and every sd",
                _NEXT,
            ),
            formats={"score": "percent1" if binary else "number3", "rhat": "decimal3"}
            | dict.fromkeys(("n_trials", "ess", "divergences", "refits"), "int"),
        )


def listed_labels(labels: Any) -> str:
    """Labels as a message lists them, quoted, the first few.

    >>> listed_labels(["a", "b"])
    "'a', 'b'"
    """
    every = [repr(label) for label in labels]
    more = f" and {len(every) - _LISTED:,} more" if len(every) > _LISTED else ""
    return ", ".join(every[:_LISTED]) + more


def grouped_failures(failures: Mapping[str, GstudyError]) -> list[str]:
    """What could not be fitted: levels that fail for one reason together, with the reason."""
    reasons: dict[str, list[str]] = {}
    for label, error in failures.items():
        reasons.setdefault(str(error), []).append(label)
    return [f"{listed_labels(labels)}: {reason}" for reason, labels in reasons.items()]


def _check_beside(first: str, study: Study, name: str, fit: Fit) -> None:
    """A run that can stand beside the first one: of one system, and of its study."""
    n_systems = len(fit.design.cells.labels.get(fit.study.object or "", ()))
    if n_systems > 1:
        raise QuantityError(
            explain(
                f"the run {name!r} is of {n_systems:,} systems, which stand side by side already",
                allowed="runs of one system each",
                do="Take it alone, or fit all trials together.",
            )
        )
    declared, other = study.to_dict(), fit.study.to_dict()
    unlike = [key for key in declared if key != "data" and declared[key] != other.get(key)]
    unlike += [key for key in other if key not in declared and key != "data"]
    if unlike:
        raise QuantityError(
            explain(
                f"the runs {first!r} and {name!r} are of unlike studies ({listed(unlike)}), so "
                "that their numbers are of unlike claims",
                do="Fit each system's trials by one study file: gstudy fit study.toml DATA.",
            )
        )


def _row(fit: Fit) -> tuple[Any, ...]:
    cells, found = fit.design.cells, fit.diagnostics
    n_trials = int(cells.trials.sum())
    worst = found.worst
    ess = [worst[name].value for name in ("ess_bulk", "ess_tail") if name in worst]
    return (
        n_trials,
        float(cells.successes.sum()) / n_trials,
        worst["rhat"].value if "rhat" in worst else np.nan,
        min(ess, default=np.nan),
        found.divergences,
        len(found.refits),
        found.passed,
    )
