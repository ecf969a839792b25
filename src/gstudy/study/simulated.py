"""Simulated trials of a balanced design, with known components."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gstudy.errors import QuantityError, did_you_mean, explain
from gstudy.study.declaration import checked_study
from gstudy.study.designs import TRIALS, Design
from gstudy.study.partition import Codes, split
from gstudy.study.records import parents_first

if TYPE_CHECKING:
    import pandas as pd

    from gstudy.study.declaration import Study
    from gstudy.study.index_sets import IndexSet

__all__ = ["simulate"]

# A table of so many rows takes some gigabytes.
_MOST_TRIALS = 50_000_000


def simulate(
    study: Study,
    design: Mapping[str, int],
    *,
    sd: Mapping[str, float | Mapping[str, float]],
    mu: float = 0.0,
    fixed: Mapping[str, Mapping[str, float] | Sequence[float]] | None = None,
    residual: float | None = None,
    correlation: float | Sequence[Sequence[float]] = 0.0,
    seed: int | None = None,
) -> pd.DataFrame:
    """Trials of a balanced design, drawn from the model with known components.

    ``logit P(y = 1) = mu + fixed effects + sum_c u_c[level]`` with ``u_c ~ Normal(0, sd_c^2)``,
    one component per index set that `sd` names; of a graded study
    ``y ~ Normal(mu + ..., residual^2)``.

    Parameters
    ----------
    study : Study
        Its facets, nesting, columns and family.
    design : mapping of str to int
        Number of levels of every facet, the object included; of a nested facet within each
        combination of its parents. In counts form without a counted facet also "trials", the
        number in each row.
    sd : mapping of str to float, or to a mapping of str to float
        Standard deviations by component, on the logit scale or in the unit of graded scores; any
        set of facets can be one, parents may be left out of its name. Sets that are not named
        have none. A mapping gives each level of the object its own, and the levels their labels.
    mu : float
        Mean on the logit scale, or of graded scores.
    fixed : mapping of str to mapping or sequence, optional
        Effects of the levels of a facet, such as a controlled one; a mapping also gives the levels
        their labels.
    residual : float, optional
        Of graded scores the sd of a trial, or its known standard error.
    correlation : float or matrix
        Between the own effects of two levels of the object on one level of a crossed facet.
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
        component, judges that do not score each unit, a negative sd, numbers or labels that do not
        fit the design, a matrix that is no correlation, a residual of a 0/1 score, and what is no
        number, mapping or seed.

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
    noise = _noise(study, residual)
    named = _Named(study, sizes)
    effects = {facet: named.values("fixed", facet, v) for facet, v in _fixed(study, fixed).items()}
    scales = {
        whole: scale if isinstance(scale, float) else named.own_sds(study.name_of(whole), scale)
        for whole, scale in sets.items()
    }
    root = _root(correlation, sizes.get(study.object or "", 1))
    _check_correlated(root, scales, correlation)
    codes = _grid(list(sizes.values()))
    places = {name: i for i, name in enumerate(sizes)}
    rng = np.random.default_rng(seed)
    mean = np.full(len(codes), float(mu))
    for facet, values in effects.items():
        mean += values[codes[:, places[facet]]]
    for whole, scale in scales.items():
        mean += _random_effects(study, whole, scale, codes, root, rng)
    labels = {
        study.facet(facet).source_column: named.labels(facet)[codes[:, places[facet]]]
        for facet in sizes
        if facet not in (study.counted, TRIALS)
    }
    if noise is not None:
        columns = {**labels, str(study.score): mean + noise * rng.standard_normal(len(codes))}
        known = {} if study.standard_error is None else {study.standard_error: noise}
        return pd.DataFrame({**columns, **known})
    passed = rng.random(len(codes)) < _expit(mean)
    if study.score is not None:
        return pd.DataFrame({**labels, study.score: passed.astype(np.int64)})
    return _counted(labels, passed, codes, places, study)


def _random_effects(
    study: Study,
    whole: IndexSet,
    scale: float | npt.NDArray[np.float64],
    codes: Codes,
    root: npt.NDArray[np.float64],
    rng: np.random.Generator,
) -> npt.NDArray[np.float64]:
    """The effects of one component in each row; `scale` holds one sd, or one per system."""
    names = list(study.facet_names)
    order = [facet for facet in parents_first(names, study) if facet in whole]
    partition = split(codes, [names.index(facet) for facet in order])
    if isinstance(scale, float):
        return np.asarray(scale * rng.standard_normal(partition.n_levels)[partition.index])
    own = codes[:, names.index(str(study.object))]
    if study.object in whole:
        return np.asarray(scale[own] * rng.standard_normal(partition.n_levels)[partition.index])
    z = rng.standard_normal((partition.n_levels, len(scale))) @ root.T
    return np.asarray(scale[own] * z[partition.index, own])


class _Named:
    """Labels of the levels, the design's own or those that a setting names."""

    def __init__(self, study: Study, sizes: Mapping[str, int]) -> None:
        self.study = study
        self.sizes = sizes
        self._given: dict[str, list[str]] = {}

    def labels(self, facet: str) -> npt.NDArray[np.object_]:
        """The labels of a facet's levels, in the order of their codes."""
        if facet in self._given:
            return np.array(self._given[facet], dtype=object)
        return _labels(facet, self.sizes[facet], self.study)

    def values(self, key: str, facet: str, given: Any) -> npt.NDArray[np.float64]:
        """One number per level of a facet; a mapping names the levels."""
        n = self.sizes[facet]
        if isinstance(given, Mapping):
            self._name(key, facet, [str(label) for label in given])
            order = {label: i for i, label in enumerate(self._given[facet])}
            values = [v for _, v in sorted(given.items(), key=lambda item: order[str(item[0])])]
        else:
            listed = isinstance(given, Sequence | np.ndarray) and not isinstance(given, str)
            values = list(given) if listed else []
        numbers = [number for number in map(_finite, values) if number is not None]
        if len(numbers) != n or len(values) != n:
            raise QuantityError(
                explain(
                    f"{key} of {facet!r} does not give a number to each level",
                    given=given,
                    allowed=f"{n} finite numbers, as the design has levels",
                )
            )
        return np.array(numbers)

    def own_sds(self, name: str, given: Mapping[str, float]) -> npt.NDArray[np.float64]:
        """The sd of each level of the object."""
        measured = self.study.object
        if measured is None or self.study.facet(measured).nested_in:
            raise QuantityError(
                explain(
                    f"sd of {name!r} gives own sds, which a crossed object's levels have",
                    given=given,
                    do="One number is the sd of all.",
                )
            )
        values = self.values("sd", measured, given)
        if (values < 0).any():
            raise QuantityError(
                explain(f"sd of {name!r} is no sd", given=given, allowed="numbers from 0 up")
            )
        return values

    def _name(self, key: str, facet: str, labels: list[str]) -> None:
        known = self._given.get(facet, labels)
        if len(labels) != self.sizes[facet] or set(known) != set(labels):
            raise QuantityError(
                explain(
                    f"{key} names other levels of {facet!r} than the design or another setting",
                    given=labels,
                    allowed=f"{self.sizes[facet]} labels, the same everywhere",
                )
            )
        self._given.setdefault(facet, labels)


def _fixed(study: Study, fixed: Any) -> Mapping[str, Any]:
    """The effects by facet, in declared order."""
    if fixed is None:
        return {}
    _check_mapping("fixed", fixed, "{'place': {'here': -0.5, 'there': 0.5}}")
    free = [facet.name for facet in study.labelled if not facet.nested_in]
    for facet in fixed:
        if facet not in free:
            raise QuantityError(
                explain(
                    f"fixed names an unknown facet {facet!r}",
                    allowed=free,
                    do=did_you_mean(facet, free) or "It is of crossed facets with labels.",
                )
            )
    return {facet: fixed[facet] for facet in free if facet in fixed}


def _noise(study: Study, residual: object) -> float | None:
    """The sd of a graded trial; None for a 0/1 score, whose noise follows from its rate."""
    if study.family != "gaussian":
        if residual is not None:
            raise QuantityError(
                explain(
                    "a 0/1 score has no residual sd: its noise follows from its rate",
                    given=residual,
                    do='Take residual out, or declare family = "gaussian".',
                )
            )
        return None
    number = _finite(residual)
    if number is None or number < 0 or (number == 0 and study.standard_error is not None):
        raise QuantityError(
            explain(
                "graded scores need the sd of a trial",
                given=residual,
                allowed="residual = a number from 0 up; above 0 where errors are known",
            )
        )
    return number


def _check_correlated(
    root: npt.NDArray[np.float64], scales: Mapping[IndexSet, object], correlation: object
) -> None:
    """A correlation needs effects of each system to be between."""
    plain = all(isinstance(scale, float) for scale in scales.values())
    if plain and not np.array_equal(root, np.eye(len(root))):
        raise QuantityError(
            explain(
                "correlation is between the systems' own effects, and no component has own sds",
                given=correlation,
                allowed='an sd per system, such as sd={"task": {"A": 1.0, "B": 2.0}}',
                do="Leave correlation out, or give each system its own sd of a component.",
            )
        )


def _root(correlation: object, n: int) -> npt.NDArray[np.float64]:
    """A matrix R with R R' the correlations between the object's levels."""
    one = _finite(correlation)
    try:
        wanted = np.full((n, n), one) if one is not None else np.array(correlation, dtype=float)
    except (TypeError, ValueError):
        wanted = np.zeros((0, 0))
    if one is not None:
        np.fill_diagonal(wanted, 1.0)
    fits = wanted.shape == (n, n) and np.isfinite(wanted).all() and (wanted.diagonal() == 1).all()
    values, vectors = np.linalg.eigh(wanted) if fits else (np.array([-1.0]), wanted)
    if not fits or not np.array_equal(wanted, wanted.T) or values.min() < -1e-10:
        raise QuantityError(
            explain(
                "this is no correlation between the levels of the object",
                given=correlation,
                allowed=f"a number from -1 to 1, or a matrix of {n} x {n}",
                do="Among many levels a negative one has a limit: -1/(n - 1)."
                if one is not None and one < 0
                else None,
            )
        )
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def _sizes(study: Study, design: Mapping[str, int]) -> dict[str, int]:
    """Levels of each facet in declared order, checked."""
    _check_mapping("design", design, "{'task': 100, 'rollout': 4}")
    _check_judges(design)
    counts_alone = study.score is None and study.counted is None
    names = [*study.facet_names, *([TRIALS] if counts_alone else [])]
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


def _check_judges(design: Mapping[str, int]) -> None:
    if isinstance(design, Design) and design.judges != "all":
        raise QuantityError(
            explain(
                "only designs in which every judge scores each unit are simulated",
                given=f"judges={design.judges!r}",
                do="Simulate with judges='all', and take the rows that the judges would score.",
            )
        )


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


def _sets(
    study: Study, sd: Mapping[str, float | Mapping[str, float]]
) -> dict[IndexSet, float | Mapping[str, float]]:
    """Index sets with their sds, in declared order: the order of `sd` never matters."""
    _check_mapping("sd", sd, "{'task': 1.5, 'system:task': 0.5}")
    found: dict[IndexSet, float | Mapping[str, float]] = {}
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
        scale = given if isinstance(given, Mapping) else _finite(given)
        if scale is None or (isinstance(scale, float) and scale < 0):
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

    counted = study.counted or TRIALS
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
