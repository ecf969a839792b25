"""Simulated trials of a balanced design, with known components."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from gstudy.errors import QuantityError, did_you_mean, explain
from gstudy.study.declaration import checked_study
from gstudy.study.partition import Codes, split
from gstudy.study.records import parents_first

if TYPE_CHECKING:
    import pandas as pd

    from gstudy.study.declaration import Study
    from gstudy.study.index_sets import IndexSet

__all__ = ["simulate"]

# Stands for the trials of a counts study that declares no facet for them; no facet may have it.
_TRIALS = "trials"

# A table of so many rows takes some gigabytes.
_MOST_TRIALS = 50_000_000


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
        component, a negative sd, and what is no number, mapping or seed.

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

    study = checked_study(study)
    sizes = _sizes(study, design)
    sets = _sets(study, sd)
    _check_settings(mu, seed)
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
    _check_mapping("design", design, "{'task': 100, 'rollout': 4}")
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
        n: object = design.get(name)
        if not _is_count(n):
            raise QuantityError(
                explain(
                    f"the design needs a number of levels of {name!r}",
                    given=n,
                    allowed="a whole number from 1 up",
                )
            )
    sizes = {name: int(design[name]) for name in names}
    trials = math.prod(sizes.values())
    if trials > _MOST_TRIALS:
        raise QuantityError(
            explain(
                f"the design has {trials:,} trials, more than a table holds",
                given=dict(design),
                allowed=f"up to {_MOST_TRIALS:,} trials",
                do="Numbers of levels of a nested facet are within one combination of its parents.",
            )
        )
    return sizes


def _check_mapping(name: str, value: object, example: str) -> None:
    if not isinstance(value, Mapping):
        raise QuantityError(
            explain(
                f"{name} is no mapping", given=type(value).__name__, allowed=f"such as {example}"
            )
        )


def _check_settings(mu: object, seed: object) -> None:
    if _finite(mu) is None:
        raise QuantityError(explain("mu is no number", given=mu, allowed="a finite number (logit)"))
    whole = isinstance(seed, int | np.integer) and not isinstance(seed, bool)
    if seed is not None and (not whole or str(seed).startswith("-")):
        raise QuantityError(explain("the seed is not usable", given=seed, allowed="whole, from 0"))


def _is_count(n: object) -> bool:
    number = _finite(n)
    return number is not None and number >= 1 and number.is_integer()


def _finite(value: object) -> float | None:
    """The value as a number; None when it is none, or not finite."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _sets(study: Study, sd: Mapping[str, float]) -> dict[IndexSet, float]:
    """Index sets with their sds, in declared order: the order of `sd` never matters."""
    _check_mapping("sd", sd, "{'task': 1.5, 'system:task': 0.5}")
    found: dict[IndexSet, float] = {}
    for name, given in sd.items():
        parts = frozenset(str(name).split(":"))
        if not parts <= frozenset(study.facet_names):
            raise QuantityError(
                explain(
                    f"sd names an unknown component {name!r}",
                    allowed=f"facets joined by ':', of {', '.join(study.facet_names)}",
                    do=did_you_mean(name, study.facet_names),
                )
            )
        scale = _finite(given)
        if scale is None or scale < 0:
            raise QuantityError(
                explain(f"sd of {name!r} is no sd", given=given, allowed="a number from 0 up")
            )
        whole = study.closure(parts)
        if whole in found:
            raise QuantityError(explain(f"sd names {study.name_of(whole)!r} twice", given=list(sd)))
        found[whole] = scale
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
