"""Marginal likelihoods of one level by adaptive quadrature, for tests."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from scipy import integrate
from scipy.special import gammaln, log_expit


def by_quadrature(k: Any, n: Any, mu: Any, sd: float) -> float:
    """log of int prod_j Binomial(k_j; n_j, expit(mu_j + u)) Normal(u; 0, sd^2) du."""
    k, n, mu = np.broadcast_arrays(*map(np.atleast_1d, (k, n, mu)))

    def log_integrand(u: Any) -> Any:
        eta = mu + np.asarray(u)[..., None]
        passed = k * log_expit(eta) + (n - k) * log_expit(-eta)
        return passed.sum(axis=-1) - 0.5 * (u / sd) ** 2

    grid = np.linspace(-60 * sd, 60 * sd, 20_001)
    values = log_integrand(grid)
    top = float(grid[int(np.argmax(values))])
    most = values.max()
    ends = [top + sign * sd * x for x in (0.02, 0.1, 0.5, 2, 5, 12) for sign in (-1, 1)]
    ends = sorted([top, *ends])
    total = sum(
        integrate.quad(lambda u: np.exp(log_integrand(u) - most), a, b, epsabs=0, epsrel=1e-12)[0]
        for a, b in itertools.pairwise(ends)
    )
    binomial = (gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)).sum()
    return float(most + np.log(total) - np.log(sd) - 0.5 * np.log(2 * np.pi) + binomial)
