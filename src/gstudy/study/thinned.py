"""Thinned trials: so many rollouts of each task, drawn at random without replacement."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gstudy.errors import QuantityError, explain

if TYPE_CHECKING:
    import pandas as pd

    from gstudy.study.declaration import Study

__all__ = ["fewest_rollouts", "thinned"]


def fewest_rollouts(usable: pd.DataFrame, study: Study) -> int:
    """The smallest number of rollouts that any combination of the other facets has.

    Parameters
    ----------
    usable : pandas.DataFrame
        As `Trials.usable` gives it.
    study : Study

    Raises
    ------
    QuantityError
        When no facet holds rollouts, and trials are not counted either.
    """
    if study.score is None:
        return int(usable["trials"].min())
    groups, units = _units(usable, study)
    return int(units.groupby(groups).size().min()) if groups else len(units)


def thinned(
    usable: pd.DataFrame, study: Study, rollouts: int, rng: np.random.Generator
) -> pd.DataFrame:
    """A random part of the trials in which every task has so many rollouts.

    Parameters
    ----------
    usable : pandas.DataFrame
        As `Trials.usable` gives it.
    study : Study
    rollouts : int
        Up to `fewest_rollouts`. Of counts the passes are hypergeometric; all scores of a rollout
        stay together.
    rng : numpy.random.Generator

    Returns
    -------
    pandas.DataFrame
        In the study's own columns.
    """
    if study.score is None:
        passed, trials = usable["successes"].to_numpy(), usable["trials"].to_numpy()
        drawn = rng.hypergeometric(passed, trials - passed, rollouts)
        return _in_columns(usable.assign(successes=drawn, trials=rollouts), study)
    groups, units = _units(usable, study)
    order = units.iloc[rng.permutation(len(units))]
    place = order.groupby(groups).cumcount() if groups else np.arange(len(order))
    kept = order[np.asarray(place) < rollouts]
    chosen = usable.reset_index().merge(kept, on=list(units.columns)).sort_values("index")
    return _in_columns(chosen, study)


def _units(usable: pd.DataFrame, study: Study) -> tuple[list[str], pd.DataFrame]:
    """Columns of what rollouts are repeats of, and the distinct rollouts."""
    redrawn = study.redrawn_on_rerun() & set(usable)
    tops = [f for f in redrawn if not (study.closure(f) - {f}) & redrawn]
    if not tops:
        raise QuantityError(
            explain(
                "there are no rollouts to draw from: no facet is drawn anew on a re-run",
                allowed="a facet nested in the task, or counts of trials",
                do='Name it in the study: rollout = "...".',
            )
        )
    inside = frozenset[str]().union(*(study.closure(facet) for facet in tops))
    columns = [facet.name for facet in study.labelled if facet.name in inside]
    return [name for name in columns if name not in tops], usable[columns].drop_duplicates()


def _in_columns(rows: pd.DataFrame, study: Study) -> pd.DataFrame:
    """Usable rows as the study reads them."""
    columns = {facet.name: facet.source_column for facet in study.labelled}
    if study.score is None:
        columns |= {"successes": str(study.successes), "trials": str(study.trials)}
    else:
        columns |= {"successes": study.score}
    if study.standard_error is not None:
        columns |= {"standard_error": study.standard_error}
    return rows[list(columns)].rename(columns=columns).reset_index(drop=True)
