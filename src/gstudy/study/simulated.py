"""Simulated trials of a balanced design, with known components."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from gstudy.errors import QuantityError, did_you_mean, explain
from gstudy.study.partition import Codes, split
from gstudy.study.records import parents_first

if TYPE_CHECKING:
    import pandas as pd

    from gstudy.study.declaration import Study
    from gstudy.study.index_sets import IndexSet

__all__ = ["simulate"]

# Stands for the trials of a counts study that declares no facet for them; no facet may have it.
_TRIALS = "trials"


def simulate(
    study: Study,
    design: Mapping[str, int],
    *,
    sd: Mapping[str, float],
    mu: float = 0.0,
    seed: int | None = None,
) -> pd.DataFrame:
    """Trials of a balanced design, drawn from the model with known components.

    ``logit P(y = 1) = mu + sum_c u_c[level]`` with ``u_c ~ Normal(0, sd_c^2)``, one component per
    index set that `sd` names.

    Parameters
    ----------
    study : Study
        Its facets, nesting and columns.
    design : mapping of str to int
        Number of levels of every facet, the object included; of a nested facet within each
        combination of its parents. In counts form without a counted facet also "trials", the
        number in each row.
    sd : mapping of str to float
        Standard deviations on the logit scale, by component; any set of facets can be one, parents
        may be left out of its name. Sets that are not named have none.
    mu : float
        Mean on the logit scale.
    seed : int, optional
        One seed gives one table, whatever the facets are called.

    Returns
    -------
    pandas.DataFrame
        One row per trial, or per count, in the study's own columns; labels are facet name and
        number, numbers alone where a facet is nested.

    Raises
    ------
    QuantityError
        For a facet without a number of levels, an unknown facet, a number below 1, an unknown
        component, a negative sd.

    Examples
    --------
    >>> import gstudy as gs
    >>> study = gs.Study(
    ...     score="passed",
    ...     facets=[
    ...         gs.Facet("task", role="legitimate"),
    ...         gs.Facet("run", role="legitimate", nested_in=["task"]),
    ...     ],
    ... )
    >>> simulate(study, {"task": 2, "run": 2}, sd={"task": 1.5}, seed=1)
        task run  passed
    0  task1   1       1
    1  task1   2       0
    2  task2   1       1
    3  task2   2       1
    """
    import pandas as pd

    sizes = _sizes(study, design)
    sets = _sets(study, sd)
    codes = _grid(list(sizes.values()))
    places = {name: i for i, name in enumerate(sizes)}
    order = parents_first(study.facet_names, study)
    rng = np.random.default_rng(seed)
    logit = np.full(len(codes), float(mu))
    for whole, scale in sets.items():
        partition = split(codes, [places[facet] for facet in order if facet in whole])
        logit += scale * rng.standard_normal(partition.n_levels)[partition.index]
    passed = rng.random(len(codes)) < _expit(logit)
    labels = {
        study.facet(facet).source_column: _labels(facet, n, study)[codes[:, places[facet]]]
        for facet, n in sizes.items()
        if facet not in (study.counted, _TRIALS)
    }
    if study.score is not None:
        return pd.DataFrame({**labels, study.score: passed.astype(np.int64)})
    return _counted(labels, passed, codes, places, study)


def _sizes(study: Study, design: Mapping[str, int]) -> dict[str, int]:
    """Levels of each facet in declared order, checked."""
    counts_alone = study.score is None and study.counted is None
    names = [*study.facet_names, *([_TRIALS] if counts_alone else [])]
    for name in design:
        if name not in names:
            raise QuantityError(
                explain(
                    f"the design names an unknown facet {name!r}",
                    allowed=names,
                    do=did_you_mean(name, names),
                )
            )
    for name in names:
        n = design.get(name)
        if n is None or isinstance(n, bool) or int(n) != n or n < 1:
            raise QuantityError(
                explain(
                    f"the design needs a number of levels of {name!r}",
                    given=n,
                    allowed="a whole number from 1 up",
                )
            )
    return {name: int(design[name]) for name in names}


def _sets(study: Study, sd: Mapping[str, float]) -> dict[IndexSet, float]:
    """Index sets with their sds, in declared order: the order of `sd` never matters."""
    found: dict[IndexSet, float] = {}
    for name, scale in sd.items():
        parts = frozenset(name.split(":"))
        if not parts <= frozenset(study.facet_names):
            raise QuantityError(
                explain(
                    f"sd names an unknown component {name!r}",
                    allowed=f"facets joined by ':', of {', '.join(study.facet_names)}",
                    do=did_you_mean(name, study.facet_names),
                )
            )
        if not (np.isfinite(scale) and scale >= 0):
            raise QuantityError(
                explain(f"sd of {name!r} is no sd", given=scale, allowed="a number from 0 up")
            )
        whole = study.closure(parts)
        if whole in found:
            raise QuantityError(explain(f"sd names {study.name_of(whole)!r} twice", given=list(sd)))
        found[whole] = float(scale)
    place = {facet: i for i, facet in enumerate(study.facet_names)}
    ordered = sorted(found, key=lambda whole: (len(whole), sorted(place[f] for f in whole)))
    return {whole: found[whole] for whole in ordered}


def _grid(sizes: Sequence[int]) -> Codes:
    """Every combination of codes, the first facet slowest."""
    return np.indices(sizes, dtype=np.int32).reshape(len(sizes), -1).T


def _labels(facet: str, n: int, study: Study) -> npt.NDArray[np.object_]:
    """Own labels; a nested facet's are numbers, used again under every parent."""
    prefix = "" if study.facet(facet).nested_in else facet
    width = len(str(n)) if prefix else 0
    return np.array([f"{prefix}{i:0{width}d}" for i in range(1, n + 1)], dtype=object)


def _counted(
    labels: Mapping[str, npt.NDArray[np.object_]],
    passed: npt.NDArray[np.bool_],
    codes: Codes,
    places: Mapping[str, int],
    study: Study,
) -> pd.DataFrame:
    """Passes and trials of each combination of labelled facets."""
    import pandas as pd

    counted = study.counted or _TRIALS
    rows = split(codes, [place for facet, place in places.items() if facet != counted])
    first = rows.first_rows()
    return pd.DataFrame(
        {
            **{column: values[first] for column, values in labels.items()},
            str(study.successes): rows.totals(passed.astype(np.int64)),
            str(study.trials): rows.totals(np.ones(len(codes), dtype=np.int64)),
        }
    )


def _expit(logit: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return 0.5 * (1.0 + np.tanh(0.5 * logit))
