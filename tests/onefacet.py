"""One facet of pass counts, k of n per level: studies, fits, and exact posteriors by quadrature."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import log_expit, logsumexp
from scipy.stats import halfnorm, norm

import gstudy as gs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gstudy.fits.fitted import Fit

# The priors of the reported cases' exact posteriors.
MU = {"dist": "Normal", "mu": 0.0, "sigma": 1.5}
SD = {"dist": "HalfNormal", "sigma": 1.0}


def counted(
    passes: Sequence[int], trials: Sequence[int], **rest: Any
) -> tuple[gs.Study, pd.DataFrame]:
    """Groups g0, g1, ... with the cases' priors."""
    study = gs.Study(
        successes="k",
        trials="n",
        facets=[gs.Facet("group", role="legitimate")],
        **{"priors": {"mu": MU, "sd(group)": SD}, **rest},
    )
    labels = [f"g{i}" for i in range(len(passes))]
    return study, pd.DataFrame({"group": labels, "k": passes, "n": trials})


def sampled(study: gs.Study, table: Any, **how: Any) -> Fit:
    """A fit by the direct path where a left-out component is no news; no divergence."""
    settings = {"draws": 1000, "seed": 20, "sampler": "direct", "progress": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gs.EstimabilityWarning)
        fit = gs.fit(study, table, **{**settings, **how})
    assert fit.diagnostics.divergences == 0
    return fit


@dataclass(frozen=True)
class Exact:
    """A posterior of (mu, sigma) on a grid."""

    mu: np.ndarray
    sigma: np.ndarray
    weight: np.ndarray

    @property
    def icc(self) -> np.ndarray:
        """On the logit scale."""
        return self.sigma**2 / (self.sigma**2 + np.pi**2 / 3)

    def mean(self, values: np.ndarray) -> float:
        return float((self.weight * values).sum() / self.weight.sum())

    def quantile(self, values: np.ndarray, p: float) -> float:
        found, place = np.unique(values, return_inverse=True)
        weight = np.bincount(place, weights=self.weight)
        return float(np.interp(p, (weight.cumsum() - weight / 2) / weight.sum(), found))


def exact(
    passes: Sequence[int], trials: Sequence[int], mu: tuple[float, float] = (0.0, 1.5)
) -> Exact:
    """mu and sigma on a grid, each group's effect by Gauss-Hermite; sigma ~ HalfNormal(1)."""
    z, weight = np.polynomial.hermite_e.hermegauss(60)
    half = 8 * mu[1]
    m, s = np.meshgrid(
        np.linspace(mu[0] - half, mu[0] + half, 161), (np.arange(180) + 0.5) * (6.0 / 180)
    )
    log_p = norm.logpdf(m, *mu) + halfnorm.logpdf(s)
    eta = m[..., None] + s[..., None] * z
    groups, number = np.unique(np.array([passes, trials]), axis=1, return_counts=True)
    for (k, n), times in zip(groups.T, number, strict=True):
        inner = k * log_expit(eta) + (n - k) * log_expit(-eta) + np.log(weight)
        log_p += times * logsumexp(inner, axis=-1)
    return Exact(m.ravel(), s.ravel(), np.exp(log_p - log_p.max()).ravel())


def same_posterior(draws: np.ndarray, of: Exact, values: np.ndarray) -> None:
    """Mean, 5% and 95% quantile to 4 Monte Carlo errors and the grid's step."""
    from arviz_stats.base import array_stats

    error = float(array_stats.mcse(draws, method="mean"))
    assert draws.mean() == pytest.approx(of.mean(values), abs=4 * error + 1e-3)
    for p in (0.05, 0.95):
        error = float(array_stats.mcse(draws, method="quantile", prob=p))
        assert np.quantile(draws, p) == pytest.approx(of.quantile(values, p), abs=4 * error + 5e-3)
