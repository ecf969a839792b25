"""Gates: what a set of draws must pass before a number made from it is printed as it is.

The limits are those of Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), Bayesian Analysis
16(2), doi:10.1214/20-BA1221 (rank R-hat, bulk and tail ESS) and Betancourt (2016),
arXiv:1604.00695 (E-BFMI); a divergence means a region that the sampler could not enter.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from gstudy.errors import ConvergenceWarning

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt
    import xarray as xr

    from gstudy.display import Table

__all__ = [
    "EBFMI_LIMIT",
    "ESS_LIMIT",
    "RHAT_LIMIT",
    "STAMP",
    "Diagnostics",
    "Worst",
    "assess",
    "stamp",
    "warn_if_failed",
]

RHAT_LIMIT = 1.01
ESS_LIMIT = 400
EBFMI_LIMIT = 0.3

STAMP = "NOT CONVERGED"
"""What every note begins with that marks numbers which fail a gate."""

# Tail ESS is the smaller ESS of these two quantiles (Vehtari et al. 2021, section 4.3).
TAIL_QUANTILES = (0.05, 0.95)

# Below this many draws a chain cannot be split in two halves with a variance each.
FEWEST_DRAWS = 4

_MEASURES = ("rhat", "ess_bulk", "ess_tail")
_TITLES = {"rhat": "R-hat", "ess_bulk": "bulk ESS", "ess_tail": "tail ESS"}
_SHOWN_FAILURES = 3


class Worst(NamedTuple):
    """The worst value of one gate, and the quantity that has it."""

    quantity: str
    value: float


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Diagnostics:
    """How well the sampler explored, for every quantity that is printed.

    Parameters
    ----------
    frame : pandas.DataFrame
        Index `quantity`; columns `rhat`, `ess_bulk`, `ess_tail` (NaN where they have no value),
        `kind` ("parameter" or "derived") and `state` ("varies", "constant" or "not finite").
    divergences : int
        Over all chains, after tuning.
    ebfmi : tuple of float
        Energy Bayesian fraction of missing information, one per chain; empty when the sampler
        recorded no energy.
    chains, draws : int
        Number of chains and draws of each.
    refits : tuple of str
        What was tried before this fit, in words, in order.

    Examples
    --------
    >>> import numpy as np
    >>> normal = np.random.default_rng(1).normal(size=(4, 500))
    >>> assess({"mu": normal}, {"diverging": np.zeros((4, 500), bool)}).passed
    True
    """

    frame: pd.DataFrame
    divergences: int
    ebfmi: tuple[float, ...]
    chains: int
    draws: int
    refits: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether every gate is passed by every quantity."""
        return not self.failures()

    @property
    def worst(self) -> dict[str, Worst]:
        """Largest R-hat, smallest bulk and tail ESS, with the quantity that has it."""
        found = {}
        for measure in _MEASURES:
            values = self.frame[measure].to_numpy(dtype=float)
            if not np.isnan(values).all():
                place = int(np.nanargmax(values) if measure == "rhat" else np.nanargmin(values))
                found[measure] = Worst(str(self.frame.index[place]), float(values[place]))
        return found

    def failures(self) -> list[str]:
        """One short text per gate that is not passed: quantity, value, limit."""
        return [
            *_shape_failures(self.chains, self.draws),
            *(text for row in self.frame.itertuples() for text in _row_failures(row)),
            *_count_failures(self.divergences),
            *_energy_failures(self.ebfmi),
        ]

    def summary(self) -> pd.DataFrame:
        """One row per gate: worst value, the quantity that has it, limit, passed.

        Returns
        -------
        pandas.DataFrame
            Index `gate`; columns `worst`, `quantity`, `limit`, `passed`.
        """
        rows = [_gate_row(measure, self.worst.get(measure)) for measure in _MEASURES]
        rows.append(("divergences", float(self.divergences), "", "0", self.divergences == 0))
        if self.ebfmi:
            low = int(np.argmin(self.ebfmi))
            passed = not _energy_failures(self.ebfmi)
            rows.append(("E-BFMI", self.ebfmi[low], f"chain {low}", f">= {EBFMI_LIMIT}", passed))
        columns = ["gate", "worst", "quantity", "limit", "passed"]
        return pd.DataFrame(rows, columns=columns).set_index("gate")

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-able values; :meth:`from_dict` gives it back exactly."""
        frame = self.frame.astype(object).where(self.frame.notna(), None)
        return {
            "quantities": list(frame.index),
            "columns": {str(name): list(frame[name]) for name in frame},
            "divergences": self.divergences,
            "ebfmi": [None if np.isnan(value) else value for value in self.ebfmi],
            "chains": self.chains,
            "draws": self.draws,
            "refits": list(self.refits),
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Diagnostics:
        """The diagnostics that :meth:`to_dict` wrote down."""
        frame = pd.DataFrame(
            stored["columns"], index=pd.Index(stored["quantities"], name="quantity")
        )
        return cls(
            frame=frame.astype(dict.fromkeys(_MEASURES, float)),
            divergences=int(stored["divergences"]),
            ebfmi=tuple(np.nan if value is None else float(value) for value in stored["ebfmi"]),
            chains=int(stored["chains"]),
            draws=int(stored["draws"]),
            refits=tuple(stored["refits"]),
        )

    def __str__(self) -> str:
        if self.passed:
            return f"gates passed: {_worst_text(self)}"
        return f"{STAMP}: {_listed(self.failures())}"

    def __repr__(self) -> str:
        refits = "".join(f"\n  before: {text}" for text in self.refits)
        return f"<Diagnostics of {len(self.frame)} quantities> {self}{refits}"

    def table(self) -> Table:
        """The summary as a table that can be printed."""
        from gstudy.display import Table

        return Table(
            frame=self.summary().reset_index(),
            title="Sampler gates",
            notes=(str(self), *(f"before: {text}" for text in self.refits)),
            formats={"worst": "number4"},
        )

    def _repr_html_(self) -> str:
        return self.table().html()


def assess(
    quantities: Mapping[str, npt.NDArray[np.float64]],
    sample_stats: Mapping[str, Any] | xr.Dataset | xr.DataTree,
    *,
    derived: Mapping[str, npt.NDArray[np.float64]] | None = None,
    refits: Sequence[str] = (),
) -> Diagnostics:
    """Measure every gate on every quantity.

    Parameters
    ----------
    quantities : mapping of str to array (chain, draw)
        Parameters of the model: one that never moves fails.
    sample_stats : mapping or xarray group
        `diverging` (chain, draw) and, if the sampler has it, `energy` (chain, draw).
    derived : mapping of str to array (chain, draw), optional
        Quantities computed from the parameters: one that is the same in every draw passes
        (the share of a source that does not exist is 0 in each).
    refits : sequence of str
        What was tried before, in words.

    Returns
    -------
    Diagnostics
    """
    derived = derived or {}
    every = {**quantities, **derived}
    stack = np.stack([np.asarray(values, dtype=float) for values in every.values()])
    frame = _measure(stack)
    frame.index = pd.Index(list(every), name="quantity")
    frame["kind"] = ["derived" if name in derived else "parameter" for name in every]
    return Diagnostics(
        frame=frame[[*_MEASURES, "kind", "state"]],
        divergences=int(np.sum(np.asarray(sample_stats["diverging"]))),
        ebfmi=_energy(sample_stats),
        chains=stack.shape[1],
        draws=stack.shape[2],
        refits=tuple(refits),
    )


def stamp(
    draws: xr.DataArray | npt.NDArray[np.float64], diagnostics: Diagnostics | None = None
) -> str | None:
    """The note that a table made from these draws must carry, or None when all gates pass.

    Parameters
    ----------
    draws : xarray.DataArray or array (chain, draw, ...)
        Draws of the printed quantities; the first two dimensions are chain and draw (a DataArray
        may have them anywhere). Labels of the last dimension name the quantities.
    diagnostics : Diagnostics, optional
        Of the fit that the draws come from: its failures are the table's failures too.

    Returns
    -------
    str or None

    Examples
    --------
    >>> import numpy as np
    >>> stamp(np.random.default_rng(1).normal(size=(4, 500, 2))) is None
    True
    """
    names, stack = _named_stack(draws)
    frame = _measure(stack)
    frame.index = pd.Index(names, name="quantity")
    frame["kind"] = "derived"
    failures = [] if diagnostics is None else diagnostics.failures()
    failures += [text for row in frame.itertuples() for text in _row_failures(row)]
    if diagnostics is None:
        failures = [*_shape_failures(*stack.shape[1:]), *failures]
    return f"{STAMP}: {_listed(failures)}. Do not publish." if failures else None


def warn_if_failed(diagnostics: Diagnostics, *, stacklevel: int = 2) -> None:
    """Raise one ConvergenceWarning that says what failed and what to do; silent when all passed.

    Parameters
    ----------
    diagnostics : Diagnostics
    stacklevel : int
        As in `warnings.warn`: 2 is the line that calls this function, 3 that function's caller.
    """
    failures = diagnostics.failures()
    if failures:
        text = f"the fit has not converged: {_listed(failures)}. {_advice(diagnostics)}"
        warnings.warn(text, ConvergenceWarning, stacklevel=stacklevel)


def _measure(stack: npt.NDArray[np.float64]) -> pd.DataFrame:
    """R-hat, bulk and tail ESS and the state of every quantity of `stack` (k, chain, draw)."""
    finite = np.isfinite(stack).all(axis=(1, 2))
    constant = (stack == stack[:, :1, :1]).all(axis=(1, 2))
    found = {measure: np.full(len(stack), np.nan) for measure in _MEASURES}
    moving = finite & ~constant
    if moving.any() and stack.shape[2] >= FEWEST_DRAWS:
        stats, some = _array_stats(), stack[moving]
        with np.errstate(divide="ignore", invalid="ignore"):
            found["ess_bulk"][moving] = stats.ess(some, method="bulk")
            found["ess_tail"][moving] = stats.ess(some, method="tail", prob=TAIL_QUANTILES)
            if stack.shape[1] > 1:
                # Chains that stand still at different values have no variance within: inf.
                rhat = stats.rhat(some, method="rank")
                found["rhat"][moving] = np.where(np.isnan(rhat), np.inf, rhat)
    state = np.where(~finite, "not finite", np.where(constant, "constant", "varies"))
    return pd.DataFrame({**found, "state": state})


def _array_stats() -> Any:
    """The array layer of ArviZ, which takes a second to import."""
    import arviz_stats.base as layer

    return vars(layer)["array_stats"]


def _energy(sample_stats: Any) -> tuple[float, ...]:
    if "energy" not in sample_stats:
        return ()
    energy = np.atleast_2d(np.asarray(sample_stats["energy"], dtype=float))
    if energy.shape[1] < FEWEST_DRAWS:
        return ()
    with np.errstate(divide="ignore", invalid="ignore"):
        values = _array_stats().bfmi(energy)
    return tuple(float(value) for value in np.atleast_1d(values))


def _named_stack(draws: Any) -> tuple[list[str], npt.NDArray[np.float64]]:
    """Names and an array (k, chain, draw) of draws with any further dimensions."""
    labels: list[str] | None = None
    if hasattr(draws, "dims"):
        extra = [dim for dim in draws.dims if dim not in ("chain", "draw")]
        draws = draws.transpose("chain", "draw", *extra)
        if len(extra) == 1 and extra[0] in draws.coords:
            labels = [str(label) for label in draws.coords[extra[0]].values]
        elif not extra:
            labels = [str(draws.name or "the quantity")]
    values = np.asarray(draws, dtype=float)
    stack = np.moveaxis(values.reshape(*values.shape[:2], -1), -1, 0)
    return labels or [f"quantity {i}" for i in range(len(stack))], stack


def _shape_failures(chains: int, draws: int) -> list[str]:
    if draws < FEWEST_DRAWS:
        return [f"{draws} draws per chain are too few to tell anything (limit {FEWEST_DRAWS})"]
    if chains < 2:
        return ["one chain has no R-hat (at least 2 chains, better 4)"]
    return []


def _row_failures(row: Any) -> list[str]:
    if row.state == "not finite":
        return [f"{row.Index} holds values that are not finite"]
    if row.state == "constant":
        return [f"{row.Index} never moved"] if row.kind == "parameter" else []
    # Nothing left to measure: the shape of the draws has said why already.
    if np.isnan(row.rhat) and np.isnan(row.ess_bulk):
        return []
    texts = []
    # Rounded away from the limit, so that no text says "1.01 (limit 1.01)".
    if row.rhat > RHAT_LIMIT:
        shown = f"{np.ceil(row.rhat * 1e4) / 1e4:.4f}" if row.rhat < 10 else "over 10"
        texts.append(f"R-hat of {row.Index} is {shown} (limit {RHAT_LIMIT})")
    for measure in ("ess_bulk", "ess_tail"):
        value = getattr(row, measure)
        if not value >= ESS_LIMIT:
            shown = np.floor(value)
            texts.append(f"{_TITLES[measure]} of {row.Index} is {shown:.0f} (limit {ESS_LIMIT})")
    return texts


def _count_failures(divergences: int) -> list[str]:
    if not divergences:
        return []
    return [f"{divergences} divergence{'s' if divergences > 1 else ''} (limit 0)"]


def _energy_failures(ebfmi: Sequence[float]) -> list[str]:
    return [
        f"E-BFMI of chain {chain} is {np.floor(value * 100) / 100:.2f} (limit {EBFMI_LIMIT})"
        for chain, value in enumerate(ebfmi)
        if not value >= EBFMI_LIMIT
    ]


def _gate_row(measure: str, worst: Worst | None) -> tuple[str, float, str, str, bool]:
    limit = f"<= {RHAT_LIMIT}" if measure == "rhat" else f">= {ESS_LIMIT}"
    if worst is None:
        return _TITLES[measure], np.nan, "", limit, False
    good = worst.value <= RHAT_LIMIT if measure == "rhat" else worst.value >= ESS_LIMIT
    return _TITLES[measure], worst.value, worst.quantity, limit, bool(good)


def _worst_text(diagnostics: Diagnostics) -> str:
    worst = diagnostics.worst
    parts = []
    if "rhat" in worst:
        parts.append(f"R-hat <= {worst['rhat'].value:.3f}")
        parts.append(f"ESS >= {min(worst[m].value for m in ('ess_bulk', 'ess_tail')):.0f}")
    parts.append(f"{diagnostics.divergences} divergences")
    if diagnostics.ebfmi:
        parts.append(f"E-BFMI >= {min(diagnostics.ebfmi):.2f}")
    return ", ".join(parts)


def _listed(failures: Sequence[str]) -> str:
    shown = "; ".join(failures[:_SHOWN_FAILURES])
    more = len(failures) - _SHOWN_FAILURES
    return f"{shown}; and {more} more" if more > 0 else shown


def _advice(diagnostics: Diagnostics) -> str:
    """What to do next, from what failed."""
    if diagnostics.chains < 2 or diagnostics.draws < FEWEST_DRAWS:
        return "Sample 4 chains of 1000 draws."
    if diagnostics.divergences:
        return (
            "Divergences bias the result: raise target_accept (0.99, 0.995), or give the weakest "
            "component a tighter prior. More draws do not help."
        )
    if diagnostics.chains * diagnostics.draws < 2 * ESS_LIMIT:
        total = diagnostics.chains * diagnostics.draws
        return f"{total} draws in all are few: use draws=1000, chains=4."
    return f"Sample longer: draws={2 * diagnostics.draws}, tune=2000."
