"""What designs would tell: precision of a score and of differences, by posterior draw."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from gstudy.errors import QuantityError, explain
from gstudy.planning.comparison import DesignComparison
from gstudy.planning.detectable import detectable_factor
from gstudy.planning.efficiency import trial_count
from gstudy.planning.goals import checked_width
from gstudy.planning.merged import Bounds, bounds_of
from gstudy.planning.named_designs import named_designs
from gstudy.planning.predictions import QUANTITIES, Answers, Predictions, bounded_variances
from gstudy.planning.prices import declared_cost, price
from gstudy.planning.systems import Systems, systems_of
from gstudy.study.designs import Design
from gstudy.variance.basis import Basis, basis_of
from gstudy.variance.claims import claim_of
from gstudy.variance.coefficients import checked_cut
from gstudy.variance.components import component_notes, estimand_of
from gstudy.variance.decomposition import SCORE, Decomposition, average, decompositions
from gstudy.variance.designs import checked_counts, following
from gstudy.variance.draws import checked_seed, labelled, normal_quantile
from gstudy.variance.latent import widest

if TYPE_CHECKING:
    import xarray as xr

    from gstudy.fits.fitted import Fit
    from gstudy.variance.components import VarianceComponents

__all__ = ["compare_designs"]


def compare_designs(
    source: Fit | VarianceComponents,
    designs: Any,
    *,
    cost: Mapping[str, float] | None = None,
    system: str | None = None,
    coverage: float = 0.95,
    target: float | None = None,
    power: float = 0.8,
    cut: float | None = None,
    pass_k: int | None = None,
    systems: int | Sequence[str] | None = None,
    compared: tuple[str, str] | None = None,
    bounds: bool = False,
    seed: int = 0,
) -> DesignComparison:
    """What each of several designs would tell, with its cost.

    Parameters
    ----------
    source : Fit or VarianceComponents
    designs : Design, mapping of facets to levels, or several of them
        A list, or a mapping of names to designs; None stands for the design as collected.
    cost : Cost or mapping of str to float, optional
        Price of a unit of each facet; by default that of the study, else trials are counted.
    system : str, optional
        Whose score, as for `variance_budget`.
    coverage : float
        Nominal, of the interval of a score or of a difference, in (0, 1).
    target : float, optional
        A half-width of the score, in its units: 0.03 is 3 points of a pass rate.
    power : float
        Probability with which a minimal detectable difference is found, in (0, 1).
    cut : float, optional
        A score that decisions are taken at: adds Phi(cut).
    pass_k : int, optional
        Adds the half-width of pass^k, the chance that k rollouts of a task all pass.
    systems : int or list of str, optional
        How many systems of the population are ranked, or which fitted ones; by default all fitted
        ones, or two of the population. When given, the cost is that of so many systems.
    compared : tuple of str, optional
        The two fitted systems of the difference, by default the mean over all pairs.
    bounds : bool
        Of a design that changes one facet of a merged component alone give two bounds instead of
        an error.
    seed : int
        Of the points at which probabilities of more than two systems are integrated.

    Returns
    -------
    DesignComparison
        What the source cannot answer is left out, and a note says why.

    Raises
    ------
    QuantityError
        As `variance_budget`, for systems that were not fitted, a price of what the study does not
        have, a target, cut, k or flag that is not usable, and, without `bounds`, for a change of
        one facet of a merged component alone.

    Notes
    -----
    All per draw, score scale. A difference of two given systems that run the same levels has
    ``Var_1 + Var_2 - 2 Cov``, of two of a population ``2 v_delta``; on levels of their own
    ``Var_1 + Var_2`` and ``2 v_Delta``. Minimal detectable difference: ``(z_{1-a/2} + z_power)
    sqrt(Var)``. Rankings: see `gstudy.planning.rankings`. Reported scores are taken as normal;
    those of N trials are multiples of 1/N, which alone moved a power of .80 to .78 at N = 150.
    Design effect: ``Var / (m (1 - m) / N)`` of N trials.

    Examples
    --------
    >>> import gstudy as gs
    >>> study = gs.Study(
    ...     score="passed", object="system", facets=[gs.Facet("task", role="legitimate")]
    ... )
    >>> vc = gs.assume(study, {"system": 0.02, "task": 0.1, "residual": 0.12}, mean=0.6)
    >>> found = gs.compare_designs(vc, [{"task": 50}, {"task": 200}])
    >>> found.summary()["mean"].loc["50 task"][["mdd", "p_winner"]].round(3).to_dict()
    {'mdd': 0.194, 'p_winner': 0.894}
    """
    basis = basis_of(source)
    asked = Predictions(
        basis=basis,
        system=system,
        coverage=coverage,
        factor=detectable_factor(coverage, power),
        systems=_systems(basis, systems, compared),
        target=None if target is None else checked_width(target),
        cut=None if cut is None else checked_cut(cut, SCORE, basis),
        k=_checked_k(pass_k),
        seed=checked_seed(seed),
    )
    _check_flag(bounds)
    named, rows = named_designs(designs), list[_Row]()
    for name, design in named.items():
        held = None if design is None else bounds_of(basis, design)
        if held is None or design is None:
            rows.append(_Row(name, design, basis, asked.answers(source, design, name)))
            continue
        if not bounds:
            _refuse_merged(basis, design, held, system, coverage)
        for end, answers in asked.bounds(held, design, name).items():
            rows.append(_Row(f"{name} ({end})", design, held.least.basis, answers))
    draws = _labelled({row.name: row.answers for row in rows}, asked.shape)
    parts = decompositions(basis, SCORE, system)
    prices, paid = declared_cost(basis.study, cost), _n_systems(systems)
    options = {"power": power, "target": asked.target, "cut": asked.cut, "pass_k": asked.k}
    return DesignComparison(
        draws=draws,
        designs={row.name: row.design for row in rows},
        costs={row.name: row.cost(system, prices, paid) for row in rows},
        trials={row.name: row.trials(system) for row in rows},
        estimand=f"a score of {estimand_of(basis, parts)}{basis.remark}",
        coverage=float(coverage),
        options={key: value for key, value in options.items() if value is not None},
        notes=(
            *asked.notes(list(named)),
            *_claims(basis, average(parts), named),
            *basis.stamp(labelled(draws.sel(quantity="variance").values.mean(-1))),
            *component_notes(basis, parts),
        ),
        assumed=basis.assumed,
        family=basis.study.family,
        paid=f"cost: of {paid} {basis.study.object}s." if paid > 1 else "",
        object=basis.study.object or "system",
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Row:
    """A design with its answers; `basis` is of the source that it does not separate."""

    name: str
    design: Design | None
    basis: Basis
    answers: Answers

    def trials(self, system: str | None) -> float:
        """Trials behind one score."""
        part = average(decompositions(self.basis, SCORE, system))
        return trial_count(
            self.basis, part, self.design, claim_of(self.basis.study, part.structure)
        )

    def cost(self, system: str | None, prices: Mapping[str, float] | None, systems: int) -> float:
        """Cost for so many systems; NaN of the design as collected, unless trials are counted."""
        if self.design is None:
            return self.trials(system) * systems if prices is None else np.nan
        part = average(decompositions(self.basis, SCORE, system))
        found = price(
            self.basis.study,
            prices,
            checked_counts(part.structure, self.design, {}),
            judges=self.design.judges,
            systems=systems,
            follows=following(part.structure),
            controlled=part.controlled,
        )
        return float(found)


def _refuse_merged(
    basis: Basis, design: Design, held: Bounds, system: str | None, coverage: float
) -> None:
    """The error of a design that separates a merged component, with the bound."""
    low, high = (
        min(float((normal_quantile(coverage) * np.sqrt(v)).mean()), widest(basis.study.family))
        for v in bounded_variances(held, design, system)
    )
    raise QuantityError(
        explain(
            f"{held.names[0]!r} is one component: the data cannot tell its parts apart, so that "
            "one of its facets cannot change alone",
            given=dict(design),
            allowed="designs in which its facets go together as they were collected",
            do=f"The half-width of this one lies between {low:.4g} and {high:.4g}: bounds=True "
            "gives both. Or collect trials that separate them, then fit again.",
        )
    )


def _claims(
    basis: Basis, part: Decomposition, designs: Mapping[str, Design | None]
) -> Iterable[str]:
    """What designs claim that pin something."""
    for name, design in designs.items():
        if design is not None and design.pin:
            claim = claim_of(basis.study, part.structure, design=design)
            words = claim.words(part.structure, collected=False).removeprefix(", ")
            yield f"{name}: a smaller claim, {words}."


def _labelled(found: Mapping[str, Answers], shape: tuple[int, int]) -> xr.DataArray:
    """Draws (chain, draw, design, quantity); NaN of what a design does not have."""
    import xarray as xr

    known = [q for q in QUANTITIES if any(q in answers for answers in found.values())]
    values = np.full((len(found), len(known), shape[0] * shape[1]), np.nan)
    for i, answers in enumerate(found.values()):
        for quantity, draws in answers.items():
            values[i, known.index(quantity)] = draws
    stacked = values.reshape(len(found), len(known), *shape).transpose(2, 3, 0, 1)
    coords = {
        "chain": np.arange(shape[0]),
        "draw": np.arange(shape[1]),
        "design": np.array(list(found), dtype=object),
        "quantity": np.array(known, dtype=object),
    }
    return xr.DataArray(stacked, coords, ("chain", "draw", "design", "quantity"), "prediction")


def _systems(basis: Basis, systems: object, compared: object) -> Systems | QuantityError:
    """The systems to compare; where none were named, the reason why none can be."""
    try:
        return systems_of(basis, systems, compared)
    except QuantityError as error:
        if systems is not None or compared is not None:
            raise
        return error


def _n_systems(systems: int | Sequence[str] | None) -> int:
    if systems is None:
        return 1
    return systems if isinstance(systems, int) else len(systems)


def _check_flag(bounds: object) -> None:
    if not isinstance(bounds, bool | np.bool_):
        raise QuantityError(
            explain(
                "bounds says whether to give two bounds of what the data leave open",
                given=bounds,
                allowed="True or False",
                do="Numbers of levels to search between belong to gs.best_design.",
            )
        )


def _checked_k(k: object) -> int | None:
    if k is None:
        return None
    whole = isinstance(k, int | np.integer) and not isinstance(k, bool)
    if not whole or int(cast("int", k)) < 1:
        raise QuantityError(
            explain("pass_k is no number of rollouts", given=k, allowed="whole numbers from 1 on")
        )
    return int(cast("int", k))
